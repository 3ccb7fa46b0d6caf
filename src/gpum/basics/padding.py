"""Arrays filled up to a few sizes, so that compiled programs are shared between clouds of nearly the same size.

A program is compiled for each shape of its arguments, which takes seconds; the folds of a cross-validation differ by
a row or two. Rows and inducing points that are filled in weigh nothing: values and gradients are those of the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 16  # rows of a cloud come in multiples of this
INDUCING = 10  # and inducing points of this: the numbers that people choose cost nothing
SHARE = 4  # between larger sizes the step is 2^-SHARE of the next power of two: at most an eighth is filled in


def size(n: int, step: int = ROWS) -> int:
    """The size to which n entries are filled up: a multiple of `step`, for large n one of steps in proportion."""
    step = max(step, 2 ** max((n - 1).bit_length() - SHARE, 0)) if n > 0 else step
    return max(-(-n // step), 1) * step


def fill(array: Any, *shape: int, value: float = 0.0) -> np.ndarray:
    """The array with `value` added at the end of its first axes, up to the given shape."""
    array = np.asarray(array)
    missing = [(0, n - have) for n, have in zip(shape, array.shape, strict=False)]
    return np.pad(array, missing + [(0, 0)] * (array.ndim - len(shape)), constant_values=value)


def live(n: int, filled: int) -> np.ndarray:
    """1 for n entries, 0 for those filled in, [filled]."""
    return (np.arange(filled) < n).astype(float)
