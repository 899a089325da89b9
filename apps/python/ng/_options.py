"""Options by name, spelled out where a function takes them: for help(), completion and inspect."""

from __future__ import annotations

import functools
import inspect
import textwrap
import typing
from typing import Any, Callable, Iterable, List, Optional, Sequence, Type

from . import _habits


# What help() says of each.
_HELP = {
    "settings": "sampler.* keys of this call, {\"sampler.seed\": 7}; of several prompts also a list, one for each",
    "temperature": "divides the logits; 0: the most probable token (greedy)",
    "top_k": "how many of the most probable tokens are left",
    "top_p": "the probability that is left together, in (0, 1]",
    "min_p": "the least probability that is left, as a share of the largest",
    "typical_p": "the probability of typical tokens that is left together, in (0, 1]",
    "top_n_sigma": "how many standard deviations below the largest logit are left",
    "repetition_penalty": "divides the logits of tokens that were there, 1: does not",
    "frequency_penalty": "subtracted from a token's logit for each time that it was there",
    "presence_penalty": "subtracted once from the logit of a token that was there",
    "seed": "of the draws: the same seed gives the same answer",
    "stop": "a text, or several, that ends the answer and is not part of it",
    "logit_bias": "{id: what is added to its logit}",
    "json_schema": "the answer is JSON of this schema, a dict or a text",
    "grammar": "the answer is the rule root of this GBNF",
    "max_tokens": "as max_new_tokens",
    "n": "answers to each prompt: a list of them, or of several prompts a list of lists",
    "sequence": "open, with tokens that the prompt begins with; the rest is fed to it",
    "load_cache": "a snapshot that the prompt begins with, by its path",
    "save_cache": "where one of the prompt is written",
    "records": "Step.logprob and entropy in nats, top: ids with probabilities",
    "logprobs": "Step.logprob in nats, and so many of the most probable tokens in Step.logprobs",
    "prompt_logprobs": "the same of the prompt's tokens: Completion.prompt_logprobs",
    "stages": "Step.stages: what each stage of the sampler chain left",
    "logits_hash": "Step.logits_hash: of the bits of the logits",
    "attention": "Step.attention: {layer: float32 [heads, position + 1]}",
    "attention_map": "Completion.attention: {layer: float32 [heads, query, key]}",
    "dropped_at": "Completion.dropped_at: int32 [layers, kv heads, tokens]",
    "layers": "of which attention is kept, in any order; all by default",
    "heads": "likewise; the rows are in rising order of the heads",
    "logits": "Completion.logits: float32 [prompt_len, vocab_size]",
    "decode_logits": "Completion.decode_logits: float32 [n_answer, vocab_size]",
    "points": "Completion.points: {name: float32 [n_fed, width]}, by names or patterns, \"layer*.out\"",
    "on_point": "{name or pattern: a function that is called with Rows as they are made}",
}


def _documented(names: Iterable[str]) -> str:
    lines = [textwrap.fill(f"{name}: {_HELP[name]}.", 88, subsequent_indent=" " * 4)
             for name in names]
    return "\n\nBy name, each None or False where it is not given:\n\n" + "\n".join(lines) + "\n"


def _parameters(options: Type[Any]) -> List[inspect.Parameter]:
    """Every option by its name, None or False where it is not given."""
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY,
                              default=False if hint is bool else None,
                              annotation=hint if hint is bool else Optional[hint])
            for name, hint in typing.get_type_hints(options).items()]


def _explaining(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    """The function; of an argument that it does not have it says what the word for it is here."""
    known = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not named.keys() <= known:
            raise _habits.argument(next(name for name in named if name not in known), title)
        return function(*arguments, **named)

    return function if inspect.iscoroutinefunction(function) else call


def spell_out(cls: Type[Any], options: Type[Any], also: Sequence[str]) -> None:
    """Gives each function of ``cls`` that takes ``**options: Unpack[options]`` the signature and the
    types that it has, and makes it, and those of ``also``, explain names that it does not know."""
    for name, function in list(vars(cls).items()):
        if not inspect.isfunction(function):
            continue
        signature = inspect.signature(function)
        own = list(signature.parameters.values())
        if own and own[-1].annotation == f"Unpack[{options.__name__}]":
            named = _parameters(options)
            function.__signature__ = signature.replace(  # type: ignore[attr-defined]
                parameters=[*own[:-1], *named])
            function.__annotations__.pop(own[-1].name)
            function.__annotations__.update({p.name: p.annotation for p in named})
            # Python 3.13 has the text without its indent already.
            text = inspect.cleandoc(function.__doc__ or "")
            function.__doc__ = text + _documented(p.name for p in named)
        elif name not in also:
            continue
        title = cls.__name__ if name == "__init__" else name
        setattr(cls, name, _explaining(function, title))
