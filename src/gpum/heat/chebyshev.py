"""The largest eigenpairs of a large sparse symmetric matrix, by products with it alone.

    A [N, N]     spectrum within [-1, 1], as that of a normalised graph; its largest eigenpairs A u = α u
    V [N, m]     an orthonormal block, m = k + SPARE columns, float32
    cut          the smallest Ritz value of V: all that is below is damped
    T_d(s(A)) V  Chebyshev polynomial of degree d; s maps [-1, cut] to [-1, 1], where |T_d| ≤ 1; above it grows fastest
    residual     |A u - α u| for each pair, relative to 1 - α + FLOOR

Subspace iteration with this filter (Zhou, Saad, Tiago and Chelikowsky 2006): filter, orthonormalise, Rayleigh-Ritz,
until all residuals are below RESIDUAL or ROUNDS have passed. Products are in float32, inner products in blocks of rows
that are added in float64 in a fixed order: the result does not depend on the number of threads. The eigenvectors of a
similar matrix, such as that of the same rows with another number of neighbours, are a good first block.

`Products` has the products with blocks of N rows, in NumPy; `chebyshev_device` has the same on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix

from ..basics.device import accelerated
from ..basics.workers import results

SPARE = 32  # columns beside the requested ones: the last pairs of a block converge slowly
DEGREES: tuple[int, ...] = (8, 16, 32)  # of the filter in the first rounds; afterwards the last
GIVEN = 16  # the same from a given first block; a larger one makes its columns, mixed from many eigenvectors, parallel
ROUNDS = 8
RESIDUAL = 0.01  # of 1 - α: an eigenvalue is then exact to 1e-4 of itself over its relative gap
FLOOR = 1e-3  # rounding in float32 is below RESIDUAL of this
COLUMNS = 48  # columns of a product in one task
ROWS = 8192  # rows of an inner product in one task
DEVICE = 20_000  # rows up to which a GPU is not used: to compile its programs takes longer


@dataclass(frozen=True)
class Largest:
    """α [k], descending, orthonormal u [N, k] in float32, the residual of each pair [k], the last block V [N, m]."""

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    block: np.ndarray

    @property
    def residual(self) -> float:
        """The largest residual; all pairs are reached where it is at most RESIDUAL."""
        return float(self.residuals.max())


def largest(
    A: csr_matrix, k: int, n_jobs: int | None = -1, first: np.ndarray | None = None, device: bool | None = None
) -> Largest:
    """The k largest eigenpairs of A, whose spectrum lies within [-1, 1].

    `first` [N, m] is the block that the iteration begins with: the last one of a similar matrix.
    Matrices of more than DEVICE rows are sent to a GPU if JAX has one, unless `device` says otherwise; eigenpairs agree
    up to their residuals.
    """
    if A.shape[0] > DEVICE and accelerated() if device is None else device:
        from .chebyshev_device import DeviceProducts, in_double_precision

        with in_double_precision():
            return _largest(DeviceProducts(A.astype(np.float32)), A.shape[0], k, first)
    return _largest(Products(A.astype(np.float32), n_jobs), A.shape[0], k, first)


def _largest(products: Any, N: int, k: int, first: np.ndarray | None) -> Largest:
    block = np.random.default_rng(0).standard_normal((N, min(k + SPARE, N)), np.float32) if first is None else first
    V, cut, degrees = _orthonormal(products, products.block(block)), 0.0, DEGREES
    if first is not None:
        cut, degrees = _cut(eigh(products.inner(V, products.product(V)), eigvals_only=True)[0]), (GIVEN,)
    for turn in range(ROUNDS):
        V = products.filtered(V, degrees[min(turn, len(degrees) - 1)], cut)
        V = _orthonormal(products, V)
        AV = products.product(V)
        H = products.inner(V, AV)
        values, turned = eigh(0.5 * (H + H.T))
        values, turned = values[::-1], turned[:, ::-1].astype(np.float32)
        V, AV = products.times(V, turned), products.times(AV, turned)
        AV = AV - V * values.astype(np.float32)
        residuals = np.sqrt(products.squares(AV)) / (np.maximum(1 - values, 0.0) + FLOOR)
        if np.all(residuals[:k] <= RESIDUAL):
            break
        cut = _cut(values[-1])
    block = products.array(V)
    return Largest(values[:k], np.ascontiguousarray(block[:, :k]), residuals[:k], block)


def _cut(smallest: float) -> float:
    """The cut above which eigenvalues are searched for, from the smallest Ritz value."""
    return min(max(float(smallest), 0.0), 1 - 1e-6)


def _orthonormal(products: Any, V: Any) -> Any:
    """An orthonormal basis of the columns of V; twice, since rounding leaves the first one inexact.

    Directions of a size below rounding are replaced by random ones, which the next round filters.
    """
    for _ in range(2):
        w, U = eigh(products.inner(V, V))
        lost = w < 1e-12 * w[-1]
        V = products.times(V, (U / np.sqrt(np.maximum(w, 1e-12 * w[-1]))).astype(np.float32))
        if lost.any():
            N, n = len(V), int(lost.sum())
            random = np.random.default_rng(1).standard_normal((N, n), np.float32) / np.float32(np.sqrt(N))
            V = products.with_columns(V, np.flatnonzero(lost), random)
    return V


class Products:
    """Products of A, and of blocks V [N, m] in float32, in tasks that run in threads."""

    def __init__(self, A: csr_matrix, n_jobs: int | None) -> None:
        self.A, self.n_jobs = A, n_jobs

    def block(self, V: np.ndarray) -> np.ndarray:
        """A block of an array [N, m]."""
        return V

    def array(self, V: np.ndarray) -> np.ndarray:
        """The array of a block."""
        return V

    def with_columns(self, V: np.ndarray, which: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """V with other columns at some positions."""
        V[:, which] = columns
        return V

    def filtered(self, V: np.ndarray, degree: int, cut: float) -> np.ndarray:
        """T_d(s(A)) V, each column divided by its norm, in tasks of COLUMNS columns."""
        A, half, middle = self.A, np.float32((cut + 1) / 2), np.float32((cut - 1) / 2)

        def columns(v: np.ndarray) -> np.ndarray:
            before, now = v, (A @ v - middle * v) / half
            for _ in range(degree - 1):
                after = A @ now
                after -= middle * now
                after *= 2 / half
                after -= before
                before, now = now, after
            return now / np.sqrt(self.squares(now)).astype(np.float32)

        return self._by_columns(columns, V)

    def product(self, V: np.ndarray) -> np.ndarray:
        """A V."""
        return self._by_columns(lambda v: self.A @ v, V)

    def _by_columns(self, task: Callable[[np.ndarray], np.ndarray], V: np.ndarray) -> np.ndarray:
        begins = range(0, V.shape[1], COLUMNS)
        tasks = [partial(task, np.ascontiguousarray(V[:, k : k + COLUMNS])) for k in begins]
        return np.concatenate(list(results(tasks, self.n_jobs, here=True)), 1)

    def inner(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """aᵀb [m, m] in float64."""
        tasks = [partial(_product_of_rows, a[k : k + ROWS], b[k : k + ROWS]) for k in range(0, len(a), ROWS)]
        return np.sum(list(results(tasks, self.n_jobs, here=True)), axis=0)

    def times(self, V: np.ndarray, turned: np.ndarray) -> np.ndarray:
        """V times a small matrix [m, m], in blocks of rows."""
        tasks = [partial(np.matmul, V[k : k + ROWS], turned) for k in range(0, len(V), ROWS)]
        return np.concatenate(list(results(tasks, self.n_jobs, here=True)))

    def squares(self, V: np.ndarray) -> np.ndarray:
        """The sum of squares of each column, [m], in float64."""
        return np.einsum("nk,nk->k", V, V, dtype=float)


def _product_of_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.T.astype(float) @ b.astype(float)
