"""What all estimators on a cloud share, whatever they predict: its surfaces, the places of rows, files.

A subclass learns the surfaces of the cloud (`_learn`) and says what it wants of their kernels (`_wanted`); the numbers
are made in `regression`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import checks
from ..files import model_io
from ..gplvm import scaling
from ..regression.family import Family, join, smoothness_names
from ..regression.posterior import Located
from ..regression.surfaces import Placement, Surface, Wanted
from .geometries import FAILURES, Built

LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far


@dataclass(frozen=True)
class Placed:
    """Rows [n, p], where they stand in the fitted cloud (-1: nowhere), in every space, and which are far from it."""

    X: np.ndarray
    index: np.ndarray
    rows: Located
    far: np.ndarray


class CloudEstimator(BaseEstimator, ABC):
    """See the module. `_outputs` have a `posterior` each, with parts, spaces and notes."""

    random_state: Any
    _outputs: list[Any]
    _family: Family
    _surfaces: list[Surface]

    def _enter(self, X: Any) -> np.ndarray:
        """X, checked, as it is fitted: divided by a unit such that squares of its numbers are numbers."""
        X = self._check_cloud(X)
        scaling.check(X, "X")
        self.n_features_in_ = X.shape[1]
        self._unit = self._unit_of(X)
        return X / self._unit

    def _check_cloud(self, X: Any) -> np.ndarray:
        return checks.cloud(X, "X", min_rows=2)

    def _unit_of(self, X: np.ndarray) -> float:
        """What X is divided by: 1 but for extreme numbers."""
        return scaling.Scaling.of(X, by_column=False).unit

    def _build(self, X: np.ndarray, y: np.ndarray | None = None) -> None:
        """Everything that does not depend on the labels y."""
        found = self._learn(X)
        self._rows = {row.tobytes(): i for i, row in reversed(list(enumerate(X)))}
        families, self._surfaces, priors, notes = [], [], [], list(found.notes)
        for surface, prior in zip(found.surfaces, found.log_priors, strict=True):
            try:
                families.append(surface.family(self._wanted()))
            except FAILURES as error:
                if len(found.surfaces) == 1:
                    raise
                notes.append(f"the {surface.title} is left out: {error}")
                continue
            self._surfaces.append(surface)
            priors.append(prior)
        if not families:
            raise ValueError(f"no geometry can be used on this cloud: {'; '.join(notes)}")
        self._family = join(families, priors)
        self._family.notes[:0] = notes

    @abstractmethod
    def _learn(self, X: np.ndarray) -> Built:
        """The surfaces of the cloud."""

    def _wanted(self) -> Wanted:
        """What is asked of the kernels."""
        return Wanted(smoothness_names(getattr(self, "smoothness", "heat")))

    def _gather_notes(self) -> list[str]:
        """What was left out, cut short or could not be done as asked, in sentences."""
        posteriors = [note for output in self._outputs for note in output.posterior.notes]
        return list(dict.fromkeys([*self._family.notes, *posteriors]))

    def _locate(self, X: Any) -> Placed:
        """Where rows X, seen or not, lie in every space that a posterior uses."""
        X = self._check_rows(X)
        index = self._index(X)
        new = np.flatnonzero(index < 0)
        needed = set().union(*(o.posterior.spaces for o in self._outputs))
        rows = [r[np.maximum(index, 0)] if k in needed else None for k, r in enumerate(self._family.rows)]
        located = Located.exactly(rows)
        owners = {self._family.owners[k] for k in needed} if len(new) else set()
        placements = {owner: self._surfaces[owner].place(X[new]) for owner in sorted(owners)}
        for owner, placement in placements.items():
            self._represent(placement, owner, new, located, needed)
        far = self._mostly_far(placements, new, len(X))
        if far.any():
            warnings.warn(
                f"{int(far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(far)[0])}: their prediction is the prior's",
                stacklevel=4,
            )
        return Placed(X, index, located, far)

    def _represent(self, placement: Placement, owner: int, new: np.ndarray, located: Located, needed: set[int]) -> None:
        """Fill in the rows `new` of `located` in the spaces of one surface."""
        points, sd = placement.points, placement.sd
        # Sigma points: x ± √q s_a e_a have the posterior's mean and variance along each coordinate.
        q = points.shape[1]
        shifts = [] if sd is None else [side * np.sqrt(q) * sd * e for e in np.eye(q) for side in (-1, 1)]
        moved = [points, *(points + shift for shift in shifts)]
        for k in needed:
            if self._family.owners[k] != owner:
                continue
            at = located.at[k]
            assert at is not None
            first, *others = np.split(self._family.spaces[k].at(np.concatenate(moved)), len(moved))
            at[new] = first
            located.around[k] = [at.copy() for _ in others]
            for place, found in zip(located.around[k], others, strict=True):
                place[new] = found
            located.far[k][new] = placement.far

    def _mostly_far(self, placements: dict[int, Placement], new: np.ndarray, n: int) -> np.ndarray:
        """Which rows are far for surfaces that hold more than half of the weight, [n]."""
        far = np.zeros(n, bool)
        weights = np.mean([self._surface_weights(o) for o in self._outputs], axis=0)
        if placements:
            far[new] = sum(weights[owner] * placement.far for owner, placement in placements.items()) > 0.5
        return far

    def _surface_weights(self, output: Any) -> np.ndarray:
        """The posterior weight of each surface, [surfaces]."""
        weights = np.zeros(len(self._surfaces))
        for part in output.posterior.parts:
            weights[self._family.owners[part.setting.space]] += part.weight
        return weights

    def _latent_of(self, X: np.ndarray, index: np.ndarray) -> np.ndarray | None:
        """Coordinates of the rows on the chart that people are shown; `index` says where they stand in the cloud."""
        return None

    def far_from_surface(self, X: Any) -> np.ndarray:
        """Which rows X are so far from the fitted surface that their prediction is the prior's, [rows] of bool."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*far from the fitted surface", UserWarning)
            return self._locate(X).far

    def save(self, path: Any) -> None:
        """Write the fitted estimator to a file (a pickle: load only files you trust), whole or not at all."""
        check_is_fitted(self, "_outputs")
        model_io.write(path, self)

    @classmethod
    def load(cls, path: Any) -> Any:
        """Read an estimator that `save` or `gpum fit` wrote (a pickle: load only files you trust)."""
        found = model_io.read(path)
        if isinstance(found, model_io.Fitted):
            found = found.model
        if not isinstance(found, cls):
            raise TypeError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}; load it with its own class")
        return found

    def _index(self, X: np.ndarray) -> np.ndarray:
        """Where rows X stand in the fitted cloud, -1 for those that do not."""
        return np.array([self._rows.get(row.tobytes(), -1) for row in X])

    def _check_rows(self, X: Any) -> np.ndarray:
        """Rows like those of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        X = checks.cloud(X, "X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input; pass the columns of the fitted cloud in the same order"
            )
        with np.errstate(over="ignore"):
            return np.clip(X / self._unit, -LARGEST_ENTRY, LARGEST_ENTRY)
