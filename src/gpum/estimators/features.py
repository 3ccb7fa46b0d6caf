"""The columns that an estimator was fitted with: how many there were, their names, and how words became numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..basics import annotated, checks
from ..basics.checks import GpumError
from ..basics.encoding import Columns, Encoding


def read(estimator: Any, X: Any) -> Any:
    """X; if it is a data frame with columns that are not numbers, encoded as numbers [N, p].

    Names of the columns are stored as `feature_names_in_`, the encoding, where there is one, as `encoding_`.
    """
    vars(estimator).pop("encoding_", None)
    if annotated.is_annotated(X):
        X = annotated.cell_columns(X)
        if (advice := annotated.cell_advice(X)) is not None:
            warnings.warn(advice, stacklevel=5)
    if isinstance(X, Columns):
        table: Columns | None = X
        estimator.feature_names_in_ = np.array(X.names, object)
    else:
        validate_data(estimator, X, reset=True, skip_check_array=True, ensure_2d=False)
        table = Columns.of(X) if hasattr(X, "columns") and not _are_numbers(X) else None
    if table is None or table.are_numbers or not table.cells or not len(table):
        return X
    encoding = Encoding.of(table, estimator._takes_missing)
    if not encoding.is_plain:
        estimator.encoding_ = encoding
    return _encoded(estimator, encoding, table)


def count(estimator: Any, X: np.ndarray) -> int:
    """How many columns the table of the fit had; X are its rows as numbers."""
    encoding = getattr(estimator, "encoding_", None)
    return X.shape[1] if encoding is None else len(encoding.columns)


def width(estimator: Any) -> int:
    """How many columns of numbers a fitted estimator needs."""
    encoding = getattr(estimator, "encoding_", None)
    return estimator.n_features_in_ if encoding is None else len(encoding.names)


def positions(estimator: Any, columns: Sequence[str | int]) -> dict[str | int, tuple[int, ...]]:
    """The columns of numbers that each of the user's columns became, given by name or number."""
    n = estimator.n_features_in_
    known = list(map(str, getattr(estimator, "feature_names_in_", ())))
    encoding, numbers = getattr(estimator, "encoding_", None), {}
    for column in columns:
        if isinstance(column, str) and column not in known:
            has = f"its columns are {_listed(known)}" if known else "its columns have no names; use numbers from 0"
            raise GpumError(f"kernel names the column {column!r}, which X does not have: {has}")
        number = known.index(column) if isinstance(column, str) else int(column)
        if number >= n:
            raise GpumError(f"kernel names column {number}, but X has {n} columns, which are counted from 0")
        numbers[column] = (
            (number,) if encoding is None else tuple(np.flatnonzero(np.equal(encoding.owners, number)).tolist())
        )
    return numbers


def encoded_names(estimator: Any) -> list[str] | None:
    """Names of the columns of numbers, "colour=red" for a category; None where no column was encoded."""
    encoding = getattr(estimator, "encoding_", None)
    return None if encoding is None else encoding.names


def names(estimator: Any) -> list[str]:
    """Names of the encoded columns of a fitted estimator; numbers where the columns have no names."""
    encoded = encoded_names(estimator)
    if encoded is not None:
        return encoded
    return [
        str(n) for n in getattr(estimator, "feature_names_in_", [f"X_{j + 1}" for j in range(estimator.n_features_in_)])
    ]


def indicators(estimator: Any) -> np.ndarray | None:
    """Which columns of numbers stand for a category, [p] of bool; None where no column was encoded."""
    encoding = getattr(estimator, "encoding_", None)
    return None if encoding is None else encoding.indicators


def by_column(estimator: Any, values: np.ndarray | None) -> np.ndarray | None:
    """Values of the encoded columns [..., p] as values of the user's columns: the largest where one became several."""
    encoding = getattr(estimator, "encoding_", None)
    if encoding is None or values is None:
        return values
    return np.maximum.reduceat(values, np.unique(encoding.owners, return_index=True)[1], axis=-1)


def notes(estimator: Any) -> list[str]:
    """How the columns of a fitted estimator that are not numbers were encoded, in sentences."""
    encoding = getattr(estimator, "encoding_", None)
    return [] if encoding is None else encoding.notes


def like_fitted(estimator: Any, X: Any) -> np.ndarray:
    """Rows X, checked to have the columns of the fit, as numbers; other names or another order are an error."""
    if type(X) is not np.ndarray and annotated.is_annotated(X):
        X = annotated.like(X, names(estimator))
    if isinstance(X, Columns):
        known = list(getattr(estimator, "feature_names_in_", X.names))
        if X.names != known:
            raise GpumError(f"X has columns {_listed(X.names)}, but the model was fitted with {_listed(known)}")
    elif type(X) is not np.ndarray or hasattr(estimator, "feature_names_in_"):  # there are names to compare
        validate_data(estimator, X, reset=False, skip_check_array=True, ensure_2d=False)
    encoding = getattr(estimator, "encoding_", None)
    if encoding is not None:
        table = Columns.of(X)
        if table is None or len(table.cells) != len(encoding.columns):
            shape = np.shape(X) if table is None else (len(table), len(table.cells))
            raise GpumError(
                f"X has shape {shape}, but {type(estimator).__name__} was fitted with a table of "
                f"{checks.counted(len(encoding.columns), 'column')}; pass a table with the same columns"
            )
        return checks.cloud(_encoded(estimator, encoding, table), "X", missing=estimator._takes_missing)
    rows = checks.cloud(X, "X", missing=True)
    if np.isnan(rows).any() and not estimator._takes_missing:
        rows = checks.cloud(X, "X")  # which says what to do about them
    check_count(estimator, rows.shape[1])
    return rows


def check_count(estimator: Any, count: int) -> None:
    """Refuse rows with more or fewer columns than in the fit."""
    if count != estimator.n_features_in_:
        raise GpumError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input; pass the columns of the fitted cloud in the same order"
        )


def check_names(estimator: Any, frame: Any) -> None:
    """Refuse a data frame whose columns have other names than in the fit, or another order or number."""
    validate_data(estimator, frame, reset=False, skip_check_array=True, ensure_2d=False)
    check_count(estimator, frame.shape[1])


def same_columns(estimator: BaseEstimator, other: BaseEstimator) -> None:
    """Refuse two estimators that were fitted with columns of other names, in another order or encoded otherwise."""
    ours, theirs = (getattr(one, "feature_names_in_", None) for one in (estimator, other))
    if ours is not None and theirs is not None and list(ours) != list(theirs):
        raise GpumError(
            f"X has columns {_listed(ours)}, but the given latent "
            "model was fitted with others, or in another order; pass the columns that it was fitted with"
        )
    ours, theirs = (getattr(one, "encoding_", None) for one in (estimator, other))
    if theirs is not None and ours != theirs:
        raise GpumError(
            "the columns of X that are not numbers have other categories or dates than in the fit of the given latent "
            "model; fit it with the same rows"
        )


def _encoded(estimator: Any, encoding: Encoding, table: Columns) -> np.ndarray:
    """The columns of a table as numbers; where missing readings are refused, the error names the column."""
    numbers = encoding.encoded(table)
    gaps = np.isnan(numbers)
    if gaps.any() and not estimator._takes_missing:
        row, column = map(int, np.argwhere(gaps)[0])
        name = encoding.columns[encoding.owners[column]].name
        raise GpumError(f"column {name!r} of X has no value in row {row}; remove or fill it; {checks.TAKE_NAN}")
    return numbers


def _are_numbers(frame: Any) -> bool:
    """Whether the columns of a pandas data frame are numbers by their types."""
    return all(getattr(dtype, "kind", "O") in "biuf" for dtype in frame.dtypes)


def _listed(names: Any) -> str:
    return ", ".join(map(str, names[:5])) + ", ..." * (len(names) > 5)
