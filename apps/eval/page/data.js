'use strict';
// The card that the page shows, and what is chosen of it.

const data = JSON.parse(document.getElementById('ng-card').textContent);
const methods = data.methods;
const running = methods.filter((method) => !method.error);

const byId = (id) => document.getElementById(id);

// Makes an element. Texts are foreign: they become text and never markup.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A number as it is read best: 0.213, 0.0021, 3.1e-5.
function number(value) {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 0.01) return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
  return size >= 1e-3 ? value.toFixed(4) : value.toExponential(1);
}

const percent = (share) => Number.isFinite(share) ? `${number(100 * share)} %` : '–';
const withSign = (text, value) => value > 0 ? `+${text}` : text;

// What the quality of a method may be: its name, the interval {value, low, high} of a method or null, whether
// more is better, and how it is written. The full cache differs from itself by nothing.
const zero = {value: 0, low: 0, high: 0};
const isFull = (method) => method.name === 'full';
const qualities = [
  {id: 'score', name: 'score of the tasks', of: (m) => m.score, better: 1, text: percent},
  {id: 'margin', name: 'margin, nats', of: (m) => m.margin, better: 1, text: number},
  {id: 'perplexity', name: 'perplexity, change in %', of: (m) => isFull(m) ? zero : m.text?.change_percent, better: -1,
   text: (value) => withSign(`${number(value)} %`, value)},
  {id: 'kl', name: 'KL from the full cache, nats', of: (m) => isFull(m) ? zero : m.text?.kl, better: -1, text: number},
].filter(({id, of}) => running.some((method) => of(method) && (id !== 'perplexity' && id !== 'kl' || method.text)));

const memoryOf = (method, name) => isFull(method) && !method.memory ? 1 : method.memory?.[name];
const speedOf = (method, depth) => isFull(method) ? 1 : method.speeds?.find((speed) => speed.depth === depth)?.over_full;
const depths = [...new Set(methods.flatMap((method) => (method.speeds ?? []).map(({depth}) => depth)))].sort((a, b) => a - b);

// A colour for each policy or codec: the same at all budgets.
const kinds = [...new Set(methods.map(({name}) => name.split(' ')[0]))];
function colorOf(method) {
  const hue = Math.round(kinds.indexOf(method.name.split(' ')[0]) * 360 / kinds.length);
  return `oklch(0.62 0.15 ${hue})`;
}

const state = {quality: qualities[0]?.id, memory: 'held', depth: depths.at(-1), cell: 'score', method: null, task: null};
const watchers = [];
const watch = (draw) => watchers.push(draw);

function choose(change) {
  Object.assign(state, change);
  for (const draw of watchers) draw();
}
