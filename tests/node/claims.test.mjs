// Claims, each with its verdict worked by hand (tests/cases/claims.jsonl): possible as it stands, only with changes, or not at all.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from '../harness.mjs'
import { estimate, patched, presets, rows } from '../lib.mjs'
import { openCore } from '../../web/src/core.js'

const claims = rows('tests/cases/claims.jsonl')
const native = scenario => {
  const run = spawnSync('build/vram', ['claim', '-', '--json'], { input: JSON.stringify(scenario), encoding: 'utf8' })
  return JSON.parse(run.stdout)
}
const report = (scenario, patch = {}) => JSON.parse(estimate(JSON.stringify(patched(scenario, patch))).out)
const fits = r => !r.error && r.fits[0].verdict !== 'no'
const needed = r => r.fits[0].usable_bytes - r.fits[0].headroom_bytes
const patchOf = set => Object.fromEntries(set.changes.map(c => [c.path, c.value]))

await test('claims: at least thirty, of every verdict, each with its reason', () => {
  assert.ok(claims.length >= 30)
  for (const verdict of ['possible', 'only_if', 'no']) assert.ok(claims.filter(c => c.verdict === verdict).length >= 6, verdict)
  for (const c of claims) assert.ok(c.reason.length > 30, c.claim)
})

for (const c of claims) await test(`claim: ${c.claim}`, () => {
  const { claim } = native(c.scenario)
  assert.equal(claim.verdict, c.verdict)
  assert.equal(fits(report(c.scenario)), c.verdict === 'possible')
  assert.equal(claim.bytes, report(c.scenario).peak.bytes)
  // the way that was worked by hand does it; what the core found costs no more than it needs to
  if (c.enough) assert.ok(fits(report(c.scenario, c.enough)), 'the changes worked by hand are not enough')
  if (c.changes) assert.deepEqual(claim.changes.map(x => x.path).sort(), [...c.changes].sort())
  assert.equal(claim.changes.length > 0, c.verdict === 'only_if')
  if (c.verdict === 'no') assert.ok(claim.least_needed_bytes > claim.usable_bytes)
})

await test('claims: every set fits, none of its changes is idle, the savings add up, and no set holds another', () => {
  for (const c of claims.filter(x => x.verdict === 'only_if')) {
    const { claim } = native(c.scenario)
    const sets = [{ ...claim, changed: claim.changed_bytes }, ...claim.alternatives]
    for (const set of sets) {
      const after = report(c.scenario, patchOf(set))
      assert.ok(fits(after), `${c.claim}: ${JSON.stringify(set.changes)}`)
      assert.equal(after.peak.bytes, set.changed_bytes)
      assert.equal(needed(after), set.changed_needed_bytes)
      assert.equal(set.changes.reduce((sum, x) => sum + x.saves_bytes, 0), claim.needed_bytes - set.changed_needed_bytes, c.claim)
      assert.ok(set.cost >= claim.cost)
      for (const x of set.changes) {
        if (x.path === 'parallel.data') continue // goes with parallel.zero
        const without = patchOf({ changes: set.changes.filter(y => y !== x && !(x.path === 'training.method' && ['weights', 'rl.reference'].includes(y.path))) })
        assert.ok(!fits(report(c.scenario, without)), `${c.claim}: ${x.path} is idle`)
      }
    }
    sets.forEach((a, i) => sets.forEach((b, j) => {
      if (i !== j) assert.ok(!a.changes.every(x => b.changes.some(y => y.path === x.path && y.value === x.value)), `${c.claim}: ${j} holds ${i}`)
    }))
  }
})

await test('claims: no change saves less than nothing, and what is kept from its saving is taken off another', () => {
  const scenarios = [ // LoRA for the sake of a 4-bit base; recomputing, while the step is the peak
    { task: 'training', model: 'llama-2-70b', gpu: 'a40', training: { checkpointing: 'full' } },
    { task: 'training', model: 'yi-6b', gpu: 'rtx-2080-ti', training: { checkpointing: 'full', attention: 'eager' }, parallel: { offload: 'optimizer' } },
    { task: 'training', model: 'qwen3-coder-480b-a35b-instruct', gpu: 'gb200', gpus: 8, parallel: { zero: 2 } },
    { task: 'rl', model: 'llama-3-8b', gpu: 'p40', gpus: 4, training: { micro_batch: 18 } },
  ]
  for (const scenario of scenarios) {
    const { claim } = native(scenario)
    assert.equal(claim.verdict, 'only_if')
    for (const set of [claim, ...claim.alternatives]) {
      assert.ok(set.changes.every(x => x.saves_bytes >= 0), JSON.stringify(set.changes))
      assert.equal(set.changes.reduce((sum, x) => sum + x.saves_bytes, 0), claim.needed_bytes - set.changed_needed_bytes)
    }
  }
})

await test('claims: the module says what the program says', async () => {
  const core = await openCore(readFileSync('build/vram.wasm'), presets)
  for (const c of claims) assert.deepEqual(core.claim(c.scenario), native(c.scenario).claim, c.claim)
  assert.equal(core.claim({ task: 'nonsense' }).error.path, 'task')
})

await test('vram claim: a preset by name, a refusal, a table', () => {
  const run = (args, input = '') => spawnSync('build/vram', args, { input, encoding: 'utf8' })
  assert.match(run(['claim', 'one-a100']).stdout, /^only if: needs 140\.00 GB/)
  assert.match(run(['claim', 'weights']).stdout, /^possible/)
  const refused = run(['claim', '-', '--json'], '{"context":0}')
  assert.deepEqual([refused.status, JSON.parse(refused.stdout).error.path], [2, 'context'])
  assert.equal(run(['claim', '-'], '[]').status, 2)
})

await test('claims: "no" is not said where LoRA over four bits with checkpoints would do', () => {
  const way = { 'training.method': 'lora', weights: 'nf4-dq', 'training.checkpointing': 'full' }
  for (const model of ['llama-3.1-70b', 'qwen2.5-32b', 'mixtral-8x7b-instruct-v0.1']) for (const gpu of ['rtx-4090', 'a100-80gb']) for (const engine of ['ddp', 'fsdp1', 'fsdp2', 'deepspeed']) {
    const scenario = { task: 'training', model, gpu, parallel: { engine, data: 2 } }
    const { claim } = native(scenario)
    if (claim.verdict !== 'no') continue
    for (const tokens of [4096, 512]) assert.ok(!fits(report(scenario, { ...way, 'training.sequence_length': tokens })), `${model} ${gpu} ${engine} ${tokens}`)
  }
})
