"""`gpum demo`: GPUM against the four comparison methods on a Swiss roll."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from .. import datasets, plots
from ..baselines import (
    EuclideanGPRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    LatentGPRegressor,
)
from ..estimators import GPUMRegressor
from ..latent_models import BayesianGPLVM


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
