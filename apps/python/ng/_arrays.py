"""Arrays from whatever holds numbers: sequences, buffers, DLPack."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]


def array(values: Any, dtype: Any) -> npt.NDArray[Any]:
    """A NumPy array of lists, of what has the buffer protocol or ``__array__``, or of a tensor with
    ``__dlpack__`` (on the CPU). Copies only where type or layout make it necessary."""
    plain = isinstance(values, (np.ndarray, list, tuple)) or hasattr(values, "__array__")
    if not plain and hasattr(values, "__dlpack__"):
        values = np.from_dlpack(cast(Any, values))
    return np.ascontiguousarray(values, dtype=dtype)


def floats(values: Any) -> Floats:
    """float32, as :func:`array`."""
    return array(values, np.float32)


def ids(values: Any) -> Ids:
    """Token ids as int32 [n]. Numbers that are no integers of 32 bits are refused."""
    made = array(values, None)
    if made.size == 0:
        return np.zeros(0, np.int32)
    if made.ndim != 1 or made.dtype.kind not in "iu":
        raise TypeError(f"token ids must be integers in one dimension, not {made.dtype} "
                        f"{list(made.shape)}")
    small = made.astype(np.int32)
    if not np.array_equal(small, made):
        raise ValueError("token ids must be below 2**31")
    return small
