"""A mesh of a chart inside its boundary, for finite elements (q = 1, 2, 3).

Grid lines are graded so that cells are about equally long on the surface along each coordinate. A chart that
fills its box gets the plain grid; otherwise grid edges that cross the boundary are cut there (by bisection), and
the inside nodes and the cuts are triangulated together. Opposite ends of a periodic coordinate are glued.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy.spatial import Delaunay

from .geometry import Chart, evaluate
from .geometry.straight import probe

MAX_DIM = 3
MAX_GRID_NODES = 4_000_000


@dataclass(frozen=True)
class Mesh:
    """Nodes [n, q] in chart coordinates and simplices [K, q + 1]."""

    nodes: np.ndarray
    simplices: np.ndarray


@dataclass(frozen=True)
class Size:
    """What a mesh is planned from: graded lines, mean lengths of the box's sides, and the volume inside."""

    lines: list[np.ndarray]  # for each coordinate, positions at equal steps of surface length
    lengths: np.ndarray
    volume: float


def measure(chart: Chart) -> Size:
    """Grade the coordinates of a chart and measure its volume, on a coarse grid."""
    q = chart.dim
    if q > MAX_DIM:
        raise ValueError(
            f"the chart has {q} dimensions, but finite elements are offered for at most {MAX_DIM}; "
            "use method='brownian'"
        )
    G, cell, counts, sums = probe(chart)
    n = counts.shape[1]
    volume = cell * float(np.sqrt(np.linalg.det(G)).sum())
    lines, lengths = [], []
    for a, (low, high) in enumerate(np.asarray(chart.bounds, float)):
        density = sums[a] / np.maximum(counts[a], 1)
        density = np.where(counts[a] > 0, density, sums[a].sum() / counts[a].sum())
        density = np.maximum(density, 0.05 * density.mean())
        travelled = np.concatenate([[0.0], np.cumsum(density)])
        fine = np.linspace(0, travelled[-1], 4097)
        lines.append(np.interp(fine, travelled, np.linspace(low, high, n + 1)))
        lengths.append(density.mean() * (high - low))
    return Size(lines, np.array(lengths), volume)


def make_mesh(chart: Chart, size: Size, step: float) -> Mesh:
    """A mesh of simplices about `step` long on the surface."""
    counts = np.maximum(np.ceil(size.lengths / step).astype(int), 3)
    if np.prod(counts + 1.0) > MAX_GRID_NODES:
        raise MemoryError(
            f"a mesh with steps of {step:.3g} needs {int(np.prod(counts + 1.0))} grid nodes; "
            "ask for larger times, fewer modes or a looser boundary level"
        )
    shape = tuple(int(c) + 1 for c in counts)
    index = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, len(shape))

    def position(places: np.ndarray) -> np.ndarray:
        return np.stack(
            [
                np.interp(places[:, a] / counts[a], np.linspace(0, 1, len(line)), line)
                for a, line in enumerate(size.lines)
            ],
            1,
        )

    places = index.astype(float)
    inside = evaluate(chart, "inside", position(places))
    if inside.all():
        simplices = _box_simplices(shape)
    else:
        places = _cut(chart, position, index, inside, shape)
        if len(shape) == 1:
            order = np.argsort(places[:, 0])
            simplices = np.stack([order[:-1], order[1:]], 1)
        else:
            simplices = Delaunay(places, qhull_options="Qbb Qc Q12 QJ Pp").simplices
        within = evaluate(chart, "inside", position(places[simplices].mean(1)))
        corners = places[simplices]
        volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / factorial(len(shape))
        short = np.ptp(corners, axis=1).max(1) < 2.5  # no simplex may bridge a gap
        simplices = simplices[within & short & (volume > 1e-4)]
    used, simplices = np.unique(simplices, return_inverse=True)
    # Corners in ascending order, as skfem keeps them: the order of the unknowns follows from it.
    return Mesh(position(places[used]), np.sort(simplices.reshape(-1, len(shape) + 1), axis=1))


def _box_simplices(shape: tuple[int, ...]) -> np.ndarray:
    """Each cell of a grid of nodes cut into q! simplices (Kuhn): conforming, and glued ends match."""
    from itertools import permutations

    q = len(shape)
    stride = np.array([int(np.prod(shape[a + 1 :])) for a in range(q)])
    base = np.stack(np.meshgrid(*[np.arange(n - 1) for n in shape], indexing="ij"), -1).reshape(-1, q) @ stride
    cells = []
    for order in permutations(range(q)):
        corner = np.concatenate([[0], np.cumsum(stride[list(order)])])
        cells.append(base[:, None] + corner)
    return np.concatenate(cells)


def _cut(chart, position, index, inside, shape):
    """Places of the nodes inside and of the points where grid edges cross the boundary."""
    flags = inside.reshape(shape)
    cuts, close = [], np.zeros(shape, bool)
    for a in range(len(shape)):
        first = [slice(None)] * len(shape)
        second = list(first)
        first[a], second[a] = slice(None, -1), slice(1, None)
        crossing = np.argwhere(flags[tuple(first)] != flags[tuple(second)])
        if not len(crossing):
            continue
        step = np.zeros(len(shape))
        step[a] = 1.0
        forward = flags[tuple(crossing.T)]
        low = np.where(forward[:, None], crossing, crossing + step)  # the end that is inside
        high = np.where(forward[:, None], crossing + step, crossing)
        for _ in range(20):
            middle = 0.5 * (low + high)
            within = evaluate(chart, "inside", position(middle))[:, None]
            low, high = np.where(within, middle, low), np.where(within, high, middle)
        origin = np.where(forward[:, None], crossing, crossing + step).astype(int)
        near = np.abs(low - origin).max(1) < 0.2  # a node so close to a cut makes slivers: the cut replaces it
        close[tuple(origin[near].T)] = True
        cuts.append(low)
    nodes = index[inside & ~close.ravel()].astype(float)
    return np.concatenate([nodes, *cuts]) if cuts else nodes
