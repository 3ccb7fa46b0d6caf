"""Heat kernels on any chart: ∂K/∂t = ½ΔK with no flow through the boundary.

Which method to use:

- "spectral" (default up to three dimensions): no noise, every time from one decomposition, positive definite. The more
  modes the smaller the smallest time; parts of the domain much narrower than the rest need a fine mesh.
- "brownian" (default above): any dimension, any time, with a standard error; noise falls as one over the root of the
  number of paths. `estimator="ball"` is the paper's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from scipy.stats import t as student

from ..basics import checks
from ..basics.checks import GpumError
from ..manifold import Chart, evaluate, straighten
from . import brownian, jumps, paths
from .spectral import MAX_SPECTRAL_DIM, eigenpairs
from .surfaces import TIMES, MeshedSurface, SurfaceNodes

MAX_STEPS = 4000  # of the default step size, to the largest time
MAX_OUTSIDE = 0.02
MAX_BLOCKED = 0.02  # atlases have 0.01, and Delaunay triangles of points in a square up to 0.17, next to its sides
HALVING_CHANGE = 0.01  # of the peak, below which a change is not worth a warning
HALVING_ALARMS = 0.01  # how often the check warns although the step has no error


def heat_kernel(
    chart: Chart | MeshedSurface,
    starts: Any,
    targets: Any,
    times: Any,
    method: str = "auto",
    *,
    random_state: Any = None,
    return_std: bool = False,
    n_paths: int = 20_000,
    step_size: float | None = None,
    check_step: bool = False,
    estimator: str = "histogram",
    radius: float | None = None,
    tabulated: bool | None = None,
    n_jobs: int | None = -1,
    n_modes: int | None = None,
) -> Any:
    """K_t between points of a chart, [times, starts, targets].

    Parameters
    ----------
    chart : any chart, analytic or learned; or an `Atlas`, a `Mesh` or one of `surfaces_` of a fitted model, whose
        points are rows of the data space (by eigenpairs, or by paths that jump from node to node).
    starts, targets : points [n, q], [m, q] inside the chart; targets=None means the starts.
    times : diffusion times, positive; a number or a sequence.
    method : "spectral", "brownian", or "auto": spectral up to three dimensions.
    random_state : seed of the paths; results do not depend on n_jobs.
    return_std : also return the Monte Carlo standard error (0 for the spectral method).
    n_paths, step_size, tabulated : of the Brownian method; the step size is chosen from the geometry.
    check_step : run the Brownian method again with half the step, and warn if the kernel changes by more than its noise
        (three times the cost; what is returned does not change).
    estimator : "histogram" (default: symmetric, positive definite) or "ball" (the paper's).
    radius : ω of the ball estimator; by default it balances noise and blur for the number of paths and each time.
    n_jobs : blocks of paths computed at the same time, as for `GPUMRegressor`.
    n_modes : of the spectral method, by default as many as the smallest time needs.
    """
    checks.option(method, "method", ("auto", "spectral", "brownian"))
    if isinstance(chart, MeshedSurface):
        if method == "brownian":
            kernel, std = _across_nodes(chart, starts, targets, times, n_paths, random_state)
        else:
            kernel = chart.heat_kernel(starts, targets, times, n_modes)
            std = np.zeros_like(kernel)
        return (kernel, std) if return_std else kernel
    starts = _points(chart, starts, "starts")
    targets = starts if targets is None else _points(chart, targets, "targets")
    times = checks.positives(times, "times", TIMES)
    checks.option(estimator, "estimator", ("histogram", "ball"))
    checks.integer(n_paths, "n_paths", 10, None, "20000 is the default")
    if method == "auto":
        method = "spectral" if chart.dim <= MAX_SPECTRAL_DIM else "brownian"
    if method == "spectral":
        pairs = eigenpairs(chart, float(times.min()), n_modes=n_modes)
        fx, fy = pairs.at(starts), pairs.at(targets)
        kernel = np.stack([(fx * pairs.heat(t)) @ fy.T for t in times])
        return (kernel, np.zeros_like(kernel)) if return_std else kernel
    rng = checks.random_state(random_state)
    options = {"n_paths": n_paths, "step_size": step_size, "estimator": estimator, "radius": radius}
    more = {"tabulated": tabulated, "n_jobs": n_jobs, "with_std": return_std or check_step}
    estimate = partial(_from_paths, chart, starts, targets, times, **options, **more)
    kernel, std, dt = estimate(seed=int(rng.randint(2**31 - 1)))
    if check_step:
        finer, its_std, _ = estimate(seed=int(rng.randint(2**31 - 1)), halved=True)
        _compare(times, kernel, finer, np.hypot(std, its_std), dt, 2 * (paths.blocks_of(n_paths)[0] - 1))
    return (kernel, std) if return_std else kernel


def _across_nodes(
    surface: MeshedSurface, starts: Any, targets: Any, times: Any, n_paths: int, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """K_t and its standard error from paths that jump from node to node of a surface."""
    checks.integer(n_paths, "n_paths", 10, None, "20000 is the default")
    nodes_of, columns = SurfaceNodes.of(surface), surface.nodes.shape[1]
    starts = checks.cloud(starts, "starts", columns=columns)
    both = (
        starts
        if targets is None
        else np.concatenate([starts, checks.cloud(targets, "targets", columns=starts.shape[1])])
    )
    ordered, back = np.unique(checks.positives(times, "times", TIMES), return_inverse=True)
    n_blocks, block = paths.blocks_of(n_paths)
    seeds = checks.random_state(random_state).randint(2**31 - 1, size=n_blocks).tolist()
    n = len(starts)
    first, last = np.arange(n), np.arange(n) if targets is None else np.arange(n, len(both))
    root = np.sqrt(nodes_of.lumped)
    fractions = jumps.node_fractions(nodes_of, nodes_of.corners(both), both, ordered, block, seeds)
    estimates = [paths.kernel_of_blocks(blocks / root, first, last, True) for blocks in fractions]
    kernel, std = (np.stack([np.asarray(estimate[k]) for estimate in estimates])[back] for k in (0, 1))
    return kernel, std


def brownian_path(
    chart: Chart | MeshedSurface, start: Any, time: float, *, n_steps: int = 5000, random_state: Any = None
) -> np.ndarray:  # fmt: skip
    """Brownian paths until `time`, with their positions at n_steps + 1 times, for plots.

    On an `Atlas`, a `Mesh` or one of `surfaces_` they are rows of the data space: paths jump from node to node.
    One start gives one path [n_steps + 1, q]; several starts [n, q] give one path each, [n, n_steps + 1, q]. The
    first path does not depend on how many there are. In a chart, steps are taken in even coordinates
    (`manifold.straight`), where they are all of one size on the surface.
    """
    checks.positive(time, "time", "it is the diffusion time at the end of the path")
    checks.integer(n_steps, "n_steps", 1, None, "5000 is the default")
    if isinstance(chart, MeshedSurface):
        return _walks(chart, start, time, n_steps, random_state)
    starts = _points(chart, start, "start")
    if time / n_steps > float(np.finfo(np.float32).max):  # in which steps are taken
        raise GpumError(f"time is {time:.3g}, too long for {n_steps} steps; use a shorter one")
    seed = int(checks.random_state(random_state).randint(2**31 - 1))
    positions = np.stack(list(_chart_paths(chart, starts, time, n_steps, seed)))
    return positions[0] if len(positions) == 1 else positions


def _walks(
    surface: MeshedSurface, start: Any, time: float, n_steps: int, random_state: Any
) -> np.ndarray:  # fmt: skip
    """Paths from node to node of a surface, each from a node of the cell in which its start lies."""
    nodes_of, columns = SurfaceNodes.of(surface), surface.nodes.shape[1]
    starts = checks.cloud([start] if np.ndim(start) == 1 else start, "start", columns=columns)
    process = jumps.jump_process(nodes_of.stiffness, nodes_of.lumped, time)
    if process.blocked > MAX_BLOCKED:
        warnings.warn(
            f"{process.blocked:.1%} of the conductance between nodes is negative, where cells have obtuse angles, and "
            "paths do without it: along such cells they move too quickly; use a mesh without obtuse angles",
            stacklevel=3,
        )
    seed = int(checks.random_state(random_state).randint(2**31 - 1))
    nodes, weights = nodes_of.corners(starts)
    positions = []
    for k in range(len(starts)):
        rng = np.random.default_rng([seed, k])
        begin = int(rng.choice(nodes[k], p=weights[k] / weights[k].sum()))
        positions.append(surface.nodes[nodes_of.index[jumps.walk(process, begin, time, n_steps, rng)]])
    return positions[0] if len(positions) == 1 else np.stack(positions)


def _chart_paths(chart: Chart, starts: np.ndarray, time: float, n_steps: int, seed: int) -> Iterator[np.ndarray]:
    key, even = jax.random.key(seed), straighten(chart)
    keys = [key, *(jax.random.fold_in(key, k) for k in range(1, len(starts)))]
    for x, own_key in zip(even.coordinates(starts), keys, strict=True):
        yield evaluate(even, "original", brownian.path(even, x, time, own_key, n_steps))


def _compare(
    times: np.ndarray, kernel: np.ndarray, finer: np.ndarray, std: np.ndarray, dt: float, freedom: int
) -> None:
    """Warn if kernels from steps of dt and dt/2 differ by more than chance; `std` is that of their difference."""
    change = np.abs(finer - kernel) / np.maximum(finer.max((1, 2), keepdims=True), 1e-300)
    errors = np.abs(finer - kernel) / np.maximum(std, 1e-300)
    limit = student.isf(HALVING_ALARMS / (2 * kernel.size), freedom)  # for the largest of all entries
    change = np.where(errors > limit, change, 0.0)
    worst = np.unravel_index(np.argmax(change), change.shape)
    if change[worst] > HALVING_CHANGE:
        warnings.warn(
            f"halving the step size {dt:.3g} changes the kernel by up to {change[worst]:.1%} of its peak "
            f"({errors[worst]:.1f} standard errors, at t = {times[worst[0]]:.3g} between start {worst[1]} and target "
            f"{worst[2]}): pass a step_size below {dt / 2:.3g}",
            stacklevel=3,
        )


def _from_paths(
    chart,
    starts,
    targets,
    times,
    *,
    seed,
    n_paths,
    step_size,
    estimator,
    radius,
    tabulated,
    n_jobs,
    with_std,
    halved=False,
) -> tuple[np.ndarray, Any, float]:
    """Kernel, its standard error (or None) and the largest step."""
    ordered, back = np.unique(times, return_inverse=True)
    cells = None
    if chart.dim <= 3 or estimator == "histogram":  # paths do not depend on the chart, the error of their steps does
        chart = straighten(chart)
        starts, targets = chart.coordinates(starts), chart.coordinates(targets)
    if estimator == "histogram":
        cells = paths.make_cells(chart, float(ordered[0]), n_paths)
    legs = ordered if cells is None else np.array([cells.path_time(t) for t in ordered])
    dts, counts = paths.plan_legs(legs, step_sizes(chart, legs, step_size))
    if halved:
        dts, counts = dts / 2, counts * 2
    n_blocks, block = paths.blocks_of(n_paths)
    moving = brownian.motion(chart, tabulated=tabulated)
    dtype = moving.low.dtype

    def run(points: np.ndarray, record: Any, extra: Any) -> np.ndarray:
        plan = paths.Plan(moving, points, dts, counts, n_blocks, block, seed, record, extra)
        recorded, outside = paths.run(plan, n_jobs, by_block=with_std)
        warn_of_outside(outside, float(dts.max()))
        return recorded

    if cells is None:
        G = evaluate(chart, "metric", targets)
        omega = paths.ball_radius(n_blocks * block, chart.dim, ordered)
        if radius is not None:
            omega = np.full(len(ordered), checks.positive(radius, "radius", "None balances noise and blur"))
        extra = (targets.astype(dtype), G.astype(dtype), omega.astype(dtype), moving.low, moving.high)
        hits = np.moveaxis(run(starts, paths.in_balls, (*extra, np.asarray(moving.periodic))), 2, 0)
        volumes = paths.ball_volumes(chart, targets, G, omega)[:, None]
        kernel = hits.sum(2) / (n_blocks * block) / volumes  # hits are [times, starts, blocks, targets]
        # Paths are spread evenly within a block, so that the error is that among blocks, not that of independent paths.
        std = (hits.std(2, ddof=1) / (block * np.sqrt(n_blocks)) / volumes)[back] if with_std else None
        return kernel[back], std, float(dts.max())

    points, index = np.unique(np.concatenate([starts, targets]), axis=0, return_inverse=True)
    index = index.ravel()
    counted = run(points, paths.histogram, paths.counted_in(cells, dtype))
    first, second = index[: len(starts)], index[len(starts) :]
    each, kernels, errors = n_blocks * block / counted.shape[1], [], []
    for k, t in enumerate(ordered):
        scaled = paths.scaled_fractions(counted[:, :, k], each, cells, cells.merged(t))
        kernel, error = paths.kernel_of_blocks(scaled, first, second, with_std)
        kernels.append(kernel)
        errors.append(error)
    std = np.stack(errors)[back] if with_std else None  # type: ignore[arg-type]
    return np.stack(kernels)[back], std, float(dts.max())


def step_sizes(chart: Chart, legs: np.ndarray, step_size: float | None) -> np.ndarray:
    """The largest step of each leg: small against the geometry and the time, but at most MAX_STEPS steps in all."""
    if step_size is None:
        needed = np.minimum(brownian.step_size(chart), legs / 20)
        taken = np.maximum(needed, legs[-1] / MAX_STEPS)
        if np.any(taken > needed):
            warnings.warn(
                f"the geometry and the smallest time need steps of {needed.min():.3g}, "
                f"{legs[-1] / needed.min():.0f} in all, but {MAX_STEPS} of {taken.max():.3g} are taken: pass "
                f"step_size={needed.min():.2g} (slower), or compute the larger times separately",
                stacklevel=4,
            )
        return taken
    return np.full(len(legs), checks.positive(step_size, "step_size", "None chooses it from the geometry"))


def warn_of_outside(outside: float, dt: float) -> None:
    """Warn if many paths were outside the boundary when they were counted."""
    if outside > MAX_OUTSIDE:
        warnings.warn(
            f"{outside:.1%} of the paths were outside the domain when they were counted, and could not be mirrored "
            f"back: the step size {dt:.3g} is too large for the narrow parts of the domain; pass a smaller step_size",
            stacklevel=4,
        )


def _points(chart: Chart, points: Any, name: str) -> np.ndarray:
    points = checks.cloud([points] if np.ndim(points) == 1 else points, name)
    if points.shape[1] != chart.dim:
        raise GpumError(
            f"{name} has {points.shape[1]} columns, but the chart has {chart.dim} coordinates; "
            f"pass points [n, {chart.dim}]"
        )
    outside = ~evaluate(chart, "inside", points)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise GpumError(
            f"{name} has {int(outside.sum())} points outside the chart's boundary, the first at row {first}: "
            f"{points[first]}; drop them or loosen the boundary level"
        )
    return points
