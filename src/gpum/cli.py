"""The command line: `gpum demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import __version__, datasets, plots
from .baselines import (
    EuclideanGPRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    LatentGPRegressor,
)
from .estimators import GPUMRegressor
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
    """Regression on a Swiss roll with 24 labels: GPUM against the four comparison methods."""
    console = Console()
    cloud = datasets.make_swiss_roll(random_state=seed)
    unknown = np.isnan(cloud.y)
    console.print(f"A Swiss roll in R³: {len(cloud.X)} points, {int((~unknown).sum())} with a label.")
    console.print("Learning its chart (Bayesian GPLVM), then the regression on it ...")
    latent = BayesianGPLVM(latent_dim=2, random_state=seed, verbose=1)
    begin = time.perf_counter()
    gpum = GPUMRegressor(latent_model=latent.fit(cloud.X), random_state=seed).fit(cloud.X, cloud.y)
    seconds = {"GPUM": time.perf_counter() - begin}
    models: dict[str, Any] = {"GPUM": gpum}
    for name, other in (
        ("GP in the latent space", LatentGPRegressor(latent_model=latent)),
        ("GP in R³", EuclideanGPRegressor()),
        ("graph Laplacian GP", GraphLaplacianGPRegressor()),
        ("graph Matérn GP", GraphMaternGPRegressor()),
    ):
        begin = time.perf_counter()
        models[name] = other.fit(cloud.X, cloud.y)
        seconds[name] = time.perf_counter() - begin
    table = Table("method", title="Error on the rows without a label, against the noise-free truth")
    for column in ("RMSE", "coverage of 95 % intervals", "seconds"):
        table.add_column(column, justify="right")
    for name, model in models.items():
        mean, std = model.predict(cloud.X[unknown], return_std=True)
        error = mean - cloud.y_true[unknown]
        covered = np.mean(np.abs(error) < 1.96 * std)
        table.add_row(name, f"{np.sqrt(np.mean(error**2)):.3f}", f"{covered:.1%}", f"{seconds[name]:.1f}")
    console.print(table)
    console.print("Each comparison method takes its one best setting; GPUM averages over settings.")
    console.print(f"Figure: {_figure(cloud, gpum, out)}")


@app.command()
def reproduce(
    experiments: Annotated[list[str], typer.Argument(help="heat-kernel, swissroll, wifi, coil, or all.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and finished parts.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Two label sets and few paths: a first look.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data (default: GPUM_DATA, then a cache).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of clouds, label sets and fits.")] = 0,
    n_jobs: Annotated[int | None, typer.Option(help="joblib workers; results do not depend on it.")] = None,
) -> None:
    """The paper's tables and figures beside ours. Interrupted, the same command goes on where it stopped."""
    from .reproduce import reproduce as run

    console = Console()
    out = out / "quick" if quick else out
    begin = time.perf_counter()
    try:
        made = run(experiments, out, quick=quick, data_home=data, seed=seed, n_jobs=n_jobs)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Finished label sets are kept in {out}: the same command goes on from there.")
        raise typer.Exit(130) from None
    except (OSError, ValueError) as error:
        Console(stderr=True).print(f"[red]{escape(str(error))}[/red]", soft_wrap=True)
        raise typer.Exit(2) from None
    for result in made:
        table = Table(*result.columns, title=result.title, caption=" ".join(result.notes) or None)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in result.rows:
            table.add_row(*row)
        console.print(table)
    console.print("* the smallest mean RMSE of the table.")
    console.print(f"Tables, figures and finished parts: {out} ({time.perf_counter() - begin:.0f} s).")


def _figure(cloud: Any, model: Any, out: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig = plt.figure(figsize=(15, 4.4), layout="constrained")
    space: Any = fig.add_subplot(1, 3, 1, projection="3d")
    known = ~np.isnan(cloud.y)
    space.scatter(*cloud.X[~known].T, color="0.75", s=6)
    space.scatter(
        *cloud.X[known].T, c=cloud.y[known], cmap="viridis", s=28, edgecolor="k", linewidth=0.6, depthshade=False
    )
    space.set(title=f"The cloud in R³: {int(known.sum())} labels", xlabel="x", ylabel="y")
    ax = fig.add_subplot(1, 3, 2)
    plots.plot_boundary(model.chart_, ax=ax)
    plots.plot_prediction(model, cloud.y, ax=ax)
    ax.set_title("Prediction on the learned chart")
    ax = fig.add_subplot(1, 3, 3)
    plots.plot_calibration(model, cloud.X[~known], cloud.y_true[~known], ax=ax)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "swiss_roll.png"
    fig.savefig(path, dpi=150)
    plt.close(fig)
    return path


def main() -> None:
    """Entry point of the `gpum` command."""
    app()
