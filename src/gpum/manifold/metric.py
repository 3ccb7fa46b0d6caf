"""Lengths on a learned chart: the random metric of its mapping (section 5), its expectation, derivative and draws.

Row j of the Jacobian J(x) of φ is Gaussian with mean row j of E[J] and covariance scale_j² Σ_J:

    E[J] = Wᵀ∂k [p, q],    Σ_J = gamma diag(1/ell²) - ∂kᵀ Lam ∂k [q, q],    ∂k = ∂k(x, Z) [m, q],

so g = JᵀJ is non-central Wishart (eq. metric; exactly so when all columns share one scale), with

    G = E[g] = E[J]ᵀE[J] + w Σ_J = ∂kᵀ M ∂k + w gamma diag(1/ell²),    w = Σ_j scale_j².

Functions of one point x [q] take arrays of JAX; the expected metric is also that of many points, of NumPy or JAX.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..basics.device import of_arrays
from ..gplvm import kernel
from ..gplvm.mapping import Mapping


@of_arrays
def expected_metric(m: Mapping, x: Any) -> Any:
    """G(x) = E[g] at points x [..., q], [..., q, q] (eq. exmetric)."""
    array = x.__array_namespace__()
    dk = _gradient(m, x)
    slopes = array.swapaxes(dk, -1, -2)
    spread = array.sum(m.scale**2) * m.gamma * array.diag(1 / m.ell**2)
    return array.tensordot(slopes, m.M, axes=1) @ dk + spread


def expected_metric_derivative(m: Mapping, x: Array) -> Array:
    """∂G_ab/∂x_l, [q, q, q]: ∂²k_alᵀ M ∂k_b and its transpose."""
    d2k = kernel.hessian(x, m.Z, m.ell, m.gamma)
    half = jnp.einsum("mal,mb->abl", d2k, m.M @ _gradient(m, x))
    return half + half.transpose(1, 0, 2)


def jacobian(m: Mapping, x: Array) -> tuple[Array, Array]:
    """E[J] [p, q] and Σ_J [q, q] (of a column with scale 1)."""
    dk = _gradient(m, x)
    return m.W.T @ dk, m.gamma * jnp.diag(1 / m.ell**2) - dk.T @ m.Lam @ dk


def wishart_draws(key: Array, m: Mapping, x: Array, n: int) -> Array:
    """n independent draws of g(x) = JᵀJ, [n, q, q]."""
    mean, cov = jacobian(m, x)
    w, V = jnp.linalg.eigh(cov)
    root = V * jnp.sqrt(jnp.maximum(w, 0.0))
    eps = jax.random.normal(key, (n, *mean.shape), mean.dtype)
    J = mean + m.scale[:, None] * (eps @ root.T)
    return jnp.einsum("npa,npb->nab", J, J)


def _gradient(m: Mapping, x: Any) -> Any:
    return kernel.gradient(x, m.Z, m.ell, m.gamma)
