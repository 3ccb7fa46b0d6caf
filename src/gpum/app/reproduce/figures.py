"""Figures of several experiments, in the size and font of a column of a paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpum import LearnedChart, brownian_path, plots
from gpum.tools import replacing, straighten, variance_boundary

from .methods import METHODS
from .splits import Records
from .tasks import Task

STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "savefig.dpi": 200,
}
WIDE = 7.0  # inches: two columns


@contextmanager
def figure(path: Path, height: float, width: float = WIDE) -> Iterator[Any]:
    """A figure of this size in inches, which is saved at the end of the block."""
    with rc_context(STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        yield fig
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            fig.savefig(file, format=path.suffix[1:])


def letter(ax: Any, k: int, title: str) -> None:
    """Set the letter and title of a panel."""
    ax.set_title(f"({'abcdefgh'[k]}) {title}")


def path_of(chart: Any, start: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """A Brownian path in chart coordinates of duration (fraction × diagonal of the straightened chart)²."""
    time = (fraction * float(np.linalg.norm(straighten(chart).lengths))) ** 2
    return brownian_path(chart, start, time, n_steps=6000, random_state=seed)


def latent_panels(fig: Any, axes: Any, task: Task, latent: Any, first: int, seed: int, fraction: float) -> Any:
    """Latent rows over the mapping's sd, over the magnification, the boundary, and a Brownian path."""
    chart = latent.chart_
    labelled = task.splits[0]
    plots.plot_variance(chart, ax=axes[0])
    plots.plot_latent(latent, labelled=labelled, ax=axes[0])
    letter(axes[0], first, "latent space and sd of the mapping")
    plots.plot_magnification(chart, ax=axes[1])
    plots.plot_boundary(chart, ax=axes[1])
    plots.plot_latent(latent, labelled=labelled, ax=axes[1])
    letter(axes[1], first + 1, "magnification factor")
    printed = LearnedChart(chart.mapping, variance_boundary(np.random.default_rng(seed), chart.mapping, latent.latent_))
    plots.plot_boundary(chart, fill=True, ax=axes[2])
    plots.plot_boundary(printed, color="k", linestyle="--", ax=axes[2])
    plots.plot_latent(latent, labelled=labelled, ax=axes[2])
    letter(axes[2], first + 2, "boundary")
    path = path_of(chart, latent.latent_[labelled[0]], fraction, seed)
    plots.plot_magnification(chart, ax=axes[3])
    plots.plot_boundary(chart, ax=axes[3])
    plots.plot_paths([path], ax=axes[3])
    letter(axes[3], first + 3, "a Brownian path")
    key = [
        Line2D([], [], marker="^", linestyle="", color="#0072b2", markersize=4, label="no label"),
        Line2D([], [], marker="x", linestyle="", color="#d00000", markersize=5, label="label"),
        Line2D([], [], color="#d55e00", label="our boundary"),
        Line2D([], [], color="k", linestyle="--", label="the paper's rule"),
        Line2D([], [], color="#7b3294", label="path"),
        Line2D([], [], marker="*", linestyle="", color="#d00000", markersize=7, label="its start"),
    ]
    fig.legend(handles=key, loc="outside lower center", ncols=6, frameon=False)
    return path


def latent_figure(task: Task, latent: Any, folder: Path, seed: int) -> None:
    """The four panels of a cloud that cannot itself be drawn."""
    with figure(folder / "latent.png", 5.6) as fig:
        latent_panels(fig, fig.subplots(2, 2).ravel(), task, latent, 0, seed, 1.0)


def latent_predictions(task: Task, latent: Any, records: Records, keys: list[str], folder: Path) -> None:
    """Truth and predictions of the first label set at the latent rows, in one scale of colours."""
    X, known = latent.latent_, task.splits[0]
    shown = {"truth": task.truth} | {
        METHODS[k].name(task.X.shape[1]): np.array(records.methods[k]["0"]["mean"]) for k in keys
    }
    low, high = float(task.truth.min()), float(task.truth.max())
    rows = -(-len(shown) // 3)
    with figure(folder / "predictions.png", 2.2 * rows + 0.2) as fig:
        axes = fig.subplots(rows, 3, sharex=True, sharey=True, squeeze=False).ravel()
        for k, (name, values) in enumerate(shown.items()):
            dots = axes[k].scatter(*X.T, c=values, cmap="viridis", vmin=low, vmax=high, s=16)
            axes[k].scatter(*X[known].T, s=44, facecolor="none", edgecolor="k", linewidth=0.9)
            letter(axes[k], k, name)
        for ax in axes[len(shown) :]:
            ax.set_axis_off()
        fig.supxlabel("latent dimension 1", fontsize=8)
        fig.supylabel("latent dimension 2", fontsize=8)
        fig.colorbar(dots, ax=axes, label=f"{task.target} (rings: labelled rows)", extend="both")


def box_plot(task: Task, records: Records, folder: Path) -> None:
    """RMSE of every method over the label sets, with the paper's means."""
    n = len(task.splits)
    with figure(folder / "boxplot.png", 3.0) as fig:
        ax = fig.subplots()
        names = [m.name(task.X.shape[1]).replace(", ", ",\n") for m in METHODS.values()]
        ax.boxplot([records.values(k, "rmse", n) for k in METHODS], tick_labels=names, medianprops={"color": "#d55e00"})
        printed = [task.printed[m.printed][0] for m in METHODS.values()]
        ax.plot(np.arange(1, len(names) + 1), printed, "D", color="#0072b2", markersize=4, label="mean in print")
        ax.set(ylabel=f"RMSE of {task.target}, {n} label sets", ylim=(0, None))
        ax.legend()
