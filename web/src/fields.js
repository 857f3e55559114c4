// What the core publishes about its fields, and how a text becomes a value of one. No range or list is written here.
import { getPath, withPath } from './paths.js';
import { readCount } from './units.js';

export function indexTables(tables) {
  const byPath = new Map(tables.fields.map((f) => [f.path, f]));
  // Fields whose value may be a tree of its own: model, gpu, the models of the RL roles.
  const trees = tables.fields.filter((f) => ['model', 'role_model', 'gpu'].includes(f.type)).map((f) => f.path);
  return { ...tables, byPath, trees };
}

export const fallback = (field) => (field?.default === null ? undefined : field?.default);

// The values a field may be set to, when they are few enough to name.
const FEW = 5;
export function choices(field) {
  if (field.type === 'boolean') return [true, false];
  if (field.type === 'integer' && field.max - field.min < FEW) {
    return Array.from({ length: field.max - field.min + 1 }, (_, i) => field.min + i);
  }
  return field.type === 'enum' || field.type === 'names' ? field.values ?? [] : [];
}

// Shown when all of `when` hold, unless all of `unless` do.
export function isVisible(field, valueOf) {
  const holds = (c) => c.values.some((v) => String(v) === String(valueOf(c.path)));
  return (field.when ?? []).every(holds) && !(field.unless?.length && field.unless.every(holds));
}

// What a scenario says where somebody sees it. What belongs to another task, engine or method stays with the page, for when it is chosen again:
// the core is not asked about it, and no address carries it.
export function seen(index, scenario) {
  const shown = (path) => {
    const field = index.byPath.get(path);
    return isVisible(field, (of) => (shown(of) ? getPath(scenario, of) : undefined) ?? fallback(index.byPath.get(of)));
  };
  return index.fields.reduce((s, { path }) => (getPath(s, path) !== undefined && !shown(path) ? withPath(s, path, undefined) : s), scenario);
}

// Text from a box or a link. What cannot be read stays text and is refused by name.
export function readValue(field, text) {
  switch (field.type) {
    case 'integer': case 'number': return text.trim() === '' ? undefined : text.trim() === field.word ? field.word : readCount(text);
    case 'boolean': return { true: true, false: false, 1: true, 0: false }[text] ?? text;
    case 'names': return (field.values ?? []).includes(text) ? text : text.split(/[\s,]+/).filter(Boolean);
    default: return text;
  }
}

// Why a value cannot be taken, in the core's own words; null when the core may be asked.
export function refuse(field, value) {
  const error = (code) => ({ code, path: field.path, value, min: field.min, max: field.max });
  switch (field.type) {
    case 'integer': case 'number':
      if (field.word !== undefined && value === field.word) return null;
      if (typeof value !== 'number' || (field.type === 'integer' && !Number.isInteger(value))) return error('type');
      return (field.min !== undefined && value < field.min) || (field.max !== undefined && value > field.max) ? error('range') : null;
    case 'boolean': return typeof value === 'boolean' ? null : error('type');
    case 'enum': return field.values.includes(value) ? null : error('unknown_value');
    default: return null;
  }
}

// What holds for a path now: said, else as the core filled it in, else the default.
export const valueReader = (index, scenario, normalised) => (path) =>
  getPath(scenario, path) ?? (normalised && getPath(normalised, path)) ?? fallback(index.byPath.get(path));
