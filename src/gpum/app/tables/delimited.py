"""Tables of text (CSV, TSV and TXT, plain or compressed by gzip): encoding, separator, cells."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from gpum import GpumError

from .block import Block, named_block

SEPARATORS = {".csv": ",;\t|", ".tsv": "\t", ".txt": ",;\t|"}
ROOM, EXPANDS = 1 << 26, 50  # a .gz may unpack to ROOM bytes, and EXPANDS times its own size
# Byte order marks; that of UTF-32 begins like that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
WINDOWS = re.compile(rb"[\x80-\x9f]")  # no characters in latin-1; Euro signs and quotes in Windows' cp1252
EMPTY = re.compile(r"[\s,;|]*|sep=.\s*")
ZIP = b"PK\x03\x04"
HEAD, LONGEST = 1 << 16, 1 << 26  # bytes that show the encoding; characters of the longest line


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written: the separator of its cells, and the decimal mark of its numbers."""

    separator: str = ","
    decimal: str = "."


def blocks(path: Path, ending: str, decimal: str, encoding: str, most: Callable[[int], int]) -> Iterator[Block]:
    """The rows of a table with the line at which each ends, in blocks of so many as `most` says for its columns."""
    rest = lines(path, encoding)
    above, header_line = above_and_header(rest)
    if not header_line:
        raise GpumError(f"{path} is empty; give a table with named columns")
    counted = chain(["\n"] * len(above), [header_line], rest)  # so that lines have their numbers
    rows_below = parsed(path, counted, separator(header_line, ending, decimal))
    header = next(rows_below)
    first = True
    while below := list(islice(rows_below, most(len(header[0])))):
        rows, numbers = map(list, zip(header, *below, strict=True))
        _check_lengths(path, rows, numbers, first)
        yield _block(rows, numbers)
        first = False


def above_and_header(text: Iterator[str]) -> tuple[list[str], str]:
    """The empty lines at the top, among them Excel's `sep=;`, and the line below them; "" if there is none."""
    above: list[str] = []
    for line in text:
        if not EMPTY.fullmatch(line):
            return above, line
        above.append(line)
    return above, ""


def dialect(path: Path, ending: str, decimal: str, encoding: str) -> Dialect:
    """How a table is written."""
    _, header = above_and_header(lines(path, encoding))
    return Dialect(separator(header, ending, decimal) if header else SEPARATORS[ending][0], decimal)


def _block(rows: list[list[str]], lines: list[int]) -> Block:
    """Names, columns and lines of a header with the rows below it; without columns that have no name and no value."""
    columns = [np.array(column, dtype=object) for column in zip(*rows[1:], strict=True)]
    used = [name.strip() or any(cell.strip() for cell in column) for name, column in zip(rows[0], columns, strict=True)]
    return named_block(rows[0], [c if use else None for c, use in zip(columns, used, strict=True)], lines[1:])


def lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file with their ends; the file is read as they are taken, and unpacked if its name ends in .gz."""
    number, length, most = 0, 0, ROOM + EXPANDS * path.stat().st_size
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        try:
            head = file.read(HEAD)
            _refuse_zip(path, head)
            mark, codec = _codec(head, encoding)
            file.seek(len(mark))
            text = io.TextIOWrapper(file, encoding=_known(codec), newline="")
            while line := text.readline(LONGEST):
                number, length = number + 1, length + len(line)
                if length > most and path.suffix.lower() == ".gz":
                    raise GpumError(f"{path} unpacks to more than {EXPANDS} times its size; unpack it yourself first")
                if "\0" in line:
                    raise _no_text(path, codec, head)
                if len(line) == LONGEST:
                    raise GpumError(f"{path}, line {number}, has more than {LONGEST:,} characters; check its line ends")
                yield line
        except UnicodeError as error:
            before = error.object[: error.start].count(b"\n") if isinstance(error, UnicodeDecodeError) else 0
            raise _no_text(path, codec, head, number + before + 1) from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _damaged(path, error) from None


def _refuse_zip(path: Path, data: bytes) -> None:
    if data.startswith(ZIP):
        raise GpumError(f"{path} is a zip file, as Excel workbooks are; save the table as CSV")


def _known(encoding: str) -> str:
    """The name of an encoding, if it is one."""
    try:
        "".encode(encoding)
        return encoding
    except LookupError:
        raise GpumError(f"encoding is {encoding!r}, which is not known; latin-1, cp1252 and utf-16 are some") from None


class OtherEncoding(GpumError):
    """A text is not of the encoding in which it was to be read; `likely`: one of which it may be."""

    def __init__(self, said: str, likely: str):
        super().__init__(
            f"{said}; save it with the encoding UTF-8, or name its own (encoding={likely!r}, on the command line "
            f"--encoding {likely})"
        )
        self.likely = likely


def _no_text(path: Path, codec: str, data: bytes, line: int | None = None) -> OtherEncoding:
    """The error about a file whose `line` is not of this encoding, or which holds zero bytes."""
    what = "holds zero bytes" if line is None else f"is not {codec.upper()} text (line {line})"
    one_byte = "cp1252" if WINDOWS.search(data) else "latin-1"
    return OtherEncoding(f"{path} {what}", "utf-16" if b"\0" in data else one_byte)


def _damaged(path: Path, error: Exception) -> GpumError:
    return GpumError(f"{path} is not a gzip file, or damaged ({error}); compress the table again")


def encoded(text: str, data: bytes, encoding: str) -> bytes:
    """Text in the encoding of a file that holds `data`, with its byte order mark."""
    mark, codec = _codec(data, encoding)
    return mark + text.encode(codec)


def _codec(data: bytes, encoding: str) -> tuple[bytes, str]:
    """The byte order mark of a file (empty if it has none, or an encoding is named) and its encoding."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        for mark, codec in MARKS.items():
            if data.startswith(mark):
                return mark, codec
    return b"", encoding


def separator(text: str, ending: str, decimal: str) -> str:
    """The separator of the cells: the most frequent one in the first line, outside of quotes."""
    marks, first = SEPARATORS[ending], re.sub('"[^"]*"', "", text.lstrip().splitlines()[0])
    if decimal == "," and any(mark in first for mark in marks.replace(",", "")):
        marks = marks.replace(",", "")
    return max(marks, key=first.count)


def parsed(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[list[str], int]]:
    """The cells of every line that is not empty, with the number of the line at which they end.

    A line of separators alone is empty, too.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if len(row) == 1 or any(cell.strip() for cell in row):
                yield row, reader.line_num
    except csv.Error as error:
        raise GpumError(f"{path}, line {reader.line_num}, cannot be read ({error}); check its quotes") from None


def _check_lengths(path: Path, rows: list[list[str]], lines: list[int], first: bool = True) -> None:
    """Refuse a line that is longer or shorter than the header, which is above these rows, the `first` of the file."""
    named, others = len(rows[0]), {len(row) for row in rows[1:]}
    count = f"{named} cell{'s' * (named != 1)}"
    if first and len(rows) > 2 and len(others) == 1 and named not in others:
        raise GpumError(
            f"the first line of {path} has {count}, but every other line has {others.pop()}; it must hold the names of "
            "the columns, and nothing may stand above them"
        )
    for row, line in zip(rows, lines, strict=True):
        if len(row) != named and named == 1 and first:
            raise GpumError(
                f"the first line of {path} has 1 cell, but line {line} has {len(row)}; remove the lines above the one "
                "that has the names of the columns"
            )
        if len(row) != named:
            raise GpumError(
                f"{path}, line {line}, has {len(row)} cell{'s' * (len(row) != 1)}, but the header has {named}; check "
                "its separators"
            )


@contextmanager
def writing(file: BinaryIO, ending: str, like: Dialect | None = None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes columns as UTF-8 text, like another table; each call adds rows."""
    marks, decimal = SEPARATORS[ending], "." if like is None else like.decimal
    delimiter = like.separator if like is not None and like.separator in marks else marks[0]
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    header = True

    def write(columns: dict[str, Any]) -> None:
        nonlocal header
        found = [c.astype(int) if c.dtype == bool else c for c in map(np.asarray, columns.values())]
        rows = zip(*(_written(column, decimal) for column in found), strict=True)
        write_lines(text, list(columns) if header else None, rows, delimiter)
        header = False

    try:
        yield write
        text.flush()
    finally:
        text.detach()  # the caller closes the file


def _written(column: np.ndarray, decimal: str) -> list[Any]:
    cells = column.tolist()
    return cells if decimal == "." or column.dtype.kind != "f" else [repr(cell).replace(".", decimal) for cell in cells]


def write_lines(text: TextIO, names: list[str] | None, rows: Iterable[Any], delimiter: str, end: str = "\n") -> None:
    """Write a header, unless None, and rows of cells; names are quoted if one of them contains a separator."""
    how: dict[str, Any] = {"delimiter": delimiter, "lineterminator": end}
    if names is not None:
        strange = any(mark in name for name in names for mark in SEPARATORS[".csv"])
        csv.writer(text, **how, quoting=csv.QUOTE_ALL if strange else csv.QUOTE_MINIMAL).writerow(names)
    csv.writer(text, **how).writerows(rows)
