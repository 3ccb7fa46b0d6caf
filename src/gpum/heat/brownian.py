"""Brownian motion on a chart: Euler steps of eq. (eqnBM) with rejection at the boundary (algorithm 1).

    x ← x + drift(x) dt + √dt G(x)^{-1/2} z,    z ~ N(0, I)

A proposal outside the boundary is drawn again without advancing the path's time, at most TRIES times in a row; then the
path waits where it is for this step, and such steps are counted. Every path has its own clock, so that no path is
delayed by another. Paths come in blocks: block b of start i is simulated from the key folded by i and by b, so that
results do not depend on how blocks are divided among batches, workers or devices.

For q ≤ 3 drift, root and inside are tabulated once on a grid and interpolated multilinearly; the grid is refined
until the interpolation error of the root, relative to the root, is below TABLE_ERROR at all but one in a hundred of
points inside, and at most MISPLACED of the points in its cells are on the wrong side of its boundary. The table
carries the errors that it reaches, and a warning is given if those of the largest table are too large.
Paths then run in float32: positions are exact to 1e-7 of the chart's extent, far below one step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import ndimage

from ..basics.checks import NoSurface
from ..manifold import Chart, drift, evaluate, grid, inverse_root
from ..persistence.programs import cached_programs

TRIES = 4
WITHOUT_TABLE = 20_000  # steps of a single path, up to which making a table takes longer than it saves
BLOCK = 2000  # paths
TABLE_ERROR = 2e-3
MISPLACED = 0.01  # fraction of points in cells that touch the inside: the volume is then right to a percent
TOO_FEW = 0.1  # fraction of misplaced points above which narrow parts of the domain are lost, which needs a warning
PROBES = 1000  # points at which a table is checked
SMALL_STEP = 0.02  # fraction of the domain's shortest side: steps distort the density in a layer of this width
TABLE_SIZES = {1: (256, 1024, 4096), 2: (64, 128, 256, 512), 3: (24, 48, 96)}
STEP_CHANGE = 0.2  # the largest change of the metric (relative) that one step may meet


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["low", "high", "values", "error", "misplaced"],
    meta_fields=["periodic"],
)
@dataclass(frozen=True)
class Table:
    """Drift [q], root [q, q] and the fraction inside, at the nodes of a grid: values [n, ..., n, q + q² + 1 or more].

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
        table = _checked(chart, _table(chart, size))
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


def _checked(chart: Chart, table: Table) -> Table:
    """The table with its errors, which are measured at random points around the nodes that are partly inside."""
    q = chart.dim
    shape = np.array(table.values.shape[:q])
    low, high = np.asarray(chart.bounds, float).T
    nodes = np.argwhere(table.values[..., q + q * q] > 0)
    if not len(nodes):
        return table
    rng = np.random.default_rng(0)
    positions = nodes[rng.integers(len(nodes), size=4 * PROBES)] + rng.uniform(-0.5, 0.5, (4 * PROBES, q))
    probes = np.clip(low + positions / (shape - 1) * (high - low), low, high)
    inside = evaluate(chart, "inside", probes)
    with jax.enable_x64(True), cached_programs():
        _, root, found = jax.vmap(partial(lookup, table))(jnp.asarray(probes))
    chosen = np.flatnonzero(inside)[:PROBES]
    if not len(chosen):
        return table
    exact = evaluate(chart, inverse_root, probes[chosen])
    error = np.linalg.norm(np.asarray(root)[chosen] - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
    return replace(table, error=np.quantile(error, 0.99), misplaced=np.mean(np.asarray(found) != inside))


def _table(chart: Chart, n: int) -> Table:
    q = chart.dim
    low, high = np.asarray(chart.bounds, float).T
    # Nodes stay a hair away from the box's faces, where an analytic metric may be singular (poles).
    margin = 1e-6 * (high - low)
    axes = [np.linspace(a + e, b - e, n) for a, b, e in zip(low, high, margin, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, q)
    fraction = _fraction_inside(chart, points, (high - low) / (n - 1), n)
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
    values[:, -1] = fraction
    values = np.pad(values, ((0, 0), (0, 2 ** int(np.ceil(np.log2(values.shape[1]))) - values.shape[1])))
    return Table(low, high, values.reshape(*(n,) * q, -1), tuple(chart.periodic))


def _fraction_inside(chart: Chart, points: np.ndarray, cell: np.ndarray, n: int) -> np.ndarray:
    """The fraction of each node's cell that is inside; its ½ contour follows the boundary better than the grid."""
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


def lookup(table: Table, x: Array) -> tuple[Array, Array, Array]:
    """Drift, root and inside at one point x [q], interpolated multilinearly in a table."""
    q = x.shape[-1]
    shape = table.values.shape[:q]
    position = (x - table.low) / (table.high - table.low) * (np.array(shape) - 1)
    cell = jnp.clip(jnp.floor(position).astype(jnp.int32), 0, np.array(shape) - 2)
    within = jnp.clip(position - cell, 0.0, 1.0).astype(x.dtype)
    flat = jnp.asarray(table.values).reshape(-1, table.values.shape[-1])
    stride = np.array([int(np.prod(shape[a + 1 :])) for a in range(q)], np.int32)
    base = jnp.sum(cell * stride)
    found: Any = 0.0
    for corner in product((0, 1), repeat=q):
        weight: Any = 1.0
        for a, c in enumerate(corner):
            weight = weight * (within[a] if c else 1 - within[a])
        found = found + weight * flat[base + int(np.dot(corner, stride))]
    in_box = jnp.all(np.asarray(table.periodic) | ((x >= table.low) & (x <= table.high)))
    return found[:q], found[q : q + q * q].reshape(q, q), in_box & (found[q + q * q] >= 0.5)


def direct(chart: Chart, x: Array) -> tuple[Array, Array, Array]:
    """Drift, root and inside at one point x [q], evaluated on the chart itself."""
    return drift(chart, x), inverse_root(chart, x), chart.inside(x)


@partial(jax.tree_util.register_dataclass, data_fields=["geometry", "low", "high"], meta_fields=["at", "periodic"])
@dataclass(frozen=True)
class Motion:
    """A chart prepared for paths: `at(geometry, x)` gives drift, root and inside."""

    geometry: Any
    low: Any
    high: Any
    at: Callable[[Any, Array], tuple[Array, Array, Array]]
    periodic: tuple[bool, ...]

    @property
    def errors(self) -> tuple[float, float]:
        """The relative error of the table's root, and the fraction of misplaced points; both 0 without a table."""
        table = self.geometry
        return (float(table.error), float(table.misplaced)) if isinstance(table, Table) else (0.0, 0.0)


def motion(chart: Chart, *, tabulated: bool | None = None, dtype: Any = np.float32) -> Motion:
    """Prepare a chart: tabulated (default for q ≤ 3, in `dtype`) or evaluated directly (float64)."""
    tabulated = chart.dim in TABLE_SIZES if tabulated is None else tabulated
    low, high = np.asarray(chart.bounds, float).T
    periodic = tuple(chart.periodic)
    if not tabulated:
        return Motion(chart, low, high, direct, periodic)
    table = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), tabulate(chart))
    return Motion(table, low.astype(dtype), high.astype(dtype), lookup, periodic)


def leg(moving: Motion, key: Array, x: Array, dt: Array, count: Array, first: Array, tries: int) -> tuple:
    """Advance paths x [n, q] by `count` steps; their positions, iterations so far, and how many steps were waited.

    Iteration k draws from the key folded by k, beginning at `first`.
    """
    look = jax.vmap(partial(moving.at, moving.geometry))
    sd = jnp.sqrt(dt)

    def iterate(state):
        k, x, mean, root, done, failed, waited = state
        z = jax.random.normal(jax.random.fold_in(key, k), x.shape, x.dtype)
        # Where the metric nearly vanishes the drift is huge: it is limited to the size of the noise.
        most = sd * jnp.sqrt(jnp.sum(root**2, -1))
        new = _wrap(moving, x + jnp.clip(dt * mean, -most, most) + sd * jnp.einsum("nab,nb->na", root, z))
        new_mean, new_root, inside = look(new)
        active = done < count
        ok = inside & active
        failed = jnp.where(ok, 0, failed + 1).astype(jnp.int8)
        wait = active & (failed >= tries)
        x, mean, root = (
            jnp.where(ok.reshape(-1, *(1,) * (old.ndim - 1)), now, old)
            for now, old in ((new, x), (new_mean, mean), (new_root, root))
        )
        failed = jnp.where(wait, 0, failed).astype(jnp.int8)
        return (
            k + 1,
            x,
            mean,
            root,
            done + (ok | wait).astype(jnp.int32),
            failed,
            waited + jnp.sum(wait, dtype=jnp.int32),
        )

    mean, root, _ = look(x)
    zero = jnp.zeros(len(x), jnp.int32)
    state = first, x, mean, root, zero, zero.astype(jnp.int8), jnp.asarray(0, jnp.int32)
    k, x, *_, waited = jax.lax.while_loop(lambda s: jnp.any(s[4] < count), iterate, state)
    return x, k, waited


def _wrap(moving: Motion, x: Array) -> Array:
    if not any(moving.periodic):
        return x
    low, high = jnp.asarray(moving.low), jnp.asarray(moving.high)
    return jnp.where(np.asarray(moving.periodic), low + jnp.mod(x - low, high - low), x)


@partial(jax.jit, static_argnames=("n_paths", "record", "tries", "add", "at_once"))
def simulate(
    moving: Motion,
    keys: Array,
    starts: Array,
    dts: Array,
    counts: Array,
    extra: Any,
    n_paths: int,
    record: Callable[[Array, Array, Any], Array],
    tries: int = TRIES,
    add: bool = False,
    at_once: int = 1,
) -> tuple[Array, Array]:
    """Simulate blocks of n_paths from starts [u, q], one key each, with record(x, leg number, extra) after each leg.

    Leg j takes counts[j] steps of dts[j]. Returns what `record` makes of the positions [n_paths, q] of a block,
    [u, legs, ...], and how many steps were waited, [u]; with `add` the sums over blocks. `at_once` blocks are simulated
    together, which is faster for small ones.
    """

    def block(args):
        key, start = args

        def one_leg(state, settings):
            x, first, waited = state
            dt, count, number = settings
            x, first, more = leg(moving, key, x, dt, count, first, tries)
            return (x, first, waited + more), record(x, number, extra)

        x = jnp.broadcast_to(start, (n_paths, start.shape[0]))
        zero = jnp.asarray(0, jnp.int32)
        (_, _, waited), recorded = jax.lax.scan(one_leg, (x, zero, zero), (dts, counts, jnp.arange(len(dts))))
        return recorded, waited

    if add:  # one block after the other; only their sum is stored
        shape = jax.eval_shape(block, (keys[0], starts[0]))
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
        return jax.lax.scan(lambda total, one: (jax.tree.map(jnp.add, total, block(one)), None), zero, (keys, starts))[
            0
        ]
    return jax.lax.map(block, (keys, starts), batch_size=at_once if at_once > 1 else None)


def block_keys(key: Array, starts: np.ndarray, blocks: np.ndarray) -> Array:
    """The key of block b of start i for each pair (i, b), [u]."""
    return jax.vmap(lambda i, b: jax.random.fold_in(jax.random.fold_in(key, i), b))(
        jnp.asarray(starts, jnp.uint32), jnp.asarray(blocks, jnp.uint32)
    )


def path(chart: Chart, start: Any, time: float, key: Array, n_steps: int = 1000) -> np.ndarray:
    """One path with all its positions, [n_steps + 1, q], for plots."""
    moving = motion(chart, tabulated=None if n_steps > WITHOUT_TABLE else False)
    with jax.enable_x64(True), cached_programs():
        x = jnp.asarray(np.asarray(start, float)[None], moving.low.dtype)
        positions = _positions(moving, key, x, jnp.asarray(time / n_steps, x.dtype), n_steps)
        return np.concatenate([np.asarray(x), np.asarray(positions)]).astype(float)


@partial(jax.jit, static_argnames="n_steps")
def _positions(moving, key, x, dt, n_steps):
    """The positions of a path from x [1, q] after each step, [n_steps, q]; one program for all paths of a chart."""

    def one(state, _):
        y, first = state
        y, first, _ = leg(moving, key, y, dt, jnp.asarray(1), first, TRIES)
        return (y, first), y[0]

    return jax.lax.scan(one, (x, jnp.asarray(0, jnp.int32)), None, length=n_steps)[1]


def step_size(chart: Chart) -> float:
    """The default time step: over one step the metric changes by at most STEP_CHANGE, and the step is small against
    the domain.

    The rate of change of the metric per unit of surface length is |root ∂G root| along the steepest direction; its
    95 % quantile inside is used, since it is infinite at the edges of some charts.
    """
    points, _ = grid(chart, {1: 500, 2: 40, 3: 15}.get(chart.dim, 5))
    points = points[evaluate(chart, "inside", points)]
    roots = evaluate(chart, inverse_root, points)
    slopes = evaluate(chart, "metric_derivative", points)
    per_length = np.einsum("nxa,nabl,nby,nlz->nxyz", roots, slopes, roots, roots)
    rate = float(np.quantile(np.sqrt(np.sum(per_length**2, axis=(1, 2, 3))), 0.95))
    extent = np.sqrt(np.einsum("naa->na", np.linalg.inv(roots) ** 2).mean(0)) * np.ptp(np.asarray(chart.bounds), axis=1)
    small = SMALL_STEP * float(extent.min())
    return min((STEP_CHANGE / max(rate, 1e-12)) ** 2, small**2)
