"""Expectation propagation for classes: the multinomial probit on functions with one kernel.

    y(x) = argmax_c f_c(x) + ε_c,   f_c ~ GP(0, k),   k(x, x) = 1,   ε ~ N(0, r),   c = 1..C

Only differences of the f_c matter, and sites are the same in all C - 1 directions of these,

    site_i ∝ exp(ν_i·f(x_i) - ½ τ_i |f(x_i)|²),   ν_i ∈ R^C, τ_i a number

so that all classes have one n × n matrix in common, and the posterior at x is Gaussian with one variance:

    α = (I + TK)⁻¹ν,  R = (I + TK)⁻¹T:   mean(x) = k(x)ᵀα  [C],   var(x) = k(x, x) - k(x)ᵀR k(x)

With more labels than a kernel has modes (K = FFᵀ on the labels, F [n, k]) all that is in the modes, linear in n:

    A = I + FᵀTF,  α = A⁻¹Fᵀν [k],  R = I - A⁻¹ [k, k],   and f(x), the modes at x, stands for k(x)

At few labels this has the evidence of a brute-force count to about 0.1; Laplace's (softmax) is off by several nats as
soon as the signal is strong, prefers weak signals for that reason alone, and leaves nearly even probabilities;
regression on codes treats classes as numbers, and its evidence prefers kernels that connect nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, logsumexp, softmax

from .decisions import CALM, CLASS_DAMPING, CLASS_SETTLED, CLASS_SWEEPS, STILL
from .relevance import inverse

NARROWEST = 0.01  # least tilted variance, relative to the cavity's: quadrature is not accurate below it
LEAST = 1e-9  # least precision of a site
ONE_BY_ONE = 40  # labels from which problems are solved one after the other, each in the cache of a core
JITTER = 1e-6  # on the diagonal, for rows that the kernel does not distinguish
NODES, LOG_WEIGHTS = hermegauss(16)
LOG_WEIGHTS = np.log(LOG_WEIGHTS / LOG_WEIGHTS.sum())
AT_ONCE = 2**19  # numbers of the largest array in `tilted`
LINK = 1.702 / np.sqrt(2)  # Φ(d/√2V) ≈ 1/(1 + exp(-LINK d/√V)), within 0.01


@dataclass(frozen=True)
class ClassSites:
    """What expectation propagation gives for B problems, in labels or in modes (then n is k in α and R)."""

    log_evidence: np.ndarray  # [B]; -inf where sites have diverged
    alpha: np.ndarray | list[np.ndarray]  # [n, C] each
    R: np.ndarray | list[np.ndarray]  # [n, n] each
    without: np.ndarray  # class probabilities of each label, as the others predict it, [B, n, C]
    settled: np.ndarray  # [B], bool


def in_labels(K: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, ...]:
    """α, R, log|I + TK|, and the posterior's mean and variance at the labels, given sites; of one problem or several.

    With B = I + T^½ K T^½ the variance is (1 - B⁻¹_ii)/τ_i, and R = T^½ B⁻¹ T^½.
    """
    if K.ndim == 3 and K.shape[1] >= ONE_BY_ONE:
        return tuple(map(np.array, zip(*map(in_labels, K, tau, nu), strict=True)))
    tau, diagonal = np.maximum(tau, LEAST), np.arange(K.shape[-1])
    root = np.sqrt(tau)
    B = root[..., :, None] * K * root[..., None, :]
    B[..., diagonal, diagonal] += 1 + JITTER * tau
    R, log_det = map(np.asarray, inverse(B) if B.ndim == 2 else (np.linalg.inv(B), np.linalg.slogdet(B)[1]))
    variance = (1 - R[..., diagonal, diagonal]) / tau
    R *= root[..., :, None]
    R *= root[..., None, :]
    alpha = nu - R @ (K @ nu + JITTER * nu)
    return alpha, R, log_det, K @ alpha + JITTER * alpha, variance


def in_modes(F: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same in modes F [n, k]."""
    if F.ndim == 3:
        return tuple(map(np.array, zip(*map(in_modes, F, tau, nu), strict=True)))
    identity = np.eye(F.shape[1])
    W, log_det = inverse(identity + F.T @ (tau[:, None] * F))
    alpha = W @ (F.T @ nu)
    return alpha, identity - W, np.asarray(log_det), F @ alpha, np.einsum("nk,nk->n", F @ W, F)


def expectation_propagation(
    K: np.ndarray, r: np.ndarray, y: np.ndarray, n_classes: int, sweeps: int = CLASS_SWEEPS,
    solve: Callable[..., tuple[np.ndarray, ...]] = in_labels,
) -> ClassSites:  # fmt: skip
    """Expectation propagation for B problems at once: K [B, n, n] with unit diagonal, ratios r [B], classes y [n].

    With solve=`in_modes` K are the modes F [B, n, k].
    """
    B, n, k = K.shape
    order = own_class_first(y, n_classes)[None]
    back = np.argsort(order, 2)
    tau, nu = np.zeros((B, n)), np.zeros((B, n, n_classes))
    mean, variance = np.zeros((B, n, n_classes)), np.ones((B, n))
    alpha, R, log_det = np.zeros((B, k, n_classes)), np.zeros((B, k, k)), np.zeros(B)
    active, last = np.arange(B), np.zeros(B)
    for sweep in range(sweeps):
        a = active
        cavity, at = _cavity(mean[a], variance[a], tau[a], nu[a])
        _, slope, bend = tilted(np.take_along_axis(at, order, 2), cavity + r[a, None])
        slope = np.take_along_axis(slope, back, 2)
        narrow = np.clip(cavity + cavity**2 * bend, NARROWEST * cavity, cavity)
        step = 1.0 if sweep == 0 else CLASS_DAMPING if sweep < CALM else CLASS_DAMPING / 2
        change = step * (1 / narrow - 1 / cavity - tau[a])
        moved = (at + cavity[..., None] * slope) / narrow[..., None] - at / cavity[..., None]
        moved = step * (moved - nu[a])
        nu[a] += moved
        last[a] = np.abs(moved).max((1, 2)) / np.maximum(np.abs(nu[a]).max((1, 2)), 1e-300)
        tau[a] += change
        alpha[a], R[a], log_det[a], mean[a], spread = solve(K[a], tau[a], nu[a])
        variance[a] = np.maximum(spread, 1e-9)
        active = a[np.abs(change).max(1) > CLASS_SETTLED * tau[a].max(1)]
        if not len(active):
            break
    cavity, at = _cavity(mean, variance, tau, nu)
    log_z, _, _ = tilted(np.take_along_axis(at, order, 2), cavity + r[:, None])
    D = n_classes - 1
    joined = np.sum((at / cavity[..., None] + nu) ** 2, 2) / (1 / cavity + tau) - np.sum(at**2, 2) / cavity
    log_evidence = np.sum(log_z + 0.5 * D * np.log1p(cavity * tau) - 0.5 * joined, 1)
    log_evidence += -0.5 * D * log_det + 0.5 * np.sum(nu * mean, (1, 2))
    log_evidence[log_evidence > 0] = -np.inf  # classes of labels have no probability above 1
    settled = ~np.isin(np.arange(B), active) & (last <= STILL) & np.isfinite(log_evidence)
    without = softmax(LINK * at / np.sqrt(cavity + r[:, None])[..., None], axis=2)
    return ClassSites(log_evidence, alpha, R, without, settled)


def own_class_first(y: np.ndarray, n_classes: int) -> np.ndarray:
    """All classes in an order that begins with each label's own, [n, C]."""
    others = np.arange(n_classes - 1)
    return np.column_stack([y, others + (others >= y[:, None])])


def _cavity(mean: np.ndarray, variance: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance [B, n] and mean [B, n, C] at each label without its site; never wider than the prior."""
    cavity = 1 / np.maximum(1 / variance - tau, 1.0)
    return cavity, cavity[..., None] * (mean / variance[..., None] - nu)


def tilted(m: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z = log P(u_0 is the largest of u ~ N(m, V I)), its gradient in m, and the mean of its second derivatives.

    Z = E_t Π_d Φ(t + a_d), a_d = (m_0 - m_d)/√V, by Gauss-Hermite quadrature about the integrand's
    middle; the mean is over C - 1 directions.
    """
    n = 1 if m.ndim == 1 else m.shape[-2]
    size = max(1, AT_ONCE * n // (len(NODES) * m.size))
    if n > size:
        parts = [slice(k, k + size) for k in range(0, n, size)]
        log_z, slope, bend = zip(*(tilted(m[..., part, :], V[..., part]) for part in parts), strict=True)
        return np.concatenate(log_z, -1), np.concatenate(slope, -2), np.concatenate(bend, -1)
    sd = np.sqrt(V)[..., None]
    a = (m[..., :1] - m[..., 1:]) / sd
    middle = 0.5 * np.maximum(-a.min(-1), 0.0)[..., None]  # about where the integrand is, if the class seems wrong
    x = a[..., None] + (middle + NODES)[..., None, :]  # [..., C-1, nodes]
    log_phi = log_ndtr(x)
    log_w = log_phi.sum(-2) + LOG_WEIGHTS - middle * NODES - 0.5 * middle**2
    log_z = logsumexp(log_w, axis=-1)
    w = np.exp(log_w - log_z[..., None])[..., None, :]
    ratio = np.exp(-0.5 * x**2 - 0.5 * log(2 * np.pi) - log_phi)
    q, d = np.sum(w * ratio, -1), -np.sum(w * x * ratio, -1)
    cross = np.sum(w[..., 0, :] * (ratio.sum(-2) ** 2 - np.sum(ratio**2, -2)), -1)
    bend_of_class = cross + d.sum(-1) - q.sum(-1) ** 2
    bend = (bend_of_class + np.sum(d - q**2, -1)) / V / (m.shape[-1] - 1)
    return log_z, np.concatenate([q.sum(-1, keepdims=True), -q], -1) / sd, bend
