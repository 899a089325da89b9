"""ng: runs decoder-only transformers with a KV cache, and lets you look inside.

    import ng
    engine = ng.Engine("configs/demo.ini")
    print(engine.chat("Who art thou?").text)

An :class:`Engine` is a config with its model. It encodes and decodes text, generates (whole, or step
by step with records), feeds sequences by hand, and shows logits, attention and points of the model
as NumPy arrays. Hooks see and change what steps make (:meth:`Engine.hook`). Parts of a run can be
Python: :class:`Stage`, :class:`Probe`, :class:`Drafter`. :func:`diff` compares two configs,
:func:`plan` says what a run takes. Errors are :class:`Error` and its subclasses.
"""

from typing import TYPE_CHECKING

from . import _habits
from ._arrays import Floats, Ids
from ._engine import Engine, GenerateOptions, Generation, Sequence, diff, plan
from ._errors import (CallLaterError, CloseFirstError, DifferenceError, Error, LimitError,
                      ModelFileError, NumericError, OpenAgainError, OutputError, PluginError,
                      StoppedError, UnsupportedError, UsageError)
from ._looks import Evaluation, Forward, Hook, Plan, View
from ._ng import __version__
from ._notes import EngineWarning
from ._parts import Candidates, Drafter, Probe, Rows, Stage
from ._requests import Request
from ._results import Completion, Difference, PointShape, Step, TokenLogprob
from ._tokenizer import Encoding, Tokenizer, load_tokenizer

if not TYPE_CHECKING:
    def __getattr__(name):
        raise _habits.attribute(name, "ng")

__all__ = [
    "CallLaterError", "Candidates", "CloseFirstError", "Completion", "Difference",
    "DifferenceError", "Drafter", "Encoding", "Engine", "EngineWarning", "Error", "Evaluation",
    "Floats", "Forward", "GenerateOptions", "Generation", "Hook", "Ids", "LimitError",
    "ModelFileError", "NumericError", "OpenAgainError", "OutputError", "Plan", "PluginError",
    "PointShape", "Probe", "Request", "Rows", "Sequence", "Stage", "Step", "StoppedError",
    "TokenLogprob", "Tokenizer", "UnsupportedError", "UsageError", "View", "__version__",
    "diff", "load_tokenizer", "plan",
]
