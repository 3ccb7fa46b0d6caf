"""How much predictions depend on each prior: every number of `gpum.Priors` is halved and doubled, one at a time.

    python benchmarks/sensitivity.py                      four simulated clouds, some minutes
    python benchmarks/sensitivity.py --tasks FOLDER       tasks *.npz of a folder: rows S, labels y, splits
    python benchmarks/sensitivity.py --clouds roll --labels 5 --sets 10 --rows 400

Surfaces do not depend on priors and are learned once for a cloud. A cell has the change of the negative log predictive
density of new observations (of classes: of the log loss), in nats a row, and in brackets that of the RMSE (of the
fraction of wrong classes) in per cent; the mean over label sets. The first row has the figures under default priors.

    noise, noise of copies    r, the variance of the noise over the signal's, and the width of its prior in log₁₀ r
    signal                    shape and rate of the prior of the variance of signal and noise
    length scale              τ, the scale of inverse squared lengths of columns
    geometry                  the weight of a kind, beside the others
    evidence power            to which the evidence counts between geometries; at most 1

    python benchmarks/sensitivity.py --decisions --sets 1     an hour on one core, less with --kinds and --clouds

does the same with the numbers of `gpum.inference.decisions`, each with targets for which it matters, in flat space and
on a graph. A grid is multiplied by the factor, that of the sharpness of classes gets it as its power.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log10
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from gpum import GPUMClassifier, GpumError, GPUMRegressor, Priors
from gpum.geometry.priors import GEOMETRIES, POWER_OF_CLASSES, POWER_OF_NUMBERS, Normals
from gpum.inference import decisions
from weights import SHAPES, cloud, function

CLOUDS = "roll,curve,sphere,table_box_8"
NOISE = 0.1  # of simulated labels, over the function's standard deviation
AT_ONCE = 4  # tasks side by side in a table
Change = Callable[[float], Priors]  # of a prior, given the factor
# Kinds of labels, with the numbers of `decisions` that matter for them.
NUMBERS = {
    "numbers": "KEEP LIGHT_GEOMETRY RARE GROSS_SIZES N_RATES LARGEST_RATE HEAVIEST",
    "gross errors": "RARE GROSS_SIZES N_RATES LARGEST_RATE HEAVIEST",
    "many labels": "SCREEN SCREENED SCREENING NATS COSTLY LARGEST",
    "evidence": "LEAST_RATIO",
    "known noise": "KEEP SIGNALS",
    "student": "STUDENT_DOF STUDENT_GROSS STUDENT_SIZES TAILS REWEIGHTS REWEIGHTED SUSPECTS AWAY THINNED FULL CUT",
    "counts": "COUNT_SIGNALS COUNT_SWEEPS COUNT_SETTLED COUNT_DAMPING LIGHT_FOR_SITES NATS KEEP",
    "classes": "CLASS_RATIOS DIMENSION_SD DIMENSION_ROWS SHARPNESS SHARP_SD ELSEWHERE TURNS DRAWN ASKED FIRST_SWEEPS "
    "CLASS_CANDIDATES CLASS_SWEEPS CLASS_SETTLED STILL CLASS_DAMPING CALM KEEP",
    "many classes": "FIRST_SWEEPS FIRST_LABELS PROMISING CLASS_SCREEN CLASS_SCREENED CLASS_CANDIDATES GROWTH NATS",
}


@dataclass(frozen=True)
class Task:
    """Rows, targets, and which rows have labels in each set; all other rows are new."""

    name: str
    X: np.ndarray
    y: np.ndarray
    splits: list[np.ndarray]
    classes: bool = False


def simulated(name: str, n_rows: int, n_labels: int, n_sets: int) -> Task:
    """A random function on a simulated cloud of `weights.py`."""
    rng = np.random.default_rng(list(name.encode()))
    X, Z = cloud(name, rng, n_rows)
    y = function(rng, Z, 0) + NOISE * rng.standard_normal(len(X))
    return Task(name, X, y, [np.sort(rng.permutation(len(X))[:n_labels]) for _ in range(n_sets)])


def stored(path: Path, n_sets: int) -> Task:
    """A task of a file."""
    held = np.load(path)
    classes = "classes" in held
    y = held["y"].astype(int) if classes else held["y"].astype(float)
    return Task(path.stem, held["S"].astype(float), y, [np.asarray(at) for at in held["splits"][:n_sets]], classes)


def normals(which: Normals, middle: float = 1.0, width: float = 1.0) -> Normals:
    """Normal distributions of log₁₀ r with r times `middle`, and standard deviations times `width`."""
    return tuple((weight, mean + log10(middle), sd * width) for weight, mean, sd in which)


def changes(classes: bool) -> dict[str, Change]:
    """Each number of the priors by its name, as a function of the factor."""
    default = Priors()
    power = POWER_OF_CLASSES if classes else POWER_OF_NUMBERS
    between: dict[str, Change] = {
        f"geometry: {kind}": lambda by, kind=kind: replace(default, geometry={kind: by}) for kind in GEOMETRIES
    }
    between["evidence power"] = lambda by: replace(default, evidence_power=min(1.0, by * power))
    if classes:
        return between
    return {
        "noise": lambda by: replace(default, noise=normals(default.noise, by)),
        "noise: width": lambda by: replace(default, noise=normals(default.noise, width=by)),
        "noise of copies": lambda by: replace(default, noise_of_copies=normals(default.noise_of_copies, by)),
        "noise of copies: width": lambda by: replace(
            default, noise_of_copies=normals(default.noise_of_copies, width=by)
        ),
        "signal: shape": lambda by: replace(default, signal=(by * default.signal[0], default.signal[1])),
        "signal: rate": lambda by: replace(default, signal=(default.signal[0], by * default.signal[1])),
        "length scale": lambda by: replace(default, length_scale=tuple(by * tau for tau in default.length_scale)),
        **between,
    }


def score(task: Task, model: GPUMRegressor | GPUMClassifier, priors: Priors) -> np.ndarray:
    """Negative log density and error of the new rows under these priors, the mean over label sets."""
    model.set_params(priors=priors)
    figures = []
    for known in task.splits:
        new = np.setdiff1d(np.arange(len(task.X)), known)
        few = np.full(len(task.y), -1 if task.classes else np.nan)
        few[known] = task.y[known]
        model.fit(task.X, few)
        if isinstance(model, GPUMClassifier):
            p, at = model.label_distributions_[new], np.searchsorted(model.classes_, task.y[new])
            figures.append((-np.log(np.maximum(p[np.arange(len(at)), at], 1e-6)).mean(), np.mean(p.argmax(1) != at)))
        else:
            mean, std = model.predict(task.X[new], return_std=True)
            error = task.y[new] - mean
            density = 0.5 * (error / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)
            figures.append((density.mean(), np.sqrt(np.mean(error**2))))
    return np.mean(figures, 0)


def sensitivity(task: Task) -> Iterator[tuple[str, str]]:
    """The name of a prior with its factor, and what the table says of the task."""
    kind = GPUMClassifier if task.classes else GPUMRegressor
    model = kind(random_state=0, warm_start=True)
    before = score(task, model, Priors())
    yield "default", f"{before[0]:.3f} ({before[1]:.4g})"
    for name, changed in changes(task.classes).items():
        for by in (0.5, 2.0):
            after = score(task, model, changed(by))
            per_cent = 100 * (after[1] / before[1] - 1) if before[1] > 0 else 0.0
            yield f"{name} × {by:g}", f"{after[0] - before[0]:+.3f} ({per_cent:+.1f} %)"


def labelled(kind: str, name: str, n_rows: int, n_sets: int) -> tuple[Task, GPUMRegressor | GPUMClassifier, float]:
    """Labels of a kind on a simulated cloud, the estimator for them, and their known noise (NaN: it is learned)."""
    many = kind.startswith("many")
    n_rows, n_labels = (900, 600 if kind == "many labels" else 200) if many else (n_rows, 40)
    rng = np.random.default_rng(list(name.encode()))
    X, Z = cloud(name, rng, n_rows)
    f = function(rng, Z, 0)
    f = (f - f.mean()) / f.std()
    y, options, known = f + NOISE * rng.standard_normal(n_rows), {"likelihood": "gaussian"}, float("nan")
    if kind in ("gross errors", "student"):
        y = y + 5 * rng.standard_normal(n_rows) * (rng.random(n_rows) < 0.05)
        options = {"likelihood": "gaussian" if kind == "gross errors" else "student"}
    elif kind == "counts":
        y, options = rng.poisson(np.exp(1 + f)).astype(float), {"likelihood": "poisson"}
    elif kind == "evidence":
        options["hyperparameters"] = "evidence"
    elif kind == "known noise":
        known = NOISE
    classes = kind.endswith("classes")
    if classes:
        y = np.searchsorted(np.quantile(f, [1 / 3, 2 / 3]), f + NOISE * rng.standard_normal(n_rows))
    splits = [np.sort(rng.permutation(n_rows)[:n_labels]) for _ in range(n_sets)]
    shared = {"geometry": ["graph", "flat"], "random_state": 0, "warm_start": True, "n_jobs": None}
    model = GPUMClassifier(**shared) if classes else GPUMRegressor(**shared, **options)
    return Task(name, X, y, splits, classes), model, known


def density(task: Task, model: GPUMRegressor | GPUMClassifier, noise: float) -> float:
    """Negative log density of the new rows, of classes their log loss, the mean over label sets."""
    if task.classes or np.isnan(noise):
        return float(score(task, model, Priors())[0])
    values = []
    for known in task.splits:
        new = np.setdiff1d(np.arange(len(task.X)), known)
        few = np.full(len(task.y), np.nan)
        few[known] = task.y[known]
        mean, std = model.fit(task.X, few, noise_std=noise).predict(task.X[new], return_std=True)
        values.append(np.mean(0.5 * ((task.y[new] - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)))
    return float(np.mean(values))


def changed(name: str, by: float) -> dict[object, object]:
    """Multiply a number of `decisions` wherever it is used; what each module had before."""
    value = getattr(decisions, name)
    new = value**by if name == "SHARPNESS" else max(1, round(by * value)) if isinstance(value, int) else by * value
    users = ("gpum.inference.", "gpum.estimators.classifier")
    modules = [m for key, m in sys.modules.items() if key.startswith(users) and getattr(m, name, None) is value]
    for module in modules:
        setattr(module, name, new)
    return dict.fromkeys(modules, value)


def decided(kind: str, clouds: list[str], n_rows: int, n_sets: int) -> Iterator[tuple[str, list[str]]]:
    """Of each number that matters for labels of a kind its name and factor, and what changes on each cloud."""
    tasks = [labelled(kind, name, n_rows, n_sets) for name in clouds]
    before = [density(*task) for task in tasks]
    yield "as it is", [f"{one:.3f}" for one in before]
    for name in NUMBERS[kind].split():
        for by in (0.5, 2.0):
            values = changed(name, by)
            try:
                yield f"{name} × {by:g}", [f"{density(*t) - b:+.4f}" for t, b in zip(tasks, before, strict=True)]
            except (GpumError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                yield f"{name} × {by:g}", [type(error).__name__]
            finally:
                for module, value in values.items():
                    setattr(module, name, value)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=Path, help="a folder of *.npz; without it clouds are simulated")
    parser.add_argument("--clouds", default=CLOUDS, help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--sets", type=int, default=3, help="label sets of each task")
    parser.add_argument("--decisions", action="store_true", help="numbers of gpum.inference instead of priors")
    parser.add_argument("--kinds", default=",".join(NUMBERS), help="kinds of labels for --decisions")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.decisions:
        clouds = given.clouds.split(",")
        for kind in given.kinds.split(","):
            table = Table(kind, *clouds)
            for name, cells in decided(kind, clouds, given.rows, given.sets):
                table.add_row(name, *cells)
            Console(width=140).print(table)
        return
    if given.tasks:
        tasks = [stored(path, given.sets) for path in sorted(given.tasks.glob("*.npz"))]
    else:
        tasks = [simulated(name, given.rows, given.labels, given.sets) for name in given.clouds.split(",")]
    if not tasks:
        parser.error(f"--tasks is {given.tasks}, which has no *.npz; name a folder of tasks, or leave it out")
    for begin in range(0, len(tasks), AT_ONCE):
        some = tasks[begin : begin + AT_ONCE]
        cells = [dict(sensitivity(task)) for task in some]
        table = Table("prior", *(task.name for task in some))
        for name in dict.fromkeys(name for one in cells for name in one):
            table.add_row(name, *(one.get(name, "") for one in cells))
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
