"""Tables in NPZ files: arrays of numbers or text by name, read without unpickling.

The file holds either

    X (or S) [N, p]   columns feature_names [p], or X_1 … X_p (S_1 … S_p)
    y [N] or [N, k]   column y, or columns target_names [k], or y_1 … y_k
    name [N]          any other array of N entries: a column of that name (arrays of other shapes are left out)

or, without X and S, one array [N] for each column, all of one length.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError

from .block import Block

ROOM, EXPANDS = 1 << 30, 50  # an NPZ may unpack to ROOM bytes, and EXPANDS times its own size
LAST = 0x10FFFF  # the largest code of a character
HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read(path: Path) -> Block:
    """Read the columns with their names."""
    try:
        arrays = _arrays(path)
    except zipfile.BadZipFile as error:
        raise GpumError(f"{path} is not an NPZ file, or damaged ({error}); write it with numpy.savez") from None
    except (ValueError, OSError, EOFError, NotImplementedError, zlib.error, struct.error) as error:
        raise GpumError(f"{path} cannot be read ({error}); save arrays of numbers or text with numpy.savez") from None
    named = {key: [str(name) for name in arrays.pop(key, [])] for key in ("feature_names", "target_names")}
    blocks = [block for block in ("X", "S") if block in arrays]
    if len(blocks) > 1:
        raise GpumError(f"{path} has both X and S; keep the one that holds the rows")
    found: list[tuple[str, np.ndarray]] = []
    for block in blocks:
        found += _split(path, block, arrays.pop(block), named["feature_names"])
    if found and "y" in arrays:
        found += _split(path, "y", arrays.pop("y"), named["target_names"], len(found[0][1]))
    for key, array in arrays.items():
        if not blocks and array.ndim != 1:
            raise GpumError(f"{path} has no X or S, and {key} has shape {array.shape}; save one array [N] a column")
        if not blocks or array.shape == found[0][1].shape:
            found += _split(path, key, array, [], len(found[0][1]) if found else None)
    return Block([name for name, _ in found], [column for _, column in found])


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ by name; memory is limited by the size of the file, and nothing is unpickled."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        if any(entry.flag_bits & 1 for entry in entries):
            raise GpumError("it is encrypted")
        total = sum(entry.file_size for entry in entries)
        if total > ROOM + EXPANDS * path.stat().st_size:
            raise GpumError(f"it would unpack to {total} bytes, more than {EXPANDS} times its size")
        return {e.filename.removesuffix(".npy"): _array(e.filename, archive.read(e)) for e in entries}


def _array(name: str, member: bytes) -> np.ndarray:
    file = io.BytesIO(member)
    try:
        shape, by_column, dtype = HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # whatever numpy's reader of headers raises
        raise GpumError(f"{name} has no sound header: {type(error).__name__}") from None
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise GpumError(f"{name} is an array of type {dtype}")
    numbers = member[file.tell() :]
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(numbers):
        raise GpumError(f"{name} announces {dtype} {shape}, and holds {len(numbers)} bytes")
    found = np.frombuffer(numbers, dtype).reshape(shape, order="F" if by_column else "C")
    codes = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
    if dtype.kind == "U" and found.size and np.frombuffer(numbers, codes).max() > LAST:
        raise GpumError(f"{name} is no text")
    return found


def _split(
    path: Path, key: str, array: np.ndarray, names: list[str], rows: int | None = None
) -> list[tuple[str, np.ndarray]]:
    """Columns of an array [N] or [N, k] with their names."""
    if array.ndim not in (1, 2) or (array.ndim == 1 and key in ("X", "S")):
        raise GpumError(f"{path}: {key} has shape {array.shape}; it must be [rows, columns]")
    if rows is not None and len(array) != rows:
        raise GpumError(
            f"{path}: {key} has {len(array)} rows, but the other columns have {rows}; save one row for each"
        )
    if array.ndim == 1:
        return [(key, array)]
    names = names or [f"{key}_{k + 1}" for k in range(array.shape[1])]
    if len(names) != array.shape[1]:
        raise GpumError(f"{path}: {key} has {array.shape[1]} columns, but {len(names)} names; give one for each")
    return list(zip(names, array.T, strict=True))


@contextmanager
def writing(file: BinaryIO) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that takes columns, more rows in each call; one array for each column is written at the end."""
    blocks: list[dict[str, Any]] = []
    yield blocks.append
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # numpy.savez takes no column named "file"
        for name in blocks[0]:
            column = np.concatenate([np.asarray(block[name]) for block in blocks])
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, column, allow_pickle=False)
