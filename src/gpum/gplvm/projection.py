"""Projection of a new row onto the chart: the posterior q(x*) = N(mu, diag s) of its latent coordinates.

With q(U) fixed, the bound of one new row s* is, in the model's scaled units and up to a constant,

    beta s*ᵀWᵀψ1* - beta/2 tr (WWᵀ - pLam) ψ2* - KL(q(x*) ‖ N(0, I)),

a function of 2q numbers. As s → 0 it becomes beta (s*ᵀWᵀk - ½ kᵀ(WWᵀ - pLam)k) - ½|x|², k = k(x, Z),
which is cheap to compute. So each row is first projected to a point, by damped Newton steps from several nearby
training rows; the best of these points is the start of the optimisation of the full posterior. The row enters only
through the products s*ᵀWᵀ, so that the cost does not depend on p.

All rows are optimised together, in blocks of two sizes, until each has converged. Derivatives are in closed form: ψ1
and ψ2 are sums of exponentials whose exponents are linear in a few functions R(theta), so that with F the coefficients

    f = Σ_t w_t exp(F_t·R),    ∇f = Jᵀ m1,    ∇²f = Jᵀ m2 J + Σ_i m1_i ∇²R_i,    m1 = Σ w e F,  m2 = Σ w e F Fᵀ

come from one matrix product over all rows and pairs (automatic differentiation takes twelve times as long).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..basics.device import compiled
from . import kernel
from .bound import divergence
from .mapping import Mapping
from .psi import pair_features

MAX_STEPS = 101
ROUND = 2  # steps of many rows, after which those that have converged are left out
BLOCK = 256  # rows of one program, which bounds the memory
FEW = 16  # rows of a second program, for the few rows that a service is asked for
DEVICE_BLOCK = 8192  # the same on a GPU, where starting a program costs more than computing with its rows
DEVICE_ROOM = 2**25  # the largest size of an array over the pairs of inducing points in such a block
ROOM = 2**22  # the largest size of the matrices of a block in which every row has one
ARRIVED = 1e-10  # remaining distance to the maximum below which a row has converged
NEARLY = 1e-2  # the same for the point from which the full posterior starts
SMALL = 1e-7  # a step so short that the row has converged
# A step below which the bound is not compared: with precise data it is a small difference of large numbers.
CLOSE = 1e-2
FIRST_DAMPING, LAST_DAMPING = 1e-2, 1e12
NEAR_DAMPING = 1e-6  # first damping of the full posterior, whose start is near its maximum


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["Z", "ell", "gamma", "beta", "M", "pairs", "weights"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Decoder:
    """What the projection needs of a mapping: M = WWᵀ - pLam, and tr M ψ2* = Σ_t weights_t exp(exponent_t).

    Where rows lack readings, M and the weights have one entry for each pattern of readings (see `incomplete`).
    """

    Z: Any
    ell: Any
    gamma: Any
    beta: Any
    M: Any
    pairs: Any
    weights: Any


@compiled
def decoder(mapping: Mapping) -> tuple[Decoder, Array]:
    """The `Decoder` of a mapping, and the scaled weights W [m, p] with which a scaled row is multiplied."""
    W = mapping.W / mapping.scale
    return with_matrix(mapping, W @ W.T - W.shape[1] * mapping.Lam), W


def with_matrix(mapping: Mapping, M: Array) -> Decoder:
    """The `Decoder` of a mapping with this M, [m, m] or [patterns, m, m]."""
    i, j = np.triu_indices(len(mapping.Z))
    pairs, apart = pair_features(mapping.Z / mapping.ell)
    weights = jnp.where(i == j, 1.0, 2.0) * M[..., i, j] * mapping.gamma**2 * jnp.exp(apart)
    return Decoder(mapping.Z, mapping.ell, mapping.gamma, mapping.beta, M, pairs, weights)


def project_rows(
    products: np.ndarray, starts: np.ndarray, dec: Decoder, as_points: bool, pattern: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Latent means mu and variances s [n, q] of n rows with products s*ᵀWᵀ [n, m], from starts [n, c, q].

    With `as_points` (the maximum-likelihood model) s is the inverse curvature at the best point. `pattern` [n] is the
    pattern of each row, if the decoder has several.
    """
    n, c, q = starts.shape
    data = RowData(products, pattern)
    left = ARRIVED if as_points else NEARLY
    ends, values, hessians = _maximised(at_points, starts.reshape(-1, q), data.repeated(c), dec, left)
    best = c * np.arange(n) + np.argmax(values.reshape(n, c), 1)
    x, s = ends[best], _variances(hessians[best])
    if as_points:
        return x, s
    theta, _, _ = _maximised(at_posteriors, np.concatenate([x, np.log(s)], 1), data, dec, ARRIVED, NEAR_DAMPING)
    return theta[:, :q], np.exp(theta[:, q:])


def _variances(hessians: np.ndarray) -> np.ndarray:
    """Variances [n, q] of points from the curvature of the bound there."""
    w, V = np.linalg.eigh(-hessians)
    return np.einsum("nab,nb->na", V**2, 1 / np.maximum(w, 1.0))  # never wider than the prior


class RowData(NamedTuple):
    """The data of rows: products s*ᵀWᵀ [n, m], and the pattern of each row [n] if there are several patterns."""

    products: np.ndarray
    pattern: np.ndarray | None

    def of(self, rows: Any) -> RowData:
        """The data of these rows."""
        return RowData(self.products[rows], None if self.pattern is None else self.pattern[rows])

    def repeated(self, c: int) -> RowData:
        """The data of every row repeated c times, one after the other."""
        return self.of(np.repeat(np.arange(len(self.products)), c))


Derivatives = Callable[[Any, Any, Decoder, Any], tuple[Array, Array, Array]]


@partial(compiled, options=None)
def at_points(
    x: Array, products: Array, dec: Decoder, pattern: Array | None = None
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The bound of rows at points x [n, q] without uncertainty, with its gradient [n, q] and Hessian [n, q, q]."""
    M = dec.M if pattern is None else dec.M[pattern]
    kM = (lambda k: k @ M) if pattern is None else (lambda k: jnp.einsum("nk,nkm->nm", k, M))
    away = (dec.Z - x[:, None]) / dec.ell**2  # [n, m, q]
    k = jax.vmap(lambda point: kernel.at(point, dec.Z, dec.ell, dec.gamma))(x)
    slope = away * k[..., None]
    pull = products - kM(k)
    value = dec.beta * jnp.sum(k * (products + pull), 1) / 2 - 0.5 * jnp.sum(x**2, 1)
    gradient = dec.beta * jnp.einsum("nm,nmq->nq", pull, slope) - x
    pulled = jnp.einsum("mk,nkq->nmq" if pattern is None else "nmk,nkq->nmq", M, slope)
    bend = jnp.einsum("nm,nma,nmb->nab", pull, away, slope) - jnp.einsum("nma,nmb->nab", slope, pulled)
    flat = jnp.sum(pull * k, 1)[:, None, None] * jnp.diag(1 / dec.ell**2) * dec.beta
    return value, gradient, dec.beta * bend - flat - jnp.eye(x.shape[1])


@partial(compiled, options=None)
def at_posteriors(
    theta: Array, products: Array, dec: Decoder, pattern: Array | None = None
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The bound of rows at theta = (mu, log s) [n, 2q] with its gradient [n, 2q] and Hessian [n, 2q, 2q]."""
    z = dec.Z / dec.ell
    mu, log_s = jnp.split(theta, 2, axis=1)
    weights = dec.weights if pattern is None else dec.weights[pattern]
    data = _exponentials(1, jnp.concatenate([z, z**2], 1), dec.gamma * products, mu, log_s, dec.ell)
    model = _exponentials(2, dec.pairs, weights, mu, log_s, dec.ell)
    s = jnp.exp(log_s)
    prior = -jnp.sum(divergence(mu, log_s), 1)
    slope = -jnp.concatenate([mu, 0.5 * (s - 1)], 1)
    bend = -jnp.concatenate([jnp.ones_like(mu), 0.5 * s], 1)
    alone = prior, slope, bend[:, :, None] * jnp.eye(theta.shape[1])
    value, gradient, hessian = (
        dec.beta * (a - 0.5 * b) + c for a, b, c in zip(data, model, alone, strict=True)
    )  # fmt: skip
    return value, gradient, hessian


def _exponentials(
    c: int, F: Array, weights: Array, mu: Array, log_s: Array, ell: Array
) -> tuple[Array, Array, Array]:  # fmt: skip
    """f, ∇f, ∇²f at theta = (mu, log s) [n, 2q] of f = Σ_t w_t exp(F_t·R), for ψ1 (c = 1) or ψ2 (2); w [T] or [n, T].

    With u = mu/ell, v = s/ell², a = 1/(1 + cv) and b = 1 - a, R = (c a u, -c a/2, -½ Σ c a u² + log(1 + cv)); its last
    entry has the coefficient 1. By log s the derivative of a is -ab, that of b is ab, and that of log(1 + cv) is b.
    """
    q = mu.shape[1]
    u, v, g = mu / ell, jnp.exp(log_s) / ell**2, 1 / ell
    a = 1 / (1 + c * v)
    b = 1 - a
    ab = a * b
    R = jnp.concatenate([c * a * u, -0.5 * c * a, -0.5 * jnp.sum(c * a * u**2 + jnp.log1p(c * v), 1, keepdims=True)], 1)
    F = jnp.concatenate([F, jnp.ones((len(F), 1))], 1)
    i, j = np.triu_indices(2 * q + 1)
    upper = (weights * jnp.exp(R @ F.T)) @ (F[:, i] * F[:, j])
    place = np.zeros((2 * q + 1, 2 * q + 1), int)
    place[i, j] = place[j, i] = np.arange(len(i))
    m2 = upper[:, place]
    m1 = m2[:, -1]  # the last F is 1
    eye, none = jnp.eye(q), jnp.zeros((len(mu), q, q))
    by_mu = jnp.concatenate([(c * a * g)[:, :, None] * eye, none, (-c * a * u * g)[:, None]], 1)  # [n, 2q + 1, q]
    by_log_s = jnp.concatenate(
        [(-c * u * ab)[:, :, None] * eye, (0.5 * c * ab)[:, :, None] * eye, (0.5 * (c * u**2 * ab - b))[:, None]], 1
    )
    J = jnp.concatenate([by_mu, by_log_s], 2)
    first, second, last = m1[:, :q], m1[:, q : 2 * q], m1[:, 2 * q :]
    mixed = (c * g * ab * (last * u - first))[:, :, None] * eye
    bent = c * ab * (b - a) * (first * u - 0.5 * second - 0.5 * last * u**2) - 0.5 * last * ab
    rest = jnp.concatenate(
        [
            jnp.concatenate([(-c * a * g**2 * last)[:, :, None] * eye, mixed], 2),
            jnp.concatenate([mixed, bent[:, :, None] * eye], 2),
        ],
        1,
    )
    return m1[:, -1], jnp.einsum("nr,nra->na", m1, J), jnp.einsum("nra,nrs,nsb->nab", J, m2, J) + rest


class _State(NamedTuple):
    """Rows on their ascent: theta [n, d], f with its derivatives there, the damping, and which rows go on [n]."""

    theta: Any
    value: Any
    gradient: Any
    hessian: Any
    damping: Any
    going: Any


def _maximised(
    f: Derivatives, theta: np.ndarray, data: RowData, dec: Decoder, left: float, first: float = FIRST_DAMPING
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levenberg-Marquardt ascent of f from each row of theta [n, d]: the final theta, f there and its Hessian.

    The damping of a row decreases after a step that increases f, and increases after a step that is rejected; steps
    shorter than CLOSE are always accepted where the Hessian is definite. A row has converged when the distance that
    remains after a Newton step, about its length times (its length + the damping), is below `left`, or the step is
    SMALL. Few rows take all their steps in one program; of many, the converged ones are left out every ROUND steps.
    """
    n, d = theta.shape
    ends, values, hessians = theta.copy(), np.empty(n), np.empty((n, d, d))
    nothing = np.broadcast_to(-np.eye(d), (n, d, d))
    state = _State(theta, np.full(n, -np.inf), np.zeros((n, d)), nothing, np.full(n, first), np.ones(n, bool))
    going, taken = np.arange(n), 0
    while taken < MAX_STEPS:
        steps = min(ROUND if len(going) > FEW else MAX_STEPS, MAX_STEPS - taken)
        taken += steps
        state = _round(f, state, data.of(going), dec, left, steps)
        ends[going], values[going], hessians[going] = state.theta, state.value, state.hessian
        rest = np.flatnonzero(state.going)
        going, state = going[rest], _State(*(array[rest] for array in state))
        if not len(going):
            break
    return ends, values, hessians


def _round(f: Derivatives, state: _State, data: RowData, dec: Decoder, left: float, steps: int) -> _State:
    """Up to `steps` steps of all rows, block by block."""
    n = len(data.products)
    block = BLOCK if n > FEW else FEW
    if data.pattern is not None:
        block = min(block, max(1, ROOM // dec.M[0].size))
    elif jax.default_backend() != "cpu":
        block = max(BLOCK, min(DEVICE_BLOCK, DEVICE_ROOM // len(dec.pairs)))
    ends = []
    for k in range(0, n, block):
        rows = np.minimum(np.arange(k, k + block), n - 1)  # the last block repeats its last row
        pattern = None if data.pattern is None else data.pattern[rows]
        begin = _State(*(array[rows] for array in state))
        ends.append(jax.device_get(_ascend(f, begin, data.products[rows], dec, pattern, left, steps)))
    return _State(*(np.concatenate(arrays)[:n] for arrays in zip(*ends, strict=True)))


@partial(compiled, static_argnames=("f",))
def _ascend(
    f: Derivatives, state: _State, products: Array, dec: Decoder, pattern: Array | None, left: Any, steps: Any
) -> _State:
    """Steps of all rows until each has converged, at most `steps` of them; the first one only evaluates f."""

    def one_step(now: tuple[Array, _State]) -> tuple[Array, _State]:
        step, s = now
        move, sound = _step(s.gradient, -s.hessian, s.damping, s.going)
        size = jnp.abs(move).max(1)
        move = move / jnp.maximum(size, 1.0)[:, None]  # at most one unit a step
        value, gradient, hessian = f(s.theta + move, products, dec, pattern)
        better = (value > s.value) | (sound & (size < CLOSE))
        first = better & jnp.isneginf(s.value)
        small = ((size < SMALL) | (better & (size * (size + s.damping) < left))) & ~first
        gained = better & s.going
        change = jnp.where(first, 1.0, jnp.where(better, 0.25, 8.0))
        damping = jnp.where(s.going, s.damping * change, s.damping)
        return step + 1, _State(
            jnp.where(gained[:, None], s.theta + move, s.theta),
            jnp.where(gained, value, s.value),
            jnp.where(gained[:, None], gradient, s.gradient),
            jnp.where(gained[:, None, None], hessian, s.hessian),
            damping,
            s.going & ~small & (damping < LAST_DAMPING),
        )

    last = jax.lax.while_loop(lambda now: (now[0] < steps) & now[1].going.any(), one_step, (jnp.asarray(0), state))[1]
    if f is not at_posteriors:
        return last
    # Only theta is used: a row that is one short step from its maximum takes it, and f is not evaluated there.
    move, sound = _step(last.gradient, -last.hessian, last.damping, last.going)
    size = jnp.abs(move).max(1)
    close = last.going & sound & (size < CLOSE) & (size * (size + last.damping) < left)
    theta = jnp.where(close[:, None], last.theta + move, last.theta)
    return _State(theta, last.value, last.gradient, last.hessian, last.damping, last.going & ~close)


def _step(g: Array, H: Array, damping: Array, going: Array) -> tuple[Array, Array]:
    """V (Vᵀg)/(|w| + damping (1 + |w|)) for H = V diag(w) Vᵀ, [n, d], and which H are positive definite, [n]."""
    lifted = (1 + damping)[:, None, None] * H + damping[:, None, None] * jnp.eye(g.shape[1])
    sound, move = _solve(H, g)[1], _solve(lifted, g)[0]

    def bent() -> Array:
        w, V = jnp.linalg.eigh(H)
        w = jnp.abs(w)
        weight = 1 / (w + damping[:, None] * (1 + w))
        return jnp.where(sound[:, None], move, jnp.einsum("nab,nb,ncb,nc->na", V, weight, V, g))

    return jax.lax.cond(jnp.any(going & ~sound), bent, lambda: move), sound


def _solve(H: Array, g: Array) -> tuple[Array, Array]:
    """H⁻¹g for symmetric matrices [n, d, d] and which of them are positive definite, [n]: all pivots are positive.

    By elimination without pivoting, for all matrices at once: definite ones need none, and the others are not solved.
    """
    sound, rows = jnp.ones(len(H), bool), []
    while H.shape[1]:
        pivot = H[:, 0, 0]
        sound &= pivot > 0
        pivot = jnp.where(pivot > 0, pivot, 1.0)[:, None]
        ahead, end = H[:, 0, 1:] / pivot, g[:, :1] / pivot
        rows.append((ahead, end))
        H, g = H[:, 1:, 1:] - H[:, 1:, :1] * ahead[:, None], g[:, 1:] - H[:, 1:, 0] * end
    x = jnp.zeros((len(sound), 0))
    for ahead, end in reversed(rows):
        x = jnp.concatenate([end - jnp.sum(ahead * x, 1, keepdims=True), x], 1)
    return x, sound
