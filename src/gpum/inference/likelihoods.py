"""Labels that are not a function plus Gaussian noise, on the same candidates.

Outliers.  ε_i ~ N(0, σ²/λ_i), and λ_i is one of some values with prior weights: those of Student t noise, λ ~
    Gamma(ν/2, ν/2), or with probability STUDENT_GROSS much smaller, a gross error of any size. Variational Bayes: given
    E[λ] it is the regression of `gp` with noise of each label's own, averaged over all candidates, and given that
    posterior

        q(λ_i) ∝ p(λ_i) √λ_i exp(-½ λ_i E[(y_i - f(x_i))²]/σ²)

    so that a label far from the prediction by the others counts little, and one very far not at all. The bound replaces
    the evidence. Student t noise alone does not ignore gross errors: an error of 40 σ would still count as a label with
    noise of 18 σ and cost 7 nats, so that three of them would rather be explained by a rough function.

Counts, successes.  y_i ~ Poisson(exp η_i), or Binomial(n_i, 1/(1 + exp(-η_i))), η = c + f (`observations`).
    Expectation propagation for each candidate, the mixture over signals being the prior: each label's likelihood
    becomes one Gaussian site,

        site_i ∝ exp(ν_i f - ½ τ_i f²)     a label ν_i/τ_i with known noise 1/τ_i (`known_noise`)

    matched to mean and variance of the tilted distribution at the label as the others predict it. Candidates are
    weighed by the evidence of their own sites.

Likelihoods of counts and successes are log-concave in f, and that of a label with Student t noise has nearly one mode:
one Gaussian is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log, pi
from typing import ClassVar

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp
from scipy.stats import gamma

from ..basics.workers import results
from ..geometry.candidate_set import Candidate, CandidateSet, LabelRows
from ..geometry.priors import Priors
from . import gp, known_noise
from .decisions import (
    AWAY,
    COUNT_DAMPING,
    COUNT_SETTLED,
    COUNT_SIGNALS,
    COUNT_SWEEPS,
    FULL,
    LIGHT_FOR_SITES,
    REWEIGHTED,
    REWEIGHTS,
    STUDENT_DOF,
    STUDENT_GROSS,
    STUDENT_SIZES,
    SUSPECTS,
    TAILS,
    THINNED,
)
from .left_out import leave_one_out
from .observations import ObservedCounts
from .posterior import Posterior, RowsInSpaces
from .quantiles import mixture_moments, mixture_quantiles
from .tempered import Considered, TemperedWeights

LIKELIHOODS = ("auto", "gaussian", "student", "lognormal", "poisson", "binomial")
AT_ONCE = 256  # rows whose quantiles are sought at once: with 10 000 components 20 MB
LEAST = 1e-4  # least precision of a site: a count of zero may carry almost no information
NODES, WEIGHTS = hermegauss(20)
FIVE_NODES, FIVE_WEIGHTS = hermegauss(5)
FIVE_WEIGHTS = FIVE_WEIGHTS / FIVE_WEIGHTS.sum()


@dataclass(frozen=True)
class StudentPosterior(Posterior):
    """The mixture of a regression whose noise is Student t."""

    spread: ClassVar[float] = STUDENT_DOF / (STUDENT_DOF - 2)

    @staticmethod
    def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of the noise over σ."""
        return rng.standard_t(STUDENT_DOF, shape)

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles of the mixture, [n, levels]; Student t noise as a mixture over λ."""
        if not noise:
            return super().quantiles(rows, levels, False)
        weights, means, variances, of_noise = self.flat(rows, False)
        mixed, wider = np.repeat(weights, TAILS)[:, None], np.tile(1 / _usual(), len(weights))[:, None]
        blocks = []
        for k in range(0, len(rows), AT_ONCE):
            m, v, s = (np.repeat(values[:, k : k + AT_ONCE], TAILS, axis=0) for values in (means, variances, of_noise))
            blocks.append(mixture_quantiles(mixed, m, np.sqrt(v + s * wider), self.dof, levels))
        return np.concatenate(blocks)


def _usual() -> np.ndarray:
    """TAILS values of λ of Student t noise."""
    return gamma.ppf((np.arange(TAILS) + 0.5) / TAILS, STUDENT_DOF / 2, scale=2 / STUDENT_DOF)


def student(
    candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None,
    infer: Callable[..., Posterior] = gp.average,
) -> tuple[StudentPosterior, np.ndarray]:  # fmt: skip
    """The posterior given labels y [n] with outliers, and E[λ] [n]; `noise` is d of `gp`.

    The iteration runs from several starts, and the result with the largest bound is used: all labels are trusted, or
    all but the suspects.
    """
    variances = np.ones(len(y)) if noise is None else noise
    fits = [
        _reweighted(candidate_set, known, y, variances, trust, infer)
        for trust in _starts(candidate_set, known, y, variances)
    ]
    return max(fits, key=lambda pair: pair[0].log_evidence)


def _starts(candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, variances: np.ndarray) -> list[np.ndarray]:
    """Starting values of E[λ] [n]: all labels; all but those AWAY from the others; all but a fraction SUSPECTS.

    The label farthest from its prediction is left out first, since an outlier distorts predictions near it.
    """
    thinned = replace(candidate_set, candidates=candidate_set.candidates[::THINNED])
    trust, most = np.ones(len(y)), int(SUSPECTS * len(y))
    begin = [trust.copy()]
    step = -(-most // 10)  # ten rounds at most
    while np.sum(trust < 1) < most:
        mean, variance, _ = leave_one_out(
            gp.average(thinned, known, y, variances / trust), y, (0.5,), priors=candidate_set.priors
        )
        away = np.where(trust < 1, 0.0, np.abs(y - mean) / np.sqrt(variance))
        if away.max() < AWAY and len(begin) == 1 and np.any(trust < 1):
            begin.append(trust.copy())
        trust[np.argsort(-away, kind="stable")[: min(step, most - int(np.sum(trust < 1)))]] = STUDENT_SIZES[-1]
    return [*begin, trust] if most else begin


def _reweighted(
    candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, label_variances: np.ndarray, trust: np.ndarray,
    infer: Callable[..., Posterior],
) -> tuple[StudentPosterior, np.ndarray]:  # fmt: skip
    """The posterior and E[λ] that are reached from one start of E[λ]."""
    notes, used = tuple[str, ...](), candidate_set
    values = np.concatenate([_usual(), STUDENT_SIZES])
    prior = np.repeat(
        np.log([(1 - STUDENT_GROSS) / TAILS, STUDENT_GROSS / len(STUDENT_SIZES)]), [TAILS, len(STUDENT_SIZES)]
    )
    for turn in range(REWEIGHTS):
        fitted = infer(used, known, y, label_variances / trust)
        if turn == FULL and infer is gp.average:  # candidates without weight hardly affect the next rounds
            used = replace(candidate_set, candidates=[component.candidate for component in fitted.components])
        labels = RowsInSpaces.exactly(fitted.labels)
        off = np.zeros(len(y))
        for component, means, variances, _ in fitted.conditionals(labels, False):
            off += (((y[:, None] - means) ** 2 + variances) / (component.signal * component.ratios)) @ component.weights
        log_q = prior + 0.5 * np.log(values) - 0.5 * np.outer(off / label_variances, values)
        log_q -= logsumexp(log_q, axis=1, keepdims=True)
        q = np.exp(log_q)
        before, trust = trust, q @ values
        if np.abs(np.log(trust / before)).max() < REWEIGHTED:
            break
    else:
        notes = (f"labels were still being weighed for outliers after {REWEIGHTS} rounds",)
    fitted = infer(candidate_set, known, y, label_variances / trust) if used is not candidate_set else fitted
    gap = 0.5 * (q @ np.log(values) - np.log(trust)) - np.sum(q * (log_q - prior), 1)
    bound = fitted.log_evidence + float(gap.sum())
    notes = (*fitted.notes, *notes)
    posterior = StudentPosterior(
        fitted.components, fitted.labels, fitted.dof, bound, notes, fitted.tempered, fitted.considered
    )
    return posterior, trust


@dataclass(frozen=True)
class Sites:
    """One Gaussian for each label and component: its mean ν/τ [components, n], and the log of the number before it."""

    at: np.ndarray
    log_scale: np.ndarray

    def only(self, k: int) -> Sites:
        """Those of one component."""
        return Sites(self.at[[k]], self.log_scale[[k]])


@dataclass(frozen=True)
class Settled:
    """What expectation propagation ends with: the posterior; of each site τ, ν and the log of the number before it."""

    posterior: Posterior
    tau: np.ndarray
    nu: np.ndarray
    log_scale: np.ndarray

    @property
    def at(self) -> np.ndarray:
        """The means of the sites."""
        return self.nu / self.tau


def expectation_propagation(
    candidate_set: CandidateSet, known: np.ndarray, observed: ObservedCounts
) -> tuple[Posterior, Sites]:
    """The posterior of f given observed labels of the rows `known`, and their sites.

    Candidates share their sites at first. Those that come within NATS of the best then get sites and evidence of their
    own; the others are weighed by what the common sites say.
    """
    n = len(known)
    tau, nu = _matched(observed, np.zeros(n), np.full(n, 2.0))[:2]  # σ_h² = 1
    common = _settled(partial(_together, candidate_set, known), observed, tau, nu)
    considered = common.posterior.considered
    assert considered is not None
    mass = np.nan_to_num(considered.log_part, nan=-np.inf) + common.posterior.log_evidence
    labels, tasks = LabelRows(candidate_set, known), []
    near = np.flatnonzero(mass > mass.max() - gp.NATS)
    for candidate in (candidate_set.candidates[k] for k in near):  # those of a space come one after the other
        infer = partial(_alone, candidate, labels[candidate.space], candidate_set.priors)
        tasks.append(partial(_settled, infer, observed, common.tau, common.nu))
    alone = list(results(tasks, -1 if n > gp.ALONE else 1))
    mass[near] = [one.posterior.log_evidence for one in alone]
    tempered = TemperedWeights.of(candidate_set, candidate_set.candidates)
    log_w = tempered.log_weights(mass)
    heavy = tempered.heavy(log_w)[near] & (log_w[near] > log_w[near].max() + log(gp.KEEP))
    used = near[heavy]
    weights = np.exp(log_w - logsumexp(log_w[used]))
    retained = [one for one, has in zip(alone, heavy, strict=True) if has]
    components = [
        replace(one.posterior.components[0], weights=one.posterior.components[0].weights * weights[k])
        for k, one in zip(used, retained, strict=True)
    ]
    notes = dict.fromkeys(note for one in [common, *retained] for note in one.posterior.notes)
    of_all = np.zeros(len(mass))
    of_all[used] = weights[used]
    at = labels.of({component.candidate.space for component in components})
    every = Considered.of(candidate_set, candidate_set.candidates, mass, of_all)
    posterior = Posterior(
        components, at, np.inf, float(logsumexp(mass)), tuple(notes), tempered.only(used.tolist()), every
    )
    return posterior, Sites(np.array([one.at for one in retained]), np.array([one.log_scale for one in retained]))


def _together(
    candidate_set: CandidateSet, known: np.ndarray, at: np.ndarray, variance: np.ndarray, before: Posterior | None
) -> Posterior:  # fmt: skip
    """The posterior of all candidates given sites; from the second sweep on of those with weight in the one before."""
    if before is not None:
        candidate_set = replace(
            candidate_set, candidates=[p.candidate for p in before.components if p.weight > LIGHT_FOR_SITES]
        )
    return known_noise.average(candidate_set, known, at, variance, COUNT_SIGNALS)


def _alone(
    candidate: Candidate, a: np.ndarray, priors: Priors, at: np.ndarray, variance: np.ndarray, before: Posterior | None
) -> Posterior:  # fmt: skip
    """The posterior of one candidate given sites."""
    return known_noise.alone(candidate, a, at, variance, COUNT_SIGNALS, priors)


def _settled(
    infer: Callable[[np.ndarray, np.ndarray, Posterior | None], Posterior], observed: ObservedCounts, tau: np.ndarray,
    nu: np.ndarray,
) -> Settled:  # fmt: skip
    """Expectation propagation from these sites, which all candidates of `infer` share."""
    notes, first = tuple[str, ...](), None
    for _ in range(COUNT_SWEEPS):
        posterior = infer(nu / tau, 1 / tau, first)
        first = posterior if first is None else first
        cavity = _cavity(posterior, nu / tau)
        new_tau, new_nu, _ = _matched(observed, *cavity)
        change = np.abs(np.log(new_tau / tau)) * np.minimum(1.0, tau * cavity[1])  # weak sites may wander
        tau, nu = tau * (new_tau / tau) ** COUNT_DAMPING, nu + COUNT_DAMPING * (new_nu - nu)
        if change.max() < COUNT_SETTLED:
            break
    else:
        notes = (f"the computation (expectation propagation) had not settled after {COUNT_SWEEPS} sweeps",)
    posterior = infer(nu / tau, 1 / tau, None)
    mean, variance = cavity = _cavity(posterior, nu / tau)
    log_z = _matched(observed, *cavity)[2]
    total = variance + 1 / tau
    log_scale = log_z + 0.5 * ((nu / tau - mean) ** 2 / total + np.log(2 * pi * total))
    evidence = posterior.log_evidence + float(log_scale.sum())
    posterior = replace(posterior, log_evidence=evidence, notes=(*posterior.notes, *notes))
    return Settled(posterior, tau, nu, log_scale)


def _cavity(posterior: Posterior, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at each label as the others predict it, [n] each."""
    return mixture_moments(*known_noise.cavity_moments(posterior, at))


def _matched(observed: ObservedCounts, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sites τ, ν [n] that give N(m, v) times the likelihood its mean and variance, and log of its integral.

    Quadrature is about the mode, which Newton steps find (the logarithm is concave).
    """
    f = m.copy()
    for _ in range(50):
        slope, curve = observed.slopes(f)
        step = (slope - (f - m) / v) / (curve + 1 / v)
        f = f + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-8:
            break
    sd = 1 / np.sqrt(observed.slopes(f)[1] + 1 / v)
    x = f[:, None] + sd[:, None] * NODES
    log_w = observed.log_p(x) - 0.5 * (x - m[:, None]) ** 2 / v[:, None] + 0.5 * NODES**2 + np.log(WEIGHTS)
    log_z = logsumexp(log_w, axis=1)
    w = np.exp(log_w - log_z[:, None])
    mean = np.sum(w * x, 1)
    variance = np.minimum(np.sum(w * (x - mean[:, None]) ** 2, 1), v)
    tau = np.maximum(1 / variance - 1 / v, LEAST)
    # exact: the integral's weights carry sd, and N(m, v) its √(2πv); hermegauss integrates against exp(-x²/2)
    return tau, mean * (tau + 1 / v) - m / v, log_z + np.log(sd) - 0.5 * np.log(2 * pi * v)


def nodes(posterior: Posterior, rows: RowsInSpaces) -> tuple[np.ndarray, np.ndarray]:
    """f at rows as points [m, n] with weights [m, 1]."""
    weights, points = [], []
    for component, means, variances, _ in posterior.conditionals(rows, False):
        for j in np.flatnonzero(component.weights > 1e-3 * max(p.weights.max() for p in posterior.components)):
            for x, w in zip(FIVE_NODES, FIVE_WEIGHTS, strict=True):
                weights.append(w * component.weights[j])
                points.append(means[:, j] + x * np.sqrt(variances[:, j]))
    total = np.array(weights)
    return (total / total.sum())[:, None], np.array(points)
