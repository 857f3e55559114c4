// The sentence: how much, when, on which card, and what to do. One or two short clauses, made of words for ids.
import { el, proseOf } from './dom.js';
import { divisionText, takesNodes, takesParts } from './division.js';
import { rich, ui, word } from './i18n.js';
import { SEEN, cardOf, contextAtPeak, givenBack, isPooled, need, roomOf } from './reading.js';
import { valueWord } from './texts.js';
import { bytes, bytesFull, count } from './units.js';


// A card may be large enough and still not do: too few of them for the degrees that were said, or no room in a pool for one sequence.
function whyNot(report, fit, takes) {
  if (!fit.gpus_needed && isCopied(report)) return '_copies';
  if (!fit.gpus_needed && !takes) return '_never';
  if (need(report) - givenBack(report) > fit.usable_bytes) return '';
  return report.notes.some((n) => n.id === 'gpus_below_product') ? '_few' : '_pool';
}
const isCopied = (report) => report.scenario.gpus > 1 && report.fits[0].usable_bytes > 0 && (report.scenario.task === 'inference' || report.scenario.parallel.zero === 0);

// -> {id, vars} of the sentence; `vars` are texts. cards: how many it takes (division.js), null where nobody asked.
function sentenceParts(report, cards, presets, unit) {
  const card = cardOf(report, presets);
  const gpus = report.scenario.gpus ?? 1;
  const context = contextAtPeak(report);
  const { verdict, gpus_needed: needed } = card.fit;
  const cache = givenBack(report);
  const has = card.fit.usable_bytes + context;
  const { wanted, budget, outside } = roomOf(report); // an engine with a pool leaves some of the card alone
  const pool = outside ? 'pool_outside' : isPooled(card.fit) ? 'pool' : null;
  const room = pool ? `${pool}${context > 0 ? '' : '_bare'}` : context > 0 ? 'whole' : 'usable';
  const takes = verdict === 'no' && cards ? takesParts(cards, report.scenario, !needed && isCopied(report)) : null;
  const vars = {
    takes: needed ? word('takes', 'least', { n: count(needed) }) : word('takes', 'copies', { share: word('share', report.scenario.task) }),
    peak: bytes(report.peak.bytes, unit),
    phase: word('phase_at', report.peak.phase),
    card: card.name,
    // Like is compared with like: a peak that holds the context with the whole card, one without with what is left.
    has: bytes(has, unit),
    cached: cache > SEEN * report.peak.bytes ? word('cached', 'above', { n: bytes(cache, unit) }) : '',
    n: count(gpus),
    needed: count(needed),
    left: bytes(Math.max(0, card.fit.headroom_bytes), unit),
    budget: bytes(budget, unit),
    wanted: bytes(wanted, unit),
    engine: valueWord('engine', report.scenario.engine),
    missing: bytes(Math.max(0, -card.fit.headroom_bytes), unit),
  };
  return { id: `${gpus > 1 ? 'many' : 'one'}_${verdict}${verdict === 'no' ? whyNot(report, card.fit, takes) : ''}`, room, vars, takes };
}

const eachOf = (takes, unit) => ({ each: takes.each === undefined ? '' : bytes(takes.each, unit) });

export const sentenceText = ({ report, cards, presets, unit }) => {
  const { id, room, vars, takes } = sentenceParts(report, cards, presets, unit);
  const said = takes ? word('takes', takes.id, { ...takes.vars, ...eachOf(takes, unit), division: divisionText(takes.parallel ?? takes.told, report.scenario) }) : vars.takes;
  return word('sentence', id, { ...vars, takes: said, room: word('room', room, vars) });
};

export function fillSentence(node, { report, cards, presets, unit }, onPick) {
  const { id, room: which, vars, takes } = sentenceParts(report, cards, presets, unit);
  const number = el('strong', { class: 'peak', title: bytesFull(report.peak.bytes), data: { bytes: report.peak.bytes, needed: report.fits[0].needed_bytes } }, vars.peak);
  const room = word('room', which, vars);
  node.dataset.verdict = cardOf(report, presets).fit.verdict;
  const told = takes ? el('span', {}, proseOf(takesNodes(takes, report.scenario, eachOf(takes, unit), onPick))) : vars.takes;
  node.replaceChildren(...proseOf(rich('sentence', id, { ...vars, room, peak: number, takes: told })));
}

export const title = (all) => ui('title', { sentence: sentenceText(all) });
