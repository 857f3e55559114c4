// How far the estimates are from what others measured. The table is printed, not judged: a miss is work left, a crash is a failure.

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { test, note } from '../harness.mjs'

const folder = 'tests/cases/measured'
const files = readdirSync(folder).filter(f => f.endsWith('.jsonl')).sort().map(f => `${folder}/${f}`)

await test('measured cases: every one is answered', () => {
  const run = spawnSync('python3', [`${folder}/score.py`, 'build/vram', ...files], { encoding: 'utf8', maxBuffer: 1 << 26 })
  assert.ok(run.status === 0 || run.status === 1, run.stderr)
  const lines = run.stdout.trimEnd().split('\n')
  assert.ok(lines.length > 10, run.stderr || 'no table')
  lines.forEach(note)
})
