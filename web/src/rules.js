// Rules of thumb and stated numbers beside the account, never in it: where a rule and the replay part, by how much, and why.
// The differences of a rule add up to what the ledger has more than it, but for what is too small to show.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { symbolLine, valueLine } from './formula.js';
import { both, has, sentences, ui, word } from './i18n.js';
import { alive } from './reading.js';
import { valueWord } from './texts.js';
import { bytes, bytesFull, count, difference } from './units.js';

const SMALL = 0.01; // of the rule or of ours: less is not worth a line of its own

const sum = (entries) => entries.reduce((n, e) => n + e.bytes, 0);
const factor = (entry, id) => entry.formula.find((f) => f.id === id)?.value;
const fullest = (report, chosen) => report.phases.map((p) => alive(report, p.id).filter(chosen)).reduce((a, b) => (sum(b) > sum(a) ? b : a));

// Parts of a transformer's activations, and what each holds in Korthikanti's 34 bytes (section 4.1: inputs of two norms 4, what the
// norms give to the matrices 4, queries, keys and values 6, the projection's input 2, the MLP's 16, two masks 2).
const ACTIVATIONS = [
  ['norms', 8, /^(hidden_states|norm_|normalised)/],
  ['attention', 8, /^(query|key|value|fused_qkv|rotary|repeated_|attention_|latent|expanded_context)/],
  ['mlp', 16, /^(gate|up$|activation$|gated|mlp_|expert|router|merged_experts)/],
  ['masks', 2, /^dropout_mask/],
  ['adapters', 0, /^(lora_|dora_)/],
  ['casts', 0, /^autocast_/],
  ['mixer', 0, /^state_activations/],
  ['rest', 0, /./],
];
const isScore = (e) => /^(attention_scores|attention_probabilities|causal_mask)$/.test(e.what) || (e.what === 'dropout_mask' && factor(e, 'keys') !== undefined);

// Parts of the sixteen bytes; an adapter is its own weight and its own fp32 copy.
const STATES = { full: [['weights', 2], ['gradients', 2], ['master_weights', 4], ['optimizer', 8]], lora: [['adapters', 2], ['gradients', 2], ['master_weights', 4], ['optimizer', 8]] };

// What is known of a scenario, for the reasons to choose from.
function factsOf(report, entries) {
  const { training, parallel } = report.scenario;
  const of = (what) => entries.filter((e) => e.what === what);
  const heads = Math.max(0, ...of('query').map((e) => factor(e, 'num_attention_heads') ?? 0));
  const keyHeads = Math.max(0, ...of('key').map((e) => factor(e, 'num_key_value_heads') ?? 0));
  const wide = (what) => of(what).some((e) => factor(e, 'bytes_per_element') === 4);
  return {
    ...training, parallel, of, wide, heads, keyHeads,
    lora: training.method === 'lora',
    again: training.checkpointing === 'full' && (training.checkpointing_interval > 1 ? reason('checkpointing_some', { n: training.checkpointing_interval }) : reason('checkpointing')),
    split: parallel.tensor * parallel.pipeline * parallel.context > 1,
    cut: parallel.tensor * parallel.pipeline > 1,
    shared: parallel.zero > 0 || parallel.tensor * parallel.pipeline > 1 || parallel.offload !== 'none',
    gated: of('gate').length + of('gate_up').length > 0,
    experts: Math.max(0, ...of('expert_inputs').map((e) => factor(e, 'experts_per_token') ?? 0)),
    width: Math.max(0, ...['up', 'activation', 'gated'].flatMap(of).map((e) => factor(e, 'intermediate_size') ?? 0)),
    kept: new Set(['gate', 'up', 'gate_up', 'activation', 'gated'].filter((what) => of(what).length)).size,
  };
}

const reason = (id, vars = {}) => word('rule_reason', id, vars);

// part -> the sentences that hold for this scenario
const REASONS = {
  norms: (f) => [
    f.kernels === 'fused' && reason('norms_fused'), f.wide('norm_input') && reason('norms_fp32'), f.wide('hidden_states') && reason('stream_fp32'),
    f.of('norm_input').concat(f.of('norm_output')).some((e) => factor(e, 'head_dim')) && reason('norms_heads'),
  ],
  attention: (f) => [
    f.keyHeads > 0 && f.keyHeads < f.heads && reason('fewer_keys', { n: f.keyHeads, of: f.heads }), f.of('repeated_keys').length > 0 && reason('repeated_keys'), f.of('rotary').length > 0 && reason('rotary'),
    f.attention !== 'eager' && f.of('attention_statistics').length > 0 && reason('statistics'),
  ],
  mlp: (f) => [
    f.gated && reason('gated', { n: f.kept, width: count(f.width) }), f.experts > 0 && reason('experts', { n: f.experts }),
    !f.gated && f.of('activation').length > 0 && reason('plain_mlp'),
  ],
  masks: (f) => [f.of('dropout_mask').length === 0 && reason('no_masks')],
  adapters: (f) => [reason(f.wide('lora_input') ? 'adapters_fp32' : 'adapters')],
  casts: () => [reason('casts')],
  mixer: () => [reason('mixer')],
  rest: () => [reason('rest')],
  own_weights: (f) => [f.wide('trainable') && reason('weights_fp32')],
  weights: (f) => [(f.precision === 'amp' || f.precision === 'fp32') && reason('weights_fp32'), (f.parallel.zero === 3 || f.cut) && reason('shared')],
  gradients: (f) => [(f.lora || f.precision === 'amp' || f.precision === 'fp32' || f.gradients === 'fp32') && reason('gradients_fp32'), (f.parallel.zero >= 2 || f.cut) && reason('shared')],
  master_weights: (f) => [f.lora ? reason('master_lora') : f.precision !== 'mixed' ? reason('master_none', { precision: valueWord('training.precision', f.precision) }) : f.shared && reason('shared')],
  optimizer: (f) => [f.optimizer !== 'adamw' && has('rule_reason', f.optimizer) && reason(f.optimizer), f.optimizer_states !== 'fp32' && !/8bit/.test(f.optimizer) && reason('states_short'), f.shared && reason('shared')],
};

// The differences of one rule: [{part, here, rule, why}], small ones together as the rest.
function bridge(parts, ruleBytes, ourBytes, facts) {
  const shown = [];
  let rest = 0;
  for (const p of parts) {
    if (p.part !== 'rest' && Math.abs(p.here - p.rule) >= SMALL * Math.max(ruleBytes, ourBytes)) shown.push(p);
    else rest += p.here - p.rule;
  }
  const lines = shown.map((p) => ({ ...p, off: p.here - p.rule, why: sentences(...REASONS[p.reasons ?? p.part](facts)) }));
  if (Math.abs(rest) >= SMALL * Math.max(ruleBytes, ourBytes)) lines.push({ part: 'rest', off: rest, why: reason('rest') });
  return lines.sort((a, b) => Math.abs(b.off) - Math.abs(a.off));
}

const whole = (rule, ours, why) => (Math.abs(ours - rule.bytes) < SMALL * Math.max(rule.bytes, ours) ? [] : [{ part: 'whole', off: ours - rule.bytes, why: sentences(...why) }]);

const READ = {
  sixteen_bytes_a_parameter(rule, report) {
    const states = STATES[report.scenario.training.method];
    const mine = fullest(report, (e) => states.some(([component]) => component === e.component));
    const facts = factsOf(report, report.entries);
    const parts = states.map(([part, n]) => ({ part, reasons: part === 'adapters' ? 'own_weights' : part, here: sum(mine.filter((e) => e.component === part)), rule: (rule.bytes * n) / 16 }));
    const beside = [facts.lora && ['frozen', sum(report.entries.filter((e) => e.component === 'weights'))], ['step', sum(report.entries.filter((e) => e.what === 'step_temporary'))]]
      .filter((b) => b && b[1] > 0);
    return { ours: sum(mine), beside, lines: bridge(parts, rule.bytes, sum(mine), facts) };
  },
  korthikanti_34sbh(rule, report) {
    const mine = fullest(report, (e) => e.component === 'activations').filter((e) => !isScore(e));
    const facts = factsOf(report, mine);
    const ours = sum(mine);
    if (facts.again || facts.split) return { ours, lines: whole(rule, ours, [facts.again, facts.split && reason('split')]) };
    const left = new Set(mine);
    const parts = ACTIVATIONS.map(([part, n, pattern]) => {
      const of = [...left].filter((e) => pattern.test(e.what));
      of.forEach((e) => left.delete(e));
      return { part, here: sum(of), rule: (rule.bytes * n) / 34 };
    });
    return { ours, lines: bridge(parts, rule.bytes, ours, facts) };
  },
  korthikanti_5as2b(rule, report) {
    const mine = fullest(report, (e) => e.component === 'activations' && isScore(e));
    const facts = factsOf(report, mine);
    const ours = sum(mine);
    const why = facts.attention !== 'eager' ? [reason('scores_never')]
      : [facts.again, facts.split && reason('split'), facts.wide('attention_probabilities') && reason('scores_fp32'), facts.of('dropout_mask').length === 0 && reason('scores_no_masks')];
    return { ours, lines: whole(rule, ours, why) };
  },
};

// Numbers that somebody states: what stands in the ledger for each, and what can be said of the difference.
const STATED = {
  activations: (q, report) => {
    const mine = fullest(report, (e) => e.component === 'activations');
    const ours = sum(mine);
    return { ours, why: [q.bytes > ours && word('quoted', 'activations_here')] };
  },
  total: (q, report) => {
    const { bytes: ours, phase } = report.peak;
    const at = (component) => sum(alive(report, phase).filter((e) => e.component === component));
    return { ours, why: [at('activations') > 0 && at('gradients') < at('weights') / 2 && word('quoted', 'total'), word('quoted', 'total_here')] };
  },
};
function statedOf(q, report) {
  if (!STATED[q.id]) return {};
  const { ours, why } = STATED[q.id](q, report);
  return { ours, stated: true, lines: whole(q, ours, why) };
}

export function makeRules(root) {
  const list = el('div', { class: 'rules' });
  root.append(list);

  function make() {
    const parts = { name: el('span', { class: 'rule-name' }), amount: el('span', { class: 'rule-bytes' }), work: el('div', { class: 'rule-work' }), why: el('p', { class: 'rule-why' }), lines: el('ul', { class: 'rule-lines' }) };
    const node = el('div', { class: 'rule' }, el('div', { class: 'rule-head' }, parts.name, parts.amount), parts.work, parts.why, parts.lines);
    node.parts = parts;
    return node;
  }

  return {
    update({ report, quoted, unit }) {
      const amount = (n) => (n === 0 ? ui('rule_nothing') : bytes(n, unit));
      const rules = (report.rules_of_thumb ?? []).map((r) => ({
        key: r.id, name: word('rule', r.id, 'label'), bytes: r.bytes, why: word('rule', r.id, 'why'),
        work: r.formula ? `${symbolLine(r.formula)} = ${valueLine(r.formula)}` : '', ...READ[r.id]?.(r, report),
      }));
      const said = (quoted ?? []).map((q) => ({ key: `quoted ${q.id}`, name: both(q.text), bytes: q.bytes, why: q.id === 'activations' ? word('quoted', 'activations') : '', work: '', ...statedOf(q, report) }));
      const rows = [...said, ...rules];
      show(root, rows.length > 0);
      keyed(list, rows, (r) => r.key, make, (node, r) => {
        const p = node.parts;
        setText(p.name, r.name);
        setText(p.amount, bytes(r.bytes, unit));
        setAttr(p.amount, 'title', bytesFull(r.bytes));
        p.amount.dataset.bytes = r.bytes;
        setText(p.work, r.work);
        show(p.work, r.work !== '');
        const ours = r.ours === undefined ? '' : ui(r.stated ? 'rule_stated' : !r.lines.length ? 'rule_same' : r.ours === 0 ? 'rule_ours_nothing' : 'rule_ours', { n: amount(r.ours) });
        setProse(p.why, sentences(r.why, ...(r.beside ?? []).map(([id, n]) => ui(`rule_beside_${id}`, { n: bytes(n, unit) })), ours));
        show(p.why, p.why.textContent !== '');
        show(p.lines, Boolean(r.lines?.length));
        keyed(p.lines, r.lines ?? [], (l) => l.part, () => el('li', {}, el('span', { class: 'rule-off' }), el('span', {})), (li, l) => {
          setText(li.firstChild, difference(l.off, unit));
          li.firstChild.dataset.bytes = l.off;
          li.dataset.part = l.part;
          const name = l.part === 'whole' ? '' : ui(l.here === undefined ? 'rule_part' : 'rule_part_of', { part: has('rule_part', l.part) ? word('rule_part', l.part) : word('component', l.part), here: amount(l.here ?? 0), rule: amount(l.rule ?? 0) });
          setProse(li.lastChild, sentences(name, l.why));
        });
      });
    },
  };
}
