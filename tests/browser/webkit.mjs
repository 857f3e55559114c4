// WebKit, Safari's engine, which puppeteer does not drive: so much of puppeteer's page as the tests use, over the protocol that WebKitGTK's own driver speaks
// (W3C WebDriver). One window shows one page after the other; what a page stored is taken away with it. Requests cannot be watched here; errors can, once the page stands.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const driver = '/usr/bin/WebKitWebDriver'
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf' // the protocol's name for a reference to one
const KEYS = { Tab: '\uE004', Enter: '\uE007', Control: '\uE009', Escape: '\uE00C', ' ': ' ', Space: ' ', PageUp: '\uE00E', PageDown: '\uE00F', End: '\uE010', Home: '\uE011',
  ArrowLeft: '\uE012', ArrowUp: '\uE013', ArrowRight: '\uE014', ArrowDown: '\uE015', Backspace: '\uE003', Delete: '\uE017', Shift: '\uE008' }

const program = () => {
  const [folder] = readdirSync('/usr/lib', { recursive: false }).map(f => `/usr/lib/${f}/webkit2gtk-4.1`).filter(f => existsSync(`${f}/MiniBrowser`))
  return `${folder}/MiniBrowser`
}

const freePort = () => new Promise(done => {
  const server = createServer().listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => done(port)) })
})

export async function launch() {
  const port = await freePort()
  const child = spawn('xvfb-run', ['-a', '-s', '-screen 0 2600x2000x24', driver, `--port=${port}`],
    { stdio: 'ignore', detached: true, env: { ...process.env, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1', LIBGL_ALWAYS_SOFTWARE: '1' } }) // the container's root has no sandbox
  const call = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body), signal: AbortSignal.timeout(60000) })
    const { value } = await response.json()
    if (value?.error) throw new Error(`${value.error}: ${value.message}`)
    return value
  }
  for (let tries = 0; ; tries++) try { await call('GET', '/status'); break } catch (e) { if (tries > 100) throw e; await sleep(100) }
  const { sessionId } = await call('POST', '/session', { capabilities: { alwaysMatch: { 'webkitgtk:browserOptions': { binary: program(), args: ['--automation'] } } } })
  const of = (method, path, body) => call(method, `/session/${sessionId}${path}`, body)
  return {
    close: async () => { await of('DELETE', ''); process.kill(-child.pid) },
    createBrowserContext: async () => ({
      newPage: async () => pageOf(of),
      close: () => of('POST', '/execute/sync', { script: 'if (location.protocol !== "about:") { localStorage.clear(); sessionStorage.clear() }', args: [] }),
    }),
  }
}

/** One window has the driver's attention: a frame is entered for each command and left again. */
const inFrame = (of, ref) => async (...command) => {
  await of('POST', '/frame', { id: ref })
  try { return await of(...command) } finally { await of('POST', '/frame/parent', {}) }
}

function pageOf(of) {
  const wrong = []
  const run = (f, ...args) => of('POST', '/execute/sync', { script: typeof f === 'string' ? f : `return (${f}).apply(null, arguments)`, args: args.map(a => a?.[ELEMENT] ? a : a ?? null) })
  const find = (selector, all = '') => of('POST', `/element${all}`, { using: 'css selector', value: selector })
  const act = (type, actions, more = {}) => of('POST', '/actions', { actions: [{ type, id: type, ...more, actions }] })
  const press = keys => act('key', keys.flatMap(value => [{ type: 'keyDown', value }, { type: 'keyUp', value }]))
  const click = ref => of('POST', `/element/${ref[ELEMENT]}/click`, {})
  const handle = ref => ({
    evaluate: (f, ...args) => run(f, ref, ...args),
    click: () => click(ref),
    scrollIntoView: () => run(n => n.scrollIntoView(), ref),
    contentFrame: async () => pageOf(inFrame(of, ref)),
  })
  const until = async (f, { timeout = 30000 } = {}, ...args) => {
    for (const end = Date.now() + timeout; ;) {
      const value = await run(f, ...args)
      if (value) return value
      if (Date.now() > end) throw new Error(`waited ${timeout} ms in vain for ${f}`)
      await sleep(30)
    }
  }
  const watch = () => run(() => {
    if (window.wrongs) return
    window.wrongs = []
    addEventListener('error', e => wrongs.push(`page error: ${e.message}`))
    addEventListener('unhandledrejection', e => wrongs.push(`page error: ${e.reason}`))
    addEventListener('securitypolicyviolation', e => wrongs.push(`policy violation: ${e.violatedDirective} ${e.blockedURI}`))
  })
  const page = {
    on: () => {}, // errors are gathered in the page: wrong()
    wrong: async () => [...wrong, ...await run(() => window.wrongs ?? [])],
    setViewport: ({ width, height }) => of('POST', '/window/rect', { width, height }),
    goto: async url => {
      if (url !== 'about:blank') wrong.push(...await run(() => window.wrongs ?? []))
      await of('POST', '/url', { url })
      await watch()
    },
    goBack: () => of('POST', '/back', {}),
    reload: async () => { await of('POST', '/refresh', {}); await watch() },
    evaluate: run,
    $: async selector => { try { return handle(await find(selector)) } catch { return null } },
    $$: async selector => (await find(selector, 's')).map(handle),
    $eval: async (selector, f, ...args) => run(f, await find(selector), ...args),
    $$eval: (selector, f, ...args) => run({ toString: () => `(selector, ...rest) => (${f})([...document.querySelectorAll(selector)], ...rest)` }, selector, ...args),
    focus: selector => run(s => document.querySelector(s).focus(), selector),
    click: async selector => click(await find(selector)),
    select: (selector, value) => run((s, v) => { const n = document.querySelector(s); n.value = v; n.dispatchEvent(new Event('input', { bubbles: true })); n.dispatchEvent(new Event('change', { bubbles: true })) }, selector, value),
    type: async (selector, text) => { await page.focus(selector); await press([...text]) },
    waitForSelector: async (selector, options) => handle(await until(s => document.querySelector(s), options, selector)),
    waitForFunction: until,
    keyboard: {
      press: key => press([KEYS[key] ?? key]),
      type: text => press([...text]),
      down: key => act('key', [{ type: 'keyDown', value: KEYS[key] ?? key }]),
      up: key => act('key', [{ type: 'keyUp', value: KEYS[key] ?? key }]),
    },
    mouse: { click: (x, y) => act('pointer', [{ type: 'pointerMove', x: Math.round(x), y: Math.round(y) }, { type: 'pointerDown', button: 0 }, { type: 'pointerUp', button: 0 }]) },
  }
  return page
}
