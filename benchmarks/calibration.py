"""Calibration of intervals: coverage and PIT values over simulated data sets, on four shapes.

A data set is a cloud, a random smooth function on its surface, noise, and a few labels. Each cloud is fitted once, with
all its targets as columns of y: all targets have the same surface, and everything else is separate. Noisy values are
compared with quantiles of a new observation, at rows of the cloud without a label and at new rows.

    u         intrinsic coordinates: on the roll in widths of it, unit vectors of ring and sphere, the sheet's square
    f(u)      c + √(2/M) Σ_m cos(w_m·u + b_m),  w_m ~ N(0, I/ℓ_m²),  M = 8 waves, ℓ_m = ℓ·LogNormal(0, 0.3)
    ℓ, noise  log-uniform in [0.5, 2] and in [0.03, 0.3]; the function's own sd is about 1

Eight waves of several lengths are not a draw from a Gaussian process with one length: the truth does not follow the
prior of the model.

    python benchmarks/calibration.py --sets 48 [--figure docs/_static/calibration.png]
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from gpum import GPUMRegressor, KernelOptions, SwissRoll
from gpum.datasets.swiss_roll import swiss_roll_points

LABELS = (5, 20, 100)
INTERVALS = {50: (0.25, 0.75), 80: (0.1, 0.9), 95: (0.025, 0.975)}  # per cent, and the quantiles at its ends
LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
EDGES = np.array([0.0, *LEVELS, 1.0])  # of the bins of PIT values
POOL, SEEN, NEW = 160, 40, 40  # rows that may get a label, rows of the cloud that never do, rows outside the cloud
WAVES = 8
CLOUD_NOISE = 0.01  # of rows off the surface, in units of u
SLACK = 5.0  # points: a cell further off than this is named


@dataclass(frozen=True)
class Task:
    """A shape and the settings that are tried on it."""

    name: str
    shape: str
    settings: dict[str, Any]


TASKS = (
    Task("roll", "roll", {}),
    Task("ring", "ring", {}),
    Task("sphere", "sphere", {}),
    Task("sheet", "sheet", {}),  # in R¹⁰
    Task("roll, atlas", "roll", {"geometry": "atlas", "latent_dim": 2}),
    Task("sphere, atlas", "sphere", {"geometry": "atlas", "latent_dim": 2}),
    Task("sheet, atlas", "sheet", {"geometry": "atlas", "latent_dim": 2}),
    Task("ring, atlas", "ring", {"geometry": "atlas", "latent_dim": 1}),
    Task(
        "ring, atlas, paths",
        "ring",
        {"geometry": "atlas", "latent_dim": 1, "kernel": KernelOptions("brownian", n_paths=200)},
    ),
    Task("roll, paths", "roll", {"kernel": "brownian"}),
    Task("ring, paths", "ring", {"kernel": "brownian"}),
    Task("sphere, paths", "sphere", {"kernel": "brownian"}),
    Task("sheet, paths", "sheet", {"kernel": "brownian"}),
    Task("roll, chart", "roll", {"geometry": "chart", "latent_dim": 2}),
    Task(
        "roll, chart, 5 metrics",
        "roll",
        {"geometry": "chart", "latent_dim": 2, "kernel": KernelOptions(metric_draws=5)},
    ),
)


def cloud(shape: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n random rows near a shape: X [n, p], and their intrinsic coordinates u."""
    if shape == "roll":
        chart = SwissRoll()
        (r0, r1), (z0, z1) = chart.r, chart.z
        fine = np.linspace(r0, r1, 10_001)
        length = np.asarray(chart.arc_length(fine))
        along, z = rng.uniform(length[0], length[-1], n), rng.uniform(z0, z1, n)
        u, X = np.stack([along, z], 1), swiss_roll_points(np.stack([np.interp(along, length, fine), z], 1))
        u, X = u / (z1 - z0), X / (z1 - z0)
    elif shape in ("ring", "sphere"):
        u = rng.standard_normal((n, 2 if shape == "ring" else 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        bend = 0.5 * (u[:, :1] ** 2 - u[:, 1:2] ** 2)  # so that the ring lies in no plane
        X = np.concatenate([u, bend], 1) if shape == "ring" else u
    else:
        u = rng.uniform(-1, 1, (n, 2))
        X = np.stack([waves(rng, 2, 1.5)(u) for _ in range(10)], 1)
    return X + CLOUD_NOISE * rng.standard_normal(X.shape), u


def waves(rng: np.random.Generator, dim: int, length: float) -> Any:
    """A random smooth function f of u [n, dim], as defined above."""
    lengths = length * np.exp(0.3 * rng.standard_normal(WAVES))
    w = rng.standard_normal((WAVES, dim)) / lengths[:, None]
    b, c = rng.uniform(0, 2 * np.pi, WAVES), rng.standard_normal()
    return lambda u: c + np.sqrt(2 / WAVES) * np.cos(u @ w.T + b).sum(1)


def inside(quantiles: np.ndarray, y: np.ndarray) -> dict[int, float]:
    """Fraction of y [n] in the central intervals, from quantiles [n, LEVELS]: {per cent: fraction}."""
    column = {level: j for j, level in enumerate(LEVELS)}
    ends = {k: (quantiles[:, column[a]], quantiles[:, column[b]]) for k, (a, b) in INTERVALS.items()}
    return {k: float(np.mean((low <= y) & (y <= high))) for k, (low, high) in ends.items()}


def pit(quantiles: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Density of the PIT values of y [n] between EDGES, [8]: fraction in each bin over its width, 1 if calibrated."""
    rank = np.sum(y[:, None] > quantiles, 1)
    return np.bincount(rank, minlength=len(EDGES) - 1) / len(y) / np.diff(EDGES)


def with_error(values: np.ndarray) -> tuple[Any, Any]:
    """Mean over data sets (the first axis) and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


def one_cloud(task: Task, seed: int, n_targets: int, end: float = np.inf) -> list[dict[str, Any]]:
    """All data sets on one cloud: their labels, kind of row, coverage and PIT histogram; none, if it is past `end`."""
    if time.time() > end:
        return []
    rng = np.random.default_rng([seed, *map(ord, task.shape)])  # settings on one shape see the same data
    X, u = cloud(task.shape, rng, POOL + SEEN + NEW)
    known, truth, noisy = [], [], []
    for n in LABELS:
        for _ in range(n_targets):
            f = waves(rng, u.shape[1], np.exp(rng.uniform(np.log(0.5), np.log(2))))(u)
            y = f + np.exp(rng.uniform(np.log(0.03), np.log(0.3))) * rng.standard_normal(len(u))
            labels = np.full(POOL + SEEN, np.nan)
            chosen = rng.permutation(POOL)[:n]
            labels[chosen] = y[chosen]
            known.append(labels), truth.append(f), noisy.append(y)
    model = GPUMRegressor(random_state=seed, **task.settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scales at the end of their range, with five labels
        model.fit(X[: POOL + SEEN], np.stack(known, 1))
        quantiles = {
            "cloud": model.predict_quantiles(X[POOL : POOL + SEEN], LEVELS),
            "new": model.predict_quantiles(X[POOL + SEEN :], LEVELS),
        }
    found = []
    for rows, q in quantiles.items():
        where = slice(POOL, POOL + SEEN) if rows == "cloud" else slice(POOL + SEEN, None)
        for k, y in enumerate(noisy):
            mine = q[:, :, k]
            error = np.sqrt(np.mean((mine[:, 3] - truth[k][where]) ** 2))
            width = np.mean(mine[:, -1] - mine[:, 0])
            found.append(
                {"task": task.name, "rows": rows, "labels": LABELS[k // n_targets], "inside": inside(mine, y[where])}
                | {"pit": pit(mine, y[where]), "rmse": error, "width": width}
            )  # fmt: skip
    return found


def cell(found: list[dict[str, Any]], task: str, rows: str, labels: int) -> list[dict[str, Any]]:
    """The data sets of one cell of the table."""
    return [one for one in found if (one["task"], one["rows"], one["labels"]) == (task, rows, labels)]


def table(found: list[dict[str, Any]], names: list[str]) -> tuple[Table, list[str]]:
    """Coverage in per cent with its standard error; and the cells that are off by more than SLACK."""
    heads = [f"{k} %" for k in INTERVALS]
    result = Table("shape", "rows", "labels", "sets", *heads, "rmse", "width", title="Coverage of central intervals")
    off = []
    for name in names:
        for rows in ("cloud", "new"):
            for n in LABELS:
                sets = cell(found, name, rows, n)
                shown = []
                for k in INTERVALS:
                    fraction, error = with_error(np.array([100 * one["inside"][k] for one in sets]))
                    bad = abs(fraction - k) > SLACK
                    shown.append(f"{fraction:.0f} ± {error:.0f}{' !' if bad else ''}")
                    if bad:
                        off.append(f"{name}, {rows} rows, {n} labels: {fraction:.1f} ± {error:.1f} instead of {k}")
                means = [f"{np.mean([one[key] for one in sets]):.2f}" for key in ("rmse", "width")]
                result.add_row(name, rows, str(n), str(len(sets)), *shown, *means)
    return result, off


def figure(found: list[dict[str, Any]], names: list[str], path: str) -> None:
    """PIT histograms: a row for each task, a column for each number of labels, both kinds of row in one panel."""
    fig, axes = plt.subplots(len(names), len(LABELS), figsize=(7.5, 1.25 * len(names) + 0.6), sharex=True, sharey=True)
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    for i, name in enumerate(names):
        for j, n in enumerate(LABELS):
            ax = np.atleast_2d(axes)[i, j]
            for rows, colour, shift in (("cloud", "#2a6f97", -0.015), ("new", "#e07a1f", 0.015)):
                density, error = with_error(np.array([one["pit"] for one in cell(found, name, rows, n)]))
                ax.errorbar(middle + shift, density, 2 * error, fmt="o", ms=2.5, lw=0.9, color=colour, label=rows)
            ax.axhline(1, color="0.5", lw=0.8, zorder=0)
            ax.tick_params(labelsize=7)
            if i == 0:
                ax.set_title(f"{n} labels", fontsize=9)
            if j == 0:
                ax.set_ylabel(name.replace(", ", ",\n"), fontsize=7)
    np.atleast_2d(axes)[0, 0].set_ylim(bottom=0)
    np.atleast_2d(axes)[0, -1].legend(fontsize=6, frameon=False, ncols=2, loc="upper right")
    fig.supxlabel("PIT value", fontsize=8)
    fig.tight_layout(pad=0.4)
    fig.savefig(path, dpi=100)
    plt.close(fig)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=48, help="data sets of each cell")
    parser.add_argument("--clouds", type=int, default=3, help="clouds of each shape that they are spread over")
    parser.add_argument("--tasks", nargs="*", choices=[t.name for t in TASKS], help="all of them if none is named")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=np.inf, help="clouds that are not begun by then are left out")
    parser.add_argument("--figure", help="where the PIT histograms go")
    given = parser.parse_args()
    if given.clouds < 1 or given.sets < max(2, given.clouds):
        parser.error(f"--sets is {given.sets}: a standard error needs 2, and each of {given.clouds} clouds needs one")
    tasks = [task for task in TASKS if not given.tasks or task.name in given.tasks]
    names = [task.name for task in tasks]
    console, begin = Console(), time.time()
    end = begin + 60 * given.minutes
    counts = [len(some) for some in np.array_split(np.arange(given.sets), given.clouds)]
    jobs = [delayed(one_cloud)(task, seed, n, end) for seed, n in enumerate(counts) for task in tasks]
    found: list[dict[str, Any]] = []
    try:
        for done, sets in enumerate(Parallel(given.jobs, batch_size=1, return_as="generator_unordered")(jobs), 1):
            found += sets
            name = sets[0]["task"] if sets else "left out"
            console.print(f"{name}: {done} of {len(jobs)} clouds, {time.time() - begin:.0f} s")
    except KeyboardInterrupt:
        console.print("interrupted: the table is of the clouds that were done")
    names = [name for name in names if any(one["task"] == name for one in found)]
    shown, off = table(found, names)
    console.print(shown)
    console.print(
        f"{len(off)} of {len(names) * 2 * len(LABELS) * len(INTERVALS)} are off by more than {SLACK:g} points"
    )
    for line in off:
        console.print("  " + line)
    if given.figure:
        figure(found, names, given.figure)


if __name__ == "__main__":
    main()
