"""Time and accuracy of the regression on generated Swiss rolls; all comparisons in one run on one machine.

1. Sparse: 5 000 labels of 6 000 rows, the GP from eigenfunctions against the exact GP with the same kernel (dense
   algebra on all labels); then 50 000 labels.
2. New rows: 20 % of the rows left out of the cloud altogether, against the same rows in the cloud without labels.
3. The README's script in a process of its own, cold start included.

    python benchmarks/regression.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve

from gpum import GPUMRegressor, KernelOptions, SwissRoll, datasets
from gpum.geometry.candidate_set import spectral_candidates
from gpum.geometry.chart import domain_of

console = Console()
SCRIPT = """
from gpum import GPUMRegressor, datasets
cloud = datasets.make_swiss_roll(n_labeled=24, n_unlabeled=450, random_state=0)
model = GPUMRegressor(latent_dim=2, random_state=0).fit(cloud.X, cloud.y)
mean, std = model.predict(cloud.X, return_std=True)
"""


def rms(error: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(error**2)))


def sparse() -> None:
    """Comparison 1: a known chart, so that only the GP is timed."""
    chart = SwissRoll()
    table = Table("labels", "rows", "GP", "seconds", "rmse", title="Sparse regression (GP only)")
    space = domain_of([chart], 100)
    for n, N in ((5_000, 6_000), (50_000, 55_000)):
        cloud = datasets.make_swiss_roll(n_labeled=N, n_unlabeled=0, random_state=0)
        X, y, truth = cloud.chart_coords, cloud.y, cloud.y_true
        labels = np.where(np.arange(N) < n, y, np.nan)
        GPUMRegressor(latent_model=chart, kernel=KernelOptions(n_modes=100), smoothness="heat", random_state=0).fit(
            X[:50], y[:50]
        )
        begin = time.perf_counter()
        model = GPUMRegressor(latent_model=chart, kernel=KernelOptions(n_modes=100), smoothness="heat", random_state=0)
        model.fit(X, labels)
        mean, _ = model.predict(X[n:], return_std=True)
        seconds = time.perf_counter() - begin
        table.add_row(str(n), str(N), "eigenfunctions", f"{seconds:.2f}", f"{rms(mean - truth[n:]):.4f}")
        if n > 10_000:
            continue
        rows = space.at(X)
        settings = spectral_candidates(space.values, rows, 2, ["heat"])
        begin = time.perf_counter()
        mean = exact(settings, rows[:n], y[:n], rows[n:])
        seconds = time.perf_counter() - begin
        table.add_row(str(n), str(N), "exact, 12 times × 1 noise", f"{seconds:.2f}", f"{rms(mean - truth[n:]):.4f}")
    console.print(table)


def exact(settings: list[Any], a: np.ndarray, y: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Evidence over the same times by Cholesky of the n × n matrix, noise at the true level; the best one's mean."""
    centre, scale = y.mean(), y.std()
    z, ratio = (y - centre) / scale, (0.05 / scale) ** 2
    top = None
    for setting in settings:
        K = setting.covariance.gram(a, a)
        K[np.diag_indices_from(K)] += ratio
        factor = cho_factor(K, lower=True, overwrite_a=True)
        alpha = cho_solve(factor, z)
        signal = z @ alpha / len(z)
        value = -0.5 * len(z) * np.log(signal) - np.log(np.diag(factor[0])).sum()
        if top is None or value > top[0]:
            top = value, setting, alpha
    assert top is not None
    return centre + scale * (top[1].covariance.gram(b, a) @ top[2])


def new_rows() -> None:
    """Comparison 2."""
    table = Table("seed", "rmse, in the cloud", "rmse, left out", "ratio", title="Rows never seen (20 % of 450)")
    for seed in range(3):
        cloud = datasets.make_swiss_roll(n_labeled=24, n_unlabeled=450, random_state=seed)
        unknown = np.flatnonzero(np.isnan(cloud.y))
        out = np.random.default_rng(seed).choice(unknown, len(unknown) // 5, replace=False)
        rest = np.setdiff1d(np.arange(len(cloud.y)), out)
        whole = GPUMRegressor(random_state=0).fit(cloud.X, cloud.y)
        fewer = GPUMRegressor(random_state=0).fit(cloud.X[rest], cloud.y[rest])
        inside = rms(whole.transduction_[out] - cloud.y_true[out])
        outside = rms(fewer.predict(cloud.X[out]) - cloud.y_true[out])
        table.add_row(str(seed), f"{inside:.4f}", f"{outside:.4f}", f"{outside / inside:.2f}")
    console.print(table)


def cold() -> None:
    """Comparison 3."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
    console.print(f"the README's script, cold start included: {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    sparse()
    new_rows()
    cold()
