"""Each label as the others predict it, in Gaussian process regression.

Without label i (C = K + rI, α = C⁻¹y, c = C⁻¹_ii) the same numbers follow from those of all labels:

    mean = y_i - α_i/c,   var = σ_h²/c,   Q₋ᵢ = Q - α_i²/c,   |C₋ᵢ| = |C| c

Where some candidates see the nearest labels only (`nearest`), each label is predicted by those nearest to it.

Left-out labels also show gross errors of observations (`with_gross_errors`). A GP with Gaussian noise may take an
outlying label for a spike of f, above all where the labels of copies of rows agree and so say that there is no noise:
it is then quite sure of the labels of that row's copies, and wrong. With probability e an observation has a further
error of variance v,

    p(y_i | others) = (1 - e) p_i(y_i) + e g_i(y_i)

where p_i is the predictive mixture without label i, and g_i has its mean, and its variance plus v. e and √v run over a
grid with equal prior weights, both log-uniform, √v up to the largest error of a left-out label: larger ones have not
been seen. f never changes: `likelihood="student"` finds a function that does not follow such labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, pi

import numpy as np
from scipy.special import gammaln, logsumexp

from ..basics.checks import GpumError
from ..geometry.priors import Priors
from . import nearest
from .decisions import GROSS_SIZES, HEAVIEST, LARGEST_RATE, N_RATES, RARE
from .exact import inverse_parts
from .gp import ratio_prior, units
from .nearest import SCORED, Nearest, sample
from .posterior import Posterior
from .quantiles import mixture_moments, mixture_quantiles
from .stacked import known

Units = Callable[[np.ndarray], tuple[float, float]]


def leave_one_out(
    posterior: Posterior, y: np.ndarray, levels: Sequence[float] = (0.025, 0.975), units_of: Units | None = units,
    priors: Priors | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Mean [n], variance [n] and quantiles [n, levels] of each label as the others predict it.

    y [n] are the labels in the posterior's units. For "average" that is what a fit without the label would say of it
    (with the weights, σ_h² and units of the other labels), but for candidates too light to be components of the
    posterior. For "evidence" the hyperparameters stay those of all labels. `units_of` gives the units of a fit's
    labels; None: they stay those of all.
    """
    if len(y) < 2:
        raise GpumError(f"y has {len(y)} label(s), and leaving one out needs at least 2; label more rows")
    weights, means, variances = mixture(posterior, cavity_moments(posterior, y, units_of, priors))
    middle, variance = mixture_moments(weights, means, variances)
    w, m, v = posterior.observed(weights, means, variances)
    ends = mixture_quantiles(w, m, np.sqrt(v), dof_without_one(posterior), np.asarray(levels, float))
    return middle, variance + posterior.gross * posterior.gross_variance, ends


def predictions(
    posterior: Posterior, y: np.ndarray, priors: Priors | None = None, index: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances [components and ratios, n] of the mixture that predicts each label from the others.

    y [n] are the labels in the posterior's units, which stay those of all labels. With an index [m], [..., m] of
    these: among so many labels, one does not change the weights of candidates.
    """
    parts = cavity_moments(posterior, y, None, priors) if index is None else with_weights_of_all(posterior, y, index)
    return mixture(posterior, parts)


def log_density(posterior: Posterior, y: np.ndarray, priors: Priors | None = None) -> np.ndarray:
    """Log density of each label as the others predict it, [n]; y and its units are as in `predictions`."""
    weights, means, variances = posterior.observed(*predictions(posterior, y, priors))
    dof = dof_without_one(posterior)
    return logsumexp(_log_density(y - means, variances, dof), axis=0, b=weights)


def dof_without_one(posterior: Posterior) -> float:
    """Degrees of freedom of the predictions of each label by the others; infinite for "evidence"."""
    return posterior.dof if _sees_nearest(posterior) else posterior.dof - 1


def log_densities(
    posterior: Posterior, y: np.ndarray, units_of: Units = units, priors: Priors | None = None
) -> np.ndarray | None:  # fmt: skip
    """Mean log density of a label as the others predict it with one component alone, [components]; None with one label.

    y [n] are the labels in the posterior's units.
    """
    if len(y) < 2:
        return None
    dof, values = dof_without_one(posterior), []
    for log_p, means, variances in cavity_moments(posterior, y, units_of, priors):
        log_w = log_p - logsumexp(log_p, axis=1, keepdims=True)
        density = _log_density(y[:, None] - means, variances, dof)
        values.append(float(np.mean(logsumexp(log_w + density, axis=1))))
    return np.array(values)


def cavity_moments(
    posterior: Posterior, y: np.ndarray, units_of: Units | None, priors: Priors | None
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:  # fmt: skip
    """Of each component log weights, means and variances [n, ratios] of each label as the others predict it.

    With `units_of` in the units of the labels other than each one; of many labels, one does not change them. Where
    σ_h² is not integrated in closed form, weights follow from those of all labels.
    """
    averaged = bool(np.isfinite(posterior.dof))
    if _sees_nearest(posterior) or (units_of is None and not averaged):
        return with_weights_of_all(posterior, y)
    n, priors = len(y), priors or Priors()
    mean, s = np.zeros((n, 1)), np.ones((n, 1))
    if units_of is not None:
        mean, s = np.array([units_of(np.delete(y, i)) for i in range(n)]).T[:, :, None]
    one, y0 = np.ones(n), y - y.mean()
    m = mean - y.mean()
    a0 = priors.signal[0]
    a = a0 + (n - 1) / 2
    parts = []
    for component in posterior.components:
        candidate, r, dense = component.candidate, component.ratios, component.d
        assert not isinstance(dense, Nearest)
        d = dense.at(candidate.covariance, known(posterior.labels[candidate.space]))
        c, by_y, by_one = inverse_parts(d, r, n, (y0, d.U.T @ y0), (one, d.U.T @ one))
        alpha = (by_y - m * by_one) / s  # row i: of labels in the units of those other than i
        Q = (y0 @ by_y - 2 * m * (one @ by_y) + m**2 * (one @ by_one)) / s**2 - alpha**2 / c
        b0 = priors.signal_rate(r)
        b, signal, log_p = b0 + 0.5 * np.maximum(Q, 0.0), component.signal, np.zeros_like(c)
        if averaged:
            prior = candidate.log_prior + ratio_prior(candidate, priors)
            log_p = prior + a0 * np.log(b0) - a * np.log(b)
            log_p = log_p - 0.5 * (d.log_det(r) + np.log(c))
            signal = b / (a - 1)
        parts.append((log_p, y[:, None] - s * alpha / c, s**2 * signal / c))
    return parts


def mixture(
    posterior: Posterior, parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances [components and ratios, n] of all components."""
    means, variances = (np.concatenate([part[k] for part in parts], 1).T for k in (1, 2))
    return posterior.weights_from([log_p for log_p, _, _ in parts]), means, variances


def _sees_nearest(posterior: Posterior) -> bool:
    """Whether some candidates see the nearest labels only."""
    return any(isinstance(component.d, Nearest) for component in posterior.components)


def with_weights_of_all(
    posterior: Posterior, y: np.ndarray, index: np.ndarray | None = None, log_scale: np.ndarray | float = 0.0
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """As `cavity_moments`, in the units of all labels, of which an index [m] may ask for some.

    A component's evidence without a label is its evidence over the density that it gave to the label. Labels y are [n],
    or [components, n] where each component has its own; densities are then multiplied by e^log_scale, as y.
    """
    parts, n, asked = [], y.shape[-1], slice(None) if index is None else index
    each = (np.broadcast_to(v, (len(posterior.components), n)) for v in (y, log_scale))
    for component, mass, at, more in zip(posterior.components, posterior.log_masses(), *each, strict=True):
        points, d, at = known(posterior.labels[component.candidate.space]), component.d, at[asked]
        if isinstance(d, Nearest):
            m, v = nearest.leave_one_out(component, points, index)
        else:
            of_asked = d.at(component.candidate.covariance, points[asked], asked)
            c, alpha = inverse_parts(of_asked, component.ratios, n, (at, d.z))
            m, v = at[:, None] - alpha / c, component.signal / c
        density = -0.5 * ((at[:, None] - m) ** 2 / v + np.log(2 * pi * v)) + more[asked][:, None]
        parts.append((mass - density, m, v))
    return parts


def with_gross_errors(posterior: Posterior, y: np.ndarray, scale: float, priors: Priors | None = None) -> Posterior:
    """The posterior of labels y [n], in its units, with the gross errors that they show; `scale` is y's unit.

    See the module. That there are gross errors at all has the prior probability RARE; where it does not become more
    probable than not, nothing changes. Of many labels a random sample stands for all.
    """
    n = len(y)
    if n < 3:
        return posterior
    index = sample(n) if n > SCORED else None
    w, m, v = predictions(posterior.heaviest(HEAVIEST), y, priors, index)
    y, each = (y, 1.0) if index is None else (y[index], n / len(index))  # labels that one of the sample stands for
    mean, variance = mixture_moments(w, m, v)
    away = np.abs(y - mean)
    dof = dof_without_one(posterior)
    v_gross = (GROSS_SIZES * away.max()) ** 2
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
