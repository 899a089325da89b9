'use strict';
// The heat map of the chosen head: queries down, keys across, labels, sums at the edges and the colours' legend.

const map = {canvas: byId('map'), context: byId('map').getContext('2d', {willReadFrequently: true}),
             marks: byId('marks').getContext('2d'), levels: new Int16Array(0), image: null};

// What the map shows of the T tokens: {query, key, size}.
const boxNow = () => state.window ?? {query: 0, key: 0, size: attention.T};

// The bytes that the map is made of: [a, b]; b is null unless the difference is shown.
function bytesNow() {
  const of = (other) => headBytes(state.layer, state.head, other);
  return state.mode === 'difference' ? [of(false), of(true)] : [of(state.mode === 'against'), null];
}

// Places in CSS pixels: the cells are `wide` x `high` at (left, above), with `edge` for the sums beyond them.
// `scale`: device pixels in one. Drawing reads these and never the page's layout, which would be slow.
function placeMap({width, height}) {
  const isNarrow = width < 480;
  const edge = isNarrow ? 26 : 36;
  const left = isNarrow ? 64 : 92;
  const above = isNarrow ? 54 : 68;
  const legend = 30;
  const room = {x: Math.max(48, width - left - edge - 8), y: Math.max(48, height - above - edge - legend - 4)};
  // Cells may be longer than high, where that gives room for labels.
  const wide = Math.floor(Math.min(room.x, 1.7 * room.y));
  const high = Math.floor(Math.min(room.y, 1.1 * room.x));
  map.scale = Math.min(2, devicePixelRatio || 1);
  Object.assign(map, {left, above, wide, high, edge, width: left + wide + edge + 8, height: above + high + edge + legend + 4});
  for (const canvas of [map.canvas, map.marks.canvas]) {
    const [w, h] = [Math.round(map.width * map.scale), Math.round(map.height * map.scale)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, {width: w, height: h});
    Object.assign(canvas.style, {width: `${map.width}px`, height: `${map.height}px`});
  }
}

function drawMap() {
  if (!map.scale) return;  // it has no place yet
  const {context, scale} = map;
  map.colors = Object.fromEntries(['map', 'ink', 'dim', 'line', 'accent', 'reads', 'more', 'less'].map((name) => [name, themeColor(name)]));
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = map.colors.map;
  context.fillRect(0, 0, map.canvas.width, map.canvas.height);
  drawCells();
  context.setTransform(scale, 0, 0, scale, 0, 0);
  drawGrid();
  drawLabels();
  drawEdges();
  drawLegend();
  drawMarks();
  const {layer, head} = state;
  byId('map-title').textContent = `Layer ${layer}, head ${headName(layer, head)}`;
  byId('map-scores').textContent = scoreNames.map((name) => `${name} ${number(scoreOf({layer, head}, name))}`).join(' · ');
}

function drawCells() {
  const [width, height] = [Math.round(map.wide * map.scale), Math.round(map.high * map.scale)];
  if (map.image?.width !== width || map.image.height !== height) {
    map.image = map.context.createImageData(width, height);
    map.pixels = new Uint32Array(map.image.data.buffer);
    map.levels = new Int16Array(width * height);
  }
  const [a, b] = bytesNow();
  const largest = fillLevels(a, b, boxNow(), width, map.levels);
  // Colours end at 1, so that heads can be compared; where the first token is hidden or only a difference
  // shows, at the largest value that there is.
  map.highest = state.first || b ? Math.max(probabilities[largest], 10 ** state.floor * 10) : 1;
  const palette = makePalette(b !== null, map.highest);
  const {pixels, levels} = map;
  for (let i = 0; i < pixels.length; ++i) pixels[i] = palette[levels[i] + 256];
  map.context.putImageData(map.image, Math.round(map.left * map.scale), Math.round(map.above * map.scale));
}

// Lines between the cells where these are large enough.
function drawGrid() {
  const {context, left, above, wide, high} = map;
  const {size} = boxNow();
  if (high / size < 8) return;
  context.fillStyle = map.colors.map;
  for (let i = 1; i < size; ++i) {
    context.fillRect(left, above + Math.ceil(i * high / size) - 1, wide, 1);
    context.fillRect(left + Math.ceil(i * wide / size) - 1, above, 1, high);
  }
}

// 1, 2, 5, 10, 20, 50, ...: the first that is not below `least`.
function roundStep(least) {
  for (let ten = 1;; ten *= 10) {
    for (const step of [1, 2, 5]) if (step * ten >= least) return step * ten;
  }
}

// The tokens of an axis of `length` pixels that get a label: every n-th, and the chosen one in place of its neighbours.
function labelled(start, size, length) {
  const room = 11;
  const cell = length / size;
  const every = roundStep(room / cell);
  const chosen = state.token >= start && state.token < start + size ? state.token : null;
  const tokens = [];
  for (let token = Math.ceil(start / every) * every; token < start + size; token += every) {
    if (chosen === null || (token !== chosen && Math.abs(token - chosen) * cell >= room)) tokens.push(token);
  }
  return {tokens: chosen === null ? tokens : [...tokens, chosen], numbered: every > 1};
}

function drawLabels() {
  const {context, left, above, wide, high} = map;
  const box = boxNow();
  const signs = left < 80 ? 9 : 12;
  context.direction = 'ltr';
  context.textBaseline = 'middle';
  const draw = (token, numbered, x, y, angle) => {
    const text = cut((numbered ? `${token} ` : '') + textOf(data.ids[token]), signs);
    context.save();
    context.translate(x, y);
    context.rotate(angle);
    context.fillStyle = token === state.token ? map.colors.accent : map.colors.ink;
    context.font = `${token === state.token ? 'bold ' : ''}10px ${fontFamily}`;
    context.textAlign = angle ? 'left' : 'right';
    context.fillText(text, 0, 0, (angle ? above : left) - 8);
    context.restore();
  };
  const rows = labelled(box.query, box.size, high);
  for (const token of rows.tokens) draw(token, rows.numbered, left - 6, above + (token - box.query + 0.5) * high / box.size, 0);
  const columns = labelled(box.key, box.size, wide);
  for (const token of columns.tokens) draw(token, columns.numbered, left + (token - box.key + 0.5) * wide / box.size, above - 6, -Math.PI / 2);
  context.font = `10px ${fontFamily}`;
  context.fillStyle = map.colors.dim;
  context.textAlign = 'right';
  context.fillText('key →', left - 12, above - 30);
  context.fillText('query ↓', left - 12, above - 17);
}

const fontFamily = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

// The sums of the head at the map's edges, as they are or as differences.
function edgesNow() {
  const heads = headsOf(state.layer);
  const of = (other) => edges(state.layer, state.head, heads, other);
  if (state.mode !== 'difference') return of(state.mode === 'against');
  const [a, b] = [of(false), of(true)];
  return {received: b.received.map((value, i) => value - a.received[i]),
          entropy: b.entropy.map((value, i) => value - a.entropy[i])};
}

function drawEdges() {
  const {context, left, above, wide, high, edge} = map;
  const box = boxNow();
  const {received, entropy} = edgesNow();
  const skipped = state.first ? 1 : 0;
  const below = drawBars(received, wide, [box.key, skipped], (at, from, to) => context.fillRect(left + at, above + high + 4 + from, 1, to - from));
  const beside = drawBars(entropy, high, [box.query, 0], (at, from, to) => context.fillRect(left + wide + 4 + edge - to, above + at, to - from, 1));
  context.fillStyle = map.colors.dim;
  context.font = `10px ${fontFamily}`;
  context.textAlign = 'right';
  context.fillText('received', left - 6, above + high + 10);
  context.fillText(`≤ ${number(below)}`, left - 6, above + high + 22);
  context.save();
  context.translate(left + wide + 12, above - 6);
  context.rotate(-Math.PI / 2);
  context.textAlign = 'left';
  context.fillText('entropy', 0, 0);
  context.fillText(`≤ ${number(beside)}`, 0, 12);
  context.restore();
}

// A bar for each pixel of an edge of `length`, which begins at `start`: the value with the largest size among
// those that lie there, none before `first`. Bars are
// `fill(at, from, to)`, `to` being its foot; differences have their zero in the middle. Returns the largest size.
function drawBars(values, length, [start, first], fill) {
  const {edge} = map;
  const bounds = parts(start, boxNow().size, length);
  const bars = new Float64Array(length);
  let largest = 0;
  for (let x = 0; x < length; ++x) {
    for (let i = Math.max(bounds[x], first); i < endOf(bounds, x); ++i) {
      if (Math.abs(values[i]) > Math.abs(bars[x])) bars[x] = values[i];
    }
    largest = Math.max(largest, Math.abs(bars[x]));
  }
  const isSigned = state.mode === 'difference';
  for (let x = 0; x < length && largest > 0; ++x) {
    const size = Math.abs(bars[x]) / largest * edge * (isSigned ? 0.5 : 1);
    if (size === 0) continue;
    map.context.fillStyle = !isSigned ? map.colors.reads : bars[x] > 0 ? map.colors.more : map.colors.less;
    const zero = isSigned ? edge / 2 : edge;
    if (bars[x] > 0) fill(x, zero - size, zero);
    else fill(x, zero, zero + size);
  }
  return largest;
}

function drawLegend() {
  const {context, left, above, wide, high, edge} = map;
  const y = above + high + edge + 10;
  const isSigned = state.mode === 'difference';
  const theme = themeNow();
  for (let x = 0; x < wide; ++x) {
    const t = x / (wide - 1);
    context.fillStyle = `rgb(${along(isSigned ? signed[theme] : ramps[theme], t)})`;
    context.fillRect(left + x, y, 1, 8);
  }
  context.fillStyle = map.colors.dim;
  context.font = `10px ${fontFamily}`;
  context.textAlign = 'right';
  context.fillText(isSigned ? 'difference' : 'attention', left - 6, y + 4);
  for (const [t, text] of legendTicks(isSigned)) {
    context.textAlign = t < 0.03 ? 'left' : t > 0.97 ? 'right' : 'center';
    context.fillText(text, left + t * wide, y + 17);
  }
}

// Powers of ten and the top: [[place in 0..1, text]].
function legendTicks(isSigned) {
  const low = state.floor;
  const ticks = [[1, number(map.highest)]];
  for (let power = low; power < Math.log10(map.highest) - 0.15; ++power) {
    ticks.push([placeOf(10 ** power, map.highest), power === low ? `≤ ${10 ** low >= 0.001 ? 10 ** low : `1e${low}`}` : 10 ** power >= 0.001 ? `${10 ** power}` : `1e${power}`]);
  }
  if (!isSigned) return ticks;
  const outer = ticks.filter(([t]) => t === 1);
  return [...outer.map(([, text]) => [1, `+${text}`]), ...outer.map(([, text]) => [0, `−${text}`]), [0.5, 'less · same · more']];
}

if (attention) watch('layer head mode first floor theme window token', drawMap);
