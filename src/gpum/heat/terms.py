"""Kernels made of several terms: one on a surface, others on columns that the surface does not have.

A point is its representation on the surface and, behind it, the values of c columns. A *term* is a kernel of mean
variance 1:

    OfSurface   κ(x, x'), the kernel on the surface without its constant
    OfColumns   κ(|t - t'|/ℓ) of some columns t
    PeriodicOf  exp(-2 sin²(π(t - t')/p)/ℓ²) of one column
    LinearOf    Σ_j (t_j - m_j)(t'_j - m_j)/s_j²: a linear trend, whose coefficients have a normal prior
    SumOf       Σ_i v_i k_i with Σ_i v_i = 1
    ProductOf   Π_i k_i

and `Combined` is 1 + such a term. A term that is linear in features, k(x, x') = F(x) F(x')ᵀ, has `features`, so that a
sum of such terms needs no n × n numbers; the others have None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from .covariances import Covariance, distances, stationary

MOST_FEATURES = 1000  # of a product
STEP = 1e-4  # of log scale, in the difference quotient of `Combined.slope`


class Term(ABC):
    """A kernel of points whose columns are `a` [n, c], given the kernel on the surface."""

    @abstractmethod
    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """k [n, m]; `surface` [n, m] is that of the surface."""

    def diag(self, surface: np.ndarray, a: np.ndarray) -> np.ndarray:
        """k(x, x) [n]; `surface` [n] is that of the surface."""
        return np.ones(len(a))

    def features(self, surface: np.ndarray | None, a: np.ndarray) -> np.ndarray | None:
        """F [n, k], `surface` being those of the surface; None where the term is not linear in features."""
        return None


@dataclass(frozen=True)
class OfSurface(Term):
    """The kernel on the surface."""

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return surface

    def diag(self, surface: np.ndarray, a: np.ndarray) -> np.ndarray:
        return surface

    def features(self, surface: np.ndarray | None, a: np.ndarray) -> np.ndarray | None:
        return surface


@dataclass(frozen=True)
class OfColumns(Term):
    """A heat or Matérn kernel of some columns, `at` these positions, with one length scale."""

    at: tuple[int, ...]
    nu: float
    scale: float

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return stationary(self.nu, distances(a[:, self.at], b[:, self.at]) / self.scale)


@dataclass(frozen=True)
class PeriodicOf(Term):
    """A periodic kernel of the column `at` this position; its length scale is relative to period/2π, for short ones."""

    at: int
    period: float
    scale: float

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        turn = np.pi * (a[:, self.at, None] - b[:, self.at]) / self.period
        return np.exp(-2 * (np.sin(turn) / self.scale) ** 2)


@dataclass(frozen=True)
class LinearOf(Term):
    """A linear trend along the columns `at` these positions, of which the cloud has these middles and spreads."""

    at: tuple[int, ...]
    middle: np.ndarray
    spread: np.ndarray

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.features(None, a) @ self.features(None, b).T

    def diag(self, surface: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.sum(self.features(None, a) ** 2, 1)

    def features(self, surface: np.ndarray | None, a: np.ndarray) -> np.ndarray:
        return (a[:, self.at] - self.middle) / self.spread


@dataclass(frozen=True)
class SumOf(Term):
    """A sum of terms, of which each has a share of the variance."""

    terms: tuple[Term, ...]
    shares: tuple[float, ...]

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return sum(v * term.gram(surface, a, b) for v, term in zip(self.shares, self.terms, strict=True))  # type: ignore[return-value]

    def diag(self, surface: np.ndarray, a: np.ndarray) -> np.ndarray:
        return sum(v * term.diag(surface, a) for v, term in zip(self.shares, self.terms, strict=True))  # type: ignore[return-value]

    def features(self, surface: np.ndarray | None, a: np.ndarray) -> np.ndarray | None:
        features = []
        for v, term in zip(self.shares, self.terms, strict=True):
            F = term.features(surface, a)
            if F is None:
                return None
            features.append(np.sqrt(v) * F)
        return np.concatenate(features, 1)


@dataclass(frozen=True)
class ProductOf(Term):
    """A product of terms."""

    terms: tuple[Term, ...]

    def gram(self, surface: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        K = self.terms[0].gram(surface, a, b)
        for term in self.terms[1:]:
            K = K * term.gram(surface, a, b)
        return K

    def diag(self, surface: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.prod([term.diag(surface, a) for term in self.terms], axis=0)

    def features(self, surface: np.ndarray | None, a: np.ndarray) -> np.ndarray | None:
        """All products of a feature of each term."""
        products = np.ones((len(a), 1))
        for term in self.terms:
            F = term.features(surface, a)
            if F is None or products.shape[1] * F.shape[1] > MOST_FEATURES:
                return None
            products = (products[:, :, None] * F[:, None]).reshape(len(a), -1)
        return products


@dataclass(frozen=True)
class Combined(Covariance):
    """1 + a term, of points whose last `columns` numbers are those of columns; `inner` is the kernel on the surface.

    A function of columns alone is constant on the surface: κ has the constant functions that kernels of eigenfunctions
    leave out where they stand alone.
    """

    inner: Covariance
    term: Term
    columns: int

    @property
    def scale(self) -> float:  # type: ignore[override]
        """The scale of the kernel on the surface."""
        return self.inner.scale

    @property
    def prior(self) -> float:  # type: ignore[override]
        """Its variance at a point far from the cloud."""
        return self.inner.prior

    def at(self, scale: float) -> Combined:
        """The same with another scale on the surface."""
        return replace(self, inner=self.inner.at(scale))

    def _split(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return a[:, : -self.columns], a[:, -self.columns :]

    def gram(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (x, s), (y, t) = self._split(a), self._split(b)
        return 1 + self.term.gram(self._whole(self.inner.gram(x, y)), s, t)

    def _whole(self, K: np.ndarray) -> np.ndarray:
        """κ from the kernel on the surface, which is 1 + k."""
        c = self.inner.constant
        return (1 - c) * (K - 1) + c

    def diag(self, a: np.ndarray) -> np.ndarray:
        x, s = self._split(a)
        return 1 + self.term.diag(self._whole(self.inner.diag(x)), s)

    def features(self, a: np.ndarray) -> np.ndarray | None:
        """F with K = 1 + F Fᵀ, [n, k]; None where there are none."""
        x, s = self._split(a)
        F, c = self.inner.factor(x), self.inner.constant
        if F is not None:  # its first column is the constant
            F = F[:, 1:] if c == 0 else F * np.sqrt(np.append(c, np.full(F.shape[1] - 1, 1 - c)))
        return self.term.features(F, s)

    def times(self, a: np.ndarray, b: np.ndarray, U: np.ndarray) -> np.ndarray:
        F = self.features(a)
        if F is None or F.shape[1] >= len(b):
            return self.gram(a, b) @ U
        of_b = self.features(b)
        assert of_b is not None
        return U.sum(0) + F @ (of_b.T @ U)

    def factor(self, a: np.ndarray) -> np.ndarray | None:
        F = self.features(a)
        return None if F is None else np.concatenate([np.ones((len(a), 1)), F], 1)

    def slope(self, a: np.ndarray, V: np.ndarray) -> np.ndarray:
        """By a central difference."""
        more, less = (self.at(self.scale * np.exp(step)).gram(a, a) for step in (STEP, -STEP))
        return np.sum(V * ((more - less) @ V), 0) / (2 * STEP)
