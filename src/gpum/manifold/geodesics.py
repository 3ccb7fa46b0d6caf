"""Geodesics: shortest paths on a surface of cells whose sides have known lengths.

    l_ij                       length of the side between two nodes
    |δ|² = -Σ_{i<j} δ_i δ_j l_ij²    squared length of a segment in a cell, δ the change of its barycentric weights

Every side gets a few further points, and points of one cell are joined by segments: a graph, on which Dijkstra's
algorithm finds the cells that the shortest path crosses; and again, with more points, in the cells around it. The
points where it crosses their sides are then moved so that it is as short as possible. Only the lengths of sides are
used, so that a surface needs no embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

POINTS = {1: 0, 2: 4, 3: 2}  # further points of each side, by dimension
FINER = 3  # times as many around a path that was found
SAME = 1e-9  # of the whole length: a shorter segment joins a point with itself
TINY = 1e-150  # least length of an edge of the graph: a zero would be no edge


@dataclass(frozen=True)
class Geodesic:
    """A shortest path: its length, and its points [k, p] from end to end. Without a path: infinite, and no points."""

    length: float
    path: np.ndarray


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells [K, q + 1] of V nodes, and the lengths of their sides, as pairs of nodes [E, 2], each pair ascending."""

    n_nodes: int
    cells: np.ndarray
    pairs: np.ndarray
    lengths: np.ndarray
    times: int = 1  # so many times as many further points

    @classmethod
    def of(
        cls, n_nodes: int, cells: np.ndarray, pairs: np.ndarray, lengths: np.ndarray, times: int = 1
    ) -> Cells:  # fmt: skip
        """With pairs in the order of their codes."""
        order = np.argsort(pairs[:, 0] * n_nodes + pairs[:, 1])
        return cls(n_nodes, cells, pairs[order], lengths[order], times)

    @cached_property
    def _codes(self) -> np.ndarray:
        return self.pairs[:, 0] * self.n_nodes + self.pairs[:, 1]

    def side(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """The numbers of the sides between nodes i and j."""
        return np.searchsorted(self._codes, np.minimum(i, j) * self.n_nodes + np.maximum(i, j))

    @property
    def n_points(self) -> int:
        """Further points of each side."""
        return self.times * POINTS[self.cells.shape[1] - 1]

    @cached_property
    def _graph(self) -> csr_matrix:
        """Lengths of segments between nodes and further points, [n, n]."""
        lines = self.cells[:, -1] == self.cells[:, -2]
        segments = [self._segments(self.cells[~lines])]
        if lines.any():
            segments.append(self._segments(np.sort(self.cells[lines][:, [0, 1]], 1)))
        first, second, length = (np.concatenate(parts) for parts in zip(*segments, strict=True))
        n = self.n_nodes + self.n_points * len(self.pairs)
        code = np.minimum(first, second) * n + np.maximum(first, second)
        code, once = np.unique(code, return_index=True)  # cells that share a side share the segments on it
        i, j = np.divmod(code, n)
        length = np.maximum(length[once], TINY)
        both = np.concatenate([i, j]), np.concatenate([j, i])
        return csr_matrix((np.concatenate([length, length]), both), shape=(n, n))

    def _segments(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The two ends and the length of every segment in some cells."""
        corners, m = cells.shape[1], self.n_points
        first, second, weights = _segments_of_a_cell(corners, m)
        sides = list(combinations(range(corners), 2))
        edges = np.stack([self.side(cells[:, i], cells[:, j]) for i, j in sides], 1)
        turned = np.stack([cells[:, i] > cells[:, j] for i, j in sides], 1)
        k = np.arange(m)
        further = self.n_nodes + m * edges[:, :, None] + np.where(turned[:, :, None], m - 1 - k, k)
        number = np.concatenate([cells, further.reshape(len(cells), -1)], 1)
        length = np.sqrt(np.maximum(self.lengths[edges] ** 2 @ weights, 0.0))
        return number[:, first].ravel(), number[:, second].ravel(), length.ravel()

    def near(self, points: Sequence[Point]) -> tuple[Cells, np.ndarray]:
        """The cells around a path, with more points on their sides, and the numbers of their nodes."""
        at = np.zeros(self.n_nodes, bool)
        for _ in range(2):
            for point in points:
                at[point.nodes] = True
            cells = self.cells[at[self.cells].any(1)]
            at[cells] = True
        used = np.unique(cells)
        number = np.full(self.n_nodes, -1)
        number[used] = np.arange(len(used))
        inside = np.sort(np.concatenate([cells[:, side] for side in combinations(range(cells.shape[1]), 2)]), 1)
        inside = np.unique(inside[inside[:, 0] < inside[:, 1]], axis=0)
        lengths = self.lengths[self.side(inside[:, 0], inside[:, 1])]
        return Cells.of(len(used), number[cells], number[inside], lengths, FINER), used

    def _point(self, number: int) -> Point:
        """A node, or a further point of a side."""
        if number < self.n_nodes:
            return Point(np.array([number]), np.ones(1))
        edge, k = divmod(number - self.n_nodes, self.n_points)
        t = (k + 1) / (self.n_points + 1)
        return Point(self.pairs[edge], np.array([1 - t, t]))

    def _beside(self, point: Point) -> np.ndarray:
        """Numbers of the nodes and further points on the cell in which a point lies."""
        nodes, m = point.nodes, self.n_points
        sides = [self.side(i, j) for i, j in combinations(nodes, 2)]
        further = [self.n_nodes + m * edge + k for edge in sides for k in range(m)]
        return np.concatenate([nodes, np.array(further, int)])

    def _straight(self, a: Point, b: Point) -> float:
        """The length of the segment between two points of one cell."""
        return _Chain([a, b], self).length(np.zeros(0))[0]

    def paths(self, start: Point, ends: Sequence[Point]) -> list[tuple[float, list[Point]]]:
        """The shortest path from a point to each of several: length and points; infinite and none without one."""
        return [self._finer(start, end, *path) for end, path in zip(ends, self._paths(start, ends), strict=True)]

    def _paths(self, start: Point, ends: Sequence[Point]) -> list[tuple[float, list[Point]]]:
        """The same on the points of this graph."""
        graph = self._graph
        n = graph.shape[0]
        beside = self._beside(start)
        lengths = np.array([max(self._straight(start, self._point(int(k))), TINY) for k in beside])
        with_start = csr_matrix(
            (
                np.append(graph.data, lengths), np.append(graph.indices, beside),
                np.append(graph.indptr, graph.indptr[-1] + len(beside)),
            ),
            shape=(n + 1, n + 1),
        )  # fmt: skip
        away, before = dijkstra(with_start, indices=n, return_predecessors=True)
        return [self._path(start, end, away, before) for end in ends]

    def _finer(self, start: Point, end: Point, length: float, path: list[Point]) -> tuple[float, list[Point]]:
        """The path, or a shorter one in the cells around it, where sides have more points."""
        if not self.n_points or len(path) <= 2:
            return length, path
        cells, used = self.near(path)
        here = lambda point: Point(np.searchsorted(used, point.nodes), point.weights)
        ((finer, points),) = cells._paths(here(start), [here(end)])
        if not finer < length:
            return length, path
        return finer, [Point(used[point.nodes], point.weights) for point in points]

    def _path(self, start: Point, end: Point, away: np.ndarray, before: np.ndarray) -> tuple[float, list[Point]]:
        if set(start.nodes) <= set(end.nodes) or set(end.nodes) <= set(start.nodes):  # of one cell
            chain = [start, end]
        else:
            beside = self._beside(end)
            total = [away[k] + self._straight(self._point(int(k)), end) for k in beside]
            best = int(beside[int(np.argmin(total))])
            if not np.isfinite(min(total)):
                return np.inf, []
            numbers = []
            while best != len(away) - 1:
                numbers.append(best)
                best = int(before[best])
            chain = [start, *(self._point(k) for k in reversed(numbers)), end]
        return _Chain(chain, self).shortest()


@cache
def _segments_of_a_cell(corners: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Segments between the corners and m further points of each side of a cell: both ends, as positions among these,
    and the weights [sides, segments] of the squared lengths of sides in theirs.

    On one side only neighbours are joined.
    """
    sides = list(combinations(range(corners), 2))
    t = np.arange(1, m + 1)[:, None] / (m + 1)
    at = np.concatenate([np.eye(corners), *((1 - t) * np.eye(corners)[i] + t * np.eye(corners)[j] for i, j in sides)])
    first, second = np.triu_indices(len(at), 1)
    step = at[second] - at[first]
    along = np.count_nonzero(at[first] + at[second], axis=1) == 2
    kept = ~along | (np.abs(step).max(1) < 1 / (m + 1) + 1e-9)
    first, second, step = first[kept], second[kept], step[kept]
    return first, second, -np.stack([step[:, i] * step[:, j] for i, j in sides])


@dataclass(frozen=True)
class Point:
    """A point between nodes [c] with weights [c] that add up to 1."""

    nodes: np.ndarray
    weights: np.ndarray

    @classmethod
    def between(cls, nodes: np.ndarray, weights: np.ndarray) -> Point:
        """Nodes that are named twice, or have no weight, are joined or left out."""
        distinct, number = np.unique(nodes, return_inverse=True)
        total = np.bincount(number.ravel(), weights, len(distinct))
        held = np.abs(total) > 1e-12
        return cls(distinct[held], total[held] / total[held].sum())


class _Chain:
    """Points of which each and the next one lie in one cell; those on a side may move along it."""

    def __init__(self, points: list[Point], cells: Cells) -> None:
        self.points = points
        self.moves = [k for k in range(1, len(points) - 1) if len(points[k].nodes) == 2]
        variable = {k: n for n, k in enumerate(self.moves)}
        corners = max(len(np.union1d(a.nodes, b.nodes)) for a, b in pairwise(points))
        n = len(points) - 1
        self.squares = np.zeros((n, corners, corners))
        self.step = np.zeros((n, corners))  # change of weights along each segment, where nothing has moved
        self.by = np.zeros((n, 2, corners))  # its derivative by the position of the first and of the second point
        self.variable = np.full((n, 2), len(self.moves))
        for k, (a, b) in enumerate(pairwise(points)):
            nodes = np.union1d(a.nodes, b.nodes)
            for i, j in combinations(range(len(nodes)), 2):
                self.squares[k, i, j] = self.squares[k, j, i] = cells.lengths[cells.side(nodes[i], nodes[j])] ** 2
            for end, (point, sign, number) in enumerate(((a, -1.0, k), (b, 1.0, k + 1))):
                at = np.searchsorted(nodes, point.nodes)
                if number in variable:  # weights 1 - t and t
                    self.step[k, at[0]] += sign
                    self.by[k, end, at] = sign * np.array([-1.0, 1.0])
                    self.variable[k, end] = variable[number]
                else:
                    self.step[k, at] += sign * point.weights

    def _steps(self, t: np.ndarray) -> np.ndarray:
        """The change of weights along each segment, [n, c]."""
        return self.step + np.einsum("ne,nec->nc", np.append(t, 0.0)[self.variable], self.by)

    def _each(self, t: np.ndarray) -> np.ndarray:
        """The length of each segment, [n]."""
        step = self._steps(t)
        return np.sqrt(np.maximum(-0.5 * np.einsum("ni,nij,nj->n", step, self.squares, step), 0.0))

    def length(self, t: np.ndarray) -> tuple[float, np.ndarray]:
        """The length of the path, and its derivative by the positions t [moves]."""
        step = self._steps(t)
        turned = np.einsum("nij,nj->ni", self.squares, step)
        each = self._each(t)
        slopes = -0.5 * np.einsum("nec,nc->ne", self.by, turned) / np.maximum(each, TINY)[:, None]
        gradient = np.bincount(self.variable.ravel(), slopes.ravel(), len(self.moves) + 1)[:-1]
        return float(each.sum()), gradient

    def shortest(self) -> tuple[float, list[Point]]:
        """Length and points of the path that is as short as movable points can make it."""
        t = np.array([self.points[k].weights[1] for k in self.moves])
        if len(t):
            unit = max(self.length(t)[0], TINY)  # so that tolerances do not depend on the unit of lengths
            scaled = lambda x: tuple(value / unit for value in self.length(x))
            optimum = minimize(scaled, t, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(t), tol=1e-12)
            t = optimum.x if optimum.fun * unit <= self.length(t)[0] else t
        points = list(self.points)
        for k, position in zip(self.moves, t, strict=True):
            points[k] = Point(points[k].nodes, np.array([1 - position, position]))
        total, each = self.length(t)[0], self._each(t)
        return total, [points[0], *(p for p, step in zip(points[1:], each, strict=True) if step > SAME * total)]
