"""Brownian motion on a chart: Euler steps of eq. (eqnBM), reflected at the boundary.

    y = x + drift(x) dt + √dt G(x)^{-1/2} z,    z ~ N(0, I)
    y ← y - 2 d γ / (n·γ),    γ = G⁻¹ n,    where the depth d of y is negative (outside); n is the depth's gradient

A step that ends outside is mirrored at the boundary along γ, which is orthogonal to it on the surface. The error in law
is then of order dt (Bossy, Gobet and Talay 2004), while drawing again until a proposal is inside (algorithm 1 of the
paper) has an error of order √dt. G⁻¹ is the mean of those at x and y, which cancels its change across the boundary.
In corners and in corridors narrower than a step it may take several mirrors. A path that is still outside after MIRRORS
of them waits where it is for this step, and such steps are counted. A chart without a table has a depth at the faces of
its box only; elsewhere a step that ends outside is turned around, and its error is of order √dt.

Paths come in blocks: block b of start i is simulated from the key folded by i and by b, so that results do not depend
on how blocks are divided among batches, workers or devices.

For q ≤ 3 the geometry is read from a table (`table`), and paths run in float32: positions are exact to 1e-7 of the
chart's extent, far below one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..basics.device import compiled
from ..manifold import Chart, drift, evaluate, grid, inverse_root
from ..persistence.programs import cached_programs
from .table import TABLE_SIZES, Geometry, Table, lookup, tabulate, walls

MIRRORS = 4  # of one step
WITHOUT_TABLE = 20_000  # steps of a single path, up to which making a table takes longer than it saves
BLOCK = 2000  # paths
SMALL_STEP = 0.02  # length of a step by default, as a fraction of the domain's shortest side
STEP_CHANGE = 0.2  # the largest change of the metric (relative) that one step may meet


@partial(jax.tree_util.register_dataclass, data_fields=["chart", "low", "high"], meta_fields=["periodic"])
@dataclass(frozen=True)
class Direct:
    """A chart without a table, and its box."""

    chart: Chart
    low: Any
    high: Any
    periodic: tuple[bool, ...]


def direct(geometry: Direct, x: Array) -> Geometry:
    """Drift and root at one point x [q] of the chart itself; a depth with a gradient at the faces of its box only."""
    chart = geometry.chart
    within = jnp.clip(x, geometry.low, geometry.high)
    depth = jnp.where(chart.inside(within), jnp.inf, -jnp.inf)
    depth, gradient = walls(geometry, x, depth, jnp.zeros_like(x))
    return drift(chart, within), inverse_root(chart, within), depth, gradient


@partial(jax.tree_util.register_dataclass, data_fields=["geometry"], meta_fields=["at"])
@dataclass(frozen=True)
class Motion:
    """A chart prepared for paths: `at(geometry, x)` gives drift, root, depth and its gradient."""

    geometry: Table | Direct
    at: Callable[[Any, Array], Geometry]

    @property
    def low(self) -> Any:
        """The lower ends of the box, [q], in the precision of the paths."""
        return self.geometry.low

    @property
    def high(self) -> Any:
        """The upper ends of the box, [q]."""
        return self.geometry.high

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Which coordinates are periodic."""
        return self.geometry.periodic

    @property
    def errors(self) -> tuple[float, float]:
        """The relative error of the table's root, and the fraction of misplaced points; both 0 without a table."""
        table = self.geometry
        return (float(table.error), float(table.misplaced)) if isinstance(table, Table) else (0.0, 0.0)


def motion(chart: Chart, *, tabulated: bool | None = None, dtype: Any = np.float32) -> Motion:
    """Prepare a chart: tabulated (default for q ≤ 3, in `dtype`) or evaluated directly (float64)."""
    tabulated = chart.dim in TABLE_SIZES if tabulated is None else tabulated
    if not tabulated:
        low, high = np.asarray(chart.bounds, float).T
        return Motion(Direct(chart, low, high, tuple(chart.periodic)), direct)
    return Motion(jax.tree.map(lambda leaf: np.asarray(leaf, dtype), tabulate(chart)), lookup)


def leg(moving: Motion, key: Array, x: Array, dt: Array, count: Array, first: Array) -> tuple[Array, Array]:
    """Paths x [n, q] after `count` steps, and how many steps were waited; step k draws from the key folded by k."""
    look = jax.vmap(partial(moving.at, moving.geometry))
    sd = jnp.sqrt(dt)

    def step(k: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        x, mean, root, waited = state
        z = jax.random.normal(jax.random.fold_in(key, k), x.shape, x.dtype)
        # Where the metric nearly vanishes the drift is huge: it is limited to the size of the noise.
        most = sd * jnp.sqrt(jnp.sum(root**2, -1))
        new = _wrap(moving, x + jnp.clip(dt * mean, -most, most) + sd * jnp.einsum("nab,nb->na", root, z))

        def reflect(found: tuple[Array, Array, Geometry]) -> tuple[Array, Array, Geometry]:
            turn, y, (_, its_root, depth, normal) = found
            y = _wrap(moving, jax.vmap(mirrored)(x, y, depth, normal, root, its_root))
            return turn + 1, y, look(y)

        outside = lambda found: (found[0] < MIRRORS) & jnp.any(found[2][2] < 0)
        _, new, (new_mean, new_root, depth, _) = jax.lax.while_loop(outside, reflect, (jnp.asarray(0), new, look(new)))
        moves = depth >= 0
        x, mean, root = (
            jnp.where(moves.reshape(-1, *(1,) * (old.ndim - 1)), now, old)
            for now, old in ((new, x), (new_mean, mean), (new_root, root))
        )
        return x, mean, root, waited + jnp.sum(~moves, dtype=jnp.int32)

    mean, root, _, _ = look(x)
    x, *_, waited = jax.lax.fori_loop(first, first + count, step, (x, mean, root, jnp.asarray(0, jnp.int32)))
    return x, waited


def mirrored(x: Array, y: Array, depth: Array, normal: Array, *roots: Array) -> Array:
    """The end y [q] of a step from x, mirrored at the boundary if it is outside, or turned around without a normal.

    The roots [q, q] are those whose G⁻¹ are averaged.
    """
    direction = sum(root @ (root.T @ normal) for root in roots)
    slope = normal @ direction
    known = slope > 0
    back = jnp.where(known, y - 2 * jnp.where(known, depth / jnp.where(known, slope, 1.0), 0.0) * direction, 2 * x - y)
    return jnp.where(depth < 0, back, y)


def _wrap(moving: Motion, x: Array) -> Array:
    if not any(moving.periodic):
        return x
    low, high = jnp.asarray(moving.low), jnp.asarray(moving.high)
    return jnp.where(np.asarray(moving.periodic), low + jnp.mod(x - low, high - low), x)


@partial(compiled, static_argnames=("n_paths", "record", "add", "at_once"))
def simulate(
    moving: Motion,
    keys: Array,
    starts: Array,
    dts: Array,
    counts: Array,
    extra: Any,
    n_paths: int,
    record: Callable[[Array, Array, Any], Array],
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
            x, more = leg(moving, key, x, dt, count, first)
            return (x, first + count, waited + more), record(x, number, extra)

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


@partial(compiled, static_argnames="n_steps")
def _positions(moving, key, x, dt, n_steps):
    """The positions of a path from x [1, q] after each step, [n_steps, q]; one program for all paths of a chart."""

    def one(y, k):
        y, _ = leg(moving, key, y, dt, jnp.asarray(1, jnp.int32), k)
        return y, y[0]

    return jax.lax.scan(one, x, jnp.arange(n_steps, dtype=jnp.int32))[1]


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
