// Words. Two files with equal keys; the core's ids are the keys.
import en from '../i18n/en.json';
import zh from '../i18n/zh.json';

const LANGUAGES = { en, zh };
export const LANGS = Object.keys(LANGUAGES);
let words = en;
let lang = 'en';

export function setLang(next) {
  lang = LANGUAGES[next] ? next : 'en';
  words = LANGUAGES[lang];
}
export const getLang = () => lang;
export const preferredLang = () => ((navigator.languages ?? [navigator.language]).find((l) => /^(zh|en)\b/i.test(l)) ?? 'en').slice(0, 2).toLowerCase();

// A word lies in a section under an id that may hold dots: look('field', 'training.micro_batch', 'label').
function look(section, ...ids) {
  let at = words[section];
  for (const id of ids) {
    if (typeof at !== 'object' || !Object.hasOwn(at, id)) return undefined;
    at = at[id];
  }
  return typeof at === 'string' ? at : undefined;
}

export const has = (...ids) => look(...ids) !== undefined;
const readable = (id) => String(id).replaceAll('_', ' ');

// The word, its {names} filled in; an id without a word is shown readable rather than hidden.
export function word(section, ...rest) {
  const vars = typeof rest.at(-1) === 'object' ? rest.pop() : null;
  const template = look(section, ...rest) ?? readable(rest.at(-1));
  return vars ? template.replace(/\{(\w+)\}/g, (all, name) => vars[name] ?? all) : template;
}
export const ui = (id, vars) => (vars ? word('ui', id, vars) : word('ui', id));

// The same with nodes in the gaps: a list for append(), its texts in one piece.
export function rich(section, id, vars) {
  const template = look(section, id) ?? readable(id);
  const parts = template.split(/(\{\w+\})/).filter(Boolean).map((part) => vars[part.slice(1, -1)] ?? part);
  return parts.reduce((done, part) => (typeof part !== 'object' && typeof done.at(-1) === 'string' ? [...done.slice(0, -1), done.at(-1) + part] : [...done, typeof part === 'object' ? part : String(part)]), []);
}

// Sentences in a row; Chinese needs no space between them.
export const sentences = (...parts) => parts.filter(Boolean).join(lang === 'zh' ? '' : ' ');

// A text that travels in both languages, as the scenarios' titles do.
export const both = (text) => text?.[lang] ?? text?.en ?? '';
