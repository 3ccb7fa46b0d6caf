"""`GPRegressor`: what all regressors share. A subclass has parameters, and says which geometries a cloud has."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import get_tags

from ..basics import checks, scaling
from ..basics.checks import GpumError
from ..basics.threads import blas_threads
from ..fitted import Cloud, FittedModel, Geometries, Predictive
from ..fitted.relevance import with_lengths
from ..inference.outputs import Output, Target, as_numbers, regress
from . import features, shell
from .targets import Labels, score


class GPRegressor(RegressorMixin, BaseEstimator, ABC):
    """Gaussian process regression on the geometries of a cloud, of which some rows have a label."""

    hyperparameters: str
    likelihood: str = "gaussian"
    target: str = "value"
    period: float = 360.0

    def fit(self, X: Any, y: Any = None, *, noise_std: Any = None, trials: Any = None) -> Any:
        """Fit a cloud X [N, p] with targets y [N] or [N, k], NaN where a row has no label.

        Parameters
        ----------
        noise_std : known standard deviation of each label's noise, a number, [N] or as y; None: it is learned, the same
            for all labels.
        trials : of likelihood="binomial": y counts the successes of so many trials, a number, [N] or as y; None: 1.
        """
        with shell.fitting(self):
            cloud = self._read_cloud(X)
            labels = Labels.of(self, y, len(cloud), noise_std, trials)
            geometries = self._geometries(cloud, labels.y)
            outputs = []
            for column, target in labels.columns():
                geometries, output = complete(geometries, column, target)
                outputs.append(output)
            warn_of_edges(outputs)
            shell.keep(self, FittedModel(geometries, outputs, labels.several, settings=shell.settings_of(self)))
        return self

    def _read_cloud(self, X: Any) -> Cloud:
        """X, checked, in units in which squares of its numbers are numbers."""
        features.remember(self, X)
        X = checks.cloud(X, "X", min_rows=2, missing=get_tags(self).input_tags.allow_nan)
        checks.columns_read(X, "X")
        scaling.check(X, "X")
        self.n_features_in_ = X.shape[1]
        unit = scaling.Scaling.of(X, by_column=False).unit
        return Cloud(X / unit, unit)

    @abstractmethod
    def _geometries(self, cloud: Cloud, y: np.ndarray) -> Geometries:
        """The geometries of the cloud; y are its labels, which only a checkpoint asks for."""

    model_: Any = shell.model
    __sklearn_is_fitted__ = shell.is_fitted
    notes_: Any = shell.notes
    log_evidence_: Any = shell.log_evidence
    best_setting_: Any = shell.best_setting
    save, load = shell.save, shell.load
    predictive = shell.predictive
    far_from_surface = shell.far_from_surface
    suggest, suggestions = shell.suggest, shell.suggestions
    file_state, check_restored = shell.file_state, shell.check_restored
    file_summary, with_table = shell.file_summary, shell.with_table

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        trials: Any = None,
    ) -> Any:
        """Mean for rows X, seen or not; with their std or covariance.

        Both are of a new observation, or, with include_noise=False, of the function itself. Of likelihood="binomial" an
        observation counts the successes of `trials`, a number or [rows]; None: of one, and the mean is the probability.
        """
        if return_std and return_cov:
            raise GpumError("return_std and return_cov are both True; ask for one of them")
        found: Predictive = self.predictive(X).of_trials(trials)
        if return_cov:
            return found.mean, found.cov(include_noise)
        return found.moments(include_noise) if return_std else found.mean

    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), include_noise: bool = True, trials: Any = None
    ) -> np.ndarray:
        """Quantiles of a new observation, [rows, quantiles] (one more axis for several outputs).

        With include_noise=False those of the function itself. Of likelihood="binomial" an observation of one trial is 0
        or 1: ask for those of so many `trials`, or of the probability with include_noise=False.
        """
        return self.predictive(X).of_trials(trials).quantiles(quantiles, include_noise)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False, trials: Any = None
    ) -> np.ndarray:
        """Draws of the function (with include_noise, of observations) at rows X, [rows, n_samples] or [rows, k, n]."""
        return self.predictive(X).of_trials(trials).samples(n_samples, random_state, include_noise)

    @property
    def transduction_(self) -> np.ndarray:
        """Predictive mean for every row of the fitted cloud."""
        return self.model_.of_cloud.mean.copy()

    def predict_cloud(self, return_std: bool = False, include_noise: bool = True) -> Any:
        """Mean (and std) for every row of the fitted cloud."""
        return self.model_.of_cloud.moments(include_noise) if return_std else self.transduction_

    def score(self, X: Any, y: Any, sample_weight: Any = None, trials: Any = None) -> float:
        """R² on the rows of X whose y is not NaN; of several outputs the mean of theirs.

        Of angles 1 less the part of 1 - cos(error) that is left of that of the mean direction. Of likelihood="binomial"
        y counts the successes of `trials`, as in `fit`, and R² is that of y/trials, each trial with the same weight.
        """
        return score(self.predictive(X).of_trials(trials), y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.target_tags.required = True
        return tags


def infer(geometries: Geometries, y: np.ndarray, target: Target) -> Output:
    """The posterior of one column y [N], NaN where a row has no label."""
    known = np.flatnonzero(~np.isnan(y))
    with blas_threads(len(known)):
        return regress(*geometries.labelled(known), y[known], target, known)


def complete(geometries: Geometries, y: np.ndarray, target: Target) -> tuple[Geometries, Output]:
    """As `infer`, with a length scale for every column of flat space; the geometries with the spaces of these."""
    known = np.flatnonzero(~np.isnan(y))
    with blas_threads(len(known)):
        found = with_lengths(geometries, known, as_numbers(y[known], target))
        return found.geometries, regress(found.family, found.at, y[known], target, known)


def warn_of_edges(outputs: Sequence[Output]) -> None:
    """Warn where the heaviest setting's scale is at an end of its range beyond which the kernel would still change."""
    advice = {
        "low": "faster than the kernel can follow; use more eigenfunctions or inducing points (n_kernel_inducing)",
        "high": "so slowly that a larger max_time may be better",
    }
    for setting in (output.posterior.best.setting for output in outputs):
        for end in setting.open_ends:
            if setting.at_end(end) and setting.scales is not None:
                warnings.warn(
                    f"the scale of largest evidence, {setting.scale:.3g} (√t of a heat kernel), is at the {end} end of "
                    f"its range {setting.scales[0]:.3g} to {setting.scales[1]:.3g}: the target varies {advice[end]}",
                    stacklevel=3,
                )
