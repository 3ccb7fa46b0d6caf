"""Labels whose noise is known: y_i = f(x_i) + ε_i, ε_i ~ N(0, s_i²).

As in `gp`, with D = diag(s²)/s̄², s̄² the mean of s², and the ratio r = s̄²/σ_h² that a signal σ_h² then has:

    log p(y | setting, σ_h²) = -½ (Q/σ_h² + log|K + rD| + n log 2πσ_h²)

σ_h² runs over a grid with the prior of `gp`, InvGamma(a0, b0); settings and signals are weighted by evidence times
prior, geometries as in `doubt`. Every component is Gaussian. A label as the others predict it follows from C⁻¹ as
there, and a component's evidence without label i is its evidence over the density that it gave to y_i.
"""

from __future__ import annotations

from math import log, pi

import numpy as np
from scipy.special import logsumexp

from ..geometry.family import Family, LabelRows, Setting
from .gp import decompose, inverse_parts, weighed
from .posterior import Component, Decomposed, Posterior

SIGNALS = np.geomspace(0.03, 100.0, 15)  # σ_h², labels having variance 1: its sd from a sixth to ten times theirs


def average(
    family: Family, known: np.ndarray, y: np.ndarray, variance: np.ndarray, signals: np.ndarray = SIGNALS
) -> Posterior:
    """The posterior averaged over settings and signals; `variance` [n] is that of each label's noise."""
    labels, n, unit = LabelRows(family, known), len(y), float(np.mean(variance))
    ratios = unit / signals
    a0, b0 = family.priors.signal
    prior = -a0 * np.log(signals) - b0 / signals  # of log σ_h²
    prior = prior - logsumexp(prior)

    def score(setting: Setting, a: np.ndarray, some: np.ndarray | slice) -> tuple[np.ndarray, Decomposed]:
        d = decompose(setting.covariance, a, y[some], variance[some] / unit)
        log_p = -0.5 * (d.quadratic(ratios) / signals + d.log_det(ratios) + len(a) * np.log(signals))
        return log_p + prior + setting.log_prior, d

    found, total, doubt, notes, considered = weighed(family, labels, score)
    components = [Component(setting, d, ratios, w, signals) for setting, w, d in found]
    constant = -0.5 * (n * log(2 * pi) + float(np.log(variance / unit).sum()))
    return Posterior(
        components, labels.of({component.setting.space for component in components}), np.inf, total + constant, notes,
        doubt, considered,
    )  # fmt: skip


def heaviest(found: Posterior) -> Posterior:
    """The one setting and signal of largest posterior weight."""
    component = found.best
    return Posterior(
        [component.only(int(np.argmax(component.weights)))], found.labels, np.inf, found.log_evidence, found.notes
    )


def without_each(
    posterior: Posterior, y: np.ndarray, log_scale: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances [components, n] of f at each label as the others predict it.

    Labels y are [n], or [components, n] where each component has its own; their densities are then multiplied by
    e^log_scale, [components, n].
    """
    log_p, means, variances = [], [], []
    each, n = posterior.components, y.shape[-1]
    labels, scales = (np.broadcast_to(v, (len(each), n)) for v in (y, log_scale))
    for component, mass, at, more in zip(each, posterior.log_masses(), labels, scales, strict=True):
        c, alpha = inverse_parts(component.d, component.ratios, at)
        variance = component.signal / c  # of the label, its noise included
        log_p.append(mass + 0.5 * (alpha**2 / c / component.signal + np.log(2 * pi * variance)) - more[:, None])
        means.append(at[:, None] - alpha / c)
        own = component.signal * component.ratios / np.broadcast_to(component.d.precision, n)[:, None]
        variances.append(np.maximum(variance - own, 1e-12 * variance))
    return posterior.doubted(log_p), np.concatenate(means, 1).T, np.concatenate(variances, 1).T
