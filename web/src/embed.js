// Inside somebody's page: the height is told to the host, and nothing else is.
export function tellHeight() {
  let told = 0;
  const tell = () => {
    const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
    if (height === told) return;
    told = height;
    parent.postMessage({ vram: 'height', height }, '*');
  };
  new ResizeObserver(tell).observe(document.documentElement);
  tell();
}
