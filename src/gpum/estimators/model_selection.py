"""Folds for the cross-validation of a y that is known for some rows only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from ..basics import checks
from ..basics.checks import GpumError
from .unlabelled import AUTO, is_auto, split_labels

__all__ = ["LabelledKFold"]


class LabelledKFold(BaseCrossValidator):
    """K folds over the labelled rows; rows without a label are in the training set of every fold.

    For `cross_val_score`, `GridSearchCV` and the like, as their `cv`. A fold of scikit-learn's `KFold` may have no
    label to score, which makes the score of a candidate NaN. With any other `scoring` than the estimator's own no fold
    of it will do: metrics of scikit-learn refuse NaN and None in y, and take -1 for a class like any other.

    Parameters
    ----------
    n_splits : how many folds.
    shuffle : whether labels are drawn at random; else the folds follow the order of the rows. Labels that are whole
        numbers, text or booleans are distributed class by class, so that every fold has its proportion of each class.
    random_state : seed of the shuffle.
    unlabelled : the value of y that marks a row without a label, beside NaN, None and empty text. "auto" (default): -1
        where y holds classes. It is a number like the others where y holds floats, another negative number, or whole
        numbers that hardly repeat while -1 is not the most frequent of them: these are the numbers of a regression.
        Of classes that are floats, say -1. None: no value. As of `GPUMClassifier`.
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None, unlabelled: Any = AUTO
    ) -> None:  # fmt: skip
        self.n_splits = checks.integer(n_splits, "n_splits", 2, None, "5 is the default")
        if random_state is not None and not shuffle:
            raise GpumError(
                f"random_state is {random_state!r}, but shuffle is False; pass shuffle=True, or leave it out"
            )
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabelled = unlabelled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds there are."""
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        """The test rows of each fold, ascending."""
        if y is None:
            raise GpumError("y is None, but folds are made of its labelled rows; pass y to split")
        y = np.asarray(y)
        known, classes = self._known(y)
        if len(known) < self.n_splits:
            raise GpumError(
                f"n_splits is {self.n_splits}, but y has {len(known)} labelled row(s); use fewer folds or more labels"
            )
        order = np.arange(len(known))
        if self.shuffle:
            checks.random_state(self.random_state).shuffle(order)
        if classes is None:
            folds = np.array_split(order, self.n_splits)
        else:
            dealt = order[np.argsort(classes[order], kind="stable")]
            folds = [dealt[k :: self.n_splits] for k in range(self.n_splits)]
        yield from (known[np.sort(fold)] for fold in folds)

    def _known(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The labelled rows, and their classes as numbers (None of numbers that are no classes)."""
        if y.ndim == 2 and y.shape[1] != 1:  # several targets: a row with one of them is labelled
            return np.flatnonzero(np.any([self._split(column)[0] for column in y.T], axis=0)), None
        known, labels = self._split(y.ravel())
        classes = None if labels.dtype.kind == "f" else np.unique(labels, return_inverse=True)[1]
        return np.flatnonzero(known), classes

    def _split(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not is_auto(self.unlabelled):
            return split_labels(y, self.unlabelled)
        return split_labels(y, None) if _are_numbers(y) else split_labels(y)


def _are_numbers(y: np.ndarray) -> bool:
    """Whether y holds the numbers of a regression, among which -1 is one, and no classes."""
    labels = split_labels(y)[1]
    if labels.dtype.kind not in "iu" or not len(labels):
        return labels.dtype.kind == "f"
    values, counts = np.unique(labels, return_counts=True)
    marked = len(y) - len(labels)
    return bool(values[0] < -1) or (2 * len(values) > len(labels) and marked <= counts.max())
