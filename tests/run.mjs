#!/usr/bin/env node
// Runs the suites one after the other and counts. A suite is a command that prints "ok - name", "not ok - name" or
// "skip - name: why", a line a test, and may add "# remarks". A suite that ends badly without saying which test failed, or
// that says nothing, is a failure of its own. A skipped test is never counted as passed.
//
//   node tests/run.mjs [WORD...]      only suites whose names contain one of the words; VERBOSE=1 prints the passed ones too

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { readdirSync, existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const files = (folder, end) => existsSync(folder) ? readdirSync(folder).filter(f => f.endsWith(end)).sort().map(f => `${folder}/${f}`) : []

const suites = [
  ['core, gcc with sanitizers', ['build/test/core']],
  ['core, clang', ['build/test/core-clang']],
  ...files('tests/cases', '_check.py').map(f => [f, ['python3', f, '--vram', 'build/vram']]),
  ...files('tests/node', '.test.mjs').map(f => [f, ['node', f]]),
  ['fuzz', ['node', 'tests/fuzz/run.mjs']],
  ...files('tests/browser', '.test.mjs').flatMap(f => ['chrome', 'firefox', 'webkit'].map(b => [`${f}, ${b}`, ['node', f, b]])),
]

const words = process.argv.slice(2)
const total = { ok: 0, 'not ok': 0, skip: 0 }

for (const [name, command] of suites) {
  if (words.length && !words.some(w => name.includes(w))) continue
  const start = Date.now()
  const count = { ok: 0, 'not ok': 0, skip: 0 }
  console.log(`== ${name}`)
  const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
  const errors = []
  child.stderr.setEncoding('utf8').on('data', text => errors.push(text))
  const ended = new Promise(done => child.on('error', e => done(e.message)).on('close', (code, signal) => done(signal ?? code)))
  for await (const line of createInterface({ input: child.stdout })) {
    const result = /^(ok|not ok|skip) - /.exec(line)?.[1]
    if (result) count[result]++
    if (result !== 'ok' || process.env.VERBOSE) console.log(line)
  }
  const status = await ended
  if ((status !== 0 && !count['not ok']) || (!count.ok && !count['not ok'] && !count.skip)) {
    count['not ok']++
    console.log(`not ok - ${name}: ended with ${status} after ${count.ok} passed\n${errors.join('').slice(-6000)}`)
  } else if (count['not ok'] && errors.length) console.log(errors.join('').slice(-3000))
  for (const k in total) total[k] += count[k]
  console.log(`   ${count.ok} passed, ${count['not ok']} failed${count.skip ? `, ${count.skip} skipped` : ''} in ${((Date.now() - start) / 1000).toFixed(1)} s`)
}

console.log()
console.log(`${total.ok} passed, ${total['not ok']} failed${total.skip ? `, ${total.skip} skipped` : ''}`)
process.exitCode = total['not ok'] || !total.ok ? 1 : 0
