// What stands beside the account: notes, rules of thumb and stated numbers, and how right the account is.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { symbolLine, valueLine } from './formula.js';
import { both, has, ui, word } from './i18n.js';
import { bytes, bytesFull, count, parameters, percent } from './units.js';
import { mostOf } from './reading.js';
import { noteText } from './texts.js';

// ---- notes, and the few counts that are not bytes
export function makeNotes(root) {
  const list = el('ul', { class: 'notes' });
  root.append(list);
  return {
    update({ report }) {
      keyed(list, report.notes.map((n, i) => ({ ...n, key: `${n.id}${i}` })), (n) => n.key, () => el('li', {}), (li, n) => setText(li, noteText(n)));
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

// Which component a rule of thumb speaks of, so that ours can stand beside it.
const RULE_OF = { korthikanti_34sbh: 'activations' };

// ---- rules of thumb of the core, and numbers that a scenario quotes: beside the account, never in it
export function makeRules(root) {
  const list = el('div', { class: 'rules' });
  root.append(list);

  function make() {
    const parts = { name: el('span', { class: 'rule-name' }), amount: el('span', { class: 'rule-bytes' }), work: el('div', { class: 'rule-work' }), why: el('p', { class: 'rule-why' }) };
    const node = el('div', { class: 'rule' }, el('div', { class: 'rule-head' }, parts.name, parts.amount), parts.work, parts.why);
    node.parts = parts;
    return node;
  }

  return {
    update({ report, quoted, unit }) {
      const ours = (id) => (RULE_OF[id] ? mostOf(report, RULE_OF[id]) : undefined);
      const rules = (report.rules_of_thumb ?? []).map((r) => ({
        key: r.id, name: word('rule', r.id, 'label'), bytes: r.bytes, why: word('rule', r.id, 'why'),
        work: r.formula ? `${symbolLine(r.formula)} = ${valueLine(r.formula)}` : '', ours: ours(r.id),
      }));
      const said = (quoted ?? []).map((q) => ({ key: `quoted ${q.id}`, name: both(q.text), bytes: q.bytes, why: has('quoted', q.id) ? word('quoted', q.id) : '', work: '' }));
      const rows = [...said, ...rules];
      show(root, rows.length > 0);
      keyed(list, rows, (r) => r.key, make, (node, r) => {
        setText(node.parts.name, r.name);
        setText(node.parts.amount, bytes(r.bytes, unit));
        setAttr(node.parts.amount, 'title', bytesFull(r.bytes));
        node.parts.amount.dataset.bytes = r.bytes;
        setText(node.parts.work, r.work);
        show(node.parts.work, r.work !== '');
        setText(node.parts.why, [r.why, r.ours === undefined ? '' : ui('rule_ours', { n: bytes(r.ours, unit) })].filter(Boolean).join(' '));
        show(node.parts.why, node.parts.why.textContent !== '');
      });
    },
  };
}

// ---- how right is this? A table made by the tests, if the build was given one:
// {"groups": [{"id", "class", "rows", "median", "p90", "target_median"?, "worst"?: [{"id", "error"}]}, …]}
export function makeAccuracy(root, accuracy) {
  const text = el('p', { class: 'prose-note' });
  const body = el('tbody', {});
  const heads = ['group', 'rows', 'median', 'p90'].map((id) => ({ id, node: el('th', { scope: 'col' }) }));
  const box = el('div', { class: 'accuracy', tabindex: '0', role: 'group' }, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h) => h.node))), body));
  root.append(text, box);
  const groups = accuracy?.groups ?? [];
  const error = (x) => (x === null || x === undefined ? '–' : percent(x));
  return {
    update() {
      setText(text, groups.length ? ui('accuracy_text') : ui('accuracy_none'));
      show(box, groups.length > 0);
      setAttr(box, 'aria-label', ui('accuracy'));
      for (const h of heads) setText(h.node, ui(`accuracy_${h.id}`));
      keyed(body, groups, (g) => `${g.id}/${g.class}`, () => el('tr', {}, el('th', { scope: 'row' }), el('td', {}), el('td', {}), el('td', {})), (row, g) => {
        const cells = [g.id, count(g.rows), error(g.median), error(g.p90)];
        cells.forEach((c, i) => setText(row.children[i], c));
      });
    },
  };
}
