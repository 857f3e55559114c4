// Scenarios are trees; forms and links speak of them by path: "training.micro_batch".

export const isTree = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);

// Names that would reach an object's prototype are no names of ours.
const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype']);
export const isForbidden = (key) => FORBIDDEN.has(key);

export function getPath(tree, path) {
  let at = tree;
  for (const key of path.split('.')) {
    if (!isTree(at) || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

// A new tree with one path replaced; undefined removes it, and branches left empty go too.
export function withPath(tree, path, value) {
  const keys = Array.isArray(path) ? path : path.split('.');
  const [key, ...rest] = keys;
  if (FORBIDDEN.has(key)) return tree;
  const copy = isTree(tree) ? { ...tree } : {};
  if (rest.length === 0) {
    if (value === undefined) delete copy[key];
    else copy[key] = value;
    return copy;
  }
  const below = withPath(copy[key], rest, value);
  if (value === undefined && Object.keys(below).length === 0) delete copy[key];
  else copy[key] = below;
  return copy;
}

// A patch is a flat list of paths and values.
export function withPatch(tree, patch) {
  return Object.entries(patch).reduce((t, [path, value]) => withPath(t, path, value), tree);
}

// Leaves of a tree as [path keys, value]. Arrays, null and empty trees are leaves.
export function* leaves(tree, above = []) {
  for (const [key, value] of Object.entries(tree)) {
    const path = [...above, key];
    if (isTree(value) && Object.keys(value).length) yield* leaves(value, path);
    else yield [path, value];
  }
}

export function same(a, b) {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((v, i) => same(v, b[i]));
  if (!isTree(a) || !isTree(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => Object.hasOwn(b, k) && same(a[k], b[k]));
}

// Degrees of parallelism say how many GPUs there are: who sets one no longer says it himself.
const DEGREES = new Set(['data', 'tensor', 'pipeline', 'context', 'expert'].map((name) => `parallel.${name}`));
export const withDegree = (path, value) => (DEGREES.has(path) ? { [path]: value, gpus: undefined } : { [path]: value });
export const isDegree = (path) => DEGREES.has(path);
