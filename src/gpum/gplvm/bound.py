"""The collapsed variational bound of the Bayesian GPLVM (appendix C, errata 2 and 3).

With A = Kuu + beta ψ2 and C = ψ1ᵀ S,

    F = Np/2 log(beta/2π) + p/2 log|Kuu| - p/2 log|A| - beta/2 tr SSᵀ + beta²/2 tr CᵀA⁻¹C
        - p beta/2 ψ0 + p beta/2 tr Kuu⁻¹ψ2 - KL(q(X) ‖ N(0, I)).

S enters through SSᵀ only, so any factor with the same SSᵀ will do: `compress` makes one with at
most N columns, and the cost no longer depends on p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from .kernel import JITTER, gram
from .psi import psi1, psi2


@partial(jax.tree_util.register_dataclass, data_fields=["factor", "trace", "p"], meta_fields=[])
@dataclass(frozen=True)
class Cloud:
    """What the bound needs of S: a factor Y with YYᵀ = SSᵀ, tr SSᵀ, and the number of columns p."""

    factor: Any
    trace: float
    p: float


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["mu", "log_s", "Z", "log_ell", "log_gamma", "log_beta"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Parameters:
    """Everything that is optimised; positive numbers by their logarithm."""

    mu: Any
    log_s: Any
    Z: Any
    log_ell: Any
    log_gamma: Any
    log_beta: Any


def compress(S: np.ndarray) -> Cloud:
    """S [N, p] as a `Cloud`, its factor with at most min(N, p) columns."""
    N, p = S.shape
    factor = S
    if p > N // 2:
        w, V = np.linalg.eigh(S @ S.T)
        keep = w > w[-1] * 1e-14
        factor = V[:, keep] * np.sqrt(w[keep])
    return Cloud(np.ascontiguousarray(factor), float(np.sum(S * S)), float(p))


def bound(theta: Parameters, cloud: Cloud, jitter: float = JITTER) -> Array:
    """The bound F, a scalar (nats)."""
    Y, p = cloud.factor, cloud.p
    N = len(Y)
    gamma, beta = jnp.exp(theta.log_gamma), jnp.exp(theta.log_beta)
    L, B, LB, psi = _factors(theta, jitter)
    c = beta * solve_triangular(LB, solve_triangular(L, psi.T @ Y, lower=True), lower=True)

    fit = 0.5 * N * p * (theta.log_beta - jnp.log(2 * jnp.pi)) - 0.5 * beta * cloud.trace
    fit += 0.5 * jnp.sum(c * c) - p * jnp.sum(jnp.log(jnp.diag(LB)))
    fit += 0.5 * p * beta * (jnp.trace(B) - N * gamma)
    return fit - jnp.sum(divergence(theta.mu, theta.log_s))


def _factors(theta: Parameters, jitter: float) -> tuple[Array, Array, Array, Array]:
    """L with LLᵀ = Kuu, B = L⁻¹ψ2L⁻ᵀ, LB with LB LBᵀ = I + beta B, and ψ1; |A| = |L|² |LB|²."""
    s, ell, gamma = jnp.exp(theta.log_s), jnp.exp(theta.log_ell), jnp.exp(theta.log_gamma)
    L = jnp.linalg.cholesky(gram(theta.Z, ell, gamma, jitter))
    half = solve_triangular(L, psi2(theta.mu, s, theta.Z, ell, gamma), lower=True)
    B = solve_triangular(L, half.T, lower=True)
    LB = jnp.linalg.cholesky(jnp.eye(len(L)) + jnp.exp(theta.log_beta) * B)
    return L, B, LB, psi1(theta.mu, s, theta.Z, ell, gamma)


def divergence(mu: Array, log_s: Array) -> Array:
    """KL(N(mu, s) ‖ N(0, 1)) entry by entry, in nats."""
    return 0.5 * (mu**2 + jnp.exp(log_s) - log_s - 1)


@jax.jit
def negative_bound(theta: Parameters, cloud: Cloud) -> tuple[Array, Parameters]:
    """-F and its gradient."""
    return jax.value_and_grad(lambda t: -bound(t, cloud))(theta)


def typical_steps(theta: Parameters, cloud: Cloud) -> Parameters:
    """One over the root of the bound's curvature, roughly, along each parameter.

    L-BFGS in units of these steps needs ten times fewer evaluations: a latent mean moves by its own
    posterior sd, a logarithm by one over the root of the number of terms that it scales.
    """
    N, m = len(theta.mu), len(theta.Z)
    sd = np.exp(0.5 * np.minimum(theta.log_s, 0.0))
    return Parameters(
        mu=sd,
        log_s=np.full(theta.log_s.shape, np.sqrt(2.0)),
        Z=np.broadcast_to(3 * np.median(sd, axis=0), theta.Z.shape),
        log_ell=np.full(theta.log_ell.shape, 1 / np.sqrt(N * cloud.p)),
        log_gamma=np.asarray(np.sqrt(2 / (m * cloud.p))),
        log_beta=np.asarray(np.sqrt(2 / (N * cloud.p))),
    )


@jax.jit
def inducing_posterior(theta: Parameters) -> tuple[Array, Array, Array]:
    """The optimal q(U) (erratum 2), as three matrices.

    Returns P [m, N] with mean weights W = P S = beta A⁻¹ψ1ᵀS, Lam = Kuu⁻¹ - A⁻¹ [m, m], and a root
    R of A⁻¹ = R Rᵀ. Lam is formed as L⁻ᵀ beta B (I + beta B)⁻¹ L⁻¹: no difference of large numbers.
    """
    beta = jnp.exp(theta.log_beta)
    L, B, LB, psi = _factors(theta, JITTER)
    Li = solve_triangular(L, jnp.eye(len(L)), lower=True)
    R = solve_triangular(LB, Li, lower=True).T
    Lam = Li.T @ cho_solve((LB, True), beta * B) @ Li
    return beta * R @ (R.T @ psi.T), 0.5 * (Lam + Lam.T), R
