"""A domain of a learned chart as a complex on the rows of the cloud: simplices, and corridors as curves.

At level λ the surface consists of the simplices whose sides all belong to it, and of corridors, thin tubes along edges
that are sides of none of them (see `boundary`). A tube needs no mesh: it is a curve with a cross-section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import gamma, pi
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..basics import neighbours
from .boundary import CorridorBoundary
from .projection import balls, barycentric, in_reach, inverse_sides, nearest_point

FLAT = 0.1  # q! times the volume of a simplex over its longest side^q, below which it is flat (0.87 at best)
FIRST = (1, 3)  # nearest nodes of a point whose simplices are tested first, and next
NO_VOLUME = 1e-12  # volume of a simplex over that of a cube of its size, up to which no point is inside
NEAR = 8  # nearest nodes of a point whose simplices and corridors it may lie on


@dataclass(frozen=True)
class Complex:
    """Simplices [K, q + 1] and corridors [E, 2] on vertices [n, q] of a chart.

    section : volume of each corridor's cross-section in the chart, times its length in the chart, [E].
    bridge : the length of corridors that do not follow the chart, [E]; 0 for others. Their section is their volume.
    frame : [q, q], turns chart coordinates into those in which distances are measured.
    """

    vertices: np.ndarray
    simplices: np.ndarray
    corridors: np.ndarray
    section: np.ndarray
    bridge: np.ndarray
    frame: np.ndarray

    @property
    def dim(self) -> int:
        """The dimension q."""
        return self.vertices.shape[1]

    def n_connected_components(self) -> int:
        """How many connected components the complex has."""
        pairs = [self.corridors, *(self.simplices[:, [0, k]] for k in range(1, self.dim + 1))]
        i, j = np.concatenate(pairs).T
        graph = coo_matrix((np.ones(len(i)), (i, j)), shape=(len(self.vertices),) * 2)
        labels = connected_components(graph, directed=False)[1]
        return len(np.unique(labels[np.concatenate([i, j])]))


class Finder:
    """Finds the element of a complex that is nearest to a point; simplices come first, then corridors."""

    def __init__(self, whole: Complex) -> None:
        corners = np.concatenate([whole.simplices.ravel(), whole.corridors.ravel()])
        cells = np.repeat(np.arange(len(whole.simplices)), whole.dim + 1)
        lines = np.repeat(np.arange(len(whole.corridors)) + len(whole.simplices), 2)
        self.whole, self.nodes = whole, whole.vertices @ whole.frame.T
        pairs = (corners, np.concatenate([cells, lines]))
        shape = len(whole.vertices), len(whole.simplices) + len(whole.corridors)
        self.at = csr_matrix((np.ones(len(corners)), pairs), shape=shape)
        self.count = np.diff(self.at.indptr)  # elements at each node
        self.used = np.unique(corners)  # the other nodes have no element
        self.tree = cKDTree(self.nodes[self.used])
        self.together: Finders | None = None  # with those of other domains of the chart, once they were asked together

    def ends(self, element: np.ndarray) -> np.ndarray:
        """Nodes at the corners of elements, [m, q + 1]; a corridor repeats its first end."""
        K = len(self.whole.simplices)
        line = self.whole.corridors[:, [0, 1] + [0] * (self.whole.dim - 1)]
        return np.concatenate([self.whole.simplices, line])[element] if K else line[element]

    def locate(self, points: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The element nearest to each point, the weights of its nearest point [n, q + 1], and the distance [n].

        Most points lie in a simplex at one of the nearest nodes, which is tested first; the others are projected onto
        all elements around.
        """
        points = np.atleast_2d(np.asarray(points, float)) @ self.whole.frame.T
        n = len(points)
        found, weights, off = np.full(n, -1), np.zeros((n, self.whole.dim + 1)), np.zeros(n)
        rest = np.arange(n)
        for k in FIRST:
            row, element = self._around(points[rest], k)
            solid = element < len(self.whole.simplices)
            row, element = rest[row[solid]], element[solid]
            first, inverse = self._first[element], self._inverse_sides[element]
            own = barycentric(points[row], first, inverse)
            within = _positive(own)[::-1]  # reversed, so that the first of several is written last
            found[row[within]], weights[row[within]] = element[within], own[within]
            rest = np.flatnonzero(found < 0)
            if not len(rest):
                return found, weights, off
        found[rest], weights[rest], off[rest] = self.around(points[rest])
        return found, weights, off

    def around(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `locate`, of points in the frame: each is projected onto all elements around it."""
        near = self.nearest(points, NEAR)
        row, element = self._distinct(*self._at(near))
        known = np.linalg.norm(points - self.nodes[near[:, 0]], axis=1)  # a corner of some of them
        centre, radius = self._balls
        some = in_reach(points[row], centre[element], radius[element], known[row])
        row, element = row[some], element[some]
        projected, away = self._weights(points[row], element)
        best = np.lexsort((element, away, row))
        best = best[np.searchsorted(row[best], np.arange(len(points)))]
        return element[best], projected[best], away[best]

    def _around(self, points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The elements at the k nodes nearest to each point: numbers of the point and of the element, [m] each."""
        return self._at(self.nearest(points, k))

    def _at(self, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The elements at nodes `near` [n, k]: numbers of the row and of the element, [m] each."""
        return _elements(near, self.count[near], self.at.indptr, self.at.indices)

    def nearest(self, points: np.ndarray, k: int) -> np.ndarray:
        """The k nodes with elements that are nearest to each point, [n, k]."""
        k = min(k, len(self.used))
        return self.used[self.tree.query(points, k=k)[1].reshape(len(points), k)]

    def _distinct(self, row: np.ndarray, element: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs without repetitions: an element is at several of its nodes."""
        count = self.at.shape[1]
        row, element = np.divmod(np.unique(row * count + element), count)
        return row, element

    @cached_property
    def _inverse_sides(self) -> np.ndarray:
        return inverse_sides(self.nodes[self.whole.simplices], NO_VOLUME)

    @cached_property
    def _balls(self) -> tuple[np.ndarray, np.ndarray]:
        return balls(self.nodes[self.ends(np.arange(self.at.shape[1]))])

    @cached_property
    def _first(self) -> np.ndarray:
        return self.nodes[self.whole.simplices[:, 0]]

    def _weights(self, points: np.ndarray, element: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights [m, q + 1] of the point of each element that is nearest to its point, and the distance."""
        weights = np.zeros((len(points), self.whole.dim + 1))
        is_line, ends = element >= len(self.whole.simplices), self.ends(element)
        distance = np.zeros(len(points))
        if not is_line.all():
            weights[~is_line], distance[~is_line] = nearest_point(points[~is_line], self.nodes[ends[~is_line]])
        if is_line.any():
            weights[is_line, :2], distance[is_line] = nearest_point(points[is_line], self.nodes[ends[is_line, :2]])
        return weights, distance


class Finders:
    """Finders of several complexes, for few points: those of all complexes are located with the same calls."""

    def __init__(self, each: Sequence[Finder]) -> None:
        self.each = list(each)
        nodes, elements = (np.cumsum([0, *(one.at.shape[axis] for one in each)]) for axis in (0, 1))
        self.first_node, self.first_element = nodes[:-1], elements[:-1]
        self.count = np.concatenate([one.count for one in each])
        self.begin = np.cumsum(self.count) - self.count
        self.elements = np.concatenate([one.at.indices + k for one, k in zip(each, self.first_element, strict=True)])
        q = each[0].whole.dim
        self.corner, self.inverse = np.full((elements[-1], q), np.nan), np.full((elements[-1], q, q), np.nan)
        for one, k in zip(each, self.first_element, strict=True):
            simplices = slice(k, k + len(one.whole.simplices))
            self.corner[simplices], self.inverse[simplices] = one._first, one._inverse_sides

    def locate(self, points: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each complex the element nearest to each point, and the weights of its nearest point, as `Finder` has."""
        n = len(points)
        framed = [points @ one.whole.frame.T for one in self.each]
        near = np.concatenate(
            [_wide(one.nearest(x, FIRST[-1])) + k for one, x, k in zip(self.each, framed, self.first_node, strict=True)]
        )
        at = np.concatenate(framed)
        row, element = _elements(near, self.count[near], self.begin, self.elements)
        own = barycentric(at[row], self.corner[element], self.inverse[element])  # NaN on a corridor
        within = _positive(own)[::-1]  # reversed, so that the first of several is written last
        found, weights = np.full(len(at), -1), np.zeros((len(at), at.shape[1] + 1))
        found[row[within]], weights[row[within]] = element[within], own[within]
        answers = []
        for k, (one, first) in enumerate(zip(self.each, self.first_element, strict=True)):
            mine, w = found[k * n : (k + 1) * n] - first, weights[k * n : (k + 1) * n]
            rest = np.flatnonzero(mine < 0)
            if len(rest):
                mine[rest], w[rest], _ = one.around(framed[k][rest])
            answers.append((mine, w))
        return answers


def _wide(near: np.ndarray) -> np.ndarray:
    """Nodes [n, k], the last repeated where there are fewer than are tested first."""
    return near if near.shape[1] == FIRST[-1] else near[:, np.minimum(np.arange(FIRST[-1]), near.shape[1] - 1)]


def _elements(
    near: np.ndarray, count: np.ndarray, begin: np.ndarray, elements: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The elements at nodes `near` [n, k], of which node i has count_i from begin_i on: point and element, [m] each."""
    count = count.ravel()
    row = np.repeat(np.arange(near.size) // near.shape[1], count)
    shift = np.repeat(begin[near].ravel() - np.cumsum(count) + count, count)
    return row, elements[shift + np.arange(len(shift))]


def _positive(weights: np.ndarray) -> np.ndarray:
    """Which rows of weights [m, q + 1] have no negative one, ascending."""
    sound = weights[:, 0] >= 0
    for column in weights.T[1:]:  # sums and minima over a short last axis are slow
        sound &= column >= 0
    return np.flatnonzero(sound)


def halved(whole: Complex) -> Complex:
    """The complex with every side halved: 2^q simplices for each (q ≤ 2), two corridors for each."""
    q, n = whole.dim, len(whole.vertices)
    cells = whole.simplices
    sides = [(i, j) for i, j in combinations(range(q + 1), 2)]
    pairs = np.concatenate([whole.corridors, *(cells[:, s] for s in sides)])
    edges, number = np.unique(np.sort(pairs, 1), axis=0, return_inverse=True)
    middle = n + number.ravel()
    of_corridor, of_cell = middle[: len(whole.corridors)], middle[len(whole.corridors) :].reshape(len(sides), -1).T
    nodes = np.concatenate([whole.vertices, whole.vertices[edges].mean(1)])
    if q == 1:
        finer = [np.stack([cells[:, 0], of_cell[:, 0]], 1), np.stack([of_cell[:, 0], cells[:, 1]], 1)]
    else:
        (a, b, c), (ab, ac, bc) = cells.T, of_cell.T
        finer = [np.stack(t, 1) for t in ((a, ab, ac), (b, ab, bc), (c, ac, bc), (ab, ac, bc))]
    ends = whole.corridors
    corridors = np.concatenate([np.stack([ends[:, 0], of_corridor], 1), np.stack([of_corridor, ends[:, 1]], 1)])
    return Complex(
        nodes,
        np.concatenate(finer),
        corridors,
        np.tile(0.5 * whole.section, 2),
        np.tile(0.5 * whole.bridge, 2),
        whole.frame,
    )


def complex_of(boundary: CorridorBoundary) -> Complex:
    """The complex of a family of domains at its level: simplices, and the corridors that are sides of none of them."""
    level, frame = float(boundary.level), np.asarray(boundary.frame)
    q, corridor_level = len(frame), np.asarray(boundary.corridor_level)
    here = np.flatnonzero(corridor_level <= level)
    corridors, simplices = np.asarray(boundary.corridors, int), np.asarray(boundary.simplices, int)
    vertices = np.asarray(boundary.vertices)[: corridors.max() + 1]  # the spanning tree has corridors at every row
    corridors, simplices = corridors[here], simplices[np.asarray(boundary.simplex_level) <= level]
    sound = _sound(vertices, simplices)
    codes = np.sort(corridors, 1) @ [len(vertices), 1]
    bare = ~np.isin(codes, _side_codes(simplices[sound], len(vertices)))
    bare &= (corridor_level[here] == 0) | ~np.isin(codes, _side_codes(simplices[~sound], len(vertices)))
    here, corridors = here[bare], corridors[bare]
    bridge = np.asarray(boundary.bridge)[here]
    section = cross_section(np.asarray(boundary.radius)[here], q)
    length = neighbours.distance(vertices, corridors) / abs(np.linalg.det(frame))
    section = section * np.where(bridge > 0, bridge, length)
    in_chart = np.linalg.solve(frame, vertices.T).T
    return Complex(in_chart, simplices[sound], corridors, section, bridge, frame)


def _side_codes(cells: np.ndarray, n: int) -> np.ndarray:
    """A number for each side of the simplices."""
    return np.concatenate([np.sort(cells[:, s], 1) @ [n, 1] for s in combinations(range(cells.shape[1]), 2)])


def _sound(nodes: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Which simplices remain when flat ones are removed from the rim, one layer after another, [K].

    A triangle that is almost a line has no area, yet it forces the function on its long side to be a parabola: along a
    straight rim, where rows are a little inside or outside, such triangles span many rows.
    """
    q, stay = nodes.shape[1], np.ones(len(cells), bool)
    if q == 1 or not len(cells):
        return stay
    corner = nodes[cells]
    longest = np.max([np.linalg.norm(corner[:, i] - corner[:, j], axis=1) for i, j in combinations(range(q + 1), 2)], 0)
    flat = np.abs(np.linalg.det(corner[:, 1:] - corner[:, :1])) < FLAT * longest**q
    facets = np.sort(np.stack([np.delete(cells, k, 1) for k in range(q + 1)], 1), 2)  # [K, q + 1, q]
    _, number = np.unique(facets.reshape(-1, q), axis=0, return_inverse=True)
    number = number.reshape(len(cells), q + 1)
    while True:
        rim = np.bincount(number[stay].ravel(), minlength=number.max() + 1)[number] == 1
        peeled = stay & flat & (rim.sum(1) == 1)  # with more sides on the rim a corner would lose its last simplex
        if not peeled.any():
            return stay
        stay &= ~peeled


def cross_section(radius: np.ndarray, q: int) -> np.ndarray:
    """Volume of the (q - 1)-ball of each radius: the cross-section of a tube."""
    return pi ** ((q - 1) / 2) / gamma((q - 1) / 2 + 1) * radius ** (q - 1)
