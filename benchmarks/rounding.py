"""How much of a fit is decided by rounding: the same default fit with other last bits, compared stage by stage.

Each variation runs in a process of its own, with compiled programs of its own where the compiler's settings differ:

    bits 1, 2, ...   every reading multiplied by 1 + 1e-14 ε, as another machine would round it
    BLAS ...         the kernels of another processor (OPENBLAS_CORETYPE)
    XLA ...          compiled programs with the instructions of an older processor

The table has, for each cloud and variation, the largest difference from the unchanged fit in units of each quantity's
spread: the starts of the latent models, the bound (nats) and coordinates of their winners (up to a linear map, by which
charts do not differ), log evidence, weights of the geometries, and predictions; and the errors of the predictions.

    python benchmarks/rounding.py --clouds branches,table --variations "bits 1,BLAS Haswell"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from rich.console import Console
from rich.table import Table

Cloud = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, what is to be predicted, labelled rows
VARIATIONS: dict[str, dict[str, str]] = {
    "plain": {},
    **{f"bits {k}": {"ROUNDING_BITS": str(k)} for k in range(1, 10)},
    **{f"BLAS {name}": {"OPENBLAS_CORETYPE": name} for name in ("Haswell", "Sandybridge", "Prescott", "SkylakeX")},
    **{f"XLA {name}": {"XLA_FLAGS": f"--xla_cpu_max_isa={name}"} for name in ("AVX2", "SSE4_2")},
}
SIZE = 1e-14  # of a change of the last bits, relative to each reading


def _turned(rng: np.random.Generator, X: np.ndarray, p: int, noise: float) -> np.ndarray:
    """X in R^p, turned, with noise."""
    basis = np.linalg.qr(rng.standard_normal((p, X.shape[1])))[0]
    return X @ basis.T + noise * rng.standard_normal((len(X), p))


def branches(rng: np.random.Generator) -> Cloud:
    """Three bent arms that meet in one point, in R^10."""
    arm, t = rng.integers(0, 3, 200), rng.uniform(0, 1, 200)
    angle = 2 * np.pi * arm / 3 + 0.8 * t
    X = np.stack([t * np.cos(angle), t * np.sin(angle), 0.5 * t**2 * (arm - 1)], 1)
    return _turned(rng, X, 10, 0.01), np.sin(4 * t + 2 * arm) - np.sin(2 * arm), rng.permutation(200)[:15]


def table(rng: np.random.Generator) -> Cloud:
    """128 columns that depend on five unknown numbers, with noise."""
    u = rng.standard_normal((200, 5))
    X = np.tanh(u @ rng.standard_normal((5, 128)) / 2) + 0.3 * rng.standard_normal((200, 128))
    return X, u[:, 0] + np.sin(u[:, 1]) + 0.1 * rng.standard_normal(200), rng.permutation(200)[:40]


def outlines(rng: np.random.Generator) -> Cloud:
    """Outlines of blobs, 100 columns, in three families of two unknown numbers each."""
    angle, kind = np.linspace(0, 2 * np.pi, 100, endpoint=False), rng.integers(0, 3, 400)
    a, b = rng.uniform(-1, 1, (2, 400))
    waves = np.cos((kind[:, None] + 2) * (angle + 0.5 * b[:, None])) * (0.5 + 0.4 * a[:, None])
    X = 1 + 0.4 * waves + 0.02 * rng.standard_normal((400, 100))
    return X, a + 0.5 * kind, rng.permutation(400)[:30]


def roll(rng: np.random.Generator) -> Cloud:
    """A Swiss roll."""
    t, z = 1.5 * np.pi * (1 + 2 * rng.uniform(0, 1, 300)), rng.uniform(0, 10, 300)
    return np.stack([t * np.cos(t), z, t * np.sin(t)], 1), np.sin(0.5 * t) + 0.1 * z, rng.permutation(300)[:25]


CLOUDS = {"branches": branches, "table": table, "outlines": outlines, "roll": roll}


def cloud(name: str) -> Cloud:
    """The cloud of that name, or of a file with arrays S, y and splits."""
    if name in CLOUDS:
        return CLOUDS[name](np.random.default_rng(0))
    held = np.load(name)
    return held["S"].astype(float), np.asarray(held["y_true"] if "y_true" in held else held["y"]), held["splits"][0]


def changed(X: np.ndarray) -> np.ndarray:
    """X with other last bits, as the environment says."""
    k = int(os.environ.get("ROUNDING_BITS", "0"))
    return X * (1 + SIZE * np.random.default_rng(k).uniform(-1, 1, X.shape)) if k else X


def fit(name: str, path: Path) -> None:
    """Fit in this process, and store what each stage gave."""
    from gpum import GPUMRegressor
    from gpum.geometry.chart import ChartGeometry
    from gpum.gplvm import multistart

    starts: dict[str, Any] = {}
    true_run = multistart._run_all

    def run(model: Any, begin: Any, stages: Any, called: str, **options: Any) -> Any:
        begin = list(begin)
        for start, theta in begin:
            starts[f"{called} {start} {len(theta.log_ell)}"] = getattr(theta, model.latent[0]), theta.Z
        return true_run(model, begin, stages, called, **options)

    multistart._run_all = run
    X, truth, known = cloud(name)
    y = np.full(len(X), np.nan)
    y[known] = truth[known]
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPUMRegressor(random_state=0, n_jobs=int(os.environ.get("ROUNDING_JOBS", "1"))).fit(changed(X), y)
        mean, sd = model.predict(X, return_std=True)
    rest = np.setdiff1d(np.arange(len(X)), known)
    members = model.model_.geometries.members
    charts = [one for one in members if isinstance(one, ChartGeometry)]
    e, s = (mean - truth)[rest], sd[rest]
    held = {
        "starts": starts,
        "history": [one.model.history_ for one in charts],
        "charts": [(one.model.start_, one.model.bound_, one.rows) for one in charts],
        "rows": [np.asarray(r) for r in model.model_.geometries.candidate_set.rows],
        "geometry_of": model.model_.geometries.candidate_set.geometry_of,
        "evidence": model.log_evidence_,
        "names": [f"{one.name}{getattr(getattr(one, 'chart', None), 'dim', '')}" for one in members],
        "weights": model.model_.weights[0],
        "notes": model.notes_,
        "mean": mean, "sd": sd, "scale": truth.std(),
        "rmse": np.sqrt(np.mean(e**2)),
        "nlpd": np.mean(0.5 * (e / s) ** 2 + np.log(s) + 0.5 * np.log(2 * np.pi)),
        "seconds": time.perf_counter() - began,
    }  # fmt: skip
    joblib.dump(held, path)


def unlike(A: np.ndarray, B: np.ndarray) -> float:
    """The root of the fraction of the variance of rows B that no linear map of rows A explains."""
    if A.shape != B.shape:
        return np.inf
    A, B = A - A.mean(0), B - B.mean(0)
    rest = B - A @ np.linalg.lstsq(A, B, rcond=None)[0]
    return float(np.sqrt(np.sum(rest**2) / max(np.sum(B**2), 1e-300)))


def apart(A: np.ndarray, B: np.ndarray) -> float:
    """The largest difference of two arrays in units of their spread."""
    return float(np.abs(A - B).max() / B.std()) if A.shape == B.shape else np.inf


def compared(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """One line of the table."""
    begin = [key for key in one["starts"] if key.startswith("start ")]
    latent = max((apart(one["starts"][k][0], other["starts"][k][0]) for k in begin if k in other["starts"]), default=0)
    inducing = max(
        (apart(one["starts"][k][1], other["starts"][k][1]) for k in begin if k in other["starts"]), default=0
    )
    best = lambda held: {len(rows.T): (start, bound, rows) for start, bound, rows in reversed(held["charts"])}
    a, b = best(one), best(other)
    same = [q for q in a if q in b]
    bounds = " ".join(f"{a[q][1] - b[q][1]:+.2g}" for q in same)
    charts = " ".join(f"{unlike(a[q][2], b[q][2]):.0e}" for q in same)
    weights = lambda held: " ".join(
        f"{n} {w:.2f}" for n, w in zip(held["names"], held["weights"], strict=True) if w > 0.005
    )
    return [
        f"{latent:.0e}", f"{inducing:.0e}", " ".join(f"{a[q][0]}" for q in same), bounds, charts,
        f"{one['evidence'] - other['evidence']:+.1e}", weights(one),
        f"{np.abs(one['mean'] - other['mean']).max() / one['scale']:.0e}",
        f"{np.sqrt(np.mean((one['mean'] - other['mean'])**2)) / one['scale']:.1e}",
        f"{one['rmse']:.5f}", f"{one['nlpd']:.4f}", f"{one['seconds']:.0f}",
    ]  # fmt: skip


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clouds", default=",".join(CLOUDS), help="names, or files with S, y and splits")
    parser.add_argument("--variations", default="bits 1,bits 2,BLAS Haswell,XLA SSE4_2")
    parser.add_argument("--folder", type=Path, default=None, help="what was fitted there before is not fitted again")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return fit(asked.one[0], Path(asked.one[1]))
    folder = asked.folder or Path(tempfile.mkdtemp())
    columns = (
        "cloud", "variation", "starts", "inducing", "winners", "bounds", "charts", "evidence", "weights", "largest",
        "rms", "RMSE", "NLPD", "seconds",
    )  # fmt: skip
    shown = Table(*columns, title="differences from the unchanged fit")
    for name in asked.clouds.split(","):
        held: dict[str, Any] = {}
        for variation in ["plain", *asked.variations.split(",")]:
            path = folder / f"{Path(name).stem}-{variation.replace(' ', '-')}.joblib"
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                programs = folder / ("programs-" + VARIATIONS[variation].get("XLA_FLAGS", "plain").split("=")[-1])
                environment = {**os.environ, "GPUM_CACHE": str(programs), **VARIATIONS[variation]}
                subprocess.run([sys.executable, __file__, "--one", name, str(path)], env=environment, check=True)
            held[variation] = joblib.load(path)
            shown.add_row(Path(name).stem, variation, *compared(held[variation], held["plain"]))
    Console(width=220).print(shown)


if __name__ == "__main__":
    main()
