// Numbers as people read them. Three significant figures in sentences; every byte in titles.
const STEPS = {
  GB: { base: 1000, names: ['B', 'kB', 'MB', 'GB'] },
  GiB: { base: 1024, names: ['B', 'KiB', 'MiB', 'GiB'] },
};
export const UNITS = Object.keys(STEPS);

const three = new Intl.NumberFormat('en', { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const ones = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 6 });

export const count = (n) => plain.format(n);

function stepOf(value, unit) {
  const { base, names } = STEPS[unit];
  let step = names.length - 1;
  while (step > 0 && Math.abs(value) < base ** step * 0.9995) step -= 1;
  return step;
}

function split(value, unit, step = stepOf(value, unit)) {
  const { base, names } = STEPS[unit];
  return { scaled: value / base ** step, name: names[step], whole: step === 0 };
}

// 14e9 -> "14.0 GB"; small things in their own step: "16.8 MB"; of the largest step every one is told, so that sums of thousands come out: "1,413 GB".
export function bytes(value, unit, step) {
  const { scaled, name, whole } = split(value, unit, step);
  return `${(whole ? plain : Math.abs(scaled) >= 1000 ? ones : three).format(scaled)} ${name}`;
}

// On scales and beside bars, where a trailing zero says nothing: "40 GB".
export function bytesShort(value, unit) {
  const { scaled, name } = split(value, unit);
  return `${short.format(scaled)} ${name}`;
}

// As a bare number of the unit itself, for tables that are read by programs.
export const inUnit = (value, unit) => String(Number((value / STEPS[unit].base ** 3).toPrecision(6)));

export const difference = (value, unit) => (value === 0 ? '0' : `${value > 0 ? '+' : '−'}${bytes(Math.abs(value), unit)}`);

export const bytesExact = (value) => `${plain.format(value)} B`;
// Both ways of counting beside each other, in the same step.
export function bytesFull(value) {
  const step = stepOf(value, 'GB');
  return step === 0 ? bytesExact(value) : `${bytesExact(value)} = ${bytes(value, 'GB', step)} = ${bytes(value, 'GiB', step)}`;
}

// 7e9 -> "7B", 8030261248 -> "8.03B", 671e9 -> "671B": as model names write it.
export function parameters(n) {
  for (const [limit, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']]) {
    if (n >= limit * 0.9995) return short.format(n / limit) + letter;
  }
  return plain.format(n);
}

const percents = new Intl.NumberFormat('en', { style: 'percent', maximumSignificantDigits: 3 });
const smallPercents = new Intl.NumberFormat('en', { style: 'percent', maximumSignificantDigits: 2 });
export const percent = (x) => (x < 0.01 ? smallPercents : percents).format(x);

// "7B", "7e9", "1.5 b", "7,000,000,000" -> 7e9. What is no number stays text, for the core to refuse by name.
const MODEL_LETTERS = { k: 1e3, m: 1e6, b: 1e9, t: 1e12 };
const TOKEN_LETTERS = { k: 1024, m: 1024 * 1024 };

// As a Chinese keyboard writes them: "１４ＧＢ", "１，０２４".
export const halfWidth = (text) => text.normalize('NFKC');

function readWith(letters, text) {
  const clean = halfWidth(text).trim().replace(/[,\s_]/g, '');
  const found = /^([+-]?\d*\.?\d+(?:e[+-]?\d+)?)([a-z]?)$/i.exec(clean);
  if (!found) return clean;
  const letter = found[2].toLowerCase();
  if (letter && !letters[letter]) return clean;
  const value = Number(found[1]) * (letter ? letters[letter] : 1);
  return Number.isFinite(value) ? Number(value.toPrecision(15)) : clean;
}

export const readParameters = (text) => readWith(MODEL_LETTERS, text);
export const readCount = (text) => readWith(TOKEN_LETTERS, text);

// Round numbers for a scale from 0 to `most`: at most `steps` of them, in the unit's own round steps.
export function ticks(most, unit, steps) {
  const { base } = STEPS[unit];
  const one = base ** 3;
  const wanted = most / one / steps;
  const magnitude = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((m) => m * magnitude).find((s) => s >= wanted) * one;
  const out = [];
  for (let at = 0; at <= most * 1.0001; at += step) out.push(at);
  return out;
}
