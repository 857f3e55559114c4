// The card, drawn to scale: its outline is the chosen GPU's memory, the fill the estimate at its peak.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { layCard } from './geometry.js';
import { ui, word } from './i18n.js';
import { colourClass } from './palette.js';
import { CONTEXT, alive, cardOf, groups } from './reading.js';
import { bytes, bytesFull, bytesShort, percent, ticks } from './units.js';

const LABEL_FONT = 12; // px; the labels' type size
const LABEL_GAP = 10;
const TICK_ROOM = 60; // px a number on the ruler takes

// Roughly how wide a label is: a Chinese character is a square, a Latin one a little over half.
const textWidth = (text) => [...text].reduce((w, c) => w + (c.charCodeAt(0) > 0x2e80 ? 1 : 0.56), 0) * LABEL_FONT + LABEL_GAP;

export const segmentName = (group) => (group.role === 'model' ? word('component', group.component)
  : ui('role_component', { role: word('role', group.role), component: word('component', group.component) }));

export function makeCard(root, { onPick }) {
  const labels = el('div', { class: 'card-labels', 'aria-hidden': 'true' });
  const bar = el('div', { class: 'card-bar' });
  const outlines = el('div', { class: 'card-outlines', 'aria-hidden': 'true' });
  const fill = el('div', { class: 'card-fill', role: 'group' });
  const scale = el('div', { class: 'card-scale', 'aria-hidden': 'true' });
  const fleet = el('div', { class: 'card-fleet', hidden: true });
  const fleetText = el('p', { class: 'card-fleet-text', hidden: true });
  bar.append(outlines, fill);
  root.append(labels, bar, scale, fleet, fleetText);

  const at = (node, from, to, end) => {
    node.style.setProperty('left', `${(from / end) * 100}%`);
    node.style.setProperty('width', `${((to - from) / end) * 100}%`);
  };

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
    const button = el('button', { type: 'button', class: 'piece', data: { key: piece.key } });
    button.addEventListener('click', () => onPick(piece.key));
    return button;
  }

  let last = null;
  function draw() {
    if (!last) return;
    const { report, presets, lists, unit } = last;
    const width = bar.clientWidth || 600;
    const card = cardOf(report, presets);
    const gpus = report.scenario.gpus ?? 1;
    const atPeak = groups(alive(report, report.peak.phase), lists);
    const segments = atPeak.filter((g) => g.component !== CONTEXT);
    const contextGroup = atPeak.find((g) => g.component === CONTEXT);
    const lay = layCard({ segments, usable: card.fit.usable_bytes, context: card.context, gpus, needed: card.fit.gpus_needed });

    keyed(outlines, lay.outlines, (o) => String(o.from / lay.total), () => el('div', { class: 'outline' }, el('span', { class: 'outline-context' })), (node, o) => {
      at(node, o.from, o.to, lay.end);
      node.classList.toggle('ghost', !o.owned);
      node.firstChild.style.setProperty('width', `${(o.context / lay.total) * 100}%`);
      setAttr(node.firstChild, 'data-key', contextGroup?.key ?? null);
    });

    setAttr(fill, 'aria-label', ui('card_aria'));
    const seen = new Map();
    const focused = document.activeElement?.closest?.('.piece')?.dataset.key;
    keyed(fill, lay.pieces, (p) => { const n = seen.get(p.key) ?? 0; seen.set(p.key, n + 1); return `${p.key}#${n}`; }, makePiece, (node, p) => {
      at(node, p.from, p.to, lay.end);
      node.className = `piece ${colourClass(p.component)} ${p.kind}${p.over ? ' over' : ''}`;
      const text = `${segmentName(p)} ${bytes(p.bytes, unit)} (${percent(p.bytes / report.peak.bytes)})`;
      setAttr(node, 'aria-label', text);
      setAttr(node, 'title', `${text}\n${bytesFull(p.bytes)}`);
    });
    const buttons = [...fill.querySelectorAll('button')];
    buttons.forEach((b, i) => { b.tabIndex = (focused ? b.dataset.key === focused : i === 0) ? 0 : -1; });

    // A name above each segment wide enough to carry it.
    const pixels = (b) => (b / lay.end) * width;
    const named = [];
    let free = 0; // px already written on
    for (const p of labelSpans(lay.pieces, last.roles)) {
      const name = p.label;
      const value = bytes(p.bytes, unit);
      const full = `${name} ${value}`;
      const left = Math.max(pixels(p.from), 0);
      const room = pixels(p.to) - left;
      const text = room >= textWidth(full) ? full : room >= textWidth(name) ? name : null;
      if (text === null || left < free) continue;
      named.push({ ...p, text, left });
      free = left + textWidth(text);
    }
    keyed(labels, named, (p) => p.key, () => el('span', { class: 'card-label' }), (node, p) => {
      node.style.setProperty('left', `${(p.from / lay.end) * 100}%`);
      setText(node, p.text);
      setAttr(node, 'data-key', p.key);
    });

    drawScale(lay, unit, width);
    drawFleet(lay, card, gpus, unit);
  }

  // The ruler: round numbers, the card's edge, and where the estimate ends.
  function drawScale(lay, unit, width) {
    const edge = { key: 'edge', at: lay.total, text: bytes(lay.total, unit), class: 'edge' };
    const px = (b) => (b / lay.end) * width;
    const last = (b) => px(b) > width - TICK_ROOM; // written to the left of its line
    const clear = (a, b) => Math.abs(px(a) - px(b)) > (last(a) || last(b) ? 2 : 1) * TICK_ROOM;
    const rounds = ticks(lay.end, unit, Math.max(2, Math.floor(width / 90)))
      .map((b, i) => ({ key: `t${i}`, at: b, text: i === 0 ? '0' : bytesShort(b, unit), class: '' }))
      .filter((t) => clear(t.at, edge.at) && !(t.at > 0 && last(t.at)));
    keyed(scale, [...rounds, edge], (t) => t.key, () => el('span', { class: 'tick' }), (node, t) => {
      node.style.setProperty('left', `${(t.at / lay.end) * 100}%`);
      node.className = `tick ${t.class}${last(t.at) ? ' last' : ''}`;
      setText(node, t.text);
    });
  }

  // Several GPUs: all of them in a row, each as full as the fullest.
  function drawFleet(lay, card, gpus, unit) {
    const several = gpus > 1;
    show(fleet, several);
    show(fleetText, several);
    if (!several) return;
    const shown = Math.min(gpus, 128);
    const full = Math.min(1, (lay.context + lay.bytes) / lay.total);
    keyed(fleet, Array.from({ length: shown }, (_, i) => i), String, () => el('span', { class: 'fleet-card' }, el('span', { class: 'fleet-fill' })), (node) => {
      node.firstChild.style.setProperty('width', `${full * 100}%`);
      node.classList.toggle('full', lay.bytes > lay.usable);
    });
    setText(fleetText, ui('fleet', { n: gpus, gpu: card.name, all: bytes(lay.bytes * gpus, unit), have: bytes(lay.usable * gpus, unit) }));
  }

  new ResizeObserver(draw).observe(bar);
  return { update(next) { last = next; draw(); } };
}

// Labels are for whole segments: the parts of one that a card's edge cuts are named once. With several roles the role is named.
function labelSpans(pieces, roles) {
  const spans = new Map();
  for (const p of pieces) {
    const key = roles ? p.role : p.key;
    const span = spans.get(key);
    if (!span) spans.set(key, { key: roles ? '' : p.key, id: key, from: p.from, to: p.to, bytes: p.bytes, seen: new Set([p.key]), label: roles ? word('role', p.role) : segmentName(p) });
    else {
      span.to = p.to;
      if (!span.seen.has(p.key)) { span.bytes += p.bytes; span.seen.add(p.key); }
    }
  }
  return [...spans.values()].map((s) => ({ ...s, key: s.key || s.id }));
}
