"""Tables in files, as named columns: text (`delimited`), Excel, Parquet, Arrow, NPZ; or a `folder` of pictures.

Text has a header line. It is UTF-8, or what its byte order mark says, or an encoding that is named; CSV and TXT may be
separated by commas, semicolons or tabs, and every text may be compressed (`.csv.gz`). In every format an empty cell,
NaN, NA, N/A, null or none is a missing value.

Text and Parquet can also be read and written in blocks of rows, so that memory does not grow with the file.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from numbers import Number
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError
from gpum.tools import are_words, as_number, could_be_number, existing, is_missing, number_advice, replacing

from . import delimited, excel, folder, npz, parquet

PACKED = ".gz"
FOLDER = "/"  # the ending of a folder of pictures
SAMPLE = 2**20  # bytes from which the number of lines is estimated
ROWS, CELLS = 16_384, 1 << 20  # at most, of a block; a fitted model predicts its rows in threads, 1 024 in each
SHEETS = (".xls", ".ods", ".numbers")  # of which only .xlsx can be read
ARROW = (".feather", ".arrow")


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

    def marks(self, name: str, advice: str) -> np.ndarray:
        """A column as numbers by which its cells can be compared: its numbers, or a number for each word."""
        if self.columns[name].dtype.kind == "b" or self.holds_numbers(name) or self.is_empty(name):
            return self.numbers(name, advice)
        words = (blake2b(cell.strip().encode(), digest_size=6).digest() for cell in self.text(name))
        return np.array([float(int.from_bytes(word)) for word in words])

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


def read(path: Any, *, decimal: str = ".", encoding: str = "utf-8") -> Table:
    """Read the table in a file, whose ending gives the format. Text may have a decimal comma and another encoding."""
    path, ending = _checked(path, decimal, encoding)
    if ending == FOLDER:
        names, columns, _ = folder.read(path)
        return Table(path.name, dict(zip(names, columns, strict=True)), index=folder.NAME)
    names, columns, lines = READERS[ending](path, decimal, encoding)
    _check_names(path, names)
    if not columns or not len(columns[0]):
        raise _no_rows(path)
    return Table(path.name, dict(zip(names, columns, strict=True)), lines, decimal, encoding)


def blocks(path: Any, *, decimal: str = ".", encoding: str = "utf-8") -> Iterator[Table]:
    """As `read`, in blocks of at most ROWS rows and about CELLS cells; each is read when it is taken.

    Of an NPZ file, which has to be read whole, they are parts of its arrays.
    """
    path, ending = _checked(path, decimal, encoding)
    if ending == FOLDER:
        yield read(path)
        return
    first = 0
    for names, columns, lines in BLOCKS[ending](path, decimal, encoding):
        _check_names(path, names)
        if columns and len(columns[0]):
            yield Table(path.name, dict(zip(names, columns, strict=True)), lines, decimal, encoding, first)
            first += len(columns[0])
    if not first:
        raise _no_rows(path)


def _rows_of_a_block(columns: int) -> int:
    return max(1, min(ROWS, CELLS // max(columns, 1)))


def _no_rows(path: Path) -> GpumError:
    return GpumError(f"{path} has a header but no rows; add rows")


def _checked(path: Any, decimal: str, encoding: str) -> tuple[Path, str]:
    """The path and ending of a file that can be read in this way; FOLDER for a folder of pictures."""
    if Path(path).is_dir():
        return Path(path).resolve(), FOLDER
    ending = check_ending(path)
    path = existing(path)
    if not path.stat().st_size:
        raise GpumError(f"{path} is empty; give a table with named columns")
    if decimal not in (".", ","):
        raise GpumError(f"decimal is {decimal!r}; it must be '.' or ','")
    if not _is_text(ending) and (decimal, encoding) != (".", "utf-8"):
        raise GpumError(f"decimal and encoding are for tables of text, but {path} ends in {ending}; leave them out")
    return path, ending


def write(path: Any, columns: dict[str, Any]) -> None:
    """Write columns of equal length; the file is written completely or not at all."""
    with writing(path) as add:
        add(columns)


@contextmanager
def writing(path: Any, like: delimited.Dialect | None = None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that adds rows to a new table: columns of the same names and types in each call, at least one.

    The file appears when the scope ends without an error, or not at all. NPZ is held in memory until then. Text has the
    separator and the decimal mark of `like`.
    """
    ending = check_ending(path)
    text = {"like": like} if _is_text(ending) else {}
    with replacing(path) as file, WRITERS[ending](file, **text) as add:
        yield add


def dialect(path: Any, *, decimal: str = ".", encoding: str = "utf-8") -> delimited.Dialect | None:
    """How the table of text in a file is written; None for other formats."""
    path, ending = _checked(path, decimal, encoding)
    return delimited.dialect(path, ending.removesuffix(PACKED), decimal, encoding) if _is_text(ending) else None


def _is_text(ending: str) -> bool:
    return ending.removesuffix(PACKED) in delimited.SEPARATORS


def check_ending(path: Any) -> str:
    """The ending of a file name, if it is one of a format that can be read and written here."""
    ending = "".join(Path(path).suffixes[-2:] if Path(path).suffix.lower() == PACKED else [Path(path).suffix]).lower()
    if ending not in READERS:
        what = f"ends in {ending!r}" if ending else "has no ending"
        known = ", ".join(name for name in READERS if not name.endswith(PACKED))
        hint = f"{'save the table as CSV, or ' * (ending in SHEETS)}use one of {known} (text also as .csv{PACKED})"
        raise GpumError(f"{path} {what}, which names no known format; {hint}")
    if ending in (".parquet", *ARROW):
        parquet.available()
    return ending


def expected_rows(path: Any) -> float | None:
    """About how many rows a table has: of text by the length of its first lines; None where it is not known."""
    if Path(path).is_dir():
        return float(len(folder.pictures_of(Path(path))))
    path, ending = Path(path), check_ending(path)
    if ending == ".parquet" and path.is_file():
        return parquet.count(path)
    if ending not in delimited.SEPARATORS or not os.access(path, os.R_OK) or not path.is_file():
        return None  # whoever reads it says what is wrong
    with path.open("rb") as file:
        first = file.read(SAMPLE)
    return max(first.count(b"\n") * path.stat().st_size / max(len(first), 1) - 1, 0)


def are_numbers(names: Sequence[str]) -> bool:
    """Whether names of columns look like a row of numbers, which happens if a file has no header."""
    return all(could_be_number(name) for name in names if name)


Found = tuple[list[str], list[np.ndarray], list[int] | None]


def _check_names(path: Path, names: list[str]) -> None:
    """Refuse columns without a name, and two columns with the same name."""
    unnamed = [number for number, name in enumerate(names, 1) if not name]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if (unnamed or twice) and any(names) and are_numbers(names):
        raise GpumError(f"the first line of {path} holds numbers instead of names; add a line with the names above it")
    if unnamed:
        raise GpumError(f"column {unnamed[0]} of {path} has no name; name it, or (from pandas) write with index=False")
    if twice:
        raise GpumError(f"{path} has more than one column {twice[0]!r}; rename or remove one of them")


def _read_npz(path: Path, *_: str) -> Found:
    found = npz.read(path)
    return [name for name, _ in found], [column for _, column in found], None


def _parts(whole: Found) -> Iterator[Found]:
    """Blocks of a file that has to be read whole."""
    count = _rows_of_a_block(len(whole[1]))
    for begin in range(0, len(whole[1][0]) if whole[1] else 0, count):
        yield whole[0], [column[begin : begin + count] for column in whole[1]], None


def _read_arrow(path: Path, *_: str) -> Found:
    found = list(parquet.arrow_blocks(path, _rows_of_a_block))
    if not found:
        raise _no_rows(path)
    return found[0][0], [np.concatenate(parts) for parts in zip(*(block[1] for block in found), strict=True)], None


@contextmanager
def _writing_npz(file: BinaryIO) -> Iterator[Callable[[dict[str, Any]], None]]:
    found: list[dict[str, Any]] = []
    yield found.append
    npz.write(file, {name: np.concatenate([np.asarray(block[name]) for block in found]) for name in found[0]})


@contextmanager
def _writing_packed(
    file: BinaryIO, ending: str, like: delimited.Dialect | None = None
) -> Iterator[Callable[[dict[str, Any]], None]]:
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        delimited.writing(packed, ending, like) as add,  # type: ignore[arg-type]
    ):
        yield add


def _text_reader(ending: str) -> Callable[[Path, str, str], Found]:
    return lambda path, decimal, encoding: delimited.read(path, ending, decimal, encoding)


def _text_blocks(ending: str) -> Callable[[Path, str, str], Iterator[Found]]:
    return lambda path, decimal, encoding: delimited.blocks(path, ending, decimal, encoding, _rows_of_a_block)


READERS: dict[str, Callable[[Path, str, str], Found]] = {
    **{ending: _text_reader(ending) for ending in delimited.SEPARATORS},
    **{ending + PACKED: _text_reader(ending) for ending in delimited.SEPARATORS},
    ".xlsx": lambda path, *_: excel.read(path),
    ".parquet": lambda path, *_: parquet.read(path),
    **dict.fromkeys(ARROW, _read_arrow),
    ".npz": _read_npz,
}
BLOCKS: dict[str, Callable[[Path, str, str], Iterator[Found]]] = {
    **{ending: _text_blocks(ending) for ending in delimited.SEPARATORS},
    **{ending + PACKED: _text_blocks(ending) for ending in delimited.SEPARATORS},
    ".xlsx": lambda path, *_: _parts(excel.read(path)),
    ".parquet": lambda path, *_: parquet.blocks(path, _rows_of_a_block),
    **dict.fromkeys(ARROW, lambda path, *_: parquet.arrow_blocks(path, _rows_of_a_block)),
    ".npz": lambda path, *_: _parts(_read_npz(path)),
}
Added = AbstractContextManager[Callable[[dict[str, Any]], None]]
WRITERS: dict[str, Callable[..., Added]] = {
    **{ending: partial(delimited.writing, ending=ending) for ending in delimited.SEPARATORS},
    **{ending + PACKED: partial(_writing_packed, ending=ending) for ending in delimited.SEPARATORS},
    ".xlsx": excel.writing,
    ".parquet": parquet.writing,
    **dict.fromkeys(ARROW, parquet.writing_arrow),
    ".npz": _writing_npz,
}
