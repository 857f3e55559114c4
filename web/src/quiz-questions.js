// Practice: questions made of a seed. A question is a scenario and which part of its report is asked for: every answer is the core's own. No document
// and no words here; a test works the same numbers out by hand, from what the question says.

import { halfWidth } from './units.js';

export const LENGTH = 10; // questions of a quiz
const WITHIN = 0.05;
export const SEED = /^[a-z0-9]{1,16}$/;

// ---- chance: the same seed draws the same questions everywhere (mulberry32 over an FNV hash)
function chance(text) {
  let state = 2166136261;
  for (const c of text) state = Math.imul(state ^ c.charCodeAt(0), 16777619) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
export const freshSeed = () => Math.random().toString(36).slice(2, 8) || 'seed';

// ---- what is drawn from
const thumb = (params, layers, hidden) => ({ params, num_hidden_layers: layers, hidden_size: hidden });
const PLAIN = [thumb(1e9, 16, 2048), thumb(3e9, 28, 3072), thumb(7e9, 32, 4096), thumb(13e9, 40, 5120), thumb(34e9, 48, 8192), thumb(70e9, 80, 8192)];
const SMALL = PLAIN.slice(0, 4);
const GROUPED = ['llama-3.1-8b', 'llama-3.1-70b', 'qwen2.5-7b', 'qwen2.5-14b', 'qwen2.5-32b', 'qwen2.5-72b', 'qwen3-8b', 'qwen3-14b', 'qwen3-32b', 'mistral-7b-instruct-v0.3'];
const DENSE = [...GROUPED, 'llama-2-7b', 'llama-2-13b', 'gemma-2-9b', 'phi-4', 'falcon-40b', 'gpt2-xl'];
const EXPERTS = ['qwen3-30b-a3b', 'mixtral-8x7b-instruct-v0.1', 'qwen3-235b-a22b', 'deepseek-v3', 'glm-4.5-air', 'deepseek-moe-16b-base', 'olmoe-1b-7b-0125'];
const MIXED = [[32e9, 3e9, 48, 2048], [47e9, 13e9, 32, 4096], [80e9, 3e9, 48, 2048], [120e9, 12e9, 88, 4096], [230e9, 10e9, 62, 3072], [670e9, 37e9, 61, 7168]]
  .map(([params, params_active, num_hidden_layers, hidden_size]) => ({ params, params_active, num_hidden_layers, hidden_size }));
const TOKENS = [512, 1024, 2048, 4096, 8192, 16384, 32768];
const BATCHES = [1, 2, 4, 8, 16, 32];
const CARDS = [2, 4, 8, 16];

// ---- readings of a report: entries alive in a phase
const HELD = ['weights', 'adapters', 'gradients', 'master_weights', 'optimizer'];
const held = { phase: 'step', components: HELD };
const cache = (phase, role) => ({ phase, components: ['kv_cache'], role });
const only = (component, what, phase = 'loss') => ({ phase, components: [component], what });

const inference = (model, more = {}) => ({ task: 'inference', model, engine: 'bare', overheads: false, ...more });
const training = (model, more = {}) => ({
  task: 'training', model, overheads: false, ...more,
  training: { method: 'full', precision: 'mixed', optimizer: 'adamw', optimizer_impl: 'fused', sequence_length: 1, checkpointing: 'full', ...more.training },
});
const rl = (model, more = {}) => ({ task: 'rl', model, overheads: false, ...more, training: { precision: 'mixed', optimizer: 'adamw', optimizer_impl: 'fused', checkpointing: 'full', ...more.training } });

const shapeOf = (m) => [['layers', m.num_hidden_layers], ['hidden_size', m.hidden_size]];
const headDim = (c) => c.head_dim ?? c.hidden_size / c.num_attention_heads;
const cacheShape = (c) => [['layers', c.num_hidden_layers], ['num_key_value_heads', c.num_key_value_heads], ['head_dim', headDim(c)]];
const lora = (model, rank, targets, weights = 'bf16') => training(model, { weights, training: { method: 'lora', precision: 'bf16' }, lora: { rank, targets } });

// Each kind: d draws from a list or a preset, and it says {vars, facts, scenario, read}. vars go into the question's words, facts stand below it.
const KINDS = {
  1: {
    weights: (d) => { const [model, format] = [d.of(PLAIN), d.of(['bf16', 'fp16', 'fp32', 'int8', 'fp8', 'int4'])]; return { vars: { model, format }, scenario: inference(model, { weights: format }), read: { phase: 'decode', components: ['weights'] } }; },
    weights_of: (d) => { const [m, format] = [d.preset(DENSE), d.of(['bf16', 'fp32'])]; return { vars: { model: m.id, format }, facts: [['parameters', m.params_total]], scenario: inference(m.id, { weights: format }), read: { phase: 'decode', components: ['weights'] } }; },
    weights_cards: (d) => { const [model, n] = [d.of(PLAIN.slice(2)), d.of(CARDS)]; return { vars: { model, n }, scenario: inference(model, { parallel: { tensor: n } }), read: { phase: 'decode', components: ['weights'] } }; },
    saved: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: inference(model, { weights: 'bf16' }), less: inference(model, { weights: 'int4' }), read: { phase: 'decode', components: ['weights'] } }; },
  },
  2: {
    token: (d) => { const model = d.of(PLAIN); return { vars: { model }, facts: shapeOf(model), scenario: inference(model, { context: 1 }), read: cache('decode') }; },
    cache: (d) => { const [model, tokens, batch] = [d.of(PLAIN), d.of(TOKENS), d.of(BATCHES)]; return { vars: { model, tokens, batch }, facts: shapeOf(model), scenario: inference(model, { context: tokens, batch }), read: cache('decode') }; },
    cache_of: (d) => { const [m, tokens, batch] = [d.preset(GROUPED), d.of(TOKENS), d.of(BATCHES)]; return { vars: { model: m.id, tokens, batch }, facts: cacheShape(m.config), scenario: inference(m.id, { context: tokens, batch }), read: cache('decode') }; },
    cache_fp8: (d) => { const [m, tokens, batch] = [d.preset(GROUPED), d.of(TOKENS), d.of(BATCHES)]; return { vars: { model: m.id, tokens, batch }, facts: cacheShape(m.config), scenario: inference(m.id, { context: tokens, batch, kv_cache: 'fp8' }), read: cache('decode') }; },
    together: (d) => { const [model, tokens, batch] = [d.of(PLAIN), d.of(TOKENS.slice(1, 5)), d.of(BATCHES.slice(0, 4))]; return { vars: { model, tokens, batch }, facts: shapeOf(model), scenario: inference(model, { context: tokens, batch }), read: { phase: 'decode', components: ['weights', 'kv_cache'] } }; },
  },
  3: {
    rest: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model), read: held }; },
    gradients_fp32: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model, { training: { gradients: 'fp32' } }), read: held }; },
    eight_bit: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model, { training: { optimizer: 'adamw-8bit' } }), read: held }; },
    pure_bf16: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model, { training: { precision: 'bf16' } }), read: held }; },
    moments: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model), read: { phase: 'step', components: ['optimizer'] } }; },
    master: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model), read: { phase: 'step', components: ['master_weights'] } }; },
    zero: (d) => { const [model, n] = [d.of(PLAIN.slice(2)), d.of(CARDS)]; return { vars: { model, n }, scenario: training(model, { parallel: { data: n, zero: 3 } }), read: held }; },
    foreach: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: training(model, { training: { optimizer_impl: 'foreach' } }), read: { phase: 'step', components: ['workspace'], what: ['step_temporary'] } }; },
  },
  4: {
    rule_34: (d) => { const [model, tokens, batch] = [d.of(PLAIN), d.of(TOKENS.slice(1, 5)), d.of(BATCHES.slice(0, 3))]; return { vars: { model, tokens, batch }, facts: shapeOf(model), scenario: training(model, { training: { sequence_length: tokens, micro_batch: batch } }), rule: 'korthikanti_34sbh' }; },
    rule_5as: (d) => { const [model, tokens] = [d.of(PLAIN), d.of(TOKENS.slice(1, 5))]; return { vars: { model, tokens, batch: 1 }, facts: [['layers', model.num_hidden_layers], ['num_attention_heads', model.hidden_size / 128]], scenario: training({ ...model, num_attention_heads: model.hidden_size / 128 }, { training: { sequence_length: tokens } }), rule: 'korthikanti_5as2b' }; },
    checkpoints: (d) => { const [model, tokens, batch] = [d.of(PLAIN), d.of(TOKENS.slice(1)), d.of(BATCHES.slice(0, 4))]; return { vars: { model, tokens, batch }, facts: shapeOf(model), scenario: training(model, { training: { sequence_length: tokens, micro_batch: batch } }), read: only('activations', ['hidden_states']) }; },
    logits: (d) => { const [m, tokens, batch] = [d.preset(GROUPED), d.of(TOKENS.slice(1, 6)), d.of(BATCHES.slice(0, 3))]; return { vars: { model: m.id, tokens, batch }, facts: [['vocab_size', m.config.vocab_size]], scenario: training(m.id, { training: { sequence_length: tokens, micro_batch: batch } }), read: only('logits', ['logits_fp32']) }; },
    scores: (d) => { const [model, tokens] = [d.of(SMALL), d.of(TOKENS.slice(1, 5))]; return { vars: { model, tokens }, facts: [['num_attention_heads', model.hidden_size / 128]], scenario: training({ ...model, num_hidden_layers: 1, num_attention_heads: model.hidden_size / 128 }, { training: { sequence_length: tokens, checkpointing: 'none', attention: 'eager' } }), rule: 'korthikanti_5as2b' }; },
  },
  5: {
    four: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: rl(model), read: held }; },
    grpo: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: rl(model, { rl: { algorithm: 'grpo' } }), read: held }; },
    dpo: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: rl(model, { rl: { algorithm: 'dpo' } }), read: held }; },
    small_critic: (d) => { const [model, other] = [d.of(PLAIN.slice(2)), d.of(PLAIN.slice(0, 2))]; return { vars: { model, other }, scenario: rl(model, { rl: { critic: other, reward: other } }), read: held }; },
    rollout: (d) => { const [model, prompt, response, batch] = [d.of(PLAIN), d.of(TOKENS.slice(0, 3)), d.of(TOKENS.slice(0, 4)), d.of(BATCHES.slice(2))]; return { vars: { model, prompt, response, batch }, facts: shapeOf(model), scenario: rl(model, { rl: { prompt, response, rollout_batch: batch } }), read: cache('rollout', 'rollout') }; },
    frozen: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: rl(model), read: { phase: 'step', components: ['weights'], roles: ['reference', 'reward'] } }; },
  },
  6: {
    count_qv: (d) => { const [model, rank] = [d.of(PLAIN), d.of([4, 8, 16, 32, 64])]; return { vars: { model, rank }, facts: shapeOf(model), scenario: lora(model, rank, 'qv'), count: true }; },
    count_all: (d) => { const [m, rank] = [d.preset(GROUPED), d.of([8, 16, 32, 64])]; return { vars: { model: m.id, rank }, facts: [...cacheShape(m.config), ['num_attention_heads', m.config.num_attention_heads], ['hidden_size', m.config.hidden_size], ['intermediate_size', m.config.intermediate_size]], scenario: lora(m.id, rank, 'all-linear'), count: true }; },
    adapters: (d) => { const [model, rank] = [d.of(PLAIN), d.of([8, 16, 32, 64])]; return { vars: { model, rank }, facts: shapeOf(model), scenario: lora(model, rank, 'qv'), read: { phase: 'step', components: ['adapters', 'gradients', 'optimizer'] } }; },
    whole: (d) => { const [model, rank] = [d.of(PLAIN), d.of([8, 16, 32])]; return { vars: { model, rank }, facts: shapeOf(model), scenario: lora(model, rank, 'qv'), read: held }; },
    qlora: (d) => { const model = d.of(PLAIN); return { vars: { model }, scenario: lora(model, 16, 'qv', 'nf4-dq'), read: { phase: 'step', components: ['weights'] } }; },
  },
  7: {
    resident: (d) => { const [model, format] = [d.of(MIXED), d.of(['bf16', 'int8', 'int4', 'fp8'])]; return { vars: { model, format }, scenario: inference(model, { weights: format }), read: { phase: 'decode', components: ['weights'] } }; },
    resident_of: (d) => { const m = d.preset(EXPERTS); return { vars: { model: m.id }, facts: [['parameters', m.params_total], ['params_active', m.params_active]], scenario: inference(m.id, { weights: 'bf16' }), read: { phase: 'decode', components: ['weights'] } }; },
    read: (d) => { const model = d.of(MIXED); return { vars: { model }, scenario: inference({ ...model, params: model.params_active, params_active: undefined }), read: { phase: 'decode', components: ['weights'] } }; },
    trained: (d) => { const model = d.of(MIXED); return { vars: { model }, scenario: training(model), read: held }; },
    idle: (d) => { const model = d.of(MIXED); return { vars: { model }, scenario: inference(model), less: inference({ ...model, params: model.params_active, params_active: undefined }), read: { phase: 'decode', components: ['weights'] } }; },
    cards: (d) => { const [model, n] = [d.of(MIXED), d.of(CARDS)]; return { vars: { model, n }, scenario: training(model, { parallel: { data: n, zero: 3 } }), read: held }; },
  },
};
export const CHAPTERS = Object.keys(KINDS).map(Number);
export const kindsOf = (chapter) => Object.keys(KINDS[chapter]);

const picked = (report, { phase, components, what, role, roles }) => report.entries.filter((e) => e.phases.includes(phase) && components.includes(e.component)
  && (!what || what.includes(e.what)) && (!role || e.role === role) && (!roles || roles.includes(e.role)));
const sum = (entries) => entries.reduce((s, e) => s + e.bytes, 0);

function answered(q, core) {
  const report = core.estimate(q.scenario);
  if (report.error) throw new Error(`a question that the core refuses: ${JSON.stringify(report.error)}`);
  if (q.count) return { answer: report.model.params_trainable, entries: report.entries.filter((e) => e.component === 'adapters' && e.phases.includes('load')) };
  if (q.rule) {
    const rule = report.rules_of_thumb.find((r) => r.id === q.rule);
    return { answer: rule.bytes, entries: [{ role: 'model', what: null, bytes: rule.bytes, formula: rule.formula, rule: rule.id }] };
  }
  const entries = picked(report, q.read);
  const less = q.less ? picked(core.estimate(q.less), q.read) : [];
  return { answer: sum(entries) - sum(less), entries, less };
}

// Which kind comes n-th: every kind comes before one comes twice.
function kindAt(chapter, seed, n) {
  const order = kindsOf(chapter);
  const shuffle = chance(`${seed}/${chapter}/${Math.floor(n / order.length)}`);
  for (let i = order.length - 1; i > 0; i -= 1) {
    const k = Math.floor(shuffle() * (i + 1));
    [order[i], order[k]] = [order[k], order[i]];
  }
  return order[n % order.length];
}

const MOST_DRAWS = 50;
// The numbers of the n-th question: drawn again as long as the same quiz has asked the same before.
function drawn(chapter, seed, n, presets) {
  const kind = kindAt(chapter, seed, n);
  const before = new Set();
  for (let m = 0; m < n; m += 1) if (kindAt(chapter, seed, m) === kind) before.add(JSON.stringify(drawn(chapter, seed, m, presets)));
  const draw = chance(`${seed}/${chapter}/${n}/${kind}`);
  const of = (list) => list[Math.floor(draw() * list.length)];
  const preset = (ids) => of(presets.models.filter((m) => ids.includes(m.id)));
  const make = () => ({ kind, facts: [], ...KINDS[chapter][kind]({ of, preset }) });
  let made = make();
  for (let i = 1; i < MOST_DRAWS && before.has(JSON.stringify(made)); i += 1) made = make();
  return made;
}

// The n-th question (from 0) of a chapter's quiz: {kind, vars, facts, scenario, count?, answer, entries, less}.
export function question(chapter, seed, n, core, presets) {
  const made = drawn(chapter, seed, n, presets);
  return { ...made, ...answered(made, core) };
}

// "14", "14 GB", "0.5MiB", "4.2M", "约１４Ｇ" -> a number; without a unit, in the unit that stands beside the box; a letter alone counts as that unit does. NaN: not read.
const SCALES = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3, tib: 1024 ** 4 };
const COUNTS = { '': 1, k: 1e3, m: 1e6, b: 1e9, t: 1e12, 万: 1e4, 亿: 1e8 };
const ABOUT = /^\s*(?:[≈~∼约]|大约|约为|about)\s*/i;
export function readAnswer(text, unit, count = false) {
  const found = /^([\d,_\s]*\.?\d+(?:e[+-]?\d+)?)\s*([a-z万亿]*)$/i.exec(halfWidth(text).replace(ABOUT, '').trim());
  if (!found) return NaN;
  const number = Number(found[1].replace(/[,_\s]/g, ''));
  const said = (found[2] || unit).toLowerCase();
  const scale = count ? COUNTS[found[2].toLowerCase()] : SCALES[/^[kmgt]$/.test(said) ? said + unit.slice(1).toLowerCase() : said];
  return scale === undefined ? NaN : number * scale;
}
export const isRight = (given, answer) => Math.abs(given - answer) <= WITHIN * answer;
