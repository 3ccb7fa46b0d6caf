"""A domain of a learned chart as a complex on the rows of the cloud: simplices, and corridors as curves.

At level λ the surface consists of the simplices whose sides all belong to it, and of corridors, thin tubes along edges
that are sides of none of them (see `boundary`). A tube needs no mesh: it is a curve with a cross-section.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..basics import neighbours
from . import surface
from .boundary import CorridorBoundary
from .stars import ball

FLAT = 0.1  # q! times the volume of a simplex over its longest side^q, below which it is flat (0.87 at best)


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
        cells = surface.as_cells(self.simplices, self.corridors)
        return surface.Surface(self.vertices, cells).n_connected_components


def halved(whole: Complex) -> Complex:
    """The complex with every side halved: 2^q simplices for each, two corridors for each."""
    nodes, cells, corridors, _ = surface.halved(whole.vertices, whole.simplices, whole.corridors)
    section, bridge = np.tile(0.5 * whole.section, 2), np.tile(0.5 * whole.bridge, 2)
    return Complex(nodes, cells, corridors, section, bridge, whole.frame)


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
    section = ball(q - 1) * np.asarray(boundary.radius)[here] ** (q - 1)
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
