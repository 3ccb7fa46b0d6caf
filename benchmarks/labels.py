"""How the error falls with the number of labels, on both sides of every number at which something switches.

    python benchmarks/labels.py [--curves trend,waves,steps,tails,roll] [--most 10000] [--tables FOLDER] [--jobs 2]

Each row of a curve is one fit: GPUM with `geometry="flat"`, of the roll with all its defaults, beside scikit-learn's
gradient boosting with the spread of its left-out errors as noise. RMSE of the function and mean negative log density of
new observations, both in units of the labels' standard deviation; how many of them lie in the 95 % interval.

    trend   20 columns, a linear function, noise as large as half of the steepest slope
    waves   12 columns, sin 2x₁ + x₂, little noise; ten columns do not matter
    steps   10 columns, steps and waves; the noise differs from row to row by a factor of a thousand
    tails   8 columns, a product of two; noise with heavy tails
    roll    3 columns, a Swiss roll

--tables names a folder of *.npz with X, y and test (a mask of rows): all other rows have labels.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from gpum import GPUMRegressor, datasets

CURVES = ("trend", "waves", "steps", "tails", "roll")
NUMBERS = (100, 250, 251, 500, 501, 1000, 1001, 2000, 2001, 5000, 10_000, 30_000)
NEW = 1000  # rows without a label
COLUMNS = ("data", "labels", "columns", "GPUM: RMSE; NLPD (coverage)", "boosting", "GPUM: fit, s", "new rows, s")


def simulated(name: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, the function at the rows, and which of them have no label."""
    rng = np.random.default_rng(0)
    if name == "roll":
        cloud = datasets.make_swiss_roll(n_labeled=n, n_unlabeled=NEW, random_state=0)
        new = np.isnan(cloud.y)
        y = cloud.y_true + 0.05 * rng.standard_normal(len(new))
        return cloud.X, np.where(new, y, cloud.y), cloud.y_true, new
    p = {"trend": 20, "waves": 12, "steps": 10, "tails": 8}[name]
    X = rng.standard_normal((NEW + n, p))
    noise = rng.standard_normal(NEW + n)
    if name == "trend":
        f, noise = X @ np.linspace(1, 0, p), 0.5 * noise
    elif name == "waves":
        f, noise = np.sin(2 * X[:, 0]) + X[:, 1], 0.1 * noise
    elif name == "steps":
        f, noise = np.sign(X[:, 0]) * (X[:, 1] > -1) + 0.5 * np.sin(3 * X[:, 2]), np.exp(X[:, 3] - 2) * noise
    else:
        f, noise = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], 0.1 * rng.standard_t(2.5, NEW + n)
    return X, f + noise, f, np.arange(NEW + n) < NEW


def row_of(name: str, n: int, file: Path | None) -> list[str]:
    """One fit, as a row of the table."""
    warnings.simplefilter("ignore")
    if file is None:
        X, y, truth, new = simulated(name, n)
    else:
        data = np.load(file)
        X, y, truth, new = data["X"].astype(float), data["y"], data["y"], data["test"]
    spread = y[~new].std()
    begin = time.perf_counter()
    geometry = "flat" if file is None and name != "roll" else "average"
    model = GPUMRegressor(geometry=geometry, random_state=0).fit(X[~new], y[~new])
    fitted = time.perf_counter()
    mean, std = model.predict(X[new], return_std=True)
    done = time.perf_counter()
    ours = _figures(mean, std, y[new], truth[new], spread)
    boosting = HistGradientBoostingRegressor(random_state=0)
    left_out = cross_val_predict(boosting, X[~new], y[~new], cv=5)
    mean = boosting.fit(X[~new], y[~new]).predict(X[new])
    std = np.full(len(mean), np.std(left_out - y[~new]))
    labels = int(np.sum(~new))
    return [
        name, f"{labels:,}", str(X.shape[1]), ours, _figures(mean, std, y[new], truth[new], spread),
        f"{fitted - begin:.1f}", f"{done - fitted:.1f}",
    ]  # fmt: skip


def _figures(mean: np.ndarray, std: np.ndarray, y: np.ndarray, truth: np.ndarray, spread: float) -> str:
    error = np.sqrt(np.mean((mean - truth) ** 2)) / spread
    density = np.mean(0.5 * np.log(2 * np.pi * (std / spread) ** 2) + 0.5 * ((mean - y) / std) ** 2)
    inside = np.mean(np.abs(mean - y) < 1.96 * std)
    return f"{error:.4f}; {density:.2f} ({inside:.2f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", default="")
    parser.add_argument("--most", type=int, default=10_000)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    names = given.curves.split(",") if given.curves else () if given.tables else CURVES
    asked = [(name, n, None) for name in names for n in NUMBERS if n <= given.most]
    asked += [(file.stem, 0, file) for file in sorted(given.tables.glob("*.npz"))] if given.tables else []
    table = Table(*COLUMNS, title="many labels")
    for row in Parallel(given.jobs)(delayed(row_of)(*one) for one in asked):
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
