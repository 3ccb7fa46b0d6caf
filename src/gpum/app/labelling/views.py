"""The views of the page (each chart, and the data themselves), and everything that the page needs at its start."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpum.tools import Classes, column, columns, evaluate, fill_in, magnification, short, spacing

from ..report.findings import atlas_of
from ..report.maps import View, edges_of, graph_layout
from .pictures import Pixels
from .session import Session

CHARTS = 3  # at most, from which the user can choose
EDGES = 6000  # of an atlas: with more the picture is unreadable
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
    graph = next((title for title in titles if title.startswith("graph")), "")
    layout = graph_layout(candidate_set, titles, graph, len(X))
    if layout is not None:
        found.append(
            {
                "title": f"map ({graph})",
                "axes": columns(layout),
                "names": ["map coordinate 1", "map coordinate 2"],
                "geometry": column(spacing(X)),
                "geometry_name": "Distance to the nearest row",
                "geometry_note": SPARSE,
            }
        )
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
