"""How cells are written where they are not plain numbers or dates: an example says it.

    weight=12 g          a number with a unit, before or after it
    price=1.234,50 €     marks of thousands, and another decimal mark
    sold=31/12/2024      the day before the month; 12/31/2024: the month before the day

A cell that holds digits and does not fit the example is an error; words and empty cells remain as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import is_date, is_missing

from .table import Table

SPACES = " \u00a0\u202f"
NUMBER = re.compile(
    rf"(?P<before>[^\d+\-.,]*?)\s*(?P<number>[+-]?\d[\d.,'{SPACES}]*\d|[+-]?[.,]?\d)\s*(?P<after>[^\d.,'\s+-].*)?"
)
DATE = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")


@dataclass(frozen=True)
class Style:
    """How the cells of a column are written: an example, and what follows from it."""

    example: str

    def __post_init__(self) -> None:
        if self.date is None and self.marks is None:
            raise GpumError(
                f"{self.example!r} does not show how cells are written; give a number such as '12 g' or '1.234,5', or "
                "a date whose day is above 12, such as 31/12/2024"
            )

    @cached_property
    def date(self) -> tuple[str, int] | None:
        """The separator of a date and the position of its day, 0 or 1; None if the example is no such date."""
        match = DATE.fullmatch(self.example.strip())
        if match is None or (int(match[1]) > 12) == (int(match[3]) > 12):
            return None
        return match[2], 0 if int(match[1]) > 12 else 1

    @cached_property
    def marks(self) -> tuple[str, str, str] | None:
        """The unit, the mark of thousands and the decimal mark of a number, "" if there is none; None: no number."""
        match = NUMBER.fullmatch(self.example.strip())
        if match is None or self.date is not None or DATE.fullmatch(self.example.strip()):
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
        if re.search(r"\d[.,]\d{3}$", number):  # 1,234 may be a thousand or a little more than one
            return None
        return unit, "", last

    def plain(self, cell: str, decimal: str) -> str | None:
        """The cell as a number with this decimal mark, or as a date such as 2024-12-31; None if it does not fit."""
        return self._as_date(cell.strip()) if self.date is not None else self._as_number(cell.strip(), decimal)

    def _as_date(self, cell: str) -> str | None:
        match, (mark, at) = DATE.fullmatch(cell), self.date or ("", 0)
        if match is None or match[2] != mark:
            return cell if is_date(cell) else None
        day, month = (int(match[1]), int(match[3])) if at == 0 else (int(match[3]), int(match[1]))
        try:
            return date(int(match[4]), month, day).isoformat()
        except ValueError:
            return None

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
        """The table with plain cells in these columns; values that mean a missing reading are NaN in the features."""
        changed = {
            name: self._plain(table, name) for name in (*features, *others) if name in self.written and len(table)
        }
        table = replace(table, columns=table.columns | changed)
        for value in self.missing:
            table = table.without(value, features)
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
