"""The report of a fitted model: one HTML file that opens without a network.

Python prepares the numbers and sentences as JSON; the page in `page/` draws them with plotly.js, which is copied
into the file. Names from the data reach the page only as JSON in which <, > and & are escaped, and there only as text.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA

from ..files.model_io import Fitted
from ..files.whole import check_writable, replacing
from ..geometry import evaluate, magnification
from . import findings
from .diagnostics import EvidenceOverScale, evidence_over_scale, extents, leave_one_out, level_weights

DIGITS = 4  # decimals of a number, relative to the range of its column
SHOWN_FEATURES = 6  # feature values that go with a row: those of the columns that vary most
SHOWN_LABELS = 1000  # points of the calibration plot
NAME = 80  # characters of a name
PIXELS = 240  # along a side, where the outline is traced
CURVE = 80  # points of the curve over scale


def write_report(fitted: Fitted, path: Any, *, force: bool = False) -> Path:
    """Write the report of a fitted model to an HTML file, whole or not at all; `force` overwrites."""
    path = Path(path)
    if path.exists() and not force:
        raise FileExistsError(f"path is {str(path)!r}, which exists; choose another name or pass force=True")
    check_writable(path)
    text = render(fitted)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def render(fitted: Fitted) -> str:
    """The report of a fitted model as the text of an HTML page."""
    page = resources.files(__package__) / "page"
    title = f"GPUM report: {fitted.about.get('source') or ', '.join(fitted.targets)}"
    parts = {
        "title": html.escape(title),
        "style": (page / "page.css").read_text("utf-8"),
        "plotly": _plotly(),
        "data": _json({"title": title, **_contents(fitted)}),
        "script": (page / "page.js").read_text("utf-8"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], (page / "page.html").read_text("utf-8"))


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the report needs plotly; install it with: pip install 'gpum[report]'") from error
    return get_plotlyjs()


def _json(contents: dict[str, Any]) -> str:
    """JSON that is harmless inside <script>: no name can close it, nor start a comment."""
    text = json.dumps(contents, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _contents(fitted: Fitted) -> dict[str, Any]:
    model, X = fitted.model, fitted.X
    mean, std = (v.reshape(len(X), -1) for v in model.predict_cloud(return_std=True))
    outlines: dict[Any, Any] = {}
    varied = np.argsort(-X.std(0), kind="stable")[:SHOWN_FEATURES]
    varied.sort()
    axes, shares = (X, []) if X.shape[1] <= 3 else _components(X)
    about = {k: v for k, v in fitted.about.items() if k not in ("settings", "warnings", "seconds")}
    settings = fitted.about.get("settings") or model.get_params(deep=False)
    return {
        "rows": [_short(name) for name in fitted.rows],
        "chart": {"axes": _columns(model.latent_), "dim": model.chart_.dim, "names": _axis_names(fitted)},
        "cloud": {"axes": _columns(axes), "names": [_short(name) for name in fitted.features[:3]], "shares": shares},
        "magnification": _column(evaluate(model.chart_, magnification, model.latent_)),
        "features": {
            "names": [_short(fitted.features[j]) for j in varied],
            "axes": _columns(X[:, varied]),
            "of": X.shape[1],
        },
        "ard": None if model.latent_model_ is None else _column(model.latent_model_.ard_),
        "extents": _column(extents(model)),
        "cautions": findings.about_cloud(fitted),
        "targets": [_target(fitted, k, mean[:, k], std[:, k], outlines) for k in range(len(fitted.targets))],
        "about": [[str(key), _short(value)] for key, value in about.items()],
        "settings": [[str(key), _short(value)] for key, value in settings.items()],
        "messages": [str(message) for message in [*fitted.about.get("warnings", []), *model.notes_]],
    }


def _target(fitted: Fitted, k: int, mean: np.ndarray, std: np.ndarray, outlines: dict[Any, Any]) -> dict[str, Any]:
    model = fitted.model
    settings = evidence_over_scale(model, k)
    left_out = leave_one_out(model, k) if np.isfinite(fitted.y[:, k]).sum() > 1 else None
    levels = level_weights(model, k)
    level, outline_text = findings.outline(levels)
    if level not in outlines:
        outlines[level] = _outline(model.chart_ if level is None else model.chart_.with_level(level))
    found = {
        "name": _short(fitted.targets[k]),
        "y": _column(fitted.y[:, k]),
        "mean": _column(mean),
        "std": _column(std),
        "figures": findings.figures(fitted, k, settings, left_out),
        "cautions": findings.cautions(fitted, k, left_out),
        "outline": outlines[level],
        "outline_text": outline_text,
        "scale": _curves(settings),
        "levels": [[findings.level_name(v), round(w, 4), findings.percent(w)] for v, w in levels.items()],
        "left_out": None,
    }
    if left_out is not None:
        shown = np.linspace(0, len(left_out.y) - 1, min(len(left_out.y), SHOWN_LABELS)).astype(int)
        found["left_out"] = {
            "rows": left_out.rows[shown].tolist(),
            "inside": int(left_out.inside.sum()),
            "share": findings.percent(float(left_out.inside.mean())),
            "of": len(left_out.y),
            **{name: _column(getattr(left_out, name)[shown]) for name in ("y", "mean", "low", "high")},
        }
    return found


def _curves(settings: EvidenceOverScale) -> dict[str, Any]:
    """Weight over scale for each smoothness that has any, over the whole range; the heaviest settings as a table."""
    low, high = float(settings.ends[:, 0].min()), float(settings.ends[:, 1].max())
    scales = np.geomspace(low, high, CURVE) if high > low else np.array([low])
    heaviest = [
        [
            findings.SMOOTHNESS.get(settings.smoothness[i], settings.smoothness[i]),
            findings.number(settings.scale[i]),
            findings.level_name(settings.level[i]),
            f"{settings.weight[i]:.1%}",
        ]
        for i in range(min(5, len(settings.scale)))
    ]
    series = [
        {
            "name": words,
            "share": findings.percent(float(settings.weight[[s == name for s in settings.smoothness]].sum())),
            "weight": np.round(settings.curve(name, scales), 5).tolist(),
        }
        for name, words in findings.SMOOTHNESS.items()
        if name in settings.smoothness
    ]
    return {
        "scales": [float(f"{s:.4g}") for s in scales],
        "series": series,
        "heaviest": heaviest,
        "count": len(settings.scale),
    }


def _outline(chart: Any) -> list[Any]:
    """Where the inside of a chart of one or two dimensions ends: lines as columns; empty for more dimensions."""
    if chart.dim > 2:
        return []
    n = PIXELS if chart.dim == 2 else PIXELS**2 // 10
    pad = 0.03 * np.ptp(chart.bounds, axis=1)
    axes = [np.linspace(low - e, high + e, n) for (low, high), e in zip(chart.bounds, pad, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, chart.dim)
    inside = evaluate(chart, "inside", points).reshape((n,) * chart.dim)
    if chart.dim == 1:
        turns = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
        return [[[float(axes[0][a]), float(axes[0][b - 1])]] for a, b in turns.reshape(-1, 2)]
    import contourpy

    blurred = gaussian_filter(inside.astype(float), 0.8)  # without steps
    lines = contourpy.contour_generator(axes[0], axes[1], blurred.T).lines(0.5)
    return [_columns(np.asarray(line)) for line in lines if len(line) > 3]


def _axis_names(fitted: Fitted) -> list[str]:
    if fitted.model.latent_model_ is None:  # a known chart: the features are its coordinates
        return [_short(name) for name in fitted.features]
    return [f"map coordinate {d + 1}" for d in range(fitted.model.chart_.dim)]


def _components(X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The first three principal components of the cloud, and their share of its variance."""
    pca = PCA(3, svd_solver="full").fit(X)
    return pca.transform(X), [findings.percent(share) for share in pca.explained_variance_ratio_]


def _columns(values: np.ndarray) -> list[list[float | None]]:
    return [_column(column) for column in np.asarray(values).T]


def _column(values: np.ndarray) -> list[float | None]:
    """Numbers to DIGITS decimals of their range, None where not finite."""
    values = np.asarray(values, float)
    known = values[np.isfinite(values)]
    size = float(np.ptp(known)) if len(known) else 0.0
    size = size or float(np.abs(known).max(initial=0.0)) or 1.0
    rounded = np.round(values, min(DIGITS - int(np.floor(np.log10(size))), 250))
    return [float(v) if np.isfinite(v) else None for v in rounded]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= NAME else text[: NAME - 1] + "…"
