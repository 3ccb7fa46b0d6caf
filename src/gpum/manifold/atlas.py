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
from ..basics.checks import NoSurface, counted
from . import tangents
from .gaps import unique_pairs
from .refinement import POOL, charts, finer
from .stars import NEAR, Stars, delaunay_stars, links, rim, spacing
from .surface import Surface
from .tangents import LocalFits, chosen

FLAT = 1e-9  # fraction of the largest singular value, below which the cloud does not extend in a direction
SAME = 1e-9  # fraction of the cloud's extent: rows this close count as one
FAR = 1.0  # distance from the surface, in spacings, beyond which a row is far from it,
NOISE_SIDE = 3.0  # plus so many standard deviations of the noise


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
    def surface(self) -> Surface:
        """Nodes and simplices, for the projection of rows; rows of the cloud have their own nodes."""
        limit = FAR * self.h + NOISE_SIDE * self.noise * sqrt(self.nodes.shape[1])
        return Surface(self.nodes, self.simplices, self.rows, limit)


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
        raise too_rough(float(np.mean(~smooth)), q)
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


def too_rough(fraction: float, q: int) -> NoSurface:
    """The error that says that local charts do not fit this fraction of the rows."""
    return NoSurface(f"the neighbourhoods of {fraction:.0%} of the rows are too uneven for charts of dimension {q}")


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
        "too uneven for a smooth surface, and not moved onto it": counted(int(np.sum(~smooth)), "row"),
        "without a neighbour, with the values of the nearest row that has one": counted(lone, "row"),
        "where the surface ends": counted(int(np.sum(stars.outer)), "row"),
        "gaps that no surface crosses": str(stars.n_gaps),
    }
    return [f"{remark}: {count}" for remark, count in remarks.items() if not count.startswith("0")]


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, in order, and which of them each row is."""
    step = SAME * neighbours.extent(X)
    keys = np.round((X - X.min(0)) / step) if step > 0 else np.zeros_like(X)
    first, number = neighbours.distinct(keys)
    return X[first], number


def sizes(n: int, q: int, n_neighbors: int | None) -> list[int]:
    """The sizes of a neighbourhood that n rows allow, in rows."""
    smallest = tangents.ROWS_PER_TERM * tangents.n_terms(q)
    wanted = [int(smallest * factor) for factor in tangents.SIZES] if n_neighbors is None else [n_neighbors]
    return [k for k in wanted if k <= n // 2] or [min(wanted[0], n)]


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
        fit = tangents.fit(X, pool[:, :k], q)
        fit = tangents.fit(X, tangents.along_surface(X, pool[:, : POOL * k], fit.frame, k, both=False), q)
        error = np.sqrt(np.mean(fit.error[around] ** 2, axis=1))
        thick = error / fit.radius
        cost = np.where(thick <= tangents.THIN, error / neighbours.extent(X), 1 + thick)
        better = cost < tangents.GAIN * least
        least, size, ratio = np.where(better, cost, least), np.where(better, k, size), np.where(better, thick, ratio)
        best = fit if best is None else chosen(better, fit, best)
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
