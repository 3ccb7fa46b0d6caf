"""Quantiles and moments of many mixtures of Student t (or Gaussian) distributions at once.

    F(x) = Σ_j w_j T((x - m_j)/s_j) = p,      T the distribution function with `dof` degrees of freedom

The quantile of a mixture lies between the least and the largest of its components' quantiles. Newton's
method starts from their mean; the bracket is halved where a step would leave it or convergence is slow. T is
interpolated by a cubic between values and slopes at CELLS points equally spaced in v = z/(1 + |z|), with an error below
1e-11 for all z. For levels nearer to 0 or 1 than EXACT, T itself is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import t as student

LIGHT = 1e-4  # of the heaviest component's weight: lighter ones are left out
CELLS = 2048
EXACT = 1e-5  # levels below it are found with T itself, which takes ten times as long
NEAR = 1e-6  # relative error of the level at which one last Newton step is taken; it leaves about the square
HALVED = 4  # one of so many steps halves the bracket
STEPS = 60 * HALVED  # at most: the bracket is then below rounding
NARROW = 1e-16  # relative to a mixture's width: a narrower bracket is one point
AT_ONCE = 1 << 15  # components times mixtures of a block, which fits into a processor's cache

Slope = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # T(z) and its slope


def mixture_quantiles(
    weights: np.ndarray, means: np.ndarray, sds: np.ndarray, dof: float, levels: np.ndarray
) -> np.ndarray:
    """Quantiles [n, levels] of n mixtures of Student t: means and sds [J, n], weights [J, n] or [J, 1]."""
    heavy = np.any(weights > LIGHT * weights.max(0), axis=1)
    weights, means = np.broadcast_to(weights, means.shape)[heavy], means[heavy]
    scales = sds[heavy] * (1.0 if np.isinf(dof) else np.sqrt((dof - 2) / dof))
    width = np.ptp(means, 0) + scales.max(0)
    scales = np.maximum(scales, np.maximum(NARROW * width, 1e-300))
    look_up, exactly = partial(_looked_up, _table(dof)), partial(_exactly, dof)
    quantiles = np.empty((means.shape[1], len(levels)))
    size = max(1, AT_ONCE // len(means))
    for part in (slice(k, k + size) for k in range(0, len(quantiles), size)):
        w, m, s = weights[:, part] / weights[:, part].sum(0), means[:, part], scales[:, part]
        for k, level in enumerate(levels):  # the upper half by reflection: F is small where it must be right
            p, side = (level, 1.0) if level <= 0.5 else (1 - level, -1.0)
            of = look_up if p >= EXACT else exactly
            quantiles[part, k] = side * _solve(of, w, side * m, s, p, float(student.ppf(p, dof)))
    return quantiles


def mixture_moments(
    weights: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean and variance [n] of mixtures: means and variances [J, n], weights [J, n] that add up to 1."""
    mean = np.sum(weights * means, 0)
    return mean, np.sum(weights * (variances + (means - mean) ** 2), 0)


def _solve(of: Slope, w: np.ndarray, m: np.ndarray, s: np.ndarray, p: float, z: float) -> np.ndarray:
    """Quantiles [n] at one level p, which is z for a single component; w, m and s are [J, n]."""
    quantile, rate = m + s * z, 1 / s
    low, high, x = quantile.min(0), quantile.max(0), np.sum(w * quantile, 0)
    solution, going = x.copy(), np.arange(len(x))
    for step in range(1, STEPS + 1):
        T, slope = of((x - m) * rate)
        F, f = np.einsum("jn,jn->n", w, T), np.einsum("jn,jn,jn->n", w, slope, rate)
        low, high = np.where(p >= F, x, low), np.where(p <= F, x, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = x - F * np.log(F / p) / f  # log F bends less than F where it is small
        out = ~((new >= low) & (new <= high))
        near = np.abs(F - p) <= NEAR * p
        done = near | (high - low <= 1e-15 * np.maximum(np.abs(low), np.abs(high)))
        new = np.where(out, np.where(done, x, 0.5 * (low + high)), new)
        if step % HALVED == 0:
            new = np.where(done, new, 0.5 * (low + high))
        solution[going] = new
        if done.all():
            break
        if done.any():
            keep = ~done
            going, low, high, new = going[keep], low[keep], high[keep], new[keep]
            w, m, rate = w[:, keep], m[:, keep], rate[:, keep]
        x = new
    return solution


def _table(dof: float) -> np.ndarray:
    """Coefficients of T in each cell [4, cells], in units of the cell."""
    v = np.linspace(-1, 1, CELLS + 1)[1:-1]
    z = v / (1 - np.abs(v))
    T = np.concatenate([[0.0], student.cdf(z, dof), [1.0]])
    slope = np.concatenate([[0.0], student.pdf(z, dof) * (1 + np.abs(z)) ** 2, [0.0]]) * 2 / CELLS
    rise, begin, end = np.diff(T), slope[:-1], slope[1:]
    cells = np.stack([T[:-1], begin, 3 * rise - 2 * begin - end, begin + end - 2 * rise])
    return np.concatenate([cells, [[1.0], [0.0], [0.0], [0.0]]], 1)  # and all beyond the last


def _looked_up(table: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = 1 + np.abs(z)
    u = z / size
    u += 1
    u *= CELLS / 2
    cell = u.astype(np.intp)
    u -= cell
    a, b, c, d = (row.take(cell) for row in table)
    du = d * u
    return a + u * (b + u * (c + du)), (b + u * (2 * c + 3 * du)) * (CELLS / 2) / size**2


def _exactly(dof: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return student.cdf(z, dof), student.pdf(z, dof)
