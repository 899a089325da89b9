"""Config values from Python's, and the settings of a call that have a name of their own."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np

from . import _ng

Overrides = Mapping[str, Any]

# May be given by name in the place of a setting. The core knows which key each is
# (ng-run --help all), and which stage of the sampler chain it brings.
WORDS = ("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "repetition_penalty",
         "frequency_penalty", "presence_penalty", "seed", "stop", "logit_bias", "json_schema",
         "grammar")


def value(key: str, given: Any) -> str:
    """A config value as the command line has it."""
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (str, os.PathLike)):
        return str(os.fspath(given))
    if isinstance(given, (int, float)):
        return str(given)
    raise TypeError(f"{key}: a value must be a text, a number, a bool, a path, or a list of these, "
                    f"not {type(given).__name__}")


def listed(key: str, items: Any) -> str:
    """A list of values likewise. Its texts are these texts, whatever is in them."""
    return ",".join(_ng.list_item(one) if isinstance(one, str) else value(key, one)
                    for one in items)


def settings(overrides: Optional[Overrides]) -> List[str]:
    """Config keys as the command line has them; also in the words of other libraries."""
    lines = []
    for key, given in (overrides or {}).items():
        if key in WORDS:
            lines.append(f"{key}={_of_word(key, given)}")
            continue
        several = isinstance(given, (list, tuple, np.ndarray))
        lines.append(f"{key}={listed(key, given) if several else value(key, given)}")
    return lines


def _of_word(word: str, given: Any) -> str:
    if word == "stop":
        return listed(word, [given] if isinstance(given, str) else given)
    if word == "logit_bias":
        return ",".join(f"{int(token)}={float(bias)}" for token, bias in dict(given).items())
    if word == "json_schema" and not isinstance(given, (str, os.PathLike)):
        return json.dumps(given)
    return value(word, given)


def take(options: Dict[str, Any]) -> List[str]:
    """Takes the words out of what a call was given by name. None is as if it was not given."""
    lines = []
    for word in WORDS:
        given = options.pop(word, None)
        if given is not None:
            lines.append(f"{word}={_of_word(word, given)}")
    return lines


Path = Union[str, "os.PathLike[str]"]


def path(given: Optional[Path]) -> str:
    return "" if given is None else os.fspath(given)
