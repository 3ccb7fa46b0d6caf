"""Kernels of classes, scaled to k(x, x) = 1, and class probabilities of many components of a posterior at once.

For a row x with the correlations K(x) [n] to the labels, a component with the noise ratio r has

    p(class) = softmax(LINK αᵀK / √(1 - KᵀRK + r))

Components of one space form stacks of about ROOM numbers of R, so that a block of rows needs few calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..heat.covariances import Covariance, SharedDistances, Spectral
from .probit import LINK
from .stacked import InSpace, Linear

ROOM = 2**16
LEAST = 1e-12  # variance of a kernel without its constant at a point


def correlation(
    covariance: Covariance, a: np.ndarray, b: np.ndarray, shared: SharedDistances | None = None
) -> np.ndarray:  # fmt: skip
    """The kernel without its constant, scaled to k(x, x) = 1, [n, m]."""
    of_a, of_b = (np.sqrt(np.maximum(covariance.diag(x) - 1, LEAST)) for x in (a, b))
    return ((shared or SharedDistances()).gram(covariance, a, b) - 1) / of_a[:, None] / of_b


def modes(covariance: Covariance, a: np.ndarray) -> np.ndarray:
    """F [n, k] of `correlation`(a, a) = FFᵀ, of a covariance that is a weighted sum over modes."""
    return correlation(covariance, a, np.eye(a.shape[1]))


@dataclass(frozen=True)
class ClassStack:
    """Components of one space: their covariances, and α and R for each of J ratios."""

    covariances: Sequence[Covariance]
    labels: np.ndarray | None  # the labelled points [n, k]; None: α and R are of modes
    linear: Linear | None  # the covariances, if all are sums of modes
    ratios: np.ndarray  # [J]
    weights: np.ndarray  # [S, J]
    alpha: np.ndarray  # [S, J, C, n]
    R: np.ndarray  # [S, J, n, n]

    def at(self, a: np.ndarray, shared: SharedDistances) -> np.ndarray:
        """Sum over components of weight times probabilities at points a [m, k], [m, C]."""
        K = self._known(a, shared)
        found = np.zeros((self.alpha.shape[2], len(a)))
        for j, r in enumerate(self.ratios):
            variance = np.maximum(1 - np.einsum("smn,smn->sm", K @ self.R[:, j], K), 0.0) + r
            z = self.alpha[:, j] @ K.transpose(0, 2, 1)  # [S, C, m]
            z *= (LINK / np.sqrt(variance))[:, None]
            z -= z.max(1, keepdims=True)
            np.exp(z, out=z)
            found += np.einsum("sm,scm->cm", self.weights[:, j, None] / z.sum(1), z)
        return found.T

    def _known(self, a: np.ndarray, shared: SharedDistances) -> np.ndarray:
        """Correlations of points a [m, k] with the labels, or their modes, [S, m, n]."""
        if self.labels is None:
            return np.array([modes(covariance, a) for covariance in self.covariances])
        if self.linear is None:
            return np.array([correlation(covariance, a, self.labels, shared) for covariance in self.covariances])
        found, prior = self.linear.times([InSpace(a, self.labels)])
        found -= self.linear.constants
        found /= np.sqrt(np.maximum(prior - 1, LEAST))[..., None]
        return found


def in_labels_of(component: Any, labels: np.ndarray | None) -> np.ndarray | None:
    """The labels that the α of a component belong to; None where they are of modes."""
    return labels if labels is not None and len(labels) == component.alpha.shape[1] else None


def class_stacks(components: Sequence[Any], labels: np.ndarray | None) -> list[ClassStack]:
    """The stacks of components of one space, in which the labelled rows are `labels` [n, k]; None: all have modes."""
    groups: dict[Hashable, list[list[Any]]] = {}
    for component in components:
        covariance, n = component.candidate.covariance, component.alpha.shape[1]
        linear = isinstance(covariance, Spectral)
        kind = (linear, linear and covariance.offsets is None, n, *component.ratios.tolist())
        found = groups.setdefault(kind, [[]])
        if len(found[-1]) * n**2 >= ROOM:
            found.append([])
        found[-1].append(component)
    return [_stack(some, labels) for of_kind in groups.values() for some in of_kind]


def _stack(components: list[Any], labels: np.ndarray | None) -> ClassStack:
    first, covariances = components[0], [component.candidate.covariance for component in components]
    linear, own = None, in_labels_of(first, labels)
    if own is not None and isinstance(covariances[0], Spectral):
        scale = np.array([1 / np.sqrt(np.maximum(c.diag(own) - 1, LEAST)) for c in covariances])
        linear = Linear.of(covariances, own, scale[:, None] * np.eye(len(own)))
    return ClassStack(
        covariances, own, linear, first.ratios,
        np.array([component.weights for component in components]),
        np.array([component.alpha for component in components]).transpose(0, 1, 3, 2),
        np.array([component.R for component in components]),
    )  # fmt: skip
