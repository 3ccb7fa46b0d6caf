"""How heat flows from row to row of an atlas: along the edges of the Delaunay simplices at each row, in its own chart.

Such simplices are the *star* of a row, those of all rows the tangential Delaunay complex.

    v_j      normal coordinates of the rows around row i, which lies at 0
    star     simplices (i, a, b, ...) whose circumscribed ball holds no other row and is no larger than α h_i
    w_ij^i   area of the Voronoi face between i and j, over |v_j|: never negative inside a Delaunay star
    m_i      volume of the Voronoi cell of i;    e_ij^i  1/((q+1)(q+2)) of the volume of the simplices at edge ij
    h_i      spacing: the ball that holds n rows has the volume n h_i^q

Charts are glued by their means, w_ij = ½(w_ij^i + w_ij^j), likewise e. In a cloud scattered at random a ball of radius
αh is empty with probability exp(-V α^q), V the volume of the unit ball; α makes that one in a hundred for all N rows:
larger empty balls are holes, or the outside. There *ghosts* close the star: points without a row, past which no heat
flows. They bound the cells where the surface ends, so that no weight becomes negative. A curve needs no chart to find
neighbours: `links` joins them in the data space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gamma, log, pi
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import ConvexHull, QhullError

from .tangents import blocks

NEAR = {1: 30, 2: 48, 3: 80}  # nearest rows among which the star of a row is searched for
SPACING_ROWS = {1: 4, 2: 12, 3: 20}
LOCAL = 1.5  # the spacing around a row is itself uncertain
FALSE_HOLES = 0.01  # expected number in a whole cloud scattered at random
HULL = "Qt Pp Q12"
MAX_GHOSTS = 30
TINY = 1e-12
EDGE = 1.6  # α between rows of the edge
RIM = 0.3  # spacings by which the surface goes on beyond its outermost rows, if they lie at random
MIN_RIM = 0.1  # of that, in an even cloud: a line of rows keeps a width
SPREAD = {2: 0.523, 3: 0.364}  # standard deviation over mean of the distance to the nearest of random rows
GAPS = 3.0  # times ln(N / FALSE_HOLES), of a random one: its shorter steps are half the mean, and uncertain
MIN_GAP = 3.0  # times the spacing of an even curve
EVEN, RANDOM = 1.0, 4.82  # upper over lower quartile of the steps of an even curve and of one scattered at random


@dataclass(frozen=True)
class Stars:
    """The simplices of all stars, and all pairs of rows that are corners of one simplex, both ways round."""

    i: np.ndarray  # [e], the row whose chart it is
    j: np.ndarray
    weight: np.ndarray  # w_ij^i, [e]
    edge_mass: np.ndarray  # e_ij^i, [e]
    mass: np.ndarray  # m_i, [N]
    simplices: np.ndarray  # [K, q + 1], row i first
    centres: np.ndarray  # of the circumscribed balls, barycentric, [K, q + 1]
    radii: np.ndarray  # [K]
    outer: np.ndarray  # [N]: whether the star is open
    n_gaps: int = 0  # steps of a curve that were left out


def ball(q: int) -> float:
    """Volume of the unit ball."""
    return pi ** (q / 2) / gamma(q / 2 + 1)


def hole_radius(n: int, q: int) -> float:
    """α: the radius of an empty ball that is a hole, in units of the spacing."""
    return LOCAL * (log(max(n, 2) / FALSE_HOLES) / ball(q)) ** (1 / q)


def spacing(v: np.ndarray, index: np.ndarray, near: np.ndarray) -> np.ndarray:
    """h_i, [N], the median of those around; `near` [N, k] marks rows on the same sheet of the surface."""
    q = v.shape[-1]
    n = min(SPACING_ROWS[q], v.shape[1] - 1)
    length = np.where(near, np.linalg.norm(v, axis=-1), np.inf)
    length.sort(1)
    count = np.minimum(n, near.sum(1) - 1)
    reach = length[np.arange(len(v)), np.maximum(count, 0)]
    h = reach * (ball(q) / np.maximum(count, 1)) ** (1 / q)
    return np.median(h[index[:, : n + 1]], axis=1)


def rim(v: np.ndarray, near: np.ndarray, h: np.ndarray) -> float:
    """How far the surface extends beyond its outermost rows, in spacings: RIM in a random cloud, less in an even."""
    nearest = np.where(near, np.linalg.norm(v, axis=-1), np.inf)[:, 1:].min(1)
    ratio = (nearest / h)[np.isfinite(nearest)]
    if not len(ratio):
        return RIM
    return RIM * max(MIN_RIM, min(1.0, float(ratio.std() / ratio.mean()) / SPREAD[v.shape[-1]]))


def delaunay_stars(v: np.ndarray, index: np.ndarray, near: np.ndarray, h: np.ndarray, beyond: float) -> Stars:
    """The stars of charts of dimension 2 or 3; `beyond` is what `rim` returns."""
    N, k, q = v.shape
    ghost, alpha = 2 * beyond * h, hole_radius(N, q)

    def star(i: Any, limit: np.ndarray) -> Star:
        columns = np.flatnonzero(near[i] & (np.arange(k) > 0))
        return _star(v[i, columns], limit[columns], ghost[i]).among(columns)

    stars = [star(i, np.full(k, alpha * h[i])) for i in range(N)]
    is_open = np.array([star.n_ghosts > 0 for star in stars])
    # At the edge balls are small: simplices between rows of the edge must not reach outside.
    at, tips, _, centre = _joined(stars)
    beside = np.where(tips < 0, True, is_open[index[at[:, None], tips]]).all(1)
    beside &= np.linalg.norm(centre, axis=1) > EDGE * h[at]
    for i in np.flatnonzero(is_open | (np.bincount(at[beside], minlength=N) > 0)):
        stars[i] = star(i, np.where(is_open[index[i]], EDGE, alpha) * h[i])
    at, tips, point, centre = _joined(stars)
    flux = _faces(point, centre)  # [K, q]
    cell = np.sum(flux * np.sum(point**2, -1), 1) / (2 * q)
    volume = np.where((tips >= 0).all(1), np.abs(np.linalg.det(point)) / (2 if q == 2 else 6), 0.0)
    real = (tips >= 0).ravel()
    pair = (at[:, None] * k + tips).ravel()[real]
    weight = np.bincount(pair, flux.ravel()[real], minlength=N * k)
    edge_mass = np.bincount(pair, np.repeat(volume, q)[real], minlength=N * k) / ((q + 1) * (q + 2))
    used = np.flatnonzero(weight > TINY * weight.max())
    i, j = used // k, index.ravel()[used]
    mass = np.bincount(at, cell, minlength=N)
    inside = (tips >= 0).all(1)
    simplices = np.concatenate([at[:, None], index[at[:, None], tips]], 1)[inside]
    local = np.linalg.solve(np.swapaxes(point[inside], 1, 2), centre[inside, :, None])[..., 0]
    centres = np.concatenate([1 - local.sum(1, keepdims=True), local], 1)
    radii = np.linalg.norm(centre[inside], axis=1)
    return Stars(i, j, weight[used], edge_mass[used], mass, simplices, centres, radii, is_open)


@dataclass(frozen=True)
class Star:
    """Simplices at 0: numbers [K, q] (ghosts last) and coordinates [K, q, q] of their other corners; centres [K, q]."""

    tips: np.ndarray
    point: np.ndarray
    centre: np.ndarray
    n_ghosts: int

    def among(self, numbers: np.ndarray) -> Star:
        """The star with other numbers for its points; ghosts get -1."""
        return replace(self, tips=np.append(numbers, np.full(self.n_ghosts, -1)).astype(int)[self.tips])


def _joined(stars: Sequence[Star]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Simplices of all stars: the row whose star it is [K], its corners, their coordinates and its centre."""
    at = np.repeat(np.arange(len(stars)), [len(star.tips) for star in stars])
    tips, point, centre = (
        np.concatenate([getattr(star, name) for star in stars]) for name in ("tips", "point", "centre")
    )
    return at, tips, point, centre


def _star(points: np.ndarray, limit: np.ndarray, ghost: float) -> Star:
    """The star of 0 among points [m, q], closed by ghosts wherever a ball is larger than the limits [m] of its corners.

    An inversion v / |v|² turns balls through 0 into half-spaces, so that the star is a convex hull: its facets away
    from 0 are the simplices, n·y = d the ball with centre n / 2d. Facets at 0 are the outside.
    """
    q = points.shape[1]
    ghosts = np.zeros((0, q))
    for _ in range(MAX_GHOSTS):
        every = np.concatenate([points, ghosts])
        square = np.sum(every**2, 1)
        scale = np.sqrt(square.min(initial=ghost**2))
        inverted = np.concatenate([np.zeros((1, q)), every * (scale / square)[:, None]])
        try:
            hull = ConvexHull(inverted, qhull_options=HULL)
        except (QhullError, ValueError):  # fewer directions than dimensions
            ghosts = np.concatenate([ghosts, ghost * _missing(every, q)])
            continue
        away = (hull.simplices != 0).all(1) & (hull.equations[:, -1] < 0)
        tips = hull.simplices[away] - 1
        centre = -scale * hull.equations[away, :-1] / (2 * hull.equations[away, -1:])
        if not away.all():
            direction = hull.equations[~away, :-1].sum(0)
        else:
            most = np.append(limit, np.zeros(len(ghosts)))[tips].max(1)
            over = np.linalg.norm(centre, axis=1) - most
            over[most == 0] = -np.inf  # between ghosts only
            if over.max() <= 0:
                return Star(tips, every[tips], centre, len(ghosts))
            direction = centre[np.argmax(over)]
        ghosts = np.concatenate([ghosts, ghost * direction[None] / np.linalg.norm(direction)])
    return Star(np.zeros((0, q), int), np.zeros((0, q, q)), np.zeros((0, q)), len(ghosts))


def _missing(points: np.ndarray, q: int) -> np.ndarray:
    """Two opposite directions that points [m, q] do not span, [2, q]."""
    axis = np.linalg.svd(np.concatenate([points, np.zeros((q, q))]))[2][-1]
    return np.stack([axis, -axis])


def _faces(point: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Voronoi face of each edge (0, point_a) inside a simplex, over the edge's length, [K, q]; signed."""
    if point.shape[1] == 2:
        return np.stack([_cotangent(point[:, 1], point[:, 0]), _cotangent(point[:, 0], point[:, 1])], 1) / 2
    flux = np.zeros(point.shape[:2])
    for a in range(3):
        for b, c in ((a + 1) % 3, (a + 2) % 3), ((a + 2) % 3, (a + 1) % 3):
            normal = np.cross(point[:, a], point[:, b])
            normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
            normal *= np.sign(np.sum(normal * point[:, c], 1, keepdims=True))
            rise = np.sum(normal * centre, 1)  # from the centre of face 0ab to that of the simplex
            flux[:, a] += _cotangent(point[:, b], point[:, a]) * rise / 4
    return flux


def _cotangent(at: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cotangent of the angle at `at` of the triangle (0, at, other); that of a needle is large, not infinite."""
    to = other - at
    dot = -np.sum(at * to, 1)
    both = np.sum(at**2, 1) * np.sum(to**2, 1)
    cross = np.sqrt(np.maximum(both - dot**2, 0.0))
    return dot / np.maximum(cross, np.maximum(np.finfo(float).eps * np.sqrt(both), 1e-300))


def links(X: np.ndarray, v: np.ndarray, index: np.ndarray, near: np.ndarray) -> Stars:
    """The stars of a curve: pairs of rows, such that no other row is closer to both than they are to each other.

    These are the steps of a curve, of a branch, and the last step of a ring. Noise makes steps across the curve, which
    are steep from both ends and no shorter than others: such a step is left out where the curve is connected without
    it. A step that is longer than the curve's other steps by more than chance allows is a gap.
    """
    N, k = index.shape
    linked, length = np.zeros((N, k), bool), np.linalg.norm(v, axis=-1)
    for rows in blocks(N, k * k * 2 + k * X.shape[1]):
        around = X[index[rows]] - X[rows, None]
        square = np.sum(around**2, -1)
        gap = square[:, :, None] + square[:, None] - 2 * around @ np.swapaxes(around, 1, 2)  # [n, k, k]
        from_row = gap[:, 0]
        between = np.maximum(from_row[:, :, None], gap) < from_row[:, None] * (1 - 1e-9)  # [n, l, j]
        linked[rows] = ~between.any(1)
    linked[:, 0] = False
    i, column = np.nonzero(linked)
    pairs, inverse = np.unique(np.sort(np.stack([i, index[i, column]], 1), 1), axis=0, return_inverse=True)
    count = np.bincount(inverse.ravel())
    size = np.bincount(inverse.ravel(), length[i, column]) / count
    shortest = np.full(N, np.inf)
    np.minimum.at(shortest, pairs.ravel(), np.repeat(size, 2))
    ratio = size / np.maximum(*shortest[index].mean(1)[pairs.T])
    across = (np.bincount(inverse.ravel(), ~near[i, column]) == count) & (ratio > 1)
    used = ~across | _bridges(pairs, np.where(across, size, TINY * size), N)
    pairs, size, ratio = pairs[used], size[used], ratio[used]
    low, high = np.quantile(ratio, [0.25, 0.75])
    uneven = np.clip((high / low - EVEN) / (RANDOM - EVEN), 0, 1)
    real = ratio <= MIN_GAP + GAPS * uneven * log(N / FALSE_HOLES)
    return steps(pairs[real, 0], pairs[real, 1], size[real], N, int(np.sum(~real)))


def _bridges(pairs: np.ndarray, length: np.ndarray, n: int) -> np.ndarray:
    """Which pairs [e, 2] belong to the minimum spanning tree of n rows, [e]."""
    graph = csr_matrix((length, pairs.T), shape=(n, n))
    tree = coo_matrix(minimum_spanning_tree(graph))
    return np.isin(pairs @ [n, 1], np.sort(np.stack([tree.row, tree.col], 1), 1) @ [n, 1])


def steps(a: np.ndarray, b: np.ndarray, length: np.ndarray, n: int, n_gaps: int = 0) -> Stars:
    """The stars of n nodes of a curve with steps from a to b, [e] each."""
    mass = (np.bincount(a, length, minlength=n) + np.bincount(b, length, minlength=n)) / 2
    i, j, both = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([length, length])
    simplices, middle = np.stack([a, b], 1), np.full((len(a), 2), 0.5)
    return Stars(i, j, 1 / both, both / 6, mass, simplices, middle, length / 2, np.bincount(i, minlength=n) < 2, n_gaps)
