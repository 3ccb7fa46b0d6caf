"""Single cells in files of AnnData (.h5ad), by h5py: cells are rows, with the columns of `obs` and of one matrix.

h5py is one package; anndata brings sixteen, and reads matrices that no column comes from. Both write the same file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpum import GpumError
from gpum.tools import cell_advice, cell_columns, needs

from .block import Block

INDEX = "cell"  # the column with the names of the cells
ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
TEXT = {"encoding-type": "string-array", "encoding-version": "0.2.0"}


class Cells:
    """The parts of an AnnData in an open file; a matrix is read when it is taken."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.obs = _Group(file["obs"], file["obs"].attrs["column-order"])
        self.obsm, self.layers = (_Group(file[name], file[name]) for name in ("obsm", "layers"))

    @property
    def X(self) -> Any:
        """The matrix of the genes."""
        return _read(self.file["X"]) if "X" in self.file else None

    @property
    def names(self) -> np.ndarray:
        """The names of the cells."""
        return _read(self.file["obs"][self.file["obs"].attrs["_index"]])

    @property
    def var_names(self) -> np.ndarray:
        """The names of the genes."""
        return _read(self.file["var"][self.file["var"].attrs["_index"]])


class _Group(Mapping[str, Any]):
    """Parts of a file by name."""

    def __init__(self, group: Any, names: Any) -> None:
        self.group, self.known = group, [str(name) for name in names]

    def __getitem__(self, name: str) -> Any:
        return _read(self.group[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _read(item: Any) -> Any:
    """An array, a sparse matrix or a column, as the file says what it is."""
    kind = item.attrs["encoding-type"]
    if kind == "array":
        return item[()]
    if kind == "string-array":
        return item.asstr()[()]
    if kind in ("csr_matrix", "csc_matrix"):
        from scipy.sparse import csc_matrix, csr_matrix

        make = csr_matrix if kind == "csr_matrix" else csc_matrix
        return make((item["data"][()], item["indices"][()], item["indptr"][()]), shape=tuple(item.attrs["shape"]))
    if kind == "categorical":
        categories, codes = np.append(_read(item["categories"]).astype(object), ""), item["codes"][()]
        return categories[codes]  # code -1: no value
    if kind in ("nullable-integer", "nullable-boolean"):
        return np.where(item["mask"][()], np.nan, item["values"][()].astype(float))
    if kind == "nullable-string-array":
        return np.where(item["mask"][()], "", item["values"].asstr()[()].astype(object))
    if kind == "dataframe":
        return np.stack([np.asarray(_read(item[name]), float) for name in item.attrs["column-order"]], 1)
    raise GpumError(f"{item.name} is a {kind}, which is not read; store it as an array or a column")


@contextmanager
def _opened(path: Path) -> Iterator[Cells]:
    library = needs("h5py", "a file of single cells")
    try:
        with library.File(path, "r") as file:
            yield Cells(file)
    except GpumError:
        raise
    except Exception as error:  # whatever h5py raises at a file that is none, or that is damaged
        said = " ".join(str(error).split())
        raise GpumError(f"{path} is not a file of AnnData 0.8 or later, or damaged ({said}); write it again") from None


def read(path: Path, matrix: str | None = None) -> Block:
    """The names of the cells, the columns of `obs`, and those of a matrix, which are the features."""
    with _opened(path) as cells:
        given = cell_columns(cells, matrix)
        others = [name for name in cells.obs if name not in given.names and name != INDEX]
        columns = [cells.names, *(cells.obs[name] for name in others), *given.cells]
        advice = cell_advice(given, matrix or "X")
        return Block([INDEX, *others, *given.names], columns, index=INDEX, features=given.names, advice=advice)


@contextmanager
def writing(file: BinaryIO, source: Path | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that adds columns to `obs` of a copy of a file; each call has the columns of further cells."""
    blocks: list[dict[str, Any]] = []
    yield blocks.append
    assert source is not None  # checked by `tables.writing`
    changed = io.BytesIO(source.read_bytes())
    with needs("h5py", "a file of single cells").File(changed, "r+") as copy:
        obs = copy["obs"]
        names = []
        for name in (name for name in blocks[0] if name != INDEX):
            column = np.concatenate([np.asarray(block[name]) for block in blocks])
            text = column.dtype.kind in "OU"  # classes, whose labels stay beside them
            names.append(f"{name}_predicted" if text else name)
            if names[-1] in obs:
                del obs[names[-1]]
            made = obs.create_dataset(names[-1], data=column.astype(object) if text else column)
            made.attrs.update(TEXT if text else ARRAY)
        order = dict.fromkeys([*map(str, obs.attrs["column-order"]), *names])
        obs.attrs["column-order"] = np.array(list(order), object)
    file.write(changed.getbuffer())
