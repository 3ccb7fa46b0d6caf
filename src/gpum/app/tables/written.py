"""How cells are written where they are not plain numbers or dates: an example says it.

    weight=12 g          a number with a unit, before or after it
    price=1.234,50 €     marks of thousands, and another decimal mark
    sold=31/12/2024      the day before the month; 12/31/2024: the month before the day; 5-Jan-23, Jan 5, 2023
    begin=08:30          a time of day, which becomes a number of hours

A cell that holds digits and does not fit the example is an error; words and empty cells remain as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import could_be_number, is_date, is_missing

from .dates import Order, could_be_date, hours, order_of, plain_date
from .table import Table

SPACES = " \u00a0\u202f"
NUMBER = re.compile(
    rf"(?P<before>[^\d+\-.,]*?)\s*(?P<number>[+-]?\d[\d.,'{SPACES}]*\d|[+-]?[.,]?\d)\s*(?P<after>[^\d.,'\s+-].*)?"
)


def could_be_thousands(number: str) -> bool:
    """Whether the mark in a number may be one of thousands or a decimal one, as in 1,234; not in 0,234 or 1234,567."""
    return re.fullmatch(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", number) is not None


@dataclass(frozen=True)
class Style:
    """How the cells of a column are written: an example, and what follows from it."""

    example: str

    def __post_init__(self) -> None:
        if self.date is None and self.marks is None and not self.is_clock:
            raise GpumError(
                f"{self.example!r} does not show how cells are written; give a number such as '12 g' or '1.234,5', or "
                "a date whose day is above 12, such as 31/12/2024"
            )

    @cached_property
    def date(self) -> Order | None:
        """The order of a date; None if the example is no date, or does not show its order."""
        return order_of(self.example)

    @property
    def is_clock(self) -> bool:
        """Whether cells are times of day."""
        return hours(self.example) is not None

    @cached_property
    def marks(self) -> tuple[str, str, str] | None:
        """The unit, the mark of thousands and the decimal mark of a number, "" if there is none; None: no number."""
        match = NUMBER.fullmatch(self.example.strip())
        if match is None or self.is_clock or could_be_date(self.example):
            return None
        if match["before"].strip() and match["after"]:
            return None
        unit, number = match["before"].strip() or (match["after"] or "").strip(), match["number"]
        found = [character for character in number if character in f".,'{SPACES}"]
        if not found:
            return unit, "", ""
        kinds, last = set(found), found[-1]
        if len(kinds) == 2 and found.count(last) == 1 and last in ".,":
            return unit, (kinds - {last}).pop(), last
        if len(kinds) > 1:
            return None
        if len(found) > 1 or last not in ".,":
            return unit, last, ""
        if could_be_thousands(number):
            return None
        return unit, "", last

    def plain(self, cell: str, decimal: str) -> str | None:
        """The cell as a number with this decimal mark, or as a date such as 2024-12-31; None if it does not fit."""
        if self.date is not None:
            return plain_date(cell, self.date) or (cell.strip() if is_date(cell) else None)
        if self.is_clock:
            found = hours(cell)
            return None if found is None else repr(found).replace(".", decimal)
        return self._as_number(cell.strip(), decimal)

    def _as_number(self, cell: str, decimal: str) -> str | None:
        unit, thousands, own = self.marks or ("", "", "")
        if unit:
            cell = cell.removeprefix(unit).removesuffix(unit).strip()
        if thousands:
            grouped = rf"([+-]?\d{{1,3}}(?:[{re.escape(thousands)}]\d{{3}})+)(?!\d)(.*)"
            match = re.fullmatch(grouped, cell)
            cell = match[1].replace(thousands, "") + match[2] if match else cell
        own = own or ("." if thousands == "," else "," if thousands == "." else decimal)
        if not re.fullmatch(rf"[+-]?(\d+[{own}]?\d*|[{own}]\d+)([eE][+-]?\d+)?", cell):
            return None
        return cell.replace(own, decimal)


@dataclass(frozen=True)
class Conventions:
    """What the cells of a table mean beyond plain numbers: values that are missing readings, and written styles."""

    missing: tuple[str, ...] = ()
    written: dict[str, Style] = field(default_factory=dict)

    @classmethod
    def of(cls, missing: Sequence[str] | None, written: Sequence[str] | None) -> Conventions:
        """From options: values, and NAME=EXAMPLE."""
        styles = {}
        for text in written or ():
            name, equals, example = text.rpartition("=")
            if not equals or not name.strip() or not example.strip():
                raise GpumError(f"--written is {text!r}; give the column and an example of its cells, 'weight=12 g'")
            styles[name.strip()] = Style(example.strip())
        return cls(tuple(missing or ()), styles)

    @classmethod
    def stored(cls, about: dict[str, Any]) -> Conventions:
        """As a model file has them; one of version 1.0 has one missing value."""
        missing = about.get("missing", [])
        styles = {name: Style(example) for name, example in about.get("written", {}).items()}
        return cls(tuple(map(str, missing if isinstance(missing, list) else [missing])), styles)

    def words(self) -> dict[str, Any]:
        """What a model file stores."""
        written = {name: style.example for name, style in self.written.items()}
        return {
            **({"missing": list(self.missing)} if self.missing else {}),
            **({"written": written} if written else {}),
        }

    def check(self, table: Table) -> None:
        """Refuse a style for a column that the table does not have, or that holds numbers already."""
        for name in self.written:
            if name not in table.columns:
                raise GpumError(f"--written names {name!r}, but {table.source} has no such column")
            if table.columns[name].dtype.kind not in "OU":
                raise GpumError(f"--written names {name!r}, whose cells are no text; leave it out")

    def applied(self, table: Table, features: Collection[str], others: Collection[str] = ()) -> Table:
        """The table with plain cells in these columns; values that mean a missing reading are NaN in the features.

        In `others`, the targets, words among numbers are; a number may be a label, and among classes a word, too.
        """
        changed = {
            name: self._plain(table, name) for name in (*features, *others) if name in self.written and len(table)
        }
        table = replace(table, columns=table.columns | changed)
        for value in self.missing:
            table = table.without(value, features)
            if not could_be_number(value):
                table = table.without(value, [name for name in others if table.holds_numbers(name)])
        return table

    def _plain(self, table: Table, name: str) -> np.ndarray:
        style, found = self.written[name], []
        for row, cell in enumerate(table.columns[name]):
            text = cell.strip() if isinstance(cell, str) else cell
            if not isinstance(text, str) or is_missing(text, among_words=False) or not re.search(r"\d", text):
                found.append(cell)
                continue
            plain = cell if text in self.missing else style.plain(text, table.decimal)
            if plain is None:
                raise GpumError(
                    f"column {name!r} of {table.source}, {table.row_name(row)}, is {cell!r}, which is not written like "
                    f"{style.example!r} (--written); correct it, or leave the cell empty"
                )
            found.append(plain)
        return np.array(found, object)
