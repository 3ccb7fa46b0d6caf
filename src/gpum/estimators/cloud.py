"""What all estimators on a cloud share, whatever they predict: its surfaces, the places of rows, files.

A subclass learns the surfaces of the cloud (`_learn`) and says what it wants of their kernels (`_wanted`); the numbers
are made in `regression`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .. import __version__, checks
from ..files import model_io
from ..gplvm import scaling
from ..gplvm.missing import fill_in
from ..regression.family import Family, join, smoothness_names
from ..regression.incomplete import IncompleteSurface
from ..regression.posterior import Located
from ..regression.surfaces import Placement, Surface, Wanted
from . import features, kept
from .geometries import FAILURES, Built
from .stored import Stored

WAITING = ("_surfaces", "_family", "_outputs")  # what a model file has as `kept.Kept`
NOT_STORED = (*WAITING, "_rows", "_built_from", "_pieces")  # nor what only another fit to the same cloud would use
LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far


@dataclass(frozen=True)
class Placed:
    """Rows [n, p], where they stand in the fitted cloud (-1: nowhere), in every space, and which are far from it."""

    X: np.ndarray
    index: np.ndarray
    rows: Located
    far: np.ndarray


class CloudEstimator(Stored, BaseEstimator, ABC):
    """See the module. `_outputs` have a `posterior` each, with parts, spaces and notes."""

    random_state: Any
    _outputs: list[Any]
    _family: Family
    _surfaces: list[Surface]

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

    def _build(self, X: np.ndarray) -> None:
        """Everything that does not depend on the labels."""
        found = self._learn(X)
        self._cloud = X
        self._rows = _index_of(X)
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
        located, far = self._located(X, index)
        if far.any():
            warnings.warn(
                f"{int(far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(far)[0])}: their prediction is the prior's",
                stacklevel=4,
            )
        return Placed(X, index, located, far)

    def _locate_cloud(self) -> Located:
        """The rows of the fitted cloud, as `_locate` finds them."""
        if not np.isnan(self._cloud).any():
            return Located.exactly(self._family.rows)
        return self._located(self._cloud, np.arange(len(self._cloud)))[0]

    def _located(self, X: np.ndarray, index: np.ndarray) -> tuple[Located, np.ndarray]:
        """Rows X in every space that a posterior uses, and which are far; `index` says where they stand in the cloud.

        Rows with missing readings are placed anew, seen or not: where they are is uncertain.
        """
        new = np.flatnonzero((index < 0) | np.isnan(X).any(1))
        needed = set().union(*(o.posterior.spaces for o in self._outputs))
        rows = [r[np.maximum(index, 0)] if k in needed else None for k, r in enumerate(self._family.rows)]
        located = Located.exactly(rows)
        owners = {self._family.owners[k] for k in needed} if len(new) else set()
        placements = {owner: self._place(owner, X[new]) for owner in sorted(owners)}
        for owner, placement in placements.items():
            placements[owner] = replace(placement, far=placement.far & (index[new] < 0))  # rows of the cloud never are
        for owner, placement in placements.items():
            self._represent(placement, owner, new, located, needed)
        return located, self._mostly_far(placements, new, len(X))

    def _place(self, owner: int, X: np.ndarray) -> Placement:
        """Where rows X lie on a surface; one made of whole rows is shown completions of those with missing readings."""
        surface = self._surfaces[owner]
        natively = isinstance(surface, IncompleteSurface) or getattr(surface, "placed", None) is not None
        if natively or not np.isnan(X).any():
            return surface.place(X)
        return IncompleteSurface(surface, fill_in(self._cloud), self._cloud).place(X)

    def _represent(self, placement: Placement, owner: int, new: np.ndarray, located: Located, needed: set[int]) -> None:
        """Fill in the rows `new` of `located` in the spaces of one surface."""
        points, sd = placement.points, placement.sd
        # Sigma points: x ± √q s_a e_a have the posterior's mean and variance along each coordinate.
        q = points.shape[1]
        shifts = [] if sd is None else [side * np.sqrt(q) * sd * e for e in np.eye(q) for side in (-1, 1)]
        moved = [points, *(points + shift for shift in shifts), *placement.others]
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

    def _stored(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name not in NOT_STORED}
        if "_family" in vars(self):
            found["_kept"] = kept.light(self._surfaces, self._family, self._outputs, self._wanted())
        return found

    def _restored(self) -> None:
        if not isinstance(self._kept, kept.Kept) or not self._kept.outputs or not self._unit > 0:
            raise ValueError("its settings are not there")
        if self._cloud.ndim != 2 or self._cloud.dtype != float or self._cloud.shape[1] != self.n_features_in_:
            raise ValueError(f"its cloud has shape {self._cloud.shape}, and {self.n_features_in_} features")
        rows = [output.rows for output in self._kept.outputs]
        if not all(r.ndim == 1 and r.dtype == int and np.all((r >= 0) & (r < len(self._cloud))) for r in rows):
            raise ValueError("its labels belong to rows that are not there")
        self._rows = _index_of(self._cloud)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What follows from a model file, made when it is first asked for."""
            if name in WAITING and "_kept" in vars(self):
                self._surfaces, self._family, self._outputs = kept.whole(vars(self).pop("_kept"))
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
        return np.array([self._rows.get(row.tobytes(), -1) for row in X])

    def _check_rows(self, X: Any) -> np.ndarray:
        """Rows like those of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        X = features.like_fitted(self, X)
        with np.errstate(over="ignore"):
            return np.clip(X / self._unit, -LARGEST_ENTRY, LARGEST_ENTRY)


def _index_of(X: np.ndarray) -> dict[bytes, int]:
    """Where each row of a cloud first stands."""
    return {row.tobytes(): i for i, row in reversed(list(enumerate(X)))}
