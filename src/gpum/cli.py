"""The command line: `gpum demo`."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from . import __version__, datasets, plots
from .geometry import length, volume
from .latent_models import BayesianGPLVM

app = typer.Typer(help="GPUM: regression on unknown manifolds.", no_args_is_help=True, add_completion=False)


@app.callback()
def _root() -> None:
    """GPUM: regression on unknown manifolds."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data and the fit.")] = 0,
) -> None:
    """Learn the chart of a Swiss roll and compare it with the truth."""
    console = Console()
    cloud = datasets.make_swiss_roll(random_state=seed)
    console.print(f"A Swiss roll in R³: {len(cloud.X)} points. Learning its chart (Bayesian GPLVM) ...")
    begin = time.perf_counter()
    model = BayesianGPLVM(latent_dim=2, random_state=seed, verbose=1).fit(cloud.X)
    seconds = time.perf_counter() - begin

    rows = np.flatnonzero(np.isnan(cloud.y)).reshape(-1, 10)  # the grid: [along, across]
    X = model.latent_

    def measured(path: np.ndarray) -> float:
        return sum(float(length(model.chart_, X[a], X[b])) for a, b in pairwise(path))

    r, z = cloud.chart.r, cloud.chart.z
    along, across = float(np.ptp(cloud.chart.arc_length(r))), float(np.ptp(z))
    table = Table(title=f"The learned chart ({seconds:.0f} s, bound {model.bound_:.0f}, converged: {model.converged_})")
    for column in ("measured on the chart", "truth", "learned", "error"):
        table.add_column(column, justify="left" if column.startswith("m") else "right")
    for name, truth, value in (
        ("length along the roll", along, float(np.mean([measured(path) for path in rows.T]))),
        ("width across it", across, float(np.mean([measured(path) for path in rows]))),
        ("area inside the boundary", along * across, volume(model.chart_)),
    ):
        table.add_row(name, f"{truth:.2f}", f"{value:.2f}", f"{100 * (value / truth - 1):+.2f} %")
    console.print(table)
    console.print(f"Figure: {_figure(cloud, model, out)}")


def _figure(cloud: Any, model: BayesianGPLVM, out: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig = plt.figure(figsize=(11, 4.2), layout="constrained")
    space: Any = fig.add_subplot(1, 2, 1, projection="3d")
    arc = cloud.chart.arc_length(cloud.chart_coords[:, 0])
    space.scatter(cloud.X[:, 0], cloud.X[:, 1], zs=cloud.X[:, 2], c=arc, cmap="viridis", s=8)
    space.set(title="The cloud in R³", xlabel="x", ylabel="y", zlabel="z")
    ax = fig.add_subplot(1, 2, 2)
    plots.plot_magnification(model.chart_, ax=ax)
    plots.plot_boundary(model.chart_, ax=ax)
    ax.scatter(model.latent_[:, 0], model.latent_[:, 1], c=arc, cmap="viridis", s=8)
    ax.set_title("The learned chart and its boundary")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "chart.png"
    fig.savefig(path, dpi=150)
    plt.close(fig)
    return path


def main() -> None:
    """Entry point of the `gpum` command."""
    app()
