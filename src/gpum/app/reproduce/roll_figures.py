"""Figures of the Swiss roll: cloud and chart, latent space, a Brownian path, predictions; and of the heat kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpum import plots
from gpum.tools import evaluate, swiss_roll_function, swiss_roll_points

from .figures import figure, latent_panels, letter, path_of
from .kernels import RADII, ROLL
from .methods import METHODS
from .splits import Records
from .tasks import SLICE, Task

VIEW = (55, -60)  # elevation and azimuth from which the roll is recognised
CURVES = {  # name of a kernel: colour, dashes
    "exact": ("#D00000", "-"),
    "exact metric, Brownian": ("#D00000", (0, (1, 1))),
    "B-GPLVM, spectral": ("#009E73", (0, (5, 2))),
    "B-GPLVM, Brownian": ("#009E73", (0, (1, 1))),
    "GPLVM, spectral": ("#A6611A", (0, (5, 2, 1, 2))),
    "GPLVM, Brownian": ("#A6611A", (0, (1, 1))),
    "GL, 250 points": ("#0072B2", (0, (4, 2))),
    "GL, 1000 points": ("#7B3294", (0, (1, 1))),
    "GL, 10000 points": ("#000000", (0, (4, 1.5, 1, 1.5))),
}


def kernel_comparison(curves: dict[str, dict[str, np.ndarray]], folder: Path) -> None:
    """Kernels over the radius of the target; `curves` has them for each of the two settings."""
    with figure(folder / "kernel_comparison.png", 5.0) as fig:
        axes = fig.subplots(2, 2, sharex=True, height_ratios=(3, 2))
        shown: dict[str, Any] = {}
        for k, (column, (setting, found)) in enumerate(zip(axes.T, curves.items(), strict=True)):
            for name, (color, dashes) in CURVES.items():
                if name in found:
                    style = {"color": color, "linestyle": dashes, "linewidth": 1.4}
                    (shown[name],) = column[0].plot(RADII, 1e3 * found[name], label=name, **style)
                    column[1].plot(RADII, 1e5 * (found[name] - found["exact"]), **style)
            letter(column[0], k, setting)
            column[0].set(ylabel=r"$10^3\,K_t$ from r = 6, t = 50", ylim=(0, None))
            column[1].set(xlabel="radius r of the target (z = 3)", ylabel=r"$10^5\,(K_t -$ exact)")
        handles = [shown[name] for name in CURVES if name in shown]
        fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def _edges(space: Any, centre: np.ndarray) -> None:
    """Draw the two edges of the roll, seen from VIEW."""
    for z in ROLL.z:
        r = np.linspace(*ROLL.r, 400)
        space.plot(*(swiss_roll_points(np.stack([r, np.full(400, z)], 1)) - centre).T, color="0.6", linewidth=0.6)
    space.view_init(*VIEW)


def cloud_and_chart(task: Task, folder: Path) -> None:
    """The roll in R³ and its chart (r, z), both coloured by the true function."""
    with figure(folder / "cloud_and_chart.png", 2.9) as fig:
        space, ax = fig.add_subplot(1, 2, 1, projection="3d"), fig.add_subplot(1, 2, 2)
        plots.plot_cloud(task.X, task.truth, ax=space)
        _edges(space, task.X.mean(0))
        letter(space, 0, f"the roll in R³, {len(task.X)} points")
        dots = ax.scatter(*task.data["coords"].T, c=task.truth, cmap="viridis", s=9)
        ax.set(xlabel="radius r", ylabel="width z")
        letter(ax, 1, "its chart")
        fig.colorbar(dots, ax=[space, ax], label="true function f")


def latent_space(task: Task, latent: Any, folder: Path, seed: int) -> None:
    """The four panels of the latent space, and the path in space too."""
    with figure(folder / "latent.png", 5.2) as fig:
        path = latent_panels(fig, fig.subplots(2, 2).ravel(), task, latent, 0, seed, 0.35)
    start = np.array([9.0, 6.0])
    exact = path_of(ROLL, start, 0.3, seed)
    with figure(folder / "path.png", 2.9) as fig:
        ax, space = fig.add_subplot(1, 2, 1), fig.add_subplot(1, 2, 2, projection="3d")
        plots.plot_magnification(ROLL, ax=ax)
        plots.plot_paths([exact], ax=ax)
        ax.set(xlabel="radius r", ylabel="width z")
        letter(ax, 0, "a Brownian path in the exact chart")
        plots.plot_cloud(task.X, ax=space)
        _edges(space, task.X.mean(0))
        plots.plot_paths([evaluate(ROLL, "embed", exact) - task.X.mean(0)], ax=space)
        letter(space, 1, "the same path on the roll in R³")
    with figure(folder / "learned_path.png", 2.9) as fig:
        ax, space = fig.add_subplot(1, 2, 1), fig.add_subplot(1, 2, 2, projection="3d")
        plots.plot_magnification(latent.chart_, ax=ax)
        plots.plot_paths([path], ax=ax)
        letter(ax, 0, "a Brownian path in the learned chart")
        plots.plot_cloud(task.X, ax=space)
        _edges(space, task.X.mean(0))
        plots.plot_paths([evaluate(latent.chart_, "mean", path) - task.X.mean(0)], ax=space)
        letter(space, 1, "its image under the learned map φ")


def predictions(task: Task, records: Records, folder: Path) -> None:
    """True function and every method's prediction on the unrolled roll, in one scale of colours and contours."""
    r, z = task.data["coords"].T
    labelled, grid = task.splits[0], task.test
    shown = {"true function": task.truth} | {
        m.name(3): np.array(records.methods[k]["0"]["mean"]) for k, m in METHODS.items()
    }
    levels = np.linspace(-1.5, 1.5, 21)
    rows = -(-len(shown) // 2)
    with figure(folder / "predictions.png", 1.75 * rows) as fig:
        axes = fig.subplots(rows, 2, sharex=True, sharey=True).ravel()
        for k, (name, values) in enumerate(shown.items()):
            ax = axes[k]
            filled = ax.tricontourf(r[grid], z[grid], values[grid], levels=levels, cmap="viridis", extend="both")
            ax.tricontour(r[grid], z[grid], values[grid], levels=levels[::2], colors="w", linewidths=0.5)
            ax.plot(r[labelled], z[labelled], "kx", markersize=4)
            letter(ax, k, name)
        for ax in axes[-2:]:
            ax.set_xlabel("radius r")
        for ax in axes[::2]:
            ax.set_ylabel("width z")
        fig.colorbar(filled, ax=axes, label="f (crosses: labelled points)", aspect=40)


def line(task: Task, records: Records, folder: Path) -> None:
    """Predictions of all methods on the spiral z = SLICE."""
    r = task.data["line"]
    with figure(folder / "slice.png", 3.4) as fig:
        ax = fig.subplots()
        ax.plot(
            r, swiss_roll_function(np.stack([r, np.full(len(r), SLICE)], 1)), color="#0072B2", lw=2.2, label="truth"
        )
        for key, method in METHODS.items():
            ax.plot(
                r, records.methods[key]["0"]["line"], color=method.color, ls=method.dashes, lw=1.2, label=method.name(3)
            )
        ax.set(xlabel=f"radius r (z = {SLICE:g})", ylabel="prediction of f", xlim=(r[0], r[-1]))
        ax.legend(ncols=2)
