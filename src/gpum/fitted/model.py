"""`FittedModel`: the result of a fit, used by estimators, model files, reports, plots and the labelling page.

It is never changed after it is made, so that any number of threads may use it at once. It does not refer to the
estimator that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import __version__
from ..basics.checks import GpumError
from ..basics.workers import one_blas_thread
from ..geometry.base import SurfaceGeometry
from ..inference.design import Suggestions
from ..inference.draws import prior_draws
from . import more_labels
from .cloud import Cloud
from .geometries import Geometries
from .gradients import gradient
from .predictive import ClassPredictive, Predictive
from .relevance import relevances
from .rows import ProjectedRows, project_onto
from .suggesting import suggestions
from .summary import Candidates, summary, table
from .surfaces import FittedSurface, surfaces
from .terms import with_all

NORMAL_95 = 1.96
ENOUGH = 10  # labels from which intervals are no longer wide for want of labels
ASKED, BELOW = 200, 0.1  # rows of the cloud that are asked for intervals below 0; fraction from which a note says so


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """A cloud, its geometries and a posterior for each output.

    Attributes
    ----------
    geometries : the geometries of the cloud, with their spaces and the candidates on these.
    outputs : the posterior of each column of y, with its labels.
    several : whether y had two dimensions.
    classes : the classes, sorted, of a classifier; None for numbers.
    settings : the parameters of the estimator as they were at the fit.
    version : of the library.
    """

    geometries: Geometries
    outputs: list[Any]
    several: bool = False
    classes: np.ndarray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__

    @property
    def cloud(self) -> Cloud:
        """The rows it was fitted to."""
        return self.geometries.cloud

    @cached_property
    def notes(self) -> list[str]:
        """Sentences about what was left out, stopped early or could not be done as requested."""
        posteriors = [note for output in self.outputs for note in output.posterior.notes]
        return list(dict.fromkeys([*self.geometries.candidate_set.notes, *posteriors, *self._below_zero()]))

    def _below_zero(self) -> list[str]:
        """A note where labels are above 0, but intervals of a Gaussian likelihood are not."""
        asked = [
            k for k, output in enumerate(self.outputs)
            if self.classes is None and len(output.labels) >= ENOUGH and output.could_be_positive
        ]  # fmt: skip
        if not asked:
            return []
        index = np.unique(np.linspace(0, len(self.cloud) - 1, ASKED).astype(int))
        at = self._predictive(self.geometries._project_cloud(index, self._needed))
        assert isinstance(at, Predictive)
        summary_of_rows = at.summary()
        low = (summary_of_rows.mean - NORMAL_95 * summary_of_rows.std).reshape(len(index), -1)
        below = [float(np.mean(low[:, k] < 0)) for k in asked]
        return [
            f"all labels{f' of output {k}' if self.several else ''} are above 0, and {part:.0%} of the 95 % intervals "
            "reach below it; likelihood='lognormal' is for such targets"
            for k, part in zip(asked, below, strict=True)
            if part > BELOW
        ]

    @property
    def log_evidence(self) -> Any:
        """Log evidence of the average or of the best candidate, of labels scaled to unit variance, for each output."""
        return self._shaped([output.posterior.log_evidence for output in self.outputs])

    @property
    def best_setting(self) -> Any:
        """A description of the candidate with the largest weight, one for each output."""
        described = [output.posterior.best.candidate.described() for output in self.outputs]
        return described if self.several else described[0]

    @cached_property
    def weights(self) -> np.ndarray:
        """The posterior weight of each geometry for each output, [outputs, geometries]; it cannot be written to."""
        weights = np.array([self.geometries.weights(output.posterior) for output in self.outputs])
        weights.setflags(write=False)
        return weights

    @property
    def geometry_weights(self) -> Any:
        """The posterior weight of each kind of geometry by name; a list of these for several outputs."""
        names = np.array(self.geometries.names)
        kinds = dict.fromkeys(names.tolist())
        by_name = [{name: float(w[names == name].sum()) for name in kinds} for w in self.weights]
        return by_name if self.several else by_name[0]

    @cached_property
    def candidates(self) -> Any:
        """All candidates that the labels weighed, as a table; a list of these for several outputs."""
        tables = [Candidates.of(self, k) for k in range(len(self.outputs))]
        return tables if self.several else tables[0]

    @property
    def relevance(self) -> np.ndarray | None:
        """How much each column matters, from 0 to 1, [p] or [outputs, p]; NaN where nothing is known.

        None where no output has a length scale for each column; see `fitted.relevance.relevances`.
        """
        of_outputs = relevances(self.geometries, [output.posterior for output in self.outputs])
        if all(one is None for one in of_outputs):
            return None
        each = np.full((len(of_outputs), self.cloud.X.shape[1]), np.nan)
        columns = slice(None) if self.cloud.surface is None else self.cloud.surface
        for row, one in zip(each, of_outputs, strict=True):
            if one is not None:
                row[columns] = one
        return each if self.several else each[0]

    @cached_property
    def surfaces(self) -> list[FittedSurface]:
        """The surfaces with weight (charts, atlases, a mesh; no graph, no flat space), the heaviest first."""
        return surfaces(self)

    @property
    def shown(self) -> int | None:
        """The index of the chart with the largest weight over all outputs, which plots show; None without a chart."""
        members, mean = self.geometries.members, self.weights.mean(0)
        charts = [k for k, m in enumerate(members) if isinstance(m, SurfaceGeometry) and m.name == "chart"]
        return max(charts, key=lambda k: mean[k]) if charts else None

    @property
    def latent_model(self) -> Any:
        """The latent model of the chart that is shown; None for a known chart, or without one."""
        return self._details.get("model")

    @property
    def chart(self) -> Any:
        """The chart that is shown, with its boundary; None without one."""
        return None if self.shown is None else self._details.get("chart")

    @property
    def _details(self) -> dict[str, Any]:
        """The chart that has latent coordinates, and its latent model, as the fit made them; read on first use."""
        if self._mapped is None:
            return {}
        details = self._charted.details
        return {} if details is None else details.content

    @property
    def _charted(self) -> SurfaceGeometry:
        """The geometry that has latent coordinates."""
        assert self._mapped is not None
        member = self.geometries.members[self._mapped]
        assert isinstance(member, SurfaceGeometry)
        return member

    @cached_property
    def latent(self) -> np.ndarray | None:
        """Coordinates of all rows of the cloud on the chart that is shown, [N, q]; None without one."""
        return None if self._mapped is None else self.geometries._coordinates(self._mapped)

    @property
    def _mapped(self) -> int | None:
        """The geometry that has latent coordinates: the chart that is shown, or the plane of a latent model."""
        if self.shown is not None:
            return self.shown
        planes = [k for k, m in enumerate(self.geometries.members) if isinstance(m, SurfaceGeometry) and m.details]
        return planes[0] if planes else None

    def coordinates(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent coordinates of rows X [n, p] and their standard deviations; rows of the cloud are projected too."""
        if self._mapped is None:
            raise GpumError(
                f"the geometry is {' and '.join(dict.fromkeys(self.geometries.names))}, which has no chart and so no "
                "latent coordinates; fit with a geometry that has 'chart' in it"
            )
        rows, member = self.cloud._scaled(X), self._charted
        places = project_onto(self.geometries._projector(self._mapped, rows), rows).points
        return member.coordinates(rows, places), member.spreads(rows, places)

    def _project(self, X: np.ndarray) -> ProjectedRows:
        """Rows X [n, p], of the cloud or new, projected for every space that a posterior uses."""
        return self.geometries._project_rows(X, self._needed)

    @cached_property
    def _needed(self) -> frozenset[int]:
        return frozenset().union(*(output.posterior.spaces for output in self.outputs))

    def _latent_of(self, rows: ProjectedRows) -> np.ndarray | None:
        """Latent coordinates of rows, [n, q]; rows of the cloud keep their fitted coordinates. None without a chart."""
        if self.latent is None:
            return None
        coordinates, new = self.latent[np.maximum(rows.index, 0)], rows.index < 0
        if new.any():
            assert self._mapped is not None
            if self._mapped in rows.projections:  # of the rows with learned_at = -1, to which new rows belong
                places = rows.projections[self._mapped].points[rows.number[self._mapped][new]]
            else:  # a chart without weight
                places = project_onto(self.geometries._projector(self._mapped, rows.X[new]), rows.X[new]).points
            coordinates[new] = self._charted.coordinates(rows.X[new], places)
        return coordinates

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient along the surface at rows X [n, p], and its standard deviations; see `GPUMRegressor`."""
        with one_blas_thread:
            mean, std = gradient(self, X)
        return (mean.transpose(1, 2, 0), std.transpose(1, 2, 0)) if self.several else (mean[0], std[0])

    def _located(self, X: np.ndarray) -> ProjectedRows:
        """Rows X [n, p], projected, and which of them lie far from all others."""
        rows = self._project(X)
        return replace(rows, outlying=self._outlying(rows), joining=self.geometries.joining)

    def predictive(self, X: np.ndarray) -> Predictive | ClassPredictive:
        """Predictions for rows X [n, p], of the cloud or new; the rows are projected once."""
        return self._predictive(self._project(X))

    @cached_property
    def of_cloud(self) -> Predictive | ClassPredictive:
        """Predictions for the rows of the cloud."""
        return self._predictive(self.geometries._project_cloud(np.arange(len(self.cloud)), self._needed))

    def _predictive(self, rows: ProjectedRows) -> Predictive | ClassPredictive:
        rows = replace(rows, uncertain=self._uncertain, exact=self._exact)
        if self.classes is not None:
            return ClassPredictive(self, rows)
        return Predictive(self, replace(rows, outlying=self._outlying(rows), joining=self.geometries.joining))

    @cached_property
    def _uncertain(self) -> dict[int, tuple[np.ndarray, ...]]:
        """For each chart with weight, points around those of the rows it was learned from."""
        needed = {self.geometries.candidate_set.geometry_of[k] for k in self._needed}
        sigma_points = {}
        for k in sorted(needed):
            member = self.geometries.members[k]
            if isinstance(member, SurfaceGeometry) and (points := member.surface.sigma_points(member.places)):
                sigma_points[k] = tuple(points)
        return sigma_points

    @cached_property
    def _exact(self) -> np.ndarray:
        """Which learned rows have a label, [N]: the posterior takes them to lie at their coordinates."""
        labelled = np.concatenate([self.cloud._learned_at(output.rows) for output in self.outputs])
        exact = np.zeros(len(self.cloud.learned), bool)
        exact[labelled[labelled >= 0]] = True
        return exact

    def _outlying(self, rows: ProjectedRows) -> np.ndarray:
        """Which rows are rows that geometries were learned from, lie far from all others and have no label, [n]."""
        learned_at = np.where(rows.missing, -1, self.cloud._learned_at(rows.index))
        if np.all(learned_at < 0):  # as of new rows: how far the learned rows lie from each other is not asked for
            return np.zeros(len(rows), bool)
        outlying = self.geometries.outlying.copy()
        for output in self.outputs:
            learned = self.cloud._learned_at(output.rows)
            outlying[learned[learned >= 0]] = False
        return (learned_at >= 0) & outlying[np.maximum(learned_at, 0)]

    def sample_prior(self, X: np.ndarray, n: int, rng: np.random.Generator, noise: bool) -> np.ndarray:
        """Draws at rows X before any label; see `GPUMRegressor.sample_prior`."""
        geometries = more_labels.without_lengths(self.geometries)
        candidate_set = geometries.candidate_set
        if not candidate_set.complete:
            raise GpumError(
                "the model was read from a file, which holds no candidate without weight, so that its prior is not "
                "there; fit again to draw from it"
            )
        at = geometries._project_rows(X, frozenset(range(len(candidate_set.spaces)))).whole
        candidate_set = with_all(geometries, candidate_set)
        draws = []
        for output in self.outputs:
            f, sd = prior_draws(candidate_set.under(output.target.priors, geometries.names), at, rng, n)
            draws.append(output.of_prior(rng, f, sd, noise))
        return np.stack(draws, 1) if self.several else draws[0]

    def suggestions(
        self, n: int = 1, criterion: str = "variance", candidates: Any = None, goal: str = "information",
        level: float | None = None,
    ) -> Suggestions:  # fmt: skip
        """Rows to label next, of the cloud or of rows X [m, p]; see `GPUMRegressor.suggest`."""
        return suggestions(self, n, criterion, candidates, goal, level)

    def summary(self) -> dict[str, Any]:
        """The content of `gpum info`, in plain words and numbers."""
        return summary(self)

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        return table(self.summary())

    def __repr__(self) -> str:
        weights = ", ".join(f"{name} {weight:.0%}" for name, weight in self.summary()["targets"][0]["geometry"].items())
        return f"<FittedModel of {len(self.cloud):,} rows and {len(self.outputs)} output(s): {weights}>"

    def _shaped(self, values: list[float]) -> Any:
        """One number for each output: an array where y had two dimensions, else a number."""
        return np.array(values) if self.several else values[0]
