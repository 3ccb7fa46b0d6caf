"""Heat kernels from Brownian paths.

Default: path histograms at t/2 from every point, combined by Chapman-Kolmogorov,

    K_t(x, y) = ∫ K_{t/2}(x, z) K_{t/2}(z, y) dz ≈ Σ_c h_x(c) h_y(c) / V_c,

with h_x(c) the fraction of the paths from x that are in cell c after t/2 and V_c the cell's volume: a Gram matrix,
symmetric and positive semi-definite whatever the noise. Two points in one cell of size h differ by h²/6 in variance
along each coordinate, as if the heat had flowed for h²/6 longer: paths run for (t - h²/6)/2, which leaves an error of
fourth order in h. A path meets itself, which adds about 1/(N V_c) to K_t(x, x), (2πt/h²)^{q/2}/N of a flat kernel's
peak: cells grow with t, and with the dimension.

The paper's estimator: the fraction of paths from x in a metric ball of radius ω around y after t, over its volume.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from math import ceil, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import ndimage
from scipy.stats import qmc

from ..basics import padding
from ..basics.checks import NoSurface
from ..basics.workers import results
from ..manifold import Chart, StraightChart, evaluate, magnification
from ..manifold.chart import lattice
from ..manifold.stars import ball
from ..persistence.programs import cached_programs
from . import brownian
from .table import Table

CELL_RATIO = 0.08  # a cell's squared size over the time, at least
MAX_CELL_RATIO = 1.0  # at most, where paths are few for the dimension
COARSE = 2.0  # above which a histogram no longer resolves the kernel
SELF_FRACTION = 0.01  # of a flat kernel's peak: what paths that meet themselves may add to K_t(x, x)
MAX_CELLS = 20_000
SUBCELLS = 4  # per coordinate, to integrate a cell's volume (2 above three dimensions)
EMPTY = 0.2  # of the median volume, below which a cell at the edge is too noisy to interpolate from


@dataclass(frozen=True)
class Plan:
    """Which paths to simulate: their starts and legs, and what to record of them."""

    moving: brownian.Motion
    starts: np.ndarray  # [n, q]
    dts: np.ndarray  # [legs]
    counts: np.ndarray  # [legs]
    n_blocks: int
    block: int
    seed: int
    record: Any
    extra: Any
    ids: np.ndarray | None = None  # what the random key of each start is folded by, instead of its index


def plan_legs(times: np.ndarray, largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step sizes, none above the leg's `largest`, and numbers of steps that reach the ascending times exactly."""
    spans = np.diff(np.concatenate([[0.0], times]))
    counts = np.maximum(np.ceil(spans / largest - 1e-9).astype(int), 1)
    return spans / counts, counts


def run(plan: Plan, n_jobs: int | None, by_block: bool) -> tuple[np.ndarray, float]:
    """What `record` counts, [starts, blocks, legs, ...], and the fraction of paths that were outside at that time.

    Unless `by_block`, the blocks of a start are added up into one, which bounds the memory. Tasks run in parallel; each
    block of each start has its own random key, so that results do not depend on how tasks are divided.
    """
    units = len(plan.starts) * plan.n_blocks
    size = brownian.at_once(plan.block, units)
    tasks = [np.arange(k, min(k + size, units)) for k in range(0, units, size)]
    totals: Any = None
    outside = 0
    even = brownian.evenly(plan.block, len(plan.dts), plan.starts.shape[1])
    # Roots of many metrics are one call of LAPACK, which waits for the threads that run compiled programs: two such
    # programs at the same time would wait for ever. So without a table there is one.
    jobs = n_jobs if isinstance(plan.moving.geometry, Table) else 1
    counted = results([partial(_run, plan, even, task, size) for task in tasks], jobs)
    for task, (counts, out) in zip(tasks, counted, strict=True):
        if totals is None:
            totals = np.zeros((len(plan.starts), plan.n_blocks if by_block else 1, *counts.shape[1:]), counts.dtype)
        start, block = np.divmod(task, plan.n_blocks)
        np.add.at(totals, (start, block if by_block else np.zeros_like(block)), counts)
        outside += int(out.sum())
    return totals, outside / (units * plan.block * len(plan.counts))


def _run(plan: Plan, even: np.ndarray, units: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of some blocks [units, legs, ...], and how many paths were outside; `size` blocks share one program."""
    dtype = plan.moving.low.dtype
    start, block = np.divmod(np.resize(units, size), plan.n_blocks)  # resize repeats them
    ids = start if plan.ids is None else plan.ids[start]
    with jax.enable_x64(bool(dtype == np.float64)), cached_programs():
        keys = brownian.block_keys(jax.random.key(plan.seed), ids, block)
        legs = jnp.asarray(plan.dts, dtype), jnp.asarray(plan.counts, jnp.int32)
        points = jnp.asarray(plan.starts[start], dtype)
        counts, outside = brownian.simulate(
            plan.moving, keys, points, *legs, plan.extra, plan.block, plan.record, even
        )  # fmt: skip
        return np.asarray(counts)[: len(units)], np.asarray(outside)[: len(units)]


@dataclass(frozen=True)
class Cells:
    """Cells of about equal size on the surface: edges of each coordinate, volumes [n_1, ..., n_q], mean sizes [q].

    `ratio` is the squared size that merged cells should have, over the time. A cell outside has volume 0; paths that
    end there (at most a sliver of it is inside) count for its `home`, the nearest cell inside, [cells].
    """

    edges: tuple[np.ndarray, ...]
    volumes: np.ndarray
    sizes: np.ndarray
    ratio: float
    home: np.ndarray

    def merged(self, time: float) -> tuple[int, ...]:
        """How many cells to merge along each coordinate for a kernel at this time (at least 8 remain)."""
        factor = np.sqrt(self.ratio * time) / self.sizes
        return tuple(int(np.clip(f, 1, max(n // 8, 1))) for f, n in zip(factor, self.volumes.shape, strict=True))

    def path_time(self, time: float) -> float:
        """The duration of paths for a kernel at this time: half of it, less the blur of the cells."""
        blur = float(np.mean((self.sizes * self.merged(time)) ** 2)) / 6
        return 0.5 * max(time - blur, 0.5 * time)


def make_cells(chart: StraightChart, smallest_time: float, n_paths: int) -> Cells:
    """Cells small against the kernel at the smallest time, and their volumes inside the boundary.

    In even coordinates they are a plain grid, of MAX_CELLS at most; a warning says if that is too coarse.
    """
    lengths = np.asarray(chart.lengths, float)
    ratio = float(np.clip(2 * pi / (SELF_FRACTION * n_paths) ** (2 / len(lengths)), CELL_RATIO, MAX_CELL_RATIO))
    counts = np.maximum(np.ceil(lengths / np.sqrt(ratio * smallest_time)), 4)
    counts = np.maximum((counts * min(1.0, (MAX_CELLS / np.prod(counts)) ** (1 / len(counts)))).astype(int), 4)
    sizes = lengths / counts
    if np.any(sizes**2 > COARSE * smallest_time):
        warnings.warn(
            f"the time {smallest_time:.3g} is too small for a histogram of at most {MAX_CELLS} cells in {len(counts)} "
            f"dimensions (cells are {sizes.max():.3g} long); use larger times or estimator='ball'",
            stacklevel=4,
        )
    edges = tuple(np.linspace(0, length, n + 1) for length, n in zip(lengths, counts, strict=True))
    n_sub = SUBCELLS if len(counts) <= 3 else 2
    middles = [(np.arange(n * n_sub) + 0.5) * h / n_sub for n, h in zip(counts, sizes, strict=True)]
    points = lattice(middles)
    inside = evaluate(chart, "inside", points)
    subvolumes = np.zeros(len(points))
    subvolumes[inside] = np.prod(sizes / n_sub) * evaluate(chart, magnification, points[inside])
    by_cell = subvolumes.reshape([k for n in counts for k in (int(n), n_sub)])
    volumes = by_cell.sum(tuple(range(1, 2 * len(counts), 2)))
    # A cell of which fewer than one subcell is inside is added to its nearest neighbour: a path may still reach it.
    with_volume = volumes[volumes > 0]
    if not len(with_volume):
        raise NoSurface(
            f"no cell of a histogram of {' × '.join(map(str, counts))} cells is inside the boundary; loosen the "
            "boundary level or use estimator='ball'"
        )
    sliver = volumes < np.median(with_volume) / n_sub ** len(counts)
    nearest = ndimage.distance_transform_edt(sliver, sizes, return_distances=False, return_indices=True)
    home = np.ravel_multi_index(tuple(nearest), volumes.shape).ravel()
    volumes = np.bincount(home, volumes.ravel(), volumes.size).reshape(volumes.shape)
    return Cells(edges, volumes, sizes, ratio, home)


def counted_in(cells: Cells, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `histogram` needs: sizes and numbers of cells along each coordinate, and a counter of 0.

    The counter is padded, so that domains of nearly the same size use the same compiled program.
    """
    counter = np.zeros(padding.size(cells.volumes.size, MAX_CELLS // 8), np.int32)
    return cells.sizes.astype(dtype), np.array(cells.volumes.shape, np.int32), counter


def histogram(x: Any, leg: Any, extra: Any) -> Any:
    """Counts of paths in each cell, [cells or more]."""
    sizes, numbers, counter = extra
    index: Any = 0
    for a in range(x.shape[1]):
        cell = jnp.clip(jnp.floor(x[:, a] / sizes[a]).astype(jnp.int32), 0, numbers[a] - 1)
        index = index * numbers[a] + cell
    return counter.at[index].add(1)


def in_balls(x: Any, leg: Any, extra: Any) -> Any:
    """Counts of paths in the ball of each target, [targets]."""
    targets, G, omega, low, high, periodic = extra
    d = x[:, None] - targets
    span = high - low
    d = jnp.where(periodic, d - span * jnp.round(d / span), d)
    return jnp.sum(jnp.einsum("nta,tab,ntb->nt", d, G, d) <= omega[leg] ** 2, 0)


def ball_radius(n_paths: int, q: int, times: np.ndarray) -> np.ndarray:
    """ω that balances the two errors of the ball estimator at the peak of a flat kernel.

    Monte Carlo: 1/√(N V K) relative, with V = v_q ω^q and K = (2πt)^{-q/2}; averaging over the ball:
    q ω²/(2 (q + 2) t) relative.
    """
    monte_carlo = (2 * pi * times) ** (q / 2) / (n_paths * ball(q))  # squared, times ω^q
    return (monte_carlo * (2 * (q + 2) * times / q) ** 2) ** (1 / (q + 4))


def ball_volumes(chart: Chart, targets: np.ndarray, G: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Riemannian volumes of the balls, as far as they are inside the boundary, [times, targets]."""
    q = targets.shape[1]
    unit = qmc.Sobol(q, scramble=True, seed=0).random(512) * 2 - 1
    unit = unit[np.sum(unit**2, 1) <= 1]
    roots = np.linalg.inv(np.linalg.cholesky(G)).transpose(0, 2, 1)
    volumes = []
    for w in omega:
        points = (targets[:, None] + w * np.einsum("tab,nb->tna", roots, unit)).reshape(-1, q)
        inside = evaluate(chart, "inside", points)
        density = np.zeros(len(points))
        density[inside] = evaluate(chart, magnification, points[inside])
        mean = density.reshape(len(targets), -1).mean(1)
        volumes.append(ball(q) * w**q * mean / np.sqrt(np.linalg.det(G)))
    return np.array(volumes)


def kernel_of_blocks(
    scaled: np.ndarray, starts: Any, targets: Any, with_std: bool
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """Kernel [starts, targets] at one time and its standard error, from h_x(c)/√V_c [points, blocks, cells]."""
    n_blocks, mean = scaled.shape[1], scaled.mean(1)
    kernel = mean[starts] @ mean[targets].T
    if not with_std:
        return kernel, None
    # Delta method over independent blocks: the paths of x vary while those of y are fixed, and the other way round.
    spread, same = np.zeros_like(kernel), np.equal.outer(starts, targets)
    for b in range(n_blocks):
        forth = scaled[starts, b] @ mean[targets].T - kernel
        back = mean[starts] @ scaled[targets, b].T - kernel
        spread += np.where(same, (forth + back) ** 2, forth**2 + back**2)
    return kernel, np.sqrt(spread / (n_blocks * (n_blocks - 1)))


def merged_volumes(cells: Cells, merge: tuple[int, ...]) -> np.ndarray:
    """Volumes of merged cells, [cells]."""
    return _merge(cells.volumes, merge).ravel()


def cells_around(points: np.ndarray, cells: Cells, merge: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The merged cells whose middles surround each point [n, q], and weights of linear interpolation, [n, 2^q] each.

    A cell with little or no volume has weight 0.
    """
    volumes = _merge(cells.volumes, merge)
    index, weights = np.zeros((len(points), 1), int), np.ones((len(points), 1))
    for e, x, m, n in zip(cells.edges, points.T, merge, volumes.shape, strict=True):
        ends = np.append(e[:-1][::m], e[-1])
        middles = 0.5 * (ends[1:] + ends[:-1])
        position = np.interp(x, middles, np.arange(n))
        low = np.minimum(position.astype(int), max(n - 2, 0))
        sides = np.stack([low, np.minimum(low + 1, n - 1)], 1)
        fractions = np.stack([1 - (position - low), position - low], 1)
        index = (index[:, :, None] * n + sides[:, None]).reshape(len(points), -1)
        weights = (weights[:, :, None] * fractions[:, None]).reshape(len(points), -1)
    weights = weights * (volumes.ravel()[index] > EMPTY * np.median(volumes[volumes > 0]))
    total = weights.sum(1, keepdims=True)
    return index, np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[1])


def scaled_fractions(counts: np.ndarray, n_paths: float, cells: Cells, merge: tuple[int, ...]) -> np.ndarray:
    """h_x(c)/√V_c from counts [..., cells or more], 0 in cells outside: inner products are K_t, [..., merged cells]."""
    inside = cells.volumes.ravel() > 0
    counts = counts[..., : len(inside)]  # without the padding of the counter
    gathered = np.where(inside, counts, 0.0)
    for c in np.flatnonzero(~inside & counts.any(tuple(range(counts.ndim - 1)))):
        gathered[..., cells.home[c]] += counts[..., c]
    merged = _merge(gathered.reshape(*counts.shape[:-1], *cells.volumes.shape), merge)
    return over(merged.reshape(*counts.shape[:-1], -1) / n_paths, np.sqrt(merged_volumes(cells, merge)))


def over(values: np.ndarray, volumes: np.ndarray) -> np.ndarray:
    """Values [..., cells] divided by volumes, or their roots, [cells]; 0 in cells without volume."""
    return values / np.where(volumes > 0, volumes, np.inf)


def _merge(values: np.ndarray, merge: tuple[int, ...]) -> np.ndarray:
    """Sums over groups of `merge` neighbouring cells along the last axes."""
    for axis, m in zip(range(-len(merge), 0), merge, strict=True):
        if m > 1:
            values = np.add.reduceat(values, np.arange(0, values.shape[axis], m), axis=axis)
    return values


def blocks_of(n_paths: int, least: int = 20) -> tuple[int, int]:
    """Number and size of the blocks that make up n_paths: twenty for the standard error, or blocks of BLOCK."""
    n_blocks = max(least, ceil(n_paths / brownian.BLOCK))
    return n_blocks, ceil(n_paths / n_blocks)
