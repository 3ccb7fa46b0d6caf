"""Which columns of a table are features, targets and names of rows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..checks import GpumError
from ..files.tables import MISSING, Table
from .messages import listed, note

if TYPE_CHECKING:
    from ..files.model_io import Fitted


def named(table: Table, option: str, values: Sequence[str]) -> list[str]:
    """Columns that an option names, each by itself or several with commas between them."""
    names: list[str] = []
    for value in values:
        names += [value] if value in table.columns else [part.strip() for part in value.split(",") if part.strip()]
    for name in names:
        if name not in table.columns:
            near = _nearest(name, list(table.columns))
            hint = f"did you mean {near!r}?" if near else f"its columns are {listed(list(table.columns))}"
            raise GpumError(f"{option} names {name!r}, but {table.source} has no such column; {hint}")
    return list(dict.fromkeys(names))


def check_apart(groups: dict[str, list[str]]) -> None:
    """Raise if a column is named by two options, or none is left for the features."""
    seen: dict[str, str] = {}
    for option, names in groups.items():
        for name in names:
            if name in seen:
                raise GpumError(f"column {name!r} is named by {seen[name]} and by {option}; name it once")
            seen[name] = option
    if not groups["--features"]:
        raise GpumError("no column is left for the features; name fewer with --target, --drop and --index")


def readings_of(table: Table, used: list[str], code: float | None) -> np.ndarray:
    """The features [N, p], NaN where a reading is missing or the code; every row and every column has one."""
    advice = "remove the row, or leave the column out (--drop; --index if it names the rows)"
    X = table.readings(used, advice, code)
    for k in np.flatnonzero(np.isnan(X).all(0))[:1]:
        raise GpumError(f"column {used[k]!r} of {table.source} has no value in any row; leave it out (--drop)")
    return X


def gaps_in(X: np.ndarray) -> str:
    """How much of a table is missing, in words."""
    share = float(np.isnan(X).mean())
    return f", {share:.2g} of the readings missing" if share else ""


def labels_of(table: Table, name: str) -> np.ndarray:
    """A target column, with one label at least; where all are the same, a note says so."""
    words = table.words(name)
    if words:
        raise GpumError(
            f"the target {name!r} of {table.source} holds words ({listed(words, 4)}), but several targets are "
            "numbers; classes are fitted one by one, or correct the column"
        )
    y = table.numbers(name, "or leave the cell empty")
    labels = y[~np.isnan(y)]
    if not len(labels):
        raise GpumError(f"no row of {table.source} has a value of the target {name!r}; fill in at least two")
    if np.all(labels == labels[0]):
        note(
            f"the target {name!r} of {table.source} is {labels[0]:g} in all {len(labels)} labelled row(s), so there is "
            "nothing to learn: predictions will be that number, with a wide interval. Label rows whose values differ."
        )
    return y


def classes_of(table: Table, name: str) -> np.ndarray:
    """A target column as classes, text or whole numbers as text; None where a row has none."""
    cells = [None if missing(cell) else cell.strip() for cell in table.text(name)]
    found = {cell for cell in cells if cell is not None}
    if len(found) < 2:
        what = "no value" if not found else f"one class only, {next(iter(found))!r}"
        raise GpumError(f"the target {name!r} of {table.source} has {what}; label rows of at least two classes")
    if all(_is_number(cell) for cell in found):  # 1 and 1.0 are one class
        cells = [None if cell is None else f"{float(cell):g}" for cell in cells]
    return np.array(cells, object)


def coded(table: Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the rows, None where unknown, and as places among the sorted classes [N, 1], NaN where unknown."""
    labels = classes_of(table, name)
    known = np.array([label is not None for label in labels])
    codes = np.full((len(labels), 1), np.nan)
    codes[known, 0] = np.unique(labels[known].astype(str), return_inverse=True)[1]
    return labels, codes


def missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in MISSING


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def spreads(X: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The standard deviation of every feature; 1 for one that does not vary, which a note says."""
    found = np.nanstd(X, axis=0)
    still = [name for name, sd in zip(names, found, strict=True) if not sd > 0]
    if still:
        note(f"--scale-columns leaves what does not vary as it is: {listed(still)}")
    return np.where(found > 0, found, 1.0)


def features_of(table: Table, fitted: Fitted, model: Path) -> list[str]:
    """The model's features, if the table has them all."""
    missing = [name for name in fitted.features if name not in table.columns]
    if missing:
        near = _nearest(missing[0], [name for name in table.columns if name not in fitted.features])
        hint = f"if {near!r} is {missing[0]!r}, rename it" if near else "add them, under these names"
        raise GpumError(
            f"{table.source} lacks {len(missing)} of the {len(fitted.features)} features of {model.name}: "
            f"{listed(missing)}; {hint}"
        )
    return fitted.features


def _nearest(name: str, names: list[str]) -> str | None:
    """The name most like another, capitals apart."""
    plain = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), plain, n=1)
    return plain[near[0]] if near else None
