// Patch, normalise, compute, render. The state is a list of one or two scenarios and how they are shown.
import { fillSentence, sentenceText, title } from './answer.js';
import { makeAccuracy, makeFacts, makeNotes } from './asides.js';
import { makeCard } from './card.js';
import { makeChapterPanel, makeChapters } from './chapters.js';
import { makeClaim } from './claim.js';
import { makeCompare } from './compare.js';
import { openCore } from './core.js';
import { placesOf } from './curve.js';
import { isAsked } from './division.js';
import { el, keyed, setAttr, setText, show } from './dom.js';
import { tellHeight } from './embed.js';
import { fallback, indexTables, seen, valueReader } from './fields.js';
import { cardPng, chartPng, csvOf, fileName, markdownOf, save } from './export.js';
import { makeForm } from './form.js';
import { makeGuide } from './guide.js';
import { LANGS, getLang, preferredLang, setLang, ui } from './i18n.js';
import { makeLedger } from './ledger.js';
import { makeLater } from './later.js';
import { makeLimits } from './limits.js';
import { readLink, writeLink } from './link.js';
import { makeLog } from './log.js';
import { getPath, isTree, leaves, same, withPatch } from './paths.js';
import { modelName } from './model-field.js';
import { makeQuiz } from './quiz.js';
import { SEED, freshSeed } from './quiz-questions.js';
import { readStored, store } from './stored.js';
import { cardSvg } from './picture.js';
import { makePrices } from './prices.js';
import { fillPaper } from './print.js';
import { CONTEXT, timelineOf } from './reading.js';
import { makeRules } from './rules.js';
import { makeSlot, patchSlot } from './state.js';
import { makeTimeline } from './timeline.js';
import { THEMES, makeTools } from './tools.js';
import { UNITS, count } from './units.js';
import { makeWhatIf } from './whatif.js';
import { errorText, noticeText } from './texts.js';

const $ = (id) => document.getElementById(id);
const UI_KEYS = { lang: LANGS, theme: THEMES, unit: UNITS, embed: ['1'], chart: ['card', 'all'], view: ['claim', 'quiz'], chapter: /^[1-7]$/, seed: SEED };
const LANDING = 'one-a100'; // the scenario of a page opened without an address
const MOST_NOTICES = 12; // of an address; the others are counted
const SAY_AFTER = 700; // ms of quiet before the sentence is read out
const REST = 150; // ms without a change before the core is asked what takes it some hundred estimates
const SAME_ENTRY = 1000; // ms in which changes of one field are one entry of the history

export async function start({ wasm, presets, accuracy }) {
  const core = await openCore(wasm, presets);
  const index = indexTables(core.tables());
  const { lists } = index;
  const embedded = new URLSearchParams(location.search).has('embed');

  let slots = [];
  let notices = [];
  let prices = {};
  let all = null; // what the parts of the result are made from
  const later = makeLater((busy) => {
    document.documentElement.classList.toggle('busy', busy);
    if (!busy) document.documentElement.classList.add('ready');
  });
  const quizSeed = freshSeed();
  let phase = null;
  let shown = { lang: null, theme: null, unit: null, embed: embedded ? '1' : null, chart: null, view: null, chapter: null, seed: null }; // said by the address or a click

  const lang = () => shown.lang ?? readStored('lang', LANGS) ?? preferredLang();
  const theme = () => shown.theme ?? readStored('theme', THEMES) ?? 'auto';
  const unit = () => shown.unit ?? readStored('unit', UNITS) ?? UNITS[0];

  // ---- the address
  let written = null;
  let writing = 0; // the timer of what is still to be written
  let open = false; // an entry of the history that typing is still changing
  let lastEntry = { path: null, at: 0 };

  // A quiz is its chapter and seed, whatever scenario stands behind it; elsewhere these two say nothing.
  const linkOf = (list, extra = {}) => {
    const said = { lang: shown.lang, theme: shown.theme, unit: shown.unit, view: shown.view, chapter: shown.chapter, seed: shown.seed, ...extra };
    return said.view === 'quiz' ? writeLink([{ preset: null, scenario: {} }], said, presets, index) : writeLink(list, { ...said, chapter: null, seed: null }, presets, index);
  };
  const presetOf = (id) => presets.scenarios.find((s) => s.id === id);
  const presetLinks = new Map(); // as long as nothing else that they say changes
  function presetLink(id) {
    const said = `${id} ${JSON.stringify(shown)}`;
    if (!presetLinks.has(said)) presetLinks.set(said, linkOf([{ preset: id, scenario: presetOf(id).scenario }], { view: null, embed: embedded ? null : shown.embed }));
    return presetLinks.get(said);
  }
  const answered = () => slots.map((s) => ({ ...s, scenario: s.good })); // what is refused is in no address
  const here = (extra) => linkOf(answered(), extra);

  function write(how) {
    clearTimeout(writing);
    const hash = here({ embed: embedded ? null : shown.embed, chart: shown.chart });
    if (hash === written || hash === location.hash) { written = location.hash; return; }
    written = hash;
    try {
      history[how === 'push' ? 'pushState' : 'replaceState'](behind(), '', hash);
    } catch { /* a sandboxed frame may not change its address; the state lives on */ }
  }

  // A quiz's address does not say which scenario stands behind it: the entry of the history does, for a reload to find it.
  const behind = () => (shown.view === 'quiz' ? { behind: linkOf(answered(), { view: null }) } : null);
  function keepBehind() {
    try { history.replaceState(behind(), ''); } catch { /* as above */ }
  }
  function listBehind() {
    const kept = history.state?.behind;
    return typeof kept === 'string' ? readLink(kept, UI_KEYS, presets, index).list : [firstSlot()];
  }

  // What typing changes is an entry at once, and from then on follows when the keys rest: browsers count such changes, and each takes its time.
  const writeLater = () => { clearTimeout(writing); writing = setTimeout(write, REST, 'replace'); };

  function remember(settled, path) {
    const now = Date.now();
    const sameField = path !== null && path === lastEntry.path && now - lastEntry.at < SAME_ENTRY;
    if (open && !settled) writeLater();
    else write(open || sameField ? 'replace' : 'push');
    open = !settled;
    lastEntry = { path, at: now };
  }

  // ---- changes
  const baseOf = (slot) => presetOf(slot.preset)?.scenario ?? {};

  const chapterNow = () => presetOf(slots[0].preset)?.chapter;

  // A patch is flat, paths and values; a scenario's variant may also nest.
  const flat = (patch) => Object.fromEntries(Object.entries(patch).flatMap(([key, value]) =>
    (isTree(value) && !index.byPath.has(key) ? [...leaves(value, [key])].map(([keys, v]) => [keys.join('.'), v]) : [[key, value]])));

  function patch(changes, settled) {
    const paths = Object.keys(changes);
    slots = [patchSlot(core, index, slots[0], changes), ...slots.slice(1)];
    if (paths.includes('task')) phase = null;
    render();
    if (!slots[0].error) remember(settled, paths.length === 1 ? paths[0] : null);
    sayLater();
  }

  // How many GPUs it takes, where a report leaves that open: asked once of a scenario, when its answer is painted.
  let cardsKnown = { of: null, answer: null };
  function* askCards({ scenario, report, error }) {
    if (error || !isAsked(report) || cardsKnown.of === report) return;
    cardsKnown = { of: report, answer: core.cards(seen(index, scenario)) };
    all.cards = cardsKnown.answer;
    showAnswer();
    if (shown.embed !== '1') form.update(formContext());
    yield;
  }
  function showAnswer() {
    fillSentence($('sentence'), all, divide);
    document.title = shown.view ? ui(`view_${shown.view}`) : title(all);
  }

  // The division that the sentence names; its button goes, and what is read on from is the answer.
  function divide(changes) {
    patch(changes, true);
    $('answer').focus({ preventScroll: true });
  }

  // What was typed is no scenario at all: the last good answer stays, under the reason of now.
  function refuse(error) {
    slots = [{ ...slots[0], error }, ...slots.slice(1)];
    render();
    sayLater();
  }

  // The second of two scenarios is kept as it is, for the first to be compared with.
  function pair(next) {
    slots = next.filter((s) => s.report);
    phase = null;
    render();
    remember(true, null);
  }

  function openHash() {
    const read = readLink(location.hash, UI_KEYS, presets, index);
    shown = { lang: null, theme: null, unit: null, chart: null, view: null, chapter: null, seed: null, embed: embedded ? '1' : null, ...read.ui };
    if (shown.embed === '1') shown.view = null; // in somebody's page there is room for the result only
    if (shown.view === 'quiz') shown = { ...shown, chapter: shown.chapter ?? '1', seed: shown.seed ?? quizSeed };
    if (!location.hash.replace(/^#/, '')) read.list = [firstSlot()];
    if (shown.view === 'quiz') read.list = slots.length ? slots : listBehind();
    slots = read.list.map((s) => makeSlot(core, index, s, { repair: true, base: baseOf(s) }));
    const dropped = slots.flatMap((s) => s.dropped.map((d) => ({ id: d.path ? 'bad_value' : 'refused_all', key: d.path, value: d.value, error: d.error })));
    notices = [...dropped, ...read.notices]; // first what was meant and cannot be
    phase = null;
    open = false;
    lastEntry = { path: null, at: 0 };
    if (shown.view === 'quiz') keepBehind();
    document.documentElement.classList.toggle('embed', shown.embed === '1');
    document.documentElement.classList.toggle('with-chart', shown.chart === 'all');
    render();
  }

  // Nothing asked for: the story that the chapters unfold.
  const firstSlot = () => {
    const first = presetOf(LANDING) ?? presets.scenarios[0];
    return first ? { preset: first.id, scenario: first.scenario } : { preset: null, scenario: {} };
  };

  function setUi(change) {
    shown = { ...shown, ...change };
    for (const [key, value] of Object.entries(change)) store(key, value);
    render();
    write('replace');
  }

  // ---- the parts
  const priced = makePrices(core);
  const pricesOf = (path, values) => new Map(priced.now(slots[0].scenario, path, values).map((p) => [p.value, p]));
  const form = makeForm($('form'), {
    index, presets,
    actions: { patch, divide, refuse, prices: pricesOf, opened: () => later(rest()), reset: (path) => patch({ [path]: getPath(baseOf(slots[0]), path) }, true) },
  });
  const ledger = makeLedger($('ledger'), { onPhase: (id) => { phase = id; render(); } });
  const card = makeCard($('card'), $('kept'), { 
    onPick: (key) => { phase = null; render(); ledger.open(key); },
    onKeep: () => pair([slots[0], slots[0]]),
    onSwap: () => pair([slots[1], slots[0]]),
    onDrop: () => pair([slots[0]]),
  });
  const timeline = makeTimeline($('time'), { onPhase: (id) => { phase = id; render(); }, onComponent: light, onPick: (key) => ledger.open(key) });
  const onCard = (id) => ({ ...seen(index, slots[0].scenario), gpu: id });
  const compare = makeCompare($('compare'), {
    onMore: () => later(rest()),
    fitOn: (id) => core.estimate(onCard(id)).fits?.[0] ?? null,
    cardsOn: (id) => core.cards(onCard(id)),
  });
  const facts = makeFacts($('facts'));
  const notes = makeNotes($('notes-block'), {
    onFix(changes) { // its button goes: what is read on from is the heading, or the answer
      patch(changes, true);
      const heading = $('notes-block').firstElementChild;
      ($('notes-block').hidden ? $('answer') : heading).focus({ preventScroll: true });
    },
  });
  const limits = makeLimits($('limits'), { solve: core.solve, onPick: (path, value) => patch({ [path]: value }, true) });
  const log = makeLog($('log'));
  const whatIf = makeWhatIf($('whatif'), { core, prices: priced, onPick: (changes) => patch(changes, true) });
  const rules = makeRules($('rules-block'));
  const right = makeAccuracy($('accuracy'), accuracy, {
    isDefault: (path, value) => value === fallback(index.byPath.get(path)),
    gpuName: (id) => presets.gpus.find((g) => g.id === id)?.name ?? id,
  });
  const chapters = makeChapters($('chapters'), $('more'), { presets, linkOf: presetLink });
  const panel = makeChapterPanel($('kicker'), $('chapter'), {
    presets,
    onVariant: (p) => {
      const base = baseOf(slots[0]);
      const scenario = p === null ? base : withPatch(base, flat(p));
      slots = [makeSlot(core, index, { preset: slots[0].preset, scenario }, { repair: true, base }), ...slots.slice(1)];
      phase = null;
      render();
      remember(true, null);
      sayLater();
    },
  });
  // What a preset says of itself, its sentences and the numbers it quotes, is true of the scenario as it states it, whatever the cards.
  const statedReports = new Map();
  function statedReport({ id, scenario }) {
    if (!statedReports.has(id)) statedReports.set(id, core.estimate(scenario));
    return statedReports.get(id);
  }
  const withoutCards = ({ gpu, gpus, ...rest }) => rest;
  const guide = makeGuide($('question'), $('chapter'), {
    presets, core, story: LANDING, linkOf: presetLink,
    quizLink: (chapter) => linkOf([], { view: 'quiz', chapter, seed: quizSeed, ...quiz.pending(chapter) }),
    claimLink: () => linkOf([{ preset: LANDING, scenario: firstSlot().scenario }], { view: 'claim' }),
  });
  const claim = makeClaim($('claim'), {
    presets, index, ask: (scenario) => core.claim(scenario),
    linkOf: (c) => linkOf([{ preset: c.preset ?? null, scenario: c.scenario ?? baseOf(c) }], { view: 'claim' }),
    onPatch: (changes) => patch(changes, true),
    onOpen: (changes) => { shown.view = null; patch(changes, true); scrollTo(0, 0); },
  });
  const quiz = makeQuiz($('quiz'), {
    presets, core, lists, say: (text) => setText($('status'), text),
    linkOf: (to) => linkOf([], { view: 'quiz', ...to }),
    chapterLink: (n) => presetLink(presets.scenarios.find((s) => s.chapter === n).id),
    openLink: (scenario) => linkOf([{ preset: null, scenario }], { view: null }),
    onChange: (to) => { shown = { ...shown, ...to }; render(); write('push'); },
  });
  const fromDisk = location.protocol === 'file:';
  const pageAddress = () => location.href.replace(/[?#].*$/, '');
  const reportText = () => JSON.stringify(slots[0].report, null, 2);
  const inHtml = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');

  // Two ways into somebody's page: a script that makes the frame, or the frame itself with the script that fits it.
  // A page opened from disk cannot be embedded: its code speaks of a place that somebody has yet to fill in.
  const hosted = () => (fromDisk ? 'https://example.org/index.html' : pageAddress());
  function snippet(kind, chart) {
    const more = { lang: getLang(), view: null, chart: chart === 'all' ? 'all' : null };
    const script = `${hosted().replace(/[^/]*$/, '')}embed.js`;
    if (kind === 'script') return `<script src="${inHtml(script)}" data-vram="${inHtml(here({ ...more, theme: null, embed: null }))}"></script>`;
    const address = inHtml(hosted() + here({ ...more, embed: '1' }));
    return `<iframe src="${address}" title="${inHtml(ui('name'))}" data-vram sandbox="allow-scripts allow-popups" loading="lazy" width="100%" height="280" frameborder="0"></iframe>\n<script src="${inHtml(script)}"></script>`;
  }

  // The step instant by instant; where several models take turns their phases are columns, each with its models.
  const instants = ({ report, roles }) => (roles ? null : timelineOf(report, core.timeline(report.scenario)));

  // What leaves says where it came from; a page opened from disk does not tell whose disk.
  const taken = () => ({
    ...all, lang: document.documentElement.lang, timeline: instants(all),
    address: (fromDisk ? 'index.html' : pageAddress()) + here({ lang: getLang(), theme: null, view: null, embed: null }),
  });

  // what: -> [content, the file's ending, its type]
  const FILES = {
    svg: async () => [cardSvg(taken()), '.svg', 'image/svg+xml'],
    png: async () => [await cardPng(taken()), '.png', 'image/png'],
    timeline: async () => [await chartPng(taken()), '-timeline.png', 'image/png'],
    csv: async () => [csvOf(taken()), '.csv', 'text/csv'],
    markdown: async () => [markdownOf(taken()), '.md', 'text/markdown'],
    json: async () => [reportText(), '.json', 'application/json'],
  };
  async function saveFile(what) {
    const { preset, report } = slots[0];
    const [content, ending, type] = await FILES[what]();
    return save(content, fileName(preset ?? modelName(report.scenario.model, presets), ending), type);
  }

  const tools = makeTools($('tools'), {
    onUi: setUi,
    link: () => pageAddress() + here({ lang: getLang() }),
    snippet,
    report: reportText,
    saveFile,
    say,
  });
  const full = el('a', { class: 'full', target: '_blank', rel: 'noopener' });
  $('answer').append(full);

  // ---- the page
  function render() {
    setLang(lang());
    const [slot] = slots;
    const { report } = slot;
    const u = unit();
    const root = document.documentElement;
    setAttr(root, 'data-view', shown.view);
    for (const a of document.querySelectorAll('.views a')) {
      setAttr(a, 'href', here({ view: a.dataset.view, chapter: shown.chapter ?? String(chapterNow() ?? 1), seed: shown.seed ?? quizSeed, ...(shown.view === 'quiz' ? {} : quiz.pending()) }));
      setAttr(a, 'aria-current', a.dataset.view === (shown.view ?? '') ? 'page' : null);
    }
    show($('claim'), shown.view === 'claim');
    show($('quiz'), shown.view === 'quiz');
    if (shown.view === 'quiz') quiz.update({ chapter: shown.chapter, seed: shown.seed, unit: u });
    setAttr(root, 'data-theme', theme() === 'auto' ? null : theme());
    if (root.dataset.words !== getLang()) fillWords(root);
    setAttr(document.querySelector('[data-home]'), 'href', linkOf([{ preset: null, scenario: {} }], { view: null }));
    tools.update({ unit: u, theme: theme() });
    showNotices();

    chapters.update({ preset: slot.preset });
    const cards = cardsKnown.of === report ? cardsKnown.answer : null;
    if (shown.embed !== '1') form.update(formContext(cards));
    if (!report) return;

    root.classList.toggle('stale', slot.error !== null);
    show($('stale'), slot.error !== null);
    setText($('stale'), slot.error ? ui('stale', { why: errorText(slot.error) }) : '');
    const preset = presetOf(slot.preset);
    const stated = preset && statedReport(preset);
    const asStated = Boolean(preset) && same(withoutCards(report.scenario), withoutCards(stated.scenario));
    all = {
      report, cards, alone: shown.embed === '1', second: slots[1]?.report ?? null, presets, lists, unit: u, phase, usable: report.fits[0].usable_bytes,
      roles: report.entries.some((e) => e.role !== 'model' && e.component !== CONTEXT),
      quoted: asStated ? preset.quoted : null,
    };
    showAnswer();
    if (shown.view === 'claim') claim.update({ ...all, slot });
    if (shown.embed !== '1') showPanel(); // before its prices are known: what stands below it does not move then
    guide.update({ preset: slot.preset, report, told: asStated ? report : stated, unit: u });
    card.update(all);
    ledger.update(all);
    facts.update(all);
    notes.update(all);
    log.update(all);
    setText(full, ui('full'));
    setAttr(full, 'href', pageAddress() + here({ lang: shown.lang ?? getLang(), embed: null }));
    later(rest());
  }

  // The words that do not depend on the scenario.
  function fillWords(root) {
    root.dataset.words = getLang();
    root.lang = getLang() === 'zh' ? 'zh-CN' : 'en';
    for (const node of document.querySelectorAll('[data-t]')) setText(node, ui(node.dataset.t));
    for (const node of document.querySelectorAll('[data-label]')) setAttr(node, 'aria-label', ui(node.dataset.label));
  }

  const inSight = (node) => {
    const { top, bottom } = node.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };

  // What comes after the answer, piece by piece: first what can be seen, the prices of variants and options and the blocks that are on the screen;
  // after a rest what stands further down, and what takes the core some hundred estimates.
  function* rest() {
    const [slot] = slots;
    const now = all;
    if (!now || shown.view) return;
    const alone = shown.embed === '1';
    yield* askCards(slot);
    if (!alone) {
      if (!slot.error) priced.set(slot.scenario, slot.report);
      yield* pricesOfVariants(slot);
      yield* pricesOfForm(slot, inSight);
    }
    if (!alone || shown.chart === 'all') {
      now.timeline = instants(now);
      ledger.say(placesOf(now.timeline));
      yield;
    }
    if (alone) {
      if (shown.chart === 'all') timeline.update(now);
      return;
    }
    const asked = { scenario: slot.scenario, report: now.report, unit: unit() };
    const blocks = [
      [$('time-block'), () => timeline.update(now)], [$('compare-block'), () => compare.update(now)], [$('rules-block'), () => rules.update(now)], [$('accuracy-block'), () => right.update(now)],
      ...(slot.error ? [] : [[$('whatif-block'), () => whatIf.update(asked), true], [$('limits-block'), () => limits.update(asked), true]]), // the last answers stay
    ].map(([node, fill, slow = false]) => ({ fill, slow, near: inSight(node) }));
    yield* filled(blocks.filter((b) => b.near && !b.slow));
    yield REST;
    yield* filled(blocks.filter((b) => b.near && b.slow));
    yield* pricesOfForm(slot, () => true);
    yield* filled(blocks.filter((b) => !b.near));
  }
  function* filled(blocks) {
    for (const { fill } of blocks) {
      yield* fill() ?? [];
      yield;
    }
  }

  // chosen(node): whether the prices of that field are asked for in this turn; those of the others stay as they were.
  function* pricesOfForm(slot, chosen) {
    if (!slot.error) { // a refused scenario has no prices: the last ones stay
      const wanted = Object.entries(form.wants()).filter(([path]) => chosen($('form').querySelector(`[data-path="${path}"]`)));
      const next = {};
      for (const [path, values] of wanted) next[path] = yield* priced.later(slot.scenario, path, values);
      prices = { ...prices, ...next };
    }
    form.update(formContext());
    yield;
  }

  // A variant is told from the beginning, whatever was changed since: it has one price.
  const told = (preset, p) => (p === null ? baseOf({ preset }) : withPatch(baseOf({ preset }), flat(p)));
  const toldPrices = new Map(); // of a preset: patch -> peak, null where there is none
  function* pricesOfVariants({ preset }) {
    if (toldPrices.has(preset)) return;
    const found = new Map();
    for (const p of panel.patches(preset)) {
      found.set(p, core.estimate(told(preset, p)).peak ?? null);
      yield;
    }
    toldPrices.set(preset, found);
    showPanel();
    yield;
  }
  function showPanel() {
    const [{ preset, scenario }] = slots;
    panel.update({ preset, price: (p) => toldPrices.get(preset)?.get(p), isActive: (p) => same(scenario, told(preset, p)), unit: unit() });
  }

  const formContext = (cards = all?.cards) => ({
    cards,
    first: presetOf(slots[0].preset)?.controls,
    slot: slots[0], base: baseOf(slots[0]), valueOf: valueReader(index, slots[0].scenario, slots[0].report?.scenario), unit: unit(), prices,
  });

  function showNotices() {
    const box = $('notice');
    show(box, notices.length > 0);
    if (!notices.length) return;
    if (!box.firstChild) {
      const close = el('button', { type: 'button', class: 'tool' });
      close.addEventListener('click', () => { notices = []; render(); });
      box.append(el('p', {}), el('ul', {}), close);
    }
    setText(box.firstChild, ui('notice'));
    setText(box.lastChild, ui('close'));
    const times = new Map(); // what is said again is said once
    for (const text of notices.map(noticeText)) times.set(text, (times.get(text) ?? 0) + 1);
    const texts = [...times].map(([text, n]) => (n > 1 ? ui('notice_times', { text, n: count(n) }) : text));
    const rest = texts.length - MOST_NOTICES;
    keyed(box.children[1], [...texts.slice(0, MOST_NOTICES), ...(rest > 0 ? [ui('notice_more', { n: count(rest) })] : [])].map((text, i) => ({ text, i })), (n) => n.i, () => el('li', {}), (li, n) => setText(li, n.text));
  }

  // ---- one polite voice
  let timer = 0;
  let quiet = 0;
  function say(text) {
    clearTimeout(timer);
    setText($('status'), text);
    $('status').classList.add('seen');
    clearTimeout(quiet);
    quiet = setTimeout(() => $('status').classList.remove('seen'), 2400);
  }
  function sayLater() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const [slot] = slots;
      setText($('status'), slot.error ? errorText(slot.error) : sentenceText(all));
    }, SAY_AFTER);
  }

  // ---- a segment, its row and its bar light together
  function light(key) {
    for (const node of document.querySelectorAll('.lit')) if (node.dataset.key !== key) node.classList.remove('lit');
    document.documentElement.classList.toggle('lighting', Boolean(key));
    if (key) for (const node of document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)) node.classList.add('lit');
  }
  for (const [type, on] of [['pointerover', true], ['focusin', true], ['pointerleave', false], ['focusout', false]]) {
    $('main').addEventListener(type, (event) => {
      const node = on ? event.target.closest?.('[data-key]') : null;
      light(node?.dataset.key ?? null);
    });
  }

  // On a low screen what stays of the answer when the page passes under it is its first line and the bar (style.css). What it loses in height it
  // keeps as a margin, so that nothing below it jumps.
  new IntersectionObserver(([{ isIntersecting, boundingClientRect: { top } }]) => {
    const tall = () => $('answer').getBoundingClientRect().height;
    const before = tall();
    document.documentElement.classList.toggle('stuck', !isIntersecting && top < 0);
    const lost = before - tall();
    if (lost > 0) $('answer').style.setProperty('margin-bottom', `${lost}px`);
    else $('answer').style.removeProperty('margin-bottom');
  }).observe(document.querySelector('.stuck-mark'));

  // menus close as menus do
  const menus = [tools.menu, chapters.menu];
  document.addEventListener('pointerdown', (event) => { for (const m of menus) if (m.open && !m.contains(event.target)) m.open = false; });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    for (const m of menus) if (m.open) { m.open = false; m.querySelector('summary').focus(); }
  });
  chapters.menu.addEventListener('click', (event) => { if (event.target.closest('a')) chapters.menu.open = false; });
  $('form').addEventListener('submit', (event) => event.preventDefault());
  document.querySelector('[data-skip]').addEventListener('click', (event) => { event.preventDefault(); $('answer').focus(); });

  const moved = () => { if (location.hash !== written) { written = location.hash; openHash(); } };
  addEventListener('hashchange', moved);
  addEventListener('popstate', moved);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.redraw());
  addEventListener('pagehide', () => { if (open) write('replace'); });
  addEventListener('beforeprint', () => { if (all && !shown.view) fillPaper($('paper'), taken()); });

  openHash();
  write('replace');
  document.documentElement.classList.add('answered');
  if (parent !== window) tellHeight();
}

// ---- what the build put into the page
function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const data = globalThis.vramData;
start({ wasm: decode(data.wasm), presets: data.presets, accuracy: data.accuracy }).catch((error) => {
  setLang(preferredLang());
  const sentence = document.getElementById('sentence');
  sentence.textContent = ui('broken', { why: String(error.message ?? error) });
  document.documentElement.classList.add('answered', 'ready', 'broken');
  throw error;
});
