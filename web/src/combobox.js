// A text box with a list that filters as one types (ARIA combobox). The list is made when it opens; its prices are asked for then, a few at a
// time, so that it opens at once.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { ui } from './i18n.js';

let serial = 0;
const GAP = 4; // px between the box and its list, and to the window's edge
const SLICE = 8; // ms of asking between two chances for the browser
const FEW = 3; // prices asked for at once
const SHOW_AFTER = 100; // ms until those that are known are shown

// itemsOf(prices) -> [{value, label, sub, right, group, refused}], a price by its value where it is known; onPick(value)
// priced: {values() -> [value, …], of(values) -> Map of their prices}
export function combobox({ labelledby, describedby, itemsOf, priced = null, onPick, placeholder }) {
  const id = `list-${(serial += 1)}`;
  let prices = new Map();
  let timer = 0;
  let items = [];
  let found = [];
  let active = -1;
  let current = { value: undefined, label: '' };

  const input = el('input', {
    type: 'text', role: 'combobox', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', class: 'combo-input',
    'aria-expanded': 'false', 'aria-controls': id, 'aria-autocomplete': 'list', 'aria-labelledby': labelledby, 'aria-describedby': describedby,
  });
  const list = el('ul', { id, role: 'listbox', class: 'combo-list', hidden: true, 'aria-labelledby': labelledby });
  const none = el('p', { class: 'combo-none', hidden: true });
  const popup = el('div', { class: 'combo-popup', hidden: true }, list, none);
  const node = el('div', { class: 'combo' }, input, popup);

  const isOpen = () => !popup.hidden;

  function place() {
    const box = input.getBoundingClientRect();
    const below = innerHeight - box.bottom - GAP * 2;
    const above = box.top - GAP * 2;
    const up = below < 220 && above > below;
    const width = Math.min(Math.max(box.width, 300), innerWidth - GAP * 2);
    popup.style.setProperty('width', `${width}px`);
    popup.style.setProperty('left', `${Math.max(GAP, Math.min(box.left, innerWidth - width - GAP))}px`);
    popup.style.setProperty('max-height', `${Math.min(440, up ? above : below)}px`);
    popup.style.setProperty('top', up ? 'auto' : `${box.bottom + GAP}px`);
    popup.style.setProperty('bottom', up ? `${innerHeight - box.top + GAP}px` : 'auto');
  }

  function fill(text) {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    found = items.filter((item) => wanted.every((w) => `${item.label} ${item.sub ?? ''} ${item.group ?? ''} ${item.value}`.toLowerCase().includes(w)));
    keyed(list, found, (item) => String(item.value), makeOption, updateOption);
    show(list, found.length > 0);
    show(none, found.length === 0);
    setText(none, ui('nothing_found'));
    activate(found.findIndex((item) => item.value === current.value && !text));
  }

  function makeOption(item) {
    const option = el('li', { role: 'option', id: `${id}-${(serial += 1)}`, class: 'combo-option' },
      el('span', { class: 'combo-label' }), el('span', { class: 'combo-sub' }), el('span', { class: 'combo-right' }));
    option.addEventListener('pointerdown', (event) => event.preventDefault()); // the box keeps the focus
    option.addEventListener('click', () => pick(items.find((i) => String(i.value) === String(item.value))));
    return option;
  }

  function updateOption(option, item) {
    const [label, sub, right] = option.children;
    setText(label, item.label);
    setText(sub, item.sub ?? '');
    setText(right, item.right ?? '');
    setAttr(option, 'aria-selected', String(item.value === current.value));
    setAttr(option, 'data-verdict', item.verdict);
    setAttr(option, 'title', item.title);
    option.classList.toggle('refused', Boolean(item.refused));
  }

  function activate(at) {
    active = at;
    [...list.children].forEach((option, i) => option.classList.toggle('active', i === active));
    const option = list.children[active];
    setAttr(input, 'aria-activedescendant', option?.id ?? null);
    option?.scrollIntoView({ block: 'nearest' });
  }

  function ask(values) {
    let shown = performance.now();
    const step = () => {
      const end = performance.now() + SLICE;
      do for (const [value, price] of priced.of(values.splice(0, FEW))) prices.set(value, price); while (values.length && performance.now() < end);
      if (!values.length || performance.now() - shown > SHOW_AFTER) {
        showPrices();
        shown = performance.now();
      }
      if (values.length) timer = setTimeout(step);
    };
    timer = setTimeout(step);
  }

  function showPrices() {
    items = itemsOf(prices);
    const by = new Map(items.map((item) => [item.value, item]));
    found = found.map((item) => by.get(item.value) ?? item);
    found.forEach((item, i) => updateOption(list.children[i], item));
  }

  function open() {
    if (isOpen()) return;
    prices = new Map();
    items = itemsOf(prices);
    if (priced) ask(priced.values());
    show(popup, true);
    setAttr(input, 'aria-expanded', 'true');
    place();
    fill('');
    addEventListener('scroll', place, true);
    addEventListener('resize', place);
  }

  function close() {
    if (!isOpen()) return;
    clearTimeout(timer);
    show(popup, false);
    setAttr(input, 'aria-expanded', 'false');
    setAttr(input, 'aria-activedescendant', null);
    removeEventListener('scroll', place, true);
    removeEventListener('resize', place);
    input.value = current.label;
  }

  function pick(item) {
    if (!item) return;
    current = item;
    close();
    onPick(item.value);
  }

  input.addEventListener('focus', () => input.select());
  input.addEventListener('click', open);
  input.addEventListener('input', () => { open(); fill(input.value); if (found.length) activate(0); });
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    const last = found.length - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) {
      event.preventDefault();
      if (isOpen()) activate(Math.max(0, Math.min(last, active + step)));
      else open();
    } else if (event.key === 'Enter' && isOpen()) {
      event.preventDefault();
      pick(found[active]);
    } else if (event.key === 'Escape' && isOpen()) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
  if (placeholder) input.placeholder = placeholder;

  return {
    node, input, isOpen,
    // What is chosen now; shown in the box unless somebody is typing there.
    set(value, label) {
      current = { value, label };
      if (!isOpen() && input.value !== label) input.value = label;
    },
  };
}
