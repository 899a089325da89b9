"""How objects look: in one line, and in a notebook."""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping, Sequence, Tuple

import numpy as np

from ._arrays import Floats

_SIDE = 48    # cells of a picture
_LEVELS = 12  # shades of it
_MAPS = 8     # pictures at a time


def short(text: str, most: int = 60) -> str:
    """The text in quotes, cut where it is long."""
    return repr(text if len(text) <= most else text[:most - 1] + "…")


def number(value: Any) -> str:
    """Three digits; "None" where there is no number."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def shape(array: Any) -> str:
    """ "float32 [3, 512]"; "None" where there is nothing. """
    return "None" if array is None else f"{array.dtype} {list(array.shape)}"


def table(rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """An HTML table. The cells are texts, never HTML, but for those of :func:`picture`."""
    def cells(row: Sequence[Any], tag: str) -> str:
        return "".join(f"<{tag} style='text-align:left'>{_cell(value)}</{tag}>" for value in row)

    lines = [f"<tr>{cells(head, 'th')}</tr>"] if head else []
    lines += [f"<tr>{cells(row, 'td')}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


class _Html(str):
    pass


def _cell(value: Any) -> str:
    if isinstance(value, _Html):
        return value
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))


def facts(title: str, pairs: Mapping[str, Any]) -> str:
    """A heading and a table of what each thing is."""
    return f"<b>{html.escape(title)}</b>" + table(pairs.items())


def _squares(matrix: Floats) -> Floats:
    """The largest values of squares of a matrix [n, n], at most _SIDE of them a side."""
    n = len(matrix)
    if n <= _SIDE:
        return matrix
    edges = np.arange(_SIDE) * n // _SIDE
    rows: Floats = np.maximum.reduceat(matrix, edges, axis=0)
    squares: Floats = np.maximum.reduceat(rows, edges, axis=1)
    return squares


def picture(matrix: Floats, title: str) -> str:
    """A matrix of probabilities [query, key] as SVG: queries down, keys across, on a log scale."""
    small = _squares(matrix)
    n = len(small)
    shades = np.zeros(small.shape, int)
    seen = small > 1e-4
    shades[seen] = np.ceil(_LEVELS * (1 + np.log10(small[seen]) / 4)).astype(int)
    paths = []
    for level in range(1, _LEVELS + 1):
        places = np.argwhere(shades == level)
        if len(places) > 0:
            cells = "".join(f"M{key} {query}h1v1h-1z" for query, key in places)
            paths.append(f"<path fill='#1f4e9c' fill-opacity='{level / _LEVELS:.2f}' d='{cells}'/>")
    return _Html(f"<svg viewBox='0 0 {n} {n}' width='120' height='120' style='background:#f4f4f4'>"
                 f"<title>{html.escape(title)}</title>{''.join(paths)}</svg>")


def attention(maps: Mapping[int, Floats]) -> str:
    """A row of pictures of {layer: [heads, query, key]}: the mean of each layer's heads."""
    layers = sorted(maps)
    few = layers if len(layers) <= _MAPS else [layers[i * len(layers) // _MAPS] for i in range(_MAPS)]
    pictures = [picture(maps[layer].mean(axis=0), f"layer {layer}, mean of {len(maps[layer])} heads")
                for layer in few]
    return table([pictures], [f"layer {layer}" for layer in few]) if few else ""


def tokens(steps: Sequence[Any]) -> str:
    """A table of steps with records: token, logprob, entropy."""
    rows: Iterable[Tuple[Any, ...]] = (
        (step.step, step.token, step.text, step.logprob, step.entropy)
        for step in steps[:32] if step.logprob is not None)
    return table(rows, ("step", "token", "text", "logprob, nats", "entropy, nats"))
