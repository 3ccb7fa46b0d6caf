"""Closed forms and charts whose truth is known, for the tests."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import jnp_zeros, jv

from gpum import EmbeddedChart, SwissRoll
from gpum.manifold import Chart

ROLL = SwissRoll()
CIRCLE = EmbeddedChart(lambda x: 2 * jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])]), [(0, 2 * np.pi)], (True,))
CYLINDER = EmbeddedChart(
    lambda x: jnp.stack([jnp.cos(x[0]), jnp.sin(x[0]), x[1]]), [(0, 2 * np.pi), (0, 2)], (True, False)
)
TORUS = EmbeddedChart(
    lambda x: jnp.stack([(3 + jnp.cos(x[1])) * jnp.cos(x[0]), (3 + jnp.cos(x[1])) * jnp.sin(x[0]), jnp.sin(x[1])]),
    [(0, 2 * np.pi), (0, 2 * np.pi)],
    (True, True),
)
SPHERE = EmbeddedChart(  # latitude x[0], longitude x[1]
    lambda x: jnp.stack([jnp.cos(x[0]) * jnp.cos(x[1]), jnp.cos(x[0]) * jnp.sin(x[1]), jnp.sin(x[0])]),
    [(-np.pi / 2, np.pi / 2), (0, 2 * np.pi)],
    (False, True),
)
RECTANGLE = EmbeddedChart(lambda x: 2 * x, [(0, 1), (0, 3)])  # sides 2 and 6


@partial(jax.tree_util.register_dataclass, data_fields=["centre"], meta_fields=[])
@dataclass(frozen=True)
class Disc(Chart):
    """The flat unit disc in a box that is larger: a boundary that cuts the grid."""

    centre: Any

    @property
    def bounds(self):
        return np.array([[-1.3, 1.2], [-1.1, 1.25]])

    def metric(self, x):
        return jnp.eye(2) * jnp.ones_like(jnp.asarray(x)[0])

    def inside(self, x):
        return jnp.sum((jnp.asarray(x) - self.centre) ** 2) <= 1.0


@partial(jax.tree_util.register_dataclass, data_fields=["radius", "width"], meta_fields=[])
@dataclass(frozen=True)
class Ring(Chart):
    """A flat ring, as wide as asked for, whose metric in the chart is 4 / (1 + |x|²)²: a band of the unit sphere."""

    radius: Any
    width: Any

    @property
    def bounds(self):
        return np.array([[-1.3, 1.2], [-1.1, 1.25]])

    def metric(self, x):
        return jnp.eye(2) * 4 / (1 + jnp.sum(jnp.asarray(x) ** 2)) ** 2

    def inside(self, x):
        return jnp.abs(jnp.linalg.norm(jnp.asarray(x)) - self.radius) <= self.width / 2

    @property
    def area(self):
        low, high = self.radius - self.width / 2, self.radius + self.width / 2
        return 4 * np.pi * (1 / (1 + low**2) - 1 / (1 + high**2))


def disc_kernel(x, y, t, orders=40, zeros=40):
    """Neumann heat kernel of the unit disc between points x [n, 2] and y [m, 2]: a series of Bessel functions."""
    (rx, ax), (ry, ay) = ((np.hypot(*p.T), np.arctan2(p[:, 1], p[:, 0])) for p in (np.asarray(x), np.asarray(y)))
    kernel = np.full((len(rx), len(ry)), 1 / np.pi)
    for n in range(orders):
        roots = jnp_zeros(n, zeros)
        norm = np.pi * (1 - (n / roots) ** 2) * jv(n, roots) ** 2 / (2 if n else 1)
        waves = jv(n, np.outer(rx, roots)) * (np.exp(-0.5 * roots**2 * t) / norm) @ jv(n, np.outer(ry, roots)).T
        kernel += waves * np.cos(n * (ax[:, None] - ay))
    return kernel


def interval_kernel(a, b, t, length):
    """Neumann heat kernel of an interval between a (a number) and points b."""
    k = np.arange(1, 4000)
    waves = np.cos(np.pi * k * a / length) * np.cos(np.pi * np.outer(np.atleast_1d(b), k) / length)
    return (1 + 2 * waves @ np.exp(-0.5 * (np.pi * k / length) ** 2 * t)) / length


def roll_kernel(start, targets, t, roll=ROLL):
    """Neumann heat kernel of the Swiss roll: the product of two intervals in arc length and width."""
    u0 = roll.arc_length(roll.r[0])
    along = roll.arc_length(np.r_[start[0], targets[:, 0]]) - u0
    length = float(np.ptp(roll.arc_length(roll.r)))
    across = np.r_[start[1], targets[:, 1]] - roll.z[0]
    width = roll.z[1] - roll.z[0]
    return interval_kernel(along[0], along[1:], t, length) * interval_kernel(across[0], across[1:], t, width)
