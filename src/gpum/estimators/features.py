"""The columns that an estimator was fitted with: how many there were, and what they were called."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from ..basics import checks
from ..basics.checks import GpumError


def remember(estimator: BaseEstimator, X: Any) -> None:
    """Keep the column names of X, if it is a data frame with names, as `feature_names_in_`."""
    validate_data(estimator, X, reset=True, skip_check_array=True, ensure_2d=False)


def like_fitted(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """Rows X, checked to have the columns of the fit; other names, or another order, are scikit-learn's errors."""
    validate_data(estimator, X, reset=False, skip_check_array=True, ensure_2d=False)
    X = checks.cloud(X, "X", missing=get_tags(estimator).input_tags.allow_nan)
    if X.shape[1] != estimator.n_features_in_:
        raise GpumError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input; pass the columns of the fitted cloud in the same order"
        )
    return X


def same_names(estimator: BaseEstimator, other: BaseEstimator) -> None:
    """Refuse two estimators that were fitted with columns of other names, or in another order."""
    ours, theirs = (getattr(one, "feature_names_in_", None) for one in (estimator, other))
    if ours is not None and theirs is not None and list(ours) != list(theirs):
        raise GpumError(
            f"X has columns {', '.join(map(str, ours[:5]))}{', ...' if len(ours) > 5 else ''}, but the given latent "
            "model was fitted with others, or in another order; pass the columns that it was fitted with"
        )
