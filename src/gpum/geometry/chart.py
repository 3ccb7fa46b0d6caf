"""A chart as a geometry: its surface, and eigenfunctions or Brownian paths on its domain at every boundary level.

boundary level   exponential with mean DEFAULT_LEVEL, at LEVELS values in equal ratios of 1 + level; those with the same
                 domain count as one, the tightest
no boundary      prior weight PLANE beside all levels: the plain kernel of the chart's even coordinates

What is computed on a chart is in its store, so that a fit of other labels to the same cloud has it already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import log
from typing import Any

import jax
import numpy as np

from ..basics.checks import GpumError, NoSurface
from ..basics.progress import Reporter
from ..basics.workers import results
from ..heat import elements
from ..heat.histograms import path_features
from ..heat.spectra import Spectrum
from ..heat.spectral import MAX_SPECTRAL_DIM, Eigenpairs, eigenpairs
from ..manifold.boundary import DEFAULT_LEVEL, CorridorBoundary, variance_boundary
from ..manifold.chart import Chart
from ..manifold.complex import Complex, complex_of
from ..manifold.learned import LearnedChart
from ..manifold.straight import straighten
from ..manifold.surface import Surface
from ..persistence.model_io import Sealed
from ..persistence.store import Store
from .base import SurfaceGeometry
from .candidate_set import NO_BOUNDARY, CandidateSet, Member, on_coordinates, on_eigenfunctions, unreached
from .chart_mesh import ChartMesh, coordinate_mesh, with_middles
from .features import NodeFeatures
from .graphs import CONNECTED
from .options import KernelTask
from .path_spaces import PathFeatures, of_jumps, of_paths, path_levels

PLANE = 0.25  # prior weight of no boundary at all
N_MODES = 100
LEVELS = 6
MAX_LEVEL = 6 * DEFAULT_LEVEL
TOLERANCE = 0.03  # of the first eigenvalues, when the mesh is refined

Levels = list[tuple[float | None, float]]  # boundary levels (None: there are none), and the log prior weight of each


@dataclass(frozen=True)
class Domain:
    """Eigenfunctions of one domain of a chart (of several, for draws of the metric), of a mesh or of a complex."""

    pairs: tuple[Spectrum, ...]

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
        return max(float(np.nan_to_num(p.change)) if isinstance(p, Eigenpairs) else 0.0 for p in self.pairs)

    @property
    def missing(self) -> int:
        """How many of the requested eigenpairs the solver did not reach."""
        return sum(p.missing for p in self.pairs)

    @property
    def lost(self) -> bool:
        """Whether rounding dominates the eigenvalues, as on a chart with a dimension of almost no extent.

        Where elements are many orders of magnitude thinner than wide, only the stiffness across them survives rounding.
        Then more eigenvalues are 0 than there are connected components.
        """
        return any(np.sum(p.values == 0) > p.n_connected_components for p in self.pairs)

    @property
    def connected(self) -> bool:
        """Whether the domain is connected.

        A complex counts its connected components. A mesh may be cut where the domain is narrow; this shows as a second
        eigenvalue near zero. For a complex that test would fail: a long thin tree of many rows has such an eigenvalue.
        """
        return all(
            p.values[1] > CONNECTED * p.values[-1] if isinstance(p, Eigenpairs) else p.n_connected_components == 1
            for p in self.pairs
        )


def levels_of(chart: Chart, level: float | str) -> Levels:
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
    new = np.array([True] + [not _equal(a, b) for a, b in pairwise(domains)])
    prior = np.bincount(np.cumsum(new) - 1, np.exp(-levels / DEFAULT_LEVEL) * (1 + levels))
    return list(zip(levels[new].tolist(), np.log(prior / prior.sum()).tolist(), strict=True))


def _equal(a: Complex, b: Complex) -> bool:
    """Whether two domains of one family are equal."""
    return np.array_equal(a.simplices, b.simplices) and np.array_equal(a.corridors, b.corridors)


def domain_of(charts: Sequence[Chart], n_modes: int) -> Domain:
    """The space of one domain: of one chart, or of several draws of it."""
    pairs: list[Spectrum] = []
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


@dataclass(eq=False)
class ChartGeometry:
    """A chart, known or learned, with the cloud's coordinates in it.

    `mesh` is that of a learned chart, made by its latent model `model`; a known chart is meshed when its kernels are
    made, and rows are coordinates in it. What is computed on the chart is in `store`.
    """

    chart: Chart
    rows: np.ndarray  # [N, q]
    mesh: ChartMesh | None = None
    model: Any = None
    name: str = "chart"
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        if self.mesh is None and isinstance(self.chart, LearnedChart):
            self.mesh = coordinate_mesh(self.chart, self.rows)

    @property
    def title(self) -> str:
        """Which chart it is."""
        return f"chart of dimension {self.chart.dim}"

    def built(self, task: KernelTask) -> tuple[SurfaceGeometry, CandidateSet]:
        """The surface; eigenfunctions of every boundary level and no boundary at all, or path histograms."""
        chart = self.bounded(task)
        levels = levels_of(chart, task.options.boundary)
        with_plane = task.options.boundary == "average" and isinstance(chart, LearnedChart)
        if with_plane:
            levels = [(level, log_prior + log(1 - PLANE)) for level, log_prior in levels]
        make = self._spectral if self._method(task) == "spectral" else self._brownian
        members, notes = make(chart, levels, task)
        if with_plane:
            members.append(self._plane(chart, task))
        return self.geometry(task), CandidateSet.of(members, notes)

    def geometry(self, task: KernelTask) -> SurfaceGeometry:
        """The surface alone, with the chart and the latent model for those who ask for them."""
        surface = self._surface(task)
        details = Sealed.of({"chart": self.bounded(task), "model": self.model, "rows": self.rows})
        return SurfaceGeometry(self.name, self.title, surface, self._places(surface), details)

    def _places(self, surface: Surface) -> np.ndarray:
        """Where the rows of the cloud are."""
        return surface.project(self.rows).packed if self.mesh is None else surface.at_coordinates(self.rows)

    def _surface(self, task: KernelTask) -> Surface:
        """The surface on whose nodes functions have values."""
        if self.mesh is not None:
            return self.mesh.surface
        if self._method(task) == "spectral":
            return self._domain(task, None).pairs[0].surface
        return Surface(self.rows, np.zeros((0, self.chart.dim + 1), int))

    def _method(self, task: KernelTask) -> str:
        method = task.options.method
        return method if method != "auto" else "spectral" if self.chart.dim <= MAX_SPECTRAL_DIM else "brownian"

    def bounded(self, task: KernelTask) -> Chart:
        """The chart with the requested kind of boundary."""
        if task.options.boundary == "variance" and isinstance(self.chart, LearnedChart):
            mapping, rng = self.chart.mapping, np.random.default_rng(task.seed)
            make = lambda: LearnedChart(mapping, variance_boundary(rng, mapping, self.rows))
            return self.store.once(("variance", mapping, self.rows, task.seed), make, LearnedChart)
        if not isinstance(task.options.boundary, str) and not (
            isinstance(self.chart, LearnedChart) and isinstance(self.chart.boundary, CorridorBoundary)
        ):
            raise GpumError(
                f"boundary is the level {task.options.boundary!r}, but the given chart has no family of levels "
                "(a known chart, or the paper's boundary); use boundary='average', or a latent model whose "
                "boundary is a level, such as 0.5"
            )
        return self.chart

    def _at_level(self, chart: Chart, level: float | None, draws: Sequence[Any] = ()) -> list[Chart]:
        """The chart at a boundary level, or draws of it."""
        if level is not None:
            assert isinstance(chart, LearnedChart)
            chart = chart.with_level(level)
        return [chart.draw(key) for key in draws] if isinstance(chart, LearnedChart) and len(draws) else [chart]

    def _charts(self, task: KernelTask, level: float | None) -> list[Chart]:
        """The charts from which the domain of a boundary level is made: the chart at that level, or draws of it."""
        chart = self.bounded(task)
        draws = task.options.metric_draws if isinstance(chart, LearnedChart) else 0
        keys = [jax.random.fold_in(jax.random.key(task.seed), k) for k in range(draws)]
        return self._at_level(chart, level, keys)

    def _key(self, task: KernelTask, level: float | None) -> tuple[Any, ...]:
        """All that the eigenfunctions of a boundary level depend on."""
        chart, draws = self.bounded(task), task.options.metric_draws if isinstance(self.chart, LearnedChart) else 0
        return "domain", chart, level, task.options.n_modes or N_MODES, draws, task.seed if draws else None

    def _domain(self, task: KernelTask, level: float | None) -> Domain:
        """The eigenfunctions of a boundary level."""
        make = partial(domain_of, self._charts(task, level), task.options.n_modes or N_MODES)
        return self.store.once(self._key(task, level), make, Domain)

    def _spectral(self, chart: Chart, levels: Levels, task: KernelTask) -> tuple[list[Member], list[str]]:
        """Eigenfunctions of every boundary level, and notes."""
        n_modes = task.options.n_modes or N_MODES
        domains: list[Domain] = []
        with Reporter(task.verbose, len(levels), "first mesh") as report:
            keys = [self._key(task, level) for level, _ in levels]
            missing = [k for k, key in enumerate(keys) if self.store.get(key, Domain) is None]
            made = results(
                [partial(domain_of, self._charts(task, levels[k][0]), n_modes) for k in missing], task.n_jobs
            )
            for k, key in enumerate(keys):  # each finished level is stored before the next one begins
                # The result is taken also where another thread has stored its own by now: those of later keys follow.
                domains.append(self.store.once(key, partial(_same, next(made) if k in missing else None), Domain))
                report.advance(f"eigenfunctions of domain {k + 1} of {len(levels)}", 1)
        surface = self._surface(task)
        places = self._places(surface)
        members: list[Member] = []
        notes = []
        for domain, (level, log_prior) in zip(domains, levels, strict=True):
            called = f"{self.title}, " + (
                "its domain" if level is None else f"the domain at boundary level {level:.2g}"
            )
            used, remarks = judged(domain, called, alone=len(levels) == 1)
            notes += remarks
            if not used:
                continue
            at_nodes = domain.pairs[0].functions if self.mesh is None else domain.at(_coordinates(surface))
            space = NodeFeatures(at_nodes.astype(np.float32), domain.values)
            members.append(on_eigenfunctions(space, places, chart.dim, task, log_prior, level=level))
        return members, notes

    def _plane(self, chart: Chart, task: KernelTask) -> Member:
        """No boundary at all: the chart unrolled, with a stationary kernel of its even coordinates."""
        surface = self._surface(task)
        make = lambda: NodeFeatures(straighten(chart).coordinates(_coordinates(surface)))
        space = self.store.once(("plane", chart, _coordinates(surface)), make, NodeFeatures)
        return on_coordinates(space, self._places(surface), task, log(PLANE), level=NO_BOUNDARY)

    def _brownian(self, chart: Chart, levels: Levels, task: KernelTask) -> tuple[list[Member], list[str]]:
        """Paths in the domain of every boundary level; there are no notes."""
        usable = path_levels(chart, levels)
        starts, n_modes = self._starts, task.options.n_modes or N_MODES
        surface = self._surface(task)
        places = self._places(surface)
        members: list[Member] = []
        with Reporter(task.verbose, len(usable), "simulating Brownian paths") as report:
            for k, (level, nodes, log_prior) in enumerate(usable):
                at = self._at_level(chart, level)[0]
                if nodes is not None:
                    law = partial(of_jumps, nodes, n_modes, *starts)
                    space = self.store.once(("jumps", at, *starts, n_modes), law, NodeFeatures)
                    members.append(on_eigenfunctions(space, places, chart.dim, task, log_prior, level=level))
                else:
                    key = "paths", at, self.rows, *starts, *_of_paths(task)
                    paths = self.store.once(key, partial(self._paths, at, task), PathFeatures)
                    members.append(of_paths(paths, places, chart.dim, task.smoothness, log_prior, level=level))
                report.advance(f"paths of domain {k + 1} of {len(usable)}", 1)
        return members, []

    @property
    def _starts(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The nodes from which paths start, and the ends of the sides of which all further nodes are the middles."""
        return (self.rows, None) if self.mesh is None else (self.mesh.vertices, self.mesh.ends)

    def _paths(self, chart: Chart, task: KernelTask) -> PathFeatures:
        """Paths of Euler steps in the chart."""
        points, ends = self._starts
        times, values = path_features(chart, self.rows, points, *_of_paths(task), n_jobs=task.n_jobs)
        return PathFeatures(times, values if ends is None else [with_middles(value, ends) for value in values])


def _coordinates(surface: Surface) -> np.ndarray:
    assert surface.coordinates is not None
    return surface.coordinates


def _of_paths(task: KernelTask) -> tuple[int, float | None, float | None, int | None, int]:
    """What paths of Euler steps depend on: their number, step, largest time and starts, and the seed."""
    options = task.options
    return options.n_paths, options.step_size, options.max_time, options.n_path_starts, task.seed


def _same(result: Any) -> Any:
    return result
