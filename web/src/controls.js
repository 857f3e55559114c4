// The controls of the form. Each has one grammar: what may be chosen, and under it what the whole would then need.
// A control is {node, update({value, said, price, unit}), focus()}; `price(value)` is the core's answer with that one value replaced.
import { combobox } from './combobox.js';
import { el, setAttr, setText, show } from './dom.js';
import { ui, word } from './i18n.js';
import { bytes, bytesFull, difference } from './units.js';
import { choices, fallback, readValue } from './fields.js';
import { same } from './paths.js';
import { errorText, valueWord } from './texts.js';

const CHIPS = 6; // more choices than this: the first ones as chips, all of them in a list

let serial = 0;
export const freshId = (stem) => `${stem}-${(serial += 1)}`;

function priceText(price, unit) {
  if (!price) return '';
  return price.error ? ui('refused') : bytes(price.bytes, unit);
}

function priceTitle(price, peak, unit) {
  if (!price) return null;
  if (price.error) return errorText(price.error);
  return `${bytesFull(price.bytes)}${peak === null ? '' : ` (${difference(price.bytes - peak, unit)})`}`;
}

const fillPrice = (node, price, peak, unit) => {
  setText(node, priceText(price, unit));
  setAttr(node.parentNode, 'title', priceTitle(price, peak, unit));
  setAttr(node, 'data-verdict', price?.verdict ?? null);
};

// A row of chips: native radio buttons. With more values than fit, a list with all of them follows.
export function chips(field, { labelledby, describedby, onPick, pricesOf }) {
  const values = choices(field);
  const shown = values.length > CHIPS ? values.slice(0, CHIPS) : values;
  const name = freshId('choice');
  const row = el('div', { class: `chips of-${shown.length}`, role: 'radiogroup', 'aria-labelledby': labelledby, 'aria-describedby': describedby });
  const parts = shown.map((value) => {
    const radio = el('input', { type: 'radio', name, class: 'chip-radio' });
    const label = el('span', { class: 'chip-label' });
    const price = el('span', { class: 'chip-price' });
    radio.addEventListener('change', () => onPick(value));
    row.append(el('label', { class: 'chip' }, radio, label, price));
    return { value, radio, label, price };
  });
  const node = el('div', { class: 'control' }, row);

  let rest = null;
  let seen = null;
  if (shown.length < values.length) {
    const label = el('span', { id: freshId('more'), class: 'vh' });
    rest = combobox({
      labelledby: `${labelledby} ${label.id}`, describedby,
      priced: { values: () => [...values], of: (some) => pricesOf(field.path, some) },
      itemsOf: (prices) => values.map((value) => {
        const price = prices.get(value);
        return { value, label: valueWord(field.path, value), right: priceText(price, seen.unit), verdict: price?.verdict, refused: price?.error, title: priceTitle(price, seen.peak, seen.unit) };
      }),
      onPick,
    });
    rest.label = label;
    rest.node.classList.add('combo-more');
    node.append(label, rest.node);
  }

  return {
    node,
    wants: () => shown,
    focus: () => (parts.find((p) => p.radio.checked) ?? parts[0]).radio.focus(),
    update(now) {
      seen = now;
      for (const part of parts) {
        part.radio.checked = part.value === now.value;
        setText(part.label, valueWord(field.path, part.value));
        fillPrice(part.price, now.price(part.value), now.peak, now.unit);
      }
      if (rest) {
        const outside = now.value !== undefined && !shown.includes(now.value);
        setText(rest.label, ui('more_values'));
        rest.input.placeholder = ui('more_of', { n: values.length });
        rest.node.classList.toggle('chosen', outside);
        rest.set(now.value, outside ? valueWord(field.path, now.value) : '');
      }
    },
  };
}

// A number with its half and its double beside it.
export function number(field, { id, describedby, onInput, onPick }) {
  const input = el('input', { id, type: 'text', inputmode: field.type === 'integer' ? 'numeric' : 'decimal', autocomplete: 'off', class: 'number', 'aria-describedby': describedby });
  const unitText = el('span', { class: 'number-unit', 'aria-hidden': 'true' });
  const steppable = field.type === 'integer';
  const makeStep = (factor) => {
    const label = el('span', { class: 'chip-label' });
    const price = el('span', { class: 'chip-price' });
    const button = el('button', { type: 'button', class: 'chip step' }, label, price);
    button.addEventListener('click', () => onPick(target(factor)));
    return { factor, button, label, price };
  };
  const steps = steppable ? [makeStep(0.5), makeStep(2)] : [];
  const box = el('span', { class: 'number-box' }, input, unitText);
  const node = el('div', { class: steppable ? 'control stepper' : 'control' }, steps[0]?.button, box, steps[1]?.button);
  let now = { value: undefined };

  function target(factor) {
    if (typeof now.value !== 'number') return null;
    const next = factor < 1 ? Math.floor(now.value * factor) : now.value * factor;
    return next >= (field.min ?? 0) && next <= (field.max ?? Infinity) && next !== now.value && next > 0 ? next : null;
  }

  input.addEventListener('input', () => onInput(readValue(field, input.value)));
  input.addEventListener('change', () => onPick(readValue(field, input.value)));

  return {
    node,
    wants: () => steps.map((s) => target(s.factor)).filter((v) => v !== null),
    focus: () => input.focus(),
    update(next) {
      now = next;
      const stated = next.said ?? fallback(field); // a default that depends on others is only hinted at
      const text = stated === undefined || stated === field.word ? '' : String(stated);
      const typing = document.activeElement === input && (input.value.trim() === '' || same(readValue(field, input.value), stated));
      if (!typing && input.value !== text) input.value = text;
      input.placeholder = next.value === undefined || next.value === null ? ui('automatic') : valueWord('word', next.value);
      setText(unitText, field.unit ? word('unit', field.unit) : '');
      show(unitText, Boolean(field.unit));
      for (const step of steps) {
        const value = target(step.factor);
        step.button.disabled = value === null;
        setText(step.label, value === null ? (step.factor < 1 ? '÷2' : '×2') : String(value));
        fillPrice(step.price, value === null ? null : next.price(value), next.peak, next.unit);
      }
    },
  };
}

// Module names: the core's own groups as chips, and a box for a list of one's own.
export function names(field, { labelledby, describedby, onPick, onInput, pricesOf }) {
  const group = chips(field, { labelledby, describedby, onPick, pricesOf });
  const input = el('input', { type: 'text', class: 'wide', autocomplete: 'off', spellcheck: 'false', 'aria-labelledby': labelledby, 'aria-describedby': describedby });
  input.addEventListener('input', () => { if (input.value.trim()) onInput(readValue(field, input.value)); });
  input.addEventListener('change', () => onPick(input.value.trim() ? readValue(field, input.value) : undefined));
  group.node.append(input);
  return {
    ...group,
    update(now) {
      group.update(now);
      const own = Array.isArray(now.value) ? now.value.join(' ') : '';
      if (document.activeElement !== input) input.value = own;
      input.placeholder = ui('own_names');
    },
  };
}
