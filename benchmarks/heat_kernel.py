"""Brownian motion and heat kernels, on generated data, in one run on one machine.

1. nanoseconds per path and step on a learned chart (two cores): our tabulated paths (float32), the same with the chart
   evaluated at every step, and diffrax's Euler solver with the same drift and root (it has no boundary);
2. seconds to come within 1 % of the peak of the exact kernel of the Swiss roll, t = 10, 24 starts × 474 targets (99 %
   of the entries are within that): spectral, path histograms, the paper's ball count;
3. `--device`: nanoseconds per path and step for 10⁷ paths of 100 steps on whatever device JAX finds.

Run by `make bench`.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from gpum import BayesianGPLVM, SwissRoll, brownian, datasets, heat_kernel
from gpum.geometry import drift, inverse_root, straighten

console = Console(width=110)


def nothing(x, leg, extra):
    """Keep the mean position only."""
    return x.mean(0)


def per_step(moving, start, dt: float, n_paths: int, n_steps: int, units: int) -> float:
    """Nanoseconds per path and step, compiled beforehand."""
    dtype = moving.low.dtype
    with jax.enable_x64(bool(dtype == np.float64)):
        keys = brownian.block_keys(jax.random.key(0), np.zeros(units), np.arange(units))
        starts = jnp.asarray(np.repeat(np.asarray(start)[None], units, 0), dtype)
        legs = jnp.asarray([dt], dtype), jnp.asarray([n_steps], jnp.int32)
        call = partial(brownian.walk, moving, keys, starts, *legs, None, n_paths, nothing)
        jax.block_until_ready(call())
        begin = time.perf_counter()
        jax.block_until_ready(call())
        return 1e9 * (time.perf_counter() - begin) / (units * n_paths * n_steps)


def diffrax_per_step(chart, start, dt: float, n_paths: int, n_steps: int) -> float:
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
        jax.block_until_ready(run(keys))
        begin = time.perf_counter()
        jax.block_until_ready(run(keys))
        return 1e9 * (time.perf_counter() - begin) / (n_paths * n_steps)


def speed() -> None:
    """Part 1."""
    cloud = datasets.make_swiss_roll(random_state=0)
    chart = straighten(BayesianGPLVM(random_state=0).fit(cloud.X).chart_)
    start, dt = chart.bounds.mean(1), brownian.step_size(chart)
    begin = time.perf_counter()
    moving = brownian.motion(chart)
    table_seconds = time.perf_counter() - begin
    rows = {
        "tabulated, float32": per_step(moving, start, dt, 5000, 400, 8),
        "tabulated, float64": per_step(brownian.motion(chart, dtype=np.float64), start, dt, 5000, 400, 8),
        "direct evaluation, float64": per_step(brownian.motion(chart, tabulated=False), start, dt, 2000, 20, 1),
        "diffrax Euler, float64": diffrax_per_step(chart, start, dt, 2000, 20),
    }
    title = f"Brownian motion on the learned chart of a roll (474 points; table made in {table_seconds:.1f} s)"
    table = Table(title=title)
    for column in ("paths", "ns per path and step", "million per second", "times faster than direct"):
        table.add_column(column, justify="left" if column == "paths" else "right")
    for name, ns in rows.items():
        ratio = rows["direct evaluation, float64"] / ns
        table.add_row(name, f"{ns:.0f}", f"{1e3 / ns:.2f}", f"{ratio:.1f}")
    console.print(table)


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


def error_for_time() -> None:
    """Part 2."""
    roll, t = SwissRoll(), 10.0
    cloud = datasets.make_swiss_roll(random_state=0)
    starts, targets = cloud.chart_coords[:24], cloud.chart_coords
    exact = exact_kernel(roll, starts, targets, t)
    table = Table(title="Seconds to 1 % of the peak: 24 starts × 474 targets of the Swiss roll, t = 10")
    for column in ("method", "paths per point", "seconds", "worst of 99 % of entries, % of the peak"):
        table.add_column(column, justify="left" if column == "method" else "right")

    def row(name: str, sizes: list[int], **options) -> None:
        for n in sizes:
            begin = time.perf_counter()
            more = {"n_paths": n, "random_state": 0, "step_size": 0.2} if n else {}
            kernel = heat_kernel(roll, starts, targets, [t], **options, **more)[0]
            spent = time.perf_counter() - begin
            error = float(np.quantile(np.abs(kernel - exact), 0.99) / exact.max())
            table.add_row(name, str(n or "-"), f"{spent:.1f}", f"{100 * error:.2f}")
            if error < 0.01:
                break

    row("spectral", [0], method="spectral")
    row("path histograms (default)", [1000, 2000, 4000, 8000], method="brownian")
    row("ball count (the paper's)", [20_000, 80_000, 320_000, 640_000], method="brownian", estimator="ball")
    console.print(table)


def on_device() -> None:
    """Part 3."""
    chart = straighten(SwissRoll())
    moving = jax.device_put(brownian.motion(chart))
    start = chart.coordinates([[6.0, 6.0]])[0]
    for n_paths, units in ((10_000_000, 1), (1_000_000, 10)):
        ns = per_step(moving, start, 0.05, n_paths, 100, units)
        console.print(
            f"{jax.devices()[0]}: {units} × {n_paths} paths of 100 steps, float32: {ns:.4f} ns per path and step"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "--device" in sys.argv:
        on_device()
    else:
        speed()
        error_for_time()
