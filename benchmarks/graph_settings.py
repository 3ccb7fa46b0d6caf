"""What further settings of large graphs gain: numbers of neighbours and widths, for classes and for regression.

Each choice of settings is fitted to the same clouds of ROWS rows and the same label sets, with graph and flat space:

    pictures    FILE.npz with X [N, pixels] and classes y; 1 and 5 labels a class, five sets each
    turned      the digits 3 and 4 among them turned by up to 60 degrees; the target is the angle, 100 and 300 labels
    clusters    20 clusters of ten classes in R³⁰, curved; 1 and 5 labels a class, five sets each
    solid       four dimensions, curved, in R²⁰; the target is a simulated smooth function, 100 and 300 labels

    python benchmarks/graph_settings.py FILE.npz [ROWS [SETS]]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from gpum import GPUMClassifier, GPUMRegressor
from gpum.geometry import graphs
from scaling import calibration_error, label_set, turned

ROWS = 6000
CLASSES = ((10,), (5, 10, 20), (10, 20), (5, 10))
REGRESSION = (((10,), (0.5, 1.0)), ((5, 10, 20), (0.5, 1.0)), ((10,), (0.5, 1.0, 2.0)), ((10, 20), (0.5, 1.0)))
SETS = 5


def clusters(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty curved clusters of ten classes, which overlap a little."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 20, n)
    middle, frame = 2.2 * rng.standard_normal((20, 30)), rng.standard_normal((20, 6, 30))
    z = rng.standard_normal((n, 6))
    X = middle[which] + np.einsum("nk,nkp->np", np.sin(1.2 * z), frame[which]) + 0.3 * rng.standard_normal((n, 30))
    return X, which % 10


def solid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four dimensions, and a smooth function of them."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (n, 4))
    X = np.sin(z @ rng.standard_normal((4, 20)) + rng.uniform(0, 6, 20)) + 0.05 * rng.standard_normal((n, 20))
    return X, np.sin(z @ rng.standard_normal((4, 40)) + rng.uniform(0, 6, 40)).sum(1) / np.sqrt(20)


def of_classes(X: np.ndarray, y: np.ndarray) -> tuple[str, ...]:
    """Seconds of the first fit, and mean accuracy, log loss and calibration error for 1 and 5 labels a class."""
    model, found, seconds = GPUMClassifier(random_state=0, warm_start=True), [], 0.0
    for n in (1, 5):
        figures = []
        for number in range(SETS):
            known = label_set(y, n, number)
            given = np.full(len(y), -1)
            given[known] = y[known]
            begin = time.process_time()
            model.fit(X, given)
            seconds = seconds or time.process_time() - begin
            p, truth = np.delete(np.clip(model.predict_proba(X), 1e-6, 1), known, 0), np.delete(y, known)
            loss = -np.log(p[np.arange(len(truth)), truth]).mean()
            figures.append((np.mean(p.argmax(1) == truth), loss, calibration_error(p, truth)))
        found.append(", ".join(f"{v:.3f}" for v in np.mean(figures, 0)))
    return f"{seconds:.0f}", *found


def of_numbers(X: np.ndarray, target: np.ndarray) -> tuple[str, ...]:
    """Seconds of the first fit, and mean RMSE, NLPD and coverage for 100 and 300 labels."""
    model, found, seconds = GPUMRegressor(geometry=("graph", "flat"), random_state=0, warm_start=True), [], 0.0
    for n in (100, 300):
        figures = []
        for number in range(SETS):
            known = np.random.default_rng(1000 * n + number).choice(len(X), n, replace=False)
            given = np.full(len(X), np.nan)
            given[known] = target[known]
            begin = time.process_time()
            model.fit(X, given)
            seconds = seconds or time.process_time() - begin
            mean, std = (np.delete(v, known) for v in model.predict(X, return_std=True))
            off = mean - np.delete(target, known)
            nlpd = np.mean(0.5 * (off / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi))
            figures.append((np.sqrt(np.mean(off**2)), nlpd, np.mean(np.abs(off) < 1.96 * std)))
        found.append(", ".join(f"{v:.3f}" for v in np.mean(figures, 0)))
    return f"{seconds:.0f}", *found


def table(
    title: str, titles: Sequence[str], choices: Sequence[Any], measure: Callable[[], tuple[str, ...]]
) -> None:  # fmt: skip
    """One cloud: a line for each choice of settings."""
    found = Table("neighbours", "widths", "first fit, processor s", *titles, title=title)
    with Live(found, console=Console(width=140)):
        for n_neighbors, widths in choices:
            graphs.LARGE_NEIGHBOURS, graphs.LARGE_WIDTHS = n_neighbors, widths
            found.add_row(", ".join(map(str, n_neighbors)), ", ".join(map(str, widths)), *measure())


if __name__ == "__main__":
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else ROWS
    SETS = int(sys.argv[3]) if len(sys.argv) > 3 else SETS
    with np.load(sys.argv[1]) as data:
        pictures, y = data["X"], data["y"].astype(int)
    some = np.sort(np.random.default_rng(0).choice(len(y), rows, replace=False))
    angles = [one[:: max(len(one) // rows, 1)][:rows] for one in turned(pictures, y)]
    local = [(n_neighbors, ("local",)) for n_neighbors in CLASSES]
    scores = [f"{n} a class: accuracy, log loss, calibration" for n in (1, 5)]
    errors = [f"{n} labels: RMSE, NLPD, coverage" for n in (100, 300)]
    for title, (X, target) in {"pictures": (pictures[some] / 255.0, y[some]), "clusters": clusters(rows)}.items():
        table(title, scores, local, lambda X=X, target=target: of_classes(X, target))  # type: ignore[misc]
    for title, (X, target) in {"turned": tuple(angles), "solid": solid(rows)}.items():
        table(title, errors, REGRESSION, lambda X=X, target=target: of_numbers(X, target))  # type: ignore[misc]
