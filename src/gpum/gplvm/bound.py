"""What the Bayesian GPLVM maximises: the collapsed variational bound (appendix C, errata 2 and 3).

With A = Kuu + beta ψ2 and C = ψ1ᵀ S,

    F = Np/2 log(beta/2π) + p/2 log|Kuu| - p/2 log|A| - beta/2 tr SSᵀ + beta²/2 tr CᵀA⁻¹C
        - p beta/2 ψ0 + p beta/2 tr Kuu⁻¹ψ2 - KL(q(X) ‖ N(0, I)).

`precise` has the same bound in a form that keeps more digits, and the posterior of the mapping.

S enters through SSᵀ only, so any factor with the same SSᵀ will do: `compress` makes one with at
most N columns, and the cost no longer depends on p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from ..basics import padding
from .kernel import JITTER, unit_gram
from .psi import psi1, psi2

LEAST_DIM = 2  # latent dimensions of compiled programs
UNSEEN = 50.0  # logarithm of a length scale that no coordinate reaches

# Columns with readings in the same rows: factor [G, N, r], seen [G, N], numbers of columns [G].
Blocks = tuple[Any, Any, Any]


@partial(jax.tree_util.register_dataclass, data_fields=["factor", "weight", "trace", "p"], meta_fields=[])
@dataclass(frozen=True)
class FactoredCloud:
    """What the bound needs of S: a factor Y with YYᵀ = SSᵀ, weights of its rows, tr SSᵀ, the number of columns p."""

    factor: Any  # [N, r]; 0 in rows without weight
    weight: Any  # [N]; 1, or 0 for rows that only pad the array
    trace: float
    p: float

    @property
    def blocks(self) -> Blocks:
        """All columns as one block."""
        return jnp.asarray(self.factor)[None], jnp.asarray(self.weight)[None], jnp.asarray(self.p)[None]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["mu", "log_s", "Z", "log_ell", "log_gamma", "log_beta"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Parameters:
    """All parameters that are optimised; positive numbers by their logarithm."""

    mu: Any
    log_s: Any
    Z: Any
    log_ell: Any
    log_gamma: Any
    log_beta: Any


def compress(S: np.ndarray) -> FactoredCloud:
    """S [N, p] as a `FactoredCloud`, its factor with at most min(N, p) columns."""
    N, p = S.shape
    factor = S
    if p > N // 2:
        w, V = np.linalg.eigh(S @ S.T)
        keep = w > w[-1] * 1e-14
        factor = V[:, keep] * np.sqrt(w[keep])
    return FactoredCloud(np.ascontiguousarray(factor), np.ones(N), float(np.sum(S * S)), float(p))


def fill_cloud(cloud: FactoredCloud) -> FactoredCloud:
    """The same cloud, its rows and columns padded to a size that is the same for many clouds."""
    rows, columns = map(padding.size, cloud.factor.shape)
    wide = columns if cloud.factor.shape[1] > padding.ROWS else cloud.factor.shape[1]
    return replace(
        cloud, factor=padding.fill(cloud.factor, rows, wide), weight=padding.fill(cloud.weight, rows)
    )  # fmt: skip


def bound(theta: Parameters, cloud: FactoredCloud, jitter: float | Array = JITTER, live: Any = None) -> Array:
    """The bound F, a scalar (nats); `live` [m] is 0 for inducing inputs that only pad the array."""
    p, weight = cloud.p, jnp.asarray(cloud.weight)
    N = jnp.sum(weight)
    gamma, beta = jnp.exp(theta.log_gamma), jnp.exp(theta.log_beta)
    live = jnp.ones(len(theta.Z)) if live is None else live
    K, Psi1, Psi2 = statistics(theta, weight, live, jitter)
    C = beta * jnp.sqrt(gamma) * Psi1.T @ cloud.factor
    fit = collapsed(K, Psi2, C, beta * gamma, p)
    fit += 0.5 * N * p * (theta.log_beta - jnp.log(2 * jnp.pi) - beta * gamma) - 0.5 * beta * cloud.trace
    return fit - weight @ jnp.sum(divergence(theta.mu, theta.log_s), 1)


def statistics(
    theta: Parameters, weight: Any, live: Any, jitter: float | Array, second: Callable[..., Any] = psi2
) -> tuple[Any, Any, Any]:
    """Kuu, ψ1 and ψ2 in kernel units; `second` is ψ2, or Γ of `precise`, of mu, s, Z and the weights of rows."""
    mu, s, Z = in_kernel_units(theta)
    both = live[:, None] * live
    K = both * unit_gram(Z, jitter) + live.__array_namespace__().diag((1 - live) * (1 + jitter))
    return K, live * psi1(mu, s, Z), both * second(mu, s, Z, weight)


def in_kernel_units(theta: Parameters) -> tuple[Any, Any, Any]:
    """mu and Z in units of ell, s of ell²."""
    array = theta.mu.__array_namespace__()
    ell = array.exp(theta.log_ell)
    return theta.mu / ell, array.exp(theta.log_s) / ell**2, theta.Z / ell


@jax.custom_vjp
def collapsed(K: Array, Psi2: Array, C: Array, b: Array, p: Array) -> Array:
    """-p/2 log|D⁻¹| + ½ tr CᵀK⁻¹DC + p b/2 tr K⁻¹ψ2 with D = (I + b K⁻¹ψ2)⁻¹: the m × m terms of the bound.

    In kernel units (K and ψ2 of a kernel with gamma = 1) b = beta gamma and C = beta √gamma ψ1ᵀS. With
    LLᵀ = K and B = L⁻¹ψ2L⁻ᵀ all is a function of B and L⁻¹C; the gradient is written out by hand.
    """
    return _collapsed_forward(K, Psi2, C, b, p)[0]


def _collapsed_forward(K, Psi2, C, b, p):
    Li, B, LBi = factors(K, Psi2, b)
    c = LBi @ (Li @ C)
    value = p * jnp.sum(jnp.log(jnp.diag(LBi))) + 0.5 * jnp.sum(c * c) + 0.5 * p * b * jnp.trace(B)
    return value, (Li, B, LBi, c, b, p)


def _collapsed_backward(residual, g):
    Li, B, LBi, c, b, p = residual
    c2 = LBi.T @ c
    shrink = p * (jnp.eye(len(B)) - LBi.T @ LBi) - c2 @ c2.T
    d_K = 0.5 * Li.T @ (shrink - p * b * B) @ Li
    d_Psi2 = 0.5 * b * Li.T @ shrink @ Li
    return g * d_K, g * d_Psi2, g * (Li.T @ c2), g * 0.5 * jnp.sum(B * shrink), jnp.zeros_like(p)


collapsed.defvjp(_collapsed_forward, _collapsed_backward)


@jax.custom_batching.custom_vmap
def inverse_factor(A: Array) -> Array:
    """L⁻¹ with LLᵀ = A, [m, m]."""
    return _inverse_factor(A)


@inverse_factor.def_vmap
def _inverse_factors(n: int, batched: Any, A: Array) -> tuple[Array, bool]:
    """The same for many matrices, [n, m, m]; on a CPU one after the other.

    On a CPU, one call for many matrices is passed to the threads that run compiled programs, and waits for them. If as
    many programs as there are threads do so at the same time (starts run in parallel), all of them wait for ever.
    """
    one_by_one = lambda A: jax.lax.map(_inverse_factor, A)
    return jax.lax.platform_dependent(A, cpu=one_by_one, default=jax.vmap(_inverse_factor)), True


def _inverse_factor(A: Array) -> Array:
    return solve_triangular(jnp.linalg.cholesky(A), jnp.eye(len(A)), lower=True)


def factors(K: Array, Psi2: Array, b: Array) -> tuple[Array, Array, Array]:
    """L⁻¹ with LLᵀ = K, B = L⁻¹ψ2L⁻ᵀ, and LB⁻¹ with LB LBᵀ = I + b B."""
    Li = inverse_factor(K)
    B = Li @ Psi2 @ Li.T
    return Li, B, inverse_factor(jnp.eye(len(K)) + b * B)


def divergence(mu: Array, log_s: Array) -> Array:
    """KL(N(mu, s) ‖ N(0, 1)) entry by entry, in nats."""
    return 0.5 * (mu**2 + jnp.exp(log_s) - log_s - 1)


def filled(theta: Parameters, rows: int, inducing: int = 0) -> tuple[Parameters, np.ndarray]:
    """theta padded to `rows` rows, its inducing inputs to `inducing` or more, and which of these are not padding.

    One dimension is padded to two, so that charts of both use one program: a coordinate that is 0 everywhere, with a
    posterior that is the prior and a length scale so large that the kernel does not see it, changes nothing.
    """
    m, q = padding.size(max(len(theta.Z), inducing), padding.INDUCING), max(len(theta.log_ell), LEAST_DIM)
    mu, log_s, Z = (padding.fill(x, n, q) for x, n in ((theta.mu, rows), (theta.log_s, rows), (theta.Z, m)))
    log_ell = padding.fill(theta.log_ell, q, value=UNSEEN)
    return replace(theta, mu=mu, log_s=log_s, Z=Z, log_ell=log_ell), padding.live(len(theta.Z), m)


def cut(theta: Parameters, like: Parameters) -> Parameters:
    """theta without the rows, dimensions and inducing inputs that are padding; `like` has none."""
    (N, q), m = like.mu.shape, len(like.Z)
    mu, log_s, Z = theta.mu[:N, :q], theta.log_s[:N, :q], theta.Z[:m, :q]
    return replace(theta, mu=mu, log_s=log_s, Z=Z, log_ell=theta.log_ell[:q])


def typical_steps(theta: Parameters, cloud: Any) -> Parameters:
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
