"""Time and memory of a fit as the cloud grows: the Swiss roll in R⁵⁰ with noise 0.02, 1 % labelled, default settings.

Each size runs in a process of its own: seconds of fit and of predicting all rows (of the clock, and of all cores), the
most memory held, and the error of the prediction.

    python benchmarks/scaling.py            1 000, 10 000 and 100 000 rows
    python benchmarks/scaling.py 5000       other sizes
    python benchmarks/scaling.py --subset   a subset of 5 000 rows against all of them: lengths and error
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpum import GPUMRegressor, datasets
from gpum.fitted import cloud as clouds
from gpum.manifold import evaluate, length

SIZES = (1_000, 10_000, 100_000)
BOTH = 5_000  # rows of which a subset and all are compared
COLUMNS, NOISE, LABELLED = 50, 0.02, 0.01


def roll(n: int, fraction: float = LABELLED, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [n, COLUMNS], labels (NaN where there is none) and the true function."""
    labelled = max(round(fraction * n), 2)
    cloud = datasets.make_swiss_roll(labelled, n - labelled, grid=False, random_state=seed)
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.standard_normal((COLUMNS, 3)))[0]
    return cloud.X @ frame.T + NOISE * rng.standard_normal((n, COLUMNS)), cloud.y, cloud.y_true


def clock() -> np.ndarray:
    """Seconds of the clock, and of all cores."""
    return np.array([time.perf_counter(), time.process_time()])


def measure(n: int) -> dict[str, Any]:
    """One size."""
    X, y, truth = roll(n)
    begin = clock()
    model = GPUMRegressor(random_state=0).fit(X, y)
    fitted = clock()
    mean = model.predict(X)
    done = clock()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    error = float(np.sqrt(np.mean((mean - truth) ** 2)))
    return {"fit": list(fitted - begin), "predict": list(done - fitted), "memory": memory, "rmse": error}


def growth(sizes: list[int]) -> None:
    """The table of sizes."""
    table = Table("rows", "labels", "fit s", "its cores' s", "predict s", "its cores' s", "GiB", "rmse", title="Growth")
    for n in sizes:
        run = subprocess.run([sys.executable, __file__, "--one", str(n)], check=True, capture_output=True, text=True)
        found = json.loads(run.stdout.splitlines()[-1])
        seconds = [f"{s:.0f}" for s in (*found["fit"], *found["predict"])]
        table.add_row(f"{n:,}", f"{round(LABELLED * n):,}", *seconds, f"{found['memory']:.2f}", f"{found['rmse']:.4f}")
    Console().print(table)


def along(model: GPUMRegressor) -> np.ndarray:
    """Lengths on the chart between the ends of steps of the roll, along and across."""
    ends = np.random.default_rng(0).permutation(BOTH)[:400].reshape(-1, 2)
    return evaluate(model.chart_, lambda chart, e: length(chart, *e.reshape(2, -1)), model.latent_[ends].reshape(-1, 4))


def subset_and_all() -> None:
    """A subset of 5 000 rows against all of them, a tenth labelled, on the chart of dimension 2."""
    X, y, truth = roll(BOTH, 0.1)
    found = {}
    for name, rows in (("subset", clouds.SUBSET), ("all", BOTH)):
        clouds.SUBSET = rows
        begin = clock()
        model = GPUMRegressor(2, geometry="chart", random_state=0).fit(X, y)
        seconds = clock() - begin
        error = float(np.sqrt(np.mean((model.predict(X) - truth) ** 2)))
        found[name] = along(model), error, seconds
    ratio = found["subset"][0] / found["all"][0]
    console = Console()
    for name, (_, error, seconds) in found.items():
        console.print(f"{name}: rmse {error:.4f}, fit {seconds[0]:.0f} s, its cores {seconds[1]:.0f} s")
    console.print(
        f"lengths, subset over all: median {np.median(ratio):.4f}, 90 % within {np.quantile(abs(ratio - 1), 0.9):.2%}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    elif sys.argv[1:2] == ["--subset"]:
        subset_and_all()
    else:
        growth([int(n) for n in sys.argv[1:]] or list(SIZES))
