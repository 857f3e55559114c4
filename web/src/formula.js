// An entry is a product of factors; these are its two lines on a whiteboard.
import { count } from './units.js';

// Factors of one are noise on the whiteboard, unless nothing else is there.
export function shown(factors) {
  const rest = factors.filter((f) => f.value !== 1);
  return rest.length ? rest : factors.slice(0, 1);
}

export const symbolLine = (factors) => factors.map((f) => f.symbol).join(' × ');
export const valueLine = (factors) => factors.map((f) => count(f.value)).join(' × ');

export const product = (factors) => factors.reduce((p, f) => p * f.value, 1);

// One line for a group of entries: the product itself if it is one, else how many there are.
export function groupFormula(entries) {
  return entries.length === 1 ? { symbols: symbolLine(shown(entries[0].formula)), values: valueLine(shown(entries[0].formula)) } : null;
}
