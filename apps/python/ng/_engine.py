"""Engine and what it gives."""

from __future__ import annotations

import json
import operator
import os
import threading
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional,
                    NoReturn, Sequence as Many, Tuple, TypedDict, Union, overload)

import numpy as np
import numpy.typing as npt

from . import _arrays, _habits, _ng, _notes, _options, _show, _tokenizer, _words
from ._arrays import Floats, Ids
from ._errors import OpenAgainError, UsageError
from ._looks import Looks, Plan, plan_of
from ._parts import Drafter, Probe, Rows, Stage
from ._requests import Flight, Request
from ._results import Completion, Difference, PointShape, Step
from ._tokenizer import Encoding, Tokenizer
from ._words import Overrides, Path
from ._words import path as _path
from ._words import settings as _settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

# One prompt: a text, or token ids in anything that holds integers (a list, an array, a buffer, a
# tensor with __dlpack__).
Prompt = Any
Messages = Union[str, Many[Mapping[str, Any]]]

_ROWS = 32  # of one sequence, whose logits are made in one step


class GenerateOptions(TypedDict, total=False):
    """What :meth:`Engine.generate` takes beside prompt and max_new_tokens, by name."""

    # sampler.* keys for this call, {"sampler.seed": 7}; of several prompts also a list, one for each
    settings: Union[Overrides, Many[Overrides]]
    # The same in the words of other libraries. They bring the stage that they need. Temperature 0 is
    # greedy.
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    seed: int
    stop: Union[str, Many[str]]  # texts that end the answer
    logit_bias: Mapping[int, float]  # {id: what is added to its logit}
    json_schema: Union[str, Mapping[str, Any]]  # the answer is JSON of this schema
    grammar: str  # the answer is the rule root of this GBNF
    max_tokens: int  # max_new_tokens
    n: int  # answers to each prompt: a list of them, or of several prompts a list of lists
    sequence: Sequence  # open, with tokens that the prompt begins with; the rest is fed to it
    load_cache: Path  # a snapshot that the prompt begins with
    save_cache: Path  # where one of the prompt is written
    records: bool  # Step.logprob, .entropy, .top
    logprobs: int  # Step.logprob, and so many of the most probable in .logprobs
    prompt_logprobs: int  # the same of the prompt's tokens: Completion.prompt_logprobs
    stages: bool  # Step.stages
    logits_hash: bool  # Step.logits_hash
    attention: bool  # Step.attention
    attention_map: bool  # Completion.attention
    dropped_at: bool  # Completion.dropped_at
    layers: Many[int]  # of which attention is kept; all by default. In any order
    heads: Many[int]  # likewise; the rows are in rising order of the heads
    logits: bool  # Completion.logits; in a stream also Step.logits
    decode_logits: bool  # Completion.decode_logits
    points: Union[str, Many[str]]  # Completion.points: names or patterns, "layer*.out"
    on_point: Mapping[str, Callable[[Rows], Any]]  # {name or pattern: call}, as rows are made


# Options with which an answer may be long.
_PLAIN = {"settings", "load_cache", "save_cache", "records", "logprobs", "logits_hash", *_words.WORDS}
# Options that need the engine for themselves.
_ALONE = ("stages", "logits_hash", "attention", "attention_map", "dropped_at", "logits",
          "decode_logits", "points", "on_point", "sequence", "load_cache", "save_cache")


def _count(name: str, given: Any) -> int:
    """logprobs and prompt_logprobs; -1: not asked for."""
    if given is None or given is False:
        return -1
    if operator.index(given) < 0:
        raise UsageError(f"{name} = {given}, must be 0 or more")
    return 0 if given is True else operator.index(given)


def _is_model(path: Path) -> bool:
    """A GGUF file or a folder, which no config is."""
    return os.fspath(path).lower().endswith(".gguf") or os.path.isdir(path)


def _answers(options: Any) -> Optional[int]:
    """Takes n out of the options, and what is None, which is as if it was not given."""
    for name in [name for name in GenerateOptions.__annotations__ if options.get(name, 0) is None]:
        del options[name]
    n = options.pop("n", None)
    if n is None:
        return None
    if operator.index(n) < 1:
        raise UsageError(f"n = {n}, must be 1 or more")
    if options.get("sequence") is not None or options.get("save_cache"):
        raise UsageError("sequence and save_cache are for one answer, n is for several")
    return operator.index(n)


class Sequence:
    """Tokens in the engine's cache, to be fed step by step. From :meth:`Engine.open`.

    Use it in a ``with`` block, or close it; what is forgotten is closed, too.
    """

    def __init__(self, engine: "Engine", number: int):
        self._engine = engine
        self._number = number
        self._open = True

    def __repr__(self) -> str:
        return f"Sequence({len(self.ids)} tokens)" if self._open else "Sequence(closed)"

    @property
    def ids(self) -> List[int]:
        """The tokens that it holds."""
        return self._engine._raw.ids(self._number) if self._check() else []

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a sequence cannot be copied or pickled; fork() makes a second one")

    def _check(self) -> bool:
        if not self._open:
            raise OpenAgainError("the sequence is closed")
        return True

    def extend(self, tokens: Any, rows: str = "last", copy: bool = True) -> Floats:
        """Feeds tokens. Returns the logits behind the last, float32 [vocab_size], or with
        ``rows="all"`` those behind each, [n, vocab_size]. ``copy``: see :meth:`Engine.extend`."""
        logits = self._engine.extend([self], [tokens], rows, copy)
        return logits if rows == "all" else logits[0]

    def prefill(self, prompt: Any, copy: bool = True) -> Floats:
        """Feeds a whole prompt to an empty sequence. Returns float32 [vocab_size]."""
        row: Floats = self._engine.prefill([self], [prompt], copy)[0]
        return row

    def decode_step(self, token: int, copy: bool = True) -> Floats:
        """Feeds one token. Returns float32 [vocab_size]."""
        row: Floats = self._engine.decode_step([self], [token], copy)[0]
        return row

    def truncate(self, length: int) -> None:
        """Forgets the tokens from ``length`` on."""
        if self._check():
            self._engine._raw.truncate(self._number, length)

    def fork(self, capacity: Optional[int] = None) -> "Sequence":
        """A second sequence with the same tokens."""
        self._check()
        number = self._engine._raw.fork_sequence(self._number, capacity or 0)
        return Sequence(self._engine, number)

    def save(self, path: Path) -> None:
        """Writes a snapshot: tokens, keys and values. The engine must have been made with
        ``snapshots=True``."""
        self._check()
        self._engine._raw.save_sequence(self._number, os.fspath(path))

    def close(self) -> None:
        """Forgets its tokens and gives their room back. May be done twice."""
        if self._open:
            self._open = False
            self._engine._raw.close_sequence(self._number)

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Generation:
    """A run that goes on a token at a time: iterate over it. From :meth:`Engine.generate_steps`.

    It ends with the last token, with :meth:`close` of it or of the engine, or when it is forgotten.
    After an error or Ctrl-C its ``completion`` is the answer so far, with the stop reason "error" or
    "interrupted".
    """

    def __init__(self, raw: "Optional[_ng.SteppedRun]", many: bool,
                 sequence: Optional[Sequence] = None):
        self._raw = raw  # None: of no prompts
        self._many = many
        self._sequence = sequence  # open as long as this

    def __repr__(self) -> str:
        return f"Generation({'of several prompts' if self._many else 'of one prompt'})"

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        try:
            step = None if self._raw is None else self._raw.next()
        except StopIteration as error:  # of a callback: it must not look like the end (PEP 479)
            raise RuntimeError("a callback raised StopIteration") from error
        if step is None:
            raise StopIteration
        return Step(**step)

    def cancel(self) -> None:
        """Ends it as soon as possible: a step of it that another thread waits for is the last one,
        and ``completion`` is the answer so far, "interrupted". Any thread; does not wait."""
        if self._raw is not None:
            self._raw.cancel()

    def close(self) -> Union[Completion, List[Completion]]:
        """Ends what has not ended, as "interrupted". Returns the completion, or a list of them where
        several prompts were given."""
        ended = None if self._raw is None else self._raw.finish()
        done = [Completion(**fields) for fields in ended or []]
        return done if self._many or not done else done[0]

    completion = property(close, doc="The same.")

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


class Engine(Looks):
    """A config with its model, ready to run.

    config: an INI file (configs/README.md), or a model as ``model``; without one, ``model`` or
        ``overrides`` say what runs.
    overrides: config keys with their values, {"sampler.chain": "greedy", "run.threads": 2}; they win.
    model: a GGUF file or a model folder: model.path.
    random_weights: a config.json; its shape runs with weights that are made up.
    stages, probes, drafter: parts in Python.
    warning: called with what the user should know though it is no error, a line at a time; by default
        it is an :class:`EngineWarning`.
    progress: True for a bar of what takes long, False for none, None for one in a terminal or a
        notebook; or a function that is called with phase, done and total.
    max_tokens, max_sequences, prompt_logits, snapshots: what the weights are loaded for at least.
        They are loaded when something is computed first, and again when something needs more, which
        ends no open sequence but is refused while there are any. max_tokens: of the longest sequence;
        max_sequences: at a time; prompt_logits: the logits of whole prompts, or their points norm and
        logits, will be asked for; snapshots: sequences will be saved or loaded.

    Threads may use an engine side by side: their calls wait for each other, in the order in which
    they came; what :meth:`submit`, :meth:`agenerate` and :meth:`astream` are given runs side by side.
    What an engine calls must not call it, nor wait for a thread that does. The GIL is free while it
    computes. Ctrl-C stops it between two layers with KeyboardInterrupt; it can be used again then.
    """

    def __init__(self, config: Optional[Path] = None, overrides: Optional[Overrides] = None, *,
                 model: Optional[Path] = None, random_weights: Optional[Path] = None,
                 stages: Many[Stage] = (), probes: Many[Probe] = (),
                 drafter: Optional[Drafter] = None,
                 warning: Optional[Callable[[str], Any]] = None,
                 max_tokens: int = 0, max_sequences: int = 0, prompt_logits: bool = False,
                 snapshots: bool = False, progress: _notes.Progress = None):
        if model is None and config is not None and _is_model(config):
            config, model = None, config
        lines = [] if model is None else [f"model.path={os.fspath(model)}"]
        self._raw = _ng.Engine({
            "config": _path(config),
            "overrides": lines + _settings(overrides),
            "random_weights": _path(random_weights),
            "parts": [*stages, *probes, *([] if drafter is None else [drafter])],
            "warning": _notes.warn if warning is None else warning,
            "progress": _notes.progress_for(progress),
            "max_tokens": max_tokens,
            "max_sequences": max_sequences,
            "prompt_logits": prompt_logits,
            "snapshots": snapshots,
        })
        self._warning = warning
        self._tokenizer: Optional[Tokenizer] = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._flight: Optional[Flight] = None  # as long as requests are in flight

        _notes.log.info("opened %r", self)

    def __repr__(self) -> str:
        try:
            model, config = self.model, self.config
        except UsageError:
            return "Engine(closed)"
        return (f"Engine({model['family']}, {model['n_layers']} layers, {config['cache.name']} cache of "
                f"{config['cache.codec']}, {self.isa}, {self.threads} threads)")

    def _repr_html_(self) -> str:
        try:
            return _show.facts("Engine", {**self.model, "isa": self.isa, "threads": self.threads, **{
                key: self.config[key] for key in ("model.path", "attention.name", "cache.name",
                                                  "cache.codec", "sampler.chain")}})
        except UsageError:
            return _show.facts(repr(self), {})

    # What it is.

    @property
    def config(self) -> Dict[str, str]:
        """Every config key with its value."""
        return self._raw.config()

    @property
    def model(self) -> Dict[str, Any]:
        """The model's family and sizes: n_layers, n_heads, vocab_size, max_positions ..."""
        return self._raw.model()

    @property
    def points(self) -> List[PointShape]:
        """Where a step can be looked at, in the order in which a token meets them."""
        return [PointShape(*point) for point in self._raw.points()]

    @property
    def threads(self) -> int:
        return self._raw.threads()

    @property
    def isa(self) -> str:
        """The instruction set level of its kernels: "avx2"."""
        return self._raw.isa()

    @property
    def stop_ids(self) -> List[int]:
        """The tokens that end an answer."""
        return self._raw.stop_ids()

    def set(self, overrides: Overrides) -> None:
        """Changes keys that the next run reads: sampler.*, run.max_new_tokens, run.system ... What an
        earlier call has set is gone."""
        self._raw.set(_settings(overrides))

    def plan(self, max_tokens: Optional[int] = None, max_sequences: int = 1,
             prompt_logits: bool = False) -> Plan:
        """What a run takes, before anything is loaded: a :class:`Plan`.

        max_tokens: prompt and answer of the longest; by default the model's context, at most 1024.
        max_sequences: so many at a time.
        prompt_logits: the logits of whole prompts are asked for.
        """
        longest: int = self.model["max_positions"] or 1024
        needs = (min(longest, 1024) if max_tokens is None else max_tokens, max_sequences, prompt_logits)
        return plan_of(self._raw.plan(*needs), self._raw.planned(*needs))

    def describe(self, max_tokens: int = 1, max_sequences: int = 1) -> str:
        """What --dry-run prints: config, plugins, blocks, tensors, bytes."""
        return self._raw.describe(max_tokens, max_sequences)

    def reports(self) -> List[str]:
        """What the plugins say about what they did, parts in Python among them."""
        return self._raw.reports()

    def cache_statistics(self) -> Dict[str, int]:
        """What the cache has counted; empty where it counts nothing."""
        return self._raw.cache_statistics()

    # Text.

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, as transformers has it, with the chat template, the system text and
        the date of the config."""
        if self._tokenizer is None:
            if not self._raw.has_tokenizer():
                raise UsageError("the model has no tokenizer; give ids, or tokenizer.path")
            self._tokenizer = _tokenizer.of_engine(self.config, self._warning or (lambda line: None))
        return self._tokenizer

    def encode(self, text: str, parse_special: bool = False) -> List[int]:
        """The ids of a text, with the begin and end tokens that the tokenizer's files ask for.
        parse_special: literals of special tokens become these."""
        return self._raw.encode(text, parse_special)

    def decode(self, ids: Any) -> str:
        """The text of ids; special tokens as their literals, bytes that are no UTF-8 as U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Any) -> bytes:
        """The same as bytes, which may end within a character."""
        return self._raw.decode(_arrays.ids(ids))

    def encode_chat(self, messages: Messages, tools: Optional[Many[Mapping[str, Any]]] = None
                    ) -> List[int]:
        """The ids of a conversation by the model's chat template, up to where the answer begins.
        messages: a user's message, or a list of {"role", "content"}; tools: what the model may call,
        as the template expects it."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self._raw.encode_chat(json.dumps(list(messages)),
                                     "" if tools is None else json.dumps(list(tools)))

    # Whole answers.

    @overload
    def generate(self, prompt: Union[str, List[int], npt.NDArray[Any]],
                 max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]
                 ) -> Completion: ...

    @overload
    def generate(self, prompt: Union[List[str], List[List[int]]],
                 max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]
                 ) -> List[Completion]: ...

    @overload
    def generate(self, prompt: Union[Prompt, Many[Prompt]], max_new_tokens: Optional[int] = None,
                 **options: Unpack[GenerateOptions]) -> Any: ...

    def generate(self, prompt: Union[Prompt, Many[Prompt]], max_new_tokens: Optional[int] = None,
                 **options: Unpack[GenerateOptions]) -> Any:
        """The answer to a prompt, a :class:`Completion`; a list of them for a list of prompts, which
        run side by side.

        prompt: a text, token ids, or a list of either.
        max_new_tokens: run.max_new_tokens by default.
        options: see :class:`GenerateOptions`.
        """
        prompts, many = self._prompts(prompt)
        n = _answers(options)
        asked = self._asked(options, steps=False)
        requests = self._requests(prompts, max_new_tokens, options)
        if not requests:
            return []
        results, steps = self._raw.generate([one for one in requests for _ in range(n or 1)], asked)
        done = [Completion(**fields) for fields in results]
        for step in steps:
            done[step["request"]].steps.append(Step(**step))
        if n is None:
            return done if many else done[0]
        each = [done[start:start + n] for start in range(0, len(done), n)]
        return each if many else each[0]

    def generate_steps(self, prompt: Union[Prompt, Many[Prompt]],
                       max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]) -> Generation:
        """The same as an iterator of :class:`Step`; its ``completion`` is what generate returns."""
        prompts, many = self._prompts(prompt)
        n = _answers(options)
        asked = self._asked(options, steps=True)
        sequence = options.get("sequence")
        requests = self._requests(prompts, max_new_tokens, options)
        requests = [one for one in requests for _ in range(n or 1)]
        raw = _ng.SteppedRun(self._raw, requests, asked) if requests else None
        return Generation(raw, many or n is not None, sequence)

    def chat(self, messages: Messages, tools: Optional[Many[Mapping[str, Any]]] = None,
             max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]) -> Completion:
        """The answer to a conversation, a :class:`Completion`. As :meth:`encode_chat` and
        :meth:`generate`. With run.max_new_tokens = auto it may have as many tokens as fit, or 64 in
        a sequence of yours, or where options keep more of each token than its id."""
        ids = self.encode_chat(messages, tools)
        if max_new_tokens is None and not options.keys() - _PLAIN:
            max_new_tokens = self._raw.answer_tokens(_arrays.ids(ids))
        done: Completion = self.generate(ids, max_new_tokens, **options)
        return done

    # While the program goes on.

    def submit(self, prompt: Union[Prompt, Many[Prompt]], max_new_tokens: Optional[int] = None,
               **options: Unpack[GenerateOptions]) -> Request:
        """Asks for what :meth:`generate` returns, and does not wait for it: a :class:`Request`. What
        is in flight runs side by side, each with the ids that it has alone. With ``cache.max_sequences``
        the config says how many at a time; the rest wait.

        options: as of :meth:`generate`, but for what looks into the steps, which requests share, and
        for sequences and snapshots.
        """
        return self._submitted(prompt, max_new_tokens, options, steps=True)

    @overload
    async def agenerate(self, prompt: Union[str, List[int], npt.NDArray[Any]],
                        max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]
                        ) -> Completion: ...

    @overload
    async def agenerate(self, prompt: Union[List[str], List[List[int]]],
                        max_new_tokens: Optional[int] = None, **options: Unpack[GenerateOptions]
                        ) -> List[Completion]: ...

    @overload
    async def agenerate(self, prompt: Union[Prompt, Many[Prompt]],
                        max_new_tokens: Optional[int] = None,
                        **options: Unpack[GenerateOptions]) -> Any: ...

    async def agenerate(self, prompt: Union[Prompt, Many[Prompt]],
                        max_new_tokens: Optional[int] = None,
                        **options: Unpack[GenerateOptions]) -> Any:
        """:meth:`generate` for asyncio. A task that is cancelled cancels its request."""
        return await self._submitted(prompt, max_new_tokens, options, steps=False)

    def astream(self, prompt: Union[Prompt, Many[Prompt]], max_new_tokens: Optional[int] = None,
                **options: Unpack[GenerateOptions]) -> Request:
        """:meth:`generate_steps` for asyncio: ``async for step in engine.astream(prompt)``. What is
        left off is cancelled as soon as it is forgotten; ``await stream.aclose()`` waits for it."""
        return self._submitted(prompt, max_new_tokens, options, steps=True)

    def _submitted(self, prompt: Any, max_new_tokens: Optional[int], options: Any,
                   steps: bool) -> Request:
        prompts, many = self._prompts(prompt)
        n = _answers(options)
        asked = self._asked(options, steps=False)
        given = [name for name in _ALONE if asked.get(name) or options.get(name)]
        if given:
            raise UsageError(f"{given[0]} needs the engine for itself, and requests in flight share it; "
                             "generate() and generate_steps() take it")
        keep, asked["steps"] = asked["steps"], asked["steps"] or steps
        requests = self._requests(prompts, max_new_tokens, options)
        requests = [one for one in requests for _ in range(n or 1)]
        request = Request(len(requests), many, n)
        if requests:
            if self._process != os.getpid():  # a fork has neither the thread nor who had the lock
                self._process, self._lock, self._flight = os.getpid(), threading.Lock(), None
            with self._lock:
                flight = self._flight or Flight(self._raw, self._lock, self._landed)
                flight.submit(request, requests, asked, keep)
                self._flight = flight
        return request

    def _landed(self) -> None:
        self._flight = None

    # Step by step.

    def load(self, max_tokens: int = 0, max_sequences: int = 1, prompt_logits: bool = False,
             snapshots: bool = False) -> None:
        """Loads the weights now, for so much at least."""
        self._raw.load(max_tokens, max_sequences, prompt_logits, snapshots)

    def open(self, capacity: Optional[int] = None) -> Sequence:
        """An empty sequence for ``capacity`` tokens; by default as many as were loaded for."""
        return Sequence(self, self._raw.open_sequence(capacity or 0))

    def load_sequence(self, path: Path, capacity: Optional[int] = None) -> Sequence:
        """A sequence from a snapshot that :meth:`Sequence.save` wrote with the same model and
        settings."""
        return Sequence(self, self._raw.load_sequence(os.fspath(path), capacity or 0))

    def prefill(self, sequences: Many[Sequence], prompts: Many[Any], copy: bool = True
                ) -> Floats:
        """Feeds a whole prompt to each of some empty sequences, side by side. Returns the logits
        behind each prompt, float32 [n_sequences, vocab_size]. ``copy``: see :meth:`extend`."""
        return self._raw.prefill(self._numbers(sequences), [_arrays.ids(p) for p in prompts], copy)

    def extend(self, sequences: Many[Sequence], tokens: Many[Any], rows: str = "last",
               copy: bool = True) -> Floats:
        """Feeds tokens to some sequences. Returns float32 [n_sequences, vocab_size], or with
        ``rows="all"`` the logits behind each token, [n_tokens, vocab_size].

        copy=False gives a view of the engine's own memory, which cannot be written. While it or a
        part of it is in use, whatever computes is refused. After an error some tokens may have been
        fed; ``Sequence.ids`` says which."""
        if rows not in ("last", "all"):
            raise UsageError(f"rows = {rows!r}, must be 'last' or 'all'")
        numbers, ids = self._numbers(sequences), [_arrays.ids(t) for t in tokens]
        longest = max((len(t) for t in ids), default=0)
        if rows == "last" or not copy or longest <= _ROWS or len(numbers) != len(ids):
            return self._raw.extend(numbers, ids, rows == "all", copy)
        # In pieces: the memory for the logits of whole prompts is not planned for. No bit of them
        # depends on the pieces.
        parts: List[List[Floats]] = [[] for _ in ids]
        for start in range(0, longest, _ROWS):
            feed = [i for i, t in enumerate(ids) if len(t) > start]
            pieces = [ids[i][start:start + _ROWS] for i in feed]
            logits = self._raw.extend([numbers[i] for i in feed], pieces, True, True)
            ends = np.cumsum([len(piece) for piece in pieces])
            for i, part in zip(feed, np.split(logits, ends[:-1])):
                parts[i].append(part)
        return np.concatenate([part for each in parts for part in each])

    def decode_step(self, sequences: Many[Sequence], tokens: Any, copy: bool = True) -> Floats:
        """Feeds one token to each sequence. Returns float32 [n_sequences, vocab_size]. ``copy``: see
        :meth:`extend`."""
        return self._raw.decode_step(self._numbers(sequences), _arrays.ids(tokens), copy)

    def head_logits(self, hidden: Any) -> Floats:
        """What the final norm and the head make of rows of the residual stream, float32 [n, width]
        (layer<L>.out): float32 [n, vocab_size]."""
        rows = _arrays.floats(hidden)
        if rows.ndim != 2:
            raise UsageError(f"hidden must be [n, width], not {list(rows.shape)}")
        return self._raw.head_logits(rows)

    def diff(self, other: "Engine", prompt: Union[Prompt, Many[Prompt]],
             max_new_tokens: Optional[int] = None) -> Difference:
        """Runs this engine (A) and another one (B) side by side along the tokens that A chooses, and
        compares every point of every layer bit by bit. Both are loaded for it; neither may have open
        sequences."""
        prompts, _ = self._prompts(prompt)
        n_new = self._new_tokens(max_new_tokens)
        lines = [json.loads(line) for line in
                 _ng.diff(self._raw, other._raw, prompts, n_new).splitlines()]
        verdict = lines.pop()
        names = {}
        for line in lines:
            layer = "" if line["layer"] is None else f"layer{line['layer']}."
            names[layer + line["point"]] = line
        return Difference(verdict["verdict"] == "equal", verdict["first"], verdict["kl_mean"],
                          verdict["argmax_flips"], names, verdict["only_a"], verdict["only_b"])

    def close(self) -> None:
        """Ends it and gives its memory back. Its sequences end, too, and its runs, as interrupted."""
        self._raw.close()
        _notes.log.info("closed an engine")

    def __call__(self, *prompt: Any, **options: Any) -> NoReturn:
        raise TypeError("an engine is not called: generate(text) answers, chat(messages) answers a "
                        "conversation, forward(ids) gives logits and hidden states")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an engine cannot be copied or pickled; make a second one")

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    # Arguments to what _ng takes.

    def _numbers(self, sequences: Many[Sequence]) -> List[int]:
        for sequence in sequences:
            sequence._check()
            if sequence._engine is not self:
                raise UsageError("a sequence belongs to another engine")
        return [sequence._number for sequence in sequences]

    def _prompts(self, prompt: Any) -> Tuple[List[Ids], bool]:
        """The ids of each prompt, and whether a list of prompts was given."""
        if isinstance(prompt, Encoding):
            prompt = prompt["input_ids"]
            prompt = list(prompt) if isinstance(prompt, np.ndarray) and prompt.ndim > 1 else prompt
        if isinstance(prompt, str):
            return [_arrays.ids(self.encode(prompt))], False
        if isinstance(prompt, (list, tuple)):
            first = prompt[0] if prompt else ""
            if isinstance(first, str) or hasattr(first, "__len__") or hasattr(first, "__dlpack__"):
                return [_arrays.ids(self.encode(one) if isinstance(one, str) else one)
                        for one in prompt], True
        return [_arrays.ids(prompt)], False

    def _new_tokens(self, given: Optional[int]) -> int:
        if given is None:
            return self._raw.default_max_new_tokens()
        if not hasattr(given, "__index__"):
            raise TypeError(f"max_new_tokens must be a whole number, not {type(given).__name__}; the "
                            "fields of sampling parameters are given by name")
        if operator.index(given) < 0:
            raise UsageError(f"max_new_tokens = {given}, must be 0 or more")
        return operator.index(given)

    def _asked(self, options: Any, steps: bool) -> Dict[str, Any]:
        """Takes what is asked of all requests out of the options."""
        asked: Dict[str, Any] = {
            name: bool(options.pop(name, False))
            for name in ("records", "stages", "logits_hash", "attention", "logits", "decode_logits",
                         "attention_map", "dropped_at")}
        asked["records"] |= asked["stages"]
        points = options.pop("points", ())
        asked["points"] = [points] if isinstance(points, str) else list(points)
        asked["on_point"] = dict(options.pop("on_point", None) or {})
        for name in ("layers", "heads"):
            asked[name] = sorted({operator.index(i) for i in options.pop(name, ())})
        for name in ("logprobs", "prompt_logprobs"):
            asked[name] = _count(name, options.pop(name, None))
        wants = ("records", "logits_hash", "attention")
        asked["steps"] = steps or asked["logprobs"] >= 0 or any(asked[name] for name in wants)
        asked["step_logits"] = steps and asked["logits"]
        return asked

    def _requests(self, prompts: List[Ids], max_new_tokens: Optional[int],
                  options: Any) -> List[Dict[str, Any]]:
        sequence: Optional[Sequence] = options.pop("sequence", None)
        max_tokens = options.pop("max_tokens", None)
        if max_tokens is not None and max_new_tokens is not None:
            raise TypeError("max_tokens and max_new_tokens are the same; give one of them")
        max_new_tokens = max_tokens if max_new_tokens is None else max_new_tokens
        request = {
            "max_new_tokens": self._new_tokens(max_new_tokens),
            "sequence": None if sequence is None else self._numbers([sequence])[0],
            "load_cache": _path(options.pop("load_cache", None)),
            "save_cache": _path(options.pop("save_cache", None)),
        }
        given = options.pop("settings", None)
        words = _words.take(options)
        if options:
            raise _habits.argument(next(iter(options)), "generate")
        if not isinstance(given, (list, tuple)):
            given = [given] * len(prompts)
        if len(given) != len(prompts):
            raise UsageError(f"settings are {len(given)}, one for each prompt, of which there are "
                             f"{len(prompts)}")
        if len(prompts) > 1 and (sequence is not None or request["save_cache"]):
            raise UsageError(f"sequence and save_cache are for one prompt, not {len(prompts)}")
        return [{**request, "ids": ids, "settings": _settings(own) + words}
                for ids, own in zip(prompts, given)]


def diff(config: Optional[Path], against: Union[Overrides, Path], prompt: Union[Prompt, Many[Prompt]],
         *, overrides: Optional[Overrides] = None, max_new_tokens: Optional[int] = None
         ) -> Difference:
    """Compares two configs as ng-diff does: A is ``config`` with ``overrides``; B is A with the keys
    of ``against``, or another config file."""
    with Engine(config, overrides) as a:
        if isinstance(against, Mapping):
            b = Engine(config, {**(overrides or {}), **against})
        else:
            b = Engine(against)
        with b:
            return a.diff(b, prompt, max_new_tokens)


def plan(config: Optional[Path] = None, overrides: Optional[Overrides] = None, *,
         model: Optional[Path] = None, max_tokens: Optional[int] = None, max_sequences: int = 1,
         prompt_logits: bool = False) -> Plan:
    """What a run of a config takes, as :meth:`Engine.plan` says it; nothing is loaded."""
    with Engine(config, overrides, model=model) as engine:
        return engine.plan(max_tokens, max_sequences, prompt_logits)


_options.spell_out(Engine, GenerateOptions,
                   also=("__init__", "encode", "decode", "encode_chat"))

__all__ = ["Engine", "GenerateOptions", "Generation", "Sequence", "diff", "plan"]
