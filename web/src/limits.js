// The inverse questions: how far a setting can go on the GPUs that are chosen. Each answer is a button that sets it.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { has, sentences, ui, word } from './i18n.js';
import { getPath } from './paths.js';
import { bytes, bytesFull, count } from './units.js';
import { valueWord } from './texts.js';

const SMALL = { params: 1e8, num_hidden_layers: 2, hidden_size: 512 }; // the same is asked of any model; which questions there are, the smallest tells soonest

export function makeLimits(root, { solve, onPick }) {
  const note = el('p', { class: 'prose-note' });
  const list = el('ul', { class: 'limits' });
  root.append(note, list);
  const asked = new Map(); // of a kind of scenario, which questions the core answers

  function make(row) {
    const button = el('button', { type: 'button', class: 'limit', data: { limit: row.path } }, el('span', { class: 'limit-name' }), el('span', { class: 'limit-value' }), el('span', { class: 'limit-left' }));
    const node = el('li', {}, button);
    button.addEventListener('click', () => { if (!button.hasAttribute('aria-disabled')) onPick(node.row.path, node.row.value); });
    return node;
  }

  const shown = (path, value) => (typeof value === 'number' ? count(value) : valueWord(path, value));

  // A limit, what is set now, and how much is left once it is set there.
  function fill(node, row, scenario, unit) {
    const [name, value, left] = node.firstChild.children;
    const now = getPath(scenario, row.path);
    const text = row.value === null ? ui('limit_none') : shown(row.path, row.value);
    node.row = row;
    const label = has('limit', row.path) ? word('limit', row.path) : row.path;
    setText(name, row.path === 'context' && scenario.batch > 1 ? ui('limit_at_once', { name: label, n: count(scenario.batch) }) : label);
    setText(value, text);
    setProse(left, row.value === null ? '' : sentences(now === row.value ? ui('limit_is_now') : now !== undefined && ui('limit_now', { n: shown(row.path, now) }), ui(now === row.value ? 'limit_free' : 'limit_left', { n: bytes(row.headroom_bytes, unit) }), row.limit !== null && row.value > row.limit && ui('limit_trained', { n: count(row.limit) })));
    setAttr(node.firstChild, 'disabled', row.value === null);
    setAttr(node.firstChild, 'aria-disabled', row.value !== null && now === row.value ? 'true' : null); // stays in the order of tabs: it may just have been pressed
    setAttr(node.firstChild, 'title', row.value === null ? null : bytesFull(row.needed_bytes));
  }

  return {
    // a piece of work for each question
    // report: what the scenario came to, with every value that was not said
    * update({ scenario, report, unit }) {
      const { task, engine, training, rl } = scenario;
      const kind = JSON.stringify({ task, engine, training: training && { method: training.method }, rl: rl && { algorithm: rl.algorithm } });
      if (!asked.has(kind)) {
        asked.set(kind, solve({ ...JSON.parse(kind), model: SMALL }).map((r) => r.path));
        yield;
      }
      const rows = [];
      for (const path of asked.get(kind)) {
        rows.push(...solve(scenario, [path]));
        yield;
      }
      show(root.parentNode, rows.some((r) => r.value !== null)); // where nothing fits there is nothing to set
      setText(note, ui('limits_note'));
      keyed(list, rows, (r) => r.path, make, (node, row) => fill(node, row, report.scenario, unit));
    },
  };
}
