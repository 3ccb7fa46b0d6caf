"""Gaussian process regression that sees all labels at once: the eigendecomposition of their Gram matrix.

Of a kernel with k features and n labels, k < n, it takes k × k numbers whatever n is (`Sums`, `LowRank`):

    A = [1, a]      of the labelled points a [n, k];   P = D⁻¹, the precision of each label
    F = S A W       the features of one kernel: W weighs those of the space, S bounds a few rows (`heat.covariances`)

AᵀPA, AᵀPy and yᵀPy are computed once for a space. FᵀPF = W AᵀPA W, but for the rows that S changes, and so each kernel
on the space costs a decomposition of k × k numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpttrf, dsytrd

from ..heat.covariances import Covariance, Weighted

LEAST = 1e-12  # eigenvalues below so much of the largest are rounding
AT_ONCE = 2**22  # numbers of the features of a block of labels


class OfEigenvalues:
    """What the evidence needs of a kernel: K = U S Uᵀ on n labels, and z = Uᵀy."""

    S: np.ndarray
    z: np.ndarray
    rest: float  # |y|² outside the span of U
    precision: np.ndarray | float

    @property
    def n(self) -> int:
        """The number of labels."""
        raise NotImplementedError

    def quadratic(self, r: float | np.ndarray) -> np.ndarray:
        """Q for each ratio."""
        r = np.atleast_1d(r)
        return (self.z**2) @ (1 / (self.S[:, None] + r)) + self.rest / r

    def log_det(self, r: float | np.ndarray) -> np.ndarray:
        """log|K + rI| for each ratio."""
        r = np.atleast_1d(r)
        return np.log(self.S[:, None] + r).sum(0) + (self.n - len(self.S)) * np.log(r)


@dataclass(frozen=True)
class Decomposed(OfEigenvalues):
    """What predictions need of a kernel: K = U S Uᵀ on the labels, and y in that basis.

    Where label i has noise σ² d_i of its own, this is the decomposition of D^-½ K D^-½ and D^-½ y, and `U` is D^-½ U,
    so that the formulas of predictions are the same. `precision` is 1/d.
    """

    U: np.ndarray  # [n, k]
    S: np.ndarray
    z: np.ndarray
    rest: float
    precision: np.ndarray | float = 1.0  # [n]

    @property
    def n(self) -> int:
        """The number of labels."""
        return len(self.U)

    def times(self, covariance: Covariance, a: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """K(a, labels) U."""
        return covariance.times(a, labels, self.U)

    def at(self, covariance: Covariance, labels: np.ndarray, index: Any = slice(None)) -> Decomposed:
        """The rows of U of the labels with this index."""
        return replace(self, U=self.U[index], precision=np.broadcast_to(self.precision, self.n)[index])

    def of(self, y: np.ndarray) -> Decomposed:
        """The same K with other labels y [n]."""
        z = self.U.T @ y
        rest = max(float(np.sum(self.precision * y**2) - z @ z), 0.0) if len(self.S) < len(y) else 0.0
        return replace(self, z=z, rest=rest)


@dataclass(frozen=True)
class LowRank(OfEigenvalues):
    """What they need of a kernel with fewer features F than labels: no matrix has a row for each label.

    `along` [1 + k, r] is F(labels)ᵀ U, so that K(x, labels) U = F(x) along.
    """

    along: np.ndarray
    S: np.ndarray
    z: np.ndarray
    rest: float
    count: int
    precision: np.ndarray | float = 1.0

    @property
    def n(self) -> int:
        """The number of labels."""
        return self.count

    def times(self, covariance: Covariance, a: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """K(a, labels) U."""
        return _factor(covariance, a) @ self.along

    def at(self, covariance: Covariance, labels: np.ndarray, index: Any = slice(None)) -> Decomposed:
        """The rows of U of labels that lie at `labels` and have this index among all."""
        precision = np.broadcast_to(np.asarray(self.precision, float), self.count)[index]
        U = precision[:, None] * (_factor(covariance, labels) @ (self.along / self.S))
        return Decomposed(U, self.S, self.z, self.rest, precision)


@dataclass(frozen=True, eq=False)
class Sums:
    """What labels y [n] at points a [n, k] say to every kernel with these features: AᵀPA, AᵀPy and yᵀPy."""

    a: np.ndarray
    y: np.ndarray
    precision: np.ndarray  # [n]
    product: np.ndarray  # [1 + k, 1 + k]
    along_y: np.ndarray  # [1 + k]
    square: float

    @classmethod
    def of(cls, a: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> Sums:
        """A pass over the labels; `noise` is d [n]."""
        n, k = a.shape
        precision = np.ones(n) if noise is None else 1 / noise
        product, along_y = np.zeros((k + 1, k + 1)), np.zeros(k + 1)
        step = max(1, AT_ONCE // (k + 1))
        for block in (slice(i, i + step) for i in range(0, n, step)):
            A = np.ones((len(a[block]), k + 1))
            A[:, 1:] = a[block]
            PA = A if noise is None else precision[block, None] * A
            product += A.T @ PA
            along_y += PA.T @ y[block]
        return cls(a, y, precision, product, along_y, float(np.sum(precision * y**2)))

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.square(self.a, dtype=float)

    def of_kernel(self, covariance: Weighted) -> tuple[np.ndarray, np.ndarray]:
        """FᵀPF [1 + k, 1 + k] and FᵀPy [1 + k]."""
        columns, roots = covariance.roots(self.a.shape[1])
        used, scale = np.append(0, columns + 1), np.append(1.0, roots)
        M = scale[:, None] * self.product[np.ix_(used, used)] * scale
        h = scale * self.along_y[used]
        rows = np.zeros(0, int)
        if np.isfinite(covariance.bound):
            rows = np.flatnonzero(self._squares @ covariance.weights > covariance.bound)
        if len(rows):
            F, P = _factor(covariance, self.a[rows]), self.precision[rows]
            free = np.ones_like(F)
            free[:, 1:] = self.a[rows][:, columns] * roots
            M += F.T @ (P[:, None] * F) - free.T @ (P[:, None] * free)
            h += (F - free).T @ (P * self.y[rows])
        return M, h

    def forms(self, covariance: Weighted, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q and log|K + rI| for each of the ratios, as `decompose` gives them, in a third of its time."""
        M, h = self.of_kernel(covariance)
        solved = tridiagonal_forms(M, h, ratios)
        if solved is None:
            d = self.decompose(covariance)
            return d.quadratic(ratios), d.log_det(ratios)
        explained, log_det = solved
        return np.maximum(self.square - explained, 0.0) / ratios, log_det + (len(self.y) - len(M)) * np.log(ratios)

    def decompose(self, covariance: Weighted) -> LowRank:
        """The decomposition of the kernel on all labels."""
        M, h = self.of_kernel(covariance)
        S, V = np.linalg.eigh(M)
        large = LEAST * max(S[-1], 1e-300) < S
        S, V = S[large], V[:, large]
        z = (V.T @ h) / np.sqrt(S)
        rest = max(self.square - float(z @ z), 0.0)
        precision = 1.0 if np.all(self.precision == 1) else self.precision
        return LowRank(V * np.sqrt(S), S, z, rest, len(self.y), precision)


def decompose(covariance: Covariance, a: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> Decomposed:
    """Eigenvalues of the Gram matrix on labels a, from n × n or, where that is smaller, k × k.

    With `noise` d [n] those of D^-½ K D^-½.
    """
    root = np.ones(len(a)) if noise is None else 1 / np.sqrt(noise)
    F = covariance.factor(a)
    if F is not None and F.shape[1] < len(a):
        F = F * root[:, None]
        S, V = np.linalg.eigh(F.T @ F)  # which, unlike SciPy's, lets other threads run
        keep = LEAST * max(S[-1], 1e-300) < S
        S = S[keep]
        U = F @ (V[:, keep] / np.sqrt(S))
    else:
        K = covariance.gram(a, a) if F is None else F @ F.T
        S, U = np.linalg.eigh(root[:, None] * K * root)
        S = np.maximum(S, 0.0)
    return Decomposed(root[:, None] * U, S, np.zeros(len(S)), 0.0, root**2).of(y)


def inverse_parts(d: Decomposed, r: np.ndarray, n: int, *vectors: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """The diagonal of C⁻¹ = U (S + r)⁻¹ Uᵀ + (D⁻¹ - UUᵀ)/r, and C⁻¹v for vectors v, at labels: [m, J] for J ratios.

    `d` has the rows of U of m of all n labels. Each vector is given by its numbers there [m], and Uᵀv over all labels.
    """
    inverse = 1 / (d.S[:, None] + r)
    parts = [d.U**2 @ inverse, *(d.U @ (z[:, None] * inverse) for _, z in vectors)]
    if len(d.S) < n:
        outside = [np.maximum(d.precision - np.sum(d.U**2, 1), 0.0)]
        outside += [d.precision * v - d.U @ z for v, z in vectors]
        parts = [f + o[:, None] / r for f, o in zip(parts, outside, strict=True)]
    return parts


def _factor(covariance: Covariance, a: np.ndarray) -> np.ndarray:
    F = covariance.factor(a)
    assert F is not None, "a kernel without features has no low rank"
    return F


def tridiagonal_forms(K: np.ndarray, y: np.ndarray, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """yᵀ(K + rI)⁻¹y and log|K + rI| for ratios r [J], [J] each, in a fifth of the time of the eigenvectors of K [n, n].

    Householder reflections of

        [ 0  yᵀ ]         [ 0    βe₁ᵀ ]
        [ y  K  ]   to    [ βe₁  T    ]        β = ±|y|,  e₁ the first unit vector

    leave the first row in place, so that T = QᵀKQ is tridiagonal with Qᵀy = βe₁, and

        yᵀ(K + rI)⁻¹y = β² [(T + rI)⁻¹]₁₁,    log|K + rI| = log|T + rI|

    Elimination of T + rI from its last row to its first has the pivots δ_n … δ_1: the first of these is β²/δ_1, the
    second Σ log δ_i. None where rounding makes K + rI, K positive semi-definite, indefinite.
    """
    n = len(y)
    bordered = np.zeros((n + 1, n + 1), order="F")
    bordered[1:, 0], bordered[1:, 1:] = y, K
    _, diagonal, beside, _, info = dsytrd(bordered, lower=1, overwrite_a=1)
    pivots, edges = diagonal[:0:-1] + ratios[:, None], beside[:0:-1]
    for row in pivots:
        row[:], _, failed = dpttrf(row, edges)
        if info or failed:
            return None
    return beside[0] ** 2 / pivots[:, -1], np.log(pivots).sum(1)
