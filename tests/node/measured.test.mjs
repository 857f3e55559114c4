// How far the estimates are from what others measured. Missing a target is work left; getting worse than the record, which
// `make accuracy` writes, is a failure.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { test, note } from '../harness.mjs'

const folder = 'tests/cases/measured'
const files = readdirSync(folder).filter(f => f.endsWith('.jsonl')).sort().map(f => `${folder}/${f}`)
const run = spawnSync('python3', [`${folder}/score.py`, 'build/vram', ...files, '--json'], { encoding: 'utf8', maxBuffer: 1 << 26 })
const recorded = JSON.parse(readFileSync('tests/cases/recorded.json', 'utf8'))
let groups = []

await test('measured cases: every one is answered', () => {
  assert.ok(run.status === 0 || run.status === 1, run.stderr)
  groups = JSON.parse(run.stdout)
  assert.ok(groups.length > 10, run.stderr || 'no table')
  for (const g of groups.filter(g => g.miss)) note(`off target: ${g.group} (${g.class})`)
})

const percent = x => `${(100 * x).toFixed(2)} %`
const slack = x => x + Math.max(0.0002, x * 0.02) // what rounding and an added row may move

/** What is worse than the record says, of one group, in words; of a loose group only that it is answered. */
function worse(g, was) {
  const say = (what, now, then) => `${g.group} (${g.class}): ${what} ${now}, recorded ${then}`
  return [
    g.refused > was.refused && say('not answered', g.refused, was.refused),
    g.exact_wrong > was.wrong && g.class === 'exact' && say('not equal', g.exact_wrong, was.wrong),
    g.fits && g.fits_right < was.fits_right && say('right about whether it runs', g.fits_right, was.fits_right),
    ...['median', 'p90'].map(k => g.class === 'modelled' && g[k] !== null && (was[k] === null || g[k] > slack(was[k])) && say(k, percent(g[k]), was[k] === null ? 'none' : percent(was[k]))),
  ].filter(Boolean)
}

await test('measured cases: no group is worse than recorded', () => {
  const now = new Map(groups.map(g => [`${g.group}/${g.class}`, g]))
  const gone = Object.keys(recorded).filter(k => !now.has(k)).map(k => `${k}: recorded, and there no more`)
  const fresh = [...now.keys()].filter(k => !recorded[k]).map(k => `${k}: not recorded; make accuracy records it`)
  assert.deepEqual([...gone, ...fresh, ...groups.flatMap(g => (recorded[`${g.group}/${g.class}`] ? worse(g, recorded[`${g.group}/${g.class}`]) : []))], [])
})

await test('measured cases: the record notices', () => {
  const [modelled, exact] = ['modelled', 'exact'].map(c => groups.find(g => g.class === c && g.median !== null))
  const was = g => recorded[`${g.group}/${g.class}`]
  assert.deepEqual([worse({ ...modelled, p90: was(modelled).p90 * 1.5 + 0.01 }, was(modelled)).length, worse({ ...exact, exact_wrong: was(exact).wrong + 1 }, was(exact)).length], [1, 1])
})
