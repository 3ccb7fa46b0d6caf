"""Measure everything that a page quotes; the figures go to results/*.json, and from there into the pages.

    make results                    everything whose file is missing or was measured with other code, then the pages
    make results PART=tasks,demo    some: a name, or all names before a slash
    python benchmarks/results.py tasks --only sphere,flat_torus
    python benchmarks/results.py --list | xargs -P 8 -n 1 python benchmarks/results.py    side by side
    python benchmarks/results.py --pages    write the figures into the marked blocks of the pages (pages.py)

A measurement whose data or library is missing is skipped, and the reason is printed. FORCE=1 repeats finished ones.
Tasks and large clouds are read from the folder GPUM_SHARED, the paper's real data from GPUM_DATA.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SHARED = Path(os.environ.get("GPUM_SHARED", ROOT.parent / "shared"))
CORES = os.cpu_count() or 1
SEEDS, SETS = 5, 3  # of "seeds": values of random_state, and label sets for each
NUMERICS = ("basics", "gplvm", "manifold", "heat", "geometry", "inference", "fitted", "estimators")
HEAT = ("basics", "gplvm", "manifold", "heat")
Figures = dict[str, Any]


class Missing(Exception):
    """Data or a library that a measurement needs is not here."""


@dataclass(frozen=True)
class Part:
    """One measurement: how it is run, and the folders of src/gpum that it measures."""

    run: Callable[[], Figures]
    folders: tuple[str, ...] = NUMERICS


# --- what is run ------------------------------------------------------------------------------------------------------


def script(name: str, *arguments: str, library: str = "", file: Path | None = None) -> Callable[[], Figures]:
    """A script of this folder (or `gpum`) with its arguments; what it prints with rich is the result."""

    def run() -> Figures:
        if library and not importlib.util.find_spec(library):
            raise Missing(f"{library} is not installed")
        if file and not file.exists():
            raise Missing(f"there is no {file.name} in {file.parent.name}/")
        with TemporaryDirectory() as folder:
            out = Path(folder) / "printed.json"
            child = [sys.executable, __file__, "--record", str(out), name, *arguments, *([str(file)] if file else [])]
            subprocess.run(child, check=True, cwd=ROOT)
            return json.loads(out.read_text())

    return run


def record(out: str, name: str, *arguments: str) -> None:
    """Run a script in this process; the tables that it prints with rich, and the lines after the first, go to `out`."""
    from rich.console import Console
    from rich.table import Table

    found: Figures = {"tables": [], "notes": []}
    plain = Console.print

    def noted(console: Console, *printed: Any, **options: Any) -> None:
        plain(console, *printed, **options)
        for one in printed:
            if isinstance(one, Table):
                rows = zip(*(column.cells for column in one.columns), strict=True)
                columns = [str(column.header) for column in one.columns]
                found["tables"].append(
                    {"title": one.title, "columns": columns, "rows": [list(map(str, r)) for r in rows]}
                )
            elif isinstance(one, str) and found["tables"]:
                found["notes"].append(one)

    Console.print = noted  # type: ignore[method-assign]
    sys.argv = [name, *arguments]
    try:
        if name == "gpum":
            runpy.run_module("gpum", run_name="__main__")
        else:
            path = Path(__file__).parent / name
            sys.path.insert(0, str(path.parent))
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    Path(out).write_text(json.dumps(found))


def paper(experiment: str, figure: str = "") -> Callable[[], Figures]:
    """One experiment of the paper. Finished label sets are stored in reproduction/, as `gpum reproduce` does."""

    def run() -> Figures:
        from gpum.app.reproduce import reproduce

        if experiment in ("wifi", "coil") and not os.environ.get("GPUM_DATA"):
            raise Missing("GPUM_DATA does not name the folder of the paper's data")
        out = ROOT / "reproduction"
        made = reproduce([experiment], out)
        if figure:
            shutil.copy(out / figure, ROOT / "docs" / "_static")
        tables = [{"title": t.title, "columns": t.columns, "rows": t.rows, "values": t.values} for t in made]
        return {"tables": tables, "notes": [note for t in made for note in t.notes]}

    return run


def task(path: Path, seeds: int = 0) -> Callable[[], Figures]:
    """All label sets of a task with the default estimator; with `seeds`, the means over SETS of them for each seed."""

    def run() -> Figures:
        with np.load(path) as data:
            d = dict(data)
        about = {"rows": len(d["S"]), "columns": d["S"].shape[1], "labels": d["splits"].shape[1]}
        about |= {"classes": "classes" in d, "sd": float(np.std(d["y"]))}
        if seeds:
            found = [{key: np.mean(v) for key, v in _scored(d, seed, SETS).items()} for seed in range(seeds)]
            figures = {key: [one[key] for one in found] for key in found[0]}
        else:
            figures = _scored(d, 0)
        return about | {"figures": {key: [float(f"{value:.4g}") for value in v] for key, v in figures.items()}}

    return run


def _scored(d: dict[str, Any], seed: int, sets: int | None = None) -> dict[str, list[float]]:
    """The figures of each of the first label sets; the geometry is learned once (warm_start)."""
    import gpum

    S, y = d["S"].astype(float), d["y"]
    estimator, score = (gpum.GPUMClassifier, _classes) if "classes" in d else (gpum.GPUMRegressor, _regression)
    model, found = estimator(random_state=seed, warm_start=True), []
    for known in d["splits"][:sets]:
        begin = time.perf_counter()
        test = d.get("test", np.setdiff1d(np.arange(len(S)), known))
        one = score(model, S, y, d.get("y_true", y), known, test)
        found.append({**one, "seconds": time.perf_counter() - begin})
    return {key: [one[key] for one in found] for key in found[0]}


def _regression(model: Any, S: Any, y: Any, truth: Any, known: Any, test: Any) -> dict[str, float]:
    """RMSE and NLPD against the truth, where it is known, and the fraction of noisy values in 95 % intervals."""
    given = np.full(len(S), np.nan)
    given[known] = y[known]
    mean, std = model.fit(S, given).predict(S, return_std=True)
    error, std = (mean - truth)[test], np.maximum(std[test], 1e-12)
    return {
        "rmse": np.sqrt(np.mean(error**2)),
        "nlpd": np.mean(0.5 * (error / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)),
        "coverage": np.mean(np.abs(mean - y)[test] < 1.96 * std),
    }


def _classes(model: Any, S: Any, y: Any, truth: Any, known: Any, test: Any) -> dict[str, float]:
    """Accuracy, log loss and expected calibration error (ten bins)."""
    y = y.astype(int)
    given = np.full(len(S), -1)
    given[known] = y[known]
    p = np.zeros((len(S), y.max() + 1))
    model.fit(S, given)
    p[:, model.classes_] = model.predict_proba(S)
    p, y = np.clip(p[test], 1e-6, 1), y[test]
    p /= p.sum(1, keepdims=True)
    top, hit = p.max(1), p.argmax(1) == y
    tenth = np.minimum((top * 10).astype(int), 9)
    ece = sum(abs(np.sum((hit - top)[tenth == k])) for k in range(10)) / len(y)
    return {"accuracy": hit.mean(), "log_loss": -np.log(p[np.arange(len(y)), y]).mean(), "ece": ece}


def parts() -> dict[str, Part]:
    """Every measurement by its name, which is also that of its file."""
    jobs, shapes = str(CORES), ("roll", "ring", "sphere", "sheet")
    pairs = ("ring, atlas", "ring, atlas, paths", "roll, chart", "roll, chart, 5 metrics")
    picture = "docs/_static/calibration.png"
    rows = ("import", "wifi", "demo", "coil", "table", "serve", "rows")
    found = {
        "demo": Part(script("gpum", "demo")),
        "paper/heat-kernel": Part(paper("heat-kernel", "heat-kernel/kernel_comparison.png"), (*HEAT, "reproduce")),
        "paper/swissroll": Part(paper("swissroll", "swissroll_450/slice.png"), (*NUMERICS, "reproduce")),
        "paper/wifi": Part(paper("wifi"), (*NUMERICS, "reproduce")),
        "paper/coil": Part(paper("coil"), (*NUMERICS, "reproduce")),
        "calibration/shapes": Part(
            script(
                "calibration.py", "--sets=120", "--clouds=4", "--jobs", jobs, "--figure", picture, "--tasks", *shapes
            )
        ),
        "calibration/settings": Part(
            script("calibration.py", "--sets=32", "--clouds=2", "--jobs", jobs, "--tasks", *pairs)
        ),
        "classes": Part(script("reliability.py", "--sets=200", "--first=200", "--jobs", jobs)),
        "targets/outliers": Part(script("targets.py", "outliers")),
        "targets/suggested": Part(script("targets.py", "suggested")),
        "targets/gaps": Part(script("targets.py", "gaps")),
        "regression": Part(script("regression.py")),
        "scaling/rows": Part(script("scaling.py")),
        "scaling/subset": Part(script("scaling.py", "--subset")),
        "scaling/files": Part(script("scaling.py", "--files", "50000", "200000", library="distributed")),
        "scaling/steps": Part(script("growth.py")),
        "scaling/pictures": Part(script("scaling.py", "--pictures", file=SHARED / "large" / "mnist.npz")),
        "labels/curves": Part(script("labels.py", "--jobs", str(max(CORES // 2, 1)))),
        "labels/tables": Part(script("labels.py", "--tables", file=SHARED / "many")),
        "speed": Part(script("quick.py", *rows), (*NUMERICS, "persistence", "cli")),
        "latent": Part(script("latent_model.py", library="GPy"), ("gplvm",)),
        "heat": Part(script("heat_kernel.py", library="diffrax"), HEAT),
    }
    paths = sorted(SHARED.glob("tasks/*.npz"))
    tasks = {f"tasks/{path.stem}": Part(task(path)) for path in paths}
    tasks |= {f"seeds/{path.stem}": Part(task(path, SEEDS)) for path in paths}
    return found | (tasks or {"tasks/…": Part(_no_tasks), "seeds/…": Part(_no_tasks)})


def _no_tasks() -> Figures:
    raise Missing("GPUM_SHARED does not name a folder with tasks/*.npz")


# --- files ------------------------------------------------------------------------------------------------------------


def code(folders: tuple[str, ...]) -> str:
    """A digest of the modules that a part measures."""
    digest = sha256()
    for folder in folders:
        for path in sorted((ROOT / "src" / "gpum" / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def measure(name: str, part: Part, force: bool) -> str:
    """Run a part unless it is done; says what happened."""
    path, digest = RESULTS / f"{name}.json", code(part.folders)
    if not force and path.exists() and json.loads(path.read_text())["code"] == digest:
        return "done before"
    begin = time.perf_counter()
    try:
        figures = part.run()
    except Missing as reason:
        return f"skipped: {reason}"
    import jax

    from gpum import __version__

    about = {
        "version": __version__,
        "date": datetime.date.today().isoformat(),
        "machine": {"cores": CORES, "python": platform.python_version(), "jax": jax.default_backend()},
        "command": f"make results PART={name}",
        "code": digest,
        "folders": part.folders,
        "seconds": round(time.perf_counter() - begin),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(about | figures, indent=1, ensure_ascii=False) + "\n")
    partial.replace(path)
    return f"{about['seconds']} s"


def chosen(words: list[str], only: list[str]) -> Iterator[tuple[str, Part]]:
    """The parts that the words name, all without words; `only` names what stands after the slash."""
    known = parts()
    for word in words:
        if not any(word in (name, name.partition("/")[0]) for name in known):
            raise SystemExit(f"there is no part {word!r}; python benchmarks/results.py --list names all")
    for name, part in known.items():
        group, _, own = name.partition("/")
        if (not words or name in words or group in words) and (not only or own in only):
            yield name, part


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["--record"]:
        return record(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help="names; all of them by default")
    parser.add_argument("--only", default="", help="of a part with several, for example tasks: these, with commas")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--pages", action="store_true", help="write the blocks of the pages")
    given = parser.parse_args()
    words = [word for text in given.parts for word in text.split(",") if word]
    everything, words = "all" in words, [word for word in words if word != "all"]
    some = list(chosen(words, [name for name in given.only.split(",") if name]))
    if given.list:
        print("\n".join(name for name, _ in some))
    if words or everything or not (given.list or given.pages):
        warnings.simplefilter("ignore")
        for name, part in some:
            print(f"{name}: {measure(name, part, os.environ.get('FORCE') == '1')}", flush=True)
    if given.pages:
        import pages

        print(f"written: {', '.join(pages.write()) or 'nothing to change'}")
    return None


if __name__ == "__main__":
    main()
