// The page's words: the same keys in both languages, and a word for each id that the core may show.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from '../harness.mjs'
import { module, presets } from '../lib.mjs'

const { fields, lists } = JSON.parse((await module()).tables())
const [en, zh] = ['en', 'zh'].map(l => JSON.parse(readFileSync(`web/i18n/${l}.json`, 'utf8')))
const keys = (words, at = '') => Object.keys(words).sort().flatMap(k => typeof words[k] === 'object' ? keys(words[k], `${at}${k}.`) : [`${at}${k}`])
const holes = text => (String(text).match(/\{[^}]*\}/g) ?? []).sort()
const at = (words, key) => key.split('.').reduce((o, k) => o?.[k], words)

await test('words: both languages have the same keys', () => assert.deepEqual(keys(zh), keys(en)))
await test('words: both languages fill in the same values', () => {
  for (const key of keys(en)) assert.deepEqual([...new Set(holes(at(zh, key)))], [...new Set(holes(at(en, key)))], key)
})
await test('words: none is empty', () => {
  for (const words of [en, zh]) for (const key of keys(words)) assert.ok(String(at(words, key)).trim(), key)
})
await test('lists: no id twice', () => {
  for (const [name, list] of Object.entries(lists)) {
    const ids = list.map(x => x.id ?? x)
    assert.equal(new Set(ids).size, ids.length, name)
  }
  const paths = fields.map(f => f.path)
  assert.equal(new Set(paths).size, paths.length)
})
await test('presets: titles and texts in both languages', () => {
  for (const p of presets.scenarios) for (const part of [p.title, p.text, ...(p.variants ?? []).map(v => v.title)])
    for (const l of ['en', 'zh']) assert.ok(part?.[l]?.trim(), `${p.id} ${l}`)
})
