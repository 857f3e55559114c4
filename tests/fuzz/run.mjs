// Replays the corpus (and every scenario we ship, and every hostile case) under gcc's sanitizers, then lets libFuzzer hunt from
// there for FUZZ_SECONDS (default 60). The dictionary is made from the core's own tables, so it never falls behind.
// A find is written to build/fuzz/: add it to tests/fuzz/corpus with the mend.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { test, note } from '../harness.mjs'
import { chapters, module, patched, presets, rows } from '../lib.mjs'

const seconds = Number(process.env.FUZZ_SECONDS ?? 60)
const folder = 'build/fuzz'
rmSync(`${folder}/seeds`, { recursive: true, force: true })
for (const f of ['seeds', 'found']) mkdirSync(`${folder}/${f}`, { recursive: true })

const tables = JSON.parse((await module()).tables())
const scenarios = [...presets.scenarios.flatMap(p => [p.scenario, ...(p.variants ?? []).map(v => patched(p.scenario, v.patch))]), ...chapters().map(r => r.scenario)]
const seeds = scenarios.map(s => JSON.stringify(s))
for (const field of tables.fields) for (const value of [...(field.values ?? []), field.min, field.max].filter(v => v !== undefined && v !== null).slice(0, 12))
  seeds.push(JSON.stringify(patched({}, { [field.path]: value })))
for (const p of presets.scenarios) seeds.push(JSON.stringify({ scenario: p.scenario, options: { weights: ['bf16', 'int4'], 'training.checkpointing': ['none', 'full'] } }))
for (const m of presets.models) seeds.push(JSON.stringify({ model: m.config }))
for (const h of rows('tests/cases/hostile.jsonl')) if (h.text) seeds.push(h.text)
seeds.forEach((text, i) => writeFileSync(`${folder}/seeds/${i}`, text))

const words = new Set([...tables.fields.flatMap(f => [...f.path.split('.'), ...(f.values ?? [])]), ...Object.keys(Object.assign({}, ...presets.models.map(m => m.config)))])
writeFileSync(`${folder}/dictionary`, [...words, 'scenario', 'options', 'model', 'params'].map(w => JSON.stringify(String(w))).map(w => `"${w.slice(1, -1).replaceAll('"', '\\"')}"\n"\\"${w.slice(1, -1)}\\":"\n`).join(''))

const corpus = readdirSync('tests/fuzz/corpus').map(f => `tests/fuzz/corpus/${f}`)
const inputs = [...corpus, ...seeds.map((_, i) => `${folder}/seeds/${i}`)]

await test(`fuzz: ${inputs.length} inputs replayed under gcc's sanitizers`, () => {
  const run = spawnSync('build/test/replay', inputs, { encoding: 'utf8' })
  assert.equal(run.status, 0, run.stderr.slice(0, 4000))
})

await test(`fuzz: ${seconds} seconds of libFuzzer find nothing`, () => {
  const run = spawnSync('build/test/fuzz', [`-max_total_time=${seconds}`, '-max_len=8192', '-timeout=10', '-rss_limit_mb=2048', `-dict=${folder}/dictionary`,
    `-artifact_prefix=${folder}/`, `${folder}/found`, `${folder}/seeds`, 'tests/fuzz/corpus'], { encoding: 'utf8', maxBuffer: 1 << 28 })
  const done = /Done (\d+) runs/.exec(run.stderr)?.[1]
  if (done) note(`${done} runs`)
  assert.equal(run.status, 0, run.stderr.split('\n').filter(l => !/^#\d|^ +#\d+ .*(fuzzer::|libc|_start|\(\/lib)/.test(l)).join('\n').slice(-5000))
})
