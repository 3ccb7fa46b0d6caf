"""A folder from which a long computation is resumed after it was interrupted.

`run.json` identifies the run: settings, data and version, as plain values and digests. Each finished step is an entry,
a file of arrays (.npz, no pickle) that is written completely or not at all; an object is stored as in a model file
(`tree`). A damaged entry is recomputed, with a note; a folder of another run is refused.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import __version__
from ..basics.checks import GpumError
from .atomic import replacing
from .container import TYPES
from .tree import Reader, Writer

T = TypeVar("T")
ABOUT = "run.json"
DOCUMENT = "document"  # beside the flat arrays of an object
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
DAMAGED_ZIP = (*DAMAGE, zlib.error, struct.error, RuntimeError, MemoryError)  # "encrypted", of impossible sizes


@dataclass(frozen=True)
class Checkpoint:
    """The entries of one run in a folder (None: nothing is stored), and notes about them.

    `prefix` is what the names of entries begin with, which identifies a step of the run.
    """

    folder: Path | None = None
    notes: list[str] = field(default_factory=list)
    prefix: str = ""

    def of(self, step: str) -> Checkpoint:
        """The same checkpoint for the entries of one step of the run."""
        return replace(self, prefix=f"{self.prefix}{step} ")

    @classmethod
    def open(cls, folder: Any, settings: Mapping[str, Any], **data: Any) -> Checkpoint:
        """Open, or create, the folder of a run with these settings and data; the folder of another run is refused."""
        if folder is None:
            return cls()
        if not isinstance(folder, str | PathLike):
            raise GpumError(f"checkpoint is {folder!r}; give the name of a folder, or None")
        folder = Path(folder).expanduser()
        about = {"gpum": __version__, **{name: plain(value) for name, value in {**settings, **data}.items()}}
        about = json.loads(json.dumps(about))
        if folder.exists() and not folder.is_dir():
            raise GpumError(f"checkpoint is {str(folder)!r}, which is a file; give the name of a folder")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / ABOUT
        if path.exists():
            try:
                found = json.loads(path.read_text())
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise GpumError(f"checkpoint: {path} is damaged; delete the folder {folder}, or use another")
            for name in sorted({*about, *found}):
                if found.get(name) != about.get(name):
                    was, now = (_brief(some.get(name)) for some in (found, about))
                    raise GpumError(
                        f"the checkpoint folder {folder} belongs to another run: {name} was {was}, now it is {now}; "
                        "use the same settings and data, or another folder"
                    )
        elif any(folder.iterdir()):
            raise GpumError(f"checkpoint is {str(folder)!r}, a folder with other files in it; give a new one")
        else:
            with replacing(path) as file:
                file.write(json.dumps(about, indent=1).encode())
        return cls(folder)

    def get(self, entry: str) -> dict[str, np.ndarray] | None:
        """The arrays of an entry, or None if it is missing or damaged."""
        path = self._path(entry)
        if path is None or not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except DAMAGED_ZIP:
            self._damaged(path)
            return None

    def put(self, entry: str, arrays: Mapping[str, Any]) -> None:
        """Store the arrays of an entry."""
        path = self._path(entry)
        if path is not None:
            with replacing(path) as file:
                np.savez(file, **arrays)

    def recall(self, entry: str, kind: type[T]) -> T | None:
        """The object of an entry, or None if it is missing, damaged, or not of this kind."""
        arrays, path = self.get(entry), self._path(entry)
        if arrays is None or path is None:
            return None
        try:
            document = json.loads(arrays.pop(DOCUMENT).tobytes())
            if any(array.ndim != 1 or array.dtype != TYPES[name] for name, array in arrays.items()):
                raise GpumError("arrays of an object are flat")
            reader = Reader(arrays)
            reader.build(document["objects"])
            found = reader.value(document["root"])
            if not isinstance(found, kind):
                raise GpumError(f"a {type(found).__name__} is no {kind.__name__}")
            return found
        except (*DAMAGE, TypeError, RecursionError):
            self._damaged(path)
            return None

    def store(self, entry: str, content: T) -> T:
        """Store `content`, an object that a model file may hold, as an entry, and return it.

        Nothing is stored on a machine without the folder.
        """
        if self.folder is not None and self.folder.is_dir():
            writer = Writer()
            root = writer.node(content)
            document = json.dumps({"objects": writer.objects, "root": root}).encode()
            self.put(entry, {DOCUMENT: np.frombuffer(document, np.uint8), **writer.arrays()})
        return content

    def once(self, entry: str, kind: type[T], make: Callable[[], T]) -> T:
        """The object of an entry; if it is missing, it is made and stored."""
        found = self.recall(entry, kind)
        return self.store(entry, make()) if found is None else found

    def _damaged(self, path: Path) -> None:
        self.notes.append(f"a damaged entry of the checkpoint, {path.name}, was recomputed")

    def _path(self, entry: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{''.join(c if c.isalnum() else '-' for c in self.prefix + entry)}.npz"


def plain(value: Any) -> Any:
    """A setting, or data, as values that JSON can hold; an array as a digest of its numbers."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__module__.startswith("jax"):
        return plain(np.asarray(value))
    if isinstance(value, np.ndarray):
        entries = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        return f"{value.dtype} {value.shape} sha256 {sha256(entries).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__, **plain(value.get_params(deep=False))}
    if np.iterable(value):
        return [plain(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    return type(value).__name__


def key(*inputs: Any) -> str:
    """A name of 16 characters for all that a result depends on: values, arrays with shape and type, options."""
    return sha256(json.dumps([__version__, plain(inputs)]).encode()).hexdigest()[:16]


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else f"{text[:56]}..."
