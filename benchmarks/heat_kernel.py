"""Brownian motion and heat kernels, on generated data, in one run on one machine.

1. nanoseconds per path and step on a learned chart, on the clock and of the processor: our tabulated paths, the same
   with the chart evaluated at every step, and diffrax's Euler solver with the same drift and root (it has no boundary);
2. seconds to come within 1 % of the exact kernel of the Swiss roll, t = 10, 24 starts × 474 targets: 99 % of the
   entries have an error of at most 1 % of the kernel's peak (the largest error is printed beside it). Spectral, path
   histograms, and the paper's ball count with the step and the radius that make it cheapest;
3. `--device`: what `heat_kernel_on_device.py` measures, for a machine with a GPU.

Run by `make bench`; `--steps` runs part 1 alone, `--errors` part 2.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from gpum import BayesianGPLVM, SwissRoll, datasets, heat_kernel
from gpum.heat import brownian, paths
from gpum.manifold import drift, evaluate, inverse_root, straighten


def nothing(x, leg, extra):
    """Record the mean position only."""
    return x.mean(0)


def timed(call, steps: int) -> tuple[float, float]:
    """Nanoseconds per step on the clock and of the processor, compiled beforehand."""
    jax.block_until_ready(call())
    begin, used = time.perf_counter(), time.process_time()
    jax.block_until_ready(call())
    return 1e9 * (time.perf_counter() - begin) / steps, 1e9 * (time.process_time() - used) / steps


def per_step(moving, start, dt: float, n_paths: int, n_steps: int, units: int) -> tuple[float, float]:
    """Nanoseconds per path and step, on the clock and of the processor."""
    dtype = moving.low.dtype
    with jax.enable_x64(bool(dtype == np.float64)):
        keys = brownian.block_keys(jax.random.key(0), np.zeros(units), np.arange(units))
        starts = jnp.asarray(np.repeat(np.asarray(start)[None], units, 0), dtype)
        legs = jnp.asarray([dt], dtype), jnp.asarray([n_steps], jnp.int32)
        call = partial(brownian.simulate, moving, keys, starts, *legs, None, n_paths, nothing)
        return timed(call, units * n_paths * n_steps)


def diffrax_per_step(chart, start, dt: float, n_paths: int, n_steps: int) -> tuple[float, float]:
    """The same for diffrax's Euler solver, in float64, one solve for all paths by vmap."""
    import diffrax

    with jax.enable_x64(True):

        def solve(key):
            noise = diffrax.VirtualBrownianTree(0.0, dt * n_steps, dt / 4, (2,), key)
            terms = diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, x, a: drift(chart, x)),
                diffrax.ControlTerm(lambda t, x, a: inverse_root(chart, x), noise),
            )
            return diffrax.diffeqsolve(
                terms, diffrax.Euler(), 0.0, dt * n_steps, dt, jnp.asarray(start), max_steps=n_steps + 1
            ).ys

        run = jax.jit(jax.vmap(solve))
        keys = jax.random.split(jax.random.key(0), n_paths)
        return timed(partial(run, keys), n_paths * n_steps)


def speed() -> None:
    """Part 1."""
    from rich.console import Console
    from rich.table import Table

    cloud = datasets.make_swiss_roll(random_state=0)
    chart = straighten(BayesianGPLVM(random_state=0).fit(cloud.X).chart_)
    start, dt = chart.bounds.mean(1), brownian.step_size(chart)
    begin = time.perf_counter()
    moving = brownian.motion(chart)
    table_seconds = time.perf_counter() - begin
    rows = {
        "tabulated, float32": per_step(moving, start, dt, 2000, 400, 16),
        "tabulated, float64": per_step(brownian.motion(chart, dtype=np.float64), start, dt, 2000, 400, 16),
        "direct evaluation, float64": per_step(brownian.motion(chart, tabulated=False), start, dt, 2000, 20, 1),
        "diffrax Euler, float64": diffrax_per_step(chart, start, dt, 2000, 20),
    }
    title = f"Brownian motion on the learned chart of a roll (474 points; table made in {table_seconds:.1f} s)"
    table = Table(title=title)
    for column in ("paths", "ns per path and step", "ns of the processor", "times faster than direct"):
        table.add_column(column, justify="left" if column == "paths" else "right")
    for name, (ns, used) in rows.items():
        ratio = rows["direct evaluation, float64"][0] / ns
        table.add_row(name, f"{ns:.1f}", f"{used:.1f}", f"{ratio:.1f}")
    Console(width=110).print(table)


def exact_kernel(roll: SwissRoll, starts: np.ndarray, targets: np.ndarray, t: float) -> np.ndarray:
    """Closed form: two intervals, in arc length and width."""
    k = np.arange(1, 2000)
    result = 1.0
    for a, b, length in (
        (
            roll.arc_length(starts[:, 0]) - roll.arc_length(roll.r[0]),
            roll.arc_length(targets[:, 0]) - roll.arc_length(roll.r[0]),
            float(np.ptp(roll.arc_length(roll.r))),
        ),
        (starts[:, 1] - roll.z[0], targets[:, 1] - roll.z[0], roll.z[1] - roll.z[0]),
    ):
        wave = np.pi * k / length
        weights = 2 * np.exp(-0.5 * wave**2 * t)
        result = result * (1 + (np.cos(np.outer(a, wave)) * weights) @ np.cos(np.outer(b, wave)).T) / length
    return result


STARTS, QUANTILE, TIME = 24, 0.99, 10.0
HISTOGRAMS = [(n, dt) for n in (1000, 2000, 4000, 8000, 16_000) for dt in (0.2, 0.1)]
BALL_STEPS, RADII, BALL_PATHS = (0.05, 0.02, 0.01), (0.6, 0.8, 1.0, 1.25, 1.5), 40_000
MOST_SECONDS = 150  # beyond that the ball count is extrapolated


def in_all_balls(x, leg, extra):
    """Counts of paths in balls of every radius around every target of a flat chart, [radii, targets]."""
    targets, radii = extra
    square = jnp.sum((x[:, None] - targets) ** 2, -1)
    return jax.lax.map(lambda r: jnp.sum(square <= r**2, 0), radii)


def search_ball(roll: SwissRoll, starts: np.ndarray, targets: np.ndarray, exact: np.ndarray) -> tuple:
    """Step, radius and number of paths with which the ball count should be cheapest.

    For every step and radius the error of 10, 20 and 40 thousand paths is measured, and error² = bias² + noise²/n
    fitted with bias² ≥ 0.
    """
    chart = straighten(roll)  # flat: the Swiss roll in arc length and width
    starts, targets = chart.coordinates(starts), chart.coordinates(targets)
    volumes = paths.ball_volumes(chart, targets, evaluate(chart, "metric", targets), np.array(RADII))
    moving, found = brownian.motion(chart), []
    for dt in BALL_STEPS:
        extra = targets.astype(np.float32), np.array(RADII, np.float32)
        legs = np.array([dt]), np.array([round(TIME / dt)])
        plan = paths.Plan(moving, starts, *legs, 20, BALL_PATHS // 20, 0, in_all_balls, extra)
        counts = paths.run(plan, None, by_block=True)[0][:, :, 0]
        sizes = np.array([BALL_PATHS // 4, BALL_PATHS // 2, BALL_PATHS])
        for k, radius in enumerate(RADII):
            errors = []
            for n in sizes:
                fraction = counts[:, : 20 * n // BALL_PATHS, k].sum(1) / n
                errors.append(worst(fraction / volumes[k], exact)[0])
            noise, bias = nnls(np.column_stack([1 / sizes, np.ones(3)]), np.square(errors))[0]
            n = noise / (0.01**2 - bias) if bias < 0.01**2 else np.inf
            found.append((n / dt, dt, radius, n))
            print(f"ball count, step {dt}, radius {radius}: errors {np.round(100 * np.array(errors), 2)} %")
    return min(found)[1:]


def worst(kernel: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """The error that 99 % of the entries stay below and the largest, as fractions of the peak."""
    error = np.abs(kernel - exact) / exact.max()
    return float(np.quantile(error, QUANTILE)), float(error.max())


def error_for_time() -> None:
    """Part 2."""
    from rich.console import Console
    from rich.table import Table

    roll = SwissRoll()
    cloud = datasets.make_swiss_roll(random_state=0)
    starts, targets = cloud.chart_coords[:STARTS], cloud.chart_coords
    exact = exact_kernel(roll, starts, targets, TIME)
    table = Table(
        title=f"Seconds to 1 % of the peak: {STARTS} starts × {len(targets)} targets of the roll, t = {TIME:g}"
    )
    for column in ("method", "paths", "step", "radius", "seconds", "99 % of entries within", "largest error"):
        table.add_column(column, justify="left" if column == "method" else "right")

    def row(name: str, **options) -> tuple[float, float]:
        begin = time.perf_counter()
        kernel = heat_kernel(roll, starts, targets, [TIME], **options)[0]
        spent = time.perf_counter() - begin
        error, largest = worst(kernel, exact)
        settings = [str(options.get(option, "-")) for option in ("n_paths", "step_size", "radius")]
        table.add_row(name, *settings, f"{spent:.1f}", f"{error:.2%}", f"{largest:.1%}")
        return spent, error

    row("spectral", method="spectral")
    for n, dt in HISTOGRAMS:
        options = {"method": "brownian", "n_paths": n, "step_size": dt, "random_state": 0}
        if row("path histograms (default)", **options)[1] <= 0.01:
            break
    dt, radius, needed = search_ball(roll, starts, targets, exact)
    if np.isfinite(needed):
        needed = int(np.ceil(needed / 1000) * 1000)
        options = {"method": "brownian", "estimator": "ball", "step_size": dt, "radius": radius, "random_state": 0}
        n = min(needed, BALL_PATHS)
        spent, _ = row("ball count (the paper's)", n_paths=n, **options)
        if needed > n and spent * needed / n <= MOST_SECONDS:
            row("ball count (the paper's)", n_paths=needed, **options)
        elif needed > n:
            seconds = f"{spent * needed / n:.0f}"
            table.add_row("ball count, extrapolated", str(needed), str(dt), str(radius), seconds, "1.00%", "?")
    else:
        table.add_row("ball count (the paper's)", "∞", f"≥ {min(BALL_STEPS)}", "any", "∞", "> 1 %", "?")
    Console(width=110).print(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "--device" in sys.argv:
        import heat_kernel_on_device

        heat_kernel_on_device.main()
    else:
        if "--errors" not in sys.argv:
            speed()
        if "--steps" not in sys.argv:
            error_for_time()
