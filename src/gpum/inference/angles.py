"""Angles: a point (cos y, sin y) of the plane for each label, regressed with the candidates of both together.

    g = (g_1, g_2),  g_k ~ GP(0, σ_h² K) with the same candidate, σ_h² and r;  the angle is that of g

Labels are neither centred nor scaled: without a label nearby g is about zero, and its angle anything. With both
quadratic forms Q_1 + Q_2 and both determinants the evidence is that of `gp` with twice the labels. At x a component
says g ~ N(m, v I), whose direction has the mean (the projected normal distribution), z = |m|²/4v,

    E[g/|g|] = m/|m| · √(πz/2) (I_0(z) + I_1(z)) e^{-z}

The mean direction of the mixture is the prediction, and √(-2 log|E|) its circular standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, pi
from typing import Any

import numpy as np
from scipy.special import gammaln, ive

from ..geometry.candidate_set import Candidate, CandidateSet, LabelRows
from . import gp
from .decisions import DRAWS
from .exact import Decomposed, decompose, inverse_parts
from .posterior import Component, Posterior, RowsInSpaces


def average(
    candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None
) -> list[Posterior]:
    """Posteriors of g_1 and g_2, with the same weights, given angles y [n] in radians."""
    labels, n = LabelRows(candidate_set, known), len(y)
    a0 = candidate_set.priors.signal[0]
    a, variances = a0 + n, np.ones(n) if noise is None else noise

    def score(candidate: Candidate, at: np.ndarray, index: np.ndarray | slice) -> tuple[np.ndarray, Any]:
        one = decompose(candidate.covariance, at, np.cos(y[index]), variances[index])
        other, shape = one.of(np.sin(y[index])), a0 + len(at)
        b0 = candidate_set.priors.signal_rate(gp.RATIOS) / 2  # cos y and sin y of any angle have variance ½
        b = b0 + 0.5 * (one.quadratic(gp.RATIOS) + other.quadratic(gp.RATIOS))
        prior = candidate.log_prior + gp.ratio_prior(candidate, candidate_set.priors)
        log_p = a0 * np.log(b0) - shape * np.log(b) - one.log_det(gp.RATIOS) + prior
        return log_p, ((one, other), b / (shape - 1))

    weights = gp.weighed(candidate_set, labels, score)
    constant = gammaln(a) - gammaln(a0) - n * log(2 * pi) - float(np.log(variances).sum())
    one, other = (
        [Component(candidate, both[k], gp.RATIOS, w, signal) for candidate, w, (both, signal) in weights.heavy]
        for k in range(2)
    )
    posterior = weights.posterior(one, 2 * a, constant)
    return [posterior, replace(posterior, components=other)]


def directions(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E[g/|g|] for g ~ N(m, v I): m [2, ...], v [...]."""
    z = np.sum(m**2, 0) / (4 * np.maximum(v, 1e-300))
    length = np.sqrt(0.5 * pi * z) * (ive(0, z) + ive(1, z))
    length = np.where(z > 1e8, 1.0, length)  # all but certain
    return m / np.maximum(np.sqrt(np.sum(m**2, 0)), 1e-300) * length


def moments(posteriors: Sequence[Posterior], rows: RowsInSpaces, noise: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean angle and circular standard deviation, [n] each, in radians."""
    total = np.zeros((2, len(rows)))
    for (component, m1, v, _), (_, m2, _, _) in zip(*(p.conditionals(rows, noise) for p in posteriors), strict=True):
        total += directions(np.array([m1, m2]), v) @ component.weights
    return _of(total)


def _of(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Direction and circular standard deviation of mean unit vectors [2, n]."""
    length = np.clip(np.sqrt(np.sum(total**2, 0)), 1e-12, 1.0)
    return np.arctan2(total[1], total[0]), np.sqrt(-2 * np.log(length))


def samples(
    posteriors: Sequence[Posterior], rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool
) -> np.ndarray:
    """Joint draws of the angle, [rows, n]."""
    chosen = posteriors[0].choose(rng, n)
    one, other = (p.samples(rng, rows, n, noise, chosen) for p in posteriors)
    return np.arctan2(other, one)


def quantiles(posteriors: Sequence[Posterior], rows: RowsInSpaces, levels: np.ndarray, noise: bool) -> np.ndarray:
    """Quantiles [n, levels] of the angle, counted from half a turn below its mean; from DRAWS draws of each row."""
    rng = np.random.default_rng(0)
    middle, _ = moments(posteriors, rows, noise)
    weights = np.concatenate([component.weights for component in posteriors[0].components])
    m1, m2 = (np.concatenate([m for _, m, _, _ in p.conditionals(rows, noise)], 1) for p in posteriors)
    v = np.concatenate([v for _, _, v, _ in posteriors[0].conditionals(rows, noise)], 1)
    j = rng.choice(len(weights), DRAWS, p=weights)
    z = rng.standard_normal((2, len(rows), DRAWS)) * np.sqrt(v[:, j])
    away = np.arctan2(m2[:, j] + z[1], m1[:, j] + z[0]) - middle[:, None]
    away = (away + pi) % (2 * pi) - pi
    return middle[:, None] + np.quantile(away, levels, axis=1).T


def leave_one_out(posteriors: Sequence[Posterior], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean angle and circular standard deviation of each label as the others predict it; weights stay those of all."""
    total = np.zeros((2, len(y)))
    for one, other in zip(*(p.components for p in posteriors), strict=True):
        assert isinstance(one.d, Decomposed)
        sides = np.array([np.cos(y), np.sin(y)])  # with one kernel, so that C is that of both
        c, *alphas = inverse_parts(one.d, one.ratios, len(y), *zip(sides, (one.d.z, other.d.z), strict=True))
        total += directions(sides[:, :, None] - np.array(alphas) / c, one.signal / c) @ one.weights
    return _of(total)
