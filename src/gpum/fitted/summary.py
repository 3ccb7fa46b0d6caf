"""What a fitted model says of itself: in plain words and numbers for `gpum info`, as tables for notebooks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .relevance import BY_LENGTHS

if TYPE_CHECKING:
    from .model import FittedModel

LIGHT = 0.005  # weight below which geometries are counted, not listed
LISTED = 6  # geometries, and outputs, at most
SHOWN = 12  # candidates in a notebook
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


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """One row a candidate (a kernel on a geometry), the heaviest first; each column is an array [rows].

    Attributes
    ----------
    geometry : such as "atlas of dimension 2".
    units : of the columns in which the geometry was learned.
    kernel : on the surface: "heat", "matern12", "matern32", "matern52", or "matern nu=" and another smoothness.
    terms : the kernel of several terms, in words, with their length scales and shares; empty where there is one.
    scale : √t of a heat kernel, κ of a Matérn kernel; with a length for each column what these are multiplied by.
    level : of the boundary of a chart, in words; empty elsewhere.
    log_prior : log of its prior weight.
    log_evidence : log p(y) of this candidate alone, in the units of `log_evidence_`; NaN if it was left out when all
        were compared on some of the labels.
    weight : in predictions; 0 for one that is too light.
    left_out : mean log density of a label as the others predict it with this candidate alone; NaN without weight, and
        for other likelihoods than "gaussian" and "lognormal" with learned noise.
    """

    geometry: np.ndarray
    units: np.ndarray
    kernel: np.ndarray
    terms: np.ndarray
    scale: np.ndarray
    level: np.ndarray
    log_prior: np.ndarray
    log_evidence: np.ndarray
    weight: np.ndarray
    left_out: np.ndarray

    @classmethod
    def of(cls, model: FittedModel, k: int) -> Candidates:
        """Of one output of a model."""
        output, members = model.outputs[k], model.geometries.members
        posterior, titles = output.posterior, model.geometries.titles
        considered, components = posterior.considered, posterior.components
        units = [getattr(member, "units", None) or model.cloud.units for member in members]
        words_of = [
            f"{words}, and a length per column" if member.title in BY_LENGTHS else words
            for member, words in zip(members, units, strict=True)
        ]
        density = getattr(output, "log_densities", lambda: None)()
        if considered is None:  # a single candidate was chosen by its evidence
            candidate = posterior.best.candidate
            owner, level = model.geometries.candidate_set.geometry_of[candidate.space], candidate.level
            columns: list[Any] = [
                [titles[owner]], [words_of[owner]], [candidate.smoothness], [candidate.about.get("terms", "")],
                [candidate.scale], ["" if level is None else str(level)], [np.nan], [posterior.log_evidence], [1.0],
                [np.nan] if density is None else density,
            ]  # fmt: skip
            return cls(*map(np.asarray, columns))
        left_out = np.full(len(considered.weight), np.nan)
        if density is not None:  # components are in the order of the candidates that have weight
            left_out[considered.weight > 0] = density
        log_evidence = considered.log_part - considered.log_prior + posterior.log_evidence
        order = np.lexsort((-np.nan_to_num(considered.log_part, nan=-np.inf), -considered.weight))
        assert density is None or len(components) == np.sum(considered.weight > 0)
        no_terms = np.full(len(considered.weight), "")
        whole = (
            np.array(titles)[considered.geometry], np.array(words_of)[considered.geometry], considered.smoothness,
            no_terms if considered.terms is None else considered.terms, considered.scale, considered.level,
            considered.log_prior, log_evidence, considered.weight, left_out,
        )  # fmt: skip
        return cls(*(column[order] for column in whole))

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name, as `pandas.DataFrame` takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        return len(self.weight)

    def __repr__(self) -> str:
        heaviest = f"{self.geometry[0]}, {self.kernel[0]}, scale {self.scale[0]:.3g}: {self.weight[0]:.0%}"
        return f"<Candidates: {len(self):,}, {int(np.sum(self.weight > 0)):,} of them with weight; {heaviest}>"

    def _repr_html_(self) -> str:
        """The heaviest rows, for notebooks."""
        cells = lambda values, tag: "".join(f"<{tag}>{escape(_short(v))}</{tag}>" for v in values)
        rows = [cells(row, "td") for row in zip(*(c[:SHOWN].tolist() for c in self.columns.values()), strict=True)]
        more = f"<p>and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{cells(self.columns, 'th')}</tr>{body}</table>{more}"
