// What several suites share: the products under test, the cases, and how a number is read from a report.

import { readFileSync, readdirSync } from 'node:fs'
import { spawnSync } from 'node:child_process'

export const presets = JSON.parse(readFileSync('build/presets.json', 'utf8'))
export const rows = file => readFileSync(file, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line))

/** Runs a program over scenarios, one a line; returns the lines it answers with, as it wrote them. */
export function batch(scenarios, program = 'build/vram') {
  const input = scenarios.map(s => typeof s === 'string' ? s : JSON.stringify(s)).join('\n') + '\n'
  const run = spawnSync(program, ['batch'], { input, maxBuffer: 1 << 30 })
  if (run.signal || run.status === 1) throw new Error(`${program} batch ended with ${run.signal ?? run.status}\n${String(run.stderr).slice(-4000)}`)
  return run.stdout.toString('utf8').split('\n').slice(0, -1)
}

export function estimate(text, args = ['--json'], program = 'build/vram') {
  const run = spawnSync(program, ['estimate', '-', ...args], { input: text, maxBuffer: 1 << 28 })
  return { status: run.signal ?? run.status, out: run.stdout.toString('utf8'), err: run.stderr.toString('utf8') }
}

/** The module without our loader: bytes in, bytes out. */
export async function module(presetsText = readFileSync('build/presets.json')) {
  const { instance } = await WebAssembly.instantiate(readFileSync('build/vram.wasm'), {})
  const c = instance.exports
  c._initialize?.()
  const call = (op, data) => {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    const at = c.vram_input(bytes.length)
    if (!at) throw new Error(`no room for ${bytes.length} bytes`)
    new Uint8Array(c.memory.buffer, at, bytes.length).set(bytes)
    const length = c.vram_call(op, bytes.length)
    return new TextDecoder().decode(new Uint8Array(c.memory.buffer, c.vram_output(), length))
  }
  const m = { exports: c, call, estimate: s => call(0, typeof s === 'object' && !(s instanceof Uint8Array) ? JSON.stringify(s) : s),
    options: r => call(1, JSON.stringify(r)), tables: () => call(2, ''), load: p => call(3, p) }
  if (presetsText) m.load(presetsText)
  return m
}

const plain = v => v && typeof v === 'object' && !Array.isArray(v)

/** A copy of `base` with the dotted paths (or nested objects) of `patch` put over it. */
export function patched(base, patch = {}) {
  const out = structuredClone(base)
  const put = (target, key, value) => {
    const [first, ...rest] = key.split('.')
    if (rest.length) put(target[first] = plain(target[first]) ? target[first] : {}, rest.join('.'), value)
    else if (plain(value) && plain(target[first]) && first !== 'model') for (const k in value) put(target[first], k, value[k])
    else target[first] = value
  }
  for (const key in patch) put(out, key, patch[key])
  return out
}

/** The scenario preset of an id, or the preset of a chapter. */
export const scenarioPreset = key => presets.scenarios.find(p => p.id === key || p.chapter === key) ??
  (() => { throw new Error(`no scenario preset ${key}`) })()

/** The rows of chapters.jsonl, each with its scenario made. */
export const chapters = () => rows('tests/cases/chapters.jsonl').map(row => {
  const preset = scenarioPreset(row.preset ?? row.chapter)
  return { ...row, preset, scenario: patched(preset.scenario, row.patch) }
})

/** `reading` is that of tests/cases/measured/README.md, and more: role, what (lists), verdict of a gpu. */
export function read(report, reading) {
  if (report.error) throw new Error(`refused: ${JSON.stringify(report.error)}`)
  const { of, phase = 'any', role, what, components = 'all', except = [] } = reading
  if (of.startsWith('params_')) return report.model[of]
  if (of === 'verdict') return report.fits.find(f => f.gpu === reading.gpu)?.verdict
  if (of === 'gpus_needed') return report.fits.find(f => f.gpu === reading.gpu)?.gpus_needed
  if (of === 'rule_of_thumb') return report.rules_of_thumb.find(r => r.id === reading.id)?.bytes
  if (of === 'peak') return report.peak.bytes
  if (of !== 'bytes') return report[of]
  const sum = phase => report.entries
    .filter(e => (phase === 'any' || e.phases.includes(phase)) && (components === 'all' || components.includes(e.component)) &&
      !except.includes(e.component) && (!role || role.includes(e.role)) && (!what || what.includes(e.what)))
    .reduce((total, e) => total + e.bytes, 0)
  return phase === 'peak' ? Math.max(...report.phases.map(p => sum(p.id))) : sum(phase)
}

/** Throws unless every promise that any report makes about itself is kept. */
export function check(report) {
  const fail = (why, ...rest) => { throw new Error(`${why}: ${rest.map(r => JSON.stringify(r)).join(' ').slice(0, 600)}`) }
  const whole = n => Number.isSafeInteger(n) && n >= 0
  for (const key of ['version', 'scenario', 'model', 'peak', 'phases', 'entries', 'components', 'cluster_bytes', 'fits', 'notes'])
    if (!(key in report)) fail('missing', key)
  for (const e of report.entries) {
    if (!whole(e.bytes) || e.bytes === 0) fail('bytes of an entry', e)
    const product = e.formula.reduce((p, f) => p * f.value, 1)
    if (product !== e.bytes) fail('an entry is not the product of its factors', product, e)
    if (!e.phases.length) fail('an entry is never alive', e)
    if (!['exact', 'modelled', 'allowance'].includes(e.kind)) fail('kind', e)
  }
  const alive = phase => report.entries.filter(e => e.phases.includes(phase))
  for (const p of report.phases) {
    const sum = alive(p.id).reduce((t, e) => t + e.bytes, 0)
    if (sum !== p.bytes) fail('a phase is not the sum of its entries', p, sum)
  }
  const ids = report.phases.map(p => p.id)
  for (const e of report.entries) for (const p of e.phases) if (!ids.includes(p)) fail('a phase that the task has not', e)
  const top = Math.max(...report.phases.map(p => p.bytes))
  if (report.peak.bytes !== top) fail('peak is not the largest phase', report.peak, top)
  if (report.phases.find(p => p.id === report.peak.phase)?.bytes !== top) fail('peak phase', report.peak)
  const components = {}
  for (const e of alive(report.peak.phase)) components[e.component] = (components[e.component] ?? 0) + e.bytes
  for (const key of new Set([...Object.keys(components), ...Object.keys(report.components)]))
    if ((components[key] ?? 0) !== (report.components[key] ?? 0)) fail('component at the peak', key, components[key], report.components[key])
  for (const n of Object.values(report.model)) if (!(n >= 0) || !Number.isFinite(n)) fail('model', report.model)
  if (!whole(report.cluster_bytes) || report.cluster_bytes < report.peak.bytes) fail('cluster_bytes', report.cluster_bytes)
  for (const f of report.fits) {
    if (!['fits', 'tight', 'no'].includes(f.verdict)) fail('verdict', f)
    if (f.headroom_bytes >= 0 && f.verdict === 'no' && !report.notes.some(n => n.id === 'gpus_below_product') || f.headroom_bytes < 0 && f.verdict !== 'no') fail('verdict against headroom', f)
  }
  ;(function walk(value, path) {
    if (value === null && !/kv_tokens_capacity|max_context|scenario|gpus_needed/.test(path)) fail('null', path)
    if (typeof value === 'object') for (const k in value) walk(value[k], `${path}.${k}`)
  })(report, '')
}
