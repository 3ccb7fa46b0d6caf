"""Gaussian process regression, given a set of candidates.

    y_i = f(x_i) + ε_i,    f ~ GP(0, σ_h² K),    ε_i ~ N(0, σ²),    r = σ²/σ_h²

y is centred and scaled before it comes here. A *candidate* is one covariance K (a domain, a smoothness, a scale). On
the labels K = U S Uᵀ, and with z = Uᵀy everything is a sum over eigenvalues:

    log p(y | σ_h², r) = -½ (Q/σ_h² + log|K + rI| + n log 2πσ_h²),   Q = Σ z²/(S + r) + (|y|² - |z|²)/r

Predictions from it are in `posterior`.

"average": r runs over a grid, log₁₀ r ~ 0.98 N(-3, 1) + 0.02 N(0, 1), and σ_h² ~ InvGamma(a0, b0/(1 + r)) is
integrated in closed form, which makes each prediction a Student t with 2a degrees of freedom, a = a0 + n/2,
b = b0/(1 + r) + Q/2 (the priors are those of `CandidateSet.priors`); candidates and ratios are weighted by evidence
times prior, geometries as in `tempered`.
"evidence": the one candidate, scale, σ_h² and r of largest evidence.

With more than `nearest.EXACT` labels kernels of flat space see the nearest labels only (`nearest`).

Labels may have noise of their own, ε_i ~ N(0, σ² d_i): `noise` is d [n], known up to the factor σ². rI is then rD.

A kernel of fewer features than labels costs k × k numbers (`exact.Sums`), and all of these see all labels. Kernels of
full rank need n × n. Above SCREEN labels they see SCREENED of them first, and only those that come within NATS of the
best see all: differences of log evidence grow with the labels, so that a candidate far behind on some labels is
hopeless on all (`promising`; where noise is not normal, for all kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log, pi
from threading import Lock
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

from ..basics.checks import GpumError
from ..basics.workers import results
from ..geometry.candidate_set import Candidate, CandidateSet, LabelRows
from ..geometry.priors import RATIOS, Priors
from ..heat.covariances import Covariance, Spectral, Stationary, Weighted
from ..persistence.store import Store, digest
from . import nearest
from .decisions import COSTLY, KEEP, LARGEST, LEAST_RATIO, NATS, SCREEN, SCREENED, SCREENING
from .exact import Decomposed, LowRank, Sums, decompose, tridiagonal_forms
from .nearest import Nearest
from .posterior import Component, Posterior
from .tempered import Considered, TemperedWeights

# What turns candidates, the labelled rows and their labels into a posterior; another likelihood is one more of these.
Inference = Callable[..., Posterior]
# Scores a candidate on the labels with an index, whose rows in its space are a. It returns the log weights of its
# components (evidence times prior, up to a constant) and whatever else its components of the posterior need.
Score = Callable[[Candidate, np.ndarray, np.ndarray | slice], tuple[np.ndarray, Any]]

ALONE = 100  # labels up to which scoring a candidate takes less time than starting a thread


def units(y: np.ndarray) -> tuple[float, float]:
    """Mean and scale by which labels come to the units of this module."""
    size = float(np.abs(y).max())
    if size == 0:
        return 0.0, 1.0
    z = y / size  # squares of very small labels would vanish
    mean, scale = float(z.mean()), float(z.std(ddof=min(len(z) - 1, 1)))
    if scale <= 1e-12 * max(abs(mean), 1e-300):  # one label, or all the same
        scale = abs(mean) if mean else 1.0
    return size * mean, size * scale


def ratio_prior(candidate: Candidate, priors: Priors) -> np.ndarray:
    """Log prior weights of RATIOS."""
    return priors.log_ratio(candidate.expects_noise)


class NoisyLabels:
    """Labels y [n] with noise d [n], and their `Sums` in the space that was asked for last.

    The candidates of a space come one after the other, with one array of labelled points. What the `store` can name is
    computed once for all candidate sets that share it.
    """

    def __init__(self, y: np.ndarray, noise: np.ndarray | None = None, store: Store | None = None) -> None:
        self.y, self.noise = y, np.ones(len(y)) if noise is None else noise
        self._even, self._store = bool(np.all(self.noise == 1)), store
        self._name = "" if store is None else digest((y, self.noise))
        self._last: Sums | None = None
        self._named: tuple[np.ndarray, str] = y, self._name
        self._lock = Lock()

    @property
    def precision(self) -> np.ndarray | float:
        """1/d."""
        return 1.0 if self._even else 1 / self.noise

    def sums(self, covariance: Covariance, a: np.ndarray) -> Sums | None:
        """Those at points a [n, k], for a kernel that has fewer features than there are labels."""
        if not isinstance(covariance, Weighted) or a.shape[1] + 1 >= len(self.y):
            return None
        with self._lock:
            if self._last is None or self._last.a is not a:
                self._last = None
                self._last = Sums.of(a, self.y, None if self._even else self.noise)
            return self._last

    def decomposed(self, covariance: Covariance, a: np.ndarray) -> Decomposed | LowRank:
        """The decomposition of a kernel on the labels, which lie at a."""
        sums = self.sums(covariance, a)
        if sums is None:
            return decompose(covariance, a, self.y, self.noise)
        assert isinstance(covariance, Weighted)
        return sums.decompose(covariance)

    def forms(self, covariance: Covariance, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q and log|K + rI| of a kernel for each of RATIOS; the labels lie at a."""
        if self._store is None or not isinstance(covariance, Stationary | Spectral):
            return self._forms(covariance, a)
        key = "forms", self._name, self._digest(a), digest(covariance)
        return self._store.once(key, partial(self._forms, covariance, a))

    def masses(self, candidate: Candidate, a: np.ndarray, priors: Priors) -> tuple[np.ndarray, np.ndarray]:
        """`nearest.log_masses` of a candidate with a ratio of its own."""
        covariance, ratio = candidate.covariance, candidate.ratio
        assert isinstance(covariance, Stationary)
        assert ratio is not None
        shape, rate = priors.signal[0], float(priors.signal_rate(np.array(ratio)))
        d = Nearest(self.y, nearest.SHARING, self.precision)
        make = partial(nearest.log_masses, covariance, a, d, ratio, shape, rate)
        if self._store is None:
            return make()
        key = "masses", self._name, self._digest(a), digest(covariance), ratio, shape, rate
        return self._store.once(key, make)

    def _forms(self, covariance: Covariance, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums = self.sums(covariance, a)
        if sums is None:
            return forms(covariance, a, self.y, self.noise)
        assert isinstance(covariance, Weighted)
        return sums.forms(covariance, RATIOS)

    def _digest(self, a: np.ndarray) -> str:
        rows, name = self._named
        if rows is not a:
            name = digest(a)
            self._named = a, name
        return name


def log_evidence(
    covariance: Covariance, a: np.ndarray, y: np.ndarray, log_signal: float, log_noise: float,
    noise: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """log p(y) and its gradient in (log scale, log σ_h², log σ²)."""
    signal, r = np.exp(log_signal), np.exp(log_noise - log_signal)
    d, n = decompose(covariance, a, y, noise), len(y)
    Q, logdet = float(d.quadratic(r)[0]), float(d.log_det(r)[0])
    value = -0.5 * (Q / signal + logdet + n * (log_signal + log(2 * pi)))
    alpha = d.U @ (d.z / (d.S + r)) + (d.precision * y - d.U @ d.z) / r  # (K + rD)⁻¹ y
    inverse = 1 / (d.S + r)
    moved = covariance.slope(a, np.concatenate([alpha[:, None], d.U], 1))
    by_scale = 0.5 * (moved[0] / signal - moved[1:] @ inverse)
    square = float(np.sum(alpha**2 / d.precision))  # Q = yᵀ(K + rI)⁻¹y splits into K's part and the noise's
    trace = float(inverse.sum()) + (n - len(d.S)) / r
    by_noise = 0.5 * r * (square / signal - trace)
    by_signal = 0.5 * (Q / signal - n) - by_noise
    value -= 0.5 * (0.0 if noise is None else float(np.log(noise).sum()))
    return value, np.array([by_scale, by_signal, by_noise])


def average(
    candidate_set: CandidateSet,
    known: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray | None = None,
    store: Store | None = None,
) -> Posterior:
    """The posterior averaged over candidates, noise ratio and σ_h²; y [n] are the labels of the cloud's rows `known`.

    A fit that weighs several candidate sets on the same spaces gives its `store`.
    """
    labels, seen = LabelRows(candidate_set, known), NoisyLabels(y, noise, store)
    a0 = candidate_set.priors.signal[0]
    score = partial(_score, seen, candidate_set.priors)
    weights = weighed(candidate_set, labels, score, True)
    components = [
        _component(candidate, labels[candidate.space], seen, w, signal) for candidate, w, signal in weights.heavy
    ]
    return weights.posterior(components, 2 * a0 + len(y), _constant(len(y), seen.noise, a0))


def _constant(n: int, noise: np.ndarray, a0: float) -> float:
    """What `_score` leaves out of the log evidence of n labels."""
    return float(gammaln(a0 + n / 2) - gammaln(a0)) - 0.5 * n * log(2 * pi) - 0.5 * float(np.log(noise).sum())


def masses_of(candidates: Sequence[Candidate], a: np.ndarray, y: np.ndarray, priors: Priors) -> np.ndarray:
    """Log of evidence times prior of candidates on one space, [K], on so many of labels y as all see at once."""
    index = np.sort(np.random.default_rng(0).permutation(len(y))[: nearest.EXACT])
    labels, at = NoisyLabels(y[index]), a[index]
    tasks = [partial(_score, labels, priors, candidate, at, slice(None)) for candidate in candidates]
    return np.array([float(logsumexp(one[0])) for one in results(tasks, None)])


def _component(
    candidate: Candidate, a: np.ndarray, labels: NoisyLabels, weights: np.ndarray, signal: np.ndarray
) -> Component:
    """The component of a candidate, whose labels lie at a."""
    if candidate.ratio is None:
        return Component(candidate, labels.decomposed(candidate.covariance, a), RATIOS, weights, signal)
    ratios = np.full(len(nearest.SHARING), candidate.ratio)
    return Component(candidate, Nearest(labels.y, nearest.SHARING, labels.precision), ratios, weights, signal)


@dataclass(frozen=True)
class Weighed:
    """Candidates that are not too light, each with the weights of its components and what else a `Score` says of it.

    `log_mass` is that of all candidates together, `tempered` has the geometries of the heavy ones.
    """

    labels: LabelRows
    heavy: list[tuple[Candidate, np.ndarray, Any]]
    log_mass: float
    tempered: TemperedWeights
    notes: tuple[str, ...]
    considered: Considered

    def posterior(self, components: list[Component], dof: float, constant: float) -> Posterior:
        """The posterior of their components; `constant` is what scores leave out of the log evidence."""
        at = self.labels.of({component.candidate.space for component in components})
        return Posterior(components, at, dof, self.log_mass + constant, self.notes, self.tempered, self.considered)


def weighed(candidate_set: CandidateSet, labels: LabelRows, score: Score, by_sums: bool = False) -> Weighed:
    """The candidates, weighed by the labels.

    What `score` says of a candidate that is too light is let go at once: with many labels it is large. With `by_sums`
    the score of a kernel of low rank costs little with any number of labels.
    """
    candidates, notes = promising(candidate_set, labels, score, by_sums)
    mass, tempered = np.full(len(candidates), -np.inf), TemperedWeights.of(candidate_set, candidates)
    scores: dict[int, tuple[np.ndarray, Any]] = {}
    for space in sorted({candidate.space for candidate in candidates}):
        numbers = [k for k, candidate in enumerate(candidates) if candidate.space == space]
        rows, most = labels[space], -np.inf
        tasks = [partial(score, candidates[k], rows, slice(None)) for k in numbers]
        for k, one in zip(numbers, results(tasks, None if len(labels) > ALONE else 1, here=True), strict=True):
            mass[k] = np.logaddexp.reduce(one[0])
            most = max(most, mass[k])
            if mass[k] > most + log(KEEP):
                scores[k] = one
        log_w = tempered.log_weights(mass)
        least = log_w.max() + log(KEEP)
        scores = {k: one for k, one in scores.items() if log_w[k] > least}
    heavy = tempered.heavy(log_w)
    used = [k for k in sorted(scores) if heavy[k]]
    shift = log_w - mass - logsumexp(log_w[used])
    retained = [(candidates[k], np.exp(scores[k][0] + shift[k]), scores[k][1]) for k in used]
    weights = np.zeros(len(candidates))
    weights[used] = [float(weight.sum()) for _, weight, _ in retained]
    considered = Considered.of(candidate_set, candidates, mass, weights)
    return Weighed(labels, retained, float(logsumexp(mass)), tempered.only(used), notes, considered)


def _score(
    labels: NoisyLabels, priors: Priors, candidate: Candidate, a: np.ndarray, index: np.ndarray | slice
) -> tuple[np.ndarray, np.ndarray]:
    """Log posterior weight up to `_constant`, and E[σ_h²], for each of RATIOS: the `Score` of these labels.

    Of a candidate with a ratio of its own for each of `nearest.SHARING`.
    """
    if candidate.ratio is not None:
        shape = priors.signal[0]
        log_p, signal = labels.masses(candidate, a, priors)
        return log_p - log(len(log_p)) + candidate.log_prior - _constant(len(a), labels.noise, shape), signal
    if isinstance(index, slice):
        quadratic, log_det = labels.forms(candidate.covariance, a)
    else:
        quadratic, log_det = forms(candidate.covariance, a, labels.y[index], labels.noise[index])
    a0, b0 = priors.signal[0], priors.signal_rate(RATIOS)
    shape, b = a0 + len(a) / 2, b0 + 0.5 * quadratic
    log_p = a0 * np.log(b0) - shape * np.log(b) - 0.5 * log_det
    log_p = log_p + candidate.log_prior + ratio_prior(candidate, priors)
    return log_p, b / (shape - 1)


def forms(
    covariance: Covariance, a: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Q and log|K + rI| for each of RATIOS, as `decompose` gives them; eigenvectors are not computed if K is n × n."""
    F = covariance.factor(a)
    if len(a) > 1 and (F is None or F.shape[1] >= len(a)):
        K = covariance.gram(a, a) if F is None else F @ F.T
        if np.any(noise != 1):
            root = 1 / np.sqrt(noise)
            K, y_scaled = root[:, None] * K * root, root * y
        else:
            y_scaled = y
        solved = tridiagonal_forms(K, y_scaled, RATIOS)
        if solved is not None:
            return solved
    d = decompose(covariance, a, y, noise)
    return d.quadratic(RATIOS), d.log_det(RATIOS)


def promising(
    candidate_set: CandidateSet, labels: LabelRows, score: Score, by_sums: bool = False
) -> tuple[list[Candidate], tuple[str, ...]]:
    """The candidates that are worth all labels, and what to say of it; `by_sums` is that of `weighed`.

    Kernels of full rank need n × n numbers: of these only as many see all labels as LARGEST numbers are enough for, and
    above COSTLY labels, where one takes minutes, none but the best of all candidates.
    """
    every, n = candidate_set.candidates, len(labels)
    if n <= SCREEN:
        return list(every), ()
    index = np.sort(np.random.default_rng(0).permutation(n)[:SCREENED])  # labels may come in an order
    few = {space: labels.some(space, index) for space in {candidate.space for candidate in every}}
    local = [
        candidate for candidate in every
        if candidate.ratio is not None
        or (by_sums and not _full_rank(candidate.covariance, few[candidate.space], n))
    ]  # fmt: skip
    quick = set(map(id, local))
    candidates = [candidate for candidate in every if id(candidate) not in quick]
    if len(candidates) <= SCREENING:
        return list(every), ()
    tasks = [partial(score, candidate, few[candidate.space], index) for candidate in candidates]
    log_masses = np.array([float(logsumexp(log_p)) for log_p, _ in results(tasks, None)])
    order = [k for k in np.argsort(-log_masses, kind="stable") if log_masses[k] > log_masses.max() - NATS]
    full = [k for k in order if _full_rank(candidates[k].covariance, few[candidates[k].space], n)]
    room = min(LARGEST // n**2, len(full) if n <= COSTLY else int(order[0] in full and not local))
    if n**2 > LARGEST and len(full) == len(order) and not local:
        raise GpumError(
            f"y has {n:,} labels, and the kernels that explain them take {n:,} × {n:,} numbers each here; "
            f"give at most {int(LARGEST**0.5):,} labels, or add another geometry (graph, atlas)"
        )
    left = set(full[room:])
    retained = [candidate for k, candidate in enumerate(candidates) if k in order and k not in left]
    note = (
        f"of {n:,} labels {SCREENED} compared {len(candidates):,} candidates first, and the best "
        f"{len(retained):,} saw all labels"
    )
    if left:
        note += f"; {len(left):,} more were left out, since each takes {n:,} × {n:,} numbers"
    return retained + local, (note,)


def _full_rank(covariance: Covariance, a: np.ndarray, n: int) -> bool:
    F = covariance.factor(a[:1])
    return F is None or F.shape[1] >= n


def best(candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None) -> Posterior:
    """The one candidate of largest evidence; its scale, σ_h² and noise climb by gradient from the best of a grid.

    Where many labels have taught candidates their lengths and noise already, the heaviest of the average.
    """
    if any(candidate.ratio is not None for candidate in candidate_set.candidates):
        return replace(average(candidate_set, known, y, noise).single(), dof=np.inf)
    labels, n, top = LabelRows(candidate_set, known), len(y), None
    ratios, seen = RATIOS[RATIOS >= LEAST_RATIO], NoisyLabels(y, noise)
    score = partial(_score, seen, candidate_set.priors)
    candidates, notes = promising(candidate_set, labels, score, True)
    for candidate in candidates:
        d = seen.decomposed(candidate.covariance, labels[candidate.space])
        quadratic = np.maximum(d.quadratic(ratios) / n, 1e-300)
        profile = -0.5 * (n * np.log(quadratic) + d.log_det(ratios))
        j = int(np.argmax(profile))
        if top is None or profile[j] > top[0]:
            top = float(profile[j]), candidate, ratios[j], float(quadratic[j])
    assert top is not None
    _, candidate, ratio, signal = top
    start = np.log([candidate.scale, max(signal, 1e-12), ratio])
    low, high = np.log(candidate.scales or np.exp(start[[0, 0]]))  # without a range the scale cannot move

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        covariance = candidate.covariance.at(np.exp(theta[0]))
        value, grad = log_evidence(covariance, labels[candidate.space], y, theta[1], theta[1] + theta[2], noise)
        return -value, -np.array([grad[0], grad[1] + grad[2], grad[2]])

    bounds = [(low, high), (log(1e-12), log(1e6)), (log(LEAST_RATIO), log(1e3))]
    optimum = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds)
    if not optimum.success:
        notes = (*notes, f"the optimisation of the evidence stopped early ({optimum.message})")
    scale, signal, ratio = np.exp(optimum.x)
    covariance = candidate.covariance.at(scale)
    d = seen.decomposed(covariance, labels[candidate.space])
    candidate = replace(candidate, covariance=covariance, log_prior=0.0)
    component = Component(candidate, d, np.array([ratio]), np.ones(1), np.array([signal]))
    return Posterior([component], labels.of({candidate.space}), np.inf, -float(optimum.fun), notes)
