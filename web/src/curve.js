// A training step through time, as PyTorch's memory viewer draws it: a stacked area per component over the instants of one step,
// the phases below the axis as buttons, the card's usable memory as a line, the peak marked.
import { Chart, Filler, LineController, LineElement, LinearScale, PointElement, Tooltip } from 'chart.js';
import { css, lineOfCard, paintOf, scaleOf } from './chart.js';
import { el, keyed, setAttr, setProse, setText } from './dom.js';
import { sentences, ui, word } from './i18n.js';
import { componentName } from './card.js';
import { colourOf } from './palette.js';
import { CONTEXT, groups, partOf } from './reading.js';
import { bytes } from './units.js';

Chart.register(Filler, LineController, LineElement, LinearScale, PointElement, Tooltip);

const WIDE = 0.07; // so much of the axis is given to a phase of one instant

const total = (point) => point.bytes.reduce((sum, b) => sum + b, 0);
const highest = (points) => points.reduce((a, b) => (total(b) > total(a) ? b : a));

// Where an instant lies: at a layer, at the embedding, at the head; nothing to say of a phase that has no layers.
const layersOf = (points) => Math.max(...points.map((p) => p.place)) + 1;
function placeText(point, layers) {
  if (point.place >= 0) return ui('place_layer', { n: point.place + 1, of: layers });
  if (point.place === -2) return ui('place_head');
  return point.phase === 'forward' || point.phase === 'backward' ? ui('place_embedding') : '';
}

// The core's points as spans of the axis, the state after loading first: [{phase, points, from, to, at: [[from, to] of each point]}].
// An instant at a layer is a place on the axis; what has no layers, and the head, last as long as can be seen.
function spansOf(points) {
  const of = [...new Set(points.map((p) => p.phase))].sort((a, b) => (b === 'load') - (a === 'load'));
  const spans = of.map((phase) => ({ phase, points: points.filter((p) => p.phase === phase) }));
  const wide = Math.max(2, points.length * WIDE);
  let x = 0;
  for (const span of spans) {
    span.at = span.points.map((point, i) => {
      if (i) x += 1;
      const from = x;
      if (span.points.length === 1) x += wide;
      else if (point.place === -2) x += wide / 3;
      return [from, x];
    });
    [[span.from], [, span.to]] = [span.at[0], span.at.at(-1)];
    x += 1; // the way to the next phase
  }
  return spans;
}

// Where each fullest instant lies, phase by phase, for the ledger to say.
export function placesOf(timeline) {
  const points = timeline?.points ?? [];
  return new Map([...new Set(points.map((p) => p.phase))].map((phase) => [phase, placeText(highest(points.filter((p) => p.phase === phase)), layersOf(points))]));
}

const marks = {
  id: 'marks',
  beforeDatasetsDraw(chart) {
    const { borders, rule } = chart.options.plugins.marks;
    const { ctx, chartArea: area, scales: { x } } = chart;
    ctx.save();
    ctx.strokeStyle = rule;
    for (const at of borders) { ctx.beginPath(); ctx.moveTo(x.getPixelForValue(at), area.top); ctx.lineTo(x.getPixelForValue(at), area.bottom + 6); ctx.stroke(); }
    ctx.restore();
  },
  afterDatasetsDraw(chart) {
    const { line, peak, ink, paper, font } = chart.options.plugins.marks;
    const { ctx, chartArea: area, scales: { x, y } } = chart;
    ctx.save();
    ctx.strokeStyle = ink;
    const active = chart.tooltip?.opacity ? chart.tooltip.dataPoints?.[0] : null;
    if (active) { ctx.beginPath(); ctx.moveTo(active.element.x, area.top); ctx.lineTo(active.element.x, area.bottom); ctx.stroke(); }
    const at = x.getPixelForValue(peak.at);
    const right = at > (area.left + area.right) / 2;
    lineOfCard(ctx, area, y.getPixelForValue(line.value), line.text, { ink, paper, font, left: right });
    ctx.fillStyle = ink;
    ctx.font = `600 ${font}`;
    const half = ctx.measureText(peak.text).width + 12;
    const top = Math.max(12, y.getPixelForValue(peak.value) - 6);
    ctx.textAlign = right ? 'right' : 'left'; // the mark stays over the instant, the number goes where there is room
    if (at + half / 2 < area.right && at - half / 2 > area.left) { ctx.textAlign = 'center'; ctx.fillText(`▾ ${peak.text}`, at, top); }
    else if (right) { ctx.fillText(`${peak.text} ▾`, Math.min(at + 5, area.right), top); }
    else ctx.fillText(`▾ ${peak.text}`, at - 5, top);
    ctx.restore();
  },
};

export function makeCurve(root, { onPhase, onComponent }) {
  const canvas = el('canvas', { role: 'img' });
  const buttons = el('div', { class: 'instants', role: 'group' });
  const note = el('p', { class: 'chart-note' });
  root.append(el('div', { class: 'chart-box' }, canvas), buttons, note);
  let chart = null;
  let last = null;

  function draw() {
    const { report, lists, unit, usable, phase, timeline } = last;
    const { points, components } = timeline;
    const [ink, paper, quiet, rule] = ['--ink', '--paper', '--quiet', '--rule'].map(css);
    const font = `12px ${css('--font')}`;
    const spans = spansOf(points);
    const layers = layersOf(points);
    const context = canvas.getContext('2d');
    const shown = usable + (report.components[CONTEXT] ?? 0);
    const most = scaleOf(report, shown);
    // every instant once; one that lasts twice, at its ends
    const instants = spans.flatMap((span) => span.points.flatMap((point, i) => [...new Set(span.at[i])].map((x) => ({ point, x, middle: (span.at[i][0] + span.at[i][1]) / 2 }))));
    const top = instants.reduce((a, b) => (total(b.point) > total(a.point) ? b : a));
    const titleOf = (point) => [word('phase', point.phase), placeText(point, layers)].filter(Boolean).join(' · ');

    // in the card's own order, what is only allowed for on top
    const all = groups(report.entries, lists);
    const datasets = all.filter((g, i) => components.includes(partOf(g)) && all.findIndex((o) => partOf(o) === partOf(g)) === i).map((g, i) => ({
      label: componentName(g),
      key: g.key,
      colour: colourOf(g.component),
      data: instants.map(({ point, x }) => ({ x, y: point.bytes[components.indexOf(partOf(g))] })),
      backgroundColor: paintOf(context, g, paper),
      borderColor: g.back ? colourOf(g.component) : paper, // a hairline between neighbours of one hue; what is only ruled has its outline
      borderWidth: 1,
      fill: i ? '-1' : 'origin',
      pointRadius: 0,
      pointHoverRadius: 0,
      tension: 0,
    }));
    const touched = (event) => {
      const found = chart.getElementsAtEventForMode(event.native ?? event, 'index', { axis: 'x', intersect: false }, true);
      return found.length ? instants[found[0].index].point : null;
    };
    const componentAt = (point, y) => {
      let sum = 0;
      return datasets.find((d) => { sum += point.bytes[components.indexOf(d.key.split('/')[1])]; return y < sum; })?.key ?? null;
    };
    const options = {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      layout: { padding: { top: 14, right: 2 } },
      onClick: (event) => { const point = touched(event); if (point) onPhase(point.phase); },
      onHover: (event) => { const point = touched(event); onComponent(point ? componentAt(point, chart.scales.y.getValueForPixel(event.y)) : null); },
      onResize: () => requestAnimationFrame(place),
      interaction: { mode: 'index', axis: 'x', intersect: false },
      scales: {
        x: { type: 'linear', min: 0, max: spans.at(-1).to, grid: { display: false }, border: { color: ink }, ticks: { display: false } },
        y: { stacked: true, min: 0, max: most.end, grid: { color: rule }, border: { display: false }, ...most.ticks(unit, quiet) },
      },
      plugins: {
        legend: { display: false },
        filler: { drawTime: 'beforeDatasetsDraw' },
        tooltip: {
          backgroundColor: paper, titleColor: ink, bodyColor: ink, footerColor: ink, borderColor: rule, borderWidth: 1, cornerRadius: 6, padding: 8, boxPadding: 4, bodySpacing: 1,
          filter: (item) => item.raw.y > 0,
          itemSort: (a, b) => b.datasetIndex - a.datasetIndex,
          callbacks: {
            title: (items) => (items.length ? titleOf(instants[items[0].dataIndex].point) : ''),
            label: (item) => ` ${item.dataset.label}  ${bytes(item.raw.y, unit)}`,
            labelColor: (item) => ({ backgroundColor: item.dataset.colour, borderColor: 'transparent' }),
            footer: (items) => (items.length ? ui('instant_total', { n: bytes(total(instants[items[0].dataIndex].point), unit) }) : ''),
          },
        },
        marks: {
          line: { value: shown, text: ui(report.components[CONTEXT] > 0 ? 'usable_line' : 'usable_line_free', { n: bytes(shown, unit) }) },
          peak: { at: top.middle, value: total(top.point), text: bytes(total(top.point), unit) },
          borders: spans.slice(1).map((s) => s.from - 0.5), ink, paper, font, rule,
        },
      },
    };
    if (chart) {
      const old = new Map(chart.data.datasets.map((d) => [d.key, d]));
      chart.data.datasets = datasets.map((d) => Object.assign(old.get(d.key) ?? {}, d));
      chart.options = options;
      chart.update('none');
    } else {
      chart = new Chart(canvas, { type: 'line', data: { datasets }, options, plugins: [marks] });
    }

    // ---- the phases, by mouse and by keyboard
    const chosen = phase ?? report.peak.phase;
    const told = (s) => {
      const point = highest(s.points);
      return { n: bytes(total(point), unit), place: placeText(point, layers) };
    };
    setAttr(buttons, 'aria-label', ui('phases'));
    keyed(buttons, spans, (s) => s.phase, (s) => {
      const button = el('button', { type: 'button', class: 'instant', data: { instant: s.phase } });
      button.addEventListener('click', () => onPhase(s.phase));
      return button;
    }, (button, s) => {
      const { n, place: where } = told(s);
      button.span = s;
      setText(button, word('phase', s.phase));
      setAttr(button, 'aria-pressed', String(s.phase === chosen));
      setAttr(button, 'aria-label', [word('phase', s.phase), n, where, s.phase === report.peak.phase ? ui('peak') : ''].filter(Boolean).join(', '));
      setAttr(button, 'title', [n, where].filter(Boolean).join(' · '));
    });
    place();
    const at = told(spans.find((s) => s.phase === chosen) ?? spans[0]);
    setProse(note, sentences(ui(at.place ? 'instant_note_at' : 'instant_note', { phase: word('phase', chosen), ...at }), ui(components.includes('activations') ? 'curve_note' : 'curve_note_rest')));
    setAttr(canvas, 'aria-label', ui('curve_aria', {
      list: spans.map((s) => `${word('phase', s.phase)} ${bytes(total(highest(s.points)), unit)}`).join(', '),
      phase: word('phase', top.point.phase), place: placeText(top.point, layers) || word('phase', top.point.phase), n: bytes(total(top.point), unit),
    }));
  }

  // Each phase's button stands under its span; where they would touch, those wider than their span go a line lower.
  function place() {
    if (!chart?.chartArea || !canvas.clientWidth) return;
    const { x } = chart.scales;
    const all = [...buttons.children].map((button) => {
      const [from, to] = [x.getPixelForValue(button.span.from), x.getPixelForValue(button.span.to)];
      const w = button.offsetWidth;
      return { button, w, narrow: w > to - from + 4, left: Math.max(0, Math.min(canvas.clientWidth - w, (from + to - w) / 2)) };
    });
    const two = all.some((b, i) => i > 0 && b.left < all[i - 1].left + all[i - 1].w);
    for (const b of all) {
      b.button.classList.toggle('lower', two && b.narrow);
      b.button.style.setProperty('left', `${b.left}px`);
    }
    buttons.classList.toggle('two', two);
  }

  return {
    update(next) { last = next; draw(); },
    redraw() { if (last) draw(); },
  };
}
