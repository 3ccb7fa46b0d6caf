"""A table together with the labels in the file beside it (`labels`): read as one, or written back as one."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import replacing

from . import delimited, tables
from .block import names_of
from .labels import Kind, LabelFile, Line, RowFinder, beside
from .table import Table


def merged(table: Table, path: Any, targets: list[str]) -> tuple[Table, dict[str, int]]:
    """The table at `path` with the labels in the file beside it, and how many there are for each target."""
    file = beside(path)
    if not file.exists():
        return table, {}
    labels, rows = LabelFile(file), RowFinder(table, file)
    columns, counts = dict(table.columns), {}
    for target in targets:
        values = labels.given(target, rows).values
        if values:
            counts[target] = len(values)
            written = {row: _written(value, table.decimal) for row, value in values.items()}
            columns[target] = _filled(columns.get(target), len(table), written)
    return replace(table, columns=columns), counts


def kinds(path: Any, targets: list[str]) -> dict[str, Kind]:
    """What the labels of each target of the table at `path` are, as recorded in the file beside it."""
    file = beside(path)
    if not file.exists():
        return {}
    labels = LabelFile(file)
    return {target: kind for target in targets if (kind := labels.kind(target)) is not None}


def _written(value: str, decimal: str) -> str:
    """A label as the table writes numbers."""
    try:
        float(value)
    except ValueError:
        return value
    return value.replace(".", decimal)


def export(path: Any, target: str, out: Any = None, *, decimal: str = ".", encoding: str = "utf-8") -> int:
    """Write the table at `path` with its labels to `out` (default: replace it); returns the number of labels.

    The file is written completely or not at all. `decimal` and `encoding` are those of the table, which do not change;
    another file is written in UTF-8, and a file of labels beside it records the classes of the labels, if any.
    """
    path = Path(path)
    back = out is None or Path(out).resolve() == path.resolve()
    if back and path.suffix.lower() not in BACK:
        raise GpumError(f"labels cannot be written back into {path.name}; export them to another file, such as a .csv")
    table = tables.read(path, decimal=decimal, encoding=encoding)
    whole, counts = merged(table, path, [target])
    kind = kinds(path, [target]).get(target)
    if not back:
        copied = LabelFile(beside(out))
        if copied.has_labels(target):
            raise GpumError(
                f"{copied.path.name} has labels of {target} that are not in {Path(out).name}; export those first, move "
                "that file away, or give another name"
            )
        tables.write(out, whole.columns)
        if kind is not None and kind.classes is not None and copied.kind(target) != kind:
            copied.add(kind.line(token_hex(8), target))
            copied.add(Line(token_hex(8), "exported", target))
    elif counts:
        BACK[path.suffix.lower()](path, target, whole)
    return counts.get(target, 0)


def _filled(column: np.ndarray | None, n: int, values: dict[int, str]) -> np.ndarray:
    """A column with labels inserted; it remains numeric if all labels are numbers."""
    if column is None:
        column = np.full(n, "", object)
    if column.dtype.kind in "biuf":
        try:
            numbers = {row: float(value) for row, value in values.items()}
        except ValueError:
            pass
        else:
            found = column.astype(np.float64)
            found[list(numbers)] = list(numbers.values())
            return found
    found = column.astype(object)
    for row, value in values.items():
        found[row] = value
    return found


def _back_to_text(path: Path, target: str, table: Table) -> None:
    """Write the labels into a text file; other cells, separator, line ends and encoding do not change."""
    data, column, ending = path.read_bytes(), table.columns[target], path.suffix.lower()
    lines = list(delimited.lines(path, table.encoding))
    above, header = delimited.above_and_header(iter(lines))
    delimiter = delimited.separator(header, ending, table.decimal)
    rows = [row for row, _ in delimited.parsed(path, lines[len(above) :], delimiter)]
    names = names_of(rows[0])
    if target in names:
        for row, value in zip(rows[1:], column, strict=True):
            row[names.index(target)] = str(value)
    else:
        rows = [[*rows[0], target], *([*row, str(value)] for row, value in zip(rows[1:], column, strict=True))]
    written = io.StringIO()
    written.writelines(above)
    delimited.write_lines(written, rows[0], rows[1:], delimiter, "\r\n" if header.endswith("\r\n") else "\n")
    with replacing(path) as file:
        file.write(delimited.encoded(written.getvalue(), data, table.encoding))


def _back_to_parquet(path: Path, target: str, labelled: Table) -> None:
    """Write the labels into a Parquet file; the other columns do not change."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.ParquetFile(path).read()
    values = pyarrow.array(labelled.columns[target], from_pandas=True)
    at = table.column_names.index(target) if target in table.column_names else None
    table = table.append_column(target, values) if at is None else table.set_column(at, target, values)
    with replacing(path) as file:
        parquet.write_table(table, file)


BACK = {".csv": _back_to_text, ".tsv": _back_to_text, ".txt": _back_to_text, ".parquet": _back_to_parquet}
