"""Brownian motion on a chart: weak Euler steps of eq. (eqnBM), reflected at the boundary.

    x ← x - 2 d γ / (n·γ),   γ = G⁻¹ n,    where the depth d of x is negative (outside); n is the depth's gradient
    x ← x + drift(x) dt + √dt G(x)^{-1/2} z

A kernel is an expectation over paths, and for expectations z need not be normal: its moments up to the fifth must be
those of a normal number. Four values ζ do (`increment`), which take three random bits of a word that serves several
steps. The sum of the n increments of a leg is √n w, with w normal: where r steps remain, and R of the sum,

    z = R / r + √(1 - 1/r) ζ

a Brownian bridge. These z are an orthogonal transform of w and the ζ, so that they have the same moments. As w is
continuous, paths do not end on a lattice where the metric is constant: where a path is mirrored, R is mirrored with it,
and in a flat box it ends where x + √(n dt) w is folded into the box. The w of a block of paths are not drawn one by one
but spread evenly (a Sobol sequence, shifted by a random number of the block's own): most of where a path ends depends
on w, so that kernels have a fraction of the noise of independent paths.

A step that ends outside is mirrored at the boundary along γ, which is orthogonal to it on the surface, when the next
step begins: one look at the geometry serves both, since outside it is that of the mirrored point (`table`). The error
in law is then of order dt (Bossy, Gobet and Talay 2004), while drawing again until a proposal is inside (algorithm 1 of
the paper) has an error of order √dt. In corners and in corridors narrower than a step one mirror may not suffice; the
next steps go on from there. At the end of a leg up to MIRRORS are tried, and paths that are still outside are counted.
A chart without a table has a depth at the faces of its box only; elsewhere a step that ends outside is not taken, and
its error is of order √dt.

Paths come in blocks: block b of start i is simulated from the key folded by i and by b, so that results do not depend
on how blocks are divided among batches, workers or devices.

For q ≤ 3 the geometry is read from a table (`table`), and paths run in float32. They take the same random numbers in
float64, and their ends differ by less than a thousandth of a step (`tests/test_heat.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import qmc

from ..basics.device import accelerated, compiled
from ..manifold import Chart, drift, evaluate, grid, inverse_root
from ..persistence.programs import cached_programs
from .table import TABLE_SIZES, Coordinates, Geometry, Table, lookup, tabulate

MIRRORS = 4  # at the end of a leg
WITHOUT_TABLE = 20_000  # steps of a single path, up to which making a table takes longer than it saves
BLOCK = 2000  # paths
AT_ONCE = 2**15  # paths that are simulated together: they stay in a processor's cache
AT_ONCE_ON_DEVICE = 2**22
SMALL_STEP = 0.02  # length of a step by default, as a fraction of the domain's shortest side
STEP_CHANGE = 0.2  # the largest change of the metric (relative) that one step may meet

LEADING = 256  # coordinates of a Sobol sequence; further ones would be no more even than random numbers
BITS, COORDINATES = 3, 10  # random bits of an increment, and how many increments a word of 32 bits has
# ±LARGE with probability 1/4 and ±SMALL with 3/4: variance 1, fourth moment 3.
SMALL = np.sqrt(1 - np.sqrt(2 / 3))
LARGE = np.sqrt(4 - 3 * SMALL**2)


# Paths, where they were one step before, and how far they have to go in the rest of the leg, in steps.
Bridged = tuple[Coordinates, Coordinates, Coordinates]


@partial(jax.tree_util.register_dataclass, data_fields=["chart", "low", "high"], meta_fields=["periodic"])
@dataclass(frozen=True)
class Direct:
    """A chart without a table, and its box."""

    chart: Chart
    low: Any
    high: Any
    periodic: tuple[bool, ...]


def direct(geometry: Direct, x: Coordinates) -> Geometry:
    """The geometry of the chart itself at points x; without a normal, but at the faces of its box."""
    chart, q = geometry.chart, len(x)
    within = tuple(
        each if wraps else jnp.clip(each, low, high)
        for each, low, high, wraps in zip(x, geometry.low, geometry.high, geometry.periodic, strict=True)
    )
    at = jnp.stack(within, -1).reshape(-1, q)
    mean, root, inside = jax.vmap(lambda point: (drift(chart, point), inverse_root(chart, point), chart.inside(point)))(
        at
    )
    mean, root, inside = (each.reshape(*x[0].shape, *each.shape[1:]) for each in (mean, root, inside))
    depth = jnp.where(inside, jnp.inf, -jnp.inf)
    normal = [jnp.zeros_like(each) for each in x]
    for a, wraps in enumerate(geometry.periodic):
        if not wraps:
            for wall, side in ((x[a] - geometry.low[a], 1.0), (geometry.high[a] - x[a], -1.0)):
                nearer = wall < depth
                depth = jnp.where(nearer, wall, depth)
                normal = [jnp.where(nearer, side * (a == b), old) for b, old in enumerate(normal)]
    rows = tuple(tuple(root[..., a, b] for b in range(q)) for a in range(q))
    across = [sum(r * n for r, n in zip(row, normal, strict=True)) for row in rows]
    slope = sum(c**2 for c in across)
    scale = jnp.where(slope > 0, 1 / jnp.where(slope > 0, slope, 1), 0)
    direction = tuple(scale * sum(r * c for r, c in zip(row, across, strict=True)) for row in rows)
    return tuple(mean[..., a] for a in range(q)), rows, depth, tuple(normal), direction


@partial(jax.tree_util.register_dataclass, data_fields=["geometry"], meta_fields=["at"])
@dataclass(frozen=True)
class Motion:
    """A chart prepared for paths: `at(geometry, x)` gives its `table.Geometry` at points."""

    geometry: Table | Direct
    at: Callable[[Any, Coordinates], Geometry]

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


def motion(chart: Chart, *, tabulated: bool | None = None, dtype: Any = np.float32) -> Motion:
    """Prepare a chart: tabulated (default for q ≤ 3, paths in `dtype`) or evaluated directly (float64)."""
    tabulated = chart.dim in TABLE_SIZES if tabulated is None else tabulated
    if not tabulated:
        low, high = np.asarray(chart.bounds, float).T
        return Motion(Direct(chart, low, high, tuple(chart.periodic)), direct)
    table = tabulate(chart)
    return Motion(replace(table, low=table.low.astype(dtype), high=table.high.astype(dtype)), lookup)


def leg(
    moving: Motion, key: Array, x: Coordinates, dt: Array, count: Array, first: Array, w: Coordinates | None = None
) -> tuple[Coordinates, Array]:  # fmt: skip
    """Paths x (q arrays [n]) after `count` steps, and how many of them are outside.

    `first` is the number of the leg's first step, by which random numbers are folded; `w` are normal numbers, in which
    direction and how far paths go in all. None: they are drawn.
    """
    if w is None:
        normals = jax.random.normal(jax.random.fold_in(totals_of(key), first), (len(x), *x[0].shape), jnp.float32)
        w = tuple(normals.astype(x[0].dtype))
    look = partial(moving.at, moving.geometry)
    remaining = tuple(each * jnp.sqrt(count.astype(x[0].dtype)) for each in w)
    x, before, _ = bridged_steps(moving, key, (x, x, remaining), dt, count, first)

    def mirror(x: Coordinates, turn: None) -> tuple[Coordinates, None]:
        _, _, depth, normal, direction = look(x)
        return _wrap(moving, mirrored(x, before, depth, normal, direction)), None

    ends, _ = jax.lax.scan(mirror, x, length=MIRRORS)
    return ends, jnp.sum(look(ends)[2] < 0, dtype=jnp.int32)


def step(
    look: Callable[[Coordinates], Geometry], box: Any, state: Bridged, increments: Coordinates, left: Array, dt: Array
) -> Bridged:
    """One step of paths, of which `left` remain in the leg, from increments ζ; `box` has the chart's ends."""
    x, before, remaining = state
    mean, root, depth, normal, direction = look(x)
    x, remaining = mirrored(x, before, depth, normal, direction), turned(remaining, root, depth, normal)
    part = 1 / jnp.asarray(left, x[0].dtype)
    z = tuple(part * rest + jnp.sqrt(1 - part) * each for rest, each in zip(remaining, increments, strict=True))
    sd = jnp.sqrt(dt)
    moved = []
    for a in range(len(x)):
        # Where the metric nearly vanishes the drift is huge: it is limited to the size of the noise.
        most = sd * jnp.sqrt(sum(r**2 for r in root[a]))
        noise = sd * sum(r * each for r, each in zip(root[a], z, strict=True))
        moved.append(x[a] + jnp.clip(dt * mean[a], -most, most) + noise)
    return _wrap(box, tuple(moved)), x, tuple(rest - each for rest, each in zip(remaining, z, strict=True))


def turned(remaining: Coordinates, root: tuple[Coordinates, ...], depth: Array, normal: Coordinates) -> Coordinates:
    """What remains of increments, mirrored with the paths that are outside: R - 2 (ν·R) ν, with ν = G^{-1/2} n."""
    across = tuple(sum(r * n for r, n in zip(row, normal, strict=True)) for row in root)
    square = sum(c**2 for c in across)
    outside = (depth < 0) & (square > 0)
    along = sum(c * rest for c, rest in zip(across, remaining, strict=True)) / jnp.where(outside, square, 1)
    twice = jnp.where(outside, 2 * along, 0)
    return tuple(rest - twice * c for rest, c in zip(remaining, across, strict=True))


def totals_of(key: Array) -> Array:
    """The key of the normal numbers w of a block, beside those of its steps."""
    return jax.random.fold_in(key, np.uint32(2**32 - 1))


def bridged_steps(
    moving: Motion, key: Array, state: Bridged, dt: Array, count: Array, first: Array
) -> Bridged:  # fmt: skip
    """The steps of a leg. Words of random bits are drawn from the key folded by the number of the first step that they
    serve."""
    look = partial(moving.at, moving.geometry)
    q, dtype = len(state[0]), state[0][0].dtype
    per_word, words = steps_per_word(q), -(-q // COORDINATES)

    def of_word(number: Array, state: Bridged) -> Bridged:
        done = number * per_word
        bits = jax.random.bits(jax.random.fold_in(key, first + done), (words, *state[0][0].shape), jnp.uint32)

        def one(j: Array, state: Bridged) -> Bridged:
            increments = tuple(
                increment(bits[a // COORDINATES] >> (BITS * (j * q + a % COORDINATES)), dtype) for a in range(q)
            )
            return step(look, moving, state, increments, count - done - j.astype(jnp.int32), dt)

        return jax.lax.fori_loop(
            0, jnp.minimum(per_word, count - done), lambda j, s: one(jnp.asarray(j, jnp.uint32), s), state
        )

    return jax.lax.fori_loop(0, -(-count // per_word), of_word, state)


def steps_per_word(q: int) -> int:
    """How many steps in q dimensions a word of random bits serves."""
    return max(COORDINATES // q, 1)


def increment(bits: Array, dtype: Any) -> Array:
    """A number with the first five moments of a normal one, from the three lowest of random bits."""
    size = jnp.where((bits & 6) == 0, np.asarray(LARGE, dtype), np.asarray(SMALL, dtype))
    return jnp.where((bits & 1) == 0, size, -size)


def mirrored(x: Coordinates, before: Coordinates, depth: Array, normal: Coordinates, direction: Coordinates) -> Any:
    """The ends x of steps, mirrored at the boundary where they are outside; `before` where that has no normal."""
    known = sum(n * along for n, along in zip(normal, direction, strict=True)) > 0
    # A depth without a normal may be infinite.
    twice = jnp.where(known, 2 * depth, 0)
    return tuple(
        jnp.where(depth < 0, jnp.where(known, each - twice * along, old), each)
        for each, old, along in zip(x, before, direction, strict=True)
    )


def _wrap(moving: Motion, x: Coordinates) -> Coordinates:
    ends = zip(x, moving.low, moving.high, moving.periodic, strict=True)
    return tuple(low + jnp.mod(each - low, high - low) if wraps else each for each, low, high, wraps in ends)


@partial(compiled, static_argnames=("n_paths", "record"))
def simulate(
    moving: Motion,
    keys: Array,
    starts: Array,
    dts: Array,
    counts: Array,
    extra: Any,
    n_paths: int,
    record: Callable[[Array, Array, Any], Array],
    even: Any = None,
) -> tuple[Array, Array]:
    """Simulate blocks of n_paths from starts [u, q], one key each, with record(x, leg number, extra) after each leg.

    Leg j takes counts[j] steps of dts[j]. Points `even` of the unit cube, [legs, q, n_paths], say where the legs of the
    paths lead (see `spread`); None: these are drawn one by one. Returns what `record` makes of the positions
    [n_paths, q] of a block, [u, legs, ...], and how many paths were outside when that was done, [u].
    """

    def block(key: Array, start: Array) -> tuple[Array, Array]:
        def one_leg(state: tuple[Coordinates, Array, Array], settings: tuple[Array, Array, Array]) -> Any:
            x, first, outside = state
            dt, count, number = settings
            w = None if even is None else spread(totals_of(key), jnp.asarray(even)[number], number, x[0].dtype)
            x, more = leg(moving, key, x, dt, count, first, w)
            return (x, first + count, outside + more), record(jnp.stack(x, -1), number, extra)

        x = tuple(jnp.broadcast_to(each, n_paths) for each in start)
        zero = jnp.asarray(0, jnp.int32)
        (_, _, outside), recorded = jax.lax.scan(one_leg, (x, zero, zero), (dts, counts, jnp.arange(len(dts))))
        return recorded, outside

    return jax.vmap(block)(keys, starts)


def spread(key: Array, points: Array, number: Array, dtype: Any) -> Coordinates:
    """Normal numbers, q arrays [n], at points [q, n] of the unit cube that are shifted at random, around its ends."""
    shift = jax.random.uniform(jax.random.fold_in(key, number), (len(points), 1), jnp.float32)
    moved = points + shift
    quantiles = jnp.clip(moved - jnp.floor(moved), 2.0**-25, 1 - 2.0**-24)
    return tuple(jax.scipy.special.ndtri(quantiles).astype(dtype))


def evenly(n_paths: int, legs: int, q: int) -> np.ndarray:
    """Points of the unit cube that fill it evenly, [legs, q, n_paths]: a Sobol sequence, random beyond LEADING."""
    leading = min(legs * q, LEADING)
    points = qmc.Sobol(leading, scramble=True, seed=0).random_base2(int(np.ceil(np.log2(max(n_paths, 2)))))[:n_paths]
    others = np.random.default_rng(0).random((n_paths, legs * q - leading))
    return np.concatenate([points, others], 1).T.reshape(legs, q, n_paths).astype(np.float32)


def at_once(block: int, units: int) -> int:
    """How many blocks to simulate together, of which there are `units`."""
    return max(1, min((AT_ONCE_ON_DEVICE if accelerated() else AT_ONCE) // block, units))


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
        return y, jnp.concatenate(y)

    return jax.lax.scan(one, tuple(x.T), jnp.arange(n_steps, dtype=jnp.int32))[1]


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
