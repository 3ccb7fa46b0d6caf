"""Time and memory of a fit as the cloud grows: the Swiss roll in R⁵⁰ with noise 0.02, 1 % labelled, default settings.

Each size runs in a process of its own: seconds of fit and of predicting all rows (of the clock, and of all cores), the
most memory held, and the error of the prediction.

    python benchmarks/scaling.py            1 000, 10 000 and 100 000 rows
    python benchmarks/scaling.py 5000       other sizes
    python benchmarks/scaling.py --subset   a subset of 5 000 rows against all of them: lengths and error
    python benchmarks/scaling.py --files    `gpum predict` from Parquet to Parquet, 10⁶ and 10⁷ rows of 20 columns, on a
                                            local Dask cluster of two workers (or other sizes: --files 100000)
    python benchmarks/scaling.py --pictures FILE.npz   classes of pictures X [N, pixels], y, with 1 and 5 labels a class
                                            (five sets each), and the angle of 30 000 turned ones, if they are digits
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.ndimage import rotate

from gpum import GPUMClassifier, GPUMRegressor, datasets
from gpum.app.tables import tables
from gpum.fitted import cloud as clouds
from gpum.manifold import evaluate, length

SIZES = (1_000, 10_000, 100_000)
BOTH = 5_000  # rows of which a subset and all are compared
COLUMNS, NOISE, LABELLED = 50, 0.02, 0.01
FILES, FILE_COLUMNS, LEARNED = (1_000_000, 10_000_000), 20, 2_000  # rows of files; their columns; rows of the fit
WORKERS, MEMORY = 2, "4GiB"


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
    console, table = (
        Console(),
        Table("learned from", "rmse", "fit s", "its cores' s", title="A subset against all rows"),
    )
    for name, (_, error, seconds) in found.items():
        table.add_row(name, f"{error:.4f}", *(f"{s:.0f}" for s in seconds))
    console.print(table)
    console.print(
        f"lengths, subset over all: median {np.median(ratio):.4f}, 90 % within {np.quantile(abs(ratio - 1), 0.9):.2%}"
    )


def rows_of_a_file(n: int, labelled: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `roll`, in FILE_COLUMNS columns; all seeds have the same frame."""
    cloud = datasets.make_swiss_roll(labelled, n - labelled, grid=False, random_state=seed)
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((FILE_COLUMNS, 3)))[0]
    noise = np.random.default_rng([1, seed]).standard_normal((n, FILE_COLUMNS))
    return cloud.X @ frame.T + NOISE * noise, cloud.y, cloud.y_true


def write_rows(path: Path, n: int) -> None:
    """A Parquet file of n rows, written in blocks."""
    with tables.writing(path) as add:
        for k, begin in enumerate(range(0, n, 100_000)):
            X, _, truth = rows_of_a_file(min(100_000, n - begin), 2, k + 1)
            add({**{f"X_{j + 1}": column for j, column in enumerate(X.T)}, "truth": truth})


def file_to_file(sizes: list[int]) -> None:
    """`gpum predict` from file to file on a local cluster, for files of several sizes."""
    from distributed import Client, LocalCluster

    titles = ("rows", "MB in, out", "s", "s per 10⁶", "workers' s per 10⁶", "GiB of workers", "GiB of gpum", "rmse")
    table = Table(*titles, title="File to file")
    options: Any = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": None}
    with tempfile.TemporaryDirectory() as folder:
        model, data, out = (Path(folder, name) for name in ("m.gpum", "in.parquet", "out.parquet"))
        X, y, _ = rows_of_a_file(LEARNED, LEARNED // 10, 0)
        GPUMRegressor(2, geometry="chart", random_state=0).fit(X, y).save(model)
        for n in sizes:
            write_rows(data, n)
            with LocalCluster(**options) as cluster, Client(cluster) as client:
                address = cluster.scheduler_address
                args = ["predict", model, data, "--out", out, "--force", "-q", "--cluster", address]
                begin = time.perf_counter()
                command = subprocess.Popen([sys.executable, "-m", "gpum", *map(str, args)])
                own = 0.0
                while command.poll() is None:
                    own = max(own, most_memory(command.pid))
                    time.sleep(0.2)
                seconds = time.perf_counter() - begin
                memory = [f"{gib:.2f}" for gib in client.run(most_memory).values()]
                cores = sum(client.run(time.process_time).values())
            if command.returncode:
                raise SystemExit("gpum predict failed")
            first, found = next(tables.blocks(data)), next(tables.blocks(out))
            error = found.numbers("y_mean", "")[:1000] - first.numbers("truth", "")[:1000]
            sizes_of_files = ", ".join(f"{path.stat().st_size / 1e6:.0f}" for path in (data, out))
            table.add_row(
                f"{n:,}", sizes_of_files, f"{seconds:.0f}", f"{seconds / n * 1e6:.0f}",
                f"{cores / n * 1e6:.0f}", ", ".join(memory),
                f"{own:.2f}", f"{np.sqrt(np.mean(error**2)):.4f}",
            )  # fmt: skip
    Console(width=120).print(table)


def most_memory(process: int | str = "self") -> float:
    """The most memory that a process has held, in GiB; unlike getrusage without that of the process that started it."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return max((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM")), default=0.0)


def label_set(y: np.ndarray, n: int, number: int) -> np.ndarray:
    """n rows of each class."""
    rng = np.random.default_rng(100 * n + number)
    return np.concatenate([rng.choice(np.flatnonzero(y == c), n, replace=False) for c in range(y.max() + 1)])


def calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Expected calibration error over ten bins of the largest probability."""
    top, hit = p.max(1), p.argmax(1) == y
    of = np.minimum((top * 10).astype(int), 9)
    return float(sum(abs(hit[of == b].mean() - top[of == b].mean()) * np.mean(of == b) for b in np.unique(of)))


def pictures(path: str) -> None:
    """Classes of a large set of pictures, and angles of turned digits."""
    with np.load(path) as data:
        X, y = data["X"], data["y"].astype(int)
    table = Table("labels a class", "set", "accuracy", "log loss", "calibration error", "fit s", "predict s", "GiB")
    model = GPUMClassifier(random_state=0, warm_start=True)
    for n, number in [(n, number) for n in (1, 5) for number in range(5)]:
        known = label_set(y, n, number)
        given = np.full(len(y), -1)
        given[known] = y[known]
        begin = clock()
        model.fit(X / 255.0, given)
        fitted = clock()
        p = np.delete(np.clip(model.predict_proba(X / 255.0), 1e-6, 1), known, 0)
        seconds, truth = (fitted - begin)[0], np.delete(y, known)
        loss = -np.log(p[np.arange(len(truth)), truth]).mean()
        figures = (np.mean(p.argmax(1) == truth), loss, calibration_error(p, truth))
        times = f"{seconds:.0f}", f"{(clock() - fitted)[0]:.1f}", f"{most_memory():.1f}"
        table.add_row(str(n), str(number), *(f"{v:.3f}" for v in figures), *times)
    Console(width=120).print(table)
    if {3, 4} <= set(y) and X.shape[1] == 28 * 28:
        angles(*turned(X, y))


def turned(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Up to 3 000 of the digits 3 and 4, turned by ten angles each between -60 and 60 degrees."""
    rng = np.random.default_rng(5)
    digits = np.flatnonzero(np.isin(y, (3, 4)))
    rows = rng.choice(digits, min(3000, len(digits)), replace=False)
    at = rng.uniform(-60, 60, (len(rows), 10))
    found = [
        np.clip(rotate(X[row].reshape(28, 28).astype(float), angle, reshape=False, order=1), 0, 255).round().ravel()
        for row, angles_of_row in zip(rows, at, strict=True)
        for angle in angles_of_row
    ]
    return np.array(found) / 255.0, at.ravel()


def angles(X: np.ndarray, angle: np.ndarray) -> None:
    """The angle of turned pictures, from 100, 300 and 1 000 labels."""
    table = Table("labels", "RMSE", "NLPD", "coverage", "fit s", "predict s", "GiB")
    model = GPUMRegressor(random_state=0, warm_start=True)
    for n in (100, 300, 1000):
        known = np.random.default_rng(n).choice(len(angle), n, replace=False)
        given = np.full(len(angle), np.nan)
        given[known] = angle[known]
        begin = clock()
        model.fit(X, given)
        fitted = clock()
        mean, std = (np.delete(v, known) for v in model.predict(X, return_std=True))
        off = mean - np.delete(angle, known)
        nlpd = np.mean(0.5 * (off / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi))
        figures = np.sqrt(np.mean(off**2)), nlpd, np.mean(np.abs(off) < 1.96 * std)
        times = f"{(fitted - begin)[0]:.0f}", f"{(clock() - fitted)[0]:.1f}", f"{most_memory():.1f}"
        table.add_row(str(n), *(f"{v:.3f}" for v in figures), *times)
    Console(width=120).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    elif sys.argv[1:2] == ["--files"]:
        file_to_file([int(n) for n in sys.argv[2:]] or list(FILES))
    elif sys.argv[1:2] == ["--pictures"]:
        pictures(sys.argv[2])
    elif sys.argv[1:2] == ["--subset"]:
        subset_and_all()
    else:
        growth([int(n) for n in sys.argv[1:]] or list(SIZES))
