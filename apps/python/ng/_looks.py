"""What an engine shows of itself and of its steps: forward, hooks, and what the programs say."""

from __future__ import annotations

import html
import inspect
import json
import operator
import os
from dataclasses import dataclass, field
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence,
                    Tuple)

from . import _arrays, _habits, _ng, _show
from ._arrays import Floats, Ids
from ._errors import UsageError
from ._parts import Rows
from ._words import Overrides, Path
from ._words import settings as _settings


class Forward(NamedTuple):
    """What :meth:`Engine.forward` gives, shaped as transformers shapes it.

    logits: float32 [batch, n, vocab_size]; [batch, n, 0] with ``logits=False``.
    hidden_states: 1 + n_layers of float32 [batch, n, width]: the embedding, what each layer puts out,
        and in the place of the last one what the head reads, behind the final norm. Empty unless asked.
    attentions: of each layer with attention float32 [batch, n_heads, n, n], [b, h, q, k] being what
        head h gives key k in the row of query q. Empty unless asked.

    Those of a tuple are views of one array.
    """

    logits: Floats
    hidden_states: Tuple[Floats, ...]
    attentions: Tuple[Floats, ...]

    def __repr__(self) -> str:
        parts = [f"logits={_show.shape(self.logits)}"]
        for name, several in (("hidden_states", self.hidden_states), ("attentions", self.attentions)):
            if several:
                parts.append(f"{name}={len(several)} x {_show.shape(several[0])}")
        return f"Forward({', '.join(parts)})"

    def _repr_html_(self) -> str:
        maps = {i: layer[0] for i, layer in enumerate(self.attentions)}
        return f"<code>{html.escape(repr(self))}</code>" + _show.attention(maps)


class Hook:
    """A function that is called with what steps make at a point, until :meth:`remove`. From
    :meth:`Engine.hook`; use it in a ``with`` block."""

    kind = "hook"

    def __init__(self, raw: _ng.Engine, point: str, call: Callable[..., Any], edits: bool) -> None:
        self.name = point
        self.points = [point]
        self.edits = edits
        self.call = _of_rows(call, edits)
        self._raw = raw
        self._number: Optional[int] = raw.add_hook(self)

    def remove(self) -> None:
        """It is called no more. May be done twice."""
        number, self._number = self._number, None
        if number is not None:
            self._raw.remove_hook(number)

    def __enter__(self) -> "Hook":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.remove()

    def __repr__(self) -> str:
        state = "" if self._number is not None else ", removed"
        return f"Hook({self.name!r}{'' if self.edits else ', edits=False'}{state})"


def _of_rows(call: Callable[..., Any], edits: bool) -> Callable[[Rows], Any]:
    """``call`` for a function that gets Rows."""
    try:
        kinds = [p.kind for p in inspect.signature(call).parameters.values()
                 if p.default is p.empty]
    except (TypeError, ValueError):  # builtins that say nothing of themselves
        kinds = []
    both = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) + kinds.count(
        inspect.Parameter.POSITIONAL_ONLY) > 1

    def changing(rows: Rows) -> Any:
        return call(rows.values, rows) if both else call(rows.values)

    def looking(rows: Rows) -> Any:
        rows.values.flags.writeable = False
        return changing(rows)

    return changing if edits else looking


@dataclass(repr=False)
class Evaluation:
    """What ng-eval says of texts (apps/eval/README.md).

    perplexity: exp of the mean of -log p(token).
    n_scored: tokens; windows: in which they were fed; window: the most tokens of one.
    against: {"perplexity", "kl_mean", "kl_p99", "equal_argmax", ...} of the other engine; KL in nats.
        None without one.
    figures: all of it, as ``ng-eval --output jsonl`` has it.
    """

    perplexity: float
    n_scored: int
    windows: int
    window: int
    against: Optional[Dict[str, Any]]
    figures: Dict[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        other = "" if self.against is None else (
            f", against perplexity={self.against['perplexity']:.6g}, kl_mean={self.against['kl_mean']:.3g}")
        return f"Evaluation(perplexity={self.perplexity:.6g}, n_scored={self.n_scored}{other})"

    def _repr_html_(self) -> str:
        rows: Dict[str, Any] = {"perplexity": self.perplexity, "tokens scored": self.n_scored}
        rows.update({f"against: {key}": value for key, value in (self.against or {}).items()})
        return _show.facts("Evaluation", rows)


class Plan(Dict[str, Any]):
    """What a run takes. A dict of "fits", "needed_bytes", "available_bytes", "weight_bytes",
    "cache_bytes" ..., all in bytes; where it does not fit, "remedy" says what would.

    report: what ``ng-plan --output jsonl`` prints, operations among it; its tables are the text of it.
    """

    report: Dict[str, Any]
    _tables: str

    def __str__(self) -> str:
        return self._tables

    def __repr__(self) -> str:
        fits = "fits" if self["fits"] else "does not fit"
        return f"Plan({fits}: {self['needed_bytes']:,} of {self['available_bytes']:,} bytes)"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._tables)}</pre>"


class View:
    """The page of a run, as ``ng-run --view`` writes it: one HTML text that needs nothing else. In a
    notebook it is shown."""

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: Path) -> None:
        """Writes the page."""
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"View({len(self.html):,} characters; save(path) writes them)"

    def _repr_html_(self) -> str:
        return (f"<iframe srcdoc=\"{html.escape(self.html)}\" width='100%' height='600' "
                "style='border:0'></iframe>")


class _Hinting(type):
    """A class that says other libraries' names for what it has."""

    if not TYPE_CHECKING:
        def __getattr__(cls, name: str) -> NoReturn:
            raise _habits.attribute(name, "ng" if name == "from_pretrained" else "Engine")


class Looks(metaclass=_Hinting):
    """The part of :class:`Engine` that shows and changes what is inside."""

    _raw: _ng.Engine

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> NoReturn:
            raise _habits.attribute(name, "Engine")

    def _prompts(self, prompt: Any) -> Tuple[List[Ids], bool]:
        raise NotImplementedError  # Engine's

    def _batch(self, ids: Any) -> List[Ids]:
        """The prompts of ids [batch, n] or [n], of a text, or of a list of either."""
        if len(getattr(ids, "shape", ())) == 2:
            return [_arrays.ids(row) for row in _arrays.array(ids, None)]
        return self._prompts(ids)[0]

    def forward(self, ids: Any, *, output_hidden_states: bool = False,
                output_attentions: bool = False, logits: bool = True) -> Forward:
        """Whole prompts in one go, and what they make: a :class:`Forward`, shaped as transformers
        shapes it. Nothing is generated and no sequence is needed.

        ids: token ids [n] or [batch, n] (array, tensor or lists), a text, or a list of texts; all of one
            length n.
        output_hidden_states, output_attentions, logits: what of it is kept. Each is gathered in one
            array as the layers make it, and copied nowhere else.
        """
        prompts = self._batch(ids)
        if not prompts:
            raise UsageError("forward of no prompts; give one at least")
        made = self._raw.forward(prompts, logits, output_hidden_states, output_attentions)
        hidden, attention = made["hidden"], made["attention"]
        return Forward(made["logits"][0], tuple(hidden), tuple(attention))

    def hook(self, point: str, call: Callable[..., Any], *, edits: bool = True) -> Hook:
        """From now on every step, of ``generate`` and of sequences, calls ``call`` with what it makes
        at a point, until the end of the ``with`` block or :meth:`Hook.remove`::

            def ablate(values):          # float32 [n, width], or [n, heads, width]
                values[:, 3] = 0         # head 3; the step goes on with what is there
            with engine.hook("layer5.attn_head", ablate):
                engine.generate("To be")

        point: a name or pattern of ``engine.points``, "layer5.out", "layer*.q".
        call: gets the values, which it may change in place or replace by what it returns (None: as they
            are). With two parameters it gets :class:`Rows` too: tokens, positions, requests. It may
            keep the array. What it raises ends the step and comes out of the call as it is.
        edits: False where it only looks; the array cannot be written then, prompts may share what they
            have in common, and sequences can be saved.

        An edit must depend on nothing but a row's tokens up to its position. A prompt may come in
        several chunks. "norm" and "logits" have rows only where logits are made.
        """
        return Hook(self._raw, point, call, edits)

    def eval(self, text: Any, *, against: "Optional[Looks]" = None, window: Optional[int] = None
             ) -> Evaluation:
        """The perplexity of texts, and how far another engine's predictions are from this one's, by
        ng-eval's own code. Both are loaded for it; neither may have open sequences. Hooks are called.

        text: a text, token ids, a list of either, or the path of a text file (a ``pathlib.Path``).
        against: another engine with the same vocabulary.
        window: tokens that are fed to an empty cache at a time; by default as many as fit.
        """
        if isinstance(text, os.PathLike):
            with open(text, encoding="utf-8") as file:
                text = file.read()
        other = None if against is None else against._raw
        line = self._raw.evaluate(other, self._batch(text), window or 0)
        figures = json.loads(line)
        return Evaluation(figures["perplexity"], figures["scored_tokens"], figures["windows"],
                          figures["window"], figures.get("against"), figures)

    def view(self, prompt: Any, max_new_tokens: Optional[int] = None, *,
             settings: Optional[Overrides] = None, layers: Sequence[int] = (),
             most_bytes: int = 60_000_000) -> View:
        """Runs a prompt and makes the page of the run: tokens, probabilities, logit lens, attention. In
        a notebook it is shown; ``save(path)`` writes it.

        prompt: a text or token ids; max_new_tokens: run.max_new_tokens by default.
        settings: sampler.* keys for this run.
        layers: whose attention is in it; all by default, which may take ``most_bytes``.
        """
        prompts, many = self._prompts(prompt)
        if many:
            raise UsageError(f"a page is of one prompt, not of {len(prompts)}")
        if max_new_tokens is None:
            max_new_tokens = self._raw.default_max_new_tokens()
        request = {"ids": prompts[0], "max_new_tokens": operator.index(max_new_tokens),
                   "settings": _settings(settings)}
        return View(self._raw.view(request, sorted({operator.index(i) for i in layers}), most_bytes))

    def pack(self, path: Path) -> None:
        """Writes the weights as the kernels read them, for the key model.packed, as ng-pack does: a
        start with them maps the file and reads nothing."""
        self._raw.pack(os.fspath(path))


def plan_of(facts: Dict[str, Any], printed: Tuple[str, str]) -> Plan:
    """Of what the engine and ng-plan say."""
    made = Plan(facts)
    made.report, made._tables = json.loads(printed[0]), printed[1]
    return made
