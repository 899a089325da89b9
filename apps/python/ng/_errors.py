"""Errors by the exit codes of ng's programs."""


class Error(Exception):
    """An error of the engine, in one line; ``exit_code`` is that of ng's programs.

    1 where no class below says more, and 130 where a run was stopped from outside.
    """

    exit_code: int = 1


class UsageError(Error, ValueError):
    """A config, a prompt, an argument or a call that is wrong (exit code 2)."""

    exit_code = 2


class CloseFirstError(UsageError):
    """Something open is in the way, which the message names: a stream, a sequence, a view of logits.
    Close it, or go on to its end, and call again."""


class CallLaterError(UsageError):
    """The engine is at work, for another thread or for the call that this one comes from. Call when
    that is done."""


class OpenAgainError(UsageError):
    """The engine or the sequence was closed. Make a new one."""


class ModelFileError(Error):
    """A model, a tokenizer or a snapshot that is damaged or cannot run (exit code 3)."""

    exit_code = 3


class PluginError(Error):
    """A plugin that is absent, broken or refuses the run (exit code 4)."""

    exit_code = 4


class LimitError(Error):
    """A limit of the model, the cache or the memory (exit code 5). The message says what to lower."""

    exit_code = 5


class NumericError(Error, ArithmeticError):
    """Logits that are NaN or infinite, or of which none can be drawn (exit code 6)."""

    exit_code = 6


class OutputError(Error, OSError):
    """A file that cannot be written (exit code 7)."""

    exit_code = 7


class DifferenceError(Error):
    """What was compared or replayed differs (exit code 8)."""

    exit_code = 8


class StoppedError(Error):
    """Stopped by Ctrl-C, where the program's own handler raised nothing (exit code 130)."""

    exit_code = 130


class UnsupportedError(Error, NotImplementedError):
    """What this model, cache or plugin cannot do; nothing has changed (exit code 1)."""


_BY_CODE = {
    kind.exit_code: kind
    for kind in (UsageError, ModelFileError, PluginError, LimitError, NumericError, OutputError,
                 DifferenceError, StoppedError)
}
_BY_NAME = {kind.__name__: kind for kind in UsageError.__subclasses__()}


def of_exit_code(code: int, unsupported: bool, message: str, kind: str = "") -> Error:
    """The exception for a status of the engine; ``kind``: the name of a class of UsageError."""
    if unsupported:
        return UnsupportedError(message)
    return _BY_NAME.get(kind, _BY_CODE.get(code, Error))(message)
