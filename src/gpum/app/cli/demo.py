"""`gpum demo`: a Swiss roll with 24 labels, from the cloud to predictions and a figure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpum.tools import replacing

from .messages import the, weighed

if TYPE_CHECKING:
    import numpy as np

PATH_TIME = 150.0
FIGURE = "swiss_roll.png"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data and the fit.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and no chart: seconds, to try it out.")] = False,
) -> None:
    """A Swiss roll with 24 labels: learn its surface, predict the rest, compare, draw.

    GPUM gets 474 points in R³, and no information about the roll. It is compared with a GP with the exact heat kernel
    of the roll, and with a GP in R³, which does not use the surface. With --quick there are 224 points, and the exact
    kernel is left out.
    """
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from gpum import EuclideanGPRegressor, GPUMRegressor, datasets, diagnostics

    console = Console()
    cloud = datasets.make_swiss_roll(n_unlabeled=200 if quick else 450, random_state=seed)
    known = ~np.isnan(cloud.y)
    console.print(f"A Swiss roll in R³: {len(cloud.X)} points, {int(known.sum())} with a label.")
    dim, geometry = (2, ["atlas", "flat"]) if quick else ("average", "average")
    tried = "an atlas" if quick else "charts (Bayesian GPLVM), atlases, a graph"
    console.print(f"1. The surface in several ways: {tried}, flat space; then kernels on each:")
    methods: dict[str, tuple[Any, np.ndarray]] = {
        "GPUM": (GPUMRegressor(dim, geometry=geometry, random_state=seed, verbose=1), cloud.X),
        "exact heat kernel": (GPUMRegressor(latent_model=cloud.chart, random_state=seed), cloud.chart_coords),
        "GP in R³": (EuclideanGPRegressor(), cloud.X),
    }
    if quick:
        del methods["exact heat kernel"]
    models, seconds = {}, {}
    for name, (make, X) in methods.items():
        begin = time.perf_counter()
        models[name] = make.fit(X, cloud.y)
        seconds[name] = time.perf_counter() - begin
        if name == "GPUM":
            found = diagnostics.evidence_over_scale(models[name])
            weights = weighed(diagnostics.geometry_weights(models[name]))
            console.print(f"2. Evidence of the labels: {weights}.", highlight=False)
            console.print(
                f"   {len(found.scale)} settings of kernel and boundary have weight; the heaviest is "
                f"{_words(models[name].best_setting_)} on {the(found.geometry[0])}."
            )
    console.print("3. Predictions:")
    table = Table("method", title="Rows without a label, against the truth")
    for column in ("RMSE", "in 95 % interval", "seconds"):
        table.add_column(column, justify="right")
    means = {}
    for name, model in models.items():
        means[name], std = model.predict_cloud(return_std=True)
        error = (means[name] - cloud.y_true)[~known]
        covered = np.mean(np.abs(error) < 1.96 * std[~known])
        table.add_row(name, f"{np.sqrt(np.mean(error**2)):.3f}", f"{covered:.1%}", f"{seconds[name]:.1f}")
    console.print(table)
    if not quick:
        console.print("The exact kernel reflects at the roll's edges; GPUM also weighs a surface without edges.")
    console.print(f"Figure: {_figure(cloud, models['GPUM'], means, out, seed)}")


def _words(setting: dict[str, Any]) -> str:
    kernel = f"a {setting['smoothness']} kernel of scale {setting['scale']:.3g}"
    if "level" not in setting:
        return kernel
    return f"{kernel} with " + (
        "no boundary" if setting["level"] == "none" else f"boundary level {setting['level']:.2g}"
    )


def _figure(cloud: Any, model: Any, means: dict[str, np.ndarray], out: Path, seed: int) -> Path:
    """The cloud; the learned chart with magnification, boundary and paths; prediction and error beside a plain GP."""
    import numpy as np
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    known = ~np.isnan(cloud.y)
    # A page shows the figure about 800 pixels wide, 100 for each inch: letters are then 14 to 17 pixels high.
    with rc_context({"font.size": 11, "axes.titlesize": 12, "xtick.labelsize": 10, "ytick.labelsize": 10}):
        fig = Figure(figsize=(8, 7), layout="constrained")
        panels: Any = fig.subfigures(2, 1, height_ratios=(1.5, 1))
        top, bottom = panels
        grid = top.add_gridspec(1, 2, width_ratios=(1.15, 1))
        _roll(top.add_subplot(grid[0], projection="3d"), cloud)
        _surface(top.add_subplot(grid[1]), model, known, seed)
        _maps(bottom, cloud, means)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / FIGURE) as file:
        fig.savefig(file, format="png", dpi=200)
    return out / FIGURE


def _roll(ax: Any, cloud: Any) -> None:
    """The cloud in space: rows without a label as grey dots, seen along the axis of the roll; labels in colour."""
    import numpy as np

    known = ~np.isnan(cloud.y)
    ax.scatter(*cloud.X[~known].T, color="#6b7683", s=16, linewidth=0, depthshade=False)
    ax.scatter(
        *cloud.X[known].T, c=cloud.y[known], cmap="viridis", vmin=-1.5, vmax=1.5, s=75, edgecolor="k", depthshade=False
    )
    ax.set_box_aspect(np.ptp(cloud.X, axis=0), zoom=1.28)
    ax.view_init(66, -60)
    ax.set_axis_off()
    ax.set_title(f"The cloud in R³: {len(cloud.X)} points,\n{int(known.sum())} of them with a label (in colour)")


def _surface(ax: Any, model: Any, known: np.ndarray, seed: int) -> None:
    """The heaviest chart with magnification, boundary and two paths; without a chart the weights of geometries."""
    import numpy as np

    from gpum import brownian_path, plots

    if model.chart_ is None:
        plots.plot_geometries(model, ax=ax).set(title="Weights of the geometries", xlim=(0, 1.3), ylabel="")
        return
    if model.chart_.dim != 2:
        plots.plot_latent(model, ax=ax).set_title("The learned chart")
        return
    plots.plot_magnification(model.chart_, ax=ax)
    plots.plot_boundary(model.chart_, ax=ax)
    ax.plot(*model.latent_.T, ".", color="#0072b2", markersize=4)
    starts = model.latent_[np.flatnonzero(known)[:2]]
    paths = [brownian_path(model.chart_, x, PATH_TIME, random_state=seed + k) for k, x in enumerate(starts)]
    plots.plot_paths(paths, ax=ax)
    ax.set_title("The learned chart, its edge (orange),\ntwo Brownian paths (purple)")
    ax.set(xticks=(), yticks=(), xlabel="latent dimension 1", ylabel="latent dimension 2")


def _maps(fig: Any, cloud: Any, means: dict[str, np.ndarray]) -> None:
    """The prediction of GPUM, its error and that of the plain GP on the unrolled roll."""
    import numpy as np

    r, z = cloud.chart_coords.T
    known = ~np.isnan(cloud.y)
    errors = {name: means[name] - cloud.y_true for name in ("GPUM", "GP in R³")}
    axes = fig.subplots(1, 3, sharex=True, sharey=True)
    colours: Any = {"levels": np.linspace(-0.6, 0.6, 25), "cmap": "RdBu_r", "extend": "both"}
    mean = axes[0].tricontourf(r, z, means["GPUM"], levels=np.linspace(-1.5, 1.5, 21), cmap="viridis", extend="both")
    drawn = [ax.tricontourf(r, z, error, **colours) for ax, error in zip(axes[1:], errors.values(), strict=True)]
    for ax, title in zip(axes, ("GPUM: prediction", *(f"{name}: error" for name in errors)), strict=True):
        ax.plot(r[known], z[known], "kx", markersize=5)
        ax.set(title=title, xlabel="radius (unrolled)", xticks=(4, 8, 12), yticks=(0, 5, 10))
    axes[0].set_ylabel("width")
    fig.colorbar(mean, ax=axes[0], location="bottom", label="f (crosses: labels)", ticks=(-1.5, 0, 1.5))
    fig.colorbar(drawn[0], ax=axes[1:], location="bottom", label="prediction − truth", aspect=40, ticks=(-0.6, 0, 0.6))
