"""What the parameters of an estimator that concern geometries mean: kernel, smoothness, geometry, latent_dim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..heat.meshes import Mesh
from ..heat.spectra import SMOOTHNESS
from .kernels import Kernel, Linear, Surface, of_surface
from .priors import GEOMETRIES

METHODS = ("auto", "spectral", "brownian")
MEANS = ("constant", "linear")


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
    covariance : of the regressor: a kernel of `gpum.kernels`, such as Surface() * Heat("time"); None: that of the
        surface, with the estimator's `smoothness`.
    """

    method: str = "auto"
    boundary: float | str = "average"
    n_modes: int | None = None
    metric_draws: int = 0
    max_time: float | None = None
    n_paths: int = 1000
    step_size: float | None = None
    n_path_starts: int | None = None
    covariance: Kernel | None = None

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
        if self.covariance is not None:
            if not isinstance(self.covariance, Kernel):
                raise GpumError(f"covariance is {self.covariance!r}, which is no kernel of gpum.kernels; give one")
            of_surface(self.covariance)
        if self.metric_draws and self.method == "brownian":
            raise GpumError(
                f"metric_draws is {self.metric_draws}, but method='brownian' has no draws of the metric; use "
                "method='spectral', or metric_draws=0"
            )

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"KernelOptions({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def has_terms(options: KernelOptions) -> bool:
    """Whether the kernel has terms besides the one on the surface."""
    return options.covariance is not None and not options.covariance.on_surface


def kernel_options(kernel: Any) -> KernelOptions:
    """The options that an estimator's `kernel` means: options, a kernel, or the name of a method."""
    if isinstance(kernel, KernelOptions):
        return kernel
    if isinstance(kernel, Kernel):
        return KernelOptions(covariance=kernel)
    return KernelOptions(checks.option(kernel, "kernel", METHODS, "KernelOptions(...) or a kernel of gpum.kernels"))


def with_mean(options: KernelOptions, mean: Any) -> KernelOptions:
    """The options of an estimator's `mean`: "linear" adds a linear trend in all columns to the kernel."""
    if checks.option(mean, "mean", MEANS) == "constant":
        return options
    return replace(options, covariance=(options.covariance or Surface()) + Linear())


def with_kernel(kernel: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator in which `kernel__n_modes` and the like, as in a grid, are options of its kernel."""
    options = {name.removeprefix("kernel__"): value for name, value in params.items() if name.startswith("kernel__")}
    if not options:
        return params
    known = [field.name for field in fields(KernelOptions)]
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
    columns: Mapping[str | int, tuple[int, ...]] = field(default_factory=dict)  # of X, that terms of the kernel name


def smoothness_names(smoothness: str, kernel: Kernel | None = None) -> list[str]:
    """The kernels on surfaces that an estimator's `smoothness` and `kernel` mean."""
    checks.option(smoothness, "smoothness", ("average", *SMOOTHNESS))
    named = None if kernel is None else of_surface(kernel)
    if named is not None:
        if smoothness != "average":
            raise GpumError(
                f"smoothness is {smoothness!r}, but kernel is {kernel!r}, which has its own; leave smoothness out, or "
                "use Surface() for the kernel on the surface"
            )
        return [named]
    return list(SMOOTHNESS) if smoothness == "average" else [smoothness]


def geometry_names(geometry: Any) -> list[str]:
    """The geometries that an estimator's `geometry` means; a mesh is the only one."""
    if isinstance(geometry, Mesh):
        return ["mesh"]
    if isinstance(geometry, str):
        checks.option(geometry, "geometry", ("average", *GEOMETRIES))
        return list(GEOMETRIES) if geometry == "average" else [geometry]
    try:
        names = list(dict.fromkeys(geometry))
    except TypeError:
        names = []
    if not names:
        raise GpumError(
            f"geometry must be 'average', a name or a list of names of {', '.join(map(repr, GEOMETRIES))}, or "
            f"a `gpum.Mesh`, got {geometry!r}; use one of these"
        )
    return [checks.option(name, "geometry", GEOMETRIES) for name in names]


def dimensions(latent_dim: Any) -> list[int] | str:
    """The dimensions that an estimator's `latent_dim` means; "average" and "auto" are returned unchanged."""
    if isinstance(latent_dim, str):
        return checks.option(latent_dim, "latent_dim", ("average", "auto"))
    given = [latent_dim] if isinstance(latent_dim, Integral) or not np.iterable(latent_dim) else list(latent_dim)
    if not given:
        raise GpumError("latent_dim is an empty sequence; give the surface's dimension, 'average' or 'auto'")
    advice = "give the surface's dimension, several of them, 'average' or 'auto'"
    return sorted({checks.integer(q, "latent_dim", 1, None, advice) for q in given})
