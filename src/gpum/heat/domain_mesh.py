"""A mesh of a chart inside its boundary, for finite elements (q = 1, 2, 3).

Grid lines are graded so that cells are about equally long on the surface along each coordinate. A chart that
fills its box gets the plain grid. Otherwise the grid is halved, and halved again, where the domain is thinner than
half a cell; grid lines are cut where they cross the boundary (by bisection), and the nodes inside and the cuts are
triangulated together. Opposite ends of a periodic coordinate are glued.

Positions are coordinates in units of the coarsest grid's cells. How thin the domain is comes from a raster of it: at a
position it is at least 2r thick if some ball of radius r inside the domain holds that position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import factorial

import numpy as np
from scipy import ndimage

from ..basics import neighbours
from ..basics.checks import NoSurface
from ..manifold import Chart, evaluate
from ..manifold.chart import lattice
from ..manifold.gaps import simplices as delaunay
from ..manifold.straight import probe
from ..manifold.surface import Surface

MAX_DIM = 3
MAX_GRID_NODES = 2_000_000
RASTER = {1: 4000, 2: 500_000, 3: 1_000_000}  # cells of the raster in all
ACROSS = 8  # least number of the raster's cells along each coordinate
DEPTH = 3  # how many times the grid is halved, at most
SLOWEST = 0.25  # least speed of a coordinate, over its mean speed, which bounds the distance of grid lines
THIN = 0.25  # where the domain holds a ball of this radius (half a cell across) the grid is not halved
SLIVER = 0.2  # in cells: a node as close to a cut makes elements with an angle below about ten degrees
LONGEST = (
    2.5  # cells: neighbours in one mesh are at most a cell's diagonal apart, with halving at its edge less than this
)
FLAT = 1e-3  # least volume of an element, over that of a cube of half its length; below, its points are in line
RASTER_ROOM = 1.5  # raster cells that a side may pass outside: the error of the raster's boundary, diagonally
BULGE = 0.1  # fraction of its length that a side may pass outside, as a chord across a curved edge

Inside = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class DomainMesh:
    """Nodes [n, q] in chart coordinates and simplices [K, q + 1]."""

    nodes: np.ndarray
    simplices: np.ndarray
    n_connected_components: int = 1
    torn: bool = False  # has more connected components than the domain: it is too coarse for a narrow link


@dataclass(frozen=True)
class Size:
    """The measures of a chart that a mesh is made from."""

    lines: list[np.ndarray]  # for each coordinate, positions at equal steps of surface length
    lengths: np.ndarray  # mean lengths of the box's sides on the surface
    volume: float  # inside the boundary
    raster: np.ndarray  # which cells of a fine grid between the lines are inside
    n_connected_components: int = 1  # of the domain, as far as the raster resolves it

    def coordinates(self, fractions: np.ndarray) -> np.ndarray:
        """Chart coordinates of points given as fractions of the lengths, [n, q]."""
        even = np.linspace(0, 1, len(self.lines[0]))
        return np.stack([np.interp(fractions[:, a], even, line) for a, line in enumerate(self.lines)], 1)


def measure(chart: Chart) -> Size:
    """Grade the coordinates of a chart and measure its volume, on a coarse grid."""
    q = chart.dim
    if q > MAX_DIM:
        raise NoSurface(
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
        density = np.maximum(density, SLOWEST * density.mean())
        travelled = np.concatenate([[0.0], np.cumsum(density)])
        fine = np.linspace(0, travelled[-1], 4097)
        lines.append(np.interp(fine, travelled, np.linspace(low, high, n + 1)))
        lengths.append(density.mean() * (high - low))
    size = Size(lines, np.array(lengths), volume, np.zeros(0))
    cells, left = np.zeros(q, int), float(RASTER[q])
    for k, a in enumerate(np.argsort(lengths)):  # cells are cubes, but at least ACROSS span a thin box
        count = max(lengths[a] * (left / np.prod(np.sort(lengths)[k:])) ** (1 / (q - k)), ACROSS)
        cells[a], left = int(count), left / count
    middles = lattice((np.arange(n) + 0.5) / n for n in cells)
    raster = evaluate(chart, "inside", size.coordinates(middles)).reshape(cells)
    return replace(size, raster=raster, n_connected_components=_raster_components(raster))


def finest(size: Size) -> float:
    """The smallest step with which the grid of the box has no more than MAX_GRID_NODES nodes."""
    low, high = 0.0, float(size.lengths.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.prod(_counts(size, middle) + 1.0) > MAX_GRID_NODES else (low, middle)
    return high


def _counts(size: Size, step: float) -> np.ndarray:
    """Cells of the grid along each coordinate."""
    return np.maximum(np.ceil(size.lengths / max(step, 1e-300)), 3)


def _raster_components(raster: np.ndarray) -> int:
    """The number of the domain's connected components; 1 where it is unclear: a finer raster still joins some."""
    together = np.ones((3,) * raster.ndim)
    fine, coarse = (ndimage.label(r, together)[1] for r in (raster, raster[(slice(None, None, 2),) * raster.ndim]))
    return fine if coarse <= fine else 1


def make_mesh(chart: Chart, size: Size, step: float) -> DomainMesh:
    """A mesh of simplices about `step` long on the surface, shorter where the domain is narrow."""
    counts = _counts(size, step).astype(int)
    if np.prod(counts + 1.0) > MAX_GRID_NODES:
        raise NoSurface(
            f"a mesh with steps of {step:.3g} needs a grid of {' × '.join(map(str, counts))} cells; "
            "ask for larger times, fewer modes or a looser boundary level"
        )

    def inside(positions: np.ndarray) -> np.ndarray:
        return evaluate(chart, "inside", size.coordinates(positions / counts))

    raster = size.raster
    if raster.all():
        positions, simplices = lattice(np.arange(n + 1.0) for n in counts), _box_simplices(tuple(counts + 1))
        n_components = 1
    else:
        cell = counts / raster.shape  # size of the raster's cells
        level = _levels(raster, cell)
        nodes = _nodes(level, counts)
        positions = _with_cuts(nodes[inside(nodes)], _cuts(inside, level, counts), level, counts)
        simplices = delaunay(positions)
        simplices = simplices[_belongs(inside, positions[simplices], raster, cell)]
        n_components = Surface(positions, simplices).n_connected_components
    used, simplices = np.unique(simplices, return_inverse=True)
    simplices = simplices.reshape(-1, len(counts) + 1)
    nodes = size.coordinates(positions[used] / counts)
    return DomainMesh(nodes, simplices, n_components, n_components > size.n_connected_components)


def _box_simplices(shape: tuple[int, ...]) -> np.ndarray:
    """Each cell of a grid of nodes cut into q! simplices (Kuhn): conforming, and glued ends match."""
    q = len(shape)
    stride = np.array([int(np.prod(shape[a + 1 :])) for a in range(q)])
    base = lattice(np.arange(n - 1) for n in shape) @ stride
    cells = []
    for order in permutations(range(q)):
        corner = np.concatenate([[0], np.cumsum(stride[list(order)])])
        cells.append(base[:, None] + corner)
    return np.concatenate(cells)


def _at(field: np.ndarray, positions: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """A raster's value at each position."""
    index = np.minimum((positions * (field.shape / counts)).astype(int), np.array(field.shape) - 1)
    return field[tuple(index.T)]


def _distance(flags: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Distance of each raster cell to the nearest one that is flagged."""
    return ndimage.distance_transform_edt(~flags, sampling=cell) if flags.any() else np.full(flags.shape, np.inf)


def _levels(raster: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """How often the grid is halved at each raster cell."""
    inner = (slice(1, -1),) * raster.ndim
    deep = _distance(~np.pad(raster, 1), cell)[inner]
    level = np.zeros(raster.shape, int)
    for k in range(1, DEPTH + 1):
        radius = THIN / 2 ** (k - 1)
        if radius < cell.max():  # the raster does not resolve it
            break
        thin = raster & (_distance(deep >= radius, cell) > radius)
        level[_distance(thin, cell) <= 2.0**-k] = k  # and a little around it, so that sizes change gradually
    return level


def _nodes(level: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Nodes of the grid, halved where `level` says so."""
    levels = [lattice(np.arange(n + 1.0) for n in counts)]
    for k in range(1, level.max() + 1):
        positions = lattice(np.arange(n * 2**k + 1) / 2**k for n in counts)
        levels.append(positions[_at(level, positions, counts) >= k])
    return np.unique(np.concatenate(levels), axis=0)


def _cuts(inside: Inside, level: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Where grid lines, halved where `level` says so, cross the boundary."""
    low, high = [], []
    for k in range(level.max() + 1):
        for a in range(len(counts)):
            axes = [np.arange(n * 2**k + 1) / 2**k for n in counts]
            axes[a] = np.arange(counts[a] * 2 ** (k + 2) + 1) / 2 ** (
                k + 2
            )  # also where the domain is narrow between two nodes
            shape = tuple(map(len, axes))
            positions = lattice(axes)
            here = _at(level, positions, counts) == k
            flags = np.full(len(positions), -1, np.int8)
            flags[here] = inside(positions[here])
            positions = np.moveaxis(positions.reshape(*shape, -1), a, 0)
            flags = np.moveaxis(flags.reshape(shape), a, 0)
            for one, two in ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))):
                crossing = (flags[one] == 1) & (flags[two] == 0)
                low.append(positions[one][crossing])
                high.append(positions[two][crossing])
    near, far = np.concatenate(low), np.concatenate(high)
    for _ in range(16 if len(near) else 0):
        middle = 0.5 * (near + far)
        within = inside(middle)[:, None]
        near, far = np.where(within, middle, near), np.where(within, far, middle)
    return near


def _with_cuts(nodes: np.ndarray, cuts: np.ndarray, level: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Nodes and cuts together, without nodes so close to a cut that they make slivers."""
    if not len(cuts) or not len(nodes):
        return np.concatenate([nodes, cuts])
    near = SLIVER / 2.0 ** _at(level, nodes, counts)
    return np.concatenate([nodes[neighbours.nearest(cuts, 1, nodes)[0][:, 0] > near], cuts])


def _belongs(inside: Inside, corners: np.ndarray, raster: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Which simplices [K, q + 1, q] belong to the domain: they are inside, not flat, and no side crosses a gap."""
    q = corners.shape[2]
    longest = np.ptp(corners, axis=1).max(1)
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / factorial(q)
    good = (longest < LONGEST) & (volume > FLAT * (longest / 2) ** q)
    outside, counts = _distance(raster, cell), cell * raster.shape
    for i, j in combinations(range(q + 1), 2):
        a, b = corners[:, i], corners[:, j]
        allowed = RASTER_ROOM * cell.max() + BULGE * np.linalg.norm(a - b, axis=1)
        for t in (0.25, 0.5, 0.75):
            good &= _at(outside, a + t * (b - a), counts) <= allowed
    good[good] = inside(corners[good].mean(1))
    return good
