"""Charts of known surfaces: any differentiable embedding, and the Swiss roll of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..basics.checks import GpumError
from .chart import Chart
from .precision import float64


def _box(pairs: Any, name: str) -> np.ndarray:
    """Pairs (low, high) as an array [q, 2]."""
    try:
        box = np.asarray(pairs, float)
    except (TypeError, ValueError):
        box = np.zeros(0)
    if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)):
        raise GpumError(f"{name} must be finite (low, high) pairs, got {pairs!r}; give two numbers a coordinate")
    if np.any(box[:, 0] >= box[:, 1]):
        raise GpumError(f"{name} needs low < high in every pair, got {pairs!r}; exchange or correct them")
    return box


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["phi", "domain", "periodic"])
@dataclass(frozen=True)
class EmbeddedChart(Chart):
    """The surface x ↦ phi(x) in R^p over a box, with metric JᵀJ by autodiff.

    Parameters
    ----------
    phi : function of one point [q] to a point [p]; must be JAX-differentiable.
    domain : q pairs (low, high).
    periodic : for each coordinate whether it is an angle, its two ends one and the same
        (default: none). A periodic coordinate has no boundary: `inside` accepts any value of it.
    """

    phi: Callable[[Any], Any]
    domain: Sequence[tuple[float, float]]
    periodic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        box = _box(self.domain, "domain")
        if not isinstance(self.periodic, Sequence) or isinstance(self.periodic, str):
            raise GpumError(f"periodic must be one True or False for each coordinate, got {self.periodic!r}; list them")
        periodic = tuple(bool(b) for b in self.periodic) or (False,) * len(box)
        if len(periodic) != len(box):
            raise GpumError(
                f"periodic has {len(periodic)} entries but domain has {len(box)} coordinates; "
                "give one True or False for each"
            )
        object.__setattr__(self, "domain", tuple((float(a), float(b)) for a, b in box))
        object.__setattr__(self, "periodic", periodic)

    @property
    def bounds(self) -> np.ndarray:
        return np.asarray(self.domain)

    @float64
    def metric(self, x: Any) -> Any:
        J = jax.jacfwd(self.phi)(jnp.asarray(x, float))
        return J.T @ J

    @float64
    def inside(self, x: Any) -> Any:
        x, box = jnp.asarray(x, float), self.bounds
        return jnp.all(np.asarray(self.periodic) | ((x >= box[:, 0]) & (x <= box[:, 1])))


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["r", "z"])
@dataclass(frozen=True)
class SwissRoll(Chart):
    """(r, z) ↦ (r cos r, r sin r, z), metric diag(1 + r², 1) (appendix E).

    Flat: in arc length u(r) = ½(r√(1+r²) + asinh r) and z it is a rectangle, so its heat kernel is
    known in closed form.
    """

    r: tuple[float, float] = (2.0, 12.5)
    z: tuple[float, float] = (0.0, 12.0)

    def __post_init__(self) -> None:
        for name in ("r", "z"):
            ((low, high),) = _box([getattr(self, name)], name).tolist()
            object.__setattr__(self, name, (low, high))

    @property
    def bounds(self) -> np.ndarray:
        return np.asarray([self.r, self.z], float)

    @float64
    def metric(self, x: Any) -> Any:
        r = jnp.asarray(x, float)[0]
        return jnp.diag(jnp.stack([1 + r**2, jnp.ones_like(r)]))

    @float64
    def inside(self, x: Any) -> Any:
        x, box = jnp.asarray(x, float), self.bounds
        return jnp.all((x >= box[:, 0]) & (x <= box[:, 1]))

    @float64
    def embed(self, x: Any) -> Any:
        """The point of R³ at chart coordinates x = (r, z)."""
        r, z = jnp.asarray(x, float)
        return jnp.stack([r * jnp.cos(r), r * jnp.sin(r), z])

    @staticmethod
    def arc_length(r: Any) -> Any:
        """u(r), the length along the roll from r = 0."""
        r = np.asarray(r, float)
        return 0.5 * (r * np.sqrt(1 + r**2) + np.arcsinh(r))

    def heat_kernel(self, starts: Any, targets: Any, times: Any) -> np.ndarray:
        """The exact K_t with no flow through the edges, [times, starts, targets], between points (r, z).

        A product of two cosine series, in arc length and in width.
        """
        starts, targets = np.atleast_2d(starts).astype(float), np.atleast_2d(targets).astype(float)
        low, high = self.arc_length(self.r)
        along = _interval_kernel(
            self.arc_length(starts[:, 0]) - low, self.arc_length(targets[:, 0]) - low, times, float(high - low)
        )
        across = _interval_kernel(starts[:, 1] - self.z[0], targets[:, 1] - self.z[0], times, self.z[1] - self.z[0])
        return along * across


def _interval_kernel(a: np.ndarray, b: np.ndarray, times: Any, length: float) -> np.ndarray:
    """Heat kernel of an interval with reflecting ends: cosine series down to rounding, [times, a, b]."""
    times = np.atleast_1d(np.asarray(times, float))
    if np.any(times <= 0):
        raise GpumError(f"times must be positive, got {times.min()!r}; pass diffusion times > 0")
    k = np.arange(1, int(np.sqrt(80 / times.min()) * length / np.pi) + 2)
    waves = [np.cos(np.pi * np.outer(x, k) / length) for x in (a, b)]
    decay = np.exp(-0.5 * np.outer(times, (np.pi * k / length) ** 2))
    return (1 + 2 * np.einsum("ak,bk,tk->tab", *waves, decay, optimize=True)) / length
