'use strict';
// What the page shows: the manifest, and the blobs, which are decoded when they are asked for.

const data = JSON.parse(document.getElementById('ng-run').textContent);
const attention = data.attention;
const against = data.against;
const nTokens = data.ids.length;
const nSteps = nTokens - data.prompt_len;

const byId = (id) => document.getElementById(id);

// Makes an element. Texts of tokens are foreign: they become text and never markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Controls, signs without a width, and signs that turn the direction of what follows.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]/gu;

// The text of an id, with what cannot be seen made visible.
function textOf(id) {
  const text = data.texts[id];
  if (text === undefined) return `#${id}`;
  if (text === '') return '∅';
  return text.replace(unseen, (sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
  });
}

// At most so many signs of a text, for places that have no room for more.
function cut(text, length) {
  const signs = Array.from(text);
  return signs.length <= length ? text : signs.slice(0, length - 1).join('') + '…';
}

// A token's text as an element that keeps its direction to itself.
function tokenElement(id) {
  return make('bdi', {class: 'text'}, textOf(id));
}

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const signs = atob(text);
  const bytes = new Uint8Array(signs.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = signs.charCodeAt(i);
  return bytes;
}

function blob(name) {
  return decodeBase64(byId(`b-${name}`).textContent);
}

// The functions below read the first run, or the second one if `other` is true.

// The bytes of a head: row q has q + 1 of them. The last few heads are kept.
const kept = new Map();
function headBytes(layer, head, other) {
  const name = `${other ? 'x-' : ''}a-${layer}-${head}`;
  let bytes = kept.get(name);
  if (!bytes) {
    bytes = blob(name);
    if (kept.size >= 4) kept.delete(kept.keys().next().value);
    kept.set(name, bytes);
  }
  return bytes;
}

const rowStart = (query) => query * (query + 1) / 2;

// The thumbnails of a layer: {side, bytes [heads, side, side]}.
function thumbnails(layer, heads, other) {
  const bytes = blob(`${other ? 'x-' : ''}t-${layer}`);
  return {side: Math.round(Math.sqrt(bytes.length / heads)), bytes};
}

// Of each key the attention that it receives, of each query the entropy of its row: {received, entropy}, [T].
const keptEdges = new Map();
function edges(layer, head, heads, other) {
  const name = `${other ? 'x-' : ''}e-${layer}`;
  if (!keptEdges.has(name)) {
    const bytes = blob(name);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    keptEdges.set(name, Float32Array.from({length: bytes.length / 4}, (_, i) => view.getFloat32(4 * i, true)));
  }
  const all = keptEdges.get(name);
  const T = attention.T;
  const at = (row) => all.subarray(row * T, (row + 1) * T);
  return {received: at(head), entropy: at(heads + head)};
}

// The probability that each byte stands for: [256].
const probabilities = new Float64Array(256);
if (attention) {
  const {min, steps} = attention.scale;
  const step = -Math.log(min) / (steps - 1);
  for (let byte = 1; byte < 256; ++byte) probabilities[byte] = min * Math.exp((byte - 1) * step);
}

// A number as it is read best: 0.213, 0.0021, 3.1e-5.
function number(value) {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  if (Math.abs(value) >= 100) return value.toFixed(0);
  if (Math.abs(value) >= 0.01) return value.toFixed(Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3);
  return Math.abs(value) >= 1e-3 ? value.toFixed(4) : value.toExponential(1);
}
