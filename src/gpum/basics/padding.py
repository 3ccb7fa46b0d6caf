"""Pad arrays to a few sizes, so that clouds of nearly the same size use the same compiled programs.

A program is compiled for each shape of its arguments, which takes seconds; the folds of a cross-validation differ by
a row or two. Padded rows and inducing points have weight 0: they change neither values nor gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 16  # rows of a cloud come in multiples of this
INDUCING = 10  # and inducing points of this: round numbers need no padding
FINENESS = 4  # for larger sizes the step is 2^-FINENESS of the next power of two: at most an eighth is padding


def size(n: int, step: int = ROWS) -> int:
    """The size to which n entries are padded: a multiple of `step`, which grows with n for large n."""
    step = max(step, 2 ** max((n - 1).bit_length() - FINENESS, 0)) if n > 0 else step
    return max(-(-n // step), 1) * step


def fill(array: Any, *shape: int, value: float = 0.0) -> np.ndarray:
    """The array with `value` added at the end of its first axes, up to the given shape."""
    array = np.asarray(array)
    missing = [(0, n - have) for n, have in zip(shape, array.shape, strict=False)]
    return np.pad(array, missing + [(0, 0)] * (array.ndim - len(shape)), constant_values=value)


def live(n: int, filled: int) -> np.ndarray:
    """1 for n entries, 0 for the padding, [filled]."""
    return (np.arange(filled) < n).astype(float)
