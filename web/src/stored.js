// Last used settings, where the browser keeps any: a sandboxed frame has no storage and the page does not mind.
const PREFIX = 'vram.';

export function readStored(key, allowed) {
  try {
    const value = localStorage.getItem(PREFIX + key);
    return allowed.includes(value) ? value : null;
  } catch { return null; }
}

export function store(key, value) {
  try { localStorage.setItem(PREFIX + key, value); } catch { /* then not */ }
}
