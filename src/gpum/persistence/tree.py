"""Objects as a JSON document and flat arrays, and back. Only classes of `registry` are written or built.

    null, true, 7, 0.5, "text", [...]     themselves
    {"object": 3}                         the object of that number, stored once however often it is referred to
    {"array": ["float64", 120, [3, 2]]}   an array of this shape, from position 120 of the flat array of that type
    {"transposed": {"array": ...}}        such an array in the other order
    {"tuple": [...]}, {"dict": [[key, value], ...]}, {"slice": [...]}, {"float": "nan"}, {"text": [...], "shape": [...]}
    {"words": [...]}                      an array of objects, all of them text: the names of a data frame's columns
    {"random_state": [...]}

Objects are in the order in which they can be built: an object refers only to objects before it, so there are no loops.
A class may define `__gpum_state__()`, which returns the attributes to store, and `__gpum_restored__()`, which completes
an object after reading or raises a GpumError.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from hashlib import sha256
from math import prod
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..basics.checks import GpumError
from .container import TYPES
from .registry import RENAMED, class_of, tag_of

FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
NAME = re.compile(r"_?[A-Za-z]\w*")
MOST_AXES = 8
ROOM, EXPANDS = 1 << 26, 10  # memory limit of arrays and text: ROOM bytes, and EXPANDS times the size of the file


class Writer:
    """Converts objects to a document and flat arrays, `objects` and `arrays()`."""

    def __init__(self) -> None:
        self.objects: list[list[Any]] = []
        self._flat: dict[str, list[np.ndarray]] = {}
        self._sizes: dict[str, int] = {}
        self._offsets: dict[Any, int] = {}  # of arrays, by content
        self._numbers: dict[int, int] = {}  # of objects, by identity
        self._held: list[Any] = []  # references, so that no identity is used twice

    def arrays(self) -> dict[str, np.ndarray]:
        """The flat arrays by type."""
        return {name: np.concatenate(arrays) for name, arrays in sorted(self._flat.items())}

    def node(self, value: Any) -> Any:
        """A value as JSON."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.bool_ | np.integer):
            return value.item()
        if isinstance(value, float | np.floating):
            value = float(value)
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, list):
            return [self.node(v) for v in value]
        if isinstance(value, tuple):
            return {"tuple": [self.node(v) for v in value]}
        if isinstance(value, dict):
            return {"dict": [[self.node(k), self.node(v)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.node(v) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, np.ndarray) or type(value).__module__.startswith("jax"):
            return self._array(np.asarray(value))
        if isinstance(value, np.random.RandomState):
            kind, *state = value.get_state()
            return {"random_state": [self.node(v) for v in (kind, *state)]}
        return {"object": self._object(value)}

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return {"transposed": self._array(array.T)}  # the rounding of products depends on the order in memory
        if array.dtype.kind == "U":
            return {"text": array.ravel().tolist(), "shape": list(array.shape)}
        if array.dtype == object and array.ndim == 1 and all(isinstance(word, str) for word in array):
            return {"words": array.tolist()}
        name = array.dtype.name
        if name not in TYPES:
            raise GpumError(f"a model file cannot hold an array of type {array.dtype}; convert it to numbers or text")
        flat = np.ascontiguousarray(array, TYPES[name]).ravel()
        key = name, sha256(flat.tobytes()).digest()
        if key not in self._offsets:
            self._offsets[key] = self._sizes.get(name, 0)
            self._sizes[name] = self._offsets[key] + flat.size
            self._flat.setdefault(name, []).append(flat)
        return {"array": [name, self._offsets[key], list(array.shape)]}

    def _object(self, value: Any) -> int:
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        name = tag_of(type(value))
        if name is None:
            raise GpumError(_cannot_hold(value))
        self._numbers[id(value)] = -1
        state = {key: self.node(v) for key, v in state_of(value).items()}
        self._numbers[id(value)] = len(self.objects)
        self._held.append(value)
        self.objects.append([name, state])
        return self._numbers[id(value)]


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that are stored."""
    if hasattr(value, "__gpum_state__"):
        return value.__gpum_state__()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return dict(vars(value))


def _cannot_hold(value: Any) -> str:
    what = f"{type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        return (
            f"a model file holds no code, and so not the function {value.__name__!r}; keep the function and the "
            "labels, and fit again"
        )
    if any(base.__name__ == "Chart" for base in type(value).__mro__):
        return (
            f"a model file holds no code, and so not a chart of your own ({what}); keep the function or class it is "
            "made of, and fit again"
        )
    return f"a model file cannot hold a {what}: it is not among the classes of gpum.persistence.registry"


class Reader:
    """Builds the objects of a document; anything that `Writer` would not have written is a GpumError."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._copies: dict[Any, np.ndarray] = {}
        self._room = ROOM + EXPANDS * sum(array.nbytes for array in arrays.values())
        self._built: list[Any] = []
        self._hints: dict[type, dict[str, Any]] = {}

    def build(self, objects: Any) -> None:
        """Build the objects of a document, in their order."""
        for entry in _list(objects):
            name, state = _list(entry, 2)
            cls = class_of(name) if isinstance(name, str) else None
            if cls is None:
                raise GpumError(f"it names {str(name)[:80]!r}, which is no class that a model file may hold")
            if not isinstance(state, dict):
                raise GpumError(f"the fields of a {name} are no JSON object")
            present = RENAMED.get(str(name), {})
            self._built.append(
                self._made(cls, {present.get(str(key), str(key)): self.value(node) for key, node in state.items()})
            )

    def value(self, node: Any) -> Any:
        """The value that a node represents."""
        if isinstance(node, list):
            return [self.value(n) for n in node]
        if not isinstance(node, dict):
            return node
        kind = next(iter(node), None)
        if kind == "text":
            return self._text(node)
        if len(node) != 1 or kind not in READERS:
            raise GpumError(f"a part of its document has the unknown form {sorted(map(str, node))[:3]}")
        return READERS[kind](self, node[kind])

    def _text(self, node: dict[str, Any]) -> np.ndarray:
        if set(node) != {"text", "shape"} or not all(isinstance(t, str) for t in _list(node["text"])):
            raise GpumError("an array of text holds something else")
        shape = _shape(node["shape"])
        if prod(shape) != len(node["text"]):
            raise GpumError(f"an array of text has {len(node['text'])} entries and the shape {shape}")
        longest, total = max(map(len, node["text"]), default=0), sum(map(len, node["text"]))
        if (
            4 * longest * len(node["text"]) > ROOM + 4 * EXPANDS * total
        ):  # numpy stores all texts with the length of the longest
            raise GpumError(
                f"an array of {len(node['text'])} texts, one of {longest} characters, would take much memory"
            )
        return np.array(node["text"], str).reshape(shape)

    def _array(self, node: Any) -> np.ndarray:
        name, offset, shape = _list(node, 3)
        if not isinstance(name, str) or name not in self._arrays:
            raise GpumError(f"an array of type {str(name)[:20]!r} is not there")
        flat, shape = self._arrays[name], _shape(shape)
        if not _whole(offset) or offset + prod(shape) > len(flat):
            raise GpumError(f"an array of shape {shape} at {offset} reaches beyond the {len(flat)} numbers there")
        key = name, offset, shape
        if key not in self._copies:
            view = flat[offset : offset + prod(shape)].reshape(shape)
            self._room -= view.nbytes
            if self._room < 0:
                raise GpumError("its arrays lie over one another and would take much memory")
            self._copies[key] = view.copy()  # aligned in memory as numpy does it: same rounding
            self._copies[key].flags.writeable = False  # several objects may use it
        return self._copies[key]

    def _dict(self, node: Any) -> dict[Any, Any]:
        entries = {}
        for pair in _list(node):
            key, value = _list(pair, 2)
            key = self.value(key)
            if not isinstance(key, str | int | float | None):
                raise GpumError("a key is no word and no number")
            entries[key] = self.value(value)
        return entries

    def _object(self, node: Any) -> Any:
        if not _whole(node) or node >= len(self._built):
            raise GpumError(f"an object refers to number {str(node)[:20]}, which is not before it")
        return self._built[node]

    def _random_state(self, node: Any) -> np.random.RandomState:
        kind, *state = (self.value(n) for n in _list(node, 5))
        generator = np.random.RandomState()
        try:
            generator.set_state((kind, *state))
        except (TypeError, ValueError) as error:
            raise GpumError(f"a random state is malformed ({error})") from None
        return generator

    def _made(self, cls: type, state: dict[str, Any]) -> Any:
        """Make an object of a known class; fields that the class does not have are refused."""
        known = self._fields(cls, state)
        for name, value in state.items():
            if name not in known:
                raise GpumError(f"a {cls.__name__} has no field {name[:40]!r}")
            if not _fits(value, known[name]):
                raise GpumError(f"{name} of a {cls.__name__} is a {type(value).__name__}")
        made: Any
        try:
            if is_dataclass(cls):
                made = cls(**state)
            else:
                made = object.__new__(cls)
                made.__dict__.update(state)
            if hasattr(cls, "__gpum_restored__"):
                made.__gpum_restored__()
        except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
            raise GpumError(f"a {cls.__name__} does not fit together ({error})") from None
        return made

    def _fields(self, cls: type, state: dict[str, Any]) -> dict[str, Any]:
        """The allowed attributes of an object with their types; a name that the class itself defines is not allowed."""
        if is_dataclass(cls):
            if cls not in self._hints:
                self._hints[cls] = get_type_hints(cls)
            absent = [
                f.name for f in fields(cls)
                if f.init and f.name not in state and f.default is MISSING and f.default_factory is MISSING
            ]  # fmt: skip
            if absent:
                raise GpumError(f"a {cls.__name__} lacks its field {absent[0]!r}")
            return {f.name: self._hints[cls].get(f.name, Any) for f in fields(cls) if f.init}
        parameters = set(inspect.signature(cls).parameters)
        return {
            name: Any for name in state
            if name in parameters or (NAME.fullmatch(name) and "_" in (name[0], name[-1]) and not hasattr(cls, name))
        }  # fmt: skip


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may have the declared type of a field; only plain types are checked."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is type(None):
        return value is None
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin is int:
        return _whole(value, signed=True)
    if origin is list:
        kinds = get_args(hint)[:1]  # None marks an entry that a posterior does not use
        return isinstance(value, list) and all(v is None or _fits(v, one) for one in kinds for v in value)
    if origin in (np.ndarray, bool, str, tuple, dict):
        return isinstance(value, origin)
    return True


def _whole(value: Any, signed: bool = False) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and (signed or value >= 0)


def _list(node: Any, size: int | None = None) -> list[Any]:
    if not isinstance(node, list) or (size is not None and len(node) != size):
        raise GpumError("a part of its document is not the list that it should be")
    return node


def _shape(node: Any) -> tuple[int, ...]:
    if len(_list(node)) > MOST_AXES or not all(_whole(n) and n < 1 << 48 for n in node):
        raise GpumError("an array has an impossible shape")
    return tuple(node)


def _float(reader: Reader, node: Any) -> float:
    if not isinstance(node, str) or node not in FLOATS:
        raise GpumError(f"{str(node)[:20]!r} is no number")
    return FLOATS[node]


def _words(reader: Reader, node: Any) -> np.ndarray:
    if not all(isinstance(word, str) for word in _list(node)):
        raise GpumError("a list of words holds something else")
    return np.array(node, object)


def _transposed(reader: Reader, node: Any) -> np.ndarray:
    array = reader.value(node)
    if not isinstance(array, np.ndarray):
        raise GpumError("what is transposed is no array")
    return array.T


def _slice(reader: Reader, node: Any) -> slice:
    if not all(n is None or _whole(n, signed=True) for n in _list(node, 3)):
        raise GpumError("a slice has ends that are no whole numbers")
    return slice(*node)


READERS = {
    "object": Reader._object,
    "array": Reader._array,
    "transposed": _transposed,
    "tuple": lambda reader, node: tuple(reader.value(n) for n in _list(node)),
    "dict": Reader._dict,
    "slice": _slice,
    "float": _float,
    "words": _words,
    "random_state": Reader._random_state,
}
