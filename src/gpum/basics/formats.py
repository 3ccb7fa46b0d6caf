"""Format numbers and names for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

DIGITS = 4  # decimals of a number, relative to the range of its column
NAME = 80  # characters of a name


def columns(values: np.ndarray) -> list[list[float | None]]:
    """The columns of an array [n, k] as lists."""
    return [column(one) for one in np.asarray(values).T]


def column(values: np.ndarray) -> list[float | None]:
    """Numbers to DIGITS decimals of their range, None where not finite."""
    values = np.asarray(values, float)
    known = values[np.isfinite(values)]
    size = float(np.ptp(known)) if len(known) else 0.0
    size = size or float(np.abs(known).max(initial=0.0)) or 1.0
    rounded = np.round(values, min(DIGITS - int(np.floor(np.log10(size))), 250))
    return [float(v) if np.isfinite(v) else None for v in rounded]


def short(value: Any) -> str:
    """A name, shortened to at most NAME characters."""
    text = str(value)
    return text if len(text) <= NAME else text[: NAME - 1] + "…"


def number(value: float, digits: int = 3) -> str:
    """A number as text, rounded to significant digits."""
    if not np.isfinite(value):
        return "not known"
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    return f"{float(f'{value:.{digits}g}') if abs(value) < 10**digits else round(value):,.10g}"


def percent(fraction: float) -> str:
    """A fraction in whole percents."""
    if 0 < fraction < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= fraction < 1 else f"{100 * fraction:.0f} %"
