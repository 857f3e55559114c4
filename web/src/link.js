// The address: #v=1&p=<preset>&training.micro_batch=2&lang=zh. A preset and what differs from it, by flattened paths.
// Nothing in an address can stop the page: what is unknown or unreadable is left out and told.
import { fallback, readValue, refuse, seen } from './fields.js';
import { getPath, isForbidden, isTree, leaves, same, withPath } from './paths.js';

export const LINK_VERSION = 1;
const SECOND = 'vs.'; // the other scenario of a comparison carries this before its paths
const MOST_KEYS = 4000;
const MOST_DEPTH = 16; // of a path, and of the JSON of a leaf: configurations have three or four

const readably = (text) => encodeURIComponent(text).replace(/%(3A|2C|2F|20)/g, (hex) => ({ '%3A': ':', '%2C': ',', '%2F': '/', '%20': '%20' })[hex]);
const pathText = (keys) => keys.map((k) => readably(k).replaceAll('.', '%2E')).join('.');

function numberText(n) {
  const plain = String(n);
  const powers = n.toExponential().replace('e+', 'e');
  return powers.length < plain.length ? powers : plain;
}

// A leaf below model or gpu has no field to say its type: numbers, booleans, null and arrays are JSON, other text is itself.
function leafText(value) {
  if (typeof value === 'number') return numberText(value);
  if (typeof value !== 'string') return JSON.stringify(value);
  return readLeaf(value) === value ? value : JSON.stringify(value);
}
function readLeaf(text) {
  try {
    const value = JSON.parse(text);
    return shallow(value, MOST_DEPTH) ? value : text;
  } catch { return text; }
}
const shallow = (value, most) => value === null || typeof value !== 'object' || (most > 0 && Object.values(value).every((v) => shallow(v, most - 1)));

const fieldText = (value) => (typeof value === 'number' ? numberText(value) : Array.isArray(value) ? value.join(',') : String(value));

// ---- writing

function* treePairs(path, value, base) {
  if (!isTree(value)) {
    yield [path, fieldText(value)];
    return;
  }
  const extends_ = isTree(base) && [...leaves(base)].every(([keys]) => getPath(value, keys.join('.')) !== undefined);
  if (isTree(base) && !extends_) yield [path, '{}'];
  const from = extends_ ? base : {};
  for (const [keys, leaf] of leaves(value)) {
    if (!same(keys.reduce((t, k) => (isTree(t) ? t[k] : undefined), from), leaf)) yield [`${path}.${pathText(keys)}`, leafText(leaf)];
  }
}

function* scenarioPairs(slot, presets, index) {
  const preset = presets.scenarios.find((s) => s.id === slot.preset);
  if (preset) yield ['p', preset.id];
  const base = preset?.scenario ?? {};
  const matters = seen(index, slot.scenario);
  for (const field of index.fields) {
    const value = getPath(slot.scenario, field.path);
    if (value !== undefined && getPath(matters, field.path) === undefined) continue;
    const before = getPath(base, field.path);
    if (same(value, before)) continue;
    if (value === undefined) yield [field.path, ''];
    else if (before === undefined && same(value, fallback(field))) continue;
    else if (index.trees.includes(field.path)) yield* treePairs(field.path, value, before);
    else yield [field.path, fieldText(value)];
  }
}

const join = (pairs) => pairs.map(([k, v]) => `${k}=${readably(v)}`).join('&');

// ui: what else the address says (lang, theme, unit, embed), in order; empty values are left out.
export function writeLink(list, ui, presets, index) {
  const pairs = [['v', String(LINK_VERSION)], ...scenarioPairs(list[0], presets, index)];
  if (list[1]) for (const [k, v] of scenarioPairs(list[1], presets, index)) pairs.push([SECOND + k, v]);
  if (list[1] && !pairs.some(([k]) => k.startsWith(SECOND))) pairs.push([`${SECOND}p`, '']);
  for (const [k, v] of Object.entries(ui)) if (v) pairs.push([k, String(v)]);
  return `#${join(pairs)}`;
}

// ---- reading

function readPairs(hash, notices) {
  const pairs = [];
  for (const part of hash.replace(/^[#?]/, '').split('&').filter(Boolean).slice(0, MOST_KEYS)) {
    const at = part.indexOf('=');
    try {
      const raw = at < 0 ? part : part.slice(0, at);
      const keys = raw.split('.');
      if (keys.length > MOST_DEPTH) throw new RangeError(raw);
      pairs.push([keys.map(decodeURIComponent), at < 0 ? '' : decodeURIComponent(part.slice(at + 1))]);
    } catch {
      notices.push({ id: 'unreadable', key: part.slice(0, 60) });
    }
  }
  return pairs;
}

function readScenario(pairs, presets, index, notices) {
  const wanted = pairs.find(([keys]) => keys.length === 1 && keys[0] === 'p')?.[1];
  const preset = presets.scenarios.find((s) => s.id === wanted);
  if (wanted && !preset) notices.push({ id: 'unknown_preset', key: wanted });
  let scenario = preset?.scenario ?? {};
  for (const [keys, text] of pairs) {
    const path = keys.join('.');
    if (path === 'p') continue;
    const field = index.byPath.get(path);
    const tree = !keys.some(isForbidden) && index.trees.find((t) => path.startsWith(`${t}.`));
    if (tree && !field) {
      const named = getPath(scenario, tree); // a card that has only its name keeps it
      if (tree === 'gpu' && typeof named === 'string') scenario = withPath(scenario, tree, { preset: named });
      scenario = withPath(scenario, keys, readLeaf(text));
    } else if (!field) {
      notices.push(path ? { id: 'unknown_key', key: path } : { id: 'empty_key', key: '', value: text });
    } else if (text === '') {
      scenario = withPath(scenario, path, undefined);
    } else if (index.trees.includes(path) && text === '{}') {
      scenario = withPath(scenario, path, {});
    } else {
      const value = readValue(field, text);
      const error = refuse(field, value);
      if (error) notices.push({ id: 'bad_value', key: path, value: text, error });
      else scenario = withPath(scenario, path, value);
    }
  }
  return { preset: preset?.id ?? null, scenario };
}

// -> {list, ui, notices}. `allowed` names the other keys that the page takes, each with its values or a pattern of them.
export function readLink(hash, allowed, presets, index) {
  const notices = [];
  const ui = {};
  const first = [];
  const second = [];
  for (const [keys, text] of readPairs(hash, notices)) {
    const path = keys.join('.');
    if (path === 'v') {
      const version = readValue({ type: 'integer' }, text);
      if (version > LINK_VERSION && Number.isInteger(version)) notices.push({ id: 'newer_link', key: text });
      else if (version !== LINK_VERSION) notices.push({ id: 'bad_version', key: text });
    } else if (Object.hasOwn(allowed, path)) {
      if (allowed[path].test ? allowed[path].test(text) : allowed[path].includes(text)) ui[path] = text;
      else notices.push({ id: 'bad_value', key: path, value: text });
    } else if (path.startsWith(SECOND)) second.push([keys.slice(1), text]);
    else first.push([keys, text]);
  }
  const list = [readScenario(first, presets, index, notices)];
  if (second.length) list.push(readScenario(second, presets, index, notices));
  return { list, ui, notices };
}
