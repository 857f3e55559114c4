// The claim check: a sentence with gaps, and whether it can be true. The sentence is the scenario itself, said as people say it; the answer and the
// cheapest changes that would make it true come from the core.
import { segmentName } from './card.js';
import { combobox } from './combobox.js';
import { freshId } from './controls.js';
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { isTree, same } from './paths.js';
import { has, rich, sentences, ui, word } from './i18n.js';
import { modelItems, modelName } from './model-field.js';
import { colourClass } from './palette.js';
import { cardOf, demandOf, groups } from './reading.js';
import { errorText, fieldLabel, valueWord } from './texts.js';
import { bytes, bytesFull, count, difference, readCount } from './units.js';

const REST = 250; // ms without a change before the core searches: some hundred estimates
const SMALL = 0.004; // of the sum: a part that is written together with the other small ones

// What was done: what it says about the scenario, and how it is known again.
const DID = {
  full: { patch: { task: 'training', 'training.method': 'full', weights: undefined }, is: (s) => s.task === 'training' && s.training.method === 'full' },
  lora: { patch: { task: 'training', 'training.method': 'lora', weights: 'bf16' }, is: (s) => s.task === 'training' && s.training.method === 'lora' && !/^nf4/.test(s.weights) },
  qlora: { patch: { task: 'training', 'training.method': 'lora', weights: 'nf4-dq' }, is: (s) => s.task === 'training' && s.training.method === 'lora' },
  ppo: { patch: { task: 'rl', 'rl.algorithm': 'ppo', 'training.method': 'full', weights: undefined }, is: (s) => s.task === 'rl' && s.rl.algorithm === 'ppo' },
  grpo: { patch: { task: 'rl', 'rl.algorithm': 'grpo', 'rl.critic': undefined, 'training.method': 'full', weights: undefined }, is: (s) => s.task === 'rl' && s.rl.algorithm === 'grpo' },
  dpo: { patch: { task: 'rl', 'rl.algorithm': 'dpo', 'rl.critic': undefined, 'rl.reward': undefined, 'training.method': 'full', weights: undefined }, is: (s) => s.task === 'rl' && s.rl.algorithm === 'dpo' },
  served: { patch: { task: 'inference', 'training.method': undefined, weights: undefined }, is: (s) => s.task === 'inference' },
};

// What was optimised: paths and values; a field that another of the list names and this one does not is at its default. GPUS: the number of them.
const GPUS = 'GPUS';
const full = { 'training.checkpointing': 'full' };
const zero = { 'parallel.zero': 3, 'parallel.data': GPUS };
const TRAINED = {
  nothing: {}, checkpointing: full, bf16: { ...full, 'training.precision': 'bf16' }, adam8: { ...full, 'training.optimizer': 'adamw-8bit' },
  offload: { ...full, 'parallel.offload': 'optimizer' }, zero, zero_checkpointing: { ...zero, ...full },
};
const SERVED = {
  nothing: {}, tensor: { 'parallel.tensor': GPUS }, eight: { weights: 'fp8' }, four: { weights: 'int4' }, four_tensor: { weights: 'int4', 'parallel.tensor': GPUS },
};
const howOf = (task) => (task === 'inference' ? SERVED : TRAINED);
// What is meant where nothing is said, of fields whose default depends on others.
const UNDIVIDED = { 'parallel.data': 1, 'parallel.tensor': 1, 'parallel.zero': 0, weights: 'bf16' };
const fieldsOf = (how) => [...new Set(Object.values(how).flatMap(Object.keys))];
const LENGTH = { inference: 'context', training: 'training.sequence_length', rl: 'rl.response' };
const COUNT = { inference: 'batch', training: 'training.micro_batch', rl: 'rl.rollout_batch' };

// Models as one says them.
const thumb = (params, layers, hidden, active) => ({ params, ...(active ? { params_active: active } : {}), num_hidden_layers: layers, hidden_size: hidden });
const THUMBS = [thumb(7e9, 32, 4096), thumb(13e9, 40, 5120), thumb(34e9, 48, 8192), thumb(70e9, 80, 8192), thumb(32e9, 48, 2048, 3e9)];

// Claims to try, the lecture's first: a preset, or a whole scenario.
const seven = THUMBS[0];
export const CLAIMS = [
  { id: 'lecture', preset: 'one-a100' },
  { id: 'eight', scenario: { task: 'training', model: seven, gpu: 'a100-80gb', gpus: 8 } },
  { id: 'lora_4090', scenario: { task: 'training', model: seven, weights: 'bf16', training: { method: 'lora' }, gpu: 'rtx-4090' } },
  { id: 'qlora_70b', scenario: { task: 'training', model: 'llama-3.1-70b', weights: 'nf4-dq', training: { method: 'lora', checkpointing: 'full' }, gpu: 'rtx-4090' } },
  { id: 'ppo', scenario: { task: 'rl', model: seven, gpu: 'a100-80gb' } },
  { id: 'moe_4090', scenario: { model: THUMBS[4], gpu: 'rtx-4090' } },
  { id: 'batch_16', scenario: { model: seven, batch: 16, gpu: 'rtx-4090' } },
];

// A gap does not part from the comma or full stop behind it.
const withStops = (parts) => parts.flatMap((part, i) => {
  const stop = (text) => /^[，。,.]/.exec(text)?.[0] ?? '';
  if (typeof part === 'string') return part.slice(i ? stop(part).length : 0) || [];
  const next = parts[i + 1];
  return typeof next === 'string' && stop(next) ? [el('span', { class: 'gap-end' }, part, stop(next))] : [part];
});

const sumOf = (list) => list.reduce((sum, x) => sum + x.bytes, 0);
const at = (tree, path) => path.split('.').reduce((t, k) => (isTree(t) ? t[k] : undefined), tree);

export function makeClaim(root, { presets, index, ask, linkOf, onPatch, onOpen }) {
  const head = el('h1', { class: 'view-title' });
  const lead = el('p', { class: 'view-lead' });
  const examples = el('p', { class: 'claim-examples' });

  // ---- the sentence
  const labels = {};
  const label = (id) => (labels[id] = el('span', { class: 'vh', id: freshId('claim') }));
  const select = (id, onPick) => {
    const node = el('select', { class: 'gap', 'aria-labelledby': label(id).id });
    node.addEventListener('change', () => onPick(node.value));
    return node;
  };
  const chosen = (node) => el('span', { class: 'gap-select' }, node);
  const box = (id, onPick) => {
    const node = el('input', { type: 'text', inputmode: 'numeric', autocomplete: 'off', class: 'gap gap-number', 'aria-labelledby': label(id).id });
    node.addEventListener('change', () => onPick(node.value.trim() === '' ? undefined : readCount(node.value)));
    return node;
  };
  const pick = (id, itemsOf, onPick) => {
    const combo = combobox({ labelledby: label(id).id, itemsOf, onPick });
    combo.node.classList.add('gap-combo');
    return combo;
  };
  let now = null;
  const gpus = () => now.report.scenario.gpus ?? 1;
  const howPatch = (how, task, n) => Object.fromEntries(fieldsOf(howOf(task)).map((path) => [path, how[path] === GPUS ? (n > 1 ? n : undefined) : how[path]]));
  const did = select('did', (id) => {
    const { patch } = DID[id];
    onPatch({ ...howPatch({}, now.task === 'inference' ? 'inference' : 'training', 1), ...patch });
  });
  const model = pick('model', () => [
    ...THUMBS.map((m) => ({ value: `~${JSON.stringify(m)}`, label: thumbName(m), sub: ui('model_thumb') })), ...modelItems(presets, null, now.unit),
  ], (value) => onPatch({ model: value.startsWith('~') ? JSON.parse(value.slice(1)) : value }));
  const number = box('gpus', (n) => onPatch({ gpus: n, ...(now.how in howOf(now.task) ? withoutWeights(howPatch(howOf(now.task)[now.how], now.task, n ?? 1)) : {}) }));
  const gpu = pick('gpu', () => presets.gpus.map((g) => ({ value: g.id, label: g.name, sub: bytes(g.memory_bytes, now.unit), group: g.vendor })), (value) => onPatch({ gpu: value }));
  const how = select('how', (id) => onPatch(howPatch(howOf(now.task)[id], now.task, gpus())));
  const tokens = box('tokens', (n) => onPatch({ [LENGTH[now.task]]: n }));
  const batch = box('batch', (n) => onPatch({ [COUNT[now.task]]: n }));
  const sentence = el('div', { class: 'claim-sentence' });
  const problem = el('p', { class: 'field-note error', hidden: true });
  const form = el('form', { class: 'claim-form', autocomplete: 'off' }, Object.values(labels), sentence, problem);
  form.addEventListener('submit', (event) => event.preventDefault());

  const thumbName = (m) => (m.params_active ? ui('claim_moe', { total: modelName({ params: m.params }, presets), active: modelName({ params: m.params_active }, presets) }) : modelName(m, presets));
  const withoutWeights = (patch) => Object.fromEntries(Object.entries(patch).filter(([path]) => path.startsWith('parallel.')));

  function options(node, ids, textOf, value) {
    keyed(node, ids, (id) => id, (id) => el('option', { value: id }), (option, id) => setText(option, textOf(id)));
    node.value = value;
  }

  function fillForm() {
    const s = now.report.scenario;
    if (sentence.dataset.words !== document.documentElement.dataset.words) {
      sentence.dataset.words = document.documentElement.dataset.words;
      sentence.replaceChildren(...withStops(rich('ui', 'claim_sentence', { did: chosen(did), model: model.node, n: number, gpu: gpu.node, how: chosen(how), tokens, batch })));
      for (const [id, node] of Object.entries(labels)) setText(node, ui(`claim_label_${id}`));
    }
    const given = s.model;
    options(did, Object.keys(DID), (id) => word('claim_did', id), Object.keys(DID).find((id) => DID[id].is(s)));
    options(how, [...Object.keys(howOf(now.task)), ...(now.how === 'own' ? ['own'] : [])], (id) => word('claim_how', id), now.how);
    const name = isTree(given) && given.params ? thumbName(given) : modelName(given, presets);
    model.set(typeof given === 'string' ? given : `~${JSON.stringify(given)}`, name);
    gpu.set(s.gpu?.preset ?? s.gpu, cardOf(now.report, presets).name);
    for (const [node, value] of [[number, gpus()], [tokens, at(s, LENGTH[now.task])], [batch, at(s, COUNT[now.task])]]) {
      if (document.activeElement !== node) node.value = String(value);
      node.style.setProperty('width', `calc(${Math.max(2, String(value).length)}ch + 22px)`);
    }
    setAttr(model.input, 'size', Math.max(4, Math.min(24, name.length + 2)));
    setAttr(gpu.input, 'size', Math.max(6, Math.min(22, cardOf(now.report, presets).name.length)));
    show(problem, Boolean(now.error));
    setText(problem, now.error ? errorText(now.error) : '');
  }

  // Which of the ready ways the scenario was optimised in; "own": in another.
  function howNow(s) {
    const n = s.gpus ?? 1;
    const list = howOf(s.task);
    const fallback = (path) => index.byPath.get(path)?.default;
    const wanted = (id, path) => (list[id][path] === GPUS ? n : list[id][path] ?? UNDIVIDED[path] ?? fallback(path));
    const fits = (id) => fieldsOf(list).every((path) => same(at(s, path), wanted(id, path)));
    return Object.keys(list).find(fits) ?? 'own';
  }

  // ---- the answer
  const verdict = el('h2', { class: 'claim-verdict' });
  const against = el('p', { class: 'claim-against' });
  const sum = el('p', { class: 'claim-sum' });
  const because = el('p', { class: 'claim-because' });
  const sets = el('ol', { class: 'claim-sets' });
  const whatIsCheap = el('p', { class: 'prose-note' });
  const answer = el('div', { class: 'claim-answer', 'aria-live': 'polite' }, verdict, against, sum, because, sets, whatIsCheap);
  root.append(head, lead, form, answer, examples);

  // The bill as one says it: each thing that is alive at the peak, the two moments apart; of several models, each model.
  function terms() {
    const { report, lists } = now;
    const { bytes: total, entries } = demandOf(report);
    const segments = groups(entries, lists);
    const roles = [...new Set(segments.map((g) => g.role))];
    const parts = roles.length > 1 ? roles.map((role) => ({ key: role, component: 'weights', name: word('role', role), bytes: sumOf(segments.filter((g) => g.role === role)) })) : segments.flatMap((g) => (g.component === 'optimizer' && g.entries.length === 2
      ? g.entries.map((e, i) => ({ key: `${g.key}${i}`, component: g.component, name: word('what', e.what), bytes: e.bytes }))
      : [{ key: g.key, component: g.component, name: segmentName(g), bytes: g.bytes }]));
    const left = sumOf(parts.filter((p) => p.bytes < total * SMALL)) + total - sumOf(parts); // an engine's budget rounds to blocks
    return [...parts.filter((p) => p.bytes >= total * SMALL), ...(left !== 0 ? [{ key: 'rest', component: 'fragmentation', name: ui('claim_rest'), bytes: left }] : [])];
  }

  function fillBill() {
    const { report, unit } = now;
    const { bytes: total, phase, room } = demandOf(report);
    keyed(sum, [...terms(), { key: '=', total }], (t) => t.key, (t) => (t.key === '=' ? el('strong', { class: 'claim-total' }) : el('span', { class: 'term' }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', {}))), (node, t) => {
      if (t.key === '=') { setText(node, `= ${bytes(t.total, unit)} ${t.total > room ? '>' : '≤'} ${bytes(room, unit)}`); setAttr(node, 'title', `${bytesFull(t.total)} / ${bytesFull(room)}`); return; }
      node.firstChild.className = `swatch ${colourClass(t.component)}`;
      setText(node.lastChild, `${bytes(t.bytes, unit)} ${t.name}`);
      setAttr(node, 'title', bytesFull(t.bytes));
    });
    const card = cardOf(report, presets);
    setProse(against, ui(gpus() > 1 ? 'claim_against_many' : 'claim_against', { n: gpus(), phase: word('phase_at', phase), need: bytes(total, unit), card: card.name, has: bytes(room, unit) }));
  }

  const valueText = (path, value) => (typeof value === 'number' ? count(value) : value === null ? '' : valueWord(path, value));
  function changeText(c) {
    const vars = { from: valueText(c.path, c.from), value: valueText(c.path, c.value), n: gpus() };
    return has('change', c.path) ? word('change', c.path, vars) : `${fieldLabel(c.path)}: ${vars.from} → ${vars.value}`;
  }

  function makeSet() {
    const or = el('span', { class: 'claim-or' });
    const list = el('ul', {});
    const after = el('p', { class: 'claim-after' });
    const open = el('button', { type: 'button', class: 'tool' });
    const node = el('li', { class: 'claim-set' }, or, list, after, open);
    open.addEventListener('click', () => onOpen(Object.fromEntries(node.set.changes.map((c) => [c.path, c.value]))));
    node.parts = { or, list, after, open };
    return node;
  }
  function fillSet(node, set) {
    const { or, list, after, open } = node.parts;
    node.set = set;
    setText(or, ui(set.at ? 'claim_or' : 'claim_cheapest'));
    keyed(list, set.changes.filter((c) => c.path !== 'parallel.data'), (c) => c.path, () => el('li', {}, el('span', {}), el('span', { class: 'claim-saves' })), (li, c) => {
      setText(li.firstChild, changeText(c));
      setText(li.lastChild, c.saves_bytes ? difference(-c.saves_bytes, now.unit) : '');
      setAttr(li.lastChild, 'title', bytesFull(c.saves_bytes));
    });
    const { room } = demandOf(now.report);
    setProse(after, `${bytes(now.claim.needed_bytes, now.unit)} − ${bytes(now.claim.needed_bytes - set.changed_needed_bytes, now.unit)} = ${bytes(set.changed_needed_bytes, now.unit)} ≤ ${bytes(room, now.unit)}`);
    setText(open, ui('claim_open'));
  }

  function fillAnswer() {
    const { claim, report, unit } = now;
    const fits = report.fits[0].verdict !== 'no';
    const said = claim?.verdict ?? (fits ? 'possible' : 'searching');
    answer.dataset.verdict = said;
    setText(verdict, ui(`claim_${said}`));
    fillBill();
    const list = claim?.verdict === 'only_if' ? [claim, ...claim.alternatives].map((s, i) => ({ ...s, at: i })) : [];
    keyed(sets, list, (s) => s.at, makeSet, fillSet);
    const another = list.length && list[0].changes.some((c) => c.path === 'training.method');
    const host = list.some((s) => s.changes.some((c) => c.path === 'parallel.offload'));
    const few = report.notes.find((n) => n.id === 'gpus_below_product')?.values;
    setProse(because, said === 'no' && few ? ui('claim_no_degrees', { n: count(few[0]), of: count(few[1]) })
      : said === 'no' ? sentences(ui('claim_no_even', { n: bytes(claim.least_needed_bytes, unit) }), report.fits[0].gpus_needed > 0 && ui('claim_no_gpus', { n: count(report.fits[0].gpus_needed) }))
      : another ? ui('claim_another') : said === 'possible' && report.fits[0].verdict === 'tight' ? ui('claim_tight') : '');
    show(because, because.textContent !== '');
    setText(whatIsCheap, sentences(ui('claim_cost'), host && ui('claim_host')));
    show(whatIsCheap, list.length > 0);
  }

  let timer = 0;
  let asked = null;
  return {
    update({ slot, report, lists, unit }) {
      const s = report.scenario;
      const scenario = JSON.stringify(slot.scenario);
      const known = asked === scenario ? now?.claim : null;
      now = { slot, report, lists, unit, task: s.task, error: slot.error, how: howNow(s), claim: known };
      setText(head, ui('view_claim'));
      setText(lead, ui('claim_lead'));
      fillForm();
      fillAnswer();
      keyed(examples, [{ id: 'title' }, ...CLAIMS], (c) => c.id, (c) => (c.id === 'title' ? el('span', {}) : el('a', {})), (node, c) => {
        setText(node, c.id === 'title' ? ui('claim_try') : c.preset ? ui('claim_lecture') : word('claim_example', c.id));
        if (c.id !== 'title') setAttr(node, 'href', linkOf(c));
      });
      if (known || slot.error) return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        asked = scenario;
        const answered = ask(slot.scenario);
        if (answered.error) return;
        now.claim = answered;
        fillAnswer();
      }, REST);
    },
  };
}
