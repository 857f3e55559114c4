// Sentences made of the core's ids: values, errors, notes. The words are in i18n; here is only which word to take.
import { has, ui, word } from './i18n.js';
import { bytes, count } from './units.js';

// A value's word: its own, or itself (formats and engines are called what they are called).
export function valueWord(path, value) {
  const id = String(value);
  if (has('value', path, id)) return word('value', path, id);
  if (typeof value === 'boolean') return word('value', 'boolean', id);
  return id;
}

// What only a pasted configuration says has no label of its own.
const ownKey = (path) => (path.startsWith('model.') ? ui('in_config', { key: path.slice('model.'.length) }) : path);
export const fieldLabel = (path) => (has('field', path, 'label') ? word('field', path, 'label') : ownKey(path));
// A field that does nothing where there is one copy only says so.
export const fieldAlone = (path, valueOf) => (has('field', path, 'help_alone') && valueOf('parallel.data') === 1 ? word('field', path, 'help_alone') : fieldHelp(path));
export const fieldHelp = (path) => (has('field', path, 'help') ? word('field', path, 'help') : '');

const readable = (value) => (typeof value === 'number' ? count(value) : typeof value === 'string' ? value : JSON.stringify(value));

// An extract of what was given: never more than a line of it.
export const extract = (value, most = 40) => {
  const text = value === undefined || value === null ? '' : String(readable(value));
  return text.length > most ? `${text.slice(0, most)}…` : text;
};

export function errorText(error) {
  const memory = (value) => (typeof value === 'number' ? bytes(value, 'GiB', value < 2 ** 20 ? undefined : 2) : extract(value)); // MiB, as drivers print it and the field takes it
  const told = /memory_bytes$/.test(error.path) ? memory : extract;
  const vars = { path: error.path ?? '', field: error.path ? fieldLabel(error.path) : '', value: told(error.value ?? error.text), min: told(error.min), max: told(error.max) };
  const ranged = typeof error.min === 'number' && typeof error.max === 'number';
  const id = error.code === 'range' && !ranged ? 'range_unknown' : error.code === 'too_large' && ranged && error.path !== 'model' ? 'too_large_range' : error.code;
  return word('error', id, vars);
}

// {0} is a note's first value as a count, {B0} as bytes.
export function noteText(note, engine = '', unit = 'GB') {
  const vars = Object.fromEntries((note.values ?? []).flatMap((v, i) => [[String(i), readable(v)], [`B${i}`, bytes(v, unit)]]));
  return word('note', note.id, { ...vars, engine: engine && valueWord('engine', engine), field: note.path ? fieldLabel(note.path) : '' });
}

export function noticeText(notice) {
  const vars = { key: notice.key ?? '', value: extract(notice.value), why: notice.error ? errorText(notice.error) : '' };
  return ui(`notice_${notice.id}`, vars);
}

export const sourceText = (id) => word('source', id);
