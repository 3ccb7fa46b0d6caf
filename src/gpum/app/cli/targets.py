"""Target columns of a table: numbers, or classes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import MARKERS, counted

from ..tables.table import Table
from .messages import listed, note

FOR_CLASSES = "--unlabelled is for classes (--classes); in a target of numbers, leave such cells empty"
NO_MARK = "none"  # as a word of --unlabelled
MARKS = MARKERS | {
    "unknown",
    "unlabelled",
    "unlabeled",
    "undefined",
    "unclassified",
    "missing",
    "todo",
    "tbd",
    "?",
    "-",
    ".",
}


def are_classes(table: Table, name: str, unlabelled: str | None) -> bool:
    """Whether a target holds classes without --classes: its cells are words, except marks of unlabelled rows."""
    return table.is_text(name, ignoring={"-1", "-1.0", unlabelled})


def labels_of(table: Table, name: str) -> np.ndarray:
    """A target column of numbers, with at least one label; a note is printed if all labels are equal."""
    words = table.words(name)
    if table.is_text(name):
        raise GpumError(
            f"the target {name!r} of {table.source} holds words ({listed(words, 4)}), but several targets are "
            "numbers; classes are fitted one by one, or correct the column"
        )
    y = table.numbers(name, "leave the cell empty, or pass --classes if the target holds classes")
    labels = y[~np.isnan(y)]
    if not len(labels):
        raise GpumError(f"no row of {table.source} has a value of the target {name!r}; fill in at least two")
    if np.all(labels == labels[0]):
        everyone = "the only labelled row" if len(labels) == 1 else f"all {len(labels)} labelled rows"
        note(
            f"the target {name!r} of {table.source} is {labels[0]:g} in {everyone}, so there is "
            "nothing to learn: predictions will be that number, with a wide interval. Label rows whose values differ.",
            act=True,
        )
    return y


def coded(table: Table, name: str, unlabelled: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the rows (None: unknown), and their indices among the sorted classes [N, 1] (NaN: unknown)."""
    from gpum.tools import split_labels

    cells, mark = np.array(_plain(table.entries(name)), object), mark_of(unlabelled)
    known, classes = split_labels(cells, mark)
    marked = bool(np.any(split_labels(cells, None)[0] & ~known))
    found, codes, counts = np.unique(classes.astype(str), return_inverse=True, return_counts=True)
    if len(found) < 2:
        what = "no value" if not len(found) else f"one class only, {str(found[0])!r}"
        hint = f"; -1 marks rows without a label: if it is a class, pass --unlabelled {NO_MARK}"
        hint = hint if marked and unlabelled is None else ""
        raise GpumError(f"the target {name!r} of {table.source} has {what}; label rows of at least two classes{hint}")
    if unlabelled is not None and mark is not None and not marked:
        note(f"--unlabelled is {unlabelled!r}, but no row of {table.source} has it as its {name!r}.")
    if mark is not None and not marked:
        note_marks(dict(zip(found.tolist(), counts.tolist(), strict=True)), len(cells))
    labels, indices = np.full(len(cells), None, object), np.full((len(cells), 1), np.nan)
    labels[known], indices[known, 0] = classes, codes
    return labels, indices


def without_marks(labels: dict[int, str], unlabelled: str | None) -> dict[int, str]:
    """Classes by row, without rows whose value marks that they have no label."""
    from gpum.tools import split_labels

    known, _ = split_labels(np.array(list(labels.values()), object), mark_of(unlabelled))
    return {row: label for (row, label), is_known in zip(labels.items(), known, strict=True) if is_known}


def note_marks(counts: dict[str, int], n: int) -> None:
    """Print a note for a class that seems to mark rows without a label: by its name, or if most of n rows have it."""
    for label, count in counts.items():
        if label.lower() in MARKS or (count > n / 2 and len(counts) > 2):
            option = "" if label.lower() == NO_MARK else f"pass {shlex.join(['--unlabelled', label])}, or "
            note(
                f"{count} of {counted(n, 'row')} are of class {label!r}; if this marks rows without a label, {option}"
                "leave these cells empty.",
                act=True,
            )


def mark_of(unlabelled: str | None) -> Any:
    """The option --unlabelled as a parameter of the estimator."""
    return "auto" if unlabelled is None else None if unlabelled.lower() == NO_MARK else _plain([unlabelled.strip()])[0]


def _plain(cells: list[str | None]) -> list[str | None]:
    """Cells that are all numbers, in their shortest form: 1 and 1.0 are the same class."""
    if not all(_is_number(cell) for cell in cells if cell is not None):
        return cells
    return [cell if cell is None else _shortest(cell) for cell in cells]


def _shortest(cell: str) -> str:
    try:
        return str(int(cell))
    except ValueError:
        number = float(cell)
        return str(int(number)) if number.is_integer() else repr(number)


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell))
