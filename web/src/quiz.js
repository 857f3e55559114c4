// Practice: ten questions of a chapter, one at a time. An answer is judged within 5 %, then the working is shown: the report's own entries.
import { freshId } from './controls.js';
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { symbolLine, valueLine } from './formula.js';
import { has, ui, word } from './i18n.js';
import { modelName } from './model-field.js';
import { colourClass } from './palette.js';
import { CHAPTERS, LENGTH, SEED, freshSeed, isRight, question, readAnswer } from './quiz-questions.js';
import { readStoredJson, store } from './stored.js';
import { valueWord } from './texts.js';
import { bytes, bytesFull, count, parameters } from './units.js';

const MOST_LINES = 8; // of a working; the small ones are summed up
const MOST_KEPT = CHAPTERS.length; // quizzes that outlive the page
const MOST_TYPED = 60; // characters
const STORE = 'quiz';

// What an earlier page left: [[chapter/seed, {n, given, typed}], …]; whatever is not that is not taken.
function keptQuizzes() {
  const isKept = (row) => {
    const [key, quiz] = Array.isArray(row) ? row : [];
    const [chapter, seed] = String(key).split('/');
    return CHAPTERS.map(String).includes(chapter) && SEED.test(seed) && Number.isInteger(quiz?.n) && quiz.n >= 0 && quiz.n <= LENGTH && typeof quiz.typed === 'string'
      && Array.isArray(quiz.given) && [quiz.n, Math.min(quiz.n + 1, LENGTH)].includes(quiz.given.length) && quiz.given.every((g) => typeof g?.right === 'boolean');
  };
  const kept = readStoredJson(STORE);
  return Array.isArray(kept) ? kept.filter(isKept).slice(-MOST_KEPT) : [];
}

export function makeQuiz(root, { presets, core, lists, linkOf, openLink, chapterLink, onChange, say }) {
  const head = el('h1', { class: 'view-title' });
  const lead = el('p', { class: 'view-lead' });
  const strip = el('ol', { class: 'quiz-chapters' });
  const place = el('p', { class: 'quiz-place' });
  const marks = el('ol', { class: 'quiz-marks' });
  const text = el('p', { class: 'quiz-question', id: freshId('question') });
  const facts = el('p', { class: 'quiz-facts' });
  const input = el('input', { type: 'text', class: 'quiz-input', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', inputmode: 'text', 'aria-labelledby': text.id });
  const unitText = el('span', { class: 'quiz-unit' });
  const check = el('button', { type: 'submit', class: 'tool strong' });
  const problem = el('p', { class: 'field-note error' });
  const form = el('form', { class: 'quiz-form', autocomplete: 'off' }, input, unitText, check);
  const verdict = el('p', { class: 'quiz-verdict', tabindex: '-1' });
  const lines = el('ol', { class: 'quiz-working' });
  const why = el('p', { class: 'why' });
  const next = el('button', { type: 'button', class: 'tool strong' });
  const open = el('a', {});
  const after = el('div', { class: 'quiz-after' }, verdict, lines, why, el('p', { class: 'quiz-next' }, next, open));
  const asking = el('div', { class: 'quiz-asking' }, text, facts, form, problem, after);
  const score = el('h2', { class: 'claim-verdict', tabindex: '-1' });
  const again = el('button', { type: 'button', class: 'tool strong' });
  const further = el('a', {});
  const back = el('a', {});
  const share = el('p', { class: 'prose-note' });
  const done = el('div', { class: 'quiz-done' }, score, el('p', { class: 'quiz-next' }, again, further, back), share);
  root.append(head, lead, strip, place, marks, asking, done);

  const left = new Map(keptQuizzes()); // quizzes that somebody turned away from, or that an earlier page was left with, by chapter and seed: where they were, and what was typed
  let key = null; // of the quiz that is under way
  let n = 0;
  let given = []; // {right} of the questions answered
  let q = null;
  let now = null;
  let over = false;

  const modelWord = (m) => (typeof m === 'object' && m.params_active ? ui('claim_moe', { total: parameters(m.params), active: parameters(m.params_active) }) : modelName(m, presets));
  const amount = (value) => (q.count ? `${count(value)} (${parameters(value)})` : bytes(value, now.unit));

  function words() {
    const vars = Object.fromEntries(Object.entries(q.vars).map(([k, v]) => [k, ['model', 'other'].includes(k) ? modelWord(v) : typeof v === 'number' ? count(v) : valueWord('weights', v)]));
    return word('quiz', q.kind, vars);
  }
  const factText = ([id, value]) => `${word('symbol', id)} ${['parameters', 'params_active'].includes(id) ? parameters(value) : count(value)}`;

  function ask() {
    q = question(now.chapter, now.seed, n, core, presets);
    input.value = '';
    over = false;
  }

  // Several models: a line for each, its parameters times the bytes of all that is kept of one (split entries of one thing count together).
  function modelsOf(entries) {
    const roles = [...new Set(entries.map((e) => e.role))];
    return roles.map((role) => {
      const own = entries.filter((e) => e.role === role);
      const [times] = own[0].formula;
      const parts = [...new Set(own.map((e) => e.what))].map((what) => own.filter((e) => e.what === what).reduce((s, e) => s + e.bytes, 0) / times.value);
      return { role, times, parts, component: 'weights', bytes: own.reduce((s, e) => s + e.bytes, 0) };
    });
  }
  function modelLine({ times, parts, bytes: all }) {
    const each = parts.map((p) => count(p)).join(' + ');
    return `${symbolLine([times])} × ${parts.length > 1 ? `(${each})` : each} = ${valueLine([times])} × ${count(all / times.value)} = ${bytesFull(all)}`;
  }

  // The product of an entry, as on the whiteboard; many small ones in one line.
  function working() {
    const all = [...q.entries.map((e) => ({ ...e, sign: 1 })), ...(q.less ?? []).map((e) => ({ ...e, sign: -1 }))].sort((a, b) => b.sign - a.sign || b.bytes - a.bytes);
    const models = all.length > MOST_LINES && !q.less?.length ? modelsOf(q.entries) : [];
    if (models.length > 1) return [...models.map((m) => ({ ...m, key: `${n}${m.role}` })), { key: `${n}sum`, sum: true }];
    const shown = all.slice(0, all.length > MOST_LINES ? MOST_LINES - 1 : MOST_LINES);
    const rest = all.slice(shown.length).reduce((s, e) => s + e.sign * e.bytes, 0);
    return [...shown.map((e, i) => ({ ...e, key: `${n}${i}` })), ...(rest ? [{ key: `${n}rest`, rest }] : []), ...(all.length > 1 ? [{ key: `${n}sum`, sum: true }] : [])];
  }
  function fillLine(li, e) {
    const name = e.sum ? ui('quiz_sum') : e.rest ? ui('claim_rest') : e.parts ? word('role', e.role) : e.rule ? word('rule', e.rule, 'label') : [e.role === 'model' ? '' : word('role', e.role), word('component', e.component), word('what', e.what)].filter(Boolean).join(' · ');
    setText(li.children[0].lastChild, name);
    li.children[0].firstChild.className = `swatch ${e.component ? colourClass(e.component) : ''}`;
    li.classList.toggle('is-sum', Boolean(e.sum));
    setProse(li.children[1], e.sum ? (q.count ? count(q.answer) : bytesFull(q.answer)) : e.rest ? bytesFull(e.rest) : e.parts ? modelLine(e) : q.count ? countLine(e) : `${e.sign < 0 ? '− ' : ''}${symbolLine(e.formula)} = ${valueLine(e.formula)} = ${bytesFull(e.bytes)}`);
  }
  const countLine = (e) => `${symbolLine(e.formula.slice(0, 1))} = ${valueLine(e.formula.slice(0, 1))}`;

  function fillAfter() {
    const answer = given[n];
    show(after, Boolean(answer));
    if (!answer) return;
    verdict.dataset.right = String(answer.right);
    setText(verdict, ui(answer.right ? 'quiz_right' : 'quiz_wrong', { answer: amount(q.answer) }));
    setAttr(verdict, 'title', q.count ? null : bytesFull(q.answer));
    keyed(lines, working(), (e) => e.key, () => el('li', {}, el('span', { class: 'quiz-name' }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', {})), el('code', {})), fillLine);
    const first = q.entries[0];
    setText(why, has('quiz_why', q.kind) ? word('quiz_why', q.kind) : first?.what && has('why', first.what) ? word('why', first.what) : '');
    show(why, why.textContent !== '');
    setText(next, ui(n + 1 < LENGTH ? 'quiz_next' : 'quiz_finish'));
    setText(open, ui('claim_open'));
    setAttr(open, 'href', openLink(q.scenario));
  }

  function fill() {
    const right = given.filter((g) => g.right).length;
    setText(head, ui('view_quiz'));
    setText(lead, ui('quiz_lead'));
    setAttr(strip, 'aria-label', ui('chapters'));
    keyed(strip, CHAPTERS, (c) => c, (c) => el('li', {}, el('a', { class: 'chapter-link' }, el('span', { class: 'chapter-number' }, String(c)), el('span', { class: 'chapter-name' }))), (li, c) => {
      setText(li.firstChild.lastChild, word('chapter', String(c)));
      setAttr(li.firstChild, 'title', word('chapter', String(c)));
      setAttr(li.firstChild, 'aria-current', c === now.chapter ? 'page' : null);
      setAttr(li.firstChild, 'href', linkOf({ chapter: String(c), seed: freshSeedOf(c) }));
    });
    setText(place, n < LENGTH ? ui('quiz_place', { n: n + 1, of: LENGTH, right }) : '');
    show(place, n < LENGTH);
    setAttr(marks, 'aria-hidden', 'true');
    keyed(marks, Array.from({ length: LENGTH }, (_, i) => i), (i) => i, () => el('li', {}), (li, i) => {
      li.dataset.mark = given[i] ? (given[i].right ? 'right' : 'wrong') : i === n ? 'now' : '';
    });
    show(asking, n < LENGTH);
    show(done, n >= LENGTH);
    if (n >= LENGTH) {
      setText(score, ui('quiz_score', { right, of: LENGTH }));
      setText(again, ui('quiz_again'));
      const c = now.chapter + 1;
      show(further, CHAPTERS.includes(c));
      if (CHAPTERS.includes(c)) {
        setAttr(further, 'href', linkOf({ chapter: String(c), seed: freshSeedOf(c) }));
        setText(further, ui('quiz_next_chapter', { n: c, name: word('chapter', String(c)) }));
      }
      setAttr(back, 'href', chapterLink(now.chapter));
      setText(back, ui('quiz_to_chapter', { n: now.chapter }));
      setText(share, ui('quiz_share'));
      return;
    }
    setText(text, words());
    setText(facts, q.facts.map(factText).join(' · '));
    show(facts, q.facts.length > 0);
    setText(unitText, q.count ? ui('quiz_parameters') : now.unit);
    setText(check, ui('quiz_check'));
    input.disabled = Boolean(given[n]);
    check.disabled = Boolean(given[n]);
    input.placeholder = ui('quiz_example', { n: q.count ? '4.2M' : `14 ${now.unit}` });
    setText(problem, over ? ui(q.count ? 'quiz_unread_count' : 'quiz_unread') : '');
    setAttr(input, 'aria-invalid', over ? 'true' : null);
    fillAfter();
  }

  // Another seed for the other chapters, the same one as long as this page lives: a link must not change under the pointer.
  const seeds = new Map();
  const freshSeedOf = (c) => seeds.get(c) ?? (seeds.set(c, c === now.chapter ? now.seed : freshSeed()), seeds.get(c));

  // Kept as they are now, the one under way last; nothing of one that nobody began.
  function keep() {
    left.delete(key);
    if (given.length || input.value) left.set(key, { n, given: given.map(({ right }) => ({ right })), typed: input.value.slice(0, MOST_TYPED) });
    store(STORE, JSON.stringify([...left].slice(-MOST_KEPT)));
  }
  input.addEventListener('input', keep);

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (given[n]) return;
    const value = readAnswer(input.value, now.unit, Boolean(q.count));
    over = Number.isNaN(value);
    if (!over) given[n] = { right: isRight(value, q.answer) };
    keep();
    fill();
    if (over) return;
    say(verdict.textContent);
    next.focus();
  });
  next.addEventListener('click', () => {
    n += 1;
    if (n < LENGTH) ask();
    keep();
    fill();
    (n < LENGTH ? input : score).focus();
  });
  again.addEventListener('click', () => onChange({ chapter: String(now.chapter), seed: freshSeed() }));

  return {
    // the quiz to come back to, of a chapter or of any, {chapter, seed}; null when none is under way
    pending(chapter = null) {
      const begun = [...left].filter(([k, quiz]) => quiz.n < LENGTH && quiz.given.length > 0 && (chapter === null || k.startsWith(`${chapter}/`)));
      if (!begun.length) return null;
      const [at, seed] = begun.at(-1)[0].split('/');
      return { chapter: at, seed };
    },
    update({ chapter, seed, unit }) {
      now = { chapter: Number(chapter), seed, unit, lists };
      if (key !== `${chapter}/${seed}`) {
        if (key && n >= LENGTH) left.delete(key); // its score was seen
        key = `${chapter}/${seed}`;
        const before = left.get(key);
        n = before?.n ?? 0;
        given = before?.given ?? [];
        if (n < LENGTH) ask();
        input.value = before?.typed ?? ''; // what was answered stays to be seen
      }
      fill();
    },
  };
}
