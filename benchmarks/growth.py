"""How each step grows: processor time at three or more sizes, and the exponent that fits them.

    N rows, p columns, m inducing points, q coordinates, n labels, T paths

Processor time is measured, not elapsed time: it is nearly the same on a busy machine. Each step is run once before it
is timed, so that compilation is not included, and the smaller of two times counts.

    python benchmarks/growth.py               all steps
    python benchmarks/growth.py projecting    those whose name contains the word
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from threadpoolctl import threadpool_limits

from gpum import Atlas, BayesianGPLVM, GPUMRegressor, SwissRoll, heat_kernel
from gpum.geometry.graphs import graph_spaces
from gpum.gplvm import bound
from gpum.gplvm.models import Variational
from gpum.gplvm.optimise import value_and_gradient

REPEATS = 2
BASE = {"N": 1000, "p": 50, "m": 50, "q": 2}
Step = Callable[[], Any]


def sheet(N: int, p: int, q: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows [N, p] near a smooth surface of dimension q, and their coordinates."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (N, q))
    waves = np.sin(u @ rng.standard_normal((q, p)) + rng.uniform(0, 2 * np.pi, p))
    return waves + 0.02 * rng.standard_normal((N, p)), u


def one_bound(N: int, p: int, m: int, q: int) -> Step:
    """The bound of the latent model with its gradient."""
    S, u = sheet(N, p, q)
    data = bound.compress((S - S.mean(0)) / S.std())
    zero = np.asarray(0.0)
    theta = bound.Parameters(u, np.full(u.shape, -4.0), u[:m], np.zeros(q), zero, zero + 3.0)
    return lambda: jax.block_until_ready(value_and_gradient(Variational(), theta, data))


def projecting(n: int, m: int, q: int) -> Step:
    """Project n new rows onto a learned chart."""
    model = BayesianGPLVM(q, n_inducing=m, starts="pca", random_state=0).fit(sheet(300, 20, q)[0])
    new = sheet(n, 20, q, 1)[0]
    return lambda: model.transform(new)


def one_atlas(N: int, p: int, q: int) -> Step:
    """An atlas and 200 eigenpairs."""
    X = sheet(N, p, q)[0]
    return lambda: Atlas(q).fit(X).eigenpairs(200)


def graphs(N: int, p: int) -> Step:
    """The sixteen graphs of a cloud."""
    X = sheet(N, p)[0]
    return lambda: graph_spaces(X, n_jobs=1)


def one_target(n: int, geometry: str) -> Step:
    """A target with n labels on a surface that is already learned."""
    X, u = sheet(max(1000, n), 20)
    model = GPUMRegressor(geometry=geometry, warm_start=True, random_state=0, n_jobs=1)
    y = np.full(len(X), np.nan)
    y[:n] = np.sin(3 * u[:n, 0]) + 0.1 * np.random.default_rng(1).standard_normal(n)
    return lambda: model.fit(X, y)


def paths(T: int, starts: int) -> Step:
    """The heat kernel between the starts, from T Brownian paths of each."""
    chart = SwissRoll()
    rng = np.random.default_rng(0)
    x = np.stack([rng.uniform(*chart.r, starts), rng.uniform(*chart.z, starts)], 1)
    return lambda: heat_kernel(chart, x, x, [4.0], method="brownian", n_paths=T, random_state=0)


def steps() -> Iterator[tuple[str, str, list[int], Callable[[int], Step]]]:
    """Name, what grows, its values, and how the step is made."""
    for key, values in {
        "N": [1000, 2000, 4000, 8000],
        "p": [50, 100, 200, 400],
        "m": [25, 50, 100, 200],
        "q": [1, 2, 3],
    }.items():
        yield "bound and gradient", key, values, lambda v, key=key: one_bound(**{**BASE, key: v})
    yield "projecting rows", "n", [1000, 2000, 4000, 8000], lambda v: projecting(v, 30, 2)
    yield "projecting rows", "m", [15, 30, 60, 120], lambda v: projecting(1000, v, 2)
    yield "atlas", "N", [500, 1000, 2000], lambda v: one_atlas(v, 20, 2)
    yield "atlas", "p", [20, 80, 320], lambda v: one_atlas(500, v, 2)
    yield "atlas", "q", [1, 2, 3], lambda v: one_atlas(500, 20, v)
    yield "graphs", "N", [1000, 2000, 4000], lambda v: graphs(v, 20)
    yield "labels, eigenfunctions of a graph", "n", [100, 200, 400, 800], lambda v: one_target(v, "graph")
    yield "labels, flat space", "n", [100, 200, 400, 800], lambda v: one_target(v, "flat")
    yield "paths", "T", [4000, 8000, 16_000], lambda v: paths(v, 20)
    yield "paths", "starts", [10, 20, 40], lambda v: paths(4000, v)


def seconds(step: Step) -> float:
    """The lesser processor time of two runs, after a first one."""
    step()
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
    """Print the table."""
    table = Table("step", "in", "at", "processor s", "exponent", title="Growth of each step")
    console = Console(width=130)
    with Live(table, console=console, transient=True):
        for name, key, values, make in steps():
            if all(word in name for word in sys.argv[1:]):
                found = [seconds(make(v)) for v in values]
                exponent = np.polyfit(np.log(values), np.log(found), 1)[0]
                at, spent = ", ".join(f"{v:,}" for v in values), ", ".join(f"{s:.3g}" for s in found)
                table.add_row(name, key, at, spent, f"{exponent:.1f}")
    console.print(table)


if __name__ == "__main__":
    with threadpool_limits(1), jax.enable_x64(True):
        main()
