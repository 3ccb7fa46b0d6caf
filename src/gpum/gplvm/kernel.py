"""The squared-exponential kernel and its derivatives in closed form (appendix B, erratum 1).

Functions of inputs z [m, q] and points x [..., q] take arrays of NumPy or of JAX, and return the same.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

# Relative to gamma. A nearly linear latent direction makes Kuu singular to working precision; with
# 1e-8 (GPy's choice) rounding noise in the bound then stops L-BFGS hundreds of nats too early.
JITTER = 1e-6


def unit_gram(z: Any, jitter: float | Array = JITTER) -> Any:
    """K_zz/gamma + jitter I for inputs in units of ell, [m, m]."""
    array = z.__array_namespace__()
    sq = array.sum((z[:, None] - z[None]) ** 2, axis=-1)
    return array.exp(-0.5 * sq) + jitter * array.eye(len(z))


def at(x: Any, z: Any, ell: Any, gamma: Any) -> Any:
    """k(x, z_j), shape [..., m]."""
    array = x.__array_namespace__()
    d = (z - x[..., None, :]) / ell
    return gamma * array.exp(-0.5 * array.sum(d * d, axis=-1))


def gradient(x: Any, z: Any, ell: Any, gamma: Any) -> Any:
    """∂k(x, z_j)/∂x_a = (z_ja - x_a)/ell_a² · k, shape [..., m, q]."""
    return (z - x[..., None, :]) / ell**2 * at(x, z, ell, gamma)[..., None]


def hessian(x: Array, z: Array, ell: Array, gamma: Array) -> Array:
    """∂²k(x, z_j)/∂x_a∂x_b, shape [m, q, q]."""
    d = (z - x) / ell**2
    return (d[:, :, None] * d[:, None, :] - jnp.diag(1 / ell**2)) * at(x, z, ell, gamma)[:, None, None]
