"""Where a row never seen lies on the chart: its posterior q(x*) = N(mu, diag s).

With q(U) fixed, the bound of one new row s* is, in the model's scaled units and up to a constant,

    beta s*ᵀWᵀψ1* - beta/2 tr (WWᵀ - pLam) ψ2* - KL(q(x*) ‖ N(0, I)),

a function of 2q numbers. As s → 0 it becomes beta (s*ᵀWᵀk - ½ kᵀ(WWᵀ - pLam)k) - ½|x|², k = k(x, Z),
which is cheap: rows are first placed as points, from several nearby fitted rows, by damped Newton steps;
the best end then starts the full posterior. Only s*ᵀWᵀ enters, not p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import kernel, padding
from .bound import divergence
from .mapping import Mapping
from .psi import pair_features, psi1, row_features

MAX_STEPS = 100
CHUNK = 128  # rows placed together, by one program: bounds the memory


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["Z", "ell", "gamma", "beta", "M", "pairs", "weights"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Decoder:
    """What placing needs of a mapping: M = WWᵀ - pLam, and tr M ψ2* = Σ_t weights_t exp(exponent_t)."""

    Z: Any
    ell: Any
    gamma: Any
    beta: Any
    M: Any
    pairs: Any
    weights: Any


@jax.jit
def decoder(mapping: Mapping) -> tuple[Decoder, Array]:
    """The `Decoder` of a mapping, and the scaled weights W [m, p] that project a scaled row."""
    W = mapping.W / mapping.scale
    M = W @ W.T - W.shape[1] * mapping.Lam
    i, j = np.triu_indices(len(W))
    pairs, apart = pair_features(mapping.Z / mapping.ell)
    weights = jnp.where(i == j, 1.0, 2.0) * M[i, j] * mapping.gamma**2 * jnp.exp(apart)
    return Decoder(mapping.Z, mapping.ell, mapping.gamma, mapping.beta, M, pairs, weights), W


def point_bound(x: Array, projection: Array, dec: Decoder) -> Array:
    """The bound of one row placed at the point x [q] for certain, given its projection s*ᵀWᵀ [m]."""
    k = kernel.at(x, dec.Z, dec.ell, dec.gamma)
    return dec.beta * (k @ projection - 0.5 * k @ dec.M @ k) - 0.5 * x @ x


def row_bound(theta: Array, projection: Array, dec: Decoder) -> Array:
    """The bound of one row at theta = (mu, log s) [2q], given its projection s*ᵀWᵀ [m]."""
    mu, log_s = jnp.split(theta, 2)
    s = jnp.exp(log_s)
    args = mu / dec.ell, s / dec.ell**2
    first = dec.gamma * psi1(args[0][None], args[1][None], dec.Z / dec.ell)[0] @ projection
    row, constant = row_features(*args)
    second = dec.weights @ jnp.exp(dec.pairs @ row + constant)
    return dec.beta * (first - 0.5 * second) - jnp.sum(divergence(mu, log_s))


def place(projection: np.ndarray, starts: np.ndarray, dec: Decoder, as_points: bool) -> tuple[np.ndarray, np.ndarray]:
    """Place n rows with projections [n, m] from starts [n, c, q]; mu and s [n, q].

    With `as_points` (the maximum-likelihood model) s is the curvature's inverse at the best point. Rows go in whole
    chunks, the last one filled up: a row's place does not depend on its batch.
    """
    n = len(projection)
    whole = -(-n // CHUNK) * CHUNK
    projection, starts = padding.fill(projection, whole), padding.fill(starts, whole)
    chunks = [slice(k, k + CHUNK) for k in range(0, whole, CHUNK)]
    found = [_place(projection[c], starts[c], dec, as_points) for c in chunks]
    mu, s = (np.concatenate([np.asarray(part) for part in parts])[:n] for parts in zip(*found, strict=True))
    return mu, s


@partial(jax.jit, static_argnames="as_points")
def _place(projection: Array, starts: Array, dec: Decoder, as_points: bool) -> tuple[Array, Array]:
    def row(a, xs):
        ends, values = jax.vmap(lambda x: _newton(lambda t: point_bound(t, a, dec), x))(xs)
        x = ends[jnp.argmax(values)]
        w, V = jnp.linalg.eigh(-jax.hessian(lambda t: point_bound(t, a, dec))(x))
        s = (V**2) @ (1 / jnp.maximum(w, 1.0))  # never wider than the prior
        if as_points:
            return x, s
        theta, _ = _newton(lambda t: row_bound(t, a, dec), jnp.concatenate([x, jnp.log(s)]))
        mu, log_s = jnp.split(theta, 2)
        return mu, jnp.exp(log_s)

    return jax.vmap(row)(projection, starts)


def _newton(f, theta):
    """Levenberg-Marquardt ascent of f; the damping falls after a gain and rises after a refusal."""

    def step(state):
        t, value, damping, n, _ = state
        w, V = jnp.linalg.eigh(-jax.hessian(f)(t))
        move = V @ ((V.T @ jax.grad(f)(t)) / (jnp.abs(w) + damping * (1 + jnp.abs(w))))
        move = move / jnp.maximum(jnp.max(jnp.abs(move)), 1.0)  # at most one unit a step
        new = f(t + move)
        better = new > value
        small = jnp.max(jnp.abs(move)) < 1e-7
        t, value = jnp.where(better, t + move, t), jnp.where(better, new, value)
        damping = jnp.where(better, damping / 4, damping * 8)
        return t, value, damping, n + 1, small | (damping > 1e12)

    def running(state):
        return ~state[4] & (state[3] < MAX_STEPS)

    start = theta, f(theta), jnp.asarray(1e-2, theta.dtype), 0, jnp.asarray(False)
    return jax.lax.while_loop(running, step, start)[:2]
