"""Gaussian process regression with any number of labels: every label, and every new row, sees the nearest labels only.

    C    K + r D of the m labels N nearest to x, where the signal has variance 1        (K, r, D: see `gp`)
    μ    kᵀC⁻¹y_N,   v = k(x, x) + r d - kᵀC⁻¹k,   Q = y_NᵀC⁻¹y_N,   k = K(N, x)

The signal's variance is s² on average, and may differ along the cloud: near x it is InvGamma(ν/2, ν s²/2) a priori, and
the m labels there say more of it, so that

    y(x) | y_N ~ t with ν + m degrees of freedom, mean μ, squared scale v (ν s² + Q)/(ν + m)

ν is one of SHARING; where it is infinite, s² is the same everywhere. The density of all labels is the product over
labels in a random order, each given its nearest among earlier ones (Vecchia 1988). It is a density of y whatever m is,
and so it is compared with the evidence of candidates that see all labels at once. s² has the prior of `gp` and is
integrated by Laplace's approximation.

Joint predictions of several rows take the labels that are nearest to any of them, and are exact given these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log, pi
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from ..basics import large_neighbours
from ..basics.workers import results
from ..heat.covariances import Stationary
from .exact import Decomposed, decompose

EXACT = 500  # labels up to which kernels of full rank see all labels at once, which takes seconds
SEEN = 128  # nearest labels of a new row, and of a label in the density of all labels
SHARING = np.array([np.inf, 256.0, 64.0, 16.0, 4.0])  # ν, equally likely
SCORED = 4096  # labels whose densities are computed, given others; of more, a random sample stands for all
FIRST, GROWTH = 256, 1.5  # labels of the first generation; earlier labels grow by this factor from one to the next
JOINT = 2000  # labels that joint predictions of several rows see
TREE_COLUMNS = 40  # columns up to which a tree finds nearest rows more quickly than products do
AT_ONCE = 2**14  # numbers in the matrices of a block: in larger ones most of the time goes to fresh memory
BLOCKS = 32  # of a task
LOG_SCALES = (-16.0, 12.0)  # of s²
LARGE = 1e30  # more than any yᵀC⁻¹y


@dataclass(frozen=True, eq=False)
class Nearest:
    """Labels y [n] of which a row sees the nearest; it takes the place of a decomposition of all of them.

    `precision` is 1/d of each label's noise, `sharing` is ν of each weight of the component.
    """

    y: np.ndarray
    sharing: np.ndarray
    precision: np.ndarray | float = 1.0

    @property
    def noise(self) -> np.ndarray:
        """d of each label, [n]."""
        return 1 / np.broadcast_to(np.asarray(self.precision, float), len(self.y))


@dataclass(frozen=True, eq=False)
class Search:
    """Finds the nearest of labelled points [n, p]."""

    points: np.ndarray
    tree: KDTree | None

    @classmethod
    def of(cls, points: np.ndarray) -> Search:
        """A search among these points."""
        return cls(points, KDTree(points) if points.shape[1] <= TREE_COLUMNS else None)

    def nearest(self, queries: np.ndarray, k: int) -> np.ndarray:
        """Indices [n, k] of the nearest points, the nearest first."""
        k = min(k, len(self.points))
        if self.tree is None:
            return large_neighbours.nearest(self.points, k, queries, n_jobs=1, device=False)[1]
        return self.tree.query(queries, k)[1].reshape(len(queries), k)

    def nearest_others(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Indices [n, k] of the nearest points to points of the search, `rows`, without these themselves."""
        k = min(k, len(self.points) - 1)
        index = self.nearest(self.points[rows], k + 1)
        itself = index == rows[:, None]  # among many copies it may not be there: the last one is left out then
        order = np.argsort(itself, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(index, order, 1)


@dataclass(frozen=True)
class Conditionals:
    """What the labels near each of n rows say: μ, v and Q of the module [n], and how many labels it sees, [n]."""

    mean: np.ndarray
    variance: np.ndarray
    quadratic: np.ndarray
    seen: np.ndarray

    def scale(self, sharing: float, s2: float) -> np.ndarray:
        """The variance of the signal near each row, [n]: the mean of its inverse gamma distribution."""
        if np.isinf(sharing):
            return np.full(len(self.mean), s2)
        dof = sharing + self.seen
        return (sharing * s2 + self.quadratic) / np.maximum(dof - 2, 1.0)

    def log_density(self, y: np.ndarray, sharing: float, s2: float) -> np.ndarray:
        """Of labels y at these rows, [n]."""
        error = (y - self.mean) ** 2 / self.variance
        if np.isinf(sharing):
            return -0.5 * (error / s2 + np.log(2 * pi * s2 * self.variance))
        dof = sharing + self.seen
        total = sharing * s2 + self.quadratic
        constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log(pi * total * self.variance)
        return constant - 0.5 * (dof + 1) * np.log1p(error / total)


def conditionals(
    covariance: Stationary, labels: np.ndarray, d: Nearest, r: float, queries: np.ndarray, index: np.ndarray,
    noise: np.ndarray | float = 1.0,
) -> Conditionals:  # fmt: skip
    """What labels `index` [n, m] say at queries [n, p]; an index of -1 is no label. `noise` is d of the queries."""
    n, m = index.shape
    of_labels = d.noise
    of_queries = np.broadcast_to(noise, n)
    i, j = np.tril_indices(m, -1)
    below, diagonal = i * (m + 2) + j, np.arange(m) * (m + 3)  # in C with two rows more, of one dimension

    def block(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        near, gone = index[rows], index[rows] < 0
        points = labels[near] - queries[rows][:, None]  # differences of near rows, which lose no digits
        squares = np.einsum("nmp,nmp->nm", points, points)
        ones = np.ones((*near.shape, 1))
        between = np.concatenate([points, squares[..., None], ones], 2)
        between = between @ np.concatenate([-2 * points, ones, squares[..., None]], 2).transpose(0, 2, 1)
        apart = between.reshape(len(near), -1)[:, i * m + j]
        np.sqrt(np.maximum(apart, 0.0, out=apart), out=apart)
        prior = covariance.diag(queries[rows])
        C = np.zeros((len(near), (m + 2) ** 2))
        C[:, below] = covariance.at_distances(apart)
        C[:, diagonal] = prior[:, None] + r * of_labels[near]
        C = C.reshape(-1, m + 2, m + 2)
        C[:, m, :m], C[:, m, m] = covariance.at_distances(np.sqrt(squares)), prior + r * of_queries[rows]
        C[:, m + 1, :m], C[:, m + 1, m + 1] = d.y[near], LARGE
        if gone.any():
            beside = np.concatenate([gone, np.zeros((len(gone), 2), bool)], 1)
            C[beside[:, :, None] | beside[:, None]] = 0.0
            C[:, np.arange(m), np.arange(m)] += gone
        return of_bordered(C)

    size = max(1, AT_ONCE // m**2)
    blocks = [slice(k, k + size) for k in range(0, n, size)]
    of_task = lambda begin: [block(rows) for rows in blocks[begin : begin + BLOCKS]]
    tasks = [partial(of_task, begin) for begin in range(0, len(blocks), BLOCKS)]
    parts = [part for done in results(tasks, None, here=True) for part in done]
    mean, variance, quadratic = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Conditionals(mean, variance, quadratic, np.sum(index >= 0, 1))


def of_bordered(C: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ, v and Q [b] from the lower triangles of C [b, m + 2, m + 2], which end in (k, v + kᵀC⁻¹k) and (y, 0, LARGE).

    The last two rows of their Cholesky factors are (L⁻¹k, √v) and L⁻¹y. Where rounding makes one of them indefinite,
    all are solved by elimination.
    """
    m = C.shape[1] - 2
    try:
        factors = np.linalg.cholesky(C)
    except np.linalg.LinAlgError:
        k, y, prior = C[:, m, :m], C[:, m + 1, :m], C[:, m, m]
        C = np.tril(C[:, :m, :m]) + np.tril(C[:, :m, :m], -1).transpose(0, 2, 1)
        solved = np.linalg.solve(C, np.stack([k, y], 2))
        variance = np.maximum(prior - np.einsum("nm,nm->n", solved[..., 0], k), 1e-12 * prior)
        mean, quadratic = np.einsum("nm,nmj->jn", y, solved)
        return mean, variance, np.maximum(quadratic, 0.0)
    of_k, of_y = factors[:, m, :m], factors[:, m + 1, :m]
    variance = np.maximum(factors[:, m, m] ** 2, 1e-12 * C[:, m, m])
    return np.einsum("nm,nm->n", of_k, of_y), variance, np.einsum("nm,nm->n", of_y, of_y)


def sample(n: int) -> np.ndarray:
    """The index of SCORED of n labels, at random but always the same, ascending."""
    return np.sort(np.random.default_rng(1).permutation(n)[:SCORED])


def earlier(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """SCORED labels, in a random order of all, and the nearest SEEN of each among earlier ones, -1 where none is left.

    Labels come in generations. Those of the first see all before them, the others all labels of earlier generations.
    """
    n = len(points)
    order = np.random.default_rng(0).permutation(n)
    positions = sample(n)
    rows, index = order[positions], np.full((len(positions), SEEN), -1)
    begin, end = 0, min(FIRST, n)
    while begin < n:
        these = np.flatnonzero((positions >= begin) & (positions < end))
        if begin == 0:
            apart = cdist(points[order[:end]], points[order[:end]])
            for j in these:
                before = np.argsort(apart[positions[j], : positions[j]], kind="stable")[:SEEN]
                index[j, : len(before)] = order[before]
        elif len(these):
            index[these] = order[Search.of(points[order[:begin]]).nearest(points[rows[these]], SEEN)]
        begin, end = end, min(int(GROWTH * end), n)
    return rows, index


def log_masses(
    covariance: Stationary, labels: np.ndarray, d: Nearest, r: float, shape: float, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """log p(y) and the s² it is largest for, [J] each, for every ν in `d.sharing`; s² ~ InvGamma(shape, rate)."""
    rows, index = earlier(labels)
    noise = d.noise[rows]
    at, y = conditionals(covariance, labels, d, r, labels[rows], index, noise), d.y[rows]
    each = len(labels) / len(rows)  # labels that one of the sample stands for
    prior = shape * log(rate) - float(gammaln(shape))

    def log_joint(u: float, sharing: float) -> float:
        s2 = np.exp(u)
        return each * float(at.log_density(y, sharing, s2).sum()) + prior - shape * u - rate / s2

    masses, scales = [], []
    for sharing in d.sharing:
        u = _maximum(partial(log_joint, sharing=sharing))
        step = 0.05
        value, *beside = (log_joint(v, sharing) for v in (u, u - step, u + step))
        curvature = max((2 * value - sum(beside)) / step**2, 1e-6)
        masses.append(value + 0.5 * log(2 * pi / curvature))
        scales.append(float(np.exp(u)))
    return np.array(masses), np.array(scales)


def _maximum(of: Callable[[float], float]) -> float:
    """Where a function of log s² is largest."""
    return float(minimize_scalar(lambda u: -of(u), bounds=LOG_SCALES, method="bounded", options={"xatol": 1e-4}).x)


def leave_one_out(component: Any, labels: np.ndarray, asked: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance [n, J] of each label as the others predict it, or [m, J] of some, with an index [m]."""
    d, r = component.d, float(component.ratios[0])
    rows = np.arange(len(labels)) if asked is None else asked
    index = Search.of(labels).nearest_others(rows, SEEN)
    at = conditionals(component.candidate.covariance, labels, d, r, labels[rows], index, d.noise[rows])
    scales = np.stack([at.scale(nu, s2) for nu, s2 in zip(d.sharing, component.signal, strict=True)], 1)
    return np.repeat(at.mean[:, None], len(d.sharing), 1), scales * at.variance[:, None]


@dataclass(frozen=True, eq=False)
class NearestStack:
    """A component of a posterior at many rows, as `stacked.Stack` has those that see all labels."""

    numbers: list[int]
    component: Any
    labels: np.ndarray
    search: Search
    signal: np.ndarray  # [1, 1, J]
    weights: np.ndarray  # [1, J]
    prior: np.ndarray  # [1, 1, 1]
    size: int = 1

    @classmethod
    def of(cls, number: int, component: Any, labels: np.ndarray) -> NearestStack:
        """The component with this number, whose labels lie at these points."""
        prior = np.array([[[component.candidate.covariance.prior]]])
        return cls(
            [number], component, labels, Search.of(labels), component.signal[None, None], component.weights[None], prior
        )

    @property
    def spaces(self) -> list[int]:
        """The one space of the component."""
        return [self.component.candidate.space]

    @property
    def parts(self) -> list[slice]:
        """It is all that there is on this space."""
        return [slice(None)]

    def at(self, points: Sequence[Any], sigma_points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, variances of f and of noise [1, n, J] at rows with so many equally likely points each."""
        component, d = self.component, self.component.d
        r, a = float(component.ratios[0]), points[0].a
        index = self.search.nearest(a, SEEN)
        at = conditionals(component.candidate.covariance, self.labels, d, r, a, index)
        scales = np.stack([at.scale(nu, s2) for nu, s2 in zip(d.sharing, component.signal, strict=True)], 1)
        means = np.repeat(at.mean[:, None], scales.shape[1], 1).reshape(sigma_points, -1, scales.shape[1])
        of_f = np.maximum(at.variance - r, 1e-12)[:, None]
        variances, noise = ((scales * v).reshape(means.shape) for v in (of_f, r))
        mean = means.mean(0)
        variance = variances.mean(0) + np.square(means - mean).mean(0)
        return mean[None], variance[None], noise.mean(0)[None]


def near(component: Any, labels: np.ndarray, *queries: np.ndarray) -> tuple[Decomposed, np.ndarray]:
    """An exact decomposition of the labels nearest to any of the queries, and these labels' points."""
    search, total = Search.of(labels), sum(map(len, queries))
    k = int(np.clip(JOINT // max(total, 1), 1, SEEN))
    union = np.unique(np.concatenate([search.nearest(rows, k).ravel() for rows in queries]))
    if len(union) > JOINT:
        union = np.sort(np.random.default_rng(0).permutation(union)[:JOINT])
    d = component.d
    noise = None if np.all(np.asarray(d.precision) == 1) else d.noise[union]
    return decompose(component.candidate.covariance, labels[union], d.y[union], noise), labels[union]
