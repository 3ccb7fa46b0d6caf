"""Each label as the others predict it, in Gaussian process regression.

Without label i (C = K + rI, α = C⁻¹y, c = C⁻¹_ii) the same numbers follow from those of all labels:

    mean = y_i - α_i/c,   var = σ_h²/c,   Q₋ᵢ = Q - α_i²/c,   |C₋ᵢ| = |C| c

Where some settings see the nearest labels only (`nearest`), each label is predicted by those nearest to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import numpy as np

from ..basics.checks import GpumError
from . import nearest
from .exact import Decomposed, inverse_parts
from .gp import A0, ratio_prior, signal_rate, units
from .nearest import Nearest
from .posterior import Posterior
from .quantiles import mixture_quantiles


def leave_one_out(
    posterior: Posterior, y: np.ndarray, levels: Sequence[float] = (0.025, 0.975)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean [n], variance [n] and quantiles [n, levels] of each label as the others predict it.

    y [n] are the labels in their own units. For "average" that is what a fit without the label would say of it (with
    the weights, σ_h² and units of the other labels), but for settings too light to be components of the posterior. For
    "evidence" the hyperparameters stay those of all labels.
    """
    n = len(y)
    if n < 2:
        raise GpumError(f"y has {n} label(s), and leaving one out needs at least 2; label more rows")
    if _sees_nearest(posterior):  # of so many labels, one does not change the units
        mean, s = units(y)
        weights, means, variances = predictions(posterior, (y - mean) / s)
        means, variances, dof = mean + s * means, s**2 * variances, posterior.dof
    else:
        mean, s = np.array([units(np.delete(y, i)) for i in range(n)]).T[:, :, None]  # [n, 1]: of the others
        weights, means, variances = _without_each(posterior, y, mean, s)
        dof = dof_without_one(posterior, n)
    middle = np.sum(weights * means, 0)
    variance = np.sum(weights * (variances + (means - middle) ** 2), 0)
    some, m, v = posterior.observed(weights, means, variances)
    ends = mixture_quantiles(some, m, np.sqrt(v), dof, np.asarray(levels, float))
    return middle, variance + posterior.gross * posterior.gross_variance, ends


def predictions(posterior: Posterior, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances [components and ratios, n] of the mixture that predicts each label from the others.

    y [n] are the labels in the posterior's units, which stay those of all labels.
    """
    if not _sees_nearest(posterior):
        return _without_each(posterior, y, np.zeros((len(y), 1)), np.ones((len(y), 1)))
    log_p, means, variances = [], [], []
    for component, mass in zip(posterior.components, posterior.log_masses(), strict=True):
        if isinstance(component.d, Nearest):
            a = posterior.labels[component.setting.space]
            assert a is not None
            m, v = nearest.leave_one_out(component, a)
        else:
            c, alpha = inverse_parts(component.d, component.ratios, y)
            m, v = y[:, None] - alpha / c, component.signal / c
        log_p.append(mass + 0.5 * ((y[:, None] - m) ** 2 / v + np.log(2 * pi * v)))
        means.append(m)
        variances.append(v)
    return posterior.doubted(log_p), np.concatenate(means, 1).T, np.concatenate(variances, 1).T


def dof_without_one(posterior: Posterior, n: int) -> float:
    """Degrees of freedom of the predictions of each of n labels by the others."""
    return 2 * A0 + n - 1 if np.isfinite(posterior.dof) else np.inf


def _sees_nearest(posterior: Posterior) -> bool:
    return any(isinstance(component.d, Nearest) for component in posterior.components)


def _without_each(
    posterior: Posterior, y: np.ndarray, mean: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `predictions`, where mean and s [n, 1] are the units of the labels other than each one."""
    n, averaged = len(y), bool(np.isfinite(posterior.dof))
    one, y0 = np.ones(n), y - y.mean()
    m = mean - y.mean()
    a = A0 + (n - 1) / 2
    found = []
    for component in posterior.components:
        r, d = component.ratios, component.d
        assert isinstance(d, Decomposed)
        c, by_y, by_one = inverse_parts(d, r, y0, one)
        alpha = (by_y - m * by_one) / s  # row i: of labels in the units of those other than i
        Q = (y0 @ by_y - 2 * m * (one @ by_y) + m**2 * (one @ by_one)) / s**2 - alpha**2 / c
        b0 = signal_rate(r)
        b, signal, log_p = b0 + 0.5 * np.maximum(Q, 0.0), component.signal, np.zeros_like(c)
        if averaged:
            prior = component.setting.log_prior + ratio_prior(component.setting)
            log_p = prior + A0 * np.log(b0) - a * np.log(b)
            log_p = log_p - 0.5 * (d.log_det(r) + np.log(c))
            signal = b / (a - 1)
        found.append((log_p, y[:, None] - s * alpha / c, s**2 * signal / c))
    means, variances = (np.concatenate([one[k] for one in found], 1).T for k in (1, 2))
    return posterior.doubted([log_p for log_p, _, _ in found]), means, variances
