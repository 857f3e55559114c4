// Whatever comes in, an error object goes out: which field, what was there, what may be. Exit status 2, no crash, no echo of raw input.

import assert from 'node:assert/strict'
import { test } from '../harness.mjs'
import { estimate, module, rows } from '../lib.mjs'

const wasm = await module()
const codes = new Set(JSON.parse(wasm.tables()).lists.error)

const input = row => row.hex ? Buffer.from(row.hex.replaceAll(' ', ''), 'hex')
  : Buffer.from(row.text ?? row.parts.map(([text, times]) => text.repeat(times)).join(''))

function judge(row, text) {
  assert.ok(text.length < 2000, `an answer of ${text.length} characters`)
  assert.ok(/^[\x20-\x7e\n]*$/.test(text), `raw input in the answer: ${text}`)
  const answer = JSON.parse(text)
  assert.deepEqual(Object.keys(answer), ['error'])
  const { error } = answer
  assert.ok(codes.has(error.code), `code ${error.code} is not in the tables`)
  assert.ok(row.code.includes(error.code), `code ${error.code} ${error.path}, expected ${row.code}`)
  assert.equal(typeof error.path, 'string')
  if (row.path && error.code !== 'syntax') assert.ok(error.path === row.path || error.path.startsWith(`${row.path}[`), `path ${error.path}, expected ${row.path}`)
  if (row.value !== undefined) assert.equal(error.value, row.value)
  if (row.range) assert.ok(typeof error.min === 'number' && typeof error.max === 'number' && error.min <= error.max, JSON.stringify(error))
}

for (const row of rows('tests/cases/hostile.jsonl')) {
  const bytes = input(row)
  await test(`program refuses: ${row.id}`, () => {
    const run = estimate(bytes)
    assert.equal(run.status, 2, `exit status ${run.status}; ${run.out.slice(0, 300)} ${run.err.slice(0, 300)}`)
    judge(row, run.out)
  })
  await test(`module refuses: ${row.id}`, () => {
    if (bytes.length > 4 << 20) return assert.equal(wasm.exports.vram_input(bytes.length), 0)
    judge(row, wasm.estimate(bytes))
  })
  await test(`sanitizers accept how the program refuses: ${row.id}`, () => {
    const run = estimate(bytes, ['--json'], 'build/asan/vram')
    assert.equal(run.status, 2, run.err.slice(0, 2000))
  })
}

await test('after all that the module still answers as a fresh one', async () =>
  assert.equal(wasm.estimate('{}'), (await module()).estimate('{}')))
