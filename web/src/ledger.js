// The ledger: a row per component (and per role, when several models are at work). A row opens into its entries, each a
// product of factors as one would write it on a whiteboard, with the reason and the source.
import { el, keyed, setAttr, setText, show } from './dom.js';
import { groupFormula, symbolLine, valueLine } from './formula.js';
import { has, ui, word } from './i18n.js';
import { colourClass } from './palette.js';
import { segmentName } from './card.js';
import { alive, groups, kindsOf, lookOf } from './reading.js';
import { bytes, bytesExact, bytesFull, count, difference, percent } from './units.js';
import { sourceText } from './texts.js';

let serial = 0;

export function makeLedger(root, { onPhase }) {
  const phases = el('div', { class: 'phases', role: 'group' });
  const caption = el('caption', { class: 'vh' });
  const heads = ['what', 'formula', 'share', 'bytes'].map((id) => ({ id, node: el('th', { scope: 'col', class: `col-${id}` }) }));
  const head = el('thead', {}, el('tr', {}, heads.map((h) => h.node)));
  const totalName = el('th', { scope: 'row', colspan: 2 });
  const totalAgainst = el('td', { class: 'col-share' });
  const totalBytes = el('td', { class: 'col-bytes total-bytes' });
  const mustName = el('th', { scope: 'row', colspan: 2 });
  const mustBytes = el('td', { class: 'col-bytes must-bytes' });
  const mustRow = el('tr', { class: 'must' }, mustName, el('td', { class: 'col-share' }), mustBytes);
  const table = el('table', { class: 'ledger' }, caption, head,
    el('tfoot', {}, el('tr', {}, totalName, totalAgainst, totalBytes), mustRow));
  const marks = ['exact', 'modelled', 'allowance'].map((kind) => ({ kind, text: el('span', {}) }));
  const legend = el('p', { class: 'legend' }, marks.map((m) => el('span', {}, el('span', { class: `swatch ${m.kind}`, 'aria-hidden': 'true' }), m.text)));
  root.append(phases, table, legend);

  let now = null;

  // ---- a component: its row, and below it what it opens into
  function makeRow(group) {
    const id = `row-${(serial += 1)}`;
    const button = el('button', { type: 'button', class: 'row-open', 'aria-expanded': 'false', 'aria-controls': id },
      el('span', { class: 'row-arrow', 'aria-hidden': 'true' }), el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', { class: 'row-name' }), el('span', { class: 'mark' }));
    const formula = el('td', { class: 'col-formula' }, el('div', { class: 'formula-line' }));
    const share = el('td', { class: 'col-share' });
    const amount = el('td', { class: 'col-bytes' });
    const row = el('tr', { class: 'row', data: { key: group.key } }, el('th', { scope: 'row', class: 'col-what' }, button), formula, share, amount);
    const why = el('p', { class: 'why' });
    const entries = el('ol', { class: 'entries' });
    const detail = el('tr', { class: 'detail', id, hidden: true }, el('td', { colspan: 4 }, why, entries));
    const parts = { button, name: button.querySelector('.row-name'), swatch: button.querySelector('.swatch'), mark: button.querySelector('.mark'), formula: formula.firstChild, share, amount, row, detail, why, entries };
    const body = el('tbody', {}, row, detail);
    body.parts = parts;
    button.addEventListener('click', () => open(body, button.getAttribute('aria-expanded') !== 'true'));
    return body;
  }

  function open(body, on) {
    const { button, detail } = body.parts;
    setAttr(button, 'aria-expanded', String(on));
    show(detail, on);
    body.classList.toggle('is-open', on);
    if (on) fillDetail(body);
  }

  function fillRow(body, group) {
    const p = body.parts;
    body.group = group;
    setText(p.name, segmentName(group));
    p.swatch.className = `swatch ${colourClass(group.component)} ${lookOf(group)}`;
    const line = groupFormula(group.entries);
    setText(p.formula, line ? line.values : group.entries.length ? ui('sum_of', { n: group.entries.length }) : ui('gone'));
    setAttr(p.formula, 'title', line?.symbols ?? null);
    p.formula.classList.toggle('prose', !line);
    const others = kindsOf(group.entries).filter((k) => k !== group.kind);
    setText(p.mark, group.kind && group.kind !== 'exact' ? word('certainty', group.kind) : others.map((k) => ui('partly', { kind: word('certainty', k) })).join(', '));
    const kept = now.kept?.get(group.key);
    setText(p.share, now.kept ? difference(group.bytes - (kept?.bytes ?? 0), now.unit) : percent(group.bytes / now.bytes));
    body.classList.toggle('gone', group.entries.length === 0);
    setText(p.amount, bytes(group.bytes, now.unit));
    setAttr(p.amount, 'title', bytesFull(group.bytes));
    p.amount.dataset.bytes = group.bytes;
    if (p.button.getAttribute('aria-expanded') === 'true') fillDetail(body);
  }

  // ---- its entries
  function fillDetail(body) {
    const { why, entries } = body.parts;
    setText(why, has('component_why', body.group.component) ? word('component_why', body.group.component) : '');
    keyed(entries, numbered([...body.group.entries].sort((a, b) => b.bytes - a.bytes)), (e) => e.key, makeEntry, fillEntry);
  }

  function makeEntry() {
    const name = el('span', { class: 'entry-name' });
    const mark = el('span', { class: 'mark' });
    const amount = el('span', { class: 'entry-bytes' });
    const symbols = el('div', { class: 'work-symbols' });
    const values = el('div', { class: 'work-values' });
    const result = el('div', { class: 'work-result' });
    const factors = el('dl', { class: 'factors' });
    const why = el('p', { class: 'entry-why' });
    const source = el('span', { class: 'source' });
    const work = el('div', { class: 'work', tabindex: '0', role: 'group' }, el('div', {}, symbols, values, result));
    const node = el('li', { class: 'entry' }, el('div', { class: 'entry-head' }, name, mark, source, amount), why, el('div', { class: 'entry-work' }, work, factors));
    node.parts = { name, mark, amount, symbols, values, result, factors, why, source, work };
    return node;
  }

  function fillEntry(node, entry) {
    const p = node.parts;
    setText(p.name, word('what', entry.what));
    setText(p.mark, word('certainty', entry.kind));
    p.mark.className = `mark ${entry.kind}`;
    setText(p.amount, bytes(entry.bytes, now.unit));
    setAttr(p.amount, 'title', bytesFull(entry.bytes));
    p.amount.dataset.bytes = entry.bytes;
    setAttr(p.work, 'aria-label', ui('working'));
    setText(p.symbols, symbolLine(entry.formula));
    setText(p.values, `= ${valueLine(entry.formula)}`);
    setText(p.result, `= ${bytesFull(entry.bytes)}`);
    keyed(p.factors, numbered(entry.formula), (f) => f.key, () => el('div', {}, el('dt', {}), el('dd', {})), (div, f) => {
      setText(div.firstChild, f.symbol === String(f.value) ? f.symbol : `${f.symbol} = ${count(f.value)}`);
      setText(div.lastChild, ui('factor_why', { name: word('symbol', f.id), why: word('symbol_why', f.id) }));
    });
    const reason = has('why', entry.what) ? word('why', entry.what) : '';
    setText(p.why, reason);
    show(p.why, reason !== '');
    const address = now.sources.get(entry.source)?.address;
    keyed(p.source, [{ key: entry.source, address }], (s) => `${s.key}${s.address ? '+' : ''}`,
      (s) => (s.address ? el('a', { href: s.address, rel: 'noopener noreferrer', target: '_blank' }) : el('span', {})),
      (n) => setText(n, sourceText(entry.source)));
    setAttr(p.source, 'title', ui('source', { name: sourceText(entry.source) }));
  }

  // ---- phases
  function fillPhases(report, phase) {
    setAttr(phases, 'aria-label', ui('phases'));
    keyed(phases, report.phases, (p) => p.id, (p) => {
      const button = el('button', { type: 'button', class: 'phase' }, el('span', { class: 'phase-name' }), el('span', { class: 'phase-bytes' }));
      button.addEventListener('click', () => onPhase(p.id));
      return button;
    }, (button, p) => {
      const peak = p.id === report.peak.phase;
      setText(button.firstChild, word('phase', p.id));
      setText(button.lastChild, bytes(p.bytes, now.unit));
      setAttr(button, 'aria-pressed', String(p.id === phase));
      setAttr(button, 'title', `${peak ? `${ui('peak')} · ` : ''}${bytesFull(p.bytes)}`);
      button.classList.toggle('is-peak', peak);
    });
  }

  // ---- where in the phase its fullest instant lies, once that is known
  let places = new Map();
  function sayTotal() {
    const { phase, text } = now.total;
    setText(totalName, places.get(phase) ? ui('total_at', { total: text, place: places.get(phase) }) : text);
  }

  return {
    say(next) { places = next; if (now) sayTotal(); },
    open(key) {
      const body = table.keyedNodes?.get(key);
      if (!body) return;
      open(body, true);
      body.scrollIntoView({ block: 'nearest' });
      body.parts.button.focus({ preventScroll: true });
    },
    update({ report, second, lists, unit, phase }) {
      const at = report.phases.find((p) => p.id === phase) ?? report.phases.find((p) => p.id === report.peak.phase);
      // A scenario kept for comparison lends a column of differences: peak against peak, or the same phase of both.
      const other = second && (phase && second.phases.some((p) => p.id === phase) ? phase : second.peak.phase);
      const kept = second ? new Map(groups(alive(second, other), lists).map((g) => [g.key, g])) : null;
      now = { unit, kept, bytes: at.bytes, sources: new Map(lists.source.map((s) => [s.id, s])) };
      fillPhases(report, at.id);
      setText(caption, ui('ledger_caption', { phase: word('phase', at.id) }));
      for (const h of heads) setText(h.node, ui(`col_${h.id === 'share' && kept ? 'against' : h.id}`));
      const rows = groups(alive(report, at.id), lists); // in the bar's own order, so that nothing jumps
      const gone = [...(kept?.values() ?? [])].filter((g) => !rows.some((r) => r.key === g.key)).map((g) => ({ ...g, entries: [], bytes: 0 }));
      keyed(table, [...rows, ...gone], (g) => g.key, makeRow, fillRow, head);
      now.total = { phase: at.id, text: ui(at.id === report.peak.phase ? 'total_peak' : 'total_phase', { phase: word('phase', at.id) }) };
      sayTotal();
      setText(totalAgainst, kept ? difference(at.bytes - second.phases.find((p) => p.id === other).bytes, unit) : '');
      setText(totalBytes, bytes(at.bytes, unit));
      setAttr(totalBytes, 'title', bytesExact(at.bytes));
      totalBytes.dataset.bytes = at.bytes;
      const must = at.bytes - rows.reduce((s, g) => s + (g.back ? g.bytes : 0), 0); // as the verdict has it
      show(mustRow, bytes(must, unit) !== bytes(at.bytes, unit)); // a row that says the same number says nothing
      setText(mustName, ui('total_must'));
      setText(mustBytes, bytes(must, unit));
      setAttr(mustBytes, 'title', bytesExact(must));
      mustBytes.dataset.bytes = must;
      for (const m of marks) setText(m.text, ui(`legend_${m.kind}`));
    },
  };
}

// Equal ids in one list (two blocks of the same kind) stay apart by their number.
function numbered(items) {
  const seen = new Map();
  return items.map((item) => {
    const id = item.what ?? item.id;
    const n = seen.get(id) ?? 0;
    seen.set(id, n + 1);
    return { ...item, key: `${id}#${n}` };
  });
}
