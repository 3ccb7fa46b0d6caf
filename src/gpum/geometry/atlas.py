"""A surface of any topology from a cloud: local charts, their stars, and where a row lies on them.

    rows  →  local fits (frame, curvature, noise)  →  rows on the smooth surface  →  stars  →  simplices

Nothing is unrolled: no chart is larger than the neighbourhood of one row, so that closed surfaces, branches and several
pieces need no special care.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from . import tangents
from .neighbours import unique_pairs
from .stars import NEAR, Stars, delaunay_stars, hole_radius, links, spacing
from .tangents import LocalFits, blocks

POOL = 3  # rows looked at for every neighbour along the surface
SAME = 1e-9  # of the cloud's extent: rows this close are one
CANDIDATES = 4  # nearest nodes whose simplices a new row is tried on
FAR = 1.0  # spacings off the surface beyond which a row is called far
NOISE_SIDE = 3.0  # or so many standard deviations of the noise


@dataclass(frozen=True)
class Placement:
    """Rows on the surface: the corners [n, q + 1] they lie between, their weights, how far off they are."""

    corners: np.ndarray
    weights: np.ndarray
    distance: np.ndarray  # to the simplex, [n]
    far: np.ndarray  # [n], bool


@dataclass(frozen=True)
class Surface:
    """Nodes on a surface of dimension q, glued."""

    nodes: np.ndarray  # [n, p], distinct rows on the smooth surface
    number: np.ndarray  # [N]: the node of each row of the cloud
    frame: np.ndarray  # [n, p, q]
    stars: Stars
    h: np.ndarray  # spacing, [n]
    noise: float  # standard deviation of each coordinate off the surface
    n_neighbors: int
    piece: np.ndarray  # [n]; -1 for a node without a simplex
    notes: list[str] = field(default_factory=list)

    @property
    def dim(self) -> int:
        """The dimension q."""
        return self.frame.shape[2]

    @cached_property
    def simplices(self) -> np.ndarray:
        """Distinct simplices of all stars, [K, q + 1]; a pair without one repeats its last corner."""
        cells = np.unique(np.sort(self.stars.simplices, 1), axis=0)
        pairs = unique_pairs(np.stack([self.stars.i, self.stars.j], 1))
        sides = unique_pairs(np.concatenate([cells[:, [a, b]] for a, b in combinations(range(self.dim + 1), 2)]))
        n = len(self.nodes)
        bare = pairs[~np.isin(pairs @ [n, 1], sides @ [n, 1])]
        return np.concatenate([cells, bare[:, [0] + [1] * self.dim]])

    @cached_property
    def _at_node(self) -> csr_matrix:
        K, corners = self.simplices.shape
        rows = self.simplices.ravel()
        cells = np.repeat(np.arange(K), corners)
        return csr_matrix((np.ones(len(rows)), (rows, cells)), shape=(len(self.nodes), K))

    def place(self, X: np.ndarray) -> Placement:
        """Where rows [m, p] lie: on the nearest simplex at the nearest nodes."""
        held = np.flatnonzero(self.piece >= 0)
        finder = NearestNeighbors(n_neighbors=min(CANDIDATES, len(held))).fit(self.nodes[held])
        parts = [self._place(X[rows], held, finder) for rows in blocks(len(X), 40 * CANDIDATES * X.shape[1])]
        corners, weights, distance = (np.concatenate(values) for values in zip(*parts, strict=True))
        limit = FAR * self.h[corners[:, 0]] + NOISE_SIDE * self.noise * sqrt(X.shape[1])
        return Placement(corners, weights, distance, distance > limit)

    def _place(self, X, held, finder):  # type: ignore[no-untyped-def]
        near = held[finder.kneighbors(X, return_distance=False)]
        table = self._at_node
        count = np.diff(table.indptr)[near]  # [m, c]
        row = np.repeat(np.arange(len(X)), count.sum(1))
        first = np.repeat(table.indptr[near].ravel(), count.ravel())
        start = np.cumsum(count.ravel()) - count.ravel()
        cell = table.indices[first + np.arange(len(first)) - np.repeat(start, count.ravel())]
        weights = self._weights(X[row], cell)
        on = np.einsum("kc,kcp->kp", weights, self.nodes[self.simplices[cell]])
        off = np.linalg.norm(X[row] - on, axis=1)
        order = np.lexsort((cell, off, row))
        best = order[np.searchsorted(row[order], np.arange(len(X)))]
        return self.simplices[cell[best]], weights[best], off[best]

    def _weights(self, X: np.ndarray, cell: np.ndarray) -> np.ndarray:
        """Barycentric weights of each row in its simplex, moved inside, [m, q + 1]."""
        corner = self.nodes[self.simplices[cell]]
        side = corner[:, 1:] - corner[:, :1]
        gram = side @ np.swapaxes(side, 1, 2)
        gram += 1e-12 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(side.shape[1])
        local = np.linalg.solve(gram, (side @ (X - corner[:, 0])[..., None]))[..., 0]
        weights = np.maximum(np.concatenate([1 - local.sum(1, keepdims=True), local], 1), 0.0)
        return weights / weights.sum(1, keepdims=True)


def surface(X: np.ndarray, q: int, n_neighbors: int | None = None) -> Surface:
    """The surface of dimension q through a cloud [N, p]; `n_neighbors` rows a fit, by default as many as suit the noise."""
    nodes, number = distinct(X)
    notes = [] if len(nodes) == len(X) else [f"{len(X) - len(nodes)} rows stand at places of others"]
    if len(nodes) < q + 2:
        raise ValueError(
            f"X has {len(nodes)} distinct row(s), but an atlas of dimension {q} needs {q + 2}; add rows or lower dim"
        )
    spread = np.linalg.svd(nodes - nodes.mean(0), compute_uv=False)
    if int(np.sum(spread > 1e-9 * spread[0])) < q:
        raise ValueError(
            f"X spans {int(np.sum(spread > 1e-9 * spread[0]))} dimension(s), but the atlas was asked for dim={q}; "
            "lower dim"
        )
    fits, pool = local_fits(nodes, q, n_neighbors)
    k = fits.index.shape[1]
    normal = max(nodes.shape[1] - q, 0)
    noise = sqrt(float(np.median(fits.variance)) / normal) if normal else 0.0
    rough = float(np.sqrt(np.mean(fits.error**2)))
    index, v, near = _charts(nodes, pool, fits, q)
    h = spacing(v, index, near)
    if rough <= tangents.NOISY * float(np.median(h)):
        nodes = nodes + fits.offset
        fits = tangents.fit(nodes, tangents.along_surface(nodes, pool[:, : POOL * k], fits.frame, k), q)
        index, v, near = _charts(nodes, pool, fits, q)
        h = spacing(v, index, near)
    else:
        near[:] = True  # angles mean nothing
        notes.append("the cloud is rough at the scale of its spacing: rows stay where they are")
    if q == 1:
        stars = links(nodes, v, index, near)
    else:
        stars = delaunay_stars(v, index, near, h, hole_radius(len(nodes), q))
    piece = pieces(stars)
    lone = int(np.sum(piece < 0))
    if lone == len(nodes):
        raise ValueError(f"no simplex of dimension {q} joins rows of X; lower dim or add rows")
    if lone:
        notes.append(f"{lone} rows belong to no simplex and take the values of the nearest")
    if stars.n_edge:
        notes.append(f"{stars.n_edge} rows stand at the edge" if q > 1 else f"{stars.n_edge} steps span a gap")
    return Surface(nodes, number, fits.frame, stars, h, noise, k, piece, notes)


def _charts(nodes: np.ndarray, pool: np.ndarray, fits: LocalFits, q: int):  # type: ignore[no-untyped-def]
    k = min(NEAR[q], len(nodes))
    index = tangents.along_surface(nodes, pool[:, : POOL * k], fits.frame, k)
    v, angle = tangents.normal_coordinates(nodes, index, fits.frame)
    near = angle <= tangents.MAX_ANGLE
    near[:, 0] = True
    return index, v, near


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, in order, and which of them each row is."""
    extent = float(np.ptp(X, axis=0).max())
    keys = np.round((X - X.min(0)) / (SAME * extent)) if extent > 0 else np.zeros_like(X)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return X[first[order]], rank[number.ravel()]


def local_fits(X: np.ndarray, q: int, n_neighbors: int | None) -> tuple[LocalFits, np.ndarray]:
    """Local fits whose neighbourhoods are as flat as can be, and the pool [N, K] of near rows.

    Flat: the error of a row left out of its own fit, over the radius of the fit. Noise asks for large
    neighbourhoods, curvature for small ones.
    """
    smallest = tangents.ROWS_PER_TERM * tangents.n_terms(q)
    sizes = [n_neighbors] if n_neighbors is not None else [int(smallest * f) for f in tangents.LADDER]
    sizes = [k for k in sizes if k <= len(X) // 2] or [min(sizes[0], len(X))]
    pool = tangents.nearest(X, POOL * max(sizes[-1], NEAR[q]))
    best, flattest = None, np.inf
    for k in sizes:
        found = tangents.fit(X, pool[:, :k], q)
        found = tangents.fit(X, tangents.along_surface(X, pool[:, : POOL * k], found.frame, k), q)
        ratio = float(np.sqrt(np.mean(found.error**2) / np.mean(found.radius**2)))
        if ratio < tangents.GAIN * flattest:
            best, flattest = found, ratio
        elif ratio > 2 * flattest:
            break
    assert best is not None
    return best, pool


def pieces(stars: Stars) -> np.ndarray:
    """The piece of each node, [n], the largest first; -1 where no simplex is."""
    n = len(stars.mass)
    graph = csr_matrix((np.ones(len(stars.i)), (stars.i, stars.j)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    held = np.bincount(stars.i, minlength=n) + np.bincount(stars.j, minlength=n) > 0
    sizes = np.bincount(label[held], minlength=label.max() + 1)
    rank = np.empty(len(sizes), int)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(held, rank[label], -1)
