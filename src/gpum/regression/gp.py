"""Gaussian process regression, given a family of covariances.

    y_i = f(x_i) + ε_i,    f ~ GP(0, σ_h² K),    ε_i ~ N(0, σ²),    r = σ²/σ_h²

y is centred and scaled before it comes here. A *setting* is one covariance K (a domain, a smoothness, a scale). On the
labels K = U S Uᵀ, and with z = Uᵀy everything is a sum over eigenvalues:

    log p(y | σ_h², r) = -½ (Q/σ_h² + log|K + rI| + n log 2πσ_h²),   Q = Σ z²/(S + r) + (|y|² - |z|²)/r
    mean(x) = k(x)U (z/(S + r)),   var(x) = σ_h² (K(x, x) - Σ (k(x)U)²/(S + r))          (errata 4)

"average": r runs over a grid (log₁₀ r ~ N(-3, 1)), σ_h² ~ InvGamma(A0, B0) is integrated in closed form, which makes
each prediction a Student t with 2a degrees of freedom, a = A0 + n/2, b = B0 + Q/2; settings and ratios are weighted
by evidence times prior. "evidence": the one setting, scale, σ_h² and r of largest evidence.

Without label i (C = K + rI, α = C⁻¹y, c = C⁻¹_ii) the same numbers follow from those of all labels:

    mean = y_i - α_i/c,   var = σ_h²/c,   Q₋ᵢ = Q - α_i²/c,   |C₋ᵢ| = |C| c
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.optimize.elementwise import find_root
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student

from .covariances import Covariance

A0, B0 = 1.0, 1.0  # σ_h² ~ InvGamma: median 1.4, heavy above
RATIOS = np.logspace(-6, 0, 13)  # r: noise between 0.1 % and 100 % of the signal's sd
RATIO_MEAN, RATIO_SD = -3.0, 1.0  # of log₁₀ r: noise of 3 % of the signal's sd, give or take a factor of 3
LEAST_RATIO = 1e-4  # for "evidence", which would let the noise vanish: at least 1 % of the signal's sd
KEEP = 1e-3  # settings lighter than this, relative to the heaviest, are dropped


@dataclass(frozen=True)
class Setting:
    """One covariance, the space whose representation it takes, its log prior weight, and what it is in words."""

    covariance: Covariance
    space: int
    log_prior: float
    info: dict[str, Any]


@dataclass(frozen=True)
class Decomposed:
    """K = U S Uᵀ on the labels and y in that basis."""

    U: np.ndarray  # [n, k]
    S: np.ndarray
    z: np.ndarray
    rest: float  # |y|² outside the span of U

    def quadratic(self, r: Any) -> np.ndarray:
        """Q for each ratio."""
        r = np.atleast_1d(r)
        return (self.z**2) @ (1 / (self.S[:, None] + r)) + self.rest / r

    def log_det(self, r: Any) -> np.ndarray:
        """log|K + rI| for each ratio."""
        r = np.atleast_1d(r)
        return np.log(self.S[:, None] + r).sum(0) + (len(self.U) - len(self.S)) * np.log(r)


def units(y: np.ndarray) -> tuple[float, float]:
    """Mean and scale by which labels come to the units of this module."""
    mean, scale = float(y.mean()), float(y.std())
    if scale <= 1e-12 * max(abs(mean), 1e-300):  # one label, or all the same
        scale = abs(mean) if mean else 1.0
    return mean, scale


def _ratio_prior() -> np.ndarray:
    """Log prior weights of RATIOS."""
    log_p = -0.5 * ((np.log10(RATIOS) - RATIO_MEAN) / RATIO_SD) ** 2
    return log_p - logsumexp(log_p)


def decompose(covariance: Covariance, a: np.ndarray, y: np.ndarray) -> Decomposed:
    """Eigenvalues of the Gram matrix on labels a, from n × n or, where that is smaller, k × k."""
    F = covariance.factor(a)
    if F is not None and F.shape[1] < len(a):
        S, V = eigh(F.T @ F)
        keep = 1e-12 * max(S[-1], 1e-300) < S
        S = S[keep]
        U = F @ (V[:, keep] / np.sqrt(S))
    else:
        S, U = eigh(covariance.gram(a, a))
        S = np.maximum(S, 0.0)
    z = U.T @ y
    rest = max(float(y @ y - z @ z), 0.0) if len(S) < len(y) else 0.0
    return Decomposed(U, S, z, rest)


def log_evidence(
    covariance: Covariance, a: np.ndarray, y: np.ndarray, log_signal: float, log_noise: float
) -> tuple[float, np.ndarray]:
    """log p(y) and its gradient in (log scale, log σ_h², log σ²)."""
    signal, noise = np.exp(log_signal), np.exp(log_noise)
    d, r, n = decompose(covariance, a, y), noise / signal, len(y)
    Q, logdet = float(d.quadratic(r)[0]), float(d.log_det(r)[0])
    value = -0.5 * (Q / signal + logdet + n * (log_signal + log(2 * pi)))
    alpha = d.U @ (d.z / (d.S + r)) + (y - d.U @ d.z) / r  # (K + rI)⁻¹ y
    inverse = 1 / (d.S + r)
    moved = covariance.slope(a, np.concatenate([alpha[:, None], d.U], 1))
    by_scale = 0.5 * (moved[0] / signal - moved[1:] @ inverse)
    square = float(alpha @ alpha)  # Q = yᵀ(K + rI)⁻¹y splits into K's and the noise's part
    trace = float(inverse.sum()) + (n - len(d.S)) / r
    by_noise = 0.5 * r * (square / signal - trace)
    by_signal = 0.5 * (Q / signal - n) - by_noise
    return value, np.array([by_scale, by_signal, by_noise])


@dataclass(frozen=True)
class Part:
    """A setting with its share of the posterior: one weight, and one E[σ_h²], for each noise ratio."""

    setting: Setting
    d: Decomposed
    ratios: np.ndarray
    weights: np.ndarray
    signal: np.ndarray


@dataclass(frozen=True)
class Posterior:
    """A mixture of GPs. `dof` is that of each part's Student t (infinite for "evidence")."""

    parts: list[Part]
    labels: list[np.ndarray]  # representation of the labelled points in each space
    dof: float
    log_evidence: float

    @property
    def best(self) -> Part:
        """The heaviest part."""
        return max(self.parts, key=lambda part: float(part.weights.sum()))

    def components(self, points: Sequence[np.ndarray], noise: bool) -> Iterator[tuple[np.ndarray, ...]]:
        """For each part weights [J], means [n, J] and variances [n, J] at points given in every space."""
        for part in self.parts:
            b = points[part.setting.space]
            G, inverse, k = self._project(part, b)
            means = G @ (part.d.z[:, None] * inverse)
            variance = np.maximum(k[:, None] - G**2 @ inverse, 0.0) + noise * part.ratios
            yield part.weights, means, part.signal * variance

    def _project(self, part: Part, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        covariance = part.setting.covariance
        G = covariance.times(b, self.labels[part.setting.space], part.d.U)
        return G, 1 / (part.d.S[:, None] + part.ratios), covariance.diag(b)

    def moments(self, points: Sequence[np.ndarray], noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture, [n] each."""
        mean, square = 0.0, 0.0
        for weights, means, variances in self.components(points, noise):
            mean = mean + means @ weights
            square = square + (variances + means**2) @ weights
        return np.asarray(mean), np.maximum(square - np.asarray(mean) ** 2, 0.0)

    def covariance(self, points: Sequence[np.ndarray], noise: bool = True) -> np.ndarray:
        """Covariance of the mixture between points, [n, n]."""
        n = len(points[0])
        total, mean = np.zeros((n, n)), np.zeros(n)
        for part in self.parts:
            b = points[part.setting.space]
            G, inverse, _ = self._project(part, b)
            means = G @ (part.d.z[:, None] * inverse)
            scaled = part.weights * part.signal
            total += scaled.sum() * part.setting.covariance.gram(b, b) - (G * (inverse @ scaled)) @ G.T
            total += noise * float(scaled @ part.ratios) * np.eye(n) + (means * part.weights) @ means.T
            mean += means @ part.weights
        total -= np.outer(mean, mean)
        return 0.5 * (total + total.T)

    def quantiles(
        self, places: Sequence[Sequence[np.ndarray]], levels: np.ndarray, noise: bool = True, far: Any = False
    ) -> np.ndarray:
        """Quantiles of the mixture, [n, levels], at points given in every space.

        A point whose place is uncertain has several places: a component then has the mean and variance over them, as
        the mixture in `moments` has. Where `far`, components are those of the prior (mean 0, variance 2 σ_h²).
        """
        found = [list(self.components(points, noise)) for points in places]
        weights, means, sds = [], [], []
        for part, *at in zip(self.parts, *found, strict=True):
            m, v = np.array([mean for _, mean, _ in at]), np.array([variance for _, _, variance in at])
            m, v = m.mean(0), v.mean(0) + m.var(0)
            weights.append(part.weights)
            means.append(np.where(far, 0.0, m.T))
            sds.append(np.sqrt(np.where(far, (part.signal * (2 + noise * part.ratios))[:, None], v.T)))
        return mixture_quantiles(
            np.concatenate(weights)[:, None], np.concatenate(means), np.concatenate(sds), self.dof, levels
        )  # fmt: skip

    def samples(self, rng: np.random.Generator, points: Sequence[np.ndarray], n: int, noise: bool) -> np.ndarray:
        """n draws of f (or, with noise, of new observations) at points, [points, n]."""
        flat = [(part, j) for part in self.parts for j in range(len(part.weights))]
        chosen = rng.choice(len(flat), n, p=np.array([part.weights[j] for part, j in flat]))
        draws = np.empty((len(points[0]), n))
        for index in np.unique(chosen):
            part, j = flat[index]
            where = np.flatnonzero(chosen == index)
            b = points[part.setting.space]
            G, inverse, _ = self._project(part, b)
            K = part.setting.covariance.gram(b, b) - (G * inverse[:, j]) @ G.T
            w, V = eigh(0.5 * (K + K.T))
            z = (V * np.sqrt(np.maximum(w, 0.0))) @ rng.standard_normal((len(b), len(where)))
            z += noise * np.sqrt(part.ratios[j]) * rng.standard_normal(z.shape)
            scale = np.full(len(where), part.signal[j])
            if np.isfinite(self.dof):  # signal is the mean of σ_h², an inverse gamma with shape dof/2
                scale = part.signal[j] * (0.5 * self.dof - 1) / rng.gamma(0.5 * self.dof, size=len(where))
            draws[:, where] = (G @ (part.d.z * inverse[:, j]))[:, None] + z * np.sqrt(scale)
        return draws


def mixture_quantiles(
    weights: np.ndarray, means: np.ndarray, sds: np.ndarray, dof: float, levels: np.ndarray
) -> np.ndarray:
    """Quantiles [n, levels] of n mixtures of Student t: means and sds [J, n], weights [J, n] or [J, 1]."""
    heavy = np.any(weights > 1e-4 * weights.max(0), axis=1)
    weights, means = np.broadcast_to(weights, means.shape)[heavy], means[heavy]
    weights = weights / weights.sum(0)
    sds = np.maximum(sds[heavy] * (1.0 if np.isinf(dof) else np.sqrt((dof - 2) / dof)), 1e-300)
    cut = -student.ppf(min(1e-7, 0.1 * levels.min(), 0.1 * (1 - levels.max())), dof)
    grid = cut * np.sinh(np.linspace(-8, 8, 20_001)) / np.sinh(8)  # a look-up (within 1e-7) is cheaper than the cdf
    cdf = student.cdf(grid, dof)

    def below(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        return np.sum(weights[:, row] * np.interp((x - means[:, row]) / sds[:, row], grid, cdf), 0)

    found = []
    for level in levels:
        reach = -student.ppf(min(level, 1 - level) / 2, dof)
        ends = (means - reach * sds).min(0), (means + reach * sds).max(0)
        excess = lambda x, row, level=level: below(x, row) - level
        root = find_root(excess, ends, args=(np.arange(means.shape[1]),), tolerances={"fatol": 1e-8})
        found.append(root.x)
    return np.stack(found, 1)


def average(settings: Sequence[Setting], labels: list[np.ndarray], y: np.ndarray) -> Posterior:
    """The posterior averaged over settings, noise ratio and σ_h²."""
    a, ratio_prior = A0 + len(y) / 2, _ratio_prior()
    scored = []
    for setting in settings:
        d = decompose(setting.covariance, labels[setting.space], y)
        b = B0 + 0.5 * d.quadratic(RATIOS)
        log_p = -a * np.log(b) - 0.5 * d.log_det(RATIOS) + setting.log_prior + ratio_prior
        scored.append((log_p, setting, d, b / (a - 1)))
    mass = logsumexp([log_p for log_p, *_ in scored], axis=1)
    heavy = mass > mass.max() + log(KEEP)
    kept = logsumexp(mass[heavy])
    parts = [
        Part(setting, d, RATIOS, np.exp(log_p - kept), signal)
        for (log_p, setting, d, signal), keep in zip(scored, heavy, strict=True)
        if keep
    ]
    constant = gammaln(a) - gammaln(A0) + A0 * log(B0) - 0.5 * len(y) * log(2 * pi)
    return Posterior(parts, labels, 2 * a, float(logsumexp(mass) + constant))


def best(settings: Sequence[Setting], labels: list[np.ndarray], y: np.ndarray) -> Posterior:
    """The one setting of largest evidence; its scale, σ_h² and noise climb by gradient from the best of a grid."""
    n, top = len(y), None
    ratios = RATIOS[RATIOS >= LEAST_RATIO]
    for setting in settings:
        d = decompose(setting.covariance, labels[setting.space], y)
        quadratic = np.maximum(d.quadratic(ratios) / n, 1e-300)
        profile = -0.5 * (n * np.log(quadratic) + d.log_det(ratios))
        j = int(np.argmax(profile))
        if top is None or profile[j] > top[0]:
            top = float(profile[j]), setting, ratios[j], float(quadratic[j])
    assert top is not None
    _, setting, ratio, signal = top
    start = np.log([setting.covariance.scale, max(signal, 1e-12), ratio])
    low, high = np.log(setting.info.get("scales", np.exp(start[[0, 0]])))  # by default a scale that cannot move

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        covariance = setting.covariance.at(np.exp(theta[0]))
        value, grad = log_evidence(covariance, labels[setting.space], y, theta[1], theta[1] + theta[2])
        return -value, -np.array([grad[0], grad[1] + grad[2], grad[2]])

    bounds = [(low, high), (log(1e-12), log(1e6)), (log(LEAST_RATIO), log(1e3))]
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds)
    scale, signal, ratio = np.exp(found.x)
    covariance = setting.covariance.at(scale)
    d = decompose(covariance, labels[setting.space], y)
    info = {**setting.info, "scale": float(scale)}
    part = Part(
        Setting(covariance, setting.space, 0.0, info), d, np.array([ratio]), np.ones(1), np.array([signal])
    )  # fmt: skip
    return Posterior([part], labels, np.inf, -float(found.fun))


def leave_one_out(
    posterior: Posterior, y: np.ndarray, levels: Sequence[float] = (0.025, 0.975)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean [n], variance [n] and quantiles [n, levels] of each label as the others predict it.

    y [n] are the labels in their own units. For "average" that is what a fit without the label would say of it (with
    the weights, σ_h² and units of the other labels), but for settings too light to be among the posterior's parts. For
    "evidence" the hyperparameters stay those of all labels.
    """
    n, averaged = len(y), bool(np.isfinite(posterior.dof))
    if n < 2:
        raise ValueError(f"y has {n} label(s), and leaving one out needs at least 2; label more rows")
    mean, s = np.array([units(np.delete(y, i)) for i in range(n)]).T[:, :, None]  # [n, 1]: of the others
    one, y0 = np.ones(n), y - y.mean()
    m = mean - y.mean()
    a = A0 + (n - 1) / 2
    found = []
    for part in posterior.parts:
        r = part.ratios
        c, by_y, by_one = _inverse(part.d, r, y0, one)
        alpha = (by_y - m * by_one) / s  # row i: of labels in the units of those other than i
        Q = (y0 @ by_y - 2 * m * (one @ by_y) + m**2 * (one @ by_one)) / s**2 - alpha**2 / c
        b, signal, log_p = B0 + 0.5 * np.maximum(Q, 0.0), part.signal, np.zeros_like(c)
        if averaged:
            log_p = part.setting.log_prior + _ratio_prior() - a * np.log(b) - 0.5 * (part.d.log_det(r) + np.log(c))
            signal = b / (a - 1)
        found.append((log_p, y[:, None] - s * alpha / c, s**2 * signal / c))
    log_p, means, variances = (np.concatenate(v, 1).T for v in zip(*found, strict=True))
    weights = np.exp(log_p - logsumexp(log_p, axis=0))
    middle = np.sum(weights * means, 0)
    variance = np.sum(weights * (variances + (means - middle) ** 2), 0)
    dof = 2 * a if averaged else np.inf
    return middle, variance, mixture_quantiles(weights, means, np.sqrt(variances), dof, np.asarray(levels, float))


def _inverse(d: Decomposed, r: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
    """The diagonal of C⁻¹ = U (S + r)⁻¹ Uᵀ + (I - UUᵀ)/r, and C⁻¹v for vectors v: [n, J] each, for J ratios."""
    inverse = 1 / (d.S[:, None] + r)
    found = [d.U**2 @ inverse, *(d.U @ ((d.U.T @ v)[:, None] * inverse) for v in vectors)]
    if len(d.S) < len(d.U):
        outside = [np.maximum(1 - np.sum(d.U**2, 1), 0.0), *(v - d.U @ (d.U.T @ v) for v in vectors)]
        found = [f + o[:, None] / r for f, o in zip(found, outside, strict=True)]
    return found
