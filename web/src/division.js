// How many GPUs it takes, as the core has searched for it: the words for a division, and the changes that set it.
import { el } from './dom.js';
import { rich, word } from './i18n.js';
import { count } from './units.js';

// What the report may leave open: more GPUs than one model is divided over, or one that does not fit.
export const isAsked = ({ scenario, fits }) => fits[0].verdict === 'no' || scenario.gpus > 1;

const SPREADS = ['llama.cpp', 'transformers']; // by layers

// "FSDP 2 over 16", "tensor 8 × pipeline 2"
export function divisionText({ data, tensor, pipeline, zero, engine }, scenario) {
  const shares = scenario.task === 'inference' ? 'replicas' : zero === 0 ? 'copies' : ['fsdp1', 'fsdp2'].includes(engine) && zero === 3 ? engine : engine === 'megatron' ? 'megatron' : 'zero';
  const stages = scenario.task === 'inference' && SPREADS.includes(scenario.engine) ? 'layers' : 'pipeline';
  const parts = [[data, shares], [tensor, 'tensor'], [pipeline, stages]].filter(([n]) => n > 1);
  return parts.map(([n, id]) => word('division', id, { n: count(n), zero })).join(' × ') || word('division', 'alone');
}

// As a flat patch: what differs from what is.
export const divisionPatch = (parallel, scenario) => ({
  ...Object.fromEntries(Object.entries(parallel).filter(([key, value]) => scenario.parallel[key] !== value).map(([key, value]) => [`parallel.${key}`, value])),
  gpus: undefined,
});

export const divisionButton = (onPick) => {
  const button = el('button', { type: 'button', class: 'link-button division' });
  button.addEventListener('click', () => onPick(button.patch));
  return button;
};

// Which words say what it takes. cards: the core's answer; copies: more of the same would only be more copies.
export function takesParts(cards, scenario, copies) {
  const { over } = cards;
  if (over && over.verdict !== 'no') return { id: copies ? 'over_copies' : 'over', parallel: over.parallel };
  if (cards.value !== null) return { id: copies ? 'found_copies' : 'found', parallel: cards.parallel, vars: { n: count(cards.value) } };
  const { nearest } = cards;
  return nearest && { id: copies ? 'none_copies' : 'none', vars: { n: count(nearest.gpus) }, told: nearest.parallel, each: nearest.needed_bytes };
}

// The same as nodes: the division is a button that sets it.
export function takesNodes({ id, vars, parallel, told }, scenario, more, onPick) {
  const division = divisionText(parallel ?? told, scenario);
  if (!parallel) return rich('takes', id, { ...vars, ...more, division });
  const button = divisionButton(onPick);
  button.textContent = division;
  button.patch = divisionPatch(parallel, scenario);
  return within(rich('takes', id, { ...vars, ...more, division: button }), button);
}

// The signs that the words put around the button stay at its sides when a line is full.
function within(parts, button) {
  const at = parts.indexOf(button);
  const [before, after] = [parts[at - 1], parts[at + 1]];
  return [...parts.slice(0, at - 1), before.slice(0, -1), el('span', { class: 'division-box' }, before.slice(-1), button, after.slice(0, 1)), after.slice(1), ...parts.slice(at + 2)];
}
