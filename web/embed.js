// For pages that show a scenario. Either put this script beside the frames, which then fit their content:
//   <iframe src="https://…/index.html#v=1&p=kv-cache&embed=1" data-vram sandbox="allow-scripts" …></iframe>
//   <script src="https://…/embed.js"></script>
// or let it make the frame where it stands:
//   <script src="https://…/embed.js" data-scenario="v=1&p=kv-cache&lang=zh"></script>
(() => {
  'use strict';
  const script = document.currentScript;
  if (script && script.dataset.scenario !== undefined) {
    const frame = document.createElement('iframe');
    const home = new URL('index.html', script.src);
    const scenario = script.dataset.scenario.replace(/^#/, '');
    home.hash = `${scenario}${scenario ? '&' : ''}embed=1`;
    frame.src = home.href;
    frame.title = script.dataset.title || 'GPU memory of a large language model';
    frame.dataset.vram = '';
    frame.setAttribute('sandbox', 'allow-scripts allow-popups allow-popups-to-escape-sandbox');
    frame.loading = 'lazy';
    frame.style.cssText = 'width:100%;border:0;height:280px';
    script.after(frame);
  }
  if (window.vramFrames) return; // one listener a page, however many scripts
  window.vramFrames = true;
  addEventListener('message', (event) => {
    if (!event.data || event.data.vram !== 'height' || !(event.data.height > 0)) return;
    for (const frame of document.querySelectorAll('iframe[data-vram]')) {
      if (frame.contentWindow === event.source) frame.style.height = `${Math.min(4000, event.data.height)}px`;
    }
  });
})();
