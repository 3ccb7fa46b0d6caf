"""Brownian motion as a jump process on the nodes of a surface: corridors of a chart, or an atlas with its many charts.

Linear elements with lumped mass turn ∂u/∂t = ½Δu into the equation of a jump process between nodes,

    rate of leaving i    ½ Σ_j w_ij / m_i        chance of going to j    w_ij / Σ_j w_ij        w = -K off the diagonal

whose limit on ever finer nodes is Brownian motion, reflected at every edge. It needs neither time steps nor a boundary
test, and it crosses from corridor to corridor and from chart to chart. Two changes keep it usable, and both are
reported. Nodes at almost the same point would exchange paths endlessly, so their conductance is limited: they exchange
their content no faster than in a small fraction of the shortest time. Positive entries of K off the diagonal (obtuse
simplices) have no jump process and conduct nothing.

A path that begins at node i is at node j after t with the chance exp(tQ)_ij, where Q are the rates. So the nodes at
which n independent paths end are one multinomial draw: no jump is simulated.

Histograms count paths at the nodes, which are their cells. A point between nodes starts its paths from these nodes, in
proportion to its barycentric weights. The random numbers of a point's paths depend on the point alone. A kernel of a
regression needs no paths: with K φ = λ M φ, M the lumped mass, the law of the jumps is Σ_i e^{-λ_i t/2} φ_i φ_iᵀ M.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import expm_multiply

LEAST_RESIDENCE = 0.005  # fraction of the shortest time: two nodes do not exchange their content faster
FEW = 1500  # nodes up to which exp(tQ) is computed by eigenvectors, which is quicker

Corners = tuple[np.ndarray, np.ndarray]  # nodes [n, c] that points lie between, and weights [n, c]


@dataclass(frozen=True)
class JumpProcess:
    """A jump process on nodes with volumes m, and what had to be changed.

    conductance : w, 0 or more, [n, n]; the rate from i to j is w_ij / 2 m_i.
    volumes : m, [n].
    blocked : fraction of the conductance that was negative and is left out.
    slowed : fraction of pairs whose conductance was limited.
    """

    conductance: csr_matrix
    volumes: np.ndarray
    blocked: float
    slowed: float

    @property
    def rate(self) -> np.ndarray:
        """The rate of leaving each node, [n]."""
        return 0.5 * np.asarray(self.conductance.sum(1)).ravel() / self.volumes


def jump_process(K: csr_matrix, mass: np.ndarray, shortest: float) -> JumpProcess:
    """The jump process of a stiffness matrix K [n, n] and lumped masses [n], for times from `shortest` on."""
    W = coo_matrix(-K)
    off = (W.row != W.col) & (W.data != 0)
    blocked = float(np.abs(W.data[off & (W.data < 0)]).sum()) / max(float(np.abs(W.data[off]).sum()), 1e-300)
    off &= W.data > 0
    i, j, w = W.row[off], W.col[off], W.data[off]
    most = 2 * np.minimum(mass[i], mass[j]) / (LEAST_RESIDENCE * shortest)
    conductance = csr_matrix((np.minimum(w, most), (i, j)), shape=K.shape)
    return JumpProcess(conductance, np.asarray(mass, float), blocked, float(np.mean(w > most)) if len(w) else 0.0)


def walk(process: JumpProcess, start: int, time: float, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """The nodes at which one path is at n_steps + 1 equal steps of time, [n_steps + 1]."""
    W, rate = process.conductance, process.rate
    wait = lambda node: rng.exponential(1 / rate[node]) if rate[node] > 0 else np.inf
    visited, node, leaves = np.empty(n_steps + 1, int), start, wait(start)
    for step in range(n_steps + 1):
        while leaves <= step * time / n_steps:
            around = slice(W.indptr[node], W.indptr[node + 1])
            upto = np.cumsum(W.data[around])
            node = int(W.indices[around][np.searchsorted(upto[:-1], rng.random() * upto[-1])])
            leaves += wait(node)
        visited[step] = node
    return visited


def node_fractions(
    process: JumpProcess, between: Corners, points: np.ndarray, times: np.ndarray, n_paths: int, seeds: Iterable[int]
) -> Iterator[np.ndarray]:
    """At each time the fraction of n_paths from each point that are at each node after t/2, [points, seeds, n]."""
    ids = [crc32(np.ascontiguousarray(point).tobytes()) for point in points]
    for number, chances in enumerate(law(process, between, 0.5 * times)):
        drawn = [
            [np.random.default_rng([seed, number, id]).multinomial(n_paths, chance) for seed in seeds]
            for id, chance in zip(ids, chances, strict=True)
        ]
        yield np.array(drawn) / n_paths


def law(process: JumpProcess, between: Corners, times: np.ndarray) -> Iterator[np.ndarray]:
    """The chance that a path from a point is at each node after each of ascending times, [points, n]."""
    (corners, weights), (n, root) = between, (len(process.volumes), np.sqrt(process.volumes))
    at = np.zeros((n, len(corners)))
    np.add.at(at, (corners.T, np.arange(len(corners))), weights.T)
    at /= root[:, None]
    W = process.conductance
    W = diags(1 / root) @ (0.5 * (W + W.T)) @ diags(1 / root)
    S = csr_matrix(0.5 * W - diags(process.rate))  # Q between functions multiplied by the roots of volumes
    if n <= FEW:
        values, vectors = np.linalg.eigh(S.toarray())
        inner = vectors.T @ at
    for span, time in zip(np.diff(times, prepend=0.0), times, strict=True):
        if n <= FEW:
            now = vectors @ (np.exp(np.minimum(values, 0.0) * time)[:, None] * inner)
        else:
            now = at = expm_multiply(S * span, at)
        chances = np.maximum(now * root[:, None], 0.0).T
        yield chances / chances.sum(1, keepdims=True)
