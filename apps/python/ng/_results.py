"""What an engine gives: plain values and arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, NoReturn, Optional, Tuple

from . import _habits, _show
from ._arrays import Floats, Ids


class PointShape(NamedTuple):
    """A point of the model. Its rows are [width], or [heads, width] where ``heads`` is not 0."""

    name: str
    heads: int
    width: int


class TokenLogprob(NamedTuple):
    """What the model says of a token at its place: ``logprob`` in nats, of the raw logits; and the
    ``top`` most probable tokens there, [(id, logprob)], falling."""

    token: int
    logprob: float
    top: List[Tuple[int, float]]


@dataclass
class Step:
    """A token that was chosen.

    request: index of the prompt; step: from 0; token: its id.
    text: what the answer's text gains by it, cut between characters; what may be the beginning of a
        text that ends the answer comes later.
    With ``records``: logprob of the token and entropy of the distribution, in nats; top: the ten
        most probable tokens, [(id, probability)]. All of the raw logits, before the sampler chain.
        With attention.sparse.measure missed: {"mean", "most", "layer", "head"}, the share of
        attention that went to pages which were not read, of all layers and heads and of the worst.
    With ``logprobs=k``: logprob, and logprobs of the k most probable tokens, [(id, logprob)].
    With ``stages``: what each stage of the chain left, {"name", "left", "top"}.
    With ``attention``: {layer: float32 [heads, position + 1]}, the probabilities of the query whose
        logits chose the token.
    With ``logits_hash``: a hash of the bits of these logits.
    With ``logits``, in a stream: float32 [vocab_size], these logits themselves.
    What was not asked for is None, or empty.
    """

    request: int
    step: int
    token: int
    text: str
    logprob: Optional[float]
    entropy: Optional[float]
    top: List[Tuple[int, float]]
    stages: List[Dict[str, Any]]
    attention: Dict[int, Floats]
    logits_hash: Optional[int]
    logprobs: Optional[List[Tuple[int, float]]] = None
    missed: Optional[Dict[str, float]] = None
    logits: Optional[Floats] = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        figures = {"logprob": self.logprob, "entropy": self.entropy}
        words = "".join(f", {name}={value:.4g}" for name, value in figures.items() if value is not None)
        return f"Step({self.step}, token={self.token}, {_show.short(self.text)}{words})"


@dataclass
class Completion:
    """What a prompt has become.

    ids: prompt and answer; prompt_len: how many are the prompt's.
    text: the answer's; None without a tokenizer.
    stop_reason: "eot", "stage", "stop_text", "max_new_tokens", "interrupted" or, after an error,
        "error".
    timings: seconds and tokens of prefill and decode.
    logits: float32 [prompt_len, vocab_size], with ``logits=True``.
    decode_logits: float32 [n_answer, vocab_size], with ``decode_logits=True``: row s chose token s.
    points: {name: float32 [n_fed, width] or [n_fed, heads, width]}, of ``points``: rows of all
        tokens but the last, which nothing follows.
    attention: {layer: float32 [heads, n, n]}, with ``attention_map=True``: [h, q, k] is what head h
        gives key k in the row of query q.
    dropped_at: int32 [layers, kv heads, len(ids)], with ``dropped_at=True`` and a cache with a
        budget: how many tokens there were when each left the cache; -1: it has not left; -2: the
        layer has no such head. None where no token has left.
    prompt_logprobs: with ``prompt_logprobs=k``: a TokenLogprob for each token of the prompt, with
        the k most probable at its place; None for the first, which nothing comes before.
    steps: with ``records``, ``logprobs``, ``stages``, ``attention`` or ``logits_hash``: a Step for
        each token.
    """

    ids: List[int]
    prompt_len: int
    stop_reason: str
    text: Optional[str]
    timings: Dict[str, float]
    logits: Optional[Floats] = field(default=None, repr=False)
    decode_logits: Optional[Floats] = field(default=None, repr=False)
    points: Dict[str, Floats] = field(default_factory=dict, repr=False)
    attention: Dict[int, Floats] = field(default_factory=dict, repr=False)
    dropped_at: Optional[Ids] = field(default=None, repr=False)
    prompt_logprobs: Optional[List[Optional[TokenLogprob]]] = field(default=None, repr=False)
    steps: List[Step] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.prompt_logprobs is not None:
            self.prompt_logprobs = [token and TokenLogprob(*token) for token in self.prompt_logprobs]

    def __repr__(self) -> str:
        said = "" if self.text is None else f"{_show.short(self.text)}, "
        return (f"Completion({said}{self.prompt_len} + {len(self.answer_ids)} tokens, "
                f"{self.stop_reason})")

    def _repr_html_(self) -> str:
        facts = {"text": self.text, "tokens": f"{self.prompt_len} + {len(self.answer_ids)}",
                 "stop reason": self.stop_reason, "prefill, s": self.timings["prefill_s"],
                 "decode, s": self.timings["decode_s"]}
        facts.update({name: _show.shape(rows) for name, rows in self.points.items()})
        return (_show.facts("Completion", facts) + _show.tokens(self.steps)
                + _show.attention(self.attention))

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> NoReturn:
            raise _habits.attribute(name, "Completion")

        def __getitem__(self, name: Any) -> NoReturn:
            raise TypeError(f"a completion is no dict: {_habits.attribute(str(name), 'Completion')}")

    @property
    def answer_ids(self) -> List[int]:
        """The ids behind the prompt, the one that ended the answer included."""
        return self.ids[self.prompt_len:]

    def __str__(self) -> str:
        return self.text if self.text is not None else " ".join(map(str, self.answer_ids))


@dataclass
class Difference:
    """What ng-diff says of two configs (apps/diff/README.md).

    equal: every bit that was compared.
    first: None, or the first element that differs: "point", "layer", "position", "element", "a", "b".
    kl_mean: of KL(A || B) for each token, in nats; argmax_flips: tokens with another most probable
        next one.
    points: {name: figures}, in the order in which a token meets them: "max_abs", "max_rel",
        "rms_rel", "max_ulp", "equal_share", "rows", "not_compared", "first".
    only_a, only_b: points that one side alone has.
    """

    equal: bool
    first: Optional[Dict[str, Any]]
    kl_mean: Optional[float]
    argmax_flips: Optional[int]
    points: Dict[str, Dict[str, Any]] = field(repr=False)
    only_a: List[str] = field(repr=False)
    only_b: List[str] = field(repr=False)

    def __repr__(self) -> str:
        if self.equal or self.first is None:
            return f"Difference(equal, {len(self.points)} points)"
        at = self.first
        layer = "" if at["layer"] is None else f"layer{at['layer']}."
        return (f"Difference(first at {layer}{at['point']}, position {at['position']}; "
                f"kl_mean={_show.number(self.kl_mean)}, argmax_flips={self.argmax_flips})")

    def _repr_html_(self) -> str:
        rows = [(name, each["max_abs"], each["rms_rel"], each["equal_share"])
                for name, each in self.points.items()]
        return _show.facts(repr(self), {}) + _show.table(
            rows, ("point", "largest difference", "rms, relative", "equal share"))
