"""Means and variances of many components of a posterior at once.

    G_c = K_c(x, b) U_c,    mean_cj = G_c z_c/(S_c + r_j),    variance_cj = k_c(x, x) - G_c²/(S_c + r_j)

with the decomposition K_c(b, b) = U_c S_c U_cᵀ on the labels b. Components of one space whose matrices have the same
shapes form a stack, up to ROOM numbers, so that a single row needs few calls even where there are many components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..heat.covariances import Covariance, Features, Spectral, Stationary, bounding, stationary
from .exact import LowRank
from .nearest import Nearest, NearestStack

ROOM = 2**16  # numbers of the matrices U of a stack


class Kernels(ABC):
    """Covariances K_c with matrices U_c [C, n, r]."""

    @abstractmethod
    def times(self, a: np.ndarray, apart: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """K_c(a, b) U_c [C, m, r] and k_c(a, a) [C, m] or [C, 1], for points a [m, k]; `apart()`: distances [m, n]."""


@dataclass(frozen=True)
class Linear(Kernels):
    """Covariances that are linear in features: 1 + s(a) s(b) Σ w a b + Σ o a b, s bounds the first sum at a = b."""

    weights: np.ndarray  # [C, k]
    bound: np.ndarray  # [C, 1]
    matrices: np.ndarray  # Σ w s(b) b U, [C, k, r]
    constants: np.ndarray  # of U, [C, 1, r]
    offsets: np.ndarray | None  # [C, k]
    of_offsets: np.ndarray | None  # Σ o b U, [C, k, r]

    @classmethod
    def of(cls, covariances: Sequence[Any], b: np.ndarray, U: np.ndarray) -> Linear:
        """Those of one space, all with offsets or none."""
        weights = np.array([_weights(c, b.shape[1]) for c in covariances])
        bound = np.array([[getattr(c, "bound", np.inf)] for c in covariances])
        s = _factors(weights @ (b**2).T, bound)
        matrices = weights[..., None] * ((s[:, None] * b.T) @ U)
        offsets = of_offsets = None
        if getattr(covariances[0], "offsets", None) is not None:
            offsets = np.array([c.offsets for c in covariances])
            of_offsets = offsets[..., None] * (b.T @ U)
        return cls(weights, bound, matrices, U.sum(1, keepdims=True), offsets, of_offsets)

    @classmethod
    def of_features(cls, covariances: Sequence[Any], along: np.ndarray, k: int) -> Linear:
        """The same from `along` [C, 1 + features, r], F(b)ᵀU of each, where points have k numbers."""
        weights = np.array([_weights(c, k) for c in covariances])
        bound = np.array([[c.bound] for c in covariances])
        matrices = np.zeros((len(covariances), k, along.shape[2]))
        for matrix, covariance, one in zip(matrices, covariances, along, strict=True):
            columns, _ = covariance.roots(k)
            matrix[columns] = one[1:]
        offsets = of_offsets = None
        if getattr(covariances[0], "offsets", None) is not None:
            offsets = np.array([c.offsets for c in covariances])
            of_offsets = np.sqrt(offsets)[..., None] * matrices
        return cls(weights, bound, np.sqrt(weights)[..., None] * matrices, along[:, :1], offsets, of_offsets)

    def times(self, a: np.ndarray, apart: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """See `Kernels.times`."""
        squares = np.square(a, dtype=float).T  # eigenvectors of a large graph are in float32
        variance = self.weights @ squares
        s = _factors(variance, self.bound)
        found, prior = a @ self.matrices, 1 + s**2 * variance
        found *= s[..., None]
        found += self.constants
        if self.offsets is not None and self.of_offsets is not None:
            found += a @ self.of_offsets
            prior += self.offsets @ squares
        return found, prior


@dataclass(frozen=True)
class OfDistances(Kernels):
    """Stationary covariances of the same smoothness."""

    nu: float
    scales: np.ndarray  # [C, 1, 1]
    U: np.ndarray

    def times(self, a: np.ndarray, apart: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """See `Kernels.times`."""
        K = stationary(self.nu, apart() / self.scales)
        K += 1
        return K @ self.U, np.full((len(K), 1), 2.0)


@dataclass(frozen=True)
class Others(Kernels):
    """Covariances of any kind, one after the other."""

    covariances: Sequence[Covariance]
    b: np.ndarray
    U: np.ndarray

    def times(self, a: np.ndarray, apart: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """See `Kernels.times`."""
        found = [c.times(a, self.b, U) for c, U in zip(self.covariances, self.U, strict=True)]
        return np.array(found), np.array([c.diag(a) for c in self.covariances])


@dataclass(frozen=True)
class Stack:
    """Components, given by their `numbers`, of one space and with matrices of the same shapes."""

    numbers: list[int]
    kernels: Kernels
    z: np.ndarray  # [C, r, 1]
    inverse: np.ndarray  # 1/(S + ratios), [C, r, J]
    signal: np.ndarray  # [C, 1, J]
    noise: np.ndarray  # σ² of the labels' noise, [C, 1, J]
    weights: np.ndarray  # [C, J]
    prior: np.ndarray  # variance of f without labels, over the signal, [C, 1, 1]
    size: int  # numbers of the largest array for each point

    def at(
        self, a: np.ndarray, sigma_points: int, apart: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances of f, and variances of noise, [C, n, J] each.

        Rows have so many equally likely points each, a [around n, k].
        """
        G, prior = self.kernels.times(a, apart)
        means = G @ (self.z * self.inverse)
        np.square(G, out=G)
        variances = self.signal * np.maximum(prior[..., None] - G @ self.inverse, 0.0)
        if sigma_points == 1:
            return means, variances, np.broadcast_to(self.noise, means.shape)
        means, variances = (v.reshape(len(v), sigma_points, -1, v.shape[-1]) for v in (means, variances))
        mean = means.mean(1)
        variance = variances.mean(1) + np.square(means - mean[:, None]).mean(1)
        return mean, variance, np.broadcast_to(self.noise, mean.shape)


def stacks(components: Sequence[Any], numbers: Sequence[int], b: np.ndarray) -> list[Stack | NearestStack]:
    """The stacks of components of one space, of which some have these `numbers`; b [n, k] are the labelled points."""
    groups: dict[Hashable, list[list[int]]] = {}
    local = [NearestStack.of(k, components[k], b) for k in numbers if isinstance(components[k].d, Nearest)]
    for number in numbers:
        component = components[number]
        if isinstance(component.d, Nearest):
            continue
        shape, kind = component.d.shape, _kind(component.candidate.covariance)
        found = groups.setdefault((*kind, isinstance(component.d, LowRank), shape, len(component.ratios)), [[]])
        if len(found[-1]) * shape[0] * shape[1] >= ROOM:
            found.append([])
        found[-1].append(number)
    return [*local, *(_stack(components, some, b) for of_kind in groups.values() for some in of_kind)]


def _stack(components: Sequence[Any], numbers: list[int], b: np.ndarray) -> Stack:
    some = [components[number] for number in numbers]
    covariances: list[Any] = [c.candidate.covariance for c in some]
    kind, first, low_rank = _kind(covariances[0])[0], covariances[0], isinstance(some[0].d, LowRank)
    matrices = [c.d.along if low_rank else c.d.U for c in some]
    U = matrices[0][None] if len(some) == 1 else np.array(matrices)
    if low_rank:
        kernels: Kernels = Linear.of_features(covariances, U, b.shape[1])
    elif kind == "linear":
        kernels = Linear.of(covariances, b, U)
    elif kind == "stationary":
        kernels = OfDistances(first.nu, np.array([c.scale for c in covariances])[:, None, None], U)
    else:
        kernels = Others(covariances, b, U)
    inverse = np.array([1 / (c.d.S[:, None] + c.ratios) for c in some])
    z, signal = np.array([c.d.z for c in some])[..., None], np.array([c.signal for c in some])[:, None]
    width = max(U.shape[2], len(b)) if kind != "linear" else U.shape[2]
    weights, prior = np.array([c.weights for c in some]), np.array([c.prior for c in covariances])[:, None, None]
    noise = signal * np.array([c.ratios for c in some])[:, None]
    return Stack(numbers, kernels, z, inverse, signal, noise, weights, prior, len(some) * max(width, inverse.shape[2]))


def _kind(covariance: Covariance) -> tuple[Any, ...]:
    """Covariances of which kind may form one stack."""
    if isinstance(covariance, Spectral | Features):
        return "linear", getattr(covariance, "offsets", None) is None
    return ("stationary", covariance.nu) if isinstance(covariance, Stationary) else ("any",)


def _weights(covariance: Any, k: int) -> np.ndarray:
    """The weights of all k features."""
    found = np.zeros(k)
    found[getattr(covariance, "columns", slice(None))] = covariance.weights
    return found


def _factors(variance: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The factor by which a variance [C, m] is at most its bound [C, 1], which may be infinite."""
    return np.where(np.isinf(bound), 1.0, bounding(variance, np.where(np.isinf(bound), 1.0, bound)))
