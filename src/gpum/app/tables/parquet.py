"""Tables in Parquet files and Arrow files (.feather, .arrow), by pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError
from gpum.tools import needs

from .block import Block

LARGEST = 1 << 30  # rows of a block that Arrow can count


def blocks(path: Path, most: Callable[[int], int]) -> Iterator[Block]:
    """The rows of a Parquet file, in blocks of at most so many as `most` says for its columns."""
    with _opened(path) as file:
        for batch in file.iter_batches(min(most(len(file.schema_arrow.names)), LARGEST)):
            yield _block(available().Table.from_batches([batch]))


def arrow_blocks(path: Path, most: Callable[[int], int]) -> Iterator[Block]:
    """The rows of an Arrow file, in blocks as `blocks` gives them."""
    try:
        with needs("pyarrow.ipc", "an Arrow file").open_file(str(path)) as file:
            size = most(len(file.schema.names))
            for k in range(file.num_record_batches):
                batch = file.get_batch(k)
                for first in range(0, len(batch), size):
                    yield _block(available().Table.from_batches([batch.slice(first, size)]))
    except available().ArrowInvalid as error:
        said = " ".join(str(error).split())
        raise GpumError(f"{path} is not an Arrow file, or damaged, or of Feather's first version ({said})") from None


def writing_arrow(file: BinaryIO) -> AbstractContextManager[Callable[[dict[str, Any]], None]]:
    """A function that writes columns into an Arrow file; each call adds rows."""
    return _writing(lambda schema: needs("pyarrow.ipc", "an Arrow file").new_file(file, schema))


def count(path: Path) -> int:
    """How many rows a table has."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def writing(file: BinaryIO) -> AbstractContextManager[Callable[[dict[str, Any]], None]]:
    """A function that writes columns; each call adds rows."""
    return _writing(lambda schema: available().parquet.ParquetWriter(file, schema))


@contextmanager
def _writing(make: Callable[[Any], Any]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes columns; `make` gives the writer of tables with a schema, that of the first rows."""
    writer: Any = None

    def add(columns: dict[str, Any]) -> None:
        nonlocal writer
        table = available().table({name: np.asarray(column) for name, column in columns.items()})
        if writer is None:
            writer = make(table.schema)
        writer.write_table(table)

    try:
        yield add
    finally:
        if writer is not None:
            writer.close()


def available() -> Any:
    """The module pyarrow; an error that says how to install it."""
    needs("pyarrow.parquet", "Parquet")
    return needs("pyarrow", "Parquet")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow = available()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except Exception as error:  # whatever pyarrow raises at a file that is not one
        said = " ".join(str(error).split())
        raise GpumError(f"{path} is not a Parquet file, or damaged, or not of plain columns ({said})") from None


def _block(table: Any) -> Block:
    used = [k for k, name in enumerate(table.column_names) if not name.startswith("__index_level_")]  # of pandas
    return Block([table.column_names[k] for k in used], [_array(table.column(k)) for k in used])


def _array(column: Any) -> np.ndarray:
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):  # categories: to_numpy misreads gaps
        column = column.cast(column.type.value_type)
    if getattr(column.type, "tz", None) is not None:  # dates that know their time zone
        return np.array(column.to_pylist(), object)
    return np.asarray(column.to_numpy())
