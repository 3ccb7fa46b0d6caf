"""Where a row never seen lies on the chart, if some of its readings are missing.

As in `placement`, with sums over the columns O in which the row has a reading:

    beta s_OᵀW_Oᵀψ1 - beta/2 tr (W_O W_Oᵀ - |O| Lam) ψ2 - KL(q(x*) ‖ N(0, I)),

so that every row has a matrix M = W_O W_Oᵀ - |O| Lam of its own. Few readings leave a wide posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import padding
from .mapping import Mapping
from .placement import Decoder, point_bound, row_bound
from .psi import pair_features

CHUNK = 64  # rows placed together, by one program
MAX_STEPS = 100
OWN = Decoder(Z=None, ell=None, gamma=None, beta=None, M=0, pairs=None, weights=0)  # what each row has for itself


def place_incomplete(
    rows: np.ndarray, starts: np.ndarray, mapping: Mapping, as_points: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Place scaled rows [n, p], NaN where a reading is missing, from starts [n, c, q]; mu and s [n, q].

    As `placement.place`; rows go in whole chunks, so that a row's place does not depend on its batch.
    """
    n = len(rows)
    whole = -(-n // CHUNK) * CHUNK
    seen = padding.fill((~np.isnan(rows)).astype(float), whole)
    filled, starts = padding.fill(np.nan_to_num(rows), whole), padding.fill(starts, whole)
    parts = [
        _place(filled[c], seen[c], starts[c], mapping, as_points)
        for c in (slice(k, k + CHUNK) for k in range(0, whole, CHUNK))
    ]
    mu, s = (np.concatenate([np.asarray(part) for part in some])[:n] for some in zip(*parts, strict=True))
    return mu, s


@partial(jax.jit, static_argnames="as_points")
def _place(rows: Array, seen: Array, starts: Array, mapping: Mapping, as_points: bool) -> tuple[Array, Array]:
    W = mapping.W / mapping.scale
    M = jax.lax.map(lambda own: (W * own) @ W.T - own.sum() * mapping.Lam, seen)
    i, j = np.triu_indices(len(W))
    pairs, apart = pair_features(mapping.Z / mapping.ell)
    weights = jnp.where(i == j, 1.0, 2.0) * M[:, i, j] * mapping.gamma**2 * jnp.exp(apart)
    dec = Decoder(mapping.Z, mapping.ell, mapping.gamma, mapping.beta, M, pairs, weights)
    return jax.vmap(partial(_row, as_points=as_points), (0, 0, OWN))(rows @ W.T, starts, dec)


def _row(projection: Array, starts: Array, dec: Decoder, as_points: bool) -> tuple[Array, Array]:
    at_point = lambda x: point_bound(x, projection, dec)
    ends, values = jax.vmap(partial(_climb, at_point))(starts)
    x = ends[jnp.argmax(values)]
    w, V = jnp.linalg.eigh(-jax.hessian(at_point)(x))
    s = (V**2) @ (1 / jnp.maximum(w, 1.0))  # never wider than the prior
    if as_points:
        return x, s
    theta, _ = _climb(lambda t: row_bound(t, projection, dec), jnp.concatenate([x, jnp.log(s)]))
    mu, log_s = jnp.split(theta, 2)
    return mu, jnp.exp(log_s)


def _climb(f: Callable[[Array], Array], theta: Array) -> tuple[Array, Array]:
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

    start = theta, f(theta), jnp.asarray(1e-2, theta.dtype), 0, jnp.asarray(False)
    return jax.lax.while_loop(lambda state: ~state[4] & (state[3] < MAX_STEPS), step, start)[:2]
