"""Brownian motion on whatever device JAX finds, in at most four minutes: `python benchmarks/heat_kernel.py --device`.

For the chart of the Swiss roll and for one that is learned: nanoseconds per path and step; what a step reads and draws,
with the times of these alone; the same steps as one kernel with the paths in registers (`paths_in_registers.py`, an
experiment). Then the first fits with both kernels. Where little time is left, a line says what was not begun.
"""

from __future__ import annotations

import time
import traceback
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gpum import BayesianGPLVM, GPUMRegressor, SwissRoll, datasets
from gpum.basics.device import accelerated
from gpum.heat import brownian
from gpum.heat.table import lookup
from gpum.manifold import straighten

SECONDS = 240
STEPS = 100
BEGIN = time.perf_counter()


def left() -> float:
    """Seconds until the end."""
    return SECONDS - (time.perf_counter() - BEGIN)


def say(text: str) -> None:
    """Print a line at once, with the seconds so far."""
    print(f"[{time.perf_counter() - BEGIN:5.1f} s] {text}", flush=True)


def nanoseconds(call, count: float) -> float:
    """Nanoseconds for each of `count`, the best of three, compiled beforehand."""
    jax.block_until_ready(call())
    spent = []
    for _ in range(3):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        spent.append(time.perf_counter() - begin)
    return 1e9 * min(spent) / count


@partial(jax.jit, static_argnames="n_paths")
def mean_end(moving, key, start, dt, count, n_paths: int):
    """Where paths are after a leg, in the mean, and the ends of the first hundred, [q, 100]."""
    x = tuple(jnp.broadcast_to(each, n_paths) for each in start)
    ends, _ = brownian.leg(moving, key, x, dt, count, jnp.asarray(0, jnp.int32))
    return jnp.stack(ends).mean(1), jnp.stack(ends)[:, :100]


@partial(jax.jit, static_argnames="n_paths")
def only_bits(key, n_paths: int):
    """The random words of STEPS steps in two dimensions."""

    def word(k, total):
        return total ^ jax.random.bits(jax.random.fold_in(key, k), (n_paths,), jnp.uint32)

    return jax.lax.fori_loop(0, STEPS // brownian.steps_per_word(2), word, jnp.zeros(n_paths, jnp.uint32)).sum()


@jax.jit
def only_reads(table, x):
    """Twenty looks at the table at points x that change a little from one to the next."""

    def look(k, state):
        x, total = state
        mean, root, depth, normal, direction = lookup(table, x)
        total = total + depth + mean[0] + mean[1] + root[0][1] + root[1][1] + normal[1] + direction[1]
        return tuple(each + 1e-3 * row[0] * normal[0] * direction[0] for each, row in zip(x, root, strict=True)), total

    return jax.lax.fori_loop(0, 20, look, (x, jnp.zeros_like(x[0])))[1].sum()


def paths_on(name: str, chart, start: np.ndarray, dt: float, n_paths: int) -> None:
    """What a path-step on a chart takes, and of what."""
    moving = jax.device_put(brownian.motion(chart))
    table = moving.geometry
    key, first = jax.random.key(0), jnp.asarray(start, jnp.float32)
    leg = jnp.asarray(dt, jnp.float32), jnp.asarray(STEPS, jnp.int32)
    rows = table.values.shape
    size = np.prod(rows) * 4 / 2**20
    say(
        f"{name}: table {rows}, {size:.1f} MiB; a step reads {4 * rows[-1]} bytes of it in sectors of 32, and the state"
    )
    bits = 32 / brownian.steps_per_word(2)
    say("  and a state of 16 bytes, which is written again")
    say(f"  and draws {2 * brownian.BITS} random bits, {bits:.1f} of words of threefry")
    for n in (n_paths // 10, n_paths):
        ns = nanoseconds(partial(mean_end, moving, key, first, *leg, n), n * STEPS)
        say(f"  {n} paths of {STEPS} steps, float32: {ns:.4f} ns per path and step")
    _, ends = mean_end(moving, key, first, *leg, n_paths)
    x = tuple(jnp.asarray(np.resize(each, n_paths)) for each in np.asarray(ends))
    noise = 0.2 * np.random.default_rng(0).standard_normal((2, n_paths)).astype(np.float32)
    x = tuple(each + jnp.asarray(more) for each, more in zip(x, noise, strict=True))
    reads = nanoseconds(partial(only_reads, table, x), 20 * n_paths)
    drawn = nanoseconds(partial(only_bits, key, n_paths), STEPS * n_paths)
    say(f"  of these, reads of the table alone {reads:.4f} ns, random words alone {drawn:.4f} ns per path and step")
    say(f"  reads of the table alone: {64 / reads:.0f} GB/s, if two sectors are read for each row")
    in_registers(moving, key, first, leg, n_paths if accelerated() else 2000)


def in_registers(moving, key, start, leg, n_paths: int) -> None:
    """The experiment, beside the same paths of the library; its failure is printed and stops nothing."""
    try:
        import paths_in_registers

        for block, warps in ((256, 4), (128, 4), (512, 8)) if accelerated() else ((256, 4),):
            call = partial(paths_in_registers.mean_end, moving, key, start, *leg, n_paths, block, warps)
            ns = nanoseconds(call, n_paths * STEPS)
            mean, ends = call()
            other_mean, other_ends = mean_end(moving, key, start, *leg, n_paths)
            apart = float(jnp.abs(ends - other_ends).max()), float(jnp.abs(mean - other_mean).max())
            say(f"  {n_paths} paths in registers, {block} in {warps} warps a program: {ns:.4f} ns per path and step")
            say(f"    ends of the first hundred differ by at most {apart[0]:.2g}, means of all by {apart[1]:.2g}")
    except Exception:  # an experiment with a compiler that may refuse it
        say(f"  in registers: failed\n{traceback.format_exc(limit=-2)[-1500:]}")


def first_fits(cloud) -> None:
    """Seconds of the first fit of each kernel on the learned chart of a roll, and again with all of it compiled."""
    spent = {}
    for number, kernel in enumerate(("spectral", "brownian", "spectral", "brownian")):
        if left() < 45:
            say("further fits: not begun")
            return
        begin = time.perf_counter()
        model = GPUMRegressor(2, geometry="chart", kernel=kernel, random_state=number // 2).fit(cloud.X, cloud.y)
        spent[kernel] = time.perf_counter() - begin
        error = np.sqrt(np.mean((model.transduction_ - cloud.y_true) ** 2))
        say(f"{'first fit' if number < 2 else 'again'}, {kernel}: {spent[kernel]:.1f} s, RMSE {error:.4f}")
        if kernel == "brownian":
            say(f"  {spent['brownian'] / spent['spectral']:.2f} times that of the spectral kernel")


def main() -> None:
    """All parts, in the order of their weight."""
    n_paths = 10_000_000 if accelerated() else 1_000_000
    say(f"{jax.devices()[0]}, JAX {jax.__version__}")
    roll = straighten(SwissRoll())
    paths_on("Swiss roll", roll, roll.coordinates([[6.0, 6.0]])[0], 0.05, n_paths)
    cloud = datasets.make_swiss_roll(random_state=0)
    if left() > 100:
        chart = straighten(BayesianGPLVM(random_state=0).fit(cloud.X).chart_)
        say("learned chart fitted")
        paths_on("learned chart", chart, chart.bounds.mean(1), brownian.step_size(chart), n_paths)
    else:
        say("learned chart: not begun")
    if left() > 90:
        first_fits(cloud)
    else:
        say("first fits: not begun")
