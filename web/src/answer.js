// The sentence: how much, when, on which card, and what to do. One or two short clauses, made of words for ids.
import { el, prose } from './dom.js';
import { rich, ui, word } from './i18n.js';
import { SEEN, cardOf, contextAtPeak, givenBack, isPooled, need } from './reading.js';
import { valueWord } from './texts.js';
import { bytes, bytesFull, count } from './units.js';


// A card may be large enough and still not do: too few of them for the degrees that were said, or no room in a pool for one sequence.
function whyNot(report, fit) {
  if (!fit.gpus_needed) return report.scenario.gpus > 1 && fit.usable_bytes > 0 ? '_copies' : '_never';
  if (need(report) - givenBack(report) > fit.usable_bytes) return '';
  return report.notes.some((n) => n.id === 'gpus_below_product') ? '_few' : '_pool';
}

// -> {id, vars} of the sentence; `vars` are texts
export function sentenceParts(report, presets, unit) {
  const card = cardOf(report, presets);
  const gpus = report.scenario.gpus ?? 1;
  const context = contextAtPeak(report);
  const { verdict, gpus_needed: needed } = card.fit;
  const cache = givenBack(report);
  const has = card.fit.usable_bytes + context;
  const budget = card.fit.needed_bytes + card.fit.headroom_bytes + context; // an engine with a pool leaves some of the card alone
  const room = isPooled(card.fit) ? 'pool' : context > 0 ? 'whole' : 'usable';
  const vars = {
    peak: bytes(report.peak.bytes, unit),
    phase: word('phase_at', report.peak.phase),
    card: card.name,
    // Like is compared with like: a peak that holds the context with the whole card, one without with what is left.
    has: bytes(has, unit),
    cached: cache > SEEN * report.peak.bytes ? word('cached', 'above', { n: bytes(cache, unit) }) : '',
    n: count(gpus),
    share: word('share', report.scenario.task),
    needed: count(needed),
    left: bytes(Math.max(0, card.fit.headroom_bytes), unit),
    budget: bytes(budget, unit),
    engine: valueWord('engine', report.scenario.engine),
    missing: bytes(Math.max(0, -card.fit.headroom_bytes), unit),
  };
  return { id: `${gpus > 1 ? 'many' : 'one'}_${verdict}${verdict === 'no' ? whyNot(report, card.fit) : ''}`, room, vars };
}

export const sentenceText = (report, presets, unit) => {
  const { id, room, vars } = sentenceParts(report, presets, unit);
  return word('sentence', id, { ...vars, room: word('room', room, vars) });
};

export function fillSentence(node, report, presets, unit) {
  const { id, room: which, vars } = sentenceParts(report, presets, unit);
  const number = el('strong', { class: 'peak', title: bytesFull(report.peak.bytes), data: { bytes: report.peak.bytes, needed: report.fits[0].needed_bytes } }, vars.peak);
  const room = word('room', which, vars);
  node.dataset.verdict = cardOf(report, presets).fit.verdict;
  node.replaceChildren(...rich('sentence', id, { ...vars, room, peak: number }).flatMap((part) => (typeof part === 'string' ? prose(part) : [part])));
}

export const title = (report, presets, unit) => ui('title', { sentence: sentenceText(report, presets, unit) });
