"""The views of the page (each chart, and the data themselves), and everything that the page needs at its start."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.manifold import TSNE

from gpum.tools import Classes, column, columns, evaluate, fill_in, magnification, nearest, short, spacing

from ..report.document import View, edges_of
from ..report.findings import atlas_of
from .pictures import Pixels
from .session import Session

CHARTS = 3  # at most, from which the user can choose
EDGES = 6000  # of an atlas: with more the picture is unreadable
DIRECTIONS, EMBEDDED, FEWEST = 25, 1000, 12  # eigenvectors of a graph, and rows, from which its map is made
STRETCH = "How much surface one unit of the map represents: like a world map, it stretches some regions more."
SPARSE = "How far the nearest other row is: where rows are sparse, little is known about the surface."


def setup(session: Session) -> dict[str, Any]:
    """Everything that does not change while rows are labelled."""
    work, target = session.work, session.target
    return {
        "title": f"{work.target} of {work.path.name}",
        "target": short(work.target),
        "classes": [short(name) for name in target.names] if isinstance(target, Classes) else None,
        "names": [short(name) for name in work.names],
        "pictures": "" if work.pictures is None else "pixels" if isinstance(work.pictures, Pixels) else "files",
        "file": session.file.path.name,
        "views": views(target.model, _shown(work.X), work.encoded or work.features, target.candidate_set),
    }


def _shown(X: np.ndarray) -> np.ndarray:
    """Rows as they are drawn, with missing readings filled in."""
    return fill_in(X).rows if np.isnan(X).any() else X


def views(model: Any, X: np.ndarray, features: list[str], candidate_set: Any) -> list[dict[str, Any]]:
    """Charts, those of two dimensions first; a map of the graph; the data along their main directions."""
    found = []
    geometries = model.model_.geometries
    titles = geometries.titles
    charts = [(t, s) for t, s in zip(titles, geometries.members, strict=True) if s.name == "chart"]
    drawn = [
        (t, s.details.content["chart"], s.coordinates(geometries.cloud.learned, s.places))
        for t, s in charts
        if len(s.places) == len(X)
    ]
    if charts and not drawn and model.latent_ is not None:  # learned from a subset: the heaviest chart has all rows
        drawn = [("heaviest chart", model.chart_, model.latent_)]
    for title, chart, rows in sorted(drawn, key=lambda item: abs(item[2].shape[1] - 2))[:CHARTS]:
        found.append(
            {
                "title": f"map ({title})",
                "axes": columns(rows[:, :2]),
                "names": [f"map coordinate {d + 1}" for d in range(min(chart.dim, 2))],
                "geometry": column(evaluate(chart, magnification, rows)),
                "geometry_name": "Magnification",
                "geometry_note": STRETCH,
            }
        )
    found += _of_graph(candidate_set, titles, X)
    seen = View(X, geometries.cloud.unit)
    names = [short(name) for name in features] if seen.pca is None else [f"main direction {d}" for d in (1, 2, 3)]
    data: dict[str, Any] = {
        "title": "data" if seen.pca is None else "data, seen along three main directions",
        "axes": columns(seen.at(X)),
        "names": names,
        "geometry": column(spacing(X / seen.unit)),
        "geometry_name": "Distance to the nearest row",
        "geometry_note": SPARSE,
    }
    atlas = next((t for t in titles if atlas_of(model, t) is not None and atlas_of(model, t).dim <= 2), None)
    if atlas is not None and X.shape[1] > 2:
        edges = edges_of(model, atlas, X, seen, EDGES)
        if edges["of"] <= EDGES:
            data["lines"] = {"axes": edges["axes"], "pairs": edges["pairs"]}
    return [*found, data]


def _of_graph(candidate_set: Any, titles: list[str], X: np.ndarray) -> list[dict[str, Any]]:
    """The rows on a map of a graph, on which rows that are near along the graph are near.

    Classes that the graph tells apart have places of their own there; along main directions of the data they overlap.
    """
    for space, rows in enumerate(candidate_set.rows):
        title = titles[candidate_set.geometry_of[space]]
        if title.startswith("graph") and rows.shape[1] > 2 and len(rows) == len(X) >= FEWEST:
            values = np.asarray(candidate_set.spaces[space].values[1 : 1 + DIRECTIONS], float)
            smooth = rows[:, 1 : 1 + DIRECTIONS] / np.sqrt(np.maximum(values, 1e-3 * values[-1]))  # commute times
            return [
                {
                    "title": f"map ({title})",
                    "axes": columns(embedded(smooth)),
                    "names": ["map coordinate 1", "map coordinate 2"],
                    "geometry": column(spacing(X)),
                    "geometry_name": "Distance to the nearest row",
                    "geometry_note": SPARSE,
                }
            ]
    return []


def embedded(vectors: np.ndarray) -> np.ndarray:
    """Rows at vectors [N, k] in two dimensions [N, 2], by t-SNE, so that neighbours stay neighbours.

    It starts at the first two columns. Of a large graph EMBEDDED rows are embedded, and each other row is at the
    mean of its nearest ones.
    """
    some = np.unique(np.linspace(0, len(vectors) - 1, EMBEDDED).round().astype(int))
    first = vectors[some, :2] / max(vectors[some, 0].std(), 1e-300)
    method = TSNE(perplexity=min(15.0, (len(some) - 1) / 8), init=1e-4 * first, max_iter=500, random_state=0)
    found = method.fit_transform(vectors[some]).astype(float)
    return found if len(some) == len(vectors) else found[nearest(vectors[some], 3, vectors)[1]].mean(1)
