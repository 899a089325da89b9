"""What the user is told beside results: warnings, the log, and a bar for what takes long."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from typing import Any, Callable, Optional, TextIO, Union

# Loads and closes at INFO, calls at DEBUG: logging.getLogger("ng").
log = logging.getLogger("ng")
log.addHandler(logging.NullHandler())

# True: always; False: never; None: in a terminal and in a notebook. A function is called in its place,
# with the phase ("load", "prefill", "evaluate"), what is done, and of how much.
Progress = Union[bool, Callable[[str, int, int], Any], None]

_HERE = os.path.dirname(os.path.abspath(__file__))


class EngineWarning(UserWarning):
    """What the user should know though it is no error. ``warnings.simplefilter("error",
    ng.EngineWarning)`` makes it one."""


def warn(line: str) -> None:
    """Warns at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == _HERE:
        level, frame = level + 1, frame.f_back
    warnings.warn(line, EngineWarning, stacklevel=level)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None or shell.get_ipython() is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class Bar:
    """One line that is written anew: a phase's name, how much of it is done, how long it took."""

    _WIDTH = 24
    _DELAY_S = 0.5  # what is over before is not worth a line

    def __init__(self, file: TextIO, at_once: bool) -> None:
        self._file = file
        self._delay = 0.0 if at_once else self._DELAY_S
        self._phase = ""
        self._begin = 0.0
        self._shown = False

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._begin = phase, now
        whole = done >= total
        if now - self._begin >= self._delay and (self._shown or not whole or self._delay == 0):
            full = self._WIDTH * done // max(total, 1)
            self._file.write(f"\r{phase:8} {100 * done // max(total, 1):3}% |{'#' * full:{self._WIDTH}}| "
                             f"{now - self._begin:.1f} s")
            self._shown = True
        if whole:
            if self._shown:
                self._file.write("\n")
            self._phase, self._shown = "", False
        self._file.flush()


def progress_for(asked: Progress) -> Optional[Callable[[str, int, int], Any]]:
    """What the engine is to call; None where nobody looks."""
    if callable(asked):
        return asked
    stream = sys.stderr
    looks = asked is True or (asked is None and stream is not None and
                              (stream.isatty() or _in_notebook()))
    return Bar(stream, at_once=asked is True) if looks and stream is not None else None
