"""The report of a fitted model: one HTML file that opens without a network.

Python prepares the numbers and sentences as JSON; the page in `page/` draws them with plotly.js. Both are compressed
and written into the file in base 85, which `page/unpack.js` reads. Names from the data reach the page only in that
JSON, and there only as text.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gpum import diagnostics, model_io
from gpum.tools import (
    NO_BOUNDARY,
    by_column,
    check_writable,
    column,
    columns,
    evaluate,
    fill_in,
    magnification,
    needs,
    replacing,
    short,
)

from . import classes, findings, verdict
from .maps import FlatMap, View, edges_of, flat_map, outline, relevant_columns

SHOWN_FEATURES = 6  # feature values that are shown for a row: those of the columns that vary most
SHOWN_LABELS = 1000  # points of the calibration plot
CURVE = 80  # points of the curve over scale
SHOWN_ROWS = (4000, 2000, 1000, 500)  # of a cloud at most: the first number whose page is not larger than LARGEST
SHOWN_EDGES = 5  # of an atlas, for each row that may be shown
LARGEST = 2_000_000  # bytes of the page
SHOWN_CANDIDATES = 8
SHOWN_COLUMNS = 15  # of which the report says how relevant they are


def write_report(fitted: model_io.Fitted, path: Any, *, force: bool = False) -> Path:
    """Write the report of a fitted model to an HTML file, completely or not at all; `force` overwrites."""
    path = Path(path)
    if path.exists() and not force:
        raise FileExistsError(f"path is {str(path)!r}, which exists; choose another name or pass force=True")
    check_writable(path)
    text = render(fitted)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def render(fitted: model_io.Fitted) -> str:
    """The report of a fitted model as the text of an HTML page."""
    if np.isnan(fitted.X).any():  # figures show the values that were filled in
        fitted = replace(fitted, X=fill_in(fitted.X).rows)
    page = resources.files(__package__) / "page"
    title = f"GPUM report: {fitted.about.get('source') or ', '.join(fitted.targets)}"
    sections = {
        "title": html.escape(title),
        "style": _joined(page, "common.css", "page.css"),
        "code": _packed(_plotly() + _joined(page, "common.js", "page.js")),
        "unpack": _joined(page, "unpack.js"),
    }
    frame, contents = (page / "page.html").read_text("utf-8"), {"title": title, **_contents(fitted)}
    for limit in SHOWN_ROWS:
        sections["data"] = _packed(json.dumps(_shown(contents, fitted, limit), allow_nan=False, separators=(",", ":")))
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: sections[match[1]], frame)
        if len(text.encode()) <= LARGEST:
            break
    return text


def _joined(page: Any, *names: str) -> str:
    return "".join("\n" + (page / name).read_text("utf-8") for name in names)


def _plotly() -> str:
    return str(needs("plotly.offline", "the report").get_plotlyjs())


def _packed(text: str) -> str:
    """Text, compressed, in base 85 with a comma in place of <, so that it cannot end or begin an element."""
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode().replace("<", ",")


def _contents(fitted: model_io.Fitted) -> dict[str, Any]:
    model, X = fitted.model, fitted.X
    view = View(X, model.model_.cloud.unit, relevant_columns(model))
    flat = flat_map(fitted, view)
    named = hasattr(model, "classes_")
    outlines: dict[Any, Any] = {}
    common = [_common(fitted, k, flat, outlines) for k in range(len(fitted.targets))]
    targets = classes.targets(fitted, common[0]) if named else _targets(fitted, common)
    settings = fitted.about.get("settings") or model.model_.settings
    worth = diagnostics.suggestions(model)
    charted, learned = flat.charted, flat.kind == "learned"
    next_rows = [] if worth is None else worth.rows.tolist()
    return {
        "rows": [short(name) for name in fitted.rows],
        "chart": {
            "axes": columns(flat.rows),
            "dim": model.chart_.dim if charted else flat.rows.shape[1],
            "names": flat.names,
            "kind": flat.kind,
            "title": findings.MAPS[flat.kind] if fitted.X.shape[1] > 2 or charted else "The rows in their columns",
        },
        "cloud": {
            "axes": columns(view.at(X)),
            "names": [short(fitted.features[j]) for j in view.relevant[:3]],
            "fractions": view.fractions,
        },
        "magnification": column(evaluate(model.chart_, magnification, model.latent_)) if charted else None,
        "features": _features(fitted),
        "ard": column(model.latent_model_.ard_) if learned else None,
        "extents": column(diagnostics.extents(model)) if charted else None,
        "cautions": findings.about_cloud(fitted),
        "targets": targets,
        "confusion": classes.confusion(model) if named else None,
        "next": {"rows": next_rows, "text": findings.label_next(worth, named)},
        "words": classes.WORDS if named else findings.WORDS,
        "about": [*_about(fitted.about), ["columns", model.model_.cloud.units]],
        "settings": [[str(key), short(value)] for key, value in settings.items()],
        "messages": [str(message) for message in [*fitted.about.get("warnings", []), *model.notes_]],
    }


def _shown(contents: dict[str, Any], fitted: model_io.Fitted, limit: int) -> dict[str, Any]:
    """The contents of a page with about `limit` rows, and the edges of atlases among them."""
    X, targets = fitted.X, contents["targets"]
    rows = _shown_rows(len(X), targets, contents["next"]["rows"], limit)
    some = contents if len(rows) == len(X) else _thinned(contents, rows, len(X))
    titles = {t["atlas"] for t in targets if t["atlas"] is not None}
    view = View(X, fitted.model.model_.cloud.unit, relevant_columns(fitted.model))
    edges = {title: edges_of(fitted.model, title, X[rows], view, SHOWN_EDGES * limit) for title in titles}
    return {**some, "atlases": edges}


def _features(fitted: model_io.Fitted) -> dict[str, Any]:
    """The columns that matter most or, where that is not known, vary most in the units of the fit.

    Numbers, or words and dates as they are in the table.
    """
    fit, owners = fitted.model.model_, fitted.encoding.owners
    spreads = (fitted.X / fit.cloud.unit).std(0)
    matter = spreads if fit.relevance is None else np.nan_to_num(np.atleast_2d(fit.relevance)).mean(0)
    most = np.maximum.reduceat(matter, np.unique(owners, return_index=True)[1])
    first = np.sort(np.argsort(-most, kind="stable")[:SHOWN_FEATURES])
    cells = [fitted.encoding.decoded(fitted.X, j) for j in first]
    words = [any(isinstance(cell, str) for cell in some) for some in cells]
    return {
        "names": [short(fitted.columns[j]) for j in first],
        "axes": [some if text else column(np.array(some, float)) for some, text in zip(cells, words, strict=True)],
        "of": fitted.X.shape[1],
    }


def _about(about: dict[str, Any]) -> list[list[str]]:
    """Further information about the fit, besides settings and messages, in words."""
    found = []
    for key, value in about.items():
        if key not in ("settings", "warnings", "seconds"):
            found.append([str(key), short(_in_words(value))])
    return found


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} like {_in_words(one)}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _shown_rows(n: int, targets: list[dict[str, Any]], asked: list[int], limit: int) -> np.ndarray:
    """Which of n rows the page shows: all, or `limit` spread evenly and the rows that other sections mention."""
    if n <= limit:
        return np.arange(n)
    spoken = [row for t in targets if t["left_out"] is not None for row in t["left_out"]["rows"]]
    return np.unique(np.concatenate([np.linspace(0, n - 1, limit).astype(int), spoken, asked]).astype(int))


def _thinned(contents: dict[str, Any], shown: np.ndarray, n: int) -> dict[str, Any]:
    """The contents with some of n rows only, and a message that says so."""
    pick = lambda column: None if column is None else [column[i] for i in shown]
    position = {int(row): k for k, row in enumerate(shown)}
    thin = dict(contents)
    thin["rows"], thin["magnification"] = pick(contents["rows"]), pick(contents["magnification"])
    for name in ("chart", "cloud", "features"):
        thin[name] = {**contents[name], "axes": [pick(column) for column in contents[name]["axes"]]}
    thin["next"] = {**contents["next"], "rows": [position[row] for row in contents["next"]["rows"]]}
    thin["targets"] = []
    for target in contents["targets"]:
        left_out = target["left_out"]
        if left_out is not None:
            left_out = {**left_out, "rows": [position[row] for row in left_out["rows"]]}
        columns = {name: pick(target[name]) for name in ("y", "mean", "std")}
        thin["targets"].append({**target, **columns, "left_out": left_out})
    said = f"The pictures and the table show {len(shown):,} of {n:,} rows; all figures are of all rows."
    return {**thin, "messages": [said, *contents["messages"]]}


def _common(fitted: model_io.Fitted, k: int, flat: FlatMap, outlines: dict[Any, Any]) -> dict[str, Any]:
    """The entries of output k that every kind of target has: geometries, settings and outline."""
    model = fitted.model
    settings = diagnostics.evidence_over_scale(model, k)
    geometries = diagnostics.geometry_weights(model, k)
    first = next(iter(geometries))
    levels = diagnostics.level_weights(model, k)
    level, outline_text = findings.outline(levels)
    if level not in outlines:
        chart = model.chart_ if flat.charted and level != NO_BOUNDARY else None
        outlines[level] = outline(chart if chart is None or level is None else chart.with_level(level))
    return {
        "geometries": [[title, round(w, 4), findings.percent(w)] for title, w in geometries.items()],
        "geometry_text": findings.geometry(model, k),
        "map_text": findings.the_map(model, k, flat.kind, fitted.X.shape[1]),
        "atlas": first if findings.atlas_of(model, first) is not None else None,
        "outline": outlines[level],
        "outline_text": outline_text,
        "scale": {**_curves(settings, first), "chosen": model.get_params().get("hyperparameters") == "evidence"},
        "candidates": _candidates(model, k),
        "levels": [[findings.level_name(v), round(w, 4), findings.percent(w)] for v, w in levels.items()]
        if flat.charted
        else [],
        "left_out": None,
        "relevance": _relevance(fitted, k),
    }


def _relevance(fitted: model_io.Fitted, k: int) -> list[list[Any]]:
    """The most relevant columns of output k, where that is known: name, relevance from 0 to 1, and in words."""
    found = by_column(fitted.model, fitted.model.model_.relevance)
    if found is None or np.isnan(np.atleast_2d(found)[k]).any():
        return []
    found = np.atleast_2d(found)[k]
    most = np.argsort(-found, kind="stable")[:SHOWN_COLUMNS]
    return [[short(fitted.columns[j]), round(float(found[j]), 4), findings.percent(float(found[j]))] for j in most]


def _targets(fitted: model_io.Fitted, common: list[dict[str, Any]]) -> list[dict[str, Any]]:
    mean, std = (v.reshape(len(fitted.X), -1) for v in fitted.model.predict_cloud(return_std=True))
    return [_target(fitted, k, mean[:, k], std[:, k], common[k]) for k in range(len(fitted.targets))]


def _target(
    fitted: model_io.Fitted, k: int, mean: np.ndarray, std: np.ndarray, common: dict[str, Any]
) -> dict[str, Any]:
    output = fitted.model.model_.outputs[k]
    left_out = diagnostics.leave_one_out(fitted.model, k) if len(output.labels) > 1 else None
    y = np.full(len(fitted.X), np.nan)
    y[output.rows] = output.shown_labels
    found = {
        **common,
        "name": short(fitted.targets[k]),
        "y": column(y),
        "mean": column(mean),
        "std": column(std),
        "verdict": verdict.of_numbers(output, left_out),
        "figures": findings.figures(fitted, k, diagnostics.evidence_over_scale(fitted.model, k), left_out),
        "cautions": findings.cautions(fitted, k, left_out),
    }
    if left_out is not None:
        shown = np.linspace(0, len(left_out.y) - 1, min(len(left_out.y), SHOWN_LABELS)).astype(int)
        found["left_out"] = {
            "rows": left_out.rows[shown].tolist(),
            "inside": int(left_out.inside.sum()),
            "fraction": findings.percent(float(left_out.inside.mean())),
            "of": len(left_out.y),
            **{name: column(getattr(left_out, name)[shown]) for name in ("y", "mean", "low", "high")},
        }
    return found


def _candidates(model: Any, k: int) -> dict[str, Any]:
    """The heaviest candidates as a table, with a sentence about all of them; weights as numbers and in words."""
    found = np.atleast_1d(np.array(model.candidates_, object))[k]
    shown = range(min(SHOWN_CANDIDATES, int(np.sum(found.weight > 0))))
    half = int(np.searchsorted(np.cumsum(found.weight), 0.5)) + 1
    known = bool(np.isfinite(found.left_out).any())
    gain = lambda i: "–" if np.isnan(found.left_out[i]) else findings.number(found.left_out[i]).replace("-", "−")
    place = lambda i: f"{found.geometry[i]}, {findings.level_words(found.level[i])}".removesuffix(", ")
    return {
        "text": findings.averaged(len(found), int(np.sum(found.weight > 0)), half, known),
        "known": known,  # whether left-out densities are
        "rows": [
            [
                place(i),
                findings.SMOOTHNESS.get(str(found.kernel[i]), str(found.kernel[i])),
                findings.number(float(found.scale[i])),
                gain(i),
                round(float(found.weight[i]), 4),
                findings.percent(float(found.weight[i])),
            ]
            for i in shown
        ],
    }


def _curves(settings: diagnostics.EvidenceOverScale, geometry: str) -> dict[str, Any]:
    """Weight over scale on one geometry for each smoothness that has any; empty where a scale is one of each column."""
    here = settings.of(geometry)
    low, high = float(here.ends[:, 0].min()), float(here.ends[:, 1].max())
    if not (here.ends[:, 0] < here.ends[:, 1]).any():
        return {"geometry": findings.the(geometry), "unit": "", "scales": [], "series": []}
    scales = np.geomspace(low, high, CURVE) if high > low else np.array([low])
    series = [
        {
            "name": words,
            "fraction": findings.percent(float(here.weight[[s == name for s in here.smoothness]].sum())),
            "weight": np.round(here.curve(name, scales), 5).tolist(),
        }
        for name, words in findings.SMOOTHNESS.items()
        if name in here.smoothness
    ]
    return {
        "geometry": findings.the(geometry),
        "unit": findings.scale_unit(geometry),
        "scales": [float(f"{s:.4g}") for s in scales],
        "series": series,
    }
