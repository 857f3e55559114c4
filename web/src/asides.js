// What stands beside the account: notes, the counts that are no bytes, and how right the account is.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { ui, word } from './i18n.js';
import { bytes, bytesFull, count, parameters, percent } from './units.js';
import { noteText } from './texts.js';

// ---- notes, and the few counts that are not bytes
export function makeNotes(root) {
  const list = el('ul', { class: 'notes' });
  root.append(list);
  return {
    update({ report }) {
      keyed(list, report.notes.map((n, i) => ({ ...n, key: `${n.id}${i}` })), (n) => n.key, () => el('li', {}), (li, n) => setText(li, noteText(n, report.scenario.engine)));
      show(root, report.notes.length > 0);
    },
  };
}

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
        report.max_context !== null && ['max_context', count(report.max_context), null],
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
// {"groups": [{"id", "class", "rows", "refused", "median", "p90"}, …]}, errors as fractions
const CLOSE = 0.02; // a group is called close when nine in ten of its cases are within this

export function makeAccuracy(root, accuracy) {
  const text = el('p', { class: 'prose-note' });
  const summary = el('summary', {});
  const body = el('tbody', {});
  const heads = ['group', 'class', 'rows', 'median', 'p90'].map((id) => ({ id, node: el('th', { scope: 'col' }) }));
  const box = el('div', { class: 'accuracy', tabindex: '0', role: 'group' }, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h) => h.node))), body));
  const fold = el('details', { class: 'fold small' }, summary, box);
  root.append(text, fold);
  const groups = (accuracy?.groups ?? []).filter((g) => typeof g.median === 'number').sort((a, b) => a.p90 - b.p90 || b.rows - a.rows);
  const close = groups.filter((g) => g.p90 <= CLOSE).length;
  const cases = groups.reduce((n, g) => n + g.rows, 0);
  return {
    update() {
      setText(text, groups.length ? ui('accuracy_text', { cases: count(cases), groups: groups.length, close, within: percent(CLOSE) }) : ui('accuracy_none'));
      show(fold, groups.length > 0);
      setText(summary, ui('accuracy_all', { n: groups.length }));
      setAttr(box, 'aria-label', ui('accuracy'));
      for (const h of heads) setText(h.node, ui(`accuracy_${h.id}`));
      keyed(body, groups, (g) => `${g.id}/${g.class}`, () => el('tr', {}, el('th', { scope: 'row' }), ...heads.slice(1).map(() => el('td', {}))), (row, g) => {
        [g.id, word('accuracy_class', g.class), count(g.rows), percent(g.median), percent(g.p90)].forEach((c, i) => setText(row.children[i], c));
      });
    },
  };
}
