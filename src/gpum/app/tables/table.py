"""A table: named columns with the cells as they are in a file, and the numbers, words and classes that they mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Number
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import are_words, as_number, could_be_number, is_missing, number_advice


@dataclass
class Table:
    """Named columns of equal length, with numbers or text as in the file."""

    source: str
    columns: dict[str, np.ndarray]
    lines: list[int] | None = None  # the line at which each row ends in a text file
    decimal: str = "."
    encoding: str = "utf-8"
    first: int = 0  # rows of the file above this block
    index: str | None = None  # the column that names the rows, where the format has one
    features: list[str] | None = None  # the columns of the data space, where the format says which
    advice: str | None = None  # what to do about these columns first

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def row_name(self, row: int) -> str:
        """The name of a row (counted from 0) for messages."""
        return f"row {self.first + row + 1}" + (f" (line {self.lines[row]})" if self.lines else "")

    def numbers(self, name: str, advice: str) -> np.ndarray:
        """A column as float64, NaN where a value is missing; `advice` ends the message about other cells."""
        column = self.columns[name]
        if column.dtype.kind in "biuf":
            found = column.astype(np.float64)
        else:
            plain = self._plain_numbers(column)
            cells = (self._number(name, row, cell, advice) for row, cell in enumerate(column))
            found = np.array(list(cells)) if plain is None else plain
        if np.isinf(found).any():
            row = int(np.flatnonzero(np.isinf(found))[0])
            raise GpumError(f"{self._where(name, row)} is infinite; correct it, {advice}")
        return found

    def without(self, value: str | float | None, names: Collection[str]) -> Table:
        """The table with NaN where a cell of these columns is `value`: a word, or a number however it is written."""
        if value is None:
            return self
        changed = {name: self._column_without(str(value), self.columns[name]) for name in names}
        return replace(self, columns=self.columns | changed)

    def _column_without(self, value: str, column: np.ndarray) -> np.ndarray:
        number = self._as_number(value)
        if column.dtype.kind in "iuf":
            return column if number is None else np.where(column == number, np.nan, column)
        if column.dtype.kind not in "OU":
            return column
        texts = {cell for cell in column if isinstance(cell, str)}
        equal = lambda cell: number is not None and self._as_number(cell) == number
        same = {text for text in texts if text.strip() == value or equal(text)}
        marked = [cell in same if isinstance(cell, str) else equal(cell) for cell in column]
        return np.where(marked, np.nan, column.astype(object)) if any(marked) else column

    def _as_number(self, cell: Any) -> float | None:
        """A cell as a number, with the decimal mark of the table; None for truth values and everything else."""
        if isinstance(cell, bool | np.bool_):
            return None
        return as_number(cell.replace(self.decimal, ".") if isinstance(cell, str) else cell)

    def matrix(self, names: Sequence[str], advice: str) -> np.ndarray:
        """Columns [N, k] in which no value may be missing."""
        found = np.empty((len(self), len(names)))
        for k, name in enumerate(names):
            found[:, k] = self.numbers(name, advice)
            missing = np.flatnonzero(np.isnan(found[:, k]))
            if len(missing):
                more = f" (and in {len(missing) - 1} more rows)" if len(missing) > 1 else ""
                raise GpumError(f"{self._where(name, int(missing[0]))} has no value{more}; fill it in, {advice}")
        return found

    def words(self, name: str, ignoring: Collection[str | None] = ()) -> list[str]:
        """The distinct words of a column without those of `ignoring`; empty if one of the cells is a number."""
        column = self.columns[name]
        numbers = (isinstance(cell, Number) and cell == cell for cell in column)  # NaN is a missing value
        if column.dtype.kind in "biuf" or (column.dtype.kind == "O" and any(numbers)):
            return []
        cells = {cell for cell in self.entries(name) if cell is not None and cell not in ignoring}
        return [] if any(could_be_number(cell) for cell in cells) else sorted(cells)

    def is_text(self, name: str, ignoring: Collection[str | None] = ()) -> bool:
        """Whether the cells of a column, except `ignoring`, are words: no numbers, also with a unit or percent sign."""
        return any(number_advice(word, self.decimal) is None for word in self.words(name, ignoring))

    def is_empty(self, name: str) -> bool:
        """Whether no cell of a column has a value."""
        column = self.columns[name]
        if column.dtype.kind == "f":
            return bool(np.isnan(column).all())
        return not are_words(column) and all(is_missing(cell, among_words=False) for cell in column)

    def holds_numbers(self, name: str) -> bool:
        """Whether a column is one of numbers: half of its different values or more are, also with a unit."""
        column = self.columns[name]
        if column.dtype.kind not in "OU":
            return column.dtype.kind in "iuf"
        words = are_words(column)
        known = {cell.strip() if isinstance(cell, str) else cell for cell in column if not is_missing(cell, words)}
        numbers = [
            not isinstance(cell, bool)
            and (isinstance(cell, Number) or (isinstance(cell, str) and self._seems_number(cell)))
            for cell in known
        ]
        return sum(numbers) > 0 and 2 * sum(numbers) >= len(numbers)

    def marks(self, name: str) -> np.ndarray:
        """A column as numbers by which its cells can be compared: its numbers, and a number for each other text."""
        column = self.columns[name]
        if column.dtype.kind in "biuf" or self.is_empty(name):
            return self.numbers(name, "")
        if not self.holds_numbers(name):
            return np.array([_mark(text) for text in self.text(name)])
        numbers = self._plain_numbers(column)
        if numbers is not None:
            return numbers
        pairs = zip(column, self.text(name), strict=True)
        return np.array([self._number_or_mark(name, cell, text) for cell, text in pairs])

    def _number_or_mark(self, name: str, cell: Any, text: str) -> float:
        try:
            return self._number(name, 0, cell, "")
        except GpumError:  # a number with a unit, a word for a missing reading
            return _mark(text)

    def _seems_number(self, text: str) -> bool:
        return could_be_number(text) or number_advice(text, self.decimal) is not None

    def text(self, name: str) -> list[str]:
        """A column as text."""
        column = self.columns[name]
        if column.dtype.kind in "mM":  # dates and spans of time
            return ["" if np.isnat(cell) else str(cell) for cell in column]
        return [str(cell) for cell in column.tolist()]

    def entries(self, name: str, classes: Collection[str] = ()) -> list[str | None]:
        """A column as text without spaces around it, None where a value is missing; `classes`: known to be values."""
        column = self.columns[name]
        words = are_words(column) or are_words(classes)
        texts = zip(column, self.text(name), strict=True)
        return [None if is_missing(cell, words) else text.strip() for cell, text in texts]

    def _plain_numbers(self, column: np.ndarray) -> np.ndarray | None:
        """Cells of text as numbers, if all are numbers as Python writes them; several times as fast as one by one."""
        try:
            if self.decimal != "." or any(
                "_" in cell for cell in column if cell == cell
            ):  # Python would read 1_000 as a number
                return None
            return column.astype(np.float64)
        except (TypeError, ValueError):
            return None

    def _number(self, name: str, row: int, cell: Any, advice: str) -> float:
        text = cell.strip() if isinstance(cell, str) else cell
        if is_missing(text, among_words=False):
            return np.nan
        try:
            if isinstance(text, str) and "_" in text:  # Python would read 1_000 as a number
                raise GpumError
            if isinstance(text, str) and self.decimal != ".":
                return float(text.replace(self.decimal, ".") if "." not in text else "no number")
            return float(text)
        except (TypeError, ValueError):
            hint = (number_advice(text, self.decimal) if isinstance(text, str) else None) or f"correct it, {advice}"
            raise GpumError(f"{self._where(name, row)} is {str(cell)!r}, which is not a number; {hint}") from None

    def _where(self, name: str, row: int) -> str:
        return f"column {name!r} of {self.source}, {self.row_name(row)},"


def _mark(text: str) -> float:
    """A number for a text."""
    return float(int.from_bytes(blake2b(text.strip().encode(), digest_size=6).digest()))
