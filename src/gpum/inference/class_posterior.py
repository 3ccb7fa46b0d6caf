"""The posterior of classes, and the class probabilities of rows that it gives (`classes` makes it).

For a row x with the correlations K(x) [n] to the labels, a component with the noise ratio r has

    p(class) = softmax(LINK αᵀK / √(1 - KᵀRK + r))

in the kernel without its constant, scaled to k(x, x) = 1. The mean over the components is sharpened, p_c ∝ p_c^γ, and
averaged over γ. Components of one space form stacks of about ROOM numbers of R: a block of rows needs few calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from ..geometry.candidate_set import Candidate
from ..heat.covariances import Covariance, SharedDistances, Spectral
from .decisions import SHARPNESS
from .posterior import Mixture, RowsInSpaces, WeightedCandidate
from .probit import LINK
from .stacked import InSpace, LinearKernels
from .tempered import Considered

ROOM = 2**16
AS_THEY_ARE = np.eye(len(SHARPNESS))[0]  # weights of γ = 1
LEAST = 1e-12  # variance of a kernel without its constant at a point


@dataclass(frozen=True)
class ClassComponent(WeightedCandidate):
    """A component of the posterior: a candidate with one weight for each ratio r."""

    candidate: Candidate
    ratios: np.ndarray  # [J]
    weights: np.ndarray  # [J]
    alpha: np.ndarray  # [J, n, C], or of k modes
    R: np.ndarray  # [J, n, n]


@dataclass(frozen=True)
class ClassPosterior(Mixture[ClassComponent]):
    """A mixture over candidates and ratios, and the weights of each sharpness γ."""

    components: list[ClassComponent]
    labels: list[np.ndarray | None]  # the labelled rows in each space in which a component has α and R in labels
    n_classes: int
    sharpness: np.ndarray  # weights of SHARPNESS
    log_evidence: float
    left_out: np.ndarray  # probabilities of each label's row as the other labels say, [n, C]
    notes: tuple[str, ...] = ()
    considered: Considered | None = None

    def probabilities(self, rows: RowsInSpaces) -> np.ndarray:
        """Probability of each class, [n, C]. A row far from a geometry has equal probabilities there."""
        total = np.zeros((len(rows), self.n_classes))
        shared = [SharedDistances() for _ in range(max(1, *map(len, rows.sigma_points)))]
        for k, stacks in self._stacks.items():
            at = rows.at[k]
            assert at is not None, "rows were not projected for a space that the posterior uses"
            points = rows.sigma_points[k] or [at]
            for stack in stacks:
                p = sum(stack.at(b, of) for b, of in zip(points, shared, strict=False)) / len(points)
                total += np.where(rows.far[k][:, None], stack.weights.sum() / self.n_classes, p)
        return sharpened(total / total.sum(1, keepdims=True), self.sharpness)

    @cached_property
    def _stacks(self) -> dict[int, list[ClassStack]]:
        """The components of each space."""
        of_space: dict[int, list[ClassComponent]] = {}
        for component in self.components:
            of_space.setdefault(component.candidate.space, []).append(component)
        return {k: class_stacks(components, self.labels[k]) for k, components in of_space.items()}

    def known(self, component: ClassComponent, b: np.ndarray) -> np.ndarray:
        """k(x) of rows b: correlations with the labels, or modes, as a component's α and R have them."""
        covariance = component.candidate.covariance
        labels = in_labels_of(component, self.labels[component.candidate.space])
        return modes(covariance, b) if labels is None else correlation(covariance, b, labels)


def sharpened(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """p_c^γ, normalised, averaged over γ."""
    log_p = np.log(np.maximum(p, 1e-300))
    return sum(w * softmax(gamma * log_p, axis=1) for gamma, w in zip(SHARPNESS, weights, strict=True) if w)


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
    linear: LinearKernels | None  # the covariances, if all are sums of modes
    ratios: np.ndarray  # [J]
    weights: np.ndarray  # [S, J]
    alpha: np.ndarray  # [S, J, C, n]
    R: np.ndarray  # [S, J, n, n]

    def at(self, a: np.ndarray, shared: SharedDistances) -> np.ndarray:
        """Sum over components of weight times probabilities at points a [m, k], [m, C]."""
        K = self._known(a, shared)
        total = np.zeros((self.alpha.shape[2], len(a)))
        for j, r in enumerate(self.ratios):
            variance = np.maximum(1 - np.einsum("smn,smn->sm", K @ self.R[:, j], K), 0.0) + r
            z = self.alpha[:, j] @ K.transpose(0, 2, 1)  # [S, C, m]
            z *= (LINK / np.sqrt(variance))[:, None]
            z -= z.max(1, keepdims=True)
            np.exp(z, out=z)
            total += np.einsum("sm,scm->cm", self.weights[:, j, None] / z.sum(1), z)
        return total.T

    def _known(self, a: np.ndarray, shared: SharedDistances) -> np.ndarray:
        """Correlations of points a [m, k] with the labels, or their modes, [S, m, n]."""
        if self.labels is None:
            return np.array([modes(covariance, a) for covariance in self.covariances])
        if self.linear is None:
            return np.array([correlation(covariance, a, self.labels, shared) for covariance in self.covariances])
        products, prior = self.linear.times([InSpace(a, self.labels)])
        products -= self.linear.constants
        products /= np.sqrt(np.maximum(prior - 1, LEAST))[..., None]
        return products


def in_labels_of(component: ClassComponent, labels: np.ndarray | None) -> np.ndarray | None:
    """The labels that the α of a component belong to; None where they are of modes."""
    return labels if labels is not None and len(labels) == component.alpha.shape[1] else None


def class_stacks(components: Sequence[ClassComponent], labels: np.ndarray | None) -> list[ClassStack]:
    """The stacks of components of one space, in which the labelled rows are `labels` [n, k]; None: all have modes."""
    groups: dict[Hashable, list[list[ClassComponent]]] = {}
    for component in components:
        covariance, n = component.candidate.covariance, component.alpha.shape[1]
        linear = isinstance(covariance, Spectral)
        without_offsets = isinstance(covariance, Spectral) and covariance.offsets is None
        kind = (linear, without_offsets, n, *component.ratios.tolist())
        batches = groups.setdefault(kind, [[]])
        if len(batches[-1]) * n**2 >= ROOM:
            batches.append([])
        batches[-1].append(component)
    return [_stack(batch, labels) for of_kind in groups.values() for batch in of_kind]


def _stack(components: list[ClassComponent], labels: np.ndarray | None) -> ClassStack:
    first, covariances = components[0], [component.candidate.covariance for component in components]
    linear, points = None, in_labels_of(first, labels)
    if points is not None and isinstance(covariances[0], Spectral):
        scale = np.array([1 / np.sqrt(np.maximum(c.diag(points) - 1, LEAST)) for c in covariances])
        linear = LinearKernels.of(covariances, points, scale[:, None] * np.eye(len(points)))
    return ClassStack(
        covariances, points, linear, first.ratios,
        np.array([component.weights for component in components]),
        np.array([component.alpha for component in components]).transpose(0, 1, 3, 2),
        np.array([component.R for component in components]),
    )  # fmt: skip
