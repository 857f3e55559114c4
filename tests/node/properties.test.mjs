// What must hold for any scenario. The scenarios are drawn from the core's own table of fields, with a fixed seed.

import assert from 'node:assert/strict'
import { test, note } from '../harness.mjs'
import { batch, check, module, patched, presets } from '../lib.mjs'

const wasm = await module()
const { fields, lists } = JSON.parse(wasm.tables())
const ask = scenario => JSON.parse(wasm.estimate(scenario))
const ok = scenario => {
  const report = ask(scenario)
  assert.ok(!report.error, `${JSON.stringify(report.error)} for ${JSON.stringify(scenario)}`)
  return report
}

let seed = 20240229
const random = n => { // xorshift32; 0 .. n-1
  seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5
  return (seed >>> 0) % n
}
const pick = list => list[random(list.length)]

const SEVEN = { params: 7e9, num_hidden_layers: 32, hidden_size: 4096 }
const models = [SEVEN, ...['qwen3-8b', 'llama-3.1-8b', 'mixtral-8x7b', 'deepseek-v3', 'gemma-2-9b', 'gpt2', 'qwen3-30b-a3b']
  .map(start => presets.models.find(m => m.id.startsWith(start))?.id).filter(Boolean)]

function value(field) {
  switch (field.type) {
    case 'boolean': return random(2) === 1
    case 'enum': return pick(field.values)
    case 'string': case 'names': return field.values ? pick(field.values) : undefined
    case 'model': return pick(field.values?.length && random(2) ? field.values : models)
    case 'gpu': return pick(presets.gpus).id
    case 'number': return pick([field.min, field.max, field.min + (field.max - field.min) * random(1000) / 1000])
    case 'integer': {
      const wide = [field.min, field.max, Math.max(field.min, Math.min(field.max, 2 ** random(20))), Math.min(field.max, field.min + random(64))]
      return pick(wide)
    }
  }
}

const drawn = Array.from({ length: 4000 }, () => {
  const patch = { task: pick(lists.task ?? ['inference', 'training', 'rl']) }
  for (let n = random(10); n >= 0; n--) {
    const field = pick(fields)
    const v = value(field)
    if (v !== undefined && v !== null && field.path !== 'version') patch[field.path] = v
  }
  return patched({}, patch)
})

await test('every model on every engine, whole and with half its layers in host memory: an answer that keeps its promises', () => {
  const all = ['bare', 'transformers', 'vllm', 'sglang', 'llama.cpp'].flatMap(engine => presets.models.flatMap(m => [{}, ...(engine === 'llama.cpp' ? [{ llama_cpp: { gpu_layers: 8 } }] : [])]
    .map(more => ({ model: m.id, engine, ...more }))))
  for (const [i, text] of batch(all).entries()) {
    const report = JSON.parse(text)
    assert.ok(!report.error, `${JSON.stringify(report.error)} for ${JSON.stringify(all[i])}`)
    check(report)
    for (const f of report.fits) assert.ok(Number.isInteger(f.needed_bytes) && Number.isInteger(f.headroom_bytes), `whole bytes: ${JSON.stringify(f)} for ${JSON.stringify(all[i])}`)
  }
})

await test(`${drawn.length} drawn scenarios: promises kept, or a refusal that says why`, () => {
  const codes = {}
  for (const scenario of drawn) {
    const report = ask(scenario)
    if (report.error) {
      const { code, path } = report.error
      codes[code] = (codes[code] ?? 0) + 1
      assert.ok(lists.error.includes(code) && code !== 'internal' && code !== 'none' && typeof path === 'string', `${JSON.stringify(report)} for ${JSON.stringify(scenario)}`)
    } else try { check(report) } catch (e) { e.message += `\n  ${JSON.stringify(scenario)}`; throw e }
  }
  note(`refused: ${JSON.stringify(codes)}`)
  assert.ok(Object.values(codes).reduce((a, b) => a + b, 0) < drawn.length * 0.6, 'most of them must be answered')
})

await test('drawn scenarios: the program says the same, byte for byte', () => {
  const lines = batch(drawn)
  for (const [i, s] of drawn.entries()) assert.equal(lines[i], wasm.estimate(s), JSON.stringify(s))
})

await test('drawn scenarios: the normalised scenario gives the same report', () => {
  for (const scenario of drawn) {
    const report = ask(scenario)
    const less = r => ({ ...r, notes: r.notes?.filter(n => n.id !== 'unread_here') }) // what was not read may be left out when it is written down
    if (!report.error) assert.deepEqual(less(ask(report.scenario)), less(report), JSON.stringify(scenario))
  }
})

await test('fields: each at its minimum and maximum, answered or refused for a reason that is not its own range', () => {
  for (const field of fields.filter(f => typeof f.min === 'number')) for (const v of [field.min, field.max].filter(v => typeof v === 'number')) {
    const when = Object.fromEntries((field.when ?? []).map(w => [w.path, w.values[0]]))
    const report = ask(patched({}, { ...when, [field.path]: v }))
    if (report.error) assert.ok(!(report.error.path === field.path && report.error.min === field.min && report.error.max === field.max), `${field.path} = ${v}: ${JSON.stringify(report.error)}`)
    else check(report)
  }
})

await test('fields: one step outside the range is refused, with the range', () => {
  for (const field of fields.filter(f => f.type === 'integer' && typeof f.min === 'number' && f.path !== 'version')) for (const v of [field.min - 1, field.max + 1]) {
    const { error } = ask(patched({}, { [field.path]: v }))
    assert.ok(error, `${field.path} = ${v} is not refused`)
    assert.deepEqual([error.code, error.path, error.value, error.min, error.max], ['range', field.path, v, field.min, field.max])
  }
})

await test('fields: every value listed is accepted by its field, and a default is what an empty scenario gets', () => {
  for (const field of fields) for (const v of field.values ?? []) {
    const when = Object.fromEntries((field.when ?? []).map(w => [w.path, w.values[0]]))
    const { error } = ask(patched({}, { ...when, [field.path]: field.type === 'names' && !field.values ? [v] : v }))
    assert.ok(!error || error.code !== 'unknown_value' || error.path !== field.path, `${field.path} = ${v}: ${JSON.stringify(error)}`)
  }
  const normal = ok({}).scenario
  const at = path => path.split('.').reduce((o, k) => o?.[k], normal)
  for (const field of fields) if (field.default !== null && field.default !== undefined && at(field.path) !== undefined) {
    const got = at(field.path)
    if (typeof got !== 'object') assert.equal(got, field.default, field.path)
  }
})

// --- one lever at a time

const sum = (report, components, phase) => Math.max(...report.phases.filter(p => !phase || p.id === phase)
  .map(p => report.entries.filter(e => components.includes(e.component) && e.phases.includes(p.id)).reduce((t, e) => t + e.bytes, 0)), 0)
const states = ['weights', 'gradients', 'master_weights', 'optimizer', 'adapters']
const falling = (name, scenario, path, values, components) => test(name, () => {
  for (const model of models) {
    let before = Infinity
    for (const v of values) {
      const report = ask(patched({ model, ...scenario }, { [path]: v }))
      if (report.error && ['unsupported', 'conflict'].includes(report.error.code)) continue
      assert.ok(!report.error, `${JSON.stringify(report.error)} for ${JSON.stringify(model)} ${path}=${v}`)
      const now = sum(report, components)
      assert.ok(now <= before, `${JSON.stringify(model)}: ${path} = ${v} needs ${now}, more than ${before}`)
      before = now
    }
    assert.ok(before > 0 && before < Infinity)
  }
})
const training = { task: 'training', training: { method: 'full', precision: 'mixed' } }
await falling('ZeRO: a higher stage never holds more states', { ...training, parallel: { data: 8 } }, 'parallel.zero', [0, 1, 2, 3], states)
await falling('ZeRO 3: more cards never hold more states each', { ...training, parallel: { zero: 3 } }, 'parallel.data', [1, 2, 4, 8, 64], states)
await falling('tensor parallelism: more cards never hold more weights each', {}, 'parallel.tensor', [1, 2, 4, 8], ['weights'])
await falling('tensor parallelism: more cards never hold more cache each', {}, 'parallel.tensor', [1, 2, 4, 8], ['kv_cache', 'recurrent_state'])
await falling('tensor parallelism: more cards never hold more states each', training, 'parallel.tensor', [1, 2, 4, 8], states)
for (const engine of ['plain', 'fsdp1', 'fsdp2', 'deepspeed', 'megatron']) for (const method of ['full', 'lora'])
  for (const [path, values] of [['parallel.data', [1, 2, 4, 8, 64]], ['parallel.tensor', [1, 2, 4, 8]], ['parallel.pipeline', [1, 2, 4, 6]], ['parallel.context', [1, 2, 4]]])
    await falling(`${method} under ${engine}: a larger ${path} never holds more states on a card`, { task: 'training', training: { method }, parallel: { engine, zero: 3 } }, path, values, ['weights', 'master_weights', 'optimizer', 'adapters'])
await falling('checkpointing: more recomputing never keeps more activations', training, 'training.checkpointing', ['none', 'selective', 'full'], ['activations'])
await falling('weights: fewer bits never weigh more', {}, 'weights', ['fp32', 'bf16', 'int8', 'int4'], ['weights'])
await falling('cache: fewer bits never hold more', {}, 'kv_cache', ['fp32', 'bf16', 'fp8'], ['kv_cache'])
await falling('training: a shorter sequence never keeps more activations', training, 'training.sequence_length', [8192, 4096, 1024, 1], ['activations'])
await falling('training: a smaller batch never keeps more activations', training, 'training.micro_batch', [16, 4, 2, 1], ['activations', 'logits'])
await falling('LoRA: a lower rank never trains more', { task: 'training', training: { method: 'lora' } }, 'lora.rank', [128, 64, 16, 8, 1], ['adapters', 'gradients', 'optimizer'])

await test('cache: linear in the batch, and in the context where no layer has a window', () => {
  const kv = (model, patch) => sum(ok(patched({ model, context: 1024 }, patch)), ['kv_cache'])
  for (const model of models) {
    const one = kv(model)
    for (const b of [2, 3, 7, 64]) assert.equal(kv(model, { batch: b }), b * one, `${JSON.stringify(model)} batch ${b}`)
  }
  const one = kv(SEVEN, { context: 1 })
  for (const c of [2, 1000, 4096, 131072]) assert.equal(kv(SEVEN, { context: c }), c * one)
})

await test('grouped-query attention with all heads is multi-head attention', () => {
  const config = { model_type: 'llama', vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 32, num_attention_heads: 32 }
  for (const task of ['inference', 'training']) {
    const [a, b] = [ok({ task, model: config }), ok({ task, model: { ...config, num_key_value_heads: 32 } })]
    delete a.scenario, delete b.scenario
    assert.deepEqual(a, b)
  }
})

await test('nothing outside the allocator is left when overheads are off', () => {
  for (const p of presets.scenarios) {
    const report = ok(patched(p.scenario, { overheads: false }))
    assert.deepEqual(report.entries.filter(e => ['context', 'fragmentation'].includes(e.component)), [], p.id)
  }
})

await test('settings: a choice that changes nothing says so, and what is said to change nothing does not', () => {
  const silent = new Map([ // these may change nothing, and need not be excused
    ['training.attention', 'sdpa takes the flash kernels where it can'], ['training.dropout', 'only where the model has dropout'], ['weights', 'as wide as others'],
    ['training.optimizer_impl', 'AdamW only'], ['training.gradients', 'of the same width'], ['training.optimizer_states', 'of the same width'], ['lora.dtype', 'of the same width'],
    ['training.kernels', 'Megatron\'s are fused already'], ['training.precision', 'of adapters weights and lora.dtype decide'], ['rl.critic', 'its default'], ['rl.reference', 'its default'], ['rl.reward', 'its default'], ['lora.prepare_kbit', 'four-bit weights only'], ['training.autocast', 'of the same width'],
    ['rl.share_weights', 'colocated engines only'], ['rl.offload_idle', 'with other models only'], ['parallel.sequence', 'with tensor parallelism only'], ['parallel.engine', 'on several GPUs'],
    ['parallel.zero', 'on several GPUs'], ['training.clip', 'in place'], ['training.packing', 'wrapped rows are whole ones'], ['kv_cache', 'of the same width']])
  const ledger = report => JSON.stringify([report.entries, report.phases])
  for (const task of ['training', 'rl']) for (const method of ['full', 'lora']) for (const engine of ['plain', 'megatron']) {
    const base = { task, model: 'llama-3.1-8b', training: { method }, parallel: { engine, tensor: engine === 'megatron' ? 2 : 1 } }
    const before = ok(base)
    for (const field of fields.filter(f => /^(training|rl|lora)\./.test(f.path) && ['enum', 'boolean'].includes(f.type) || ['rl.group_size', 'rl.forward_batch'].includes(f.path))) {
      const at = path => path.split('.').reduce((o, k) => o?.[k], before.scenario)
      if (!(field.when ?? []).every(w => w.values.includes(at(w.path)))) continue
      for (const v of field.values ?? (field.type === 'boolean' ? [true] : [7])) {
        if (v === at(field.path)) continue
        const report = ask(patched(base, { [field.path]: v }))
        if (report.error) continue
        const same = ledger(report) === ledger(before), said = report.notes.some(n => n.path === field.path)
        if (report.notes.some(n => n.path === field.path && n.id === 'not_modelled')) assert.ok(same, `${task} ${method} ${engine}: ${field.path} = ${v} is modelled: its note is out of date`)
        assert.ok(!same || said || silent.has(field.path), `${task} ${method} ${engine}: ${field.path} = ${v} changes nothing and says nothing`)
      }
    }
  }
})

await test('a key\'s place in the text changes nothing', () => {
  const turned = v => v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).reverse().map(([k, x]) => [k, turned(x)])) : v
  for (const p of presets.scenarios) {
    const [a, b] = [ok(p.scenario), ok(turned(p.scenario))]
    assert.deepEqual(a, b, p.id)
  }
})


await test('sharing: no stage leaves gradients whole, FSDP has none below 2, experts are cut as they say, models that look are shared as the actor is', () => {
  const at = (parallel, more = {}) => ok({ task: 'training', model: 'llama-3.1-8b', overheads: false, parallel, ...more, training: { sequence_length: 512, checkpointing: 'full', ...more.training } })
  const peak = report => report.peak.bytes
  assert.equal(peak(at({ engine: 'deepspeed', data: 8 })), peak(at({ engine: 'deepspeed', data: 1 })))
  for (const optimizer of ['adamw', 'adamw-8bit', 'muon', 'galore']) for (const engine of ['fsdp1', 'fsdp2'])
    assert.equal(peak(at({ engine, data: 8, zero: 0 }, { training: { optimizer } })), peak(at({ engine, data: 8, zero: 2 }, { training: { optimizer } })), `${engine} ${optimizer}`)
  const experts = parallel => at({ engine: 'megatron', tensor: 8, ...parallel }, { model: 'mixtral-8x7b-instruct-v0.1' }).entries.find(e => e.component === 'weights' && e.what === 'experts').bytes
  assert.equal(experts({ expert_tensor: 1 }), 8 * experts({}))
  const looked = zero => ok({ task: 'rl', model: 'llama-3.1-8b', overheads: false, parallel: { engine: 'deepspeed', data: 8, zero }, rl: { algorithm: 'dpo' } })
    .entries.filter(e => e.role === 'reference' && e.component === 'weights' && e.phases.includes('load')).reduce((sum, e) => sum + e.bytes, 0)
  assert.ok(looked(3) * 8 >= looked(2) && looked(3) * 8 < looked(2) * 1.001)
})
