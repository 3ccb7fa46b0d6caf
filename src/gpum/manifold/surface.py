"""A surface: nodes in the data space, cells between them, and the projection of rows onto it.

    nodes [V, d]      points of the surface; the first ones belong to the rows that it was learned from
    cells [K, q + 1]  corners of the simplices; an edge that is a side of none repeats its last corner
    rows [N, d]       these rows themselves, which noise has moved off the surface

A function on the surface is its values at the nodes. At a row it is the sum of weights times values over a few nodes:
the corners of the nearest simplex, or, where a surface has no cells (more than three dimensions), the nearest nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ..basics.neighbours import nearest
from .projection import ROUNDING, balls, barycentric, in_reach, inverse_sides, nearest_point

CANDIDATES = 8  # nearest nodes whose simplices a row is projected onto
NEEDLE = 1e-7  # volume of a simplex over that of a cube of its size, up to which it counts as flat
TREE_COLUMNS = 16  # columns up to which a tree finds the nearest nodes faster than all distances do
LARGE = 2.0  # radius of a cell over the median, above which it is always looked at
NEIGHBOURS = 10  # nearest nodes that a row lies between on a surface without cells
RIDGE = 1e-3  # of their weights, see `between`
EXACT = 1e-3  # a standard deviation of coordinates below so many steps between nodes is none
BLOCK = 4_000_000  # numbers in the largest array of a block of rows
LARGEST = 1e100  # of the numbers of a row: its square must be finite
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Location:
    """Rows on a surface: each lies between a few nodes [n, j] with weights [n, j] that add up to 1.

    `distance` [n] is that of the rows from the surface, and `far` [n] says where that is so far that the surface tells
    nothing of the row.
    """

    nodes: np.ndarray
    weights: np.ndarray
    distance: np.ndarray
    far: np.ndarray

    @property
    def packed(self) -> np.ndarray:
        """Nodes and weights side by side, [n, 2j]: one array, so that rows can be selected and joined."""
        return np.concatenate([self.nodes, self.weights], 1)


def interpolated(packed: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values [V, k] of functions at nodes as values at rows, `Location.packed` [n, 2j]: [n, k] in float64."""
    nodes, weights = np.split(packed, 2, axis=1)
    n, j = weights.shape
    index = nodes.astype(np.intp)
    if n < 64:
        return np.einsum("nj,njk->nk", weights, values[index])
    rows = csr_matrix((weights.ravel(), index.ravel(), np.arange(0, n * j + 1, j)), (n, len(values)))
    return rows @ values


def combined(location: Location, values: np.ndarray) -> np.ndarray:
    """Values [V, k] of functions at nodes as values at rows, [n, k]."""
    return interpolated(location.packed, values)


@dataclass(frozen=True, eq=False)
class Surface:
    """Nodes and cells in the data space. All arrays are fixed once it is built.

    Attributes
    ----------
    nodes, cells, rows : see the module; `rows` None: rows are not moved before they are projected.
    limit : distance [V] from which on a row whose nearest node this is counts as far; None: no row is far.
    origin, scale, axes : a row x is the point ((x - origin)/scale) @ axes [d]; axes None: all columns. Where a cloud
        has more columns than rows, d is the dimension of its span.
    coordinates : of the nodes in a chart, [V, q]; None: the surface has no chart.
    spread : standard deviations of the coordinates of a row near each node, [V, q]; None: they are exact.
    frame : [q, q], turns coordinates into those in which distances are about those on the surface.
    unknowns : for functions that are quadratic in each cell, the numbers [K, ...] of its values: those at its corners,
        then those in the middles of its sides. None: functions are linear, with one value at each node.
    period : for columns that are angles, their lowest value and their period, [p, 2]; the period of others is infinite.
    """

    nodes: np.ndarray
    cells: np.ndarray
    rows: np.ndarray | None = None
    limit: np.ndarray | None = None
    origin: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0
    axes: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    spread: np.ndarray | None = None
    frame: np.ndarray | None = None
    unknowns: np.ndarray | None = None
    period: np.ndarray | None = None

    @property
    def dim(self) -> int:
        """The dimension q of its cells."""
        return self.cells.shape[1] - 1

    @property
    def positions(self) -> np.ndarray:
        """The nodes as rows of the data space, [V, p]."""
        nodes = self.nodes if self.axes is None else self.nodes @ self.axes.T
        return nodes * self.scale + self.origin

    @property
    def edges(self) -> np.ndarray:
        """Pairs of nodes that are joined, each once, [e, 2]."""
        pairs = np.concatenate([self.cells[:, side] for side in combinations(range(self.dim + 1), 2)])
        pairs = np.unique(np.sort(pairs, 1), axis=0)
        return pairs[pairs[:, 0] < pairs[:, 1]]

    @property
    def n_connected_components(self) -> int:
        """How many connected components the nodes that belong to cells have."""
        i, j = self.edges.T
        n = len(self.nodes)
        number = connected_components(csr_matrix((np.ones(len(i)), (i, j)), shape=(n, n)), directed=False)[1]
        return len(np.unique(number[self._held]))

    @property
    def closed(self) -> bool:
        """Whether it has no edge: every side of a cell (of a segment, its ends) belongs to another cell too."""
        cells = np.sort(self.cells, 1)
        cells = cells[np.all(np.diff(cells, axis=1) > 0, axis=1)]  # the others are single pairs
        sides = np.concatenate([np.delete(cells, corner, 1) for corner in range(self.dim + 1)])
        return bool(np.unique(sides, axis=0, return_counts=True)[1].min(initial=2) > 1)

    def project(self, X: np.ndarray) -> Location:
        """The nearest points of the surface to rows X [n, p] of the data space."""
        points, outside = self.inside(X)
        moved = self._moved(points)
        if not len(self.cells):
            nodes = self._search(moved, NEIGHBOURS)
            weights = between(self.nodes, nodes, moved)
        else:
            held = self._held[self._search(moved, CANDIDATES)]
            located = [self._nearest_cell(moved[b], held[b]) for b in _blocks(len(moved), 320 * moved.shape[1])]
            cell, weights = (np.concatenate(values) for values in zip(*located, strict=True))
            nodes = self.cells[cell]
        off = points - np.einsum("nj,njd->nd", weights, self.nodes[nodes])
        distance = np.sqrt(np.einsum("nd,nd->n", off, off) + outside)
        far = np.zeros(len(X), bool) if self.limit is None else distance > self.limit[nodes[:, 0]]
        if self.unknowns is not None:
            nodes, weights = self.unknowns[cell], quadratic(weights)
        return Location(nodes, weights, distance, far)

    def inside(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows X [n, p] as points [n, d], and the square of their distance from the span of the axes [n]."""
        if self.period is not None:
            low, period = self.period.T
            X = np.where(np.isfinite(period), low + np.mod(X - low, period), X)
        with np.errstate(over="ignore"):
            points = np.clip((X - self.origin) / self.scale, -LARGEST, LARGEST)
        if self.axes is None:
            return points, np.zeros(len(points))
        turned = points @ self.axes
        if len(self.axes) == self.axes.shape[1]:  # another frame of the same space
            return turned, np.zeros(len(points))
        return turned, np.maximum(np.einsum("np,np->n", points, points) - np.einsum("nd,nd->n", turned, turned), 0.0)

    def sigma_points(self, packed: np.ndarray) -> list[np.ndarray]:
        """Further places of rows whose coordinates are uncertain, equally likely, each [n, 2j]; none if all are exact.

        These are the sigma points x ± √q s_a e_a, which have the mean and the variance of each coordinate.
        """
        if self.spread is None or self.coordinates is None or not len(packed):
            return []
        at, sd = interpolated(packed, self.coordinates), interpolated(packed, self.spread)
        if not np.any(sd > EXACT * self._step):
            return []
        q = at.shape[1]
        points = np.concatenate([at + side * np.sqrt(q) * sd * e for e in np.eye(q) for side in (-1, 1)])
        return np.split(self.at_coordinates(points), 2 * q)

    def at_coordinates(self, points: np.ndarray) -> np.ndarray:
        """Points of the chart [n, q] between nodes, as `Location.packed`; off the cells the nearest point of these."""
        return self._in_chart.project(points).packed

    @cached_property
    def _in_chart(self) -> Surface:
        """The same cells in the coordinates of the chart."""
        assert self.coordinates is not None
        frame = np.eye(self.coordinates.shape[1]) if self.frame is None else self.frame
        return Surface(self.coordinates @ frame.T, self.cells, axes=frame.T)

    @cached_property
    def _step(self) -> np.ndarray:
        """The median step of each coordinate along the sides of cells, [q]."""
        assert self.coordinates is not None
        if not len(self.cells):
            return np.ptp(self.coordinates, axis=0) / max(len(self.coordinates), 1)
        along = np.abs(self.coordinates[self.cells[:, 0]] - self.coordinates[self.cells[:, 1]])
        return np.maximum(np.median(along, axis=0), TINY)

    @cached_property
    def _held(self) -> np.ndarray:
        """The nodes that belong to a cell."""
        return np.unique(self.cells)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.nodes[self._held] if len(self.cells) else self.nodes)

    @cached_property
    def _tree_of_rows(self) -> cKDTree:
        assert self.rows is not None
        return cKDTree(self.rows)

    def _search(self, points: np.ndarray, k: int) -> np.ndarray:
        """The nearest nodes of points [n, d], [n, k], as positions among those of `_held`."""
        among = len(self._held) if len(self.cells) else len(self.nodes)
        k = min(k, among)
        if self.nodes.shape[1] <= TREE_COLUMNS:
            return self._tree.query(points, k)[1].reshape(len(points), k)
        return nearest(self.nodes[self._held] if len(self.cells) else self.nodes, k, points)[1]

    def _moved(self, points: np.ndarray) -> np.ndarray:
        """Points [n, d], moved as the nearest of the rows was when it came to its node.

        The shift is multiplied by 1 - d_1/d_2, with d_1 and d_2 the distances to the two nearest rows: it is the whole
        shift at a row, and 0 at a point as near to another one, so that the projection is continuous.
        """
        if self.rows is None or len(self.rows) < 2:
            return points
        if self.nodes.shape[1] <= TREE_COLUMNS:
            away, near = self._tree_of_rows.query(points, 2)
        else:
            away, near = nearest(self.rows, 2, points)
        fraction = 1 - away[:, 0] / np.maximum(away[:, 1], TINY)
        return points + fraction[:, None] * (self.nodes[near[:, 0]] - self.rows[near[:, 0]])

    @cached_property
    def _at_node(self) -> csr_matrix:
        """Which cells are at each node, [V, K]."""
        K, corners = self.cells.shape
        pairs = (self.cells.ravel(), np.repeat(np.arange(K), corners))
        return csr_matrix((np.ones(K * corners), pairs), shape=(len(self.nodes), K))

    @cached_property
    def _planes(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the plane of each cell, [K, d, q], and its corners there, from the first."""
        corner = self.nodes[self.cells]
        basis, sides = np.linalg.qr(np.swapaxes(corner[:, 1:] - corner[:, :1], 1, 2))
        first = np.zeros((len(corner), 1, sides.shape[1]))
        return basis, np.concatenate([first, np.swapaxes(sides, 1, 2)], 1)

    @cached_property
    def _inverses(self) -> tuple[np.ndarray, np.ndarray]:
        """The `inverse_sides` of each cell in its plane, [K, q, q], and the height of each corner, [K, q + 1]."""
        inverse = inverse_sides(self._planes[1], NEEDLE)
        slopes = np.concatenate([-inverse.sum(1, keepdims=True), inverse], 1)  # of each weight
        return inverse, 1 / np.linalg.norm(slopes, axis=2)

    @cached_property
    def _balls(self) -> tuple[np.ndarray, np.ndarray]:
        return balls(self.nodes[self.cells])

    @cached_property
    def _large(self) -> np.ndarray:
        """Cells so large that a point inside may be far from all their corners, beside smaller cells."""
        radius = self._balls[1]
        return np.flatnonzero(radius > LARGE * np.median(radius))

    def _nearest_cell(self, points: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cell nearest to each point, among those at the nodes `near` [n, c], and the point's weights there."""
        table, n_cells = self._at_node, len(self.cells)
        count = np.diff(table.indptr)[near]  # [n, c]
        row = np.repeat(np.arange(len(points)), count.sum(1))
        start = np.repeat(table.indptr[near].ravel() - np.cumsum(count.ravel()) + count.ravel(), count.ravel())
        cell = table.indices[start + np.arange(len(start))]
        known = np.linalg.norm(points - self.nodes[near[:, 0]], axis=1)  # a corner of some of them
        centre, radius = self._balls
        if len(self._large):
            beside = np.nonzero(cdist(points, centre[self._large]) <= radius[self._large] + known[:, None])
            row, cell = np.append(row, beside[0]), np.append(cell, self._large[beside[1]])
        row, cell = np.divmod(np.unique(row * n_cells + cell), n_cells)  # each once
        reached = in_reach(points[row], centre[cell], radius[cell], known[row])
        row, cell = row[reached], cell[reached]
        weights, square = self._weights(points, row, cell)
        order = np.lexsort((cell, square, row))
        best = order[np.searchsorted(row[order], np.arange(len(points)))]
        return cell[best], weights[best]

    def _weights(self, points: np.ndarray, row: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights [m, q + 1] of the point of each cell nearest to its row of points, and its squared distance [m].

        It is found in the plane of the cell: |x - z|² = (|x - c|² - |P(x - c)|²) + |P(x - c) - (z - c)|², c the first
        corner, P the projection onto the plane. A point whose weight w_a is negative is at least -w_a times the height
        of the corner a away. Where that is more than the distance to a cell above which the row lies, the squared
        distance is infinite.
        """
        basis, corners = self._planes
        inverse, height = self._inverses
        away = points[row] - self.nodes[self.cells[cell, 0]]
        within, total = np.einsum("mdq,md->mq", basis[cell], away), np.einsum("md,md->m", away, away)
        off = total - np.einsum("mq,mq->m", within, within)
        weights = barycentric(within, np.zeros(within.shape[1]), inverse[cell])  # NaN in a flat cell
        beyond = np.fmax(-weights * height[cell], 0.0).max(1)
        above = np.all(weights >= 0, axis=1)
        least, square = np.full(len(points), np.inf), np.where(above, off, np.inf)
        np.minimum.at(least, row, square)
        rest = np.flatnonzero(~above & (off + np.nan_to_num(beyond) ** 2 <= least[row] + ROUNDING * total))
        if len(rest):
            weights[rest], length = nearest_point(within[rest], corners[cell[rest]])
            square[rest] = off[rest] + length**2
        return weights, square


def quadratic(weights: np.ndarray) -> np.ndarray:
    """Quadratic shape functions at barycentric weights [..., c]: vertices, then sides in the order of combinations."""
    pairs = [weights[..., i] * weights[..., j] for i, j in combinations(range(weights.shape[-1]), 2)]
    return np.concatenate([weights * (2 * weights - 1), 4 * np.stack(pairs, -1)], -1)


def quadratic_slopes(weights: np.ndarray) -> np.ndarray:
    """Derivatives of these shape functions by barycentric weights [n, c], [n, local, c]."""
    n, c = weights.shape
    sides = np.zeros((n, c * (c - 1) // 2, c))
    for k, (i, j) in enumerate(combinations(range(c), 2)):
        sides[:, k, i], sides[:, k, j] = 4 * weights[:, j], 4 * weights[:, i]
    return np.concatenate([np.eye(c) * (4 * weights - 1)[:, :, None], sides], 1)


def between(nodes: np.ndarray, index: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Weights a [n, k], which add up to 1, of points [n, d] between the nodes of these numbers [n, k].

    Σ_j a_j x_j is near x: a is where |Σ_j a_j (x_j - x)|² + ρ Σ_j a_j² |x_j - x|² is least, so that a function at x
    tends to its value at x_j as x tends to x_j.
    """
    n, k = index.shape
    weights = np.empty((n, k))
    for b in _blocks(n, k * points.shape[1]):
        gap = nodes[index[b]] - points[b, None]  # [n, k, d]
        length = np.linalg.norm(gap, axis=2)
        unit = gap / np.maximum(length, TINY)[..., None]
        gram = unit @ unit.transpose(0, 2, 1) + RIDGE * np.eye(k)
        close = np.maximum(length.min(1, keepdims=True), TINY) / np.maximum(length, TINY)
        a = close * np.linalg.solve(gram, close[..., None])[..., 0]
        weights[b] = a / a.sum(1, keepdims=True)
    return weights


def span(X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Origin and an orthonormal basis [p, d] of the span of X if it has more columns than rows; else no basis."""
    origin = X.mean(0)
    if X.shape[1] <= len(X):
        return origin, None
    return origin, np.linalg.svd(X - origin, full_matrices=False)[2].T


def halved(
    points: np.ndarray, cells: np.ndarray, lines: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cells [K, q + 1] (q ≤ 3) and lines [E, 2] between points, with every side halved.

    Returns the points with the middles of all sides behind them, the finer cells and lines, and the two ends of the
    side of each middle.
    """
    q, n = cells.shape[1] - 1, len(points)
    sides = list(combinations(range(q + 1), 2))
    pairs = np.concatenate([lines, *(cells[:, side] for side in sides)])
    ends, number = np.unique(np.sort(pairs, 1), axis=0, return_inverse=True)
    middle = n + number.ravel()
    of_line, of_cell = middle[: len(lines)], middle[len(lines) :].reshape(len(sides), -1)
    at = {side: of_cell[k] for k, side in enumerate(sides)} | {(c, c): cells[:, c] for c in range(q + 1)}
    finer = [np.stack([at[min(c, d), max(c, d)] for d in range(q + 1)], 1) for c in range(q + 1)]  # at each corner
    if q == 2:
        finer.append(of_cell.T)
    if q == 3:  # what is left is an octahedron, cut along one of its diagonals
        ring = [(0, 1), (0, 3), (2, 3), (1, 2)]
        for first, second in zip(ring, ring[1:] + ring[:1], strict=True):
            finer.append(np.stack([at[0, 2], at[1, 3], at[first], at[second]], 1))
    halves = np.concatenate([np.stack([lines[:, 0], of_line], 1), np.stack([of_line, lines[:, 1]], 1)])
    return np.concatenate([points, points[ends].mean(1)]), np.concatenate(finer), halves, ends


def as_cells(cells: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Cells [K, q + 1] and lines [E, 2] as one array of cells: a line repeats its last end."""
    return np.concatenate([cells, lines[:, [0] + [1] * (cells.shape[1] - 1)]])


def _blocks(n: int, numbers: int) -> Iterator[slice]:
    """Blocks of n rows with so many numbers each."""
    step = max(1, BLOCK // max(1, numbers))
    return (slice(k, k + step) for k in range(0, max(n, 1), step))
