"""Convert rows from the units of the data to those of the model, however large or small the numbers are.

The model does not depend on the scale, but float64 does: the square of 1e-200 is 0, that of 1e200 is infinite. Numbers
are therefore divided by a power of two before they are squared, which causes no rounding.

    rows = (S - offset) / unit / scale,    unit = 1 unless the cloud's spread is outside COMFORTABLE

Lengths on the chart are in units of `unit`, so that its metric, a square, is finite and positive too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checks import GpumError

COMFORTABLE = (1e-30, 1e30)  # a spread whose powers up to the tenth (volumes in five dimensions) are ordinary numbers
LARGEST = 1e307  # differences of larger numbers may be infinite
# If a row is farther from the median than the others by this factor, differences of the others are lost to rounding.
BLINDING = float(1 / np.sqrt(np.finfo(float).eps))
FAR_FROM_ZERO = 1e6  # times its range: a column that is farther from 0 is shifted
FARTHEST = 1e6  # in units of the model; new rows beyond it are projected by their direction only


@dataclass(frozen=True)
class Scaling:
    """Converts rows of the data into rows of the model."""

    unit: float
    offset: np.ndarray  # in units of the data, [p]
    scale: Any  # in units of `unit`: a number, or one for each column

    @classmethod
    def of(cls, S: np.ndarray, scale: str = "none", fixed: np.ndarray | None = None) -> Scaling:
        """The scaling of a cloud: its mean, and one factor for the whole cloud (root mean variance) or for each column.

        `scale` is "none", "standard" or "robust"; see `spreads` for the last two. Columns that are `fixed`, [p] of
        bool, keep their unit.

        NaN is a missing reading, here and below.
        """
        whole = not np.isnan(S).any()  # else readings are missing
        mean, most = (np.mean, np.max) if whole else (np.nanmean, np.nanmax)
        power = _power(most(np.abs(S)))
        offset = mean(S / power, axis=0) * power
        centred = S - offset
        spread = most(np.abs(centred))
        unit = 1.0 if COMFORTABLE[0] <= spread <= COMFORTABLE[1] else float(_power(spread))
        centred = centred / unit
        if scale == "none":
            return cls(unit, offset, float(np.sqrt(mean(centred**2))))
        of_columns = spreads(centred, robust=scale == "robust")
        return cls(unit, offset, of_columns if fixed is None else np.where(fixed, 1 / unit, of_columns))

    def rows(self, S: np.ndarray) -> np.ndarray:
        """S [n, p] in the units of the model."""
        return (S - self.offset) / self.unit / self.scale

    def near_rows(self, S: np.ndarray) -> np.ndarray:
        """The same, but rows beyond FARTHEST are moved to that distance, along their direction."""
        rows = self.rows(S)
        away = np.fmax.reduce(np.abs(rows), axis=1, keepdims=True)
        return rows / np.maximum(away / FARTHEST, 1.0)


def spreads(X: np.ndarray, *, robust: bool = False, constant: float = 1.0) -> np.ndarray:
    """Standard deviation of each column of X [N, p], or 0.74 of its interquartile range (`robust`), [p].

    A column that does not vary (or, if robust, has the same number in half of its rows and no spread else) has the
    value `constant`. NaN is a missing reading.
    """
    with np.errstate(all="ignore"):
        power = _power(np.nanmax(np.abs(X), axis=0))
        scaled = X / power
        spread = np.nanstd(scaled, axis=0)
        if robust:
            low, high = np.nanquantile(scaled, [0.25, 0.75], axis=0)
            spread = np.where(high > low, 0.7413 * (high - low), spread)
        spread = spread * power
    varies = (spread > 0) & np.isfinite(spread) & (np.nanmax(X, axis=0) > np.nanmin(X, axis=0))
    return np.where(varies, spread, constant)


def far_offsets(X: np.ndarray) -> np.ndarray | float:
    """The least number of each column that is constant, or far from 0 beside its range; 0 for other columns, [p].

    After they are subtracted, rounding no longer hides differences of rows beside a large column (a time in seconds).
    One 0 stands for all columns if there is no such column.
    """
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    power = _power(np.maximum(np.abs(low), np.abs(high)))
    far = (high / power - low / power) * FAR_FROM_ZERO < 1.0
    return np.where(far, low, 0.0) if far.any() else 0.0


def check(S: np.ndarray, name: str = "X", columns: Sequence[str] | None = None) -> None:
    """Refuse a cloud with a number so large that the other rows cannot be distinguished in float64.

    `columns` are names of the columns for messages, which else count them.
    """
    row, column = map(int, np.unravel_index(np.nanargmax(np.abs(S)), S.shape))
    if abs(S[row, column]) > LARGEST:
        raise GpumError(
            f"{name} has {S[row, column]:.3g} at row {row}, {_where(column, columns)}, and differences of such numbers "
            f"are infinite; correct it, or divide {name} by 1e10"
        )
    T = S / _power(np.nanmax(np.abs(S)))
    away = np.abs(T - (np.nanmedian(T, axis=0) if np.isnan(S).any() else np.median(T, axis=0)))
    far = np.fmax.reduce(away, axis=1)
    row = int(far.argmax())
    if far[row] > 0 and far[row] > BLINDING * np.median(far[far > 0]):
        column = int(np.nanargmax(away[row]))
        raise GpumError(
            f"{name} has {S[row, column]:.3g} at row {row}, {_where(column, columns)}, so far from the other rows that "
            "in float64 their own differences are lost; correct the number or remove the row"
        )


def _where(column: int, names: Sequence[str] | None) -> str:
    return f"column {column if names is None else repr(names[column])}"


def norms(X: np.ndarray) -> np.ndarray:
    """Euclidean norm of each row, also where its square would be infinite or 0, [n]."""
    power = _power(np.abs(X).max(1))
    return np.linalg.norm(X / power[:, None], axis=1) * power


def _power(x: Any) -> Any:
    """The largest power of two that is at most x, entry by entry; 1 for 0."""
    x = np.asarray(x, float)
    return np.where(x > 0, np.ldexp(1.0, np.frexp(x)[1] - 1), 1.0)
