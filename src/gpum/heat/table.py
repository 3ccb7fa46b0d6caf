"""Tables of a chart's geometry, which paths read instead of the chart itself.

For q ≤ 3 the chart's box is divided into n^q cells, with some more beyond its faces, and a path reads one row of the
table, that of the middle of its cell:

    drift [q], root [q, q] (symmetric: its upper triangle), depth d, normal n [q], direction γ/(n·γ) [q]

Drift and root are constant in a cell. What they miss has mean zero over the cell, so that over many cells only its
square remains: this is the error of the table. The depth is the distance to the boundary in the chart's coordinates,
negative outside, and the normal its gradient; a path at x is at the depth d + n·(x - middle). Cells outside have the
direction γ = G⁻¹n of the boundary point below them, at which paths are mirrored, and drift and root of the point to
which these go.

The table is refined until its error is below TABLE_ERROR at all but one in a hundred of points inside, and at most
MISPLACED of the points in its cells are on the wrong side of its boundary. The table carries the errors that it
reaches, and a warning is given if those of the largest table are too large.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import ndimage
from scipy.spatial import KDTree

from ..basics.checks import NoSurface
from ..manifold import Chart, drift, evaluate, inverse_root
from ..manifold.chart import lattice
from ..persistence.programs import cached_programs

TABLE_ERROR = 2e-3
# Fraction of points in cells that touch the inside. Those on one side and on the other cancel, so that the volume is
# more exact. In three dimensions, where most of a domain is near its boundary, cells of half the size misplace little
# less than half as many points, for eight times the work.
MISPLACED = {1: 0.01, 2: 0.01, 3: 0.03}
TOO_FEW = 0.1  # fraction of misplaced points above which narrow parts of the domain are lost, which needs a warning
PROBES = 1000  # points at which a table is checked
TABLE_SIZES = {1: (256, 1024, 4096), 2: (128, 256, 512), 3: (24, 48, 96)}
SMOOTH = 1.0  # cells over which the fraction inside is smoothed for the direction of the boundary
MARGIN = 1 / 12  # of the box, by which the table extends beyond each of its faces
WITHIN = 25  # points, about, at which the fraction inside of a cell at the boundary is measured
CLOSE = 8.0  # cells from the boundary up to which distances are exact: far away their sign is what counts
NEAR = 1.5  # cells along the boundary up to which it is taken to be flat

Coordinates = tuple[Array, ...]  # of many points: one array for each of the q coordinates
# Drift, root, depth, its gradient, and the direction of mirrors: across it the depth changes by 1 per unit.
Geometry = tuple[Coordinates, tuple[Coordinates, ...], Array, Coordinates, Coordinates]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["low", "high", "values", "error", "misplaced"],
    meta_fields=["periodic"],
)
@dataclass(frozen=True)
class Table:
    """Drift, root [q (q + 1) / 2], depth, normal and direction in the cells of a grid: values [n, ..., n, columns]."""

    low: Any
    high: Any
    values: Any
    periodic: tuple[bool, ...]
    error: Any = np.nan  # squared relative error of the root, at all but one in a hundred of points inside
    misplaced: Any = np.nan  # fraction of points that are on the wrong side of the table's boundary


def tabulate(chart: Chart) -> Table:
    """A table of the chart, with as many cells per coordinate of its box as the error bound needs."""
    q = chart.dim
    if q not in TABLE_SIZES:
        raise NoSurface(f"a chart of {q} dimensions cannot be tabulated (at most 3); use direct evaluation")
    for size in TABLE_SIZES[q]:
        table = _checked(chart, *_table(chart, size))
        if table.error < TABLE_ERROR and table.misplaced < MISPLACED[q]:
            return table
    if np.isnan(table.error):
        raise NoSurface(
            f"no cell of a table with {size} cells per coordinate is inside the boundary: the domain is too narrow "
            "to be tabulated; loosen the boundary level or pass tabulated=False"
        )
    if table.error > TABLE_ERROR or table.misplaced > TOO_FEW:
        warnings.warn(
            f"the largest table of the geometry ({size} cells per coordinate) has an error of {table.error:.2%} in its "
            f"step (target {TABLE_ERROR:.2%}), and {table.misplaced:.1%} of the points in its cells are on the wrong "
            f"side of its boundary (target {MISPLACED[q]:.0%}); tabulated=False is exact, and slow",
            stacklevel=3,
        )
    return table


def _checked(chart: Chart, table: Table, partly: np.ndarray) -> Table:
    """The table with its errors, which are measured at random points of the cells `partly` inside, [n, ..., n]."""
    q = chart.dim
    cells = np.argwhere(partly)
    if not len(cells):
        return table
    rng = np.random.default_rng(0)
    positions = cells[rng.integers(len(cells), size=4 * PROBES)] + rng.uniform(0, 1, (4 * PROBES, q))
    probes = table.low + positions / table.values.shape[:q] * (table.high - table.low)
    inside = evaluate(chart, "inside", probes)
    with jax.enable_x64(True), cached_programs():
        _, rows, depth, _, _ = lookup(table, tuple(jnp.asarray(probes.T)))
        root, within = np.stack([np.stack(row, -1) for row in rows], -1), np.asarray(depth) >= 0
    chosen = np.flatnonzero(inside)[:PROBES]
    if not len(chosen):
        return table
    exact = evaluate(chart, inverse_root, probes[chosen])
    error = np.linalg.norm(root[chosen] - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
    return replace(table, error=np.quantile(error, 0.99) ** 2, misplaced=np.mean(within != inside))


def _table(chart: Chart, n: int) -> tuple[Table, np.ndarray]:
    """A table, and which of its cells are partly inside, [n, ..., n]."""
    q, periodic = chart.dim, tuple(chart.periodic)
    box = np.asarray(chart.bounds, float)
    cell = (box[:, 1] - box[:, 0]) / n
    beyond = np.where(periodic, 0, int(np.ceil(MARGIN * n)))
    low, high, shape = box[:, 0] - beyond * cell, box[:, 1] + beyond * cell, tuple(int(m) for m in n + 2 * beyond)
    axes = [a + h * (np.arange(m) + 0.5) for a, h, m in zip(low, cell, shape, strict=True)]
    points = lattice(axes)
    fraction = _fraction_inside(chart, points, cell, shape)
    partly = ((fraction > 0) & np.all((points > box[:, 0]) & (points < box[:, 1]), axis=1)).reshape(shape)
    upper = np.triu_indices(q)
    values = np.full((len(points), q + len(upper[0])), np.nan)
    useful = np.flatnonzero(partly)
    values[useful, :q] = evaluate(chart, drift, points[useful])
    values[useful, q:] = evaluate(chart, inverse_root, points[useful])[:, *upper]
    sound = np.isfinite(values).all(1)
    if not sound.any():
        sound[:], values[:] = True, 0.0  # no cell is inside: the caller is told by the table's errors
    nearest = ndimage.distance_transform_edt(~sound.reshape(shape), cell, return_distances=False, return_indices=True)
    values = values[np.ravel_multi_index(tuple(nearest), shape).ravel()]
    edge = _depth(fraction.reshape(shape), points, cell, periodic)
    depth, normal = _with_walls(points, box[:, 0], box[:, 1], periodic, *edge)

    def cell_at(places: np.ndarray) -> np.ndarray:
        index = np.clip(((places - low) / cell).astype(int), 0, np.array(shape) - 1)
        return np.ravel_multi_index(tuple(index.T), shape)

    def direction(values: np.ndarray, normal: np.ndarray) -> np.ndarray:
        root = np.zeros((len(values), q, q))
        root[:, *upper] = root[:, *upper[::-1]] = values[:, q:]
        flux = np.einsum("nab,nbc,nc->na", root, root, normal)
        slope = np.sum(flux * normal, 1, keepdims=True)
        return np.divide(flux, slope, out=np.zeros_like(flux), where=slope > 0)

    outside = np.flatnonzero(depth < 0)
    below = points[outside] - depth[outside, None] * direction(values[outside], normal[outside])
    at_boundary = direction(values[cell_at(below)], normal[outside])
    values[outside] = values[cell_at(points[outside] - 2 * depth[outside, None] * at_boundary)]
    along = direction(values, normal)
    along[outside] = at_boundary
    rows = np.column_stack([values, depth, normal, along]).astype(np.float32)
    return Table(low, high, rows.reshape(*shape, -1), periodic), partly


def _fraction_inside(chart: Chart, points: np.ndarray, cell: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The fraction of each cell that is inside, [cells]; a cell beyond the box is like those at its face."""
    q = points.shape[1]
    box = np.asarray(chart.bounds, float).T
    number = np.arange(len(points)).reshape(shape)
    in_box = np.all((points > box[0]) & (points < box[1]), axis=1).reshape(shape)
    within = tuple(slice(int(at.min()), int(at.max()) + 1) for at in np.nonzero(in_box))
    beyond = [(s.start, n - s.stop) for s, n in zip(within, shape, strict=True)]
    of_box = evaluate(chart, "inside", points[number[within].ravel()]).astype(float)
    inside = np.pad(of_box.reshape(number[within].shape), beyond, mode="edge").ravel()
    field = inside.reshape(shape)
    edge = np.zeros(field.shape, bool)
    for a in range(q):
        change = np.diff(field, axis=a) != 0
        before, after = [slice(None)] * q, [slice(None)] * q
        before[a], after[a] = slice(None, -1), slice(1, None)
        edge[tuple(before)] |= change
        edge[tuple(after)] |= change
    at_edge = np.flatnonzero(edge)
    if not len(at_edge):
        return inside
    m = round(WITHIN ** (1 / q))
    offsets = np.array(list(product((np.arange(m) + 0.5) / m - 0.5, repeat=q))) * cell
    fine = (points[at_edge][:, None] + offsets).reshape(-1, q)
    inside[at_edge] = evaluate(chart, "inside", np.clip(fine, *box)).reshape(len(at_edge), -1).mean(1)
    return inside


def _depth(
    fraction: np.ndarray, points: np.ndarray, cell: np.ndarray, periodic: tuple[bool, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Signed distance of each cell's middle to the boundary [cells], and its gradient [cells, q].

    The boundary is the contour of ½ of the fraction inside. It crosses some of the lines between neighbouring middles.
    A middle next to it has the distance to the plane through the nearest crossing, other close ones that to the
    crossing itself, and those far away that to the nearest middle on the other side. The box is not part of it.
    """
    q, shape = fraction.ndim, fraction.shape
    modes = ["wrap" if wraps else "nearest" for wraps in periodic]
    smooth = ndimage.gaussian_filter(fraction, SMOOTH, mode=modes)
    slope = _gradient(smooth, cell, periodic)
    number = np.arange(fraction.size).reshape(shape)
    crossings, normals = [], []
    for a in range(q):
        i, j = (np.take(number, range(*ends), a).ravel() for ends in ((shape[a] - 1,), (1, shape[a])))
        f, g = fraction.ravel()[i] - 0.5, fraction.ravel()[j] - 0.5
        cross = (f >= 0) != (g >= 0)
        i, j, along = i[cross], j[cross], (f[cross] / (f[cross] - g[cross]))[:, None]
        crossings.append(points[i] + along * (points[j] - points[i]))
        normals.append((1 - along) * slope[i] + along * slope[j])
    at, normal = np.concatenate(crossings), np.concatenate(normals)
    sign = np.where(fraction.ravel() >= 0.5, 1.0, -1.0)
    if not len(at):  # the box alone
        return sign * float(np.max(cell * np.array(shape))), np.zeros_like(points)
    for a in range(q):
        if periodic[a]:
            turn = np.eye(q)[a] * cell[a] * shape[a]
            at, normal = np.concatenate([at, at - turn, at + turn]), np.tile(normal, (3, 1))
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    depth = _distance(sign.reshape(shape) > 0, cell, periodic).ravel() - 0.5 * cell.mean()
    close = np.flatnonzero(depth < CLOSE * cell.max())
    distance, nearest = KDTree(at).query(points[close])
    offset = points[close] - at[nearest]
    across = np.sum(offset * normal[nearest], 1)
    beside = np.linalg.norm((offset - across[:, None] * normal[nearest]) / cell, axis=1)
    depth[close] = np.where(beside <= NEAR, np.abs(across), distance)
    depth *= sign
    return depth, _gradient(depth.reshape(shape), cell, periodic)


def _distance(side: np.ndarray, cell: np.ndarray, periodic: tuple[bool, ...]) -> np.ndarray:
    """Distance of each middle to the nearest one on the other side of the boundary, [n, ..., n]."""
    width = [int(np.ceil(CLOSE * cell.max() / h)) if wraps else 0 for h, wraps in zip(cell, periodic, strict=True)]
    padded = np.pad(side, [(min(w, n),) * 2 for w, n in zip(width, side.shape, strict=True)], mode="wrap")
    distance = sum(ndimage.distance_transform_edt(one, cell) for one in (padded, ~padded))
    return distance[tuple(slice(min(w, n), min(w, n) + n) for w, n in zip(width, side.shape, strict=True))]


def _gradient(field: np.ndarray, cell: np.ndarray, periodic: tuple[bool, ...]) -> np.ndarray:
    """Central differences of a field on a grid, [cells, q]."""
    padded = field
    for a, wraps in enumerate(periodic):
        padded = np.pad(padded, [(int(a == b),) * 2 for b in range(field.ndim)], mode="wrap" if wraps else "edge")
    inner = (slice(1, -1),) * field.ndim
    changes = []
    for a, wraps in enumerate(periodic):
        change = np.gradient(padded, cell[a], axis=a)[inner]
        if not wraps:  # one-sided at the box
            for end in (0, -1):
                change[(slice(None),) * a + (end,)] *= 2
        changes.append(change.ravel())
    return np.stack(changes, -1)


def _with_walls(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, periodic: tuple[bool, ...],
    depth: np.ndarray, normal: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Depth [n] and normal [n, q] in a domain that ends at the faces of its box, too."""
    for a, wraps in enumerate(periodic):
        if not wraps:
            for wall, side in ((points[:, a] - low[a], 1.0), (high[a] - points[:, a], -1.0)):
                nearer = wall < depth
                depth = np.where(nearer, wall, depth)
                normal = np.where(nearer[:, None], side * np.eye(len(low))[a], normal)
    return depth, normal


def lookup(table: Table, x: Coordinates) -> Geometry:
    """The geometry at points x: the row of each point's cell."""
    row, offsets = cell_of(table, x)
    rows = jnp.asarray(table.values).reshape(-1, table.values.shape[-1])
    values = rows.at[row].get(mode="promise_in_bounds").astype(x[0].dtype)
    return geometry_of([values[..., k] for k in range(values.shape[-1])], offsets)


def cell_of(table: Table, x: Coordinates) -> tuple[Array, Coordinates]:
    """The number of each point's cell, which is its row in the table, and where it lies from the cell's middle."""
    shape = table.values.shape[: len(x)]
    row: Any = 0
    offsets = []
    for a in range(len(x)):
        size = (table.high[a] - table.low[a]) / shape[a]
        cell = jnp.clip(jnp.floor((x[a] - table.low[a]) / size), 0, shape[a] - 1)
        row = row * shape[a] + cell.astype(jnp.int32)
        offsets.append(x[a] - (table.low[a] + (cell + 0.5) * size))
    return row, tuple(offsets)


def geometry_of(column: Sequence[Array], offsets: Coordinates) -> Geometry:
    """The geometry at points of cells, from the columns of the cells' rows and where the points lie in them."""
    q = len(offsets)
    upper = {
        (i, j): column[q + k] for k, (i, j) in enumerate(zip(*map(np.ndarray.tolist, np.triu_indices(q)), strict=True))
    }
    root = tuple(tuple(upper[min(a, b), max(a, b)] for b in range(q)) for a in range(q))
    at = q + len(upper)
    normal, direction = tuple(column[at + 1 : at + 1 + q]), tuple(column[at + 1 + q :])
    depth = column[at] + sum(n * offset for n, offset in zip(normal, offsets, strict=True))
    return tuple(column[:q]), root, depth, normal, direction
