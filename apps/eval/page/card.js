'use strict';
// The command of what is chosen, the controls, and the beginning.

function chosenCommand() {
  const method = methods.find(({name}) => name === state.method);
  if (!method) return ['the card', data.command];
  const task = method.tasks?.find((one) => `${one.task} ${one.length}` === state.task);
  return task ? [`${method.name}, ${state.task}`, task.command] : [method.name, commandOf(method)];
}

// Of all that was measured of a method: the card's command with this method alone.
function commandOf(method) {
  const {policy, budget} = method.method;
  const words = data.command.replace(/ --card(=\S+)?/, ` --card=${policy || method.name}`);
  return policy ? words.replace(/ --budgets=\S+/, ` --budgets=${budget}`) : words;
}

function drawCommand() {
  const [of, command] = chosenCommand();
  byId('command-of').textContent = of;
  byId('command').textContent = command;
}

function fillSelect(id, options) {
  byId(id).append(...options.map(([value, name]) => make('option', {value}, name)));
  byId(id).closest('label').hidden = options.length === 0;
}

async function copyCommand() {
  const selection = getSelection();
  selection.selectAllChildren(byId('command'));
  try {
    await navigator.clipboard.writeText(byId('command').textContent);
  } catch {
    document.execCommand('copy');  // a file is no secure place for some browsers
  }
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = dark === 'dark' ? 'light' : 'dark';
}

const modelName = data.run.model.split('/').at(-1) || 'model';
byId('title').textContent = `Card of methods: ${modelName}`;
document.title = `${modelName}: card of methods`;
for (const fact of [data.run.program, data.run.arithmetic, `${data.run.examples} puzzles of each task and length`]) {
  byId('facts').append(make('li', {}, fact));
}
byId('measurable').textContent = percent(data.measurable_from);
fillSelect('quality', qualities.map((quality) => [quality.id, quality.name]));
fillSelect('depth', depths.map((depth) => [depth, depth]));
byId('depth').value = state.depth;
for (const id of ['quality', 'memory', 'cell']) byId(id).addEventListener('change', () => choose({[id]: byId(id).value}));
byId('depth').addEventListener('change', () => choose({depth: Number(byId('depth').value)}));
byId('copy').addEventListener('click', copyCommand);
byId('theme').addEventListener('click', switchTheme);
byId('all').addEventListener('click', () => choose({method: null, task: null}));
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select')) return;
  if (event.key === 'c') copyCommand();
  if (event.key === 't') switchTheme();
  if (event.key === 'Escape') choose({method: null, task: null});
});
watch(drawCommand);
choose({});
