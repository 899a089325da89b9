'use strict';
// The keyboard, and the beginning: everything is drawn once as the address's hash says.

const stepToken = (by) => choose({token: Math.max(0, Math.min(state.token + by, nTokens - 1))});
const cycle = (name, values) => choose({[name]: values[(values.indexOf(state[name]) + 1) % values.length]});
const ifMap = (act) => () => { if (attention) act(); };

// [keys, what they do, the function]
const keys = [
  [['ArrowLeft', 'ArrowRight'], 'the token before, after', (key) => stepToken(key === 'ArrowLeft' ? -1 : 1)],
  [['Home', 'End'], 'the first token, the last', (key) => stepToken(key === 'Home' ? -nTokens : nTokens)],
  [['j', 'k'], 'the next head, the one before, in the order shown', (key) => attention && stepHead(key === 'j' ? 1 : -1)],
  [['J', 'K'], 'the row of heads below, above', (key) => attention && stepRow(key === 'J' ? 1 : -1)],
  [['s'], 'the next order of the heads', ifMap(() => cycle('sort', ['layer', ...scoreNames]))],
  [['f'], 'hide the first token, or show it', ifMap(() => choose({first: !state.first}))],
  [['m'], 'this run, the other one, their difference', () => against?.attention && cycle('mode', ['run', 'against', 'difference'])],
  [['+', '-', '0'], 'zoom in, out, all', (key) => attention && (key === '0' ? choose({window: null}) : zoom(key === '+' ? 0.5 : 2))],
  [['e'], 'save the heat map as a PNG file', ifMap(savePng)],
  [['c'], 'copy the command', copyReplay],
  [['t'], 'dark or light', toggleTheme],
  [['?'], 'this help', () => byId('help').showModal()],
];

const keyNames = {ArrowLeft: '←', ArrowRight: '→'};
const mapKeys = [['↑ ↓ ← →', 'in the map: the pair above, below, before, after; with Shift by ten'], ['Enter', 'in the map: choose the query of the pair'],
                 ['↑ ↓ ← →', 'in the heads: choose the head above, below, before, after'],
                 ['↑ ↓', 'in what left the cache: the head above, below'],
                 ['Ctrl or Shift + wheel, drag', 'in the map: zoom and move'], ['Tab', 'the next control']];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target.closest('select, input[type=text]')) return;  // they have keys of their own
  const isScroller = event.target.closest('#token-panel, #replay') && event.target.id !== 'steps';
  if (isScroller && /^(Home|End|Arrow)/.test(event.key) && event.target.scrollWidth > event.target.clientWidth) return;
  const entry = keys.find(([names]) => names.includes(event.key));
  if (!entry) return;
  event.preventDefault();
  entry[2](event.key);
}

function onHeadsKey(event) {
  const moves = {ArrowLeft: () => stepHead(-1), ArrowRight: () => stepHead(1), ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1)};
  if (!moves[event.key] || !attention) return;
  event.preventDefault();
  event.stopPropagation();
  moves[event.key]();
}

function fillHelp() {
  const row = (keyTexts, text) => make('tr', {}, make('th', {scope: 'row'}, ...keyTexts.flatMap((key) => [make('kbd', {}, key), ' '])), make('td', {}, text));
  byId('keys').append(...keys.map(([names, text]) => row(names.map((name) => keyNames[name] ?? name), text)),
                      ...mapKeys.map(([names, text]) => row([names], text)));
}

fillHelp();
addEventListener('keydown', onKey);
byId('heads').addEventListener('keydown', onHeadsKey);
addEventListener('hashchange', () => choose(stateOfHash()));
prefersDark.addEventListener('change', () => redraw('theme'));

// Draws what depends on a field, or everything.
function redraw(field) {
  for (const {names, draw} of watchers) if (!field || names.includes(field)) draw();
}

// A page without attention shows the tokens alone.
byId('no-attention').hidden = attention !== null;
byId('heads-panel').hidden = byId('map-panel').hidden = !attention;
document.querySelector('main').classList.toggle('tokens-only', !attention);
Object.assign(state, stateOfHash());
watchers.unshift({names: ['theme'], draw: applyTheme});  // colours are read from the style sheet after that
redraw();
// These have a size now, and another one whenever the window changes.
function onSize(id, place, draw) {
  new ResizeObserver(([entry]) => {
    place(entry.contentRect);
    draw();
  }).observe(byId(id));
}
if (attention) onSize('map-box', placeMap, drawMap);
onSize('chips', placeChips, shadeChips);
if (survival) onSize('survival-box', placeSurvival, drawSurvival);
onSize('best', ({width}) => placeChart(width), drawSteps);
