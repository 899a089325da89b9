"""Parts of a run in Python: sampler stages, probes, a drafter. Slow, for trying things out."""

import re
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _ng, _show
from ._arrays import Floats, Ids
from ._errors import UsageError


class Candidates:
    """The tokens that may come next, as a stage gets them.

    ids: int32 [n], the tokens; cannot be changed.
    logits: float32 [n], to be changed in place; -inf removes a candidate.
    tokens: int32 [n_tokens], the sequence so far, prompt included.
    seed, request, step: what a draw depends on; ``step`` 0 chooses the first new token.

    Each array is made when it is asked for first; it may be kept.
    """

    __slots__ = ("ids", "logits", "tokens", "seed", "request", "step", "_key", "_made_of")

    ids: Ids
    logits: Floats
    tokens: Ids

    def __init__(self, made_of: _ng.StageStep, key: Tuple[int, int, int, int]):
        self._made_of = made_of
        self.seed, self.request, self.step = key[:3]
        self._key = key

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            if name not in ("ids", "logits", "tokens"):
                raise AttributeError(f"Candidates have no '{name}'")
            made = getattr(self._made_of, name)()
            setattr(self, name, made)
            return made

    def __repr__(self) -> str:
        return f"Candidates({len(self.ids)} of step {self.step}, {len(self.tokens)} tokens before)"

    def uniform(self, n: int = 0) -> float:
        """The n-th random number in [0, 1) of this step: always the same for seed, request, step
        and the stage's name."""
        return _ng.uniform(self._key, n)


class Rows:
    """What a step holds at a point: a row for each token that it feeds.

    point: "layer3.out".
    values: float32 [n, width], or [n, heads, width] where rows have heads; a copy.
    tokens: int32 [n]; positions: int64 [n], from 0.
    requests: int32 [n], the index of each row's request in the run; -1 where a sequence is fed step
        by step.
    sequences: int64 [n], the cache's number of each row's sequence.
    """

    __slots__ = ("point", "values", "tokens", "positions", "requests", "sequences")

    def __init__(self, point: str, values: Floats, tokens: Ids, positions: npt.NDArray[np.int64],
                 requests: Ids, sequences: npt.NDArray[np.int64]):
        self.point = point
        self.values = values
        self.tokens = tokens
        self.positions = positions
        self.requests = requests
        self.sequences = sequences

    def __repr__(self) -> str:
        return f"Rows({self.point!r}, {_show.shape(self.values)})"


def _checked_name(name: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return name
    raise UsageError(f"a part's name must be lower case letters, digits and _, not '{name}'")


class Stage:
    """A sampler stage: ``call(candidates)`` gets :class:`Candidates` and changes their logits in
    place, or returns new ones, float32 [n].

    ``accept(token, tokens)``, where it is given, is told of each token of the answer, with all of
    the sequence; what is true ends the sequence with stop reason "stage".

    The engine calls it by ``name`` in sampler.chain. One that the chain does not name comes first,
    so that it sees every token of the vocabulary. What it does must depend on what it is given
    alone.
    """

    kind = "sampler"

    def __init__(self, name: str, call: Callable[[Candidates], Any],
                 accept: Optional[Callable[[int, Ids], Any]] = None):
        self.name = _checked_name(name)
        self.call = call
        self.accept = accept

    def __repr__(self) -> str:
        return f"Stage({self.name!r})"


class Probe:
    """Looks into each step: ``call(rows)`` gets :class:`Rows` of each point.

    points: names or patterns, "layer3.out", "layer*.q".
    edits: the step goes on with ``rows.values`` as the call leaves them, or with what it returns.
        The edit must depend on nothing but the rows' tokens up to their positions: the same position
        may be fed in any chunk, in any batch, and again.
    """

    kind = "probe"

    def __init__(self, name: str, points: Union[str, Sequence[str]], call: Callable[[Rows], Any],
                 edits: bool = False):
        self.name = _checked_name(name)
        self.points = [points] if isinstance(points, str) else list(points)
        self.call = call
        self.edits = edits

    def __repr__(self) -> str:
        return f"Probe({self.name!r}, {self.points}{', edits=True' if self.edits else ''})"


class Drafter:
    """Proposes how a sequence goes on: ``call(tokens, most)`` gets its tokens so far, int32 [n_tokens],
    prompt included, and returns at most ``most`` ids that may follow, or None.

    A step then checks all of them at once. Those that the sampler chain chooses, too, have saved a step
    each; the others are taken back. So it decides how fast a run is and never what it says: ids,
    logits and records are those of the plain run. ``call`` must depend on what it is given alone.

    It is the run's drafter: drafter.name in the config may name it, and no other one. drafter.gamma is
    the most that a step asks for. With drafter.adapt (the default) a step asks for as many as gain time,
    which may be none: a slow function is soon asked no more.
    """

    kind = "drafter"

    def __init__(self, name: str, call: Callable[[Ids, int], Any]):
        if name == "none":
            raise UsageError("a drafter's name cannot be 'none', which stands for no drafter")
        self.name = _checked_name(name)
        self.call = call

    def __repr__(self) -> str:
        return f"Drafter({self.name!r})"
