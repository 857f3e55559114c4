// What each choice would come to: the scenario with one value replaced. Form, menus and what-if ask for the same ones; each is computed once, a value at a time.

export function makePrices(core) {
  let of = ''; // the scenario that is known, as text
  let known = new Map(); // path -> value as text -> the core's answer

  function answersOf(scenario, path) {
    const text = JSON.stringify(scenario);
    if (text !== of) [of, known] = [text, new Map()];
    if (!known.has(path)) known.set(path, new Map());
    return known.get(path);
  }

  const ask = (scenario, path, values) => core.options(scenario, { [path]: values })[path] ?? [];
  const missing = (answers, values) => values.filter((v) => !answers.has(JSON.stringify(v)));
  const found = (answers, values) => values.map((v) => answers.get(JSON.stringify(v))).filter(Boolean);
  function add(answers, rows) { for (const row of rows) answers.set(JSON.stringify(row.value), row); }

  return {
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
