"""Single cells of a table: which are missing, and which are numbers, truth values or dates."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime
from numbers import Number
from typing import Any

import numpy as np

MARKERS = {"nan", "na", "n/a", "null", "none"}  # of a missing value, except among words
TRUTH = {"true": 1.0, "false": 0.0}
DAY = re.compile(r"\d{4}-\d\d-\d\d(?![\d-])")
DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T]+(\d\d:\d\d(?::\d\d)?))?")  # the day is first: 31.12.2024
DAYS = np.timedelta64(1, "D")
LONGEST = 60  # characters of a number with a unit
NAME_COMMA = "if the comma is the decimal mark, name it (decimal=',', on the command line --decimal ,)"
NAME_NO_COMMA = "if the point is the decimal mark, do not name the comma"


def is_missing(cell: Any, among_words: bool) -> bool:
    """Whether a cell holds no value: the one rule for features, classes and tables in files.

    None, NaN, NaT, pandas' NA and empty text are missing everywhere. Text of MARKERS, such as "NA", is missing in a
    column of numbers, dates or truth values. `among_words`, in a column of words, categories or classes, it is a value.
    """
    if cell is None or cell is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    if isinstance(cell, str | bytes):
        return not cell.strip() or (not among_words and isinstance(cell, str) and cell.strip().lower() in MARKERS)
    return isinstance(cell, Number | np.generic | date) and bool(cell != cell)


def are_words(cells: Iterable[Any]) -> bool:
    """Whether a column has a word: text that is no number (also with a unit), date, truth value or one of MARKERS."""
    distinct = {cell.strip() for cell in cells if isinstance(cell, str)}
    return any(_is_word(text) for text in distinct)


def _is_word(text: str) -> bool:
    if is_missing(text, among_words=False) or text.lower() in TRUTH or could_be_number(text) or is_date(text):
        return False
    return number_advice(text) is None


def as_number(cell: Any) -> float | None:
    """A cell as a number, also one that is written as text; None if it is none."""
    if isinstance(cell, str) and "_" in cell:  # Python would read 1_000 as a number
        return None
    if not isinstance(cell, str | Number | np.bool_) or isinstance(cell, complex):
        return None
    try:
        return float(cell)  # type: ignore[arg-type]
    except ValueError:
        return None


def truth(cell: Any) -> float | None:
    """1 for true and 0 for false, also if they are written as words or as 1 and 0; None for other cells."""
    if isinstance(cell, bool | np.bool_):
        return float(cell)
    if isinstance(cell, str) and cell.strip().lower() in TRUTH:
        return TRUTH[cell.strip().lower()]
    number = as_number(cell)
    return number if number in (0.0, 1.0) else None


def is_date(text: str) -> bool:
    """Whether text is a date, such as 2024-12-31, 2024-12-31T08:30 or 31.12.2024."""
    return _date(text) is not None


def _date(text: str) -> datetime | None:
    text = text.strip()
    dotted = DOTTED.fullmatch(text)
    if dotted:
        text = f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}" + (f"T{dotted[4]}" if dotted[4] else "")
    if not DAY.match(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def day(cell: Any) -> float | None:
    """A date, also one that is text (`is_date`), as days since 1970; None for other cells."""
    if isinstance(cell, str):
        cell = _date(cell)
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    if not isinstance(cell, date | np.datetime64):
        return None
    return float((np.datetime64(cell).astype("M8[us]") - np.datetime64(0, "us")) / DAYS)


def has_zone(cell: Any) -> bool:
    """Whether a date, of which `day` gives the days, has a time zone; a date without one may be of any zone."""
    if isinstance(cell, str):
        cell = _date(cell)
    return isinstance(cell, datetime) and cell.tzinfo is not None


def day_name(days: float) -> str:
    """Days since 1970 as a date, with its time unless that is midnight."""
    seconds = np.datetime64(0, "s") + np.timedelta64(round(days * 86400), "s")
    return str(seconds).removesuffix("T00:00:00")


def word(cell: Any) -> str:
    """A cell as a category: whole numbers without decimals, text without spaces around it."""
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, Number):
        return str(cell).strip()
    number = float(cell)  # type: ignore[arg-type]
    return str(int(number)) if number.is_integer() else repr(number)


def could_be_number(cell: str) -> bool:
    """Whether text is a number, with a decimal point or comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def number_advice(text: str, decimal: str = ".") -> str | None:
    """Advice about a number with a unit or with marks of thousands; None if the text is not such a number."""
    if len(text) > LONGEST:
        return None
    other = "," if decimal == "." else "."
    plain = re.sub(rf"(?<=\d)[ \u00a0\u202f'{other}](?=\d{{3}}(?!\d))", "", text)  # without marks of thousands
    after = re.fullmatch(r"(?P<number>.*\d)\s*(?P<unit>%|[€$£¥°]\S*|(?<=\s)[^\d\s]\S*)", plain)
    before = re.fullmatch(r"(?P<unit>[€$£¥]|[A-Z]{3}(?=\s))\s*(?P<number>.*\d)", plain)
    for match in (after, before):
        if match and any(_is_number(match["number"], mark) for mark in (decimal, other)):
            return f"write the number alone, without {match['unit']!r}"
    in_thousands = plain != text and _is_number(plain, decimal)
    if _is_number(text, other):
        thousands = f"; if it marks thousands, write {plain}" if in_thousands else ""
        return (NAME_COMMA if decimal == "." else NAME_NO_COMMA) + thousands
    return f"write it without marks of thousands, {plain}" if in_thousands else None


def _is_number(text: str, decimal: str) -> bool:
    return bool(re.fullmatch(rf"[+-]?(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][+-]?\d+)?", text))
