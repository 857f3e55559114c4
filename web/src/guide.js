// A chapter as a step of a path: what the interviewer asks, three sentences to say, the trap, and the homework. The texts lie with the scenarios; every
// number in them is the report's or the core's.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { both, ui, word } from './i18n.js';
import { alive, cardOf } from './reading.js';
import { bytes, bytesFull, count, difference, parameters, percent } from './units.js';

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

// ---- the homework: small enough for any card. The commands, and the scenario that they are.
const MODEL = 'qwen2.5-0.5b';
const REPO = 'Qwen/Qwen2.5-0.5B';
const TOKENS = 1024;
const trained = (batch) => ({ task: 'training', model: MODEL, training: { precision: 'bf16', optimizer: 'adamw', attention: 'sdpa', sequence_length: TOKENS, micro_batch: batch } });
const step = (batch) => `x = torch.randint(0, 1000, (${batch}, ${TOKENS}), device="cuda")
torch.cuda.reset_peak_memory_stats()
for _ in range(2):
    model(input_ids=x, labels=x).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())`;
export const HOMEWORK = [
  { id: 'load', shows: 'torch_loaded', scenario: { model: MODEL, engine: 'transformers', context: TOKENS, prompt: TOKENS / 2 },
    code: `import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(
    "${REPO}", dtype=torch.bfloat16).cuda()
print(torch.cuda.memory_allocated())` },
  { id: 'infer', shows: 'torch_peak', smi: true, scenario: { model: MODEL, engine: 'transformers', context: TOKENS, prompt: TOKENS / 2 },
    code: `x = torch.randint(0, 1000, (1, ${TOKENS / 2}), device="cuda")
model.generate(x, min_new_tokens=${TOKENS / 2}, max_new_tokens=${TOKENS / 2})
print(torch.cuda.max_memory_allocated())` },
  { id: 'train', shows: 'torch_peak', smi: true, scenario: trained(1), code: `optimizer = torch.optim.AdamW(model.train().parameters())\n${step(1)}\nprint(torch.cuda.memory_summary())` },
  { id: 'batch', shows: 'torch_peak', smi: true, scenario: trained(2), code: step(2) },
];

// `story`: the scenario that the chapters unfold; the path begins there. `claimLink`: its claim, checked; the path ends there.
export function makeGuide(question, root, { presets, core, story, linkOf, quizLink, claimLink }) {
  const asks = el('span', { class: 'guide-asks' });
  const asked = el('span', { class: 'guide-question' });
  question.append(asks, asked);
  const sayTitle = el('h2', {});
  const say = el('ol', { class: 'guide-say' });
  const trapTitle = el('h2', {});
  const trap = el('p', {});
  const top = el('div', { class: 'guide' }, el('div', {}, sayTitle, say), el('div', { class: 'guide-trap' }, trapTitle, trap));

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
  homework.addEventListener('toggle', () => { if (homework.open && now) fillHomework(); });

  const chapters = presets.scenarios.filter((s) => s.chapter).sort((a, b) => a.chapter - b.chapter);
  let now = null;

  // Asked of the core only while it is open.
  function fillHomework() {
    const { report, unit } = now;
    const { gpu } = report.scenario;
    const reports = HOMEWORK.map((h) => core.estimate({ ...h.scenario, gpu }));
    const peaks = reports.map((r) => r.log.find((l) => l.id === 'torch_peak')?.values[0] ?? 0);
    const [torch, dot, transformers, minor] = reports[2].notes.find((n) => n.id === 'library_versions').values;
    setText(lead, ui('homework_lead', { card: cardOf(report, presets).name, version: `PyTorch ${torch}.${dot}, transformers ${transformers}.${minor}` }));
    keyed(rows, HOMEWORK.map((h, i) => ({ ...h, i })), (h) => h.id,
      () => el('li', {}, el('p', { class: 'homework-what' }), el('pre', { tabindex: '0' }), el('p', { class: 'homework-see' }), el('ul', {})), (li, h) => {
        const [what, code, see, lines] = li.children;
        setText(what, ui(`homework_${h.id}`, { n: difference(peaks[3] - peaks[2], unit).replace('+', '') }));
        setText(code, h.code);
        setText(see, ui('homework_see'));
        const log = reports[h.i].log.filter((l) => l.id === h.shows || (h.smi && l.id === 'nvidia_smi'));
        keyed(lines, log, (l) => l.id, () => el('li', {}, el('code', {}), el('span', {})), (node, l) => {
          setText(node.firstChild, l.text);
          setText(node.lastChild, l.id === h.shows ? ` = ${bytes(l.values[0], 'GB')} = ${bytes(l.values[0], 'GiB')}` : '');
          setAttr(node, 'title', l.id === h.shows ? bytesFull(l.values[0]) : null);
        });
        li.classList.toggle('is-this', h.id === now.highlight);
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
    update({ preset, report, unit }) {
      const s = presets.scenarios.find((p) => p.id === preset);
      const guided = Boolean(s?.say);
      for (const node of [question, top, path]) show(node, guided);
      show(homework, Boolean(guided && s.chapter));
      if (!guided) return;
      const vars = guideVars(report, presets, unit);
      now = { report, unit, highlight: { 1: 'load', 2: 'infer', 3: 'train', 4: 'batch' }[s.chapter] };
      setText(asks, ui('guide_asks'));
      setText(asked, both(s.question));
      setText(sayTitle, ui('guide_say'));
      keyed(say, s.say.map((t, i) => ({ t, i })), (x) => x.i, () => el('li', {}), (li, x) => setProse(li, fillIn(both(x.t), vars)));
      setText(trapTitle, ui('guide_trap'));
      setProse(trap, fillIn(both(s.trap), vars));
      setText(summary, ui('homework'));
      if (homework.open && s.chapter) fillHomework();
      setAttr(path, 'aria-label', ui('guide_path'));
      step(previous, s.chapter - 1, s.chapter === 1 ? [linkOf(story), ui('guide_story')] : undefined);
      step(next, (s.chapter ?? 0) + 1, [claimLink(), ui('guide_last')]);
      if (s.chapter) link(practice, quizLink(String(s.chapter)), ui('guide_practice'));
      else link(practice, claimLink(), ui('guide_claim'));
    },
  };
}
