"""Both latent models for clouds with missing readings: each column is modelled on the rows that have a reading in it.

Given the latent rows, columns of S are independent, and a missing reading integrates to one. With O_j the rows that
have a reading in column j, the bound is that of `bound` for each column on its own rows,

    F = Σ_j [ N_j/2 log(beta/2π) + ½ log|Kuu| - ½ log|A_j| - beta/2 Σ_{n∈O_j} s_nj² + beta²/2 c_jᵀA_j⁻¹c_j
              - beta/2 ψ0_j + beta/2 tr Kuu⁻¹ψ2_j ] - KL(q(X) ‖ N(0, I)),
    A_j = Kuu + beta ψ2_j,    c_j = ψ1ᵀs_j,    all sums over O_j alone,

and the likelihood of the other model a product in the same way. Columns with the same rows, a *pattern*, have the same
A_j. The cost is one m × m factorisation for each pattern (N × N for the maximum-likelihood model).

The posterior of φ also has one covariance for each pattern. `Mapping` has a single one, the mean over the columns. The
expected metric, a sum over columns, is exact with it; the variance and the draws of φ are those of a typical column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..basics import padding
from . import bound, likelihood, precise
from .kernel import JITTER, unit_gram
from .psi import STORED, psi2_by_pattern

BATCH = 256  # patterns whose posteriors are in memory at once
FACTORISING = 50  # the factorisation of a pattern costs as much as this number of columns


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["factor", "seen", "n_columns", "weight", "trace", "p"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Patterns:
    """A cloud with missing readings, as G blocks of at most r columns that have readings in the same rows."""

    factor: Any  # [G, N, r]; 0 where no reading is
    seen: Any  # [G, N]; 1 where a block has readings
    n_columns: Any  # [G]; the number of columns that a block represents
    weight: Any  # [N]; 1, or 0 for rows that only fill up the array
    trace: float  # sum of squares
    p: float  # readings of a row, on average

    @property
    def blocks(self) -> bound.Blocks:
        """The blocks of columns."""
        return self.factor, self.seen, self.n_columns

    @property
    def readings(self) -> Any:
        """The number of readings."""
        return self.n_columns @ self.seen.sum(1)


def grouped(S: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Patterns of S [N, p], NaN where no reading is: the rows [N] of bool and the columns [k] of each."""
    seen = ~np.isnan(S)
    _, first, which = np.unique(np.packbits(seen, axis=0).T, axis=0, return_index=True, return_inverse=True)
    return [(seen[:, column], np.flatnonzero(which.ravel() == k)) for k, column in enumerate(first)]


def compress(S: np.ndarray) -> Patterns:
    """S [N, p], NaN where no reading is, as `Patterns`; padded to sizes that are the same for many clouds."""
    factored = []
    for rows, columns in grouped(S):
        observed = bound.compress(S[np.ix_(rows, columns)]).factor
        factor = np.zeros((len(S), observed.shape[1]))
        factor[rows] = observed
        factored.append((factor, rows.astype(float), float(len(columns))))
    width = _width([factor.shape[1] for factor, _, _ in factored])
    blocks = []
    for factor, seen, n_columns in factored:
        for k in range(0, max(factor.shape[1], 1), width):
            blocks.append((padding.fill(factor[:, k : k + width], len(S), width), seen, n_columns if k == 0 else 0.0))
    factors, seen, counts = (np.array(values) for values in zip(*blocks, strict=True))
    G, N = padding.size(len(blocks)), padding.size(len(S))
    readings = int(np.sum(~np.isnan(S)))
    return Patterns(
        padding.fill(factors, G, N), padding.fill(seen, G, N), padding.fill(counts, G), padding.live(len(S), N),
        float(np.nansum(S * S)), readings / len(S),
    )  # fmt: skip


def _width(sizes: list[int]) -> int:
    """The number of columns of a block: narrow blocks repeat factorisations, wide blocks are padded."""
    tried = 2 ** np.arange(max(sizes).bit_length() + 1)
    cost = [sum(-(-size // r) for size in sizes) * (FACTORISING + r) for r in tried]
    return int(tried[np.argmin(cost)])


def variational_bound(theta: bound.Parameters, cloud: Patterns, live: Any) -> Array:
    """The bound F, a scalar (nats); `live` as in `bound.bound`."""
    gamma, beta = jnp.exp(theta.log_gamma), jnp.exp(theta.log_beta)
    K, Psi1, Psi2 = bound.statistics(theta, jnp.asarray(cloud.seen), live, JITTER, psi2_by_pattern)
    C = beta * jnp.sqrt(gamma) * jnp.einsum("nm,gnr->gmr", Psi1, cloud.factor)
    collapsed = lambda psi2, c, n_columns: bound.collapsed(K, psi2, c, beta * gamma, n_columns)
    if Psi2.size > STORED:
        collapsed = jax.checkpoint(collapsed)
    fit = jnp.sum(jax.vmap(collapsed)(Psi2, C, jnp.asarray(cloud.n_columns)))
    fit += 0.5 * cloud.readings * (theta.log_beta - jnp.log(2 * jnp.pi) - beta * gamma) - 0.5 * beta * cloud.trace
    return fit - jnp.asarray(cloud.weight) @ jnp.sum(bound.divergence(theta.mu, theta.log_s), 1)


def inducing_posterior(theta: bound.Parameters, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean weights W [m, p], and the means over columns of Lam and of A⁻¹ = R Rᵀ (see `precise.inducing_posterior`)."""
    m, whole = len(theta.Z), np.nan_to_num(S)
    W, Lam, inverse = np.zeros((m, S.shape[1])), np.zeros((m, m)), np.zeros((m, m))
    groups = grouped(S)
    for k in range(0, len(groups), BATCH):
        batch = groups[k : k + BATCH]
        posteriors = precise.inducing_posteriors(theta, np.array([rows for rows, _ in batch], float))
        for (_, columns), (P, of_pattern, R) in zip(batch, posteriors, strict=True):
            W[:, columns] = P @ whole[:, columns]
            Lam += of_pattern * len(columns) / S.shape[1]
            inverse += R @ R.T * len(columns) / S.shape[1]
    return W, Lam, _root(inverse)


def _root(A: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = A, positive semidefinite up to rounding."""
    w, V = np.linalg.eigh(0.5 * (A + A.T))
    return V * np.sqrt(np.maximum(w, 0.0))


def log_likelihood(theta: likelihood.Parameters, cloud: Patterns) -> Array:
    """log p(S | X) of the model by points, a scalar (nats)."""

    def of_block(block: tuple[Array, Array, Array]) -> Array:
        factor, seen, n_columns = block
        return likelihood.log_likelihood(theta, bound.FactoredCloud(factor, seen, 0.0, n_columns))  # type: ignore[arg-type]

    blocks = jax.tree.map(jnp.asarray, (cloud.factor, cloud.seen, cloud.n_columns))
    return jnp.sum(jax.lax.map(jax.checkpoint(of_block), blocks))


def point_posterior(theta: likelihood.Parameters, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, Lam and R as in `inducing_posterior`: of a pattern Lam = (K + I/beta)⁻¹ on its rows, A⁻¹ = K⁻¹ - Lam."""
    N = len(theta.X)
    gamma, noise = float(np.exp(theta.log_gamma)), float(likelihood.noise_variance(theta))
    K = gamma * np.asarray(unit_gram(jnp.asarray(theta.X / np.exp(theta.log_ell)), 0.0))
    whole = np.nan_to_num(S)
    W, Lam = np.zeros((N, S.shape[1])), np.zeros((N, N))
    for rows, columns in grouped(S):
        square = np.ix_(rows, rows)
        inverse = np.linalg.inv(K[square] + noise * np.eye(int(rows.sum())))
        W[np.ix_(rows, columns)] = inverse @ whole[np.ix_(rows, columns)]
        Lam[square] += inverse * len(columns) / S.shape[1]
    L = np.linalg.cholesky(K + JITTER * gamma * np.eye(N))
    return W, 0.5 * (Lam + Lam.T), np.linalg.solve(L.T, _root(np.eye(N) - L.T @ Lam @ L))
