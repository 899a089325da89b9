"""ng: runs decoder-only transformers with a KV cache, and lets you look inside.

    import ng
    engine = ng.Engine("configs/demo.ini")
    print(engine.chat("Who art thou?").text)

An :class:`Engine` is a config with its model. It encodes and decodes text, generates (whole, or step
by step with records), feeds sequences by hand, and shows logits, attention and points of the model
as NumPy arrays. Parts of a run can be Python: :class:`Stage`, :class:`Probe`, :class:`Drafter`.
:func:`diff` compares two configs. Errors are :class:`Error` and its subclasses.
"""

from ._engine import Engine, GenerateOptions, Generation, Sequence, diff
from ._errors import (DifferenceError, Error, LimitError, ModelFileError, NumericError, OutputError,
                      PluginError, StoppedError, UnsupportedError, UsageError)
from ._ng import __version__
from ._parts import Candidates, Drafter, Probe, Rows, Stage
from ._requests import Request
from ._results import Completion, Difference, PointShape, Step, TokenLogprob
from ._tokenizer import Encoding, Tokenizer, load_tokenizer

__all__ = [
    "Candidates", "Completion", "Difference", "DifferenceError", "Drafter", "Encoding",
    "Engine", "Error", "GenerateOptions", "Generation", "LimitError", "ModelFileError",
    "NumericError", "OutputError", "PluginError", "PointShape", "Probe", "Request", "Rows",
    "Sequence", "Stage", "Step", "StoppedError", "TokenLogprob", "Tokenizer",
    "UnsupportedError", "UsageError", "__version__", "diff", "load_tokenizer",
]
