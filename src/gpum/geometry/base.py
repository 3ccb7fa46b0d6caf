"""What every geometry has: a projection of rows, and spaces with candidates on them.

The points of a geometry are rows of the data space, or places between the nodes of a surface. A geometry projects new
rows onto itself (`project`), and returns its spaces with the candidates on them (`candidate_set`). A new geometry is
one more file beside `chart`, `atlas`, `graph` and `flat`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from .candidate_set import CandidateSet

METHODS = ("auto", "spectral", "brownian")


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


@dataclass(frozen=True, repr=False)
class KernelOptions:
    """How heat kernels are computed; `kernel=` of `GPUMRegressor` and `GPUMClassifier`.

    Parameters
    ----------
    method : of charts and atlases: "spectral" (eigenfunctions of the Laplace operator), "brownian" (paths of Brownian
        motion: in the domains of a chart, mirrored at their boundaries; across an atlas from node to node), or
        "auto": spectral up to three dimensions.
    boundary : of charts: "average" (default: over a family of domains, and no boundary at all), a level of that family
        (a number), or "variance", the paper's rule.
    n_modes : of spectral kernels: eigenfunctions of each domain of a chart and of each atlas; None: 100.
    metric_draws : of spectral kernels on charts: average over so many draws of the random metric instead of using its
        mean (0).
    max_time : the largest diffusion time; None: from the extent of the surface.
    n_paths, step_size : of Brownian kernels: paths from each point, and their step (None: from the geometry).
    n_path_starts : of Brownian kernels on charts: the rows that paths start from, for many labels; None: every row.
    """

    method: str = "auto"
    boundary: float | str = "average"
    n_modes: int | None = None
    metric_draws: int = 0
    max_time: float | None = None
    n_paths: int = 1000
    step_size: float | None = None
    n_path_starts: int | None = None

    def __post_init__(self) -> None:
        checks.option(self.method, "method", METHODS)
        if isinstance(self.boundary, str):
            checks.option(self.boundary, "boundary", ("average", "variance"), "a level, a number such as 0.5")
        else:
            checks.positive(self.boundary, "boundary", "a level, 'average' or 'variance'", zero=True)
        checks.integer(self.n_paths, "n_paths", 10, None, "1000 is the default")
        checks.integer(self.metric_draws, "metric_draws", 0, None, "0 uses the mean metric")
        if self.max_time is not None:
            checks.positive(self.max_time, "max_time", "None finds it")
        if self.step_size is not None:
            checks.positive(self.step_size, "step_size", "None chooses it from the geometry")
        if self.n_modes is not None:
            checks.integer(self.n_modes, "n_modes", 2, None, "None is 100 eigenfunctions")
        if self.n_path_starts is not None:
            checks.integer(self.n_path_starts, "n_path_starts", 2, None, "None uses every row")
        if self.metric_draws and self.method == "brownian":
            raise GpumError(
                f"metric_draws is {self.metric_draws}, but method='brownian' has no draws of the metric; use "
                "method='spectral', or metric_draws=0"
            )

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"KernelOptions({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def kernel_options(kernel: Any) -> KernelOptions:
    """The options that an estimator's `kernel` means: options, or the name of a method."""
    if isinstance(kernel, KernelOptions):
        return kernel
    return KernelOptions(checks.option(kernel, "kernel", METHODS, "KernelOptions(...)"))


def with_kernel(kernel: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator in which `kernel__n_modes` and the like, as in a grid, are options of its kernel."""
    options = {name.removeprefix("kernel__"): value for name, value in params.items() if name.startswith("kernel__")}
    if not options:
        return params
    known = [one.name for one in fields(KernelOptions)]
    for name in options:
        checks.option(name, "the name after kernel__", known)
    others = {name: value for name, value in params.items() if not name.startswith("kernel__")}
    return {**others, "kernel": replace(kernel_options(params.get("kernel", kernel)), **options)}


@dataclass(frozen=True)
class KernelTask:
    """Which kernels are requested from a geometry, and how they are computed."""

    smoothness: Sequence[str]
    options: KernelOptions = field(default_factory=KernelOptions)
    seed: int = 0
    n_jobs: int | None = None
    verbose: int = 0


class Geometry(Protocol):
    """A geometry of a cloud."""

    @property
    def name(self) -> str:
        """Its kind, such as "chart"."""

    @property
    def title(self) -> str:
        """Its name among geometries of its kind, such as "chart of dimension 2"."""

    def project(self, X: np.ndarray) -> Projection:
        """Projects new rows X [n, p] onto the geometry."""

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """Spaces of the geometry, candidates on them, and the rows of the cloud in each space."""

    def built(self, task: KernelTask) -> Geometry:
        """What a fitted model needs of it: arrays, onto which rows are projected."""


@dataclass(frozen=True)
class UnweightedGeometry:
    """What a model file stores of a geometry without weight: its name. Nothing can be projected onto it."""

    name: str
    title: str
    units: str | None = None  # other than those of the cloud, in words

    def project(self, X: np.ndarray) -> Projection:
        """It has no points."""
        raise self._gone

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """It has no spaces."""
        raise self._gone

    def built(self, task: KernelTask) -> UnweightedGeometry:
        """Itself."""
        return self

    @property
    def _gone(self) -> GpumError:
        return GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")


def titles(geometries: Sequence[Geometry]) -> list[str]:
    """Titles of several geometries; a repeated title gets a number from the second on."""
    seen: Counter[str] = Counter()
    found = []
    for geometry in geometries:
        seen[geometry.title] += 1
        n = seen[geometry.title]
        found.append(geometry.title if n == 1 else f"{geometry.title}, fit {n}")
    return found


def in_data_space(X: np.ndarray) -> Projection:
    """The projection of rows that are their own points."""
    return Projection(X, np.zeros(len(X), bool))
