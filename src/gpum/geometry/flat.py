"""Flat space as a geometry: the data space itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from .base import KernelTask, Projection, in_data_space
from .candidate_set import CandidateSet
from .features import Components, together_and_apart
from .kernel_grid import stationary_candidates


@dataclass(eq=False)
class FlatGeometry:
    """The data space with stationary kernels: its rows are divided by each of `scales`.
    With `by_column` labels may add spaces in which every column has a
       length scale of its own (`fitted.relevance`). With `components` every space is there twice (see there).
    """

    rows: np.ndarray  # [N, p]
    scales: Sequence[np.ndarray]
    name: str = "flat"
    title: str = "flat space"
    by_column: bool = False
    components: Components | None = None

    def project(self, X: np.ndarray) -> Projection:
        """Rows are their own points."""
        return in_data_space(X)

    def built(self, task: KernelTask) -> FlatGeometry:
        """It needs nothing that is not in it."""
        return self

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """One space a scale; two where the cloud has several connected components."""
        members = []
        for scale in self.scales:
            both = together_and_apart(scale, self.components)
            prior = -log(len(self.scales) * len(both))
            about = {"stretch": tuple(scale.tolist())} if scale.ndim else {}
            rows = both[0].at(self.rows)
            candidates = stationary_candidates(rows, task.smoothness, prior, task.options.max_time, about=about)
            members += [(space, space.at(self.rows), candidates) for space in both]
        return CandidateSet.of(members)


def flat_geometry(X: np.ndarray, by_column: bool = False) -> FlatGeometry:
    """The data space, scaled as a whole."""
    spread = float(np.sqrt(np.mean(X.var(0))))
    scales = [np.asarray(spread if spread > 0 else 1.0)]
    return FlatGeometry(X, scales, by_column=by_column, components=Components.of(X))
