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
from .gaps import unique_pairs
from .stars import NEAR, Stars, delaunay_stars, links, rim, spacing, steps
from .tangents import LocalFits, blocks

POOL = 3  # rows looked at for every neighbour along the surface
SAME = 1e-9  # of the cloud's extent: rows this close are one
CANDIDATES = 4  # nearest nodes whose simplices a new row is tried on
FAR = 1.0  # spacings off the surface beyond which a row is called far
NOISE_SIDE = 3.0  # or so many standard deviations of the noise
HALVINGS = 2  # of the steps of a curve
PASSES = 3  # of filling
WIDE = 0.55  # spacings: the radius of an empty ball above which a node is put into it
APART = 0.8  # of that radius, between new nodes
MAX_NODES = 10_000  # up to which nodes are added


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

    def _place(self, X, held, finder):
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
    frame = fits.frame
    index, v, near = charts(nodes, pool, frame)
    h = spacing(v, index, near)
    smooth = rough <= tangents.NOISY * float(np.median(h))
    if smooth:
        nodes = nodes + fits.offset
        frame = tangents.fit(nodes, tangents.along_surface(nodes, pool[:, : POOL * k], frame, k), q).frame
        index, v, near = charts(nodes, pool, frame)
        h = spacing(v, index, near)
    else:
        near[:] = True  # angles mean nothing
        notes.append("the cloud is rough at the scale of its spacing: rows stay where they are")
    if q == 1:
        stars = links(nodes, v, index, near)
    else:
        beyond = rim(v, near, h)
        stars = delaunay_stars(v, index, near, h, beyond)
    n_edge = stars.n_edge
    if smooth and q == 1:
        for _ in range(HALVINGS):
            nodes, frame, stars = halved_curve(nodes, frame, stars)
    elif smooth and q == 2:
        for _ in range(PASSES):
            more = fill(nodes, frame, h, stars)
            if more is None or len(more[0]) > MAX_NODES:
                break
            nodes, frame, h = more
            index, v, near = charts(nodes, tangents.nearest(nodes, POOL * NEAR[q]), frame)
            stars = delaunay_stars(v, index, near, h, beyond)
    h = np.append(h, np.full(len(nodes) - len(h), np.median(h)))
    piece = pieces(stars)
    lone = int(np.sum(piece < 0))
    if lone == len(nodes):
        raise ValueError(f"no simplex of dimension {q} joins rows of X; lower dim or add rows")
    if lone:
        notes.append(f"{lone} rows belong to no simplex and take the values of the nearest")
    if n_edge:
        notes.append(f"{n_edge} rows stand at the edge" if q > 1 else f"{n_edge} steps span a gap")
    return Surface(nodes, number, frame, stars, h, noise, k, piece, notes)


def charts(nodes: np.ndarray, pool: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Around each node: the nearest along the surface [N, k], their normal coordinates, and which are on the same part."""
    k = min(NEAR[frame.shape[2]], len(nodes))
    index = tangents.along_surface(nodes, pool[:, : POOL * k], frame, k)
    v, angle = tangents.normal_coordinates(nodes, index, frame)
    near = angle <= tangents.MAX_ANGLE
    near[:, 0] = True
    return index, v, near


def between(
    nodes: np.ndarray, frame: np.ndarray, corners: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places [m, p] on the curved surface over simplices [m, c] at barycentric weights b, and the frames there.

    x(b) = Σ b_k x_k + Σ_{k<l} 4 b_k b_l s_kl; the middle of the arc from k to l that has their tangents is
    s_kl = ⅛(T_k v_kl + T_l v_lk) off the chord.
    """
    place = np.einsum("mc,mcp->mp", weights, nodes[corners])
    first = frame[corners[:, 0]]
    mean = weights[:, 0, None, None] * first
    for k in range(1, corners.shape[1]):
        other = frame[corners[:, k]]
        mean = mean + weights[:, k, None, None] * (other @ (other.swapaxes(1, 2) @ first))
    for k, l in combinations(range(corners.shape[1]), 2):
        a, b = corners[:, k], corners[:, l]
        step = (nodes[b] - nodes[a])[:, None]
        bend = frame[a] @ tangents.lift(step, frame[a])[0].swapaxes(1, 2)
        bend = bend + frame[b] @ tangents.lift(-step, frame[b])[0].swapaxes(1, 2)
        place = place + (weights[:, k] * weights[:, l] / 2)[:, None] * bend[..., 0]
    return place, np.linalg.qr(mean)[0]


def fill(
    nodes: np.ndarray, frame: np.ndarray, h: np.ndarray, stars: Stars
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Nodes, frames and spacings with nodes in the middle of large empty balls; None where none is large.

    The middle of a ball that lies outside its simplex is replaced by that of the simplex's longest side.
    """
    simplices, weights, radii = stars.simplices, stars.centres.copy(), stars.radii
    wide = radii > WIDE * h[simplices].mean(1)
    simplices, weights, radii = simplices[wide], weights[wide], radii[wide]
    if not len(radii):
        return None
    outside = np.flatnonzero(weights.min(1) < 0)
    sides = np.array(list(combinations(range(simplices.shape[1]), 2)))
    corner = nodes[simplices[outside]]
    longest = sides[np.argmax(np.linalg.norm(corner[:, sides[:, 0]] - corner[:, sides[:, 1]], axis=-1), 1)]
    halves = np.zeros((len(outside), simplices.shape[1]))
    np.put_along_axis(halves, longest, 0.5, 1)
    weights[outside] = halves
    place, tangent = between(nodes, frame, simplices, weights)
    room = np.minimum(radii, NearestNeighbors(n_neighbors=1).fit(nodes).kneighbors(place)[0][:, 0])
    order = np.argsort(-room, kind="stable")
    order = order[room[order] > 0.5 * WIDE * h[simplices[order]].mean(1)]
    if not len(order):
        return None
    chosen = order[sparse_choice(place[order], room[order] * APART)]
    spacing_there = np.einsum("mc,mc->m", weights[chosen], h[simplices[chosen]])
    return np.concatenate([nodes, place[chosen]]), np.concatenate([frame, tangent[chosen]]), np.append(h, spacing_there)


def sparse_choice(places: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Numbers of places [m, p] taken in turn unless one taken before is closer than the room [m]."""
    near = NearestNeighbors().fit(places).radius_neighbors(places, radius=float(room.max(initial=0)))
    free = np.ones(len(places), bool)
    for i, (distance, other) in enumerate(zip(*near, strict=True)):
        if free[i]:
            free[other[(other > i) & (distance < room[i])]] = False
    return np.flatnonzero(free)


def halved_curve(nodes: np.ndarray, frame: np.ndarray, stars: Stars) -> tuple[np.ndarray, np.ndarray, Stars]:
    """A curve with a node in the middle of each step."""
    n, pairs = len(nodes), stars.simplices
    place, tangent = between(nodes, frame, pairs, stars.centres)
    middle = n + np.arange(len(pairs))
    a, b = np.concatenate([pairs[:, 0], middle]), np.concatenate([middle, pairs[:, 1]])
    nodes, frame = np.concatenate([nodes, place]), np.concatenate([frame, tangent])
    return nodes, frame, steps(a, b, np.tile(stars.radii, 2), len(nodes), stars.n_edge)


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
        found = tangents.fit(X, tangents.along_surface(X, pool[:, : POOL * k], found.frame, k, both=False), q)
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
