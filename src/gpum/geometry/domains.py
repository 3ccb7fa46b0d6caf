"""The domains of a chart: its eigenfunctions within each boundary level, and which levels there are.

boundary level   exponential with mean DEFAULT_LEVEL, at LEVELS values in equal ratios of 1 + level; those with the same
                 domain count as one, the tightest
no boundary      prior weight PLANE beside all levels: the plain kernel of the chart's even coordinates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..basics.checks import NoSurface
from ..heat import elements
from ..heat.spectral import eigenpairs
from ..manifold.boundary import DEFAULT_LEVEL, CorridorBoundary
from ..manifold.chart import Chart
from ..manifold.complex import Complex, complex_of
from ..manifold.learned import LearnedChart
from .candidate_set import unreached
from .graphs import CONNECTED

LEVELS = 6
MAX_LEVEL = 6 * DEFAULT_LEVEL
TOLERANCE = 0.03  # of the first eigenvalues, when the mesh is refined


@dataclass(frozen=True)
class Domain:
    """Eigenfunctions of one domain of a chart (of several, for draws of the metric)."""

    pairs: tuple[Any, ...]  # eigenpairs of a mesh, or of a complex

    def at(self, points: np.ndarray) -> np.ndarray:
        """Eigenfunctions at chart points [n, q], [n, k]."""
        return np.concatenate([p.at(points) for p in self.pairs], 1)

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


def levels_of(chart: Chart, level: float | str) -> list[tuple[float | None, float]]:
    """Boundary levels of a chart with different domains, and the log prior weights of these.

    One entry where the boundary has no levels.
    """
    boundary = chart.boundary if isinstance(chart, LearnedChart) else None
    if not isinstance(boundary, CorridorBoundary):
        return [(None, 0.0)]
    if level != "average":
        return [(float(level), 0.0)]
    levels = boundary.levels(LEVELS, MAX_LEVEL)
    domains = [complex_of(boundary.at(x)) for x in levels]
    new = np.array([True] + [not _same(a, b) for a, b in pairwise(domains)])
    prior = np.bincount(np.cumsum(new) - 1, np.exp(-levels / DEFAULT_LEVEL) * (1 + levels))
    return list(zip(levels[new].tolist(), np.log(prior / prior.sum()).tolist(), strict=True))


def _same(a: Complex, b: Complex) -> bool:
    """Whether two domains of one family are equal."""
    return np.array_equal(a.simplices, b.simplices) and np.array_equal(a.corridors, b.corridors)


def domain_of(charts: Sequence[Chart], n_modes: int) -> Domain:
    """The space of one domain: of one chart, or of several draws of it."""
    pairs: list[Any] = []
    for chart in charts:
        inside = chart.complex()
        if inside is None:
            pairs.append(eigenpairs(chart, n_modes=n_modes, tol=TOLERANCE, warn=False))
        else:
            pairs.append(elements.eigenpairs(chart, inside, n_modes))
    return Domain(tuple(pairs))


def judged(space: Domain, title: str, alone: bool) -> tuple[bool, list[str]]:
    """Whether the space of a domain is used, and notes about it; `alone`: there is no other."""
    if space.lost:
        why = f"{title}: its eigenvalues are lost in rounding, since its elements differ in size by too many orders"
        if alone:
            raise NoSurface(f"{why}; leave out rows far from all others, or learn fewer dimensions")
        return False, [f"{why}; it is left out"]
    notes = unreached(title, space)
    if not space.connected:
        if not alone:
            return False, [f"{title}: it has several connected components and is left out"]
        notes.append(f"{title}: it has several connected components, each with a mean of its own")
    if space.change > TOLERANCE:
        notes.append(f"{title}: its first eigenvalues still change by {space.change:.0%} as the mesh is refined")
    return True, notes
