// The program as a person and a script meet it.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from '../harness.mjs'
import { estimate, patched, presets } from '../lib.mjs'

const vram = (args, input = '') => {
  const run = spawnSync('build/vram', args, { input, encoding: 'utf8' })
  return { status: run.status, out: run.stdout, err: run.stderr }
}

await test('vram estimate: the default scenario, as a table', () => {
  const run = vram(['estimate'])
  assert.equal(run.status, 0, run.err)
  assert.match(run.out, /weights/)
  assert.match(run.out, /GB|GiB/)
})

await test('vram estimate FILE reads a file, - reads standard input, and both say the same', () => {
  const text = JSON.stringify(presets.scenarios[0].scenario)
  const file = `${mkdtempSync(`${tmpdir()}/vram-`)}/s.json`
  writeFileSync(file, text)
  const run = vram(['estimate', file, '--json'])
  assert.equal(run.status, 0, run.err)
  assert.equal(run.out, estimate(text).out)
})

await test('vram estimate --only: a part of the report', () => {
  const report = JSON.parse(estimate('{}').out)
  for (const part of ['peak', 'components', 'phases', 'model'])
    assert.deepEqual(JSON.parse(estimate('{}', ['--json', '--only', part]).out), { [part]: report[part] }[part], part)
})

await test('vram solve: what it names fits, one more does not', () => {
  const questions = [
    [{ engine: 'vllm', model: 'qwen3-8b', gpu: 'rtx-4090' }, ['context', 'batch', 'weights']],
    [{ engine: 'llama.cpp', model: 'gemma-3-27b', weights: 'gguf:Q4_K_M', gpu: 'rtx-4090' }, ['context', 'llama_cpp.slots', 'weights', 'llama_cpp.gpu_layers']],
    [{ model: 'llama-3.1-8b', gpu: 'rtx-4090' }, ['context', 'batch', 'weights']],
    [{ task: 'training', training: { method: 'lora', checkpointing: 'full' }, model: 'qwen2.5-7b', gpu: 'l40s' }, ['training.sequence_length', 'training.micro_batch', 'weights']],
    [{ task: 'rl', training: { method: 'lora' }, model: 'qwen2.5-1.5b' }, ['rl.response', 'training.micro_batch', 'rl.rollout_batch', 'weights']],
  ]
  for (const [scenario, paths] of questions) {
    const { solve } = JSON.parse(vram(['solve', '-', '--json'], JSON.stringify(scenario)).out)
    assert.deepEqual(solve.map(a => a.path), paths, JSON.stringify(scenario))
    for (const { path, value, bytes, headroom_bytes, verdict } of solve) {
      const [now, next] = [value, typeof value === 'number' ? value + 1 : null].map(v => v === null ? null : JSON.parse(estimate(JSON.stringify(patched(scenario, { [path]: v }))).out))
      assert.ok(value !== null, path)
      assert.equal(now.peak.bytes, bytes, path)
      assert.equal(now.fits[0].headroom_bytes, headroom_bytes, path)
      assert.equal(now.fits[0].verdict, verdict, path)
      assert.ok(verdict !== 'no', path)
      assert.ok(!next || next.error || next.fits[0].verdict === 'no' || path === 'llama_cpp.gpu_layers', `${path}: one more than ${value} fits as well`)
    }
  }
})

await test('vram solve: a search that begins at nothing ends', () => {
  const { solve } = JSON.parse(vram(['solve', '-', '--json', '--for', 'llama_cpp.gpu_layers,speculative.mtp_tokens'], JSON.stringify({ engine: 'llama.cpp', model: 'qwen3.5-9b', gpu: 'rtx-4090', weights: 'gguf:Q4_K_M', llama_cpp: { gpu_layers: 0 } })).out)
  assert.deepEqual(solve.map(a => [a.value, a.limit]), [[33, 33], [64, null]])
})

await test('degrees of parallelism take GPUs: fewer do not do, and experts are divided over ranks that are there', () => {
  const report = scenario => JSON.parse(estimate(JSON.stringify(scenario)).out)
  const experts = { model: 'deepseek-v3', engine: 'vllm', gpu: 'h200-sxm', weights: 'native', parallel: { expert: 8 } }
  assert.equal(report(experts).scenario.gpus, 8)
  assert.equal(report({ ...experts, parallel: { expert: 8, tensor: 8 } }).scenario.gpus, 8)
  const few = report({ model: 'llama-3.1-70b', engine: 'vllm', gpu: 'a100-80gb', parallel: { tensor: 4 }, gpus: 1 })
  assert.deepEqual([few.fits[0].verdict, few.fits[0].gpus_needed, few.notes.some(n => n.id === 'gpus_below_product')], ['no', 4, true])
})

await test('what an engine would refuse is refused or said', () => {
  const notes = scenario => JSON.parse(estimate(JSON.stringify(scenario)).out).notes?.map(n => n.id)
  assert.ok(notes({ model: 'llama-2-7b', engine: 'vllm', parallel: { tensor: 3 } }).includes('heads_not_divisible'))
  assert.ok(notes({ model: 'llama-3.1-8b', engine: 'sglang', gpu: 'l4' }).includes('pool_empty'))
  assert.ok(notes({ model: 'llama-3.1-8b', engine: 'vllm', context: 131072, gpu: 'l4' }).includes('pool_below_context'))
  assert.ok(notes({ model: 'llama-2-7b', engine: 'transformers', kv_cache: 'fp8' }).includes('unread_here'))
  assert.ok(notes({ model: 'llama-2-7b', engine: 'llama.cpp', batch: 8 }).includes('slots_not_batch'))
  const shared = (engine, more) => notes({ task: 'training', model: 'llama-2-7b', training: { method: 'lora', gradient_accumulation: 4 }, parallel: { engine, data: 4 }, ...more })
  for (const [engine, more, no_sync, integers] of [['fsdp1', { weights: 'int8' }, true, true], ['fsdp2', { weights: 'int8' }, true, false], ['fsdp1', { weights: 'nf4' }, true, false], ['ddp', { weights: 'int8' }, false, false]])
    assert.deepEqual(['no_sync_not_counted', 'fsdp1_refuses_integers'].map(id => shared(engine, more).includes(id)), [no_sync, integers], engine)
  assert.ok(notes({ model: 'gpt-oss-20b', engine: 'vllm' }).includes('native_weights'))
  assert.equal(JSON.parse(estimate(JSON.stringify({ model: 'llama-2-7b', engine: 'vllm', kv_cache: 'q4_0' })).out).error.path, 'kv_cache')
})

await test('vram solve: nothing fits, and a field that is no number', () => {
  const small = JSON.stringify({ model: 'llama-3.1-70b', gpu: 'rtx-4090' })
  assert.deepEqual(JSON.parse(vram(['solve', '-', '--json', '--for', 'context,batch'], small).out), { solve: ['context', 'batch'].map(path => ({ path, value: null, limit: path === 'context' ? 131072 : null })) })
  assert.match(vram(['solve', '-'], small).out, /nothing fits/)
  for (const path of ['engine', 'nonsense', 'vllm.gpu_memory_utilization', '', '"']) {
    const run = vram(['solve', '-', '--json', '--for', path], '{}')
    assert.equal(run.status, 2, path)
    assert.deepEqual([JSON.parse(run.out).error.path, JSON.parse(run.out).error.code], ['for', 'unknown_value'], path)
  }
  assert.equal(vram(['solve', '-'], '{"context":-1}').status, 2)
  for (const [scenario, paths] of [['{"engine":"bare"}', ['prompt', 'training.micro_batch', 'llama_cpp.slots', 'vllm.max_num_seqs']], ['{"task":"training"}', ['context', 'weights', 'lora.rank']], ['{"task":"rl","rl":{"algorithm":"dpo"}}', ['rl.rollout_batch']]])
    for (const path of paths) {
      const run = vram(['solve', '-', '--json', '--for', path], scenario)
      assert.deepEqual([run.status, JSON.parse(run.out).error.code, JSON.parse(run.out).error.path], [2, 'not_read', path])
    }
})

await test('the log in the report: lines with the ledger\'s own numbers', () => {
  const report = JSON.parse(estimate(JSON.stringify({ engine: 'llama.cpp', model: 'llama-3.1-8b', weights: 'gguf:Q4_K_M', context: 8192 })).out)
  const line = id => report.log.find(l => l.id === id)
  assert.equal(line('llama_kv').text, 'llama_kv_cache: size = 1024.00 MiB (  8192 cells,  32 layers,  1/1 seqs), K (f16):  512.00 MiB, V (f16):  512.00 MiB')
  assert.equal(line('llama_weights').values[0], report.components.weights)
  assert.equal(line('llama_kv_buffer').text, 'llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB')
  const devices = ['apple-m3-max', 'radeon-rx-7900-xtx', 'arc-pro-b60'].map(gpu => JSON.parse(estimate(JSON.stringify({ engine: 'llama.cpp', model: 'llama-3.1-8b', gpu })).out))
  assert.deepEqual(devices.map(d => d.log.find(l => l.id === 'llama_compute').text.slice(0, 25)), ['MTL0', 'ROCm0', 'SYCL0'].map(name => `sched_reserve: ${name.padStart(10)}`))
  const torch = JSON.parse(estimate(JSON.stringify({ task: 'training', model: 'gpt2' })).out)
  const apart = (torch.components.context ?? 0) + (torch.components.fragmentation ?? 0)
  assert.equal(torch.log.find(l => l.id === 'torch_peak').values[0], torch.peak.bytes - apart)
  assert.deepEqual(JSON.parse(estimate('{}').out).log, [])
})

await test('vram timeline: the highest instant of a phase is that phase of the report, component by component', () => {
  const trainings = [
    { model: 'qwen3-8b' }, { model: 'gpt2', training: { checkpointing: 'full' } }, { model: 'llama-3.1-8b', training: { method: 'lora', precision: 'amp' } },
    { model: 'qwen3-8b', parallel: { data: 8, zero: 3, engine: 'fsdp2' } }, { model: 'qwen2.5-7b', parallel: { data: 4, zero: 2, engine: 'deepspeed' }, training: { gradient_accumulation: 2 } },
    { model: 'qwen3-30b-a3b', training: { loss: 'fused', micro_batch: 2 } },
  ]
  for (const scenario of trainings) {
    const text = JSON.stringify({ task: 'training', ...scenario })
    const report = JSON.parse(estimate(text).out)
    const { components, points } = JSON.parse(vram(['timeline', '-'], text).out).timeline
    assert.ok(points.length > 2 * 12)
    for (const { id, bytes } of report.phases) {
      const of = points.filter(p => p.phase === id).map(p => ({ ...p, sum: p.bytes.reduce((a, b) => a + b, 0) }))
      const top = of.reduce((a, b) => (b.sum > a.sum ? b : a))
      assert.equal(top.sum, bytes, `${id} of ${text}`)
      for (const [i, c] of components.entries()) assert.equal(top.bytes[i], report.entries.filter(e => e.component === c && e.phases.includes(id)).reduce((n, e) => n + e.bytes, 0), `${id} ${c}`)
    }
  }
  for (const scenario of [{}, { engine: 'vllm', gpu: 'h100-sxm' }, { engine: 'llama.cpp', weights: 'gguf:Q4_K_M' }, { task: 'rl', model: 'qwen2.5-1.5b' }]) {
    const points = JSON.parse(vram(['timeline', '-'], JSON.stringify(scenario)).out).timeline.points.map(p => ({ id: p.phase, bytes: p.bytes.reduce((a, b) => a + b, 0) }))
    assert.deepEqual(points, JSON.parse(estimate(JSON.stringify(scenario)).out).phases)
  }
  assert.equal(vram(['timeline', '-'], '{"context":-1}').status, 2)
})

await test('vram presets: every id, a line', () => {
  const run = vram(['presets'])
  assert.equal(run.status, 0, run.err)
  for (const p of [...presets.scenarios, ...presets.models, ...presets.gpus]) assert.ok(run.out.includes(p.id), p.id)
})

await test('vram batch: a report a line, a refusal in its place', () => {
  const run = vram(['batch'], '{}\n{"task":"nonsense"}\n\n{"context":8192}')
  const lines = run.out.split('\n').filter(Boolean).map(l => JSON.parse(l))
  assert.ok(lines.length >= 3)
  assert.ok(!lines[0].error && lines[1].error && !lines.at(-1).error)
})

await test('vram with wrong arguments: one kind of refusal, which names the argument, exit status 2', () => {
  const wrong = [[['presets', 'nonsense'], 'unknown_value', 'presets', 'nonsense'], [['presets', 'models', 'more'], 'unknown_key', 'argument', 'more'], [['nonsense'], 'unknown_value', 'command', 'nonsense'], [['batch', 'x'], 'unknown_key', 'argument', 'x'], [['tables', 'x'], 'unknown_key', 'argument', 'x'],
    [['estimate', '-', '--only'], 'missing', 'only', null], [['solve', '-', '--for'], 'missing', 'for', null], [['estimate', '--only', 'x'], 'unknown_value', 'only', 'x']]
  for (const command of ['estimate', 'solve', 'timeline', 'claim']) {
    wrong.push([[command, '--nonsense'], 'unknown_key', 'argument', '--nonsense'], [[command, '-', 'twice'], 'unknown_key', 'argument', 'twice'], [[command, '-'], 'syntax', '', null])
    for (const name of ['nonsense', '/no/such/file', '/']) wrong.push([[command, name], 'unknown_value', 'scenario', name])
  }
  for (const [args, code, path, value] of wrong) {
    const [words, json] = [vram(args), vram([...args.slice(0, 1), '--json', ...args.slice(1)])]
    assert.deepEqual([words.status, words.out, json.status, json.err], [2, '', 2, ''], args.join(' '))
    const error = JSON.parse(json.out).error
    assert.deepEqual([error.code, error.path, error.value], [code, path, value], args.join(' '))
    assert.ok(words.err.includes(JSON.stringify(error)), args.join(' '))
  }
  assert.match(vram([]).err, /vram estimate/)
  assert.deepEqual(JSON.parse(estimate('{"engine":"triton"}').out).error.values, ['bare', 'transformers', 'vllm', 'sglang', 'llama.cpp'])
  assert.deepEqual(JSON.parse(vram(['estimate', '--only', 'x', '--json']).out).error.values, Object.keys(JSON.parse(estimate('{}').out)))
})

await test('vram --help: exit status 0', () => {
  const run = vram(['--help'])
  assert.equal(run.status, 0)
  assert.match(run.out, /estimate/)
})

await test('a refusal in words goes to standard error; with --json to standard output; exit status 2', () => {
  const words = estimate('{"training":{"micro_batch":0},"task":"training"}', [])
  assert.equal(words.status, 2)
  assert.equal(words.out, '')
  assert.match(words.err, /training\.micro_batch/)
  const json = estimate('{"training":{"micro_batch":0},"task":"training"}')
  assert.equal(json.status, 2)
  const { error } = JSON.parse(json.out)
  assert.equal(error.code, 'range')
  assert.equal(error.path, 'training.micro_batch')
  assert.equal(error.value, 0)
  assert.equal(error.min, 1)
  assert.ok(error.max > 1)
})
