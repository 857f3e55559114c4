// The card as a picture of its own, for a post or a slide: the same geometry and words as on the page, always in light colours,
// written as SVG with presentation attributes only, so that it looks the same inside any page and under any policy.
import { sentenceText } from './answer.js';
import { MOST_FLEET, fleetFill, fleetText, keptLineText, labelsOf, layOf, rulerOf, segmentName, textWidth } from './card.js';
import { ui, word } from './i18n.js';
import { modelName } from './model-field.js';
import { colourOf } from './palette.js';
import { CONTEXT, SEEN, alive, groups, isHatched, keyOf, lookOf } from './reading.js';
import { valueWord } from './texts.js';
import { bytes, percent } from './units.js';

export const WIDTH = 960; // px
const MARGIN = 32;
const WIDE = WIDTH - 2 * MARGIN;
const BAR = 72;
const KEPT = 28;
const HEAD = { size: 23, weight: 650, wider: 1.14 }; // bold type is wider
const COLUMNS = 2; // of the legend
const CODED = 1.3; // addresses are full of capitals and signs, which are wider
const LEAST = 0.0001; // a smaller part of the peak is not told exactly
const LIGHT = { paper: '#fbfaf7', sheet: '#ffffff', ink: '#1c1b19', quiet: '#54514b', rule: '#e3e0d8', strong: '#8f8b82', taken: '#b9b6af' };
const FONT = 'system-ui, -apple-system, Segoe UI, PingFang SC, Noto Sans SC, Noto Sans CJK SC, Microsoft YaHei, sans-serif';

// ---- SVG as text: what comes from a scenario is only ever text in it
const BAD = /^[\u0000-\u0008\u000b\u000c\u000e-\u001f\ud800-\udfff\ufffe\uffff]$/; // no characters of XML
const safe = (text) => [...String(text)].filter((c) => !BAD.test(c)).join('').replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const number = (n) => (typeof n === 'number' ? Number(n.toFixed(3)) : n);
function tag(name, attributes, ...inside) {
  const said = Object.entries(attributes).filter(([, v]) => v !== undefined && v !== null && v !== false).map(([k, v]) => ` ${k}="${safe(number(v))}"`).join('');
  const content = inside.flat(Infinity).filter(Boolean).join('');
  return content ? `<${name}${said}>${content}</${name}>` : `<${name}${said}/>`;
}
const write = (text, x, y, more = {}) => tag('text', { x, y, 'font-size': 13, fill: LIGHT.ink, ...more }, safe(text));

// Lines of at most so many pixels; Chinese may break anywhere but before its closing marks, addresses at their joints, an amount nowhere.
const PART = /(?:[\d.,]+ [kMG]?i?B[.,:;]?|[\u2e80-\uffff]|[^\s\u2e80-\uffff&?]+[&?]?)[，。；：、！？）》”]*\s*|[\s&?]+/g;
function linesOf(text, size, width, most = 4) {
  const parts = text.match(PART) ?? [];
  const lines = [''];
  for (let part of parts) {
    if (lines.at(-1) && textWidth((lines.at(-1) + part).trimEnd(), size) > width) lines.push('');
    while (textWidth(part, size) > width) { // longer than a line
      const n = Math.floor(part.length * width / textWidth(part, size));
      lines[lines.length - 1] = part.slice(0, n);
      lines.push('');
      part = part.slice(n);
    }
    lines[lines.length - 1] += part;
  }
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), `${lines[most - 1].slice(0, -2)}…`];
}

// ---- hatches, as on the page
const hatch = (id, colour, { step, line, turn, ground }) => tag('pattern', { id, width: step, height: step, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${turn})` },
  ground && tag('rect', { width: step, height: step, fill: ground }), tag('rect', { width: line, height: step, fill: colour }));
// Edges of what is modelled: the component's colour, darkened.
const darker = (hex) => `#${[1, 3, 5].map((i, n) => Math.round(parseInt(hex.slice(i, i + 2), 16) * 0.45 + [28, 27, 25][n] * 0.55).toString(16).padStart(2, '0')).join('')}`;

function fillOf(piece, hatches) {
  const colour = colourOf(piece.component);
  const kind = piece.back ? 'b' : isHatched(piece) ? 'a' : piece.over ? 'o' : '';
  if (!kind) return colour;
  const id = `h-${kind}-${piece.component}`;
  hatches.set(id, hatch(id, colour, { a: { step: 5, line: 2, turn: 45 }, b: { step: 4, line: 1, turn: 0 }, o: { step: 8, line: 5, turn: -45 } }[kind]));
  return `url(#${id})`;
}

function barOf(lay, end, top, height, hatches, kept) {
  const px = (b) => MARGIN + (b / end) * WIDE;
  const inset = kept ? 4 : 7;
  return [
    lay.outlines.map((o) => [
      tag('rect', { class: 'outline', x: px(o.from) + 1, y: top + 1, width: px(o.to) - px(o.from) - 2, height: height - 2, rx: 4, fill: o.owned ? LIGHT.sheet : 'none' }),
      o.context > 0 && tag('rect', { class: 'taken', x: px(o.from) + 1, y: top + 1, width: px(o.from + o.context) - px(o.from) - 1, height: height - 2, fill: 'url(#h-taken)' }),
    ]),
    lay.pieces.map((p) => {
      const [x, w] = [px(p.from), px(p.to) - px(p.from)];
      return [
        tag('rect', { class: 'piece', 'data-key': p.key, 'data-bytes': p.part, x, y: top + inset, width: w, height: height - 2 * inset, fill: fillOf(p, hatches), opacity: kept ? 0.7 : null },
          tag('title', {}, safe(`${segmentName(p)} ${bytes(p.bytes, lay.unit)}`))),
        lookOf(p) === 'modelled' && tag('rect', { x, y: top + inset, width: w, height: 3, fill: darker(colourOf(p.component)) }),
        w > 2 && tag('rect', { x: x + w - 0.5, y: top + inset, width: 1, height: height - 2 * inset, fill: LIGHT.sheet }), // a hairline between neighbours
      ];
    }),
    // the outline over its contents, so that it stays whole
    lay.outlines.map((o) => tag('rect', { x: px(o.from) + 1, y: top + 1, width: px(o.to) - px(o.from) - 2, height: height - 2, rx: 4, fill: 'none',
      stroke: o.owned && !kept ? LIGHT.ink : LIGHT.strong, 'stroke-width': o.owned && !kept ? 2 : 1.5, 'stroke-dasharray': o.owned ? null : '5 4' })),
  ];
}

// ---- what is common to the pictures
export const subject = (report, presets) => {
  const { scenario } = report;
  return [modelName(scenario.model, presets), valueWord('task', scenario.task), scenario.engine !== 'bare' && scenario.task === 'inference' && valueWord('engine', scenario.engine)].filter(Boolean).join(' · ');
};

// Top: whose memory, and the sentence. -> {y, parts}
function headOf(all) {
  const { report, presets } = all;
  const parts = [write(linesOf(subject(report, presets), 14 * CODED, WIDE, 1)[0], MARGIN, MARGIN + 12, { 'font-size': 14, fill: LIGHT.quiet })];
  let y = MARGIN + 18;
  for (const line of linesOf(sentenceText(all), HEAD.size * HEAD.wider, WIDE)) parts.push(write(line, MARGIN, (y += 30), { 'font-size': HEAD.size, 'font-weight': HEAD.weight }));
  return { y, parts };
}

// What the chart shows beside the peak's own: each at its most, and when.
function elsewhere({ report, lists }) {
  const peak = new Set(alive(report, report.peak.phase).map(keyOf));
  const most = new Map();
  for (const { id } of report.phases) for (const g of groups(alive(report, id), lists)) {
    if (!peak.has(g.key) && g.bytes > (most.get(g.key)?.bytes ?? report.peak.bytes * SEEN)) most.set(g.key, { ...g, at: id });
  }
  return [...most.values()];
}

function legendOf({ report, unit, lists }, top, hatches, more = []) {
  const all = [...groups(alive(report, report.peak.phase), lists), ...more];
  const rows = Math.ceil(all.length / COLUMNS);
  const wide = WIDE / COLUMNS;
  const swatch = (x, y, g, colour = colourOf(g.component)) => [
    tag('rect', { x, y, width: 12, height: 12, fill: g.component ? fillOf({ ...g, over: false }, hatches) : g.kind === 'allowance' ? 'url(#h-taken)' : colour, stroke: isHatched(g) ? colour : null }),
    lookOf(g) === 'modelled' && tag('rect', { x, y, width: 12, height: 3, fill: darker(colour) }),
  ];
  const parts = all.map((g, i) => {
    const x = MARGIN + Math.floor(i / rows) * wide;
    const y = top + (i % rows) * 24;
    const part = g.bytes / report.peak.bytes;
    return [
      swatch(x, y, g),
      write(segmentName(g), x + 20, y + 11),
      write(bytes(g.bytes, unit), x + wide - 112, y + 11, { 'text-anchor': 'end' }),
      write(g.at ? word('phase', g.at) : part < LEAST ? `< ${percent(LEAST)}` : percent(part), x + wide - 36, y + 11, { 'text-anchor': 'end', fill: LIGHT.quiet }),
    ];
  });
  let y = top + rows * 24 + 8;
  let x = MARGIN;
  for (const kind of ['exact', 'modelled', 'allowance']) {
    if (!all.some((g) => g.kind === kind)) continue;
    const text = ui(`legend_${kind}`);
    parts.push(swatch(x, y, { kind }, LIGHT.strong), write(text, x + 18, y + 10, { 'font-size': 12, fill: LIGHT.quiet }));
    x += 18 + textWidth(text, 12) + 24;
  }
  y += 20;
  return { y, parts };
}

function footOf(address, top) {
  let y = top;
  const lines = linesOf(address, 12 * CODED, WIDE, 3).map((line) => write(line, MARGIN, (y += 17), { 'font-size': 12, fill: LIGHT.quiet }));
  return { y, parts: [tag('path', { d: `M${MARGIN} ${top}H${WIDTH - MARGIN}`, stroke: LIGHT.rule }), /^https?:/.test(address) ? tag('a', { href: address }, lines) : lines] };
}

function sheet(height, all, hatches, parts, ground = LIGHT.paper) {
  const { lang, address } = all;
  hatches.set('h-taken', hatch('h-taken', LIGHT.taken, { step: 5, line: 1.5, turn: -45 }));
  return tag('svg', { xmlns: 'http://www.w3.org/2000/svg', width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, 'font-family': FONT, 'xml:lang': lang, role: 'img' },
    tag('title', {}, safe(sentenceText(all))), tag('desc', {}, safe(address)), tag('defs', {}, [...hatches.values()]),
    ground && tag('rect', { width: WIDTH, height, fill: ground }), parts);
}

// ---- the card: sentence, labels, bar, ruler, all cards in a row, legend, address. `bare`: without words above and below, for paper.
export function cardSvg(all, { bare = false } = {}) {
  const { report, presets, lists, unit, second, roles, address } = all;
  const hatches = new Map();
  const one = layOf(report, presets, lists);
  const two = second ? layOf(second, presets, lists) : null;
  const end = Math.max(one.lay.end, two?.lay.end ?? 0);
  const px = (b) => MARGIN + (b / end) * WIDE;
  for (const laid of [one, two]) if (laid) laid.lay.unit = unit;
  const head = bare ? { y: 0, parts: [] } : headOf(all);
  const parts = [head.parts];
  let y = head.y + 20;
  for (const s of labelsOf({ lay: one.lay, end, width: WIDE, roles, unit })) parts.push(write(s.text, px(s.from), y + 10, { 'font-size': 12 }));
  parts.push(barOf(one.lay, end, (y += 18), BAR, hatches, false));
  y += BAR;
  if (two) {
    parts.push(barOf(two.lay, end, y + 4, KEPT, hatches, true));
    y += 4 + KEPT;
  }
  for (const t of rulerOf({ lay: one.lay, end, width: WIDE, unit })) {
    const edge = t.key === 'edge';
    parts.push(tag('path', { d: `M${number(px(t.at))} ${y}v6`, stroke: edge ? LIGHT.ink : LIGHT.strong, 'stroke-width': edge ? 2 : 1 }));
    parts.push(write(t.text, px(t.at) + (t.left ? -4 : 4), y + 17, { 'font-size': 12, 'text-anchor': t.left ? 'end' : null, fill: edge ? LIGHT.ink : LIGHT.quiet, 'font-weight': edge ? 600 : null }));
  }
  y += 24;
  if (one.gpus > 1) {
    const n = Math.min(one.gpus, MOST_FLEET);
    const step = Math.min(47, WIDE / n);
    for (let i = 0; i < n; i += 1) {
      parts.push(tag('rect', { x: MARGIN + i * step + 0.5, y: y + 4.5, width: (step - 3) * fleetFill(one.lay), height: 11, fill: one.lay.bytes > one.lay.usable ? 'url(#h-taken)' : LIGHT.strong }),
        tag('rect', { x: MARGIN + i * step + 0.5, y: y + 4.5, width: step - 3, height: 11, rx: 2, fill: 'none', stroke: LIGHT.ink }));
    }
    y += 18;
    for (const line of linesOf(fleetText(one, unit), 13, WIDE)) parts.push(write(line, MARGIN, (y += 18), { fill: LIGHT.quiet }));
    y += 4;
  }
  if (two) parts.push(write(keptLineText(report, second, unit), MARGIN, (y += 18)));
  if (bare) return sheet(y + 4, all, hatches, parts, null);
  const legend = legendOf(all, y + 16, hatches);
  const foot = footOf(address, legend.y + 12);
  return sheet(Math.ceil(foot.y + MARGIN - 12), all, hatches, [parts, legend.parts, foot.parts]);
}

// ---- the chart through time: the same head, legend and foot around a hole. -> {svg, x, y}
export function chartSvg(all, { height, phases }) {
  const hatches = new Map();
  const head = headOf(all);
  const parts = [head.parts];
  const top = head.y + 20;
  for (const p of phases) parts.push(write(p.text, MARGIN + p.x, top + p.y, { 'text-anchor': 'middle', 'font-size': 12, 'font-weight': p.peak ? 600 : null }));
  const legend = legendOf(all, top + height + 16, hatches, elsewhere(all));
  const foot = footOf(all.address, legend.y + 12);
  return { svg: sheet(Math.ceil(foot.y + MARGIN - 12), all, hatches, [parts, legend.parts, foot.parts]), x: MARGIN, y: top };
}
export const CHART_WIDTH = WIDE;
