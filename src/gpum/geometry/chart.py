"""A chart as a geometry: its domains at every boundary level, with eigenfunctions or Brownian paths on each.

Results that were computed on a chart are cached (`cache`), so that a fit of other labels to the same cloud reuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import log
from typing import Any, TypeVar

import jax
import numpy as np

from ..basics.checks import GpumError
from ..basics.progress import Reporter
from ..basics.workers import results
from ..heat.elements import LinearNodes
from ..heat.histograms import jump_features, path_features
from ..heat.spectral import MAX_SPECTRAL_DIM
from ..manifold import Chart, CorridorBoundary, LearnedChart, evaluate, straighten, variance_boundary
from ..persistence.checkpoint import Checkpoint
from . import spaces
from .base import KernelTask, Projection, in_data_space
from .family import NO_BOUNDARY, Family, Setting
from .path_spaces import PathRows, of_paths, path_levels

T = TypeVar("T")

PLANE = 0.25  # prior weight of no boundary at all
N_MODES = 100


@dataclass(eq=False)
class ChartGeometry:
    """A chart, known or learned, with the cloud's coordinates in it.

    `model` is the latent model that learned the chart and projects rows onto it; without one rows are coordinates. `sd`
    has the standard deviations of the coordinates (None: known exactly). What is computed on the chart is in `cache`,
    and with a `checkpoint` also in a folder.
    """

    chart: Chart
    rows: np.ndarray  # [N, q]
    model: Any = None
    name: str = "chart"
    cache: dict[Hashable, Any] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    sd: np.ndarray | None = None  # [N, q]

    @property
    def title(self) -> str:
        """Which chart it is."""
        return f"chart of dimension {self.chart.dim}"

    def project(self, X: np.ndarray) -> Projection:
        """Points of the chart for rows X."""
        return in_data_space(X) if self.model is None else self.model.project(X)

    def family(self, task: KernelTask) -> Family:
        """Eigenfunctions of every boundary level and no boundary at all, or path histograms."""
        chart = self.bounded(task)
        method = task.options.method
        if method == "auto":
            method = "spectral" if chart.dim <= MAX_SPECTRAL_DIM else "brownian"
        return self._spectral(chart, task) if method == "spectral" else self._brownian(chart, task)

    def _once(self, key: Hashable, make: Callable[[], T], kind: type = tuple) -> T:
        """The cached result for this key, of class `kind`; without one, `make()`."""
        if not self._known(key, kind):
            self.cache[key] = self.checkpoint.store(str(key), make())
        return self.cache[key]

    def _known(self, key: Hashable, kind: type = tuple) -> bool:
        if key not in self.cache and (found := self.checkpoint.recall(str(key), kind)) is not None:
            self.cache[key] = found
        return key in self.cache

    def bounded(self, task: KernelTask) -> Chart:
        """The chart with the requested kind of boundary."""
        if task.options.boundary == "variance" and isinstance(self.chart, LearnedChart):
            mapping, rng = self.chart.mapping, np.random.default_rng(task.seed)
            make = lambda: LearnedChart(mapping, variance_boundary(rng, mapping, self.rows))
            return self._once(("variance", task.seed), make, LearnedChart)
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

    def domain(self, task: KernelTask, level: float | None) -> list[Chart]:
        """The charts from which the space of a boundary level is made: the chart at that level, or draws of it."""
        chart = self.bounded(task)
        draws = task.options.metric_draws if isinstance(chart, LearnedChart) else 0
        keys = [jax.random.fold_in(jax.random.key(task.seed), k) for k in range(draws)]
        return self._at_level(chart, level, keys)

    def __gpum_state__(self) -> dict[str, Any]:
        """The fields that a model file stores."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("cache", "checkpoint")}

    def _spectral(self, chart: Chart, task: KernelTask) -> Family:
        learned = isinstance(chart, LearnedChart)
        draws = task.options.metric_draws if learned else 0
        with_plane = task.options.boundary == "average" and learned
        n_modes = task.options.n_modes or N_MODES
        levels = spaces.levels_of(chart, task.options.boundary)
        variance = task.options.boundary == "variance"
        kind = (variance, n_modes, draws, task.seed if draws or variance else None)
        domains: list[tuple[Any, np.ndarray]] = []
        with Reporter(task.verbose, len(levels), "first mesh") as report:
            keys = [("spectral", level, *kind) for level, _ in levels]
            missing = {key: level for key, (level, _) in zip(keys, levels, strict=True) if not self._known(key)}
            tasks = (
                partial(_eigenfunctions, self.domain(task, level), n_modes, self.rows) for level in missing.values()
            )
            made = results(tasks, task.n_jobs)
            for k, key in enumerate(keys):  # each finished level is cached before the next one begins
                # The result is taken also where another thread has cached its own by now: those of later keys follow.
                domains.append(self._once(key, partial(_same, next(made))) if key in missing else self.cache[key])
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
                space.values,
                rows,
                chart.dim,
                task.smoothness,
                weight,
                task.options.max_time,
                level=level,
            )
            members.append((space, rows, settings))
        if with_plane:
            members.append(self._plane(chart, task))
        return Family.of(members, notes)

    def _plane(self, chart: Chart, task: KernelTask) -> tuple[Any, np.ndarray, list[Setting]]:
        """The space without a boundary: the chart unrolled, with a stationary kernel of its even coordinates."""

        def make() -> tuple[Any, np.ndarray]:
            plane = spaces.PlaneSpace(straighten(chart))
            return plane, plane.at(self.rows)

        plane, rows = self._once("plane", make)
        settings = spaces.stationary_settings(
            rows, task.smoothness, log(PLANE), task.options.max_time, level=NO_BOUNDARY
        )
        return plane, rows, settings

    def _brownian(self, chart: Chart, task: KernelTask) -> Family:
        with_plane = task.options.boundary == "average" and isinstance(chart, LearnedChart)
        levels = path_levels(chart, spaces.levels_of(chart, task.options.boundary))
        kind = (task.options.boundary == "variance", *_of_paths(task))
        members: list[tuple[Any, np.ndarray, list[Setting]]] = []
        notes = []
        with Reporter(task.verbose, len(levels), "simulating Brownian paths") as report:
            for k, (level, nodes, log_prior) in enumerate(levels):
                at = self._at_level(chart, level)[0]

                def make(at: Chart = at, nodes: Any = nodes) -> PathRows:
                    return self._jumps(at, nodes, task) if nodes is not None else self._paths(at, task)

                paths = self._once(("paths", level, *kind), make, PathRows)
                weight = log_prior + (log(1 - PLANE) if with_plane else 0.0)
                members.append(of_paths(paths, chart.dim, task.smoothness, weight, level=level))
                notes += [f"{self.title}, paths at boundary level {level:.2g}: {note}" for note in paths.notes]
                report.advance(f"paths of domain {k + 1} of {len(levels)}", 1)
        return Family.of([*members, self._plane(chart, task)] if with_plane else members, notes)

    def _paths(self, chart: Chart, task: KernelTask) -> PathRows:
        """Paths of Euler steps in the chart."""
        return PathRows.of(path_features(chart, self.rows, *_of_paths(task), n_jobs=task.n_jobs), self.rows)

    def _jumps(self, chart: Chart, nodes: LinearNodes, task: KernelTask) -> PathRows:
        """Paths of a jump process from node to node along curves."""
        points = evaluate(chart, "mean", nodes.curves.nodes)
        asked = (task.options.n_paths, task.options.max_time, task.options.n_path_starts, task.seed)
        features = jump_features(
            nodes.stiffness, nodes.mass, points, nodes.curves, self.rows, *asked, n_jobs=task.n_jobs
        )
        return PathRows.of(features, self.rows)


def _of_paths(task: KernelTask) -> tuple[int, float | None, float | None, int | None, int]:
    """What paths of Euler steps depend on: their number, step, largest time and starts, and the seed."""
    options = task.options
    return options.n_paths, options.step_size, options.max_time, options.n_path_starts, task.seed


def _same(result: T) -> T:
    return result


def _eigenfunctions(charts: Sequence[Chart], n_modes: int, rows: np.ndarray) -> tuple[Any, np.ndarray]:
    """The space of a domain, and the rows of the cloud in it."""
    space = spaces.spectral_space(charts, n_modes)
    return space, space.at(rows)
