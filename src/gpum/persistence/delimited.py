"""Tables of text (CSV, TSV and TXT, plain or compressed by gzip): encoding, separator, cells."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from ..basics.checks import GpumError

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": ",;\t"}
ROOM, EXPANDS, CHUNK = 1 << 26, 50, 1 << 20  # a .gz may unpack to ROOM bytes, and EXPANDS times its own size
# Byte order marks; that of UTF-32 begins like that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
ZIP = b"PK\x03\x04"


def read(path: Path, ending: str, decimal: str, encoding: str) -> tuple[list[str], list[np.ndarray], list[int]]:
    """Names, columns of text, and the line at which each row ends."""
    text = decoded(path, content(path), encoding)
    if not text.strip():
        raise GpumError(f"{path} is empty; give a table with named columns")
    rows, lines = cells(path, text, separator(text, ending, decimal))
    names = [name.strip() for name in rows[0]]
    _check_lengths(path, rows, lines)
    columns = [np.array(column, dtype=object) for column in zip(*rows[1:], strict=True)]
    used = [k for k, column in enumerate(columns) if names[k] or any(cell.strip() for cell in column)]
    return [names[k] for k in used], [columns[k] for k in used], lines[1:]


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    if path.suffix.lower() != ".gz":
        return path.read_bytes()
    most, found = ROOM + EXPANDS * path.stat().st_size, bytearray()
    try:
        with gzip.open(path) as file:
            while chunk := file.read(CHUNK):
                found += chunk
                if len(found) > most:
                    raise GpumError(f"{path} unpacks to more than {EXPANDS} times its size; unpack it yourself first")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GpumError(f"{path} is not a gzip file, or damaged ({error}); compress the table again") from None
    return bytes(found)


def decoded(path: Path, data: bytes, encoding: str) -> str:
    """The text of a file without its byte order mark, which has priority over the default encoding."""
    if data.startswith(ZIP):
        raise GpumError(f"{path} is a zip file, as Excel workbooks are; save the table as CSV")
    mark, codec = _codec(data, encoding)
    try:
        text, bad = data[len(mark) :].decode(codec), -1
    except LookupError:
        raise GpumError(f"encoding is {encoding!r}, which is not known; latin-1, cp1252 and utf-16 are some") from None
    except UnicodeError as error:
        text, bad = "", len(mark) + getattr(error, "start", 0)
    if bad < 0 and "\0" not in text:
        return text
    line = data.count(b"\n", 0, bad) + 1
    what = f"is not {codec.upper()} text (line {line})" if bad >= 0 else "holds zero bytes"
    own = "utf-16" if b"\0" in data else "latin-1"
    raise GpumError(
        f"{path} {what}; save it with the encoding UTF-8, or name its own (encoding={own!r}, on the command line "
        f"--encoding {own})"
    )


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


def cells(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The cells of every line that is not empty, and the line at which each ends."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise GpumError(f"{path}, line {reader.line_num}, cannot be read ({error}); check its quotes") from None
    return rows, lines


def _check_lengths(path: Path, rows: list[list[str]], lines: list[int]) -> None:
    """Refuse a table with a line that is longer or shorter than the header."""
    named, others = len(rows[0]), {len(row) for row in rows[1:]}
    count = f"{named} cell{'s' * (named != 1)}"
    if len(rows) > 2 and len(others) == 1 and named not in others:
        raise GpumError(
            f"the first line of {path} has {count}, but every other line has {others.pop()}; it must hold the names of "
            "the columns, and nothing may stand above them"
        )
    for row, line in zip(rows, lines, strict=True):
        if len(row) != named:
            raise GpumError(
                f"{path}, line {line}, has {len(row)} cell{'s' * (len(row) != 1)}, but the header has {named}; check "
                "its separators"
            )


def write(file: BinaryIO, columns: dict[str, Any], ending: str) -> None:
    """Write columns as UTF-8 text."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    found = [c.astype(int) if c.dtype == bool else c for c in map(np.asarray, columns.values())]
    rows = zip(*(column.tolist() for column in found), strict=True)
    write_lines(text, list(columns), rows, SEPARATORS[ending][0])
    text.flush()
    text.detach()  # the caller closes the file


def write_lines(text: TextIO, names: list[str], rows: Iterable[Any], delimiter: str, end: str = "\n") -> None:
    """Write a header and rows of cells; names are quoted if one of them contains a possible separator."""
    strange = any(mark in name for name in names for mark in SEPARATORS[".csv"])
    how: dict[str, Any] = {"delimiter": delimiter, "lineterminator": end}
    csv.writer(text, **how, quoting=csv.QUOTE_ALL if strange else csv.QUOTE_MINIMAL).writerow(names)
    csv.writer(text, **how).writerows(rows)
