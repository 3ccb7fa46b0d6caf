"""Tables of a chart's geometry, which paths read instead of the chart itself.

For q ≤ 3 drift [q], root [q, q] and depth are tabulated on a grid and interpolated multilinearly. The depth is the
distance to the boundary in the chart's coordinates, negative outside; its gradient is the boundary's normal. The grid
is refined until the interpolation error of the root, relative to the root, is below TABLE_ERROR at all but one in a
hundred of points inside, and at most MISPLACED of the points in its cells are on the wrong side of its boundary. The
table carries the errors that it reaches, and a warning is given if those of the largest table are too large.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import ndimage
from scipy.spatial import KDTree

from ..basics.checks import NoSurface
from ..manifold import Chart, drift, evaluate, inverse_root
from ..persistence.programs import cached_programs

TABLE_ERROR = 2e-3
MISPLACED = 0.01  # fraction of points in cells that touch the inside: the volume is then right to a percent
TOO_FEW = 0.1  # fraction of misplaced points above which narrow parts of the domain are lost, which needs a warning
PROBES = 1000  # points at which a table is checked
TABLE_SIZES = {1: (256, 1024, 4096), 2: (64, 128, 256, 512), 3: (24, 48, 96)}
SMOOTH = 1.0  # cells over which the fraction inside is smoothed for the direction of the boundary
NEAR = 1.5  # cells along the boundary up to which it is taken to be flat

Geometry = tuple[Array, Array, Array, Array]  # drift [q], root [q, q], depth and its gradient [q]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["low", "high", "values", "error", "misplaced"],
    meta_fields=["periodic"],
)
@dataclass(frozen=True)
class Table:
    """Drift [q], root [q, q] and depth at the nodes of a grid: values [n, ..., n, q + q² + 1 or more].

    A row is padded to a power of two: aligned rows are read faster.
    """

    low: Any
    high: Any
    values: Any
    periodic: tuple[bool, ...]
    error: Any = np.nan  # relative error of the root, at all but one in a hundred of points inside
    misplaced: Any = np.nan  # fraction of points that are on the wrong side of the table's boundary


def tabulate(chart: Chart, n: int | None = None) -> Table:
    """A table of the chart with n nodes per coordinate, by default as many as the error bound needs."""
    q = chart.dim
    if q not in TABLE_SIZES:
        raise NoSurface(f"a chart of {q} dimensions cannot be tabulated (at most 3); use direct evaluation")
    for size in (n,) if n else TABLE_SIZES[q]:
        table = _checked(chart, *_table(chart, size))
        if table.error < TABLE_ERROR and table.misplaced < MISPLACED:
            return table
    if np.isnan(table.error):
        raise NoSurface(
            f"no node of a table with {size} nodes per coordinate is inside the boundary: the domain is too narrow "
            "to be tabulated; loosen the boundary level or pass tabulated=False"
        )
    if n is None and (table.error > TABLE_ERROR or table.misplaced > TOO_FEW):
        warnings.warn(
            f"the largest table of the geometry ({size} nodes per coordinate) has an error of {table.error:.2%} in its "
            f"step (target {TABLE_ERROR:.2%}), and {table.misplaced:.1%} of the points in its cells are on the wrong "
            f"side of its boundary (target {MISPLACED:.0%}); tabulated=False is exact, and slow",
            stacklevel=3,
        )
    return table


def _checked(chart: Chart, table: Table, partly: np.ndarray) -> Table:
    """The table with its errors, which are measured at random points around the nodes `partly` inside, [n, ..., n]."""
    q = chart.dim
    shape = np.array(table.values.shape[:q])
    low, high = np.asarray(chart.bounds, float).T
    nodes = np.argwhere(partly)
    if not len(nodes):
        return table
    rng = np.random.default_rng(0)
    positions = nodes[rng.integers(len(nodes), size=4 * PROBES)] + rng.uniform(-0.5, 0.5, (4 * PROBES, q))
    probes = np.clip(low + positions / (shape - 1) * (high - low), low, high)
    inside = evaluate(chart, "inside", probes)
    with jax.enable_x64(True), cached_programs():
        _, root, depth, _ = jax.vmap(partial(lookup, table))(jnp.asarray(probes))
    chosen = np.flatnonzero(inside)[:PROBES]
    if not len(chosen):
        return table
    exact = evaluate(chart, inverse_root, probes[chosen])
    error = np.linalg.norm(np.asarray(root)[chosen] - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
    return replace(table, error=np.quantile(error, 0.99), misplaced=np.mean((np.asarray(depth) >= 0) != inside))


def _table(chart: Chart, n: int) -> tuple[Table, np.ndarray]:
    """A table, and which of its nodes have cells that are partly inside, [n, ..., n]."""
    q = chart.dim
    low, high = np.asarray(chart.bounds, float).T
    # Nodes stay a hair away from the box's faces, where an analytic metric may be singular (poles).
    margin = 1e-6 * (high - low)
    axes = [np.linspace(a + e, b - e, n) for a, b, e in zip(low, high, margin, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, q)
    cell = (high - low) / (n - 1)
    fraction = _fraction_inside(chart, points, cell, n)
    inside = (fraction > 0).reshape((n,) * q)
    # Cells at the edge have corners outside. These have the chart's values, or else those of the nearest node inside.
    useful = np.flatnonzero(ndimage.binary_dilation(inside, np.ones((3,) * q)))
    values = np.zeros((len(points), q + q * q + 1))
    values[useful, :q] = evaluate(chart, drift, points[useful])
    values[useful, q:-1] = evaluate(chart, inverse_root, points[useful]).reshape(-1, q * q)
    sound = np.isfinite(values).all(1).reshape(inside.shape)
    if not sound.all() and (sound & inside).any():
        nearest = ndimage.distance_transform_edt(~(sound & inside), return_distances=False, return_indices=True)
        home = np.ravel_multi_index(tuple(nearest), inside.shape).ravel()
        values = np.where(sound.reshape(-1, 1), values, values[home])
    values[:, -1] = _depth(fraction.reshape(inside.shape), points, cell, tuple(chart.periodic)).ravel()
    values = np.pad(values, ((0, 0), (0, 2 ** int(np.ceil(np.log2(values.shape[1]))) - values.shape[1])))
    return Table(low, high, values.reshape(*(n,) * q, -1), tuple(chart.periodic)), inside


def _fraction_inside(chart: Chart, points: np.ndarray, cell: np.ndarray, n: int) -> np.ndarray:
    """The fraction of each node's cell that is inside, [nodes]."""
    q = points.shape[1]
    inside = evaluate(chart, "inside", points).astype(float)
    field = inside.reshape((n,) * q)
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
    m = 5
    offsets = np.array(list(product((np.arange(m) + 0.5) / m - 0.5, repeat=q))) * cell
    fine = (points[at_edge][:, None] + offsets).reshape(-1, q)
    low, high = np.asarray(chart.bounds, float).T
    fine = np.clip(fine, low, high)
    inside[at_edge] = evaluate(chart, "inside", fine).reshape(len(at_edge), -1).mean(1)
    return inside


def _depth(fraction: np.ndarray, points: np.ndarray, cell: np.ndarray, periodic: tuple[bool, ...]) -> np.ndarray:
    """Signed distance of each node to the boundary, the contour of ½ of the fraction inside, [n, ..., n].

    The contour crosses some of the edges between neighbouring nodes. A node next to it has the distance to the plane
    through the nearest crossing, any other node that to the crossing itself. The box is not part of it.
    """
    q, shape = fraction.ndim, fraction.shape
    modes = ["wrap" if wraps else "nearest" for wraps in periodic]
    smooth = ndimage.gaussian_filter(fraction, SMOOTH, mode=modes)
    slope = np.stack(np.gradient(smooth, *cell) if q > 1 else [np.gradient(smooth, cell[0])], -1).reshape(-1, q)
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
        return sign.reshape(shape) * float(np.max(cell * np.array(shape)))
    for a in range(q):
        if periodic[a]:
            turn = np.eye(q)[a] * cell[a] * (shape[a] - 1)
            at, normal = np.concatenate([at, at - turn, at + turn]), np.tile(normal, (3, 1))
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    distance, nearest = KDTree(at).query(points)
    offset = points - at[nearest]
    across = np.sum(offset * normal[nearest], 1)
    beside = np.linalg.norm((offset - across[:, None] * normal[nearest]) / cell, axis=1)
    return (sign * np.where(beside <= NEAR, np.abs(across), distance)).reshape(shape)


def lookup(table: Table, x: Array) -> Geometry:
    """Drift, root, depth and its gradient at one point x [q], interpolated multilinearly in a table."""
    q = x.shape[-1]
    shape = table.values.shape[:q]
    scale = (np.array(shape) - 1) / (table.high - table.low)
    position = (x - table.low) * scale
    cell = jnp.clip(jnp.floor(position).astype(jnp.int32), 0, np.array(shape) - 2)
    within = jnp.clip(position - cell, 0.0, 1.0).astype(x.dtype)
    flat = jnp.asarray(table.values).reshape(-1, table.values.shape[-1])
    stride = np.array([int(np.prod(shape[a + 1 :])) for a in range(q)], np.int32)
    base = jnp.sum(cell * stride)
    found: Any = 0.0
    normal: list[Any] = [0.0] * q
    for corner in product((0, 1), repeat=q):
        values = flat[base + int(np.dot(corner, stride))]
        sides = [within[a] if c else 1 - within[a] for a, c in enumerate(corner)]
        found = found + prod(sides) * values
        for a, c in enumerate(corner):
            others = prod(side for b, side in enumerate(sides) if b != a)
            normal[a] = normal[a] + (1 if c else -1) * scale[a] * others * values[q + q * q]
    depth, gradient = walls(table, x, found[q + q * q], jnp.stack(normal).astype(x.dtype))
    return found[:q], found[q : q + q * q].reshape(q, q), depth, gradient


def walls(box: Any, x: Array, depth: Array, gradient: Array) -> tuple[Array, Array]:
    """Depth and gradient at x [q] in a domain that ends at the faces of its box (low, high, periodic), too."""
    for a, periodic in enumerate(box.periodic):
        if not periodic:
            for wall, side in ((x[a] - box.low[a], 1.0), (box.high[a] - x[a], -1.0)):
                nearer = wall < depth
                depth = jnp.where(nearer, wall, depth)
                gradient = jnp.where(nearer, side * jnp.eye(len(x), dtype=x.dtype)[a], gradient)
    return depth, gradient
