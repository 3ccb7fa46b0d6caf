"""What the GPLVM by points maximises: the likelihood of section 5.1.

    log p(S | X) = -Np/2 log 2π - p/2 log|K + I/beta| - ½ tr (K + I/beta)⁻¹ SSᵀ

The latent rows X are parameters. Scaling X and ell together changes nothing, so X starts with unit
variance and no prior is needed. Rows without weight only pad the arrays (see `padding`): their rows and columns of
the covariance are those of the identity, which adds nothing to its determinant, and their rows of S are 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from ..basics import padding
from ..basics.device import compiled
from .bound import FactoredCloud
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


def log_likelihood(theta: Parameters, cloud: FactoredCloud) -> Array:
    """log p(S | X), a scalar (nats)."""
    p, weight = cloud.p, jnp.asarray(cloud.weight)
    L = jnp.linalg.cholesky(_noisy_gram(theta, weight))
    a = solve_triangular(L, cloud.factor, lower=True)
    return -0.5 * (weight.sum() * p * jnp.log(2 * jnp.pi) + jnp.sum(a * a)) - p * jnp.sum(jnp.log(jnp.diag(L)))


def cut(theta: Parameters, like: Parameters) -> Parameters:
    """theta without the rows that are padding; `like` has none."""
    return replace(theta, X=theta.X[: len(like.X)])


def typical_steps(theta: Parameters, cloud: Any) -> Parameters:
    """A typical step of every parameter, as in `bound.typical_steps`.

    A latent row is known to about ell times the noise-to-signal ratio.
    """
    N = len(theta.X)
    ratio = np.exp(-0.5 * (theta.log_gamma + theta.log_beta))
    return Parameters(
        X=np.broadcast_to(np.exp(theta.log_ell) * np.minimum(ratio, 0.3), theta.X.shape),
        log_ell=np.full(theta.log_ell.shape, 1 / np.sqrt(N * cloud.p)),
        log_gamma=np.asarray(np.sqrt(2 / (N * cloud.p))),
        log_beta=np.asarray(np.sqrt(2 / (N * cloud.p))),
    )


def posterior(theta: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, Lam and R as in `precise.inducing_posterior`, the latent rows being the inducing inputs.

    Then A = K + beta K², so that P = Lam = (K + I/beta)⁻¹ and, with LLᵀ = K, A = L (I + beta LᵀL) Lᵀ.
    """
    N, filled = len(theta.X), padding.size(len(theta.X))
    Lam, R = _posterior(replace(theta, X=padding.fill(theta.X, filled)), padding.live(N, filled))
    Lam, R = np.asarray(Lam)[:N, :N], np.asarray(R)[:N, :N]
    return Lam, Lam, R


@compiled
def _posterior(theta: Parameters, weight: Array) -> tuple[Array, Array]:
    eye = jnp.eye(len(weight))
    Lam = cho_solve((jnp.linalg.cholesky(_noisy_gram(theta, weight)), True), eye)
    L = jnp.linalg.cholesky(_gram(theta, weight, JITTER))
    C = jnp.linalg.cholesky(eye + L.T @ L / noise_variance(theta))
    return Lam, solve_triangular(L, solve_triangular(C, eye, lower=True).T, lower=True, trans="T")


def noise_variance(theta: Parameters) -> Array:
    """1/beta, plus the jitter that the likelihood adds, which is all the noise if the data have none."""
    return jnp.exp(-theta.log_beta) + JITTER * jnp.exp(theta.log_gamma)


def _noisy_gram(theta: Parameters, weight: Array) -> Array:
    return _gram(theta, weight, noise_variance(theta) / jnp.exp(theta.log_gamma))


def _gram(theta: Parameters, weight: Array, jitter: float | Array) -> Array:
    gram = unit_gram(theta.X / jnp.exp(theta.log_ell), jitter)
    return jnp.exp(theta.log_gamma) * weight[:, None] * weight * gram + jnp.diag(1 - weight)
