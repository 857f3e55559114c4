// The card, drawn to scale: its outline is the chosen GPU's memory, the fill the estimate at its peak. A scenario kept for
// comparison is a second, lower bar to the same scale.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { layCard } from './geometry.js';
import { sentences, ui, word } from './i18n.js';
import { colourClass } from './palette.js';
import { CONTEXT, alive, cardOf, contextAtPeak, groups, lookOf, segmentsOf } from './reading.js';
import { bytes, bytesFull, bytesShort, count, difference, percent, ticks } from './units.js';

const LABEL_FONT = 12; // px; the labels' type size
const LABEL_GAP = 10;
const TICK_ROOM = 60; // px a number on the ruler takes
export const MOST_FLEET = 128; // cards drawn in a row

// Roughly how wide a text is: a Chinese character is a square, a Latin one a little over half.
export const textWidth = (text, size = LABEL_FONT) => [...text].reduce((w, c) => w + (c.charCodeAt(0) > 0x2e80 ? 1 : 0.56), 0) * size;

export const componentName = (group) => (group.back ? ui('given_back') : word('component', group.component));
export function segmentName(group) {
  const component = componentName(group);
  return group.role === 'model' ? component : ui('role_component', { role: word('role', group.role), component });
}

export function layOf(report, presets, lists) {
  const card = cardOf(report, presets);
  const segments = segmentsOf(report, lists);
  const gpus = report.scenario.gpus ?? 1;
  return { card, gpus, all: report.cluster_bytes, context: contextAtPeak(report), lay: layCard({ segments, usable: card.fit.usable_bytes, context: card.context, gpus, needed: card.fit.gpus_needed }) };
}

const place = (node, from, to, end) => {
  node.style.setProperty('left', `${(from / end) * 100}%`);
  node.style.setProperty('width', `${((to - from) / end) * 100}%`);
};

// ---- one bar: outlines of cards, and the pieces in them
function makeBar(onPick) {
  const outlines = el('div', { class: 'card-outlines', 'aria-hidden': 'true' });
  const fill = el('div', { class: 'card-fill', role: 'group' });
  const node = el('div', { class: 'card-bar' }, outlines, fill);

  // Arrow keys walk along the segments; one stop for Tab.
  fill.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...fill.querySelectorAll('button')];
    const next = all[all.indexOf(document.activeElement) + step];
    if (!next) return;
    for (const b of all) b.tabIndex = b === next ? 0 : -1;
    next.focus();
  });

  function makePiece(piece) {
    const button = el('button', { type: 'button', data: { key: piece.key } });
    button.addEventListener('click', () => onPick(piece.key));
    return button;
  }

  return {
    node,
    draw({ report, lists, lay, end, unit, label }) {
      const contextKey = groups(alive(report, report.peak.phase), lists).find((g) => g.component === CONTEXT)?.key ?? null;
      keyed(outlines, lay.outlines, (o) => String(o.from / lay.total), () => el('div', { class: 'outline' }, el('span', { class: 'outline-context' })), (n, o) => {
        place(n, o.from, o.to, end);
        n.classList.toggle('ghost', !o.owned);
        n.firstChild.style.setProperty('width', `${(o.context / lay.total) * 100}%`);
        setAttr(n.firstChild, 'data-key', contextKey);
      });
      setAttr(fill, 'aria-label', label);
      const seen = new Map(); // a segment cut by the edges of cards is several pieces
      keyed(fill, lay.pieces, (p) => { const n = seen.get(p.key) ?? 0; seen.set(p.key, n + 1); return `${p.key}#${n}`; }, makePiece, (n, p) => {
        place(n, p.from, p.to, end);
        setAttr(n, 'class', `piece ${colourClass(p.component)} ${lookOf(p)}${p.over ? ' over' : ''}${n.classList.contains('lit') ? ' lit' : ''}`);
        const text = `${segmentName(p)} ${bytes(p.bytes, unit)} (${percent(p.bytes / report.peak.bytes)})`;
        setAttr(n, 'aria-label', text);
        setAttr(n, 'title', `${text}\n${bytesFull(p.bytes)}`);
      });
      const buttons = [...fill.querySelectorAll('button')];
      const stop = buttons.find((b) => b === document.activeElement) ?? buttons.find((b) => b.tabIndex === 0) ?? buttons[0];
      for (const b of buttons) b.tabIndex = b === stop ? 0 : -1;
    },
  };
}

// Labels are for whole segments: the parts of one that a card's edge cuts are named once. With several roles the role is named.
function labelSpans(pieces, roles) {
  const spans = new Map();
  for (const p of pieces) {
    const key = roles ? p.role : p.key;
    const span = spans.get(key);
    if (!span) spans.set(key, { key, from: p.from, to: p.to, bytes: p.bytes, seen: new Set([p.key]), label: roles ? word('role', p.role) : segmentName(p) });
    else {
      span.to = p.to;
      if (!span.seen.has(p.key)) { span.bytes += p.bytes; span.seen.add(p.key); }
    }
  }
  return [...spans.values()];
}

// A name above each segment wide enough to carry it, on a bar of so many pixels that shows `end` bytes.
export function labelsOf({ lay, end, width, roles, unit }) {
  const pixels = (b) => (b / end) * width;
  const named = [];
  let free = 0; // px already written on
  for (const span of labelSpans(lay.pieces, roles)) {
    const full = `${span.label} ${bytes(span.bytes, unit)}`;
    const left = pixels(span.from);
    const room = pixels(span.to) - left - LABEL_GAP;
    const text = [full, span.label].find((t) => room >= textWidth(t));
    if (!text || left < free) continue;
    named.push({ ...span, text });
    free = left + textWidth(text) + LABEL_GAP;
  }
  return named;
}

// The ruler: round numbers, and the card's edge. `left`: written to the left of its line.
export function rulerOf({ lay, end, width, unit }) {
  const px = (b) => (b / end) * width;
  const toLeft = (b) => px(b) > width - TICK_ROOM;
  const edge = { key: 'edge', at: lay.total, text: bytes(lay.total, unit), left: toLeft(lay.total) };
  const clear = (t) => Math.abs(px(t) - px(edge.at)) > (edge.left ? 2 : 1) * TICK_ROOM;
  const rounds = ticks(end, unit, Math.max(2, Math.floor(width / 90)))
    .map((b, i) => ({ key: `t${i}`, at: b, text: i === 0 ? '0' : bytesShort(b, unit), left: false }))
    .filter((t) => clear(t.at) && !(t.at > 0 && toLeft(t.at)));
  return [...rounds, edge];
}

// Like with like: the context is in both of these totals where the peak counts it, in neither otherwise.
export const fleetText = ({ lay, gpus, card, all, context }, unit) => ui('fleet', { n: count(gpus), gpu: card.name, all: bytes(all, unit), have: bytes((lay.usable + context) * gpus, unit) });
export const fleetFill = (lay) => Math.min(1, (lay.context + lay.bytes) / lay.total);

export const keptLineText = (report, second, unit) => sentences(ui('kept', { n: bytes(second.peak.bytes, unit) }), ui('kept_now', { n: difference(report.peak.bytes - second.peak.bytes, unit) }));

// actions: {onPick(key), onKeep(), onSwap(), onDrop()}
export function makeCard(root, keptLine, { onPick, onKeep, onSwap, onDrop }) {
  const labels = el('div', { class: 'card-labels', 'aria-hidden': 'true' });
  const bar = makeBar(onPick);
  const scale = el('div', { class: 'card-scale', 'aria-hidden': 'true' });
  const kept = makeBar(() => {});
  const button = (on) => el('button', { type: 'button', class: 'link-button', on: { click: on } });
  const keep = button(onKeep);
  const swap = button(onSwap);
  const drop = button(onDrop);
  const keptText = el('span', {});
  keptLine.append(keptText, keep, swap, drop);
  kept.node.classList.add('kept');
  const fleet = el('div', { class: 'card-fleet', 'aria-hidden': 'true' });
  const fleetLine = el('p', { class: 'card-fleet-text' });
  root.append(labels, bar.node, kept.node, scale, fleet, fleetLine);

  let last = null;
  let width = bar.node.clientWidth || 600; // px
  function draw() {
    if (!last) return;
    const { report, presets, lists, unit, second } = last;
    const one = layOf(report, presets, lists);
    const two = second ? layOf(second, presets, lists) : null;
    const end = Math.max(one.lay.end, two?.lay.end ?? 0);
    bar.draw({ report, lists, lay: one.lay, end, unit, label: ui('card_aria') });
    show(kept.node, Boolean(two));
    if (two) kept.draw({ report: second, lists, lay: two.lay, end, unit, label: ui('kept_aria') });
    drawLabels(one.lay, end, unit);
    drawScale(one.lay, end, unit);
    drawFleet(one, unit);
    setText(keptText, second ? keptLineText(report, second, unit) : '');
    for (const [node, id, on] of [[keep, 'keep', !second], [swap, 'swap', second], [drop, 'drop', second]]) {
      setText(node, ui(id));
      show(node, Boolean(on));
    }
  }

  function drawLabels(lay, end, unit) {
    keyed(labels, labelsOf({ lay, end, width, roles: last.roles, unit }), (s) => s.key, () => el('span', { class: 'card-label' }), (node, s) => {
      node.style.setProperty('left', `${(s.from / end) * 100}%`);
      setText(node, s.text);
      setAttr(node, 'data-key', s.key);
    });
  }

  function drawScale(lay, end, unit) {
    keyed(scale, rulerOf({ lay, end, width, unit }), (t) => t.key, () => el('span', {}), (node, t) => {
      node.style.setProperty('left', `${(t.at / end) * 100}%`);
      setAttr(node, 'class', `tick${t.key === 'edge' ? ' edge' : ''}${t.left ? ' last' : ''}`);
      setText(node, t.text);
    });
  }

  // Several GPUs: all of them in a row, each as full as the fullest.
  function drawFleet(laid, unit) {
    const { lay, gpus } = laid;
    show(fleet, gpus > 1);
    show(fleetLine, gpus > 1);
    if (gpus <= 1) return;
    keyed(fleet, Array.from({ length: Math.min(gpus, MOST_FLEET) }, (_, i) => i), String, () => el('span', { class: 'fleet-card' }, el('span', { class: 'fleet-fill' })), (node) => {
      node.firstChild.style.setProperty('width', `${fleetFill(lay) * 100}%`);
      node.classList.toggle('over-full', lay.must > lay.usable);
    });
    setProse(fleetLine, fleetText(laid, unit));
  }

  new ResizeObserver(() => { width = bar.node.clientWidth || 600; draw(); }).observe(bar.node);
  return { update(next) { last = next; draw(); } };
}
