'use strict';
// The chosen token: the ten best before and after each stage of the sampler, and the logit lens by layer.

// The columns of the ten best: what the model gives, what each stage leaves, what the second run gives.
function columnsOf(s) {
  const step = data.steps[s];
  const columns = [{name: 'model', top: step.top, p: new Map(step.top)}];
  for (const {name, n, top} of step.stages ?? []) columns.push({name, n, left: `${n} left`, top, p: new Map(top)});
  if (against?.top[s]) columns.push({name: 'against', left: against.name, top: against.top[s], p: new Map(against.top[s]), isOther: true});
  return columns;
}

// The ids of the ten best in the order in which the columns name them, and the chosen one.
function idsOf(columns, chosen) {
  return [...new Set([...columns.flatMap(({top}) => top.map(([id]) => id)), chosen])];
}

function bestCell(column, id) {
  const p = column.p.get(id);
  if (p === undefined) {
    // A column with fewer than ten names all that is left.
    const isGone = column.n !== undefined && column.n <= column.top.length;
    return make('td', {class: 'none'}, isGone ? '–' : '·');
  }
  const cell = make('td', {class: column.isOther ? 'other' : ''}, make('i', {class: 'p-bar'}), make('span', {}, number(p)));
  cell.firstChild.style.width = `${(100 * p).toFixed(1)}%`;
  return cell;
}

function showBest() {
  const s = state.token - data.prompt_len;
  const box = byId('best');
  if (s < 0 || !data.steps[s]) {
    box.replaceChildren(make('p', {class: 'dim'}, 'A token of the prompt: it was read, not chosen.'));
    return;
  }
  const chosen = data.ids[state.token];
  const columns = columnsOf(s);
  columns[0].p.set(chosen, Math.exp(data.steps[s].logprob));
  const head = make('tr', {}, make('th', {}, 'token'), ...columns.map(({name, left, isOther}) =>
    make('th', {class: isOther ? 'other' : '', title: isOther ? left : name}, make('span', {class: 'stage'}, name),
         make('small', {}, left ?? ' '))));
  const rows = idsOf(columns, chosen).map((id) => {
    const row = make('tr', id === chosen ? {class: 'drawn', 'aria-label': 'drawn'} : {},
                     make('th', {scope: 'row', title: `${textOf(id)}  (id ${id})`}, tokenElement(id)));
    row.append(...columns.map((column) => bestCell(column, id)));
    return row;
  });
  const table = make('table', {class: 'best'}, make('thead', {}, head), make('tbody', {}, ...rows));
  table.style.setProperty('--columns', columns.length);
  box.replaceChildren(table);
}

function showTitle() {
  const i = state.token;
  const s = i - data.prompt_len;
  const step = data.steps[s];
  const what = s < 0 ? `prompt${data.roles[i] === 'special' ? ', special' : ''}` : `answer, step ${s}`;
  byId('token-title').replaceChildren(`${i} `, tokenElement(data.ids[i]));
  let facts = what;
  if (s >= 0 && step) {
    facts += ` · p ${number(Math.exp(step.logprob))} · surprise ${number(-step.logprob)} · entropy ${number(step.entropy)}`;
    if (against?.kl[s] !== undefined) facts += ` · KL ${number(against.kl[s])}`;
  }
  if (attention && i >= attention.T) facts += ' · has no row in the heat map';
  byId('token-facts').textContent = facts;
  byId('token-facts').title = 'surprise (−log p), entropy and KL in nats';
}

// The lens reads the row before the chosen token: the one whose logits it was drawn from.
function showLens() {
  const box = byId('lens');
  const at = data.lens ? data.lens.pos.indexOf(state.token - 1) : -1;
  byId('lens-title').textContent = data.lens ? 'Logit lens' : '';
  if (!data.lens) return box.replaceChildren();
  if (at < 0) return box.replaceChildren(make('p', {class: 'dim'}, 'The lens did not look at the row before this token.'));
  const nVocab = Math.max(10, ...data.lens.rank.map((row) => row[at] ?? 0));
  const chosen = data.ids[state.token];
  const rows = data.lens.layers.map((layer, l) => lensRow(layer, data.lens.top[l][at], data.lens.rank[l][at], chosen, nVocab));
  const head = make('tr', {}, make('th', {}, 'layer'), make('th', {}, 'rank'), ...['best', '2nd', '3rd'].map((name) => make('th', {}, name)));
  box.replaceChildren(make('table', {class: 'lens'}, make('thead', {}, head), make('tbody', {}, ...rows)));
}

function lensRow(layer, top, rank, chosen, worst) {
  const rankCell = make('td', {class: 'rank'}, make('i', {class: 'p-bar'}), make('span', {}, rank === null ? '' : `${rank + 1}`));
  // On a log scale: a full bar is the best rank, none the worst one here.
  if (rank !== null) rankCell.firstChild.style.width = `${100 * (1 - Math.log(rank + 1) / Math.log(worst + 1))}%`;
  const best = top.slice(0, 3).map(([id, p]) => {
    const cell = make('td', {class: id === chosen ? 'is-chosen' : '', title: `${textOf(id)}  p = ${number(p)}`}, tokenElement(id),
                      make('small', {}, number(p)));
    cell.style.setProperty('--p', p.toFixed(3));
    return cell;
  });
  const row = make('tr', {}, make('th', {scope: 'row'}, `${layer}`), rankCell, ...best);
  row.title = top.map(([id, p]) => `${textOf(id)}  ${number(p)}`).join('\n');
  return row;
}

watch('token', showTitle);
watch('token', showBest);
watch('token', showLens);
