"""How a space is made again: what a model file holds in place of eigenfunctions.

Eigenfunctions of a small cloud are megabytes that follow, in a second or less, from a chart or the rows of the cloud.
A recipe is what they follow from, and `make()` the space with the cloud in it. A kernel Σ w(λ_i) φ_i φ_iᵀ does not
depend on the signs of eigenfunctions, nor on how those of one eigenvalue are mixed, so that predictions are the same
to rounding wherever they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..heat import brownian
from ..heat.jumps import JumpFeatures
from ..manifold import Chart
from . import graphs, spaces
from .atlas import AtlasGeometry
from .base import Geometry, KernelTask
from .chart import N_MODES, ChartGeometry
from .family import Space
from .flat import FlatGeometry
from .graph import GraphGeometry
from .path_spaces import PathSpace
from .scaled import ScaledGeometry

FEW = 1000  # rows (or labels) up to which what follows from them is computed again instead of stored

Made = tuple[Space, np.ndarray]  # a space, and the cloud in it


@dataclass(frozen=True)
class Domain:
    """Eigenfunctions of a domain of a chart, or of draws of it."""

    charts: list[Chart]
    n_modes: int
    rows: np.ndarray  # [N, q]

    def make(self) -> Made:
        """The space and the rows in it."""
        space = spaces.spectral_space(self.charts, self.n_modes)
        return space, space.at(self.rows)


@dataclass(frozen=True)
class Neighbours:
    """Eigenvectors of a graph of nearest neighbours."""

    cloud: np.ndarray
    n_neighbors: int
    width: float | str  # "local": of `graphs.cluster_spaces`

    def make(self) -> Made:
        """The space and the rows in it."""
        if self.width == "local":
            space = graphs.cluster_spaces(self.cloud, (self.n_neighbors,))[0]
        else:
            space = graphs.graph_spaces(self.cloud, (self.n_neighbors,), (float(self.width),))[0]
        return space, space.vectors


@dataclass(frozen=True)
class Diffusion:
    """Eigenvectors of GL."""

    cloud: np.ndarray
    bandwidth: float
    n_pairs: int
    normalisation: str

    def make(self) -> Made:
        """The space and the rows in it."""
        most = min(max(graphs.PAIRS), len(self.cloud))
        space = graphs.diffusion_space(self.cloud, self.bandwidth, most, self.normalisation).first(self.n_pairs)
        return space, space.vectors


@dataclass(frozen=True)
class Walks:
    """Path histograms: the tables that paths run on are made again, what was counted is stored."""

    features: Any
    rows: np.ndarray

    def make(self) -> Made:
        """The space and the rows in it."""
        return PathSpace(_with_motion(self.features)), self.rows


@dataclass(frozen=True)
class Stretched:
    """Coordinates, each divided by a scale of its own."""

    space: spaces.ScaledSpace
    rows: np.ndarray

    def make(self) -> Made:
        """The space and the rows in it."""
        return self.space, self.space.at(self.rows)


@dataclass(frozen=True)
class LocalCharts:
    """The surface of an atlas with its eigenfunctions."""

    cloud: np.ndarray
    dim: int
    n_modes: int

    def make(self) -> AtlasGeometry:
        """The surface."""
        return AtlasGeometry.of(self.cloud, self.dim, self.n_modes)


def recipe(space: Any, rows: np.ndarray, surface: Geometry, level: Any, task: KernelTask) -> Any:
    """What to store of a space in which the cloud has these rows: a recipe, or None where it is stored as it is."""
    surface = surface.inner if isinstance(surface, ScaledGeometry) else surface
    if isinstance(space, PathSpace):
        return Walks(_without_motion(space.features), rows)
    if isinstance(space, spaces.ScaledSpace) and isinstance(surface, FlatGeometry):
        return Stretched(space, surface.rows)
    if len(rows) > FEW or not isinstance(surface, ChartGeometry | GraphGeometry):
        return None
    if isinstance(space, spaces.SpectralSpace) and isinstance(surface, ChartGeometry):
        return Domain(surface.domain(task, level), task.options.n_modes or N_MODES, surface.rows)
    if type(space) is graphs.GraphSpace and _all_modes(space):
        return Neighbours(space.cloud, space.info["n_neighbors"], space.info["width"])
    if type(space) is graphs.DiffusionSpace:
        return Diffusion(space.cloud, space.bandwidth, len(space.values), space.info["normalisation"])
    return None


def light(surface: Geometry) -> Any:
    """What to store of a surface whose spaces are stored beside it."""
    if isinstance(surface, AtlasGeometry) and len(surface.cloud) <= FEW and surface.atlas.n_neighbors is None:
        n_modes = len(surface.pairs.values) + surface.pairs.missing
        return LocalCharts(surface.cloud, surface.atlas.dim, n_modes)
    return surface


def _all_modes(space: graphs.GraphSpace) -> bool:
    return len(space.values) == len(space.cloud) <= graphs.ALL


def _without_motion(features: Any) -> Any:
    if hasattr(features, "base"):
        return replace(features, base=_without_motion(features.base))
    if isinstance(features, JumpFeatures):
        return replace(features, n_jobs=None)
    return replace(features, moving=None, n_jobs=None)


def _with_motion(features: Any) -> Any:
    if hasattr(features, "base"):
        return replace(features, base=_with_motion(features.base))
    return features if isinstance(features, JumpFeatures) else replace(features, moving=brownian.motion(features.chart))


def levels(parts: Sequence[Any]) -> dict[int, Any]:
    """The boundary level of every space that parts of a posterior use."""
    return {part.setting.space: part.setting.level for part in parts}
