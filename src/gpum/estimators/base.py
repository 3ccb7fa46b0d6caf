"""`GPRegressor`: the base of all regressors. A subclass has parameters, and builds the geometries of a cloud."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import RegressorMixin

from ..basics import annotated, checks
from ..basics.checks import GpumError
from ..basics.workers import blas_threads, with_jobs
from ..fitted import Cloud, FittedModel, Geometries, Predictive, more_labels
from ..fitted.functions import SampledFunction, functions
from ..fitted.relevance import Labelled, with_lengths
from ..fitted.terms import with_terms
from ..geometry.priors import Priors
from ..inference.nearest import EXACT
from ..inference.outputs import Output
from ..inference.regress import as_numbers, regress
from ..inference.target import Target
from ..persistence.store import Store
from . import blocks, shell, units
from .targets import Labels, more_of, score, with_more

ONE_LENGTH, GRAPH = "flat space", "graph of neighbours"  # titles of geometries

OF_TERMS = "flat space has one length scale for all columns, since the kernel has terms on columns (or a linear mean)"


class GPRegressor(RegressorMixin, shell.FittedEstimator, ABC):
    """Gaussian process regression on the geometries of a cloud, of which some rows have a label."""

    hyperparameters: str
    likelihood: str = "gaussian"
    period: float | None = None
    priors: Priors | None = None

    def fit(
        self, X: Any, y: Any = None, *, noise_std: Any = None, trials: Any = None, sample_weight: Any = None
    ) -> Any:
        """Fit a cloud X [N, p] with targets y [N] or [N, k], NaN where a row has no label.

        X may be an AnnData: its columns are `obsm["X_pca"]`, else `X`, and y may be the name of a column of `obs`.

        Parameters
        ----------
        noise_std : known standard deviation of each label's noise, a number, [N] or as y; None: it is learned, the same
            for all labels.
        trials : of likelihood="binomial": y counts the successes of so many trials, a number, [N] or as y; None: 1.
        sample_weight : relative precision of each label, [N] or as y: the variance of its noise is in proportion to
            1/weight. A label of weight 0 says nothing, as NaN. None: all are equal. A new observation has the geometric
            mean of the weights.
        """
        with shell.fitting(self):
            cloud = self._read_cloud(X)
            labels = Labels.of(self, annotated.labels(X, y), len(cloud), noise_std, trials, sample_weight)
            labels, notes = self._settled(cloud, labels)
            geometries = self._geometries(cloud, labels).with_notes(notes)
            outputs = []
            for column, target in labels.columns():
                geometries, output = infer_with_lengths(geometries, column, target, labels.store)
                outputs.append(output)
            warn_of_edges(outputs)
            self._store_model(FittedModel(geometries, outputs, labels.several, settings=shell.settings_of(self)))
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, noise_std: Any = None, trials: Any = None, sample_weight: Any = None
    ) -> Any:
        """Add labels y of rows X to a fitted model; without one, as `fit`.

        The geometries stay as they were learned: rows that are not in the cloud are projected onto them. The posterior
        is that of all labels together, on the same candidates (of a loaded model: on those that had weight). A row of
        the cloud that has a label gets another observation; a row whose y is NaN adds nothing. Parameters are as in
        `fit`, for these labels.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, noise_std=noise_std, trials=trials, sample_weight=sample_weight)
        with shell.fitting(self):
            y = annotated.labels(X, y)
            model, X = self.model_, shell.check_rows(self, X)
            columns, targets = more_of(model.outputs, model.several, y, len(X), noise_std, trials, sample_weight)
            known = [output.rows for output in model.outputs]
            geometries, index = more_labels.with_rows(model.geometries, X, ~np.isnan(columns), known)
            complete, outputs, store = geometries.candidate_set.complete, [], Store()
            for output, labels, more in zip(model.outputs, columns.T, targets, strict=True):
                column, target = with_more(output, len(geometries.cloud), index, labels, more)
                if complete:
                    geometries, updated = infer_with_lengths(geometries, column, target, store)
                else:
                    updated = infer(more_labels.with_candidates_of(geometries, output), column, target)
                outputs.append(updated)
            warn_of_edges(outputs)
            self._store_model(replace(model, geometries=geometries, outputs=outputs))
        return self

    def _read_cloud(self, X: Any) -> Cloud:
        """X, checked, in units in which the squares of its numbers are finite and positive."""
        return shell.read_cloud(self, X, missing=self._takes_missing)

    def _settled(self, cloud: Cloud, labels: Labels) -> tuple[Labels, list[str]]:
        """The labels with the likelihoods that "auto" means, and notes about them."""
        return labels, []

    @abstractmethod
    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        """The geometries of the cloud, whose columns are in the units that the labels prefer."""

    @blocks.lazy(blocks.of_rows)
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        trials: Any = None,
    ) -> Any:
        """Mean for rows X, of the cloud or new; with their std or covariance. Lazy for a Dask array or data frame.

        Both are of a new observation, or, with include_noise=False, of the function itself. Of likelihood="binomial" an
        observation counts the successes of `trials`, a number or [rows]; None: of one, and the mean is the probability.
        """
        if return_std and return_cov:
            raise GpumError("return_std and return_cov are both True; ask for one of them")
        predictions = self._predicted(X, include_noise, trials)
        if return_cov:
            return predictions.mean, predictions.cov
        if return_std:
            moments = predictions.summary()
            return moments.mean, moments.std
        return predictions.mean

    @blocks.lazy(blocks.of_quantiles)
    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), include_noise: bool = True, trials: Any = None
    ) -> np.ndarray:
        """Quantiles of a new observation, [rows, quantiles] (one more axis for several outputs).

        With include_noise=False those of the function itself. Of likelihood="binomial" an observation of one trial is 0
        or 1: ask for those of so many `trials`, or of the probability with include_noise=False.
        """
        return self._predicted(X, include_noise, trials).quantiles(quantiles)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True, trials: Any = None
    ) -> np.ndarray:
        """Joint draws of new observations at rows X, [rows, n_samples] or, for several outputs, [rows, k, n_samples].

        With include_noise=False they are draws of the function itself.
        """
        return self._predicted(X, include_noise, trials).samples(n_samples, random_state)

    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """Gradient of the function along the surface at rows X, [rows, p] (and its standard deviations).

        Entry j is the derivative by column j where the row moves along the surface: the gradient is a vector of the
        surface, so that f changes by gradient · step on a small step along it, and not at all across it. It is that of
        the simplex in which the row is; in flat space it has all directions; on a graph it is the slope of the plane
        that fits the nearest rows best. For several outputs [rows, p, k].

        Of Matérn 1/2 kernels, whose functions have no derivative, the deviation is that of slopes over the spacing of
        rows.
        """
        mean, std = self.model_.gradient(shell.check_rows(self, X))
        return (mean, std) if checks.flag(return_std, "return_std") else mean

    def sample_functions(self, n: int = 1, random_state: Any = 0) -> list[SampledFunction]:
        """n draws of the function itself from the posterior, each a function that can be called with any rows.

        At the same rows they are jointly distributed as the draws of `sample_y(..., include_noise=False)`; in flat
        space, where they are made of random waves, up to about 2 % of the variance.
        """
        return functions(self.model_, n, random_state, partial(shell.check_rows, self))

    def sample_prior(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> np.ndarray:  # fmt: skip
        """Joint draws at rows X of what was assumed before there were labels, shaped as those of `sample_y`.

        Of a fitted estimator: geometries are those of its cloud, and mean and scale of y those of its labels. Each draw
        has a candidate, signal and noise of its own from their priors; lengths of columns, which labels learn, are
        equal. With include_noise=False they are draws of the function itself.
        """
        checks.integer(n_samples, "n_samples", 1, None, "1 is one draw")
        noise = checks.flag(include_noise, "include_noise")
        rng = np.random.default_rng(checks.random_state(random_state).randint(2**31 - 1))
        return self.model_.sample_prior(shell.check_rows(self, X), n_samples, rng, noise)

    def _predicted(self, X: Any, include_noise: bool, trials: Any) -> Predictive:
        predictions: Predictive = self.predictive(X).of_trials(trials)
        return predictions if checks.flag(include_noise, "include_noise") else predictions.of_function()

    @property
    def transduction_(self) -> np.ndarray:
        """Predictive mean for every row of the fitted cloud."""
        return self.model_.of_cloud.mean.copy()

    def predict_cloud(self, return_std: bool = False, include_noise: bool = True) -> Any:
        """Mean (and std) for every row of the fitted cloud, as `predict` returns them."""
        predictions = (
            self.model_.of_cloud if checks.flag(include_noise, "include_noise") else self.model_.of_cloud.of_function()
        )
        return (predictions.mean.copy(), predictions.std.copy()) if return_std else predictions.mean.copy()

    def score(self, X: Any, y: Any, sample_weight: Any = None, trials: Any = None) -> float:
        """R² on the rows of X whose y is not NaN; of several outputs the mean of theirs.

        Of angles 1 less the ratio of mean 1 - cos(error) to that of the mean direction. Of likelihood="binomial"
        y counts the successes of `trials`, as in `fit`, and R² is that of y/trials, each trial with the same weight.
        """
        return score(self.predictive(X).of_trials(trials), annotated.labels(X, y), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.target_tags.required = True
        return tags


def infer(geometries: Geometries, y: np.ndarray, target: Target, store: Store | None = None) -> Output:
    """The posterior of one column y [N], NaN where a row has no label."""
    known = np.flatnonzero(~np.isnan(y))
    with blas_threads(len(known)), with_jobs(geometries.kernels.n_jobs):
        labelled = _under(target, Labelled(geometries, *geometries.labelled(known)), known)
        return regress(labelled.candidate_set, labelled.at, y[known], target, known, store)


def infer_with_lengths(
    geometries: Geometries, y: np.ndarray, target: Target, store: Store
) -> tuple[Geometries, Output]:
    """As `infer`, with a length scale for every column of flat space; the geometries with the spaces of these."""
    known = np.flatnonzero(~np.isnan(y))
    with blas_threads(len(known)), with_jobs(geometries.kernels.n_jobs):
        labelled = weighed(geometries, y[known], known, target, store)
        return labelled.geometries, regress(labelled.candidate_set, labelled.at, y[known], target, known, store)


def weighed(geometries: Geometries, labels: np.ndarray, known: np.ndarray, target: Target, store: Store) -> Labelled:
    """The geometries with all candidates for labels of the cloud's rows `known`."""
    Y = as_numbers(labels, target)
    if geometries.cloud.of_terms is not None and len(known) > EXACT:
        Y, geometries = None, geometries.with_notes([f"{OF_TERMS}: the {len(known):,} labels are more than {EXACT}"])
    labelled = with_lengths(geometries, known, Y, store, target.has_normal_noise, target.priors)
    return _under(target, labelled, known)


def _under(target: Target, labelled: Labelled, known: np.ndarray) -> Labelled:
    """The candidates under the priors of a target, with all terms of the kernel."""
    candidate_set = labelled.candidate_set.under(target.priors, labelled.geometries.names)
    return with_terms(replace(labelled, candidate_set=candidate_set), known)


@dataclass(frozen=True)
class NumberScores:
    """What the labels of a regression say of geometries before all are built; see `plan.LabelScores`."""

    labels: Labels

    def evidence(self, geometries: Geometries) -> float:
        """The log evidence of the labels."""
        outputs = [infer(geometries, y, target, self.labels.store) for y, target in self.labels.scored()]
        return sum(output.posterior.log_evidence for output in outputs)

    def alone(self, geometries: Geometries) -> list[dict[str, float]]:
        """For each column of labels the log evidence of each geometry alone, by its title."""
        return [evidence_alone(geometries, y, target, self.labels.store) for y, target in self.labels.judging()]

    def left_out(self, geometries: Geometries) -> str:
        """How far each label is from what the others predict, in words."""
        errors = []
        for column, target in self.labels.scored():
            output = infer_with_lengths(geometries, column, target, self.labels.store)[1]
            if len(output.labels) < 3:
                return ""
            away = output.leave_one_out()[0] - output.labels
            if (period := target.period) is not None:
                away = (away + period / 2) % period - period / 2
            errors.append(f"{np.sqrt(np.mean(away**2)):.3g}")
        return f"the root mean square error of left-out labels is {', '.join(errors)}"


def evidence_alone(geometries: Geometries, y: np.ndarray, target: Target, store: Store) -> dict[str, float]:
    """The log evidence of the geometries with each title, alone.

    It grows in proportion to the labels: of more than choose between units it is that of as many as these, on average.
    """
    known, joint = np.flatnonzero(~np.isnan(y)), {}
    with blas_threads(len(known)), with_jobs(geometries.kernels.n_jobs):
        labelled = weighed(geometries, y[known], known, target, store)
        candidate_set, of_title = labelled.candidate_set, [member.title for member in labelled.geometries.members]
        for title in dict.fromkeys(of_title):
            candidates = [c for c in candidate_set.candidates if of_title[candidate_set.geometry_of[c.space]] == title]
            if candidates:
                alone_set = replace(candidate_set, candidates=candidates)
                posterior = regress(alone_set, labelled.at, y[known], target, known, store, False).posterior
                of_members = [p for p, other in zip(candidate_set.log_priors, of_title, strict=True) if other == title]
                joint[title] = posterior.log_evidence, logsumexp(of_members)
    of_judges = min(1.0, units.JUDGES / len(known))
    return {title: float(of_judges * (evidence - prior)) for title, (evidence, prior) in joint.items()}


def warn_of_edges(outputs: Sequence[Output]) -> None:
    """Warn where the heaviest candidate's scale is at an end of its range beyond which the kernel would still change.

    One label says nothing of the scale.
    """
    advice = {
        "low": "faster than the kernel can follow; use more eigenfunctions (n_modes), or more path starts "
        "(n_path_starts) for method='brownian'",
        "high": "so slowly that a larger max_time may be better",
    }
    for candidate in (output.posterior.best.candidate for output in outputs if len(output.labels) > 1):
        for end in candidate.open_ends:
            if candidate.at_end(end) and candidate.scales is not None:
                warnings.warn(
                    f"the scale of largest evidence, {candidate.scale:.3g} (√t of a heat kernel), is at the {end} end "
                    f"of its range {candidate.scales[0]:.3g} to {candidate.scales[1]:.3g}: the target varies "
                    f"{advice[end]}",
                    stacklevel=3,
                )
