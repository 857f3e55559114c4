// Builds the page, one file with everything inside: build/index.html, and the same in build/site/ with what belongs beside it when it is hosted.
//   node web/build.mjs --wasm build/vram.wasm --presets build/presets.json --out build [--accuracy build/accuracy.json]
import { build as bundle } from 'esbuild';
import { createHash } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const BROWSERS = ['chrome100', 'firefox102', 'safari15.4']; // what the code may assume

const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

// Nothing may come from anywhere, and nothing may go anywhere.
const policy = (script, style) => [
  "default-src 'none'", `script-src ${script} 'wasm-unsafe-eval'`, `style-src ${style}`, 'img-src data:',
  "connect-src 'none'", "base-uri 'none'", "form-action 'none'",
].join('; ');

// A script inside a page ends at the first "</script", even in a string.
const inScript = (js) => js.replace(/<\/(script)/gi, '<\\/$1').replaceAll('<!--', '<\\!--');

// What the page and the core in it read of the presets; sources and remarks stay in presets.json.
const READ = {
  models: ['id', 'name', 'family', 'released', 'params_total', 'params_active', 'config'],
  gpus: ['id', 'name', 'vendor', 'memory_bytes', 'cuda_total_bytes', 'context_bytes', 'compute_capability', 'multiprocessors', 'apple', 'common'],
};
const read = (text) => Object.fromEntries(Object.entries(JSON.parse(text)).map(([kind, list]) => [kind,
  READ[kind] ? list.map((one) => Object.fromEntries(Object.entries(one).filter(([key]) => READ[kind].includes(key)))) : list]));

// As text: a browser parses JSON faster than a script.
const asText = (value) => `JSON.parse('${JSON.stringify(value).replace(/[\\']/g, '\\$&')}')`;

// The replacement is data, not a pattern.
const put = (page, mark, text) => page.replace(`<!-- ${mark} -->`, () => text);

export async function buildPage({ wasm, presets, accuracy, out, plugins = [] }) {
  const [app, css, template, bytes, presetText, accuracyText] = await Promise.all([
    bundle({
      entryPoints: [join(HERE, 'src/main.js')], bundle: true, format: 'iife', minify: true, write: false, charset: 'utf8', target: BROWSERS,
      legalComments: 'inline', loader: { '.json': 'json' }, plugins,
    }).then((r) => r.outputFiles[0].text),
    bundle({ entryPoints: [join(HERE, 'style.css')], minify: true, write: false, charset: 'utf8', target: BROWSERS, loader: { '.css': 'css' } }).then((r) => r.outputFiles[0].text),
    readFile(join(HERE, 'index.html'), 'utf8'),
    readFile(wasm),
    readFile(presets, 'utf8'),
    accuracy ? readFile(accuracy, 'utf8') : 'null',
  ]);
  const data = `globalThis.vramData={wasm:"${bytes.toString('base64')}",presets:${asText(read(presetText))},accuracy:${asText(JSON.parse(accuracyText))}};`
    .replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');

  // One file: the wasm and the presets travel inside the script, because from file:// nothing can be fetched.
  const script = inScript(data + app);
  let page = put(template, 'csp', `<meta http-equiv="Content-Security-Policy" content="${policy(hash(script), hash(css))}">`);
  page = put(page, 'style', `<style>${css}</style>`);
  page = put(page, 'script', `<script>${script}</script>`);
  await rm(join(out, 'site'), { recursive: true, force: true });
  await mkdir(join(out, 'site'), { recursive: true });
  await writeFile(join(out, 'index.html'), page);

  // Hosted, too, it is one file: in a sandboxed frame, which has no origin, WebKit counts no other file as the page's own ('self').
  const site = join(out, 'site');
  await Promise.all([
    writeFile(join(site, 'index.html'), page),
    cp(join(HERE, 'embed.js'), join(site, 'embed.js')),
    cp(join(HERE, 'examples'), join(site, 'examples'), { recursive: true }),
    cp(wasm, join(site, 'vram.wasm')),
    cp(presets, join(site, 'presets.json')),
  ]);
  return { page: Buffer.byteLength(page) };
}

function readArguments(argv) {
  const out = {};
  for (let i = 0; i < argv.length; i += 2) {
    if (!argv[i].startsWith('--') || argv[i + 1] === undefined) throw new Error(`usage: build.mjs --wasm FILE --presets FILE --out FOLDER [--accuracy FILE]`);
    out[argv[i].slice(2)] = argv[i + 1];
  }
  return out;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { page } = await buildPage(readArguments(process.argv.slice(2)));
  console.log(`index.html: ${Math.round(page / 1024)} KiB`);
}
