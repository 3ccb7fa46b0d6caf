"""Which columns of a table are features, targets and names of rows."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from gpum import GpumError
from gpum.tools import Column, Columns, Encoding, TextColumns, percent

from ..tables.folder import NAME as PICTURE
from ..tables.table import Table
from ..tables.tables import are_numbers
from ..tables.written import Conventions
from .messages import listed, note

if TYPE_CHECKING:
    from gpum import model_io

ROW_NAMES = {"id", "index", "idx", "row", "key", "nr"}
FEW = 5  # rows below which a column that counts up may be a coincidence


def named(table: Table, option: str, values: Sequence[str]) -> list[str]:
    """The columns that an option names, one by one or several separated by commas."""
    names: list[str] = []
    for value in values:
        names += [value] if value in table.columns else [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in table.columns:
            near = _nearest(name, list(table.columns))
            hint = f"did you mean {near!r}?" if near else f"its columns are {listed(list(table.columns))}"
            if table.index == PICTURE and option == "--target":
                hint = f"label some of the pictures first: gpum label {table.source} --target {shlex.quote(name)}"
            hint = _misread(table) or hint
            raise GpumError(f"{option} names {name!r}, but {table.source} has no such column; {hint}")
    return list(dict.fromkeys(names))


def _misread(table: Table) -> str | None:
    """A likely error in the header of a table that lacks a column; None if there is none."""
    columns = list(table.columns)
    if are_numbers(columns):
        numbers = listed(columns)
        return f"its first line holds numbers instead of names ({numbers}): if it is a row, add the names above it"
    if len(columns) == 1 and any(mark in columns[0] for mark in ",;\t| :"):
        marks = "tabs" if ".tsv" in table.source.lower() else "commas, semicolons, tabs or |"
        return f"its only column is {columns[0]!r}: the first line must hold all names, separated by {marks}"
    return None


def check_apart(groups: dict[str, list[str]]) -> None:
    """Raise if a column is named by two options, or none is left for the features."""
    seen: dict[str, str] = {}
    for option, names in groups.items():
        for name in names:
            if name in seen:
                raise GpumError(f"column {name!r} is named by {seen[name]} and by {option}; name it once")
            seen[name] = option
    if not groups["--features"]:
        if not groups["--drop"] and not groups["--index"]:
            raise GpumError("there is no column beside the target; add columns from which it can be predicted")
        raise GpumError("no column is left for the features; name fewer with --target, --drop and --index")


@dataclass(frozen=True)
class Chosen:
    """A table whose cells are plain, and the columns of it that a command uses."""

    table: Table
    targets: list[str]
    index: list[str]  # the column that names the rows, if any
    used: list[str]  # features


def choose(
    table: Table, target: Sequence[str], features: Sequence[str] | None, drop: Sequence[str] | None, index: str | None,
    conventions: Conventions, new_target: bool = False,
) -> Chosen:  # fmt: skip
    """The columns that options name; with `new_target` the target need not be one of the table."""
    targets = list(target) if new_target else named(table, "--target", target)
    dropped = named(table, "--drop", drop or [])
    own = [] if table.index is None or table.index in (features or []) else [table.index]
    names = named(table, "--index", [index]) if index else own
    others = [name for name in table.columns if name not in {*targets, *dropped, *names}]
    used = named(table, "--features", features or []) or [n for n in table.features or others if n in others]
    check_apart({"--target": targets, "--drop": dropped, "--index": names, "--features": used})
    conventions.check(table)
    return Chosen(conventions.applied(table, used, [t for t in targets if t in table.columns]), targets, names, used)


@dataclass(frozen=True)
class Readings:
    """The features of a table.

    given : what an estimator takes: the numbers, or the columns if some of them are not numbers.
    X : the features as numbers [N, p], NaN where a reading is missing; names : of its columns.
    notes : how columns that are not numbers were encoded.
    """

    given: np.ndarray | Columns
    X: np.ndarray
    names: list[str]
    notes: list[str] = field(default_factory=list)


ADVICE = "leave the cell empty if there is no value, remove the row, or leave the column out (--drop)"


def readings_of(table: Table, used: list[str]) -> Readings:
    """The features; refuses rows and columns without any reading."""
    _refuse_empty(table, [name for name in used if table.is_empty(name)])
    words = [name for name in used if not table.holds_numbers(name)]
    try:
        kinds = {column.name: column for column in Encoding.of(_columns(table, words)).columns}
    except TextColumns as error:
        _refuse_text(table, error)
    encoding = Encoding([kinds.get(name) or Column(name, "number") for name in used])
    found = _readings(table, encoding, ADVICE)
    _refuse_empty(table, [found.names[k] for k in np.flatnonzero(np.isnan(found.X).all(0))])
    return found


def readings_like(table: Table, encoding: Encoding) -> Readings:
    """The columns of a fit in another table."""
    return _readings(table, encoding, "leave the cell empty if there is no value, or remove the row")


def _readings(table: Table, encoding: Encoding, advice: str) -> Readings:
    cells = [
        table.numbers(column.name, advice) if column.kind == "number" else table.columns[column.name]
        for column in encoding.columns
    ]
    given = Columns([column.name for column in encoding.columns], cells)
    X = encoding.encoded(given)
    for row in np.flatnonzero(np.isnan(X).all(1))[:1]:
        raise GpumError(f"{table.row_name(int(row))} of {table.source} has no value in any feature; remove the row")
    return Readings(X if encoding.is_plain else given, X, encoding.names, encoding.notes)


def _columns(table: Table, names: list[str]) -> Columns:
    return Columns(names, [table.columns[name] for name in names])


def _refuse_empty(table: Table, empty: list[str]) -> None:
    """Raise an error that names the columns without any value."""
    if len(empty) == 1:
        raise GpumError(f"column {empty[0]!r} of {table.source} has no value in any row; leave it out ({_drop(empty)})")
    if empty:
        said = f"{len(empty)} columns of {table.source} have no value in any row: {listed(empty)}"
        raise GpumError(f"{said}; leave them out ({_drop(empty)})")


def _refuse_text(table: Table, error: TextColumns) -> NoReturn:
    """Raise an error that names all columns that cannot be encoded."""
    names = list(error.reasons)
    said = f"{len(names)} columns of {table.source} hold text that cannot be encoded as categories: "
    said += "; ".join(reason.replace(" of X", "") for reason in error.reasons.values())
    if len(names) == 1:
        said = error.reasons[names[0]].replace(" of X", f" of {table.source}")
    leave = "leave it out" if len(names) == 1 else "leave them out"
    raise GpumError(f"{said}; {leave} ({_drop(names)}); a column that names the rows is named by --index") from None


def _drop(names: list[str]) -> str:
    """The options that leave out these columns."""
    together = not any("," in name for name in names)
    return shlex.join(["--drop", ",".join(names)] if together else [w for name in names for w in ("--drop", name)])


def counts_rows(values: np.ndarray) -> bool:
    """Whether a column of numbers is 0, 1, 2, ... or 1, 2, 3, ..., up to copies of rows."""
    different = values[np.sort(np.unique(values, return_index=True)[1])]
    n = len(different)
    return FEW <= n > 0.9 * len(values) and any(np.array_equal(different, np.arange(n) + first) for first in (0, 1))


def note_counting(X: np.ndarray, used: list[str], index: bool) -> None:
    """Print a note for every feature that seems to number the rows; `index`: --index names another column."""
    for name, values in zip(used, X.T, strict=True):
        counts = counts_rows(values)
        if counts or name.strip().lower() in ROW_NAMES:
            what = "counts the rows" if counts else "seems to name the rows"
            option = shlex.join(["--drop" if index else "--index", name])
            note(f"the column {name} {what}; it is used as a feature: pass {option} to leave it out.", act=True)
            index = True


def gaps_in(X: np.ndarray) -> str:
    """The fraction of missing readings, in words."""
    fraction = float(np.isnan(X).mean())
    return f", {percent(fraction)} of the readings missing" if fraction else ""


def features_of(table: Table, fitted: model_io.Fitted, model: Path) -> list[str]:
    """The model's features, if the table has them all."""
    used = fitted.columns
    missing = [name for name in used if name not in table.columns]
    if missing:
        near = _nearest(missing[0], [name for name in table.columns if name not in used])
        hint = f"add {'them, under these names' if len(missing) > 1 else 'it, under this name'}"
        hint = _misread(table) or (f"if {near!r} is {missing[0]!r}, rename it" if near else hint)
        what = f"{len(missing)} of the {len(used)} features of {model.name}: {listed(missing)}"
        if len(missing) == 1:
            what = f"the feature {missing[0]} of {model.name}"
        raise GpumError(f"{table.source} lacks {what}; {hint}")
    return used


def _nearest(name: str, names: list[str]) -> str | None:
    """The most similar of some names, ignoring case; None if none is similar."""
    plain = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), plain, n=1)
    return plain[near[0]] if near else None
