"""Where rows are drawn: flat, by the geometry that has the weight, and in three dimensions.

| most weight on | flat picture | picture in three dimensions |
| --- | --- | --- |
| a chart, or another geometry beside a chart with some weight | the chart | the data |
| a graph | its own layout: neighbours on the graph stay neighbours | the data |
| flat space | the two most relevant columns where known, or two main directions | the three most relevant ones |
| anything else | the heaviest chart, or two main directions of the data | the data |

The data are drawn in their columns, or, where there are more than three, along their main directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from gpum import diagnostics, model_io
from gpum.tools import columns, evaluate, nearest, needs, percent, short

from . import findings

PIXELS = 240  # along a side, for the outline
DIRECTIONS, EMBEDDED, FEWEST = 25, 1000, 12  # eigenvectors of a graph, and rows, from which its layout is made
MATTERS = 0.1  # relevance, relative to the largest, below which a column is no axis
LIGHT = 0.1  # weight of a chart below which the geometry of most weight is drawn instead, if it can be


class View:
    """The view of the cloud in three dimensions: some of its columns, or principal components.

    The components are those of columns in the `unit` of the fit: one in large numbers would be all that is seen.
    """

    def __init__(self, X: np.ndarray, unit: np.ndarray | float, relevant: np.ndarray | None = None) -> None:
        self.unit = unit
        self.relevant = np.arange(X.shape[1]) if relevant is None or len(relevant) < 3 else relevant
        self.pca = _main_directions(X / unit, 3) if len(self.relevant) > 3 else None
        fractions = [] if self.pca is None else np.nan_to_num(self.pca.explained_variance_ratio_)
        self.fractions = [percent(fraction) for fraction in fractions]

    def at(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of rows in this view, [n, at most 3]."""
        return X[:, self.relevant] if self.pca is None else self.pca.transform(X / self.unit)


@dataclass(frozen=True)
class FlatMap:
    """Rows in the plane (or on a line): coordinates [N, 1 or more], names of the axes, and what kind of map it is.

    kind : "learned" or "known" (a chart), "graph", "relevant" (columns), "directions".
    """

    kind: str
    rows: np.ndarray
    names: list[str]

    @property
    def charted(self) -> bool:
        """Whether it is a chart."""
        return self.kind in ("learned", "known")


def relevant_columns(model: Any) -> np.ndarray | None:
    """The columns that matter, the three first at most, where flat space has most weight; None: not known.

    Numbers come before categories, which make poor axes.
    """
    if not _heaviest(model).startswith("flat") or model.model_.relevance is None:
        return None
    relevance = np.nan_to_num(np.atleast_2d(model.model_.relevance)).mean(0)
    order = np.argsort(-relevance, kind="stable")
    order = order[relevance[order] > MATTERS * relevance[order[0]]]
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        order = order[np.argsort(encoding.indicators[order], kind="stable")]
    return order[:3]


def flat_map(fitted: model_io.Fitted, view: View) -> FlatMap:
    """The flat picture of the rows of a model."""
    model, X = fitted.model, fitted.X
    names = [short(name) for name in fitted.features]
    title, relevant, chart = _heaviest(model), relevant_columns(model), diagnostics.shown_chart(model)
    if chart is None or _weights(model)[chart] < LIGHT:
        graph = model.model_.geometries.candidate_set if title.startswith("graph") else None
        layout = None if graph is None else graph_layout(graph, model.model_.geometries.titles, title, len(X))
        if layout is not None:
            return FlatMap("graph", layout, ["map coordinate 1", "map coordinate 2"])
        if relevant is not None:
            return FlatMap("relevant", X[:, relevant[:2]], [names[j] for j in relevant[:2]])
        if title.startswith("flat"):
            chart = None
    if chart is not None:
        if model.latent_model_ is None:  # a known chart: the features are its coordinates
            return FlatMap("known", model.latent_, names)
        return FlatMap("learned", model.latent_, [f"map coordinate {d + 1}" for d in range(model.chart_.dim)])
    if X.shape[1] < 3:
        return FlatMap("directions", X, names)
    scaled = X / view.unit
    two = _main_directions(scaled, 2).transform(scaled)
    return FlatMap("directions", two, ["main direction 1", "main direction 2"])


def graph_layout(candidate_set: Any, titles: list[str], title: str, n: int) -> np.ndarray | None:
    """The n rows on a map of the graph of this title, [n, 2], on which rows near along it are near; None: not known.

    Classes that the graph tells apart have places of their own there; along main directions of the data they overlap.
    """
    for space, rows in enumerate(candidate_set.rows):
        known = rows is not None and rows.shape[1] > 2 and len(rows) == n >= FEWEST
        if known and titles[candidate_set.geometry_of[space]] == title:
            values = np.asarray(candidate_set.spaces[space].values[1 : 1 + DIRECTIONS], float)
            smooth = rows[:, 1 : 1 + DIRECTIONS] / np.sqrt(np.maximum(values, 1e-3 * values[-1]))  # commute times
            return embedded(smooth)
    return None


def embedded(vectors: np.ndarray) -> np.ndarray:
    """Rows at vectors [N, k] in two dimensions [N, 2], by t-SNE, so that neighbours stay neighbours.

    It starts at the first two columns. Of a large graph EMBEDDED rows are embedded, and each other row is at the
    mean of its nearest ones.
    """
    from sklearn.manifold import TSNE  # imported here, since it takes a second

    some = np.unique(np.linspace(0, len(vectors) - 1, EMBEDDED).round().astype(int))
    first = vectors[some, :2] / max(vectors[some, 0].std(), 1e-300)
    method = TSNE(perplexity=min(15.0, (len(some) - 1) / 8), init=1e-4 * first, max_iter=500, random_state=0)
    with threadpool_limits(1, "openmp"):  # of so few rows threads take ten times as long
        found = method.fit_transform(vectors[some]).astype(float)
    return found if len(some) == len(vectors) else found[nearest(vectors[some], 3, vectors)[1]].mean(1)


def edges_of(model: Any, title: str, X: np.ndarray, view: View, most: int) -> dict[str, Any]:
    """Edges of an atlas in the view of the cloud: coordinates of nodes, pairs of nodes, and their number.

    At most `most` edges. `near` is the row nearest to each node, whose prediction is its height if the data have less
    than three columns.
    """
    atlas = findings.atlas_of(model, title)
    pairs = atlas.edges
    shown = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), most)).astype(int)]
    used, ends = np.unique(shown, return_inverse=True)
    nodes = model.model_.cloud.unscaled(atlas.positions[used])
    flat = X.shape[1] < 3
    near = nearest(X / view.unit, 1, nodes / view.unit)[1][:, 0] if flat else None
    return {
        "axes": columns(view.at(nodes)),
        "pairs": ends.reshape(-1).tolist(),
        "near": None if near is None else near.tolist(),
        "of": len(pairs),
    }


def outline(chart: Any) -> list[Any]:
    """The outline of a chart of one or two dimensions as lines; empty for more dimensions, or without a chart."""
    if chart is None or chart.dim > 2:
        return []
    n = PIXELS if chart.dim == 2 else PIXELS**2 // 10
    pad = 0.03 * np.ptp(chart.bounds, axis=1)
    axes = [np.linspace(low - e, high + e, n) for (low, high), e in zip(chart.bounds, pad, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, chart.dim)
    inside = evaluate(chart, "inside", points).reshape((n,) * chart.dim)
    if chart.dim == 1:
        turns = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
        return [[[float(axes[0][a]), float(axes[0][b - 1])]] for a, b in turns.reshape(-1, 2)]
    blurred = gaussian_filter(inside.astype(float), 0.8)  # smooths the pixels
    lines = needs("contourpy", "the report").contour_generator(axes[0], axes[1], blurred.T).lines(0.5)
    return [columns(np.asarray(line)) for line in lines if len(line) > 3]


def _weights(model: Any) -> dict[str, float]:
    """Weight of each geometry by its title, averaged over outputs."""
    outputs = len(model.model_.outputs)
    each = [diagnostics.geometry_weights(model, k) for k in range(outputs)]
    return {title: sum(weights.get(title, 0.0) for weights in each) / outputs for title in each[0]}


def _heaviest(model: Any) -> str:
    weights = _weights(model)
    return max(weights, key=lambda title: weights[title])


def _main_directions(X: np.ndarray, k: int) -> PCA:
    """The first k principal components; if all rows are equal, their fractions of the variance are 0/0."""
    with np.errstate(invalid="ignore"):
        return PCA(k, svd_solver="full").fit(X)
