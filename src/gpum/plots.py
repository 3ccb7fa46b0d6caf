"""Pictures of charts, atlases and fits: each function takes `ax=` and returns the Axes it drew on."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from .basics import checks, neighbours
from .basics.checks import GpumError
from .estimators.latent_base import AUTO_SHARE as RELEVANT
from .manifold import Chart, evaluate, magnification
from .report import diagnostics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KERNEL_COLORS = {"heat": "#56b4e9", "matern52": "#009e73", "matern32": "#e69f00", "matern12": "#cc79a7"}


def plot_cloud(X: Any, values: Any = None, *, label: str | None = None, ax: Any = None) -> Any:
    """A cloud in three dimensions (the first principal components of more), coloured by values [N]; NaN is grey."""
    ax = _axes(ax, projection="3d")
    X = _space(X)
    values, known = _values(values, len(X))
    ax.scatter(*X[~known].T, color="0.55", s=5, linewidth=0)
    if known.any():
        size, edge = (22, 0.5) if (~known).any() else (7, 0.0)
        dots = ax.scatter(*X[known].T, c=values[known], cmap="viridis", s=size, edgecolor="k", linewidth=edge)
        dots.set_alpha(1)
        if label is not None:
            ax.figure.colorbar(dots, ax=ax, label=label, shrink=0.7, pad=0.1)
    return _even(ax, X)


def plot_atlas(atlas: Any, values: Any = None, *, label: str | None = None, ax: Any = None) -> Any:
    """The surface of a fitted atlas in three dimensions (the first principal components of more), simplices as edges.

    Coloured by values [N] of the cloud's rows; NaN is grey. Nodes between rows take the value of the nearest row.
    """
    from matplotlib import colormaps
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    ax = _axes(ax, projection="3d")
    nodes, simplices, of_row = _space(atlas.nodes_), atlas.simplices_, atlas.surface_.number
    values, known = _values(values, len(of_row))
    at_node = np.full(len(nodes), np.nan)
    at_node[of_row] = values
    between = np.setdiff1d(np.arange(len(nodes)), of_row)
    if len(between):
        at_node[between] = values[neighbours.nearest(atlas.nodes_[of_row], 1, atlas.nodes_[between])[1][:, 0]]
    if atlas.dim == 2:  # faces hide what is behind them
        drawn: Any = Poly3DCollection(nodes[simplices], edgecolor="0.3", linewidth=0.25, facecolor="0.94")
        shown = at_node[simplices].mean(1)
    else:
        sides = np.concatenate([simplices[:, [a, b]] for a, b in combinations(range(atlas.dim + 1), 2)])
        drawn = Line3DCollection(nodes[np.unique(np.sort(sides, 1), axis=0)], color="0.55", linewidth=0.5)
        rows = nodes[of_row]
        ax.scatter(*rows[~known].T, color="0.4", s=6, linewidth=0)
        ax.add_collection3d(drawn)
        drawn, shown = ax.scatter(*rows[known].T, s=10, linewidth=0), values[known]
    if known.any():
        drawn.set_cmap(colormaps["viridis"].with_extremes(bad="0.94"))
        drawn.set_array(np.ma.masked_invalid(shown))
        drawn.set_clim(np.nanmin(values), np.nanmax(values))
        if label is not None:
            ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.7, pad=0.1)
    if atlas.dim == 2:
        ax.add_collection3d(drawn)
    ax.set(xlim=_ends(nodes[:, 0]), ylim=_ends(nodes[:, 1]), zlim=_ends(nodes[:, 2]))
    return _even(ax, nodes)


def plot_geometries(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Posterior weight of each geometry of a fitted regressor, heaviest on top."""
    ax = _axes(ax)
    found = diagnostics.geometry_weights(model, output)
    bars = ax.barh(list(found), list(found.values()), color="#0072b2", height=0.6)
    ax.bar_label(bars, [f"{weight:.1%}" for weight in found.values()], padding=4)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.15), xlabel="weight", ylabel="geometry", title="what the labels say of the geometry")
    return ax


def plot_latent(
    model: Any, values: Any = None, *, labelled: Any = None, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Latent rows of a fitted latent model, coloured by `values` [N] where given (NaN is grey).

    With `labelled` (rows or a mask), as in the paper: triangles for rows without a label, crosses for those with.
    """
    X = _plane(model)
    ax = _axes(ax)
    if labelled is not None:
        mask = np.zeros(len(X), bool)
        mask[labelled] = True
        ax.scatter(X[~mask, 0], X[~mask, 1], s=9, marker="^", color="#0072b2", linewidth=0, zorder=3, label="no label")
        ax.scatter(X[mask, 0], X[mask, 1], s=26, marker="x", color="#d00000", linewidth=1.3, zorder=4, label="label")
        return _label(ax)
    values, known = _values(values, len(X))
    ax.scatter(X[~known, 0], X[~known, 1], s=8, color="0.35", zorder=3, label="rows")
    if known.any():
        dots = ax.scatter(X[known, 0], X[known, 1], s=14, c=values[known], cmap="viridis", zorder=4)
        ax.figure.colorbar(dots, ax=ax, label=label)
    return _label(ax)


def plot_magnification(chart: Chart, *, n: int = 160, ax: Axes | None = None) -> Axes:
    """√det G inside the boundary: the surface area of one unit of the chart (darker is more)."""
    ax = _axes(ax)
    axes, points, inside = _pixels(chart, n)
    value = np.full(len(points), np.nan)
    value[inside] = evaluate(chart, magnification, points[inside])
    return _background(ax, axes, value, "magnification √det G")


def plot_variance(chart: Any, *, n: int = 160, ax: Axes | None = None) -> Axes:
    """√Var φ(x) over a learned chart, inside and outside its boundary (darker: the surface is less well known)."""
    if not hasattr(chart, "variance"):
        raise GpumError(f"a {type(chart).__name__} is known exactly, so it has no variance; give a learned chart")
    ax = _axes(ax)
    axes, points, _ = _pixels(chart, n)
    return _background(ax, axes, np.sqrt(evaluate(chart, "variance", points)), "sd of the mapping φ")


def plot_boundary(
    chart: Chart, *, fill: bool = False, color: str = "#d55e00", linestyle: str = "-", n: int = 300,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """The outline of the inside of a two-dimensional chart; with `fill` its outside is dark."""
    ax = _axes(ax)
    axes, _, inside = _pixels(chart, n)
    shown = inside.reshape(n, n).astype(float)
    for a in range(2):  # crop to the inside and a margin
        seen = np.flatnonzero(shown.any(1 - a))
        some = slice(max(seen[0] - n // 15, 0), seen[-1] + n // 15)
        axes[a], shown = axes[a][some], shown[some] if a == 0 else shown[:, some]
    shown = shown.T
    if fill:
        ax.set_facecolor("0.55")
        ax.contourf(*axes, shown, levels=[0.5, 2], colors=["w"])
    ax.contour(*axes, shown, levels=[0.5], colors=color, linewidths=1.2, linestyles=linestyle, zorder=4)
    return _label(ax)


def plot_paths(paths: Any, *, color: str = "#7b3294", ax: Axes | None = None) -> Axes:
    """Brownian paths, each [steps, 2] in a chart or [steps, 3] in space; a star marks where each starts."""
    paths = [checks.cloud(path, "a path") for path in paths] if np.iterable(paths) else []
    if not paths or {path.shape[1] for path in paths} not in ({2}, {3}):
        raise GpumError("paths must be a list of arrays [steps, 2], or [steps, 3]; see brownian_path")
    ax = _axes(ax, projection="3d" if paths[0].shape[1] == 3 else None)
    for path in paths:
        ax.plot(*path.T, color=color, linewidth=0.7, zorder=5)
        ax.plot(*path[:1].T, marker="*", markersize=9, color="#d00000", markeredgecolor="w", linestyle="", zorder=6)
    return ax if paths[0].shape[1] == 3 else _label(ax)


def plot_prediction(model: Any, y: Any = None, *, std: bool = False, ax: Axes | None = None) -> Axes:
    """Predictive mean (or std) of every row of a fitted regressor's cloud, on its chart; labelled rows y are ringed."""
    X = _plane(model)
    ax = _axes(ax)
    mean, spread = model.predict_cloud(return_std=True)
    values, label = (spread, "std") if std else (mean, "mean")
    dots = ax.scatter(X[:, 0], X[:, 1], c=values, cmap="magma" if std else "viridis", s=12, zorder=3)
    ax.figure.colorbar(dots, ax=ax, label=f"predictive {label}")
    if y is not None:
        known = np.isfinite(np.asarray(y, float))
        ax.scatter(
            X[known, 0], X[known, 1], s=42, facecolor="none", edgecolor="k", linewidth=1.0, zorder=4, label="label"
        )
        ax.legend(loc="upper right")
    return _label(ax)


def plot_calibration(model: Any, X: Any, truth: Any, *, ax: Axes | None = None) -> Axes:
    """True values against predictions with their 95 % intervals."""
    ax = _axes(ax)
    mean, std = model.predict(X, return_std=True)
    truth = _numbers(truth, "truth", mean.shape)
    ax.errorbar(mean, truth, xerr=1.96 * std, fmt=".", ms=4, color="#0072b2", ecolor="#0072b255", elinewidth=0.8)
    ends = [float(min(mean.min(), truth.min())), float(max(mean.max(), truth.max()))]
    ax.plot(ends, ends, color="0.2", linewidth=1)
    covered = np.mean(np.abs(mean - truth) < 1.96 * std)
    ax.set(xlabel="prediction, with 95 % interval", ylabel="truth", title=f"{covered:.1%} of the truth is inside")
    return ax


def plot_ard(model: Any, *, ax: Axes | None = None) -> Axes:
    """Relevance 1/ell² of each latent dimension."""
    model = _learned(model, "ard_")
    ax = _axes(ax)
    ax.bar(np.arange(1, len(model.ard_) + 1), model.ard_, color="#0072b2")
    ax.set(xlabel="latent dimension", ylabel="ARD relevance 1/ℓ²", xticks=np.arange(1, len(model.ard_) + 1))
    return ax


def plot_relevance(model: Any, *, ax: Axes | None = None) -> Axes:
    """Extent of the surface along each initial dimension of latent_dim="auto", and which dimensions are retained."""
    model = _learned(model, "relevance_")
    ax = _axes(ax)
    extents = np.asarray(model.relevance_)
    index = np.arange(1, len(extents) + 1)
    retained = index <= model.latent_.shape[1]
    ax.bar(index[retained], extents[retained], color="#0072b2", label="retained")
    ax.bar(index[~retained], extents[~retained], color="0.7", label="not retained")
    ax.axhline(RELEVANT, color="0.3", linewidth=0.8, linestyle="--", label=f"{RELEVANT:.0%}")
    ax.set(xlabel="latent dimension", ylabel="squared extent, of the largest", xticks=index)
    ax.legend()
    return ax


def plot_leave_one_out(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Each label against the prediction from the other labels, with its 95 % interval."""
    ax = _axes(ax)
    left = diagnostics.leave_one_out(model, output)
    for some, color, label in ((left.inside, "#0072b2", "inside"), (~left.inside, "#d55e00", "outside")):
        spread = np.abs(np.stack([left.low, left.high])[:, some] - left.mean[some])
        ax.errorbar(left.y[some], left.mean[some], spread, fmt="o", ms=3.5, color=color, elinewidth=0.9, label=label)
    ends = [float(min(left.y.min(), left.mean.min())), float(max(left.y.max(), left.mean.max()))]
    ax.plot(ends, ends, color="0.4", linewidth=0.9)
    title = f"{int(left.inside.sum())} of {len(left.y)} labels in their interval, RMSE {left.rmse:.3g}"
    ax.set(xlabel="label", ylabel="predicted without it", title=title)
    ax.legend(title="95 % interval")
    return ax


def plot_residuals(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Leave-one-out residuals in units of their std over the prediction: no pattern, within ±2 but for a few."""
    ax = _axes(ax)
    left = diagnostics.leave_one_out(model, output)
    ax.axhspan(-1.96, 1.96, color="0.92")
    ax.axhline(0, color="0.4", linewidth=0.9)
    ax.plot(left.mean, (left.y - left.mean) / left.std, "o", ms=4, color="#0072b2")
    ax.set(xlabel="predicted without the label", ylabel="residual / std", title="leave-one-out residuals")
    return ax


def plot_evidence(
    model: Any, *, geometry: str | None = None, output: int = 0, ax: Axes | None = None
) -> Axes:  # fmt: skip
    """Posterior weight over the scale of the kernel, √t of a heat kernel, stacked by smoothness.

    On one geometry (as `geometry_weights` names it; default the heaviest), since each has its own unit of length.
    """
    ax = _axes(ax)
    geometry = geometry or next(iter(diagnostics.geometry_weights(model, output)))
    found = diagnostics.evidence_over_scale(model, output).of(geometry)
    scales = np.geomspace(found.ends[:, 0].min() / 1.2, found.ends[:, 1].max() * 1.2, 200)
    names = sorted(set(found.smoothness), key=lambda name: -sum(found.curve(name, found.scale)))
    colors = [KERNEL_COLORS.get(name, "0.5") for name in names]
    ax.stackplot(scales, [found.curve(name, scales) for name in names], labels=names, colors=colors, alpha=0.85)
    ax.set(xscale="log", xlabel="scale (√t of a heat kernel), a length on the surface", ylabel="weight")
    ax.set_title(f"what the labels say of the kernel\n({geometry})")
    ax.legend()
    return ax


def plot_bound(model: Any, *, ax: Axes | None = None) -> Axes:
    """The bound of every start of a latent model over its iterations; the highest one became the model.

    For a large cloud the first rounds use a subset of the rows; their bound is divided by the fraction of rows used.
    """
    model = _learned(model, "history_")
    ax = _axes(ax)
    runs: dict[str, list[tuple[int, float]]] = {}
    for entry in model.history_:
        fraction = entry["rows"] / len(model.latent_)
        runs.setdefault(entry["start"], []).append((entry["iterations"], entry["bound"] / fraction))
    for name, rounds in runs.items():
        steps = np.cumsum([n for n, _ in rounds])
        ax.plot(steps, [b for _, b in rounds], marker=".", label=name)
    ax.set(xlabel="iterations", ylabel="bound (nats)", title="starts of the latent model")
    ax.legend()
    return ax


def plot_diagnostics(model: Any, *, output: int = 0, axes: Any = None) -> Any:
    """Four panels on a fitted regressor: bound history, evidence over scale, calibration, residuals; [2, 2] Axes."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")[1]
    bound, evidence, left, residuals = np.ravel(axes)
    if getattr(model, "latent_model_", None) is None:
        bound.set_axis_off()
        bound.text(0.5, 0.5, "no latent model was learned", ha="center", transform=bound.transAxes)
    else:
        plot_bound(model.latent_model_, ax=bound)
    plot_evidence(model, output=output, ax=evidence)
    plot_leave_one_out(model, output=output, ax=left)
    plot_residuals(model, output=output, ax=residuals)
    return axes


def _axes(ax: Any, projection: str | None = None) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(layout="constrained").add_subplot(projection=projection)


def _values(values: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values [n], all NaN where none are given, and which are known."""
    values = np.full(n, np.nan) if values is None else _numbers(values, "values", (n,))
    return values, np.isfinite(values)


def _numbers(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values as an array of that shape."""
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError):
        raise GpumError(f"{name} must be numbers, got {values!r}; give one for each row") from None
    if found.shape != shape:
        raise GpumError(f"{name} must have the shape {shape}, got {found.shape}; give one for each row")
    return found


def _learned(model: Any, attribute: str) -> Any:
    """The latent model itself, or that of a regressor."""
    for one in (model, getattr(model, "latent_model_", None)):
        if getattr(one, attribute, None) is not None:
            return one
    raise GpumError(
        f"this {type(model).__name__} has no {attribute}: it needs a latent model that was learned"
        + (', with latent_dim="auto"' if attribute == "relevance_" else "")
    )


def _space(X: Any) -> np.ndarray:
    """Centred rows in three dimensions, [N, 3]: the first principal components of more, zeros for fewer."""
    X = checks.cloud(X, "X")
    X = X - X.mean(0)
    if X.shape[1] > 3:
        X = X @ np.linalg.svd(X, full_matrices=False)[2][:3].T
    return np.pad(X, ((0, 0), (0, max(0, 3 - X.shape[1]))))


def _ends(values: np.ndarray) -> tuple[float, float]:
    """A range that holds the values, with a margin."""
    margin = 0.02 * max(float(np.ptp(values)), 1e-12)
    return float(values.min()) - margin, float(values.max()) + margin


def _even(ax: Any, X: np.ndarray) -> Any:
    """Give the three axes the same unit of length."""
    sides = np.maximum(np.ptp(X, axis=0), 1e-3 * np.ptp(X))
    ax.set_box_aspect(sides if sides.any() else np.ones(3))
    ax.tick_params(labelsize="x-small", pad=-3)
    return ax


def _background(ax: Axes, axes: list[np.ndarray], value: np.ndarray, label: str) -> Axes:
    """Values on pixels, light to dark, with a colour bar."""
    n = len(axes[0])
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    greys = ListedColormap(colormaps["Greys"](np.linspace(0.12, 0.95, 256)))  # white is the colour of the outside
    image = ax.pcolormesh(*axes, value.reshape(n, n).T, cmap=greys, shading="nearest", rasterized=True)
    top = np.nanquantile(value, 0.99)
    image.set_clim(0, top)  # a few pixels at the edge would hide the rest
    extend = "max" if np.nanmax(value) > top else "neither"
    ax.figure.colorbar(image, ax=ax, label=label, extend=extend)
    return _label(ax)


def _plane(model: Any) -> np.ndarray:
    """Two coordinates of the rows on the model's chart, [N, 2]."""
    X = model.latent_
    if X is None:
        raise GpumError(
            f"geometry is {model.geometry!r}, which has no chart to draw on; fit with a geometry that has 'chart' in "
            "it, or draw the cloud with plot_cloud"
        )
    if X.shape[1] < 2:
        return np.column_stack([X[:, 0], np.zeros(len(X))])
    return X[:, :2]


def _pixels(chart: Chart, n: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    if chart.dim != 2:
        raise GpumError(f"only a two-dimensional chart can be drawn, this one has {chart.dim} dimension(s)")
    checks.integer(n, "n", 2, None, "it is the number of pixels along each axis")
    pad = 0.03 * np.ptp(chart.bounds, axis=1)
    axes = [np.linspace(lo - e, hi + e, n) for (lo, hi), e in zip(chart.bounds, pad, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    inside = evaluate(chart, "inside", points)
    if not inside.any():
        raise GpumError(f"none of {n} × {n} pixels is inside the boundary; raise n")
    return axes, points, inside


def _label(ax: Axes) -> Axes:
    ax.set(xlabel="latent dimension 1", ylabel="latent dimension 2")
    return ax
