"""The maximum-likelihood GPLVM of section 5.1.

    log p(S | X) = -Np/2 log 2π - p/2 log|K + I/beta| - ½ tr (K + I/beta)⁻¹ SSᵀ

The latent rows X are parameters. Scaling X and ell together changes nothing, so X starts with unit
variance and no prior is needed.
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

from .bound import Cloud
from .kernel import JITTER, unit_gram


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["X", "log_ell", "log_gamma", "log_beta"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Parameters:
    """Latent rows and hyperparameters, positive numbers by their logarithm."""

    X: Any
    log_ell: Any
    log_gamma: Any
    log_beta: Any


def log_likelihood(theta: Parameters, cloud: Cloud) -> Array:
    """log p(S | X), a scalar (nats)."""
    N, p = len(theta.X), cloud.p
    L = jnp.linalg.cholesky(_noisy_gram(theta))
    a = solve_triangular(L, cloud.factor, lower=True)
    return -0.5 * (N * p * jnp.log(2 * jnp.pi) + jnp.sum(a * a)) - p * jnp.sum(jnp.log(jnp.diag(L)))


@jax.jit
def negative_log_likelihood(theta: Parameters, cloud: Cloud) -> tuple[Array, Parameters]:
    """-log p(S | X) and its gradient."""
    return jax.value_and_grad(lambda t: -log_likelihood(t, cloud))(theta)


def typical_steps(theta: Parameters, cloud: Cloud) -> Parameters:
    """As `bound.typical_steps`; a latent row is known to about ell times the noise-to-signal ratio."""
    N = len(theta.X)
    ratio = np.exp(-0.5 * (theta.log_gamma + theta.log_beta))
    return Parameters(
        X=np.broadcast_to(np.exp(theta.log_ell) * np.minimum(ratio, 0.3), theta.X.shape),
        log_ell=np.full(theta.log_ell.shape, 1 / np.sqrt(N * cloud.p)),
        log_gamma=np.asarray(np.sqrt(2 / (N * cloud.p))),
        log_beta=np.asarray(np.sqrt(2 / (N * cloud.p))),
    )


@jax.jit
def posterior(theta: Parameters) -> tuple[Array, Array, Array]:
    """P, Lam and R as in `bound.inducing_posterior`, the latent rows being the inducing inputs.

    Then A = K + beta K², so that P = Lam = (K + I/beta)⁻¹ and A⁻¹ = K⁻¹ - Lam.
    """
    L = jnp.linalg.cholesky(_noisy_gram(theta))
    Lam = cho_solve((L, True), jnp.eye(len(L)))
    w, V = jnp.linalg.eigh(unit_gram(theta.X / jnp.exp(theta.log_ell)))
    w = w * jnp.exp(theta.log_gamma)
    return Lam, Lam, V / jnp.sqrt(w * (1 + w / noise_variance(theta)))


def noise_variance(theta: Parameters) -> Array:
    """1/beta, with the jitter that the likelihood adds: without noise in the data it is all there is."""
    return jnp.exp(-theta.log_beta) + JITTER * jnp.exp(theta.log_gamma)


def _noisy_gram(theta: Parameters) -> Array:
    gamma = jnp.exp(theta.log_gamma)
    return gamma * unit_gram(theta.X / jnp.exp(theta.log_ell), noise_variance(theta) / gamma)
