"""The covariance functions that regression weighs against each other, each with one scale.

Each acts on points in a representation of its own: `Spectral` on the values of eigenfunctions (of the
Laplace-Beltrami operator, or of a graph), `Stationary` on coordinates, `Features` on any features whose inner
product is the kernel. All have variance 1 on average over the cloud, plus a constant of variance 1, the weak prior on
the mean of y:

    K(x, y) = 1 + k(x, y) / mean k(x_i, x_i)

    gram(a, b)       [n, m]
    diag(a)          [n]
    times(a, b, U)   K(a, b) U without K, where that is cheaper
    factor(a)        F with K(a, a) = F Fᵀ, or None where it has no such factor
    slope(a, V)      diag(Vᵀ ∂K(a, a)/∂log scale V)
    at(scale)        the same with another scale
    prior            its variance at a point far from the cloud
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv

from .spectra import heat_spectrum, matern_spectrum, varying

MANY = 3000  # rows from which distances are computed by products
CLOSED = (0.5, 1.5, 2.5)  # smoothness of kernels without a Bessel function
CANCELS = 1e-3  # below so much of |a|² + |b|², the relative error of a square distance may exceed 1e-12


AT_ONCE = 2**17  # numbers of a block in `KernelSum`: they stay in the cache of a core


class Covariance(ABC):
    """A covariance function: a subclass has `gram` and `diag`; the module says what each method computes."""

    scale: float
    prior = 2.0  # of the constant, and of k on average over the cloud
    constant = 0.0  # the share of constant functions in the kernel itself, where k is without them

    @abstractmethod
    def gram(self, a: np.ndarray, b: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def diag(self, a: np.ndarray) -> np.ndarray: ...

    def times(self, a: np.ndarray, b: np.ndarray, U: np.ndarray) -> np.ndarray:
        return self.gram(a, b) @ U

    def factor(self, a: np.ndarray) -> np.ndarray | None:
        return None

    def slope(self, a: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.zeros(V.shape[1])  # unless a subclass has a scale

    def at(self, scale: float) -> Any:
        return replace(self, scale=float(scale))  # type: ignore[type-var]


class Weighted(Covariance):
    """A covariance that is linear in features: K(a, b) = 1 + F(a) F(b)ᵀ with F(a) = a √weights."""

    weights: np.ndarray
    bound: float = np.inf  # of the variance, without the constant

    def features(self, a: np.ndarray) -> np.ndarray:
        """F(a), [n, k]."""
        return a * np.sqrt(self.weights)

    def roots(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Which columns of points [n, k] F has, and what each is multiplied by where the variance is not bounded."""
        return np.arange(k), np.broadcast_to(np.sqrt(self.weights), k)

    def gram(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 1 + self.features(a) @ self.features(b).T

    def diag(self, a: np.ndarray) -> np.ndarray:
        F = self.features(a)
        return 1 + np.einsum("nk,nk->n", F, F)

    def times(self, a: np.ndarray, b: np.ndarray, U: np.ndarray) -> np.ndarray:
        return U.sum(0) + self.features(a) @ (self.features(b).T @ U)

    def factor(self, a: np.ndarray) -> np.ndarray | None:
        return np.concatenate([np.ones((len(a), 1)), self.features(a)], 1)


@dataclass(frozen=True)
class Spectral(Weighted):
    """Heat or Matérn kernel from eigenvalues λ_i ≥ 0; points are their eigenfunctions' values [n, k].

    heat:   w_i = e^{-λ_i t/2},  scale = √t
    Matérn: w_i = (1 + λ_i κ²/2ν)^{-ν-q/2},  scale = κ

    `power` is the mean over the cloud of φ_i², [k]. The constant eigenfunction has weight 0: K has a constant already.
    Eigenfunctions that are constant on one of several connected components have the weights `offsets` [k] (0 for all
    others), so that the mean of each component may differ.

    Where a surface is thin or rough, k(x, x) = Σ_i w_i φ_i(x)² can be a thousand times its mean, and predictions there
    multiply what the labels say. Features of such a point are scaled down to a variance of `bound`. `typical` is the
    mean over the cloud of the bounded variance, by which all are divided.
    """

    values: np.ndarray
    power: np.ndarray
    nu: float
    dim: float
    scale: float = 1.0
    offsets: np.ndarray | None = None
    typical: float = 1.0
    bound: float = np.inf

    @property
    def prior(self) -> float:  # type: ignore[override]
        """Its variance at a point far from the cloud, which would be another connected component."""
        return 2.0 if self.offsets is None else 3.0

    @property
    def constant(self) -> float:  # type: ignore[override]
        """What the constant eigenfunction, which k leaves out, would have of the mean variance."""
        varies = varying(self.values)
        if not varies.any():
            return 0.0
        w, lowest = self._raw()[0], self.values[varies][:1]
        constant = float(self.power[~varies].sum()) if not varies.all() else float(self.power.mean())
        constant /= float(matern_spectrum(lowest, self.nu, self.scale, self.dim)[0])  # of the lowest mode w is 1
        return constant / (constant + float(w @ self.power))

    def _raw(self) -> tuple[np.ndarray, np.ndarray]:
        """w and ∂w/∂log scale, with w = 1 for the lowest mode that is not constant."""
        varies = varying(self.values)
        lowest = self.values[varies][0] if varies.any() else 0.0
        if np.isinf(self.nu):
            above = self.values - lowest
            w = heat_spectrum(above, self.scale**2)
            return w * varies, -above * self.scale**2 * w * varies
        x = self.values * self.scale**2 / (2 * self.nu)
        x0 = lowest * self.scale**2 / (2 * self.nu)
        power = self.nu + self.dim / 2
        w, w0 = (matern_spectrum(v, self.nu, self.scale, self.dim) for v in (self.values, np.asarray(lowest)))
        w = w / w0
        return w * varies, -2 * power * (x / (1 + x) - x0 / (1 + x0)) * w * varies

    @cached_property
    def weights(self) -> np.ndarray:  # type: ignore[override]
        w, _ = self._raw()
        return w / (max(float(w @ self.power), 1e-300) * self.typical)

    def features(self, a: np.ndarray) -> np.ndarray:
        """F(a) = s(a) a √weights + a √offsets, [n, k]; s is 1 where the variance is below the bound."""
        F = super().features(a)
        if np.isfinite(self.bound):
            F *= bounding(np.einsum("nk,nk->n", F, F), self.bound)[:, None]
        return F if self.offsets is None else F + a * np.sqrt(self.offsets)

    def roots(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        roots = np.sqrt(self.weights)
        return np.arange(k), roots if self.offsets is None else roots + np.sqrt(self.offsets)

    def slope(self, a: np.ndarray, V: np.ndarray) -> np.ndarray:
        w, dw = self._raw()
        total = float(w @ self.power)
        change = (dw / total - w * float(dw @ self.power) / total**2) / self.typical
        if not np.isfinite(self.bound):
            return change @ (a.T @ V) ** 2
        weights = self.weights
        s = bounding(a**2 @ weights, self.bound)
        a = a * s[:, None]
        aV = a.T @ V
        by_bound = np.where(s < 1, -0.5 * (a**2 @ change) / self.bound, 0.0)  # ∂ log s/∂ log scale
        return change @ aV**2 + 2 * by_bound @ (V * (a @ (weights[:, None] * aV)))


def bounding(variance: np.ndarray, bound: float | np.ndarray) -> np.ndarray:
    """The factor of features by which a variance is at most a finite bound."""
    return np.sqrt(bound / np.maximum(variance, bound))


@dataclass(frozen=True)
class Features(Weighted):
    """Σ_i weights_i a_i b_i of features [n, k]; with `columns`, of those only. Its scale is fixed."""

    weights: np.ndarray
    columns: slice = field(default_factory=lambda: slice(None))
    scale: float = 1.0

    def features(self, a: np.ndarray) -> np.ndarray:
        return super().features(a[:, self.columns])

    def roots(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        columns = np.arange(k)[self.columns]
        return columns, np.broadcast_to(np.sqrt(self.weights), len(columns))


@dataclass(frozen=True)
class Stationary(Covariance):
    """Heat (squared exponential) or Matérn kernel of Euclidean coordinates [n, p]; the scale is its length scale."""

    nu: float
    scale: float = 1.0

    def gram(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.at_distances(distances(a, b))

    def at_distances(self, d: np.ndarray) -> np.ndarray:
        """K of points at distances d [n, m], so that several kernels may share these."""
        return 1 + stationary(self.nu, d / self.scale)

    def diag(self, a: np.ndarray) -> np.ndarray:
        return np.full(len(a), 2.0)

    def slope(self, a: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.sum(V * (stationary_slope(self.nu, cdist(a, a) / self.scale) @ V), 0)


class SharedDistances:
    """Gram matrices of several covariances in turn; stationary ones of the same points share their distances."""

    def __init__(self) -> None:
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def gram(self, covariance: Covariance, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """covariance.gram(a, b)."""
        if not isinstance(covariance, Stationary):
            return covariance.gram(a, b)
        if self._last is None or self._last[0] is not a or self._last[1] is not b:
            self._last = a, b, distances(a, b)
        return covariance.at_distances(self._last[2])


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances [n, m] of rows a [n, p] and b [m, p]; of many rows by products, which are exact to rounding.

    Where |a|² + |b|² - 2ab cancels, the distance is computed from the difference.
    """
    if len(a) < MANY:
        return cdist(a, b)
    middle = b.mean(0)
    a, b = a - middle, b - middle
    of_a, of_b = np.einsum("np,np->n", a, a)[:, None], np.einsum("np,np->n", b, b)
    squares = of_a + of_b - 2 * a @ b.T
    i, j = np.nonzero(squares < CANCELS * (of_a + of_b))
    for begin in range(0, len(i), MANY):
        block = slice(begin, begin + MANY)
        squares[i[block], j[block]] = np.sum((a[i[block]] - b[j[block]]) ** 2, 1)
    return np.sqrt(squares)


def stationary(nu: float, u: np.ndarray) -> np.ndarray:
    """The kernel k of smoothness ν at distances u in units of its scale."""
    if np.isinf(nu):
        return np.exp(-0.5 * u**2)
    s = np.sqrt(2 * nu) * u
    if nu not in CLOSED:
        s = _not_zero(s, nu)
        return np.where(u > 0, 2 ** (1 - nu) / gamma(nu) * s**nu * kv(nu, s), 1.0)
    e = np.exp(-s)
    if nu == 0.5:
        return e
    return (1 + s) * e if nu == 1.5 else (1 + s + s**2 / 3) * e


def stationary_slope(nu: float, u: np.ndarray) -> np.ndarray:
    """∂k/∂log scale at distances u in units of the scale."""
    return -(u**2) * stationary_rate(nu, u)


def stationary_rate(nu: float, u: np.ndarray) -> np.ndarray:
    """k'(u)/u at distances u in units of the scale, which is 2 dk/du²; 0 at u = 0 where it is infinite, for ν ≤ 1.

    k'(u)/u = -2ν 2^(1-ν)/Γ(ν) s^(ν-1) K_{ν-1}(s),   s = √(2ν) u
    """
    if np.isinf(nu):
        return -np.exp(-0.5 * u**2)
    s = np.sqrt(2 * nu) * u
    if nu not in CLOSED:
        s = _not_zero(s, nu)
        rate = -2 * nu * 2 ** (1 - nu) / gamma(nu) * s ** (nu - 1) * kv(nu - 1, s)
        return rate if nu > 1 else np.where(u > 0, rate, 0.0)
    e = np.exp(-s)
    if nu == 0.5:
        return np.where(u > 0, -e / np.maximum(u, 1e-300), 0.0)
    return -3 * e if nu == 1.5 else -5 / 3 * (1 + s) * e


def _not_zero(s: np.ndarray, nu: float) -> np.ndarray:
    """Distances at which Bessel functions of order ν are numbers, and k the same up to rounding."""
    return np.clip(s, 1e-8 if nu > 2 else 1e-100, 600.0)


@dataclass(frozen=True)
class KernelSum:
    """Σ_c K_c(x, b) v_c for covariances K_c of one space: the mean of a mixture of GPs as a function of x.

    Covariances that are linear in features add up to one vector, so that their number does not matter, but for those
    whose variance is bounded. Stationary ones share the distances between x and b.
    """

    b: np.ndarray  # [n, k]
    constant: float
    linear: np.ndarray  # of features, [k]; zeros without such a covariance
    bounded: list[np.ndarray]  # weights [C, k], vectors [C, k] and bounds [C]; empty without such a covariance
    by_smoothness: dict[float, tuple[np.ndarray, np.ndarray]]  # by ν: scales [C] and v [C, n]
    others: list[tuple[Covariance, np.ndarray]]

    @classmethod
    def of(
        cls, terms: Sequence[tuple[Covariance, np.ndarray]], b: np.ndarray,
        of_features: Sequence[tuple[Weighted, np.ndarray]] = (),
    ) -> KernelSum:  # fmt: skip
        """The sum of terms (K_c, v_c [n]), and of further functions F_c(x) β_c, given by (K_c, β_c [1 + k])."""
        linear, constant = np.zeros(b.shape[1]), 0.0
        groups: dict[float, list[tuple[float, np.ndarray]]] = {}
        others, bounded, weighted = [], [], list(of_features)
        for covariance, v in terms:
            if isinstance(covariance, Weighted):
                F = covariance.factor(b)
                assert F is not None
                weighted.append((covariance, v @ F))
            elif isinstance(covariance, Stationary):
                groups.setdefault(covariance.nu, []).append((covariance.scale, v))
                constant += float(v.sum())
            else:
                others.append((covariance, v))
        for kernel, beta in weighted:
            constant += float(beta[0])
            if isinstance(kernel, Spectral) and np.isfinite(kernel.bound):
                weights = kernel.weights
                bounded.append((weights, np.sqrt(weights) * beta[1:], kernel.bound))
                if kernel.offsets is not None:
                    linear += np.sqrt(kernel.offsets) * beta[1:]
            else:
                used, roots = kernel.roots(b.shape[1])
                linear[used] += roots * beta[1:]
        by_smoothness = {
            nu: (np.array([scale for scale, _ in group]), np.array([v for _, v in group]))
            for nu, group in groups.items()
        }
        columns = [np.array(column) for column in zip(*bounded, strict=True)]
        return cls(b, constant, linear, columns, by_smoothness, others)

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """The sum at points a [m, k], [m]."""
        total = self.constant + a @ self.linear
        if self.bounded:
            weights, vectors, bounds = self.bounded
            total += np.sum(bounding(a**2 @ weights.T, bounds) * (a @ vectors.T), 1)
        for covariance, v in self.others:
            total += covariance.gram(a, self.b) @ v
        most = max((v.size for _, v in self.by_smoothness.values()), default=0)
        step = max(1, AT_ONCE // max(1, most))
        for block in (slice(k, k + step) for k in range(0, len(a) if most else 0, step)):
            d = distances(a[block], self.b)[:, None]
            for nu, (scales, v) in self.by_smoothness.items():
                total[block] += stationary(nu, d / scales[:, None]).reshape(len(d), -1) @ v.ravel()
        return total
