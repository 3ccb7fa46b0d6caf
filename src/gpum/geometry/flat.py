"""Flat space as a geometry: the data space itself, or the coordinates of a chart without what is curved about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

import numpy as np

from .base import InDataSpace, SurfaceGeometry
from .candidate_set import CandidateSet, stationary_candidates
from .features import Components, NodeFeatures, together_and_apart
from .options import KernelTask

if TYPE_CHECKING:
    from .chart import ChartGeometry


@dataclass(eq=False)
class FlatGeometry(InDataSpace):
    """The data space with stationary kernels: its rows are divided by each of `scales`.

    With `by_column` labels may add spaces in which every column has a length scale of its own (`fitted.relevance`).
    With `components` every space is there twice (see there).
    """

    rows: np.ndarray  # [N, p]
    scales: Sequence[np.ndarray]
    name: str = "flat"
    title: str = "flat space"
    by_column: bool = False
    components: Components | None = None

    @classmethod
    def of(cls, X: np.ndarray, by_column: bool = False) -> FlatGeometry:
        """The data space, scaled as a whole."""
        spread = float(np.sqrt(np.mean(X.var(0))))
        scales = [np.asarray(spread if spread > 0 else 1.0)]
        return cls(X, scales, by_column=by_column, components=Components.of(X))

    def built(self, task: KernelTask) -> tuple[FlatGeometry, CandidateSet]:
        """Itself, and one space a scale; two where the cloud has several connected components."""
        members = []
        for scale in self.scales:
            both = together_and_apart(scale, self.components)
            prior = -log(len(self.scales) * len(both))
            about = {"stretch": tuple(scale.tolist())} if scale.ndim else {}
            rows = both[0].at(self.rows)
            candidates = stationary_candidates(rows, task.smoothness, prior, task.options.max_time, about=about)
            members += [(space, space.at(self.rows), candidates) for space in both]
        return self, CandidateSet.of(members)


@dataclass(eq=False)
class PlaneGeometry:
    """Coordinates of a learned chart, divided by each of `scales`, for `LatentGPRegressor`."""

    chart: ChartGeometry
    scales: Sequence[np.ndarray]
    name: str = "flat"
    title: str = "flat space"

    def built(self, task: KernelTask) -> tuple[SurfaceGeometry, CandidateSet]:
        """The surface whose nodes have coordinates, and one space a scale."""
        geometry = replace(self.chart.geometry(task), name=self.name, title=self.title)
        members = []
        for scale in self.scales:
            space = NodeFeatures(geometry.surface.coordinates / scale)
            rows, about = space.at(geometry.places), {"stretch": tuple(scale.tolist())}
            prior = -log(len(self.scales))
            candidates = stationary_candidates(rows, task.smoothness, prior, task.options.max_time, about=about)
            members.append((space, rows, candidates))
        return geometry, CandidateSet.of(members)
