// The program as a person and a script meet it.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from '../harness.mjs'
import { estimate, presets } from '../lib.mjs'

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

await test('vram with wrong arguments: says how it is used, exit status 2', () => {
  for (const args of [[], ['nonsense'], ['estimate', '--nonsense'], ['estimate', '/no/such/file'], ['estimate', '/']]) {
    const run = vram(args)
    assert.equal(run.status, 2, args.join(' '))
    assert.ok(run.err.length > 0, args.join(' '))
    assert.equal(run.out, '', args.join(' '))
  }
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
