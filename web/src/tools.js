// The small switches at the top: units, language, theme, and what can be taken away: the link, an embed, files, the report.
import { el, setAttr, setText } from './dom.js';
import { LANGS, getLang, ui } from './i18n.js';
import { UNITS } from './units.js';
import { freshId } from './controls.js';

const EMBEDS = ['script', 'frame'];
const CHARTS = ['card', 'all'];
// what is saved, by rows of the menu
const FILES = [['picture', ['svg', 'png', 'timeline']], ['table', ['csv', 'markdown']], ['report', ['json']]];

export const THEMES = ['auto', 'light', 'dark'];
const LANG_NAMES = { zh: '中文', en: 'EN' };

function segmented(values, labelOf, onPick) {
  const name = freshId('seg');
  const legend = freshId('legend');
  const title = el('span', { class: 'vh', id: legend });
  const parts = values.map((value) => {
    const radio = el('input', { type: 'radio', name, class: 'chip-radio' });
    radio.addEventListener('change', () => onPick(value));
    const text = el('span', {});
    return { value, radio, text, node: el('label', { class: 'seg' }, radio, text) };
  });
  const node = el('div', { class: 'segs tiny', role: 'radiogroup', 'aria-labelledby': legend }, title, parts.map((p) => p.node));
  return {
    node,
    update(value, label) {
      setText(title, label);
      for (const p of parts) {
        p.radio.checked = p.value === value;
        setText(p.text, labelOf(p.value));
      }
    },
  };
}

// actions: snippet(kind, chart), saveFile(what) -> what to say
export function makeTools(root, { onUi, link, snippet, report, saveFile, say }) {
  const unit = segmented(UNITS, (u) => u, (value) => onUi({ unit: value }));
  const lang = segmented([...LANGS].reverse(), (l) => LANG_NAMES[l] ?? l, (value) => onUi({ lang: value }));
  let theme = 'auto';
  const themeButton = el('button', { type: 'button', class: 'tool theme' }, el('span', { class: 'theme-sign', 'aria-hidden': 'true' }));
  themeButton.addEventListener('click', () => onUi({ theme: THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] }));

  const share = el('button', { type: 'button', class: 'tool strong' });
  share.addEventListener('click', async () => say(await copy(link()) ? ui('copied_link') : ui('copy_failed')));

  const summary = el('summary', { class: 'tool' });
  const embedLabel = el('label', { for: 'embed-code' });
  const embedCode = el('textarea', { id: 'embed-code', rows: 4, readonly: true, spellcheck: 'false' });
  const host = el('p', { class: 'prose-note', hidden: location.protocol !== 'file:' });
  const embedCopy = el('button', { type: 'button', class: 'tool' });
  let wanted = { kind: EMBEDS[0], chart: CHARTS[0] };
  const fillCode = (change) => { wanted = { ...wanted, ...change }; embedCode.value = snippet(wanted.kind, wanted.chart); };
  const kind = segmented(EMBEDS, (k) => ui(`embed_${k}`), (value) => fillCode({ kind: value }));
  const extent = segmented(CHARTS, (c) => ui(`embed_${c}`), (value) => fillCode({ chart: value }));
  const jsonCopy = el('button', { type: 'button', class: 'tool' });
  const files = FILES.map(([id, list]) => ({
    id, label: el('span', { class: 'menu-label' }),
    buttons: list.map((what) => {
      const node = el('button', { type: 'button', class: 'tool', data: { save: what } });
      node.addEventListener('click', async () => say(await saveFile(what).catch(() => ui('save_failed'))));
      return { what, node };
    }),
  }));
  const print = el('button', { type: 'button', class: 'tool' });
  print.addEventListener('click', () => { menu.open = false; window.print(); });
  const more = { report: jsonCopy, table: print };
  const menu = el('details', { class: 'menu' }, summary,
    el('div', { class: 'menu-list menu-box' }, embedLabel, el('div', { class: 'menu-row' }, kind.node, extent.node), embedCode, host, el('div', { class: 'menu-row' }, embedCopy),
      files.map((f) => el('div', { class: 'menu-files' }, f.label, el('div', { class: 'menu-row' }, f.buttons.map((b) => b.node), more[f.id])))));
  menu.addEventListener('toggle', () => { if (menu.open) fillCode({}); });
  embedCode.addEventListener('focus', () => embedCode.select());
  embedCopy.addEventListener('click', async () => say(await copy(embedCode.value) ? ui('copied_embed') : ui('copy_failed')));
  jsonCopy.addEventListener('click', async () => say(await copy(report()) ? ui('copied_json') : ui('copy_failed')));
  root.append(el('div', { class: 'switches' }, unit.node, lang.node, themeButton), el('div', { class: 'take' }, share, menu));

  return {
    menu,
    update(state) {
      theme = state.theme;
      unit.update(state.unit, ui('unit'));
      lang.update(getLang(), ui('language'));
      setAttr(themeButton, 'aria-label', ui('theme', { now: ui(`theme_${theme}`) }));
      setAttr(themeButton, 'title', ui('theme', { now: ui(`theme_${theme}`) }));
      themeButton.dataset.theme = theme;
      setText(share, ui('copy_link'));
      setText(summary, ui('more_share'));
      setText(embedLabel, ui('embed_label'));
      setText(host, ui('embed_host'));
      setText(embedCopy, ui('copy_embed'));
      setText(jsonCopy, ui('copy_json'));
      kind.update(wanted.kind, ui('embed_kind'));
      extent.update(wanted.chart, ui('embed_extent'));
      for (const f of files) {
        setText(f.label, ui(`save_${f.id}`));
        for (const b of f.buttons) {
          setText(b.node, ui(`save_as_${b.what}`));
          setAttr(b.node, 'title', ui('save_title', { what: ui(`save_${f.id}`), as: ui(`save_as_${b.what}`) }));
        }
      }
      setText(print, ui('print'));
      if (menu.open) fillCode({});
    },
  };
}

// The clipboard where the browser allows it, else the old way; a sandboxed frame may have neither.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = el('textarea', { class: 'vh' });
    box.value = text;
    document.body.append(box);
    box.select();
    let done = false;
    try { done = document.execCommand('copy'); } catch { /* nothing left to try */ }
    box.remove();
    return done;
  }
}
