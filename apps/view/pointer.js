'use strict';
// The pair under the pointer or the keyboard's cross: its name and probability; zoom, and the PNG file.

let pair = null;  // {query, key}, or null

// The queries (or keys) that one pixel of an axis of `length` pixels holds: [first, last + 1].
function tokensAt(pixel, length, start, size) {
  const bounds = parts(start, size, length);
  return [bounds[pixel], endOf(bounds, pixel)];
}

// The pair that the pixel at (x, y) of the map's canvas shows, in CSS pixels; null outside of the triangle.
function pairAt(x, y) {
  const [column, row] = [Math.floor(x - map.left), Math.floor(y - map.above)];
  if (column < 0 || row < 0 || column >= map.wide || row >= map.high) return null;
  const box = boxNow();
  return strongestPair(...bytesNow(), tokensAt(row, map.high, box.query, box.size),
                       tokensAt(column, map.wide, box.key, box.size));
}

function showPair(found) {
  if (found?.query === pair?.query && found?.key === pair?.key) return;
  pair = found;
  describePair();
  drawMarks();
}

// A stored byte stands for all probabilities within half a step.
function probabilityText(byte) {
  const {min, error} = attention.scale;
  if (byte === 0) return `below ${min}`;
  return `${probabilities[byte].toPrecision(4)} ± ${(error * 100).toPrecision(2)} %`;
}

function describePair() {
  const line = byId('pair');
  if (!pair) {
    line.textContent = 'Point at a cell to read it, or focus the map and use the arrow keys.';
    line.className = 'dim';
    return;
  }
  const {query, key} = pair;
  const at = rowStart(query) + key;
  const value = (other) => headBytes(state.layer, state.head, other)[at];
  line.className = '';
  line.replaceChildren(`${query} `, tokenElement(data.ids[query]), ' reads ', `${key} `, tokenElement(data.ids[key]), ': ');
  if (state.mode === 'difference') {
    const [a, b] = [value(false), value(true)];
    const level = differenceLevels()[a << 8 | b];
    const change = probabilities[b] - probabilities[a];
    line.append(make('b', {}, level === 0 ? 'the same within the error' : `${change > 0 ? '+' : '−'}${number(Math.abs(change))}`),
                ` (${probabilityText(a)}, then ${probabilityText(b)})`);
  } else {
    line.append(make('b', {}, probabilityText(value(state.mode === 'against'))));
  }
  if (boxNow().size > Math.min(map.wide, map.high)) line.append(make('span', {class: 'dim'}, ' (the largest here)'));
}

// The chosen token's row and the pair's cross, over the map.
function drawMarks() {
  const {marks, left, above, wide, high, scale} = map;
  const box = boxNow();
  const cell = {x: wide / box.size, y: high / box.size};
  marks.setTransform(1, 0, 0, 1, 0, 0);
  marks.clearRect(0, 0, marks.canvas.width, marks.canvas.height);
  marks.setTransform(scale, 0, 0, scale, 0, 0);
  marks.lineWidth = 1.5;
  const row = state.token - box.query;
  if (row >= 0 && row < box.size) {
    marks.strokeStyle = map.colors.accent;
    const width = Math.max(0, Math.min(wide, (state.token + 1 - box.key) * cell.x));
    marks.strokeRect(left - 1, above + row * cell.y - 1, width + 2, Math.max(2, cell.y + 1));
  }
  if (!pair || !inBox(pair, box)) return;
  const half = {x: Math.max(3, cell.x / 2), y: Math.max(3, cell.y / 2)};
  const x = left + (pair.key - box.key + 0.5) * cell.x;
  const y = above + (pair.query - box.query + 0.5) * cell.y;
  marks.fillStyle = map.colors.dim;
  marks.fillRect(x - 0.5, above, 1, Math.max(0, y - above - half.y));
  marks.fillRect(left, y - 0.5, Math.max(0, x - left - half.x), 1);
  marks.strokeStyle = map.colors.ink;
  marks.strokeRect(x - half.x, y - half.y, 2 * half.x, 2 * half.y);
}

const inBox = ({query, key}, box) => query >= box.query && query < box.query + box.size && key >= box.key && key < box.key + box.size;

// Half or twice as many tokens around the pair, or else around the chosen token.
function zoom(factor) {
  const box = boxNow();
  const middle = pair && inBox(pair, box) ? pair : {query: state.token, key: Math.max(0, state.token - box.size * factor / 4)};
  const size = Math.max(4, Math.round(box.size * factor));
  const start = (name) => middle[name] - (inBox(middle, box) ? (middle[name] - box[name]) * factor : size / 2);
  choose({window: clampWindow({query: start('query'), key: start('key'), size})});
}

function moveWindow(queries, keys) {
  const box = boxNow();
  choose({window: clampWindow({query: box.query + queries, key: box.key + keys, size: box.size})});
}

// Moves the pair by tokens; the window follows it.
function movePair(queries, keys) {
  const from = pair ?? {query: state.token, key: Math.max(0, state.token - 1) + (keys ? 0 : 1)};
  const query = Math.max(0, Math.min(attention.T - 1, from.query + queries));
  const key = Math.max(state.first && query > 0 ? 1 : 0, Math.min(query, from.key + keys));
  if (!inBox({query, key}, boxNow())) moveWindow(query - from.query, key - from.key);
  showPair({query, key});
}

function onMapKey(event) {
  const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  const by = event.shiftKey ? 10 : 1;
  if (moves[event.key]) movePair(moves[event.key][0] * by, moves[event.key][1] * by);
  else if (event.key === 'Enter' && pair) choose({token: pair.query});
  else return;
  event.preventDefault();
  event.stopPropagation();
}

let drag = null;  // {x, y, box}: where a drag began
function onPointer(event) {
  const {left, top} = map.canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  if (event.type === 'pointerdown') {
    drag = {x, y, box: boxNow(), moved: false};
    map.canvas.setPointerCapture(event.pointerId);
  }
  if (drag && event.buttons && state.window && Math.hypot(x - drag.x, y - drag.y) > 4) {
    drag.moved = true;
    const {query, key, size} = drag.box;
    choose({window: clampWindow({query: query - (y - drag.y) * size / map.high, key: key - (x - drag.x) * size / map.wide, size})});
  } else {
    showPair(pairAt(x, y));
  }
  if (event.type === 'pointerup') {
    if (drag && !drag.moved && pair) choose({token: pair.query});
    drag = null;
  }
}

// The heat map with a line that says what it is, as a PNG file.
function savePng() {
  const {canvas, scale} = map;
  const line = 22 * scale;
  const copy = make('canvas', {width: canvas.width, height: canvas.height + line});
  const context = copy.getContext('2d');
  context.fillStyle = map.colors.map;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, line);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = map.colors.ink;
  context.font = `bold 12px ${fontFamily}`;
  const what = {run: '', against: `, ${against?.name}`, difference: `, ${against?.name} minus this run`}[state.mode];
  context.fillText(`${data.run.title}: layer ${state.layer}, head ${headName(state.layer, state.head)}${what}`, 8, 15, canvas.width / scale - 16);
  copy.toBlob((file) => {
    const link = make('a', {href: URL.createObjectURL(file), download: `attention-L${state.layer}-H${headName(state.layer, state.head)}.png`});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

function bindMap() {
  for (const type of ['pointerdown', 'pointermove', 'pointerup']) map.canvas.addEventListener(type, onPointer);
  map.canvas.addEventListener('pointerleave', () => { if (!drag) showPair(null); });
  map.canvas.addEventListener('keydown', onMapKey);
  map.canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;  // a wheel alone scrolls the page
    event.preventDefault();
    zoom((event.deltaY || event.deltaX) < 0 ? 0.5 : 2);
  }, {passive: false});
  byId('zoom-in').addEventListener('click', () => zoom(0.5));
  byId('zoom-out').addEventListener('click', () => zoom(2));
  byId('zoom-all').addEventListener('click', () => choose({window: null}));
  byId('png').addEventListener('click', savePng);
  byId('hide-first').addEventListener('change', (event) => choose({first: event.target.checked}));
  byId('floor').addEventListener('change', (event) => choose({floor: Number(event.target.value)}));
  byId('mode').addEventListener('change', (event) => choose({mode: event.target.value}));
  byId('mode-label').hidden = !against?.attention;
}

function showControls() {
  byId('hide-first').checked = state.first;
  byId('floor').value = state.floor;
  byId('mode').value = state.mode;
  byId('zoom-out').disabled = byId('zoom-all').disabled = !state.window;
}

if (attention) {
  bindMap();
  watch('first floor mode window', showControls);
  watch('layer head mode first', describePair);
}
