// The same need on other cards: every card's memory as an outline to one scale, the need as a fill and one line through all.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { divisionText } from './division.js';
import { sentences, ui, word } from './i18n.js';
import { contextAtPeak, givenBack, isPooled, need, segmentsOf } from './reading.js';
import { valueWord } from './texts.js';
import { bytes, bytesFull, count } from './units.js';

const ROOM = 2; // the scale shows up to so many times the need
const ORDINARY = 100e9; // bytes; and at least so much, so that small needs do not make every card endless

// fitOn(gpu id): the scenario on that card; cardsOn(gpu id): how many of them it takes
// onMore(): all cards are wanted, or no longer
export function makeCompare(root, { fitOn, cardsOn, onMore }) {
  const caption = el('caption', { class: 'vh' });
  const heads = ['gpu', 'usable', 'verdict'].map((id) => ({ id, node: el('th', { scope: 'col', class: `col-${id}` }) }));
  const body = el('tbody', {});
  const columns = el('colgroup', {}, el('col', { class: 'compare-col-name' }), el('col', {}), el('col', { class: 'compare-col-verdict' }));
  const table = el('table', { class: 'compare' }, caption, columns, el('thead', { class: 'vh' }, el('tr', {}, heads.map((h) => h.node))), body);
  const note = el('p', { class: 'chart-note compare-note' });
  const more = el('button', { type: 'button', class: 'quiet-button' });
  let all = false;
  let last = null;
  let answers = new Map(); // of each card that is shown, the fit and how many it takes
  more.addEventListener('click', () => { all = !all; onMore(); });
  root.append(note, table, more);

  function makeRow() {
    const name = el('th', { scope: 'row', class: 'compare-name' });
    const outline = el('span', { class: 'compare-outline' });
    const fill = el('span', { class: 'compare-fill' }); // the same stack as on the card
    const over = el('span', { class: 'compare-over' });
    const track = el('td', { class: 'compare-track' }, el('div', { class: 'compare-bar', 'aria-hidden': 'true' }, fill, over, outline), el('span', { class: 'compare-usable' }));
    const verdict = el('td', { class: 'compare-verdict' });
    const row = el('tr', {}, name, track, verdict);
    row.parts = { name, outline, fill, over, usable: track.lastChild, verdict };
    return row;
  }

  // Each card's own answer, two pieces of work each. The scenario's own is in the report.
  function* askAll({ report, cards, presets }) {
    const [own] = report.fits;
    const found = new Map();
    for (const id of all ? presets.gpus.map((g) => g.id) : report.fits.map((f) => f.gpu)) {
      const fit = id === own.gpu ? own : fitOn(id);
      yield;
      if (fit) found.set(id, { ...fit, takes: fit.verdict !== 'no' ? null : id === own.gpu ? cards : cardsOn(id) });
      yield;
    }
    return found;
  }

  function draw() {
    const { report, presets, lists, unit } = last;
    const bytesNeeded = need(report) - givenBack(report);
    const known = new Map(presets.gpus.map((g) => [g.id, g]));
    const own = report.fits[0].gpu;
    const there = new Set(report.fits.map((f) => f.gpu));
    const rest = presets.gpus.filter((g) => !there.has(g.id));
    const rows = [...answers.values()]
      .sort((a, b) => a.usable_bytes - b.usable_bytes || a.gpu.localeCompare(b.gpu));
    // One scale for all: the need with room around it. A card larger than that runs off the edge, and so does a need larger than all cards.
    const largest = Math.max(...rows.map((f) => f.usable_bytes));
    const end = Math.max(Math.min(largest, Math.max(bytesNeeded * ROOM, ORDINARY)), Math.min(bytesNeeded, largest * 1.6)) * 1.02;
    const pct = (b) => `${Math.min(100, (b / end) * 100)}%`;
    const stack = stripes(segmentsOf(report, lists).filter((g) => !g.back), bytesNeeded);
    setText(caption, ui('compare_caption'));
    for (const h of heads) setText(h.node, ui(`col_${h.id}`));
    keyed(body, rows, (f) => f.gpu, makeRow, (row, f) => {
      const p = row.parts;
      setText(p.name, known.get(f.gpu)?.name ?? f.gpu);
      setAttr(row, 'data-verdict', f.verdict);
      row.classList.toggle('own', f.gpu === own);
      p.outline.style.setProperty('width', pct(f.usable_bytes));
      p.outline.classList.toggle('beyond', f.usable_bytes > end);
      p.fill.style.setProperty('width', pct(bytesNeeded));
      p.fill.style.setProperty('background-image', stack);
      p.over.style.setProperty('left', pct(f.usable_bytes));
      p.over.style.setProperty('width', bytesNeeded > f.usable_bytes ? `calc(${pct(bytesNeeded)} - ${pct(f.usable_bytes)})` : '0');
      setText(p.usable, bytes(f.usable_bytes, unit));
      setAttr(p.usable, 'title', bytesFull(f.usable_bytes));
      setText(p.verdict, f.takes?.value > 0 ? ui('verdict_takes', { n: count(f.takes.value) }) : word('verdict', f.verdict));
      setAttr(p.verdict, 'title', f.takes?.value > 0 ? divisionText(f.takes.parallel, report.scenario) : null);
      p.verdict.dataset.cards = f.takes ? f.takes.value ?? 0 : report.scenario.gpus;
    });
    setProse(note, noteOf(report, bytesNeeded, unit));
    show(note, note.textContent !== '');
    show(more, rest.length > 0);
    setText(more, all ? ui('show_common') : ui('show_all', { n: presets.gpus.length }));
  }

  return {
    * update(next) {
      answers = yield* askAll(next);
      last = next;
      draw();
    },
  };
}

// What the bars are, where that is not the whole peak.
function noteOf(report, needed, unit) {
  const back = givenBack(report);
  const why = sentences(contextAtPeak(report) > 0 && ui('compare_context'), back > 0 && ui('compare_cache', { n: bytes(back, unit) }), isPooled(report.fits[0]) && ui('compare_pool', { engine: valueWord('engine', report.scenario.engine) }));
  return why && sentences(ui('compare_note', { n: bytes(needed, unit) }), why);
}

// Segments of a bar as one background: hard stops in the components' hues.
function stripes(segments, whole) {
  let at = 0;
  const stops = segments.map((g) => {
    const from = (at / whole) * 100;
    at += g.bytes;
    return `var(--c-${g.component}) ${from}% ${(at / whole) * 100}%`;
  });
  return `linear-gradient(90deg, ${stops.join(', ')})`;
}
