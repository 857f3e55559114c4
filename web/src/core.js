// The core: a WebAssembly module without imports that answers JSON with JSON. The only file that knows of its memory.
const ABI = 1;
const MOST_KNOWN = 128; // answers, of some ten kilobytes each: those of all rows of a table of cards, and more
const OP = { estimate: 0, options: 1, tables: 2, presets: 3, solve: 4, timeline: 5, claim: 6 };

// Asked once at the start: a core that answers this wrong is not to be shown to anybody.
const KNOWN = {
  scenario: { task: 'inference', model: { params: 7e9, num_hidden_layers: 32, hidden_size: 4096 }, overheads: false },
  weights: 14e9,
};

export async function openCore(bytes, presets) {
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const c = instance.exports;
  c._initialize?.();
  if (c.vram_abi() !== ABI) throw new Error(`core speaks version ${c.vram_abi()}, the page ${ABI}`);
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();

  function call(op, value) {
    return ask(op, value === undefined ? '' : JSON.stringify(value));
  }
  function ask(op, asked) {
    const text = encoder.encode(asked);
    const at = c.vram_input(text.length);
    if (!at) return { error: { code: 'too_large', path: '' } };
    new Uint8Array(c.memory.buffer, at, text.length).set(text); // a fresh view after each call
    const length = c.vram_call(op, text.length);
    if (length < 0) return { error: { code: 'internal', path: '' } };
    return JSON.parse(decoder.decode(new Uint8Array(c.memory.buffer, c.vram_output(), length)));
  }

  // What is asked again (another language, unit or phase; a step back) is answered from memory. Nobody changes an answer.
  const known = new Map();
  function recall(op, value) {
    const asked = JSON.stringify(value);
    const key = `${op}${asked}`;
    if (!known.has(key)) {
      if (known.size === MOST_KNOWN) known.delete(known.keys().next().value);
      known.set(key, ask(op, asked));
    }
    return known.get(key);
  }

  const loaded = call(OP.presets, presets);
  if (loaded.error) throw new Error(`presets: ${loaded.error.code}`);
  const core = {
    estimate: (scenario) => recall(OP.estimate, scenario),
    // {path: [value, …]} -> {path: [{value, bytes, …} | {value, error}, …]}
    options: (scenario, options) => call(OP.options, { scenario, options }).options ?? {},
    // the inverse questions: [{path, value, limit, bytes, …}, …]
    solve: (scenario, paths) => recall(OP.solve, { scenario, for: paths }).solve ?? [],
    // how many GPUs it takes, divided how: {value, parallel, nearest, over}; null for what is refused
    cards: (scenario) => recall(OP.solve, { scenario, for: ['gpus'] }).solve?.[0] ?? null,
    // a training step instant by instant: {components, points: [{phase, place, bytes}, …]}
    timeline: (scenario) => (scenario.task === 'training' ? recall(OP.timeline, scenario).timeline : null) ?? null, // of rl only phases, which the columns show
    // {verdict, changes, bytes, needed_bytes, usable_bytes, peak_phase, alternatives}
    claim: (scenario) => { const answer = call(OP.claim, { scenario }); return answer.claim ?? answer; },
    tables: () => call(OP.tables),
  };
  const test = core.estimate(KNOWN.scenario);
  if (test.components?.weights !== KNOWN.weights) throw new Error(`self-test: ${JSON.stringify(test.error ?? test.components)}`);
  return core;
}
