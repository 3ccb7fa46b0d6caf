"""Tables in files: CSV, TSV, Parquet (pyarrow, the extra `parquet`) and NPZ, as named columns.

CSV and TSV are UTF-8, or another encoding that is named, with a header line; a CSV may be separated by `;` or tabs.
In every format an empty cell, NaN, NA,
N/A, null or none is a missing value. An NPZ holds either

    X (or S) [N, p]   columns feature_names [p], or X_1 … X_p (S_1 … S_p)
    y [N] or [N, k]   column y, or columns target_names [k], or y_1 … y_k
    name [N]          any other array of N entries: a column of that name (arrays of other shapes are left out)

or, without X and S, one array [N] for each column, all of one length.
"""

from __future__ import annotations

import csv
import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..checks import GpumError
from .whole import existing, replacing

MISSING = {"", "nan", "na", "n/a", "null", "none"}
TEXT = (".csv", ".tsv")
ROOM, EXPANDS = 1 << 30, 50  # an NPZ may unpack to ROOM bytes, and EXPANDS times its own size
LAST = 0x10FFFF  # of the characters
HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass
class Table:
    """Columns of one length under their names, numbers or text as the file has them."""

    source: str
    columns: dict[str, np.ndarray]
    lines: list[int] | None = None  # where each row ends in a text file
    decimal: str = "."
    encoding: str = "utf-8"

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """A row (counted from 0) in words, for messages."""
        return f"row {row + 1}" + (f" (line {self.lines[row]})" if self.lines else "")

    def numbers(self, name: str, advice: str) -> np.ndarray:
        """A column as float64, NaN where a value is missing; `advice` ends the message about what is no number."""
        column = self.columns[name]
        if column.dtype.kind in "biuf":
            found = column.astype(np.float64)
        else:
            found = np.array([self._number(name, row, cell, advice) for row, cell in enumerate(column)])
        if np.isinf(found).any():
            row = int(np.flatnonzero(np.isinf(found))[0])
            raise GpumError(f"{self._where(name, row)} is infinite; correct it, {advice}")
        return found

    def readings(self, names: Sequence[str], advice: str, code: float | None = None) -> np.ndarray:
        """Columns [N, k], NaN where a value is missing or the code; every row has a value."""
        found = np.stack([self.numbers(name, advice) for name in names], 1)
        if code is not None:
            found[found == code] = np.nan
        for row in np.flatnonzero(np.isnan(found).all(1))[:1]:
            raise GpumError(f"{self.place(int(row))} of {self.source} has no value in any feature; remove the row")
        return found

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

    def words(self, name: str) -> list[str]:
        """The distinct cells of a column in which nothing is a number; none where one is."""
        column = self.columns[name]
        if column.dtype.kind in "biuf":
            return []
        cells = {str(c).strip() for c in column.tolist() if c is not None and str(c).strip().lower() not in MISSING}
        return [] if any(_could_be_number(cell) for cell in cells) else sorted(cells)

    def text(self, name: str) -> list[str]:
        """A column as text."""
        return [str(cell) for cell in self.columns[name].tolist()]

    def _number(self, name: str, row: int, cell: Any, advice: str) -> float:
        text = cell.strip() if isinstance(cell, str) else cell
        if text is None or (isinstance(text, str) and text.lower() in MISSING):
            return np.nan
        try:
            if isinstance(text, str) and "_" in text:  # which Python would read as a number
                raise GpumError
            if isinstance(text, str) and self.decimal != ".":
                return float(text.replace(self.decimal, ".") if "." not in text else "no number")
            return float(text)
        except (TypeError, ValueError):
            comma = isinstance(text, str) and text.replace(",", "", 1).lstrip("+-").isdigit()
            hint = f"correct it, {advice}"
            if comma and self.decimal == ".":
                hint = "write a decimal point, or name the comma (decimal=',', on the command line --decimal ,)"
            raise GpumError(f"{self._where(name, row)} is {str(cell)!r}, which is not a number; {hint}") from None

    def _where(self, name: str, row: int) -> str:
        return f"column {name!r} of {self.source}, {self.place(row)},"


def read(path: Any, *, decimal: str = ".", encoding: str = "utf-8") -> Table:
    """The table in a file; its ending says which format. CSV and TSV may have a decimal comma and another encoding."""
    ending = check_ending(path)
    path = existing(path)
    if not path.stat().st_size:
        raise GpumError(f"{path} is empty; give a table with named columns")
    if decimal not in (".", ","):
        raise GpumError(f"decimal is {decimal!r}; it must be '.' or ','")
    if ending not in TEXT and (decimal, encoding) != (".", "utf-8"):
        raise GpumError(
            f"decimal and encoding are for {' and '.join(TEXT)}, but {path} ends in {ending}; leave them out"
        )
    names, columns, lines = READERS[ending](path, decimal, encoding)
    for number, name in enumerate(names, 1):
        if not name:
            raise GpumError(f"column {number} of {path} has no name; name it, or (from pandas) write with index=False")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise GpumError(f"{path} has more than one column {twice[0]!r}; rename or remove one of them")
    if not columns or not len(columns[0]):
        raise GpumError(f"{path} has a header but no rows; add rows")
    return Table(path.name, dict(zip(names, columns, strict=True)), lines, decimal, encoding)


def write(path: Any, columns: dict[str, Any]) -> None:
    """Write columns of one length; the file appears whole or not at all."""
    ending = check_ending(path)
    with replacing(path) as file:
        WRITERS[ending](file, columns)


def check_ending(path: Any) -> str:
    """The ending of a file name, if it is one of a format that can be read and written here."""
    ending = Path(path).suffix.lower()
    if ending not in READERS:
        what = f"ends in {ending!r}" if ending else "has no ending"
        raise GpumError(f"{path} {what}, which names no known format; use one of {', '.join(READERS)}")
    if ending == ".parquet":
        _parquet()
    return ending


Found = tuple[list[str], list[np.ndarray], list[int] | None]


def _could_be_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def decoded(path: Path, encoding: str) -> str:
    """The text in a file, without a mark of its byte order."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except LookupError:
        raise GpumError(f"encoding is {encoding!r}, which is not known; latin-1, cp1252 and utf-16 are some") from None
    except UnicodeError as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise GpumError(
            f"{path} is not {encoding.upper()} text (line {line}); save it with the encoding UTF-8, or name its own "
            "(encoding='latin-1', on the command line --encoding latin-1)"
        ) from None


def separator(text: str, decimal: str, delimiters: str = ",;\t") -> str:
    """What stands between the cells of a text: the most frequent of these in its first line."""
    first = text.lstrip().splitlines()[0]
    if decimal == "," and any(mark in first for mark in delimiters.replace(",", "")):
        delimiters = delimiters.replace(",", "")
    return max(delimiters, key=first.count)


def _read_text(path: Path, decimal: str, encoding: str, delimiters: str = ",;\t") -> Found:
    text = decoded(path, encoding)
    if not text.strip():
        raise GpumError(f"{path} is empty; give a table with named columns")
    delimiter = separator(text, decimal, delimiters)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise GpumError(f"{path}, line {reader.line_num}, cannot be read ({error}); check its quotes") from None
    names = [name.strip() for name in rows[0]]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise GpumError(
                f"{path}, line {line}, has {len(row)} cells, but the header has {len(names)}; check its separators"
            )
    columns = [np.array(column, dtype=object) for column in zip(*rows[1:], strict=True)]
    return names, columns, lines[1:]


def _read_parquet(path: Path, *_: str) -> Found:
    parquet = _parquet()
    try:
        table = parquet.ParquetFile(path).read()
        kept = [k for k, name in enumerate(table.column_names) if not name.startswith("__index_level_")]  # of pandas
        return [table.column_names[k] for k in kept], [table.column(k).to_numpy() for k in kept], None
    except Exception as error:  # whatever pyarrow raises at a file that is not one
        said = " ".join(str(error).split())
        raise GpumError(f"{path} is not a Parquet file, or damaged, or not of plain columns ({said})") from None


def _read_npz(path: Path, *_: str) -> Found:
    try:
        arrays = _arrays(path)
    except zipfile.BadZipFile as error:
        raise GpumError(f"{path} is not an NPZ file, or damaged ({error}); write it with numpy.savez") from None
    except (ValueError, OSError, EOFError, NotImplementedError, zlib.error, struct.error) as error:
        raise GpumError(f"{path} cannot be read ({error}); save arrays of numbers or text with numpy.savez") from None
    named = {key: [str(name) for name in arrays.pop(key, [])] for key in ("feature_names", "target_names")}
    blocks = [block for block in ("X", "S") if block in arrays]
    if len(blocks) > 1:
        raise GpumError(f"{path} has both X and S; keep the one that holds the rows")
    found: list[tuple[str, np.ndarray]] = []
    for block in blocks:
        found += _split(path, block, arrays.pop(block), named["feature_names"])
    if found and "y" in arrays:
        found += _split(path, "y", arrays.pop("y"), named["target_names"], len(found[0][1]))
    for key, array in arrays.items():
        if not blocks and array.ndim != 1:
            raise GpumError(f"{path} has no X or S, and {key} has shape {array.shape}; save one array [N] a column")
        if not blocks or array.shape == found[0][1].shape:
            found += _split(path, key, array, [], len(found[0][1]) if found else None)
    return [name for name, _ in found], [column for _, column in found], None


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ by name; no memory is taken that the file does not fill, and nothing is unpickled."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        if any(entry.flag_bits & 1 for entry in entries):
            raise GpumError("it is encrypted")
        total = sum(entry.file_size for entry in entries)
        if total > ROOM + EXPANDS * path.stat().st_size:
            raise GpumError(f"it would unpack to {total} bytes, more than {EXPANDS} times its size")
        return {e.filename.removesuffix(".npy"): _array(e.filename, archive.read(e)) for e in entries}


def _array(name: str, member: bytes) -> np.ndarray:
    file = io.BytesIO(member)
    try:
        shape, by_column, dtype = HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # whatever numpy's reader of headers raises
        raise GpumError(f"{name} has no sound header: {type(error).__name__}") from None
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise GpumError(f"{name} is an array of type {dtype}")
    numbers = member[file.tell() :]
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(numbers):
        raise GpumError(f"{name} announces {dtype} {shape}, and holds {len(numbers)} bytes")
    found = np.frombuffer(numbers, dtype).reshape(shape, order="F" if by_column else "C")
    codes = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
    if dtype.kind == "U" and found.size and np.frombuffer(numbers, codes).max() > LAST:
        raise GpumError(f"{name} is no text")
    return found


def _split(
    path: Path, key: str, array: np.ndarray, names: list[str], rows: int | None = None
) -> list[tuple[str, np.ndarray]]:
    """Columns of an array [N] or [N, k] with their names."""
    if array.ndim not in (1, 2) or (array.ndim == 1 and key in ("X", "S")):
        raise GpumError(f"{path}: {key} has shape {array.shape}; it must be [rows, columns]")
    if rows is not None and len(array) != rows:
        raise GpumError(
            f"{path}: {key} has {len(array)} rows, but the other columns have {rows}; save one row for each"
        )
    if array.ndim == 1:
        return [(key, array)]
    names = names or [f"{key}_{k + 1}" for k in range(array.shape[1])]
    if len(names) != array.shape[1]:
        raise GpumError(f"{path}: {key} has {array.shape[1]} columns, but {len(names)} names; give one for each")
    return list(zip(names, array.T, strict=True))


def _write_text(file: BinaryIO, columns: dict[str, Any], delimiter: str) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    cells = [c.astype(int) if c.dtype == bool else c for c in map(np.asarray, columns.values())]
    writer.writerows(zip(*(column.tolist() for column in cells), strict=True))
    text.flush()
    text.detach()  # the caller closes the file


def _write_parquet(file: BinaryIO, columns: dict[str, Any]) -> None:
    parquet = _parquet()
    import pyarrow

    parquet.write_table(pyarrow.table({name: np.asarray(column) for name, column in columns.items()}), file)


def _write_npz(file: BinaryIO, columns: dict[str, Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # numpy.savez takes no column named "file"
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(column), allow_pickle=False)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise GpumError("Parquet needs pyarrow; install it with `pip install 'gpum[parquet]'`, or use CSV") from None
    return parquet


READERS: dict[str, Callable[[Path, str, str], Found]] = {
    ".csv": _read_text,
    ".tsv": lambda path, decimal, encoding: _read_text(path, decimal, encoding, "\t"),
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}
WRITERS: dict[str, Callable[[BinaryIO, dict[str, Any]], None]] = {
    ".csv": lambda file, columns: _write_text(file, columns, ","),
    ".tsv": lambda file, columns: _write_text(file, columns, "\t"),
    ".parquet": _write_parquet,
    ".npz": _write_npz,
}
