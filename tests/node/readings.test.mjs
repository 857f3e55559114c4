// What the page makes of the core's answers before anything is drawn: a step through time with the cache apart, and prices asked for once.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from '../harness.mjs'
import { presets } from '../lib.mjs'
import { openCore } from '../../web/src/core.js'
import { makePrices } from '../../web/src/prices.js'
import { givenBack, roomOf, timelineOf } from '../../web/src/reading.js'

const core = await openCore(readFileSync('build/vram.wasm'), presets)
const trained = presets.scenarios.filter(s => s.scenario.task === 'training')
const total = numbers => numbers.reduce((a, b) => a + b, 0)

await test('through time: at the fullest instant of each phase every part is what the ledger lists, PyTorch\'s cache a part of its own', () => {
  let cached = 0
  for (const { id, scenario } of trained) {
    const report = core.estimate(scenario)
    const { components, points } = timelineOf(report, core.timeline(scenario))
    for (const phase of report.phases) {
      const top = points.filter(p => p.phase === phase.id).reduce((a, b) => total(b.bytes) > total(a.bytes) ? b : a)
      const listed = {}
      for (const e of report.entries.filter(e => e.phases.includes(phase.id))) {
        const part = e.what === 'allocator_cache' ? 'given_back' : e.component
        listed[part] = (listed[part] ?? 0) + e.bytes
      }
      const shown = Object.fromEntries(components.map((c, i) => [c, top.bytes[i]]).filter(([, bytes]) => bytes > 0))
      assert.deepEqual(shown, Object.fromEntries(Object.entries(listed).filter(([, bytes]) => bytes > 0)), `${id}, ${phase.id}`)
      cached += shown.given_back ? 1 : 0
    }
  }
  assert.ok(cached > 0)
})

await test('through time: taking the cache apart changes no instant\'s total', () => {
  for (const { id, scenario } of trained) {
    const before = core.timeline(scenario)
    assert.deepEqual(timelineOf(core.estimate(scenario), before).points.map(p => total(p.bytes)), before.points.map(p => total(p.bytes)), id)
  }
})

await test('prices: the core\'s own answers, each asked for once as long as the scenario is the same', () => {
  const asked = []
  const prices = makePrices({ options: (scenario, options) => {
    for (const [path, values] of Object.entries(options)) for (const value of values) asked.push(`${scenario.batch ?? 1} ${path} ${JSON.stringify(value)}`)
    return core.options(scenario, options)
  } })
  const run = work => { for (;;) { const { done, value } = work.next(); if (done) return value } }
  const scenario = { model: 'qwen3-8b' }
  const values = ['bf16', 'int4', 'nonsense']
  const expected = core.options(scenario, { weights: values }).weights
  assert.deepEqual(run(prices.later(scenario, 'weights', values)), expected)
  assert.deepEqual(prices.now(scenario, 'weights', [...values, 'fp32']).slice(0, 3), expected)
  assert.deepEqual(run(prices.later(scenario, 'batch', [2, 4])), core.options(scenario, { batch: [2, 4] }).batch)
  assert.equal(asked.length, 6)
  run(prices.later({ ...scenario, batch: 2 }, 'weights', values)) // another scenario is asked about anew
  assert.equal(asked.length, 9)
  assert.equal(new Set(asked).size, 9)
})

await test('an engine with pools: what the sentence holds against each other is what the verdict does, whatever the peak has beside the pools', () => {
  const seen = {}
  for (const engine of ['vllm', 'sglang']) for (const gpu of ['rtx-4090', 'a100-80gb', 'l4']) for (const model of ['qwen3-8b', 'llama-3.1-8b', 'qwen2.5-32b', 'qwen3-30b-a3b']) {
    for (const context of [512, 4096, 6145, 32768]) for (const batch of [1, 8, 64]) {
      const report = core.estimate({ engine, gpu, model, context, batch })
      if (report.error) continue
      const { wanted, budget, outside } = roomOf(report)
      const peak = report.peak.bytes - givenBack(report)
      const { verdict } = report.fits[0]
      const said = outside ? wanted : peak
      const key = `${engine} ${verdict === 'no' ? 'no' : 'fits'}`
      seen[key] = (seen[key] ?? 0) + 1
      seen.above = (seen.above ?? 0) + (verdict !== 'no' && peak > budget)
      assert.equal(said <= budget, verdict !== 'no', `${key}: ${model} on ${gpu}, ${context} × ${batch}: ${said} of ${budget}`)
    }
  }
  assert.ok(seen.above > 0 && ['vllm fits', 'vllm no', 'sglang fits', 'sglang no'].every(key => seen[key] > 10), JSON.stringify(seen))
})
