// A browser, a page that is watched, and servers for the page and for a stranger who embeds it.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { readFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { extname, join, normalize } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as webkit from './webkit.mjs'

const require = createRequire(new URL('../../web/package.json', import.meta.url))
const puppeteer = require('puppeteer-core')
export const axe = require('axe-core').source

export const name = process.argv[2] ?? 'chrome'
const program = { chrome: '/usr/bin/chromium', firefox: '/usr/bin/firefox-esr', webkit: webkit.driver }[name]
export const there = existsSync(program)

export const launch = () => name === 'webkit' ? webkit.launch() : puppeteer.launch({
  browser: name,
  executablePath: program,
  headless: true,
  // the container's root has no sandbox; /dev/shm is small there; nothing of Google's own may go out and be taken for ours
  args: name === 'chrome' ? ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', '--disable-component-update', '--no-first-run'] : [],
  // as Firefox ships: each file is an origin of its own (the driver switches that off, and then file: pages pass falsely)
  extraPrefsFirefox: { 'security.fileuri.strict_origin_policy': true, 'privacy.file_unique_origin': true },
})

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.json': 'application/json' }

/** Serves a folder, or one text, from a port of its own: another port is another origin. */
export async function serve(what) {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, 'http://x').pathname)
    try {
      const body = typeof what === 'function' ? what(path) : await readFile(join(what, path.endsWith('/') ? `${path}index.html` : path))
      response.writeHead(200, { 'content-type': `${TYPES[extname(path)] ?? 'text/html'}; charset=utf-8` }).end(body)
    } catch { response.writeHead(404).end() }
  })
  await new Promise(done => server.listen(0, '127.0.0.1', done))
  server.unref()
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

export const fileUrl = pathToFileURL('build/index.html').href

/** Opens a watched page; after `body` nothing may have gone wrong in it, and nothing may have left it. */
export async function withPage(browser, { width = 1280, height = 900, allowed = [] }, body) {
  const context = await browser.createBrowserContext()
  const page = await context.newPage()
  const wrong = []
  try {
    if (name !== 'webkit') await watch(page, allowed, wrong)
    await page.setViewport({ width, height })
    await body(page)
    if (name === 'webkit') wrong.push(...await page.wrong())
    assert.deepEqual(wrong, [])
  } catch (e) {
    if (wrong.length && !e.message.includes(wrong[0])) e.message += `\n  and in the page: ${wrong.join('\n  ')}`
    throw e
  } finally {
    await context.close()
  }
}

function watch(page, allowed, wrong) {
  page.on('pageerror', e => wrong.push(`page error: ${e?.message ?? e}`))
  page.on('console', m => { if (['error', 'warn', 'warning'].includes(m.type())) wrong.push(`console ${m.type()}: ${m.text()}`) })
  page.on('request', r => {
    const url = r.url()
    if (!/^(data|blob|about):/.test(url) && !url.startsWith(fileUrl) && !allowed.some(a => url.startsWith(a))) wrong.push(`request: ${url}`)
  })
  page.on('requestfailed', r => wrong.push(`request failed: ${r.url()}`))
  return page.evaluateOnNewDocument(() => document.addEventListener('securitypolicyviolation',
    e => console.error(`policy violation: ${e.violatedDirective} ${e.blockedURI}`)))
}
