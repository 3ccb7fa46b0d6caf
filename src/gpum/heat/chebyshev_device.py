"""Products with a large sparse matrix on a GPU, through JAX: what `chebyshev` needs, with the same names.

    A [N, N]     sparse and symmetric; some rows have many more entries than others
    order [N]    rows of A sorted by their number of entries
    bands        groups of rows in this order whose numbers of entries are at most WIDTH, 2 WIDTH, 4 WIDTH and so on:
                 columns and entries are arrays [rows of the band, width of the band], filled up with zeros

A product gathers the rows of V that a band needs and adds them. The order of the additions is fixed, so that a product
is the same each time. Blocks V [N, m] have their rows in `order` and stay on the GPU; matrices [m, m] are NumPy arrays.
Everything here runs `in_double_precision`: blocks are in float32, their inner products in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.sparse import csr_matrix

from ..basics.device import compiled
from ..persistence.programs import cached_programs

WIDTH = 16  # entries of a row in the first band
EXACT = lax.Precision.HIGHEST  # by default a GPU multiplies float32 numbers with the accuracy of 10 bits

Bands = Sequence[tuple[jax.Array, jax.Array]]


@contextmanager
def in_double_precision() -> Iterator[None]:
    """The scope in which blocks live."""
    with jax.enable_x64(True), cached_programs():
        yield


class DeviceProducts:
    """Products of A, and of blocks V [N, m] in float32, on the device that JAX uses."""

    def __init__(self, A: csr_matrix) -> None:
        self.order = np.argsort(np.diff(A.indptr), kind="stable")
        self.back = np.argsort(self.order)
        self.bands = [tuple(map(jnp.asarray, band)) for band in _bands(A[self.order][:, self.order].tocsr())]

    def block(self, V: np.ndarray) -> jax.Array:
        """A block of an array [N, m]."""
        return jnp.asarray(V[self.order])

    def array(self, V: jax.Array) -> np.ndarray:
        """The array of a block."""
        return np.asarray(V)[self.back]

    def with_columns(self, V: jax.Array, which: np.ndarray, columns: np.ndarray) -> jax.Array:
        """V with other columns at some positions."""
        return V.at[:, which].set(columns[self.order])

    def filtered(self, V: jax.Array, degree: int, cut: float) -> jax.Array:
        """T_d(s(A)) V, each column divided by its norm."""
        return _filtered(self.bands, V, degree, np.float32((cut + 1) / 2), np.float32((cut - 1) / 2))

    def product(self, V: jax.Array) -> jax.Array:
        """A V."""
        return _product(self.bands, V)

    def inner(self, a: jax.Array, b: jax.Array) -> np.ndarray:
        """aᵀb [m, m] in float64."""
        return np.asarray(_inner(a, b))

    def times(self, V: jax.Array, turned: np.ndarray) -> jax.Array:
        """V times a small matrix [m, m]."""
        return _times(V, turned)

    def squares(self, V: jax.Array) -> np.ndarray:
        """The sum of squares of each column, [m], in float64."""
        return np.asarray(jnp.sum(V.astype(float) ** 2, 0))


def _bands(A: csr_matrix) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns and entries of each band of A, whose rows are sorted by their number of entries."""
    counts, begin, width = np.diff(A.indptr), 0, WIDTH
    while begin < len(counts):
        end = int(np.searchsorted(counts, width, side="right"))
        if end > begin:
            columns, entries = np.zeros((end - begin, width), np.int32), np.zeros((end - begin, width), np.float32)
            here = slice(A.indptr[begin], A.indptr[end])
            row = np.repeat(np.arange(end - begin), counts[begin:end])
            slot = np.arange(here.stop - here.start) - np.repeat(A.indptr[begin:end] - here.start, counts[begin:end])
            columns[row, slot], entries[row, slot] = A.indices[here], A.data[here]
            yield columns, entries
        begin, width = end, 2 * width


@partial(compiled, options=None)
def _product(bands: Bands, V: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.sum(entries[:, :, None] * V[columns], 1) for columns, entries in bands])


@compiled
def _filtered(bands: Bands, V: jax.Array, degree: Any, half: Any, middle: Any) -> jax.Array:
    def step(_: Any, blocks: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        before, now = blocks
        return now, (_product(bands, now) - middle * now) * (2 / half) - before

    first = (_product(bands, V) - middle * V) / half
    now = lax.fori_loop(1, degree, step, (V, first))[1]
    return now / jnp.sqrt(jnp.sum(now.astype(float) ** 2, 0)).astype(V.dtype)


@compiled
def _inner(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a.T.astype(float), b.astype(float), precision=EXACT)


@compiled
def _times(V: jax.Array, turned: jax.Array) -> jax.Array:
    return jnp.matmul(V, turned, precision=EXACT)
