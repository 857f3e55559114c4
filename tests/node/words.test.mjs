// The page's words: the same keys in both languages, and a word for each id that the core may show.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from '../harness.mjs'
import { module, presets } from '../lib.mjs'

const { fields, lists } = JSON.parse((await module()).tables())
const flat = (words, above = '') => Object.entries(words).flatMap(([k, v]) => typeof v === 'object' ? flat(v, `${above}${k}/`) : [[`${above}${k}`, v]])
const [en, zh] = ['en', 'zh'].map(l => new Map(flat(JSON.parse(readFileSync(`web/i18n/${l}.json`, 'utf8')))))
const holes = text => [...new Set(text.match(/\{[^}]*\}/g) ?? [])].sort()

await test('words: both languages have the same keys', () => assert.deepEqual([...zh.keys()].sort(), [...en.keys()].sort()))
await test('words: both languages fill in the same values', () => {
  for (const [key, text] of en) assert.deepEqual(holes(zh.get(key) ?? ''), holes(text), key)
})
await test('words: none is empty, and Chinese is Chinese', () => {
  for (const words of [en, zh]) for (const [key, text] of words) assert.ok(text.trim(), key)
  const chinese = [...zh.values()].filter(text => /\p{Script=Han}/u.test(text)).length
  assert.ok(chinese > zh.size * 0.7, `${chinese} of ${zh.size}`)
})
for (const list of ['component', 'phase', 'role', 'certainty', 'verdict', 'what', 'note', 'error', 'rule', 'source', 'symbol'])
  await test(`words: one for each ${list}`, () => {
    const there = id => en.has(`${list}/${id}`) || en.has(`${list}/${id}/label`)
    const missing = (lists[list] ?? []).map(x => x.id ?? x).filter(id => id !== 'none' && !there(id))
    assert.deepEqual(missing, [])
  })
await test('words: why each factor is there, and why each tensor is', () => {
  assert.deepEqual(lists.symbol.filter(s => !en.has(`symbol_why/${s.id}`)).map(s => s.id), [])
  assert.deepEqual(lists.what.filter(id => id !== 'none' && !en.has(`why/${id}`)), [])
})
await test('words: a label for each field', () => assert.deepEqual(fields.map(f => f.path).filter(p => !en.has(`field/${p}/label`)), []))
await test('lists: no id twice', () => {
  for (const [name, list] of Object.entries({ ...lists, field: fields.map(f => f.path) })) {
    const ids = list.map(x => x.id ?? x)
    assert.equal(new Set(ids).size, ids.length, name)
  }
})
await test('sources: an address or none, never half of one', () => {
  for (const s of lists.source) assert.ok(s.address === '' || /^https:\/\/[^ ]+$/.test(s.address), `${s.id}: ${s.address}`)
})
await test('presets: titles and texts in both languages', () => {
  for (const p of presets.scenarios) for (const part of [p.title, p.text, ...(p.variants ?? []).map(v => v.title), ...(p.quoted ?? []).map(q => q.text)])
    for (const l of ['en', 'zh']) assert.ok(part?.[l]?.trim(), `${p.id} ${l}`)
})

await test('chapters: a question, three sentences, a trap, short, in both languages; controls that exist', () => {
  const guided = presets.scenarios.filter(s => s.chapter)
  const paths = fields.map(f => f.path)
  for (const s of guided) {
    assert.equal(s.say?.length, 3, s.id)
    for (const l of ['en', 'zh']) for (const part of [s.question, ...s.say, s.trap]) {
      assert.ok(part?.[l]?.trim(), `${s.id} ${l}`)
      assert.ok(part[l].length <= (l === 'en' ? 230 : 110), `${s.id} ${l}: too long for a small screen`)
    }
    for (const part of [...s.say, s.trap]) assert.deepEqual(holes(part.zh), holes(part.en), s.id)
    for (const path of s.controls) assert.ok(paths.includes(path), `${s.id}: ${path}`)
  }
})
