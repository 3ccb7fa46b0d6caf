"""The largest eigenpairs of a large sparse symmetric matrix, by products with it alone.

    A [N, N]     spectrum within [-1, 1], as that of a normalised graph; its largest eigenpairs A u = α u
    V [N, m]     an orthonormal block, m = k + SPARE columns, float32
    cut          the smallest Ritz value of V: all that is below is damped
    T_d(s(A)) V  Chebyshev polynomial of degree d; s maps [-1, cut] to [-1, 1], where |T_d| ≤ 1; above it grows fastest
    residual     |A u - α u| for each pair, relative to 1 - α + FLOOR

Subspace iteration with this filter (Zhou, Saad, Tiago and Chelikowsky 2006): filter, orthonormalise, Rayleigh-Ritz,
until all residuals are below RESIDUAL or ROUNDS have passed. Products are in float32, inner products in blocks of rows
that are added in float64 in a fixed order: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix

from ..basics.workers import results

SPARE = 32  # columns beside the requested ones: the last pairs of a block converge slowly
DEGREES = (8, 16, 32, 32)  # of the filter in the first rounds; afterwards the last
ROUNDS = 8
RESIDUAL = 0.01  # of 1 - α: an eigenvalue is then exact to 1e-4 of itself over its relative gap
FLOOR = 1e-3  # rounding in float32 is below RESIDUAL of this
COLUMNS = 48  # columns of a product in one task
ROWS = 8192  # rows of an inner product in one task
FIRST_CUT = 0.0


@dataclass(frozen=True)
class Largest:
    """α [k], descending, orthonormal u [N, k] in float32, and the residual of each pair [k]."""

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray

    @property
    def residual(self) -> float:
        """The largest residual; all pairs are reached where it is at most RESIDUAL."""
        return float(self.residuals.max())


def largest(A: csr_matrix, k: int, n_jobs: int | None = -1) -> Largest:
    """The k largest eigenpairs of A, whose spectrum lies within [-1, 1]."""
    A = A.astype(np.float32)
    m = min(k + SPARE, A.shape[0])
    V = np.random.default_rng(0).standard_normal((A.shape[0], m), np.float32)
    V = _orthonormal(V, n_jobs)
    cut = FIRST_CUT
    for turn in range(ROUNDS):
        V = _filtered(A, V, DEGREES[min(turn, len(DEGREES) - 1)], cut, n_jobs)
        V = _orthonormal(V, n_jobs)
        AV = _product(A, V, n_jobs)
        H = _inner(V, AV, n_jobs)
        values, turned = eigh(0.5 * (H + H.T))
        values, turned = values[::-1], turned[:, ::-1].astype(np.float32)
        V, AV = _times(V, turned, n_jobs), _times(AV, turned, n_jobs)
        AV -= V * values.astype(np.float32)
        residuals = np.sqrt(_column_squares(AV)) / (np.maximum(1 - values, 0.0) + FLOOR)
        if np.all(residuals[:k] <= RESIDUAL):
            break
        cut = min(max(float(values[-1]), FIRST_CUT), 1 - 1e-6)
    return Largest(values[:k], np.ascontiguousarray(V[:, :k]), residuals[:k])


def _filtered(A: csr_matrix, V: np.ndarray, degree: int, cut: float, n_jobs: int | None) -> np.ndarray:
    """T_d(s(A)) V, each column divided by its norm, in tasks of COLUMNS columns."""
    half, middle = np.float32((cut + 1) / 2), np.float32((cut - 1) / 2)

    def columns(v: np.ndarray) -> np.ndarray:
        before, now = v, (A @ v - middle * v) / half
        for _ in range(degree - 1):
            after = A @ now
            after -= middle * now
            after *= 2 / half
            after -= before
            before, now = now, after
        return now / np.sqrt(_column_squares(now)).astype(np.float32)

    return _by_columns(columns, V, n_jobs)


def _product(A: csr_matrix, V: np.ndarray, n_jobs: int | None) -> np.ndarray:
    return _by_columns(lambda v: A @ v, V, n_jobs)


def _by_columns(task: Callable[[np.ndarray], np.ndarray], V: np.ndarray, n_jobs: int | None) -> np.ndarray:
    begins = range(0, V.shape[1], COLUMNS)
    tasks = [partial(task, np.ascontiguousarray(V[:, k : k + COLUMNS])) for k in begins]
    return np.concatenate(list(results(tasks, n_jobs)), 1)


def _inner(a: np.ndarray, b: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """aᵀb [m, m] in float64."""
    tasks = [partial(_product_of_rows, a[k : k + ROWS], b[k : k + ROWS]) for k in range(0, len(a), ROWS)]
    return np.sum(list(results(tasks, n_jobs)), axis=0)


def _product_of_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.T.astype(float) @ b.astype(float)


def _times(V: np.ndarray, turned: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """V turned, in blocks of rows."""
    tasks = [partial(np.matmul, V[k : k + ROWS], turned) for k in range(0, len(V), ROWS)]
    return np.concatenate(list(results(tasks, n_jobs)))


def _column_squares(V: np.ndarray) -> np.ndarray:
    return np.einsum("nk,nk->k", V, V, dtype=float)


def _orthonormal(V: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """An orthonormal basis of the columns of V; twice, since rounding leaves the first one inexact.

    Directions of a size below rounding are replaced by random ones, which the next round filters.
    """
    for _ in range(2):
        w, U = eigh(_inner(V, V, n_jobs))
        lost = w < 1e-12 * w[-1]
        V = _times(V, (U / np.sqrt(np.maximum(w, 1e-12 * w[-1]))).astype(np.float32), n_jobs)
        if lost.any():
            rng = np.random.default_rng(1)
            V[:, lost] = rng.standard_normal((len(V), int(lost.sum())), np.float32) / np.float32(np.sqrt(len(V)))
    return V
