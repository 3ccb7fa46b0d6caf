"""What regressors and the classifier have in common: functions that use the estimator's fitted model.

An estimator has parameters, checks and `fit`. `FittedEstimator` has those of these functions that all of them need as
methods; a class gets others by assigning them in its body.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..basics import checks, scaling
from ..basics.checks import GpumError
from ..fitted import Cloud, FittedModel
from ..fitted import restored as model_restored
from ..fitted import stored as model_stored
from ..inference.design import Suggestions
from ..persistence import model_io
from . import blocks, features
from .stored import fitting as fitting
from .stored import load as load
from .stored import save as save

# Attributes of a fitted estimator that describe its columns and classes.
COLUMNS = ("n_features_in_", "feature_names_in_", "encoding_", "classes_")


def is_latent_model(value: Any) -> bool:
    """Whether a parameter is a latent model."""
    if not isinstance(value, BaseEstimator):
        return False
    from .latent_base import LatentModel

    return isinstance(value, LatentModel)


def settings_of(estimator: BaseEstimator) -> dict[str, Any]:
    """A copy of the present parameters, which later changes of the estimator do not affect."""
    unfitted = lambda value: is_latent_model(value) and not hasattr(value, "chart_")
    found = estimator.get_params(deep=False)
    return {name: clone(value) if unfitted(value) else value for name, value in found.items()}


def store_model(estimator: Any, model: FittedModel) -> None:
    """Store the fitted model; the rows of a large cloud are projected onto the chart that is shown now, once."""
    model.latent  # noqa: B018
    estimator._fitted = model


def is_fitted(self: Any) -> bool:
    """Whether the estimator was fitted, or read from a file."""
    return "_fitted" in vars(self)


def _model(self: Any) -> FittedModel:
    """The fitted model: cloud, geometries, posteriors, notes. Parameters that are set later do not change it."""
    check_is_fitted(self)
    return self._fitted


model = property(_model)
notes = property(
    lambda self: list(dict.fromkeys([*features.notes(self), *self.model_.notes])),
    doc="How columns were encoded, and what was left out or could not be done as asked.",
)
log_evidence = property(lambda self: self.model_.log_evidence, doc="Of the average, or of the best setting.")
best_setting = property(lambda self: self.model_.best_setting, doc="The heaviest setting.")
geometry_weights = property(lambda self: self.model_.geometry_weights, doc="Weight of each geometry by name.")
candidates = property(lambda self: self.model_.candidates, doc="All candidates with prior, evidence and weight.")
relevance = property(
    lambda self: features.by_column(self, self.model_.relevance), doc="How much each column matters, from 0 to 1."
)
surfaces = property(
    lambda self: self.model_.surfaces, doc="The surfaces with weight, the heaviest first; no graph, no flat space."
)
latent_model = property(lambda self: self.model_.latent_model, doc="The latent model of the chart that is shown.")
chart = property(lambda self: self.model_.chart, doc="The chart of largest weight; None without one.")
latent = property(lambda self: self.model_.latent, doc="The rows of the cloud on that chart, [N, q].")


def read_cloud(
    estimator: Any, X: Any, *, min_rows: int = 2, missing: bool = False, by_unit: bool = True
) -> Cloud:  # fmt: skip
    """X, checked, in units in which squares of its numbers are finite (`by_unit`); names and encoding are stored."""
    X = checks.cloud(features.read(estimator, X), "X", min_rows=min_rows, missing=missing)
    checks.columns_read(X, "X")
    scaling.check(X, "X", features.encoded_names(estimator))
    estimator.n_features_in_ = features.count(estimator, X)
    if not by_unit:
        return Cloud(X, 1.0)
    cloud = Cloud(X, 1.0, offset=scaling.far_offsets(X))
    return replace(cloud, unit=scaling.Scaling.of(cloud.centred).unit)


def check_rows(estimator: Any, X: Any) -> np.ndarray:
    """Rows like those of the fitted cloud, as an array [n, p]."""
    check_is_fitted(estimator)
    return features.like_fitted(estimator, X)


def predictive(self: Any, X: Any) -> Any:
    """Predictions for rows X, of the cloud or new; the rows are projected once."""
    found = self.model_.predictive(check_rows(self, X))
    if found.far.any():
        warnings.warn(
            f"{int(found.far.sum())} row(s) of X are far from the fitted surface, the first is row "
            f"{int(np.flatnonzero(found.far)[0])}: in geometries with more than half of the weight their prediction is "
            "the prior's",
            stacklevel=3,
        )
    return found


def mime_bundle(self: Any, **kwargs: Any) -> dict[str, Any]:
    """The estimator in a notebook: scikit-learn's diagram, and of a fitted one the table of its fitted model."""
    found = BaseEstimator._repr_mimebundle_(self, **kwargs)
    if "text/html" in found:
        found["text/html"] += _table(self)
    return found


def html(self: Any) -> str:
    """As `mime_bundle`, for programs that ask for HTML alone."""
    return BaseEstimator._repr_html_inner(self) + _table(self)


def _table(estimator: Any) -> str:
    return estimator.model_._repr_html_() if is_fitted(estimator) else ""


@blocks.lazy(lambda self: blocks.Answer(dtype=np.dtype(bool)))
def far_from_surface(self: Any, X: Any) -> np.ndarray:
    """Which rows X have the prior in geometries with more than half of the weight, far from these, [rows] of bool."""
    return self.model_.predictive(check_rows(self, X)).far


def suggest(
    self: Any, n: int = 1, criterion: str = "variance", candidates: Any = None, *, goal: str = "information",
    level: float | None = None,
) -> np.ndarray:  # fmt: skip
    """The n rows without a label whose labels would tell most, best first; by default rows of the fitted cloud.

    Parameters
    ----------
    n : how many; each is chosen as if those before it had labels, so that no two give the same information.
    criterion : "variance" (default): what lowers the average predictive variance over the cloud most;
        "information": the row whose label tells most of the functions themselves, wherever it is.
    candidates : what to choose from: indices of rows of the cloud, or a mask of it; None: every row that lacks a label;
        or rows X [m, p], of the cloud or not, and what is returned are indices among these.
    goal : "information" (default): to know the function everywhere, by `criterion`; "maximum" or "minimum": to find a
        row with a larger (smaller) value than those known (expected improvement); "level": to know on which side of
        `level` the function is. Goals but the first are for one column of y that is no class and no angle.
    level : of goal="level", in units of y.
    """
    return self.suggestions(n, criterion, candidates, goal=goal, level=level).rows


def suggestions(
    self: Any, n: int = 1, criterion: str = "variance", candidates: Any = None, *, goal: str = "information",
    level: float | None = None,
) -> Suggestions:  # fmt: skip
    """As `suggest`, with the gain expected of each label, and whether more labels still help (`enough`)."""
    if hasattr(candidates, "columns") or np.ndim(candidates) == 2:
        candidates = check_rows(self, candidates)
    return self.model_.suggestions(n, criterion, candidates, goal, level)


def coordinates(estimator: Any, X: Any, return_std: bool) -> Any:
    """Latent coordinates of rows X (and their standard deviations) on the chart of largest weight."""
    found = estimator.model_.coordinates(check_rows(estimator, X))
    return found if return_std else found[0]


def inverse_transform(self: Any, Z: Any, return_std: bool = False) -> Any:
    """Rows [n, p] of the surface at coordinates Z [n, q] of `transform` (and how well the surface is known there)."""
    latent, cloud = self.model_.latent_model, self.model_.cloud
    if latent is None:
        raise GpumError("there is no learned chart: rows of a known chart are coordinates; fit with geometry='chart'")
    found = latent.inverse_transform(Z, return_std)
    if not return_std:
        return cloud.unscaled(found)
    return cloud.unscaled(found[0]), found[1] * cloud.unit


def file_state(self: Any) -> dict[str, Any]:
    """What a model file holds of an estimator."""
    columns = {name: value for name, value in vars(self).items() if name in COLUMNS}
    return {**self._fitted.settings, **columns, "stored_": model_stored(self._fitted)}


def restored(self: Any) -> None:
    """Complete an estimator that was read from a file; a GpumError if its contents are not consistent."""
    held = vars(self).pop("stored_", None)
    if not isinstance(held, FittedModel):
        raise GpumError("its settings are not there")
    if held.cloud.X.shape[1] != features.width(self):
        raise GpumError(f"its cloud has shape {held.cloud.X.shape}, and {features.width(self)} features")
    self._fitted = model_restored(held)


def file_summary(self: Any) -> dict[str, Any]:
    """What `gpum info` says of the estimator."""
    names = {"features": list(map(str, self.feature_names_in_))} if hasattr(self, "feature_names_in_") else {}
    own = {"n_features": self.n_features_in_, "notes": self.notes_, **names}
    return {"kind": type(self).__name__, **self.model_.summary(), **own}


def with_table(self: Any) -> model_io.Fitted:
    """The estimator with the table it was fitted to, columns named by their numbers."""
    X = self.model_.cloud.X
    y = np.full((len(X), len(self.model_.outputs)), np.nan)
    for k, output in enumerate(self.model_.outputs):
        y[output.rows, k] = output.labels
    targets = ["y"] if y.shape[1] == 1 else [f"y_{k + 1}" for k in range(y.shape[1])]
    about = {"settings": dict(self.model_.settings)}
    return model_io.Fitted(self, features.names(self), targets, X, y, [str(i + 1) for i in range(len(X))], about)


class FittedEstimator(BaseEstimator):
    """The attributes and methods of every fitted regressor and classifier."""

    model_: Any = model
    __sklearn_is_fitted__ = is_fitted
    notes_: Any = notes
    log_evidence_: Any = log_evidence
    best_setting_: Any = best_setting
    candidates_: Any = candidates
    save, load = save, load
    predictive = predictive
    far_from_surface = far_from_surface
    suggest, suggestions = suggest, suggestions
    _repr_mimebundle_, _repr_html_inner = mime_bundle, html
    __gpum_state__, __gpum_restored__ = file_state, restored
    __gpum_summary__, __gpum_table__ = file_summary, with_table
