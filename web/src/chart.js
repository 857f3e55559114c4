// Memory through phases: a stack for each, one hue a component, the card's usable memory as a line. Chart.js, updated in place.
import { BarController, BarElement, CategoryScale, Chart, LinearScale, Tooltip } from 'chart.js';
import { el, setAttr, setText } from './dom.js';
import { ui, word } from './i18n.js';
import { colourOf } from './palette.js';
import { CONTEXT, alive, groups, isHatched } from './reading.js';
import { segmentName } from './card.js';
import { bytes, bytesShort, ticks } from './units.js';

Chart.register(BarController, BarElement, CategoryScale, LinearScale, Tooltip);
Chart.defaults.animation = false;

const NARROW = 480; // px

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Allowances are hatched here as everywhere, and what is given back is ruled.
export function paintOf(context, group, paper) {
  const colour = colourOf(group.component);
  if (!isHatched(group)) return colour;
  const size = group.back ? 4 : 6;
  const tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const c = tile.getContext('2d');
  c.fillStyle = paper;
  c.fillRect(0, 0, size, size);
  c.strokeStyle = colour;
  c.lineWidth = group.back ? 1 : 2.2;
  c.beginPath();
  if (group.back) { c.moveTo(0.5, 0); c.lineTo(0.5, size); }
  else for (const shift of [-size, 0, size]) { c.moveTo(shift, size); c.lineTo(shift + size, 0); }
  c.stroke();
  return context.createPattern(tile, 'repeat');
}

// The line of what the card has to give; its words stand at the right, or at the left when the peak is there.
export function lineOfCard(ctx, area, at, text, { ink, paper, font, left = false }) {
  ctx.font = font;
  ctx.fillStyle = ctx.strokeStyle = ink;
  if (at < area.top) return;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(area.left, at);
  ctx.lineTo(area.right, at);
  ctx.stroke();
  ctx.setLineDash([]);
  const w = ctx.measureText(text).width + 6;
  const x = left ? area.left + 1 : area.right - w;
  ctx.fillStyle = paper;
  ctx.fillRect(x, at - 17, w, 14);
  ctx.fillStyle = ink;
  ctx.textAlign = 'left';
  ctx.fillText(text, x + 3, at - 6);
}

// From 0 to the peak, and to what the card has when that is not far above; with round numbers.
export function scaleOf(report, shown) {
  const tops = Math.max(...report.phases.map((p) => p.bytes));
  const end = Math.max(tops, shown <= tops * 2.2 ? shown : 0) * 1.12;
  return {
    end,
    ticks: (unit, colour) => ({
      afterBuildTicks: (axis) => { axis.ticks = ticks(end, unit, 5).map((value) => ({ value })); },
      ticks: { color: colour, font: { size: 12 }, callback: (v) => (v === 0 ? '0' : bytesShort(v, unit)) },
    }),
  };
}

// A mark over the fullest phase, and the card's line.
const marks = {
  id: 'marks',
  afterDatasetsDraw(chart) {
    const { line, peak, ink, paper, font } = chart.options.plugins.marks;
    if (!line) return;
    const { ctx, chartArea: area, scales: { y } } = chart;
    ctx.save();
    ctx.fillStyle = paper; // a hairline between segments, so that neighbours of one hue stay two
    for (const set of chart.getSortedVisibleDatasetMetas()) {
      for (const b of set.data) if (b.y < b.base - 1) ctx.fillRect(b.x - b.width / 2, b.y, b.width, 1);
    }
    lineOfCard(ctx, area, y.getPixelForValue(line.value), line.text, { ink, paper, font });
    const bar = chart.getDatasetMeta(0)?.data[peak.index];
    if (bar) {
      const top = y.getPixelForValue(peak.value);
      ctx.fillStyle = ink;
      ctx.textAlign = 'center';
      ctx.font = `600 ${font}`;
      const text = `▾ ${peak.text}`;
      const half = ctx.measureText(text).width / 2;
      ctx.fillText(text, Math.max(half, Math.min(bar.x, chart.width - half)), Math.max(12, top - 6));
    }
    ctx.restore();
  },
};

export function makeColumns(root, { onPhase, onComponent }) {
  const canvas = el('canvas', { role: 'img' });
  const note = el('p', { class: 'chart-note' });
  root.append(el('div', { class: 'chart-box' }, canvas), note);
  let chart = null;
  let last = null;

  function draw() {
    const { report, lists, unit, usable } = last;
    const ink = css('--ink');
    const paper = css('--paper');
    const quiet = css('--quiet');
    const rule = css('--rule');
    const font = `12px ${css('--font')}`;
    const phases = report.phases;
    const narrow = canvas.parentNode.clientWidth < NARROW;
    const per = phases.map((p) => new Map(groups(alive(report, p.id), lists).map((g) => [g.key, g])));
    const all = groups(report.entries, lists);
    const context = canvas.getContext('2d');
    const shown = usable + (report.components[CONTEXT] ?? 0);
    const most = scaleOf(report, shown);

    const datasets = all.map((g) => ({
      label: segmentName(g),
      key: g.key,
      data: per.map((m) => m.get(g.key)?.bytes ?? null),
      backgroundColor: paintOf(context, g, paper),
      stack: 'all',
      categoryPercentage: 1,
      barPercentage: 0.94,
    }));
    const labels = phases.map((p) => word('phase', p.id));
    const peakAt = phases.findIndex((p) => p.id === report.peak.phase);
    const options = {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      layout: { padding: { top: 14 } },
      onClick: (event, found) => { if (found.length) onPhase(phases[found[0].index].id); },
      onHover: (event, found) => onComponent(found.length ? datasets[found[0].datasetIndex]?.key : null),
      interaction: { mode: 'nearest', intersect: true },
      scales: {
        x: { stacked: true, grid: { display: false }, border: { color: ink }, ticks: { color: (c) => (c.index === peakAt ? ink : quiet), font: { size: narrow ? 11 : 12 }, autoSkip: false, padding: 2, maxRotation: 40 } },
        y: { stacked: true, min: 0, max: most.end, grid: { color: rule }, border: { display: false }, ...most.ticks(unit, quiet) },
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          backgroundColor: paper, titleColor: ink, bodyColor: ink, borderColor: rule, borderWidth: 1, cornerRadius: 6, padding: 8, boxPadding: 4,
          filter: (item) => item.raw > 0,
          callbacks: { label: (item) => ` ${item.dataset.label}  ${bytes(item.raw, unit)}` },
        },
        marks: { line: { value: shown, text: ui(report.components[CONTEXT] > 0 ? 'usable_line' : 'usable_line_free', { n: bytes(shown, unit) }) }, peak: { index: peakAt, value: report.peak.bytes, text: bytes(report.peak.bytes, unit) }, ink, paper, font },
      },
    };
    if (chart) {
      // datasets are matched by key, so that a change keeps what is the same
      const old = new Map(chart.data.datasets.map((d) => [d.key, d]));
      chart.data.labels = labels;
      chart.data.datasets = datasets.map((d) => Object.assign(old.get(d.key) ?? {}, d));
      chart.options = options;
      chart.update('none');
    } else {
      chart = new Chart(canvas, { type: 'bar', data: { labels, datasets }, options, plugins: [marks] });
    }
    setAttr(canvas, 'aria-label', ui('timeline_aria', { list: phases.map((p) => `${word('phase', p.id)} ${bytes(p.bytes, unit)}`).join(', ') }));
    setText(note, ui('timeline_note'));
  }

  return {
    update(next) { last = next; draw(); },
    redraw() { if (last) draw(); },
  };
}
