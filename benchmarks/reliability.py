"""Calibration of class probabilities: reliability, log loss and ECE over simulated data sets of many shapes.

A data set is a cloud with a class for each row, and a few labels of each class. Shapes differ in how clear their
borders are, and each has random noise and sizes, so that no single degree of certainty is right for all:

    moons, touching    two moons with noise that mixes them       moons, apart   with noise that does not
    rings              two or three, one inside the other         bars           long thin clusters side by side
    clusters           5 or 10 bent clusters in R⁶⁴, some near    uneven         the same, of very unlike sizes
    blobs on a roll    clusters on a Swiss roll, which overlap    regions        of an even cloud: no border shows
    families           clusters in clear groups of near ones      split          classes that divide a clear cluster
    scattered          classes of several clear clusters each     confused       clusters with rows of other classes

    python benchmarks/reliability.py --sets 200 --jobs 16
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from scipy.stats import ortho_group
from threadpoolctl import threadpool_limits

from gpum import GPUMClassifier
from gpum.datasets.swiss_roll import swiss_roll_points

LABELS = (1, 2, 5)  # of each class
ROWS = 300
DECILES = np.linspace(0, 1, 11)
SLACK = 0.05  # a decile further off than this, and than its error, is named
OFF_SURFACE = 0.02


def _turned(rng: np.random.Generator, X: np.ndarray, p: int) -> np.ndarray:
    """X in R^p, turned, with a little noise."""
    return X @ ortho_group.rvs(p, random_state=rng)[: X.shape[1]] + OFF_SURFACE * rng.standard_normal((len(X), p))


def moons(rng: np.random.Generator, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles with noise between low and high."""
    y = rng.integers(0, 2, ROWS)
    angle = rng.uniform(0, np.pi, ROWS)
    X = np.stack([np.cos(angle), np.sin(angle)], 1)
    X[y == 1] = [1.0, 0.5] - X[y == 1]
    return _turned(rng, X + rng.uniform(low, high) * rng.standard_normal(X.shape), 10), y


def rings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two or three circles about one centre."""
    y = rng.integers(0, rng.integers(2, 4), ROWS)
    radius = 1 + 0.6 * y + rng.uniform(0.05, 0.25) * rng.standard_normal(ROWS)
    angle = rng.uniform(0, 2 * np.pi, ROWS)
    return _turned(rng, np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), 10), y


def bars(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three to six long thin clusters side by side."""
    y = rng.integers(0, rng.integers(3, 7), ROWS)
    X = np.stack([rng.uniform(-2, 2, ROWS), y + rng.uniform(0.1, 0.35) * rng.standard_normal(ROWS)], 1)
    return _turned(rng, X, 10), y


def clusters(rng: np.random.Generator, uneven: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Bent clusters of one to four dimensions in R⁶⁴, some of them near each other."""
    C, p = int(rng.choice([5, 10])), 64
    fraction = rng.dirichlet(np.full(C, 1.5 if uneven else 30.0))
    y = np.concatenate([np.repeat(np.arange(C), max(LABELS) + 2), rng.choice(C, ROWS, p=fraction)])
    X = np.empty((len(y), p))
    apart = rng.uniform(0.4, 1.0)
    for c in range(C):
        n, dim = int(np.sum(y == c)), int(rng.integers(1, 5))
        u = rng.standard_normal((n, dim)) * rng.uniform(0.4, 1.0, dim)
        bent = np.concatenate([u, 0.5 * (u[:, :1] ** 2 - 0.5)], 1)
        X[y == c] = apart * rng.standard_normal(p) * np.sqrt(2 / p) + _turned(rng, bent, p)
    return X + rng.uniform(0.05, 0.25) * rng.standard_normal(X.shape), y


def blobs_on_roll(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Round clusters on a Swiss roll, which may overlap."""
    C = int(rng.integers(3, 7))
    y = rng.integers(0, C, ROWS)
    centre = np.stack([rng.permutation(C) * 8.0 / C + 3, rng.uniform(0.3, 1.7, C)], 1)
    u = centre[y] + rng.standard_normal((ROWS, 2)) * [rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.3)]
    X = swiss_roll_points(u)
    return X + OFF_SURFACE * rng.standard_normal(X.shape), y


def regions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of an even cloud on a bent sheet: the largest of a few waves."""
    C = int(rng.integers(2, 5))
    u = rng.uniform(-1, 1, (ROWS, 2))
    w, b = rng.standard_normal((C, 6, 2)) / rng.uniform(0.3, 0.8), rng.uniform(0, 2 * np.pi, (C, 6))
    f = np.cos(np.einsum("ni,cmi->ncm", u, w) + b).sum(2)
    y = np.argmax(f - f.mean(0) + rng.uniform(0, 0.5) * rng.standard_normal(f.shape), 1)
    return _turned(rng, np.concatenate([u, 0.5 * u[:, :1] ** 2, 0.3 * np.sin(2 * u[:, 1:])], 1), 10), y


def families(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten clusters in R⁶⁴ in three to six clear groups; those of a group overlap on one surface."""
    C, p, n_groups = 10, 64, int(rng.integers(3, 7))
    group = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, C - n_groups)])
    y = rng.integers(0, C, 2 * ROWS)
    u = (rng.uniform(0.5, 2.0) * rng.standard_normal((C, 3)))[y] + rng.standard_normal((len(y), 3))
    X = np.empty((len(y), p))
    for g in range(n_groups):
        members = group[y] == g
        bent = np.concatenate([u[members], 0.3 * u[members, :1] ** 2], 1)
        X[members] = 0.8 * rng.standard_normal(p) + 0.5 * _turned(rng, bent, p)
    return X + rng.uniform(0.05, 0.15) * rng.standard_normal(X.shape), y


def _clear(rng: np.random.Generator, n_clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in R²⁰ of clear clusters, the cluster of each row, and coordinates within it."""
    p = 20
    of = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, ROWS - n_clusters)])
    u = rng.standard_normal((ROWS, 2))
    X = 3 * rng.standard_normal((n_clusters, p))[of] + _turned(rng, u * rng.uniform(0.3, 1.0, (n_clusters, 2))[of], p)
    return X + rng.uniform(0.02, 0.2) * rng.standard_normal(X.shape), of, u


def split(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Clear clusters, each of which has one to three classes side by side; some mix at the border."""
    X, of, u = _clear(rng, int(rng.integers(2, 6)))
    n_classes = rng.integers(1, 4, of.max() + 1)
    n_classes[0] = max(n_classes[0], 2)
    place = u[:, 0] + rng.uniform(0, 0.5) * rng.standard_normal(len(u))
    rank = np.clip(np.floor((place + 0.8) / 1.6 * n_classes[of]), 0, n_classes[of] - 1).astype(int)
    return X, (np.cumsum(n_classes) - n_classes)[of] + rank


def scattered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Clear clusters, of which each class has one to four."""
    C = int(rng.integers(2, 6))
    times = rng.integers(1, 5, C)
    times[0] = max(times[0], 2)
    X, of, _ = _clear(rng, int(times.sum()))
    return X, np.repeat(np.arange(C), times)[of]


def confused(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Clear clusters, one a class, of which up to a third of the rows have another class."""
    X, of, _ = _clear(rng, int(rng.integers(2, 9)))
    wrong = rng.uniform(size=ROWS) < rng.uniform(0, 0.35)
    return X, np.where(wrong, rng.integers(0, of.max() + 1, ROWS), of)


SHAPES: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "moons, touching": lambda rng: moons(rng, 0.2, 0.35),
    "moons, apart": lambda rng: moons(rng, 0.05, 0.15),
    "rings": rings,
    "bars": bars,
    "clusters": clusters,
    "uneven": lambda rng: clusters(rng, True),
    "blobs on a roll": blobs_on_roll,
    "regions": regions,
    "families": families,
    "split": split,
    "scattered": scattered,
    "confused": confused,
}


def data(shape: str, seed: int) -> tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """A cloud, its classes, and the labelled rows for each of LABELS; every class has enough of them."""
    rng = np.random.default_rng([seed, *map(ord, shape)])
    while True:
        X, y = SHAPES[shape](rng)
        if np.bincount(y)[np.unique(y)].min() >= max(LABELS) + 2 and len(np.unique(y)) > 1:
            break
    y = np.unique(y, return_inverse=True)[1]
    order = [rng.permutation(np.flatnonzero(y == c)) for c in range(y.max() + 1)]
    return X, y, {n: np.sort(np.concatenate([rows[:n] for rows in order])) for n in LABELS}


def one_set(shape: str, seed: int) -> list[dict[str, Any]]:
    """For each number of labels, of rows without one: probability of the likeliest class, which are right, log loss."""
    X, y, labelled = data(shape, seed)
    model = GPUMClassifier(random_state=0, warm_start=True)
    found = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for n, known in labelled.items():
            few = np.full(len(y), -1)
            few[known] = y[known]
            p = model.fit(X, few).label_distributions_[few < 0]
            truth = y[few < 0]
            loss = float(-np.log(np.maximum(p[np.arange(len(p)), truth], 1e-6)).mean())
            found.append({"shape": shape, "labels": n, "p": p.max(1), "right": p.argmax(1) == truth, "loss": loss})
    return found


def reliability(some: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each tenth of the predicted probability: fraction of rows, accuracy minus probability, its standard error."""
    rows, excess = np.zeros((len(some), 10)), np.zeros((len(some), 10))
    for i, one in enumerate(some):
        decile = np.minimum((10 * one["p"]).astype(int), 9)
        rows[i] = np.bincount(decile, minlength=10)
        excess[i] = np.bincount(decile, one["right"] - one["p"], minlength=10)
    total = np.maximum(rows.sum(0), 1)
    gap = excess.sum(0) / total
    error = np.sqrt(np.maximum(np.sum((excess - gap * rows) ** 2, 0), 0.25 * rows.sum(0))) / total
    return rows.sum(0) / rows.sum(), gap, error


def table(found: list[dict[str, Any]]) -> tuple[Table, list[str]]:
    """A row for each shape and number of labels, and all together; and the deciles that are off."""
    result = Table("shape", "labels", "accuracy", "log loss", "ECE", *(f"{a:.1f}" for a in DECILES[:-1]))
    off = []
    cells = [(shape, n) for shape in (*SHAPES, "all") for n in (*LABELS, 0)]
    for shape, n in cells:
        some = [one for one in found if shape in (one["shape"], "all") and n in (one["labels"], 0)]
        if not some:
            continue
        fraction, gap, error = reliability(some)
        name = [shape, str(n) if n else "all"]
        accuracy = np.mean([one["right"].mean() for one in some])
        loss = np.mean([one["loss"] for one in some])
        ece = float(fraction @ np.abs(gap))
        gaps = [f"{100 * g:+.0f}" if s > 0 else "" for g, s in zip(gap, fraction, strict=True)]
        result.add_row(*name, f"{accuracy:.3f}", f"{loss:.3f}", f"{ece:.3f}", *gaps)
        for j in np.flatnonzero((np.abs(gap) > SLACK + 2 * error) & (fraction > 0)):
            off.append(f"{', '.join(name)}: {100 * gap[j]:+.1f} ± {100 * error[j]:.1f} points at {DECILES[j]:.1f}")
    return result, off


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=40, help="data sets, of all shapes together")
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), help="all of them if none is named")
    parser.add_argument("--first", type=int, default=0, help="seed of the first; the defaults were chosen on 0 to 11")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.sets < 1:
        parser.error(f"--sets is {given.sets}; give at least 1")
    shapes, console, begin = given.shapes or list(SHAPES), Console(width=140), time.time()
    jobs = [delayed(one_set)(shapes[i % len(shapes)], given.first + i // len(shapes)) for i in range(given.sets)]
    found = [one for sets in Parallel(given.jobs, batch_size=1)(jobs) for one in sets]
    shown, off = table(found)
    console.print(shown)
    console.print(
        "Right columns: points by which the accuracy exceeds the predicted probability, for each tenth of it."
    )
    console.print(f"{len(off)} are off by more than {100 * SLACK:g} points and twice their error")
    for line in off:
        console.print("  " + line)
    console.print(f"{given.sets} data sets, {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
