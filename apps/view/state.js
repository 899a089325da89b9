'use strict';
// What is chosen on the page. It is in the address's hash too, so that a link shows the same.

const state = {layer: 0, head: 0, token: 0, sort: 'layer', first: false, mode: 'run', theme: 'system', floor: -4,
               window: null /* what the heat map shows: {query, key, size}; null: all */};

const layers = attention ? attention.layers : [];
const headsOf = (layer) => layers.find((row) => row.layer === layer)?.heads ?? 0;
// Heads are counted from 0 where they are stored; where only some are stored, each has its number in the model.
const headName = (layer, head) => layers.find((row) => row.layer === layer)?.names?.[head] ?? head;

// A field of the hash -> its value, or undefined where it says nothing that there is.
const oneOf = (...names) => (text) => names.includes(text) ? text : undefined;
const integer = (isValid) => (text) => /^-?\d+$/.test(text) && isValid(Number(text)) ? Number(text) : undefined;
const readers = {
  layer: integer((layer) => headsOf(layer) > 0),
  head: integer((head) => head >= 0),
  token: integer((token) => token >= 0 && token < nTokens),
  sort: oneOf('layer', 'entropy', 'first', 'previous', 'induction'),
  first: (text) => text === 'hidden' ? true : undefined,
  mode: (text) => against?.attention ? oneOf('run', 'against', 'difference')(text) : undefined,
  theme: oneOf('system', 'dark', 'light'),
  floor: integer((floor) => [-6, -4, -3, -2].includes(floor)),
  window: (text) => {
    const [query, key, size] = text.split(',').map(Number);
    return attention && [query, key, size].every(Number.isInteger) ? clampWindow({query, key, size}) : undefined;
  },
};
const writers = {first: () => 'hidden', window: ({query, key, size}) => `${query},${key},${size}`};

const defaults = {...state, layer: layers[0]?.layer ?? 0, token: Math.min(data.prompt_len, nTokens - 1)};

// A window lies within the map and holds at least four tokens; one that holds all is none.
function clampWindow({query, key, size}) {
  size = Math.max(Math.min(4, attention.T), Math.min(Math.round(size), attention.T));
  if (size === attention.T) return null;
  const within = (start) => Math.max(0, Math.min(Math.round(start), attention.T - size));
  return {query: within(query), key: within(key), size};
}

function stateOfHash() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const found = {...defaults};
  for (const [name, read] of Object.entries(readers)) {
    const value = fields.has(name) ? read(fields.get(name)) : undefined;
    if (value !== undefined) found[name] = value;
  }
  found.head = Math.min(found.head, Math.max(0, headsOf(found.layer) - 1));
  return found;
}

function hashOfState() {
  const fields = new URLSearchParams();
  for (const name of Object.keys(readers)) {
    if (String(state[name]) === String(defaults[name])) continue;
    fields.set(name, writers[name] ? writers[name](state[name]) : state[name]);
  }
  return '#' + fields;
}

const watchers = [];
// Calls `draw` when one of the fields changes: watch('layer head', drawMap).
function watch(names, draw) {
  watchers.push({names: names.split(' '), draw});
}

function choose(changes) {
  const changed = Object.keys(changes).filter((name) => changes[name] !== state[name]);
  if (changed.length === 0) return;
  Object.assign(state, changes);
  for (const {names, draw} of watchers) {
    if (names.some((name) => changed.includes(name))) draw();
  }
  saveHash();
}

// A browser allows a hundred or so changes of the address in some seconds: one for a burst is enough.
let hashTimer = 0;
function saveHash() {
  clearTimeout(hashTimer);
  hashTimer = setTimeout(() => history.replaceState(null, '', hashOfState()), 100);
}
