"""Which rows of a column of classes have a label: one rule for the classifier, tables and cross-validation.

The rule looks at one entry at a time, so that a subset of the rows, such as a fold of a cross-validation, never changes
what an entry means.

| entry | meaning |
| --- | --- |
| NaN, None, pandas' NA, NaT, empty text | the row has no label, always |
| -1: a number, or text that spells it, such as "-1" | the row has no label, unless `unlabelled` is something else |
| anything else, also words such as "NA" and "none" | a class |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..basics import checks
from ..basics.cells import is_missing
from ..basics.checks import GpumError

AUTO = "auto"
MARKER = -1  # of rows without a label, as in sklearn.semi_supervised


def split_labels(y: Any, unlabelled: Any = AUTO) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of y [n] have a label, and the classes of those rows.

    Parameters
    ----------
    y : [n] classes: numbers, text, booleans or dates; an array, a list or a column of a table.
    unlabelled : the value that marks a row without a label, beside missing values, which always do. "auto" (default):
        -1. None: no value does, so that -1 is a class. Numbers and the text that spells them are the same.

    Returns
    -------
    known [n] of bool, and the classes of the rows that are known, in their order.
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise GpumError(f"y has shape {y.shape}; give one class for each row, [rows]")
    if np.ndim(unlabelled) != 0:
        raise GpumError(f"unlabelled is {checks.shown(unlabelled)}; give the one value that marks rows without a label")
    marker = MARKER if is_auto(unlabelled) else None if is_missing(unlabelled, among_words=True) else unlabelled
    entries = y.tolist() if y.dtype.kind != "M" else list(y)
    unknown = (is_missing(entry, among_words=True) or _is_marker(entry, marker) for entry in entries)
    known = ~np.fromiter(unknown, bool, len(entries))
    return known, _of_one_type(y[known])


def is_auto(unlabelled: Any) -> bool:
    """Whether no marker was named, so that -1 is the marker."""
    return isinstance(unlabelled, str) and unlabelled == AUTO


def _is_marker(entry: Any, marker: Any) -> bool:
    if marker is None:
        return False
    if isinstance(entry, bool | np.bool_) or isinstance(marker, bool | np.bool_):
        return entry is marker
    if isinstance(entry, str) == isinstance(marker, str):
        return bool(entry == marker)
    try:
        return float(entry) == float(marker)
    except (TypeError, ValueError):  # one of them is no number
        return False


def _of_one_type(labels: np.ndarray) -> np.ndarray:
    """The classes as an array of numbers, booleans, dates or text."""
    if labels.dtype.kind != "O" or not len(labels):
        return labels
    kinds = sorted({type(label).__name__ for label in labels.tolist()})
    if len(kinds) > 1 and "str" in kinds:
        raise GpumError(f"y holds classes of several types ({', '.join(kinds)}); give them as text, or as numbers")
    return np.array(labels.tolist())
