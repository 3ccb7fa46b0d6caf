"""Where a row never seen lies on the chart: its posterior q(x*) = N(mu, diag s).

With q(U) fixed, the bound of one new row s* is, in the model's scaled units and up to a constant,

    beta s*ᵀWᵀψ1* - beta/2 tr (WWᵀ - pLam) ψ2* - KL(q(x*) ‖ N(0, I)),

a function of 2q numbers: rows are independent, so they are placed together by damped Newton steps,
each from several nearby fitted rows, and the best end wins. Only s*ᵀWᵀ enters, not p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .bound import divergence
from .mapping import Mapping
from .psi import pair_features, psi1, row_features

MAX_STEPS = 100
CHUNK = 128  # rows placed together: bounds the memory


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["Z", "ell", "gamma", "beta", "pairs", "weights"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Decoder:
    """What placing needs of a mapping: tr (WWᵀ - pLam) ψ2* = Σ_t weights_t exp(exponent_t)."""

    Z: Array
    ell: Array
    gamma: Array
    beta: Array
    pairs: Array
    weights: Array


@jax.jit
def decoder(mapping: Mapping) -> tuple[Decoder, Array]:
    """The `Decoder` of a mapping, and the scaled weights W [m, p] that project a scaled row."""
    W = mapping.W / mapping.scale
    M = W @ W.T - W.shape[1] * mapping.Lam
    i, j = np.triu_indices(len(W))
    pairs, apart = pair_features(mapping.Z, mapping.ell)
    weights = jnp.where(i == j, 1.0, 2.0) * M[i, j] * mapping.gamma**2 * jnp.exp(apart)
    return Decoder(mapping.Z, mapping.ell, mapping.gamma, mapping.beta, pairs, weights), W


def row_bound(theta: Array, projection: Array, dec: Decoder) -> Array:
    """The bound of one row at theta = (mu, log s) [2q], given its projection s*ᵀWᵀ [m]."""
    mu, log_s = jnp.split(theta, 2)
    s = jnp.exp(log_s)
    first = psi1(mu[None], s[None], dec.Z, dec.ell, dec.gamma)[0] @ projection
    row, constant = row_features(mu, s, dec.ell)
    second = dec.weights @ jnp.exp(dec.pairs @ row + constant)
    return dec.beta * (first - 0.5 * second) - jnp.sum(divergence(mu, log_s))


@jax.jit
def place(projection: Array, mu: Array, s: Array, dec: Decoder) -> tuple[Array, Array]:
    """Place rows with projections [n, m] from starts mu, s [n, c, q]; returns mu and s [n, q]."""
    starts = jnp.concatenate([mu, jnp.log(s)], -1)

    def row(args):
        a, theta = args
        ends, values = jax.vmap(lambda t: _newton(t, a, dec))(theta)
        return ends[jnp.argmax(values)]

    ends = jax.lax.map(row, (projection, starts), batch_size=CHUNK)
    mu, log_s = jnp.split(ends, 2, axis=-1)
    return mu, jnp.exp(log_s)


def _newton(theta, projection, dec):
    """Levenberg-Marquardt ascent; the damping falls after a gain and rises after a refusal."""

    def f(t):
        return row_bound(t, projection, dec)

    def step(state):
        t, value, damping, n, _ = state
        w, V = jnp.linalg.eigh(-jax.hessian(f)(t))
        move = V @ ((V.T @ jax.grad(f)(t)) / (jnp.abs(w) + damping * (1 + jnp.abs(w))))
        move = move / jnp.maximum(jnp.max(jnp.abs(move)), 1.0)  # at most one unit a step
        new = f(t + move)
        better = new > value
        small = jnp.max(jnp.abs(move)) < 1e-8
        t, value = jnp.where(better, t + move, t), jnp.where(better, new, value)
        damping = jnp.where(better, damping / 4, damping * 8)
        return t, value, damping, n + 1, small | (damping > 1e12)

    def running(state):
        return ~state[4] & (state[3] < MAX_STEPS)

    t, value, *_ = jax.lax.while_loop(
        running, step, (theta, f(theta), jnp.asarray(1e-2, theta.dtype), 0, jnp.asarray(False))
    )
    return t, value
