"""Labels that people give to rows of a table, in a file beside it: `data.csv.labels.csv`.

A CSV file to which lines are only added, one for each action; a line is on the disk before the action is confirmed:

    time, id, action, target, row, name, value, check

    label     a value for a row (counted from 1) of a target
    undo      cancels the line whose id is the value
    skip      the row is not asked for again
    columns   the feature columns (as JSON) from which the checks of the following lines are computed
    kind      what the labels of a target are, as JSON: a list of classes, or "number"
    exported  all labels of that target up to here have been written into the table

The sender of a line chooses its `id`, so that a line that is sent twice is stored once. `check` is a checksum of the
row's features, which identifies the row if the table has changed. A line that a crash left unfinished is recognised by
its missing cells.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from gpum import GpumError
from gpum.tools import close_to_other_groups, fcntl, mode_like, permissions

from .table import Table

COLUMNS = ("time", "id", "action", "target", "row", "name", "value", "check")
ACTIONS = ("label", "undo", "skip", "columns", "kind", "exported")
NUMBER = "number"
ENDING = ".labels.csv"
CHECK = 8  # hexadecimal digits


@dataclass(frozen=True)
class Line:
    """One line; `row` counts from 0, and is -1 if the line does not concern a row."""

    id: str
    action: str
    target: str
    row: int = -1
    name: str = ""
    value: str = ""
    check: str = "0" * CHECK
    time: str = ""

    def cells(self) -> list[Any]:
        """The line as it is written."""
        row = "" if self.row < 0 else self.row + 1
        return [self.time, self.id, self.action, self.target, row, self.name, self.value, self.check]


@dataclass(frozen=True)
class Kind:
    """What the labels of a target are: one of some classes, or (None) numbers."""

    classes: tuple[str, ...] | None = None

    def line(self, id: str, target: str) -> Line:
        """The line that records it."""
        return Line(id, "kind", target, value=json.dumps(NUMBER if self.classes is None else self.classes))


@dataclass
class Given:
    """The labels of one target that result from the lines.

    values : the label of each row that has one here.
    order : ids of the labels that are valid, oldest first, each with its line.
    skipped : rows that are not asked for again.
    """

    values: dict[int, str] = field(default_factory=dict)
    order: dict[str, Line] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)


def beside(table: Any) -> Path:
    """The file of labels of a table."""
    path = Path(table) if Path(table).name else Path(table).resolve()  # of a folder called "."
    return path.with_name(path.name + ENDING)


def row_checks(X: np.ndarray) -> list[str]:
    """A checksum of eight digits for each row of features [N, p]."""
    return [f"{crc32(row.tobytes()):0{CHECK}x}" for row in np.ascontiguousarray(X, dtype="<f8")]


class LabelFile:
    """A file of labels: its lines, and a way to add lines; `torn` counts the incomplete lines."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self._held: Any = None
        self._read()

    def _read(self) -> None:
        data = self.path.read_bytes() if self.path.exists() else b""
        self.lines, self.torn = _parsed(self.path, data)
        self._ids = {line.id for line in self.lines}

    def _open(self, how: str) -> Any:
        """Open the file without a buffer; a new file has no wider permissions than its table."""
        about = None if self.path.exists() else permissions(self.path.with_name(self.path.name.removesuffix(ENDING)))
        make = lambda name, flags: os.open(name, flags, mode_like(about))
        file: Any = open(self.path, how, buffering=0, opener=make)  # noqa: SIM115 (the caller closes it)
        if about is not None:
            close_to_other_groups(file, about)
        return file

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def hold(self) -> None:
        """Lock the file, so that no other process adds lines until this one ends; raise if another has locked it.

        Lines that others have added until now are read.
        """
        if fcntl is None:
            return
        held: Any = None
        while held is None or not self._is(held):  # the process that held it last may have removed an empty file
            if held is not None:
                held.close()
            held = self._open("ab")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.close()
                raise GpumError(
                    f"another `gpum label` is at work on {self.path.name}; use its page, or stop it (Ctrl-C) first"
                ) from None
            except OSError:  # a file system without locks
                break
        self._held = held
        self._read()

    def release(self) -> None:
        """Unlock the file; a file without lines is removed."""
        if self._held is None:
            return
        if self._is(self._held) and not os.fstat(self._held.fileno()).st_size:
            self.path.unlink()  # while no other process can lock it
        self._held.close()
        self._held = None

    def _is(self, file: Any) -> bool:
        """Whether an open file is the one at the path now."""
        return self.path.exists() and os.path.samestat(os.fstat(file.fileno()), self.path.stat())

    def add(self, line: Line) -> bool:
        """Write a line to the disk; False, and nothing is written, if a line with its id exists already."""
        if line.id in self._ids:
            return False
        line = replace(line, time=datetime.now(UTC).isoformat(timespec="milliseconds"), name=_flat(line.name))
        if any(set(str(cell)) & set("\r\n") for cell in line.cells()):
            raise GpumError(f"a label, or the name of its target, has a line break: {line.target!r}; take it out")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        with self._open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    text.write("\n")  # ends a line that a crash, or a full disk, left unfinished
            else:
                writer.writerow(COLUMNS)
            writer.writerow(line.cells())
            data = text.getvalue().encode()
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(file.fileno())
        if not size:
            _sync_folder(self.path.parent)
        self.lines.append(line)
        self._ids.add(line.id)
        return True

    def columns(self) -> list[str] | None:
        """The feature columns from which the latest checks are computed."""
        return next((json.loads(line.value) for line in reversed(self.lines) if line.action == "columns"), None)

    def kind(self, target: str) -> Kind | None:
        """What the labels of a target are; None if there are none, or all were cancelled."""
        own = [line for line in self.lines if line.target == target]
        said = [json.loads(line.value) for line in own if line.action == "kind"]
        if not said or not (self.has_labels(target) or any(line.action == "exported" for line in own)):
            return None
        return Kind(None if said[-1] == NUMBER else tuple(said[-1]))

    def has_labels(self, target: str) -> bool:
        """Whether there are labels of a target that were neither cancelled nor exported."""
        return bool(self._standing(target))

    def _standing(self, target: str) -> dict[str, Line]:
        """Labels of a target that were neither cancelled nor exported, by id, oldest first."""
        found: dict[str, Line] = {}
        for line in self.lines:
            if line.target == target:
                if line.action == "exported":
                    found.clear()
                elif line.action == "label":
                    found[line.id] = line
                elif line.action == "undo":
                    found.pop(line.value, None)
        return found

    def given(self, target: str, rows: RowFinder) -> Given:
        """The labels of a target that result from the lines, in the table of `rows`."""
        found, skips, columns = Given(order=self._standing(target)), {}, {}
        of: tuple[str, ...] = ()
        for line in self.lines:
            if line.action == "columns":
                of = tuple(json.loads(line.value))
            elif line.target == target:
                columns[line.id] = of
                if line.action == "skip":
                    skips[line.id] = line
        for line in found.order.values():
            found.values[rows.of(line, columns[line.id])] = line.value
        skipped = (rows.of(line, columns[line.id], lost=True) for line in skips.values())
        found.skipped = [row for row in dict.fromkeys(skipped) if row >= 0 and row not in found.values]
        return found


class RowFinder:
    """Finds the row of a line in a table that may have changed since the line was written."""

    def __init__(self, table: Table, path: Path) -> None:
        self.table, self.path = table, path
        self._checks: dict[tuple[str, ...], list[str]] = {}

    def of(self, line: Line, columns: tuple[str, ...], lost: bool = False) -> int:
        """The row of a line whose check is computed from these columns; -1 if it is gone and `lost` is allowed."""
        checks = self.checks(columns)
        if 0 <= line.row < len(checks) and checks[line.row] == line.check:
            return line.row
        same = [row for row, check in enumerate(checks) if check == line.check]
        if len(same) == 1:
            return same[0]
        if lost:
            return -1
        raise GpumError(
            f"{self.path.name} has a label for row {line.row + 1} ({line.name!r}), but that row of {self.table.source} "
            "has other numbers now, and no other row has the old ones; restore the row, or move the file of labels away"
        )

    def checks(self, columns: tuple[str, ...]) -> list[str]:
        """The checks of all rows, computed from these columns of the table."""
        if columns not in self._checks:
            gone = [name for name in columns if name not in self.table.columns]
            if gone:
                raise GpumError(
                    f"{self.path.name} has labels for rows with a column {gone[0]!r}, which {self.table.source} no "
                    "longer has; restore it, or move the file of labels away"
                )
            numbers = [self.table.marks(name) for name in columns]
            self._checks[columns] = row_checks(np.stack(numbers, 1))
        return self._checks[columns]


def _parsed(path: Path, data: bytes) -> tuple[list[Line], int]:
    """The complete lines of a file, and the number of incomplete ones."""
    header, *texts = data.decode("utf-8", "replace").split("\n")
    if header and not ",".join(COLUMNS).startswith(header):
        raise GpumError(f"{path} is not a file of labels that gpum wrote; move it away, or give the table another name")
    last = texts.pop() if texts else ""
    found = [_line(text) for text in texts if text]
    return [line for line in found if line], sum(line is None for line in found) + bool(last)


def _line(text: str) -> Line | None:
    """A line, or None if it is incomplete."""
    try:
        (cells,) = csv.reader([text], strict=True)
        time, id, action, target, row, name, value, check = cells
        if action not in ACTIONS or len(check) != CHECK or not _sound(action, value):
            return None
        return Line(id, action, target, int(row) - 1 if row else -1, name, value, check, time)
    except (ValueError, RecursionError, csv.Error):
        return None


def _sound(action: str, value: str) -> bool:
    """Whether the value of a line is valid for its action."""
    if action not in ("columns", "kind"):
        return True
    found = json.loads(value)
    return found == NUMBER if isinstance(found, str) else all(isinstance(name, str) for name in found)


def _flat(text: str) -> str:
    """Text on one line."""
    return " ".join(text.splitlines())


def _sync_folder(folder: Path) -> None:
    """Write the name of a new file to the disk too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
