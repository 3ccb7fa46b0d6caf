"""What the bound needs of uncertain latent rows: ψ statistics of the kernel under q(X) = Π N(mu_n, diag s_n).

    ψ1 = <K_xz>            [N, m]
    ψ2 = Σ_n <K_zx K_xz>   [m, m]

Everything in this file is in units of the kernel: mu and Z divided by ell, s by ell², ψ1 by gamma and
ψ2 by gamma² (ψ0 is N). With a = 1/(1 + 2s) and z̄ the midpoint of two inducing inputs, the exponent of
ψ2's summand is linear in (a mu, a) × (z̄, z̄²): one matrix product over all pairs, of which only the
upper triangle is needed. Rows are taken in blocks, so memory does not grow with N; blocks are recomputed, not stored,
for the gradient.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

# Entries of one [rows, pairs] block. Up to STORED entries the exponentials are stored for the gradient (128 MiB);
# beyond that they are recomputed in blocks of BLOCK. On a CPU no more than BLOCK entries are stored; up to STORED they
# are recomputed in blocks of CACHED, which fit into the processor's cache (1 MiB): this takes half the time. A gradient
# written by hand takes as long as the automatic one.
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
    return psi2_by_pattern(mu, s, Z, weight[None])[0]


def psi2_by_pattern(mu: Array, s: Array, Z: Array, seen: Array) -> Array:
    """Σ_n seen_gn <k(z_i, x_n) k(x_n, z_j)> for patterns seen [G, N] of rows, shape [G, m, m]."""
    i, j = np.triu_indices(len(Z))
    pairs, apart = pair_features(Z)
    rows, constant = row_features(mu, s)

    def add(total: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
        r, c, weight = block
        return total + weight.T @ jnp.exp(r @ pairs.T + c[:, None]), None

    total = jnp.zeros((len(seen), len(pairs)), rows.dtype)
    entries, on_cpu = len(rows) * len(pairs), jax.default_backend() == "cpu"
    if entries <= (BLOCK if on_cpu else STORED):
        total, _ = add(total, (rows, constant, seen.T))
    else:
        size = max(1, (CACHED if on_cpu and entries <= STORED else BLOCK) // len(pairs))
        count = -(-len(rows) // size)

        def blocks(values: Array) -> Array:
            """In blocks of equal size; the last one is padded with rows of weight 0."""
            padded = jnp.pad(values, ((0, count * size - len(values)), *[(0, 0)] * (values.ndim - 1)))
            return padded.reshape(count, size, *values.shape[1:])

        total, _ = jax.lax.scan(jax.checkpoint(add), total, (blocks(rows), blocks(constant), blocks(seen.T)))
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
