// The module as shipped: what it exports, that it imports nothing, how large it is, and that our loader opens it.

import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { test, note } from '../harness.mjs'
import { module, presets } from '../lib.mjs'
import { openCore } from '../../web/src/core.js'

const bytes = readFileSync('build/vram.wasm')
const compiled = new WebAssembly.Module(bytes)

await test('wasm: imports nothing', () => assert.deepEqual(WebAssembly.Module.imports(compiled), []))

await test('wasm: exports its door, and its memory', () => {
  const names = WebAssembly.Module.exports(compiled).map(e => e.name)
  for (const name of ['memory', 'vram_abi', 'vram_input', 'vram_call', 'vram_output']) assert.ok(names.includes(name), name)
})

await test('wasm: the memory does not grow', async () => {
  const m = await module()
  assert.throws(() => { if (m.exports.memory.grow(1) >= 0) throw new Error('grew') })
})

await test('wasm: ABI 1, and the tables say the same', async () => {
  const m = await module()
  assert.equal(m.exports.vram_abi(), 1)
  assert.equal(JSON.parse(m.tables()).abi, 1)
})

await test('wasm: an input above 4 MiB has no room, and the module lives on', async () => {
  const m = await module()
  const before = m.estimate('{}')
  assert.equal(m.exports.vram_input(4 * 1024 * 1024 + 1), 0)
  assert.equal(m.exports.vram_input(-1), 0)
  assert.equal(m.exports.vram_input(0x7fffffff), 0)
  assert.equal(m.estimate('{}'), before)
})

await test('wasm: an unknown operation, and a length that was never asked for, get no answer', async () => {
  const m = await module()
  const { vram_input, vram_call } = m.exports
  for (const op of [-1, 7, 99]) {
    vram_input(2)
    assert.ok(vram_call(op, 2) < 0, `operation ${op}`)
  }
  vram_input(2)
  for (const length of [-1, 3, 0x7fffffff]) assert.ok(vram_call(0, length) < 0, `length ${length}`)
})

await test('wasm: 3000 calls, none the worse for the others', async () => {
  const m = await module()
  const scenarios = presets.scenarios.map(p => JSON.stringify(p.scenario))
  const first = scenarios.map(s => m.estimate(s))
  for (let i = 0; i < 3000; i++) assert.equal(m.estimate(scenarios[i % scenarios.length]), first[i % scenarios.length])
})

await test('loader: opens, estimates, prices options, publishes tables', async () => {
  const core = await openCore(bytes, presets)
  const report = core.estimate({ model: { params: 7e9, num_hidden_layers: 32, hidden_size: 4096 } })
  assert.equal(report.components.weights, 14e9)
  const priced = core.options({ model: { params: 7e9, num_hidden_layers: 32, hidden_size: 4096 } }, { weights: ['bf16', 'int4', 'no such format'] })
  const list = (priced.options ?? priced).weights
  assert.equal(list[0].bytes - list[1].bytes, 14e9 - 3.5e9)
  assert.ok(list[2].error)
  assert.ok(core.tables().fields.length > 20)
})

await test('loader: refuses a module that is not ours', async () => {
  await assert.rejects(openCore(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]), presets))
  const broken = Buffer.from(bytes)
  broken[0] = 1
  await assert.rejects(openCore(broken, presets))
})

await test('options: every price is the peak of the scenario with that one path replaced', async () => {
  const core = await openCore(bytes, presets)
  const { patched } = await import('../lib.mjs')
  const fields = core.tables().fields.filter(f => f.values?.length && f.type !== 'names')
  for (const preset of presets.scenarios.slice(0, 8)) {
    const asked = Object.fromEntries(fields.map(f => [f.path, f.values]))
    const priced = core.options(preset.scenario, asked)
    for (const [path, list] of Object.entries(priced.options ?? priced)) for (const option of list) {
      const report = core.estimate(patched(preset.scenario, { [path]: option.value }))
      if (option.error) assert.ok(report.error, `${preset.id} ${path}=${option.value}`)
      else assert.equal(option.bytes, report.peak?.bytes, `${preset.id} ${path}=${option.value}`)
    }
  }
})

const size = (file, limit) => test(`size: ${file} within ${limit} kB`, () => {
  const data = readFileSync(file)
  note(`${file}: ${(data.length / 1000).toFixed(1)} kB, ${(gzipSync(data).length / 1000).toFixed(1)} kB compressed`)
  assert.ok(statSync(file).size <= limit * 1000, `${data.length} bytes`)
})
await size('build/vram.wasm', 360) // 12 of them judge claims: a search and its table of changes; 25 say what families of transformers do that others do not; 11 play an allocator and engines of one rank; 6 search for a number of GPUs; 3 are stages of a pipeline
await size('build/presets.json', 600)
await size('build/index.html', 1600)
