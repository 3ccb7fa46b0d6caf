"""Input checks, and the exceptions of this library.

Every error that a user can correct is a `GpumError`, with a message that names the argument, what it was and what to
do. It is a `ValueError`, as scikit-learn's own are. Any other exception that leaves the library is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

TAKE_NAN = "only GPUMRegressor, GPUMClassifier, LatentGPRegressor and latent models take NaN, as a missing reading"


class GpumError(ValueError):
    """A request cannot be fulfilled; the message says what to change."""


class GpumTypeError(GpumError, TypeError):
    """An argument has a wrong type, such as text instead of a number."""


class ForkedProcess(GpumError):
    """This process cannot compute, whatever the arguments: it was forked from one that had computed with JAX."""


class NoSurface(GpumError):
    """This cloud has no geometry of the requested kind; if there are other geometries, it is left out with a note."""


def cloud(
    X: Any, name: str = "X", min_rows: int = 1, columns: int | None = None, missing: bool = False
) -> np.ndarray:  # fmt: skip
    """X as a finite float64 array [N, p] in C order, with at least `min_rows` rows (and `columns` columns).

    With `missing`, NaN marks a missing reading.
    """
    from scipy.sparse import issparse  # imported here, so that commands without it start faster

    if issparse(X):
        raise GpumError(
            f"{name} is a sparse matrix; pass {name}.toarray(), or better, of thousands of genes or words, a few dozen "
            "principal components (sklearn.decomposition.TruncatedSVD)"
        )
    try:
        # A pandas column that may hold NA becomes an array of objects, unless a value for NA is given; pandas 3.0
        # refuses that value for whole numbers, so it is given only where something is missing.
        gaps = hasattr(X, "isna") and bool(np.any(X.isna()))
        X = X.to_numpy(na_value=np.nan) if gaps else np.asarray(X)
        if X.dtype.kind not in "biuf":
            X = X.astype(float) if X.dtype.kind == "O" else _refuse_text(X, name)
    except (TypeError, ValueError) as error:
        kind = GpumTypeError if isinstance(error, TypeError) else GpumError
        raise kind(f"{name} must hold numbers only, but {error}; encode or drop such columns") from None
    if X.ndim != 2:
        raise GpumError(
            f"{name} must have two dimensions (rows, columns), got shape {X.shape}; "
            f"Reshape your data: {name}.reshape(-1, 1) for a single column, {name}.reshape(1, -1) for a single row"
        )
    if X.shape[1] == 0:
        raise GpumError(f"{name} has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required; add columns")
    # C order, which data frames do not have, so that sums are rounded in the same way; -0.0 becomes 0.0.
    X = np.array(X, np.float64, order="C") + 0.0
    bad = np.isinf(X) if missing else ~np.isfinite(X)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        entries = "entry" if bad.sum() == 1 else "entries"
        raise GpumError(
            f"{name} has {int(bad.sum())} {'infinite' if missing else 'NaN or infinite'} {entries}, the first at row "
            f"{row}, column {column}; "
            + ("correct them, or mark them as missing by NaN" if missing else f"remove or fill them; {TAKE_NAN}")
        )
    if missing:
        X[np.isnan(X)] = np.nan
        empty = np.isnan(X).all(1)
        if empty.any():
            raise GpumError(
                f"{name} has no reading at all (all NaN) in row {int(empty.argmax())}; leave out such rows, about "
                "which nothing is known"
            )
    if len(X) < min_rows:
        raise GpumError(
            f"{name} has {len(X)} row(s) (n_samples = {len(X)}), but at least {min_rows} are needed; add rows"
        )
    if columns is not None and X.shape[1] != columns:
        raise GpumError(
            f"{name} has {counted(X.shape[1], 'column')}, but the model was fitted with {columns}; "
            "pass the same columns in the same order"
        )
    return X


def columns_read(X: np.ndarray, name: str = "X") -> None:
    """Refuse a cloud with a column that is NaN in every row."""
    empty = np.isnan(X).all(0)
    if empty.any():
        raise GpumError(
            f"{name} has no reading at all (all NaN) in column {int(empty.argmax())}; leave out such columns, from "
            "which nothing can be learned"
        )


def rows_for(X: np.ndarray, dim: int, name: str = "X") -> None:
    """Refuse a cloud with too few rows for a surface of a dimension."""
    n = len(X)
    if n < dim + 2:
        raise NoSurface(
            f"{name} has {n} row(s) (n_samples = {n}), but a surface of dimension {dim} needs at least {dim + 2}; "
            "add rows"
        )


def _refuse_text(X: np.ndarray, name: str) -> np.ndarray:
    if X.dtype.kind == "c":
        raise GpumError("Complex data not supported: its entries are complex numbers")
    raise GpumError(f"its entries are of type {X.dtype}")


def counted(n: int, noun: str) -> str:
    """A number of things in words: 1 row, 2 rows."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def shown(value: Any) -> str:
    """A value for messages; NumPy numbers, also those in a list, are shown as plain numbers."""
    if isinstance(value, list | tuple):
        inner = ", ".join(map(shown, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return repr(value.item() if isinstance(value, np.generic) else value)


def integer(value: Any, name: str, low: int, high: int | None, advice: str) -> int:
    """value as an int in [low, high]."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < low or (high is not None and int(value) > high):
        span = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        span = str(low) if low == high else span
        raise GpumError(f"{name} must be {span}, got {shown(value)}; {advice}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """value as a bool; 0 and 1 count as one."""
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise GpumError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def jobs(value: Any) -> None:
    """Check `n_jobs`: it must be None, or a whole number other than 0."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and (not whole or value == 0):
        raise GpumError(
            f"n_jobs must be None or a whole number other than 0, got {shown(value)}; -1 means all processors"
        )


def positive(value: Any, name: str, advice: str, zero: bool = False) -> float:
    """value as a finite positive (or, with `zero`, non-negative) float."""
    fits = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    if not fits or float(value) < 0 or (float(value) == 0 and not zero):
        raise GpumError(
            f"{name} must be a {'non-negative' if zero else 'positive'} number, got {shown(value)}; {advice}"
        )
    return float(value)


def positives(values: Any, name: str, advice: str) -> np.ndarray:
    """A number or a sequence of numbers, all finite and positive, as float64 [n]."""
    try:
        numbers = np.atleast_1d(np.asarray(values, float))
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.ndim != 1 or not len(numbers) or not np.all(np.isfinite(numbers)) or np.any(numbers <= 0):
        raise GpumError(f"{name} must be positive and finite, got {shown(values)}; {advice}")
    return numbers


def random_state(value: Any) -> np.random.RandomState:
    """A generator of random numbers made from what users call `random_state`: None, a seed or a generator."""
    from sklearn.utils import check_random_state

    try:
        return check_random_state(value)
    except (TypeError, ValueError):
        raise GpumError(
            f"random_state must be None, a whole number from 0 to {2**32 - 1} or a numpy.random.RandomState, "
            f"got {value!r}; give a whole number for a result that can be repeated"
        ) from None


def option(value: Any, name: str, known: Iterable[str], also: str = "") -> str:
    """value, if it is one of the known words; the error suggests a similar one. `also` names other allowed values."""
    known = list(known)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "use one of these"
    words = ", ".join(map(repr, known)) + (f", or {also}" if also else "")
    raise GpumError(f"{name} must be one of {words}, got {shown(value)}; {hint}")
