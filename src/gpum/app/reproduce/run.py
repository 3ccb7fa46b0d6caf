"""Run experiments, write their tables and figures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpum import BayesianGPLVM, GpumError, __version__
from gpum.plots import plot_relevance
from gpum.tools import Reporter, option

from . import figures, kernels, roll_figures, splits, tables, tasks
from .splits import Records
from .tables import ResultTable

EXPERIMENTS = ("heat-kernel", "swissroll", "wifi", "coil")
SETTINGS = ("no edges in z, as in print", "with the roll's edges")
REAL_DATA = ["euclidean", "latent", "gl", "brownian", "spectral"]  # shown beside the truth


@dataclass(frozen=True)
class Size:
    """How much of the protocol is run."""

    splits: int | None  # of each task; None: as many as the paper
    paths: int  # of the Brownian regression, for each row
    kernel_paths: int
    rolls: tuple[int, ...]
    graphs: tuple[int, ...]


FULL = Size(None, 1000, 20_000, tuple(tasks.ROLLS), (250, 1000, 10_000))
QUICK = Size(2, 100, 2000, (250, 450), (250, 1000))


def reproduce(
    names: Sequence[str], out: Path, *, quick: bool = False, data_home: Any = None, seed: int = 0,
    n_jobs: int | None = -1, verbose: int = 1,
) -> list[ResultTable]:  # fmt: skip
    """Run the named experiments; tables and figures go to `out`, a folder for each; finished steps are stored there.

    Parameters
    ----------
    names : of EXPERIMENTS, or "all". With "all", an experiment whose data can be had neither from a folder nor from
        the network is left out, with a warning; one that is named is an error then.
    quick : two label sets, few paths, no roll of 800 points, no graph of 10 000.
    data_home : folder of the real data (see `datasets`).
    """
    requested = [n for n in EXPERIMENTS if n in names or "all" in names]
    for name in names:
        option(name, "experiment", (*EXPERIMENTS, "all"))
    size = QUICK if quick else FULL
    todo = _tasks(requested, names, size, seed, data_home)  # before anything is computed
    total = sum(map(splits.steps_of, todo)) + (200 if "heat-kernel" in requested else 0)
    begin, made = time.perf_counter(), []
    with Reporter(verbose, total, time_left="about") as report:
        if "heat-kernel" in requested:
            made.append(_heat_kernels(out / "heat-kernel", size, seed, report))
        for task in todo:
            folder = out / task.key
            records, latent = splits.run_task(task, folder, n_paths=size.paths, seed=seed, n_jobs=n_jobs, report=report)
            table = tables.regression_table(task, records)
            about = _about(seed, quick, records) | {"warnings": tables.warnings_of(records)}
            tables.write([table], folder, about)
            report.advance(f"{task.title}: figures", 0)
            _figures(task, latent, records, folder, seed)
            made.append(table)
    about = {"gpum": __version__, "versions": splits.versions(), "seed": seed, "quick": quick, "experiments": requested}
    tables.write(made, out, about | {"seconds": round(time.perf_counter() - begin, 1)})
    return made


def _tasks(
    requested: Sequence[str], names: Sequence[str], size: Size, seed: int, data_home: Any
) -> list[tasks.Task]:  # fmt: skip
    found = []
    if "swissroll" in requested:
        found += [tasks.swiss_roll(v, size.splits or 20, seed) for v in size.rolls]
    with_data = {
        "wifi": lambda: tasks.wifi(size.splits or 20, seed, data_home),
        "coil": lambda: tasks.coil(size.splits or 10, seed, data_home),
    }
    for name in (name for name in with_data if name in requested):
        try:
            found.append(with_data[name]())
        except (OSError, GpumError) as error:
            if name in names:
                raise
            warnings.warn(f"{name} was left out: {error}", stacklevel=3)
    return found


def _about(seed: int, quick: bool, records: Records) -> dict[str, Any]:
    return {"seed": seed, "quick": quick, "settings": records.settings, "versions": splits.versions()}


def _heat_kernels(folder: Path, size: Size, seed: int, report: Reporter) -> ResultTable:
    """Compute the kernels in both settings; each is stored when it is finished."""
    settings = {"gpum": __version__, "seed": seed, "paths": size.kernel_paths}
    records = Records(folder / "kernels.json", settings)
    learned: dict[str, Any] = {}

    def compute(name: str, edges: bool, make: Any, of: Any = tuple) -> None:
        report.advance(f"heat kernel: {name}", 0)
        if not records.has(name, edges):
            given = of()  # what it is the kernel of, whose seconds do not count
            begin = time.perf_counter()
            kernel = make(*given)
            seconds = time.perf_counter() - begin
            rms = kernels.rms(kernel, kernels.exact(edges))
            records.add(name, edges, {"kernel": list(kernel), "rms": rms, "seconds": seconds})

    def chart(model: str, edges: bool) -> tuple[Any, np.ndarray]:
        if model not in learned:
            learned[model] = kernels.learn(model, seed)
        own, targets, wide = learned[model]
        return (own if edges else wide), targets

    for edges in (False, True):
        compute("exact", edges, lambda e=edges: kernels.exact(e))
        for model in kernels.MODELS:
            for method in ("spectral", "brownian"):
                name = f"{model}, {'Brownian' if method == 'brownian' else method}"
                compute(
                    name, edges, lambda own, to, k=method: kernels.on_chart(own, to, k, size.kernel_paths, seed),
                    lambda m=model, e=edges: chart(m, e),
                )  # fmt: skip
                report.advance("", 10)
    compute(
        "exact metric, Brownian", True,
        lambda: kernels.on_chart(kernels.ROLL, kernels.TARGETS, "brownian", size.kernel_paths, seed),
    )  # fmt: skip
    for n in size.graphs:
        compute(f"GL, {n} points", True, lambda n=n: kernels.on_graph(n)[0])
        report.advance("", 40)
    curves = {
        words: {k: np.array(v[str(e)]["kernel"]) for k, v in records.methods.items() if str(e) in v}
        for words, e in zip(SETTINGS, (False, True), strict=True)
    }
    roll_figures.kernel_comparison(curves, folder)
    table = _kernel_table(records)
    tables.write([table], folder, {"seed": seed, "settings": settings, "versions": splits.versions()})
    return table


def _kernel_table(records: Records) -> ResultTable:
    rows, values = [], []
    for name, found in records.methods.items():
        if name == "exact":
            continue
        printed = kernels.PRINTED.get(name.split(",")[0])
        rms = {edges: found.get(str(edges), {}).get("rms") for edges in (False, True)}
        seconds = max(kernel["seconds"] for kernel in found.values())
        errors = ("" if x is None else f"{x:.2g}" for x in (printed, rms[False], rms[True]))
        rows.append((name, *errors, f"{seconds:.1f}"))
        values.append(
            {"kernel": name, "paper": printed, "rms_no_edges": rms[False], "rms_edges": rms[True], "seconds": seconds}
        )
    peaks = [kernels.exact(e).max() for e in (False, True)]
    return ResultTable(
        "Heat kernel: rms difference from the exact one at 29 targets",
        ("kernel", "in print", "ours, no edges in z", "ours, with edges", "seconds"),
        rows,
        values,
        [f"The exact kernel's peak is {peaks[0]:.2g} without edges in z and {peaks[1]:.2g} with them."],
    )


def _figures(task: tasks.Task, latent: Any, records: Records, folder: Path, seed: int) -> None:
    if task.key.startswith("swissroll"):
        roll_figures.cloud_and_chart(task, folder)
        roll_figures.latent_space(task, latent, folder, seed)
        roll_figures.predictions(task, records, folder)
        roll_figures.line(task, records, folder)
    else:
        figures.latent_figure(task, latent, folder, seed)
        figures.latent_predictions(task, latent, records, REAL_DATA, folder)
    figures.box_plot(task, records, folder)
    if task.key == "wifi":
        _ard(task, folder, seed)
    if task.key == "coil":
        _images(task, folder)


def _ard(task: tasks.Task, folder: Path, seed: int) -> None:
    """Relevance of the latent dimensions, which shows why two are used."""
    model = BayesianGPLVM(latent_dim="auto", random_state=seed).fit(task.X)
    with figures.figure(folder / "ard.png", 2.6, width=3.4) as fig:
        plot_relevance(model, ax=fig.subplots())


def _images(task: tasks.Task, folder: Path) -> None:
    """Six of the views, as they were taken and as the model sees them."""
    some = np.linspace(0, len(task.X) - 1, 6).astype(int)
    with figures.figure(folder / "images.png", 2.6) as fig:
        axes = fig.subplots(2, 6)
        for column, k in zip(axes.T, some, strict=True):
            column[0].imshow(task.data["images"][k])
            column[1].imshow(task.X[k].reshape(32, 32), cmap="gray", vmin=0, vmax=1)
            column[0].set_title(f"{task.data['angle'][k]}°")
        for ax in axes.ravel():
            ax.set(xticks=[], yticks=[])
        axes[0, 0].set_ylabel("128 × 128")
        axes[1, 0].set_ylabel("32 × 32 grey")
