"""Pictures of clouds, charts, atlases and paths."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics import checks, neighbours
from ..basics.checks import GpumError
from ..manifold import Chart, evaluate, magnification
from .canvas import axes_of, label_axes, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cloud(X: Any, values: Any = None, *, label: str | None = None, ax: Any = None) -> Any:
    """A cloud in three dimensions (the first principal components of more), coloured by values [N]; NaN is grey."""
    ax = axes_of(ax, projection="3d")
    X = _space(X)
    values, known = values_of(values, len(X))
    ax.scatter(*X[~known].T, color="0.45", s=9, linewidth=0, depthshade=False)
    if known.any():
        size, edge = (36, 0.6) if (~known).any() else (7, 0.0)
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

    ax = axes_of(ax, projection="3d")
    nodes, simplices, of_row = _space(atlas.nodes_), atlas.simplices_, atlas.surface_.number
    values, known = values_of(values, len(of_row))
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


def plot_surface(
    surface: Any, values: Any = None, *, paths: Any = (), label: str | None = None, ax: Any = None
) -> Any:  # fmt: skip
    """A mesh, or one of `surfaces_` of a fitted model, in three dimensions (the first principal components of more).

    Coloured by values [V] at its nodes; `paths` are curves on it, [k, p] each, such as those of `geodesic`.
    """
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    ax, count = axes_of(ax, projection="3d"), len(surface.nodes)
    columns = surface.nodes.shape[1]
    try:
        curves = [np.asarray(path, float).reshape(len(path), columns) for path in paths]
    except (TypeError, ValueError):
        raise GpumError(f"paths must be arrays [k, {columns}], one for each path; pass a list of them") from None
    at = _space(np.concatenate([surface.nodes, *curves]))
    nodes, cells = at[:count], surface.cells
    values, known = values_of(values, count)
    if surface.dim == 2:
        drawn: Any = Poly3DCollection(nodes[cells], edgecolor="0.3", linewidth=0.25, facecolor="0.94")
    else:
        sides = np.concatenate([cells[:, [a, b]] for a, b in combinations(range(surface.dim + 1), 2)])
        sides = np.unique(np.sort(sides, 1), axis=0)
        cells = sides[sides[:, 0] < sides[:, 1]]
        drawn = Line3DCollection(nodes[cells], color="0.55", linewidth=1.0 if surface.dim == 1 else 0.5)
    if known.any():
        shown = np.ma.masked_invalid(values[cells].mean(1))
        drawn.set_cmap("viridis")
        drawn.set_array(shown)
        drawn.set_clim(np.nanmin(values), np.nanmax(values))
        if label is not None:
            ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.7, pad=0.1)
    ax.add_collection3d(drawn)
    for path in np.split(at[count:], np.cumsum([len(path) for path in curves])[:-1]) if curves else ():
        ax.plot(*path.T, color="black", linewidth=2, zorder=10)
    ax.set(xlim=_ends(nodes[:, 0]), ylim=_ends(nodes[:, 1]), zlim=_ends(nodes[:, 2]))
    return _even(ax, nodes)


def plot_magnification(chart: Chart, *, n: int = 160, ax: Axes | None = None) -> Axes:
    """√det G inside the boundary: the surface area of one unit of the chart (darker is more)."""
    ax = axes_of(ax)
    axes, points, inside = _pixels(chart, n)
    value = np.full(len(points), np.nan)
    value[inside] = evaluate(chart, magnification, points[inside])
    return _background(ax, axes, value, "magnification √det G")


def plot_variance(chart: Any, *, n: int = 160, ax: Axes | None = None) -> Axes:
    """√Var φ(x) over a learned chart, inside and outside its boundary (darker: the surface is less well known)."""
    if not hasattr(chart, "variance"):
        raise GpumError(f"a {type(chart).__name__} is known exactly, so it has no variance; give a learned chart")
    ax = axes_of(ax)
    axes, points, _ = _pixels(chart, n)
    return _background(ax, axes, np.sqrt(evaluate(chart, "variance", points)), "sd of the mapping φ")


def plot_boundary(
    chart: Chart, *, fill: bool = False, color: str = "#d55e00", linestyle: str = "-", n: int = 300,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """The outline of the inside of a two-dimensional chart; with `fill` its outside is dark."""
    ax = axes_of(ax)
    axes, _, inside = _pixels(chart, n)
    shown = inside.reshape(n, n).astype(float)
    for a in range(2):  # crop to the inside and a margin
        seen = np.flatnonzero(shown.any(1 - a))
        cropped = slice(max(seen[0] - n // 15, 0), seen[-1] + n // 15)
        axes[a], shown = axes[a][cropped], shown[cropped] if a == 0 else shown[:, cropped]
    shown = shown.T
    if fill:
        ax.set_facecolor("0.55")
        ax.contourf(*axes, shown, levels=[0.5, 2], colors=["w"])
    ax.contour(*axes, shown, levels=[0.5], colors=color, linewidths=1.2, linestyles=linestyle, zorder=4)
    return label_axes(ax)


def plot_paths(paths: Any, *, color: str = "#7b3294", ax: Axes | None = None) -> Axes:
    """Brownian paths, each [steps, 2] in a chart or [steps, 3] in space; a star marks where each starts."""
    paths = [checks.cloud(path, "a path") for path in paths] if np.iterable(paths) else []
    if not paths or {path.shape[1] for path in paths} not in ({2}, {3}):
        raise GpumError("paths must be a list of arrays [steps, 2], or [steps, 3]; see brownian_path")
    ax = axes_of(ax, projection="3d" if paths[0].shape[1] == 3 else None)
    for path in paths:
        ax.plot(*path.T, color=color, linewidth=0.7, zorder=5)
        ax.plot(*path[:1].T, marker="*", markersize=9, color="#d00000", markeredgecolor="w", linestyle="", zorder=6)
    return ax if paths[0].shape[1] == 3 else label_axes(ax)


def _space(X: Any) -> np.ndarray:
    """Rows in three dimensions, [N, 3]: as they are, the first principal components of more, zeros for fewer."""
    X = checks.cloud(X, "X")
    if X.shape[1] > 3:
        X = X - X.mean(0)
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
    return label_axes(ax)


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
