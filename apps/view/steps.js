'use strict';
// The entropy of each step of the answer, and the KL divergence of the second run. A click chooses the step.

const chart = {canvas: byId('steps'), context: byId('steps').getContext('2d'), height: against ? 72 : 44, left: 42};

function placeChart(width) {
  const scale = Math.min(2, devicePixelRatio || 1);
  chart.width = width;
  chart.canvas.style.width = `${chart.width}px`;
  chart.canvas.style.height = `${chart.height}px`;
  Object.assign(chart.canvas, {width: Math.round(chart.width * scale), height: Math.round(chart.height * scale)});
  chart.context.setTransform(scale, 0, 0, scale, 0, 0);
}

function drawSteps() {
  if (nSteps === 0 || !chart.width) return;
  chart.context.clearRect(0, 0, chart.width, chart.height);
  const entropies = data.steps.map(({entropy}) => entropy);
  const rows = against ? [[entropies, 'dim', 0, 'H'], [against.kl, 'kl', 37, 'KL']] : [[entropies, 'dim', 0, 'H']];
  for (const [values, color, y, name] of rows) drawSeries(values, themeColor(color), y, name);
  const s = state.token - data.prompt_len;
  const slider = {'aria-valuemin': 0, 'aria-valuemax': nSteps - 1, 'aria-valuenow': Math.max(0, s),
                  'aria-valuetext': data.steps[s] ? `step ${s}, entropy ${number(data.steps[s].entropy)} nats` : 'no step of the answer is chosen'};
  for (const [name, value] of Object.entries(slider)) chart.canvas.setAttribute(name, value);
}

function drawSeries(values, color, y, name) {
  const {context, width, left} = chart;
  const height = 30;
  const largest = Math.max(...values.slice(0, nSteps), 1e-9);
  const step = (width - left) / nSteps;
  const bar = Math.max(1, Math.min(48, step - (step > 4 ? 1 : 0)));
  const chosen = state.token - data.prompt_len;
  if (chosen >= 0) {
    context.fillStyle = themeColor('chosen');
    context.fillRect(left + chosen * step - 1, y, Math.max(bar + 2, 3), height + 4);
  }
  for (let s = 0; s < nSteps; ++s) {
    if (values[s] === undefined) continue;
    const size = Math.max(1, values[s] / largest * height);
    context.fillStyle = s === chosen ? themeColor('accent') : color;
    context.fillRect(left + s * step, y + height + 2 - size, bar, size);
  }
  context.fillStyle = themeColor('dim');
  context.font = `10px ${fontFamily}`;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  context.fillText(number(largest), left - 5, y + 8);
  context.fillText(name, left - 5, y + height - 4);
}

function chooseStep(event) {
  const x = event.clientX - chart.canvas.getBoundingClientRect().left - chart.left;
  const s = Math.floor(x / ((chart.width - chart.left) / nSteps));
  if (s >= 0 && s < nSteps) choose({token: data.prompt_len + s});
}

byId('steps-title').textContent = nSteps === 0 ? '' : against ? 'Entropy, and KL of the second run, by step (nats)' : 'Entropy by step (nats)';
chart.canvas.hidden = nSteps === 0;
chart.canvas.addEventListener('click', chooseStep);
watch('token theme', drawSteps);
