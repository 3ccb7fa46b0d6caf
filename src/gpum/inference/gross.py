"""Gross errors of new observations, where left-out labels show that there are some.

A GP with Gaussian noise may take an outlying label for a spike of f, above all where the labels of copies of rows agree
and so say that there is no noise: it is then quite sure of the labels of that row's copies, and wrong. Labels as the
others predict them show it. With probability e an observation has a further error of variance v,

    p(y_i | others) = (1 - e) p_i(y_i) + e g_i(y_i)

where p_i is the predictive mixture without label i, and g_i has its mean, and its variance plus v. e and √v run over a
grid with equal prior weights, both log-uniform, √v up to the largest error of a left-out label: larger ones have not
been seen. That there are gross errors at all has the prior probability RARE; where it does not become more
probable than not, nothing changes. Nor does f ever: `likelihood="student"` finds a function that does not follow such
labels. Of many labels a random sample stands for all.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from scipy.special import gammaln, logsumexp

from ..geometry.priors import Priors
from .left_out import dof_without_one, predictions
from .nearest import SCORED, sample
from .posterior import Posterior

SIZES = np.geomspace(0.03, 1.0, 8)  # √v over the largest error of a left-out label
N_RATES, LARGEST_RATE = 12, 0.3  # of e, from one label of all
RARE = 0.02
HEAVIEST = 10  # components that predict left-out labels


def with_gross_errors(posterior: Posterior, y: np.ndarray, scale: float, priors: Priors | None = None) -> Posterior:
    """The posterior of labels y [n], in its units, with the gross errors that they show; `scale` is y's unit."""
    n = len(y)
    if n < 3:
        return posterior
    some = sample(n) if n > SCORED else None
    w, m, v = predictions(posterior.heaviest(HEAVIEST), y, priors, some)
    y, each = (y, 1.0) if some is None else (y[some], n / len(some))  # labels that one of the sample stands for
    mean = np.sum(w * m, 0)
    variance = np.sum(w * (v + (m - mean) ** 2), 0)
    away = np.abs(y - mean)
    dof = dof_without_one(posterior)
    v_gross = (SIZES * away.max()) ** 2
    log_p = logsumexp(_log_density(y - m, v, dof), axis=0, b=w)
    log_g = _log_density(away, variance + v_gross[:, None], dof)
    rates = np.geomspace(min(1 / n, LARGEST_RATE), LARGEST_RATE, N_RATES)[:, None, None]
    # log likelihood ratio [rates, sizes]
    ratio = each * np.logaddexp(np.log1p(-rates), np.log(rates) + log_g - log_p).sum(-1)
    log_odds = log(RARE / (1 - RARE)) + float(logsumexp(ratio)) - log(ratio.size)
    if not log_odds > 0:
        return posterior
    q = np.exp(ratio - logsumexp(ratio))
    rate = float(np.sum(q * rates[..., 0]))
    variance_gross = float(np.sum(q * rates[..., 0] * v_gross)) / rate
    note = (
        f"left-out labels lie up to {np.max(away / np.sqrt(variance)):.0f} of their standard deviations from their "
        f"predictions, so {rate:.1%} of new observations are expected to have gross errors of about "
        f"{scale * variance_gross**0.5:.3g}; likelihood='student' fits a function that does not follow such labels"
    )
    return replace(posterior, gross=rate, gross_variance=variance_gross, notes=(*posterior.notes, note))


def _log_density(away: np.ndarray, variance: np.ndarray, dof: float) -> np.ndarray:
    """Log density of Student t (or, with infinite dof, Gaussian) distributions with these variances."""
    if np.isinf(dof):
        return -0.5 * (away**2 / variance + np.log(2 * np.pi * variance))
    square = variance * (dof - 2)
    constant = gammaln(0.5 * (dof + 1)) - gammaln(0.5 * dof)
    return constant - 0.5 * np.log(np.pi * square) - 0.5 * (dof + 1) * np.log1p(away**2 / square)
