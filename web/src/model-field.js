// Which model: one of the presets, a rule of thumb, or a pasted config.json. Also used small, for the models of the RL roles.
import { combobox } from './combobox.js';
import { freshId } from './controls.js';
import { el, setAttr, setText, show } from './dom.js';
import { ui } from './i18n.js';
import { isTree, withPath } from './paths.js';
import { errorText, fieldHelp, fieldLabel, valueWord } from './texts.js';
import { bytes, count, parameters, readCount, readParameters } from './units.js';

// The shape of a rule of thumb: what one says first, and what one may add.
const SHAPE = ['params', 'num_hidden_layers', 'hidden_size'];
const MORE_SHAPE = ['params_active', 'num_attention_heads', 'num_key_value_heads', 'intermediate_size', 'vocab_size', 'num_experts', 'num_experts_per_tok'];
const BIG = new Set(['params', 'params_active']); // written "7B"

export function modelItems(presets, price, unit, extra = []) {
  return [
    ...extra.map((value) => ({ value, label: valueWord('model', value), sub: '', right: price?.(value) ? priceRight(price(value), unit) : '' })),
    ...presets.models.map((m) => ({
      value: m.id,
      label: m.name,
      group: m.family,
      sub: m.params_active && m.params_active < m.params_total
        ? `${parameters(m.params_total)} · ${ui('active', { n: parameters(m.params_active) })}` : parameters(m.params_total),
      right: priceRight(price?.(m.id), unit),
      refused: price?.(m.id)?.error,
      title: `${m.family}${m.released ? ` · ${m.released}` : ''}`,
    })),
  ];
}
const priceRight = (p, unit) => (!p ? '' : p.error ? ui('refused') : bytes(p.bytes, unit));

export function modelName(value, presets) {
  if (typeof value === 'string') return presets.models.find((m) => m.id === value)?.name ?? valueWord('model', value);
  if (!isTree(value)) return '';
  if (isThumb(value)) return typeof value.params === 'number' ? parameters(value.params) : ui('own_model');
  return value._name_or_path || value.model_type || ui('own_model');
}

const isThumb = (model) => isTree(model) && model.params !== undefined && model.model_type === undefined;
const modeOf = (model) => (isTree(model) ? (isThumb(model) ? 'thumb' : 'config') : 'preset');

// onChange(value, settled); onRefuse(error) of what cannot be a value; pricesOf(values) -> Map value -> price
export function modelField({ presets, pricesOf, onChange, onRefuse }) {
  const title = el('span', { class: 'field-label', id: freshId('model') });
  const help = el('p', { class: 'field-note', id: freshId('note') });
  const name = freshId('mode');
  let now = { value: undefined, report: null, unit: 'GB' };
  let mode = null; // what is shown; may run ahead of the value while nothing has been typed yet

  // ---- presets
  const combo = combobox({
    labelledby: title.id, describedby: help.id,
    priced: { values: () => presets.models.map((m) => m.id), of: pricesOf },
    itemsOf: (prices) => modelItems(presets, (id) => prices.get(id), now.unit),
    onPick: (value) => onChange(value, true),
  });

  // ---- rule of thumb
  const shapeRow = (key) => {
    const id = freshId('shape');
    const label = el('label', { for: id, class: 'shape-label' });
    const input = el('input', { id, type: 'text', inputmode: BIG.has(key) ? 'text' : 'numeric', autocomplete: 'off', class: 'number', 'aria-describedby': help.id });
    const read = () => (input.value.trim() === '' ? undefined : (BIG.has(key) ? readParameters : readCount)(input.value));
    const send = (settled) => onChange(withPath(isThumb(now.value) ? now.value : {}, [key], read()), settled);
    input.addEventListener('input', () => send(false));
    input.addEventListener('change', () => send(true));
    return { key, label, input, read, row: el('div', { class: 'shape-row' }, label, input) };
  };
  const shape = [...SHAPE, ...MORE_SHAPE].map(shapeRow);
  const moreSummary = el('summary', {});
  const thumb = el('div', { class: 'model-thumb' },
    shape.slice(0, SHAPE.length).map((s) => s.row),
    el('details', { class: 'fold small' }, moreSummary, shape.slice(SHAPE.length).map((s) => s.row)));

  // ---- config.json
  const area = el('textarea', { class: 'config', rows: 6, spellcheck: 'false', autocomplete: 'off', 'aria-labelledby': title.id, 'aria-describedby': help.id });
  let syntax = null;
  // What is pasted and cannot be read takes the place of what was refused before it.
  const refusePasted = (code) => {
    syntax = { code, path: 'model' };
    onRefuse(syntax);
    refresh();
  };
  const readConfig = (settled) => {
    syntax = null;
    if (area.value.trim() === '') { refresh(); return; }
    let value;
    try {
      value = JSON.parse(area.value.replace(/([[,]\s*)-?Infinity(?=\s*[,\]])/g, '$1null')); // as Python writes a limit that is none
    } catch {
      refusePasted('syntax');
      return;
    }
    if (isTree(value)) onChange(value, settled);
    else refusePasted('not_object');
  };
  area.addEventListener('input', () => readConfig(false));
  area.addEventListener('change', () => readConfig(true));

  const parts = { preset: combo.node, thumb, config: area };
  const tabs = Object.keys(parts).map((id) => {
    const radio = el('input', { type: 'radio', name, class: 'chip-radio' });
    const text = el('span', {});
    radio.addEventListener('change', () => {
      mode = id;
      if (id === 'thumb' && !isThumb(now.value)) onChange(asThumb(), true);
      else refresh();
    });
    return { id, radio, text, node: el('label', { class: 'seg' }, radio, text) };
  });
  const tablist = el('div', { class: 'segs', role: 'radiogroup', 'aria-labelledby': title.id }, tabs.map((t) => t.node));
  const facts = el('p', { class: 'model-facts' });
  const node = el('div', { class: 'field field-model', data: { path: 'model' } }, el('div', { class: 'field-head' }, title), tablist, Object.values(parts), facts, help);

  // The model at hand as a rule of thumb: its parameters as counted, its layers and width.
  function asThumb() {
    const config = typeof now.value === 'string' ? presets.models.find((m) => m.id === now.value)?.config ?? {} : now.value ?? {};
    const text = isTree(config.text_config) ? config.text_config : config;
    return {
      params: now.report?.model.params_total ?? 7e9,
      num_hidden_layers: text.num_hidden_layers ?? text.n_layer ?? 32,
      hidden_size: text.hidden_size ?? text.n_embd ?? 4096,
    };
  }

  function refresh() {
    const error = syntax ?? now.error;
    const shownMode = mode ?? modeOf(now.value);
    setText(title, fieldLabel('model'));
    setText(moreSummary, ui('more_shape'));
    for (const tab of tabs) {
      tab.radio.checked = tab.id === shownMode;
      setText(tab.text, ui(`model_${tab.id}`));
      show(parts[tab.id], tab.id === shownMode);
    }
    combo.set(now.value, typeof now.value === 'string' ? modelName(now.value, presets) : '');
    combo.input.placeholder = ui('search_model', { n: presets.models.length });
    area.placeholder = ui('paste_config');
    for (const s of shape) {
      setText(s.label, fieldLabel(`model.${s.key}`));
      const value = isThumb(now.value) ? now.value[s.key] : undefined;
      if (document.activeElement !== s.input || s.read() !== value) s.input.value = value === undefined ? '' : BIG.has(s.key) && typeof value === 'number' ? parameters(value) : String(value);
      setAttr(s.input, 'aria-invalid', now.error?.path === `model.${s.key}` ? 'true' : null);
    }
    if (shownMode === 'config' && document.activeElement !== area && modeOf(now.value) === 'config' && !syntax) area.value = JSON.stringify(now.value, null, 2);
    const m = now.report?.model;
    setText(facts, m && shownMode === modeOf(now.value) ? ui(m.params_active < m.params_total ? 'model_facts_moe' : 'model_facts', { total: count(m.params_total), short: parameters(m.params_total), active: parameters(m.params_active) }) : '');
    setText(help, error ? errorText(error) : fieldHelp(`model_${shownMode}`));
    help.classList.toggle('error', Boolean(error));
    for (const box of [combo.input, area]) setAttr(box, 'aria-invalid', error ? 'true' : null);
  }

  return {
    node,
    focus: () => (mode ?? modeOf(now.value)) === 'preset' && combo.input.focus(),
    update(next) {
      if (next.value !== now.value) { mode = null; if (document.activeElement !== area) syntax = null; }
      now = next;
      refresh();
    },
  };
}

// The model of an RL role: the same, none, … or any preset.
export function roleControl(field, { labelledby, describedby, presets, pricesOf, onPick }) {
  let now = {};
  const combo = combobox({
    labelledby, describedby,
    priced: { values: () => [...(field.values ?? []), ...presets.models.map((m) => m.id)], of: (some) => pricesOf(field.path, some) },
    itemsOf: (prices) => modelItems(presets, (id) => prices.get(id), now.unit, field.values ?? []),
    onPick,
  });
  return {
    node: el('div', { class: 'control' }, combo.node),
    wants: () => [],
    focus: () => combo.input.focus(),
    update(next) {
      now = next;
      combo.set(next.value, modelName(next.value, presets));
    },
  };
}
