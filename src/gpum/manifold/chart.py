"""What a chart is, and everything that follows from its metric alone.

    G(x)  [q, q]      the metric (for a learned chart its expectation)
    inside(x)         whether x belongs to the surface
    bounds [q, 2]     a box of the chart that holds the inside
    periodic [q]      which coordinates are angles: their two ends are one point

All functions take one point x of shape [q]; use `jax.vmap` for many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
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

    `metric` and `inside` are compiled by JAX: write them with `jax.numpy`. `bounds` is a property or a class attribute.
    Attributes of a chart are constants of compiled programs: charts with equal attributes share programs. (A subclass
    that is registered as a JAX pytree by its author is used as such.)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if "_registered" not in vars(cls):
            with suppress(ValueError):  # it is registered already
                jax.tree_util.register_pytree_node(cls, _flattened, partial(_unflattened, cls))
            cls._registered = True
        return super().__new__(cls)

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


@dataclass(frozen=True, eq=False)
class _Attributes:
    """The attributes of a chart as a constant: equal where all their values are."""

    held: dict[str, Any]

    @cached_property
    def _key(self) -> Any:
        return _key(self.held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attributes) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _key(value: Any) -> Any:
    """Something that can be hashed and is equal for equal values: arrays count by content, other objects as such."""
    if isinstance(value, jax.core.Tracer):
        return id(value)
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        return array.shape, array.dtype.str, array.tobytes()
    if isinstance(value, dict):
        return tuple((name, _key(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, *map(_key, value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value).__name__, value


def _flattened(chart: Chart) -> tuple[tuple[()], _Attributes]:
    return (), _Attributes(dict(vars(chart)))


def _unflattened(cls: type, attributes: _Attributes, leaves: Any) -> Any:
    chart: Any = object.__new__(cls)
    vars(chart).update(attributes.held)
    return chart


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
    return lattice(axes), float(np.prod((high - low) / n))


def lattice(axes: Iterable[np.ndarray]) -> np.ndarray:
    """All points whose coordinates are among these values, [n, q]."""
    axes = list(axes)
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


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
    number of points at a time, for functions that need much memory at a point. Functions `of_arrays` are not compiled.
    """
    try:
        points = np.asarray(points, float)
    except (TypeError, ValueError):
        raise GpumError(f"points must be numbers [n, q], got {points!r}; give one row for each point") from None
    if points.ndim != 2:
        raise GpumError(f"points must be [n, q], got the shape {points.shape}; give one row for each point")
    if batch is None:
        batch = BATCHES[-1] if len(points) > BATCHES[0] else BATCHES[0]  # only two programs are ever compiled
    method = getattr(type(chart), function, None) if isinstance(function, str) else function
    if method is not None and getattr(method, "of_arrays", False):
        blocks = [method(chart, points[k : k + batch]) for k in range(0, max(len(points), 1), batch)]
        return np.concatenate([np.asarray(values) for values in blocks])
    padded = np.pad(points, ((0, max(-len(points) % batch, batch * (not len(points)))), (0, 0)), mode="constant")
    if len(points):
        padded[len(points) :] = points[-1]
    with jax.enable_x64(True), cached_programs():
        try:
            values = [_at_batch(chart, padded[k : k + batch], function) for k in range(0, len(padded), batch)]
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            name = function if isinstance(function, str) else function.__name__
            raise GpumError(
                f"{name} of {type(chart).__name__} cannot be compiled: write `metric` and `inside` with jax.numpy "
                f"instead of numpy, and jnp.where instead of if ({str(error).splitlines()[0]})"
            ) from None
        return np.concatenate([np.asarray(f) for f in values])[: len(points)]


@partial(compiled, static_argnames=("function",))
def _at_batch(chart: Any, points: Array, function: Any) -> Array:
    def at(x: Array) -> Any:
        return getattr(chart, function)(x) if isinstance(function, str) else function(chart, x)

    return jax.vmap(at)(points)
