// Last used settings, where the browser keeps any: a sandboxed frame has no storage and the page does not mind.
const PREFIX = 'vram.';

export function readStored(key, allowed) {
  try {
    const value = localStorage.getItem(PREFIX + key);
    return allowed.includes(value) ? value : null;
  } catch { return null; }
}

// Anything may lie there, written by another version or by hand: whoever asks looks at what comes.
export function readStoredJson(key) {
  try { return JSON.parse(localStorage.getItem(PREFIX + key)); } catch { return null; }
}

export function store(key, value) {
  try { localStorage.setItem(PREFIX + key, value); } catch { /* then not */ }
}
