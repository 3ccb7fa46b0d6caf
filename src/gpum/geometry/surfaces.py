"""Surfaces: whatever stands between a cloud and its spaces.

A surface has its own points: coordinates of a chart, or rows of the data space. It says where rows never seen lie
(`place`) and hands out spaces with settings (`family`). Learned and known charts, graphs and flat space are surfaces;
another geometry is one more class here.

What a surface has computed it keeps (`kept`), so that other labels on the same cloud do not repeat it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import log
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from ..basics.checks import GpumError
from ..basics.progress import Reporter
from ..basics.workers import results
from ..heat.atlas import Atlas, AtlasEigenpairs
from ..heat.elements import LinearNodes
from ..heat.histograms import path_features, walk_features
from ..manifold import Chart, CorridorBoundary, LearnedChart, evaluate, straighten, variance_boundary
from ..persistence.checkpoint import Checkpoint
from . import spaces
from .family import NO_BOUNDARY, Family, Setting
from .path_spaces import PathRows, of_paths, walked_levels

T = TypeVar("T")

PLANE = 0.25  # prior weight of no boundary at all
N_MODES = 100
ATLAS_MODES = 200
MAX_SPECTRAL_DIM = 3  # kernel="auto" takes paths above
ALL_MODES = 0.9  # of the last mode at the smallest scale: how many modes a graph has is part of the model


@dataclass(frozen=True)
class Placement:
    """Where rows lie on a surface: points, their standard deviations (None: known exactly), which are far from it.

    `others`, where there are any: all places at which each row may be, equally likely.
    """

    points: np.ndarray  # [n, ...]
    sd: np.ndarray | None
    far: np.ndarray  # [n], bool
    others: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What is asked of the kernels on a surface; see `GPUMRegressor`."""

    smoothness: Sequence[str]
    boundary: float | str = "average"
    kernel: str = "auto"
    n_modes: int | None = None
    metric_draws: int = 0
    max_time: float | None = None
    n_paths: int = 1000
    step_size: float | None = None
    n_inducing: int | None = None
    seed: int = 0
    n_jobs: int | None = None
    verbose: int = 0


class Surface(Protocol):
    """See the module; `name` is the kind of geometry."""

    name: str

    @property
    def title(self) -> str:
        """Which one of its kind it is, in words."""

    def place(self, X: np.ndarray) -> Placement:
        """Where rows X [n, p] that are not of the cloud lie."""

    def family(self, wanted: Wanted) -> Family:
        """Spaces of the surface, settings on them, and the cloud in each."""


@dataclass(frozen=True)
class NamedSurface:
    """What a model file keeps of a surface without weight: its name. Nothing is placed on it."""

    name: str
    title: str

    def place(self, X: np.ndarray) -> Placement:
        """It has no places."""
        raise GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")

    def family(self, wanted: Wanted) -> Family:
        """It has no spaces."""
        raise GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")


@dataclass(eq=False)
class ChartSurface:
    """A chart, known or learned, with the cloud's coordinates in it.

    `placed` finds rows on a learned chart; without it rows are coordinates. What is computed on it is `kept`, and with
    `pieces` also in a folder.
    """

    chart: Chart
    rows: np.ndarray  # [N, q]
    placed: Callable[[np.ndarray], Placement] | None = None
    model: Any = None  # who learned the chart
    name: str = "chart"
    kept: dict[Hashable, Any] = field(default_factory=dict)
    pieces: Checkpoint = field(default_factory=Checkpoint)

    @property
    def title(self) -> str:
        """Which chart it is."""
        return f"chart of dimension {self.chart.dim}"

    def place(self, X: np.ndarray) -> Placement:
        """Points of the chart for rows X."""
        return Placement(X, None, np.zeros(len(X), bool)) if self.placed is None else self.placed(X)

    def family(self, wanted: Wanted) -> Family:
        """Eigenfunctions of every boundary level and no boundary at all, or path histograms."""
        chart = self.bounded(wanted)
        kernel = wanted.kernel
        if kernel == "auto":
            kernel = "spectral" if chart.dim <= MAX_SPECTRAL_DIM else "brownian"
        return self._spectral(chart, wanted) if kernel == "spectral" else self._brownian(chart, wanted)

    def _once(self, key: Hashable, make: Callable[[], T], kind: type = tuple) -> T:
        """`make()`, which is of a `kind`, or what it returned the last time for this key."""
        if not self._known(key, kind):
            self.kept[key] = self.pieces.keep(str(key), make())
        return self.kept[key]

    def _known(self, key: Hashable, kind: type = tuple) -> bool:
        if key not in self.kept and (found := self.pieces.recall(str(key), kind)) is not None:
            self.kept[key] = found
        return key in self.kept

    def bounded(self, wanted: Wanted) -> Chart:
        """The chart with the kind of boundary that is asked for."""
        if wanted.boundary == "variance" and isinstance(self.chart, LearnedChart):
            mapping, rng = self.chart.mapping, np.random.default_rng(wanted.seed)
            make = lambda: LearnedChart(mapping, variance_boundary(rng, mapping, self.rows))
            return self._once(("variance", wanted.seed), make, LearnedChart)
        if not isinstance(wanted.boundary, str) and not (
            isinstance(self.chart, LearnedChart) and isinstance(self.chart.boundary, CorridorBoundary)
        ):
            raise GpumError(
                f"boundary is the level {wanted.boundary!r}, but the given chart has no family of boundary levels (a "
                "known chart, or the paper's boundary); use boundary='average', or a latent model with "
                "boundary='corridors'"
            )
        return self.chart

    def _at_level(self, chart: Chart, level: float | None, draws: Sequence[Any] = ()) -> list[Chart]:
        """The chart at a boundary level, or draws of it."""
        if level is not None:
            assert isinstance(chart, LearnedChart)
            chart = chart.with_level(level)
        return [chart.draw(key) for key in draws] if isinstance(chart, LearnedChart) and len(draws) else [chart]

    def domain(self, wanted: Wanted, level: float | None) -> list[Chart]:
        """What the space of a boundary level is made of: the chart at that level, or draws of it."""
        chart = self.bounded(wanted)
        draws = wanted.metric_draws if isinstance(chart, LearnedChart) else 0
        keys = [jax.random.fold_in(jax.random.key(wanted.seed), k) for k in range(draws)]
        return self._at_level(chart, level, keys)

    def _stored(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("kept", "pieces")}

    def _spectral(self, chart: Chart, wanted: Wanted) -> Family:
        learned = isinstance(chart, LearnedChart)
        draws = wanted.metric_draws if learned else 0
        with_plane = wanted.boundary == "average" and learned
        n_modes = wanted.n_modes or N_MODES
        levels = spaces.levels_of(chart, wanted.boundary)
        kind = (wanted.boundary == "variance", n_modes, draws, wanted.seed if draws else None)
        domains: list[tuple[Any, np.ndarray]] = []
        with Reporter(wanted.verbose, len(levels), "first mesh") as report:
            keys = [("spectral", level, *kind) for level, _ in levels]
            missing = [level for key, (level, _) in zip(keys, levels, strict=True) if not self._known(key)]
            tasks = (partial(_eigenfunctions, self.domain(wanted, level), n_modes, self.rows) for level in missing)
            made = results(tasks, wanted.n_jobs)
            for k, key in enumerate(keys):  # each finished level is kept, should the next be interrupted
                domains.append(self._once(key, partial(next, made)))
                report.advance(f"eigenfunctions of domain {k + 1} of {len(levels)}", 1)
        members: list[tuple[Any, np.ndarray, list[Setting]]] = []
        notes = []
        for (space, rows), (level, log_prior) in zip(domains, levels, strict=True):
            said = f"{self.title}, " + ("its domain" if level is None else f"the domain at boundary level {level:.2g}")
            used, some = spaces.judged(space, said, alone=len(levels) == 1)
            notes += some
            if not used:
                continue
            weight = log_prior + (log(1 - PLANE) if with_plane else 0.0)
            settings = spaces.spectral_settings(
                space.values, np.mean(rows**2, 0), chart.dim, wanted.smoothness, weight, wanted.max_time, level=level
            )
            members.append((space, rows, settings))
        if with_plane:
            members.append(self._plane(chart, wanted))
        return Family.of(members, notes)

    def _plane(self, chart: Chart, wanted: Wanted) -> tuple[Any, np.ndarray, list[Setting]]:
        """No boundary at all: the chart unrolled, with the plain kernel of its even coordinates."""

        def make() -> tuple[Any, np.ndarray]:
            plane = spaces.PlaneSpace(straighten(chart))
            return plane, plane.at(self.rows)

        plane, rows = self._once("plane", make)
        settings = spaces.stationary_settings(rows, wanted.smoothness, log(PLANE), wanted.max_time, level=NO_BOUNDARY)
        return plane, rows, settings

    def _brownian(self, chart: Chart, wanted: Wanted) -> Family:
        if wanted.metric_draws:
            raise GpumError(
                f"metric_draws is {wanted.metric_draws}, but kernel='brownian' has no draws of the metric; use "
                "kernel='spectral', or metric_draws=0"
            )
        with_plane = wanted.boundary == "average" and isinstance(chart, LearnedChart)
        levels = walked_levels(chart, spaces.levels_of(chart, wanted.boundary))
        options = (wanted.n_paths, wanted.step_size, wanted.max_time, wanted.n_inducing, wanted.seed)
        kind = (wanted.boundary == "variance", *options)
        members: list[tuple[Any, np.ndarray, list[Setting]]] = []
        notes = []
        with Reporter(wanted.verbose, len(levels), "simulating Brownian paths") as report:
            for k, (level, nodes, log_prior) in enumerate(levels):
                at = self._at_level(chart, level)[0]

                def make(at: Chart = at, nodes: Any = nodes) -> PathRows:
                    return self._walk(at, nodes, wanted) if nodes is not None else self._paths(at, wanted)

                paths = self._once(("paths", level, *kind), make, PathRows)
                weight = log_prior + (log(1 - PLANE) if with_plane else 0.0)
                members.append(of_paths(paths, chart.dim, wanted.smoothness, weight, level=level))
                notes += [f"{self.title}, paths at boundary level {level:.2g}: {note}" for note in paths.notes]
                report.advance(f"paths of domain {k + 1} of {len(levels)}", 1)
        return Family.of([*members, self._plane(chart, wanted)] if with_plane else members, notes)

    def _paths(self, chart: Chart, wanted: Wanted) -> PathRows:
        """Euler steps in the chart."""
        options = (wanted.n_paths, wanted.step_size, wanted.max_time, wanted.n_inducing, wanted.seed)
        return PathRows.of(path_features(chart, self.rows, *options, n_jobs=wanted.n_jobs), self.rows)

    def _walk(self, chart: Chart, nodes: LinearNodes, wanted: Wanted) -> PathRows:
        """From node to node along curves."""
        places = evaluate(chart, "mean", nodes.curves.nodes)
        options = (wanted.n_paths, wanted.max_time, wanted.n_inducing, wanted.seed)
        features = walk_features(
            nodes.stiffness, nodes.mass, places, nodes.curves, self.rows, *options, n_jobs=wanted.n_jobs
        )
        return PathRows.of(features, self.rows)


def _eigenfunctions(charts: Sequence[Chart], n_modes: int, rows: np.ndarray) -> tuple[Any, np.ndarray]:
    """The space of a domain, and the cloud in it."""
    space = spaces.spectral_space(charts, n_modes)
    return space, space.at(rows)


@dataclass(eq=False)
class FlatSurface:
    """Coordinates with stationary kernels: the data space itself, or (with `placed`) the plane of a latent model.

    Coordinates are divided by each of `scales`.
    """

    rows: np.ndarray  # [N, p]
    scales: Sequence[np.ndarray]
    placed: Callable[[np.ndarray], Placement] | None = None
    model: Any = None  # whose plane it is
    name: str = "flat"
    title: str = "flat space"

    def place(self, X: np.ndarray) -> Placement:
        """Coordinates of rows X."""
        return Placement(X, None, np.zeros(len(X), bool)) if self.placed is None else self.placed(X)

    def family(self, wanted: Wanted) -> Family:
        """One space a scale."""
        members = []
        for scale in self.scales:
            space = spaces.ScaledSpace(scale)
            rows, prior = space.at(self.rows), -log(len(self.scales))
            about = {"stretch": tuple(scale.tolist())} if scale.ndim else {}
            settings = spaces.stationary_settings(rows, wanted.smoothness, prior, wanted.max_time, about=about)
            members.append((space, rows, settings))
        return Family.of(members)


@dataclass(eq=False)
class GraphSurface:
    """Graphs on the cloud, as spaces of their eigenvectors (`graphs`)."""

    spaces: Sequence[Any]
    name: str = "graph"
    title: str = "graph of neighbours"

    def _stored(self) -> dict[str, Any]:
        return {"spaces": [], "name": self.name, "title": self.title}  # those of weight are stored by themselves

    def place(self, X: np.ndarray) -> Placement:
        """Rows of the data space are their own places."""
        return Placement(X, None, np.zeros(len(X), bool))

    def family(self, wanted: Wanted) -> Family:
        """One space a graph."""
        members, notes = [], []
        for space in self.spaces:
            about = ", ".join(f"{name}={value}" for name, value in space.info.items())
            notes += spaces.unreached(f"{self.title} ({about})", space)
            settings = spaces.spectral_settings(
                space.values, np.mean(space.vectors**2, 0), 0.0, wanted.smoothness, -log(len(self.spaces)),
                wanted.max_time, ALL_MODES, about=space.info,
            )  # fmt: skip
            members.append((space, space.vectors, settings))
        return Family.of(members, notes)


def titles(surfaces: Sequence[Surface]) -> list[str]:
    """What surfaces are called side by side; those of one title are numbered from the second on."""
    seen: Counter[str] = Counter()
    found = []
    for surface in surfaces:
        seen[surface.title] += 1
        n = seen[surface.title]
        found.append(surface.title if n == 1 else f"{surface.title}, fit {n}")
    return found


def flat_surface(X: np.ndarray) -> FlatSurface:
    """The data space, scaled as a whole."""
    spread = float(np.sqrt(np.mean(X.var(0))))
    return FlatSurface(X, [np.asarray(spread if spread > 0 else 1.0)])


@dataclass(eq=False)
class AtlasSurface:
    """A surface of many small charts, with its eigenfunctions as the one space."""

    atlas: Atlas
    cloud: np.ndarray  # [N, p]
    pairs: AtlasEigenpairs
    rows: np.ndarray  # eigenfunctions on the cloud, [N, k]
    name: str = "atlas"

    @classmethod
    def of(cls, X: np.ndarray, dim: int, n_modes: int | None = None, seed: int = 0) -> AtlasSurface:
        """The atlas of a cloud [N, p]."""
        atlas = Atlas(dim, random_state=seed).fit(X)
        pairs = atlas.eigenpairs(n_modes or ATLAS_MODES)
        return cls(atlas, X, pairs, pairs.at(X))

    @property
    def title(self) -> str:
        """Which atlas it is."""
        return f"atlas of dimension {self.atlas.dim}"

    def place(self, X: np.ndarray) -> Placement:
        """Rows of the data space are their own places; the atlas knows which are far from it."""
        return Placement(X, None, self.atlas.place(X).far)

    def family(self, wanted: Wanted) -> Family:
        """One space: eigenfunctions, or histograms of paths that cross from chart to chart."""
        notes = [f"{self.title}: {note}" for note in self.atlas.notes_]
        if wanted.kernel == "brownian":
            held, stiffness = self.atlas.walkable()
            surface = self.atlas.surface_
            options = (wanted.n_paths, wanted.max_time, wanted.n_inducing, wanted.seed)
            features = walk_features(
                stiffness, surface.stars.mass[held], surface.nodes[held], self.atlas, self.cloud, *options,
                n_jobs=wanted.n_jobs,
            )  # fmt: skip
            with Reporter(wanted.verbose, None, "simulating Brownian paths"):
                paths = PathRows.of(features, self.cloud)
            return Family.of(
                [of_paths(paths, self.atlas.dim, wanted.smoothness, 0.0)],
                [*notes, *(f"{self.title}, paths: {note}" for note in paths.notes)],
            )
        power = np.mean(self.rows**2, 0)
        settings = spaces.spectral_settings(
            self.pairs.values, power, self.atlas.dim, wanted.smoothness, 0.0, wanted.max_time
        )
        return Family.of([(self.pairs, self.rows, settings)], [*notes, *spaces.unreached(self.title, self.pairs)])
