// The inverse questions: how far a setting can go on the GPUs that are chosen. Each answer is a button that sets it.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { has, ui, word } from './i18n.js';
import { bytes, bytesFull, count } from './units.js';
import { valueWord } from './texts.js';

const REST = 150; // ms without a change before the core is asked: an answer takes it some hundred estimates

export function makeLimits(root, { solve, onPick }) {
  const list = el('ul', { class: 'limits' });
  root.append(list);
  let timer = 0;

  function make(row) {
    const button = el('button', { type: 'button', class: 'limit', data: { limit: row.path } }, el('span', { class: 'limit-name' }), el('span', { class: 'limit-value' }), el('span', { class: 'limit-left' }));
    const node = el('li', {}, button);
    button.addEventListener('click', () => onPick(node.row.path, node.row.value));
    return node;
  }

  function fill(node, row, unit) {
    const [name, value, left] = node.firstChild.children;
    const text = row.value === null ? ui('limit_none') : typeof row.value === 'number' ? count(row.value) : valueWord(row.path, row.value);
    node.row = row;
    setText(name, has('limit', row.path) ? word('limit', row.path) : row.path);
    setText(value, text);
    setText(left, row.value === null ? '' : row.limit !== null && row.value > row.limit ? ui('limit_trained', { n: count(row.limit) }) : ui('limit_left', { n: bytes(row.headroom_bytes, unit) }));
    setAttr(node.firstChild, 'disabled', row.value === null);
    setAttr(node.firstChild, 'title', row.value === null ? null : bytesFull(row.needed_bytes));
  }

  return {
    update({ scenario, unit, error }) {
      clearTimeout(timer);
      if (error) return; // the last answers stay, as the account does
      timer = setTimeout(() => {
        const rows = solve(scenario);
        show(root.parentNode, rows.some((r) => r.value !== null)); // where nothing fits there is nothing to set
        keyed(list, rows, (r) => r.path, make, (node, row) => fill(node, row, unit));
      }, REST);
    },
  };
}
