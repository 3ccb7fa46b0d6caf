"""The nearest rows of a large cloud on a GPU, through JAX: candidates and their exact distances (`large_neighbours`).

    d² [Q, N]    square distances of a block of queries to all rows, in float32
    groups       N columns of d² in groups of g: the K smallest numbers of a row are in the K groups with the smallest
                 minima, so that N/g minima and K g numbers are sorted instead of N

Products of float32 numbers have the precision HIGHEST: by default a GPU multiplies them with an accuracy of 10 bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .device import compiled

BLOCK = 2**28  # numbers of d² in memory at once
SECOND = 2**27  # numbers in memory in the second look
MOST = 8192  # queries at once


class DeviceSearch:
    """The K rows of a cloud that are nearest to queries, as float32 has them, with their distances in float64."""

    def __init__(self, points: np.ndarray, middle: np.ndarray, unit: float, K: int) -> None:
        self.n, p, self.K = len(points), points.shape[1], K
        self.group = 2 ** round(np.log2(max(self.n / K, 1)) / 2)
        self.groups = max(-(-self.n // self.group), K)
        most = min(BLOCK // (self.group * self.groups), SECOND // (K * p), MOST)
        self.queries = 2 ** int(np.log2(max(most, 1)))
        with jax.enable_x64(True):
            fill = self.group * self.groups - self.n
            self.points = jnp.pad(jnp.asarray(points), ((0, fill), (0, 0)))
            self.middle, self.unit = jnp.asarray(middle), float(unit)
            self.among, self.squares = _in_float32(self.points, self.middle, self.unit, self.n)

    def __call__(self, queries: np.ndarray, itself: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Square distances, positions and exact distances [n, K] for at most `self.queries` queries [n, p].

        `itself` [n] are their own positions, which are left out.
        """
        n = len(queries)
        q = np.zeros((self.queries, queries.shape[1]))
        q[:n] = queries
        not_to = np.full(self.queries, len(self.squares))  # out of bounds: nothing is left out
        if itself is not None:
            not_to[:n] = itself
        with jax.enable_x64(True):
            nearest = _search(
                self.points, self.among, self.squares, q, not_to, self.middle, self.unit, self.group, self.K
            )
            square, index, exact = (np.asarray(one)[:n] for one in nearest)
        return square, index, exact


@partial(compiled, static_argnames="n")
def _in_float32(points: jax.Array, middle: jax.Array, unit: Any, n: int) -> tuple[jax.Array, jax.Array]:
    """Rows in units, and their square norms; infinite for the rows after n, which fill the last group."""
    among = ((points - middle) / unit).astype(jnp.float32)
    return among, jnp.where(jnp.arange(len(points)) < n, jnp.sum(among**2, 1), jnp.inf)


@partial(compiled, static_argnames=("group", "K"))
def _search(
    points: jax.Array, among: jax.Array, squares: jax.Array, q: jax.Array, itself: jax.Array, middle: jax.Array,
    unit: Any, group: int, K: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:  # fmt: skip
    x = ((q - middle) / unit).astype(jnp.float32)
    d = jnp.sum(x**2, 1)[:, None] + squares - 2 * jnp.matmul(x, among.T, precision=lax.Precision.HIGHEST)
    d = d.at[jnp.arange(len(q)), itself].set(jnp.inf, mode="drop").reshape(len(q), -1, group)
    _, groups = lax.top_k(-d.min(2), K)
    in_groups = jnp.take_along_axis(d, groups[:, :, None], 1).reshape(len(q), -1)
    square, slot = lax.top_k(-in_groups, K)
    index = jnp.take_along_axis(groups, slot // group, 1) * group + slot % group
    exact = jnp.sqrt(jnp.sum((points[index] - q[:, None]) ** 2, 2))
    return -square, index, exact
