// How many GPUs does it take? What the core answers is set as it says, and the estimate then asked: it fits on so many, on one step fewer it does not.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from '../harness.mjs'
import { batch, patched, presets } from '../lib.mjs'

const solve = scenario => {
  const run = spawnSync('build/vram', ['solve', '-', '--json', '--for', 'gpus'], { input: JSON.stringify(scenario), encoding: 'utf8' })
  return JSON.parse(run.stdout).solve[0]
}
/** The scenario with a division set as the answer says: what follows from it is not said. */
const divided = (scenario, parallel) => ({ ...scenario, gpus: undefined, parallel: { ...scenario.parallel, ...parallel } })
const estimates = scenarios => batch(scenarios).map(line => JSON.parse(line))
const refused = report => report.notes.some(n => ['heads_not_divisible', 'degree_not_dividing'].includes(n.id) && n.path !== 'parallel.context')
const fits = report => !report.error && report.fits[0].verdict !== 'no' && !refused(report)

const full = (model, gpu, parallel, more = {}) => ({ task: 'training', model, gpu, training: { method: 'full', checkpointing: 'full', sequence_length: 2048, optimizer_impl: 'fused', loss: 'fused', ...more }, parallel })
const served = (model, gpu, more = {}) => ({ model, gpu, engine: 'vllm', context: 8192, batch: 8, ...more })
const scenarios = [
  ...presets.scenarios.flatMap(p => ['rtx-4090', 't4', 'h200-sxm'].map(gpu => patched(p.scenario, { gpu }))),
  ...['qwen3-8b', 'llama-3.1-70b', 'mixtral-8x7b-instruct-v0.1', 'deepseek-v3'].flatMap(model => ['rtx-4090', 'h100-sxm'].flatMap(gpu => [
    full(model, gpu, { data: 8 }), full(model, gpu, { engine: 'ddp', data: 2 }), full(model, gpu, { engine: 'fsdp2', data: 2, zero: 2 }), full(model, gpu, { engine: 'fsdp2', data: 8 }),
    full(model, gpu, { engine: 'deepspeed', zero: 1 }), full(model, gpu, { engine: 'megatron', tensor: 4 }), full(model, gpu, { tensor: 2, pipeline: 2 }),
    served(model, gpu), served(model, gpu, { gpus: 8 }), served(model, gpu, { parallel: { tensor: 3 } }), served(model, gpu, { engine: 'sglang', parallel: { data: 4 }, batch: 64 }),
    served(model, gpu, { engine: 'llama.cpp', weights: 'gguf:Q4_K_M', batch: undefined }), served(model, gpu, { engine: 'transformers' }), served(model, gpu, { batch: 1000 }),
  ])),
  { task: 'rl', model: 'qwen2.5-7b', gpu: 'l40s', rl: { algorithm: 'grpo' }, training: { checkpointing: 'full' }, parallel: { engine: 'deepspeed', data: 2, zero: 3 } },
]
const answers = scenarios.map(s => [s, solve(s)])
const found = answers.filter(([, a]) => a.value !== null)

await test('gpus: the division that is named fits on as many as are named, and its degrees are none that are refused', () => {
  assert.ok(found.length > 80 && found.filter(([, a]) => a.value > 1).length > 50, `${found.length} answers`)
  estimates(found.map(([s, a]) => divided(s, a.parallel))).forEach((report, i) => {
    const [s, a] = found[i]
    assert.ok(fits(report), JSON.stringify([s, a]))
    assert.deepEqual([report.scenario.gpus, report.fits[0].needed_bytes, report.fits[0].verdict], [a.value, a.needed_bytes, a.verdict], JSON.stringify(s))
  })
})

await test('gpus: asked again of what was advised, the number does not grow', () => {
  for (const [s, a] of found) assert.ok(solve(divided(s, a.parallel)).value <= a.value, JSON.stringify([s, a]))
})

await test('gpus: one step fewer of the same kind does not fit', () => {
  const fewer = found.flatMap(([s, a]) => {
    const { data, tensor, pipeline } = a.parallel
    if (s.task === 'training' || s.task === 'rl') return data > 1 ? [[s, divided(s, { ...a.parallel, data: data - 1 })]] : []
    return pipeline > 1 ? [[s, divided(s, { ...a.parallel, pipeline: pipeline - 1 })]] : tensor > 1 && tensor % 2 === 0 ? [[s, divided(s, { ...a.parallel, tensor: tensor / 2 })]] : []
  })
  assert.ok(fewer.length > 40)
  estimates(fewer.map(([, f]) => f)).forEach((report, i) => assert.ok(!fits(report), JSON.stringify(fewer[i])))
})

await test('gpus: no answer where even the nearest division needs more than a card has; where the scenario fits, no more than it has', () => {
  for (const [i, report] of estimates(answers.map(([s]) => s)).entries()) {
    const [s, a] = answers[i]
    if (a.value === null) assert.ok(a.nearest, JSON.stringify(s))
    if (a.value === null) assert.ok(a.nearest.needed_bytes > report.fits[0].needed_bytes + report.fits[0].headroom_bytes || a.nearest.verdict === 'no', JSON.stringify(s))
    if (fits(report)) assert.ok(a.value <= report.scenario.gpus, JSON.stringify(s))
  }
})

await test('gpus: what an ordinary report says is at most what the search finds', () => {
  for (const [i, { fits: [own], notes }] of estimates(answers.map(([s]) => s)).entries()) {
    const [s, a] = answers[i]
    if (own.verdict === 'no' && a.value !== null && !notes.some(n => n.id === 'gpus_below_product')) assert.ok(own.gpus_needed <= a.value, JSON.stringify([s, own.gpus_needed, a]))
  }
})

await test('gpus: those that are there are divided over: tensor parallelism in a server, FSDP in a training of copies', () => {
  assert.deepEqual(solve(served('llama-3.1-70b', 'h100-sxm', { gpus: 8 })).over.parallel, { data: 1, tensor: 8, pipeline: 1 })
  assert.deepEqual(solve(served('qwen2.5-7b', 'rtx-3060-12gb', { gpus: 8 })).over.parallel, { data: 1, tensor: 4, pipeline: 2 }) // 28 heads
  assert.deepEqual(solve(full('qwen3-8b', 'rtx-4090', { data: 16 })).over.parallel, { data: 16, tensor: 1, pipeline: 1, zero: 3, engine: 'fsdp2' })
  assert.equal(solve(served('llama-3.1-70b', 'h100-sxm', { parallel: { tensor: 8 } })).over, null) // it is, and fits
})

await test('gpus: worked by hand', () => {
  const bare = { task: 'training', model: { params: 7e9, num_hidden_layers: 32, hidden_size: 4096 }, training: { checkpointing: 'full', sequence_length: 128, kernels: 'fused', loss: 'fused', optimizer_impl: 'fused' }, overheads: false }
  const usable = presets.gpus.find(g => g.id === 'a100-40gb')
  const room = (usable.cuda_total_bytes ?? usable.memory_bytes) - usable.context_bytes
  const a = solve({ ...bare, gpu: 'a100-40gb' })
  assert.equal(a.value, Math.ceil(16 * 7e9 / (room - (a.needed_bytes - 16 * 7e9 / a.value)))) // 16 bytes a parameter in shares, and what one sequence takes on each
  assert.deepEqual(a.parallel, { data: a.value, tensor: 1, pipeline: 1, zero: 3, engine: 'plain' })
  // vLLM refuses 3 and 6 of 64 heads and 8 key-value heads, and within a block of fp8 it cuts no matrix: 1536 / 8 is no multiple of 128
  assert.equal(solve(served('qwen3-235b-a22b', 'h200-sxm', { weights: 'fp8-block128', gpus: 8 })).over.parallel.tensor, 4)
  assert.equal(solve({ task: 'training', model: 'qwen3-8b', gpu: 'rtx-4090', parallel: { engine: 'fsdp2', data: 2 } }).value, null) // one sequence's activations alone are 43 GB
})

await test('gpus: degrees that an engine refuses are not offered and not the end of it; those that were said are an answer where they fit', () => {
  const of = (engine, pipeline, more) => ({ task: 'training', parallel: { engine, pipeline }, ...more })
  assert.equal(solve(of('deepspeed', 3)).value, 3) // 32 layers: 11, 11 and 10
  assert.equal(solve(of('fsdp2', 2, { model: 'deepseek-v2-lite', gpu: 'h200-sxm', training: { method: 'lora' } })).value, 2) // 27
  assert.equal(solve({ task: 'training', model: 'gpt2', parallel: { engine: 'deepspeed', tensor: 8 } }).value, 1) // 12 heads
  assert.equal(solve({ gpu: 'rtx-3090', batch: 100, parallel: { tensor: 4, pipeline: 3 } }).value, 12) // by eights it would be 16
  const staged = { task: 'training', model: 'llama-3.1-70b', gpu: 'h100-sxm', parallel: { engine: 'deepspeed', tensor: 2, pipeline: 4 } }
  assert.equal(solve(staged).parallel.zero, 1) // PipelineEngine refuses 2 and 3
  const [report] = estimates([divided(staged, { zero: 2 })])
  assert.ok(report.notes.some(n => n.id === 'deepspeed_refuses_stages'))
  assert.deepEqual(solve({ task: 'training', model: { params: 7e9 }, gpus: 4, parallel: { data: 8, zero: 3 } }).over.parallel.data, 4) // fewer than were said to be divided over
})

await test('gpus: where none would do, the nearest is the nearest, and needs what its own estimate says', () => {
  const s = { task: 'training', model: 'glm-5', gpu: 'h200-sxm', gpus: 64 }
  const { value, nearest, over } = solve(s)
  const needs = estimates([nearest, over, ...[64, 128, 512, 1024].map(data => ({ parallel: { ...nearest.parallel, data } }))].map(d => divided(s, d.parallel))).map(r => r.fits[0].needed_bytes)
  assert.deepEqual([value, ...needs.slice(0, 2)], [null, nearest.needed_bytes, over.needed_bytes])
  assert.equal(Math.min(...needs), nearest.needed_bytes) // 256 experts: on more GPUs than that each is gathered several times
})

await test('stages: another card\'s row says what that card\'s own report says', () => {
  const staged = [
    { model: 'gemma-4-e2b-it', training: { precision: 'bf16', micro_batch: 4, checkpointing: 'selective', sequence_length: 8192, optimizer: 'adafactor', loss: 'inplace', attention: 'sdpa', gradient_accumulation: 4 }, parallel: { pipeline: 8 } },
    { model: 'gemma-7b', training: { sequence_length: 2048, optimizer: 'paged-adamw-8bit', loss: 'tiled' }, parallel: { pipeline: 4 } },
  ]
  for (const s of staged) {
    const reports = estimates(['h200-sxm', 'h100-sxm', 'rtx-4090', 'h20'].map(gpu => ({ task: 'training', ...s, gpu })))
    for (const r of reports) for (const own of reports) {
      const row = r.fits.find(f => f.gpu === own.fits[0].gpu)
      assert.deepEqual([row.needed_bytes, row.verdict], [own.fits[0].needed_bytes, own.fits[0].verdict], `${s.model}, ${row.gpu}`)
    }
  }
})
