// Where things lie on the card's picture, in bytes from its left edge. No document here: the page, the picture export and
// the tests read the same numbers.

const MOST_CARDS = 64; // more outlines than this are not drawn one by one

// One GPU too small: the estimate runs on through as many cards as it fills, each with its own context already taken (`needed` 0: no number of them would do).
// Several GPUs asked for: the fullest of them is drawn, and what does not fit runs past its edge.
export function layCard({ segments, usable, context, gpus, needed }) {
  const total = usable + context;
  const bytes = segments.reduce((s, g) => s + g.bytes, 0);
  const must = segments.reduce((s, g) => s + (g.back ? 0 : g.bytes), 0); // find room
  const single = gpus === 1;
  const cards = single && needed ? Math.max(1, Math.min(Math.ceil(must / usable), MOST_CARDS)) : 1;
  const pieces = [];
  let filled = 0; // of usable memory, all cards together
  let right = context;
  for (const segment of segments) {
    let rest = segment.bytes;
    while (rest > 0) {
      const card = single ? Math.min(Math.floor(filled / usable), cards - 1) : 0;
      const room = (card + 1) * usable - filled;
      const overflow = !single && filled >= usable;
      const cut = !single && !overflow && rest > room;
      const part = (single && card < cards - 1) || cut ? Math.min(rest, room) : rest;
      const from = filled + (card + 1) * context;
      pieces.push({ ...segment, part, from, to: from + part, over: single ? card >= 1 || filled >= usable * cards : overflow });
      right = Math.max(right, from + part);
      filled += part;
      rest -= part;
    }
  }
  const outlines = Array.from({ length: cards }, (_, i) => ({ from: i * total, to: (i + 1) * total, context, owned: i === 0 }));
  const end = Math.max(right, outlines.at(-1).to);
  return { total, usable, context, bytes, must, pieces, outlines, end, right };
}
