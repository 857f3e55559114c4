// What can be taken away: pictures, tables and the report, as text or as a file. All of it is made here; nothing is asked of anyone.
import { Chart } from 'chart.js';
import { sentenceText } from './answer.js';
import { segmentName } from './card.js';
import { el } from './dom.js';
import { symbolLine, valueLine } from './formula.js';
import { ui, word } from './i18n.js';
import { CHART_WIDTH, WIDTH, cardSvg, chartSvg } from './picture.js';
import { alive, groups } from './reading.js';
import { makeTimeline } from './timeline.js';
import { bytes, inUnit } from './units.js';

const SCALE = 2; // pixels of a picture for each of the page

// ---- the table, of the phase that is shown
export const phaseOf = ({ report, phase }) => report.phases.find((p) => p.id === phase) ?? report.phases.find((p) => p.id === report.peak.phase);

export function rowsOf(all) {
  return groups(alive(all.report, phaseOf(all).id), all.lists).flatMap((g) => g.entries.map((e) => ({
    component: segmentName(g), what: word('what', e.what), symbols: symbolLine(e.formula), values: valueLine(e.formula), bytes: e.bytes, kind: word('certainty', e.kind),
  })));
}

const HEADS = ['component', 'what', 'formula', 'values', 'bytes', 'unit', 'kind', 'phase'];
const headOf = (id, unit) => (id === 'unit' ? unit : ui(`export_${id}`));

// RFC 4180; the mark at the beginning is for spreadsheets, which otherwise take Chinese for something else.
export function csvOf(all) {
  const phase = word('phase', phaseOf(all).id);
  const cell = (v) => (/[",\r\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
  const lines = [HEADS.map((id) => headOf(id, all.unit)), ...rowsOf(all).map((r) => [r.component, r.what, r.symbols, r.values, r.bytes, inUnit(r.bytes, all.unit), r.kind, phase])];
  return `\ufeff${lines.map((l) => l.map(cell).join(',')).join('\r\n')}\r\n`;
}

export function markdownOf(all) {
  const { report, unit, address } = all;
  const at = phaseOf(all);
  const cell = (v) => String(v).replace(/[\\|*_`<>[\]]/g, '\\$&').replaceAll('\n', ' ');
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const heads = ['component', 'what', 'formula', 'bytes', 'unit', 'kind'];
  return [
    `**${cell(sentenceText(all))}**`, '',
    line(heads.map((id) => headOf(id, unit))),
    line(heads.map((id) => (id === 'bytes' || id === 'unit' ? '--:' : '---'))),
    ...rowsOf(all).map((r) => line([cell(r.component), cell(r.what), `${cell(r.symbols)} = ${cell(r.values)}`, r.bytes.toLocaleString('en'), bytes(r.bytes, unit), cell(r.kind)])),
    line([`**${ui(at.id === report.peak.phase ? 'total_peak' : 'total_phase', { phase: word('phase', at.id) })}**`, '', '', `**${at.bytes.toLocaleString('en')}**`, `**${bytes(at.bytes, unit)}**`, '']),
    '', /^https?:/.test(address) ? `<${address}>` : `\`${address}\``, '',
  ].join('\n');
}

// ---- pictures
async function canvasOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = el('canvas', { width: WIDTH * SCALE, height: Math.round((image.height * WIDTH) / image.width) * SCALE });
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}
const pngOf = (canvas) => new Promise((done, failed) => { canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error('no picture'))), 'image/png'); });

export const cardPng = async (all) => pngOf(await canvasOf(cardSvg(all)));

export async function chartPng(all) {
  const { picture, svg, x, y } = drawChart(all);
  const canvas = await canvasOf(svg);
  canvas.getContext('2d').drawImage(picture, x * SCALE, y * SCALE, CHART_WIDTH * SCALE, (picture.height * CHART_WIDTH * SCALE) / picture.width);
  return pngOf(canvas);
}

// The chart is drawn once more, out of sight: as wide as the picture, in light colours whatever the page wears. All in one go,
// so that nobody sees the page change.
function drawChart(all) {
  const root = document.documentElement;
  const [theme, density] = [root.dataset.theme, Chart.defaults.devicePixelRatio];
  const box = el('div', { class: 'chart-export', 'aria-hidden': 'true' });
  box.style.setProperty('width', `${CHART_WIDTH}px`);
  document.body.append(box);
  root.dataset.theme = 'light';
  Chart.defaults.devicePixelRatio = SCALE;
  try {
    makeTimeline(box, { onPhase() {}, onComponent() {} }).update({ ...all, phase: null });
    const seen = (selector) => [...box.querySelectorAll(selector)].find((n) => n.getClientRects().length);
    const origin = box.getBoundingClientRect();
    const phases = [...box.querySelectorAll('.instant')].map((b) => {
      const at = b.getBoundingClientRect();
      return { text: b.textContent, x: at.left - origin.left + at.width / 2, y: at.top - origin.top + at.height / 2 + 4, peak: b.getAttribute('aria-pressed') === 'true' };
    });
    return { picture: copyOf(seen('canvas')), ...chartSvg(all, { height: seen('.chart-note').getBoundingClientRect().top - origin.top, phases }) };
  } finally {
    for (const c of box.querySelectorAll('canvas')) Chart.getChart(c)?.destroy();
    box.remove();
    Chart.defaults.devicePixelRatio = density;
    if (theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = theme;
  }
}

function copyOf(canvas) {
  const copy = el('canvas', { width: canvas.width, height: canvas.height });
  copy.getContext('2d').drawImage(canvas, 0, 0);
  return copy;
}

// ---- the file
export const fileName = (id, ending) => `vram-${(id || 'model').toLowerCase().replace(/[^a-z0-9.]+/g, '-').replace(/^[-.]+|[-.]+$/g, '').slice(0, 60) || 'model'}${ending}`;

// A sandboxed frame may save nothing and is not told so: whoever presses the button is.
const inSandbox = () => parent !== window && self.origin === 'null';

export function save(content, name, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  return inSandbox() ? ui('save_unsure', { name }) : ui('saved', { name });
}
