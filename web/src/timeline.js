// Memory through time: of a training step the curve, of everything else a column per phase.
import { makeColumns } from './chart.js';
import { makeCurve } from './curve.js';
import { el, show } from './dom.js';

export function makeTimeline(root, handlers) {
  const parts = [makeColumns, makeCurve].map((make) => { const box = el('div', {}); root.append(box); return { box, ...make(box, handlers) }; });
  const [columns, curve] = parts;
  let now = null;
  return {
    // all.timeline: the core's points; none where there is no step
    update(all) {
      now = all.timeline?.points.length ? curve : columns;
      for (const part of parts) show(part.box, part === now); // before it is drawn: a hidden canvas has no size
      now.update(all);
    },
    redraw() { now?.redraw(); },
  };
}
