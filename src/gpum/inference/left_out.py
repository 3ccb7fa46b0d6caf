"""Each label as the others predict it, in Gaussian process regression.

Without label i (C = K + rI, α = C⁻¹y, c = C⁻¹_ii) the same numbers follow from those of all labels:

    mean = y_i - α_i/c,   var = σ_h²/c,   Q₋ᵢ = Q - α_i²/c,   |C₋ᵢ| = |C| c

Where some settings see the nearest labels only (`nearest`), each label is predicted by those nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t

from ..basics.checks import GpumError
from ..geometry.priors import Priors
from . import nearest
from .exact import Decomposed, inverse_parts
from .gp import ratio_prior, units
from .nearest import Nearest
from .posterior import Posterior
from .quantiles import mixture_quantiles

Units = Callable[[np.ndarray], tuple[float, float]]


def leave_one_out(
    posterior: Posterior, y: np.ndarray, levels: Sequence[float] = (0.025, 0.975), units_of: Units = units,
    priors: Priors | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Mean [n], variance [n] and quantiles [n, levels] of each label as the others predict it; see `without_each`."""
    _check(y)
    if _of_nearest(posterior):
        return _leave_one_of_many_out(posterior, y, np.asarray(levels, float), units_of)
    found = without_each(posterior, y, units_of, priors or Priors())
    weights = posterior.doubted([log_p for log_p, _, _ in found])
    means, variances = (np.concatenate([one[k] for one in found], 1).T for k in (1, 2))
    middle = np.sum(weights * means, 0)
    variance = np.sum(weights * (variances + (means - middle) ** 2), 0)
    dof = posterior.dof - 1  # infinite for "evidence"
    return middle, variance, mixture_quantiles(weights, means, np.sqrt(variances), dof, np.asarray(levels, float))


def log_densities(
    posterior: Posterior, y: np.ndarray, units_of: Units = units, priors: Priors | None = None
) -> np.ndarray | None:  # fmt: skip
    """Mean log density of a label as the others predict it with one component alone, [components].

    None with one label, or where some settings see the nearest labels only.
    """
    if len(y) < 2 or _of_nearest(posterior):
        return None
    dof, values = posterior.dof - 1, []
    of_z = norm if np.isinf(dof) else student_t(dof)
    for log_p, means, variances in without_each(posterior, y, units_of, priors or Priors()):
        sd = np.sqrt(variances * (1.0 if np.isinf(dof) else (dof - 2) / dof))
        log_w = log_p - logsumexp(log_p, axis=1, keepdims=True)
        density = of_z.logpdf((y[:, None] - means) / sd) - np.log(sd)
        values.append(float(np.mean(logsumexp(log_w + density, axis=1))))
    return np.array(values)


def without_each(
    posterior: Posterior, y: np.ndarray, units_of: Units, priors: Priors
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:  # fmt: skip
    """Of each component log weights, means and variances [n, ratios] of each label as the others predict it.

    y [n] are the labels in their own units. For "average" that is what a fit without the label would say of it (with
    the weights, σ_h² and units of the other labels), but for settings too light to be components of the posterior. For
    "evidence" the hyperparameters stay those of all labels. `units_of` gives the units of a fit's labels.
    """
    n, averaged = len(y), bool(np.isfinite(posterior.dof))
    mean, s = np.array([units_of(np.delete(y, i)) for i in range(n)]).T[:, :, None]  # [n, 1]: of the others
    one, y0 = np.ones(n), y - y.mean()
    m = mean - y.mean()
    a0 = priors.signal[0]
    a = a0 + (n - 1) / 2
    found = []
    for component in posterior.components:
        r, d = component.ratios, component.d
        assert isinstance(d, Decomposed)
        c, by_y, by_one = inverse_parts(d, r, y0, one)
        alpha = (by_y - m * by_one) / s  # row i: of labels in the units of those other than i
        Q = (y0 @ by_y - 2 * m * (one @ by_y) + m**2 * (one @ by_one)) / s**2 - alpha**2 / c
        b0 = priors.signal_rate(r)
        b, signal, log_p = b0 + 0.5 * np.maximum(Q, 0.0), component.signal, np.zeros_like(c)
        if averaged:
            prior = component.setting.log_prior + ratio_prior(component.setting, priors)
            log_p = prior + a0 * np.log(b0) - a * np.log(b)
            log_p = log_p - 0.5 * (d.log_det(r) + np.log(c))
            signal = b / (a - 1)
        found.append((log_p, y[:, None] - s * alpha / c, s**2 * signal / c))
    return found


def _check(y: np.ndarray) -> None:
    if len(y) < 2:
        raise GpumError(f"y has {len(y)} label(s), and leaving one out needs at least 2; label more rows")


def _of_nearest(posterior: Posterior) -> bool:
    """Whether some settings see the nearest labels only."""
    return any(isinstance(component.d, Nearest) for component in posterior.components)


def _leave_one_of_many_out(
    posterior: Posterior, y: np.ndarray, levels: np.ndarray, units_of: Units
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `leave_one_out` where some settings see the nearest labels only: of so many, one does not change the units."""
    mean, scale = units_of(y)
    z, log_p, means, variances = (y - mean) / scale, [], [], []
    for component, mass in zip(posterior.components, posterior.log_masses(), strict=True):
        if isinstance(component.d, Nearest):
            a = posterior.labels[component.setting.space]
            assert a is not None
            m, v = nearest.leave_one_out(component, a)
        else:
            c, alpha = inverse_parts(component.d, component.ratios, z)
            m, v = z[:, None] - alpha / c, component.signal / c
        log_p.append(mass + 0.5 * ((z[:, None] - m) ** 2 / v + np.log(2 * pi * v)))
        means.append(m)
        variances.append(v)
    weights, m, v = posterior.doubted(log_p), np.concatenate(means, 1).T, np.concatenate(variances, 1).T
    middle = np.sum(weights * m, 0)
    variance = np.sum(weights * (v + (m - middle) ** 2), 0)
    ends = mixture_quantiles(weights, m, np.sqrt(v), posterior.dof, levels)
    return mean + scale * middle, scale**2 * variance, mean + scale * ends
