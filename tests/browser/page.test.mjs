// The page as people meet it: from disk and over http, in a browser named on the command line. Any error in the page, any breach
// of its policy and any request to elsewhere fails the test it happens in (withPage).

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { test, skip } from '../harness.mjs'
import { batch, chapters, module, presets, read } from '../lib.mjs'
import { axe, fileUrl, launch, name, serve, there, withPage } from './lib.mjs'

if (!there) { skip(`page in ${name}`, 'the browser is not installed'); process.exit() }

const site = await serve('build/site')
const browser = await launch()
const places = [['file', fileUrl, []], ['http', `${site.origin}/index.html`, [site.origin]]]
const [, home, own] = places[1]
const everything = name !== 'webkit' // its driver is slow, and what only the engine can break breaks from disk, too
if (!everything) places.pop()

/** Until everything is drawn that the page leaves for after the answer: prices, pictures, what if. */
const rest = page => page.waitForSelector('html.ready:not(.busy)', { timeout: 20000 })
const open = async (page, url, hash = '') => {
  await page.goto('about:blank')
  await page.goto(url + hash)
  await rest(page)
}
/** Another address in the open page, as a click on a link or the history gives it. */
const turn = async (page, hash) => {
  await page.evaluate(hash => new Promise(done => {
    addEventListener('hashchange', () => setTimeout(done), { once: true })
    location.hash = hash
  }), hash)
  await rest(page)
}
/** As a hand does it: all marked, typed over, and on to the next field. */
const retype = async (page, selector, text) => {
  await page.focus(selector)
  await page.keyboard.down('Control')
  await page.keyboard.press('a')
  await page.keyboard.up('Control')
  await page.keyboard.type(text)
  await page.keyboard.press('Tab')
}
const text = (page, selector) => page.$eval(selector, n => n.textContent.trim())
const linkOf = (preset, patch = {}, more = '') =>
  `#v=1&p=${preset}${Object.entries(patch).map(([k, v]) => `&${k}=${encodeURIComponent(v)}`).join('')}${more}`

/** What the page shows, phase by phase: its rows and what they open into, its totals, its counts. */
const harvest = page => page.evaluate(() => {
  const $$ = (selector, node = document) => [...node.querySelectorAll(selector)]
  const phases = $$('#ledger .phase').map((_, i) => {
    $$('#ledger .phase')[i].click()
    for (const closed of $$('#ledger .row-open[aria-expanded=false]')) closed.click()
    return {
      pressed: $$('#ledger .phase')[i].getAttribute('aria-pressed'),
      total: Number(document.querySelector('#ledger .total-bytes').dataset.bytes),
      rows: $$('#ledger tr.row').map(tr => {
        const [role, component] = tr.dataset.key.split('/')
        const amount = tr.querySelector('.col-bytes')
        return { role, component, bytes: Number(amount.dataset.bytes), text: amount.textContent, title: amount.title,
          entries: $$('.entry', tr.nextElementSibling).map(e => ({ name: e.querySelector('.entry-name').textContent, bytes: Number(e.querySelector('.entry-bytes').dataset.bytes) })) }
      }),
    }
  })
  return {
    phases,
    facts: Object.fromEntries($$('#facts [data-fact]').map(n => [n.dataset.fact, n.querySelector('dd').title || n.querySelector('dd').textContent])),
    rules: $$('#rules-block .rule-bytes').map(n => Number(n.dataset.bytes)),
    peak: Number(document.querySelector('#sentence [data-bytes]').dataset.bytes),
    own: document.querySelector('#compare .own')?.dataset.verdict,
  }
})

const sums = entries => {
  const out = {}
  for (const e of entries) {
    const key = `${e.role}/${e.what === 'allocator_cache' ? 'given_back' : e.component}` // what is given back has a row of its own
    out[key] = (out[key] ?? 0) + e.bytes
  }
  return out
}

const sizes = entries => entries.map(e => e.bytes).sort((a, b) => a - b)

/** The page's numbers are the program's, in every phase; and what is written is what is meant. */
function sameAsReport(shown, report) {
  assert.equal(shown.peak, report.peak.bytes)
  assert.equal(shown.phases.length, report.phases.length)
  for (const [i, phase] of report.phases.entries()) {
    const { rows, total, pressed } = shown.phases[i]
    const alive = report.entries.filter(e => e.phases.includes(phase.id))
    assert.equal(pressed, 'true')
    assert.deepEqual(sums(rows), sums(alive), phase.id)
    assert.equal(total, phase.bytes)
    assert.deepEqual(sizes(rows.flatMap(r => r.entries)), sizes(alive), `entries of ${phase.id}`)
    for (const r of rows) {
      const [number, unit] = r.text.split(/\s/)
      const scale = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }[unit]
      assert.ok(Math.abs(Number(number.replaceAll(',', '')) * scale - r.bytes) <= r.bytes * 0.0051, `${r.text} is written for ${r.bytes}`)
      assert.ok(r.title.startsWith(`${r.bytes.toLocaleString('en')} B`), r.title)
    }
  }
}

/** A chapter's reading, taken from what the page shows. */
const whatOf = new Map(Object.entries(JSON.parse(readFileSync('web/i18n/en.json', 'utf8')).what).map(([id, name]) => [name, id]))
function readShown(shown, report, reading) {
  if (reading.of.startsWith('params_')) return Number((shown.facts[reading.of] ?? '').replaceAll(',', ''))
  if (reading.of === 'verdict') return shown.own
  if (reading.of === 'rule_of_thumb') return shown.rules.find(bytes => bytes === read(report, reading))
  const entries = new Map() // an entry alive in several phases is one entry
  for (const [i, phase] of report.phases.entries()) for (const row of shown.phases[i].rows) for (const [n, e] of row.entries.entries()) {
    const same = row.entries.slice(0, n).filter(o => o.name === e.name && o.bytes === e.bytes).length
    const key = [row.role, row.component, e.name, e.bytes, same].join()
    if (!entries.has(key)) entries.set(key, { ...row, bytes: e.bytes, what: whatOf.get(e.name), phases: [] })
    entries.get(key).phases.push(phase.id)
  }
  return read({ phases: report.phases, entries: [...entries.values()] }, reading)
}

const { lists } = JSON.parse((await module()).tables())
const ids = new Set(Object.entries(lists).flatMap(([name, list]) => name === 'format' ? [] : list.map(x => x.id ?? x))) // a person should see a word for each

const rows = chapters()
const reports = batch(rows.map(r => r.scenario)).map(l => JSON.parse(l))
const shipped = batch(presets.scenarios.map(p => p.scenario)).map(l => JSON.parse(l))

for (const [place, url, allowed] of places) {
  const where = `${name}, ${place}`
  const on = (title, body, options = {}) => test(`${where}: ${title}`, () => withPage(browser, { allowed, ...options }, body))

  // the chapters' rows: each link opened once, in a page of its own
  const opened = new Map()
  const look = async hash => {
    let shown
    await withPage(browser, { allowed }, async page => { await open(page, url, hash); shown = await harvest(page) })
    return shown
  }
  const shownAt = hash => opened.get(hash) ?? opened.set(hash, look(hash)).get(hash)
  if (everything) for (const [i, row] of rows.entries()) await test(`${where}: ${row.chapter ? `chapter ${row.chapter}` : row.preset.id}: ${row.id} = ${row.expected}`, async () => {
    const shown = await shownAt(linkOf(row.preset.id, row.patch, '&lang=en&unit=GB'))
    assert.deepEqual(readShown(shown, reports[i], row.reading), row.expected)
    sameAsReport(shown, reports[i])
  })

  await on(`all ${presets.scenarios.length} scenarios, opened one after the other by the address, show the program's numbers`, async page => {
    await open(page, url, '#v=1&lang=en&unit=GB')
    for (const [i, preset] of presets.scenarios.entries()) {
      await turn(page, linkOf(preset.id, {}, '&lang=en&unit=GB'))
      try { sameAsReport(await harvest(page), shipped[i]) } catch (e) { e.message = `${preset.id}: ${e.message}`; throw e }
    }
  })

  await on('opens without an address, with an answer', async page => {
    await open(page, url)
    assert.match(await text(page, '#sentence'), /\d/)
    assert.match(await page.evaluate(() => location.hash), /^#v=1/)
  })

  await on('changing the language keeps the scenario', async page => {
    await open(page, url, linkOf('kv-cache', { batch: 2 }, '&lang=en'))
    const before = (await harvest(page)).peak
    await page.evaluate(() => [...document.querySelectorAll('#tools .seg')].find(n => n.textContent.includes('中文')).querySelector('input').click())
    assert.match(await text(page, '#sentence'), /\p{Script=Han}/u)
    assert.equal((await harvest(page)).peak, before)
    assert.match(await page.evaluate(() => location.hash), /batch=2.*lang=zh/)
  })

  await on('a link round-trips: what was changed by hand is in the address, and the address brings it back', async page => {
    await open(page, url, linkOf('kv-cache', {}, '&lang=en'))
    const pick = (path, label) => page.evaluate((path, label) => {
      const chip = [...document.querySelectorAll(`[data-path="${path}"] label.chip`)].find(n => n.querySelector('.chip-label').textContent === label)
      chip.querySelector('input').click()
    }, path, label)
    await pick('weights', 'int4')
    await page.evaluate(() => { for (const d of document.querySelectorAll('#form details')) d.open = true })
    await retype(page, '[data-path="batch"] input', '7')
    const hash = await page.evaluate(() => location.hash)
    assert.match(hash, /p=kv-cache/)
    assert.match(hash, /weights=int4/)
    assert.match(hash, /batch=7/)
    const [report] = batch([{ ...presets.scenarios.find(p => p.id === 'kv-cache').scenario, weights: 'int4', batch: 7 }]).map(l => JSON.parse(l))
    sameAsReport(await harvest(page), report)
    await open(page, url, hash)
    sameAsReport(await harvest(page), report)
    const again = await page.evaluate(() => location.hash)
    assert.equal(again, hash)
  })

  await on('an address carries what differs from its preset and matters; what cannot be used leaves the preset\'s own value', async page => {
    const hash = () => page.evaluate(() => location.hash)
    const task = name => page.evaluate(n => document.querySelector(`.task input[value="${n}"]`).click(), name)
    await open(page, url, '#v=1&p=training&training.micro_batch=3&lang=en')
    await task('inference')
    assert.equal(await hash(), '#v=1&p=training&task=inference&lang=en') // what only training reads is not said ..
    assert.equal(await page.$$eval('#notes-block li', all => all.filter(n => /not read/.test(n.textContent)).length), 0)
    await task('training')
    assert.equal(await hash(), '#v=1&p=training&training.micro_batch=3&lang=en') // .. but not forgotten
    const peak = async () => (await harvest(page)).peak
    await open(page, url, '#v=1&p=training&lang=en')
    const whole = await peak()
    for (const bad of ['model.hidden_size=-3', 'model=nobody', 'training.micro_batch=0', 'gpu=abacus', 'training.optimizer=magic']) {
      await open(page, url, `#v=1&p=training&${bad}&lang=en`)
      assert.equal(await peak(), whole, bad)
      assert.ok((await text(page, '#notice')).length > 10, bad)
    }
    for (const version of ['0', 'abc', '-1', '1.5', '']) {
      await open(page, url, `#v=${version}&p=weights&lang=en`)
      assert.match(await text(page, '#notice'), /version/, version)
    }
  })

  await on('going back undoes, going forward does again', async page => {
    await open(page, url, linkOf('weights', {}, '&lang=en'))
    const peak = async () => (await harvest(page)).peak
    const first = await peak()
    await page.evaluate(() => [...document.querySelectorAll('[data-path="weights"] label.chip')].find(n => n.textContent.startsWith('fp32')).querySelector('input').click())
    const second = await peak()
    assert.ok(second > first)
    const wait = peak => page.waitForFunction(p => Number(document.querySelector('#sentence [data-bytes]').dataset.bytes) === p, { timeout: 15000 }, peak)
    await page.evaluate(() => history.back())
    await wait(first)
    await page.evaluate(() => history.forward())
    await wait(second)
  })

}

// what does not depend on the place: from disk
{
  const [, url] = places[0]
  const on = (title, body, options = {}) => test(`${name}: ${title}`, () => withPage(browser, options, body))

  for (const [lang, code] of [['en', 'en'], ['zh', 'zh-CN']]) await on(`speaks ${lang}, and shows no bare id`, async page => {
    await open(page, url, `#v=1&lang=${lang}`)
    await page.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true })
    for (const preset of presets.scenarios) {
      await turn(page, linkOf(preset.id, {}, `&lang=${lang}`))
      const seen = await page.evaluate(() => {
        for (const b of document.querySelectorAll('.row-open[aria-expanded=false]')) b.click()
        document.getElementById('accuracy').hidden = true // ids of measured groups
        for (const code of document.querySelectorAll('.homework pre')) code.hidden = true // Python has names of its own
        return { lang: document.documentElement.lang, sentence: document.getElementById('sentence').textContent, body: document.body.innerText }
      })
      assert.equal(seen.lang, code)
      assert.equal(/\p{Script=Han}/u.test(seen.sentence), lang === 'zh', seen.sentence)
      assert.deepEqual(seen.body.match(/\b[a-z0-9]+(_[a-z0-9]+)+\b/g)?.filter(w => ids.has(w)) ?? [], [], `${preset.id}: bare ids`)
      assert.deepEqual(seen.body.match(/\{\w+\}|\bundefined\b|\bNaN\b|\[object/g) ?? [], [], `${preset.id}: holes`)
    }
  })

  await on('the price on an option is what the choice then costs', async page => {
    await open(page, url, linkOf('kv-cache', {}, '&lang=en&unit=GB'))
    const count = await page.evaluate(() => document.querySelectorAll('[data-path="weights"] label.chip').length)
    assert.ok(count >= 3)
    for (let i = 0; i < count; i++) {
      const [price, peak] = await page.evaluate(i => {
        const chip = document.querySelectorAll('[data-path="weights"] label.chip')[i]
        const price = chip.title.split(' B')[0].replaceAll(',', '')
        chip.querySelector('input').click()
        return [Number(price), Number(document.querySelector('#sentence [data-bytes]').dataset.bytes)]
      }, i)
      assert.equal(price, peak)
    }
  })

  await on('each key is answered at once; what comes after it, prices and pictures, is of the last key', async page => {
    await open(page, url, '#v=1&task=training&model=qwen3-8b&lang=en&unit=GB')
    const typed = await page.evaluate(() => {
      const box = document.querySelector('[data-path="training.sequence_length"] input')
      return ['8', '81', '819', '8192'].map(text => {
        box.value = text
        box.dispatchEvent(new Event('input', { bubbles: true }))
        return [Number(document.querySelector('#sentence [data-bytes]').dataset.bytes), document.documentElement.classList.contains('busy')]
      })
    })
    const scenario = length => ({ task: 'training', model: 'qwen3-8b', training: { sequence_length: length } })
    assert.deepEqual(typed, batch([8, 81, 819, 8192].map(scenario)).map(l => [JSON.parse(l).peak.bytes, true]))
    await rest(page)
    const full = { ...scenario(8192), training: { sequence_length: 8192, checkpointing: 'full' } }
    const price = await page.evaluate(() => [...document.querySelectorAll('[data-path="training.checkpointing"] label.chip')].find(n => n.textContent.startsWith('full')).title)
    assert.equal(Number(price.split(' B')[0].replaceAll(',', '')), JSON.parse(batch([full])[0]).peak.bytes)
  })

  await on('a long list opens at once, and its prices follow', async page => {
    await open(page, url, '#v=1&task=training&model=qwen3-8b&lang=en&unit=GB')
    const field = await page.$('.field-model .combo-input')
    const before = await field.evaluate(input => {
      input.focus()
      input.click()
      return [...input.parentNode.querySelectorAll('.combo-right')].map(n => n.textContent)
    })
    assert.equal(before.length, presets.models.length)
    assert.deepEqual([...new Set(before)], [''])
    await page.waitForFunction(() => [...document.querySelectorAll('.field-model .combo-right')].every(n => n.textContent), { timeout: 20000 })
    const shown = await field.evaluate(input => [...input.parentNode.querySelectorAll('.combo-option')].map(n => [n.querySelector('.combo-label').textContent, n.querySelector('.combo-right').textContent]))
    const some = presets.models.slice(0, 5)
    const peaks = batch(some.map(m => ({ task: 'training', model: m.id }))).map(l => JSON.parse(l).peak.bytes)
    for (const [i, m] of some.entries()) {
      const [, price] = shown.find(([label]) => label === m.name)
      assert.ok(Math.abs(Number(price.split(' ')[0].replaceAll(',', '')) * 1e9 - peaks[i]) < peaks[i] * 0.006, `${m.name}: ${price}`)
    }
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    assert.equal(await page.$eval('.field-model .combo-input', n => n.value), shown[shown.findIndex(([label]) => label === 'Qwen3-8B') + 1][0])
  })

  await on('a training step is a curve: its summits are the phases, a button or a click on it chooses one', async page => {
    const scenario = { task: 'training', model: 'qwen3-8b', training: { checkpointing: 'full' } }
    const [report] = batch([scenario]).map(l => JSON.parse(l))
    await open(page, url, '#v=1&task=training&model=qwen3-8b&training.checkpointing=full&lang=en&unit=GB')
    await page.waitForSelector('.instant')
    const state = () => page.evaluate(() => {
      const canvas = [...document.querySelectorAll('#time canvas')].find(c => c.getClientRects().length)
      return { label: canvas.getAttribute('aria-label'), height: canvas.clientHeight, instants: [...document.querySelectorAll('.instant')].map(b => [b.dataset.instant, b.title, b.getAttribute('aria-pressed')]),
        note: document.querySelector('#time .chart-note:not(:empty)').textContent, ledger: document.querySelector('#ledger .phase[aria-pressed=true] .phase-name').textContent, total: document.querySelector('#ledger tfoot th').textContent }
    })
    const first = await state()
    assert.deepEqual(first.instants.map(([id]) => id), report.phases.map(p => p.id))
    for (const { id, bytes } of report.phases) assert.ok(Math.abs(Number(first.instants.find(i => i[0] === id)[1].split(' ')[0]) * 1e9 - bytes) < bytes * 0.006, id)
    assert.match(first.label, /The peak: [\d.,]+ GB, /)
    assert.ok(first.height >= 180)
    await page.focus('.instant[data-instant="backward"]')
    await page.keyboard.press('Enter')
    await rest(page)
    const chosen = await state()
    assert.equal(chosen.ledger, 'Backward')
    const [, where] = /Backward, at (the embedding|the head and the loss|layer \d+ of 36)$/.exec(chosen.total) ?? assert.fail(chosen.total)
    assert.ok(chosen.note.startsWith(`Backward: fullest at ${where}, ${first.instants.find(([id]) => id === 'backward')[1].split(' GB')[0]} GB`), chosen.note)
    const alive = report.entries.filter(e => e.phases.includes('backward'))
    const listed = await page.$$eval('#time .colours li', all => all.map(li => [li.dataset.key.split('/')[1], Number(li.querySelector('.amount').dataset.bytes)]))
    for (const [part, bytes] of listed) assert.equal(bytes, sums(alive.map(e => ({ ...e, role: 'model' })))[`model/${part}`] ?? 0, part) // what is alive then, beside its colour
    await page.click('#time .colours li button')
    assert.deepEqual(await page.evaluate(() => [document.activeElement.className, document.activeElement.getAttribute('aria-expanded'), document.activeElement.querySelector('.row-name').textContent]), ['row-open', 'true', 'Weights'])
    await page.evaluate(() => { // a click in the middle of forward
      const canvas = [...document.querySelectorAll('#time canvas')].find(c => c.getClientRects().length)
      canvas.scrollIntoView({ block: 'center' })
    })
    const [x, y] = await page.evaluate(() => {
      const [canvas, button] = [[...document.querySelectorAll('#time canvas')].find(c => c.getClientRects().length).getBoundingClientRect(), document.querySelector('.instant[data-instant="forward"]').getBoundingClientRect()]
      return [button.left + button.width / 2, canvas.top + canvas.height * 0.6]
    })
    await page.mouse.click(x, y)
    await page.waitForFunction(() => document.querySelector('#ledger .phase[aria-pressed=true] .phase-name').textContent === 'Forward', { timeout: 15000 }) // the chart tells of a click in a frame of its own
    for (const hash of [linkOf('kv-cache', {}, '&lang=en'), '#v=1&task=rl&model=qwen3-8b&lang=en']) { // columns again
      await turn(page, hash)
      assert.equal(await page.evaluate(() => document.querySelector('.instant').getClientRects().length), 0)
      assert.doesNotMatch(await text(page, '#ledger tfoot th'), /, at /)
    }
  })

  await on('what if: each change says what it does to the peak, in order, and a click does just that', async page => {
    await open(page, url, '#v=1&task=training&model=qwen3-8b&gpu=a100-80gb&lang=en&unit=GB')
    await page.waitForSelector('#whatif .whatif-row')
    const look = () => page.evaluate(() => ({
      peak: Number(document.querySelector('#sentence [data-bytes]').dataset.bytes),
      must: Number(document.querySelector('#sentence [data-bytes]').dataset.needed), // as the verdict has it
      rows: [...document.querySelectorAll('#whatif .whatif-row')].map(b => ({ change: b.dataset.change, bytes: Number(b.firstChild.dataset.bytes), cost: b.querySelector('.whatif-cost').textContent })),
      none: [...document.querySelectorAll('#whatif .whatif-rest button')].map(b => b.dataset.change),
    }))
    const { peak, rows, none } = await look()
    const changes = rows.map(r => r.change)
    assert.deepEqual(rows.map(r => r.bytes), rows.map(r => r.bytes).sort((a, b) => a - b))
    assert.ok(rows.some(r => r.bytes < 0) && rows.some(r => r.bytes > 0))
    assert.ok(['sharded', 'training.method=lora', 'training.optimizer=adamw-8bit', 'training.attention=eager'].every(c => changes.includes(c)), changes.join())
    assert.ok(![...changes, ...none].some(c => ['training.optimizer=adamw', 'training.method=full'].includes(c))) // as it is
    for (const r of rows) assert.match(r.cost, /compute|slower|learn|network|casts/)
    assert.match(rows.find(r => r.change === 'training.method=lora').cost, /^Then it fits.*The peak then: Backward/)
    for (const change of ['training.optimizer=adamw-8bit', 'sharded']) {
      const before = await look()
      await page.evaluate(change => document.querySelector(`#whatif [data-change="${change}"]`).click(), change)
      const after = await look()
      const row = before.rows.find(r => r.change === change)
      assert.equal(after.peak - before.peak, row.bytes, change)
      const [less, must] = [after.must - before.must, /Without PyTorch’s cache ([−+])([\d.,]+) GB\.$/.exec(row.cost)] // said where it is another number
      assert.equal(Boolean(must), Math.abs(row.bytes - less) > before.peak * 0.01, `${change}: ${row.cost}`)
      if (must) assert.ok(Math.abs(Number(must[2]) * 1e9 * (must[1] === '+' ? 1 : -1) - less) < 6e7, `${row.cost} for ${less}`)
      await rest(page)
      assert.equal(await page.evaluate(change => document.querySelector(`#whatif [data-change="${change}"]`), change), null, change)
    }
    assert.ok((await look()).peak < peak)
    await turn(page, linkOf('kv-cache', {}, '&lang=en'))
    assert.equal(await page.evaluate(() => document.getElementById('whatif-block').hidden), true)
  })

  await on('rules of thumb: the differences lead from the rule to the ledger, and their reasons are this scenario’s', async page => {
    const of = async hash => {
      await open(page, url, `#v=1&task=training&lang=en&unit=GB&${hash}`)
      await page.waitForSelector('.rule')
      return page.evaluate(() => Object.fromEntries([...document.querySelectorAll('.rule')].map(r => [/34·s|5·a·s|Sixteen/.exec(r.querySelector('.rule-name').textContent)[0], {
        rule: Number(r.querySelector('.rule-bytes').dataset.bytes), why: r.querySelector('.rule-why').textContent, off: [...r.querySelectorAll('.rule-off')].reduce((n, o) => n + Number(o.dataset.bytes), 0),
        lines: [...r.querySelectorAll('.rule-lines li')].map(l => l.textContent).join(' ') }])))
    }
    const [report] = batch([{ task: 'training', model: 'qwen3-8b' }]).map(l => JSON.parse(l))
    const activations = report.entries.filter(e => e.component === 'activations' && e.phases.includes('backward')).reduce((n, e) => n + e.bytes, 0)
    const plain = await of('model=qwen3-8b')
    assert.match(plain.Sixteen.why, /agrees: 131 GB/)
    assert.ok(Math.abs(plain['34·s'].rule + plain['34·s'].off - activations) < activations * 0.03)
    assert.match(plain['34·s'].lines, /fp32 copy of each input.*gated MLP keeps 4 tensors, 12,288 wide.*8 heads of keys and values for 32.*without dropout/)
    assert.match(plain['5·a·s'].lines, /never writes them down/)
    const gpt = await of('model=gpt2&training.attention=eager&training.optimizer=adamw-8bit&training.precision=bf16')
    assert.match(gpt.Sixteen.lines, /a byte each.*no separate copy/)
    assert.doesNotMatch(gpt['34·s'].lines, /gated|without dropout|fp32/)
    assert.match(gpt['5·a·s'].why, /agrees/)
    assert.match((await of('model=qwen3-8b&training.checkpointing=full'))['34·s'].lines, /only each layer’s input/)
    assert.match((await of('model=qwen3-8b&training.method=lora'))['34·s'].lines, /adapter keeps its input/)
  })

  await on('what somebody states without a derivation: what the ledger has for it, and what can be said of the difference', async page => {
    const preset = presets.scenarios.find(s => s.id === 'activations')
    const { peak, entries } = shipped[presets.scenarios.indexOf(preset)]
    const activations = entries.filter(e => e.component === 'activations' && e.phases.includes(peak.phase)).reduce((n, e) => n + e.bytes, 0)
    await open(page, url, linkOf('activations', {}, '&lang=en&unit=GB'))
    const rows = await page.$$eval('.rule', all => all.slice(0, 2).map(r => ({ bytes: [...r.querySelectorAll('[data-bytes]')].reduce((n, o) => n + Number(o.dataset.bytes), 0), text: r.textContent })))
    assert.deepEqual(rows.map(r => r.bytes), [activations, peak.bytes])
    assert.match(rows[0].text, /No assumptions came with it.*Nothing says what the rest would be\./)
    assert.match(rows[1].text, /gradients are not there yet/)
  })

  await on('how right is this: every group with its target, and the worst case of each that is modelled', async page => {
    const { groups } = JSON.parse(readFileSync('build/accuracy.json', 'utf8'))
    await open(page, url, '#v=1&lang=en&unit=GB')
    const [all, worst] = await page.evaluate(() => [...document.querySelectorAll('#accuracy details')].map(d => [...d.querySelectorAll('tbody tr')].map(tr => [...tr.children].map(c => c.textContent))))
    const judged = groups.filter(g => g.class !== 'loose')
    assert.deepEqual(all.filter(r => r.at(-1) === 'missed').map(r => r[0]).sort(), judged.filter(g => g.miss).map(g => g.id).sort())
    assert.equal(worst.length, groups.filter(g => g.worst).length)
    assert.ok(worst.length > 20)
    const errors = worst.map(r => parseFloat(r[4])).filter(e => !Number.isNaN(e))
    assert.deepEqual(errors, [...errors].sort((a, b) => b - a))
    for (const [group, what, estimate, measured] of worst) assert.ok(group && what.length > 3 && estimate && measured, `${group}: ${what}`)
  })

  await on('a refused value is named beside its field, and the last good answer stays', async page => {
    await open(page, url, linkOf('kv-cache', {}, '&lang=en'))
    const before = (await harvest(page)).peak
    await page.evaluate(() => { for (const d of document.querySelectorAll('#form details')) d.open = true })
    await retype(page, '[data-path="batch"] input', '0')
    const state = await page.evaluate(() => {
      const field = document.querySelector('[data-path="batch"]')
      return { invalid: field.querySelector('input').getAttribute('aria-invalid'), note: field.querySelector('.error')?.textContent, stale: !document.getElementById('stale').hidden,
        peak: Number(document.querySelector('#sentence [data-bytes]').dataset.bytes), hash: location.hash }
    })
    assert.equal(state.invalid, 'true')
    assert.match(state.note ?? '', /1/)
    assert.ok(state.stale)
    assert.equal(state.peak, before)
    assert.ok(!state.hash.includes('batch=0'))
  })

  await on('what is typed for the number of GPUs stays and is read as other numbers are; refused, it is in no address, and the last good answer stays', async page => {
    const box = '.field-gpu .gpu-row input.number'
    await open(page, url, linkOf('kv-cache', {}, '&lang=en'))
    const before = await text(page, '#sentence')
    const look = () => page.evaluate(box => ({ value: document.querySelector(box).value, note: document.querySelector('.field-gpu .error')?.textContent ?? null, hash: location.hash, sentence: document.getElementById('sentence').textContent.trim() }), box)
    const { hash } = await look()
    for (const typed of ['-4', 'abc']) {
      await page.$eval(box, n => { n.focus(); n.select() })
      await page.keyboard.type(typed)
      await new Promise(done => setTimeout(done, 250)) // longer than an address waits
      for (const key of [null, 'Tab']) {
        if (key) await page.keyboard.press(key)
        await rest(page)
        const now = await look()
        assert.equal(now.value, typed)
        assert.ok(now.note?.includes(typed) && !/NaN|null/.test(now.note), `${typed}: ${now.note}`)
        assert.equal(now.hash, hash, typed)
        assert.equal(now.sentence, before, typed)
      }
    }
    for (const [typed, number] of [['1,024', 1024], ['1e3', 1000], ['１６', 16]]) {
      await retype(page, box, typed)
      await rest(page)
      const now = await look()
      assert.deepEqual([now.value, now.note], [String(number), null])
      assert.equal(Number(/gpus=([^&]+)/.exec(now.hash)[1]), number)
    }
    const hashThen = (await look()).hash
    await page.$eval(box, n => { n.focus(); n.select() })
    await page.keyboard.type('8x') // refused while the address still waits for the 8
    await new Promise(done => setTimeout(done, 250))
    assert.doesNotMatch((await look()).hash, /8x|NaN/)
    assert.notEqual((await look()).hash, hashThen)
    await page.evaluate(() => { for (const d of document.querySelectorAll('#form details')) d.open = true })
    await retype(page, '[data-path="gpu.memory_bytes"] input', 'lots')
    assert.equal(await page.$eval('[data-path="gpu.memory_bytes"] input', n => n.value), 'lots')
  })

  const hostile = [
    ['nonsense', '#nonsense'], ['no such preset', '#v=1&p=nowhere'], ['unknown keys', '#v=1&p=weights&foo=1&bar.baz=2'], ['a bad value', '#v=1&p=weights&batch=-5'],
    ['words for a number', '#v=1&p=weights&context=many'], ['an unknown format', '#v=1&p=weights&weights=int3'], ['broken escapes', '#v=1&p=weights&batch=%E0%A4%A'],
    ['a prototype', '#v=1&__proto__.x=1&constructor.prototype.x=1&model.__proto__.params=5'], ['a script', '#v=1&p=%3Cscript%3Ealert(1)%3C/script%3E&weights=%3Cimg%20src=x%20onerror=alert(1)%3E'],
    ['a later version', '#v=99&p=weights&newfield=1'], ['infinity', '#v=1&model.params=1e999&model.num_hidden_layers=32&model.hidden_size=4096'],
    ['huge layers', '#v=1&p=weights&model.num_hidden_layers=1e30'], ['a model that is text', '#v=1&model={"a":'], ['a very long value', `#v=1&p=weights&weights=${'x'.repeat(100000)}`],
    ['many keys', `#v=1&p=weights${'&a=1'.repeat(20000)}`], ['only signs', '#&&&===&=&.=.&v=&p='], ['a language that is none', '#v=1&p=weights&lang=xx&theme=neon&unit=stone'],
  ]
  await on('hostile links: each gives an answer and says what it left out', async page => {
    for (const [title, hash] of hostile) {
      await open(page, url, hash)
      const state = await page.evaluate(() => ({ broken: document.documentElement.classList.contains('broken'), peak: Number(document.querySelector('#sentence [data-bytes]')?.dataset.bytes),
        notice: document.getElementById('notice').hidden ? '' : document.getElementById('notice').textContent, scripts: document.querySelectorAll('main script, main img').length, x: 'x' in {} }))
      assert.ok(!state.broken && state.peak > 0, `${title}: no answer`)
      assert.equal(state.scripts, 0, title)
      assert.equal(state.x, false, title)
      if (title !== 'a later version' && title !== 'only signs' && title !== 'a prototype') assert.ok(state.notice.length > 5, `${title}: no notice`)
      if (title === 'many keys') assert.match(state.notice, /a: not a setting \([\d,]+ times\)/) // said once
      assert.ok(state.notice.length < 5000, `${title}: a notice of ${state.notice.length}`)
    }
  })

  await on('a link\'s notice: the setting and its range by name, a value without a name in words, and how many more there are', async page => {
    await open(page, url, '#v=1&p=kv-cache&gpu.memory_bytes=5&=7&lang=en')
    assert.equal(await page.$eval('#notice ul', ul => [...ul.children].map(li => li.textContent).join('|')),
      'gpu.memory_bytes: 5 was left out. Memory the driver reports: 5 B is outside 1,024 MiB to 953,674,316 MiB.|“=7”: a value without a setting’s name')
    assert.match(await text(page, '#sentence'), /RTX 4090/)
    await open(page, url, '#v=1&p=kv-cache&gpu.memory_bytes=20000000000&lang=en') // the preset's own card, with less of it
    assert.match(await text(page, '#sentence'), /RTX 4090 has 19\.\d GB/)
    await open(page, url, `#v=1&p=kv-cache&gpu.memory_bytes=5${Array.from({ length: 30 }, (_, i) => `&no${i}=1`).join('')}&lang=en`)
    const list = await page.$$eval('#notice li', all => all.map(li => li.textContent))
    assert.match(list[0], /^gpu\.memory_bytes/)
    assert.deepEqual([list.length, list.at(-1)], [13, 'and 19 more'])
    await page.$$eval('#form details', all => all.forEach(d => { d.open = true }))
    await retype(page, '[data-path="gpu.memory_bytes"] input', '5')
    assert.match(await text(page, '[data-path="gpu.memory_bytes"] .error'), /5\.00 MiB is outside 1,024 MiB/)
  })

  await on('links refused for what they say together: the preset or the default, and a notice, never an empty page or an old answer', async page => {
    const refused = ['#v=1&parallel.data=1048576', '#v=1&p=training&parallel.data=100000', '#v=1&gpu.name=%00%01', '#v=1&p=kv-cache&model.name=%00',
      '#v=1&p=training&parallel.data=1048576&parallel.tensor=4096&parallel.pipeline=1024', '#v=1&parallel.data=1048576&view=claim', '#v=1&parallel.data=1048576&embed=1',
      `#v=1&model.${'a.'.repeat(3000)}b=1`, `#v=1&model.a=${'['.repeat(5000)}${']'.repeat(5000)}`]
    const look = () => page.evaluate(() => ({ broken: document.documentElement.classList.contains('broken'), peak: Number(document.querySelector('#sentence [data-bytes]')?.dataset.bytes),
      notice: document.getElementById('notice').hidden ? '' : document.getElementById('notice').textContent }))
    const expected = {}
    for (const p of ['', 'training', 'kv-cache']) { await open(page, url, p ? linkOf(p) : '#v=1'); expected[p] = (await look()).peak }
    for (const [way, go] of [['opened', hash => open(page, url, hash)], ['turned to', hash => turn(page, hash)]]) for (const hash of refused) {
      await go(hash)
      const state = await look()
      const title = `${way} ${hash.slice(0, 80)}`
      assert.ok(!state.broken, title)
      if (!hash.includes('tensor') && !hash.includes('[[')) assert.equal(state.peak, expected[/p=([\w-]+)/.exec(hash)?.[1] ?? ''], title)
      assert.ok(state.peak > 0 && state.notice.length > 10 && state.notice.length < 5000, `${title}: ${state.notice}`)
    }
  })

  await on('pastes that cannot be used: each is told why, and the note is the last one\'s', async page => {
    await open(page, url, linkOf('kv-cache', {}, '&lang=en'))
    const paste = value => page.evaluate(value => {
      const field = document.querySelector('.field-model')
      ;[...field.querySelectorAll('label.seg')].find(n => n.textContent.includes('config')).querySelector('input').click()
      const area = field.querySelector('textarea.config')
      area.value = value
      area.dispatchEvent(new Event('input'))
    }, value)
    for (const [value, why] of [['[]', /object is needed/], ['null', /object is needed/], ['{"model_type":"bert","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"vocab_size":30522,"intermediate_size":3072}', /model_type in config\.json: bert is not supported/], ['{"model_type":', /not valid JSON/], ['[1]', /object is needed/]]) {
      await paste(value)
      assert.match(await text(page, '#stale'), why)
      assert.match(await page.$eval('.field-model', n => n.textContent), why)
    }
    await paste(JSON.stringify({ model_type: 'gpt2', n_embd: 768, n_layer: 12, n_head: 12, vocab_size: 50257, n_positions: 1024 }))
    assert.ok(await page.$eval('#stale', n => n.hidden))
  })

  await on('a pasted config.json is counted', async page => {
    await open(page, url, linkOf('kv-cache', {}, '&lang=en'))
    await page.evaluate(() => {
      const field = document.querySelector('.field-model')
      ;[...field.querySelectorAll('label.seg')].find(n => n.textContent.includes('config')).querySelector('input').click()
      const area = field.querySelector('textarea.config')
      area.value = JSON.stringify({ model_type: 'gpt2', n_embd: 768, n_layer: 12, n_head: 12, vocab_size: 50257, n_positions: 1024 })
      area.dispatchEvent(new Event('input', { bubbles: true }))
      area.dispatchEvent(new Event('change', { bubbles: true }))
    })
    const { facts } = await harvest(page)
    assert.equal(facts.params_total, '124,439,808')
    const hash = await page.evaluate(() => location.hash)
    await open(page, url, hash)
    assert.equal((await harvest(page)).facts.params_total, '124,439,808')
  })

  await on('the claim check: the lecture\'s claim, its answer, its changes opened, and a claim of one\'s own by the address', async page => {
    await open(page, url, '#v=1&p=one-a100&view=claim&lang=en')
    await page.waitForSelector('.claim-set')
    assert.equal(await page.$eval('.claim-answer', n => n.dataset.verdict), 'only_if')
    assert.match(await text(page, '.claim-total'), /140 GB > 84\.5 GB/)
    assert.deepEqual(await page.$$eval('.claim-sentence select', s => s.map(x => x.selectedOptions[0].textContent)), ['fully fine-tuned', 'nothing optimised'])
    assert.ok((await page.$$('.claim-set')).length >= 3)
    assert.ok(await page.$eval('#form', n => !n.offsetParent), 'the form is still there')
    await page.click('.claim-set .tool')
    await page.waitForFunction(() => !location.hash.includes('view='))
    assert.match(await page.evaluate(() => location.hash), /training\.optimizer=adamw-8bit/)
    assert.notEqual(await page.$eval('#sentence', n => n.dataset.verdict), 'no')
    await page.goBack()
    await page.waitForSelector('.claim-set')
    // said by hand
    await page.select('.claim-sentence select', 'served')
    await page.waitForFunction(() => document.querySelector('.claim-answer').dataset.verdict === 'possible')
    assert.match(await page.evaluate(() => location.hash), /task=inference.*view=claim/)
    await turn(page, '#v=1&task=training&model=llama-3.1-405b&gpu=rtx-4090&view=claim&lang=zh')
    await page.waitForFunction(() => document.querySelector('.claim-answer').dataset.verdict === 'no')
    assert.equal(await page.$$eval('.claim-set', n => n.length), 0)
    await turn(page, '#v=1&task=training&model=llama-3.1-70b&parallel.tensor=4&gpus=2&view=claim&lang=en') // a division that takes more GPUs than there are
    await page.waitForFunction(() => /takes 4 GPUs, and there are 2/.test(document.querySelector('.claim-because').textContent))
  })

  await on('the claim and the sentence compare what the verdict compares: the allocator\'s cache is given back', async page => {
    const scenario = { task: 'training', model: { params: 3.9e9, num_hidden_layers: 32, hidden_size: 4096 } }
    const { fits: [fit], entries, peak } = JSON.parse(batch([scenario])[0])
    const cache = entries.find(e => e.what === 'allocator_cache').bytes
    const context = entries.find(e => e.component === 'context').bytes
    assert.ok(fit.verdict === 'tight' && cache > 1e9)
    assert.equal(peak.bytes - context, fit.usable_bytes) // no more is reserved than there is
    const gb = n => `${(n / 1e9).toPrecision(3)} GB`
    const hash = '#v=1&task=training&model.params=3.9e9&model.num_hidden_layers=32&model.hidden_size=4096&unit=GB'
    await open(page, url, `${hash}&lang=en&view=claim`)
    await page.waitForFunction(() => document.querySelector('.claim-answer').dataset.verdict === 'possible')
    assert.equal(await text(page, '.claim-total'), `= ${gb(fit.needed_bytes)} ≤ ${gb(fit.usable_bytes)}`)
    const terms = await page.$$eval('.claim-sum .term', all => all.map(n => Number(n.title.split(' ')[0].replaceAll(',', ''))))
    assert.ok(Math.abs(terms.reduce((a, b) => a + b) - fit.needed_bytes) <= terms.length)
    for (const lang of ['en', 'zh']) {
      await open(page, url, `${hash}&lang=${lang}`)
      assert.ok((await text(page, '#sentence')).includes(gb(cache)), lang)
      assert.match(await text(page, '#sentence'), /PyTorch/)
    }
    // the bar and the table have the cache apart, last, and the table the sum without it
    const rows = await page.$$eval('.ledger .row', all => all.map(n => [n.dataset.key, Number(n.querySelector('.col-bytes').dataset.bytes)]))
    assert.deepEqual(rows.at(-1), ['model/given_back', cache])
    const sums = await page.$$eval('.total-bytes, .must-bytes', all => all.map(n => Number(n.dataset.bytes)))
    assert.deepEqual(sums, [peak.bytes, peak.bytes - cache])
    assert.equal(rows.reduce((sum, [, n]) => sum + n, 0), peak.bytes)
    assert.equal(await page.$eval('.card-fill button:last-child', n => n.dataset.key), 'model/given_back')
    // one that does not fit: each way starts from the number shown
    await open(page, url, '#v=1&p=one-a100&lang=en&unit=GB&view=claim')
    await page.waitForSelector('.claim-set')
    const shown = /= (.*) >/.exec(await text(page, '.claim-total'))[1]
    for (const sum of await page.$$eval('.claim-after', all => all.map(n => n.textContent))) assert.ok(sum.startsWith(shown), `${sum}, ${shown}`)
    await open(page, url, '#v=1&task=training&model=llama-3.1-405b&gpu=rtx-4090&lang=en')
    assert.match(await text(page, '#sentence'), /over 1,024 .* each would still need [\d,.]+ [GT]B\.$/)
  })

  await on('practice: a quiz by its seed, answered by keyboard to the score, and again', async page => {
    await open(page, url, '#v=1&view=quiz&chapter=1&seed=abc123&lang=en')
    const first = await text(page, '.quiz-question')
    await page.focus('.quiz-input')
    await page.keyboard.type('a lot')
    await page.keyboard.press('Enter')
    assert.match(await text(page, '.quiz-asking .error'), /number/)
    for (let n = 0; n < 10; n++) {
      assert.match(await text(page, '.quiz-place'), new RegExp(`Question ${n + 1} of 10`))
      await page.$eval('.quiz-input', i => i.select())
      await page.keyboard.type('14 GB')
      await page.keyboard.press('Enter')
      const [right, answer] = await page.$eval('.quiz-verdict', v => [v.dataset.right, v.title])
      const bytes = Number(answer.split(' ')[0].replaceAll(',', ''))
      assert.equal(right, String(Math.abs(14e9 - bytes) <= 0.05 * bytes), answer)
      assert.ok((await page.$$('.quiz-working li')).length > 0)
      await page.keyboard.press('Enter') // the focus is on "next"
    }
    assert.match(await text(page, '.quiz-done h2'), /^\d+ of 10 right$/)
    await page.click('.quiz-done button')
    assert.doesNotMatch(await page.evaluate(() => location.hash), /abc123/)
    assert.match(await text(page, '.quiz-place'), /Question 1 of 10/)
    await turn(page, '#v=1&view=quiz&chapter=1&seed=abc123&lang=en')
    assert.equal(await text(page, '.quiz-question'), first)
    await page.click('.views a')
    await page.waitForFunction(() => !document.documentElement.dataset.view)
    assert.notEqual(await text(page, '#sentence'), '')
  })

  await on('practice: an unfinished quiz waits, with what was typed, and its own link leads back', async page => {
    await open(page, url, '#v=1&view=quiz&chapter=3&seed=left42&lang=en')
    await page.type('.quiz-input', '14 GB')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Enter')
    await page.type('.quiz-input', '28')
    const question = await text(page, '.quiz-question')
    await page.click('.views a')
    await page.waitForFunction(() => !document.documentElement.dataset.view)
    await page.click('.views a[data-view="quiz"]')
    await page.waitForFunction(() => document.documentElement.dataset.view === 'quiz')
    assert.match(await page.evaluate(() => location.hash), /chapter=3&seed=left42/)
    assert.match(await text(page, '.quiz-place'), /Question 2 of 10/)
    assert.deepEqual([await text(page, '.quiz-question'), await page.$eval('.quiz-input', i => i.value)], [question, '28'])
    await turn(page, '#v=1&view=quiz&chapter=5&seed=other1&lang=en') // another one begins at its beginning
    assert.match(await text(page, '.quiz-place'), /Question 1 of 10/)
    assert.equal(await page.$eval('.quiz-input', i => i.value), '')
    await turn(page, '#v=1&view=quiz&chapter=3&seed=left42&lang=en')
    assert.match(await text(page, '.quiz-place'), /Question 2 of 10/)
  })

  await on('practice: an unfinished quiz outlives a reload, its score too; what lies in the store and is no quiz does no harm', async page => {
    const hash = '#v=1&view=quiz&chapter=3&seed=kept42&lang=en'
    const place = () => text(page, '.quiz-place')
    await open(page, url, hash)
    for (const answer of ['112', '14 GB']) { await page.type('.quiz-input', answer); await page.keyboard.press('Enter'); await page.keyboard.press('Enter') }
    await page.type('.quiz-input', '28 G')
    const [at, question] = [await place(), await text(page, '.quiz-question')]
    assert.match(at, /Question 3 of 10/)
    await open(page, url, hash)
    assert.deepEqual([await place(), await text(page, '.quiz-question'), await page.$eval('.quiz-input', i => i.value)], [at, question, '28 G'])
    await open(page, url, '#v=1&p=training&lang=en') // both ways from the calculator lead back to it
    for (const link of ['.views a[data-view="quiz"]', '.guide-practice']) assert.match(await page.$eval(link, a => a.getAttribute('href')), /chapter=3&seed=kept42/)
    await open(page, url, hash)
    for (let n = 2; n < 10; n++) { await page.$eval('.quiz-input', i => i.select()); await page.type('.quiz-input', '1'); await page.keyboard.press('Enter'); await page.keyboard.press('Enter') }
    const score = await text(page, '.quiz-done h2')
    await open(page, url, hash)
    assert.equal(await text(page, '.quiz-done h2'), score)
    const junk = ['{', 'null', '5', '"x"', '[1]', '[[null,null]]', '[["3/kept42",{"n":99,"given":[],"typed":""}]]', '[["3/kept42",{"n":1,"given":[{"right":"yes"}],"typed":""}]]',
      '[["9/<b>",{"n":0,"given":[],"typed":""}]]', '[["3/kept42",{"n":2,"given":[null,null],"typed":7}]]', '{"3/kept42":{"n":1}}']
    for (const kept of junk) {
      await page.evaluate(kept => localStorage.setItem('vram.quiz', kept), kept)
      await open(page, url, hash)
      assert.match(await place(), /Question 1 of 10/, kept)
    }
  })

  await on('one\'s own scenario waits behind the other views, over a reload too, and a quiz\'s address still says nothing of it', async page => {
    await open(page, url, linkOf('training', { 'training.micro_batch': 3 }, '&lang=en'))
    const peak = await page.$eval('#sentence [data-bytes]', n => n.dataset.bytes)
    for (const views of [['quiz'], ['quiz', 'claim', 'quiz']]) {
      for (const view of views) await Promise.all([page.waitForFunction(v => document.documentElement.dataset.view === v, {}, view), page.click(`.views a[data-view="${view}"]`)])
      assert.doesNotMatch(await page.evaluate(() => location.hash), /micro_batch|p=training/)
      await page.reload()
      await rest(page)
      assert.match(await page.$eval('.views a[data-view=""]', a => a.getAttribute('href')), /p=training&training\.micro_batch=3/)
    }
    await Promise.all([page.waitForFunction(() => !document.documentElement.dataset.view), page.click('.views a[data-view=""]')])
    await rest(page)
    assert.equal(await page.$eval('#sentence [data-bytes]', n => n.dataset.bytes), peak)
  })

  await on('a phone held across: of the answer one line and the bar stay, and nothing jumps when they do', async page => {
    await page.setViewport({ width: 667, height: 375 })
    await open(page, url, linkOf('qwen3-8b-fsdp', {}, '&lang=en'))
    const look = () => page.evaluate(() => ({ height: document.getElementById('answer').getBoundingClientRect().height, bar: document.querySelector('.card-bar').getBoundingClientRect().height, form: document.getElementById('form').getBoundingClientRect().top + scrollY }))
    const whole = await look()
    await page.evaluate(() => scrollTo(0, 700))
    await page.waitForSelector('html.stuck')
    const little = await look()
    assert.ok(little.height < 75 && little.bar >= 20, JSON.stringify(little))
    assert.ok(Math.abs(little.form - whole.form) < 0.1, `${little.form} ${whole.form}`)
    await page.evaluate(() => scrollTo(0, 0))
    await page.waitForSelector('html:not(.stuck)')
    assert.deepEqual(await look(), whole)
  })

  await on('practice: of several models the working has a line for each, whose numbers make the answer', async page => {
    await open(page, url, '#v=1&view=quiz&chapter=5&seed=abc&lang=en')
    let told = 0
    for (let n = 0; n < 10; n++) {
      const several = /four models|critic and reward model/.test(await text(page, '.quiz-question'))
      await page.focus('.quiz-input')
      await page.keyboard.type('１ＧＢ')
      await page.keyboard.press('Enter')
      const lines = await page.$$eval('.quiz-working li', all => all.map(li => [li.querySelector('.quiz-name').textContent, li.querySelector('code').textContent]))
      if (several) {
        told++
        assert.deepEqual(lines.map(([name]) => name.trim()), ['Actor', 'Critic', 'Reference', 'Reward model', 'Together'])
        const bytesOf = text => Number(/([\d,]+) B/.exec(text)[1].replaceAll(',', ''))
        const [whole, parts] = [bytesOf(lines[4][1]), lines.slice(0, 4).map(([, code]) => bytesOf(code))]
        assert.equal(parts.reduce((x, y) => x + y), whole)
        assert.match(lines[0][1], /× \(2 \+ 4 \+ 4 \+ 4 \+ 2\) = [\d,]+ × 16 =/)
      }
      await page.keyboard.press('Enter')
    }
    assert.ok(told >= 2)
  })

  await on('chapters: the path from the first to the last; every number in the sentences filled in; the homework shows the program\'s numbers', async page => {
    const one = { model: 'qwen2.5-0.5b', engine: 'transformers', context: 1024, prompt: 512, gpu: 'rtx-4090' }
    const logs = batch([one, one, { ...one, batch: 4 }]).map(l => JSON.parse(l).log)
    const seen = new Set() // no two chapters have the same homework
    for (const lang of ['zh', 'en']) {
      await open(page, url, `#v=1&p=weights&lang=${lang}`)
      for (let chapter = 1; chapter <= 7; chapter++) {
        const guide = await page.$$eval('#question, .guide', nodes => nodes.map(n => n.textContent).join(' '))
        assert.doesNotMatch(guide, /[{}]|NaN|undefined/)
        assert.equal(await page.$$eval('.guide-say li', n => n.length), 3)
        await page.$$eval('#chapter details', n => n.forEach(d => { d.open = true }))
        await page.waitForSelector('.homework > li')
        const work = await page.$$eval('.homework > li', rows => rows.map(r => r.textContent))
        assert.ok(work.length >= 2 && !/[{}]|NaN|undefined/.test(await page.$$eval('.homework > li > p', n => n.map(p => p.textContent).join(' '))), `chapter ${chapter}`)
        seen.add(`${lang}${work.join()}`)
        if (chapter < 7) await Promise.all([page.waitForFunction(c => document.querySelector('.chapter-link[aria-current]')?.firstChild.textContent === String(c), {}, chapter + 1), page.click('.guide-next')])
      }
    }
    assert.equal(seen.size, 14)
    // the path ends, here at the last chapter, with the claim that it began with
    assert.match(await page.$eval('.guide-next', a => a.getAttribute('href')), /p=one-a100.*view=claim/)
    await turn(page, '#v=1&lang=en&p=one-a100')
    assert.equal(await page.$eval('.guide-next', a => a.textContent), 'Chapter 1: Weights')
    assert.match(await page.$eval('.guide-practice', a => a.getAttribute('href')), /view=claim/)
    await turn(page, '#v=1&p=kv-cache&lang=en')
    await page.$$eval('#chapter details', n => n.forEach(d => { d.open = true }))
    await page.waitForSelector('.homework > li')
    const shown = await page.$$eval('.homework > li', rows => rows.map(r => [...r.querySelectorAll('ul code')].map(c => c.textContent)))
    assert.deepEqual(shown, logs.map((log, i) => log.filter(l => l.id === (i ? 'torch_peak' : 'torch_loaded') || (i && l.id === 'nvidia_smi')).map(l => l.text)))
    // the controls that matter come first, the others fold away
    assert.deepEqual(await page.$$eval('#form > .fields > .field:not([hidden])', n => n.map(f => f.dataset.path)), ['context', 'batch', 'kv_cache', 'weights'])
  })

  await on('what a chapter says, and the numbers it quotes, are the stated scenario\'s: of another they are marked, or gone', async page => {
    const look = () => page.evaluate(() => ({ say: document.querySelector('.guide-say').textContent, told: document.querySelector('.guide .prose-note').getClientRects().length > 0,
      quoted: document.querySelectorAll('#rules-block .rule').length, peak: document.querySelector('#sentence [data-bytes]').dataset.bytes }))
    await open(page, url, linkOf('activations', {}, '&lang=en&unit=GB'))
    const stated = await look()
    assert.equal(stated.told, false)
    for (const patch of [{ 'parallel.data': 2, 'parallel.zero': 3 }, { 'training.sequence_length': 8192 }, { 'training.checkpointing': 'full' }, { 'training.attention': 'eager' }, { task: 'inference' }]) {
      await turn(page, linkOf('activations', patch, '&lang=en&unit=GB'))
      const changed = await look()
      assert.deepEqual([changed.say, changed.told], [stated.say, true], JSON.stringify(patch))
      assert.ok(changed.quoted < stated.quoted && changed.peak !== stated.peak, JSON.stringify(patch))
    }
    await page.evaluate(() => document.querySelector('.guide .prose-note a').click())
    await page.waitForFunction(peak => document.querySelector('#sentence [data-bytes]').dataset.bytes === peak, { timeout: 15000 }, stated.peak)
    await rest(page)
    assert.deepEqual(await look(), stated)
    await turn(page, linkOf('activations', { gpu: 'h200-sxm' }, '&lang=en&unit=GB')) // another card is the same question
    assert.equal((await look()).told, false)
    await turn(page, linkOf('activations', { gpu: 'h200-sxm', 'training.sequence_length': 8192 }, '&lang=en&unit=GB'))
    await page.evaluate(() => { document.querySelector('.homework').closest('details').open = true })
    await page.waitForFunction(() => /H200/.test(document.querySelector('.homework').closest('details').textContent), { timeout: 15000 }) // homework is for the card on the page
  })

  await on('every fold may be opened whatever stands on the page, homework where there is none', async page => {
    for (const id of ['one-a100', 'weights', 'qwen3-8b-fsdp']) {
      await open(page, url, linkOf(id, {}, '&lang=en'))
      await page.$$eval('details', all => all.forEach(d => { d.open = true }))
      await page.evaluate(() => new Promise(done => setTimeout(done, 50))) // toggles are told later
    }
  })

  await on('the sentence and the ledger\'s mark name one phase, in every scenario', async page => {
    const phase = JSON.parse(readFileSync('web/i18n/en.json', 'utf8')).phase_at
    for (const [i, preset] of presets.scenarios.entries()) {
      await (i ? turn : (page, hash) => open(page, url, hash))(page, linkOf(preset.id, {}, '&lang=en'))
      assert.ok((await text(page, '#sentence')).includes(phase[shipped[i].peak.phase]), preset.id)
      assert.equal(await page.$$eval('#ledger .phase', all => all.findIndex(p => p.classList.contains('is-peak'))), shipped[i].phases.findIndex(p => p.id === shipped[i].peak.phase), preset.id)
    }
  })

  await on('PyTorch\'s cache is one thing everywhere: its band through time, the bar, the ledger, and left out aloud beside other cards; all cards have one total', async page => {
    for (const [lang, name, left] of [['en', 'PyTorch’s cache', /38\.3 GB.*cache, 6\.98 GB, is left out/], ['zh', 'PyTorch 的缓存', /38\.3 GB.*缓存 6\.98 GB 也不算/]]) {
      await open(page, url, linkOf('qwen3-8b-fsdp', {}, `&lang=${lang}&unit=GB`))
      assert.match(await text(page, '#time .colours [data-key="model/given_back"]'), new RegExp(`^${name} [\\d.]+ \\wi?B$`))
      assert.match(await page.$eval('#time .colours [data-key="model/given_back"] .swatch', n => n.className), /given-back/)
      assert.equal(await text(page, '#ledger tr[data-key="model/given_back"] .row-name'), name)
      assert.match(await page.$eval('#card [data-key="model/given_back"]', n => n.title), new RegExp(`^${name} 6\\.98 GB`))
      assert.match(await text(page, '.compare-note'), left)
      const all = (await text(page, '#facts [data-fact="cluster"] dd'))
      assert.equal(all, '366 GB')
      assert.ok((await text(page, '.card-fleet-text')).includes(all))
    }
    await open(page, url, linkOf('training', {}, '&lang=en')) // nothing to tell apart
    assert.equal(await page.$eval('.compare-note', n => n.hidden), true)
  })

  await on('copies of a model that does not fit are not told to become more: divided, it fits, and a click divides it', async page => {
    for (const [hash, say, degrees] of [
      ['task=training&model=qwen3-8b&parallel.data=8', /more copies; divided over them \(FSDP 2 over 8\), it fits\.$/, { 'parallel.zero': '3', 'parallel.engine': 'fsdp2' }],
      ['task=training&model=qwen3-8b&gpus=8', /more copies; divided over them \(FSDP 2 over 8\), it fits\.$/, { 'parallel.data': '8', 'parallel.zero': '3', 'parallel.engine': 'fsdp2' }],
      ['model=llama-3.1-70b&gpus=8', /more copies; divided over them \(tensor 8\), it fits\.$/, { 'parallel.tensor': '8' }],
      ['task=training&model=qwen3-8b', /it does not fit; it takes \d+ \(FSDP 2 over \d+\)\.$/, { 'parallel.zero': '3', 'parallel.engine': 'fsdp2' }],
      ['model=qwen2.5-32b&engine=vllm&gpu=rtx-4090&batch=8', /it takes \d+ \(.*(tensor|pipeline) \d+\)\.$/, {}],
    ]) {
      await open(page, url, `#v=1&${hash}&lang=en`)
      assert.match(await text(page, '#sentence'), say, hash)
      const rows = await page.$$eval('#compare tr[data-verdict="no"] .compare-verdict', all => all.map(n => [n.textContent, n.title]))
      for (const [verdict, division] of rows) assert.ok(division ? /^takes \d/.test(verdict) : verdict === 'does not fit', `${hash}: ${verdict}`)
      assert.ok(rows.length > 0)
      const number = Number(/it takes (\d+)/.exec(await text(page, '#sentence'))?.[1] ?? 8)
      await page.click('#sentence .division')
      await rest(page)
      assert.match(await page.$eval('#sentence', n => n.dataset.verdict), /fits|tight/, hash)
      assert.match(await text(page, '#sentence'), new RegExp(`^Each of ${number} GPUs`), hash)
      const said = await page.evaluate(() => location.hash)
      for (const [path, value] of Object.entries(degrees)) assert.ok(said.includes(`${path}=${value}`), `${said}: ${path}`)
      assert.equal(await page.evaluate(() => document.activeElement.id), 'answer')
    }
  })

  await on('no number of GPUs holds what one sequence makes on each: it is said with the number that is left', async page => {
    await open(page, url, '#v=1&task=training&model=qwen3-8b&parallel.engine=fsdp2&gpu=rtx-4090&lang=en')
    assert.match(await text(page, '#sentence'), /no number of them would do: over 1,024 \(FSDP 2 over 1,024\), each would still need \d[\d.]* GB\.$/)
    assert.equal(await page.$$eval('#sentence button', all => all.length), 0)
  })

  await on('GPUs that are typed are offered to divide the model over; a degree that is chosen says how many there are', async page => {
    await open(page, url, '#v=1&model=qwen3-32b&engine=vllm&gpu=rtx-4090&lang=en')
    await retype(page, '.field-gpu .gpu-row input.number', '4')
    await rest(page)
    assert.equal(await text(page, '.field-gpu .division'), 'Divide over all 4: tensor 4')
    await page.focus('.field-gpu .division')
    await page.keyboard.press('Enter')
    await rest(page)
    assert.equal(await page.evaluate(() => document.activeElement.id), 'answer')
    assert.match(await page.evaluate(() => location.hash), /parallel\.tensor=4/)
    assert.doesNotMatch(await page.evaluate(() => location.hash), /gpus=4/)
    assert.match(await text(page, '#sentence'), /^Each of 4 GPUs/)
    await open(page, url, linkOf('qwen3-8b-fsdp', {}, '&lang=en')) // says eight of itself
    await page.click('#form [data-path="parallel.data"] .step')
    await rest(page)
    assert.match(await text(page, '#sentence'), /^Each of 4 GPUs/)
    assert.match(await page.evaluate(() => location.hash), /gpus=(&|$)/)
  })

  await on('a division over the GPUs that are there that does not help says so; the menu of cards names a number only where one was searched for', async page => {
    for (const [lang, say, no, takes] of [['en', /^Divide over all 2: .+ \(still does not fit\)$/, 'does not fit', /^takes \d/], ['zh', /^切到这 2 张卡上：.+（仍放不下）$/, '放不下', /^要 \d/]]) {
      await open(page, url, `#v=1&model=llama-3.1-70b&engine=vllm&gpu=rtx-4090&gpus=2&lang=${lang}`)
      assert.match(await text(page, '.field-gpu .division'), say)
      await page.focus('.field-gpu .combo input')
      await page.keyboard.press('ArrowDown')
      await page.waitForFunction(() => { const all = [...document.querySelectorAll('.field-gpu [role=option] .combo-right')]; return all.length > 20 && all.every(n => n.textContent) })
      const rows = await page.$$eval('.field-gpu [role=option]', all => all.map(n => ({ own: n.getAttribute('aria-selected') === 'true', right: n.querySelector('.combo-right').textContent })))
      assert.ok(rows.some(r => r.right === no))
      assert.deepEqual(rows.filter(r => /\d/.test(r.right) || takes.test(r.right)).map(r => r.own && takes.test(r.right)), [true])
    }
  })

  await on('where an engine leaves some of the card alone, the sentence and the other cards say so, and what is free comes out', async page => {
    const gb = text => Number(/([\d.,]+) GB/.exec(text)[1].replaceAll(',', ''))
    for (const [i, preset] of presets.scenarios.entries()) {
      const [fit] = shipped[i].fits
      if (!['vllm', 'sglang'].includes(preset.scenario.engine) || fit.verdict === 'no') continue
      await open(page, url, linkOf(preset.id, {}, '&lang=en&unit=GB'))
      const [, may, free] = /vLLM may use ([\d.,]+ GB), the driver context included: it fits,(?: with only)? ([\d.,]+ GB) free/.exec(await text(page, '#sentence'))
      assert.ok(Math.abs(gb(may) - shipped[i].peak.bytes / 1e9 - gb(free)) < 0.6, `${preset.id}: ${may}, ${free}`)
      assert.match(await text(page, '.compare-note'), /vLLM uses only its share of each card/)
    }
  })

  await on('what SGLang sets aside is compared with what it holds there: a peak above it may fit', async page => {
    const gb = text => Number(text.replaceAll(',', ''))
    for (const context of [4096, 6145]) {
      await open(page, url, `#v=1&model=qwen3-8b&engine=sglang&gpu=rtx-4090&context=${context}&lang=en&unit=GB`)
      const sentence = await text(page, '#sentence')
      const [, wanted, budget] = /weights and cache are ([\d.,]+) GB, and SGLang sets aside ([\d.,]+) GB of one GeForce RTX 4090 for them, both with the driver context: it fits/.exec(sentence) ?? assert.fail(sentence)
      assert.ok(gb(wanted) <= gb(budget), sentence)
    }
    for (const [engine, room] of [['sglang', /for them: it fits/], ['vllm', /vLLM may use [\d.,]+ GB: it fits/]]) { // where no context is counted, none is said to be
      await open(page, url, `#v=1&model=qwen3-8b&engine=${engine}&gpu=rtx-4090&overheads=false&lang=en&unit=GB`)
      assert.match(await text(page, '#sentence'), room)
    }
  })

  await on('how far it goes: each limit beside what is set now and what is then left; a click sets it', async page => {
    await open(page, url, linkOf('qwen3-8b-fsdp', {}, '&lang=en&unit=GB'))
    const tile = '#limits [data-limit="training.sequence_length"]'
    assert.match(await text(page, '#limits .prose-note'), /Each setting alone/)
    assert.match(await text(page, `${tile} .limit-left`), /^Now 8,192\. At the limit \d[\d.]* \wB stay free\.$/)
    const limit = await text(page, `${tile} .limit-value`)
    await page.click(tile)
    await rest(page)
    assert.equal(await page.$eval('[data-path="training.sequence_length"] input', i => i.value), limit.replaceAll(',', ''))
    assert.match(await text(page, `${tile} .limit-left`), /^Set now\. \d[\d.]* \wB stay free\.$/)
    const [links, same] = await page.evaluate(tile => { const before = history.length; document.querySelector(tile).click(); return [history.length - before, document.activeElement === document.querySelector(tile)] }, tile)
    assert.deepEqual([links, same, await page.$eval(tile, b => b.getAttribute('aria-disabled'))], [0, true, 'true']) // what is set is no choice; the keyboard stays where it is
  })

  await on('how far it goes: the questions are those that the program asks of the whole scenario', async page => {
    for (const id of ['llama-3.1-8b-32k', 'gemma-3-27b-gguf', 'qwen2.5-7b-lora-24gb', 'grpo-qwen2.5-7b', 'dpo-llama-3.1-8b']) {
      const run = spawnSync('build/vram', ['solve', '-', '--json'], { input: JSON.stringify(presets.scenarios.find(s => s.id === id).scenario) })
      await open(page, url, linkOf(id, {}, '&lang=en'))
      assert.deepEqual(await page.$$eval('#limits [data-limit]', all => all.map(b => b.dataset.limit)), JSON.parse(run.stdout).solve.map(r => r.path), id)
    }
  })

  await on('two longest contexts are two: of one sequence alone, as far as the model or the pool goes, and of all at once', async page => {
    await open(page, url, linkOf('llama-3.1-70b-vllm', {}, '&lang=en'))
    assert.deepEqual(await page.$eval('[data-fact="max_context"]', n => [...n.children].map(c => c.textContent)), ['Longest context, one sequence alone', '131,072, as long as the model was trained for'])
    assert.equal(await text(page, '#limits [data-limit="context"] .limit-name'), 'Longest context, 32 at once')
    await turn(page, linkOf('llama-3.1-70b-vllm', { batch: 1 }, '&lang=en'))
    assert.equal(await text(page, '#limits [data-limit="context"] .limit-name'), 'Longest context')
  })

  await on('a pasted config of a quantised model: the note that says so has the way to count it so', async page => {
    await open(page, url, '#v=1&model=gpt-oss-120b&lang=en')
    const before = Number(await page.$eval('#sentence [data-bytes]', n => n.dataset.bytes))
    assert.deepEqual(await page.$$eval('#notes-block button:not([hidden])', all => all.map(b => b.textContent)), ['Count it so'])
    await page.click('#notes-block button:not([hidden])')
    await rest(page)
    assert.match(await page.evaluate(() => location.hash), /weights=native/)
    assert.ok(Number(await page.$eval('#sentence [data-bytes]', n => n.dataset.bytes)) < before / 3)
    assert.equal(await page.$$eval('#notes-block button:not([hidden])', all => all.length), 0)
    assert.ok(await page.evaluate(() => document.getElementById('notes-block').contains(document.activeElement) || document.activeElement.id === 'answer')) // the button went; the keyboard reads on
  })

  if (name === 'chrome') await on('once the answer stands, nothing in sight moves when the rest arrives', async page => {
    await page.evaluateOnNewDocument(() => {
      Object.assign(window, { moves: [], painted: Infinity })
      new MutationObserver(() => {
        if (window.painted !== Infinity || !document.documentElement.classList.contains('answered')) return
        window.painted = 0
        requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now() }))
      }).observe(document, { attributes: true, subtree: true, attributeFilter: ['class'] })
      new PerformanceObserver(list => {
        for (const e of list.getEntries()) for (const s of e.sources) window.moves.push([e.startTime, `${(s.node?.id || s.node?.className) ?? ''} from ${s.previousRect.y} to ${s.currentRect.y}`, s.previousRect.height > 0 && s.previousRect.y !== s.currentRect.y])
      }).observe({ type: 'layout-shift', buffered: true })
    })
    for (const [width, id] of [[360, 'kv-cache'], [1280, 'kv-cache'], [360, 'qwen3-8b-fsdp'], [1280, 'qwen3-8b-fsdp']]) {
      await page.setViewport({ width, height: 800 })
      await open(page, url, linkOf(id, {}, '&lang=zh'))
      const [painted, moves] = await page.evaluate(() => [window.painted, window.moves])
      assert.ok(painted > 0 && painted < Infinity)
      const down = moves.filter(([at, , moved]) => at > painted && moved)
      assert.deepEqual(down.map(([, what]) => what), [], `${id}, ${width} pixels`)
    }
  })

  await on('works by keyboard: a row opens to its arithmetic', async page => {
    await open(page, url, linkOf('weights', {}, '&lang=en'))
    const tags = new Set()
    for (let i = 0; i < 25; i++) {
      await page.keyboard.press('Tab')
      tags.add(await page.evaluate(() => document.activeElement.tagName))
    }
    assert.ok(tags.has('A') && tags.has('INPUT'), [...tags].join(' '))
    await page.focus('.row-open')
    await page.keyboard.press('Enter')
    assert.equal(await page.$eval('.row-open', n => n.getAttribute('aria-expanded')), 'true')
    assert.match(await text(page, '.work-result'), /14,000,000,000 B/)
    assert.match(await text(page, '.work-values'), /7,000,000,000 × 2/)
  })

  // ---- what can be taken away
  /** Presses a button of the Share menu and takes the file instead of saving it: {name, type, text, size}. */
  const take = (page, what) => page.evaluate(what => new Promise((done, failed) => {
    const [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click]
    let blob
    URL.createObjectURL = b => { blob = b; return make.call(URL, b) }
    HTMLAnchorElement.prototype.click = async function () {
      URL.createObjectURL = make
      HTMLAnchorElement.prototype.click = click
      const bitmap = blob.type === 'image/png' ? await createImageBitmap(blob) : null
      done({ name: this.download, type: blob.type, text: bitmap ? '' : new TextDecoder('utf-8', { ignoreBOM: true }).decode(await blob.arrayBuffer()), width: bitmap?.width, height: bitmap?.height })
    }
    setTimeout(() => failed(new Error(`nothing was saved: ${what}`)), 20000)
    document.querySelector(`[data-save="${what}"]`).click()
  }), what)
  /** RFC 4180. */
  const cellsOf = csv => csv.replace(/^\ufeff/, '').trimEnd().split('\r\n').map(line => [...line.matchAll(/"((?:[^"]|"")*)"(?:,|$)|([^,]*)(?:,|$)/g)].map(m => m[1]?.replaceAll('""', '"') ?? m[2]))

  for (const [id, lang] of [['kv-cache', 'en'], ['one-a100', 'zh'], ['ppo', 'en'], ['llama-3.1-70b-vllm', 'zh'], ['qlora-70b-48gb', 'en']])
    for (const [i, preset] of presets.scenarios.entries()) if (preset.id === id) await on(`taken away, ${preset.id}, ${lang}: pictures to scale, tables that add up, the report`, async page => {
      const report = shipped[i]
      await open(page, url, linkOf(preset.id, {}, `&lang=${lang}&theme=dark&unit=GB`))
      const shown = await text(page, '#sentence')
      const alive = report.entries.filter(e => e.phases.includes(report.peak.phase))

      const svg = await take(page, 'svg')
      assert.equal(svg.name, `vram-${preset.id}.svg`)
      const drawn = await page.evaluate(svg => {
        const root = new DOMParser().parseFromString(svg, 'image/svg+xml')
        const pieces = [...root.querySelectorAll('.piece')].map(n => ({ bytes: Number(n.dataset.bytes), width: Number(n.getAttribute('width')) }))
        return { wrong: root.querySelector('parsererror')?.textContent ?? null, pieces, words: [...root.querySelectorAll('text')].map(n => n.textContent).join(' '), ground: root.documentElement.querySelector(':scope > rect').getAttribute('fill'),
          outline: Number(root.querySelector('.outline').getAttribute('width')) + 2, title: root.querySelector('title').textContent, styled: root.querySelectorAll('[style], style, script, foreignObject').length }
      }, svg.text)
      assert.equal(drawn.wrong, null)
      assert.equal(drawn.styled, 0)
      assert.equal(drawn.ground, '#fbfaf7')
      assert.equal(drawn.title, shown)
      assert.equal(drawn.pieces.reduce((s, p) => s + p.bytes, 0), alive.filter(e => e.component !== 'context').reduce((s, e) => s + e.bytes, 0))
      const [fit] = report.fits
      const context = presets.gpus.find(g => g.id === fit.gpu).context_bytes
      const scale = drawn.outline / (fit.usable_bytes + context)
      for (const p of drawn.pieces) assert.ok(Math.abs(p.width - p.bytes * scale) < 0.01, `${p.width} pixels for ${p.bytes} bytes`)
      assert.match(drawn.words, new RegExp(`p=${preset.id}&lang=${lang}`))
      assert.equal(/\p{Script=Han}/u.test(drawn.words), lang === 'zh')

      const png = await take(page, 'png')
      assert.deepEqual([png.name, png.type, png.width], [`vram-${preset.id}.png`, 'image/png', 1920])
      const chart = await take(page, 'timeline')
      assert.deepEqual([chart.name, chart.type, chart.width], [`vram-${preset.id}-timeline.png`, 'image/png', 1920])
      assert.ok(chart.height > 600, `${chart.height} pixels`)
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark')

      const csv = await take(page, 'csv')
      const [head, ...lines] = cellsOf(csv.text)
      assert.equal(csv.name, `vram-${preset.id}.csv`)
      assert.equal(lines.length, alive.length)
      for (const l of lines) assert.equal(l.length - (l.at(-1) === '' ? 1 : 0), head.length - (head.at(-1) === '' ? 1 : 0), l.join())
      assert.equal(lines.reduce((s, l) => s + Number(l[4]), 0), report.peak.bytes)
      for (const l of lines) assert.ok(Math.abs(Number(l[5]) * 1e9 - Number(l[4])) <= Number(l[4]) * 1e-5, l.join())

      const markdown = await take(page, 'markdown')
      const table = markdown.text.split('\n').filter(l => l.startsWith('|'))
      assert.equal(table.length, alive.length + 3)
      assert.equal(table.at(-1).match(/[\d,]{4,}/)[0].replaceAll(',', ''), String(report.peak.bytes))
      for (const l of table) assert.equal(l.replaceAll('\\|', '').split('|').length, 8, l)

      const json = await take(page, 'json')
      assert.deepEqual(JSON.parse(json.text), report)
    })

  if (name === 'chrome') await on('on paper: one page for every scenario, black on white, with each formula', async page => {
    for (const [i, preset] of presets.scenarios.entries()) {
      await open(page, url, linkOf(preset.id, {}, `&theme=dark&lang=${i % 2 ? 'zh' : 'en'}`))
      const pdf = Buffer.from(await page.pdf({ preferCSSPageSize: true })).toString('latin1')
      assert.equal(pdf.match(/\/Type\s*\/Page\b/g)?.length, 1, preset.id)
      const alive = shipped[i].entries.filter(e => e.phases.includes(shipped[i].peak.phase))
      assert.equal(await page.$$eval('.paper tbody tr', rows => rows.length), alive.length)
      await page.emulateMediaType('print')
      const look = await page.evaluate(() => ({ ground: getComputedStyle(document.documentElement).backgroundColor, ink: getComputedStyle(document.querySelector('.paper td')).color, form: document.getElementById('form').getClientRects().length }))
      await page.emulateMediaType(null)
      assert.deepEqual(look, { ground: 'rgb(255, 255, 255)', ink: 'rgb(0, 0, 0)', form: 0 })
    }
  })

  if (name === 'chrome') await on('on paper: a claim and its answer are one page', async page => {
    for (const hash of ['#v=1&p=one-a100&lang=en&view=claim', '#v=1&task=training&model=qwen3-8b&gpu=rtx-4090&lang=en&view=claim', '#v=1&task=rl&model=qwen3-8b&lang=zh&view=claim']) {
      await open(page, url, hash)
      await page.waitForSelector('.claim-set')
      const pdf = Buffer.from(await page.pdf({ preferCSSPageSize: true })).toString('latin1')
      assert.equal(pdf.match(/\/Type\s*\/Page\b/g)?.length, 1, hash)
    }
  })

  for (const width of [320, 360, 768, 1440, 2560]) await on(`fits ${width} pixels`, async page => {
    for (const id of ['weights', 'ppo']) for (const lang of ['en', 'zh']) {
      await open(page, url, linkOf(id, {}, `&lang=${lang}`))
      await page.evaluate(() => { for (const b of document.querySelectorAll('.row-open')) b.click() })
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(over <= 0, `${id} ${lang}: ${over} pixels too wide`)
    }
  }, { width, height: 900 })
}

for (const lang of ['en', 'zh']) for (const theme of ['light', 'dark']) for (const width of [360, 1440]) if (everything || (lang === 'zh') === (theme === 'dark') && (lang === 'zh') === (width === 360))
  await test(`${name}: axe finds nothing, ${lang}, ${theme}, ${width} pixels`, () => withPage(browser, { width, allowed: own }, async page => {
    for (const id of ['kv-cache', 'lora', 'ppo', 'one-a100&view=claim', 'weights&view=quiz&chapter=5&seed=abc123']) {
      await open(page, home, linkOf(id, {}, `&lang=${lang}&theme=${theme}`))
      if (id.includes('claim')) await page.waitForSelector('.claim-set')
      await page.evaluate(() => { document.querySelector('.row-open').click(); for (const d of document.querySelectorAll('#form details')) d.open = true })
      await page.evaluate(axe)
      const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
        .map(v => `${v.id} (${v.impact}): ${v.help}\n      ${v.nodes.slice(0, 3).map(n => `${n.target} ${n.failureSummary?.split('\n').slice(1, 2).join('')}`).join('\n      ')}`))
      assert.deepEqual(found, [], id)
    }
  }))

await test(`${name}: embedded in a sandboxed frame of another origin: the result, its height, a way to the whole page`, async () => {
  const frame = `${site.origin}/index.html${linkOf('kv-cache', { batch: 2 }, '&lang=en&unit=GB&embed=1')}`
  const host = await serve(() => `<!doctype html><title>host</title><script>
    var heights = []; addEventListener('message', e => { if (e.data && e.data.vram === 'height' && e.source === document.querySelector('iframe').contentWindow) heights.push([e.data.height, e.origin]) })
    </script><iframe sandbox="allow-scripts" width="600" height="300" src="${frame.replaceAll('&', '&amp;')}"></iframe>`)
  await withPage(browser, { allowed: [site.origin, host.origin] }, async page => {
    await page.goto(`${host.origin}/`)
    const inside = await (await page.waitForSelector('iframe')).contentFrame()
    await inside.waitForSelector('html.ready', { timeout: 15000 })
    const state = await inside.evaluate(() => {
      const visible = n => Boolean(n && n.getClientRects().length)
      return { origin: self.origin, peak: Number(document.querySelector('#sentence [data-bytes]').dataset.bytes), form: visible(document.getElementById('form')),
        sentence: visible(document.getElementById('sentence')), full: document.querySelector('a.full')?.href, seen: visible(document.querySelector('a.full')),
        wide: document.documentElement.scrollWidth - document.documentElement.clientWidth }
    })
    assert.equal(state.origin, 'null')
    assert.equal(state.peak, JSON.parse(batch([{ ...presets.scenarios.find(p => p.id === 'kv-cache').scenario, batch: 2 }])[0]).peak.bytes)
    assert.ok(state.sentence && !state.form && state.seen)
    assert.ok(state.wide <= 0)
    assert.match(state.full, /p=kv-cache/)
    assert.match(state.full, /batch=2/)
    assert.doesNotMatch(state.full, /embed=1/)
    await page.waitForFunction(() => window.heights.length > 0, { timeout: 15000 })
    const [[height, origin]] = await page.evaluate(() => window.heights)
    assert.equal(origin, 'null')
    assert.ok(height > 80 && height < 2000, `${height} pixels`)
  })
  host.close()
})

await test(`${name}: ?embed does the same, and embed.js fits the frame to it`, async () => {
  const host = await serve(() => `<!doctype html><title>host</title>
    <iframe data-vram sandbox="allow-scripts" width="600" height="33" src="${site.origin}/index.html?embed#v=1&amp;p=weights"></iframe><script src="${site.origin}/embed.js"></script>`)
  await withPage(browser, { allowed: [site.origin, host.origin] }, async page => {
    await page.goto(`${host.origin}/`)
    const inside = await (await page.waitForSelector('iframe')).contentFrame()
    await inside.waitForSelector('html.ready.embed', { timeout: 15000 })
    await page.waitForFunction(() => document.querySelector('iframe').getBoundingClientRect().height > 80, { timeout: 15000 })
  })
  host.close()
})

await test(`${name}: one line of script makes the frame, which grows to its height and follows the theme around it`, async () => {
  const host = await serve(() => `<!doctype html><html data-theme="dark"><title>host</title><p>before</p>
    <script src="${site.origin}/embed.js" data-vram="#v=1&amp;p=one-a100&amp;lang=zh&amp;chart=all" data-title="post"></script><p id="after">after</p>`)
  await withPage(browser, { allowed: [site.origin, host.origin] }, async page => {
    await page.goto(`${host.origin}/`)
    const frame = await page.waitForSelector('iframe')
    assert.deepEqual(await frame.evaluate(f => ({ title: f.title, sandbox: f.getAttribute('sandbox'), before: f.nextElementSibling.id })), { title: 'post', sandbox: 'allow-scripts allow-popups', before: 'after' })
    const inside = await frame.contentFrame()
    await inside.waitForSelector('html.ready.embed.with-chart[data-theme=dark]', { timeout: 15000 })
    const height = () => inside.evaluate(() => Math.ceil(document.documentElement.getBoundingClientRect().height))
    await page.waitForFunction(() => document.querySelector('iframe').getBoundingClientRect().height > 400, { timeout: 15000 })
    assert.ok(Math.abs(await frame.evaluate(f => f.getBoundingClientRect().height) - await height()) <= 1)
    assert.equal(await inside.evaluate(() => self.origin), 'null')
    assert.match(await inside.evaluate(() => document.getElementById('sentence').textContent), /140 GB/)
    await inside.evaluate(() => { window.same = true })
    await page.evaluate(() => { document.documentElement.dataset.theme = 'light' })
    await inside.waitForSelector('html[data-theme=light]', { timeout: 15000 })
    assert.equal(await inside.evaluate(() => window.same), true) // nothing was loaded again
  })
  host.close()
})

await test(`${name}: the example post, opened from disk: both figures compute, the picture says what its colours are`, async () => {
  const folder = pathToFileURL('build/site/').href
  await withPage(browser, { width: 800, height: 2000, allowed: [folder] }, async page => {
    await page.goto(`${folder}examples/blog.html`)
    const peaks = []
    for (const frame of await page.$$('iframe')) {
      await frame.scrollIntoView()
      const inside = await frame.contentFrame()
      await inside.waitForSelector('html.ready.embed', { timeout: 20000 })
      peaks.push(await inside.evaluate(() => Number(document.querySelector('#sentence [data-bytes]').dataset.bytes)))
      if (peaks.length === 2) await inside.waitForFunction(() => /激活值/.test(document.querySelector('.colours')?.textContent), { timeout: 10000 })
    }
    const post = [{ id: 'kv-cache', patch: { batch: 2 } }, { id: 'one-a100', patch: {} }].map(p => ({ ...presets.scenarios.find(s => s.id === p.id).scenario, ...p.patch }))
    assert.deepEqual(peaks, batch(post).map(l => JSON.parse(l).peak.bytes))
  })
})

await test(`${name}: in a sandboxed frame the menu says that nothing may be saved, and both ways to embed are offered`, async () => {
  const host = await serve(() => `<!doctype html><title>host</title><iframe sandbox="allow-scripts" width="1200" height="800" src="${site.origin}/index.html#v=1&amp;p=kv-cache&amp;lang=en"></iframe>`)
  const wrong = []
  const context = await browser.createBrowserContext()
  try {
    const page = await context.newPage()
    page.on('pageerror', e => wrong.push(e.message))
    await page.goto(`${host.origin}/`)
    const inside = await (await page.waitForSelector('iframe')).contentFrame()
    await inside.waitForSelector('html.ready', { timeout: 15000 })
    for (const what of ['svg', 'png', 'timeline', 'csv', 'markdown', 'json']) {
      await inside.evaluate(what => document.querySelector(`[data-save="${what}"]`).click(), what)
      await inside.waitForFunction(ending => document.getElementById('status').textContent.includes(`kv-cache${ending}: if no file came`), { timeout: 15000 },
        { timeline: '-timeline.png', markdown: '.md' }[what] ?? `.${what}`)
    }
    const codes = await inside.evaluate(async () => {
      document.querySelector('.take details').open = true
      const code = document.getElementById('embed-code')
      while (!code.value) await new Promise(done => setTimeout(done, 20)) // a browser tells of an opened menu later
      const codes = [code.value]
      for (const radio of document.querySelectorAll('.menu-box .seg:last-child input')) { radio.click(); codes.push(code.value) }
      return codes
    })
    assert.match(codes[0], /^<script src="http:[^"]*\/embed\.js" data-vram="#v=1&amp;p=kv-cache&amp;lang=en"><\/script>$/)
    assert.match(codes[1], /^<iframe src="http:[^"]*embed=1[^"]*" .*data-vram sandbox="allow-scripts allow-popups"/)
    assert.match(codes[2], /chart=all/)
    assert.deepEqual(wrong, [])
  } finally { await context.close() }
  host.close()
})

await browser.close()
site.close()
