"""Flat space as a geometry: the data space itself, or the coordinates of a chart without what is curved about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

import numpy as np

from .base import InDataSpace, SurfaceGeometry
from .candidate_set import CandidateSet, Member, on_coordinates
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
        members: list[Member] = []
        for scale in self.scales:
            both = together_and_apart(scale, self.components)
            prior = -log(len(self.scales) * len(both))
            about = {"stretch": tuple(scale.tolist())} if scale.ndim else {}
            together, rows, candidates = on_coordinates(both[0], self.rows, task, prior, about=about)
            members.append((together, rows, candidates))
            members += [(apart, apart.at(self.rows), candidates) for apart in both[1:]]
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
            prior, about = -log(len(self.scales)), {"stretch": tuple(scale.tolist())}
            members.append(on_coordinates(space, geometry.places, task, prior, about=about))
        return geometry, CandidateSet.of(members)
