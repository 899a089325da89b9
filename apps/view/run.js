'use strict';
// What was run, its command and config, and what the cache did.

function showRun() {
  const {title, stop_reason: stop, summary, replay, config} = data.run;
  document.title = `${title} · ng`;
  byId('title').textContent = title;
  byId('stop').textContent = `stopped: ${stop}`;
  byId('summary').append(...summary.map(([label, value]) => make('li', {title: label}, make('span', {class: 'dim'}, `${label} `), `${value}`)));
  if (against) byId('summary').append(make('li', {class: 'other'}, `against ${against.name}`));
  byId('replay').textContent = replay;
  const rows = [['path', data.run.model], ...summary];
  const other = new Map(against?.summary ?? []);
  byId('config-summary').append(...rows.map(([label, value]) => make('tr', {}, make('th', {scope: 'row'}, label), make('td', {}, `${value}`),
    ...(other.has(label) ? [make('td', {class: 'other'}, `${other.get(label)}`)] : []))));
  byId('config-text').textContent = config;
  if (attention) {
    const {min, error} = attention.scale;
    byId('help-error').textContent = `Attention is stored as one byte on a log scale, with a relative error of at most ${(error * 100).toPrecision(2)} %; what is below ${min} is not told apart.`;
  }
}

async function copyReplay() {
  const text = byId('replay').textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not every browser lets a file's page at the clipboard: then the text is selected, and copied the old way.
    getSelection().selectAllChildren(byId('replay'));
    document.execCommand('copy');
  }
  byId('copy').textContent = 'Copied';
  setTimeout(() => { byId('copy').textContent = 'Copy'; }, 1500);
}

// 1234567 -> "1.2 MB".
function bytesText(bytes) {
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (bytes >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  }
  return `${bytes} B`;
}

const origins = ['loaded', 'shared', 'prefilled', 'decoded'];

function showCache() {
  const cache = data.cache ?? {};
  const counts = origins.filter((name) => cache[name] > 0);
  byId('cache-bar').append(...counts.map((name) => {
    const part = make('i', {class: name});
    part.style.flexGrow = cache[name];
    return part;
  }));
  byId('cache-bar').setAttribute('aria-label', counts.map((name) => `${cache[name]} tokens ${name}`).join(', '));
  const fact = (...parts) => byId('cache').append(make('li', {}, ...parts));
  for (const name of counts) fact(make('i', {class: `sample ${name}`}), ` ${cache[name]} ${name}`);
  if (cache.codec_k) fact(make('span', {class: 'dim'}, 'codec '), cache.codec_k === cache.codec_v ? cache.codec_k : `${cache.codec_k} keys, ${cache.codec_v} values`);
  if (cache.bytes_per_token) fact(make('span', {class: 'dim'}, 'a token '), bytesText(cache.bytes_per_token));
  const said = [...origins, 'codec_k', 'codec_v', 'bytes_per_token'];
  for (const [name, value] of Object.entries(cache)) {
    if (said.includes(name) || value === null) continue;
    const isBytes = /bytes/.test(name) && typeof value === 'number';
    fact(make('span', {class: 'dim'}, `${name.replaceAll('_', ' ').replace('bytes ', '')} `), isBytes ? bytesText(value) : `${value}`);
  }
}

function applyTheme() {
  document.documentElement.dataset.theme = state.theme;
}

function toggleTheme() {
  choose({theme: themeNow() === 'dark' ? 'light' : 'dark'});
}

showRun();
showCache();
byId('copy').addEventListener('click', copyReplay);
byId('theme').addEventListener('click', toggleTheme);
byId('show-config').addEventListener('click', () => byId('config').showModal());
byId('show-help').addEventListener('click', () => byId('help').showModal());
