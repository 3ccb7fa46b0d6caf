"""Labels whose noise is known: y_i = f(x_i) + ε_i, ε_i ~ N(0, s_i²).

As in `gp`, with D = diag(s²)/s̄², s̄² the mean of s², and the ratio r = s̄²/σ_h² that a signal σ_h² then has:

    log p(y | candidate, σ_h²) = -½ (Q/σ_h² + log|K + rD| + n log 2πσ_h²)

σ_h² runs over a grid with the prior of `gp`, InvGamma(a0, b0); candidates and signals are weighted by evidence times
prior, geometries as in `tempered`. Every component is Gaussian.
"""

from __future__ import annotations

from math import log, pi

import numpy as np

from ..geometry.candidate_set import Candidate, CandidateSet, LabelRows
from ..geometry.priors import Priors
from .exact import Decomposed, decompose
from .gp import weighed
from .left_out import mixture, with_weights_of_all
from .posterior import Component, Posterior


def average(
    candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, variance: np.ndarray, signals: np.ndarray
) -> Posterior:
    """The posterior averaged over candidates and signals; `variance` [n] is that of each label's noise."""
    labels, unit = LabelRows(candidate_set, known), float(np.mean(variance))
    prior = _prior(candidate_set.priors, signals)

    def score(candidate: Candidate, a: np.ndarray, index: np.ndarray | slice) -> tuple[np.ndarray, Decomposed]:
        return _scored(candidate, a, y[index], variance[index] / unit, unit, signals, prior)

    weights = weighed(candidate_set, labels, score)
    components = [Component(candidate, d, unit / signals, w, signals) for candidate, w, d in weights.heavy]
    return weights.posterior(components, np.inf, _constant(variance / unit))


def alone(
    candidate: Candidate, a: np.ndarray, y: np.ndarray, variance: np.ndarray, signals: np.ndarray, priors: Priors
) -> Posterior:  # fmt: skip
    """As `average`, of one candidate in whose space the labelled rows are a [n, k]; its prior is in the evidence."""
    unit = float(np.mean(variance))
    log_p, d = _scored(candidate, a, y, variance / unit, unit, signals, _prior(priors, signals))
    total = float(np.logaddexp.reduce(log_p))
    component = Component(candidate, d, unit / signals, np.exp(log_p - total), signals)
    return Posterior([component], [*[None] * candidate.space, a], np.inf, total + _constant(variance / unit))


def _prior(priors: Priors, signals: np.ndarray) -> np.ndarray:
    """Log prior weights of log σ_h² on a grid."""
    a0, b0 = priors.signal
    prior = -a0 * np.log(signals) - b0 / signals
    return prior - np.logaddexp.reduce(prior)


def _scored(
    candidate: Candidate, a: np.ndarray, y: np.ndarray, noise: np.ndarray, unit: float, signals: np.ndarray,
    prior: np.ndarray,
) -> tuple[np.ndarray, Decomposed]:  # fmt: skip
    """Log of evidence times prior of each signal, up to `_constant`, and the kernel on the labels."""
    d, ratios = decompose(candidate.covariance, a, y, noise), unit / signals
    log_p = -0.5 * (d.quadratic(ratios) / signals + d.log_det(ratios) + len(a) * np.log(signals))
    return log_p + prior + candidate.log_prior, d


def _constant(noise: np.ndarray) -> float:
    return -0.5 * (len(noise) * log(2 * pi) + float(np.log(noise).sum()))


def cavity_moments(
    posterior: Posterior, y: np.ndarray, log_scale: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances [components, n] of f at each label as the others predict it.

    Labels y are [n] or [components, n], as in `left_out.with_weights_of_all`, which has those of labels.
    """
    weights, means, variances = mixture(posterior, with_weights_of_all(posterior, y, None, log_scale))
    of_noise = []
    for component in posterior.components:
        assert isinstance(component.d, Decomposed)
        ratios = (component.signal * component.ratios)[:, None]
        of_noise.append(ratios / np.broadcast_to(component.d.precision, y.shape[-1]))
    return weights, means, np.maximum(variances - np.concatenate(of_noise), 1e-12 * variances)
