"""Tables in Excel workbooks (.xlsx), by openpyxl: the first line of the only sheet that is not empty has the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError
from gpum.tools import needs

from .block import Block, named_block

LONGEST = 1_048_576  # lines of a sheet


def read(path: Path) -> Block:
    """Names, and columns of numbers or of any cells; formulas have the values that are stored with them."""
    library = needs("openpyxl", "an Excel workbook")
    try:
        book = library.load_workbook(path, read_only=True, data_only=True)
        sheets = {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets}
        book.close()
    except Exception as error:  # whatever openpyxl raises at a file that is no workbook
        raise GpumError(f"{path} is not an Excel workbook, or damaged ({type(error).__name__}: {error})") from None
    filled = {name: rows for name, rows in sheets.items() if any(cell is not None for row in rows for cell in row)}
    if len(filled) != 1:
        what = f"{len(filled)} sheets with cells ({', '.join(filled)})" if filled else "no cell with a value"
        raise GpumError(f"{path} has {what}; a table is one sheet: save the one that is meant as a file of its own")
    (rows,) = filled.values()
    rows = [row for row in rows if any(cell is not None for cell in row)]
    width = max(map(len, rows))
    header, *below = [[*row, *[None] * (width - len(row))] for row in rows]
    first = ["" if cell is None else str(cell).strip() for cell in header]
    columns = [[row[k] for row in below] for k in range(width)]
    used = [k for k in range(width) if first[k] or any(cell is not None for cell in columns[k])]
    return named_block(first, [_array(columns[k]) if k in used else None for k in range(width)])


def _array(cells: list[Any]) -> np.ndarray:
    """The cells of a column: numbers and truth values as such, others as they are, "" where there is none."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known):
        return np.array([np.nan if cell is None else cell for cell in cells], float)
    if len(known) == len(cells) and all(isinstance(cell, bool) for cell in cells):
        return np.array(cells, bool)
    found = np.empty(len(cells), object)
    found[:] = ["" if cell is None else cell for cell in cells]
    return found


@contextmanager
def writing(file: BinaryIO) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes columns into the only sheet of a workbook; each call adds rows."""
    book = needs("openpyxl", "an Excel workbook").Workbook(write_only=True)
    sheet = book.create_sheet("table")
    lines = 0

    def add(columns: dict[str, Any]) -> None:
        nonlocal lines
        arrays = [np.asarray(column) for column in columns.values()]
        if lines + len(arrays[0]) + (not lines) > LONGEST:
            raise GpumError(f"a sheet of Excel has at most {LONGEST:,} lines; write .csv or .parquet")
        if not lines:
            sheet.append(list(columns))
            lines = 1
        for row in zip(*(column.tolist() for column in arrays), strict=True):
            sheet.append([None if cell != cell else cell for cell in row])  # NaN is an empty cell
        lines += len(arrays[0])

    yield add
    book.save(file)
