"""A chart in even coordinates, in which steps of Brownian paths may be large: a unit is about as long everywhere.

Brownian motion does not depend on the chart, but Euler steps do: where the metric of a chart changes quickly, or nearly
vanishes at an edge (as often in learned charts), steps must be tiny. Each coordinate x_a is therefore replaced by s_a
in [0, L_a], the mean length travelled along it,

    s_a(x_a) = ∫ ρ_a,    ρ_a(x_a) = mean of √G_aa over the inside at x_a, smoothed,

so that for a Swiss roll in (r, z) the new coordinates are arc length and width, and its metric the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Chebyshev

from ..basics.checks import NoSurface
from .chart import Chart, evaluate, grid
from .precision import float64

PROBES = {1: 2000, 2: 120, 3: 30}  # per coordinate
KNOTS = 513
DEGREE = 10


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["base", "position", "slope", "lengths"],
    meta_fields=["periodic"],
)
@dataclass(frozen=True)
class StraightChart(Chart):
    """A chart in even coordinates: x_a(s_a) is a cubic spline through `position` [q, K] with `slope` [q, K]."""

    base: Any
    position: Any
    slope: Any
    lengths: Any
    periodic: tuple[bool, ...] = ()

    @property
    def bounds(self) -> np.ndarray:
        return np.stack([np.zeros(len(self.lengths)), np.asarray(self.lengths)], 1)

    def _old(self, s: Any) -> tuple[Any, Any]:
        """x(s) and dx/ds, [q] each (cubic Hermite)."""
        return _spline(jnp, s, jnp.asarray(self.position), jnp.asarray(self.slope), self.lengths)

    @float64
    def original(self, s: Any) -> Any:
        """The point s [q] in the old coordinates."""
        return self._old(jnp.asarray(s, float))[0]

    @float64
    def metric(self, x: Any) -> Any:
        old, d = self._old(jnp.asarray(x, float))
        return d[:, None] * self.base.metric(old) * d

    @float64
    def inside(self, x: Any) -> Any:
        x = jnp.asarray(x, float)
        in_box = jnp.all(np.asarray(self.periodic) | ((x >= 0) & (x <= self.lengths)))
        return in_box & self.base.inside(self._old(x)[0])

    def coordinates(self, points: Any) -> np.ndarray:
        """The new coordinates of points [n, q] given in the old ones."""
        points = np.asarray(points, float)
        low, high = np.asarray(self.base.bounds, float).T
        wrapped = low + np.mod(points - low, high - low)
        points = np.where(np.asarray(self.periodic), wrapped, points)
        lengths = np.asarray(self.lengths, float)
        even = np.linspace(0, lengths, KNOTS)
        s = np.stack([np.interp(points[:, a], p, even[:, a]) for a, p in enumerate(np.asarray(self.position))], 1)
        for _ in range(3):  # Newton, from a linear guess
            old, d = _spline(np, s, np.asarray(self.position), np.asarray(self.slope), lengths)
            s = np.clip(s - (old - points) / d, 0, lengths)
        return s


def _spline(array: Any, s: Any, position: Any, slope: Any, lengths: Any) -> tuple[Any, Any]:
    """x(s) and dx/ds of points s [..., q] (cubic Hermite); `array` is numpy or jax.numpy."""
    step = lengths / (KNOTS - 1)
    at = s / step
    k = array.clip(array.floor(at).astype(array.int32), 0, KNOTS - 2)
    t = at - k
    rows = array.arange(len(lengths))
    a, b = position[rows, k], position[rows, k + 1]
    da, db = step * slope[rows, k], step * slope[rows, k + 1]
    c2, c3 = 3 * (b - a) - 2 * da - db, 2 * (a - b) + da + db
    return a + t * (da + t * (c2 + t * c3)), (da + t * (2 * c2 + 3 * t * c3)) / step


def probe(chart: Chart) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """The surface length of a unit of each coordinate, on a coarse grid of n points each.

    Returns G at the grid points inside [k, q, q], the chart volume of one cell, and for every coordinate and grid
    position how many points are inside and the sum of √G_aa over them, [q, n] each.
    """
    q = chart.dim
    n = PROBES.get(q, 8)
    points, cell = grid(chart, n)
    inside = evaluate(chart, "inside", points)
    if not inside.any():
        raise NoSurface(
            f"the domain of the chart is too narrow: none of {n} points along each coordinate is inside its boundary; "
            "loosen the boundary level, or learn fewer dimensions"
        )
    G = evaluate(chart, "metric", points[inside])
    index = np.stack(np.unravel_index(np.flatnonzero(inside), (n,) * q))
    speed = np.sqrt(np.einsum("kaa->ak", G))
    counts = np.stack([np.bincount(i, minlength=n) for i in index])
    return G, cell, counts, np.stack([np.bincount(i, v, minlength=n) for i, v in zip(index, speed, strict=True)])


def straighten(chart: Chart) -> StraightChart:
    """The chart in even coordinates; a periodic coordinate is only scaled."""
    _, _, counts, sums = probe(chart)
    n = counts.shape[1]
    position, slope, lengths = [], [], []
    for a, (low, high) in enumerate(np.asarray(chart.bounds, float)):
        seen = counts[a] > 0
        mean = sums[a, seen] / counts[a, seen]
        middles = low + (high - low) * (np.flatnonzero(seen) + 0.5) / n
        if chart.periodic[a]:
            fit = Chebyshev([np.log(mean.mean())], [low, high])
        else:
            logs = np.log(np.maximum(mean, 1e-3 * mean.max()))
            fit = Chebyshev.fit(middles, logs, min(DEGREE, len(middles) // 4), domain=[low, high])
        fine = np.linspace(low, high, 16 * KNOTS + 1)
        density = np.exp(np.clip(fit(fine), np.log(mean.min()) - 1, np.log(mean.max()) + 1))
        travelled = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(fine))])
        x = np.interp(np.linspace(0, travelled[-1], KNOTS), travelled, fine)
        position.append(x)
        slope.append(1 / np.interp(x, fine, density))
        lengths.append(travelled[-1])
    return StraightChart(chart, np.array(position), np.array(slope), np.array(lengths), tuple(chart.periodic))
