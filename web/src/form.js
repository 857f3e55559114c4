// The form. Built once from the core's tables; every change only updates it in place.
import { combobox } from './combobox.js';
import { chips, freshId, names, number } from './controls.js';
import { divisionButton, divisionPatch, divisionText } from './division.js';
import { el, setAttr, setText, show } from './dom.js';
import { choices, fallback, isVisible, readValue } from './fields.js';
import { ui, word } from './i18n.js';
import { ELSEWHERE, FIRST, GROUP_IDS, groupOf } from './layout.js';
import { modelField, roleControl } from './model-field.js';
import { getPath, isTree, same, withDegree } from './paths.js';
import { errorText, fieldAlone, fieldHelp, fieldLabel, valueWord } from './texts.js';
import { bytesFull, bytesShort, count, readCount } from './units.js';

// actions: {patch(patch, settled), divide(patch), prices(path, values) -> Map}
export function makeForm(root, { index, presets, actions }) {
  const pick = (path) => (value) => actions.patch(withDegree(path, value), true);
  const type = (path) => (value) => actions.patch(withDegree(path, value), false);

  // ---- one field: label, what is chosen, one line of help that an error takes the place of
  function makeField(field) {
    const { path } = field;
    const id = freshId('field');
    const note = el('p', { class: 'field-note', id: `${id}-note` });
    const label = el(field.type === 'integer' || field.type === 'number' ? 'label' : 'span', { class: 'field-label', id: `${id}-label` });
    const reset = el('button', { type: 'button', class: 'reset', hidden: true }, '↺');
    const common = { labelledby: label.id, describedby: note.id, onPick: pick(path), onInput: type(path), pricesOf: actions.prices };
    let control;
    if (field.type === 'role_model') control = roleControl(field, { ...common, presets });
    else if (field.type === 'names') control = names(field, common);
    else if (choices(field).length) control = chips(field, common);
    else {
      control = number(field, { ...common, id });
      label.setAttribute('for', id);
    }
    reset.addEventListener('click', () => { actions.reset(path); control.focus(); });
    const node = el('div', { class: 'field', data: { path } }, el('div', { class: 'field-head' }, label, reset), control.node, note);
    return { field, path, node, control, label, note, reset };
  }

  // ---- task
  const taskField = index.byPath.get('task');
  const taskName = freshId('task');
  const taskLabel = el('span', { class: 'vh', id: freshId('label') });
  const taskParts = taskField.values.map((value) => {
    const radio = el('input', { type: 'radio', name: taskName, class: 'chip-radio', value });
    radio.addEventListener('change', () => actions.patch({ task: value }, true));
    const text = el('span', {});
    return { value, radio, text, node: el('label', { class: 'seg' }, radio, text) };
  });
  const task = el('div', { class: 'segs task', role: 'radiogroup', 'aria-labelledby': taskLabel.id }, taskLabel, taskParts.map((p) => p.node));

  // ---- model
  const model = modelField({ presets, pricesOf: (values) => actions.prices('model', values), onChange: (value, settled) => actions.patch({ model: value }, settled), onRefuse: actions.refuse });

  // ---- GPU and how many
  const gpuLabel = el('span', { class: 'field-label', id: freshId('gpu') });
  const gpuHelp = el('span', {});
  const divide = divisionButton(actions.divide); // over the GPUs that are there
  const gpuNote = el('p', { class: 'field-note', id: freshId('note') }, gpuHelp, divide);
  const gpuCombo = combobox({ labelledby: gpuLabel.id, describedby: gpuNote.id, priced: { values: () => presets.gpus.map((g) => g.id), of: (ids) => actions.prices('gpu', ids) }, itemsOf: gpuItems, onPick: (value) => actions.patch({ gpu: value }, true) });
  const gpusField = index.byPath.get('gpus');
  const gpusId = freshId('gpus');
  const gpusLabel = el('label', { class: 'vh', for: gpusId });
  const gpusInput = el('input', { id: gpusId, type: 'text', inputmode: 'numeric', autocomplete: 'off', class: 'number', 'aria-describedby': gpuNote.id });
  const readGpus = () => readValue(gpusField, gpusInput.value);
  gpusInput.addEventListener('input', () => actions.patch({ gpus: readGpus() }, false));
  gpusInput.addEventListener('change', () => actions.patch({ gpus: readGpus() }, true));
  const gpu = el('div', { class: 'field field-gpu', data: { path: 'gpu' } }, el('div', { class: 'field-head' }, gpuLabel),
    el('div', { class: 'gpu-row' }, gpuCombo.node, el('span', { class: 'times', 'aria-hidden': 'true' }, '×'), gpusLabel, gpusInput), gpuNote);

  // How many it takes is known of the card that is chosen alone: of the others a price does not search.
  const takes = (id, fit) => (fit.verdict === 'no' && id === now.valueOf('gpu') && now.cards?.value > 0 ? ui('verdict_takes', { n: count(now.cards.value) }) : null);

  function gpuItems(prices) {
    return presets.gpus.map((g) => {
      const fit = prices.get(g.id);
      const right = !fit ? '' : fit.error ? ui('refused') : takes(g.id, fit) ?? word('verdict', fit.verdict);
      return { value: g.id, label: g.name, group: g.vendor, sub: bytesShort(g.memory_bytes, now.unit), right, title: `${g.vendor} · ${bytesFull(g.memory_bytes)}` };
    });
  }

  // ---- all other fields, each once; they move between "first" and their group as the task changes
  const fields = index.fields.filter((f) => !ELSEWHERE.has(f.path)).map(makeField);
  const first = el('div', { class: 'fields' });
  const groups = GROUP_IDS.map((id) => {
    const title = el('span', {});
    const changed = el('span', { class: 'changed' });
    const body = el('div', { class: 'fields' });
    const node = el('details', { class: 'fold', data: { group: id }, on: { toggle: () => { if (node.open) actions.opened(); } } }, el('summary', {}, title, changed), body);
    return { id, title, changed, body, node };
  });

  // what the small numbers under the options are
  const keyText = el('span', {});
  const keyMarks = ['fits', 'tight', 'no'].map((verdict) => ({ verdict, node: el('span', { class: 'chip-price', data: { verdict } }) }));
  const key = el('p', { class: 'price-key' }, keyText, keyMarks.map((k) => k.node));

  // The total that one's own driver prints, in the unit it prints it in.
  const MIB = 2 ** 20;
  const ownId = freshId('memory');
  const ownLabel = el('label', { class: 'field-label', for: ownId });
  const ownInput = el('input', { id: ownId, type: 'text', inputmode: 'numeric', autocomplete: 'off', class: 'number', 'aria-describedby': `${ownId}-note` });
  const ownNote = el('p', { class: 'field-note', id: `${ownId}-note` });
  const own = el('div', { class: 'field', data: { path: 'gpu.memory_bytes' } }, el('div', { class: 'field-head' }, ownLabel),
    el('div', { class: 'control' }, el('span', { class: 'number-box' }, ownInput, el('span', { class: 'number-unit', 'aria-hidden': 'true' }, 'MiB'))), ownNote);
  const gpuIdNow = () => { const value = now.valueOf('gpu'); return (isTree(value) ? value.preset : value) ?? fallback(index.byPath.get('gpu')); };
  const sendOwn = (settled) => {
    const mib = readCount(ownInput.value);
    actions.patch({ gpu: ownInput.value.trim() === '' ? gpuIdNow() : { preset: gpuIdNow(), memory_bytes: typeof mib === 'number' ? mib * MIB : mib } }, settled);
  };
  ownInput.addEventListener('input', () => sendOwn(false));
  ownInput.addEventListener('change', () => sendOwn(true));
  groups.at(-1).body.append(own);

  root.append(task, model.node, gpu, key, first, ...groups.map((g) => g.node));

  let now = null;
  let arranged = null;

  // A chapter names the fields that matter for it; otherwise the task's come first.
  let order = [];
  function arrange(taskId, chapter) {
    const key = `${taskId} ${chapter ?? ''}`;
    if (arranged === key) return;
    arranged = key;
    order = chapter ?? FIRST[taskId] ?? [];
    const place = new Map(order.map((path, i) => [path, i]));
    for (const f of [...fields].sort((a, b) => (place.get(a.path) ?? 999) - (place.get(b.path) ?? 999))) {
      (place.has(f.path) ? first : groups.find((g) => g.id === groupOf(f.path)).body).append(f.node);
    }
  }

  const visible = (f) => isVisible(f.field, now.valueOf);
  const isChanged = (path) => {
    const value = getPath(now.slot.scenario, path);
    const base = getPath(now.base, path);
    return value !== undefined && !same(value, base ?? fallback(index.byPath.get(path)));
  };

  return {
    // {path: [values]} whose prices can be seen now: not those of closed folds
    wants() {
      const out = {};
      for (const f of fields) {
        if (f.node.hidden || f.node.closest('details:not([open])')) continue;
        const values = f.control.wants();
        if (values.length) out[f.path] = values;
      }
      return out;
    },

    // context: {slot, base, valueOf, unit, prices: {path: [...]}, cards}; the prices may be those of a moment ago
    update(context) {
      now = context;
      const { slot, valueOf, unit, prices } = context;
      const error = slot.error;
      const peak = slot.error ? null : slot.report?.peak.bytes ?? null;
      setText(taskLabel, fieldLabel('task'));
      for (const part of taskParts) {
        part.radio.checked = part.value === valueOf('task');
        setText(part.text, valueWord('task', part.value));
      }
      arrange(valueOf('task'), context.first);
      const under = (path) => (error && (error.path === path || error.path?.startsWith(`${path}.`)) ? error : null);
      model.update({ value: getPath(slot.scenario, 'model') ?? slot.report?.scenario.model, report: slot.report, unit, error: under('model') });

      setText(keyText, ui('price_key'));
      for (const k of keyMarks) setText(k.node, word('verdict', k.verdict));
      setText(gpuLabel, fieldLabel('gpu'));
      setText(gpusLabel, fieldLabel('gpus'));
      const gpuValue = valueOf('gpu');
      const gpuId = gpuIdNow();
      const preset = presets.gpus.find((g) => g.id === gpuId);
      setText(ownLabel, fieldLabel('gpu.memory_bytes'));
      const ownError = under('gpu.memory_bytes');
      setText(ownNote, ownError ? errorText(ownError) : fieldHelp('gpu.memory_bytes'));
      ownNote.classList.toggle('error', Boolean(ownError));
      setAttr(ownInput, 'aria-invalid', ownError ? 'true' : null);
      ownInput.placeholder = preset ? String(Math.round(preset.memory_bytes / MIB)) : '';
      const ownBytes = isTree(gpuValue) ? gpuValue.memory_bytes : undefined;
      const ownMib = typeof ownBytes === 'number' ? String(ownBytes / MIB) : ownBytes ?? ''; // what is no number stays as it was typed
      if (document.activeElement !== ownInput) ownInput.value = ownMib;
      gpuCombo.set(gpuId, preset?.name ?? String(gpuId ?? ''));
      const gpus = getPath(slot.scenario, 'gpus');
      if (document.activeElement !== gpusInput || !same(readGpus(), gpus)) gpusInput.value = gpus ?? '';
      gpusInput.placeholder = String(slot.report?.scenario.gpus ?? '');
      const gpuError = under('gpu') ?? under('gpus');
      const over = gpuError ? null : context.cards?.over;
      show(gpuHelp, !over);
      show(divide, Boolean(over));
      setText(gpuHelp, gpuError ? errorText(gpuError) : fieldHelp('gpu'));
      if (over) {
        setText(divide, ui(over.verdict === 'no' ? 'divide_over_no' : 'divide_over', { n: count(over.gpus), division: divisionText(over.parallel, slot.report.scenario) }));
        divide.patch = divisionPatch(over.parallel, slot.report.scenario);
      }
      gpuNote.classList.toggle('error', Boolean(gpuError));
      setAttr(gpusInput, 'aria-invalid', under('gpus') ? 'true' : null);

      const counts = new Map(GROUP_IDS.map((id) => [id, { visible: 0, changed: 0, error: false }]));
      for (const f of fields) {
        const on = visible(f) || Boolean(under(f.path));
        show(f.node, on);
        if (!on) continue;
        const problem = under(f.path);
        const changed = isChanged(f.path);
        if (!order.includes(f.path)) {
          const c = counts.get(groupOf(f.path));
          c.visible += 1;
          c.changed += changed ? 1 : 0;
          c.error ||= Boolean(problem);
        }
        setText(f.label, fieldLabel(f.path));
        setText(f.note, problem ? errorText(problem) : fieldAlone(f.path, valueOf));
        f.note.classList.toggle('error', Boolean(problem));
        f.node.classList.toggle('is-changed', changed);
        show(f.reset, changed);
        setAttr(f.reset, 'aria-label', ui('reset', { field: fieldLabel(f.path) }));
        setAttr(f.reset, 'title', ui('reset', { field: fieldLabel(f.path) }));
        const known = prices[f.path] ?? [];
        f.control.update({ value: valueOf(f.path), said: getPath(slot.scenario, f.path), price: (v) => known.find((p) => same(p.value, v)) ?? null, peak, unit });
        for (const box of f.node.querySelectorAll('input, select, textarea')) setAttr(box, 'aria-invalid', problem ? 'true' : null);
      }
      for (const g of groups) {
        const c = counts.get(g.id);
        show(g.node, c.visible > 0);
        setText(g.title, ui(`group_${g.id}`));
        setText(g.changed, c.changed ? ui('changed', { n: c.changed }) : '');
        if (c.error) g.node.open = true;
      }
    },
  };
}
