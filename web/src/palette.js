// One hue a component, everywhere. The colours themselves are in style.css; canvases read them from there.
export const colourClass = (component) => `c-${component}`;

export function colourOf(component, root = document.documentElement) {
  return getComputedStyle(root).getPropertyValue(`--c-${component}`).trim() || '#8d8d8d';
}
