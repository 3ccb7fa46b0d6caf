"""What all estimators have in common: model files, fits that fail without a trace, attributes of the fitted model.

An estimator has parameters, checks and `fit`; all that follows is a question to its fitted model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..basics import checks, scaling
from ..basics.checks import GpumError, GpumTypeError
from ..fitted import Cloud, FittedModel, restored, stored
from ..inference.design import Suggestions
from ..persistence import model_io
from ..persistence.store import Store
from . import blocks, features

NOT_RESULTS: tuple[str, ...] = ("n_jobs", "verbose", "warm_start", "checkpoint")  # settings on which no number depends
# Attributes of a fitted estimator that describe its columns and classes.
COLUMNS = ("n_features_in_", "feature_names_in_", "encoding_", "classes_")


@contextmanager
def fitting(estimator: Any) -> Iterator[None]:
    """The context of a fit: if it fails, the estimator is as it was before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def open_store(estimator: Any) -> Store:
    """A store for a fit, with the folder that the estimator's `checkpoint` names."""
    if estimator.checkpoint is not None and not isinstance(estimator.random_state, Integral):
        raise GpumError(
            f"checkpoint is {str(estimator.checkpoint)!r}, but random_state is {estimator.random_state!r}: another run "
            "would not be the same; give random_state a whole number"
        )
    return Store.open(estimator.checkpoint)


def is_latent_model(value: Any) -> bool:
    """Whether a parameter is a latent model."""
    if not isinstance(value, BaseEstimator):
        return False
    from .latent_base import LatentModel

    return isinstance(value, LatentModel)


def settings_of(estimator: BaseEstimator) -> dict[str, Any]:
    """A copy of the present parameters, which later changes of the estimator do not affect."""
    unfitted = lambda value: is_latent_model(value) and not hasattr(value, "chart_")
    params = estimator.get_params(deep=False)
    return {name: clone(value) if unfitted(value) else value for name, value in params.items()}


def read_cloud(
    estimator: Any, X: Any, *, min_rows: int = 2, missing: bool = False, by_unit: bool = True,
    seen: Callable[[], dict[str, Any]] = dict,
) -> Cloud:  # fmt: skip
    """X, checked, in units in which squares of its numbers are finite (`by_unit`); names and encoding are stored.

    `seen` says, once the names are known, which columns geometries and terms of the kernel see.
    """
    X = checks.cloud(features.read(estimator, X), "X", min_rows=min_rows, missing=missing)
    checks.columns_read(X, "X")
    scaling.check(X, "X", features.encoded_names(estimator))
    estimator.n_features_in_ = features.count(estimator, X)
    cloud = Cloud(X, 1.0, **seen())
    cloud._values_of_terms(X)
    if not by_unit:
        return cloud
    cloud = replace(cloud, offset=scaling.far_offsets(cloud.centred))
    return replace(cloud, unit=scaling.Scaling.of(cloud.centred).unit)


def check_rows(estimator: FittedEstimator, X: Any) -> np.ndarray:
    """Rows like those of the fitted cloud, as an array [n, p]."""
    estimator.model_  # noqa: B018 (refuses an estimator that is not fitted)
    return features.like_fitted(estimator, X)


class FileEstimator(BaseEstimator):
    """An estimator that can be written to a model file and read from it."""

    _takes_missing = False  # whether rows may lack readings (NaN)

    def save(self, path: Any, *, force: bool = False, max_mb: float | None = None) -> None:
        """Write the fitted estimator to a file, completely or not at all.

        An existing file is replaced only with `force`. The file holds numbers and text, no code: the fitted model and
        the parameters of the fit. A further `fit` of the loaded estimator learns new geometries.

        `max_mb` limits the size of the file, in 10⁶ bytes; if it would be larger, nothing is written.
        """
        check_is_fitted(self)
        model_io.write(path, self, force=force, max_mb=max_mb)

    @classmethod
    def load(cls, path: Any, *, ready: bool = False) -> Any:
        """Read an estimator that `save` or `gpum fit` wrote; no code of the file runs.

        A regressor or classifier is ready at once. With `ready` a latent model compiles what its first projection
        needs.
        """
        checks.flag(ready, "ready")
        content: Any = model_io.read(path)
        estimator = content.model if isinstance(content, model_io.Fitted) else content
        if not isinstance(estimator, cls):
            kind = type(estimator).__name__
            raise GpumTypeError(f"{path} holds a {kind}, not a {cls.__name__}; load it with its own class")
        if ready and hasattr(estimator, "__gpum_ready__"):
            estimator.__gpum_ready__()
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing
        return tags


class FittedEstimator(FileEstimator):
    """The attributes and methods of every fitted regressor and classifier."""

    _fitted: FittedModel

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator was fitted, or read from a file."""
        return "_fitted" in vars(self)

    def _store_model(self, model: FittedModel) -> None:
        """Store the fitted model; the rows of a large cloud are projected onto the chart that is shown now, once."""
        model.latent  # noqa: B018
        self._fitted = model

    @property
    def model_(self) -> Any:
        """The fitted model: cloud, geometries, posteriors, notes. Parameters that are set later do not change it."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # which raises the error; it also reads tags, which takes longer than a row
        return self._fitted

    @property
    def notes_(self) -> list[str]:
        """How columns were encoded, and what was left out or could not be done as asked."""
        return list(dict.fromkeys([*features.notes(self), *self.model_.notes]))

    @property
    def log_evidence_(self) -> Any:
        """Of the average, or of the best candidate."""
        return self.model_.log_evidence

    @property
    def best_setting_(self) -> Any:
        """The heaviest candidate."""
        return self.model_.best_setting

    @property
    def candidates_(self) -> Any:
        """All candidates with prior, evidence and weight."""
        return self.model_.candidates

    def predictive(self, X: Any) -> Any:
        """Predictions for rows X, of the cloud or new; the rows are projected once."""
        predictions = self.model_.predictive(check_rows(self, X))
        if (far := predictions.far).any():
            warnings.warn(
                f"{int(far.sum())} row(s) of X are far from the fitted surface, the first is row "
                f"{int(np.flatnonzero(far)[0])}: in geometries with more than half of the weight their prediction is "
                "the prior's",
                stacklevel=3,
            )
        return predictions

    @blocks.lazy(lambda self: blocks.Answer(dtype=np.dtype(bool)))
    def far_from_surface(self, X: Any) -> np.ndarray:
        """Which rows X have the prior in geometries with more than half of the weight, since they are far, [rows]."""
        return self.model_.predictive(check_rows(self, X)).far

    def suggest(
        self, n: int = 1, criterion: str = "variance", candidates: Any = None, *, goal: str = "information",
        level: float | None = None,
    ) -> np.ndarray:  # fmt: skip
        """The n rows without a label whose labels would tell most, best first; by default rows of the fitted cloud.

        Parameters
        ----------
        n : how many; each is chosen as if those before it had labels, so that no two give the same information.
        criterion : "variance" (default): what lowers the average predictive variance over the cloud most;
            "information": the row whose label tells most of the functions themselves, wherever it is.
        candidates : what to choose from: indices of rows of the cloud, or a mask of it; None: every row that lacks a
            label; or rows X [m, p], of the cloud or not, and what is returned are indices among these.
        goal : "information" (default): to know the function everywhere, by `criterion`; "maximum" or "minimum": to find
            a row with a larger (smaller) value than those known (expected improvement); "level": to know on which side
            of `level` the function is. Goals but the first are for one column of y that is no class and no angle.
        level : of goal="level", in units of y.
        """
        return self.suggestions(n, criterion, candidates, goal=goal, level=level).rows

    def suggestions(
        self, n: int = 1, criterion: str = "variance", candidates: Any = None, *, goal: str = "information",
        level: float | None = None,
    ) -> Suggestions:  # fmt: skip
        """As `suggest`, with the gain expected of each label, and whether more labels still help (`enough`)."""
        if hasattr(candidates, "columns") or np.ndim(candidates) == 2:
            candidates = check_rows(self, candidates)
        return self.model_.suggestions(n, criterion, candidates, goal, level)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The estimator in a notebook: scikit-learn's diagram, and of a fitted one the table of its fitted model."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._html_of_model()
        return bundle

    def _repr_html_inner(self) -> str:
        """The same, for programs that ask for HTML alone."""
        return super()._repr_html_inner() + self._html_of_model()

    def _html_of_model(self) -> str:
        return self.model_._repr_html_() if self.__sklearn_is_fitted__() else ""

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        columns = {name: value for name, value in vars(self).items() if name in COLUMNS}
        return {**self._fitted.settings, **columns, "stored_": stored(self._fitted)}

    def __gpum_restored__(self) -> None:
        """Complete an estimator that was read from a file; a GpumError if its contents are not consistent."""
        model: Any = self.__dict__.pop("stored_", None)
        if not isinstance(model, FittedModel):
            raise GpumError("its settings are not there")
        if model.cloud.X.shape[1] != features.width(self):
            raise GpumError(f"its cloud has shape {model.cloud.X.shape}, and {features.width(self)} features")
        self._fitted = restored(model)

    def __gpum_summary__(self) -> dict[str, Any]:
        """What `gpum info` says of the estimator."""
        names = {"features": list(map(str, self.feature_names_in_))} if hasattr(self, "feature_names_in_") else {}
        about = {"n_features": self.n_features_in_, "notes": self.notes_, **names}
        return {"kind": type(self).__name__, **self.model_.summary(), **about}

    def __gpum_table__(self) -> model_io.Fitted:
        """The estimator with the table it was fitted to, columns named by their numbers."""
        X = self.model_.cloud.X
        y = np.full((len(X), len(self.model_.outputs)), np.nan)
        for k, output in enumerate(self.model_.outputs):
            y[output.rows, k] = output.labels
        targets = ["y"] if y.shape[1] == 1 else [f"y_{k + 1}" for k in range(y.shape[1])]
        about = {"settings": dict(self.model_.settings)}
        return model_io.Fitted(self, features.names(self), targets, X, y, [str(i + 1) for i in range(len(X))], about)


class ChartEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FittedEstimator):
    """Regressors and classifiers that may have a chart, so that rows have latent coordinates."""

    @property
    def latent_model_(self) -> Any:
        """The latent model of the chart that is shown."""
        return self.model_.latent_model

    @property
    def latent_(self) -> Any:
        """The rows of the cloud on that chart, [N, q]; None without one."""
        return self.model_.latent

    @blocks.lazy(blocks.of_chart)
    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X, fitted or new (and their sds), on the chart of largest weight."""
        coordinates = self.model_.coordinates(check_rows(self, X))
        return coordinates if return_std else coordinates[0]

    @property
    def _n_features_out(self) -> int:
        return 0 if self.latent_ is None else self.latent_.shape[1]
