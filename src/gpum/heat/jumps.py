"""Brownian motion on nodes that are glued: curves and corridors of a chart, and atlases, whose charts a path may cross.

Linear elements with lumped mass make of ∂u/∂t = ½Δu the equation of a walk from node to node,

    rate of leaving i    ½ Σ_j w_ij / m_i        chance of going to j    w_ij / Σ_j w_ij        w = -K off the diagonal

whose limit on ever finer nodes is Brownian motion, reflected at every edge. It needs no steps in time, meets no wall
and crosses from corridor to corridor and from chart to chart. Between nodes all but in one place paths would go
to and fro without end: they conduct no more than what swaps their content in a tiny part of the shortest time. Positive
entries of K off the diagonal (obtuse simplices) conduct nothing. Both are counted.

Histograms at the nodes are features as in `histograms`; nodes are the cells, and a point between nodes starts its paths
from these, as many from each as its weights say. Paths of a point have keys of their own.
"""

from __future__ import annotations

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

from ..basics import neighbours, padding
from ..basics.workers import results

HASTE = 0.005  # of the shortest time: two nodes do not swap what they hold faster
SLOTS = 8  # neighbours come in multiples of this
STARTS = 64  # points in one task
AT_ONCE = 8  # and of these side by side

Corners = tuple[np.ndarray, np.ndarray]  # nodes [n, c] that points lie between, and weights [n, c]


@partial(jax.tree_util.register_dataclass, data_fields=["rate", "chance", "other"], meta_fields=[])
@dataclass(frozen=True)
class JumpProcess:
    """From each node: rate of leaving [n], chance of the neighbours up to each one [n, s], and these [n, s]."""

    rate: Any
    chance: Any
    other: Any


@dataclass(frozen=True)
class Nodes:
    """A walk with the volumes of its nodes [n], the piece each is in [n], and what was changed to make it one.

    blocked : share of the conductance that was negative and is left out;  slowed : share of pairs that conduct less.
    """

    walk: JumpProcess
    volumes: np.ndarray
    piece: np.ndarray
    blocked: float
    slowed: float


def jump_nodes(K: csr_matrix, mass: np.ndarray, shortest: float) -> Nodes:
    """The walk of a stiffness matrix K [n, n] and lumped masses [n], for times from `shortest` on."""
    W = coo_matrix(-K)
    off = (W.row != W.col) & (W.data != 0)
    blocked = float(np.abs(W.data[off & (W.data < 0)]).sum()) / max(float(np.abs(W.data[off]).sum()), 1e-300)
    off &= W.data > 0
    n = len(mass)
    i, j, w = W.row[off], W.col[off], W.data[off]
    most = 2 * np.minimum(mass[i], mass[j]) / (HASTE * shortest)
    W = csr_matrix((np.minimum(w, most), (i, j)), shape=(n, n))
    total = np.asarray(W.sum(1)).ravel()
    degree = np.diff(W.indptr)
    slots = padding.size(max(int(degree.max(initial=1)), 1), SLOTS)
    row, slot = np.repeat(np.arange(n), degree), np.arange(W.nnz) - np.repeat(W.indptr[:-1], degree)
    chance, other = np.zeros((n, slots)), np.repeat(np.arange(n)[:, None], slots, 1)
    chance[row, slot], other[row, slot] = W.data / total[row], W.indices
    chance = np.cumsum(chance, 1)
    chance[np.arange(slots) >= degree[:, None] - 1] = 1.0  # the last one takes what rounding leaves
    size = padding.size(n)
    walk = JumpProcess(
        padding.fill(0.5 * total / mass, size),
        padding.fill(chance.astype(np.float32), size, value=1.0),
        padding.fill(other.astype(np.int32), size),
    )
    piece = connected_components(W, directed=False)[1]
    return Nodes(walk, np.asarray(mass, float), piece, blocked, float(np.mean(w > most)) if len(w) else 0.0)


@partial(jax.jit, static_argnames=("n_paths",))
def counts(walk: JumpProcess, keys: Array, corners: Array, upto: Array, spans: Array, n_paths: int) -> Array:
    """How many of n_paths from each start are at each node after each of the legs, [u, legs, n]."""
    place = (jnp.arange(n_paths, dtype=jnp.float32) + 0.5) / n_paths

    def start(args: Any) -> Array:
        key, mine, share = args
        x = mine[jnp.minimum(jnp.sum(place[:, None] > share, 1), len(mine) - 1)]

        def leg(state: Any, span: Array) -> Any:
            x, first = state

            def jump(state: Any) -> Any:
                k, x, clock = state
                u, v = jax.random.uniform(jax.random.fold_in(key, k), (2, n_paths), jnp.float32)
                later = clock - jnp.log1p(-u) / walk.rate[x]
                stays = later > span  # what is left of the leg is too short; waiting has no memory
                to = walk.other[x, jnp.sum(v[:, None] > walk.chance[x], 1)]
                return k + 1, jnp.where(stays, x, to), jnp.where(stays, jnp.inf, later)

            clock = jnp.zeros(n_paths, jnp.float32)
            first, x, _ = jax.lax.while_loop(lambda s: jnp.any(jnp.isfinite(s[2])), jump, (first, x, clock))
            return (x, first), jnp.zeros(len(walk.rate), jnp.int32).at[x].add(1)

        return jax.lax.scan(leg, (x, jnp.asarray(0, jnp.int32)), spans)[1]

    return jax.lax.map(start, (keys, corners, upto), batch_size=AT_ONCE)


@dataclass(frozen=True)
class JumpFeatures:
    """F_t of any points: see `histograms`. `places.corners` says between which nodes points lie."""

    places: Any
    nodes: Nodes
    times: np.ndarray
    n_paths: int
    seed: int
    n_jobs: int | None = None

    @property
    def total(self) -> int:
        """Paths from each point."""
        return self.n_paths

    def volumes(self, time: float) -> np.ndarray:
        """Volumes of the nodes, [n]."""
        return self.nodes.volumes

    def around(self, points: np.ndarray, time: float) -> Corners:
        """Nodes around points, and their shares."""
        return self.places.corners(points)

    def __call__(self, points: np.ndarray) -> list[np.ndarray]:
        """F_t [points, n] at each time; of several pieces each has its own mean."""
        points = np.asarray(points, float)
        corners, weights = between = self.places.corners(points)
        volumes, piece = self.nodes.volumes, self.nodes.piece
        own = np.zeros((len(points), piece.max() + 1))
        np.add.at(own, (np.arange(len(points))[:, None], piece[corners]), weights)
        mean = (own / np.bincount(piece, volumes))[:, piece] * np.sqrt(volumes)
        found = shares(self.nodes, between, points, self.times, self.n_paths, self.seed, self.n_jobs)
        return [h / np.sqrt(volumes) - mean for h in found]


def shares(
    nodes: Nodes, between: Corners, points: np.ndarray, times: np.ndarray, n_paths: int, seed: int,
    n_jobs: int | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """h_x [points, n]: the share of the paths from each point that is at each node after t/2, for all times."""
    corners, weights = between
    ids = np.array([crc32(np.ascontiguousarray(p).tobytes()) >> 1 for p in points])
    tasks = [slice(k, k + STARTS) for k in range(0, len(points), STARTS)]
    found = results(
        [partial(_some, nodes.walk, seed, ids[s], corners[s], weights[s], times, n_paths) for s in tasks], n_jobs
    )
    kept = np.concatenate(list(found))[:, :, : len(nodes.volumes)]
    return [kept[:, k] / n_paths for k in range(len(times))]


def _some(
    walk: JumpProcess,
    seed: int,
    ids: np.ndarray,
    corners: np.ndarray,
    weights: np.ndarray,
    times: np.ndarray,
    n_paths: int,
) -> np.ndarray:
    """Counts for a few points; their number is filled up, so that programs are shared."""
    n, full = len(ids), padding.size(len(ids), AT_ONCE)
    upto = np.cumsum(weights, 1)
    # In a unit of time that is near the shortest wait: single precision knows no numbers above 3e38.
    unit = 2.0 ** -np.round(np.log2(max(float(np.max(walk.rate)), np.finfo(float).tiny)))
    walk = replace(walk, rate=(walk.rate * unit).astype(np.float32))
    spans = np.diff(0.5 * times / unit, prepend=0.0).astype(np.float32)
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(jnp.asarray(padding.fill(ids, full), jnp.uint32))
    found = counts(
        walk, keys, jnp.asarray(padding.fill(corners, full), jnp.int32),
        jnp.asarray(padding.fill(upto, full, value=1.0), jnp.float32), jnp.asarray(spans), n_paths,
    )  # fmt: skip
    return np.asarray(found)[:n]


def longest_way(places: np.ndarray, K: csr_matrix) -> float:
    """About the longest way between two nodes, places [n, d], along the edges of K."""
    edges = coo_matrix(K)
    i, j = edges.row[edges.row != edges.col], edges.col[edges.row != edges.col]
    length = np.maximum(np.linalg.norm(places[i] - places[j], axis=1), 1e-300)
    return neighbours.reach(csr_matrix((length, (i, j)), shape=K.shape))
