"""Recipes from which spaces are rebuilt: what a model file stores instead of eigenfunctions.

The eigenfunctions of a small cloud take megabytes, but are computed in a second or a few from a chart or from the rows
of the cloud. A recipe holds these inputs, and `make()` returns the space and the rows of the cloud in it. A kernel
Σ w(λ_i) φ_i φ_iᵀ does not depend on the signs of eigenfunctions, nor on the basis chosen for a repeated eigenvalue, so
that predictions agree up to rounding.
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

FEW = 2000  # rows (or labels) up to which spaces and decompositions are recomputed instead of stored

Made = tuple[Space, np.ndarray]  # a space, and the cloud in it


@dataclass(frozen=True)
class Domain:
    """Eigenfunctions of a domain of a chart, or of draws of its metric."""

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
class Paths:
    """Path histograms: the counts are stored; the tables that the paths were simulated with are rebuilt."""

    features: Any
    rows: np.ndarray

    def make(self) -> Made:
        """The space and the rows in it."""
        return PathSpace(_with_motion(self.features)), self.rows


@dataclass(frozen=True)
class ScaledCoordinates:
    """Coordinates, each divided by a scale of its own."""

    space: spaces.ScaledSpace
    rows: np.ndarray

    def make(self) -> Made:
        """The space and the rows in it."""
        return self.space, self.space.at(self.rows)


@dataclass(frozen=True)
class LocalCharts:
    """An atlas with its eigenfunctions."""

    cloud: np.ndarray
    dim: int
    n_modes: int

    def make(self) -> AtlasGeometry:
        """The geometry."""
        return AtlasGeometry.of(self.cloud, self.dim, self.n_modes)


def recipe(
    space: Any, rows: np.ndarray, geometry: Geometry, level: Any, task: KernelTask, small: bool = False
) -> Any:  # fmt: skip
    """The recipe to store for a space in which the cloud has these rows; None where the space itself is stored.

    With `small` the spaces of more than FEW rows have recipes, too.
    """
    geometry = geometry.inner if isinstance(geometry, ScaledGeometry) else geometry
    if isinstance(space, PathSpace):
        return Paths(_without_motion(space.features), rows)
    if isinstance(space, spaces.ScaledSpace) and isinstance(geometry, FlatGeometry):
        return ScaledCoordinates(space, geometry.rows)
    if (len(rows) > FEW and not small) or not isinstance(geometry, ChartGeometry | GraphGeometry):
        return None
    if isinstance(space, spaces.SpectralSpace) and isinstance(geometry, ChartGeometry):
        return Domain(geometry.domain(task, level), task.options.n_modes or N_MODES, geometry.rows)
    if type(space) is graphs.GraphSpace and _default_modes(space):
        return Neighbours(space.cloud, space.info["n_neighbors"], space.info["width"])
    if type(space) is graphs.DiffusionSpace:
        return Diffusion(space.cloud, space.bandwidth, len(space.values), space.info["normalisation"])
    return None


def stored_geometry(geometry: Geometry) -> Any:
    """What to store of a geometry whose spaces are stored beside it: a recipe, or the geometry itself."""
    if isinstance(geometry, AtlasGeometry) and len(geometry.cloud) <= FEW and geometry.atlas.n_neighbors is None:
        n_modes = len(geometry.pairs.values) + geometry.pairs.missing
        return LocalCharts(geometry.cloud, geometry.atlas.dim, n_modes)
    return geometry


def _default_modes(space: graphs.GraphSpace) -> bool:
    """Whether a graph has as many eigenpairs as it has by default: then it can be rebuilt."""
    rows = len(space.cloud)
    return len(space.values) == (rows if rows <= graphs.ALL else min(graphs.MODES, rows))


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


def levels(components: Sequence[Any]) -> dict[int, Any]:
    """The boundary level of every space that components of a posterior use."""
    return {component.setting.space: component.setting.level for component in components}
