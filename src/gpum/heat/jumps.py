"""Brownian motion as a jump process on the nodes of a surface: corridors of a chart, or an atlas with its many charts.

Linear elements with lumped mass turn ∂u/∂t = ½Δu into the equation of a jump process between nodes,

    rate of leaving i    ½ Σ_j w_ij / m_i        chance of going to j    w_ij / Σ_j w_ij        w = -K off the diagonal

whose limit on ever finer nodes is Brownian motion, reflected at every edge. It needs neither time steps nor a boundary
test, and it crosses from corridor to corridor and from chart to chart.

A path that begins at node i is at node j after t with the chance exp(tQ)_ij, where Q are the rates. So the nodes at
which n independent paths end are one multinomial draw: no jump is simulated. However different the rates are, with z_k
and c_k of the contour integral of Trefethen, Weideman and Schmelzer (2006) and the lumped mass M

    exp(tQ) = Re Σ_k c_k (z_k M + t K/2)⁻¹ M

A kernel of a regression needs no paths: with K φ = λ M φ this law is Σ_i e^{-λ_i t/2} φ_i φ_iᵀ M. Positive entries of K
off the diagonal (obtuse cells) would be negative rates. They count in the law, in which they leave no chance below 0
but at times too short for the cells; such chances are taken for 0.

Histograms count paths at the nodes, which are their cells. A point between nodes starts its paths from these nodes, in
proportion to its barycentric weights. The random numbers of a point's paths depend on the point alone.

Single paths, for plots, are simulated jump by jump (`walk`), with two changes. Nodes at almost the same point would
exchange paths endlessly, so their conductance is limited: they exchange their content no faster than in a small
fraction of the time. Negative rates conduct nothing, which is `blocked`, and a warning says where that is much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags

from .lanczos import factors
from .surfaces import SurfaceNodes

MIXED = 1e10  # times the shortest residence: all is even over a connected component by then, and rounding is 1e-6
LEAST_RESIDENCE = 0.005  # fraction of the time of a path: two nodes do not exchange their content faster

_ANGLES = np.pi * np.arange(1, 20, 2) / 20  # half of 20 nodes: the others are their conjugates. Exact to 3.89^-20
_NODES = 20 * (0.5017 * _ANGLES / np.tan(0.6407 * _ANGLES) - 0.6122 + 0.2645j * _ANGLES)
_SLOPES = 0.5017 / np.tan(0.6407 * _ANGLES) - 0.5017 * 0.6407 * _ANGLES / np.sin(0.6407 * _ANGLES) ** 2 + 0.2645j
CONTOUR = _NODES, -2j * np.exp(_NODES) * _SLOPES

Corners = tuple[np.ndarray, np.ndarray]  # nodes [n, c] that points lie between, and weights [n, c]


@dataclass(frozen=True)
class JumpProcess:
    """A jump process on nodes with volumes m, for single paths, and what had to be left out.

    conductance : w, 0 or more, [n, n]; the rate from i to j is w_ij / 2 m_i.
    volumes : m, [n].
    blocked : fraction of the conductance that was negative and is left out.
    """

    conductance: csr_matrix
    volumes: np.ndarray
    blocked: float

    @property
    def rate(self) -> np.ndarray:
        """The rate of leaving each node, [n]."""
        return 0.5 * np.asarray(self.conductance.sum(1)).ravel() / self.volumes


def jump_process(K: csr_matrix, mass: np.ndarray, time: float) -> JumpProcess:
    """The jump process of a stiffness matrix K [n, n] and lumped masses [n], for paths of this duration."""
    W = coo_matrix(-K)
    off = (W.row != W.col) & (W.data != 0)
    blocked = float(np.abs(W.data[off & (W.data < 0)]).sum()) / max(float(np.abs(W.data[off]).sum()), 1e-300)
    off &= W.data > 0
    i, j, w = W.row[off], W.col[off], W.data[off]
    most = 2 * np.minimum(mass[i], mass[j]) / (LEAST_RESIDENCE * time)
    conductance = csr_matrix((np.minimum(w, most), (i, j)), shape=K.shape)
    return JumpProcess(conductance, np.asarray(mass, float), blocked)


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
    nodes: SurfaceNodes, between: Corners, points: np.ndarray, times: np.ndarray, n_paths: int, seeds: Iterable[int]
) -> Iterator[np.ndarray]:
    """At each time the fraction of n_paths from each point that are at each node after t/2, [points, seeds, n]."""
    ids = [crc32(np.ascontiguousarray(point).tobytes()) for point in points]
    for number, chances in enumerate(law(nodes, between, 0.5 * times)):
        drawn = [
            [np.random.default_rng([seed, number, id]).multinomial(n_paths, chance) for seed in seeds]
            for id, chance in zip(ids, chances, strict=True)
        ]
        yield np.array(drawn) / n_paths


def law(nodes: SurfaceNodes, between: Corners, times: np.ndarray) -> Iterator[np.ndarray]:
    """The chance that a path from a point is at each node after each of some times, [points, n]."""
    mass, (corners, weights) = nodes.lumped, between
    start = np.zeros((len(mass), len(corners)))
    np.add.at(start, (corners.T, np.arange(len(corners))), weights.T)
    start, K, M = start.astype(complex), nodes.stiffness.tocsc(), diags(mass).tocsc()
    longest = MIXED / max(float(np.max(K.diagonal() / mass)), np.finfo(float).tiny * MIXED)
    for time in np.minimum(times, longest):
        density = np.zeros(start.shape)
        for z, c in zip(*CONTOUR, strict=True):
            resolvent = factors(z * M + 0.5 * time * K)  # its imaginary part is definite: no pivots are needed
            density += (c * resolvent.solve(start)).real
        chances = np.maximum(density * mass[:, None], 0.0).T
        yield chances / chances.sum(1, keepdims=True)
