"""The variational bound again, in a form that keeps its digits where Kuu is nearly singular.

`bound` takes the difference of two numbers in its terms with S, and again in ψ0 - tr Kuu⁻¹ψ2. Where a direction of the
chart is nearly linear, both differences are six orders of magnitude smaller than the numbers, Kuu⁻¹ makes rounding
errors of ψ2 a million times as large, and L-BFGS finds no way up: on a roll of 800 rows the bound was known to 10 nats.
Here both are sums of squares. In kernel units, with LLᵀ = K, V = L⁻¹ψ1ᵀ, Γ = ψ2 - ψ1ᵀψ1, B = VVᵀ + L⁻¹ΓL⁻ᵀ,
b = beta gamma and W = b (I + bB)⁻¹VS,

    F = Np/2 log(beta/2π) - p/2 log|I + bB| - beta/2 (‖S - VᵀW‖² + ‖W‖²/b + tr WᵀL⁻¹ΓL⁻ᵀW)
        - p b/2 (Σ_n (1 - ‖v_n‖²) - tr L⁻¹ΓL⁻ᵀ) - KL(q(X) ‖ N(0, I)).

W is where the first bracket is smallest, so that an error of W changes it in second order only. Γ is never a difference
either: with a = 1/(1 + s), e = s a/(1 + 2s), and the midpoint z̄ and distance d of two inducing inputs,

    Γ_ij = Σ_n ψ1_ni ψ1_nj (exp(D_nij) - 1),   D_nij = Σ_q e (mu - z̄)² - ¼ s a d² + log(1 + s) - ½ log(1 + 2s),

where each term of D is in proportion to s. On that roll this form is known to 1e-7 nats, and takes three times as long:
so `optimise` uses it where a line search broke down, and the posterior of the mapping is always made with it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from ..basics.checks import NoSurface
from .bound import Blocks, Parameters, divergence, in_kernel_units, statistics
from .kernel import JITTER, unit_gram
from .psi import psi1

# Entries of one [pairs, rows] block of Γ: on a CPU it fits into the processor's cache. A gradient written by hand takes
# as long as the automatic one, and blocks that are stored for it take three times as long.
CACHED = 2**16
BLOCK = 2**21


def bound(theta: Parameters, blocks: Blocks, weight: Any, jitter: float | Array = JITTER, live: Any = None) -> Array:
    """The bound F, a scalar (nats), of columns in blocks that have readings in the same rows; as `bound.bound`."""
    factor, seen, n_columns = map(jnp.asarray, blocks)
    gamma, beta = jnp.exp(theta.log_gamma), jnp.exp(theta.log_beta)
    live = jnp.ones(len(theta.Z)) if live is None else live
    K, Psi1, Gamma = statistics(theta, seen, live, jitter, covariance)
    fit = collapsed(K, Psi1, Gamma, beta * gamma, beta, (factor, seen, n_columns))
    fit += 0.5 * (n_columns @ seen.sum(1)) * (theta.log_beta - jnp.log(2 * jnp.pi))
    return fit - jnp.asarray(weight) @ jnp.sum(divergence(theta.mu, theta.log_s), 1)


@jax.custom_vjp
def collapsed(K: Array, Psi1: Array, Gamma: Array, b: Array, beta: Array, blocks: Blocks) -> Array:
    """The terms of the bound that need Kuu⁻¹, summed over blocks; the gradient is written out by hand.

    Blocks are computed one after the other, for the reason of `bound._inverse_factors`.
    """
    return _collapsed_forward(K, Psi1, Gamma, b, beta, blocks)[0]


def _collapsed_forward(K, Psi1, Gamma, b, beta, blocks):
    L = jnp.linalg.cholesky(K)
    V = _solve(L, Psi1.T)
    values = jax.lax.map(lambda block: _of_block(L, V, b, beta, *block)[0], (Gamma, *blocks))
    return jnp.sum(values), (L, V, Gamma, b, beta, blocks)


def _collapsed_backward(residual, g):
    L, V, Gamma, b, beta, blocks = residual
    A = _solve(L, V, transposed=True)  # K⁻¹ψ1ᵀ

    def add(total, block):
        _, _, seen, n_columns = block
        _, (spread, B, LB, W, rest, misfit, unexplained) = _of_block(L, V, b, beta, *block)
        inverse = cho_solve((LB, True), jnp.eye(len(B)))  # (I + bB)⁻¹
        shrinkage = jnp.eye(len(B)) - inverse
        U = _solve(L, W, transposed=True)
        difference = _between(L, shrinkage)  # K⁻¹ - (K + b ψ2)⁻¹
        second = (A * seen) @ A.T + _between(L, spread)  # K⁻¹ψ2K⁻¹
        d_K = 0.5 * n_columns * (difference - b * second) - 0.5 * beta / b * U @ U.T
        d_Psi1 = beta * rest @ U.T + n_columns * b * _solve(L, shrinkage @ (V * seen), transposed=True).T
        d_b = 0.5 * beta * jnp.sum(W * W) / b**2 - 0.5 * n_columns * (jnp.sum(inverse * B) + unexplained)
        sums = total[0] + d_K, total[1] + d_Psi1, total[2] + d_b, total[3] - misfit
        return sums, 0.5 * n_columns * b * difference - 0.5 * beta * U @ U.T

    begin = jnp.zeros_like(L), jnp.zeros_like(V.T), jnp.zeros_like(b), jnp.zeros_like(beta)
    (d_K, d_Psi1, d_b, d_beta), d_Gamma = jax.lax.scan(add, begin, (Gamma, *blocks))
    return g * d_K, g * d_Psi1, g * d_Gamma, g * d_b, g * d_beta, jax.tree.map(jnp.zeros_like, blocks)


collapsed.defvjp(_collapsed_forward, _collapsed_backward)


def _of_block(L, V, b, beta, Gamma, factor, seen, n_columns):
    """The value of one block, and what its gradient needs."""
    spread = _whitened(L, Gamma)
    B = (V * seen) @ V.T + spread
    LB = jnp.linalg.cholesky(jnp.eye(len(B)) + b * B)
    W = b * cho_solve((LB, True), V @ factor)
    rest = factor - seen[:, None] * (V.T @ W)
    misfit = 0.5 * (jnp.sum(rest * rest) + jnp.sum(W * W) / b + jnp.sum(W * (spread @ W)))
    unexplained = seen @ (1 - jnp.sum(V * V, 0)) - jnp.trace(spread)
    value = -n_columns * (jnp.sum(jnp.log(jnp.diag(LB))) + 0.5 * b * unexplained) - beta * misfit
    return value, (spread, B, LB, W, rest, misfit, unexplained)


def _solve(L: Any, X: Any, transposed: bool = False) -> Any:
    """L⁻¹X, or L⁻ᵀX; triangular solves keep the digits that a product with the inverse loses."""
    solve = scipy.linalg.solve_triangular if isinstance(L, np.ndarray) else solve_triangular
    return solve(L, X, lower=True, trans=1 if transposed else 0)


def _whitened(L: Any, X: Any) -> Any:
    """L⁻¹XL⁻ᵀ of a symmetric X."""
    return _symmetric(_solve(L, _solve(L, X).T))


def _between(L: Any, X: Any) -> Any:
    """L⁻ᵀXL⁻¹ of a symmetric X."""
    return _symmetric(_solve(L, _solve(L, X, transposed=True).T, transposed=True))


def _symmetric(X: Any) -> Any:
    return 0.5 * (X + X.T)


def covariance(mu: Array, s: Array, Z: Array, seen: Array) -> Array:
    """Γ in kernel units, Σ_n seen_gn Cov(k(z_i, x_n), k(x_n, z_j)) for patterns seen [G, N] of rows, [G, m, m]."""
    i, j = np.triu_indices(len(Z))
    pairs = pair_features(Z)

    def add(total: Array, block: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
        rows, constant, first, weight = block
        return total + (first.T[i] * first.T[j] * jnp.expm1(pairs @ rows.T + constant)) @ weight, None

    size = max(1, (CACHED if jax.default_backend() == "cpu" else BLOCK) // len(pairs))
    count = -(-len(mu) // size)

    def blocks(values: Array) -> Array:
        """In blocks of equal size; the last one is padded with rows of weight 0."""
        padded = jnp.pad(values, ((0, count * size - len(values)), *[(0, 0)] * (values.ndim - 1)))
        return padded.reshape(count, size, *values.shape[1:])

    each_row = (*row_features(mu, s), psi1(mu, s, Z), seen.T)
    upper = jnp.zeros((len(pairs), len(seen)), pairs.dtype)
    upper, _ = jax.lax.scan(jax.checkpoint(add), upper, tuple(map(blocks, each_row)))
    square = jnp.zeros((len(seen), len(Z), len(Z)), pairs.dtype).at[:, i, j].set(upper.T)
    return square + jnp.triu(square, 1).transpose(0, 2, 1)


def covariance_of_arrays(mu: np.ndarray, s: np.ndarray, Z: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """`covariance` of arrays of NumPy, without a compiled program."""
    i, j = np.triu_indices(len(Z))
    pairs, first = pair_features(Z), psi1(mu, s, Z).T
    rows, constant = row_features(mu, s)
    size = max(1, CACHED // len(pairs))
    square, upper = np.zeros((len(seen), len(Z), len(Z))), np.zeros((len(pairs), len(seen)))
    for k in range(0, len(rows), size):
        block = slice(k, k + size)
        products = first[i, block] * first[j, block]
        upper += (products * np.expm1(pairs @ rows[block].T + constant[block])) @ seen[:, block].T
    square[:, i, j] = square[:, j, i] = upper.T
    return square


def row_features(mu: Any, s: Any) -> tuple[Any, Any]:
    """Rows (-2 e mu, e, -¼ s a) [N, 3q] and row constants Σ e mu² + log(1 + s) - ½ log(1 + 2s) [N] of D."""
    array = mu.__array_namespace__()
    a = 1 / (1 + s)
    e = s * a / (1 + 2 * s)
    constant = array.sum(e * mu**2 + array.log1p(s) - 0.5 * array.log1p(2 * s), axis=-1)
    return array.concatenate([-2 * e * mu, e, -0.25 * s * a], axis=-1), constant


def pair_features(Z: Any) -> Any:
    """Pairs i ≤ j of inducing inputs: (z̄, z̄², d²) [T, 3q]."""
    array = Z.__array_namespace__()
    i, j = np.triu_indices(len(Z))
    middle = 0.5 * (Z[i] + Z[j])
    return array.concatenate([middle, middle**2, (Z[i] - Z[j]) ** 2], axis=1)


def inducing_posterior(theta: Parameters, jitter: float = JITTER) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The optimal q(U) (erratum 2), as three matrices.

    Returns P [m, N] with mean weights W = P S = beta A⁻¹ψ1ᵀS, Lam = Kuu⁻¹ - A⁻¹ [m, m], and a root R of A⁻¹ = R Rᵀ.
    """
    return inducing_posteriors(theta, np.ones((1, len(theta.mu))), jitter)[0]


def inducing_posteriors(
    theta: Parameters, seen: np.ndarray, jitter: float = JITTER
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """P, Lam and R as in `inducing_posterior` for each of several patterns of rows, seen [G, N] of ones and zeros.

    Lam is formed as L⁻ᵀ beta B (I + bB)⁻¹ L⁻¹: no difference of large numbers.
    """
    gamma, beta = np.exp(theta.log_gamma), np.exp(theta.log_beta)
    mu, s, Z = in_kernel_units(theta)
    posteriors, eye = [], np.eye(len(Z))
    try:
        L = np.linalg.cholesky(unit_gram(Z, jitter))
        V = _solve(L, psi1(mu, s, Z).T)
        for rows, Gamma in zip(seen, covariance_of_arrays(mu, s, Z, seen), strict=True):
            B = (V * rows) @ V.T + _whitened(L, Gamma)
            LB = np.linalg.cholesky(eye + beta * gamma * B)
            P = beta * _solve(L, scipy.linalg.cho_solve((LB, True), V * rows), transposed=True)
            R = _solve(L, _solve(LB, eye).T, transposed=True) / np.sqrt(gamma)
            posteriors.append((P, _between(L, beta * scipy.linalg.cho_solve((LB, True), B)), R))
    except np.linalg.LinAlgError:
        raise NoSurface(
            "the matrices of the latent model are singular; use fewer inducing points (n_inducing) or rescale X"
        ) from None
    return posteriors
