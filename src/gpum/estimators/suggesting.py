"""`suggest`: which rows of the fitted cloud to label next, for every estimator on a cloud."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import checks
from ..checks import GpumError
from ..regression import design
from ..regression.design import Asked, Belief, Suggestions
from .cloud import CloudEstimator


class Suggests(CloudEstimator):
    """See the module. Every output knows its labelled rows."""

    def suggest(self, n: int = 1, criterion: str = "variance", candidates: Any = None) -> np.ndarray:
        """Places in the fitted cloud of the n rows without a label whose labels would tell most, best first.

        Parameters
        ----------
        n : how many; each is chosen given that those before it will have labels, so that no two say the same.
        criterion : "variance" (default): what lowers the average predictive variance over the cloud most;
            "information": the row whose label tells most of the functions themselves, wherever it is.
        candidates : places in the cloud (or a mask of it) to choose from; None: every row that lacks a label.
        """
        return self.suggestions(n, criterion, candidates).rows

    def suggestions(self, n: int = 1, criterion: str = "variance", candidates: Any = None) -> Suggestions:
        """As `suggest`, with the gain expected of each label, and whether more labels still help (`enough`)."""
        check_is_fitted(self, "_outputs")
        checks.integer(n, "n", 1, None, "it is how many rows you want to label")
        checks.option(criterion, "criterion", design.CRITERIA)
        N = len(self._cloud)
        lacking = np.ones((len(self._outputs), N), bool)
        for output, mask in zip(self._outputs, lacking, strict=True):
            mask[output.rows] = False
        asked = Asked.of(_candidates(candidates, lacking.sum(0) > 0), N)
        with threadpool_limits(1, "blas"):  # small products
            rows, local = self._asked_rows(asked)
            beliefs = [self._beliefs(output, rows, local) for output in self._outputs]
            places, gain = design.choose(beliefs, list(lacking[:, asked.candidates]), n, criterion)
        return Suggestions(asked.candidates[places], gain, self._floor(criterion, beliefs), criterion, asked.notes)

    def _asked_rows(self, asked: Asked) -> tuple[list[np.ndarray], Asked]:
        """The cloud in every space, or of a large one the rows that are asked, and where these stand there."""
        if self._part is None:
            return self._family.rows, asked
        both = np.concatenate([asked.candidates, asked.targets])
        rows: list[Any] = self._place(self._cloud[both], both).whole.at
        first = np.arange(len(asked.candidates))
        return rows, replace(asked, candidates=first, targets=len(first) + np.arange(len(asked.targets)))

    @abstractmethod
    def _beliefs(self, output: Any, rows: list[np.ndarray], asked: Asked) -> list[Belief]:
        """What is known of one output where it is asked, given rows in every space."""

    @abstractmethod
    def _floor(self, criterion: str, beliefs: list[list[Belief]]) -> float:
        """The gain below which one more label no longer helps."""


def _candidates(given: Any, lacking: np.ndarray) -> np.ndarray:
    """Places in the cloud to choose from; `lacking` says which rows have no label."""
    N = len(lacking)
    if given is None:
        found = np.flatnonzero(lacking)
        if not len(found):
            raise GpumError(f"every one of the {N} rows of the cloud has a label; there is none left to suggest")
        return found
    found = np.asarray(given)
    if found.dtype == bool and found.shape == (N,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise GpumError(f"candidates must be places in the cloud [n] or a mask [{N}] of it, got {given!r}; pass these")
    outside = (found < 0) | (found >= N)
    if outside.any():
        raise GpumError(f"candidates has {int(found[outside][0])}, no row of a cloud of {N}; count rows from 0")
    if not lacking[found].all():
        row = int(found[~lacking[found]][0])
        raise GpumError(f"candidates has row {row}, which has a label already; leave such rows out")
    return np.unique(found)
