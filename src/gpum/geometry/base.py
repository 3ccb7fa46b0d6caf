"""What a geometry is once it is built: something that rows are projected onto.

A *builder* (of `chart`, `atlas`, `graphs` or `flat`) makes of a cloud a geometry and the candidates on
its spaces. The geometry is what a fitted model and its file hold:

    SurfaceGeometry       charts, atlases and meshes: a row becomes a place between the nodes of the surface
    `flat`, `graphs`      a row is its own point
    ScaledGeometry        another geometry, which was learned from the same rows in other units
    IncompleteGeometry    another geometry, which needs complete rows: one with missing readings has several points
    UnweightedGeometry    the name of a geometry without weight, of which a file holds no more
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..basics.checks import GpumError
from ..basics.missing import Filled
from ..manifold.surface import Surface, interpolated
from ..persistence.model_io import Sealed
from .candidate_set import CandidateSet
from .options import KernelTask


@dataclass(frozen=True)
class Projection:
    """Rows on a geometry: points (rows of the data space, or places between nodes), and which rows are far from it.

    `others` holds all possible points of each row, equally likely, where readings are missing. `sigma_points` holds
    points around each one's own, equally likely, where its coordinates are uncertain.
    """

    points: np.ndarray  # [n, ...]
    far: np.ndarray  # [n], bool
    others: tuple[np.ndarray, ...] = ()
    sigma_points: tuple[np.ndarray, ...] = ()


class Geometry(Protocol):
    """A geometry of a cloud, as a fitted model holds it."""

    @property
    def name(self) -> str:
        """Its kind, such as "chart"."""

    @property
    def title(self) -> str:
        """Its name among geometries of its kind, such as "chart of dimension 2"."""

    def project(self, X: np.ndarray) -> Projection:
        """Projects new rows X [n, p] onto the geometry."""


class Builder(Protocol):
    """Makes a geometry of a cloud."""

    @property
    def name(self) -> str:
        """The kind of the geometry."""

    @property
    def title(self) -> str:
        """The title of the geometry."""

    def built(self, task: KernelTask) -> tuple[Geometry, CandidateSet]:
        """The geometry, and its spaces with the candidates on them and the rows of the cloud in each."""


class InDataSpace:
    """A base of geometries on which rows are their own points."""

    def project(self, X: np.ndarray) -> Projection:
        """The rows X [n, p] themselves."""
        return Projection(X, np.zeros(len(X), bool))


@dataclass(frozen=True, eq=False)
class SurfaceGeometry:
    """A surface with the rows [N] that it was learned from, each at a place between its nodes [N, 2j].

    `details` hold the chart and the latent model, for those who ask for them; predictions do not.
    """

    name: str
    title: str
    surface: Surface
    places: np.ndarray
    details: Sealed | None = None

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p] as places between nodes; where coordinates are uncertain, with further places around each."""
        located = self.surface.project(X)
        places = located.packed
        return Projection(places, located.far, sigma_points=tuple(self.surface.sigma_points(places)))

    def coordinates(self, X: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Coordinates [n, q] in the chart of rows X at these places; rows of a known chart are coordinates."""
        return X if self.surface.coordinates is None else interpolated(places, self.surface.coordinates)

    def spreads(self, X: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Standard deviations [n, q] of these coordinates."""
        if self.surface.spread is None:
            return np.zeros_like(self.coordinates(X, places))
        return interpolated(places, self.surface.spread)


@dataclass(eq=False)
class ScaledGeometry:
    """A geometry that is learned from the cloud's rows divided by `scale`, a number or one for each column.

    `units` says in words how the columns are scaled. `inner` is a builder or, once it is built, its geometry.
    """

    inner: Any
    scale: np.ndarray | float
    units: str
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def title(self) -> str:
        """The title of the inner geometry, and the units."""
        return f"{self.inner.title} ({self.units})"

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p] in the units of the cloud, on the inner geometry."""
        return self.inner.project(X / self.scale)

    def built(self, task: KernelTask) -> tuple[ScaledGeometry, CandidateSet]:
        """The same of the inner geometry, and its candidates."""
        geometry, candidate_set = self.inner.built(task)
        return replace(self, inner=geometry), candidate_set


@dataclass(eq=False)
class IncompleteGeometry:
    """A geometry of a cloud [N, p] with missing readings (NaN): made of its sound rows, for all of its rows.

    Graphs, atlases and flat space need complete rows. Rows whose missing readings can be filled in well
    (`Filled.sound`) are used as complete rows. Any other row has several points, one for each completion. In the
    covariance of labels it is represented by the mean over these points: with eigenfunctions as features this is the
    covariance of the mean of f over the completions.

    `inner` is a builder or, once it is built, its geometry. `filled` completes rows. It is the cloud filled in or,
    where `sound` [N] says which rows are sound, a subset of it.
    """

    inner: Any
    filled: Filled
    cloud: np.ndarray
    name: str = ""
    sound: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def title(self) -> str:
        """The title of the inner geometry."""
        return self.inner.title

    def project(self, X: np.ndarray) -> Projection:
        """Projects rows X [n, p]; a row with missing readings has one point for each completion, equally likely."""
        incomplete = np.isnan(X).any(1)
        if not incomplete.any():
            return self.inner.project(X)
        projections = []
        for whole in self.filled.completions(X[incomplete], self.filled.donors(X[incomplete])):
            completed = X.copy()
            completed[incomplete] = whole
            projections.append(self.inner.project(completed))
        far = np.all([projection.far for projection in projections], 0)
        return Projection(projections[0].points, far, tuple(projection.points for projection in projections))

    def built(self, task: KernelTask) -> tuple[IncompleteGeometry, CandidateSet]:
        """The same of the inner geometry, and its candidates with all rows in its spaces."""
        geometry, candidate_set = self.inner.built(task)
        built = replace(self, inner=geometry)
        sound = self.filled.sound if self.sound is None else self.sound
        if sound.all():
            return built, candidate_set
        projection = built.project(self.cloud[~sound])
        rows = []
        for space, of_sound in zip(candidate_set.spaces, candidate_set.rows, strict=True):
            of_cloud = np.empty((len(self.cloud), of_sound.shape[1]), of_sound.dtype)
            of_cloud[sound] = of_sound
            of_cloud[~sound] = np.mean([space.at(points) for points in projection.others], axis=0)
            rows.append(of_cloud)
        return built, replace(candidate_set, rows=rows)


@dataclass(frozen=True)
class UnweightedGeometry:
    """What a model file stores of a geometry without weight: its name. Nothing can be projected onto it."""

    name: str
    title: str
    units: str | None = None  # other than those of the cloud, in words

    def project(self, X: np.ndarray) -> Projection:
        """It has no points."""
        raise GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")


def bare(geometry: Any) -> tuple[Any, np.ndarray | float]:
    """The geometry inside those of other units and of incomplete rows, and what rows are divided by for it."""
    scale: np.ndarray | float = 1.0
    while isinstance(geometry, ScaledGeometry | IncompleteGeometry):
        scale = scale * geometry.scale if isinstance(geometry, ScaledGeometry) else scale
        geometry = geometry.inner
    return geometry, scale


def titles(geometries: Sequence[Geometry]) -> list[str]:
    """Titles of several geometries; a repeated title gets a number from the second on."""
    count: Counter[str] = Counter()
    numbered = []
    for geometry in geometries:
        count[geometry.title] += 1
        n = count[geometry.title]
        numbered.append(geometry.title if n == 1 else f"{geometry.title}, fit {n}")
    return numbered
