'use strict';
// Layers x heads as thumbnails, in the order that the user asks for.

const scoreNames = ['entropy', 'first', 'previous', 'induction'];
const scoreOf = ({layer, head}, name) => attention.scores[layer]?.[head]?.[scoreNames.indexOf(name)] ?? NaN;

const tiles = layers.flatMap(({layer, heads}) => Array.from({length: heads}, (_, head) => {
  const canvas = make('canvas', {'aria-hidden': 'true'});
  const caption = make('span', {class: 'score'});
  const element = make('span', {class: 'tile', role: 'option', id: `head-${layer}-${head}`}, canvas, caption);
  return {layer, head, canvas, caption, element};
}));
tiles.forEach((tile) => { tile.element.tile = tile; });
let shown = tiles;  // in the order in which they are shown

const tileAt = (layer, head) => tiles.find((tile) => tile.layer === layer && tile.head === head);

function describeTile(tile) {
  const scores = scoreNames.map((name) => `${name} ${number(scoreOf(tile, name))}`).join(', ');
  return `layer ${tile.layer}, head ${headName(tile.layer, tile.head)}: ${scores}`;
}

function drawThumbnails() {
  const isDifference = state.mode === 'difference';
  const palette = makePalette(isDifference, 1);
  for (const {layer, heads} of layers) {
    const a = thumbnails(layer, heads, state.mode === 'against');
    const b = isDifference ? thumbnails(layer, heads, true) : null;
    for (const tile of tiles.filter((tile) => tile.layer === layer)) drawThumbnail(tile, a, b, palette);
  }
}

function drawThumbnail({head, canvas}, {side, bytes}, b, palette) {
  if (canvas.width !== side) canvas.width = canvas.height = side;
  const context = canvas.getContext('2d', {willReadFrequently: true});
  const image = context.createImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; ++i) {
    const byte = bytes[head * pixels.length + i];
    const level = b ? differenceLevels()[byte << 8 | b.bytes[head * pixels.length + i]] : byte;
    pixels[i] = palette[(i % side > Math.floor(i / side) ? kOutside : level) + 256];
  }
  context.putImageData(image, 0, 0);
}

// By layer: a row for each layer. By a score: the highest first, each with its score.
function arrangeTiles() {
  const box = byId('heads');
  const byLayer = state.sort === 'layer';
  box.classList.toggle('by-score', !byLayer);
  shown = byLayer ? tiles : [...tiles].sort((a, b) => scoreOf(b, state.sort) - scoreOf(a, state.sort));
  for (const tile of shown) {
    tile.caption.textContent = byLayer ? '' : `L${tile.layer} H${headName(tile.layer, tile.head)} ${number(scoreOf(tile, state.sort))}`;
  }
  if (byLayer) {
    box.replaceChildren(...layers.map(({layer}) => make('div', {class: 'layer', role: 'presentation'},
      make('span', {class: 'name'}, `L${layer}`),
      make('div', {class: 'cells', role: 'presentation'},
           ...tiles.filter((tile) => tile.layer === layer).map((tile) => tile.element)))));
  } else {
    box.replaceChildren(...shown.map((tile) => tile.element));
  }
  byId('sort').value = state.sort;
  markHead();
}

function markHead() {
  const box = byId('heads');
  const tile = tileAt(state.layer, state.head);
  showWithin(box, tile.element, 4);
  for (const element of box.querySelectorAll('.chosen')) {
    element.classList.remove('chosen');
    element.removeAttribute('aria-selected');
  }
  tile.element.classList.add('chosen');
  tile.element.setAttribute('aria-selected', 'true');
  box.setAttribute('aria-activedescendant', tile.element.id);
}

const chooseTile = (tile) => tile && choose({layer: tile.layer, head: tile.head});

function stepHead(by) {
  const at = shown.indexOf(tileAt(state.layer, state.head)) + by;
  chooseTile(shown[Math.max(0, Math.min(at, shown.length - 1))]);
}

// The tile nearest above (-1) or below (1).
function stepRow(by) {
  const from = tileAt(state.layer, state.head).element;
  const distance = ({element}) => Math.abs(element.offsetTop - from.offsetTop) * 1000 + Math.abs(element.offsetLeft - from.offsetLeft);
  const beyond = shown.filter(({element}) => Math.sign(element.offsetTop - from.offsetTop) === by);
  if (beyond.length) chooseTile(beyond.reduce((best, tile) => distance(tile) < distance(best) ? tile : best));
}

// The reason names the layers one by one; there may be many of them.
function showLeftOut() {
  const {left_out: layers, why} = attention;
  const list = `layers ${layers.join(', ')}`;
  byId('left-out').hidden = layers.length === 0;
  byId('left-out').textContent = why.includes(list) ? why.replace(list, `layers ${ranges(layers)}`)
                                                    : `Left out: layers ${ranges(layers)}. ${why}`;
}

// [1, 2, 3, 7] -> "1-3, 7".
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) {
    const last = runs.at(-1);
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([first, last]) => first === last ? `${first}` : `${first}-${last}`).join(', ');
}

if (attention) {
  byId('heads').style.setProperty('--heads', Math.max(...layers.map(({heads}) => heads)));
  tiles.forEach((tile) => {
    tile.element.title = describeTile(tile);
    tile.element.setAttribute('aria-label', describeTile(tile));
  });
  showLeftOut();
  byId('heads').addEventListener('click', (event) => chooseTile(event.target.closest('.tile')?.tile));
  byId('sort').addEventListener('change', (event) => choose({sort: event.target.value}));
  watch('mode floor theme', drawThumbnails);
  watch('sort', arrangeTiles);
  watch('layer head', markHead);
}
