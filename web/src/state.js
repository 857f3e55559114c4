// One state: a list of one or two scenarios and how they are shown. A patch makes a new scenario; the core is asked;
// what it refuses is kept beside the last good answer.
import { isVisible, seen, valueReader } from './fields.js';
import { getPath, same, withPatch, withPath } from './paths.js';

const MOST_REPAIRS = 40;

// Removes what the core refuses, one path at a time, as long as `mayDrop` agrees: what `base` says there comes back. What is refused for a reason that
// nothing said carries the name of (two settings that are too much together) falls back to `base`. -> {scenario, report | error, dropped}
function settle(core, index, scenario, mayDrop, base = null) {
  const dropped = [];
  const ask = (s) => core.estimate(seen(index, s));
  let now = scenario;
  let report = ask(now);
  while (report.error && dropped.length < MOST_REPAIRS && mayDrop(report.error)) {
    const path = longestSaid(now, report.error.path);
    if (!path) break;
    const value = getPath(now, path);
    const before = base ? getPath(base, path) : undefined;
    dropped.push({ path, value, error: report.error });
    now = withPath(now, path, same(value, before) ? undefined : before);
    report = ask(now);
  }
  for (const whole of base ? [base, {}] : []) {
    if (!report.error) break;
    dropped.push({ path: '', error: report.error });
    now = whole;
    report = ask(now);
  }
  return report.error ? { scenario: now, error: report.error, dropped } : { scenario: now, report, dropped };
}

// An error may name a path deeper than what was said: "model.num_hidden_layers" of a preset's model. The longest said part of it.
function longestSaid(scenario, path) {
  const keys = (path ?? '').split('.').filter(Boolean);
  for (; keys.length; keys.pop()) if (getPath(scenario, keys.join('.')) !== undefined) return keys.join('.');
  return null;
}

export function makeSlot(core, index, { preset, scenario }, { repair, base = {} }) {
  const result = settle(core, index, scenario, () => repair, repair ? base : null);
  return { preset, scenario: result.scenario, good: result.scenario, report: result.report ?? null, error: result.error ?? null, dropped: result.dropped };
}

// What the core refuses at a field that nobody sees (it belongs to another task or engine) is dropped silently:
// the person changed something else.
export function patchSlot(core, index, slot, patch) {
  const scenario = withPatch(slot.scenario, patch);
  const valueOf = valueReader(index, scenario, null);
  const touched = Object.keys(patch);
  const result = settle(core, index, scenario, (error) => {
    const field = index.byPath.get(error.path);
    return field !== undefined && !touched.includes(error.path) && !isVisible(field, valueOf);
  });
  return {
    preset: slot.preset,
    scenario: result.scenario,
    good: result.error ? slot.good : result.scenario, // what was answered last: addresses say this one
    report: result.report ?? slot.report, // the last good one stays on show
    error: result.error ?? null,
    dropped: result.dropped,
  };
}
