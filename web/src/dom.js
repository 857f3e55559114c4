// The few things done to the document. Text only ever becomes text.
const SVG = 'http://www.w3.org/2000/svg';

export function el(name, props = {}, ...children) {
  const node = name.startsWith('svg:') ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'on') for (const [type, handler] of Object.entries(value)) node.addEventListener(type, handler);
    else if (key === 'class') node.setAttribute('class', value);
    else if (key === 'data') Object.assign(node.dataset, value);
    else if (key === 'prop') Object.assign(node, value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A sentence as nodes: a number does not part from its unit at the end of a line.
const AMOUNT = /([−+]?\d[\d,.]* (?:[kMG]i?B|B)(?![\w/]))/;
export const prose = (text) => text.split(AMOUNT).map((part, i) => (i % 2 ? el('span', { class: 'amount' }, part) : part)).filter(Boolean);

// The same of what is nodes already, here and there.
export const proseOf = (parts) => parts.flatMap((part) => (typeof part === 'string' ? prose(part) : [part]));

export function setProse(node, text) {
  if (node.textContent !== text) node.replaceChildren(...prose(text));
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? '' : value);
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// Keeps the children of a node in step with a list: each item has a key, its node is made once and updated in place,
// so that focus, scroll and open rows survive every change.
// `after`: a child that stays in front of them.
export function keyed(parent, items, keyOf, make, update, after = null) {
  const old = (parent.keyedNodes ??= new Map());
  const next = new Map();
  let at = after ? after.nextSibling : parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const node = old.get(key) ?? make(item);
    next.set(key, node);
    update?.(node, item);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  for (const [key, node] of old) if (!next.has(key)) node.remove();
  parent.keyedNodes = next;
}
