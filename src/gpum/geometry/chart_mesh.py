"""A learned chart as a surface: the triangulation of its rows in the chart, refined, and lifted to the data space.

    x_i       coordinates of the distinct rows; they are the first nodes
    E φ(x)    the place of a node in the data space

Cells are the simplices and corridors of the family of domains at its largest level. Bridges, which join rows that the
chart has torn apart, are left out: between their ends there is no coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..basics import neighbours
from ..manifold.boundary import CorridorBoundary, corridor_boundary
from ..manifold.chart import evaluate
from ..manifold.complex import complex_of
from ..manifold.learned import LearnedChart
from ..manifold.surface import Surface, as_cells, halved

MOST_CELL_DIM = 3
NODES = 400  # sides are halved until there are so many nodes,
HALVINGS = {1: 4, 2: 3, 3: 1}  # or so often
# A row is far from the surface if its distance exceeds the USUAL quantile of the fitted rows' distances by FAR steps. A
# step is the USUAL quantile of the distance to the nearest neighbour or, where rows are sparse, the distance between
# the fitted rows there, at most SPARSE times that quantile.
FAR = 2.0
USUAL = 0.9
SPARSE = 3.0


@dataclass(frozen=True, eq=False)
class ChartMesh:
    """The surface of a learned chart; its last m nodes are middles of sides, which have these two `ends`, [m, 2]."""

    surface: Surface
    ends: np.ndarray

    @property
    def vertices(self) -> np.ndarray:
        """Coordinates of the first nodes, the distinct rows, [n, q]."""
        assert self.surface.coordinates is not None
        return self.surface.coordinates[: len(self.surface.nodes) - len(self.ends)]


def chart_mesh(
    chart: LearnedChart, latent: np.ndarray, sd: np.ndarray, rows: np.ndarray,
    origin: np.ndarray | float, scale: np.ndarray | float, unit: float,
) -> ChartMesh:  # fmt: skip
    """The mesh of a chart whose rows [N, p], in units of the model, have coordinates `latent` with `sd`, [N, q] each.

    A row of the data is (row of the model) · scale · unit + origin.
    """
    mapping = chart.mapping
    points, cells, ends, frame = _refined(chart, latent)
    n = len(points) - len(ends)
    row_of = cKDTree(latent @ frame.T).query(points[:n] @ frame.T)[1]  # a row at each of the first nodes
    nodes = (evaluate(mapping, "mean", points) - np.asarray(origin) / unit) / scale
    step = neighbours.spacing(rows)
    usual = np.quantile(step, USUAL)
    away = np.linalg.norm(rows[row_of] - nodes[:n], axis=1)
    limit = np.quantile(away, USUAL) + FAR * np.clip(step, usual, SPARSE * usual)[row_of]
    axes = np.linalg.svd(rows, full_matrices=False)[2].T if rows.shape[1] > len(rows) else None
    if axes is not None:
        nodes, rows = nodes @ axes, rows @ axes
    surface = Surface(
        nodes, cells, rows[row_of], with_middles(limit, ends), origin, np.asarray(scale) * unit, axes,
        points, with_middles(sd[row_of], ends) if sd.any() else None, frame,
    )  # fmt: skip
    return ChartMesh(surface, ends)


def coordinate_mesh(chart: LearnedChart, rows: np.ndarray) -> ChartMesh:
    """The mesh of a learned chart whose rows [N, q] are coordinates in it: the data space is the chart itself."""
    points, cells, ends, frame = _refined(chart, rows)
    return ChartMesh(Surface(points @ frame.T, cells, axes=frame.T, coordinates=points, frame=frame), ends)


def with_middles(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Values [n, ...] of the first nodes, and for every further node the mean of those at the two ends of its side."""
    first = n = len(values)
    while n < first + len(ends):  # a middle may be an end of a later side
        later = np.flatnonzero(ends[n - first :].max(1) >= n)
        stop = n + int(later[0]) if len(later) else first + len(ends)
        values = np.concatenate([values, values[ends[n - first : stop - first]].mean(1)])
        n = stop
    return values


def _refined(chart: LearnedChart, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates of the nodes [V, q], cells, the two ends of the side of each node that is a middle, and the frame."""
    boundary, q = chart.boundary, latent.shape[1]
    if q > MOST_CELL_DIM:
        return latent, np.zeros((0, q + 1), int), np.zeros((0, 2), int), np.eye(q)
    if not isinstance(boundary, CorridorBoundary):
        boundary = corridor_boundary(np.random.default_rng(0), chart.mapping, latent)
    whole = complex_of(boundary.at(float(boundary.max_level)))
    points, cells, lines = whole.vertices, whole.simplices, whole.corridors[whole.bridge == 0]
    ends = np.zeros((0, 2), int)
    for _ in range(HALVINGS[q]):
        if len(points) >= NODES:
            break
        points, cells, lines, middles = halved(points, cells, lines)
        ends = np.concatenate([ends, middles])
    lonely = np.setdiff1d(np.arange(len(whole.vertices)), np.concatenate([cells.ravel(), lines.ravel()]))
    return points, as_cells(cells, np.concatenate([lines, lonely[:, None].repeat(2, 1)])), ends, whole.frame
