"""What the pages on targets, labels and missing readings quote, on simulated data and on the pictures of COIL.

python benchmarks/targets.py outliers     gross errors among the labels: Gaussian and Student noise
python benchmarks/targets.py suggested    labels that the model asks for, against labels at random
python benchmarks/targets.py gaps         readings that are missing for a reason, and by chance
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpum import GPUMRegressor, datasets

REPEATS = 10
ERROR = (3, 5)  # size of a gross error in standard deviations of the target


def rms(error: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(error**2)))


def given(y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """y with NaN where it is not known."""
    found = np.full(y.shape, np.nan)
    found[known] = y[known]
    return found


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3g} ± {np.std(values):.1g}"


def outliers() -> None:
    """A Swiss roll, noise 0.05, a tenth of the labels off."""
    title = f"RMSE, mean ± sd over {REPEATS} label sets"
    table = Table("labels", "none wrong, Gaussian", "correct ones alone", "all, Gaussian", "all, Student", title=title)
    cloud = datasets.make_swiss_roll(random_state=0)
    truth, X = cloud.y_true, cloud.X
    models = {
        likelihood: GPUMRegressor(
            2, geometry=["atlas", "graph"], likelihood=likelihood, warm_start=True, random_state=0
        )
        for likelihood in ("gaussian", "student")
    }
    for n in (40, 100):
        found: list[list[float]] = [[], [], [], []]
        for seed in range(REPEATS):
            rng = np.random.default_rng(seed)
            y = truth + 0.05 * rng.standard_normal(len(truth))
            known = rng.choice(len(y), n, replace=False)
            wrong, bad = known[: n // 10], y.copy()
            size = rng.uniform(*ERROR, len(wrong)) * rng.choice([-1, 1], len(wrong))
            bad[wrong] += size * truth.std()
            gauss, student = models["gaussian"], models["student"]
            tried: Any = ((gauss, y, known), (gauss, y, known[n // 10 :]), (gauss, bad, known), (student, bad, known))
            for row, (model, labels, some) in zip(found, tried, strict=True):
                row.append(rms(model.fit(X, given(labels, some)).predict(X) - truth))
        table.add_row(f"{n}, of which {n // 10} wrong", *map(spread, found))
    Console(width=120).print(table)


def suggested() -> None:
    """Labels two at a time, from the same beginning, on the roll and on the pictures of COIL."""
    roll = datasets.make_swiss_roll(random_state=0)
    clouds = {"Swiss roll, 474 rows": (roll.X, roll.y_true, 0.05, "atlas", (4, 14, 24))}
    try:
        pictures = datasets.fetch_coil()
        clouds["pictures of COIL, 66 rows"] = (pictures.X, pictures.y, 0.0, ["chart", "graph"], (3, 9, 13))
    except OSError as error:
        Console().print(f"without the pictures of COIL: {error}")
    table = Table("cloud", "labels", "at random", "suggested", "most information")
    for name, (X, truth, noise, geometry, counts) in clouds.items():
        model = GPUMRegressor(2, geometry=geometry, warm_start=True, random_state=0)
        found: dict[Any, dict[int, list[float]]] = {
            how: {n: [] for n in counts} for how in (None, "variance", "information")
        }
        for seed in range(REPEATS):
            rng = np.random.default_rng(seed)
            y, order = truth + noise * rng.standard_normal(len(truth)), rng.permutation(len(truth))
            for how, errors in found.items():
                known = order[: counts[0]]
                while True:
                    mean = model.fit(X, given(y, known)).predict(X)
                    if len(known) in errors:
                        errors[len(known)].append(rms(mean - truth))
                    if len(known) >= counts[-1]:
                        break
                    n = min(2, counts[-1] - len(known), min(c for c in counts if c > len(known)) - len(known))
                    more = order[len(known) :][:n] if how is None else model.suggest(n, criterion=how)
                    known = np.append(known, more)
        for n in counts:
            table.add_row(name, str(n), *(spread(errors[n]) for errors in found.values()))
    table.title = f"RMSE, mean ± sd over {REPEATS} beginnings"
    Console(width=120).print(table)


def signals(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Signals [60, 24] of 24 senders along a walk, and the positions [60, 2]."""
    u = np.sort(rng.uniform(0, 100, 60))
    positions = np.stack([20 + 20 * np.sin(u / 16), 0.6 * u], 1)
    senders = np.stack([rng.uniform(0, 45, 24), rng.uniform(-5, 65, 24)], 1)
    away = np.maximum(np.linalg.norm(positions[:, None] - senders, axis=2), 1)
    return -40 - 30 * np.log10(away) + 3 * rng.standard_normal(away.shape), positions


def gaps(limit: float = -82.0) -> None:
    """Readings below a limit are missing; or as many by chance."""
    table = Table("readings", "flat", "graph", title=f"RMSE of both coordinates, mean ± sd over {REPEATS} walks")
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        S, positions = signals(rng)
        cut, known = np.where(limit < S, S, np.nan), rng.choice(len(S), 8, replace=False)
        by_chance = np.where(rng.random(S.shape) < np.mean(np.isnan(cut)), np.nan, S)
        by_chance[np.isnan(by_chance).all(1), 0] = S[np.isnan(by_chance).all(1), 0]
        cut[np.isnan(cut).all(1), 0] = limit
        readings = {
            "nothing missing": S,
            "weak ones cut, the limit in place of a gap": np.where(np.isnan(cut), limit, cut),
            "cut, gaps and a column 0 or 1 for each column": np.hstack([cut, np.isnan(cut).astype(float)]),
            "cut, gaps": cut,
            "as many gaps by chance": by_chance,
        }
        for name, X in readings.items():
            X = X[:, ~np.isnan(X).all(0)]
            for geometry in ("flat", "graph"):
                model = GPUMRegressor(geometry=geometry, random_state=0).fit(X, given(positions, known))
                error = rms(np.delete(model.predict(X) - positions, known, 0))
                found.setdefault(name, {}).setdefault(geometry, []).append(error)
    for name, errors in found.items():
        table.add_row(name, *(spread(errors[geometry]) for geometry in ("flat", "graph")))
    Console(width=120).print(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"outliers": outliers, "suggested": suggested, "gaps": gaps}[sys.argv[1]]()
