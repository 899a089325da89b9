'use strict';
// A row for each method, and its tasks by length.

function intervalCell(interval, text) {
  if (!interval) return make('td', {}, '–');
  const half = (interval.high - interval.low) / 2;
  return make('td', {title: `95 % of the draws: ${text(interval.low)} to ${text(interval.high)}`},
              text(interval.value), make('small', {}, ` ±${text(half).replace('+', '')}`));
}

// [heading, the cell of a method]
const signed = (text) => (value) => withSign(text(value), value);
const plain = (text) => make('td', {}, text);
const columns = [
  ['when', (m) => plain(m.method.when ?? '–')],
  ['held', (m) => plain(percent(m.memory?.held))],
  ['peak', (m) => plain(percent(m.memory?.peak))],
  ['reserved', (m) => plain(percent(m.memory?.reserved))],
  ['score', (m) => intervalCell(m.score, percent)],
  ['to full', (m) => intervalCell(isFull(m) ? null : m.score?.change, signed(percent))],
  ['margin', (m) => intervalCell(m.margin, number)],
  ['to full', (m) => intervalCell(isFull(m) ? null : m.margin?.change, signed(number))],
  ['perplexity', (m) => plain(number(m.text?.perplexity))],
  ['change, %', (m) => intervalCell(m.text?.change_percent, signed(number))],
  ['KL', (m) => intervalCell(m.text?.kl, number)],
  ['argmax =', (m) => intervalCell(m.text?.equal_argmax, percent)],
  ...depths.map((depth) => [`decode at ${depth}`, (m) => {
    const speed = m.speeds?.find((one) => one.depth === depth);
    return speed ? make('td', {title: `${number(speed.tok_s)} tok/s; rounds from ${number(speed.least)}× to ${number(speed.most)}×`},
                        `${number(speed.over_full)}×`)
                 : plain('–');
  }]),
  ['scoring', (m) => make('td', {title: 'time to let tokens go, of that of the prefill'}, percent(m.method.policy ? m.scoring_share : NaN))],
];

function methodRow(method) {
  const name = make('td', {}, make('i', {class: 'swatch', style: `background: ${colorOf(method)}`}), method.name);
  const cells = method.error ? [make('td', {class: 'error', colspan: columns.length}, `cannot run: ${method.error}`)]
                             : columns.map(([, cell]) => cell(method));
  const row = make('tr', {tabindex: 0, class: state.method === method.name ? 'chosen' : null}, name, ...cells);
  row.addEventListener('click', () => choose({method: method.name, task: null}));
  row.addEventListener('keydown', (event) => event.key === 'Enter' && choose({method: method.name, task: null}));
  return row;
}

function drawMethods() {
  byId('methods').replaceChildren(
    make('thead', {}, make('tr', {}, make('th', {}, 'method'), ...columns.map(([name]) => make('th', {scope: 'col'}, name)))),
    make('tbody', {}, ...methods.map(methodRow)));
}

// From red over grey to green; `t` in -1..1.
function heatColor(t) {
  const size = Math.min(1, Math.abs(t));
  return `oklch(${(0.93 - 0.2 * size).toFixed(3)} ${(0.15 * size).toFixed(3)} ${t < 0 ? 35 : 155})`;
}

// Where a value of a cell lies between bad and good, -1..1.
const heatScales = {
  score: (value) => 2 * value - 1,
  score_change: (value) => value,
  margin: (value) => Math.tanh(value / 4),
  margin_change: (value) => Math.tanh(value / 4),
};

function heatCell(method, task) {
  if (!task) return make('td', {class: 'blank'}, '–');
  const interval = task[state.cell];
  const counts = state.cell.startsWith('score') ? task.measurable : task.choosable;
  const text = state.cell.startsWith('score') ? percent(interval.value) : number(interval.value);
  const chosen = state.method === method.name && state.task === `${task.task} ${task.length}`;
  const cell = make('td', {class: `${counts ? '' : 'blank'}${chosen ? ' chosen' : ''}`, tabindex: 0,
                           style: `background-color: ${counts ? heatColor(heatScales[state.cell](interval.value)) : '#cfd3da'}`,
                           title: `${method.name}, ${task.task} of ${task.length} tokens, ${task.n} puzzles: ` +
                                  `score ${percent(task.score.value)}, right answer preferred ${percent(task.right)}, margin ${number(task.margin.value)}` +
                                  (counts ? '' : '; not measurable')}, text);
  const pick = () => choose({method: method.name, task: `${task.task} ${task.length}`});
  cell.addEventListener('click', pick);
  cell.addEventListener('keydown', (event) => event.key === 'Enter' && pick());
  return cell;
}

const allTasks = running.flatMap((method) => method.tasks ?? []);
const taskNames = [...new Set(allTasks.map(({task}) => task))];
const lengths = [...new Set(allTasks.map(({length}) => length))].sort((a, b) => a - b);

function heatMap(method) {
  const cellAt = (name, length) => method.tasks.find((task) => task.task === name && task.length === length);
  return make('div', {}, make('h3', {}, make('i', {class: 'swatch', style: `background: ${colorOf(method)}`}), method.name),
    make('table', {},
      make('thead', {}, make('tr', {}, make('th', {}, ''), ...lengths.map((length) => make('th', {scope: 'col'}, `${length}`)))),
      make('tbody', {}, ...taskNames.map((name) =>
        make('tr', {}, make('th', {scope: 'row'}, name), ...lengths.map((length) => heatCell(method, cellAt(name, length))))))));
}

function drawHeat() {
  byId('heat').replaceChildren(...running.filter((method) => method.tasks).map(heatMap));
}

watch(drawMethods);
watch(drawHeat);
