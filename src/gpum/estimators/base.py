"""What all regressors share: labels, hyperparameters, prediction, samples, scikit-learn's conventions.

A subclass learns the surfaces of the cloud (`_learn`) and says what it wants of their kernels (`_wanted`); the numbers
are made in `regression`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import checks
from ..files import model_io
from ..gplvm import scaling
from ..regression import gp
from ..regression.family import Setting, join, smoothness_names
from ..regression.posterior import Located
from ..regression.surfaces import Placement, Wanted
from .geometries import FAILURES, Built
from .predictive import Output, Predictive

THREADS = 1000  # labels below which threads cost more than they gain (and rounding would depend on them)
LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far
LARGEST_LABEL = 1e150  # squares of labels must not overflow
INFERENCE: dict[str, gp.Inference] = {"average": gp.average, "evidence": gp.best}


class GPRegressor(RegressorMixin, BaseEstimator, ABC):
    """See the module."""

    hyperparameters: str
    random_state: Any

    def fit(self, X: Any, y: Any) -> Any:
        """Fit a cloud X [N, p] with targets y [N] or [N, k], NaN where a row has no label."""
        checks.option(self.hyperparameters, "hyperparameters", INFERENCE)
        X = self._check_cloud(X)
        y = _labels(y, len(X))
        columns = y.reshape(len(X), -1).T
        _check_labelled(columns)
        self.n_features_in_ = X.shape[1]
        self._unit = self._unit_of(X)
        X = X / self._unit
        self._columns = y.shape[1:] if y.ndim == 2 else ()
        self._build(X)
        self._outputs = [self._regress(column) for column in columns]
        self.log_evidence_ = self._shaped([o.posterior.log_evidence for o in self._outputs])
        best = [o.posterior.best.setting.described() for o in self._outputs]
        self.best_setting_ = best if self._columns else best[0]
        self.notes_ = self._gather_notes()
        return self

    def _check_cloud(self, X: Any) -> np.ndarray:
        X = checks.cloud(X, "X", min_rows=2)
        scaling.check(X, "X")
        return X

    def _unit_of(self, X: np.ndarray) -> float:
        """What X is divided by, so that squares of its numbers are numbers: 1 but for extreme ones."""
        return scaling.Scaling.of(X, by_column=False).unit

    def _build(self, X: np.ndarray) -> None:
        """Everything that does not depend on the labels."""
        found = self._learn(X)
        self._rows = {row.tobytes(): i for i, row in reversed(list(enumerate(X)))}
        families, self._surfaces, priors, notes = [], [], [], list(found.notes)
        for surface, prior in zip(found.surfaces, found.log_priors, strict=True):
            try:
                families.append(surface.family(self._wanted()))
            except FAILURES as error:
                if len(found.surfaces) == 1:
                    raise
                notes.append(f"the {surface.title} is left out: {error}")
                continue
            self._surfaces.append(surface)
            priors.append(prior)
        if not families:
            raise ValueError(f"no geometry can be used on this cloud: {'; '.join(notes)}")
        self._family = join(families, priors)
        self._family.notes[:0] = notes

    @abstractmethod
    def _learn(self, X: np.ndarray) -> Built:
        """The surfaces of the cloud."""

    def _wanted(self) -> Wanted:
        """What is asked of the kernels."""
        return Wanted(smoothness_names(getattr(self, "smoothness", "heat")))

    def _regress(self, y: np.ndarray) -> Output:
        known = np.flatnonzero(~np.isnan(y))
        labels = y[known]
        mean, scale = gp.units(labels)
        with threadpool_limits(1 if len(known) < THREADS else None, "blas"):
            posterior = INFERENCE[self.hyperparameters](self._family, known, (labels - mean) / scale)
        _say_edge(posterior.best.setting)
        return Output(posterior, mean, scale, known, labels)

    def _gather_notes(self) -> list[str]:
        """What was left out, cut short or could not be done as asked, in sentences."""
        posteriors = [note for output in self._outputs for note in output.posterior.notes]
        return list(dict.fromkeys([*self._family.notes, *posteriors]))

    def predictive(self, X: Any) -> Predictive:
        """Everything that is predicted for rows X, seen or not; they are placed once."""
        X = self._check_rows(X)
        index = self._index(X)
        new = np.flatnonzero(index < 0)
        needed = set().union(*(o.posterior.spaces for o in self._outputs))
        rows = [r[np.maximum(index, 0)] if k in needed else None for k, r in enumerate(self._family.rows)]
        located = Located.exactly(rows)
        owners = {self._family.owners[k] for k in needed} if len(new) else set()
        placements = {owner: self._surfaces[owner].place(X[new]) for owner in sorted(owners)}
        for owner, placement in placements.items():
            self._represent(placement, owner, new, located, needed)
        far = self._mostly_far(placements, new, len(X))
        if far.any():
            warnings.warn(
                f"{int(far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(far)[0])}: their prediction is the prior's",
                stacklevel=3,
            )
        return Predictive(self._outputs, bool(self._columns), located, far, partial(self._latent_of, X, index))

    def _represent(self, placement: Placement, owner: int, new: np.ndarray, located: Located, needed: set[int]) -> None:
        """Fill in the rows `new` of `located` in the spaces of one surface."""
        points, sd = placement.points, placement.sd
        # Sigma points: x ± √q s_a e_a have the posterior's mean and variance along each coordinate.
        q = points.shape[1]
        shifts = [] if sd is None else [side * np.sqrt(q) * sd * e for e in np.eye(q) for side in (-1, 1)]
        moved = [points, *(points + shift for shift in shifts)]
        for k in needed:
            if self._family.owners[k] != owner:
                continue
            at = located.at[k]
            assert at is not None
            first, *others = np.split(self._family.spaces[k].at(np.concatenate(moved)), len(moved))
            at[new] = first
            located.around[k] = [at.copy() for _ in others]
            for place, found in zip(located.around[k], others, strict=True):
                place[new] = found
            located.far[k][new] = placement.far

    def _mostly_far(self, placements: dict[int, Placement], new: np.ndarray, n: int) -> np.ndarray:
        """Which rows are far for surfaces that hold more than half of the weight, [n]."""
        far = np.zeros(n, bool)
        weights = np.mean([self._surface_weights(o) for o in self._outputs], axis=0)
        if placements:
            far[new] = sum(weights[owner] * placement.far for owner, placement in placements.items()) > 0.5
        return far

    def _surface_weights(self, output: Output) -> np.ndarray:
        """The posterior weight of each surface, [surfaces]."""
        weights = np.zeros(len(self._surfaces))
        for part in output.posterior.parts:
            weights[self._family.owners[part.setting.space]] += part.weight
        return weights

    def _latent_of(self, X: np.ndarray, index: np.ndarray) -> np.ndarray | None:
        """Coordinates of the rows on the chart that people are shown; `index` says where they stand in the cloud."""
        return None

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Mean for rows X, seen or not; with their std or covariance.

        Both are of a new observation, or, with include_noise=False, of the function itself.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        found = self.predictive(X)
        if return_cov:
            return found.mean, found.cov(include_noise)
        return found.moments(include_noise) if return_std else found.mean

    def predict_quantiles(self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), include_noise: bool = True) -> np.ndarray:
        """Quantiles of the predictive mixture, [rows, quantiles] (one more axis for several outputs)."""
        return self.predictive(X).quantiles(quantiles, include_noise)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False) -> np.ndarray:
        """Draws of the function (with include_noise, of observations) at rows X, [rows, n_samples] or [rows, k, n]."""
        return self.predictive(X).samples(n_samples, random_state, include_noise)

    def far_from_surface(self, X: Any) -> np.ndarray:
        """Which rows X are so far from the fitted surface that their prediction is the prior's, [rows] of bool."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*far from the fitted surface", UserWarning)
            return self.predictive(X).far

    @property
    def transduction_(self) -> np.ndarray:
        """Predictive mean for every row of the fitted cloud."""
        return self.predict_cloud()

    def predict_cloud(self, return_std: bool = False, include_noise: bool = True) -> Any:
        """Mean (and std) for every row of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        rows = Located.exactly(self._family.rows)
        found = Predictive(self._outputs, bool(self._columns), rows, rows.far[0])
        return found.moments(include_noise) if return_std else found.mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² on the rows of X whose y is not NaN; of several outputs the mean of theirs."""
        mean = self.predict(X)
        y = _labels(y, len(mean))
        found = []
        for label, guess in zip(y.reshape(len(y), -1).T, mean.reshape(len(y), -1).T, strict=True):
            known = ~np.isnan(label)
            if not known.any():
                raise ValueError("y has no labelled row (all NaN) to score; give the target of at least two rows")
            weight = None if sample_weight is None else np.asarray(sample_weight)[known]
            found.append(r2_score(label[known], guess[known], sample_weight=weight))
        return float(np.mean(found))

    def save(self, path: Any) -> None:
        """Write the fitted estimator to a file (a pickle: load only files you trust), whole or not at all."""
        check_is_fitted(self, "_outputs")
        model_io.write(path, self)

    @classmethod
    def load(cls, path: Any) -> Any:
        """Read an estimator that `save` or `gpum fit` wrote (a pickle: load only files you trust)."""
        found = model_io.read(path)
        if isinstance(found, model_io.Fitted):
            found = found.model
        if not isinstance(found, cls):
            raise TypeError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}; load it with its own class")
        return found

    def _index(self, X: np.ndarray) -> np.ndarray:
        """Where rows X stand in the fitted cloud, -1 for those that do not."""
        return np.array([self._rows.get(row.tobytes(), -1) for row in X])

    def _check_rows(self, X: Any) -> np.ndarray:
        """Rows like those of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        X = checks.cloud(X, "X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input; pass the columns of the fitted cloud in the same order"
            )
        with np.errstate(over="ignore"):
            return np.clip(X / self._unit, -LARGEST_ENTRY, LARGEST_ENTRY)

    def _shaped(self, values: list[float]) -> Any:
        return np.array(values) if self._columns else values[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.target_tags.required = True
        return tags


def _say_edge(setting: Setting) -> None:
    """Warn where the heaviest setting's scale is at an end of its range beyond which the kernel would still change."""
    advice = {
        "low": "faster than the kernel can follow; use more eigenfunctions or inducing points (n_kernel_inducing)",
        "high": "so slowly that a larger max_time may be better",
    }
    for end in setting.open_ends:
        if setting.at_end(end) and setting.scales is not None:
            warnings.warn(
                f"the scale of largest evidence, {setting.scale:.3g} (√t of a heat kernel), is at the {end} end of "
                f"its range {setting.scales[0]:.3g} to {setting.scales[1]:.3g}: the target varies {advice[end]}",
                stacklevel=5,
            )


def _labels(y: Any, n: int) -> np.ndarray:
    """y as a float array [n] or [n, k]; NaN marks rows without a label."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None; give NaN for rows without a label")
    try:
        y = np.asarray(y, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers (NaN where a row has no label), but {error}") from None
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y has shape {y.shape}, but X has {n} rows; y must be [{n}] or [{n}, outputs]")
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn("y is a column vector; it is read as y.ravel()", DataConversionWarning, stacklevel=4)
        y = y[:, 0]
    if np.isinf(y).any():
        row = int(np.argwhere(np.isinf(y))[0, 0])
        raise ValueError(
            f"Input y contains infinity or a value too large, the first at row {row}; mark rows without a label by NaN"
        )
    large = np.abs(y) > LARGEST_LABEL
    if large.any():
        place = tuple(np.argwhere(large)[0])
        raise ValueError(
            f"y is {y[place]:.3g} at row {place[0]}, too large to calculate with (at most {LARGEST_LABEL:g}); check "
            "that label, or rescale y"
        )
    return y


def _check_labelled(columns: np.ndarray) -> None:
    """Every output [k, n] has a label: found out before a surface is learned."""
    for k, column in enumerate(columns):
        if np.isnan(column).all():
            which = f"output {k} of y" if len(columns) > 1 else "y"
            raise ValueError(f"{which} has no labelled row (all NaN); give the target of at least one row")
