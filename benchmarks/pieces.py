"""Clouds of several pieces: what each geometry does on them, beside one piece.

    python benchmarks/pieces.py [--jobs 2] [--seeds 4]

Each cloud has 360 rows in R³ with noise, of which 40 have a label with noise of 5 % of its standard deviation; the
target is a smooth function along each piece, with another one on every piece:

    one sheet          a wavy sheet
    two, three sheets  wavy sheets beside each other
    sheet and curve    a sheet, and a curve far from it
    branches           three curves that meet
    five rows          a sheet, and a piece of five rows, one of which has a label
    no label           two sheets, one of them without a label

The error (RMSE) is that of the pieces with labels, over the spread of the function. Coverage: how many of the rows
without a label have their observation in the 95 % interval; after the bar those of a piece without labels. Beyond: the
largest distance of a mean from the range of the labels, in standard deviations of its own prediction.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from gpum import GPUMRegressor

ROWS, LABELS, OFF, NOISE = 360, 40, 0.02, 0.05
SHAPES = ("one sheet", "two sheets", "three sheets", "sheet and curve", "branches", "five rows", "no label")
GEOMETRIES = ("chart", "atlas", "graph", "average")


def cloud(shape: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, the piece of each, the true function, and which rows have a label."""
    pieces = {"two sheets": 2, "three sheets": 3, "branches": 3, "sheet and curve": 2, "no label": 2, "five rows": 2}
    piece = rng.integers(0, pieces.get(shape, 1), ROWS)
    if shape == "five rows":
        piece = (np.arange(ROWS) < 5).astype(int)
    u, v = rng.uniform(0, 2, (2, ROWS))
    X = np.stack([u, v, 0.3 * np.sin(3 * u) + 1.5 * piece], 1)
    if shape == "sheet and curve":
        X[piece == 1] = np.stack([u, 3 + 0.5 * np.sin(3 * u), u], 1)[piece == 1]
        v = np.where(piece == 1, 0.0, v)
    if shape == "branches":
        angle = 2 * np.pi * piece / 3
        X, v = np.stack([u * np.cos(angle), u * np.sin(angle), 0.2 * np.sin(3 * u)], 1), np.zeros(ROWS)
    if shape == "five rows":
        X[piece == 1, :2] *= 0.1
    wave = rng.uniform(1, 3, (3, 2))
    f = np.sin(wave[piece, 0] * u) + np.cos(wave[piece, 1] * v)
    f += 0.0 if shape == "branches" else rng.standard_normal(3)[piece]  # branches meet
    known = np.zeros(ROWS, bool)
    from_these = np.flatnonzero(piece == 0) if shape in ("no label", "five rows") else np.arange(ROWS)
    known[rng.choice(from_these, LABELS, replace=False)] = True
    if shape == "five rows":
        known[0] = True
    return X + OFF * rng.standard_normal(X.shape), piece, f, known


def measure(shape: str, geometry: str, seed: int) -> tuple[float, ...]:
    """RMSE over the function's spread, coverage, coverage of a piece without labels, and how far a mean is beyond."""
    rng = np.random.default_rng(seed)
    X, piece, f, known = cloud(shape, rng)
    observed = f + NOISE * f.std() * rng.standard_normal(ROWS)
    y = np.where(known, observed, np.nan)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model = GPUMRegressor(geometry=geometry, random_state=0, n_jobs=1).fit(X, y)
        mean, std = model.predict(X, return_std=True)
        low, high = model.predict_quantiles(X, (0.025, 0.975)).T
    inside, rest = (low <= observed) & (observed <= high), ~known
    labelled = np.isin(piece, piece[known])
    beyond = np.maximum(mean - np.nanmax(y), np.nanmin(y) - mean) / std
    some, bare = rest & labelled, rest & ~labelled
    error = np.sqrt(np.mean((mean - f)[some] ** 2)) / f.std()
    return error, inside[some].mean(), inside[bare].mean() if bare.any() else np.nan, beyond.max()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=4)
    given = parser.parse_args()
    tasks = [(shape, geometry, seed) for shape in SHAPES for geometry in GEOMETRIES for seed in range(given.seeds)]
    found = Parallel(given.jobs, verbose=1)(delayed(measure)(*task) for task in tasks)
    titles = [f"{geometry}: error, coverage, beyond" for geometry in GEOMETRIES]
    table = Table("cloud", *titles, title="Clouds of several pieces")
    values = np.array(found).reshape(len(SHAPES), len(GEOMETRIES), given.seeds, 4)
    for shape, of_shape in zip(SHAPES, values, strict=True):
        cells = []
        for error, inside, bare, beyond in of_shape.transpose(0, 2, 1):
            also = "" if np.isnan(bare).any() else f" | {bare.mean():.2f}"
            cells.append(f"{error.mean():.3f}, {inside.mean():.2f}{also}, {beyond.max():.1f}")
        table.add_row(shape, *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
