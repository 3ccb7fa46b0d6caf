"""The plane of a latent model as a geometry: coordinates of its chart, with stationary kernels (LatentGPRegressor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from .base import KernelTask, Projection
from .candidate_set import CandidateSet
from .chart import ChartGeometry
from .features import NodeFeatures
from .kernel_grid import stationary_candidates
from .surface import SurfaceGeometry


@dataclass(eq=False)
class PlaneGeometry:
    """Coordinates of a learned chart, divided by each of `scales`; what is curved about it is not used."""

    chart: ChartGeometry
    scales: Sequence[np.ndarray]
    name: str = "flat"
    title: str = "flat space"

    def built(self, task: KernelTask) -> SurfaceGeometry:
        """The surface whose nodes have coordinates."""
        return replace(self.chart.built(task), name=self.name, title=self.title)

    def project(self, X: np.ndarray) -> Projection:
        """Places of rows between the nodes of the chart."""
        return self.chart.project(X)

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """One space a scale."""
        surface = self.chart.built(task)
        members = []
        for scale in self.scales:
            space = NodeFeatures(surface.surface.coordinates / scale)
            rows, about = space.at(surface.places), {"stretch": tuple(scale.tolist())}
            prior = -log(len(self.scales))
            candidates = stationary_candidates(rows, task.smoothness, prior, task.options.max_time, about=about)
            members.append((space, rows, candidates))
        return CandidateSet.of(members)
