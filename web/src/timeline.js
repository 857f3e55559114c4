// Memory through time: of a training step the curve, of everything else a column per phase; below it what each colour is, and how much of it is alive
// at the fullest moment of the phase that is chosen; each opens its row of the ledger.
import { makeColumns } from './chart.js';
import { makeCurve } from './curve.js';
import { el, keyed, setAttr, setText, show } from './dom.js';
import { componentName } from './card.js';
import { colourClass } from './palette.js';
import { SEEN, alive, groups, lookOf, partOf } from './reading.js';
import { bytes, bytesFull } from './units.js';

// The components that the picture shows, in its own order, each once whoever has it: [{key, component, kind}].
function coloursOf({ report, lists }) {
  const most = new Map();
  for (const { id } of report.phases) for (const g of groups(alive(report, id), lists)) most.set(g.key, Math.max(most.get(g.key) ?? 0, g.bytes));
  const seen = groups(report.entries, lists).filter((g) => most.get(g.key) > report.peak.bytes * SEEN);
  return seen.filter((g, i) => seen.findIndex((o) => partOf(o) === partOf(g)) === i);
}

export function makeTimeline(root, handlers) {
  const parts = [makeColumns, makeCurve].map((make) => { const box = el('div', {}); root.append(box); return { box, ...make(box, handlers) }; });
  const [columns, curve] = parts;
  const legend = el('ul', { class: 'legend colours' });
  root.append(legend);
  function make(g) {
    const button = el('button', { type: 'button' }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', {}), ' ', el('span', { class: 'amount' }));
    const li = el('li', { data: { key: g.key } }, button);
    button.addEventListener('click', () => handlers.onPick(li.first));
    return li;
  }
  function fill({ report, lists, phase, unit, alone }) {
    const there = groups(alive(report, phase ?? report.peak.phase), lists);
    return (li, g) => {
      const [swatch, name, amount] = li.firstChild.children;
      const mine = there.filter((o) => partOf(o) === partOf(g)); // of every role
      const sum = mine.reduce((n, o) => n + o.bytes, 0);
      li.first = mine[0]?.key;
      swatch.className = `swatch ${colourClass(g.component)} ${lookOf(g)}`;
      setText(name, componentName(g));
      setText(amount, sum ? bytes(sum, unit) : '–');
      setAttr(amount, 'title', sum ? bytesFull(sum) : null);
      amount.dataset.bytes = sum;
      li.classList.toggle('absent', !mine.length);
      setAttr(li.firstChild, 'disabled', alone || !mine.length); // alone: there is no ledger
    };
  }
  let now = null;
  return {
    // all.timeline: the core's points; none where there is no step
    update(all) {
      now = all.timeline?.points.length ? curve : columns;
      for (const part of parts) show(part.box, part === now); // before it is drawn: a hidden canvas has no size
      now.update(all);
      keyed(legend, coloursOf(all), (g) => g.key, make, fill(all));
    },
    redraw() { now?.redraw(); },
  };
}
