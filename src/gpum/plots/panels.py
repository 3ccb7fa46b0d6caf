"""One figure about a fitted regressor or classifier."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from ..basics.extras import needs
from ..estimators import diagnostics
from .fits import plot_evidence, plot_geometries, plot_leave_one_out, plot_relevance

# Ten colours that differ also for colour-blind people; further classes have the same ones with other markers.
CLASS_COLORS = (
    "#067df5", "#820305", "#86b616", "#8000a9", "#e3af9d", "#2d455f", "#d460a6", "#78732e", "#13c6f6", "#050cf3",
)  # fmt: skip
MARKERS = "os^DP"
WIDTH = 34  # characters of a title or label
NAMED = 20  # classes at most whose names are written


def overview(model: Any, *, output: int = 0, axes: Any = None) -> Any:
    """Four panels on a fitted regressor or classifier: map, left-out labels, geometries, columns; [2, 2] Axes.

    The map is the heaviest chart, without one the first principal components of the cloud, coloured by the prediction;
    labelled rows are ringed. Left-out labels are those of `plot_leave_one_out`, of classes as a table of true and
    predicted ones. The last panel has the relevance of columns, or the weight of scales where that is not known.
    """
    diagnostics.geometry_weights(model, output)  # there is such an output
    classes = model.model_.classes
    if axes is None:
        axes = needs("matplotlib.pyplot", "a figure").subplots(2, 2, figsize=(10, 8), layout="constrained")[1]
    top, left_out, weights, last = np.ravel(axes)
    _map(model, output, top)
    if classes is not None:
        _confusion(diagnostics.left_out_classes(model), classes, left_out)
    elif len(model.model_.outputs[output].rows) > 1:
        plot_leave_one_out(model, output=output, ax=left_out)
    else:
        left_out.set_axis_off()
        left_out.text(0.5, 0.5, "one label cannot be left out", ha="center", transform=left_out.transAxes)
    plot_geometries(model, output=output, ax=weights).set(ylabel="", xlim=(0, 1.3))
    relevance = None if classes is not None else getattr(model, "relevance_", None)
    if relevance is None or np.isnan(np.atleast_2d(relevance)[output]).any():
        plot_evidence(model, output=output, ax=last)
    else:
        plot_relevance(model, output=output, ax=last).set_title("which columns matter")
    for ax in (left_out, last):  # narrow panels: long lines would leave the figure
        ax.set(title=fill(ax.get_title(), WIDTH), xlabel=fill(ax.get_xlabel(), WIDTH))
    return axes


def _map(model: Any, output: int, ax: Any) -> None:
    """The rows of the cloud on the heaviest chart or along two main directions, coloured by prediction."""
    fitted = model.model_
    rows, names = fitted.latent, "latent dimension"
    if rows is None:
        centred = np.nan_to_num(fitted.cloud.rows - np.nanmean(fitted.cloud.rows, 0))
        rows, names = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T, "main direction"
    size = float(np.clip(8000 / len(rows), 6, 40))
    known = fitted.outputs[output].rows
    line = rows.shape[1] < 2
    if fitted.classes is not None:
        x, y = rows[:, 0], np.zeros(len(rows)) if line else rows[:, 1]
        _classes(ax, x, y, np.argmax(fitted.of_cloud.probabilities, 1), fitted.classes, size)
    else:
        mean = fitted.of_cloud.mean.reshape(len(rows), -1)[:, output]
        x, y = rows[:, 0], mean if line else rows[:, 1]
        dots = ax.scatter(x, y, c=mean, s=size, cmap="viridis", linewidth=0)
        ax.figure.colorbar(dots, ax=ax, label="prediction")
    ax.scatter(x[known], y[known], s=3 * size, facecolor="none", edgecolor="0.15", linewidth=0.9)
    height = f"{names} 2" if not line else "" if fitted.classes is not None else "prediction"
    title = f"{len(rows):,} rows; {len(known):,} with a label (rings)"
    ax.set(xlabel=f"{names} 1", ylabel=height, title=title)


def _classes(ax: Any, x: np.ndarray, y: np.ndarray, likeliest: np.ndarray, classes: np.ndarray, size: float) -> None:
    for k, name in enumerate(classes):
        of_class = likeliest == k
        marker = MARKERS[(k + k // 10) % len(MARKERS)]
        label = str(name) if k < NAMED else None
        ax.scatter(
            x[of_class], y[of_class], s=size, color=CLASS_COLORS[k % 10], marker=marker, linewidth=0, label=label
        )
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
    ax.legend(title="class", fontsize="small", markerscale=1.2, **beside)


def _confusion(left_out: diagnostics.LeftOutClasses, classes: np.ndarray, ax: Any) -> None:
    """Left-out labels as a table: true and predicted classes."""
    counts = left_out.confusion
    ax.imshow(counts, cmap="Blues", vmax=1.3 * counts.max())
    if len(classes) <= NAMED:
        for (i, j), n in np.ndenumerate(counts):
            if n:
                ax.text(j, i, int(n), ha="center", va="center", fontsize="small")
        ticks = np.arange(len(classes))
        ax.set_xticks(
            ticks, [str(name) for name in classes], rotation=90 if max(map(len, map(str, classes))) > 3 else 0
        )
        ax.set_yticks(ticks, [str(name) for name in classes])
    right = int(left_out.right.sum())
    ax.set(
        xlabel="predicted without the label",
        ylabel="class",
        title=f"{right} of {len(left_out.y)} left-out labels right",
    )
