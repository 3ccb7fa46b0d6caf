"""Pictures of charts: each function takes `ax=` and returns the Axes it drew on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .geometry import Chart, evaluate, magnification

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_latent(model: Any, values: Any = None, *, label: str | None = None, ax: Axes | None = None) -> Axes:
    """Latent rows of a fitted latent model, coloured by `values` [N] where given (NaN stays grey)."""
    ax = _axes(ax)
    X = _plane(model.latent_)
    values = np.full(len(X), np.nan) if values is None else np.asarray(values, float)
    known = np.isfinite(values)
    ax.scatter(X[~known, 0], X[~known, 1], s=8, color="0.35", zorder=3, label="rows")
    if known.any():
        dots = ax.scatter(X[known, 0], X[known, 1], s=14, c=values[known], cmap="viridis", zorder=4)
        ax.figure.colorbar(dots, ax=ax, label=label)
    return _label(ax)


def plot_magnification(chart: Chart, *, n: int = 120, ax: Axes | None = None) -> Axes:
    """√det G inside the boundary: how much surface one unit of the chart holds (darker is more)."""
    ax = _axes(ax)
    axes, points, inside = _pixels(chart, n)
    value = np.full(len(points), np.nan)
    value[inside] = evaluate(chart, magnification, points[inside])
    image = ax.pcolormesh(*axes, value.reshape(n, n).T, cmap="cividis_r", shading="nearest", rasterized=True)
    ax.figure.colorbar(image, ax=ax, label="magnification √det G")
    return _label(ax)


def plot_boundary(chart: Chart, *, n: int = 200, ax: Axes | None = None) -> Axes:
    """The outline of the inside of a two-dimensional chart."""
    ax = _axes(ax)
    axes, _, inside = _pixels(chart, n)
    ax.contour(*axes, inside.reshape(n, n).T.astype(float), levels=[0.5], colors="#d55e00", linewidths=1.2)
    return _label(ax)


def plot_prediction(model: Any, y: Any = None, *, std: bool = False, ax: Axes | None = None) -> Axes:
    """Predictive mean (or std) of every row of a fitted regressor's cloud, on its chart; labelled rows y are ringed."""
    ax = _axes(ax)
    X = _plane(model.latent_)
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
    truth = np.asarray(truth, float)
    ax.errorbar(mean, truth, xerr=1.96 * std, fmt=".", ms=4, color="#0072b2", ecolor="#0072b255", elinewidth=0.8)
    ends = [float(min(mean.min(), truth.min())), float(max(mean.max(), truth.max()))]
    ax.plot(ends, ends, color="0.2", linewidth=1)
    covered = np.mean(np.abs(mean - truth) < 1.96 * std)
    ax.set(xlabel="prediction, with 95 % interval", ylabel="truth", title=f"{covered:.1%} of the truth is inside")
    return ax


def plot_ard(model: Any, *, ax: Axes | None = None) -> Axes:
    """Relevance 1/ell² of each latent dimension."""
    ax = _axes(ax)
    ax.bar(np.arange(1, len(model.ard_) + 1), model.ard_, color="#0072b2")
    ax.set(xlabel="latent dimension", ylabel="ARD relevance 1/ℓ²", xticks=np.arange(1, len(model.ard_) + 1))
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _plane(X: np.ndarray) -> np.ndarray:
    if X.shape[1] < 2:
        return np.column_stack([X[:, 0], np.zeros(len(X))])
    return X[:, :2]


def _pixels(chart: Chart, n: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    if chart.dim != 2:
        raise ValueError(f"only a two-dimensional chart can be drawn, this one has {chart.dim} dimension(s)")
    pad = 0.03 * np.ptp(chart.bounds, axis=1)
    axes = [np.linspace(lo - e, hi + e, n) for (lo, hi), e in zip(chart.bounds, pad, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    return axes, points, evaluate(chart, "inside", points)


def _label(ax: Axes) -> Axes:
    ax.set(xlabel="latent dimension 1", ylabel="latent dimension 2")
    return ax
