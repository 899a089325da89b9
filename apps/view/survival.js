'use strict';
// When each token left the cache, by layer and kv head: a heat map with a row for each head, positions across.

const survival = data.survival && {
  ...data.survival, canvas: byId('survival'), context: byId('survival').getContext('2d'), row: 0, width: 0,
  rows: data.survival.layers * data.survival.heads,
};
const kNotLeft = -1;
const kNoHead = -2;

if (survival) {
  const bytes = blob('left');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  survival.leftAt = Int32Array.from({length: bytes.length / 4}, (_, i) => view.getInt32(4 * i, true));
  survival.rowHeight = Math.max(3, Math.min(12, Math.floor(160 / survival.rows)));
  const gone = survival.leftAt.reduce((n, at) => n + (at >= 0 ? 1 : 0), 0);
  const all = survival.leftAt.reduce((n, at) => n + (at !== kNoHead ? 1 : 0), 0);
  byId('survival-title').textContent = `What left the cache: ${(100 * gone / all).toFixed(1)} % of ${survival.T} tokens`;
}

const channelsOf = (color) => color.match(/\d+/g).slice(0, 3).map(Number);
// Early ones are pale, late ones dark.
const colorOfLeft = (at) => along(ramps[themeNow()], 0.15 + 0.85 * at / survival.T);

// One pixel for each head and token; the page shows it larger or smaller.
function survivalImage() {
  const {T, rows, leftAt} = survival;
  const image = new ImageData(T, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const held = pixelOf(channelsOf(themeColor('surprise')));
  const colors = new Map([[kNotLeft, held], [kNoHead, pixelOf(channelsOf(themeColor('panel')))]]);
  for (let i = 0; i < leftAt.length; ++i) {
    if (!colors.has(leftAt[i])) colors.set(leftAt[i], pixelOf(colorOfLeft(leftAt[i])));
    pixels[i] = colors.get(leftAt[i]);
  }
  const canvas = make('canvas', {width: T, height: rows});
  canvas.getContext('2d').putImageData(image, 0, 0);
  return canvas;
}

function placeSurvival({width}) {
  const scale = Math.min(2, devicePixelRatio || 1);
  const height = survival.rows * survival.rowHeight;
  survival.width = width;
  survival.canvas.style.width = `${width}px`;
  survival.canvas.style.height = `${height}px`;
  Object.assign(survival.canvas, {width: Math.round(width * scale), height: Math.round(height * scale)});
}

function drawSurvival() {
  if (!survival?.width) return;
  const {canvas, context, T, rows, row} = survival;
  const column = canvas.width / T;
  const line = canvas.height / rows;
  // Where a pixel has several tokens it shows their mean.
  context.imageSmoothingEnabled = column < 1;
  context.imageSmoothingQuality = 'high';
  context.drawImage(survivalImage(), 0, 0, canvas.width, canvas.height);
  if (state.token < T) {
    context.fillStyle = themeColor('accent');
    const size = Math.max(2, column);
    context.fillRect(state.token * column, row * line, size, line);
    context.globalAlpha = 0.35;
    context.fillRect(state.token * column, 0, size, canvas.height);
    context.globalAlpha = 1;
  }
  saySurvival(row, Math.min(state.token, T - 1));
}

// Says in words what one head did with one token.
function saySurvival(row, token) {
  const {heads, T, leftAt} = survival;
  const at = leftAt[row * T + token];
  const said = at === kNotLeft ? 'has not left' : at === kNoHead ? 'no such head' : `left when there were ${at} tokens`;
  byId('survival-pair').replaceChildren(`layer ${Math.floor(row / heads)}, kv head ${row % heads}: `, tokenElement(data.ids[token]),
                                        ` at ${token} ${said}`);
}

function survivalAt(event) {
  const {canvas, T, rows, rowHeight, width} = survival;
  const box = canvas.getBoundingClientRect();
  const within = (value, n) => Math.max(0, Math.min(Math.floor(value), n - 1));
  return {row: within((event.clientY - box.top) / rowHeight, rows), token: within((event.clientX - box.left) / width * T, T)};
}

function onSurvivalKey(event) {
  const by = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  survival.row = Math.max(0, Math.min(survival.row + by, survival.rows - 1));
  drawSurvival();
}

byId('survival-panel').hidden = !survival;
if (survival) {
  survival.canvas.addEventListener('pointermove', (event) => {
    const {row, token} = survivalAt(event);
    saySurvival(row, token);
  });
  survival.canvas.addEventListener('pointerleave', drawSurvival);
  survival.canvas.addEventListener('click', (event) => {
    const {row, token} = survivalAt(event);
    survival.row = row;
    choose({token});
    drawSurvival();
  });
  survival.canvas.addEventListener('keydown', onSurvivalKey);
  watch('token theme', drawSurvival);
}
