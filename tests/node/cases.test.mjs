// The same rows through every build: the program (gcc, clang, sanitizers) and the module in Node answer byte for byte the same,
// and the numbers worked by hand come out.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test, note } from '../harness.mjs'
import { batch, module, chapters, check, patched, presets, read, rows } from '../lib.mjs'

const wasm = await module()

const worked = chapters()
const answers = batch(worked.map(r => r.scenario)).map(line => JSON.parse(line))
for (const [i, row] of worked.entries())
  await test(`chapter ${row.chapter}: ${row.id} = ${row.expected}`, () =>
    assert.deepEqual(read(answers[i], row.reading), row.expected, `${row.arithmetic}; got ${read(answers[i], row.reading)}`))

await test('chapters: all seven have rows', () =>
  assert.deepEqual([...new Set(worked.map(r => r.chapter).filter(Boolean))].sort(), [1, 2, 3, 4, 5, 6, 7]))

for (const preset of presets.scenarios) await test(`scenario preset ${preset.id}: an estimate that keeps its promises`, () => {
  for (const variant of [{}, ...(preset.variants ?? [])]) {
    const report = JSON.parse(wasm.estimate(patched(preset.scenario, variant.patch)))
    assert.ok(!report.error, JSON.stringify(report.error))
    check(report)
  }
})

// checkpoints also hold learned values that no framework counts as parameters (a router's correction): the measured row says how
// many, and either way of counting is right
const counted = rows('tests/cases/measured/params.jsonl').filter(r => r.reading.of === 'params_total')
const uncounted = model => counted.find(r => String(r.scenario.model).toLowerCase() === model.id || Math.abs(r.measured - model.params_total) <= r.resolution)?.resolution ?? 0

for (const model of presets.models) await test(`model preset ${model.id}: as many parameters as the model has`, () => {
  const report = JSON.parse(wasm.estimate({ model: model.id }))
  assert.ok(!report.error, JSON.stringify(report.error))
  check(report)
  const equal = (got, want) => assert.ok([0, uncounted(model)].includes(Math.abs(got - want)), `${got}, not ${want}`)
  equal(report.model.params_total, model.params_total)
})

// every scenario we have, once
const models = Object.entries(JSON.parse(readFileSync('tests/cases/measured/models.json', 'utf8')))
const config = Object.fromEntries(models.filter(([, m]) => m.config).map(([name, m]) => [name, m.config]))
const resolve = v => Object.fromEntries(Object.entries(v).map(([k, x]) =>
  [k, ['model', 'critic', 'reference', 'reward'].includes(k) && config[x] ? config[x] : x && typeof x === 'object' && !Array.isArray(x) ? resolve(x) : x]))
const measured = readdirSync('tests/cases/measured').filter(f => f.endsWith('.jsonl')).flatMap(f => rows(`tests/cases/measured/${f}`))
const all = [...new Set([
  ...worked.map(r => r.scenario),
  ...presets.scenarios.flatMap(p => [p.scenario, ...(p.variants ?? []).map(v => patched(p.scenario, v.patch))]),
  ...presets.models.flatMap(m => [{ model: m.id }, { model: m.id, task: 'training' }, { model: m.id, task: 'rl' }]),
  ...presets.gpus.map(g => ({ gpu: g.id })),
  ...measured.map(r => resolve(r.scenario)),
].map(s => JSON.stringify(s)))]

const native = batch(all)
const same = (name, other) => test(`${name}: ${all.length} reports, byte for byte those of the program`, () => {
  assert.equal(other.length, native.length)
  const i = native.findIndex((line, i) => line !== other[i])
  if (i >= 0) {
    let at = 0
    while (native[i][at] === other[i][at]) at++
    assert.fail(`${all[i].slice(0, 300)}\n  program: ...${native[i].slice(Math.max(0, at - 80), at + 80)}\n  ${name}: ...${other[i].slice(Math.max(0, at - 80), at + 80)}`)
  }
})
await same('wasm', all.map(s => wasm.estimate(s)))
await same('clang', batch(all, 'build/clang/vram'))

const some = all.filter((s, i) => i % 10 === 0 || i < 400)
await test(`sanitizers: ${some.length} scenarios, no complaint, the same bytes`, () => {
  const answers = batch(some, 'build/asan/vram')
  assert.deepEqual(answers.map((line, i) => line === native[all.indexOf(some[i])]).indexOf(false), -1)
})

await test(`every report of ${all.length} keeps its promises`, () => {
  let refused = 0
  for (const [i, line] of native.entries()) {
    const report = JSON.parse(line)
    if (report.error) refused++
    else try { check(report) } catch (e) { e.message += `\n  ${all[i].slice(0, 600)}`; throw e }
  }
  note(`${refused} of ${all.length} refused`)
})

await test('a normalised scenario gives the same report again', () => {
  const reports = native.map(line => JSON.parse(line)).filter(r => !r.error)
  const again = batch(reports.map(r => r.scenario))
  for (const [i, line] of again.entries()) assert.deepEqual(JSON.parse(line), reports[i])
})
