"""The gradient of the function that a posterior believes in, along the surface.

At a point a [n, k] of a space, with derivatives D [n, s, k] of its representation in s directions,

    slope of the mean    k'(a) U z/(S + r),               k' = ∂K(a, b)/∂a · D, [n, s, labels]
    their covariance     σ_h² (k'' - k' U (S + r)⁻¹ Uᵀ k'ᵀ),    k'' = ∂²K/∂a∂a' · D D', [n, s, s]

Functions of a Matérn kernel of smoothness 1 or less have no derivative. In flat space k'' is then that of slopes over
two steps of the smallest scale of the candidate, the spacing of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..basics.checks import GpumError
from ..heat.covariances import Covariance, Spectral, Stationary, Weighted, stationary, stationary_rate
from .exact import LowRank
from .nearest import SEEN, Nearest, Search, conditionals, near
from .posterior import Component, Posterior

Directions = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # points [n, k], D [n, s, k], frame [n, p, s], far


def gradients(posterior: Posterior, at: Mapping[int, Directions]) -> tuple[np.ndarray, np.ndarray]:
    """Mean [n, p] and variance [n, p] of the derivative by each column; `at` says where rows are in each space."""
    mean: np.ndarray | float = 0.0
    square: np.ndarray | float = 0.0
    for component in posterior.components:
        k, d = component.candidate.space, component.d
        a, D, frame, far = at[k]
        b = posterior.labels[k]
        assert b is not None
        one = _of_nearest if isinstance(d, Nearest) else _of_exact
        means, variance = one(component, b, a, D, frame, far)
        mean = mean + means @ component.weights
        square = square + (variance + means**2) @ component.weights
    assert isinstance(mean, np.ndarray)
    return mean, np.maximum(square - mean**2, 0.0)


def _of_exact(
    component: Component, b: np.ndarray, a: np.ndarray, D: np.ndarray, frame: np.ndarray, far: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Means and variances [n, p, J] of the derivatives, from a decomposition of labels at points b."""
    covariance, scales, d = component.candidate.covariance, component.candidate.scales, component.d
    assert not isinstance(d, Nearest)
    if isinstance(d, LowRank):
        assert isinstance(covariance, Weighted)
        cross = _features(covariance, a, D) @ d.along[1:]  # the constant has no slope
    else:
        cross = slopes_between(covariance, a, D, b) @ d.U  # [n, s, modes]
    cross[far] = 0.0
    prior = slopes_within(covariance, a, D, covariance.scale if scales is None else scales[0])
    inverse = 1 / (d.S[:, None] + component.ratios)  # [modes, J]
    means = frame @ (cross @ (d.z[:, None] * inverse))
    before = np.einsum("nps,nst,npt->np", frame, prior, frame)
    return means, component.signal * np.maximum(before[:, :, None] - (frame @ cross) ** 2 @ inverse, 0.0)


def _of_nearest(
    component: Component, b: np.ndarray, a: np.ndarray, D: np.ndarray, frame: np.ndarray, far: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The same where each row sees the nearest labels, and the variance of the signal is that near it."""
    d, covariance = component.d, component.candidate.covariance
    assert isinstance(d, Nearest)
    assert isinstance(covariance, Stationary)
    index = Search.of(b).nearest(a, SEEN)
    at = conditionals(covariance, b, d, float(component.ratios[0]), a, index)
    scales = np.stack([at.scale(nu, s2) for nu, s2 in zip(d.sharing, component.signal, strict=True)], 1)
    of_rows = []
    for k in range(len(a)):
        row = slice(k, k + 1)
        exact, known = near(component, b, a[row])
        local = replace(component, d=exact, signal=scales[k])
        of_rows.append(_of_exact(local, known, a[row], D[row], frame[row], far[row]))
    means, variances = (np.concatenate(parts) for parts in zip(*of_rows, strict=True))
    return means, variances


def slopes_between(covariance: Covariance, a: np.ndarray, D: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Derivatives of K(a, b) as a [n, k] moves in directions D [n, s, k], [n, s, m]."""
    if isinstance(covariance, Weighted):
        return _features(covariance, a, D) @ covariance.features(b).T
    if isinstance(covariance, Stationary):
        away = (a[:, None] - b) / covariance.scale  # [n, m, k]
        u = np.linalg.norm(away, axis=2)
        return np.einsum(
            "nm,nmk,nsk->nsm", stationary_rate(covariance.nu, u), away, D / covariance.scale, optimize=True
        )
    raise GpumError(f"the kernel {type(covariance).__name__} has no gradient here")


def slopes_within(covariance: Covariance, a: np.ndarray, D: np.ndarray, step: float) -> np.ndarray:
    """Prior covariance [n, s, s] of the slopes in directions D [n, s, k] at points a, of unit signal."""
    if isinstance(covariance, Weighted):
        F = _features(covariance, a, D)
        return F @ F.transpose(0, 2, 1)
    if not isinstance(covariance, Stationary):
        raise GpumError(f"the kernel {type(covariance).__name__} has no gradient here")
    nu, E = covariance.nu, D / covariance.scale
    if nu <= 1:
        u = step / covariance.scale
        bend = float(2 * (1 - stationary(nu, np.asarray(2 * u))) / (2 * u) ** 2)
    else:
        bend = float(-stationary_rate(nu, np.zeros(1))[0])
    return bend * E @ E.transpose(0, 2, 1)


def _features(covariance: Weighted, a: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Derivatives [n, s, k] of a covariance's features in directions D [n, s, k]."""
    n, s, _ = D.shape
    if not isinstance(covariance, Spectral):
        return covariance.features(D.reshape(n * s, -1)).reshape(n, s, -1)
    root = np.sqrt(covariance.weights)
    F, moved = a * root, D * root
    if np.isfinite(covariance.bound):  # s(a) = √(bound/v) where v = |F|² is above the bound
        v = np.einsum("nk,nk->n", F, F)
        shrink = np.sqrt(covariance.bound / np.maximum(v, covariance.bound))
        change = np.where(v > covariance.bound, -shrink / np.maximum(v, covariance.bound), 0.0)
        along = np.einsum("nk,nsk->ns", F, moved)
        moved = shrink[:, None, None] * moved + (change[:, None] * along)[:, :, None] * F[:, None]
    return moved if covariance.offsets is None else moved + D * np.sqrt(covariance.offsets)
