// What stands beside the account: notes, the counts that are no bytes, and how right the account is.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { getLang, has, ui, word } from './i18n.js';
import { bytes, bytesFull, count, parameters, percent } from './units.js';
import { fieldLabel, noteText, valueWord } from './texts.js';

// ---- notes, and the few counts that are not bytes. What a note is about can be set right at once.
const POOL_BLOCK = 1024; // tokens; a pool that ends with a block is no larger than the sequence in it
const FIXES = { native_weights: { weights: 'native' } };

export function makeNotes(root, { onFix }) {
  const list = el('ul', { class: 'notes' });
  root.append(list);
  function makeNote({ id }) {
    const button = el('button', { type: 'button', class: 'link-button' });
    button.addEventListener('click', () => onFix(FIXES[id]));
    return el('li', {}, el('span', {}), ' ', button);
  }
  return {
    update({ report, unit }) {
      keyed(list, report.notes.map((n, i) => ({ ...n, key: `${n.id}${i}` })), (n) => n.key, makeNote, (li, n) => {
        setProse(li.firstChild, noteText(n, report.scenario.engine, unit));
        const fix = FIXES[n.id];
        show(li.lastChild, Boolean(fix));
        if (fix) setText(li.lastChild, ui('note_fix'));
      });
      show(root, report.notes.length > 0);
    },
  };
}

// Of one sequence alone: a pool may hold more tokens than the model was trained for.
const longest = ({ max_context: n, kv_tokens_capacity: pool }) => (pool >= n + POOL_BLOCK ? ui('fact_max_context_model', { n: count(n) }) : count(n));

export function makeFacts(root) {
  const list = el('dl', { class: 'facts' });
  root.append(list);
  return {
    update({ report, unit }) {
      const m = report.model;
      const gpus = report.scenario.gpus ?? 1;
      const rows = [
        ['params_total', parameters(m.params_total), count(m.params_total)],
        m.params_active < m.params_total && ['params_active', parameters(m.params_active), count(m.params_active)],
        m.params_trainable > 0 && m.params_trainable !== m.params_total
          && ['params_trainable', `${parameters(m.params_trainable)} (${percent(m.params_trainable / m.params_total)})`, count(m.params_trainable)],
        gpus > 1 && ['cluster', bytes(report.cluster_bytes, unit), bytesFull(report.cluster_bytes)],
        report.kv_tokens_capacity !== null && ['kv_tokens_capacity', count(report.kv_tokens_capacity), null],
        report.max_context !== null && ['max_context', longest(report), count(report.max_context)],
      ].filter(Boolean);
      keyed(list, rows, ([id]) => id, () => el('div', {}, el('dt', {}), el('dd', {})), (node, [id, text, title]) => {
        setText(node.firstChild, ui(`fact_${id}`));
        setText(node.lastChild, text);
        setAttr(node.lastChild, 'title', title);
        node.dataset.fact = id;
      });
    },
  };
}

// ---- how right is this? The table that the tests make, if the build was given one:
// {"groups": [{"id", "class", "rows", "median", "p90", "miss", "fits", "fits_right", "worst"}, …]}, errors as fractions
const CLOSE = 0.02; // a group is called close when nine in ten of its cases are within this
const NAMED = /\.(method|precision|optimizer|algorithm)$|^(weights|engine|gpu)$/; // settings that say by their value what they are

const UNSAID = /^gpus$|^training\.(optimizer_impl|autocast)$/; // follows from the others, or is a detail

// `isDefault(path, value)`: a setting that need not be said. `gpuName(id)`: what a card is called.
export function makeAccuracy(root, accuracy, { isDefault, gpuName }) {
  const valueText = (path, value) => (Array.isArray(value) ? valueWord(path, 'list') : typeof value === 'number' ? count(value) : path === 'gpu' ? gpuName(value)
    : valueWord(['word', 'model'].find((like) => !has('value', path, value) && has('value', like, value)) ?? path, value));
  const settingText = ([path, value]) => (Array.isArray(value) || NAMED.test(path) ? valueText(path, value) : ui('accuracy_setting', { field: fieldLabel(path), value: valueText(path, value) }));
  const text = el('p', { class: 'prose-note' });
  const all = makeFold(['group', 'class', 'rows', 'median', 'p90', 'target']);
  const bad = makeFold(['group', 'case', 'estimate', 'measured', 'error']);
  bad.fold.classList.add('worst');
  const names = el('p', { class: 'prose-note' });
  root.append(text, all.fold, bad.fold, names);
  const far = (g) => (g.fits ? 1 - g.fits_right / g.fits : g.p90);
  const groups = (accuracy?.groups ?? []).filter((g) => typeof g.median === 'number' || g.fits).sort((a, b) => far(a) - far(b) || b.rows - a.rows);
  const worst = groups.filter((g) => g.worst).map((g) => ({ ...g.worst, id: g.id })).sort((a, b) => b.error - a.error);
  const close = groups.filter((g) => !g.fits && g.p90 <= CLOSE).length;
  const cases = groups.reduce((n, g) => n + g.rows, 0);
  const missed = groups.filter((g) => g.miss).length;

  function amountText(w, n, unit) {
    if (typeof n === 'boolean') return ui(n ? 'accuracy_runs' : 'accuracy_runs_not');
    return w.of === 'bytes' ? bytes(n, unit) : count(n);
  }
  const caseText = (w) => [
    w.model, ...Object.entries(w.settings).filter(([path, value]) => !UNSAID.test(path) && value !== false && !isDefault(path, value)).map(settingText),
    w.of === 'bytes' && (w.phase === 'peak' ? ui('peak') : w.phase && w.phase !== 'any' && word('phase', w.phase)),
    Array.isArray(w.components) && w.components.map((c) => word('component', c)).join(' + '),
  ].filter(Boolean).join(' · ');

  let said = ''; // in which language and unit: nothing else changes it
  return {
    update({ unit }) {
      const saying = `${getLang()} ${unit}`;
      if (said === saying) return;
      said = saying;
      setText(text, groups.length ? ui('accuracy_text', { cases: count(cases), groups: groups.length, close, within: percent(CLOSE), missed }) : ui('accuracy_none'));
      setText(names, ui('accuracy_names'));
      show(names, groups.length > 0);
      all.update(groups.length, ui('accuracy_all', { n: groups.length }));
      bad.update(worst.length, ui('accuracy_worst', { n: worst.length }));
      all.rows(groups, (g) => `${g.id}/${g.class}`, (g) => [
        g.id, word('accuracy_class', g.class), count(g.rows),
        g.fits ? ui('accuracy_right', { n: g.fits_right }) : percent(g.median), g.fits ? '' : percent(g.p90), g.class === 'loose' ? '' : ui(g.miss ? 'accuracy_missed' : 'accuracy_met'),
      ], (row, g) => row.classList.toggle('missed', g.miss));
      bad.rows(worst, (w) => w.id, (w) => [w.id, caseText(w), amountText(w, w.estimate, unit), amountText(w, w.measured, unit), typeof w.measured === 'boolean' ? '' : percent(w.error)]);
    },
  };
}

// A table behind a line of summary.
function makeFold(columns) {
  const summary = el('summary', {});
  const body = el('tbody', {});
  const heads = columns.map((id) => ({ id, node: el('th', { scope: 'col', class: `col-${id}` }) }));
  const box = el('div', { class: 'accuracy', tabindex: '0', role: 'group' }, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h) => h.node))), body));
  const fold = el('details', { class: 'fold small' }, summary, box);
  return {
    fold,
    update(there, title) {
      show(fold, there > 0);
      setText(summary, title);
      setAttr(box, 'aria-label', title);
      for (const h of heads) setText(h.node, ui(`accuracy_${h.id}`));
    },
    rows(items, keyOf, cellsOf, mark) {
      keyed(body, items, keyOf, () => el('tr', {}, el('th', { scope: 'row', class: `col-${columns[0]}` }), ...columns.slice(1).map((id) => el('td', { class: `col-${id}` }))), (row, item) => {
        cellsOf(item).forEach((c, i) => { setText(row.children[i], c); setAttr(row.children[i], 'data-head', ui(`accuracy_${columns[i]}`)); });
        mark?.(row, item);
      });
    },
  };
}
