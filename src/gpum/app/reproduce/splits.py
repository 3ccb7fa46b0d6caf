"""Run every method on every label set; finished splits are stored, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import platform
import time
import warnings
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gpum import BayesianGPLVM, GpumError
from gpum.tools import Reporter, replacing

from .methods import METHODS, estimators
from .tasks import Task

PACKAGE = Path(str(resources.files("gpum")))  # all code of the library and the app
# Seconds of a first fit, to estimate the remaining time.
SECONDS = {"latent model": 20, "brownian": 90, "spectral": 15, "variance": 10}


def steps_of(task: Task) -> float:
    """Weight of a task on the progress bar: about its seconds."""
    first = sum(SECONDS.values()) * len(task.X) / 450
    return first + len(METHODS) * len(task.splits)


def run_task(
    task: Task, folder: Path, *, n_paths: int, seed: int, n_jobs: int | None, report: Reporter
) -> tuple[Records, Any]:  # fmt: skip
    """All methods on all splits of a task, and its latent model; finished splits in `folder` are not run again."""
    settings = {"code": code(), "seed": seed, "n_paths": n_paths, "rows": len(task.X)}
    records = Records(folder / "splits.json", settings)
    scale = len(task.X) / 450
    report.advance(f"{task.title}: latent model", 0)
    latent = latent_model(task, folder, seed, records.fresh)
    report.advance(f"{task.title}: latent model", SECONDS["latent model"] * scale)
    for key, estimator in estimators(latent, n_paths, seed, n_jobs).items():
        for split in range(len(task.splits)):
            report.advance(
                f"{task.title}: {METHODS[key].name(task.X.shape[1])}, set {split + 1} of {len(task.splits)}", 0
            )
            if not records.has(key, split):
                records.add(key, split, score(task, estimator, split))
            report.advance("", 1 + (SECONDS.get(key, 0) * scale if split == 0 else 0))
    return records, latent


def latent_model(task: Task, folder: Path, seed: int, fresh: bool) -> Any:
    """The task's Bayesian GPLVM, learned once and stored beside the results."""
    path = folder / "latent.gpum"
    if path.exists() and not fresh:
        return BayesianGPLVM.load(path)
    model = BayesianGPLVM(latent_dim=2, random_state=seed).fit(task.X)
    model.save(path, force=True)
    return model


def score(task: Task, estimator: Any, split: int) -> dict[str, Any]:
    """RMSE, NLPD and coverage of 95 % intervals on the split's test rows; for the first split also the predictions."""
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = estimator.fit(task.X, task.labels(split))
        mean, std = model.predict(task.X, return_std=True)
        seconds = time.perf_counter() - begin
        test = task.tested(split)
        error, s = (mean - task.truth)[test], np.maximum(std[test], 1e-12)
        found: dict[str, Any] = {
            "rmse": float(np.sqrt(np.mean(error**2))),
            "nlpd": float(np.mean(0.5 * (error / s) ** 2 + np.log(s) + 0.5 * np.log(2 * np.pi))),
            "coverage": float(np.mean(np.abs(error) < 1.96 * s)),
            "seconds": seconds,
        }
        if split == 0:
            found["mean"] = mean.tolist()
            if task.line is not None:
                found["line"] = model.predict(task.line).tolist()
    found["warnings"] = sorted({str(w.message) for w in raised})
    return found


class Records:
    """Finished splits of one task, stored in a JSON file that is always complete."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        path.parent.mkdir(parents=True, exist_ok=True)
        self.methods: dict[str, dict[str, Any]] = {}
        self.fresh = True  # no results of an earlier run can be used
        if path.exists():
            stored = _results(path)
            if stored["settings"] == settings:
                self.methods, self.fresh = stored["methods"], False
        if self.fresh:
            self._write()

    def has(self, method: str, split: int) -> bool:
        """Whether this split is finished."""
        return str(split) in self.methods.get(method, {})

    def add(self, method: str, split: int, found: dict[str, Any]) -> None:
        """Store a finished split."""
        self.methods.setdefault(method, {})[str(split)] = found
        self._write()

    def values(self, method: str, what: str, n: int) -> np.ndarray:
        """One figure of a method on the first n splits, [n]."""
        return np.array([self.methods[method][str(k)][what] for k in range(n)])

    def _write(self) -> None:
        with replacing(self.path) as file:
            file.write(json.dumps({"settings": self.settings, "methods": self.methods}).encode())


def _results(path: Path) -> dict[str, Any]:
    """The content of a file of results; any other file is an error, since it would be replaced."""
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict) or set(found) != {"settings", "methods"}:
        raise GpumError(
            f"{path} is no file of results of `gpum reproduce`; move it away, or give another folder (--out)"
        )
    return found


def code() -> str:
    """A digest of the code of this package: finished splits of other code are not used."""
    digest = sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Versions of the packages with which the results were computed."""
    names = ("gpum", "jax", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
