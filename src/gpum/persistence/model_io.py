"""The model file: a fitted estimator, with or without its table, as numbers and words. It holds no code (`container`).

`tree` defines what is stored of an object, and `registry` which classes may be stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.encoding import Column, Encoding
from . import container
from .tree import Reader, Writer


@dataclass
class Fitted:
    """A fitted estimator with the table it was fitted to: what `gpum fit` writes.

    `about` has `source` (file name), `version` (of gpum), `date` (ISO 8601, UTC), `settings` (parameters of the
    estimator), `seconds`, `warnings` (messages of the fit) and, if a column names the rows, `index`.
    """

    model: Any
    features: list[str]  # column names of X, "colour=red" for a category
    targets: list[str]  # column names of y
    X: np.ndarray  # [N, p], columns that are not numbers encoded
    y: np.ndarray  # [N, k], NaN where unlabelled
    rows: list[str]  # a name for each row
    about: dict[str, Any]

    @property
    def encoding(self) -> Encoding:
        """How the columns of the table became those of X."""
        encoding = getattr(self.model, "encoding_", None)
        return Encoding([Column(name, "number") for name in self.features]) if encoding is None else encoding

    @property
    def columns(self) -> list[str]:
        """The names of the table's columns from which X is made."""
        return [column.name for column in self.encoding.columns]

    def __gpum_summary__(self) -> dict[str, Any]:
        """The summary of the model, with column names and the labels of each target."""
        of_model = self.model.__gpum_summary__() if hasattr(self.model, "__gpum_summary__") else {}
        for y, target in zip(self.y.T, of_model.get("targets", []), strict=True):
            if hasattr(self.model, "classes_"):
                counts = np.bincount(y[~np.isnan(y)].astype(int), minlength=len(self.model.classes_))
                target["classes"] = [[str(c), int(n)] for c, n in zip(self.model.classes_, counts, strict=True)]
            else:
                target["range"] = [float(np.nanmin(y)), float(np.nanmax(y))]
        about = {k: v for k, v in self.about.items() if k != "settings"}
        return {**of_model, "features": self.columns, "names": self.targets, "about": about}

    def __gpum_restored__(self) -> None:
        """Refuse a table whose sizes do not match."""
        N, p = self.X.shape
        if len(self.rows) != N or self.y.shape != (N, len(self.targets)) or len(self.features) != p:
            raise GpumError(f"the table of {N} rows has {len(self.rows)} names and targets of shape {self.y.shape}")


def save(fitted: Fitted, path: Any, *, force: bool = False, max_mb: float | None = None) -> None:
    """Write a model file with its table; completely or not at all; it replaces another only with `force`."""
    write(path, fitted, force=force, max_mb=max_mb)


def load(path: Any) -> Fitted:
    """Read a model file. One without a table (of `model.save`) gets it from the estimator, columns numbered from 1."""
    content = read(path)
    if isinstance(content, Fitted):
        return content
    if not hasattr(content, "__gpum_table__"):
        kind = type(content).__name__
        how = f"load it in Python with {kind}.load" if hasattr(content, "load") else "give a file that `gpum fit` wrote"
        raise GpumError(f"{path} holds a {kind}, which predicts nothing; {how}")
    return content.__gpum_table__()


def summary(path: Any) -> dict[str, Any]:
    """The summary in a file, as plain words and numbers; no array is read."""
    document = container.document(path)
    content = document.get("summary")
    if not isinstance(content, dict):
        raise GpumError(f"{path} has no summary; fit again")
    return content


def write(
    path: Any, content: Any, *, force: bool = False, like: Any = None, max_mb: float | None = None
) -> None:  # fmt: skip
    """Write an object of a known class, completely or not at all; a new file has the permissions of `like`.

    A file of more than `max_mb` · 10⁶ bytes is a GpumError, and not written.
    """
    if max_mb is not None:
        checks.positive(max_mb, "max_mb", "give the size in megabytes, or None for no limit")
    if not force and Path(path).exists() and not Path(path).is_dir():
        raise FileExistsError(f"{path} exists already; give another name, or replace it with force=True")
    payload, arrays = packed(content)
    if max_mb is not None and len(payload) > 1e6 * max_mb:
        sizes = ", ".join(f"{name} {array.nbytes / 1e6:.3g} MB" for name, array in arrays.items())
        raise GpumError(
            f"{path} would take {len(payload) / 1e6:.3g} MB, and the limit is {max_mb:g} MB; before compression its "
            f"numbers take: {sizes}. Fit fewer rows or columns, name fewer geometries, or raise the limit"
        )
    container.write(path, payload, like)


def packed(content: Any) -> tuple[bytes, dict[str, np.ndarray]]:
    """The contents of a model file after its first line, and the arrays in it."""
    writer = Writer()
    root = writer.node(content)
    plain = content.__gpum_summary__() if hasattr(content, "__gpum_summary__") else {}
    arrays = writer.arrays()
    return container.packed({"summary": plain, "objects": writer.objects, "root": root}, arrays), arrays


def read(path: Any) -> Any:
    """Read what `write` wrote. No code from the file is run, whatever it contains."""
    return _built(path, *container.read(path))


def unpacked(payload: bytes) -> Any:
    """The object whose contents `packed` made: a part of another file, which is read on its own."""
    name = "a part of the model file"
    return _built(name, *container.contents(Path(name), payload))


def _built(path: Any, document: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The object of a document."""
    reader = Reader(arrays)
    try:
        reader.build(document.get("objects"))
        return reader.value(document.get("root"))
    except (ValueError, RecursionError, MemoryError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise GpumError(f"{path} cannot be read: {why}; fit again, with the same version of gpum") from None


@dataclass(frozen=True, eq=False)
class Sealed:
    """An object inside a model file that is read when it is first asked for, such as a latent model, which needs JAX.

    It is the bytes that `packed` made of the object or, before it was stored, the object itself.
    """

    payload: np.ndarray | None = None  # int8

    @classmethod
    def of(cls, content: Any) -> Sealed:
        """An object that is in memory."""
        sealed = cls()
        vars(sealed)["content"] = content
        return sealed

    @cached_property
    def content(self) -> Any:
        """The object."""
        assert self.payload is not None
        return unpacked(self.payload.tobytes())

    def __gpum_state__(self) -> dict[str, Any]:
        """The bytes."""
        if self.payload is not None:
            return {"payload": self.payload}
        return {"payload": np.frombuffer(packed(self.content)[0], np.int8)}
