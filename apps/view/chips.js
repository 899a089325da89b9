'use strict';
// Prompt and answer as chips. The chosen one shades the others by its row of the chosen head.

const chips = data.ids.map((id, i) => {
  const role = i < data.prompt_len ? data.roles[i] ?? 'text' : 'answer';
  const chip = make('span', {class: `chip ${role}`, role: 'option', id: `chip-${i}`}, tokenElement(id));
  if (/^(␣*\\n)+$/.test(data.texts[id] ?? '')) chip.classList.add('line-end');
  return chip;
});

// How much a share or a loss of `nats` shows: 0 is none, 1 is all. Six nats are one in four hundred.
const share = (nats) => Math.min(1, Math.max(0, nats / 6));

function addStrips() {
  data.steps.forEach((step, s) => {
    const chip = chips[data.prompt_len + s];
    if (!chip) return;
    chip.style.setProperty('--surprise-size', share(-step.logprob).toFixed(3));
    if (against) chip.style.setProperty('--kl-size', Math.min(1, Math.sqrt(against.kl[s] ?? 0)).toFixed(3));
  });
}

function chipTitle(i) {
  const step = data.steps[i - data.prompt_len];
  let title = `${i}  ${textOf(data.ids[i])}  (id ${data.ids[i]})`;
  if (i < data.prompt_len) title += data.roles[i] === 'special' ? '\nprompt, special token' : '\nprompt';
  if (i >= data.prompt_len && step) title += `\nanswer, step ${i - data.prompt_len}: p = ${number(Math.exp(step.logprob))}`;
  if (i >= data.prompt_len && against?.kl[i - data.prompt_len] !== undefined) {
    title += `\nKL to ${against.name}: ${number(against.kl[i - data.prompt_len])} nats`;
  }
  return title;
}

function markChosen() {
  showWithin(byId('chips'), chips[state.token], chipRow);
  findInView();
  const before = document.querySelector('.chip.chosen');
  before?.classList.remove('chosen');
  before?.removeAttribute('aria-selected');
  const chip = chips[state.token];
  chip.classList.add('chosen');
  chip.setAttribute('aria-selected', 'true');
  byId('chips').setAttribute('aria-activedescendant', chip.id);
}

// Scrolls `box` alone, not the page, until `child` is in it; by whole rows of it.
function showWithin(box, child, row) {
  const above = Math.floor(child.offsetTop / row) * row;
  const below = Math.ceil((child.offsetTop + child.offsetHeight - box.clientHeight) / row) * row;
  if (box.scrollTop > above) box.scrollTop = above;
  if (box.scrollTop < below) box.scrollTop = below;
}

// The chosen token's row as levels, [token + 1]; null where there is none.
function rowOfToken() {
  if (!attention || state.token >= attention.T) return null;
  const row = rowStart(state.token);
  const of = (other) => headBytes(state.layer, state.head, other).subarray(row, row + state.token + 1);
  if (state.mode === 'run') return of(false);
  if (state.mode === 'against') return of(true);
  const [a, b] = [of(false), of(true)];
  return Int16Array.from(a, (byte, key) => differenceLevels()[byte << 8 | b[key]]);
}

// Only chips that are in view are shaded, and again when the box scrolls: a browser takes long for two thousand.
const chipRow = 25;  // as in the style sheet
let tops = [];  // of each chip, from the box's beginning
let inView = {first: 0, last: 0};

function placeChips() {
  tops = chips.map((chip) => chip.offsetTop);
  findInView();
}

function findInView() {
  const {scrollTop, clientHeight} = byId('chips');
  const first = tops.findIndex((top) => top > scrollTop - chipRow);
  const beyond = tops.findIndex((top) => top > scrollTop + clientHeight);
  inView = {first: Math.max(0, first), last: beyond < 0 ? nTokens : beyond};
}

const shades = new Array(nTokens).fill('');
function shadeChips() {
  const row = rowOfToken();
  for (let i = inView.first; i < inView.last; ++i) {
    const level = row && i < row.length && !(state.first && i === 0) ? row[i] : 0;
    const percent = Math.round(80 * placeOf(probabilities[Math.abs(level)], 1));
    const color = state.mode !== 'difference' ? 'reads' : level > 0 ? 'more' : 'less';
    const shade = percent === 0 ? '' : `color-mix(in srgb, var(--${color}) ${percent}%, var(--chip))`;
    if (shade === shades[i]) continue;
    chips[i].style.backgroundColor = shade;
    shades[i] = shade;
  }
}

function fillLegend() {
  const sample = (kind, text) => make('span', {}, make('i', {class: `sample ${kind}`}), ' ' + text);
  const legend = byId('legend');
  legend.append(sample('answer', 'answer: surprise, −log p'));
  if (attention) legend.append(sample('reads', 'what the chosen token reads'));
  if (against) legend.append(sample('kl', `KL to ${against.name}`));
}

byId('chips').append(...chips);
addStrips();
fillLegend();
byId('chips').addEventListener('scroll', () => {
  findInView();
  shadeChips();
});
byId('chips').addEventListener('click', (event) => {
  const chip = event.target.closest('.chip');
  if (chip) choose({token: chips.indexOf(chip)});
});
byId('chips').addEventListener('mouseover', (event) => {
  const chip = event.target.closest('.chip');
  if (chip && !chip.title) chip.title = chipTitle(chips.indexOf(chip));
});
watch('token', markChosen);
watch('token layer head mode first floor', shadeChips);
