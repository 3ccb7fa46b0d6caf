"""Geometries with stationary kernels of coordinates: those of the data space, of a chart, or of the sketch of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

import numpy as np

from .base import InDataSpace, SurfaceGeometry
from .candidate_set import CandidateSet, Member, on_coordinates, stationary_candidates
from .features import Components, GraphSpace, NodeFeatures, together_and_apart
from .options import KernelTask

if TYPE_CHECKING:
    from .chart import ChartGeometry
BETWEEN = 10  # rows of a sketch between which a new row is


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


@dataclass(eq=False)
class SketchGeometry(InDataSpace):
    """A sketch of a chart: coordinates [N, dim] from which its latent model starts, with plain kernels.

    A latent model begins with PCA and Isomap, and a chart without its boundary is a stationary kernel of even
    coordinates. So the evidence of stationary kernels of the starts says what to expect of the chart, in a hundredth of
    the time: `estimators.plan` learns charts of those dimensions alone that may win. A sketch is no geometry of a fit.
    Between rows coordinates are interpolated, as functions on a graph are.
    """

    rows: np.ndarray  # [N, p]
    coordinates: Sequence[np.ndarray]
    dim: int
    name: str = "sketch"

    @property
    def title(self) -> str:
        """Which sketch it is."""
        return f"sketch of dimension {self.dim}"

    def built(self, task: KernelTask) -> tuple[SketchGeometry, CandidateSet]:
        """Itself, and one space for each start."""
        members: list[Member] = []
        for at_rows in self.coordinates:
            space = GraphSpace(self.rows, np.zeros(at_rows.shape[1]), at_rows, {"n_neighbors": BETWEEN})
            candidates = stationary_candidates(at_rows, task.smoothness, -log(len(self.coordinates)))
            members.append((space, at_rows, candidates))
        return self, CandidateSet.of(members)


def sketches(rows: np.ndarray, dims: Sequence[int]) -> list[SketchGeometry]:
    """A sketch of the chart of each dimension below the number of columns of rows [N, p]."""
    from ..gplvm import starts  # with scikit-learn's clusters, which prediction never needs

    dims = [q for q in dims if q < min(rows.shape[1], len(rows) - 1)]
    if not dims:
        return []
    numbers = sorted({min(k, len(rows) - 1) for k in starts.ISOMAP_NEIGHBOURS})
    widest, rng = max(*dims, 2), np.random.default_rng(0)
    unrolled = [starts.isomap(rows, widest, k, rng) for k in numbers]
    turned = [angle for along in unrolled if (angle := starts.unrolled(along[:, :2])) is not None]
    every = [starts.pca(rows, widest), *unrolled]
    return [SketchGeometry(rows, [*(one[:, :q] for one in every), *(turned[:1] if q == 1 else [])], q) for q in dims]
