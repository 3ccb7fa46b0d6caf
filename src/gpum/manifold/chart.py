"""What a chart is, and everything that follows from its metric alone.

    G(x)  [q, q]      the metric (for a learned chart its expectation)
    inside(x)         whether x belongs to the surface
    bounds [q, 2]     a box of the chart that holds the inside
    periodic [q]      which coordinates are angles: their two ends are one point

All functions take one point x of shape [q]; use `jax.vmap` for many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.device import compiled
from ..persistence.programs import cached_programs
from .precision import float64

BATCHES = (64, 1024)  # points at a time


class Chart(ABC):
    """A chart is its metric and its inside test: implement `metric`, `inside` and `bounds`.

    Subclasses are registered as JAX pytrees, so that compiled programs take them as arguments.
    """

    @property
    @abstractmethod
    def bounds(self) -> np.ndarray:
        """Low and high end of each coordinate, [q, 2]: a box around the inside."""

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Which coordinates are angles, [q]: none, unless a chart says so."""
        return (False,) * self.dim

    @property
    def dim(self) -> int:
        """The number q of coordinates."""
        return len(self.bounds)

    @abstractmethod
    def metric(self, x: Any) -> Any:
        """G(x), symmetric positive definite, [q, q]."""

    @abstractmethod
    def inside(self, x: Any) -> Any:
        """Whether x is on the surface: a Boolean."""

    def complex(self) -> Any:
        """The inside as a complex (see `manifold.complex`), where the chart has one; else None."""
        return None

    @float64
    def metric_derivative(self, x: Any) -> Any:
        """∂G_ab/∂x_l, shape [q, q, q] with l last. By automatic differentiation unless a chart has a formula."""
        return jax.jacfwd(self.metric)(jnp.asarray(x, float))


@float64
def magnification(chart: Chart, x: Any) -> Any:
    """√det G(x): how much surface one unit of the chart holds at x."""
    return jnp.sqrt(jnp.linalg.det(chart.metric(x)))


@float64
def drift(chart: Chart, x: Any) -> Any:
    """Drift of Brownian motion in the chart, eq. (disBM), [q].

    ½ Σ_j (-G⁻¹ ∂_jG G⁻¹)_ij + ¼ Σ_j (G⁻¹)_ij tr(G⁻¹∂_jG): half of G^{-1/2} Σ_j ∂_j(G^{1/2} G^{ij}).
    """
    Gi, dG = jnp.linalg.inv(chart.metric(x)), chart.metric_derivative(x)
    bend = -jnp.einsum("ia,abj,bj->i", Gi, dG, Gi)
    grow = Gi @ jnp.einsum("ab,abj->j", Gi, dG)
    return 0.5 * bend + 0.25 * grow


@float64
def inverse_root(chart: Chart, x: Any) -> Any:
    """The symmetric root G(x)^{-1/2}, [q, q]."""
    w, V = jnp.linalg.eigh(chart.metric(x))
    return (V / jnp.sqrt(w)) @ V.T


@float64
def length(chart: Chart, a: Any, b: Any, n: int = 16) -> Any:
    """Riemannian length of the straight chart segment from a to b (Gauss-Legendre, n nodes)."""
    a, b = jnp.asarray(a, float), jnp.asarray(b, float)
    checks.integer(n, "n", 1, None, "16 nodes are the default")
    nodes, weights = np.polynomial.legendre.leggauss(n)
    x = a + (b - a) * (0.5 + 0.5 * nodes)[:, None]
    speed = jax.vmap(lambda y: jnp.sqrt((b - a) @ chart.metric(y) @ (b - a)))(x)
    return 0.5 * speed @ weights


def lengths(chart: Chart, a: np.ndarray, b: np.ndarray, n: int = 8) -> np.ndarray:
    """As `length`, of the straight segments between points a and b, [m, q] each: [m]."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    x = a + (b - a) * (0.5 + 0.5 * nodes)[:, None, None]
    G = evaluate(chart, "metric", x.reshape(-1, a.shape[1])).reshape(*x.shape, -1)
    speed = np.sqrt(np.einsum("mq,nmqr,mr->nm", b - a, G, b - a))
    return 0.5 * weights @ speed


def grid(chart: Chart, n: int) -> tuple[np.ndarray, float]:
    """Midpoints of n^q equal cells of the chart's box, [n^q, q], and the volume of one cell."""
    low, high = np.asarray(chart.bounds, float).T
    axes = [lo + (hi - lo) * (np.arange(n) + 0.5) / n for lo, hi in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low))
    return points, float(np.prod((high - low) / n))


def volume(chart: Chart, n: int | None = None) -> float:
    """Riemannian volume ∫ √det G dx inside the boundary, by the midpoint rule on n^q cells."""
    if n is not None:
        checks.integer(n, "n", 1, None, "leave it out for a fine grid")
    points, cell = grid(chart, n or {1: 4000, 2: 250, 3: 60}.get(chart.dim, 16))
    points = points[evaluate(chart, "inside", points)]
    return float(cell * evaluate(chart, magnification, points).sum())


def evaluate(
    chart: Any, function: str | Callable[[Any, Any], Any], points: Any, batch: int | None = None
) -> np.ndarray:
    """A chart's method, or a function of this module, at many points, in bounded memory.

    `evaluate(chart, "metric", points)` and `evaluate(chart, drift, points)` take points [n, q] and
    return a NumPy array [n, ...]. Instead of a chart any JAX pytree may be given (such as a `Mapping`); `batch` is the
    number of points at a time, for functions that need much memory at a point.
    """
    try:
        points = np.asarray(points, float)
    except (TypeError, ValueError):
        raise GpumError(f"points must be numbers [n, q], got {points!r}; give one row for each point") from None
    if points.ndim != 2:
        raise GpumError(f"points must be [n, q], got the shape {points.shape}; give one row for each point")
    if batch is None:
        batch = BATCHES[-1] if len(points) > BATCHES[0] else BATCHES[0]  # only two programs are ever compiled
    padded = np.pad(points, ((0, max(-len(points) % batch, batch * (not len(points)))), (0, 0)), mode="constant")
    if len(points):
        padded[len(points) :] = points[-1]
    with jax.enable_x64(True), cached_programs():
        found = [_at_batch(chart, padded[k : k + batch], function) for k in range(0, len(padded), batch)]
        return np.concatenate([np.asarray(f) for f in found])[: len(points)]


@partial(compiled, static_argnames=("function",))
def _at_batch(chart: Any, points: Array, function: Any) -> Array:
    def at(x: Array) -> Any:
        return getattr(chart, function)(x) if isinstance(function, str) else function(chart, x)

    return jax.vmap(at)(points)
