// What if: each lever of a training pulled alone. What it takes off the peak, as the sentence and the choices of the form count it; what it takes off
// what must find room, where PyTorch's cache, which need not, makes that another number; what it costs in compute, where the peak then lies;
// a click pulls it. The bytes are the core's; the costs are words.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { sentences, ui, word } from './i18n.js';
import { getPath, withPatch } from './paths.js';
import { fieldLabel, valueWord } from './texts.js';
import { bytesFull, difference } from './units.js';

const SHARDED = 8; // GPUs that share a model out, where the scenario has fewer
const NOTHING = 0.005; // of the peak: so much the allocator's leftovers alone come to
const APART = 0.01; // of the peak: more than this of PyTorch's cache alone is a change, and is said beside what must find room

const LEVERS = {
  'training.checkpointing': ['none', 'full'],
  'training.precision': ['mixed', 'bf16', 'amp'],
  'training.optimizer': ['adamw', 'adamw-8bit', 'lion', 'adafactor', 'sgd'],
  'training.loss': ['full', 'fused', 'chunked'],
  'training.attention': ['flash', 'eager'],
  'training.method': ['full', 'lora'],
};

// An adapter's backward pass is as long as its forward pass, half of a full one: recomputing weighs more.
const costOf = (path, value, now) => word('whatif', path, path === 'training.checkpointing' && now.training.method === 'lora' ? `${value}_lora` : value);
const ownName = (path, value) => ui('whatif_name', { field: fieldLabel(path), value: valueWord(path, value) });

export function makeWhatIf(root, { core, prices, onPick }) {
  const list = el('ul', { class: 'whatif' });
  const rest = el('p', { class: 'whatif-rest' });
  const note = el('p', { class: 'chart-note' });
  root.append(list, rest, note);

  // Every change that differs from what is: {key, name, cost, patch, bytes, must, phase, verdict}; what the core refuses or does not model is no offer.
  function* changesOf({ scenario, report }) {
    const now = report.scenario;
    const wanted = Object.fromEntries(Object.entries(LEVERS).map(([path, values]) => [path, values.filter((v) => v !== getPath(now, path))]));
    const modelled = (path, value) => !core.estimate(withPatch(scenario, { [path]: value })).notes?.some((n) => n.id === 'not_modelled' && n.path === path);
    const found = [];
    for (const [path, values] of Object.entries(wanted)) {
      for (const a of yield* prices.later(scenario, path, values)) {
        if (a.error || (path === 'training.loss' && !modelled(path, a.value))) continue;
        found.push({ key: `${path}=${a.value}`, name: () => ownName(path, a.value), cost: () => costOf(path, a.value, now), patch: { [path]: a.value }, bytes: a.bytes, must: a.needed_bytes, phase: a.phase, verdict: a.verdict });
        yield;
      }
    }
    return [...found, ...sharded(scenario, now)];
  }

  function sharded(scenario, now) {
    const layerwise = now.task !== 'rl' || now.parallel.engine.startsWith('fsdp'); // only FSDP samples without gathering the whole actor
    if (now.parallel.zero === 3 && layerwise) return [];
    const n = Math.max(SHARDED, now.parallel.data);
    const patch = { 'parallel.data': n, 'parallel.zero': 3, 'parallel.engine': 'fsdp2', gpus: undefined }; // as many as that makes
    const answer = core.estimate(withPatch(scenario, patch));
    return answer.error ? [] : [{ key: 'sharded', name: () => ui('whatif_sharded', { n }), cost: () => word('whatif', now.task === 'rl' ? 'sharded_rl' : 'sharded'), patch, bytes: answer.peak.bytes, must: answer.fits[0].needed_bytes, phase: answer.peak.phase, verdict: answer.fits[0].verdict }];
  }

  function make(row) {
    const button = el('button', { type: 'button', class: 'whatif-row', data: { change: row.key } },
      el('span', { class: 'whatif-bytes' }), el('span', { class: 'whatif-name' }), el('span', { class: 'whatif-cost' }));
    const node = el('li', {}, button);
    button.addEventListener('click', () => onPick(node.row.patch));
    return node;
  }

  return {
    // a piece of work for each lever
    * update({ scenario, report, unit }) {
      if (report.scenario.task === 'inference') { show(root.parentNode, false); return; }
      const { phase, bytes: peak } = report.peak;
      const must = report.fits[0].needed_bytes;
      const small = (r) => Math.abs(r.must - must) < peak * NOTHING && Math.abs(r.bytes - peak) < peak * APART;
      const apart = (r) => Math.abs(r.bytes - peak - (r.must - must)) > peak * APART;
      const rows = (yield* changesOf({ scenario, report })).sort((a, b) => a.bytes - b.bytes);
      show(root.parentNode, rows.length > 0);
      keyed(list, rows.filter((r) => !small(r)), (r) => r.key, make, (node, r) => {
        const [amount, name, cost] = node.firstChild.children;
        node.row = r;
        setText(amount, difference(r.bytes - peak, unit));
        setAttr(amount, 'title', bytesFull(Math.abs(r.bytes - peak)));
        amount.dataset.bytes = r.bytes - peak;
        amount.dataset.verdict = r.verdict;
        setText(name, r.name());
        const fits = r.verdict !== 'no' && report.fits[0].verdict === 'no';
        setProse(cost, sentences(fits && ui('whatif_fits'), r.cost(), r.phase !== phase && ui('whatif_moves', { phase: word('phase', r.phase) }), apart(r) && ui('whatif_must', { n: difference(r.must - must, unit) })));
      });
      const same = rows.filter(small);
      show(rest, same.length > 0);
      keyed(rest, [{ key: 'say' }, ...same], (r) => r.key, (r) => (r.key === 'say' ? el('span', {}) : smallButton(r)), (node, r) => {
        node.row = r;
        setText(node, r.key === 'say' ? ui('whatif_nothing', { phase: word('phase', phase) }) : r.name());
        setAttr(node, 'title', r.cost?.() ?? null);
      });
      setText(note, ui('whatif_note'));
    },
  };

  function smallButton(row) {
    const button = el('button', { type: 'button', class: 'link-button', data: { change: row.key } });
    button.addEventListener('click', () => onPick(button.row.patch));
    return button;
  }
}
