"""ψ statistics of the squared-exponential kernel under q(X) = Π N(mu_n, diag s_n).

    ψ1 = <K_xz>            [N, m]
    ψ2 = Σ_n <K_zx K_xz>   [m, m]

Everything in this file is in units of the kernel: mu and Z divided by ell, s by ell², ψ1 by gamma and
ψ2 by gamma² (ψ0 is N). With a = 1/(1 + 2s) and z̄ the midpoint of two inducing inputs, the exponent of
ψ2's summand is linear in (a mu, a) × (z̄, z̄²): one matrix product over all pairs, of which only the
upper triangle is needed. Its gradient is three more matrix products. Rows are taken in blocks, so
memory does not grow with N; blocks are recomputed, not stored, for the gradient. Functions without gradients take
arrays of NumPy or of JAX.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

# Entries of one [rows, pairs] block. Up to STORED entries the exponentials are stored for the gradient (128 MiB);
# beyond that they are recomputed in blocks of BLOCK. On a CPU no more than BLOCK entries are stored; up to STORED they
# are recomputed in blocks of CACHED, which fit into the processor's cache (1 MiB): this takes half the time.
STORED = 2**24
BLOCK = 2**21
CACHED = 2**17


def psi1(mu: Any, s: Any, Z: Any) -> Any:
    """<k(x_n, z_j)>, shape [N, m]."""
    array = mu.__array_namespace__()
    a = 1 / (1 + s)
    row = -0.5 * array.sum(a * mu**2 + array.log1p(s), axis=1)
    exponent = array.concatenate([a * mu, -0.5 * a], axis=1) @ array.concatenate([Z, Z**2], axis=1).T
    return array.exp(exponent + row[:, None])


def psi2(mu: Array, s: Array, Z: Array, weight: Array) -> Array:
    """Σ_n weight_n <k(z_i, x_n) k(x_n, z_j)>, shape [m, m]."""
    i, j = np.triu_indices(len(Z))
    pairs, apart = pair_features(Z)
    rows, constant = row_features(mu, s)
    upper = jnp.exp(apart) * _sum_exp(rows, constant + jnp.log(weight), pairs)
    square = jnp.zeros((len(Z), len(Z)), upper.dtype).at[i, j].set(upper)
    return square + jnp.triu(square, 1).T


def psi2_of_arrays(mu: np.ndarray, s: np.ndarray, Z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """`psi2` of arrays of NumPy, without a compiled program."""
    i, j = np.triu_indices(len(Z))
    pairs, apart = pair_features(Z)
    rows, constant = row_features(mu, s)
    step, square, upper = max(1, CACHED // len(pairs)), np.zeros((len(Z), len(Z))), np.zeros(len(pairs))
    for k in range(0, len(rows), step):
        block = slice(k, k + step)
        upper += weight[block] @ np.exp(rows[block] @ pairs.T + constant[block, None])
    square[i, j] = square[j, i] = np.exp(apart) * upper
    return square


def psi2_by_pattern(mu: Array, s: Array, Z: Array, seen: Array) -> Array:
    """Σ_n seen_gn <k(z_i, x_n) k(x_n, z_j)> for patterns seen [G, N] of rows, shape [G, m, m]."""
    i, j = np.triu_indices(len(Z))
    pairs, apart = pair_features(Z)
    rows, constant = row_features(mu, s)

    def add(total: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
        r, c, weight = block
        return total + weight.T @ jnp.exp(r @ pairs.T + c[:, None]), None

    total = jnp.zeros((len(seen), len(pairs)), rows.dtype)
    if len(rows) * len(pairs) <= STORED:
        total, _ = add(total, (rows, constant, seen.T))
    else:
        blocked = _blocks(rows, constant, len(pairs))
        fill = blocked[1].size - len(rows)
        weights = jnp.pad(seen.T, ((0, fill), (0, 0))).reshape(*blocked[1].shape, len(seen))
        total, _ = jax.lax.scan(jax.checkpoint(add), total, (*blocked, weights))
    square = jnp.zeros((len(seen), len(Z), len(Z)), rows.dtype).at[:, i, j].set(jnp.exp(apart) * total)
    return square + jnp.triu(square, 1).transpose(0, 2, 1)


def row_features(mu: Any, s: Any) -> tuple[Any, Any]:
    """Rows (2 a mu, -a) [N, 2q] and row constants -Σ a mu² + ½ log(1 + 2s) [N] of ψ2's exponent."""
    array = mu.__array_namespace__()
    a = 1 / (1 + 2 * s)
    constant = -array.sum(a * mu**2 + 0.5 * array.log1p(2 * s), axis=-1)
    return array.concatenate([2 * a * mu, -a], axis=-1), constant


def pair_features(Z: Any) -> tuple[Any, Any]:
    """Pairs i ≤ j of inducing inputs: (z̄, z̄²) [T, 2q] and -¼ |z_i - z_j|² [T]."""
    array = Z.__array_namespace__()
    i, j = np.triu_indices(len(Z))
    middle = 0.5 * (Z[i] + Z[j])
    return array.concatenate([middle, middle**2], axis=1), -0.25 * array.sum((Z[i] - Z[j]) ** 2, axis=1)


@jax.custom_vjp
def _sum_exp(rows: Array, row: Array, pairs: Array) -> Array:
    """Σ_n exp(rows_n · pairs_t + row_n), shape [T]."""
    return _sum_exp_forward(rows, row, pairs)[0]


def _sum_exp_forward(rows, row, pairs):
    n, t = len(rows), len(pairs)
    if _at_once(n, t):
        E = jnp.exp(rows @ pairs.T + row[:, None])
        return jnp.ones(n) @ E, (rows, row, pairs, E)

    def add(total, block):
        r, c = block
        return total + jnp.ones(len(r)) @ jnp.exp(r @ pairs.T + c[:, None]), None

    total, _ = jax.lax.scan(add, jnp.zeros(t, rows.dtype), _blocks(rows, row, t))
    return total, (rows, row, pairs, None)


def _sum_exp_backward(residual, g):
    rows, row, pairs, E = residual
    n, t = len(rows), len(pairs)
    weighted = g[:, None] * jnp.concatenate([pairs, jnp.ones((t, 1))], 1)  # for the gradients of rows and constants
    if E is None:

        def add(total, block):
            r, c = block
            E = jnp.exp(r @ pairs.T + c[:, None])
            return total + E.T @ r, E @ weighted

        total, both = jax.lax.scan(add, jnp.zeros_like(pairs), _blocks(rows, row, t))
        both = both.reshape(-1, both.shape[-1])[:n]
    else:
        total, both = E.T @ rows, E @ weighted
    return both[:, :-1], both[:, -1], g[:, None] * total


def _at_once(n, t):
    """Whether the exponentials of all rows are stored at once."""
    return n * t <= (BLOCK if jax.default_backend() == "cpu" else STORED)


def _blocks(rows, row, t):
    """Rows in blocks of equal size; the last block is padded with rows of weight 0."""
    small = jax.default_backend() == "cpu" and len(rows) * t <= STORED
    size = max(1, (CACHED if small else BLOCK) // t)
    count = -(-len(rows) // size)
    fill = count * size - len(rows)
    rows = jnp.pad(rows, ((0, fill), (0, 0))).reshape(count, size, -1)
    return rows, jnp.pad(row, (0, fill), constant_values=-jnp.inf).reshape(count, size)


_sum_exp.defvjp(_sum_exp_forward, _sum_exp_backward)
