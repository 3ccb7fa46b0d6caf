"""Targets of regressors: the kind of each column of y, checks of its labels, and scores of predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning

from ..basics import checks
from ..basics.checks import GpumError
from ..fitted import Predictive
from ..geometry.priors import checked
from ..inference import nearest
from ..inference.likelihoods import LIKELIHOODS
from ..inference.outputs import Angle, Output
from ..inference.regress import INFERENCE
from ..inference.target import Target
from ..persistence.store import Store
from . import units

FOLDS = "in a cross-validation use cv=gpum.LabelledKFold(), which has labels in every fold"
LARGEST_LABEL = 1e150  # squares of labels must not overflow


@dataclass(frozen=True)
class Labels:
    """The labels y [N] or [N, k] of a fit, NaN where a row has none, and what each column of them is."""

    y: np.ndarray
    targets: list[Target]
    store: Store = field(default_factory=Store)  # of what labels say of several candidate sets

    @classmethod
    def of(cls, estimator: Any, y: Any, n: int, noise_std: Any, trials: Any, sample_weight: Any) -> Labels:
        """Labels of n rows, checked against what the estimator's `likelihood` and `period` say of them."""
        if y is None:
            name = type(estimator).__name__
            raise GpumError(f"{name} requires y to be passed, but the target y is None; give NaN where it is unknown")
        checks.option(estimator.hyperparameters, "hyperparameters", INFERENCE)
        y = read_numbers(y, n)
        _check_labelled(y.reshape(n, -1).T)
        weights = weights_of(estimator, y, noise_std, sample_weight)
        if weights is not None and not weights.all():
            y = np.where(weights.reshape(y.shape) == 0, np.nan, y)
            _check_labelled(y.reshape(n, -1).T, "whose weight is not zero")
        return cls(y, targets_of(estimator, y, noise_std, trials, weights))

    @property
    def several(self) -> bool:
        """Whether y has two dimensions."""
        return self.y.ndim == 2

    def scored(self) -> Iterator[tuple[np.ndarray, Target]]:
        """As `columns`, with no more labels than choose between units of the columns of X."""
        for column, target in self.columns():
            known = np.flatnonzero(~np.isnan(column))
            many = target.has_normal_noise and len(known) > nearest.EXACT
            scored = units.scored(len(known), units.JUDGES_OF_MANY if many else units.JUDGES)
            few = np.full(len(column), np.nan)
            few[known[scored]] = column[known[scored]]
            yield few, target.only(scored)

    def judging(self) -> Iterator[tuple[np.ndarray, Target]]:
        """As `scored`, but with all labels where rows see the nearest of them, with which geometries must compete."""
        for every, few in zip(self.columns(), self.scored(), strict=True):
            many = every[1].has_normal_noise and np.sum(~np.isnan(every[0])) > nearest.EXACT
            yield every if many else few

    def columns(self) -> Iterator[tuple[np.ndarray, Target]]:
        """Each column [N], with what it is."""
        return zip(self.y.reshape(len(self.y), -1).T, self.targets, strict=True)


def more_of(
    outputs: Sequence[Output], several: bool, y: Any, n: int, noise_std: Any, trials: Any, sample_weight: Any
) -> tuple[np.ndarray, list[Target]]:
    """Further labels [n, k] of fitted outputs, NaN where a row has none, and what each column of them is."""
    y = read_numbers(y, n)
    if (y.ndim == 2) != several or (several and y.shape[1] != len(outputs)):
        shape = f"[{n}, {len(outputs)}]" if several else f"[{n}]"
        raise GpumError(f"y has shape {y.shape}, but the model was fitted to {len(outputs)} output(s); give {shape}")
    kind = outputs[0].target
    weights = weights_of(kind, y, noise_std, sample_weight)
    if weights is not None:
        y = np.where(weights.reshape(y.shape) == 0, np.nan, y)
    of_numbers = kind.likelihood in ("gaussian", "lognormal")  # each output may be another of these
    targets = targets_of(replace(kind, likelihood="gaussian") if of_numbers else kind, y, noise_std, trials, weights)
    columns = y.reshape(n, -1)
    if of_numbers:
        targets = [replace(t, likelihood=o.target.likelihood) for t, o in zip(targets, outputs, strict=True)]
        _check_positive(columns, np.array([target.likelihood == "lognormal" for target in targets]))
    return columns, targets


def with_more(
    output: Output, n_rows: int, index: np.ndarray, labels: np.ndarray, more: Target
) -> tuple[np.ndarray, Target]:
    """All labels of an output as a column [n_rows], and its target: `labels` [n], some NaN, are of the rows `index`."""
    known = np.flatnonzero(~np.isnan(labels))
    rows = np.concatenate([output.rows, index[known]])
    column = np.full(n_rows, np.nan)
    column[rows] = np.concatenate([output.labels, labels[known]])
    target = output.target.joined(len(output.rows), more, len(known))
    return column, target.only(np.argsort(rows))


def score(predictions: Predictive, y: Any, weight: Any) -> float:
    """R² of predictions (of angles its circular analogue) where y is not NaN, averaged over outputs.

    With fewer than two labels NaN, and a warning, as scikit-learn's own R²: an error would stand behind the traceback
    of every fold of a cross-validation.
    """
    from sklearn.metrics import r2_score  # its module takes a twentieth of a second

    n = len(predictions.rows)
    y, mean = read_numbers(y, n), predictions.mean.reshape(n, -1)
    weight = None if weight is None else np.asarray(weight, float)
    scores = []
    for k, (output, label) in enumerate(zip(predictions.model.outputs, y.reshape(n, -1).T, strict=True)):
        known = ~np.isnan(label)
        if known.sum() < 2:
            number = "1 labelled row" if known.any() else "no labelled row (all NaN)"
            return no_score(f"y has {number} to score, where two are needed")
        true, guess, weights = label[known], mean[known, k], None if weight is None else weight[known]
        if isinstance(output, Angle):
            scores.append(circular_score(true, guess, output.period, weights))
            continue
        if output.of_successes:
            trials = np.ones(n) if predictions.trials is None else predictions.trials[:, k]
            _check_successes(label[:, None], known[:, None], trials[:, None])
            true, guess = true / trials[known], guess / trials[known]
            weights = trials[known] if weights is None else weights * trials[known]
        scores.append(float(r2_score(true, guess, sample_weight=weights)))
    return float(np.mean(scores))


def no_score(why: str) -> float:
    """NaN, with a warning that says what to do."""
    warnings.warn(f"{why}: the score is NaN; {FOLDS}", UndefinedMetricWarning, stacklevel=4)
    return float("nan")


def read_numbers(y: Any, n: int) -> np.ndarray:
    """y as a float array [n] or [n, k]; NaN marks rows without a label."""
    if y is None:
        raise GpumError("requires y to be passed, but the target y is None; give NaN for rows without a label")
    try:
        y = np.asarray(y, float)
    except (TypeError, ValueError) as error:
        raise GpumError(
            f"y must hold numbers (NaN where a row has no label), but {error}; for classes use GPUMClassifier"
        ) from None
    if y.ndim not in (1, 2) or len(y) != n:
        raise GpumError(f"y has shape {y.shape}, but X has {n} rows; y must be [{n}] or [{n}, outputs]")
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn("y is a column vector; it is read as y.ravel()", DataConversionWarning, stacklevel=4)
        y = y[:, 0]
    if np.isinf(y).any():
        row = int(np.argwhere(np.isinf(y))[0, 0])
        raise GpumError(
            f"Input y contains infinity or a value too large, the first at row {row}; mark rows without a label by NaN"
        )
    large = np.abs(y) > LARGEST_LABEL
    if large.any():
        entry = tuple(np.argwhere(large)[0])
        raise GpumError(
            f"y is {y[entry]:.3g} at row {entry[0]}, too large to calculate with (at most {LARGEST_LABEL:g}); check "
            "that label, or rescale y"
        )
    return y


def _check_labelled(columns: np.ndarray, what: str = "(all NaN)") -> None:
    """Check that every output [k, n] has a label, before geometries are learned."""
    for k, column in enumerate(columns):
        if np.isnan(column).all():
            which = f"output {k} of y" if len(columns) > 1 else "y"
            raise GpumError(f"{which} has no labelled row {what}; give the target of at least one row; {FOLDS}")


def weights_of(model: Any, y: np.ndarray, noise_std: Any, sample_weight: Any) -> np.ndarray | None:
    """Weights [N, k] of labels y, 0 where a label says nothing; None where all are equal."""
    if sample_weight is None:
        return None
    if noise_std is not None:
        raise GpumError("sample_weight and noise_std are both given, and both say how precise labels are; give one")
    if model.likelihood in ("poisson", "binomial"):
        instead = "give rows of several trials as trials=" if model.likelihood == "binomial" else "leave it out"
        raise GpumError(
            f"sample_weight was given, but the noise of likelihood={model.likelihood!r} follows from the counts "
            f"themselves; {instead}"
        )
    columns = y.reshape(len(y), -1)
    return _beside(sample_weight, "sample_weight", columns, ~np.isnan(columns), zero=True)


def targets_of(
    model: Any, y: np.ndarray, noise_std: Any, trials: Any, weights: np.ndarray | None = None
) -> list[Target]:
    """What each column of y [N] or [N, k] is, given an estimator's `likelihood` and `period`."""
    likelihood = checks.option(model.likelihood, "likelihood", LIKELIHOODS)
    likelihood = "gaussian" if likelihood == "auto" else likelihood  # or "lognormal": `logarithms.settled`
    period = model.period
    if period is not None:
        period = checks.positive(period, "period", "360 is for degrees, 2π for radians, None for values")
        if likelihood != "gaussian":
            raise GpumError(
                f"likelihood is {likelihood!r}, but angles (period={period:g}) have 'gaussian' only; use it"
            )
    if noise_std is not None and (likelihood != "gaussian" or period is not None):
        what = f"likelihood={likelihood!r}" if period is None else f"an angle (period={period:g})"
        raise GpumError(f"noise_std was given, but {what} has noise of its own kind; leave it out")
    if trials is not None and likelihood != "binomial":
        raise GpumError(f"trials was given, but likelihood is {likelihood!r}; use likelihood='binomial'")
    columns = y.reshape(len(y), -1)
    known = ~np.isnan(columns)
    noise = _beside(noise_std, "noise_std", columns, known)
    tried = _beside(1.0 if trials is None and likelihood == "binomial" else trials, "trials", columns, known)
    if likelihood == "lognormal":
        _check_positive(columns, np.ones(columns.shape[1], bool))
    if likelihood == "poisson":
        _check_counts(columns, known, likelihood, "y")
    if tried is not None:
        _check_counts(tried, known, likelihood, "trials")
        _check_successes(columns, known, tried)
    of_labels = {"noise_std": noise, "trials": tried, "weights": weights}
    given = {name: values for name, values in of_labels.items() if values is not None}
    return [
        Target(
            likelihood, model.hyperparameters, period,
            **{name: values[known[:, k], k] for name, values in given.items()}, priors=checked(model.priors),
        )
        for k in range(columns.shape[1])
    ]  # fmt: skip


def _beside(
    given: Any, name: str, columns: np.ndarray, known: np.ndarray, zero: bool = False
) -> np.ndarray | None:  # fmt: skip
    """Positive numbers (or, with `zero`, 0) given beside y, as [N, k]; they are not checked where y is NaN."""
    if given is None:
        return None
    try:
        values = np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise GpumError(f"{name} must hold numbers, but {error}") from None
    shape = columns.shape
    if values.ndim == 1 and values.shape == shape[:1]:
        values = values[:, None]
    if values.ndim and values.shape not in (shape, (shape[0], 1)):
        raise GpumError(f"{name} has shape {values.shape}, but y has shape {shape}; give a number, [rows] or as y")
    values = np.broadcast_to(values, shape)
    allowed = ((values >= 0) if zero else (values > 0)) & np.isfinite(values)
    what = "0 or a positive number" if zero else "a positive number"
    _refuse(known & ~allowed, values, name, f"every labelled row needs {what}")
    return values


def _check_successes(y: np.ndarray, known: np.ndarray, trials: np.ndarray) -> None:
    """Successes y [n, k] are whole numbers from 0 to `trials`."""
    _check_counts(y, known, "binomial", "y")
    _refuse(known & (y > trials), y, "y", "more successes than trials; give their number as `trials`")


def _check_positive(columns: np.ndarray, logarithms: np.ndarray) -> None:
    """Labels [n, k] of columns of which logarithms are taken [k] are above 0."""
    advice = "likelihood='lognormal' needs labels above 0; fit with 'gaussian', or 'poisson' for counts"
    _refuse((columns <= 0) & logarithms, columns, "y", advice)


def _check_counts(values: np.ndarray, known: np.ndarray, likelihood: str, name: str) -> None:
    whole = (values >= 0) & (values == np.round(values))
    _refuse(known & ~whole, values, name, f"likelihood={likelihood!r} needs whole numbers from 0")


def _refuse(wrong: np.ndarray, values: np.ndarray, name: str, advice: str) -> None:
    if wrong.any():
        row, column = map(int, np.argwhere(wrong)[0])
        raise GpumError(f"{name} is {values[row, column]:g} at row {row}; {advice}")


def circular_score(y: np.ndarray, guess: np.ndarray, period: float, weight: np.ndarray | None) -> float:
    """1 - Σ(1 - cos error)/Σ(1 - cos of the distance from the mean direction)."""
    turn = np.exp(2j * np.pi * (y - guess) / period)
    blind = abs(np.average(np.exp(2j * np.pi * y / period), weights=weight))
    return float(1 - (1 - np.average(turn.real, weights=weight)) / max(1 - blind, 1e-300))
