"""How many labels does it take to find the largest value? Regret of `suggest(goal="maximum")` and of others.

    python benchmarks/goals.py [--sets N] [--labels N] [--clouds roll,mesh] [--methods gp,gpum]

A function is known at a few rows of a cloud; one label at a time is added, and regret is the largest value of all rows
less the largest one with a label, over the range of the function. Printed for each cloud and method: the mean regret
after a quarter, half and all of the labels with its standard error, and the median number of labels until it is below
1 % ("more": not reached). A run ends there: the search is over.

    random    rows drawn at random
    gp        scikit-learn's GP (Matérn 5/2 with noise, fitted by evidence) and expected improvement
    graph     a GP with a Matérn kernel on the graph of the rows, fitted by evidence, and expected improvement
    gpum      this library; the geometry is learned once, before the first label
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from gpum import GPUMRegressor, GraphMaternGPRegressor, Mesh, datasets

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from shapes import sphere

FIRST = 3  # labels at the start
NOISE = 0.01  # of labels, over the range


def ring(rng):
    """A curve of 200 rows in R⁶ that nearly closes, and a function that jumps where it does not."""
    t = np.sort(rng.uniform(0.2, 2 * np.pi - 0.2, 200))
    waves = np.stack([np.cos(t), np.sin(t), 0.4 * np.cos(2 * t), 0.4 * np.sin(2 * t)], 1)
    X = waves @ np.linalg.qr(rng.standard_normal((6, 4)))[0].T + 0.01 * rng.standard_normal((200, 6))
    return X, np.sin(rng.uniform(1, 2) * t + rng.uniform(0, 6)) + 0.3 * t, ["atlas", "graph", "flat"]


def roll(rng):
    """A Swiss roll of 400 rows, and bumps on it."""
    cloud = datasets.make_swiss_roll(n_labeled=10, n_unlabeled=390, random_state=int(rng.integers(1000)))
    r, z = cloud.chart_coords.T
    u = r**2 / 2
    return cloud.X, bumps(rng, np.column_stack([u, 4 * z]), 12.0), ["atlas", "graph", "flat"]


def mesh(rng):
    """600 rows on a sphere that is given as a mesh, and bumps on it."""
    X = rng.standard_normal((600, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, bumps(rng, X, 0.5), Mesh(*sphere(3))


def pictures(rng):
    """400 pictures of a bar, 14 × 14 pixels, at any angle and some heights, and bumps on these."""
    angle, height = rng.uniform(0, np.pi, 400), rng.uniform(-3, 3, 400)
    y, x = np.mgrid[-6.5:7, -6.5:7]
    along = np.multiply.outer(np.cos(angle), x) + np.sin(angle)[:, None, None] * (y - height[:, None, None])
    across = np.multiply.outer(-np.sin(angle), x) + np.cos(angle)[:, None, None] * (y - height[:, None, None])
    X = np.exp(-((along / 4) ** 4) - (across / 1.3) ** 2).reshape(400, -1)
    at = np.column_stack([np.cos(2 * angle), np.sin(2 * angle), height / 2])  # a bar turned by half a turn is the same
    return X + 0.02 * rng.standard_normal(X.shape), bumps(rng, at, 0.5), ["atlas", "graph", "flat"]


def bumps(rng, at, width):
    """Six bumps of different heights around rows."""
    centres = at[rng.choice(len(at), 6, replace=False)]
    squares = ((at[:, None] - centres) ** 2).sum(2)
    return np.exp(-squares / (2 * width**2)) @ rng.uniform(0.3, 1, 6)


class Random:
    """Rows drawn at random, from other random numbers than the function was."""

    def __init__(self, X, geometry, seed):
        self.rng = np.random.default_rng([seed, 1])

    def next(self, X, y):
        """A row without a label."""
        return self.rng.choice(np.flatnonzero(np.isnan(y)))


class Peer(Random):
    """scikit-learn's GP and expected improvement."""

    def next(self, X, y):
        """The row of largest expected improvement."""
        known = ~np.isnan(y)
        mean, std = self.posterior(X, y, known)
        ahead = mean - mean[known].max()
        gain = ahead * norm.cdf(ahead / std) + std * norm.pdf(ahead / std)
        return int(np.argmax(np.where(known, -np.inf, gain)))

    def posterior(self, X, y, known):
        """Mean and standard deviation at all rows."""
        kernel = ConstantKernel(1.0) * Matern(np.std(X), nu=2.5) + WhiteKernel(1e-3, (1e-6, 1.0))
        model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
        return model.fit(X[known], y[known]).predict(X, return_std=True)


class OnGraph(Peer):
    """A GP on the graph of the rows, and expected improvement."""

    def posterior(self, X, y, known):
        """Mean and standard deviation at all rows."""
        model = GraphMaternGPRegressor(hyperparameters="evidence").fit(X, y)
        return model.predict(X, return_std=True, include_noise=False)


class Ours(Random):
    """This library."""

    def __init__(self, X, geometry, seed):
        self.model = GPUMRegressor(geometry=geometry, warm_start=True, random_state=0)

    def next(self, X, y):
        """The row of largest expected improvement."""
        return int(self.model.fit(X, y).suggest(1, goal="maximum")[0])


METHODS = {"random": Random, "gp": Peer, "graph": OnGraph, "gpum": Ours}
CLOUDS = {"ring": ring, "roll": roll, "mesh": mesh, "pictures": pictures}
FOUND = 0.01  # regret at which the search is over


def run(task, name, seed, n_labels):
    """Regret after each label, [n_labels + 1]."""
    rng = np.random.default_rng(seed)
    X, truth, geometry = task(rng)
    spread = np.ptp(truth)
    noisy = truth + NOISE * spread * rng.standard_normal(len(X))
    y = np.full(len(X), np.nan)
    first = rng.choice(np.flatnonzero(truth < np.median(truth)), FIRST, replace=False)
    y[first] = noisy[first]
    method, regret = METHODS[name](X, geometry, seed), []
    for _ in range(n_labels + 1):
        regret.append((truth.max() - truth[~np.isnan(y)].max()) / spread)
        if regret[-1] < FOUND:
            break
        row = method.next(X, y)
        y[row] = noisy[row]
    return np.append(regret, np.full(n_labels + 1 - len(regret), regret[-1]))


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=8, help="functions on each cloud")
    parser.add_argument("--labels", type=int, default=40, help="labels that are added")
    parser.add_argument("--clouds", default=",".join(CLOUDS))
    parser.add_argument("--methods", default=",".join(METHODS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    after = asked.labels // 4, asked.labels // 2, asked.labels
    print(f"{'cloud':10}{'method':8}" + "".join(f"{f'after {n}':>16}" for n in after) + "  labels to 99 %")
    for cloud in asked.clouds.split(","):
        for name in asked.methods.split(","):
            regrets = np.array([run(CLOUDS[cloud], name, seed, asked.labels) for seed in range(asked.sets)])
            reached = [np.argmax(regret < FOUND) if regret[-1] < FOUND else np.inf for regret in regrets]
            median = f"{np.median(reached):.3g}" if np.isfinite(np.median(reached)) else "more"
            errors = regrets.std(0) / np.sqrt(len(regrets))
            columns = "".join(f"{regrets[:, k].mean():8.3f} ± {errors[k]:.3f}" for k in after)
            print(f"{cloud:10}{name:8}{columns}  {median}", flush=True)


if __name__ == "__main__":
    main()
