// What each choice would come to: the scenario with one value replaced. Form, menus and what-if ask for the same ones; each is computed once, a value at a time,
// and the value that is set already is what the report says.
import { getPath, isDegree, withPath } from './paths.js';

export function makePrices(core) {
  let of = ''; // the scenario that is known, as text
  let known = new Map(); // path -> value as text -> the core's answer
  let own = null;

  function answersOf(scenario, path) {
    const text = JSON.stringify(scenario);
    if (text !== of) [of, known, own] = [text, new Map(), null];
    if (!known.has(path)) known.set(path, new Map());
    const answers = known.get(path);
    const value = own ? getPath(own.scenario, path) : undefined;
    if (['string', 'number', 'boolean'].includes(typeof value)) answers.set(JSON.stringify(value), ownPrice(value));
    return answers;
  }

  // Another degree means another number of GPUs, as choosing it does.
  const ask = (scenario, path, values) => core.options(isDegree(path) ? withPath(scenario, 'gpus', undefined) : scenario, { [path]: values })[path] ?? [];
  // `report`: what the scenario itself comes to
  function set(scenario, report) {
    answersOf(scenario, '');
    own = report;
  }
  function ownPrice(value) {
    const fit = own.fits[0];
    return { value, bytes: own.peak.bytes, phase: own.peak.phase, needed_bytes: fit.needed_bytes, verdict: fit.verdict, gpus_needed: fit.gpus_needed };
  }
  const missing = (answers, values) => values.filter((v) => !answers.has(JSON.stringify(v)));
  const found = (answers, values) => values.map((v) => answers.get(JSON.stringify(v))).filter(Boolean);
  function add(answers, rows) { for (const row of rows) answers.set(JSON.stringify(row.value), row); }

  return {
    set,
    // [{value, bytes, …} | {value, error}, …], all at once
    now(scenario, path, values) {
      const answers = answersOf(scenario, path);
      const open = missing(answers, values);
      if (open.length) add(answers, ask(scenario, path, open));
      return found(answers, values);
    },

    // the same as a piece of work for each value that is not known yet
    * later(scenario, path, values) {
      const answers = answersOf(scenario, path);
      for (const value of missing(answers, values)) {
        add(answers, ask(scenario, path, [value]));
        yield;
      }
      return found(answers, values);
    },
  };
}
