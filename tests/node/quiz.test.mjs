// Practice: a thousand questions over all chapters, each answer of the core against a formula written here, from what the question says and nothing else.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test, note } from '../harness.mjs'
import { presets } from '../lib.mjs'
import { openCore } from '../../web/src/core.js'
import { readCount, readParameters } from '../../web/src/units.js'
import { CHAPTERS, LENGTH, SEED, freshSeed, isRight, kindsOf, question, readAnswer } from '../../web/src/quiz-questions.js'

const core = await openCore(readFileSync('build/vram.wasm'), presets)
const BYTES = { bf16: 2, fp16: 2, fp32: 4, int8: 1, fp8: 1, int4: 0.5 }

// What a person reads in the question: the model as it is named, the facts below it.
const said = q => {
  const f = Object.fromEntries(q.facts)
  const model = typeof q.vars.model === 'object' ? q.vars.model : {}
  return { ...q.vars, N: f.parameters ?? model.params, active: model.params_active, other: q.vars.other?.params,
    L: f.layers, h: f.hidden_size, k: f.num_key_value_heads, d: f.head_dim, a: f.num_attention_heads, f: f.intermediate_size, V: f.vocab_size }
}
const wide = s => s.k === undefined ? s.h : s.k * s.d // numbers of K (or V) a token and layer

const BY_HAND = {
  weights: s => s.N * BYTES[s.format],
  weights_of: s => s.N * BYTES[s.format],
  weights_cards: s => s.N * 2 / s.n,
  saved: s => s.N * 2 - s.N * 0.5,
  token: s => 2 * s.L * wide(s) * 2,
  cache: s => 2 * s.L * wide(s) * 2 * s.tokens * s.batch,
  cache_of: s => 2 * s.L * wide(s) * 2 * s.tokens * s.batch,
  cache_fp8: s => 2 * s.L * wide(s) * 1 * s.tokens * s.batch,
  together: s => s.N * 2 + 2 * s.L * wide(s) * 2 * s.tokens * s.batch,
  rest: s => s.N * (2 + 2 + 4 + 4 + 4),
  gradients_fp32: s => s.N * (2 + 4 + 4 + 4 + 4),
  eight_bit: s => s.N * (2 + 2 + 4 + 1 + 1),
  pure_bf16: s => s.N * (2 + 2 + 2 + 2),
  moments: s => s.N * (4 + 4),
  master: s => s.N * 4,
  zero: s => s.N * 16 / s.n,
  foreach: s => s.N * 4,
  rule_34: s => s.L * s.tokens * s.batch * s.h * 34,
  rule_5as: s => s.L * 5 * s.a * s.tokens ** 2 * s.batch,
  checkpoints: s => s.L * s.tokens * s.batch * s.h * 2,
  logits: s => s.tokens * s.batch * s.V * 4,
  scores: s => 5 * s.a * s.tokens ** 2,
  four: s => s.N * (16 + 16 + 2 + 2),
  grpo: s => s.N * (16 + 2 + 2),
  dpo: s => s.N * (16 + 2),
  small_critic: s => s.N * (16 + 2) + s.other * (16 + 2),
  rollout: s => 2 * s.L * s.h * 2 * (s.prompt + s.response) * s.batch,
  frozen: s => s.N * 2 * 2,
  count_qv: s => s.L * 2 * s.rank * (s.h + s.h),
  count_all: s => s.L * s.rank * ((s.h + s.a * s.d) + 2 * (s.h + s.k * s.d) + (s.a * s.d + s.h) + 3 * (s.h + s.f)), // q, k and v, o, gate up down
  adapters: s => BY_HAND.count_qv(s) * (4 + 4 + 4 + 4),
  whole: s => s.N * 2 + BY_HAND.adapters(s),
  qlora: s => s.N * 0.5,
  resident: s => s.N * BYTES[s.format],
  resident_of: s => s.N * 2,
  read: s => s.active * 2,
  trained: s => s.N * 16,
  idle: s => (s.N - s.active) * 2,
  cards: s => s.N * 16 / s.n,
}

await test('quiz: every kind of question has a formula by hand, and seven chapters have some', () => {
  assert.deepEqual(CHAPTERS, [1, 2, 3, 4, 5, 6, 7])
  for (const chapter of CHAPTERS) for (const kind of kindsOf(chapter)) assert.ok(BY_HAND[kind], kind)
  assert.ok(LENGTH >= 10 && LENGTH <= 20)
})

await test('quiz: a thousand questions, the core against the hand', () => {
  const seen = new Set()
  let worst = 0, questions = 0
  for (let seed = 0; questions < 1000; seed++) for (const chapter of CHAPTERS) for (let n = 0; n < LENGTH; n++) {
    const q = question(chapter, `s${seed}`, n, core, presets)
    const hand = BY_HAND[q.kind](said(q))
    const off = Math.abs(q.answer - hand) / hand
    // by the bytes: exact arithmetic, but for the scales of 4- and 8-bit types and unsharded small tensors
    assert.ok(off <= 0.035, `${q.kind} ${JSON.stringify(q.vars)} ${JSON.stringify(q.facts)}: ${q.answer}, by hand ${hand}`)
    assert.ok(isRight(hand, q.answer))
    assert.ok(q.entries.length > 0, q.kind)
    for (const e of q.entries) assert.equal(e.formula.reduce((p, f) => p * f.value, 1), e.bytes)
    worst = Math.max(worst, off)
    seen.add(q.kind)
    questions++
  }
  note(`quiz: ${questions} questions, the farthest ${(worst * 100).toFixed(2)} % from the hand's`)
  assert.equal(seen.size, Object.keys(BY_HAND).length)
})

await test('quiz: a seed draws the same again, another draws others', () => {
  const quiz = seed => JSON.stringify(Array.from({ length: LENGTH }, (_, n) => question(2, seed, n, core, presets).vars))
  assert.equal(quiz('abc123'), quiz('abc123'))
  assert.notEqual(quiz('abc123'), quiz('abc124'))
  for (let i = 0; i < 100; i++) assert.match(freshSeed(), SEED)
})

await test('quiz: no question comes twice in a set', () => {
  for (let seed = 0; seed < 30; seed++) for (const chapter of CHAPTERS) {
    const asked = Array.from({ length: LENGTH }, (_, n) => question(chapter, `t${seed}`, n, core, presets)).map(q => JSON.stringify([q.kind, q.vars]))
    assert.equal(new Set(asked).size, LENGTH, `t${seed}/${chapter}`)
  }
})

await test('quiz: answers as people type them', () => {
  for (const [text, unit, value] of [['14', 'GB', 14e9], ['14 GB', 'GiB', 14e9], ['13.04GiB', 'GB', 13.04 * 2 ** 30], ['524,288 B', 'GB', 524288], ['512 KiB', 'GB', 524288], ['.5mb', 'GB', 5e5], ['1e3 b', 'GB', 1000],
    ['１４ＧＢ', 'GB', 14e9], ['14 G', 'GB', 14e9], ['14g', 'GiB', 14 * 2 ** 30], ['约14', 'GB', 14e9], ['≈14', 'GB', 14e9], ['~ 14 gb', 'GB', 14e9], ['大约 １．５ Ｇ', 'GB', 1.5e9], ['５１２，０００ B', 'GB', 512000]])
    assert.equal(readAnswer(text, unit), value, text)
  assert.equal(readAnswer('4.2M', 'GB', true), 4.2e6)
  assert.equal(readAnswer('4194304', 'GB', true), 4194304)
  assert.equal(readAnswer('约４２０万', 'GB', true), 4.2e6)
  assert.equal(readCount('１，０２４'), 1024)
  assert.equal(readParameters('７Ｂ'), 7e9)
  for (const text of ['', 'x', '14 parsecs', '1..2', 'NaN', '-3']) assert.ok(Number.isNaN(readAnswer(text, 'GB')), text)
  // 1000 or 1024 is a difference that is judged
  assert.ok(isRight(14e9 * 1.049, 14e9) && !isRight(14 * 2 ** 30, 14e9))
})

await test('quiz: words for each kind in both languages', () => {
  for (const l of ['en', 'zh']) {
    const words = JSON.parse(readFileSync(`web/i18n/${l}.json`, 'utf8'))
    for (const kind of CHAPTERS.flatMap(kindsOf)) assert.ok(words.quiz?.[kind], `${l} ${kind}`)
  }
})
