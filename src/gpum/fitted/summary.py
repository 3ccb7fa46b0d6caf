"""What a fitted model says of itself: in plain words and numbers for `gpum info`, and as a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .model import FittedModel

LIGHT = 0.005  # weight below which geometries are counted, not listed
LISTED = 6  # geometries, and outputs, at most
STYLE = "border-collapse:collapse;margin:.4em 0;font-size:.9em"
CELL = "text-align:left;padding:.1em .8em .1em 0;border:0;background:none"
BAR = "display:inline-block;height:.7em;background:#0072b2;vertical-align:-.05em;margin-right:.4em"


def summary(model: FittedModel) -> dict[str, Any]:
    """The content of `gpum info`, in plain words and numbers."""
    titles, shown = model.geometries.titles, model.shown
    targets = []
    for output, weights in zip(model.outputs, model.weights, strict=True):
        best = output.posterior.best.candidate
        words = {name: value for name, value in best.described().items() if isinstance(value, int | float | str)}
        targets.append(
            {
                "labels": len(output.rows),
                "geometry": {titles[k]: float(weights[k]) for k in np.argsort(-weights, kind="stable")},
                "log_evidence": float(output.posterior.log_evidence),
                "best": {name: _plain(value) for name, value in words.items()},
                "on": titles[model.geometries.candidate_set.geometry_of[best.space]],
            }
        )
    settings = {
        k: v if v is None or isinstance(v, bool | int | float | str) else repr(v)[:200]
        for k, v in model.settings.items()
    }
    return {
        "version": model.version, "rows": len(model.cloud), "n_features": model.cloud.X.shape[1],
        "columns": model.cloud.units, "settings": settings, "notes": list(model.notes), "targets": targets,
        "map": None if shown is None or not model.weights[:, shown].any() else titles[shown],  # as files store it
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """A value that JSON can hold: an infinite number (the width of a graph without weights) becomes a word."""
    value = value.item() if hasattr(value, "item") else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def table(summary: dict[str, Any]) -> str:
    """HTML of what `FittedModel.summary` says, in the colours of the page around it, light or dark."""
    targets = summary["targets"]
    lines = [_line("cloud", f"{_count(summary['rows'], 'row')}, {_count(summary['n_features'], 'column')}")]
    for k, target in enumerate(targets[:LISTED]):
        name = f"output {k + 1}: " if len(targets) > 1 else ""
        lines.append(_line(f"{name}labels", f"{target['labels']:,}"))
        weights = list(target["geometry"].items())
        shown = [(title, weight) for title, weight in weights[:LISTED] if weight >= LIGHT]
        for j, (title, weight) in enumerate(shown):
            bar = f'<span style="{BAR};width:{6 * weight:.2f}em"></span>{100 * weight:.0f} % {escape(title)}'
            lines.append(_row(f"{name}geometry" if j == 0 else "", bar))
        if len(weights) > len(shown):
            lines.append(_line("", f"{len(weights) - len(shown)} more below {100 * LIGHT:g} %"))
        best = ", ".join(f"{key} {_short(value)}" for key, value in target["best"].items())
        lines.append(_line(f"{name}heaviest setting", f"{best} on {target['on']}"))
    if len(targets) > LISTED:
        lines.append(_line("", f"{len(targets) - LISTED} more outputs"))
    if summary["notes"]:
        notes = "".join(f"<li>{escape(str(note))}</li>" for note in summary["notes"])
        fold = f"<details><summary>{_count(len(summary['notes']), 'note')}</summary><ul>{notes}</ul></details>"
        lines.append(_row("notes", fold))
    return f'<table style="{STYLE}"><tbody>{"".join(lines)}</tbody></table>'


def _line(name: str, text: str) -> str:
    return _row(name, escape(text))


def _row(name: str, content: str) -> str:
    """A row of the table; `content` is HTML."""
    return f'<tr style="background:none"><th style="{CELL}">{escape(name)}</th><td style="{CELL}">{content}</td></tr>'


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
