// A chapter as a step of a path: what the interviewer asks, three sentences to say, the trap, and the homework. The texts lie with the scenarios; every
// number in them is the report's or the core's.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { both, ui, word } from './i18n.js';
import { alive, cardOf } from './reading.js';
import { modelName } from './model-field.js';
import { bytes, bytesFull, count, parameters, percent } from './units.js';

const HELD = ['weights', 'adapters', 'gradients', 'master_weights', 'optimizer'];
const sum = (entries) => entries.reduce((s, e) => s + e.bytes, 0);
const mostOf = (report, components) => Math.max(...report.phases.map((p) => sum(alive(report, p.id).filter((e) => components.includes(e.component)))));

// What the sentences may speak of: {name} -> text. Amounts are the most that a component holds in any phase.
export function guideVars(report, presets, unit) {
  const m = report.model;
  const s = report.scenario;
  const card = cardOf(report, presets);
  const amount = (n) => bytes(n, unit);
  const last = alive(report, report.phases.at(-1).id);
  const ofRole = (role) => amount(sum(last.filter((e) => e.role === role && HELD.includes(e.component))));
  const most = Object.fromEntries(['weights', 'kv_cache', 'gradients', 'master_weights', 'optimizer', 'activations', 'logits'].map((c) => [c, mostOf(report, [c])]));
  return {
    ...Object.fromEntries(Object.entries(most).map(([c, n]) => [c, amount(n)])),
    peak: amount(report.peak.bytes), usable: amount(card.fit.usable_bytes), card: card.name,
    params: parameters(m.params_total), active: parameters(m.params_active), trainable: count(m.params_trainable), percent: percent(m.params_trainable / m.params_total),
    each: bytes(most.weights / m.params_total, unit), weights_gb: bytes(most.weights, 'GB'), weights_gib: bytes(most.weights, 'GiB'),
    token: amount(most.kv_cache / ((s.context ?? 1) * (s.batch ?? 1))),
    rest: amount(mostOf(report, HELD)), small: amount(mostOf(report, ['adapters', 'gradients', 'optimizer', 'master_weights'])),
    actor: ofRole('actor'), critic: ofRole('critic'), reference: ofRole('reference'), reward: ofRole('reward'),
    rollout: amount(sum(alive(report, 'rollout').filter((e) => e.component === 'kv_cache'))),
  };
}
export const fillIn = (text, vars) => text.replace(/\{(\w+)\}/g, (all, name) => vars[name] ?? all);

// ---- the homework: small enough for any card, and of each chapter what it teaches. The commands, and the scenario that they are.
const SMALL = { model: 'qwen2.5-0.5b', repo: 'Qwen/Qwen2.5-0.5B' };
const EXPERTS = { model: 'olmoe-1b-7b-0125', repo: 'allenai/OLMoE-1B-7B-0125' };
const TOKENS = 1024;
const FEW = 16; // tokens of a step that has hardly any activations
const served = (of, more = {}) => ({ model: of.model, engine: 'transformers', context: TOKENS, prompt: TOKENS / 2, ...more });
const trained = (more = {}) => ({ task: 'training', model: SMALL.model, training: { precision: 'bf16', optimizer: 'adamw', attention: 'sdpa', sequence_length: TOKENS, micro_batch: 1, ...more } });
const made = (of, dtype = 'bfloat16') => `AutoModelForCausalLM.from_pretrained(
    "${of.repo}", dtype=torch.${dtype}).cuda()`;
const loading = (of) => `import torch
from transformers import AutoModelForCausalLM
model = ${made(of)}`;
const LOOK = 'print(torch.cuda.memory_allocated())';
const PEAK = 'print(torch.cuda.max_memory_allocated())';
const step = (batch, tokens = TOKENS) => `x = torch.randint(0, 1000, (${batch}, ${tokens}), device="cuda")
torch.cuda.reset_peak_memory_stats()
for _ in range(2):
    model(input_ids=x, labels=x).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
${PEAK}`;
const answers = (batch) => `x = torch.randint(0, 1000, (${batch}, ${TOKENS / 2}), device="cuda")
torch.cuda.reset_peak_memory_stats()
model.generate(x, min_new_tokens=${TOKENS / 2}, max_new_tokens=${TOKENS / 2})
${PEAK}`;
const ADAMW = 'optimizer = torch.optim.AdamW(model.train().parameters())';

// shows: which line of the core's log; copies: so many models are loaded, `beside`: so many more than the scenario has; against: the row that it is compared with
const load = (of) => ({ id: 'load', shows: 'torch_loaded', scenario: served(of), code: `${loading(of)}\n${LOOK}` });
const train = { id: 'train', shows: 'torch_peak', smi: true, scenario: trained(), code: `${loading(SMALL)}\n${ADAMW}\n${step(1)}\nprint(torch.cuda.memory_summary())` };
export const HOMEWORK = {
  1: [load(SMALL), { id: 'wide', shows: 'torch_loaded', scenario: served(SMALL, { weights: 'fp32' }), code: `del model\nmodel = ${made(SMALL, 'float32')}\n${LOOK}` }],
  2: [load(SMALL), { id: 'infer', shows: 'torch_peak', smi: true, scenario: served(SMALL), code: answers(1) },
    { id: 'four', shows: 'torch_peak', smi: true, scenario: served(SMALL, { batch: 4 }), against: 1, code: answers(4) }],
  3: [{ id: 'rest', shows: 'torch_peak', smi: true, scenario: trained({ sequence_length: FEW }), code: `${loading(SMALL)}\n${ADAMW}\n${step(1, FEW)}` },
    { id: 'plain', shows: 'torch_peak', scenario: trained({ sequence_length: FEW, optimizer: 'sgd' }), against: 0, code: `del optimizer\noptimizer = torch.optim.SGD(model.parameters())\n${step(1, FEW)}` }],
  4: [train, { id: 'batch', shows: 'torch_peak', smi: true, scenario: trained({ micro_batch: 2 }), against: 0, code: step(2) },
    { id: 'again', shows: 'torch_peak', scenario: trained({ micro_batch: 2, checkpointing: 'full' }), against: 1, code: `model.gradient_checkpointing_enable(\n    gradient_checkpointing_kwargs={"use_reentrant": False})\n${step(2)}` }],
  5: [load(SMALL), { id: 'models', shows: 'torch_loaded', scenario: served(SMALL), copies: 4, code: `others = [${made(SMALL)} for _ in range(3)]\n${LOOK}` },
    { id: 'beside', shows: 'torch_peak', scenario: trained(), beside: 3, code: `${ADAMW}\n${step(1)}` }],
  6: [train, { id: 'lora', shows: 'torch_peak', smi: true, against: 0, scenario: { ...trained(), weights: 'bf16', lora: { rank: 8, targets: 'qv' }, training: { ...trained().training, precision: 'mixed', method: 'lora' } },
    code: `from peft import LoraConfig, get_peft_model
del model, optimizer
model = get_peft_model(${made(SMALL)},
    LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW(
    p for p in model.train().parameters() if p.requires_grad)
${step(1)}` }],
  7: [load(EXPERTS), { id: 'experts', shows: 'torch_peak', smi: true, scenario: served(EXPERTS), code: answers(1) }],
};

// A line of the log, of several models at once: its number is that of all
const withNumber = (line, n) => ({ ...line, text: line.text.replace(String(line.values[0]), String(n)), values: [n] });

// `story`: the scenario that the chapters unfold; the path begins there. `claimLink`: its claim, checked; the path ends there.
export function makeGuide(question, root, { presets, core, story, linkOf, quizLink, claimLink }) {
  const asks = el('span', { class: 'guide-asks' });
  const asked = el('span', { class: 'guide-question' });
  question.append(asks, asked);
  const sayTitle = el('h2', {});
  const say = el('ol', { class: 'guide-say' });
  const back = el('a', {});
  const sayOf = el('p', { class: 'prose-note' }, el('span', {}), ' ', back);
  const trapTitle = el('h2', {});
  const trap = el('p', {});
  const top = el('div', { class: 'guide' }, el('div', {}, sayTitle, say, sayOf), el('div', { class: 'guide-trap' }, trapTitle, trap));

  const summary = el('summary', {});
  const lead = el('p', { class: 'prose-note' });
  const rows = el('ol', { class: 'homework' });
  const smi = el('p', { class: 'prose-note' });
  const homework = el('details', { class: 'fold small' }, summary, lead, rows, smi);
  const previous = el('a', { rel: 'prev', class: 'guide-previous' });
  const practice = el('a', { class: 'guide-practice' });
  const next = el('a', { rel: 'next', class: 'guide-next' });
  const path = el('nav', { class: 'guide-path' }, previous, practice, next);
  root.prepend(top);
  root.append(homework, path);
  homework.addEventListener('toggle', () => { if (homework.open) fillHomework(); });

  const chapters = presets.scenarios.filter((s) => s.chapter).sort((a, b) => a.chapter - b.chapter);
  let now = null;

  // Asked of the core only while it is open.
  function fillHomework() {
    const list = HOMEWORK[now?.chapter];
    if (!list) return; // only chapters have homework
    const { report, unit } = now;
    const { gpu } = report.scenario;
    const reports = list.map((h) => core.estimate({ ...h.scenario, gpu }));
    const lineOf = (r, id) => r.log.find((l) => l.id === id);
    const one = lineOf(core.estimate({ ...served(SMALL), gpu }), 'torch_loaded').values[0]; // a model that is only loaded
    const shown = list.map((h, i) => {
      const line = lineOf(reports[i], h.shows);
      return withNumber(line, line.values[0] * (h.copies ?? 1) + one * (h.beside ?? 0));
    });
    const [torch, dot, transformers, minor] = core.estimate({ ...trained(), gpu }).notes.find((n) => n.id === 'library_versions').values;
    setText(lead, ui('homework_lead', { model: modelName(list[0].scenario.model, presets), card: cardOf(report, presets).name, torch: `${torch}.${dot}`, transformers: `${transformers}.${minor}` }));
    keyed(rows, list.map((h, i) => ({ ...h, i, key: `${now.chapter}${h.id}` })), (h) => h.key,
      () => el('li', {}, el('p', { class: 'homework-what' }), el('pre', { tabindex: '0' }), el('p', { class: 'homework-see' }), el('ul', {})), (li, h) => {
        const [what, code, see, lines] = li.children;
        const more = h.against === undefined ? 0 : shown[h.i].values[0] - shown[h.against].values[0];
        setText(what, ui(`homework_${h.id}`, { n: bytes(Math.abs(more), unit) }));
        setText(code, h.code);
        setText(see, ui('homework_see'));
        const log = [shown[h.i], ...reports[h.i].log.filter((l) => h.smi && l.id === 'nvidia_smi')];
        keyed(lines, log, (l) => l.id, () => el('li', {}, el('code', {}), el('span', {})), (node, l) => {
          setText(node.firstChild, l.text);
          setText(node.lastChild, l.id === h.shows ? ` = ${bytes(l.values[0], 'GB')} = ${bytes(l.values[0], 'GiB')}` : '');
          setAttr(node, 'title', l.id === h.shows ? bytesFull(l.values[0]) : null);
        });
      });
    setText(smi, ui('homework_smi'));
  }
  const link = (a, href, text) => {
    show(a, href !== null);
    setAttr(a, 'href', href);
    setText(a, text);
  };
  const step = (a, n, otherwise = [null, '']) => {
    const chapter = chapters.find((c) => c.chapter === n);
    link(a, ...(chapter ? [linkOf(chapter.id), ui('guide_chapter', { n, name: word('chapter', String(n)) })] : otherwise));
  };

  return {
    // told: of the scenario as the preset states it, which may be the page's own
    update({ preset, report, told, unit }) {
      const s = presets.scenarios.find((p) => p.id === preset);
      const guided = Boolean(s?.say);
      for (const node of [question, top, path]) show(node, guided);
      show(homework, Boolean(guided && s.chapter));
      now = guided ? { report, unit, chapter: s.chapter } : null;
      if (!guided) return;
      const vars = guideVars(told, presets, unit);
      setText(asks, ui('guide_asks'));
      setText(asked, both(s.question));
      setText(sayTitle, ui('guide_say'));
      keyed(say, s.say.map((t, i) => ({ t, i })), (x) => x.i, () => el('li', {}), (li, x) => setProse(li, fillIn(both(x.t), vars)));
      show(sayOf, told !== report);
      setText(sayOf.firstChild, ui('guide_of'));
      link(back, linkOf(s.id), ui('guide_back'));
      setText(trapTitle, ui('guide_trap'));
      setProse(trap, fillIn(both(s.trap), vars));
      setText(summary, ui('homework'));
      if (homework.open) fillHomework();
      setAttr(path, 'aria-label', ui('guide_path'));
      step(previous, s.chapter - 1, s.chapter === 1 ? [linkOf(story), ui('guide_story')] : undefined);
      step(next, (s.chapter ?? 0) + 1, [claimLink(), ui('guide_last')]);
      if (s.chapter) link(practice, quizLink(String(s.chapter)), ui('guide_practice'));
      else link(practice, claimLink(), ui('guide_claim'));
    },
  };
}
