// What may wait until the answer is painted: work in small pieces, so that a key that is pressed meanwhile is answered at once.
const SLICE = 8; // ms of work between two chances for the browser
const UNSEEN = 100; // ms after which a page that is not painted, in a hidden frame say, goes on without

// A round of work is a generator that yields between its pieces; a number that it yields is a pause of so many ms. A new round
// replaces what is left of the old one. onBusy(true or false): whether something is still to come.
export function makeLater(onBusy) {
  let round = null;
  let timer = 0;
  let frame = 0;

  function run() {
    const end = performance.now() + SLICE;
    do {
      const { done, value } = round.next();
      if (done) { round = null; onBusy(false); return; }
      if (value) { timer = setTimeout(run, value); return; }
    } while (performance.now() < end);
    timer = setTimeout(run);
  }
  const begin = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    timer = setTimeout(run);
  };

  return (next) => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    round = next;
    onBusy(true);
    frame = requestAnimationFrame(begin);
    timer = setTimeout(begin, UNSEEN);
  };
}
