"""Dates and times of day as people write them: 12/31/2024, 31.12.24 08:30, 5-Jan-2023, Jan 5, 2023, 08:30.

Which of two numbers is the day cannot be seen in a single cell: an `Order`, which an example gives, says it. Months may
be English words. Years of two digits are those from 1970 to 2069.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from gpum.tools import is_date

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
FIRST_YEAR = 1970  # of those that are written with two digits
DATE = re.compile(
    r"(?P<first>\d{1,2}|[A-Za-z]{3,9})(?P<mark>[/.\- ])(?P<second>\d{1,2}|[A-Za-z]{3,9})(?:(?P=mark)|, ?)"
    r"(?P<year>\d{4}|\d{2})"
    r"(?:[ T]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second_of>\d\d))?(?: ?(?P<half>[AaPp])[Mm])?)?"
)
CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?")


@dataclass(frozen=True)
class Order:
    """The character between the parts of a date, and whether its day is before its month."""

    mark: str
    day_first: bool


def order_of(example: str) -> Order | None:
    """How a date is written; None for other text, and for a date such as 3/4/2024 that does not show it."""
    match = DATE.fullmatch(example.strip())
    if match is None:
        return None
    orders = [
        order for order in (Order(match["mark"], True), Order(match["mark"], False)) if plain_date(example, order)
    ]
    return orders[0] if len(orders) == 1 else None


def could_be_date(cell: str) -> bool:
    """Whether text is a date in one of the two orders, or one that needs no order."""
    match = DATE.fullmatch(cell.strip())
    orders = [] if match is None else [Order(match["mark"], day_first) for day_first in (True, False)]
    return is_date(cell) or any(plain_date(cell, order) for order in orders)


def has_short_year(cell: str) -> bool:
    """Whether a date has a year of two digits."""
    match = DATE.fullmatch(cell.strip())
    return match is not None and len(match["year"]) == 2


def plain_date(cell: str, order: Order) -> str | None:
    """A date such as 2024-12-31 or 2024-12-31T08:30; None if the cell is not written in this order."""
    match = DATE.fullmatch(cell.strip())
    if match is None or match["mark"] != order.mark:
        return None
    day, month = (match["first"], match["second"]) if order.day_first else (match["second"], match["first"])
    number = _month(month)
    if number is None or not day.isdigit():
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += FIRST_YEAR // 100 * 100 + (100 if year < FIRST_YEAR % 100 else 0)
    hour = int(match["hour"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"] in "Pp")
    try:
        moment = datetime(year, number, int(day), hour, int(match["minute"] or 0), int(match["second_of"] or 0))
    except ValueError:
        return None
    return moment.isoformat() if match["hour"] else moment.date().isoformat()


def _month(text: str) -> int | None:
    """The number of a month that is a number, or a word of which at least three letters are there."""
    if text.isdigit():
        return int(text)
    word = text.lower()
    return next((k for k, name in enumerate(MONTHS, 1) if word in (name, name[:3], name[:4])), None)


def hours(cell: str) -> float | None:
    """A time of day in hours, 8.5 for 08:30; None for other text."""
    match = CLOCK.fullmatch(cell.strip())
    return None if match is None else int(match[1]) + int(match[2]) / 60 + int(match[3] or 0) / 3600
