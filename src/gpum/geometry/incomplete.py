"""A surface of a cloud in which readings are missing: that of its well-known rows, with the others placed on it.

Graphs, atlases and flat space are made of whole rows. Rows that can be filled in well (`Filled.sound`) are such rows;
any other is seen at several places, one for each completion. In the covariance of labels it has the mean of their
representations: with eigenfunctions as features this is the covariance of the mean of f over the completions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..basics.missing import Filled
from .base import Geometry, KernelTask, Projection
from .family import Family


@dataclass(eq=False)
class IncompleteGeometry:
    """`inner` is made of the sound rows of `filled`; `cloud` [N, p] are all rows, NaN where a reading is missing."""

    inner: Geometry
    filled: Filled
    cloud: np.ndarray
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def title(self) -> str:
        """Which one of its kind it is."""
        return self.inner.title

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p]; those with missing readings at the place of each completion, equally likely."""
        some = np.isnan(X).any(1)
        if not some.any():
            return self.inner.project(X)
        found = []
        for whole in self.filled.completions(X[some], self.filled.donors(X[some])):
            completed = X.copy()
            completed[some] = whole
            found.append(self.inner.project(completed))
        return Projection(found[0].points, None, np.all([f.far for f in found], 0), tuple(f.points for f in found))

    def family(self, task: KernelTask) -> Family:
        """The spaces of the inner surface, with all rows in them."""
        family, sound = self.inner.family(task), self.filled.sound
        if sound.all():
            return family
        placed = self.project(self.cloud[~sound])
        rows = []
        for space, known in zip(family.spaces, family.rows, strict=True):
            every = np.empty((len(self.cloud), known.shape[1]))
            every[sound] = known
            every[~sound] = np.mean([space.at(points) for points in placed.others], axis=0)
            rows.append(every)
        return replace(family, rows=rows)
