// Memory through time: of a training step the curve, of everything else a column per phase; below it what each colour is.
import { makeColumns } from './chart.js';
import { makeCurve } from './curve.js';
import { el, keyed, setText, show } from './dom.js';
import { componentName } from './card.js';
import { colourClass } from './palette.js';
import { SEEN, alive, groups, lookOf, partOf } from './reading.js';

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
  let now = null;
  return {
    // all.timeline: the core's points; none where there is no step
    update(all) {
      now = all.timeline?.points.length ? curve : columns;
      for (const part of parts) show(part.box, part === now); // before it is drawn: a hidden canvas has no size
      now.update(all);
      keyed(legend, coloursOf(all), (g) => g.key, (g) => el('li', { data: { key: g.key } }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', {})), (li, g) => {
        li.firstChild.className = `swatch ${colourClass(g.component)} ${lookOf(g)}`;
        setText(li.lastChild, componentName(g));
      });
    },
    redraw() { now?.redraw(); },
  };
}
