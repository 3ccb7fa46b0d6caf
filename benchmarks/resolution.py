"""Do more rows help, and is it seen without labels? Simulated clouds of 20 000 rows in R¹⁰ with 300 labels.

For each shape: the estimated dimension, the fraction of paths between 3 000 rows that become longer with 12 000
(`gpum.basics.resolution`; above 0.05 more rows are used), the number of rows that are then used, and the error (RMSE
against the function without noise) of an atlas, or with --chart of a chart, learned from 3 000, 6 000 and 12 000 rows.

    python benchmarks/resolution.py [--chart] [SHAPE ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from gpum import GPUMRegressor
from gpum.basics import resolution
from gpum.estimators import subset
from gpum.fitted import Cloud, cloud

N, LABELS, COLUMNS = 20_000, 300, 10
SIZES = (3000, 6000, 12_000)
Shape = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def turned(rng: np.random.Generator, points: np.ndarray, noise: float) -> np.ndarray:
    """Points of a few dimensions in R¹⁰, with noise in all of its directions."""
    axes = np.linalg.qr(rng.standard_normal((COLUMNS, points.shape[1])))[0]
    return points @ axes.T + noise * rng.standard_normal((len(points), COLUMNS))


def roll(turns: float, gap: float, start: float = 1.0, noise: float = 0.02) -> Shape:
    """A roll of that many turns, `gap` apart and 12 wide, even in arc length."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        angle = np.linspace(0, 2 * np.pi * turns, 20_001)
        speed = np.hypot(start + gap * angle / (2 * np.pi), gap / (2 * np.pi))
        length = np.append(0, np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(angle)))
        u, z = rng.uniform(0, length[-1], N), rng.uniform(0, 12, N)
        a = np.interp(u, length, angle)
        r = start + gap * a / (2 * np.pi)
        target = np.sin(6 * np.pi * u / length[-1]) + 0.4 * np.cos(np.pi * z / 12)
        return turned(rng, np.stack([r * np.cos(a), r * np.sin(a), z], 1), noise), target

    return make


def wavy(waves: int) -> Shape:
    """A sheet with waves along one direction, as high as they are long."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        t = np.linspace(0, 1, 40_001)
        height = np.sin(2 * np.pi * waves * t) / waves
        length = np.append(0, np.cumsum(np.hypot(np.diff(t), np.diff(height))))
        u, z = rng.uniform(0, length[-1], N), rng.uniform(0, 1, N)
        x = np.interp(u, length, t)
        along = u / length[-1]
        target = np.sin(6 * np.pi * along) + 0.5 * np.sin(2 * np.pi * waves * along) + 0.4 * np.cos(np.pi * z)
        return turned(rng, np.stack([x, z, np.sin(2 * np.pi * waves * x) / waves], 1), 0.002), target

    return make


def curved(q: int, frequency: float, noise: float = 0.02) -> Shape:
    """A surface of q dimensions made of sines."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(0, 1, (N, q))
        points = np.sin(x @ rng.standard_normal((q, COLUMNS)) * frequency * np.pi + rng.uniform(0, 2 * np.pi, COLUMNS))
        return turned(rng, points, noise), np.sin(3 * x[:, 0]) + np.cos(4 * x[:, -1])

    return make


SHAPES: dict[str, tuple[int, Shape]] = {
    "roll": (2, roll(1.7, 2 * np.pi, 2.0)),
    "roll, noise": (2, roll(1.7, 2 * np.pi, 2.0, 0.3)),
    "surface of 2": (2, curved(2, 2.0)),
    "surface of 3": (3, curved(3, 1.0)),
    "surface of 3, folded": (3, curved(3, 2.0)),
    "ten waves": (2, wavy(10)),
    "six close turns": (2, roll(6, 1.0)),
    "eight closer turns": (2, roll(8, 0.6)),
}


def main() -> None:
    """Print the table, a row for each shape."""
    geometry = "chart" if "--chart" in sys.argv else "atlas"
    asked = [name for name in sys.argv[1:] if name != "--chart"] or list(SHAPES)
    columns = ("shape", "dimension", "too short", "rows used", *(f"RMSE, {n:,}" for n in SIZES))
    table = Table(*columns, title=f"{geometry}, {N:,} rows, {LABELS} labels")
    with Live(table, console=Console(width=120)):
        for name in asked:
            q, make = SHAPES[name]
            X, truth = make(np.random.default_rng(1))
            part = cloud.with_subset(Cloud(X, 1.0), 0)[0]
            order = np.random.default_rng(0).permutation(part.subset)
            rest = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(N), part.subset))
            _, fraction = resolution.enough(X[np.append(order, rest)], SIZES[0], 0)
            used = subset.chosen(Cloud(X, 1.0), 0, False, "bgplvm", True, False).cloud
            found = [name, f"{subset._dimension(part, 0):.1f}", f"{fraction:.3f}", f"{len(used.learned):,}"]
            rng = np.random.default_rng(0)
            known = np.isin(np.arange(N), rng.choice(N, LABELS, replace=False))
            y = np.where(known, truth + 0.05 * rng.standard_normal(N), np.nan)
            default = cloud.SUBSET, subset.WORK
            for n in SIZES:
                cloud.SUBSET, subset.WORK = n, 0.0
                model = GPUMRegressor(q, geometry=geometry, random_state=0).fit(X, y)
                found.append(f"{np.sqrt(np.mean((model.predict(X) - truth) ** 2)):.3f}")
            cloud.SUBSET, subset.WORK = default
            table.add_row(*found)


if __name__ == "__main__":
    main()
