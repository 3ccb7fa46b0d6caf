"""What all five estimators share: labels, hyperparameters, prediction, samples, scikit-learn's conventions.

A subclass learns the geometry of the cloud (`_learn`) and hands out spaces and settings (`_family`); the numbers are
made in `gp`. Rows of the fitted cloud keep the representation they got in `fit`; others are placed first (`_place`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import checks
from ..files import model_io
from ..regression import gp
from ..regression.gp import Posterior, Setting
from ..regression.spaces import Family

THREADS = 1000  # labels below which threads cost more than they gain (and rounding would depend on them)
MODES = {"average": gp.average, "evidence": gp.best}


@dataclass(frozen=True)
class Output:
    """One column of y: its posterior in units in which the labels have mean 0 and variance 1; the labelled rows."""

    posterior: Posterior
    mean: float
    scale: float
    rows: np.ndarray
    labels: np.ndarray


class GPRegressor(RegressorMixin, BaseEstimator, ABC):
    """See the module."""

    hyperparameters: str
    random_state: Any

    def fit(self, X: Any, y: Any) -> Any:
        """Fit a cloud X [N, p] with targets y [N] or [N, k], NaN where a row has no label."""
        checks.option(self.hyperparameters, "hyperparameters", MODES)
        X = self._check_cloud(X)
        y = _labels(y, len(X))
        self.n_features_in_ = X.shape[1]
        self._columns = y.shape[1:] if y.ndim == 2 else ()
        self._learn(X)
        self._rows = {row.tobytes(): i for i, row in reversed(list(enumerate(X)))}
        self._represent, settings, self._cloud = self._family(X)
        self._outputs = [self._regress(column, settings) for column in y.reshape(len(X), -1).T]
        self.log_evidence_ = self._shaped([o.posterior.log_evidence for o in self._outputs])
        best = [o.posterior.best.setting.info for o in self._outputs]
        self.best_setting_ = best if self._columns else best[0]
        return self

    def _check_cloud(self, X: Any) -> np.ndarray:
        return checks.cloud(X, "X", min_rows=2)

    def _learn(self, X: np.ndarray) -> None:
        """Learn whatever stands between the cloud and its spaces."""

    @abstractmethod
    def _family(self, X: np.ndarray) -> Family:
        """What represents points in each space, settings on the spaces, and the cloud's representations."""

    def _place(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Where rows never seen lie: points, their sds (None: known exactly), and which are far from the surface."""
        return X, None, np.zeros(len(X), bool)

    def _regress(self, y: np.ndarray, settings: Sequence[Setting]) -> Output:
        known = np.flatnonzero(~np.isnan(y))
        if not len(known):
            raise ValueError("y has no labelled row (all NaN); give the target of at least one row")
        labels = y[known]
        mean, scale = gp.units(labels)
        with threadpool_limits(1 if len(known) < THREADS else None, "blas"):
            posterior = MODES[self.hyperparameters](settings, [c[known] for c in self._cloud], (labels - mean) / scale)
        _say_edge(posterior.best.setting.info)
        return Output(posterior, mean, scale, known, labels)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Mean for rows X, seen or not; with their std or covariance.

        Both are of a new observation, or, with include_noise=False, of the function itself.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        points, spread, far = self._locate(X)
        means, extras = [], []
        for output in self._outputs:
            if return_cov:
                mean, extra = self._with_cov(output, points, spread, far, include_noise)
            else:
                mean, variance = _moments(output.posterior, points, spread, include_noise)
                if far.any():
                    mean, variance = self._prior(output, mean, variance, far, include_noise)
                extra = output.scale * np.sqrt(variance)
            means.append(output.mean + output.scale * mean)
            extras.append(extra)
        mean = np.stack(means, -1) if self._columns else means[0]
        if not (return_std or return_cov):
            return mean
        return mean, np.stack(extras, -1) if self._columns else extras[0]

    def predict_quantiles(self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), include_noise: bool = True) -> np.ndarray:
        """Quantiles of the predictive mixture, [rows, quantiles] (one more axis for several outputs)."""
        levels = np.atleast_1d(np.asarray(quantiles, float))
        if not len(levels) or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(
                f"quantiles must lie between 0 and 1, got {quantiles!r}; (0.025, 0.975) is a 95 % interval"
            )
        places, spread, far = self._locate(X)
        places = places if spread is None else places[1:]
        found = [o.mean + o.scale * o.posterior.quantiles(places, levels, include_noise, far) for o in self._outputs]
        return np.stack(found, -1) if self._columns else found[0]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False) -> np.ndarray:
        """Draws of the function (with include_noise, of observations) at rows X, [rows, n_samples] or [rows, k, n]."""
        checks.integer(n_samples, "n_samples", 1, None, "1 is one draw")
        points, _, _ = self._locate(X)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        draws = [
            o.mean + o.scale * o.posterior.samples(rng, points[0], n_samples, include_noise) for o in self._outputs
        ]
        return np.stack(draws, 1) if self._columns else draws[0]

    @property
    def transduction_(self) -> np.ndarray:
        """Predictive mean for every row of the fitted cloud."""
        return self.predict_cloud()

    def predict_cloud(self, return_std: bool = False, include_noise: bool = True) -> Any:
        """Mean (and std) for every row of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        found = [o.posterior.moments(self._cloud, include_noise) for o in self._outputs]
        means = [o.mean + o.scale * mean for o, (mean, _) in zip(self._outputs, found, strict=True)]
        stds = [o.scale * np.sqrt(variance) for o, (_, variance) in zip(self._outputs, found, strict=True)]
        mean, std = (np.stack(v, -1) if self._columns else v[0] for v in (means, stds))
        return (mean, std) if return_std else mean

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

    def far_from_surface(self, X: Any) -> np.ndarray:
        """Which rows X are so far from the fitted surface that their prediction is the prior's, [rows] of bool."""
        X = self._check_rows(X)
        far = self._index(X) < 0
        if far.any():
            far[far] = self._place(X[far])[2]
        return far

    def _index(self, X: np.ndarray) -> np.ndarray:
        """Where rows X stand in the fitted cloud, -1 for those that do not."""
        return np.array([self._rows.get(row.tobytes(), -1) for row in X])

    def _locate(self, X: Any) -> tuple[list[list[np.ndarray]], Any, np.ndarray]:
        """Rows in every space, at their place and at places around it for those whose place is uncertain.

        Returns a list of representations (the first at the place itself), the rows' spread or None, and which rows
        are far from the surface.
        """
        X = self._check_rows(X)
        index = self._index(X)
        new = index < 0
        far = np.zeros(len(X), bool)
        if not new.any():
            return [[c[index] for c in self._cloud]], None, far
        points, spread, far[new] = self._place(X[new])
        # Sigma points: x ± √q s_a e_a have the posterior's mean and variance along each coordinate.
        q = points.shape[1]
        shifts = [] if spread is None else [side * np.sqrt(q) * spread * e for e in np.eye(q) for side in (-1, 1)]
        moved = [points, *(points + shift for shift in shifts)]
        places: list[list[np.ndarray]] = [[] for _ in moved]
        for represented, cloud in zip(self._represent(np.concatenate(moved)), self._cloud, strict=True):
            for place, f in zip(places, np.split(represented, len(moved)), strict=True):
                rows = np.empty((len(X), cloud.shape[1]))
                rows[~new], rows[new] = cloud[index[~new]], f
                place.append(rows)
        if far.any():
            warnings.warn(
                f"{int(far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(far)[0])}: their prediction is the prior's",
                stacklevel=3,
            )
        return places, spread, far

    def _check_rows(self, X: Any) -> np.ndarray:
        """Rows like those of the fitted cloud."""
        check_is_fitted(self, "_outputs")
        X = checks.cloud(X, "X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input; pass the columns of the fitted cloud in the same order"
            )
        return X

    def _prior(self, output: Output, mean: Any, variance: Any, far: Any, noise: bool) -> tuple[np.ndarray, np.ndarray]:
        """Moments with those of the prior where rows are far: mean of the labels, variance of function and mean."""
        total = sum(float(p.weights @ (p.signal * (2 + noise * p.ratios))) for p in output.posterior.parts)
        return np.where(far, 0.0, mean), np.where(far, total, variance)

    def _with_cov(self, output: Output, points: Any, spread: Any, far: Any, noise: bool) -> tuple[Any, Any]:
        mean, variance = _moments(output.posterior, points, spread, noise)
        cov = output.posterior.covariance(points[0], noise)
        if far.any():
            mean, variance = self._prior(output, mean, variance, far, noise)
            cov = np.where(far[:, None] | far, 0.0, cov)
        cov = cov + np.diag(np.maximum(variance - np.diag(cov), 0.0))  # what the uncertain place adds
        return mean, output.scale**2 * cov

    def _shaped(self, values: list[float]) -> Any:
        return np.array(values) if self._columns else values[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.target_tags.required = True
        return tags


def _moments(posterior: Posterior, places: list[list[np.ndarray]], spread: Any, noise: bool) -> Any:
    """Mean and variance over the posterior of f and, where it is uncertain, of the rows' places."""
    mean, variance = posterior.moments(places[0], noise)
    if spread is None:
        return mean, variance
    around = [posterior.moments(place, noise) for place in places[1:]]
    means, variances = np.array([m for m, _ in around]), np.array([v for _, v in around])
    mean = means.mean(0)
    return mean, variances.mean(0) + means.var(0)


def _say_edge(info: dict[str, Any]) -> None:
    """Warn where the heaviest setting's scale is at an end of its range beyond which the kernel would still change."""
    ends = dict(zip(("low", "high"), info.get("scales", ()), strict=False))
    for name in info.get("open", ()):
        if abs(np.log(info["scale"] / ends[name])) < 1e-3:
            warnings.warn(
                f"the scale of largest evidence, {info['scale']:.3g} (√t of a heat kernel), is at the {name} end of "
                f"its range {ends['low']:.3g} to {ends['high']:.3g}: the target varies "
                + (
                    "faster than the kernel can follow; use more eigenfunctions or inducing points (n_kernel_inducing)"
                    if name == "low"
                    else "so slowly that a larger max_time may be better"
                ),
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
    return y
