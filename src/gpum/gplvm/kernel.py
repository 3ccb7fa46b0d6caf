"""The squared-exponential kernel and its derivatives in closed form (appendix B, erratum 1)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

# Relative to gamma. A nearly linear latent direction makes Kuu singular to working precision; with
# 1e-8 (GPy's choice) rounding noise in the bound then stops L-BFGS hundreds of nats too early.
JITTER = 1e-6


def unit_gram(z: Array, jitter: float | Array = JITTER) -> Array:
    """K_zz/gamma + jitter I for inputs in units of ell, [m, m]."""
    sq = jnp.sum((z[:, None] - z[None]) ** 2, -1)
    return jnp.exp(-0.5 * sq) + jitter * jnp.eye(len(z))


def at(x: Array, z: Array, ell: Array, gamma: Array) -> Array:
    """k(x, z_j) at one point x of shape [q]; shape [m]."""
    d = (z - x) / ell
    return gamma * jnp.exp(-0.5 * jnp.sum(d * d, -1))


def gradient(x: Array, z: Array, ell: Array, gamma: Array) -> Array:
    """∂k(x, z_j)/∂x_a = (z_ja - x_a)/ell_a² · k, shape [m, q]."""
    return (z - x) / ell**2 * at(x, z, ell, gamma)[:, None]


def hessian(x: Array, z: Array, ell: Array, gamma: Array) -> Array:
    """∂²k(x, z_j)/∂x_a∂x_b, shape [m, q, q]."""
    d = (z - x) / ell**2
    return (d[:, :, None] * d[:, None, :] - jnp.diag(1 / ell**2)) * at(x, z, ell, gamma)[:, None, None]
