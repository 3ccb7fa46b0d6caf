"""Length scales learned from any number of labels: the density of each label given its nearest ones is climbed.

    C    K + r I of a label i and its m nearest labels B, where the signal has variance 1        (as in `nearest`)
    u, α    columns i of C⁻¹ and C⁻¹y_B;   c = u_i, a = α_i

    log p(y_i | its nearest) = ½ log c - log s - ½ a²/(c s²) + constant
    ∂/∂C                     = -½ (1/c + a²/(c² s²)) uuᵀ + a/(c s²) ½(uαᵀ + αuᵀ)

Several columns of labels, as of codes of classes, have C and s in common, and their log densities add up.

Lengths have the prior of `relevance`, with τ = TAU, or with one of SPARSE where the climb begins at what a few labels
say, each of which sees all others: z ~ N(0, I), and so has w of the noise ratio. The sum over labels is climbed by Adam
(Kingma and Ba 2015) in batches of labels drawn at random; neighbours are searched for again, in the present lengths,
every AGAIN steps. Each climb gives one candidate. Its log weight is Laplace's approximation of the
mass around the maximum, with the empirical Fisher information of the labels,

    -½|z|² - ½ w² - ½ Σ_j log(1 + n mean g_j²)        g_j: the gradient of one label by z_j or w
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log

import numpy as np

from ..basics.workers import results
from . import gp
from .nearest import AT_ONCE, Search
from .relevance import (
    LARGEST_Z,
    SCALES,
    SEEN,
    STARTS,
    LabelledRows,
    inverse_squares,
    kernel,
    maxima,
    ratio_units,
    z_of,
)  # fmt: skip

NEIGHBOURS = 24  # m
SHOWN = 1024  # labels whose densities compare candidates
BATCH = 256  # labels of a batch
CENTRES = 4096  # labels whose densities are climbed; of more, a random sample, which sees all labels
STEPS, FURTHER, AGAIN = 150, 50, 50  # of a climb; of one from another candidate's maximum; between two searches
RATE, MEAN, SQUARE = 0.1, 0.9, 0.99  # of Adam: the size of its steps, and its two averages
TAU = 0.1
SPARSE = (0.01, 0.03, 0.1)  # τ of the lengths that a few labels teach
HOPELESS = 100.0  # nats behind the best candidate, beside three standard errors


@dataclass(frozen=True)
class Candidate:
    """Inverse squared lengths of all columns [p], the noise ratio, a kernel, and the log of the prior mass.

    `densities` are log densities of some labels, the same for all candidates, given their nearest.
    """

    precision: np.ndarray
    ratio: float
    smoothness: str
    log_weight: float
    densities: np.ndarray


@dataclass(frozen=True)
class Climb:
    """What is climbed: labels Y [n, k] of variance about 1 at rows X [n, p], columns of comparable spread.

    `groups` [p] is which length each column has. theta is z of each group, w and log s.
    """

    X: np.ndarray
    Y: np.ndarray
    groups: np.ndarray
    smoothness: str
    repeated: bool
    tau: float = TAU

    def run(self, theta: np.ndarray, steps: int) -> tuple[np.ndarray, Candidate]:
        """theta at the end, and the candidate that it is."""
        n, rng = len(self.X), np.random.default_rng(0)
        centres = np.sort(rng.permutation(n)[:CENTRES])
        mean, square = np.zeros_like(theta), np.zeros_like(theta)
        queue = np.empty(0, int)
        for step in range(steps):
            if step % AGAIN == 0:
                index = self._neighbours(theta, centres)
            if len(queue) < min(BATCH, len(centres)):
                queue = np.concatenate([queue, rng.permutation(len(centres))])
            batch, queue = queue[:BATCH], queue[BATCH:]
            _, gradient = self._of(theta, index[batch])
            gradient = gradient.mean(0) - np.append(theta[:-1], 0.0) / n
            mean = MEAN * mean + (1 - MEAN) * gradient
            square = SQUARE * square + (1 - SQUARE) * gradient**2
            # The first half of the steps has the full size, the second goes down to a twentieth.
            size = RATE * min(1.0, 1.95 - 1.9 * step / steps)
            move = mean / (1 - MEAN ** (step + 1)) / (np.sqrt(square / (1 - SQUARE ** (step + 1))) + 1e-10)
            theta = self._inside(theta + size * move)
        shown = np.random.default_rng(1).permutation(len(centres))[:SHOWN]  # however many batches were drawn
        densities, gradient = self._of(theta, self._neighbours(theta, centres[shown]))
        information = n * np.mean(gradient[:, :-1] ** 2, 0)
        prior, sd = ratio_units(self.repeated)
        log_weight = -0.5 * float(np.sum(theta[:-1] ** 2) + np.sum(np.log1p(information)))
        rho = inverse_squares(theta[:-2], self.tau)[0][self.groups]
        return theta, Candidate(rho, float(10 ** (prior + sd * theta[-2])), self.smoothness, log_weight, densities)

    def of_few(self) -> tuple[Climb, np.ndarray]:
        """The same with τ, and theta, at the largest mass that a few labels have, of which each sees all others.

        Among hundreds of columns the nearest labels of a start are no nearer than others, and say nothing.
        """
        some = np.sort(np.random.default_rng(0).permutation(len(self.X))[:SEEN])
        few = LabelledRows(self.X[some], self.Y[some], self.smoothness, self.repeated)
        best = -np.inf, self, np.empty(0)
        for tau in SPARSE:
            for theta, information in maxima(few, tau):
                mass = -few.objective(theta, tau)[0] - 0.5 * float(np.linalg.slogdet(information)[1])
                best = max(best, (mass, replace(self, tau=tau), np.append(theta, 0.0)), key=lambda one: one[0])
        return best[1:]

    def _inside(self, theta: np.ndarray) -> np.ndarray:
        """theta within the range of lengths and noise ratios."""
        mean, sd = ratio_units(self.repeated)
        low, high = (np.log10(gp.RATIOS[[0, -1]]) - mean) / sd
        z = np.clip(theta[:-2], -LARGEST_Z, LARGEST_Z)
        return np.concatenate([z, np.clip(theta[-2:-1], low, high), np.clip(theta[-1:], -8.0, 6.0)])

    def _neighbours(self, theta: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """Each of the centres and its nearest labels, [centres, 1 + m]."""
        rho = inverse_squares(theta[:-2], self.tau)[0][self.groups]
        others = Search.of(self.X * np.sqrt(rho)).nearest_others(centres, NEIGHBOURS)
        return np.concatenate([centres[:, None], others], 1)

    def _of(self, theta: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities [b] of the first label of each block, and their gradients by theta [b, ...]."""
        size = max(1, AT_ONCE // index.shape[1] ** 2)
        rho, by_z = inverse_squares(theta[:-2], self.tau)
        parts = [self._of_block(theta, rho, by_z, index[k : k + size]) for k in range(0, len(index), size)]
        densities, gradients = (np.concatenate(part) for part in zip(*parts, strict=True))
        return densities, gradients

    def _of_block(
        self, theta: np.ndarray, rho: np.ndarray, by_z: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `_of`. Where G = ∂/∂C is uγᵀ + γuᵀ, only uγᵀ is computed: the distances are symmetric."""
        w, log_s = theta[-2:]
        mean, sd = ratio_units(self.repeated)
        r, s2 = 10 ** (mean + sd * w), np.exp(2 * log_s)
        X = self.X[index] - self.X[index[:, :1]]
        A = X * np.sqrt(rho[self.groups])
        squares, ones = np.einsum("bmp,bmp->bm", A, A)[..., None], np.ones((*index.shape, 1))
        between = np.concatenate([A, squares, ones], 2)
        between = between @ np.concatenate([-2 * A, ones, squares], 2).transpose(0, 2, 1)
        np.maximum(between, 0.0, out=between)
        diagonal = np.arange(index.shape[1])
        between[:, diagonal, diagonal] = 0.0
        gram, slope = kernel(between, self.smoothness)
        C = 1 + gram
        C[:, diagonal, diagonal] += r
        k = self.Y.shape[1]
        right = np.zeros((*index.shape, 1 + k))
        right[:, 0, 0], right[:, :, 1:] = 1.0, self.Y[index]
        solved = np.linalg.solve(C, right)
        u, alpha = solved[..., 0], solved[..., 1:]
        c, a = u[:, 0], alpha[:, 0]
        square = np.sum(a**2, 1) / (c * s2)
        gamma = -0.25 * ((k + square) / c)[:, None] * u + np.einsum("bmk,bk->bm", alpha, 0.5 * a / (c * s2)[:, None])
        W = u[:, :, None] * gamma[:, None] * slope
        if len(rho) == 1:  # Σ_p of what follows, without a number for each column
            by_rho = 2 * np.einsum("bmn,bmn->b", W, between)[:, None] / rho
        else:
            by_rho = np.einsum("bm,bmp->bp", W.sum(1) + W.sum(2), X**2) - 2 * np.einsum("bmp,bmp->bp", X, W @ X)
            by_rho = 2 * by_rho @ (self.groups[:, None] == np.arange(len(rho)))
        by_r = 2 * np.einsum("bm,bm->b", u, gamma)
        gradient = np.column_stack([by_rho * by_z, by_r * r * log(10) * sd, square - k])
        return k * (0.5 * np.log(c) - log_s) - 0.5 * square, gradient


def maximised(
    X: np.ndarray, Y: np.ndarray, groups: np.ndarray, smoothness: Sequence[str], repeated: bool
) -> list[Candidate]:
    """Candidates for labels Y [n, k] at rows X [n, p]; `groups` [p] is which length each column has.

    The kernel of middle smoothness is climbed from each of STARTS, where each column has a length also from what a few
    labels say (`Climb.of_few`); the others from the best of its maxima.
    """
    middle = "matern52" if "matern52" in smoothness else smoothness[0]
    first = Climb(X, Y, groups, middle, repeated)
    begin = [(first, np.array([*[z] * (groups.max() + 1), w, 0.0])) for z, w in STARTS]
    if groups.max() + 1 == X.shape[1]:
        begin.append(first.of_few())
    ends = list(results([partial(climb.run, start, STEPS) for climb, start in begin], None, here=True))
    (best, _), (theta, _) = max(zip(begin, ends, strict=True), key=lambda pair: pair[1][1].densities.mean())
    tasks = []
    for name in smoothness:
        if name != middle:
            alike = inverse_squares(theta[:-2], best.tau)[0] * (SCALES[middle] / SCALES[name]) ** 2
            start = np.concatenate([z_of(alike, best.tau), theta[-2:]])
            tasks.append(partial(replace(best, smoothness=name).run, start, FURTHER))
    return [candidate for _, candidate in [*ends, *results(tasks, None, here=True)]]


def refined(X: np.ndarray, Y: np.ndarray, like: Candidate, repeated: bool) -> Candidate:
    """A candidate for labels Y [n, k] at rows X [n, p], with one length for all columns, from one like it."""
    mean, sd = ratio_units(repeated)
    start = np.array([float(z_of(like.precision[:1], TAU)[0]), (np.log10(like.ratio) - mean) / sd, 0.0])
    climb = Climb(X, Y, np.zeros(X.shape[1], int), like.smoothness, repeated)
    return climb.run(climb._inside(start), FURTHER)[1]


def hopeful(candidates: Sequence[Candidate], n: int) -> list[bool]:
    """Which candidates are not so far behind the best, on some of n labels, that they have no weight."""
    densities = np.array([candidate.densities for candidate in candidates])
    behind = densities[np.argmax(densities.mean(1))] - densities
    error = behind.std(1) / np.sqrt(behind.shape[1])
    return (n * (behind.mean(1) - 3 * error) <= HOPELESS).tolist()
