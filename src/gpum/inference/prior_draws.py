"""Draws of functions before there are labels: candidate, signal and noise from their priors, then a function."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.special import logsumexp

from ..geometry.candidate_set import CandidateSet
from ..geometry.priors import RATIOS
from .posterior import RowsInSpaces


def draw(
    candidate_set: CandidateSet, rows: RowsInSpaces, rng: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """n functions at rows, [rows, n], and the σ of the noise with each, [n]: labels have mean 0 and variance 1."""
    log_prior = np.array([candidate.log_prior for candidate in candidate_set.candidates])
    f, sd = np.empty((len(rows), n)), np.empty(n)
    chosen = rng.choice(len(log_prior), n, p=np.exp(log_prior - logsumexp(log_prior)))
    for k in np.unique(chosen):
        candidate, mine = candidate_set.candidates[k], np.flatnonzero(chosen == k)
        a = rows.at[candidate.space]
        assert a is not None
        w, V = eigh(candidate.covariance.gram(a, a))
        root = V * np.sqrt(np.maximum(w, 0.0))
        r = rng.choice(RATIOS, len(mine), p=np.exp(candidate_set.priors.log_ratio(candidate.expects_noise)))
        signal = candidate_set.priors.signal_rate(r) / rng.gamma(candidate_set.priors.signal[0], size=len(mine))
        f[:, mine] = np.sqrt(signal) * (root @ (V.T @ rng.standard_normal((len(rows), len(mine)))))
        sd[mine] = np.sqrt(signal * r)
    return f, sd
