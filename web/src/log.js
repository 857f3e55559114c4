// What the engine's own log, PyTorch's counters and nvidia-smi will show, in their words: to be checked line by line.
import { el, keyed, setAttr, setProse, setText, show } from './dom.js';
import { has, sentences, ui, word } from './i18n.js';
import { bytes } from './units.js';
import { valueWord } from './texts.js';

export function makeLog(root) {
  const intro = el('p', { class: 'prose-note' });
  const list = el('ol', { class: 'log' });
  root.append(intro, list);
  return {
    update({ report }) {
      const version = report.notes.find((n) => n.id === 'engine_version');
      const { task, engine } = report.scenario;
      const tool = task === 'inference' && engine !== 'transformers' ? engine : 'PyTorch';
      show(root.parentNode, report.log.length > 0);
      if (report.fits[0].verdict === 'no') setText(intro, ui('log_unfit'));
      else setText(intro, task === 'inference' && version ? ui('log_version', { engine: valueWord('engine', engine), version: version.values.join('.') }) : ui('log_torch', { tool: valueWord('engine', tool) }));
      keyed(list, report.log.map((line, i) => ({ ...line, key: `${i}${line.id}` })), (l) => l.key,
        () => el('li', {}, el('code', { tabindex: '0' }), el('span', { class: 'log-why' })),
        (node, line) => {
          setText(node.firstChild, line.text);
          setAttr(node, 'data-log', line.id);
          const [n] = line.values; // PyTorch's counters are plain bytes
          const amount = /^torch_/.test(line.id) ? ui('log_bytes', { gb: bytes(n, 'GB'), gib: bytes(n, 'GiB') }) : '';
          setProse(node.lastChild, sentences(amount, has('log', line.id) && word('log', line.id)));
        });
    },
  };
}
