"""Columns that are not numbers, encoded as numbers, and back for display.

| column | becomes |
| --- | --- |
| numbers, also as text | itself |
| true and false | 1 and 0 |
| dates, such as 2024-12-31 or 31.12.2024 | one column: days since the first date of the fit |
| spans of time | one column: days |
| categories: at most MOST different words, each in two rows on average; pandas' category | one column a category |

The column of a category is 1/√2 in its rows and 0 in the others, so that rows that differ only in their category have
the distance 1. A category that the fit has not seen is 0 in all of them, with a warning. A missing category is NaN in
all of them or, for estimators without missing readings, a category of its own.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from . import cells as of_cell
from .checks import GpumError, GpumTypeError, counted

MOST = 30  # different words of a column of categories, unless it is declared as such
NAMED = 4  # words or columns that a message names
MARK = float(np.sqrt(0.5))
NO_VALUE = "(missing)"  # a category, where missing readings are not allowed
PARSERS = {"number": of_cell.as_number, "truth": of_cell.truth, "date": of_cell.day}
MEANT = {
    "number": "a number",
    "truth": "true or false",
    "date": "a date, such as 2024-12-31, 2024-12-31T08:30 or 31.12.2024",
    "span": "a span of time",
}


class TextColumns(GpumError):
    """Columns of free text, of names of rows or of numbers mixed with words, which cannot be encoded.

    `reasons` has a sentence for each, by name of the column.
    """

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        why = "; ".join(list(reasons.values())[:NAMED])
        super().__init__(
            f"{why}; leave such columns out, or make them numbers, dates (2024-12-31, 31.12.2024) or a few words; a "
            "column that is declared as a category (pandas' astype('category')) is encoded as it is"
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """Named columns of a table as arrays [N] of numbers, truth values, dates, spans of time or any cells.

    `declared` are the positions of columns that are categories even if their cells are numbers.
    """

    names: list[str]
    cells: list[np.ndarray]
    declared: frozenset[int] = frozenset()

    @classmethod
    def of(cls, X: Any) -> Columns | None:
        """The columns of a data frame (pandas or polars) or of a two-dimensional array; None for anything else."""
        if isinstance(X, Columns):
            return X
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            series = [X.iloc[:, j] for j in range(X.shape[1])]
            declared = [j for j, column in enumerate(series) if hasattr(column.dtype, "categories")]
            return cls(list(map(str, X.columns)), list(map(_of_pandas, series)), frozenset(declared))
        if hasattr(X, "get_columns"):
            series = X.get_columns()
            declared = [j for j, column in enumerate(series) if str(column.dtype).startswith(("Categorical", "Enum"))]
            return cls(list(X.columns), list(map(_of_polars, series)), frozenset(declared))
        X = np.asarray(X, object) if isinstance(X, list | tuple) else X
        if not isinstance(X, np.ndarray) or X.ndim != 2:
            return None
        return cls([f"X_{j + 1}" for j in range(X.shape[1])], list(X.T))

    @property
    def are_numbers(self) -> bool:
        """Whether all columns are numbers by their type."""
        return not self.declared and all(column.dtype.kind in "biuf" for column in self.cells)

    def __len__(self) -> int:
        return len(self.cells[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The columns as one array [N, p]."""
        return np.stack(self.cells, 1).astype(dtype)


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes numbers.

    kind : "number", "truth", "date", "span" or "category".
    categories : the known ones, in the order of their columns.
    first : of a date, the day that is 0, in days since 1970.
    zoned : of a date, whether it had a time zone in the fit; None: not known, of files of version 1.0.
    """

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    first: float = 0.0
    zoned: bool | None = None

    def __gpum_restored__(self) -> None:
        """Refuse a column that cannot be encoded."""
        sound = self.kind in MEANT or (self.kind == "category" and self.categories)
        if not sound or not np.isfinite(self.first) or len(set(self.categories)) < len(self.categories):
            raise GpumError(f"its column {self.name[:40]!r} has no known encoding")

    @property
    def names(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [f"{self.name}={word}" for word in self.categories] if self.kind == "category" else [self.name]

    @property
    def note(self) -> str | None:
        """What was done, in a sentence; None for numbers."""
        n = len(self.categories)
        sentences = {
            "category": f"has {n} categor{'y' if n == 1 else 'ies'} ({_listed(self.categories)}) and became "
            f"{counted(n, 'column')}, one a category",
            "truth": "is true or false and became 1 or 0",
            "date": f"holds dates and became the days since {of_cell.day_name(self.first)}",
            "span": "holds spans of time and became days",
        }
        return f"column {self.name!r} {sentences[self.kind]}" if self.kind in sentences else None

    def encoded(self, cells: np.ndarray) -> np.ndarray:
        """The cells of a column [n] as numbers [n, k], NaN where a value is missing."""
        if self.kind == "category":
            return self._indicators(cells)
        if self.kind == "date":
            self._check_zone(cells)
        if self.kind == "span" and cells.dtype.kind == "m":
            return (cells / of_cell.DAYS)[:, None]
        if self.kind in ("number", "truth", "span") and cells.dtype.kind in "biuf":
            numbers = cells.astype(float)
        elif self.kind == "date" and cells.dtype.kind == "M":
            numbers = (cells.astype("M8[us]") - np.datetime64(0, "us")) / of_cell.DAYS
        else:
            numbers = np.array([self._number(row, cell) for row, cell in enumerate(cells)], float)
        if np.isinf(numbers).any():
            row = int(np.isinf(numbers).argmax())
            raise GpumError(f"column {self.name!r} of X is infinite in row {row}; correct it, or mark it as missing")
        return (numbers - self.first)[:, None]

    def _check_zone(self, cells: np.ndarray) -> None:
        """Refuse dates with a time zone where the fit had none, and the reverse: they would be off by hours."""
        given = _zoned(self.name, cells)
        if None not in (given, self.zoned) and given != self.zoned:
            now, then = ("a time zone", "none") if given else ("no time zone", "one")
            raise GpumError(
                f"column {self.name!r} of X has dates with {now}, but in the fit they had {then}: they cannot be "
                "compared; give them as in the fit (pandas: dt.tz_localize or dt.tz_convert)"
            )

    def _number(self, row: int, cell: Any) -> float:
        if of_cell.is_missing(cell, among_words=False):
            return np.nan
        number = PARSERS.get(self.kind, of_cell.as_number)(cell)
        if number is None:
            raise GpumError(
                f"column {self.name!r} of X is {str(cell)[:40]!r} in row {row}, but in the fit it was "
                f"{MEANT[self.kind]}; correct it, or mark it as missing by NaN"
            )
        return number

    def _indicators(self, cells: np.ndarray) -> np.ndarray:
        words = _words(cells)
        position = {word: k for k, word in enumerate(self.categories)}
        indicators = np.zeros((len(cells), len(position)))
        for row, word in enumerate(words):
            if word is None and NO_VALUE not in position:
                indicators[row] = np.nan
            elif (word or NO_VALUE) in position:
                indicators[row, position[word or NO_VALUE]] = MARK
        unseen = Counter(word for word in words if word is not None and word not in position)
        if unseen:
            warnings.warn(
                f"column {self.name!r} has categories that the fit has not seen: {_listed(list(unseen))} "
                f"(in {counted(sum(unseen.values()), 'row')}); they are encoded as none of the known categories",
                stacklevel=5,
            )
        return indicators

    def decoded(self, numbers: np.ndarray) -> list[Any]:
        """Encoded numbers [n, k] as a reader knows them: words, dates, or the number itself; None where missing."""
        values = numbers.argmax(1) if self.kind == "category" else numbers[:, 0]
        shown = {
            "category": lambda k: self.categories[int(k)],
            "truth": lambda value: "true" if value > 0.5 else "false",
            "date": lambda value: of_cell.day_name(self.first + value),
        }.get(self.kind, float)
        known = numbers.any(1) if self.kind == "category" else np.ones(len(numbers), bool)
        known &= ~np.isnan(numbers).any(1)
        return [shown(value) if ok else None for value, ok in zip(values, known, strict=True)]


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become numbers; a model keeps it for new rows."""

    columns: list[Column]

    @classmethod
    def of(cls, table: Columns, missing: bool = True) -> Encoding:
        """The encoding of a table. Without `missing`, a missing category is a category of its own."""
        columns: list[Column] = []
        reasons: dict[str, str] = {}
        for j, (name, cells) in enumerate(zip(table.names, table.cells, strict=True)):
            try:
                columns.append(_column(name, cells, j in table.declared, missing))
            except TextColumns as error:
                reasons |= error.reasons
        if reasons:
            raise TextColumns(reasons)
        return cls(columns)

    def __gpum_restored__(self) -> None:
        """Refuse an encoding without columns."""
        if not self.columns or not all(isinstance(column, Column) for column in self.columns):
            raise GpumError("its encoding has no columns")

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers, so that there is nothing to encode."""
        return all(column.kind == "number" for column in self.columns)

    @cached_property
    def names(self) -> list[str]:
        """Names of the encoded columns, such as "colour=red"."""
        return [name for column in self.columns for name in column.names]

    @cached_property
    def owners(self) -> np.ndarray:
        """The position of the column of the table from which each encoded column comes, [p]."""
        return np.repeat(np.arange(len(self.columns)), [len(column.names) for column in self.columns])

    @property
    def indicators(self) -> np.ndarray:
        """Which of the encoded columns stand for a category, or for true and false, [p] of bool."""
        return np.array([column.kind in ("category", "truth") for column in self.columns])[self.owners]

    @property
    def notes(self) -> list[str]:
        """What was done, a sentence for each column that is not a number."""
        return [column.note for column in self.columns if column.note is not None]

    def encoded(self, table: Columns) -> np.ndarray:
        """Columns like those of the fit, as numbers [n, p]; NaN where a value is missing."""
        parts = [column.encoded(cells) for column, cells in zip(self.columns, table.cells, strict=True)]
        return np.concatenate(parts, 1)

    def decoded(self, numbers: np.ndarray, j: int) -> list[Any]:
        """Column j of the table, from encoded rows [n, p], as a reader knows it; None where a value is missing."""
        begin, end = np.searchsorted(self.owners, [j, j + 1])
        return self.columns[j].decoded(numbers[:, begin:end])


def _column(name: str, cells: np.ndarray, declared: bool, missing: bool) -> Column:
    """How a column is encoded; a TextColumns error if it cannot be."""
    kind = {"b": "truth", "i": "number", "u": "number", "f": "number", "M": "date", "m": "span"}.get(cells.dtype.kind)
    words = declared or (kind is None and of_cell.are_words(cells))
    known = cells if kind == "truth" else [cell for cell in cells if not of_cell.is_missing(cell, words)]
    if not len(known):
        raise GpumError(f"column {name!r} of X has no value in any row; leave it out")
    if declared:
        return _category(name, cells, missing)
    for other, parse in PARSERS.items() if kind is None else ():
        if all(parse(cell) is not None for cell in known):
            kind = "truth" if all(isinstance(cell, bool | np.bool_) for cell in known) else other
            break
    if kind is None:
        _check_words(name, known)
        return _category(name, cells, missing)
    if kind != "date":
        return Column(name, kind)
    return Column(name, kind, [], float(np.nanmin(Column(name, kind).encoded(cells))), _zoned(name, cells))


def _zoned(name: str, cells: np.ndarray) -> bool | None:
    """Whether the dates of a column have a time zone, all or none of them; None: there is no date."""
    if cells.dtype.kind == "M":
        return False
    dates = (cell for cell in cells if not of_cell.is_missing(cell, among_words=False))
    zoned = {of_cell.has_zone(cell) for cell in dates if of_cell.day(cell) is not None}
    if len(zoned) > 1:
        raise GpumError(
            f"column {name!r} of X has dates with a time zone and dates without one, which cannot be compared; give "
            "all of them a time zone, or none"
        )
    return zoned.pop() if zoned else None


def _category(name: str, cells: np.ndarray, missing: bool) -> Column:
    words = _words(cells)
    categories = sorted({word for word in words if word is not None})
    return Column(name, "category", [*categories, *[NO_VALUE] * (not missing and None in words)])


def _check_words(name: str, known: Any) -> None:
    """Refuse a column of text that does not hold categories."""
    strange = next((cell for cell in known if not _is_plain(cell)), None)
    if strange is not None:
        raise GpumTypeError(
            f"column {name!r} of X holds a {type(strange).__name__}, but a cell must be a number, a word, a date, "
            "or true or false; leave the column out, or replace its cells"
        )
    words = sorted({of_cell.word(cell) for cell in known})
    advice = [of_cell.number_advice(word) for word in words]
    numbers = [word for word, hint in zip(words, advice, strict=True) if hint or of_cell.could_be_number(word)]
    others = [word for word in words if word not in set(numbers)]
    if numbers and len(numbers) >= len(others):
        hint = f"; {next(filter(None, advice))}" if any(advice) else ""
        mixed = f"numbers and other words ({_listed(others)})" if others else f"no plain numbers ({_listed(numbers)})"
        raise TextColumns({name: f"column {name!r} of X holds {mixed}{hint}"})
    if len(words) > max(2, min(MOST, (len(known) + 1) // 2)):
        many = f"{len(words)} different words in {counted(len(known), 'row')}"
        raise TextColumns(
            {name: f"column {name!r} of X holds text: {many} ({_listed(words)}), too many for categories"}
        )  # fmt: skip


def _is_plain(cell: Any) -> bool:
    parsed = (of_cell.as_number(cell), of_cell.day(cell), of_cell.truth(cell))
    return isinstance(cell, str) or any(value is not None for value in parsed)


def _words(cells: np.ndarray) -> list[str | None]:
    return [None if of_cell.is_missing(cell, among_words=True) else of_cell.word(cell) for cell in cells]


def _listed(words: Sequence[str]) -> str:
    shown = [repr(word[:40]) for word in words[:NAMED]]
    return ", ".join(shown) + (", ..." if len(words) > NAMED else "")


def _of_pandas(series: Any) -> np.ndarray:
    """A column of pandas as an array; NA becomes NaN or None."""
    kind = getattr(series.dtype, "kind", "O")
    if kind == "M":  # dates with a time zone remain objects, which know it
        return series.to_numpy("datetime64[us]" if getattr(series.dtype, "tz", None) is None else object)
    if kind in "iuf":
        return series.to_numpy(float, na_value=np.nan) if series.isna().any() else series.to_numpy()
    if kind in "bm" and not series.isna().any():
        return series.to_numpy()
    return series.to_numpy() if kind == "m" else series.to_numpy(object)


def _of_polars(series: Any) -> np.ndarray:
    """A column of polars as an array; dates with a time zone remain objects, which know it."""
    zoned = getattr(series.dtype, "time_zone", None) is not None
    return np.array(series.to_list(), object) if zoned else np.asarray(series.to_numpy())
