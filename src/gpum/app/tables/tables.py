"""Tables in files, as named columns: text, Excel, Parquet, Arrow, NPZ, single cells; or a folder of pictures.

Text has a header line. It is UTF-8, or what its byte order mark says, or an encoding that is named; CSV and TXT may be
separated by commas, semicolons, tabs or bars, and every text may be compressed (`.csv.gz`). In every format an empty
cell, NaN, NA, N/A, null or none is a missing value.

Text, Parquet and Arrow can also be read and written in blocks of rows, so that memory does not grow with the file.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError
from gpum.tools import could_be_number, existing, replacing

from . import delimited, excel, folder, h5ad, npz, parquet
from .block import Block, parts
from .table import Table

OtherEncoding = delimited.OtherEncoding
PACKED = ".gz"
FOLDER = "/"  # the ending of a folder of pictures
SAMPLE = 2**20  # bytes from which the number of lines is estimated
ROWS, CELLS = 16_384, 1 << 20  # at most, of a block; a fitted model predicts its rows in threads, 1 024 in each
SHEETS = (".xls", ".ods", ".numbers")  # of which only .xlsx can be read
ARROW = (".feather", ".arrow")


@dataclass(frozen=True)
class How:
    """How a file is to be read: decimal mark and encoding of its text, the matrix of single cells."""

    decimal: str = "."
    encoding: str = "utf-8"
    matrix: str | None = None


Add = Callable[[dict[str, Any]], None]
Most = Callable[[int], int]  # the number of rows of a block with so many columns


@dataclass(frozen=True)
class Format:
    """How tables of a format are read, a block of rows at a time, and written, like another table (a path)."""

    blocks: Callable[[Path, How, Most], Iterator[Block]]
    writing: Callable[[BinaryIO, Path | None, How], AbstractContextManager[Add]]


def read(path: Any, *, decimal: str = ".", encoding: str = "utf-8", matrix: str | None = None) -> Table:
    """Read the table in a file, whose ending gives the format. Text may have a decimal comma and another encoding."""
    path, how = Path(path), How(decimal, encoding, matrix)
    found = list(_blocks(path, how, lambda columns: sys.maxsize))
    first = found[0]
    columns = [np.concatenate(pieces) for pieces in zip(*(block.columns for block in found), strict=True)]
    lines = None if first.lines is None else [line for block in found for line in block.lines or ()]
    return _table(path, how, Block(first.names, columns, lines, first.index, first.features, first.advice))


def blocks(path: Any, *, decimal: str = ".", encoding: str = "utf-8", matrix: str | None = None) -> Iterator[Table]:
    """As `read`, in blocks of at most ROWS rows and about CELLS cells; each is read when it is taken.

    Of a file that has to be read whole, such as NPZ, they are parts of it.
    """
    path, how, first = Path(path), How(decimal, encoding, matrix), 0
    for block in _blocks(path, how, lambda columns: max(1, min(ROWS, CELLS // max(columns, 1)))):
        yield _table(path, how, block, first)
        first += len(block)


def _blocks(path: Path, how: How, most: Most) -> Iterator[Block]:
    """Blocks of a file with at least one row each, checked; at least one."""
    path, ending = _checked(path, how)
    rows = 0
    for block in FORMATS[ending].blocks(path, how, most):
        _check_names(path, block.names)
        rows += len(block)
        if len(block):
            yield block
    if not rows:
        raise GpumError(f"{path} has a header but no rows; add rows")


def _table(path: Path, how: How, block: Block, first: int = 0) -> Table:
    columns = dict(zip(block.names, block.columns, strict=True))
    return Table(
        path.resolve().name, columns, block.lines, how.decimal, how.encoding, first, block.index, block.features,
        block.advice,
    )  # fmt: skip


def _checked(path: Path, how: How) -> tuple[Path, str]:
    """The path and ending of a file that can be read in this way; FOLDER for a folder of pictures."""
    if how.decimal not in (".", ","):
        raise GpumError(f"decimal is {how.decimal!r}; it must be '.' or ','")
    if path.is_dir():
        return path.resolve(), FOLDER
    ending = check_ending(path)
    path = existing(path)
    if not path.stat().st_size:
        raise GpumError(f"{path} is empty; give a table with named columns")
    if not _is_text(ending) and how.encoding != "utf-8":
        raise GpumError(f"encoding is for tables of text, but {path} ends in {ending}; leave it out")
    if ending != ".h5ad" and how.matrix is not None:
        raise GpumError(f"matrix is for single cells (.h5ad), but {path} ends in {ending}; leave it out")
    return path, ending


def write(path: Any, columns: dict[str, Any]) -> None:
    """Write columns of equal length; the file is written completely or not at all."""
    with writing(path) as add:
        add(columns)


@contextmanager
def writing(path: Any, like: Any = None, *, decimal: str = ".", encoding: str = "utf-8") -> Iterator[Add]:
    """A function that adds rows to a new table: columns of the same names and types in each call, at least one.

    The file appears when the scope ends without an error, or not at all. NPZ and AnnData are held in memory until then.
    Text has the separator and the decimal mark of the table at `like`; an AnnData is a copy of the one at `like`, with
    these columns added to its `obs`.
    """
    ending = check_ending(path)
    if ending == ".h5ad" and (like is None or Path(like).suffix.lower() != ending):
        raise GpumError(f"{path} would be a copy of a file of single cells with columns added; give another ending")
    source = None if like is None or Path(like).is_dir() else existing(like)
    with replacing(path) as file, FORMATS[ending].writing(file, source, How(decimal, encoding)) as add:
        yield add


def _is_text(ending: str) -> bool:
    return ending.removesuffix(PACKED) in delimited.SEPARATORS


def check_ending(path: Any) -> str:
    """The ending of a file name, if it is one of a format that can be read and written here."""
    ending = _ending(path)
    if ending not in FORMATS or ending == FOLDER:
        what = f"ends in {ending!r}" if ending else "has no ending"
        known = ", ".join(name for name in FORMATS if not name.endswith(PACKED) and name != FOLDER)
        hint = f"{'save the table as CSV, or ' * (ending in SHEETS)}use one of {known} (text also as .csv{PACKED})"
        raise GpumError(f"{path} {what}, which names no known format; {hint}")
    if ending in (".parquet", *ARROW):
        parquet.available()
    return ending


def _ending(path: Any) -> str:
    return "".join(Path(path).suffixes[-2:] if Path(path).suffix.lower() == PACKED else [Path(path).suffix]).lower()


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


def _text(ending: str, packed: bool = False) -> Format:
    """Text with the separators of an ending, plain or packed."""

    @contextmanager
    def writing(file: BinaryIO, like: Path | None, how: How) -> Iterator[Add]:
        dialect = None
        if like is not None and _is_text(_ending(like)):
            dialect = delimited.dialect(like, _ending(like).removesuffix(PACKED), how.decimal, how.encoding)
        with delimited.writing(file, ending, dialect) as add:
            yield add

    @contextmanager
    def packing(file: BinaryIO, like: Path | None, how: How) -> Iterator[Add]:
        with (
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
            writing(packed, like, how) as add,  # type: ignore[arg-type]
        ):
            yield add

    read = lambda path, how, most: delimited.blocks(path, ending, how.decimal, how.encoding, most)
    return Format(read, packing if packed else writing)


def _no_writing(file: BinaryIO, like: Path | None, how: How) -> AbstractContextManager[Add]:
    raise GpumError("a folder of pictures cannot be written; give a table")


FORMATS: dict[str, Format] = {
    **{ending: _text(ending) for ending in delimited.SEPARATORS},
    **{ending + PACKED: _text(ending, packed=True) for ending in delimited.SEPARATORS},
    ".xlsx": Format(lambda path, how, most: parts(excel.read(path), most), lambda file, *_: excel.writing(file)),
    ".parquet": Format(lambda path, how, most: parquet.blocks(path, most), lambda file, *_: parquet.writing(file)),
    **dict.fromkeys(
        ARROW,
        Format(lambda path, how, most: parquet.arrow_blocks(path, most), lambda file, *_: parquet.writing_arrow(file)),
    ),
    ".npz": Format(lambda path, how, most: parts(npz.read(path), most), lambda file, *_: npz.writing(file)),
    ".h5ad": Format(
        lambda path, how, most: parts(h5ad.read(path, how.matrix), most),
        lambda file, like, how: h5ad.writing(file, like),
    ),
    FOLDER: Format(lambda path, how, most: parts(folder.read(path), most), _no_writing),
}
