"""Brownian motion as a jump process on the nodes of a surface: corridors of a chart, or an atlas with its many charts.

Linear elements with lumped mass turn ∂u/∂t = ½Δu into the equation of a jump process between nodes,

    rate of leaving i    ½ Σ_j w_ij / m_i        chance of going to j    w_ij / Σ_j w_ij        w = -K off the diagonal

whose limit on ever finer nodes is Brownian motion, reflected at every edge. It needs neither time steps nor a boundary
test, and it crosses from corridor to corridor and from chart to chart. Two changes keep it usable, and both are
reported. Nodes at almost the same point would exchange paths endlessly, so their conductance is limited: they exchange
their content no faster than in a small fraction of the shortest time. Positive entries of K off the diagonal (obtuse
simplices) have no jump process and conduct nothing.

Where nodes are few, paths are drawn at the recorded times only, from the chances exp(tQ) of being at node j after t,
where Q are the rates: the law is the same, and no jump between these times is simulated. Among many nodes each path
jumps from node to node.

Histograms count paths at the nodes, which are their cells. A point between nodes starts its paths from these nodes, in
proportion to its barycentric weights. The random key of a path depends on its point alone. A kernel of a regression
needs no paths: with K φ = λ M φ, M the lumped mass, the law of the jumps is Σ_i e^{-λ_i t/2} φ_i φ_iᵀ M.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components

from ..basics import padding
from ..basics.device import compiled
from ..basics.workers import results

LEAST_RESIDENCE = 0.005  # fraction of the shortest time: two nodes do not exchange their content faster
SLOTS = 8  # lists of neighbours are padded to multiples of this
FEW = 1500  # nodes up to which chances between recorded times are computed
STARTS = 64  # points in one task
AT_ONCE = 8  # points of a task that are simulated together

Corners = tuple[np.ndarray, np.ndarray]  # nodes [n, c] that points lie between, and weights [n, c]


@partial(jax.tree_util.register_dataclass, data_fields=["rate", "chance", "other"], meta_fields=[])
@dataclass(frozen=True)
class JumpProcess:
    """What a path at a node does next: rate of leaving [n], cumulative chances [n, s] of its neighbours [n, s]."""

    rate: Any
    chance: Any
    other: Any


@dataclass(frozen=True)
class Nodes:
    """A jump process with the volumes of its nodes and their connected components, and what had to be changed.

    process : where paths jump.
    volumes : of the nodes, [n].
    component : number of the connected component of each node, [n].
    blocked : fraction of the conductance that was negative and is left out.
    slowed : fraction of pairs whose conductance was limited.
    """

    process: JumpProcess
    volumes: np.ndarray
    component: np.ndarray
    blocked: float
    slowed: float


def jump_nodes(K: csr_matrix, mass: np.ndarray, shortest: float) -> Nodes:
    """The jump process of a stiffness matrix K [n, n] and lumped masses [n], for times from `shortest` on."""
    W = coo_matrix(-K)
    off = (W.row != W.col) & (W.data != 0)
    blocked = float(np.abs(W.data[off & (W.data < 0)]).sum()) / max(float(np.abs(W.data[off]).sum()), 1e-300)
    off &= W.data > 0
    n = len(mass)
    i, j, w = W.row[off], W.col[off], W.data[off]
    most = 2 * np.minimum(mass[i], mass[j]) / (LEAST_RESIDENCE * shortest)
    W = csr_matrix((np.minimum(w, most), (i, j)), shape=(n, n))
    total = np.asarray(W.sum(1)).ravel()
    degree = np.diff(W.indptr)
    slots = padding.size(max(int(degree.max(initial=1)), 1), SLOTS)
    row, slot = np.repeat(np.arange(n), degree), np.arange(W.nnz) - np.repeat(W.indptr[:-1], degree)
    chance, other = np.zeros((n, slots)), np.repeat(np.arange(n)[:, None], slots, 1)
    chance[row, slot], other[row, slot] = W.data / total[row], W.indices
    chance = np.cumsum(chance, 1)
    chance[np.arange(slots) >= degree[:, None] - 1] = 1.0  # the last neighbour takes what rounding leaves
    size = padding.size(n)
    process = JumpProcess(
        padding.fill(0.5 * total / mass, size),
        padding.fill(chance.astype(np.float32), size, value=1.0),
        padding.fill(other.astype(np.int32), size),
    )
    component = connected_components(W, directed=False)[1]
    return Nodes(process, np.asarray(mass, float), component, blocked, float(np.mean(w > most)) if len(w) else 0.0)


def walk(process: JumpProcess, start: int, time: float, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """The nodes at which one path is at n_steps + 1 equal steps of time, [n_steps + 1]."""
    rate, chance, other = (np.asarray(values) for values in (process.rate, process.chance, process.other))
    wait = lambda node: rng.exponential(1 / rate[node]) if rate[node] > 0 else np.inf
    visited, node, leaves = np.empty(n_steps + 1, int), start, wait(start)
    for step in range(n_steps + 1):
        while leaves <= step * time / n_steps:
            node = int(other[node, int(np.sum(rng.random() > chance[node]))])
            leaves += wait(node)
        visited[step] = node
    return visited


@partial(compiled, static_argnames=("n_paths",))
def counts(process: JumpProcess, keys: Array, corners: Array, upto: Array, spans: Array, n_paths: int) -> Array:
    """How many of n_paths from each of u starts are at each node at the end of each leg, [u, legs, n].

    A start lies between the nodes `corners` [u, c]; `upto` [u, c] are its cumulative weights. Legs last `spans` [legs].
    """
    quantile = (jnp.arange(n_paths, dtype=jnp.float32) + 0.5) / n_paths

    def start(args: Any) -> Array:
        key, nodes, cumulative = args
        x = nodes[jnp.minimum(jnp.sum(quantile[:, None] > cumulative, 1), len(nodes) - 1)]

        def leg(state: Any, span: Array) -> Any:
            x, first = state

            def jump(state: Any) -> Any:
                k, x, clock = state
                u, v = jax.random.uniform(jax.random.fold_in(key, k), (2, n_paths), jnp.float32)
                later = clock - jnp.log1p(-u) / process.rate[x]
                stays = later > span  # waiting times have no memory: the next leg draws a new one
                to = process.other[x, jnp.sum(v[:, None] > process.chance[x], 1)]
                return k + 1, jnp.where(stays, x, to), jnp.where(stays, jnp.inf, later)

            clock = jnp.zeros(n_paths, jnp.float32)
            first, x, _ = jax.lax.while_loop(lambda s: jnp.any(jnp.isfinite(s[2])), jump, (first, x, clock))
            return (x, first), jnp.zeros(len(process.rate), jnp.int32).at[x].add(1)

        return jax.lax.scan(leg, (x, jnp.asarray(0, jnp.int32)), spans)[1]

    return jax.lax.map(start, (keys, corners, upto), batch_size=AT_ONCE)


def node_fractions(
    nodes: Nodes, between: Corners, points: np.ndarray, times: np.ndarray, n_paths: int, seed: int,
    n_jobs: int | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """h_x [points, n]: the fraction of the paths from each point that are at each node after t/2, for all times."""
    corners, weights = between
    ids = np.array([crc32(np.ascontiguousarray(p).tobytes()) >> 1 for p in points])
    if len(nodes.volumes) <= FEW:
        return _drawn(nodes, corners, np.cumsum(weights, 1), ids, times, n_paths, seed)
    tasks = [slice(k, k + STARTS) for k in range(0, len(points), STARTS)]
    counted = results(
        [partial(_counts_of_task, nodes.process, seed, ids[s], corners[s], weights[s], times, n_paths) for s in tasks],
        n_jobs,
    )
    totals = np.concatenate(list(counted))[:, :, : len(nodes.volumes)]
    return [totals[:, k] / n_paths for k in range(len(times))]


def _drawn(
    nodes: Nodes, corners: np.ndarray, upto: np.ndarray, ids: np.ndarray, times: np.ndarray, n_paths: int, seed: int
) -> list[np.ndarray]:  # fmt: skip
    """h_x [points, n] at all times, each path drawn at these times only."""
    n, quantile = len(nodes.volumes), (np.arange(n_paths) + 0.5) / n_paths
    rngs = [np.random.default_rng([seed, int(number)]) for number in ids]
    first = np.minimum((quantile[:, None] > upto[:, None]).sum(2), corners.shape[1] - 1)
    x, fractions = np.take_along_axis(corners, first, 1), []
    for chances in _chances(nodes, np.diff(0.5 * times, prepend=0.0)):
        row = np.cumsum(chances, 1)
        row = np.arange(n)[:, None] + row / row[:, -1:]  # all rows one after the other, ascending
        u = np.stack([rng.random(n_paths) for rng in rngs])
        x = np.minimum(np.searchsorted(row.ravel(), (x + u).ravel()).reshape(x.shape) - x * n, n - 1)
        at = np.arange(len(x))[:, None] * n + x
        fractions.append(np.bincount(at.ravel(), minlength=len(x) * n).reshape(-1, n) / n_paths)
    return fractions


def _chances(nodes: Nodes, spans: np.ndarray) -> Iterator[np.ndarray]:
    """exp(Q s) [n, n] for each span s: the chance that a path at i is at j after s."""
    n, root = len(nodes.volumes), np.sqrt(nodes.volumes)
    chance, other = np.asarray(nodes.process.chance, float)[:n], np.asarray(nodes.process.other)[:n]
    leaving = 2 * nodes.volumes * np.asarray(nodes.process.rate, float)[:n]  # Σ_j w_ij
    W = np.zeros((n, n))
    np.add.at(W, (np.arange(n)[:, None], other), leaving[:, None] * np.diff(chance, prepend=0.0))
    W = 0.5 * (W + W.T)
    values, vectors = np.linalg.eigh(0.5 * (W - np.diag(W.sum(1))) / np.outer(root, root))
    for span in spans:
        both = (vectors * np.exp(np.minimum(values, 0.0) * span)) @ vectors.T
        yield np.maximum(both * (root / root[:, None]), 0.0)


def _counts_of_task(
    process: JumpProcess,
    seed: int,
    ids: np.ndarray,
    corners: np.ndarray,
    weights: np.ndarray,
    times: np.ndarray,
    n_paths: int,
) -> np.ndarray:
    """Counts for the points of one task; their number is padded, so that tasks use the same compiled programs."""
    n, full = len(ids), padding.size(len(ids), AT_ONCE)
    upto = np.cumsum(weights, 1)
    # The unit of time is near the shortest waiting time: single precision has no numbers above 3e38.
    unit = 2.0 ** -np.round(np.log2(max(float(np.max(process.rate)), np.finfo(float).tiny)))
    process = replace(process, rate=(process.rate * unit).astype(np.float32))
    spans = np.diff(0.5 * times / unit, prepend=0.0).astype(np.float32)
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(jnp.asarray(padding.fill(ids, full), jnp.uint32))
    counted = counts(
        process, keys, jnp.asarray(padding.fill(corners, full), jnp.int32),
        jnp.asarray(padding.fill(upto, full, value=1.0), jnp.float32), jnp.asarray(spans), n_paths,
    )  # fmt: skip
    return np.asarray(counted)[:n]
