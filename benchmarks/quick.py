"""How long a user waits, and how large files are: each row beside a GP of scikit-learn, in one run on one machine.

    cold    an empty folder of compiled programs      warm    the programs of the cold run are there

Every measurement runs in a process of its own. The package is compiled to bytecode first, as pip does. Rows that need a
data set are left out where it is not there and cannot be downloaded. The time to GPy's bound is that of
`latent_model.py`, which runs at the end if GPy is installed.

    python benchmarks/quick.py               all rows, about ten minutes
    python benchmarks/quick.py table chart   those whose name contains one of the words
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
THREADS, CALLS, MANY = 8, 64, 10_000
Found = dict[str, tuple[str, str]]  # what was measured: gpum, scikit-learn


def table(N: int = 2000, p: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Rows [N, p] near a rolled surface, and labels that vary along it."""
    rng = np.random.default_rng(0)
    angle, height = 1.5 * np.pi * (1 + 2 * rng.uniform(size=N)), 20 * rng.uniform(size=N)
    roll = np.stack([angle * np.cos(angle), height, angle * np.sin(angle)], 1)
    X = roll @ np.linalg.qr(rng.standard_normal((p, p)))[0][:3] + 0.1 * rng.standard_normal((N, p))
    return X, np.sin(angle) + 0.05 * height + 0.05 * rng.standard_normal(N)


def some_labels(y: np.ndarray, n: int = 100, seed: int = 0) -> np.ndarray:
    """y with all but n labels replaced by NaN."""
    found = np.full(len(y), np.nan)
    known = np.random.default_rng(seed).choice(len(y), min(n, len(y)), replace=False)
    found[known] = y[known]
    return found


def near(X: np.ndarray, n: int) -> np.ndarray:
    """n new rows next to rows of X."""
    rng = np.random.default_rng(1)
    return X[rng.integers(len(X), size=n)] + 0.02 * X.std(0) * rng.standard_normal((n, X.shape[1]))


def seconds(task: Callable[[], Any]) -> float:
    """How long a task takes."""
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin


def peer(X: np.ndarray, y: np.ndarray) -> Any:
    """A GP of scikit-learn with one squared exponential kernel and noise, unfitted."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(float(X.std())) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True)


def fits(X: np.ndarray, y: np.ndarray, again: bool = False) -> Found:
    """A default fit and, with `again`, one of other labels."""
    from gpum import GPUMRegressor

    model, other, known = GPUMRegressor(random_state=0, warm_start=True), peer(X, y), ~np.isnan(y)
    ours, theirs = seconds(lambda: model.fit(X, y)), seconds(lambda: other.fit(X[known], y[known]))
    found = {"default fit": (f"{ours:.1f} s", f"{theirs:.1f} s")}
    if again:
        ours = seconds(lambda: model.fit(X, np.where(known, -y, np.nan)))
        theirs = seconds(lambda: other.fit(X[known], -y[known]))
        found["other labels, same cloud"] = f"{ours:.2f} s", f"{theirs:.2f} s"
    return found


def coil() -> Found:
    """The 66 pictures of COIL, 13 labels."""
    from gpum.datasets import fetch_coil

    data = fetch_coil()
    return fits(data.X, some_labels(data.y, 13))


def table_fit() -> Found:
    """2 000 × 20, 100 labels."""
    X, y = table()
    return fits(X, some_labels(y), again=True)


def served(X: np.ndarray, y: np.ndarray, geometry: Any = "average") -> Found:
    """A saved model that answers: its file, the first row, one row at a time, in threads, and many rows."""
    from gpum import GPUMRegressor

    known = ~np.isnan(y)
    other = peer(X, y).fit(X[known], y[known])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpum"
        GPUMRegressor(random_state=0, geometry=geometry).fit(X, y).save(path)
        size, rows = path.stat().st_size, near(X, MANY)
        child = [sys.executable, str(HERE), "--first", str(path), json.dumps(rows[0].tolist())]
        first = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
        model = GPUMRegressor.load(path, ready=True)
    ours, theirs = (
        [1e3 * seconds(partial(one.predict, rows[i : i + 1])) for i in range(CALLS)] for one in (model, other)
    )
    deviations = [1e3 * seconds(partial(model.predict, rows[i : i + 1], return_std=True)) for i in range(CALLS)]
    at_once: list[float] = []

    def ask(start: int) -> None:
        for i in range(start, CALLS, THREADS):
            at_once.append(1e3 * seconds(partial(model.predict, rows[i : i + 1])))

    workers = [threading.Thread(target=ask, args=(k,)) for k in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    many = seconds(lambda: model.predict(rows))
    return {
        "model file (the table itself)": (f"{size / 1e6:.2f} MB ({X.nbytes / 1e6:.2f})", ""),
        "first prediction after load, new process": (f"{first['first']:.2f} s", ""),
        "load(ready=True), then the first prediction": (f"{first['ready']:.2f} s, {1e3 * first['then']:.1f} ms", ""),
        "one new row, median": (f"{np.median(ours):.1f} ms", f"{np.median(theirs):.1f} ms"),
        "one new row with its std, median": (f"{np.median(deviations):.1f} ms", ""),
        f"one new row, {THREADS} threads at once, median": (f"{np.median(at_once):.1f} ms", ""),
        f"{MANY:,} new rows": (f"{many:.2f} s", f"{seconds(lambda: other.predict(rows)):.2f} s"),
    }


def serve_roll() -> Found:
    """The Swiss roll of 474 rows."""
    from gpum.datasets import make_swiss_roll

    data = make_swiss_roll(random_state=0)
    return served(data.X, some_labels(np.asarray(data.y, float), 24))


def serve_table() -> Found:
    """2 000 × 20, 100 labels."""
    X, y = table()
    return served(X, some_labels(y))


def serve_labelled_table() -> Found:
    """2 000 × 20, all rows labelled."""
    return served(*table())


def rows_of(geometry: str) -> Found:
    """New rows projected onto one geometry, without predictions."""
    from gpum import Atlas, BayesianGPLVM

    X, _ = table(N=474, p=3)
    rows = near(X, MANY)
    fitted = Atlas(2).fit(X) if geometry == "atlas" else BayesianGPLVM(2, random_state=0).fit(X)
    project = fitted.project if geometry == "atlas" else fitted.transform
    project(rows[:1000])  # compiles
    return {f"rows on a chart / an atlas: {geometry}": (f"{1e6 * seconds(lambda: project(rows)) / MANY:.0f} µs", "")}


def rows_on_chart() -> Found:
    """See `rows_of`."""
    return rows_of("chart")


def rows_on_atlas() -> Found:
    """See `rows_of`."""
    return rows_of("atlas")


def first_prediction(path: str, row: list[float]) -> dict[str, float]:
    """Seconds of the first prediction of a loaded model, and of one that is loaded ready; libraries are imported."""
    from gpum import GPUMRegressor

    x = np.array([row])
    lazy = GPUMRegressor.load(path)
    first = seconds(lambda: lazy.predict(x))
    held: list[Any] = []
    ready = seconds(lambda: held.append(GPUMRegressor.load(path, ready=True)))
    return {"first": first, "ready": ready, "then": seconds(lambda: held[0].predict(x))}


def command(*arguments: str, environment: dict[str, str]) -> float:
    """Seconds of a command line from the start of its process to its end."""
    run = [sys.executable, *arguments]
    return seconds(lambda: subprocess.run(run, check=True, capture_output=True, env={**os.environ, **environment}))


def imports(environment: dict[str, str]) -> Found:
    """`import gpum`, and that of an estimator, as the process itself sees it."""

    def took(code: str) -> float:
        timed = f"import time; begin = time.perf_counter(); {code}; print(time.perf_counter() - begin)"
        run = subprocess.run(
            [sys.executable, "-c", timed], check=True, capture_output=True, env={**os.environ, **environment}
        )
        return float(run.stdout)

    whole, one, other = (
        min(took(code) for _ in range(3))
        for code in (
            "import gpum",
            "from gpum import GPUMRegressor",
            "from sklearn.gaussian_process import GaussianProcessRegressor",
        )
    )
    return {"import gpum": (f"{whole:.2f} s", ""), "from gpum import GPUMRegressor": (f"{one:.2f} s", f"{other:.2f} s")}


def wifi_command(environment: dict[str, str]) -> Found:
    """`gpum fit` of the 36 rows of WiFi signals."""
    from gpum.datasets import fetch_wifi

    data = fetch_wifi()
    with TemporaryDirectory() as folder:
        source = Path(folder) / "wifi.csv"
        columns = [*data.feature_names, "x"]
        values = np.column_stack([data.X, data.y[:, 0]])
        np.savetxt(source, values, delimiter=",", header=",".join(columns), comments="")
        arguments = ("-m", "gpum", "fit", str(source), "--target", "x", "--out", str(Path(folder) / "model.gpum"))
        return {"gpum fit, WiFi 36 rows": (f"{command(*arguments, environment=environment):.1f} s", "")}


def demo(environment: dict[str, str]) -> Found:
    """`gpum demo`: a roll of 474 rows, and its comparison."""
    with TemporaryDirectory() as folder:
        took = command("-m", "gpum", "demo", "--out", folder, environment=environment)
        return {"gpum demo, roll of 474 rows": (f"{took:.1f} s", "")}


IN_PROCESS = {
    "coil": coil,
    "table": table_fit,
    "serve roll": serve_roll,
    "serve table": serve_table,
    "serve labelled table": serve_labelled_table,
    "rows on chart": rows_on_chart,
    "rows on atlas": rows_on_atlas,
}
COMMANDS = {"import": imports, "wifi command": wifi_command, "demo": demo}
BOTH = ("coil", "wifi command", "demo")  # measured cold and warm, others warm


def measured(name: str, programs: str) -> Found:
    """One row in a process of its own, with this folder of compiled programs."""
    environment = {"GPUM_CACHE": programs}
    if name in COMMANDS:
        return COMMANDS[name](environment)
    child = [sys.executable, str(HERE), "--one", name]
    run = subprocess.run(child, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return json.loads(run.stdout.splitlines()[-1])


def main(words: list[str]) -> None:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    import gpum
    from gpum import GpumError

    compileall.compile_dir(Path(gpum.__file__).parent, quiet=1)
    console, shown = Console(width=130), Table(title="What a user waits for")
    for column in ("", "", "gpum", "scikit-learn"):
        shown.add_column(column)
    for name in (n for n in (*COMMANDS, *IN_PROCESS) if not words or any(word in n for word in words)):
        with TemporaryDirectory() as programs:
            try:
                runs = [measured(name, programs) for _ in range(2)]
            except (GpumError, OSError, subprocess.CalledProcessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                console.print(f"{name} is left out: {str(said).strip().splitlines()[-1]}")
                continue
        for temperature, found in zip(("cold", "warm"), runs, strict=True):
            if name in BOTH or temperature == "warm":
                for what, values in found.items():
                    shown.add_row(name, f"{what}, {temperature}" if name in BOTH else what, *values)
    console.print(shown)
    if importlib.util.find_spec("GPy") and (not words or "gpy" in words):
        subprocess.run([sys.executable, str(HERE.with_name("latent_model.py"))], check=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(IN_PROCESS[sys.argv[2]]()))
    elif sys.argv[1:2] == ["--first"]:
        print(json.dumps(first_prediction(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        main(sys.argv[1:])
