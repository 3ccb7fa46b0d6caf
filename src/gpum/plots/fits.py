"""Pictures of fitted models: maps, predictions, weights, diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics.checks import GpumError
from ..basics.extras import needs
from ..estimators import diagnostics
from ..estimators.latent_base import AUTO_RELEVANT, LatentModel
from .canvas import axes_of, label_axes, numbers_of, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KERNEL_COLORS = {"heat": "#56b4e9", "matern52": "#009e73", "matern32": "#e69f00", "matern12": "#cc79a7"}
MOST_COLUMNS = 30  # that a picture of relevance shows


def plot_geometries(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Posterior weight of each geometry of a fitted regressor, heaviest on top."""
    ax = axes_of(ax)
    weights = diagnostics.geometry_weights(model, output)
    bars = ax.barh(list(weights), list(weights.values()), color="#0072b2", height=0.6)
    ax.bar_label(bars, [f"{weight:.1%}" for weight in weights.values()], padding=4)
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
    ax = axes_of(ax)
    if labelled is not None:
        mask = np.zeros(len(X), bool)
        mask[labelled] = True
        ax.scatter(X[~mask, 0], X[~mask, 1], s=9, marker="^", color="#0072b2", linewidth=0, zorder=3, label="no label")
        ax.scatter(X[mask, 0], X[mask, 1], s=26, marker="x", color="#d00000", linewidth=1.3, zorder=4, label="label")
        return label_axes(ax)
    values, known = values_of(values, len(X))
    ax.scatter(X[~known, 0], X[~known, 1], s=8, color="0.35", zorder=3, label="rows")
    if known.any():
        dots = ax.scatter(X[known, 0], X[known, 1], s=14, c=values[known], cmap="viridis", zorder=4)
        ax.figure.colorbar(dots, ax=ax, label=label)
    return label_axes(ax)


def plot_prediction(model: Any, y: Any = None, *, std: bool = False, ax: Axes | None = None) -> Axes:
    """Predictive mean (or std) of every row of a fitted regressor's cloud, on its chart; labelled rows y are ringed."""
    X = _plane(model)
    ax = axes_of(ax)
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
    return label_axes(ax)


def plot_calibration(model: Any, X: Any, truth: Any, *, ax: Axes | None = None) -> Axes:
    """True values against predictions with their 95 % intervals."""
    ax = axes_of(ax)
    mean, std = model.predict(X, return_std=True)
    truth = numbers_of(truth, "truth", mean.shape)
    ax.errorbar(mean, truth, xerr=1.96 * std, fmt=".", ms=4, color="#0072b2", ecolor="#0072b255", elinewidth=0.8)
    ends = [float(min(mean.min(), truth.min())), float(max(mean.max(), truth.max()))]
    ax.plot(ends, ends, color="0.2", linewidth=1)
    covered = np.mean(np.abs(mean - truth) < 1.96 * std)
    ax.set(xlabel="prediction, with 95 % interval", ylabel="truth", title=f"{covered:.1%} of the truth is inside")
    return ax


def plot_ard(model: Any, *, ax: Axes | None = None) -> Axes:
    """Relevance 1/ell² of each latent dimension."""
    model = _learned(model, "ard_")
    ax = axes_of(ax)
    ax.bar(np.arange(1, len(model.ard_) + 1), model.ard_, color="#0072b2")
    ax.set(xlabel="latent dimension", ylabel="ARD relevance 1/ℓ²", xticks=np.arange(1, len(model.ard_) + 1))
    return ax


def plot_relevance(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """How much each column matters for the target, the largest first; see `relevance_` of `GPUMRegressor`.

    Of a latent model with latent_dim="auto": the extent of the surface along each initial dimension.
    """
    if isinstance(model, LatentModel):
        return _plot_dimensions(model, axes_of(ax))
    relevances = getattr(model, "relevance_", None)
    if relevances is None:
        raise GpumError(
            "the model has no length scale for each column (relevance_ is None): these belong to flat space, and need "
            "at least ten labels"
        )
    ax = axes_of(ax)
    relevance = np.atleast_2d(relevances)[output]
    names = getattr(model, "feature_names_in_", [f"column {j}" for j in range(len(relevance))])
    order = np.argsort(relevance, kind="stable")[-MOST_COLUMNS:]
    ax.barh(np.arange(len(order)), relevance[order], color="#0072b2")
    ax.set(xlabel="relevance for the target", yticks=np.arange(len(order)), xlim=(0, 1))
    ax.set_yticklabels([str(names[j]) for j in order])
    return ax


def _plot_dimensions(model: Any, ax: Axes) -> Axes:
    model = _learned(model, "relevance_")
    extents = np.asarray(model.relevance_)
    index = np.arange(1, len(extents) + 1)
    retained = index <= model.latent_.shape[1]
    ax.bar(index[retained], extents[retained], color="#0072b2", label="retained")
    ax.bar(index[~retained], extents[~retained], color="0.7", label="not retained")
    ax.axhline(AUTO_RELEVANT, color="0.3", linewidth=0.8, linestyle="--", label=f"{AUTO_RELEVANT:.0%}")
    ax.set(xlabel="latent dimension", ylabel="squared extent, of the largest", xticks=index)
    ax.legend()
    return ax


def plot_leave_one_out(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Each label against the prediction from the other labels, with its 95 % interval."""
    ax = axes_of(ax)
    left = diagnostics.leave_one_out(model, output)
    for which, color, label in ((left.inside, "#0072b2", "inside"), (~left.inside, "#d55e00", "outside")):
        spread = np.abs(np.stack([left.low, left.high])[:, which] - left.mean[which])
        ax.errorbar(left.y[which], left.mean[which], spread, fmt="o", ms=3.5, color=color, elinewidth=0.9, label=label)
    ends = [float(min(left.y.min(), left.mean.min())), float(max(left.y.max(), left.mean.max()))]
    ax.plot(ends, ends, color="0.4", linewidth=0.9)
    title = f"{int(left.inside.sum())} of {len(left.y)} labels in their interval, RMSE {left.rmse:.3g}"
    ax.set(xlabel="label", ylabel="predicted without it", title=title)
    ax.legend(title="95 % interval")
    return ax


def plot_residuals(model: Any, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """Leave-one-out residuals in units of their std over the prediction: no pattern, within ±2 but for a few."""
    ax = axes_of(ax)
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
    ax = axes_of(ax)
    geometry = geometry or next(iter(diagnostics.geometry_weights(model, output)))
    evidence = diagnostics.evidence_over_scale(model, output).of(geometry)
    scales = np.geomspace(evidence.ends[:, 0].min() / 1.2, evidence.ends[:, 1].max() * 1.2, 200)
    names = sorted(set(evidence.smoothness), key=lambda name: -sum(evidence.curve(name, evidence.scale)))
    colors = [KERNEL_COLORS.get(name, "0.5") for name in names]
    ax.stackplot(scales, [evidence.curve(name, scales) for name in names], labels=names, colors=colors, alpha=0.85)
    ax.set(xscale="log", xlabel="scale (√t of a heat kernel), a length on the surface", ylabel="weight")
    ax.set_title(f"what the labels say of the kernel\n({geometry})")
    ax.legend()
    return ax


def plot_bound(model: Any, *, ax: Axes | None = None) -> Axes:
    """The bound of every start of a latent model over its iterations; the highest one became the model.

    For a large cloud the first rounds use a subset of the rows; their bound is divided by the fraction of rows used.
    """
    model = _learned(model, "history_")
    ax = axes_of(ax)
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
        axes = needs("matplotlib.pyplot", "a figure").subplots(2, 2, figsize=(10, 7.5), layout="constrained")[1]
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


def _learned(model: Any, attribute: str) -> Any:
    """The latent model itself, or that of a regressor."""
    for one in (model, getattr(model, "latent_model_", None)):
        if getattr(one, attribute, None) is not None:
            return one
    raise GpumError(
        f"this {type(model).__name__} has no {attribute}: it needs a latent model that was learned"
        + (', with latent_dim="auto"' if attribute == "relevance_" else "")
    )


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
