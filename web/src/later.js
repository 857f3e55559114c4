// What may wait until the answer is painted: work in small pieces, so that a key that is pressed meanwhile is answered at once.
const SLICE = 8; // ms of work between two chances for the browser
const UNSEEN = 100; // ms after which a page that is not painted, in a hidden frame say, goes on without

// A round of work is a generator that yields between its pieces; a number that it yields is a pause of so many ms. A new round
// replaces what is left of the old one. onBusy(true or false): whether something is still to come.
export function makeLater(onBusy) {
  let round = null;
  let timer = 0;
  let frame = 0;
  // A message comes after what the browser has to do, as a timer does, but without a timer's 4 ms; `turn` is the one that is waited for.
  const { port1, port2 } = new MessageChannel();
  let turn = 0;
  port1.onmessage = ({ data }) => { if (data === turn) run(); };
  const soon = () => port2.postMessage(turn += 1);

  function run() {
    const end = performance.now() + SLICE;
    do {
      const { done, value } = round.next();
      if (done) { round = null; onBusy(false); return; }
      if (value) { timer = setTimeout(run, value); return; }
    } while (performance.now() < end);
    soon();
  }
  const begin = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    soon();
  };

  return (next) => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    turn += 1; // what is on its way is of the old one
    round = next;
    onBusy(true);
    frame = requestAnimationFrame(begin);
    timer = setTimeout(begin, UNSEEN);
  };
}
