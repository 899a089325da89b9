'use strict';
// Points in a plane: quality up, memory or speed across.

const plane = {width: 560, height: 320, left: 62, right: 92, top: 14, bottom: 40};

// Round numbers that part [low, high] into a few steps.
function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4));
  const wide = [1, 2, 5, 10].find((times) => (high - low) / (step * times) <= 5) * step;
  const values = [];
  for (let i = Math.ceil(low / wide); i * wide <= high + wide / 1e6; ++i) values.push(i * wide);
  return values;
}

// An axis: from values to places, and its range with a margin.
function axisOf(values, [first, last]) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low - margin, high + margin];
  return {low, high, place: (value) => first + (value - low) / (high - low) * (last - first)};
}

// The points that no other one beats in both, from left to right. `across`: 1 where more of x is better.
function frontier(points, across, up) {
  const beats = (a, b) => across * a.x >= across * b.x && up * a.y >= up * b.y && (a.x !== b.x || a.y !== b.y);
  return points.filter((point) => !points.some((other) => beats(other, point))).sort((a, b) => a.x - b.x);
}

function drawAxes(svg, x, y, texts) {
  const {left, right, top, bottom, width, height} = plane;
  for (const value of ticks(x.low, x.high)) {
    const at = x.place(value);
    svg.append(makeSvg('line', {class: 'axis', x1: at, x2: at, y1: top, y2: height - bottom}),
               makeSvg('text', {x: at, y: height - bottom + 15, 'text-anchor': 'middle'}, texts.x(value)));
  }
  for (const value of ticks(y.low, y.high)) {
    const at = y.place(value);
    svg.append(makeSvg('line', {class: 'axis', x1: left, x2: width - right, y1: at, y2: at}),
               makeSvg('text', {x: left - 6, y: at + 4, 'text-anchor': 'end'}, texts.y(value)));
  }
  svg.append(makeSvg('text', {x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle'}, texts.across));
}

// Moves names down until none lies on another one.
function placeLabels(points, {x, y}) {
  const taken = [];
  for (const point of [...points].sort((a, b) => y.place(a.y) - y.place(b.y))) {
    const left = x.place(point.x);
    const width = 12 + 6.5 * point.method.name.length;
    let at = y.place(point.y) + 4;
    const hits = (other) => left < other.left + other.width && other.left < left + width && Math.abs(at - other.at) < 11;
    for (let hit = taken.find(hits); hit; hit = taken.find(hits)) at = hit.at + 11;
    taken.push({left, width, at});
    point.label = at;
  }
}

function drawPoint({method, x, y, interval, label}, place, text) {
  const [cx, cy] = [place.x.place(x), place.y.place(y)];
  const clamp = (value) => Math.max(plane.top, Math.min(plane.height - plane.bottom, place.y.place(value)));
  const point = makeSvg('g', {class: `point${state.method === method.name ? ' chosen' : ''}`, tabindex: 0, role: 'button'},
    makeSvg('line', {class: 'spread', x1: cx, x2: cx, y1: clamp(interval.low), y2: clamp(interval.high)}),
    makeSvg('circle', {cx, cy, r: isFull(method) ? 6 : 5, fill: colorOf(method)}),
    makeSvg('text', {x: cx + 8, y: label}, method.name),
    makeSvg('title', {}, text));
  point.addEventListener('click', () => choose({method: method.name, task: null}));
  point.addEventListener('keydown', (event) => event.key === 'Enter' && choose({method: method.name, task: null}));
  return point;
}

// `xOf`: of a method, undefined where it has none; `across`: the axis's name, and 1 where more is better.
function drawChart(id, xOf, xText, across) {
  const quality = qualities.find((one) => one.id === state.quality);
  const points = !quality ? [] : running.filter((method) => quality.of(method) && Number.isFinite(xOf(method)))
    .map((method) => ({method, x: xOf(method), y: quality.of(method).value, interval: quality.of(method)}));
  if (points.length === 0) {
    byId(id).replaceChildren(make('p', {class: 'dim'}, 'Nothing was measured for this.'));
    return;
  }
  const {left, right, top, bottom, width, height} = plane;
  const x = axisOf(points.map((point) => point.x), [left, width - right]);
  const y = axisOf(points.map((point) => point.y), [height - bottom, top]);
  const svg = makeSvg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `${quality.name} against ${across.name}`});
  drawAxes(svg, x, y, {x: xText, y: quality.text, across: across.name});
  svg.append(makeSvg('text', {x: left, y: 10}, quality.name));
  placeLabels(points, {x, y});
  const best = frontier(points, across.better, quality.better);
  svg.append(makeSvg('polyline', {class: 'frontier', points: best.map((point) => `${x.place(point.x)},${y.place(point.y)}`).join(' ')}));
  for (const point of points) {
    const text = `${point.method.name}: ${quality.text(point.y)} (${quality.text(point.interval.low)} to ${quality.text(point.interval.high)}), ${xText(point.x)}`;
    svg.append(drawPoint(point, {x, y}, text));
  }
  byId(id).replaceChildren(svg);
}

watch(() => drawChart('memory-chart', (method) => memoryOf(method, state.memory), percent,
                      {name: 'keys and values, of the full cache’s', better: -1}));
watch(() => drawChart('speed-chart', (method) => speedOf(method, state.depth), (value) => `${number(value)}×`,
                      {name: 'decode, of the full cache’s speed', better: 1}));
