"""What was computed once is not computed again: results in memory or in a folder, found by all that they depend on.

`store.once(key, make)` returns the result for a key, which `make()` computes on first use. A key is a tuple of a word
and of everything that the result depends on, which is named by its content:

    numbers, text, bytes, None            value and type
    arrays of NumPy and JAX               type, shape, order in memory and entries
    lists, tuples, dicts, slices          their entries
    dataclasses of this library           class and fields
    objects with `__gpum_key__()`         class and what that returns
    anything else, and `Held` objects     the object itself: the store holds it

So other data, settings or code (the version is part of every name) do not find the result, and any number of fits may
use one folder. What depends on an object without content, such as a function of the user, never goes to the folder.
Threads may use a store at once: each result is computed by one of them, and the others wait for it.

In a folder an entry is a file with what a model file has after its first line (`container`: a zip of arrays, no
pickle), which is written completely or not at all. A damaged entry is computed again, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar

import numpy as np

from .. import __version__
from ..basics.checks import GpumError
from .atomic import replacing
from .model_io import packed, unpacked

T = TypeVar("T")
MARK = "gpum-store.json"  # the file that shows whose folder it is
PLAIN = (bool, int, float, complex, str, bytes)


@dataclass(frozen=True, eq=False)
class Held:
    """An object that a key names by itself, not by its content: for large objects that never change."""

    value: Any


@dataclass
class _Entry:
    """A result, once there is one; `inputs` are the objects that its name refers to."""

    inputs: list[Any]
    lock: Any = field(default_factory=RLock)
    made: bool = False
    damaged: bool = False  # its file: which is not read again
    value: Any = None


class Store:
    """Results by the content of their keys; with a `folder` some are also there. `notes` tell of damaged entries."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}

    @classmethod
    def open(cls, folder: Any) -> Store:
        """A store with this folder, which is made if it is not there; None: in memory alone."""
        if folder is None:
            return cls()
        if not isinstance(folder, str | PathLike):
            raise GpumError(f"checkpoint is {folder!r}; give the name of a folder, or None")
        folder = Path(folder).expanduser()
        if folder.exists() and not folder.is_dir():
            raise GpumError(f"checkpoint is {str(folder)!r}, which is a file; give the name of a folder")
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARK).exists():
            if any(folder.iterdir()):
                raise GpumError(f"checkpoint is {str(folder)!r}, a folder with other files in it; give a new one")
            with replacing(folder / MARK) as file:
                file.write(json.dumps({"gpum": __version__}).encode())
        return cls(folder)

    def once(self, key: tuple[Any, ...], make: Callable[[], T], kind: type[T] | None = None) -> T:
        """The result for a key; `make()` computes it on first use. With a `kind`, its class, it goes to the folder."""
        name, entry = self._entry(key)
        with entry.lock:
            if not entry.made and not self._recalled(entry, self._path(key, name, entry, kind), kind):
                self._set(entry, make(), self._path(key, name, entry, kind))
            return entry.value

    def get(self, key: tuple[Any, ...], kind: type[T]) -> T | None:
        """The result for a key, an object of this class; None if there is none yet."""
        name, entry = self._entry(key)
        with entry.lock:
            known = entry.made or self._recalled(entry, self._path(key, name, entry, kind), kind)
            return entry.value if known else None

    def _entry(self, key: tuple[Any, ...]) -> tuple[str, _Entry]:
        inputs: list[Any] = []
        name = digest(key, inputs)
        with self._lock:
            return name, self._entries.setdefault(name, _Entry(inputs))

    def _path(self, key: tuple[Any, ...], name: str, entry: _Entry, kind: type | None) -> Path | None:
        """The file of an entry; None if it is in memory alone."""
        if self.folder is None or kind is None or entry.inputs:
            return None
        return self.folder / f"{''.join(c if c.isalnum() else '-' for c in str(key[0]))}-{name}.npz"

    def _recalled(self, entry: _Entry, path: Path | None, kind: type | None) -> bool:
        """Whether a file has the result, which the entry then holds."""
        if path is None or kind is None or entry.damaged or not path.exists():
            return False
        try:
            value = unpacked(path.read_bytes())
            if not isinstance(value, kind):
                raise GpumError(f"a {type(value).__name__} is no {kind.__name__}")
        except (OSError, ValueError):
            entry.damaged = True
            self.notes.append(f"a damaged entry of the checkpoint, {path.name}, was recomputed")
            return False
        self._set(entry, value)
        return True

    def _set(self, entry: _Entry, value: Any, path: Path | None = None) -> None:
        """Let an entry hold a result, and write it to a file unless this machine does not have the folder."""
        if path is not None and path.parent.is_dir():
            with replacing(path) as file:
                file.write(packed(value)[0])
        entry.value, entry.made = value, True

    def __getstate__(self) -> Any:
        """What another process gets: the folder."""
        return {"folder": self.folder}

    def __setstate__(self, state: Any) -> None:
        self.__init__(state["folder"])  # type: ignore[misc]


def digest(value: Any, inputs: list[Any] | None = None) -> str:
    """A name of 32 characters for a value; objects that it names by themselves are appended to `inputs`."""
    name = blake2b(digest_size=16)
    _feed(name.update, (__version__, value), [] if inputs is None else inputs)
    return name.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any, inputs: list[Any]) -> None:
    """Give a hash the content of a value."""
    kind = type(value)
    if value is None or kind in PLAIN:
        update(f"{kind.__name__} {value!r};".encode())
    elif isinstance(value, np.ndarray | np.generic) or (kind.__module__.startswith("jax") and hasattr(value, "dtype")):
        _feed_array(update, np.asarray(value), inputs)
    elif kind in (list, tuple, dict, slice):
        entries = (value.start, value.stop, value.step) if kind is slice else value
        entries = [part for item in value.items() for part in item] if kind is dict else list(entries)
        update(f"{kind.__name__} {len(entries)};".encode())
        for entry in entries:
            _feed(update, entry, inputs)
    elif kind.__module__.split(".")[0] == "gpum" and kind is not Held and hasattr(value, "__gpum_key__"):
        update(f"{kind.__qualname__};".encode())
        _feed(update, value.__gpum_key__(), inputs)
    elif kind.__module__.split(".")[0] == "gpum" and kind is not Held and is_dataclass(value):
        update(f"{kind.__qualname__};".encode())
        for one in fields(value):
            if one.init:
                _feed(update, getattr(value, one.name), inputs)
    else:
        held = value.value if kind is Held else value
        update(f"{kind.__qualname__} {id(held)};".encode())
        inputs.append(held)


def _feed_array(update: Callable[[bytes], None], array: np.ndarray, inputs: list[Any]) -> None:
    turned = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    update(f"array {array.dtype.str} {array.shape} {turned};".encode())  # rounding depends on the order in memory
    if array.dtype == object:
        _feed(update, array.tolist(), inputs)
    else:
        update(np.ascontiguousarray(array.T if turned else array).tobytes())
