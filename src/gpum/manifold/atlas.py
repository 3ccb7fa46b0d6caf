"""A surface of any topology from a cloud: local charts, their stars, and the projection of rows onto them.

    rows  →  local fits (frame, curvature, noise)  →  rows on the smooth surface  →  stars  →  simplices

Nothing is unrolled: no chart is larger than the neighbourhood of one row, so that closed surfaces, branches and several
connected components need no special care.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ..basics import neighbours
from ..basics.checks import NoSurface
from . import tangents
from .filling import POOL, charts, finer
from .gaps import unique_pairs
from .projection import ROUNDING, balls, barycentric, in_reach, inverse_sides, nearest_point
from .stars import NEAR, Stars, delaunay_stars, links, rim, spacing
from .tangents import LocalFits, blocks, chosen

FLAT = 1e-9  # fraction of the largest singular value, below which the cloud does not extend in a direction
SAME = 1e-9  # fraction of the cloud's extent: rows this close count as one
CANDIDATES = 4  # nearest nodes whose simplices a row is projected onto
NEEDLE = 1e-7  # volume of a simplex over that of a cube of its size, up to which it counts as flat
FAR = 1.0  # distance from the surface, in spacings, beyond which a row is far from it,
NOISE_SIDE = 3.0  # plus so many standard deviations of the noise


@dataclass(frozen=True)
class SimplexProjection:
    """Rows projected onto a surface: corners [n, q + 1] of their simplices, barycentric weights, and distances."""

    corners: np.ndarray
    weights: np.ndarray
    distance: np.ndarray  # from the surface, [n]
    far: np.ndarray  # whether that is far, [n] of bool


@dataclass(frozen=True)
class SimplicialSurface:
    """A surface of dimension q as nodes in the data space and the stars that join them."""

    nodes: np.ndarray  # [n, p], distinct rows on the smooth surface, then points between them
    rows: np.ndarray  # the distinct rows as they were, [rows, p]
    number: np.ndarray  # [N]: the node of each row of the cloud
    frame: np.ndarray  # [n, p, q]
    stars: Stars
    h: np.ndarray  # spacing, [n]
    noise: float  # standard deviation of each coordinate off the surface
    n_neighbors: np.ndarray  # rows of each local fit, [rows]
    component: np.ndarray  # number of the connected component of each node, [n]; -1 for a node without a simplex
    rough: float  # fraction of rows whose neighbourhood no smooth chart fits
    notes: list[str] = field(default_factory=list)

    @property
    def dim(self) -> int:
        """The dimension q."""
        return self.frame.shape[2]

    @cached_property
    def simplices(self) -> np.ndarray:
        """Distinct simplices of all stars, [K, q + 1]; a pair that belongs to no simplex repeats its last corner."""
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

    def project(self, X: np.ndarray) -> SimplexProjection:
        """Project rows [m, p] onto the nearest simplex at the nearest nodes; rows of the cloud have their own nodes."""
        held, nodes = self._held
        some = list(blocks(len(X), 40 * CANDIDATES * X.shape[1]))
        known = neighbours.nearest(self.rows, 2, X)[1]
        smoothed = np.concatenate([self._smoothed(X[s], known[s]) for s in some])
        near = held[neighbours.nearest(nodes, CANDIDATES, smoothed)[1]]
        found = [self._nearest_simplex(X[s], smoothed[s], near[s]) for s in some]
        corners, weights, distance = (np.concatenate(values) for values in zip(*found, strict=True))
        limit = FAR * self.h[corners[:, 0]] + NOISE_SIDE * self.noise * sqrt(X.shape[1])
        return SimplexProjection(corners, weights, distance, distance > limit)

    @cached_property
    def _planes(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the plane of each simplex, [K, p, q], and its corners there, from the first."""
        corner = self.nodes[self.simplices]
        basis, sides = np.linalg.qr(np.swapaxes(corner[:, 1:] - corner[:, :1], 1, 2))
        first = np.zeros((len(corner), 1, self.dim))
        return basis, np.concatenate([first, np.swapaxes(sides, 1, 2)], 1)

    @cached_property
    def _inverses(self) -> tuple[np.ndarray, np.ndarray]:
        """The `inverse_sides` of each simplex in its plane, [K, q, q], and the height of each corner, [K, q + 1]."""
        inverse = inverse_sides(self._planes[1], NEEDLE)
        slopes = np.concatenate([-inverse.sum(1, keepdims=True), inverse], 1)  # of each weight
        return inverse, 1 / np.linalg.norm(slopes, axis=2)

    @cached_property
    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that belong to a simplex: their numbers and points."""
        index = np.flatnonzero(self.component >= 0)
        return index, self.nodes[index]

    @cached_property
    def _balls(self) -> tuple[np.ndarray, np.ndarray]:
        return balls(self.nodes[self.simplices])

    def _smoothed(self, X: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Rows [m, p], shifted as the nearest row x_i of the cloud was when it was moved onto the smooth surface.

        The shift is multiplied by 1 - d_1/d_2, with d_1 and d_2 the distances to the two nearest rows `near` [m, 2]:
        it is the whole shift at x_i and 0 at a row as near to another one, so that the projection is continuous.
        """
        away = np.linalg.norm(self.rows[near] - X[:, None], axis=2)
        first = np.take_along_axis(near, np.argmin(away, 1)[:, None], 1)[:, 0]
        fraction = 1 - away.min(1) / np.maximum(away.max(1), np.finfo(float).tiny)
        return X + fraction[:, None] * (self.nodes[first] - self.rows[first])

    def _nearest_simplex(
        self, X: np.ndarray, smoothed: np.ndarray, near: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """The simplex nearest to each smoothed row, among those at the nodes `near` [m, c].

        Returns its corners [m, q + 1], the weights of its nearest point, and the distance of the row X from that [m].
        """
        table = self._at_node
        count = np.diff(table.indptr)[near]  # [m, c]
        row = np.repeat(np.arange(len(X)), count.sum(1))
        first = np.repeat(table.indptr[near].ravel(), count.ravel())
        start = np.cumsum(count.ravel()) - count.ravel()
        cell = table.indices[first + np.arange(len(first)) - np.repeat(start, count.ravel())]
        row, cell = np.divmod(np.unique(row * len(self.simplices) + cell), len(self.simplices))  # each once
        known = np.linalg.norm(smoothed - self.nodes[near[:, 0]], axis=1)  # a corner of some of them
        centre, radius = self._balls
        some = in_reach(smoothed[row], centre[cell], radius[cell], known[row])
        row, cell = row[some], cell[some]
        weights, square = self._weights(smoothed, row, cell)
        order = np.lexsort((cell, square, row))
        best = order[np.searchsorted(row[order], np.arange(len(X)))]
        corners, weights = self.simplices[cell[best]], weights[best]
        off = X - np.einsum("mc,mcp->mp", weights, self.nodes[corners])
        return corners, weights, np.linalg.norm(off, axis=1)

    def _weights(self, X: np.ndarray, row: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights [m, q + 1] of the point of each simplex nearest to its row of X, and its squared distance [m].

        It is found in the plane of the simplex: |x - z|² = (|x - c|² - |P(x - c)|²) + |P(x - c) - (z - c)|², c the
        first corner, P the projection onto the plane. A point whose weight w_a is negative is at least -w_a times the
        height of the corner a away. Where that is more than the distance to a simplex above which the row lies, the
        squared distance is infinite.
        """
        basis, corners = self._planes
        inverse, height = self._inverses
        away = X[row] - self.nodes[self.simplices[cell, 0]]
        within, total = np.einsum("mpq,mp->mq", basis[cell], away), np.sum(away**2, 1)
        off = total - np.sum(within**2, 1)
        weights = barycentric(within, np.zeros(self.dim), inverse[cell])  # NaN in a flat simplex
        beyond = np.fmax(-weights * height[cell], 0.0).max(1)
        above = np.all(weights >= 0, axis=1)
        least, square = np.full(len(X), np.inf), np.where(above, off, np.inf)
        np.minimum.at(least, row, square)
        rest = np.flatnonzero(~above & (off + beyond**2 <= least[row] + ROUNDING * total))
        if len(rest):
            weights[rest], length = nearest_point(within[rest], corners[cell[rest]])
            square[rest] = off[rest] + length**2
        return weights, square


def _copies(n: int) -> str:
    return "1 row is a copy of another" if n == 1 else f"{n} rows are copies of others"


def surface(X: np.ndarray, q: int, n_neighbors: int | None = None, roughest: float = 1.0) -> SimplicialSurface:
    """The surface of dimension q through a cloud [N, p]; local fits have `n_neighbors` rows, by default as many as
    suit the noise and curvature of the cloud. A cloud of which more than the fraction `roughest` of the rows has no
    smooth neighbourhood is refused before its charts are joined, which is most of the work.
    """
    known, number = distinct(X)
    notes = [] if len(known) == len(X) else [_copies(len(X) - len(known))]
    _check_span(known, q)
    nodes = known
    pool = tangents.neighbourhoods(nodes, POOL * max(NEAR[q], sizes(len(nodes), q, n_neighbors)[-1]))
    fits, size, thick = local_fits(nodes, pool, q, n_neighbors)
    frame, smooth = fits.frame, thick <= tangents.THIN
    if np.mean(~smooth) > roughest:
        raise NoSurface(
            f"the neighbourhoods of {np.mean(~smooth):.0%} of the rows are too rough for charts of dimension {q}"
        )
    nodes = nodes + np.where(smooth[:, None], fits.offset, 0.0)
    for k in np.unique(size):
        rows = np.flatnonzero(size == k)
        around = tangents.along_surface(nodes, pool[rows, : POOL * k], fits.frame, k)
        frame[rows] = tangents.fit(nodes, around, q).frame
    index, v, near = charts(nodes, pool, frame)
    near[~smooth] = True  # angles mean nothing there
    h = spacing(v, index, near)
    stars = links(nodes, v, index, near) if q == 1 else delaunay_stars(v, index, near, h, rim(v, near, h))
    notes += _remarks(stars, smooth, q)
    noise = sqrt(float(np.median(fits.variance)) / (X.shape[1] - q)) if X.shape[1] > q else 0.0
    fine = finer(nodes, frame, h, smooth, stars, rim(v, near, h) if q > 1 else 0.0)
    return SimplicialSurface(
        fine.nodes,
        known,
        number,
        fine.frame,
        fine.stars,
        fine.h,
        noise,
        size,
        node_components(fine.stars),
        float(np.mean(~smooth)),
        notes,
    )


def _check_span(nodes: np.ndarray, q: int) -> None:
    if len(nodes) < q + 2:
        raise NoSurface(
            f"X has {len(nodes)} distinct row(s), but an atlas of dimension {q} needs {q + 2}; add rows or lower dim"
        )
    spread = np.linalg.svd(nodes - nodes.mean(0), compute_uv=False)
    rank = int(np.sum(spread > FLAT * spread[0]))
    if rank < q:
        raise NoSurface(f"X spans {rank} dimension(s), but dim is {q}; lower dim")


def _remarks(stars: Stars, smooth: np.ndarray, q: int) -> list[str]:
    lone = int(np.sum(node_components(stars) < 0))
    if lone == len(smooth):
        raise NoSurface(f"no two rows of X are joined by a surface of dimension {q}; lower dim or add rows")
    remarks = {
        "rows too rough for a smooth surface, which are not moved onto it": int(np.sum(~smooth)),
        "rows without a neighbour, which take the values of the nearest row that has one": lone,
        "rows at the edge": int(np.sum(stars.outer)),
        "steps across a gap, which are left out": stars.n_gaps,
    }
    return [f"{remark}: {count}" for remark, count in remarks.items() if count]


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, in order, and which of them each row is."""
    step = SAME * neighbours.extent(X)
    keys = np.round((X - X.min(0)) / step) if step > 0 else np.zeros_like(X)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return X[first[order]], rank[number.ravel()]


def sizes(n: int, q: int, n_neighbors: int | None) -> list[int]:
    """The sizes of a neighbourhood that n rows allow, in rows."""
    smallest = tangents.ROWS_PER_TERM * tangents.n_terms(q)
    ladder = [int(smallest * factor) for factor in tangents.LADDER] if n_neighbors is None else [n_neighbors]
    return [k for k in ladder if k <= n // 2] or [min(ladder[0], n)]


def local_fits(
    X: np.ndarray, pool: np.ndarray, q: int, n_neighbors: int | None
) -> tuple[LocalFits, np.ndarray, np.ndarray]:  # fmt: skip
    """The best of several fits around each row, the size of its neighbourhood [N], and its error over its radius [N].

    The best has the smallest error of rows left out of their own fits (root mean square over the rows around) among
    neighbourhoods that are flat: this error is small against their radius. Noise needs large neighbourhoods, curvature
    small ones; in those smaller than the noise the error is small, too, but not against the radius.
    """
    around = pool[:, : 2 * tangents.n_terms(q)]
    best, least, size = None, np.full(len(X), np.inf), np.zeros(len(X), int)
    ratio = np.zeros(len(X))
    for k in sizes(len(X), q, n_neighbors):
        found = tangents.fit(X, pool[:, :k], q)
        found = tangents.fit(X, tangents.along_surface(X, pool[:, : POOL * k], found.frame, k, both=False), q)
        error = np.sqrt(np.mean(found.error[around] ** 2, axis=1))
        thick = error / found.radius
        cost = np.where(thick <= tangents.THIN, error / neighbours.extent(X), 1 + thick)
        better = cost < tangents.GAIN * least
        least, size, ratio = np.where(better, cost, least), np.where(better, k, size), np.where(better, thick, ratio)
        best = found if best is None else chosen(better, found, best)
    assert best is not None
    return best, size, ratio


def node_components(stars: Stars) -> np.ndarray:
    """The number of each node's connected component, [n], the largest is 0; -1 for a node without a simplex."""
    n = len(stars.mass)
    graph = csr_matrix((np.ones(len(stars.i)), (stars.i, stars.j)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    held = np.bincount(stars.i, minlength=n) + np.bincount(stars.j, minlength=n) > 0
    sizes = np.bincount(label[held], minlength=label.max() + 1)
    rank = np.empty(len(sizes), int)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(held, rank[label], -1)
