"""Diagnostics of a fitted model as plain arrays, for the report and for figures.

    leave_one_out         each label as the others predict it
    geometry_weights      which geometry has weight: charts, atlases, graphs, flat space
    shown_chart           which of them is the chart that is shown
    evidence_over_scale   which diffusion times or length scales, and which smoothness, have weight
    level_weights         which boundary levels of the shown chart have weight
    extents               the extent of the surface along each coordinate of that chart
    cuts                  neighbours in the data that are far apart on the chart
    suggestions           which rows to label next
    left_out_classes      each class label as the others predict it (of a classifier)

`output` is the column of y. Of several charts the heaviest is shown, `model.chart_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.neighbours import spanning_tree
from ..geometry.candidate_set import NO_BOUNDARY, SCALES
from ..geometry.chart import levels_of
from ..inference.design import Suggestions
from ..manifold import evaluate, length

NEIGHBOURS = 10  # of a row, among which the edges of the spanning tree are found
TORN = 6.0
SUGGESTED = 20


@dataclass(frozen=True)
class LeaveOneOut:
    """Labelled rows [n]: index, label, and mean, std and 95 % interval of the label as the others predict it."""

    rows: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def rmse(self) -> float:
        """Root mean square error of the left-out labels."""
        return float(np.sqrt(np.mean((self.mean - self.y) ** 2)))

    @property
    def inside(self) -> np.ndarray:
        """Which labels lie in their 95 % interval."""
        return (self.low <= self.y) & (self.y <= self.high)


@dataclass(frozen=True)
class EvidenceOverScale:
    """Candidates [S], heaviest first: geometry, smoothness, boundary level, scale, the range of scales, weight.

    The scale is √t of a heat kernel, κ of a Matérn kernel: a length along a chart, an atlas or the edges of a graph; in
    flat space a length over the spread of the cloud. `level` is None if there are no boundary
    levels. `log_evidence` is log p(y) of the candidate minus that of the best. Candidates of less than a thousandth of
    the largest weight are left out.
    """

    geometry: list[str]  # as in `geometry_weights`
    smoothness: list[str]
    level: list[Any]
    scale: np.ndarray
    ends: np.ndarray  # [S, 2]
    weight: np.ndarray
    log_evidence: np.ndarray

    def of(self, geometry: str) -> EvidenceOverScale:
        """The candidates of one geometry, with weights that add up to one."""
        index = np.flatnonzero([g == geometry for g in self.geometry])
        if not len(index):
            known = ", ".join(map(repr, dict.fromkeys(self.geometry)))
            raise GpumError(f"geometry is {geometry!r}, which has no weight here; these have: {known}")
        those = lambda values: [values[i] for i in index]
        return EvidenceOverScale(
            those(self.geometry),
            those(self.smoothness),
            those(self.level),
            self.scale[index],
            self.ends[index],
            self.weight[index] / self.weight[index].sum(),
            self.log_evidence[index] - self.log_evidence[index].max(),
        )

    def curve(self, name: str, scales: np.ndarray) -> np.ndarray:
        """Weight of one smoothness at scales, each candidate spread over the distance to the neighbouring scales."""
        same = np.array([s == name for s in self.smoothness], bool)
        step = np.log(self.ends[same, 1] / self.ends[same, 0]) / (SCALES - 1)
        away = np.abs(np.log(scales[:, None] / self.scale[same]))
        near = np.clip(1 - away / np.where(step > 0, step, 1.0), 0.0, None)  # linear between neighbouring scales
        return near @ self.weight[same]


def leave_one_out(model: Any, output: int = 0) -> LeaveOneOut:
    """Each label of a fitted regressor as the others predict it; its row remains in the cloud, without the label."""
    of_output = _output(model, output)
    if len(of_output.rows) < 2:
        raise GpumError(f"y has {len(of_output.rows)} label(s), and leaving one out needs at least 2; label more rows")
    mean, std, ends = of_output.leave_one_out()
    return LeaveOneOut(of_output.rows, of_output.labels, mean, std, *ends.T)


@dataclass(frozen=True)
class LeftOutClasses:
    """Labelled rows [n]: index, class (index of `classes_`) and its probabilities [n, classes] from the others."""

    rows: np.ndarray
    y: np.ndarray
    probabilities: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Which labels the others predict."""
        return self.probabilities.argmax(1) == self.y

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability of the label."""
        of_label = self.probabilities[np.arange(len(self.y)), self.y]
        return float(-np.log(np.maximum(of_label, 1e-300)).mean())

    @property
    def confusion(self) -> np.ndarray:
        """How many labels of each class (rows) are predicted as each class (columns)."""
        C = self.probabilities.shape[1]
        return np.bincount(C * self.y + self.probabilities.argmax(1), minlength=C * C).reshape(C, C)


def left_out_classes(model: Any) -> LeftOutClasses:
    """Each label of a fitted classifier as the others predict it, from the cavities of expectation propagation."""
    of_output = _output(model, 0)
    if not hasattr(of_output.posterior, "left_out"):
        raise GpumError(f"a {type(model).__name__} has no classes to leave out; leave_one_out is for numbers")
    return LeftOutClasses(of_output.rows, of_output.labels, of_output.posterior.left_out)


def geometry_weights(model: Any, output: int = 0) -> dict[str, float]:
    """Weight of each geometry that was built, such as "atlas of dimension 2", heaviest first."""
    weights = model.model_.geometries.weights(_output(model, output).posterior)
    titles = model.model_.geometries.titles
    return {titles[k]: float(weights[k]) for k in np.argsort(-weights, kind="stable")}


def shown_chart(model: Any) -> str | None:
    """The chart that is shown: the one of largest weight over all outputs; None if no geometry is a chart."""
    fitted = model.model_
    return None if fitted.shown is None else fitted.geometries.titles[fitted.shown]


def evidence_over_scale(model: Any, output: int = 0) -> EvidenceOverScale:
    """The candidates that the posterior consists of, over their scale."""
    posterior = _output(model, output).posterior
    order = sorted(range(len(posterior.components)), key=lambda k: -posterior.components[k].weight)
    components, masses = ([every[k] for k in order] for every in (posterior.components, posterior.log_masses()))
    candidates = [component.candidate for component in components]
    titles, geometry_of = model.model_.geometries.titles, model.model_.geometries.candidate_set.geometry_of
    scale = np.array([s.scale for s in candidates])
    weight = np.array([component.weight for component in components])
    log_evidence = np.array([logsumexp(mass) - s.log_prior for mass, s in zip(masses, candidates, strict=True)])
    return EvidenceOverScale(
        [titles[geometry_of[s.space]] for s in candidates],
        [s.smoothness for s in candidates],
        [s.level for s in candidates],
        scale,
        np.array([s.scales or (s.scale, s.scale) for s in candidates]),
        weight,
        log_evidence - log_evidence.max(),
    )


def level_weights(model: Any, output: int = 0) -> dict[Any, float]:
    """Weight of each boundary level of the chart that is shown, tightest first, and of "none", no boundary.

    They add up to one; the weight of the chart itself is in `geometry_weights`. Empty if the chart has one domain or no
    weight, or if there is no chart.
    """
    of_output = _output(model, output)
    geometries, shown = model.model_.geometries, model.model_.shown
    components = [
        component
        for component in of_output.posterior.components
        if geometries.candidate_set.geometry_of[component.candidate.space] == shown
    ]
    if not components or any(component.candidate.level is None for component in components):
        return {}
    levels: list[Any] = [level for level, _ in levels_of(model.chart_, geometries.kernels.options.boundary)]
    if geometries.kernels.options.boundary == "average":
        levels.append(NO_BOUNDARY)
    total = sum(component.weight for component in components)
    return {level: float(sum(p.weight for p in components if p.candidate.level == level)) / total for level in levels}


def extents(model: Any) -> np.ndarray:
    """Spread of the rows along each coordinate of the chart, as a length on the surface, [q].

    √(mean_n G_dd(x_n) · var_n(x_nd)): a standard deviation, in the units of the data, or of columns that were scaled.
    """
    _check_chart(model)
    G = evaluate(model.chart_, "metric", model.latent_)
    return np.sqrt(np.einsum("ndd->nd", G).mean(0) * model.latent_.var(0))


def learned_from(model: Any, X: np.ndarray) -> np.ndarray:
    """The rows of the cloud X from which the geometries were learned: all, or a subset that covers a large cloud."""
    subset = model.model_.cloud.subset
    return np.arange(len(X)) if subset is None else subset


def cuts(model: Any, X: np.ndarray) -> np.ndarray:
    """Pairs of rows [k, 2], worst first, that are next to each other in the cloud X but not on the learned chart.

    These are the edges of the minimum spanning tree of the cloud whose straight line on the chart has, on the surface,
    more than TORN times the length of the edge. Rows are neighbours in the units of the fit.
    """
    _check_chart(model)
    learned = learned_from(model, X)
    rows = X[learned] if model.latent_model_ is None else model.model_.cloud._scaled(X[learned])
    pairs, away = spanning_tree(rows, NEIGHBOURS)
    pairs = learned[pairs]
    ends = model.latent_[pairs].reshape(len(pairs), -1)
    ratio = evaluate(model.chart_, _length, ends) / np.maximum(away, np.median(away))
    worst = np.argsort(-ratio, kind="stable")
    return pairs[worst[ratio[worst] > TORN]]


def suggestions(model: Any) -> Suggestions | None:
    """The SUGGESTED rows to label next, with the expected gain; None if every row has its labels."""
    fitted = model.model_
    if all(len(output.rows) == len(fitted.cloud) for output in fitted.outputs):
        return None
    return model.suggestions(SUGGESTED)


def _length(chart: Any, ends: Any) -> Any:
    return length(chart, *ends.reshape(2, -1))


def _check_chart(model: Any) -> None:
    check_is_fitted(model)
    if getattr(model, "chart_", None) is None:
        raise GpumError(
            f"the model has no chart: its geometry is {', '.join(geometry_weights(model))}; fit with a geometry that "
            "has 'chart' in it"
        )


def _output(model: Any, output: int) -> Any:
    outputs = model.model_.outputs
    checks.integer(output, "output", 0, len(outputs) - 1, "it is a column of y")
    return outputs[output]
