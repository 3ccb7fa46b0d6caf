"""The candidates of a fitted model as a table: what was weighed, and why it has its weight."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .relevance import TITLE

if TYPE_CHECKING:
    from .model import FittedModel

SHOWN = 12  # rows in a notebook


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
            f"{words}, and a length per column" if member.title == TITLE else words
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
        cells = lambda values, tag: "".join(f"<{tag}>{escape(_shown(v))}</{tag}>" for v in values)
        rows = [cells(row, "td") for row in zip(*(c[:SHOWN].tolist() for c in self.columns.values()), strict=True)]
        more = f"<p>and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{cells(self.columns, 'th')}</tr>{body}</table>{more}"


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
