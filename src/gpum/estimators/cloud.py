"""What all estimators on a cloud share, whatever they predict: its surfaces, the places of rows, files.

A subclass learns the surfaces of the cloud (`_learn`) and says what it wants of their kernels (`_wanted`); the numbers
are made in `regression`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first.

Surfaces are learned from at most PART rows, which is what a few minutes allow. Of a larger cloud these are chosen to
cover it, and all others are placed on the surfaces like rows never seen, but for certain.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import __version__, checks, neighbours
from ..checks import GpumError, NoSurface
from ..files import model_io
from ..gplvm import scaling
from ..gplvm.missing import fill_in
from ..regression.family import Family, join, smoothness_names
from ..regression.incomplete import IncompleteSurface
from ..regression.surfaces import AtlasSurface, Placement, Surface, Wanted
from . import features, kept
from .geometries import Built
from .places import Placed, among, place_on
from .stored import Stored

WAITING = ("_surfaces", "_family", "_outputs")  # what a model file has as `kept.Kept`
# Nor is what follows from the cloud, or only another fit to it would use.
NOT_STORED = (*WAITING, "_rows", "_points", "_built_from", "_pieces", "_run")
MAKING = threading.RLock()  # held by the thread that makes what follows from a model file; others wait for it
LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far
PART = 3000  # rows from which surfaces are learned: two dimensions of charts and three of atlases in a few minutes


class CloudEstimator(Stored, BaseEstimator, ABC):
    """See the module. `_outputs` have a `posterior` each, with parts, spaces and notes."""

    random_state: Any
    _outputs: list[Any]
    _family: Family
    _surfaces: list[Surface]
    _part: np.ndarray | None  # rows that the surfaces were learned from; None: all
    _cloud: np.ndarray  # all rows
    _points: dict[int, np.ndarray]  # where they all are on a surface, if they were placed on it

    def _enter(self, X: Any) -> np.ndarray:
        """X, checked, as it is fitted: divided by a unit such that squares of its numbers are numbers."""
        features.remember(self, X)
        X = self._check_cloud(X)
        scaling.check(X, "X")
        self.n_features_in_ = X.shape[1]
        self._unit = self._unit_of(X)
        return X / self._unit

    def _check_cloud(self, X: Any) -> np.ndarray:
        X = checks.cloud(X, "X", min_rows=2, missing=get_tags(self).input_tags.allow_nan)
        checks.columns_read(X, "X")
        return X

    def _unit_of(self, X: np.ndarray) -> float:
        """What X is divided by: 1 but for extreme numbers."""
        return scaling.Scaling.of(X, by_column=False).unit

    def _build(self, X: np.ndarray, y: np.ndarray | None = None) -> None:
        """Everything that does not depend on the labels y.

        BLAS has one thread: most problems here are small, and threads make them many times as slow.
        """
        with threadpool_limits(1, "blas"):
            self._build_surfaces(X)

    def _build_surfaces(self, X: np.ndarray) -> None:
        self._cloud, self._part, self._points = X, None, {}
        notes = []
        if len(X) > PART:
            self._part = self._choose(X, PART)
            notes.append(
                f"the surfaces were learned from {PART:,} of {len(X):,} rows, {self._chosen}; "
                "the others were placed on them"
            )
        found = self._learn(X if self._part is None else X[self._part])
        self._rows = _index_of(X)
        families, self._surfaces, priors = [], [], []
        notes += found.notes
        for surface, prior in zip(found.surfaces, found.log_priors, strict=True):
            try:
                families.append(surface.family(self._wanted()))
            except NoSurface as error:
                if len(found.surfaces) == 1:
                    raise
                notes.append(f"the {surface.title} is left out: {error}")
                continue
            self._surfaces.append(surface)
            priors.append(prior)
        if not families:
            raise NoSurface(f"no geometry can be used on this cloud: {'; '.join(notes)}")
        self._family = join(families, priors)
        self._family.notes[:0] = notes

    _chosen = "chosen to cover the cloud"

    def _choose(self, X: np.ndarray, size: int) -> np.ndarray:
        """Which rows of a large cloud the surfaces are learned from, [size], ascending."""
        seed = checks.random_state(getattr(self, "random_state", 0)).randint(2**31 - 1)
        return neighbours.cover(_without_gaps(X), size, np.random.default_rng(seed), self._drawn(len(X), size, seed))

    def _drawn(self, n: int, size: int, seed: int) -> np.ndarray | None:
        """Which of n rows are in the part whatever they cover."""
        return None

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
        if self._part is None:
            return self._family, known
        placed = self._place(self._cloud[known], known, frozenset(range(len(self._family.spaces))))
        found = placed.whole
        rows = [at for at in found.at if at is not None]
        for k, around in enumerate(found.around):
            if around and placed.placements[self._family.owners[k]].others:  # see `incomplete`
                rows[k] = np.mean(around, axis=0)
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
        return self._place(self._cloud, np.arange(len(self._cloud)))

    def _place(self, X: np.ndarray, index: np.ndarray, needed: frozenset[int] | None = None) -> Placed:
        """Rows on the surfaces; `index` says where they stand in the cloud, -1 for nowhere.

        Rows with missing readings are placed anew, seen or not: where they are is uncertain.
        """
        if needed is None:
            needed = frozenset().union(*(o.posterior.spaces for o in self._outputs))
        own = index
        if self._part is not None:
            position = np.full(len(self._cloud) + 1, -1)  # the last is that of -1
            position[self._part] = np.arange(len(self._part))
            own = position[index]
        missing = np.isnan(X).any(1)
        own = np.where(missing, -1, own)
        new = np.flatnonzero(own < 0)
        owners = sorted({self._family.owners[k] for k in needed}) if len(new) else []
        rows, standing = X[new], np.where(missing, -1, index)[new]
        placements = {owner: self._placement(owner, rows, standing) for owner in owners}
        far = np.zeros(len(X), bool)
        if np.any(index < 0):  # rows of the cloud never are
            far = self._mostly_far(placements, new, len(X)) & (index < 0)
        return Placed(X, index, own, missing, placements, far, self._family, needed)

    def _placement(self, owner: int, X: np.ndarray, index: np.ndarray) -> Placement:
        """Rows on a surface; those of the cloud that were placed on it in `fit` are where they were."""
        known, fresh = self._points.get(owner), index < 0
        if isinstance(self._surfaces[owner], AtlasSurface):  # places are rows; only whether a new one is far is to find
            known = self._cloud
        if known is None or fresh.all():
            return place_on(self._placer(owner, X), X)
        if not fresh.any():
            return Placement(known[index], None, fresh)
        return among(place_on(self._placer(owner, X[fresh]), X[fresh]), fresh, known[index])

    def _placer(self, owner: int, X: np.ndarray) -> Surface:
        """The surface that places rows X; one made of whole rows sees completions of those with missing readings."""
        surface = self._surfaces[owner]
        natively = isinstance(surface, IncompleteSurface) or getattr(surface, "placed", None) is not None
        if natively or not np.isnan(X).any():
            return surface
        cloud = self._cloud if self._part is None else self._cloud[self._part]
        return IncompleteSurface(surface, fill_in(cloud), cloud)

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

    def _stored(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name not in NOT_STORED}
        if "_family" in vars(self):
            found["_kept"] = kept.light(self._surfaces, self._family, self._outputs, self._wanted(), self._part is None)
        return found

    def _restored(self) -> None:
        if not isinstance(self._kept, kept.Kept) or not self._kept.outputs or not self._unit > 0:
            raise GpumError("its settings are not there")
        if self._cloud.ndim != 2 or self._cloud.dtype != float or self._cloud.shape[1] != self.n_features_in_:
            raise GpumError(f"its cloud has shape {self._cloud.shape}, and {self.n_features_in_} features")
        rows = [output.rows for output in self._kept.outputs]
        if not all(r.ndim == 1 and r.dtype == int and np.all((r >= 0) & (r < len(self._cloud))) for r in rows):
            raise GpumError("its labels belong to rows that are not there")
        self._rows, self._points = _index_of(self._cloud), {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What follows from a model file, made when it is first asked for."""
            if name in WAITING:
                with MAKING:
                    if "_kept" in vars(self):
                        self._surfaces, self._family, self._outputs = kept.whole(self._kept)
                        del self._kept
                    if name in vars(self):
                        return vars(self)[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _summary(self) -> dict[str, Any]:
        plain = {
            k: v if v is None or isinstance(v, bool | int | float | str) else repr(v)[:200]
            for k, v in self.get_params(deep=False).items()
        }
        return {
            "kind": type(self).__name__, "version": __version__, "rows": len(self._cloud),
            "n_features": self.n_features_in_, "settings": plain, "notes": list(self.notes_),
            **kept.summary(self._surfaces, self._family, self._outputs),
        }  # fmt: skip

    def _as_fitted(self) -> model_io.Fitted:
        """The estimator with its table, columns named by their numbers."""
        X = self._cloud * self._unit
        y = np.full((len(X), len(self._outputs)), np.nan)
        for k, output in enumerate(self._outputs):
            y[output.rows, k] = output.labels
        names = getattr(self, "feature_names_in_", [f"X_{j + 1}" for j in range(X.shape[1])])
        targets = ["y"] if y.shape[1] == 1 else [f"y_{k + 1}" for k in range(y.shape[1])]
        about = {"settings": self.get_params(deep=False)}
        return model_io.Fitted(self, [str(n) for n in names], targets, X, y, [str(i + 1) for i in range(len(X))], about)

    def _index(self, X: np.ndarray) -> np.ndarray:
        """Where rows X stand in the fitted cloud, -1 for those that do not."""
        return np.array([self._rows.get(_digest(row), -1) for row in X], int)

    def _check_rows(self, X: Any) -> np.ndarray:
        """Rows like those of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        X = features.like_fitted(self, X)
        with np.errstate(over="ignore"):
            return np.clip(X / self._unit, -LARGEST_ENTRY, LARGEST_ENTRY)


def _index_of(X: np.ndarray) -> dict[bytes, int]:
    """Where each row of a cloud first stands."""
    return {_digest(row): i for i, row in reversed(list(enumerate(X)))}


def _without_gaps(X: np.ndarray) -> np.ndarray:
    """Rows with the mean of its column in place of each missing reading."""
    missing = np.isnan(X)
    return np.where(missing, np.nanmean(X, 0), X) if missing.any() else X


def _digest(row: np.ndarray) -> bytes:
    """A row in 16 bytes: no two different rows have the same."""
    return blake2b(row.tobytes(), digest_size=16).digest()
