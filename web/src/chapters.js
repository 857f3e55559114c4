// The seven chapters as a strip, more scenarios in a menu, and the panel of the one that is open: its paragraph and variants.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { both, ui, word } from './i18n.js';
import { bytes, bytesFull } from './units.js';

export function makeChapters(strip, more, { presets, linkOf }) {
  const chapters = presets.scenarios.filter((s) => s.chapter).sort((a, b) => a.chapter - b.chapter);
  const others = presets.scenarios.filter((s) => !s.chapter).sort((a, b) => a.order - b.order);
  const link = () => el('a', {});

  const summary = el('summary', { class: 'tool' });
  const list = el('ul', { class: 'menu-list' });
  const menu = el('details', { class: 'menu' }, summary, list);
  more.append(menu);
  show(more, others.length > 0);

  return {
    menu,
    update({ preset }) {
      keyed(strip, chapters, (s) => s.id, (s) => el('li', {},
        el('a', { class: 'chapter-link' }, el('span', { class: 'chapter-number' }, String(s.chapter)), el('span', { class: 'chapter-name' }))), (li, s) => {
        const a = li.firstChild;
        setAttr(a, 'href', linkOf(s.id));
        setAttr(a, 'title', both(s.title));
        setAttr(a, 'aria-current', s.id === preset ? 'page' : null);
        setText(a.lastChild, word('chapter', String(s.chapter)));
      });
      setText(summary, ui('more_scenarios'));
      keyed(list, others, (s) => s.id, () => el('li', {}, link()), (li, s) => {
        setAttr(li.firstChild, 'href', linkOf(s.id));
        setText(li.firstChild, both(s.title));
        setAttr(li.firstChild, 'aria-current', s.id === preset ? 'page' : null);
      });
      menu.classList.toggle('holds-current', others.some((s) => s.id === preset));
    },
  };
}

export function makeChapterPanel(kicker, root, { presets, onVariant }) {
  const place = el('span', {});
  const heading = el('strong', {});
  kicker.append(place, heading);
  const text = el('p', { class: 'chapter-text' });
  const variants = el('div', { class: 'variants', role: 'group' });
  // a chapter says it in three sentences first; its whole account opens below
  const summary = el('summary', {});
  const long = el('p', { class: 'chapter-text' });
  const folded = el('details', { class: 'fold small' }, summary, long);
  root.append(text, variants, folded);

  return {
    // the patches whose price is shown; null: none
    patches: (preset) => { const s = presets.scenarios.find((p) => p.id === preset); return s ? [null, ...(s.variants ?? []).map((v) => v.patch)] : []; },
    // price(patch) -> {bytes} of the scenario as told, with the patch; null: without any
    update({ preset, price, isActive, unit }) {
      const s = presets.scenarios.find((p) => p.id === preset);
      show(root, Boolean(s));
      show(kicker, Boolean(s && (s.chapter || !s.question))); // a question is a title too
      if (!s) return;
      setText(place, s.chapter ? ui('chapter_of', { n: s.chapter }) : ui('scenario'));
      setText(heading, both(s.title));
      setProse(s.say ? long : text, both(s.text));
      setText(summary, ui('guide_long'));
      show(text, !s.say);
      show(folded, Boolean(s.say));
      setAttr(variants, 'aria-label', ui('variants'));
      const items = [{ restore: true, title: null, patch: {} }, ...(s.variants ?? [])];
      keyed(variants, items.map((v, i) => ({ ...v, i })), (v) => `${s.id}#${v.i}`, (v) => {
        const button = el('button', { type: 'button', class: 'chip variant' }, el('span', { class: 'chip-label' }), el('span', { class: 'chip-price' }));
        button.addEventListener('click', () => onVariant(v.restore ? null : v.patch));
        return button;
      }, (button, v) => {
        const p = price(v.restore ? null : v.patch);
        setText(button.firstChild, v.restore ? ui('as_told') : both(v.title));
        setText(button.lastChild, p ? bytes(p.bytes, unit) : '');
        setAttr(button, 'title', p ? bytesFull(p.bytes) : null);
        setAttr(button, 'aria-pressed', String(isActive(v.restore ? null : v.patch)));
      });
    },
  };
}
