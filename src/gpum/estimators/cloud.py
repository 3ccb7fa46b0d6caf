"""What all estimators on a cloud share, whatever they predict: its surfaces, the places of rows, files.

A subclass learns the surfaces of the cloud (`_learn`) and says what it wants of their kernels (`_wanted`); the numbers
are made in `regression`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first.

Surfaces are learned from at most PART rows, which is what a few minutes allow. Of a larger cloud these are chosen to
cover it, and all others are placed on the surfaces like rows never seen, but for certain.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import checks, neighbours
from ..files import model_io
from ..gplvm import scaling
from ..regression.family import Family, join, smoothness_names
from ..regression.surfaces import Placement, Surface, Wanted
from .geometries import FAILURES, Built
from .places import Placed, place_on

LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far
PART = 3000  # rows from which surfaces are learned: two dimensions of charts and three of atlases in a few minutes


class CloudEstimator(BaseEstimator, ABC):
    """See the module. `_outputs` have a `posterior` each, with parts, spaces and notes."""

    random_state: Any
    _outputs: list[Any]
    _family: Family
    _surfaces: list[Surface]
    _part: np.ndarray | None  # rows that the surfaces were learned from; None: all
    _cloud: np.ndarray | None  # all rows, where the surfaces were learned from some

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

    def _build(self, X: np.ndarray) -> None:
        """Everything that does not depend on the labels.

        BLAS has one thread: most problems here are small, and threads make them many times as slow.
        """
        with threadpool_limits(1, "blas"):
            self._build_surfaces(X)

    def _build_surfaces(self, X: np.ndarray) -> None:
        self._part = self._cloud = None
        notes = []
        if len(X) > PART:
            self._part, self._cloud = self._choose(X, PART), X
            notes.append(
                f"the surfaces were learned from {PART:,} of {len(X):,} rows, {self._chosen}; "
                "the others were placed on them"
            )
        found = self._learn(X if self._part is None else X[self._part])
        self._rows = {_digest(row): i for i, row in reversed(list(enumerate(X)))}
        families, self._surfaces, priors = [], [], []
        notes += found.notes
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

    _chosen = "chosen to cover the cloud"

    def _choose(self, X: np.ndarray, size: int) -> np.ndarray:
        """Which rows of a large cloud the surfaces are learned from, [size], ascending."""
        seed = check_random_state(getattr(self, "random_state", 0)).randint(2**31 - 1)
        return neighbours.cover(X, size, np.random.default_rng(seed))

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

    def _labelled(self, known: np.ndarray) -> tuple[Family, np.ndarray]:
        """The family with the cloud's rows `known` in it, and where they stand there."""
        if self._cloud is None:
            return self._family, known
        placed = self._place(self._cloud[known], known, frozenset(range(len(self._family.spaces))))
        rows = [at for at in placed.whole.at if at is not None]
        return replace(self._family, rows=rows), np.arange(len(known))

    def _locate(self, X: Any) -> Placed:
        """Where rows X, seen or not, lie in every space that a posterior uses."""
        X = self._check_rows(X)
        placed = self._place(X, self._index(X))
        if placed.far.any():
            warnings.warn(
                f"{int(placed.far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(placed.far)[0])}: their prediction is the prior's",
                stacklevel=4,
            )
        return placed

    def _locate_cloud(self) -> Placed:
        """Where the rows of the fitted cloud lie in every space that a posterior uses."""
        check_is_fitted(self, "_outputs")
        index = np.arange(len(self._family.rows[0]) if self._cloud is None else len(self._cloud))
        return self._place(np.zeros((len(index), 0)) if self._cloud is None else self._cloud, index)

    def _place(self, X: np.ndarray, index: np.ndarray, needed: frozenset[int] | None = None) -> Placed:
        """Rows on the surfaces; `index` says where they stand in the cloud, -1 for nowhere."""
        if needed is None:
            needed = frozenset().union(*(o.posterior.spaces for o in self._outputs))
        own = index
        if self._cloud is not None and self._part is not None:
            position = np.full(len(self._cloud) + 1, -1)  # the last is that of -1
            position[self._part] = np.arange(len(self._part))
            own = position[index]
        new = np.flatnonzero(own < 0)
        owners = sorted({self._family.owners[k] for k in needed}) if len(new) else []
        placements = {owner: place_on(self._surfaces[owner], X[new]) for owner in owners}
        far = np.zeros(len(X), bool)
        if np.any(index < 0):
            far = self._mostly_far(placements, new, len(X)) & (index < 0)
        return Placed(X, index, own, placements, far, self._family, needed)

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
        return np.array([self._rows.get(_digest(row), -1) for row in X], int)

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


def _digest(row: np.ndarray) -> bytes:
    """A row in 16 bytes: no two different rows have the same."""
    return blake2b(row.tobytes(), digest_size=16).digest()
