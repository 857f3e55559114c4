// On paper: one A4 page of the scenario, made when it is asked for. Sentence, card, table with its formulas, notes, address.
import { sentenceText } from './answer.js';
import { el } from './dom.js';
import { phaseOf, rowsOf } from './export.js';
import { ui, word } from './i18n.js';
import { cardSvg, subject } from './picture.js';
import { noteText } from './texts.js';
import { bytes } from './units.js';

const SIZES = [9.5, 8.5, 7.5, 6.5]; // pt; the largest at which it fits
const TALL = 267; // mm of an A4 page between its margins, less a little for rounding

function tableOf(all) {
  const { report, unit } = all;
  const at = phaseOf(all);
  const rows = rowsOf(all);
  const cells = (r, before) => [
    el('th', { scope: 'row' }, r.component === before?.component ? '' : r.component), el('td', {}, r.what),
    el('td', { class: 'formula' }, `${r.symbols} = ${r.values}`), el('td', { class: 'amount' }, bytes(r.bytes, unit)), el('td', {}, r.kind),
  ];
  return el('table', {},
    el('thead', {}, el('tr', {}, ['component', 'what', 'formula', 'memory', 'kind'].map((id) => el('th', { scope: 'col', class: id === 'memory' ? 'amount' : null }, ui(`export_${id}`))))),
    el('tbody', {}, rows.map((r, i) => el('tr', { class: r.component === rows[i - 1]?.component ? 'same' : null }, cells(r, rows[i - 1])))),
    el('tfoot', {}, el('tr', {}, el('th', { scope: 'row', colspan: 3 }, ui(at.id === report.peak.phase ? 'total_peak' : 'total_phase', { phase: word('phase', at.id) })), el('td', { class: 'amount' }, bytes(at.bytes, unit)), el('td', {}))));
}

export function fillPaper(root, all) {
  const { report, presets, unit } = all;
  const picture = new DOMParser().parseFromString(cardSvg(all, { bare: true }), 'image/svg+xml').documentElement;
  root.replaceChildren(
    el('p', { class: 'paper-subject' }, subject(report, presets)),
    el('p', { class: 'paper-sentence' }, sentenceText(all)),
    document.importNode(picture, true),
    tableOf(all),
    el('ul', {}, report.notes.map((n) => el('li', {}, noteText(n, report.scenario.engine, unit)))),
    el('p', { class: 'paper-address' }, all.address),
  );
  root.classList.add('measured'); // laid out as on paper, out of sight
  const mm = root.clientWidth / Number(getComputedStyle(root).getPropertyValue('--wide'));
  for (const size of SIZES) {
    root.style.setProperty('font-size', `${size}pt`);
    if (root.scrollHeight <= TALL * mm) break;
  }
  root.classList.remove('measured');
}
