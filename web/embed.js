// For pages that show a scenario. Either let this script make the frame, where it stands:
//   <script src="https://…/embed.js" data-vram="#v=1&p=kv-cache&lang=en"></script>
// (data-lang, data-theme, data-chart="all", data-title say the same beside the address; without a theme the frame follows the
// data-theme of the page around it), or put it beside the frames, which then fit their content:
//   <iframe src="https://…/index.html#v=1&p=kv-cache&embed=1" data-vram sandbox="allow-scripts allow-popups" …></iframe>
//   <script src="https://…/embed.js"></script>
(() => {
  'use strict';
  const script = document.currentScript;
  const said = script && (script.dataset.vram ?? script.dataset.scenario);

  function makeFrame() {
    const options = new Map(said.replace(/^#/, '').split('&').filter(Boolean).map((pair) => [pair.split('=')[0], pair]));
    const set = (key, value) => options.set(key, `${key}=${encodeURIComponent(value)}`);
    for (const key of ['lang', 'theme', 'chart']) if (script.dataset[key]) set(key, script.dataset[key]);
    set('embed', '1');
    const follows = !options.has('theme');
    const address = () => {
      const theme = follows ? script.closest('[data-theme]')?.dataset.theme : null;
      const home = new URL('index.html', script.src);
      home.hash = [...options.values(), ...(theme === 'light' || theme === 'dark' ? [`theme=${theme}`] : [])].join('&');
      return home.href;
    };
    const frame = document.createElement('iframe');
    let now = address();
    frame.src = now;
    frame.title = script.dataset.title || (/^zh/.test(options.get('lang')?.slice(5) ?? '') ? '大模型显存' : 'GPU memory of a large language model');
    frame.dataset.vram = '';
    frame.setAttribute('sandbox', 'allow-scripts allow-popups');
    frame.loading = 'lazy';
    frame.style.cssText = 'display:block;width:100%;height:280px;border:0';
    script.after(frame);
    if (!follows) return;
    new MutationObserver(() => {
      if (address() === now) return;
      now = address();
      frame.contentWindow.location.replace(now); // only the part after # differs: nothing is loaded again
    }).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'], subtree: true });
  }

  if (said !== null && said !== undefined) makeFrame();
  if (window.vramFrames) return; // one listener a page, however many scripts
  window.vramFrames = true;
  addEventListener('message', (event) => {
    if (!event.data || event.data.vram !== 'height' || !(event.data.height > 0)) return;
    for (const frame of document.querySelectorAll('iframe[data-vram]')) {
      if (frame.contentWindow === event.source) frame.style.height = `${Math.min(4000, event.data.height)}px`;
    }
  });
})();
