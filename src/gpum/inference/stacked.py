"""Means and variances of many components of a posterior at once.

    G_c = K_c(x, b) U_c,    mean_cj = G_c z_c/(S_c + r_j),    variance_cj = k_c(x, x) - G_c²/(S_c + r_j)

with the decomposition K_c(b, b) = U_c S_c U_cᵀ on the labels b. Components whose matrices have the same shapes form a
stack, up to ROOM numbers, so that a single row needs few calls even where there are many components on many spaces.
Those on one space follow each other: they share the features of a row, and its distances to the labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ..heat.covariances import Covariance, Features, Spectral, Stationary, bounding, distances, stationary
from .exact import LowRank
from .nearest import Nearest, NearestStack

ROOM = 2**16  # numbers of the matrices U of a stack


@dataclass(frozen=True, eq=False)
class InSpace:
    """Where kernels are evaluated in one space: points a [m, k], and the labels at b [n, k]."""

    a: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, points: Sequence[np.ndarray], block: slice, b: np.ndarray) -> InSpace:
        """A block of rows with several points each: the first points of all rows, then the next ones."""
        return cls(points[0][block] if len(points) == 1 else np.concatenate([p[block] for p in points]), b)

    @cached_property
    def apart(self) -> np.ndarray:
        """The distances of the points to the labels, [m, n]: computed once, if a kernel needs them."""
        return distances(self.a, self.b)


class KernelStack(ABC):
    """Several covariances at once: K_c with matrices U_c [C, n, r]; `parts` are positions of those on each space."""

    parts: list[slice]

    @abstractmethod
    def times(self, points: Sequence[InSpace]) -> tuple[np.ndarray, np.ndarray]:
        """K_c(a, b) U_c [C, m, r] and k_c(a, a) [C, m] or [C, 1], for the same points in every space."""

    @classmethod
    @abstractmethod
    def joined(cls, kernels: Sequence[Any]) -> KernelStack:
        """Those on one space each, as one."""


@dataclass(frozen=True)
class LinearKernels(KernelStack):
    """Covariances that are linear in features: 1 + s(a) s(b) Σ w a b + Σ o a b, s bounds the first sum at a = b.

    What has an entry for each feature is a list over spaces; with `offsets` all of them have some, or none has.
    """

    parts: list[slice]
    weights: list[np.ndarray]  # [C, k]
    bound: np.ndarray  # [C, 1]
    matrices: list[np.ndarray]  # Σ w s(b) b U, [C, k, r]
    constants: np.ndarray  # of U, [C, 1, r]
    offsets: list[np.ndarray]  # [C, k]
    of_offsets: list[np.ndarray]  # Σ o b U, [C, k, r]

    @classmethod
    def of(cls, covariances: Sequence[Any], b: np.ndarray, U: np.ndarray) -> LinearKernels:
        """Those of one space, all with offsets or none."""
        weights = np.array([_weights(c, b.shape[1]) for c in covariances])
        bound = np.array([[getattr(c, "bound", np.inf)] for c in covariances])
        s = _factors(weights @ (b**2).T, bound)
        matrices = weights[..., None] * ((s[:, None] * b.T) @ U)
        offsets = _offsets(covariances)
        of_offsets = [one[..., None] * (b.T @ U) for one in offsets]
        return cls([slice(None)], [weights], bound, [matrices], U.sum(1, keepdims=True), offsets, of_offsets)

    @classmethod
    def of_features(cls, covariances: Sequence[Any], along: np.ndarray, k: int) -> LinearKernels:
        """The same from `along` [C, 1 + features, r], F(b)ᵀU of each, where points have k numbers."""
        weights = np.array([_weights(c, k) for c in covariances])
        bound = np.array([[c.bound] for c in covariances])
        matrices = np.zeros((len(covariances), k, along.shape[2]))
        for matrix, covariance, one in zip(matrices, covariances, along, strict=True):
            columns, _ = covariance.roots(k)
            matrix[columns] = one[1:]
        offsets = _offsets(covariances)
        of_offsets = [np.sqrt(one)[..., None] * matrices for one in offsets]
        matrices = np.sqrt(weights)[..., None] * matrices
        return cls([slice(None)], [weights], bound, [matrices], along[:, :1], offsets, of_offsets)

    @classmethod
    def joined(cls, kernels: Sequence[LinearKernels]) -> LinearKernels:
        """See `KernelStack.joined`."""
        each = lambda name: [one for linear in kernels for one in getattr(linear, name)]
        weights, bound = each("weights"), np.concatenate([linear.bound for linear in kernels])
        constants = np.concatenate([linear.constants for linear in kernels])
        return cls(_parts(weights), weights, bound, each("matrices"), constants, each("offsets"), each("of_offsets"))

    def times(self, points: Sequence[InSpace]) -> tuple[np.ndarray, np.ndarray]:
        """See `KernelStack.times`."""
        product = np.empty((len(self.bound), len(points[0].a), self.constants.shape[2]))
        variance = np.empty(product.shape[:2])
        squares = [np.square(at.a, dtype=float).T for at in points]  # eigenvectors of a large graph are in float32
        for k, part in enumerate(self.parts):
            np.matmul(points[k].a, self.matrices[k], out=product[part])
            np.matmul(self.weights[k], squares[k], out=variance[part])
        s = _factors(variance, self.bound)
        prior = 1 + s**2 * variance
        product *= s[..., None]
        product += self.constants
        for k, offsets in enumerate(self.offsets):
            product[self.parts[k]] += points[k].a @ self.of_offsets[k]
            prior[self.parts[k]] += offsets @ squares[k]
        return product, prior


@dataclass(frozen=True)
class StationaryKernels(KernelStack):
    """Stationary covariances of the same smoothness."""

    parts: list[slice]
    nu: float
    scales: np.ndarray  # [C, 1, 1]
    U: np.ndarray

    @classmethod
    def joined(cls, kernels: Sequence[StationaryKernels]) -> StationaryKernels:
        """See `KernelStack.joined`."""
        scales = [one.scales for one in kernels]
        return cls(_parts(scales), kernels[0].nu, np.concatenate(scales), np.concatenate([one.U for one in kernels]))

    def times(self, points: Sequence[InSpace]) -> tuple[np.ndarray, np.ndarray]:
        """See `KernelStack.times`."""
        u = np.empty((len(self.scales), len(points[0].a), self.U.shape[1]))
        for part, at in zip(self.parts, points, strict=True):
            np.divide(at.apart, self.scales[part], out=u[part])
        K = stationary(self.nu, u)
        K += 1
        return K @ self.U, np.full((len(K), 1), 2.0)


@dataclass(frozen=True)
class OtherKernels(KernelStack):
    """Covariances of any kind, one after the other."""

    parts: list[slice]
    covariances: Sequence[Covariance]
    U: np.ndarray

    @classmethod
    def joined(cls, kernels: Sequence[OtherKernels]) -> OtherKernels:
        """See `KernelStack.joined`."""
        parts = _parts([one.U for one in kernels])
        covariances = [covariance for one in kernels for covariance in one.covariances]
        return cls(parts, covariances, np.concatenate([one.U for one in kernels]))

    def times(self, points: Sequence[InSpace]) -> tuple[np.ndarray, np.ndarray]:
        """See `KernelStack.times`."""
        products, priors = [], []
        for at, part in zip(points, self.parts, strict=True):
            for covariance, U in zip(self.covariances[part], self.U[part], strict=True):
                products.append(covariance.times(at.a, at.b, U))
                priors.append(covariance.diag(at.a))
        return np.array(products), np.array(priors)


@dataclass(frozen=True)
class Stack:
    """Components that are computed at once, by their `numbers`: those on each of `spaces` in turn, of one shape."""

    numbers: list[int]
    spaces: list[int]
    kernels: KernelStack
    z: np.ndarray  # [C, r, 1]
    inverse: np.ndarray  # 1/(S + ratios), [C, r, J]
    signal: np.ndarray  # [C, 1, J]
    noise: np.ndarray  # σ² of the labels' noise, [C, 1, J]
    weights: np.ndarray  # [C, J]
    prior: np.ndarray  # variance of f without labels, over the signal, [C, 1, 1]
    size: int  # numbers of the largest array for each point

    @property
    def parts(self) -> list[slice]:
        """The positions of the components on each space."""
        return self.kernels.parts

    def at(self, points: Sequence[InSpace], sigma_points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances of f, and variances of noise, [C, n, J] each.

        In each of its spaces rows have so many equally likely points each, [sigma_points n, k].
        """
        G, prior = self.kernels.times(points)
        means = G @ (self.z * self.inverse)
        np.square(G, out=G)
        variances = self.signal * np.maximum(prior[..., None] - G @ self.inverse, 0.0)
        if sigma_points == 1:
            return means, variances, np.broadcast_to(self.noise, means.shape)
        means, variances = (v.reshape(len(v), sigma_points, -1, v.shape[-1]) for v in (means, variances))
        mean = means.mean(1)
        variance = variances.mean(1) + np.square(means - mean[:, None]).mean(1)
        return mean, variance, np.broadcast_to(self.noise, mean.shape)


def stacks(
    components: Sequence[Any], numbers: Sequence[int], labels: Sequence[np.ndarray | None]
) -> list[Stack | NearestStack]:  # fmt: skip
    """The stacks of the components with these `numbers`, one space after the other; `labels` [n, k] in every space."""
    groups: dict[Hashable, list[list[int]]] = {}
    local: list[Stack | NearestStack] = []
    for number in numbers:
        component = components[number]
        if isinstance(component.d, Nearest):
            local.append(NearestStack.of(number, component, known(labels[component.candidate.space])))
            continue
        low_rank = isinstance(component.d, LowRank)
        matrix = component.d.along if low_rank else component.d.U
        kind = *_kind(component.candidate.covariance), low_rank, matrix.shape, len(component.ratios)
        batches = groups.setdefault(kind, [[]])
        if len(batches[-1]) * matrix.size >= ROOM:
            batches.append([])
        batches[-1].append(number)
    return [*local, *(_stack(components, batch, labels) for of_kind in groups.values() for batch in of_kind)]


def _stack(components: Sequence[Any], numbers: list[int], labels: Sequence[np.ndarray | None]) -> Stack:
    batch = [components[number] for number in numbers]
    on_spaces = {k: list(on_space) for k, on_space in groupby(batch, lambda component: component.candidate.space)}
    each = [_kernels(on_space, known(labels[k])) for k, on_space in on_spaces.items()]
    kernels = each[0] if len(each) == 1 else each[0].joined(each)
    inverse = np.array([1 / (c.d.S[:, None] + c.ratios) for c in batch])
    z, signal = np.array([c.d.z for c in batch])[..., None], np.array([c.signal for c in batch])[:, None]
    rank = z.shape[1]
    width = rank if isinstance(kernels, LinearKernels) else max(rank, len(known(labels[batch[0].candidate.space])))
    weights = np.array([c.weights for c in batch])
    prior = np.array([c.candidate.covariance.prior for c in batch])[:, None, None]
    noise = signal * np.array([c.ratios for c in batch])[:, None]
    size = len(batch) * max(width, inverse.shape[2])
    return Stack(numbers, list(on_spaces), kernels, z, inverse, signal, noise, weights, prior, size)


def _kernels(components: Sequence[Any], b: np.ndarray) -> KernelStack:
    """The covariances and matrices of components of one kind on one space."""
    covariances: list[Any] = [component.candidate.covariance for component in components]
    kind, first = _kind(covariances[0])[0], covariances[0]
    if isinstance(components[0].d, LowRank):
        along = np.array([component.d.along for component in components])
        return LinearKernels.of_features(covariances, along, b.shape[1])
    U = components[0].d.U[None] if len(components) == 1 else np.array([component.d.U for component in components])
    if kind == "linear":
        return LinearKernels.of(covariances, b, U)
    if kind == "stationary":
        return StationaryKernels([slice(None)], first.nu, np.array([c.scale for c in covariances])[:, None, None], U)
    return OtherKernels([slice(None)], covariances, U)


def _parts(on_spaces: Sequence[np.ndarray]) -> list[slice]:
    """The positions of what is on each space among all of them."""
    return [slice(begin, end) for begin, end in pairwise(np.cumsum([0, *map(len, on_spaces)]).tolist())]


def _offsets(covariances: Sequence[Any]) -> list[np.ndarray]:
    """The offsets of covariances of one space [C, k], in a list; empty where there are none."""
    if getattr(covariances[0], "offsets", None) is None:
        return []
    return [np.array([covariance.offsets for covariance in covariances])]


def known(points: np.ndarray | None) -> np.ndarray:
    """Points in a space that is used."""
    assert points is not None, "rows were not located in a space that the posterior uses"
    return points


def _kind(covariance: Covariance) -> tuple[Any, ...]:
    """Covariances of which kind may form one stack."""
    if isinstance(covariance, Spectral | Features):
        return "linear", getattr(covariance, "offsets", None) is None
    return ("stationary", covariance.nu) if isinstance(covariance, Stationary) else ("any",)


def _weights(covariance: Any, k: int) -> np.ndarray:
    """The weights of all k features."""
    weights = np.zeros(k)
    weights[getattr(covariance, "columns", slice(None))] = covariance.weights
    return weights


def _factors(variance: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The factor by which a variance [C, m] is at most its bound [C, 1], which may be infinite."""
    return np.where(np.isinf(bound), 1.0, bounding(variance, np.where(np.isinf(bound), 1.0, bound)))
