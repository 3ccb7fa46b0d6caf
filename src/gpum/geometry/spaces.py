"""Spaces of a chart, and the settings on them.

boundary level   exponential with mean DEFAULT_LEVEL, at LEVELS values in equal ratios of 1 + level
no boundary      prior weight PLANE beside all levels: the plain kernel of the chart's even coordinates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from ..basics import neighbours
from ..basics.checks import NoSurface
from ..heat import elements
from ..heat.covariances import Spectral, Stationary
from ..heat.spectral import eigenpairs, varying
from ..manifold import Chart, CorridorBoundary, LearnedChart, StraightChart
from ..manifold.boundary import DEFAULT_LEVEL
from .family import Setting, ladder
from .graphs import CONNECTED

LEVELS = 6
MAX_LEVEL = 6 * DEFAULT_LEVEL
RESOLVED = 0.05  # weight of the last mode at the smallest scale
# Largest variance of a kernel, relative to its mean over the cloud: that in the corner of a square. Random clouds on
# smooth surfaces stay below it; parts where a surface is thin or rough can exceed it a thousand times.
BOUND = 4.0
TOLERANCE = 0.03  # of the first eigenvalues, when the mesh is refined
# Largest scales, relative to the extent π/√λ_1: a heat kernel is almost constant when √t is 0.7 of it; a Matérn kernel
# still changes up to larger scales.
LARGEST_HEAT, LARGEST_MATERN = 0.7, 2.0


@dataclass(frozen=True)
class SpectralSpace:
    """Points as values of the eigenfunctions of one domain (of several, for draws of the metric)."""

    pairs: tuple[Any, ...]  # eigenpairs of a mesh, or of a complex

    def at(self, points: np.ndarray) -> np.ndarray:
        """Eigenfunctions at chart points [n, q], [n, k]."""
        return np.concatenate([p.at(points) for p in self.pairs], 1)

    @staticmethod
    def at_each(spaces: Sequence[SpectralSpace], points: np.ndarray) -> list[np.ndarray]:
        """As `at` of each of several spaces of one chart."""
        pairs = [p for space in spaces for p in space.pairs]
        if not all(isinstance(p, elements.ComplexEigenpairs) for p in pairs):
            return [space.at(points) for space in spaces]
        found = iter(elements.at_each(pairs, points))
        return [np.concatenate([next(found) for _ in s.pairs], 1) if len(s.pairs) > 1 else next(found) for s in spaces]

    @property
    def values(self) -> np.ndarray:
        """Eigenvalues, [k]."""
        return np.concatenate([p.values for p in self.pairs])

    @property
    def change(self) -> float:
        """By how much the first eigenvalues changed at the last refinement of the mesh, relative; 0 without one."""
        return max(float(np.nan_to_num(getattr(p, "change", 0.0))) for p in self.pairs)

    @property
    def missing(self) -> int:
        """How many of the requested eigenpairs the solver did not reach."""
        return sum(p.missing for p in self.pairs)

    @property
    def lost(self) -> bool:
        """Whether rounding dominates the eigenvalues, as on a chart with a dimension of almost no extent."""
        return any(getattr(p, "lost", False) for p in self.pairs)

    @property
    def connected(self) -> bool:
        """Whether the domain is connected.

        A complex counts its connected components. A mesh may be cut where the domain is narrow; this shows as a second
        eigenvalue near zero. For a complex that test would fail: a long thin tree of many rows has such an eigenvalue.
        """
        return all(
            p.n_connected_components == 1
            if isinstance(p, elements.ComplexEigenpairs)
            else p.values[1] > CONNECTED * p.values[-1]
            for p in self.pairs
        )


@dataclass(frozen=True)
class PlaneSpace:
    """Points as even coordinates of the chart (see `manifold.straight`): the surface unrolled, without a boundary."""

    chart: StraightChart

    def at(self, points: np.ndarray) -> np.ndarray:
        """Even coordinates of chart points [n, q], [n, q]."""
        return self.chart.coordinates(points)


@dataclass(frozen=True)
class ScaledSpace:
    """Points as coordinates, each divided by a scale of its own."""

    scale: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """Scaled coordinates, [n, p]."""
        return points / self.scale


def levels_of(chart: Chart, level: float | str) -> list[tuple[float | None, float]]:
    """Boundary levels of a chart and their log prior weights; one entry where the boundary has no levels."""
    boundary = chart.boundary if isinstance(chart, LearnedChart) else None
    if not isinstance(boundary, CorridorBoundary):
        return [(None, 0.0)]
    if level != "average":
        return [(float(level), 0.0)]
    levels = boundary.levels(LEVELS, MAX_LEVEL)
    prior = np.exp(-levels / DEFAULT_LEVEL) * (1 + levels)
    return list(zip(levels.tolist(), np.log(prior / prior.sum()).tolist(), strict=True))


def spectral_space(charts: Sequence[Chart], n_modes: int) -> SpectralSpace:
    """The space of one domain: of one chart, or of several draws of it."""
    found: list[Any] = []
    for chart in charts:
        inside = chart.complex()
        if inside is None:
            found.append(eigenpairs(chart, n_modes=n_modes, tol=TOLERANCE, warn=False))
        else:
            found.append(elements.eigenpairs(chart, inside, n_modes))
    return SpectralSpace(tuple(found))


def judged(space: SpectralSpace, said: str, alone: bool) -> tuple[bool, list[str]]:
    """Whether the space of a domain is used, and notes about it; `said` is its name, `alone`: there is no other."""
    if space.lost:
        why = f"{said}: its eigenvalues are lost in rounding, since its elements differ in size by too many orders"
        if alone:
            raise NoSurface(f"{why}; leave out rows far from all others, or learn fewer dimensions")
        return False, [f"{why}; it is left out"]
    notes = unreached(said, space)
    if not space.connected:
        if not alone:
            return False, [f"{said}: it has several connected components and is left out"]
        notes.append(f"{said}: it has several connected components, each with a mean of its own")
    if space.change > TOLERANCE:
        notes.append(f"{said}: its first eigenvalues still change by {space.change:.0%} as the mesh is refined")
    return True, notes


def unreached(said: str, space: Any) -> list[str]:
    """A note about a space, called `said`, for which the solver did not reach all eigenpairs."""
    if not space.missing:
        return []
    asked = len(space.values) + space.missing
    return [f"{said}: {space.missing} of its {asked} eigenfunctions did not converge and are not used"]


def spectral_settings(
    values: np.ndarray, rows: np.ndarray, dim: float, smoothness: Sequence[str], log_prior: float = 0.0,
    max_time: float | None = None, resolved: float = RESOLVED, bound: float = BOUND, **about: Any,
) -> list[Setting]:  # fmt: skip
    """Heat and Matérn kernels from eigenvalues [k], at SCALES scales each.

    `rows` are the eigenfunctions on the cloud, [N, k]; the smallest scale leaves `resolved` of the last mode (where
    that is much, smaller scales change nothing). The variance of each kernel is at most `bound` times its mean over the
    cloud, and each of several connected components has an offset of its own (see `Spectral`).
    """
    if not (varies := varying(values)).any():
        raise NoSurface(
            "the eigenvalues of a surface are zero up to rounding: nearly all rows lie at one or two points; "
            "leave out copies of rows, or name other geometries"
        )
    extent = float(np.pi / np.sqrt(values[varies].min()))
    small = float(np.sqrt(2 * log(1 / resolved) / values.max()))
    squares, offsets = rows**2, component_offsets(rows, ~varies)
    power = np.mean(squares, 0, dtype=float)

    def bounded(nu: float, scale: float) -> Spectral:
        found = Spectral(values, power, nu, dim, scale, offsets)
        if np.isinf(bound):
            return found
        return replace(found, typical=float(np.minimum(squares @ found.weights, bound).mean()), bound=bound)

    return ladder(
        bounded,
        small, lambda nu: (LARGEST_HEAT if np.isinf(nu) else LARGEST_MATERN) * extent,
        smoothness, log_prior, max_time, open_ends=("low",) if resolved < 0.5 else (), **about,
    )  # fmt: skip


def component_offsets(rows: np.ndarray, constant: np.ndarray) -> np.ndarray | None:
    """Weights [k] of eigenfunctions that are constant on one of several connected components; None with one component.

    `rows` are the eigenfunctions on the cloud [N, k], `constant` those whose eigenvalue is 0. The offset of each
    component has variance 1.
    """
    size = np.abs(rows[:, constant])
    local = size.min(0) < 0.5 * size.max(0)  # 0 on other components
    if not local.any():
        return None
    found = np.zeros(rows.shape[1])
    found[np.flatnonzero(constant)[local]] = 1 / size[:, local].max(0) ** 2
    return found / np.mean(rows**2 @ found)  # draws of a metric have each component several times


def stationary_settings(
    cloud: np.ndarray, smoothness: Sequence[str], log_prior: float = 0.0, max_time: float | None = None, **about: Any
) -> list[Setting]:
    """Heat and Matérn kernels of coordinates, at SCALES scales each, from the rows' spacing to twice their extent."""
    extent = max(neighbours.extent(cloud), 1e-12)
    small = min(max(float(neighbours.spacing(cloud).mean()), 1e-3 * extent), extent)
    return ladder(Stationary, small, lambda nu: 2 * extent, smoothness, log_prior, max_time, **about)
