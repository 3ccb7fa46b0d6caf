"""The settings that GP regression on a chart chooses from, or averages over.

A *space* is one domain with a representation of its points: eigenfunctions of one boundary level, or path histograms at
one diffusion time. Its settings are covariances on it, with log prior weights:

    boundary level   exponential with mean DEFAULT_LEVEL, at LEVELS values in equal ratios of 1 + level
    smoothness       equal weights
    scale            log-uniform (√t of the heat kernel, κ of Matérn), from what the modes resolve to the extent

Where the surface is learned, "no boundary" stands beside the levels: the plain kernel of the chart's even coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from .. import checks, neighbours
from ..geometry import Chart, CorridorBoundary, LearnedChart, StraightChart, straighten
from ..geometry.boundary import DEFAULT_LEVEL
from ..heat.histograms import PathFeatures, cleaned, path_features
from ..heat.spectral import Eigenpairs, eigenpairs
from .covariances import SMOOTHNESS, Covariance, Features, Spectral, Stationary
from .gp import Setting
from .reuse import remembered

LEVELS = 6
MAX_LEVEL = 6 * DEFAULT_LEVEL
SCALES = 12
RESOLVED = 0.05  # what the smallest scale leaves of the last mode
CONNECTED = 1e-6  # λ_1/λ_k below which a domain counts as torn
TOLERANCE = 0.03  # of the first eigenvalues, when the mesh is refined


# What represents points in every space, the settings, and the cloud's representations.
Family = tuple[Callable[[np.ndarray], list[np.ndarray]], list[Setting], list[np.ndarray]]


@dataclass(frozen=True)
class Each:
    """Points in each of several spaces by itself."""

    spaces: list[Any]

    def __call__(self, points: np.ndarray) -> list[np.ndarray]:
        """Representations [n, k] of points, one for each space."""
        return [space.at(points) for space in self.spaces]


@dataclass(frozen=True)
class SpectralSpace:
    """Points as values of the eigenfunctions of one domain (of several, for draws of the metric)."""

    pairs: tuple[Eigenpairs, ...]
    info: dict[str, Any]

    def at(self, points: np.ndarray) -> np.ndarray:
        """Eigenfunctions at chart points [n, q], [n, k]."""
        return np.concatenate([p.at(points) for p in self.pairs], 1)

    @property
    def values(self) -> np.ndarray:
        """Eigenvalues, [k]."""
        return np.concatenate([p.values for p in self.pairs])

    @property
    def connected(self) -> bool:
        """Whether the domain is in one piece."""
        return all(p.values[1] > CONNECTED * p.values[-1] for p in self.pairs)


def smoothness_names(smoothness: str) -> list[str]:
    """The kernels that an estimator's `smoothness` stands for."""
    checks.option(smoothness, "smoothness", ("average", *SMOOTHNESS))
    return list(SMOOTHNESS) if smoothness == "average" else [smoothness]


def levels_of(chart: Chart, level: float | str) -> list[tuple[float | None, float]]:
    """Boundary levels of a chart and their log prior weights; one entry where there is no family."""
    boundary = chart.boundary if isinstance(chart, LearnedChart) else None
    if not isinstance(boundary, CorridorBoundary):
        return [(None, 0.0)]
    if level != "average":
        return [(float(level), 0.0)]
    top = min(float(boundary.max_level), MAX_LEVEL)
    levels = np.unique(np.expm1(np.linspace(0.0, np.log1p(top), LEVELS)))
    prior = np.exp(-levels / DEFAULT_LEVEL) * (1 + levels)
    return list(zip(levels.tolist(), np.log(prior / prior.sum()).tolist(), strict=True))


def spectral_space(chart: Chart, level: float | None, n_modes: int, draws: Sequence[Any] = ()) -> SpectralSpace:
    """The space of one boundary level; with keys `draws`, of as many draws of the metric."""
    if level is not None:
        chart = chart.with_level(level)  # type: ignore[attr-defined]
    charts = [chart.draw(key) for key in draws] if len(draws) else [chart]  # type: ignore[attr-defined]
    pairs = tuple(eigenpairs(c, n_modes=n_modes, tol=TOLERANCE, warn=False) for c in charts)
    return SpectralSpace(pairs, {} if level is None else {"level": level})


def spectral_settings(
    values: np.ndarray, power: np.ndarray, dim: float, space: int, log_prior: float,
    smoothness: Sequence[str], info: dict[str, Any], max_time: float | None = None, resolved: float = RESOLVED,
) -> list[Setting]:  # fmt: skip
    """Heat and Matérn kernels from eigenvalues [k], at SCALES scales each.

    `power` is the mean square of each eigenfunction over the cloud; the smallest scale leaves `resolved` of the last
    mode (where that is much, smaller scales change nothing).
    """
    varies = values[values > 1e-9 * values.max()]
    extent = float(np.pi / np.sqrt(varies.min()))
    small = float(np.sqrt(2 * log(1 / resolved) / values.max()))
    open_ends = ("low",) if resolved < 0.5 else ()
    return _ladder(
        lambda nu, scale: Spectral(values, power, nu, dim, scale),
        small, lambda nu: (0.7 if np.isinf(nu) else 2.0) * extent,
        space, log_prior, smoothness, {**info, "open": open_ends}, max_time,
    )  # fmt: skip


def _ladder(
    covariance: Callable[[float, float], Covariance], small: float, largest: Callable[[float], float],
    space: int, log_prior: float, smoothness: Sequence[str], info: dict[str, Any], max_time: float | None,
) -> list[Setting]:  # fmt: skip
    """covariance(ν, scale) at SCALES scales, in equal ratios, for each smoothness; √max_time bounds heat kernels."""
    settings = []
    for name in smoothness:
        nu = SMOOTHNESS[name]
        large = largest(nu)
        if max_time is not None and np.isinf(nu):
            large = min(large, float(np.sqrt(max_time)))
        ends = (min(small, large / 2), large)
        for scale in np.geomspace(*ends, SCALES):
            described = {**info, "smoothness": name, "scale": float(scale), "scales": ends}
            weight = log_prior - log(len(smoothness)) - log(SCALES)
            settings.append(Setting(covariance(nu, float(scale)), space, weight, described))
    return settings


@dataclass(frozen=True)
class PlaneSpace:
    """Points as even coordinates of the chart (see `geometry.straight`): the surface unrolled, without a boundary."""

    chart: StraightChart

    def at(self, points: np.ndarray) -> np.ndarray:
        """Even coordinates of chart points [n, q], [n, q]."""
        return self.chart.coordinates(points)


def plane_space(chart: Chart) -> PlaneSpace:
    """The chart unrolled. For a flat surface without gaps no kernel with a reflecting boundary is as good."""
    return PlaneSpace(straighten(chart))


def stationary_settings(
    cloud: np.ndarray, space: int, log_prior: float, smoothness: Sequence[str], info: dict[str, Any],
    max_time: float | None = None,
) -> list[Setting]:  # fmt: skip
    """Heat and Matérn kernels of coordinates, at SCALES scales each, from the rows' spacing to twice their extent."""
    extent = max(neighbours.extent(cloud), 1e-12)
    small = min(max(float(neighbours.spacing(cloud).mean()), 1e-3 * extent), extent)
    return _ladder(Stationary, small, lambda nu: 2 * extent, space, log_prior, smoothness, info, max_time)


def path_family(
    chart: Chart, rows: np.ndarray, *, level: float | None, n_paths: int, step_size: float | None,
    max_time: float | None, n_inducing: int | None, seed: int, n_jobs: int | None,
) -> Family:  # fmt: skip
    """Heat kernels from paths, one space a diffusion time; all times of a point come from one simulation."""
    if level is not None:
        chart = remembered(chart, ("level", level), lambda: chart.with_level(level))  # type: ignore[attr-defined]
    key = ("paths", n_paths, step_size, max_time, n_inducing, seed)
    features = remembered(
        chart, (*key, rows.tobytes()), lambda: path_features(chart, rows, *key[1:], n_jobs=n_jobs)
    )  # fmt: skip
    cloud = remembered(features, rows.tobytes(), lambda: features(rows))
    if isinstance(features, PathFeatures):
        raw, noisy = features, cloud
        features = remembered(raw, ("clean", rows.tobytes()), lambda: cleaned(raw, noisy))
        cloud = remembered(features, rows.tobytes(), lambda: features.clean(noisy))
    settings = []
    ends = (float(np.sqrt(features.times[0])), float(np.sqrt(features.times[-1])))
    for k, t in enumerate(features.times):
        covariance = Features(float(np.mean(np.sum(cloud[k] ** 2, 1))), float(np.sqrt(t)))
        info = {"smoothness": "heat", "scale": float(np.sqrt(t)), "scales": ends, "open": ("low", "high")}
        settings.append(Setting(covariance, k, -log(len(features.times)), info))
    return features, settings, cloud
