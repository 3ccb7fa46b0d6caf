"""Gaussian process regression that sees all labels at once: the eigendecomposition of their Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..heat.covariances import Covariance


@dataclass(frozen=True)
class Decomposed:
    """K = U S Uᵀ on the labels and y in that basis.

    Where label i has noise σ² d_i of its own, this is the decomposition of D^-½ K D^-½ and D^-½ y, and `U` is D^-½ U,
    so that the formulas of predictions are the same. `precision` is 1/d.
    """

    U: np.ndarray  # [n, k]
    S: np.ndarray
    z: np.ndarray
    rest: float  # |y|² outside the span of U
    precision: np.ndarray | float = 1.0  # [n]

    def quadratic(self, r: float | np.ndarray) -> np.ndarray:
        """Q for each ratio."""
        r = np.atleast_1d(r)
        return (self.z**2) @ (1 / (self.S[:, None] + r)) + self.rest / r

    def log_det(self, r: float | np.ndarray) -> np.ndarray:
        """log|K + rI| for each ratio."""
        r = np.atleast_1d(r)
        return np.log(self.S[:, None] + r).sum(0) + (len(self.U) - len(self.S)) * np.log(r)

    def of(self, y: np.ndarray) -> Decomposed:
        """The same K with other labels y [n]."""
        z = self.U.T @ y
        rest = max(float(np.sum(self.precision * y**2) - z @ z), 0.0) if len(self.S) < len(y) else 0.0
        return replace(self, z=z, rest=rest)


def decompose(covariance: Covariance, a: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> Decomposed:
    """Eigenvalues of the Gram matrix on labels a, from n × n or, where that is smaller, k × k.

    With `noise` d [n] those of D^-½ K D^-½.
    """
    root = np.ones(len(a)) if noise is None else 1 / np.sqrt(noise)
    F = covariance.factor(a)
    if F is not None and F.shape[1] < len(a):
        F = F * root[:, None]
        S, V = np.linalg.eigh(F.T @ F)  # which, unlike SciPy's, lets other threads run
        keep = 1e-12 * max(S[-1], 1e-300) < S
        S = S[keep]
        U = F @ (V[:, keep] / np.sqrt(S))
    else:
        K = covariance.gram(a, a) if F is None else F @ F.T
        S, U = np.linalg.eigh(root[:, None] * K * root)
        S = np.maximum(S, 0.0)
    return Decomposed(root[:, None] * U, S, np.zeros(len(S)), 0.0, root**2).of(y)


def inverse_parts(d: Any, r: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
    """The diagonal of C⁻¹ = U (S + r)⁻¹ Uᵀ + (D⁻¹ - UUᵀ)/r, and C⁻¹v for vectors v: [n, J] each, for J ratios."""
    inverse = 1 / (d.S[:, None] + r)
    found = [d.U**2 @ inverse, *(d.U @ ((d.U.T @ v)[:, None] * inverse) for v in vectors)]
    if len(d.S) < len(d.U):
        outside = [np.maximum(d.precision - np.sum(d.U**2, 1), 0.0)]
        outside += [d.precision * v - d.U @ (d.U.T @ v) for v in vectors]
        found = [f + o[:, None] / r for f, o in zip(found, outside, strict=True)]
    return found
