"""What all regressors share: labels, hyperparameters, prediction, samples, scikit-learn's conventions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from threadpoolctl import threadpool_limits

from .. import checks
from ..checks import GpumError
from ..regression import design
from ..regression.family import Setting
from .outputs import INFERENCE, Output, Target, regress
from .predictive import Predictive
from .suggesting import Suggests
from .targets import circular_score, targets_of

THREADS = 1000  # labels below which threads cost more than they gain (and rounding would depend on them)
LARGEST_LABEL = 1e150  # squares of labels must not overflow


class GPRegressor(RegressorMixin, Suggests):
    """See the module."""

    hyperparameters: str
    likelihood: str = "gaussian"
    target: str = "value"
    period: float = 360.0

    def fit(self, X: Any, y: Any, *, noise_std: Any = None, trials: Any = None) -> Any:
        """Fit a cloud X [N, p] with targets y [N] or [N, k], NaN where a row has no label.

        Parameters
        ----------
        noise_std : known standard deviation of each label's noise, a number, [N] or as y; None: it is learned, the same
            for all labels.
        trials : of likelihood="binomial": of how many trials y are the successes, a number, [N] or as y; None: 1.
        """
        checks.option(self.hyperparameters, "hyperparameters", INFERENCE)
        X = self._enter(X)
        y = _labels(y, len(X))
        columns = y.reshape(len(X), -1).T
        _check_labelled(columns)
        targets = targets_of(self, y, noise_std, trials)
        self._columns = y.shape[1:] if y.ndim == 2 else ()
        self._build(X, y)
        self._outputs = [self._regress(column, target) for column, target in zip(columns, targets, strict=True)]
        self.log_evidence_ = self._shaped([o.posterior.log_evidence for o in self._outputs])
        best = [o.posterior.best.setting.described() for o in self._outputs]
        self.best_setting_ = best if self._columns else best[0]
        self.notes_ = self._gather_notes()
        self._tell()
        return self

    def _tell(self) -> None:
        """What else a fitted estimator tells of itself."""

    def _regress(self, y: np.ndarray, target: Target) -> Output:
        known = np.flatnonzero(~np.isnan(y))
        with threadpool_limits(1 if len(known) < THREADS else None, "blas"):
            output = regress(*self._labelled(known), y[known], target, known)
        _say_edge(output.posterior.best.setting)
        return output

    def predictive(self, X: Any) -> Predictive:
        """Everything that is predicted for rows X, seen or not; they are placed once."""
        placed = self._locate(X)
        latent = partial(self._latent_of, placed.X, placed.index)
        return Predictive(self._outputs, bool(self._columns), placed, placed.far, latent)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Mean for rows X, seen or not; with their std or covariance.

        Both are of a new observation, or, with include_noise=False, of the function itself.
        """
        if return_std and return_cov:
            raise GpumError("return_std and return_cov are both True; ask for one of them")
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

    @property
    def transduction_(self) -> np.ndarray:
        """Predictive mean for every row of the fitted cloud."""
        return self.predict_cloud()

    def predict_cloud(self, return_std: bool = False, include_noise: bool = True) -> Any:
        """Mean (and std) for every row of the fitted cloud."""
        placed = self._locate_cloud()
        found = Predictive(self._outputs, bool(self._columns), placed, placed.far)
        return found.moments(include_noise) if return_std else found.mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² on the rows of X whose y is not NaN; of several outputs the mean of theirs.

        Of angles the share of 1 - cos(error) that is left of that of the mean direction, taken from 1; of
        likelihood="binomial" y are shares.
        """
        mean = self.predict(X)
        y = _labels(y, len(mean))
        found = []
        for label, guess in zip(y.reshape(len(y), -1).T, mean.reshape(len(y), -1).T, strict=True):
            known = ~np.isnan(label)
            if not known.any():
                raise GpumError("y has no labelled row (all NaN) to score; give the target of at least two rows")
            weight = None if sample_weight is None else np.asarray(sample_weight)[known]
            if self.target == "angle":
                found.append(circular_score(label[known], guess[known], self.period, weight))
            else:
                found.append(r2_score(label[known], guess[known], sample_weight=weight))
        return float(np.mean(found))

    def _beliefs(self, output: Output, rows: list[np.ndarray], asked: design.Asked) -> list[design.Belief]:
        return output.beliefs(rows, asked)

    def _floor(self, criterion: str, beliefs: list[list[design.Belief]]) -> float:
        if criterion == "information":
            return design.KNOWN * len(beliefs)
        return design.NEGLIGIBLE * sum(
            float(np.average([b.noise[0] for b in some], weights=[b.weight for b in some])) for some in beliefs
        )

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
        place = tuple(np.argwhere(large)[0])
        raise GpumError(
            f"y is {y[place]:.3g} at row {place[0]}, too large to calculate with (at most {LARGEST_LABEL:g}); check "
            "that label, or rescale y"
        )
    return y


def _check_labelled(columns: np.ndarray) -> None:
    """Every output [k, n] has a label: found out before a surface is learned."""
    for k, column in enumerate(columns):
        if np.isnan(column).all():
            which = f"output {k} of y" if len(columns) > 1 else "y"
            raise GpumError(f"{which} has no labelled row (all NaN); give the target of at least one row")
