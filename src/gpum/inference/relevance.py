"""Flat space with a length scale of its own for every column, learned from labels.

    k(x, x') = κ(d²),   d² = Σ_j ρ_j (x_j - x'_j)²        ρ_j: inverse squared length of column j
    ρ_j ~ half-Cauchy(τ)                                  most columns do not matter (SAAS, Eriksson and Jankowiak 2021)
    τ in `Priors.length_scale`, equally likely

With ρ_j = τ tan(π Φ(z_j)/2) the prior of z is N(0, I), Φ being the normal distribution function; so is that of
w, the log of the noise ratio r of `gp` less its mean, over its standard deviation. With σ_h² integrated as there,

    log p(y, z, w) = -a log b - ½ log|K + rI| - ½|z|² - ½w² + constant,   b = b0(r) + Q/2

is climbed by L-BFGS for each τ from each of STARTS. Around a maximum ẑ the posterior of z is about

    q(z) = N(ẑ, P⁻¹),   P = I + F,   F the Fisher information of the labels with w integrated

A *member* is a point z (the maximum, or a draw from q) with the log weight log p(z) - log q(z): times its evidence
p(y | z) this is what importance sampling with the proposal q makes of the evidence of all lengths, and at the maximum
it is Laplace's approximation. Many lengths that were fitted therefore pay for their fit, and no single maximum decides.

Of more than MOST_COLUMNS columns the first ones have a length each, and all others share one more: they count as one
column, whose squared distances are the means of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log, pi

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform
from scipy.special import logsumexp, ndtr, ndtri

from ..geometry.priors import Priors
from ..heat.covariances import CLOSED, stationary, stationary_rate
from ..heat.spectra import smoothness_of
from . import gp

STARTS = ((1.0, -0.7), (0.0, 1.0))  # z of all columns, and w: little noise and short lengths, much noise and long ones
DRAWS = 3  # members around each maximum, beside itself
LEAST_LABELS = 10  # see `usable`
MOST_COLUMNS = 200  # lengths: of more columns, the last is shared by all but the first ones
CHOOSING = 500  # labels that choose the first columns
# Scales at which kernels of other smoothness with the same lengths are most alike.
SCALES = {"matern12": 2.2, "matern32": 1.2, "matern52": 1.0, "heat": 0.75}
LARGEST_Z = 4.5  # ρ/τ from 5e-6 to 2e5
STEPS = 60  # of the climb
SAME = 1.0  # squared distance in units of q below which two maxima are one
SEEN = 250  # labels that the lengths are learned from; all labels weigh them
MANY = 200  # labels above which a kernel of full rank takes so long that few members are scored
LARGEST = 10**6  # numbers in the derivatives of K by all lengths


WIDE = -2.0, 1.5  # mean and standard deviation of log₁₀ r while lengths are learned
USUAL = Priors()


def ratio_units(repeated: bool, priors: Priors | None = None) -> tuple[float, float]:
    """Mean and standard deviation of log₁₀ r while lengths are learned: WIDE, unless rows were observed repeatedly."""
    return max((priors or USUAL).noise_of_copies)[1:] if repeated else WIDE


@dataclass(frozen=True)
class Member:
    """Inverse squared lengths of all columns, [p], and the log of their prior mass; see the module.

    `log_mass` is that times the density of the labels that taught them, with the noise of the maximum.
    """

    precision: np.ndarray
    log_weight: float
    log_mass: float


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows X [n, p], whose columns have comparable spreads, and labels Y [n, m] of variance about 1.

    Several columns of Y share lengths, noise ratio and σ_h².
    """

    X: np.ndarray
    Y: np.ndarray
    smoothness: str = "matern52"
    repeated: bool = False  # whether rows of the cloud are: the prior of the noise differs
    priors: Priors = field(default_factory=Priors)
    rest: np.ndarray | None = None  # [n, n], squared distances in further columns, which share one more length

    def of(self, index: np.ndarray) -> LabelledRows:
        """Some of the rows."""
        rest = None if self.rest is None else self.rest[np.ix_(index, index)]
        return replace(self, X=self.X[index], Y=self.Y[index], rest=rest)

    @property
    def n_lengths(self) -> int:
        """How many lengths there are: one for each column, and one for the rest."""
        return self.X.shape[1] + (self.rest is not None)

    def _squared_distances(self, rho: np.ndarray) -> np.ndarray:
        """d² between all rows, [n, n]."""
        d2 = squared_distances(self.X, rho[: self.X.shape[1]])
        return d2 if self.rest is None else d2 + rho[-1] * self.rest

    def _ratio(self, w: float) -> tuple[float, float]:
        """r and dr/dw."""
        mean, sd = ratio_units(self.repeated, self.priors)
        r = 10 ** (mean + sd * w)
        return r, r * log(10) * sd

    def objective(self, theta: np.ndarray, tau: float) -> tuple[float, np.ndarray]:
        """-log p(y, z, w) up to a constant, and its gradient, at theta = (z, w)."""
        rho, by_z = inverse_squares(theta[:-1], tau)
        r, by_w = self._ratio(theta[-1])
        (n, m), a0, b0 = self.Y.shape, self.priors.signal[0], self.priors.signal[1] / (1 + r)
        shape = a0 + n * m / 2
        k, slope = kernel(self._squared_distances(rho), self.smoothness)
        C_inverse, log_det = inverse(1 + k + r * np.eye(n))
        alpha = C_inverse @ self.Y
        b = b0 + 0.5 * float(np.sum(self.Y * alpha))
        value = a0 * log(b0) - shape * log(b) - 0.5 * m * log_det
        G = 0.5 * (shape / b * alpha @ alpha.T - m * C_inverse)  # by the entries of K + rI
        W = G * slope
        by_rho = 2 * (W.sum(1) @ self.X**2 - np.sum(self.X * (W @ self.X), 0))
        if self.rest is not None:
            by_rho = np.append(by_rho, np.sum(W * self.rest))
        by_b0 = a0 / b0 - shape / b
        by_r = np.trace(G) - by_b0 * b0 / (1 + r)
        grad = np.append(by_rho * by_z, by_r * by_w) - theta
        return -float(value - 0.5 * theta @ theta), -grad

    def information(self, theta: np.ndarray, tau: float) -> np.ndarray:
        """Fisher information of z, [p, p], where w and σ_h² are not known either."""
        X, p = self.X, self.n_lengths
        used = min(len(X), max(int((LARGEST / p) ** 0.5), 10))
        share = len(X) / used
        X = X[:used]
        rho, by_z = inverse_squares(theta[:-1], tau)
        r, by_w = self._ratio(theta[-1])
        k, slope = kernel(self._squared_distances(rho)[:used, :used], self.smoothness)
        C_inverse, _ = inverse(1 + k + r * np.eye(used))
        apart = (X.T[:, :, None] - X.T[:, None, :]) ** 2  # [p, n, n]
        if self.rest is not None:
            apart = np.concatenate([apart, self.rest[None, :used, :used]])
        products = C_inverse @ (by_z[:, None, None] * slope * apart)
        products = np.concatenate([products, by_w * C_inverse[None]])  # C⁻¹ ∂C for each of theta
        flat, turned = products.reshape(p + 1, -1), products.transpose(0, 2, 1).reshape(p + 1, -1)
        traces = np.trace(products, axis1=1, axis2=2)
        m = self.Y.shape[1]
        F = 0.5 * m * share * (flat @ turned.T - np.outer(traces, traces) / (used + 2 * self.priors.signal[0] / m))
        return F[:-1, :-1] - np.outer(F[:-1, -1], F[:-1, -1]) / (1 + F[-1, -1])

    def maximise(self, tau: float, start: np.ndarray) -> np.ndarray:
        """theta of a maximum."""
        mean, sd = ratio_units(self.repeated, self.priors)
        ends = (np.log10(gp.RATIOS[[0, -1]]) - mean) / sd
        bounds = [(-LARGEST_Z, LARGEST_Z)] * (len(start) - 1) + [(ends[0], ends[1])]
        optimum = minimize(
            self.objective, start, (tau,), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": STEPS, "ftol": 1e-6, "gtol": 1e-3},
        )  # fmt: skip
        return optimum.x


def maxima(labels: LabelledRows, tau: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """theta of each different maximum for one τ, from STARTS, and P of the posterior around it; see the module."""
    p, different = labels.n_lengths, list[tuple[np.ndarray, np.ndarray]]()
    for z0, w0 in STARTS:
        theta = labels.maximise(tau, np.append(np.full(p, z0), w0))
        apart = [(theta - other)[:-1] for other, _ in different]
        if not any(step @ P @ step < SAME for step, (_, P) in zip(apart, different, strict=True)):
            different.append((theta, np.eye(p) + labels.information(theta, tau)))
    return different


def members(labels: LabelledRows) -> list[Member]:
    """Members of all τ: maxima, and draws around each, which together estimate the mass of their surroundings.

    Above MANY labels there is a single member for each maximum, and above SEEN so many at random see the lengths.
    """
    rng, p, n = np.random.default_rng(0), labels.n_lengths, len(labels.X)
    draws = DRAWS if n <= MANY else 0
    if n > SEEN:
        index = np.sort(rng.permutation(n)[:SEEN])
        labels = labels.of(index)
    every = []
    scales = labels.priors.length_scale
    for tau in scales:
        for theta, P in maxima(labels, tau):
            z, w = theta[:-1], theta[-1]
            L = cholesky(P, lower=True)
            log_det = 2 * float(np.sum(np.log(np.diag(L))))
            for step in [np.zeros(p), *rng.standard_normal((draws, p))]:
                at = np.clip(z + solve_triangular(L, step, lower=True, trans=1), -LARGEST_Z, LARGEST_Z)
                log_weight = 0.5 * (step @ step - at @ at - log_det) - log(draws + 1) - log(len(scales))
                density = 0.5 * at @ at - labels.objective(np.append(at, w), tau)[0]
                every.append(Member(inverse_squares(at, tau)[0], float(log_weight), float(log_weight + density)))
    return every


def first_columns(labels: LabelledRows) -> np.ndarray:
    """Which columns have a length each, sorted: all up to MOST_COLUMNS, else MOST_COLUMNS - 1 of them.

    They are those by whose inverse squared length the density of (at most CHOOSING) labels rises fastest, where all
    columns have the one length at which it is largest.
    """
    p, n = labels.X.shape[1], len(labels.X)
    if p <= MOST_COLUMNS:
        return np.arange(p)
    labels = labels.of(np.sort(np.random.default_rng(0).permutation(n)[:CHOOSING]))
    together = replace(labels, X=labels.X[:, :0], rest=mean_square(labels.X))
    climbs = [together.maximise(1.0, np.array(start)) for start in STARTS]
    z, w = min(climbs, key=lambda theta: together.objective(theta, 1.0)[0])
    _, downwards = labels.objective(np.append(np.full(p, z), w), 1 / p)
    return np.sort(np.argsort(downwards[:-1], kind="stable")[: MOST_COLUMNS - 1])


def of_all_columns(labels: LabelledRows) -> list[Member]:
    """Members with a length for each of `first_columns`, and one that all other columns share."""
    first, p = first_columns(labels), labels.X.shape[1]
    others = np.setdiff1d(np.arange(p), first)
    if not len(others):
        return members(labels)
    every = []
    for member in members(replace(labels, X=labels.X[:, first], rest=mean_square(labels.X[:, others]))):
        precision = np.full(p, member.precision[-1] / len(others))
        precision[first] = member.precision[:-1]
        every.append(replace(member, precision=precision))
    return every


def matter(labels: LabelledRows, every: Sequence[Member]) -> bool:
    """Whether labels prefer a length for each column, of which these are the members, to one for all."""
    together = members(replace(labels, X=labels.X[:, :0], rest=mean_square(labels.X)))
    mass, of_one = (logsumexp([member.log_mass for member in some]) for some in (every, together))
    return bool(mass > of_one)


def heaviest(every: list[Member], n: int) -> list[Member]:
    """The n members of most mass, in their order; they take the mass of the others, in proportion to their own."""
    if len(every) <= n:
        return every
    mass = np.array([member.log_mass for member in every])
    kept = np.sort(np.argsort(-mass, kind="stable")[:n])
    more = float(logsumexp(mass) - logsumexp(mass[kept]))
    return [replace(every[k], log_weight=every[k].log_weight + more, log_mass=every[k].log_mass + more) for k in kept]


def log_odds(n_columns: int) -> float:
    """Log prior odds of a length for each column against any other geometry.

    Hundreds of columns, such as pixels of pictures, are more often measurements of one kind, and the columns that have
    lengths were then chosen by the labels. The power was found with simulated pictures: with 12 labels equal odds cost
    0.03 nats a row.
    """
    return 2 * log(min(1.0, MOST_COLUMNS / n_columns))


def mean_square(X: np.ndarray) -> np.ndarray:
    """The mean over columns of squared differences between all rows, [n, n]."""
    return squared_distances(X, np.full(X.shape[1], 1 / X.shape[1]))


def inverse(C: np.ndarray) -> tuple[np.ndarray, float]:
    """C⁻¹ and log|C| of a positive definite C [n, n], in a third of the time of solving with the unit matrix."""
    L, failed = dpotrf(C, lower=1)
    if failed:
        raise LinAlgError("a kernel with its noise is not positive definite")
    log_det = 2 * float(np.sum(np.log(np.diag(L))))
    lower = dpotri(L, lower=1)[0]  # zeros above the diagonal, as L
    whole = lower + lower.T
    np.fill_diagonal(whole, np.diag(lower))
    return whole, log_det


def inverse_squares(z: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """ρ and dρ/dz at z."""
    tail = ndtr(-np.abs(z))
    tangent = np.tan(0.5 * pi * tail)
    rho = tau * np.where(z < 0, tangent, 1 / tangent)
    return rho, rho * np.exp(-0.5 * z**2) * np.sqrt(0.5 * pi) / np.sin(pi * tail)


def z_of(rho: np.ndarray, tau: float) -> np.ndarray:
    """z at which inverse squared lengths are rho: the inverse of `inverse_squares`."""
    return np.clip(ndtri(2 / pi * np.arctan(rho / tau)), -LARGEST_Z, LARGEST_Z)


def squared_distances(X: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """d² between all rows, [n, n], from their differences: a far row takes no digits from the others."""
    return squareform(pdist(X * np.sqrt(rho), "sqeuclidean"))


def kernel(d2: np.ndarray, smoothness: str) -> tuple[np.ndarray, np.ndarray]:
    """κ and dκ/d(d²) of squared distances; as `Stationary` of length 1."""
    nu = smoothness_of(smoothness)
    if nu not in CLOSED and np.isfinite(nu):
        u = np.sqrt(d2)
        return stationary(nu, u), 0.5 * stationary_rate(nu, u)
    if np.isinf(nu):
        k = np.exp(-0.5 * d2)
        return k, -0.5 * k
    s = np.sqrt(2 * nu * d2)
    e = np.exp(-s)
    if nu == 0.5:
        return e, -0.5 * e / np.maximum(s, 1e-9)
    if nu == 1.5:
        return (1 + s) * e, -1.5 * e
    return (1 + s + s**2 / 3) * e, -5 / 6 * (1 + s) * e


def relative_scale(name: str, other: str) -> float:
    """The scale of a kernel over that of another one, at which the two are most alike."""
    return 1.0 if name == other else SCALES[name] / SCALES[other]


def usable(n_labels: int, n_columns: int, n_classes: int = 1) -> bool:
    """Whether so many labels (of so many classes; numbers are of one) and varying columns have members at all.

    One column has nothing to be compared with. A few labels cannot tell columns apart; with one label a class no two
    rows are known to be alike, and however many classes there are, nothing is known of lengths.
    """
    return n_labels - (n_classes - 1) >= LEAST_LABELS and n_columns >= 2


def spreads(rows: np.ndarray) -> np.ndarray:
    """The spread of each column of rows [N, p], NaN where a reading is missing; 0 for a constant column.

    It is the standard deviation without the last hundredth at each end, which a few outliers would decide; where that
    is 0, of all rows.
    """
    ends = np.nanquantile(rows, [0.01, 0.99], axis=0)
    inner, whole = np.nanstd(np.clip(rows, *ends), axis=0), np.nanstd(rows, axis=0)
    size = np.nanmax(np.abs(rows), axis=0)
    return np.where(whole <= 1e-12 * size, 0.0, np.where(inner > 1e-12 * size, inner, whole))


def strengths(inverse: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How much each column matters, from 0 to 1, [p].

    `inverse` [members, p] are spread over length for each column; of each member they are divided by the largest, and
    averaged with weights [members].
    """
    relative = inverse / np.maximum(inverse.max(1, keepdims=True), 1e-300)
    return np.minimum(weights @ relative / weights.sum(), 1.0)  # rounding may exceed it
