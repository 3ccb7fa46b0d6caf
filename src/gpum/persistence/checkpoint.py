"""A folder from which a long computation goes on after it was killed.

`run.json` says whose folder it is: settings, data and version, as plain values and digests. Each finished piece is a
file of arrays (.npz, no pickle) that appears whole or not at all; of an object it holds what a model file would
(`tree`). A piece that is damaged is made again, and a note says so; a folder of another run is refused.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    """Pieces of one run in a folder (None: nothing is kept), and what there is to say of them.

    `part` is the part of the run that pieces are of.
    """

    folder: Path | None = None
    notes: list[str] = field(default_factory=list)
    part: str = ""

    def of(self, part: str) -> Checkpoint:
        """The same for a part of the run."""
        return replace(self, part=f"{self.part}{part} ")

    @classmethod
    def open(cls, folder: Any, settings: Mapping[str, Any], **data: Any) -> Checkpoint:
        """The folder of a run with these settings and data, made where there is none; another run's is refused."""
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

    def get(self, piece: str) -> dict[str, np.ndarray] | None:
        """The arrays of a piece, or None where it is not there, or damaged."""
        path = self._path(piece)
        if path is None or not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except DAMAGED_ZIP:
            self._damaged(path)
            return None

    def put(self, piece: str, arrays: Mapping[str, Any]) -> None:
        """Keep a finished piece."""
        path = self._path(piece)
        if path is not None:
            with replacing(path) as file:
                np.savez(file, **arrays)

    def recall(self, piece: str, kind: type[T]) -> T | None:
        """The object of a piece, or None where it is not there, damaged, or of another kind."""
        arrays, path = self.get(piece), self._path(piece)
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

    def keep(self, piece: str, content: T) -> T:
        """`content`, an object that a model file may hold, kept as a piece; not on a machine without the folder."""
        if self.folder is not None and self.folder.is_dir():
            writer = Writer()
            root = writer.node(content)
            document = json.dumps({"objects": writer.objects, "root": root}).encode()
            self.put(piece, {DOCUMENT: np.frombuffer(document, np.uint8), **writer.arrays()})
        return content

    def once(self, piece: str, kind: type[T], make: Callable[[], T]) -> T:
        """The object of a piece; where it is not there it is made and kept."""
        found = self.recall(piece, kind)
        return self.keep(piece, make()) if found is None else found

    def _damaged(self, path: Path) -> None:
        self.notes.append(f"a damaged piece of the checkpoint, {path.name}, was made again")

    def _path(self, piece: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{''.join(c if c.isalnum() else '-' for c in self.part + piece)}.npz"


def plain(value: Any) -> Any:
    """A setting, or data, as what JSON can hold; arrays as a digest of their numbers."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        entries = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        return f"{value.dtype} {value.shape} sha256 {sha256(entries).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__, **plain(value.get_params(deep=False))}
    if np.iterable(value):
        return [plain(part) for part in value]
    return type(value).__name__


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else f"{text[:56]}..."
