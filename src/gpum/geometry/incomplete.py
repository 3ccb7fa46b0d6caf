"""A geometry of a cloud with missing readings: built from its sound rows; the other rows are projected onto it.

Graphs, atlases and flat space need complete rows. Rows whose missing readings can be filled in well (`Filled.sound`)
are used as complete rows. Any other row has several points, one for each completion. In the covariance of labels it is
represented by the mean over these points: with eigenfunctions as features this is the covariance of the mean of f over
the completions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..basics.missing import Filled
from .base import Geometry, KernelTask, Projection
from .candidate_set import CandidateSet


@dataclass(eq=False)
class IncompleteGeometry:
    """`inner` is made of the sound rows of `cloud` [N, p], which has NaN where a reading is missing.

    `filled` completes rows. It is the cloud filled in or, where `sound` [N] says which rows are sound, a subset of it.
    """

    inner: Geometry
    filled: Filled
    cloud: np.ndarray
    name: str = ""
    sound: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def title(self) -> str:
        """Which one of its kind it is."""
        return self.inner.title

    def project(self, X: np.ndarray) -> Projection:
        """Projects rows X [n, p]; a row with missing readings has one point for each completion, equally likely."""
        some = np.isnan(X).any(1)
        if not some.any():
            return self.inner.project(X)
        found = []
        for whole in self.filled.completions(X[some], self.filled.donors(X[some])):
            completed = X.copy()
            completed[some] = whole
            found.append(self.inner.project(completed))
        return Projection(found[0].points, np.all([f.far for f in found], 0), tuple(f.points for f in found))

    def built(self, task: KernelTask) -> IncompleteGeometry:
        """The same of the inner geometry once it is built."""
        return replace(self, inner=self.inner.built(task))

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """The spaces of the inner geometry, with all rows in them."""
        candidate_set, sound = self.inner.candidate_set(task), self.filled.sound if self.sound is None else self.sound
        if sound.all():
            return candidate_set
        projection = self.project(self.cloud[~sound])
        rows = []
        for space, known in zip(candidate_set.spaces, candidate_set.rows, strict=True):
            every = np.empty((len(self.cloud), known.shape[1]), known.dtype)
            every[sound] = known
            every[~sound] = np.mean([space.at(points) for points in projection.others], axis=0)
            rows.append(every)
        return replace(candidate_set, rows=rows)
