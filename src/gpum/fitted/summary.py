"""What a fitted model says of itself in plain words and numbers: the content of `gpum info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .model import FittedModel


def summary(model: FittedModel) -> dict[str, Any]:
    """The content of `gpum info`, in plain words and numbers."""
    titles, shown = model.geometries.titles, model.shown
    targets = []
    for output, weights in zip(model.outputs, model.weights, strict=True):
        best = output.posterior.best.candidate
        said = {name: value for name, value in best.described().items() if isinstance(value, int | float | str)}
        targets.append(
            {
                "labels": len(output.rows),
                "geometry": {titles[k]: float(weights[k]) for k in np.argsort(-weights, kind="stable")},
                "log_evidence": float(output.posterior.log_evidence),
                "best": {name: _plain(value) for name, value in said.items()},
                "on": titles[model.geometries.candidate_set.geometry_of[best.space]],
            }
        )
    settings = {
        k: v if v is None or isinstance(v, bool | int | float | str) else repr(v)[:200]
        for k, v in model.settings.items()
    }
    return {
        "version": model.version, "rows": len(model.cloud), "n_features": model.cloud.rows.shape[1],
        "columns": model.cloud.units, "settings": settings, "notes": list(model.notes), "targets": targets,
        "map": None if shown is None or not model.weights[:, shown].any() else titles[shown],  # as files store it
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """A value that JSON can hold: an infinite number (the width of a graph without weights) becomes a word."""
    value = value.item() if hasattr(value, "item") else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
