"""The paper's regression experiments: clouds, label sets, and the tables in print.

Details that the paper does not give were inferred; `docs/reproduction.md` lists them. Label sets depend only on a seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpum.datasets import fetch_coil, fetch_wifi, make_swiss_roll
from gpum.tools import swiss_roll_points

SLICE = 4.0  # z of the line on which predictions are compared
N_SLICE = 61


@dataclass(frozen=True)
class Task:
    """One column of a table: a cloud, its target, label sets [splits, labels] and RMSE in print, mean and sd."""

    key: str
    title: str
    X: np.ndarray
    y: np.ndarray  # labels, with noise if any
    truth: np.ndarray  # true values with which predictions are compared
    splits: np.ndarray
    test: np.ndarray | None  # rows that are predicted; None: all without a label
    printed: dict[str, tuple[float, float]]
    target: str
    line: np.ndarray | None = None  # further rows to predict with the first label set
    data: dict[str, Any] = field(default_factory=dict)

    def labels(self, split: int) -> np.ndarray:
        """y with NaN where the split has no label."""
        y = np.full(len(self.X), np.nan)
        y[self.splits[split]] = self.y[self.splits[split]]
        return y

    def tested(self, split: int) -> np.ndarray:
        """The rows that the split is tested on."""
        return np.setdiff1d(np.arange(len(self.X)), self.splits[split]) if self.test is None else self.test


def _printed(euclidean: Any, latent: Any, gpum: Any, gl: Any, gm: Any) -> dict[str, tuple[float, float]]:
    return {"euclidean": euclidean, "latent": latent, "gpum": gpum, "gl": gl, "gm": gm}


ROLLS = {
    250: _printed((0.284, 0.006), (0.293, 0.005), (0.163, 0.020), (0.243, 0.003), (0.231, 0.001)),
    450: _printed((0.298, 0.007), (0.290, 0.005), (0.162, 0.003), (0.220, 0.002), (0.207, 0.002)),
    800: _printed((0.287, 0.006), (0.282, 0.005), (0.164, 0.002), (0.216, 0.001), (0.206, 0.001)),
}
WIFI = _printed((5.57, 1.43), (4.83, 1.83), (4.11, 0.88), (5.6, 1.15), (6.04, 0.57))
COIL = _printed((0.097, 0.040), (0.094, 0.042), (0.060, 0.038), (0.116, 0.027), (0.143, 0.026))


def swiss_roll(v: int, n_splits: int = 20, seed: int = 0) -> Task:
    """The Swiss roll with v grid points: sets of 23 of its 24 labels, tested on the grid against the true function."""
    cloud = make_swiss_roll(n_labeled=24, n_unlabeled=v, random_state=seed)
    left_out = np.random.default_rng(seed).permutation(24)[:n_splits]
    splits = np.array([np.delete(np.arange(24), k) for k in left_out])
    y = np.where(np.isnan(cloud.y), 0.0, cloud.y)
    r = np.linspace(cloud.chart.r[0], cloud.chart.r[1], N_SLICE)
    line = swiss_roll_points(np.stack([r, np.full(N_SLICE, SLICE)], 1))
    data = {"coords": cloud.chart_coords, "line": r}
    return Task(
        f"swissroll_{v}", f"Swiss roll, v = {v}", cloud.X, y, cloud.y_true, splits, np.arange(24, len(cloud.X)),
        ROLLS[v], "f", line, data,
    )  # fmt: skip


def wifi(n_splits: int = 20, seed: int = 0, data_home: Any = None) -> Task:
    """WiFi readings at 36 positions: one label from each third of the tour; target the x coordinate."""
    found = fetch_wifi(data_home=data_home)
    n = len(found.X) // 3
    splits = np.random.default_rng(seed).integers(0, n, (n_splits, 3)) + n * np.arange(3)
    x = found.y[:, 0]
    return Task("wifi", "WiFi", found.X, x, x, splits, None, WIFI, "x", data={"positions": found.y})


def coil(n_splits: int = 10, seed: int = 0, data_home: Any = None) -> Task:
    """Views of the toy cat: sets of 13 of 66 labels; target the angle over 360 degrees."""
    found = fetch_coil(data_home=data_home)
    rng = np.random.default_rng(seed)
    splits = np.array([np.sort(rng.choice(len(found.X), 13, replace=False)) for _ in range(n_splits)])
    data = {"images": found.images, "angle": found.angle_deg}
    return Task("coil", "COIL", found.X, found.y, found.y, splits, None, COIL, "angle / 360°", data=data)
