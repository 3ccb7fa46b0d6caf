"""The format of a model file: a line of text, then a zip of one JSON document and flat arrays of numbers. No code.

    GPUM model, format 4, gpum 1.0.0, 1234 bytes, sha256 0123…
    model.json      the document
    float64.npy     all numbers of one type, one after the other; the document gives the position of each array

A zip of `.npy` files is compressed and can be opened with common tools (`unzip`, `numpy.load`); safetensors is not
compressed, is one more library, and cannot hold the document. Files are not trusted: the first line distinguishes
foreign, truncated, damaged and older files; then names, types and sizes are checked before memory is allocated, and
numbers are copied as numbers. Nothing is unpickled.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from struct import error as struct_error
from typing import Any

import numpy as np

from .. import __version__
from ..basics.checks import GpumError
from .atomic import existing, replacing

FORMAT = 4
MAGIC = b"GPUM model, format "
START = re.compile(re.escape(MAGIC) + rb"(\d{1,9}), gpum (\S{1,40}),")  # every later format begins in this way
HEADER = re.compile(START.pattern + rb" (\d{1,18}) bytes, sha256 ([0-9a-f]{64})\n")
DOCUMENT = "model.json"
TYPES = {name: np.dtype(f"<{code}") for name, code in {
    "float64": "f8", "float32": "f4", "int64": "i8", "int32": "i4", "int8": "i1", "uint32": "u4", "bool": "?",
}.items()}  # fmt: skip
# A file may unpack to ROOM bytes, and EXPANDS times its own size. Numbers hardly compress; a zip bomb does, 1000-fold.
ROOM, EXPANDS = 1 << 26, 50
SAMPLE, WORTH = 1 << 18, 0.9  # size of a sample; it is compressed if its size falls below this fraction
LONGEST_HEADER = 1000  # of a flat array
LONGEST_LINE = 200  # of the first line, and more


def packed(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The zip of a document and flat arrays (by the name of their type)."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    members = {DOCUMENT: text, **{f"{name}.npy": _npy(array) for name, array in arrays.items()}}
    payload = _zipped(members, zipfile.ZIP_DEFLATED)
    if sum(map(len, members.values())) > _allowed(len(payload)):  # reading would refuse it as a zip bomb
        payload = _zipped(members, zipfile.ZIP_STORED)
    return payload


def write(path: Any, payload: bytes, like: Any = None) -> None:
    """Write what `packed` made; the file is written completely or not at all.

    A new file has the permissions of the file `like`, if given.
    """
    header = (
        f"{MAGIC.decode()}{FORMAT}, gpum {__version__}, {len(payload)} bytes, sha256 {sha256(payload).hexdigest()}\n"
    )
    with replacing(path, like) as file:
        file.write(header.encode())
        file.write(payload)


def read(path: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the flat arrays of a file."""
    path = existing(path)
    return contents(path, _payload(path))


def contents(path: Path, payload: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the flat arrays of what `packed` made, which stands in the file `path`."""
    members = _members(path, payload)
    arrays = {name.removesuffix(".npy"): member for name, member in members.items() if name != DOCUMENT}
    return _parsed(path, members), {name: _flat(path, name, member) for name, member in arrays.items()}


def document(path: Any) -> dict[str, Any]:
    """The document of a file; arrays are not read."""
    path = existing(path)
    return _parsed(path, _members(path, _payload(path), only=DOCUMENT))


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _zipped(members: dict[str, bytes], how: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)  # with a fixed date: the same model gives the same file
            info.compress_type = how if _shrinks(content) else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return file.getvalue()


def _shrinks(content: bytes) -> bool:
    """Whether compression is worth its time: most floats hardly compress, and 100 MB would take ten seconds."""
    middle = len(content) // 2
    sample = content[max(0, middle - SAMPLE // 2) : middle + SAMPLE // 2]
    return len(zlib.compress(sample, 1)) < WORTH * len(sample)


def _allowed(size: int) -> int:
    return ROOM + EXPANDS * size


def _payload(path: Path) -> bytes:
    """The zip in a file, after its first line and checksum were checked."""
    if not path.is_file():
        raise GpumError(f"{path} is no ordinary file; give a file that `gpum fit` or `model.save` wrote")
    with path.open("rb") as file:
        data = file.read(LONGEST_LINE)  # of a file that is not a model file nothing more is read
        header = HEADER.match(data)
        if header:  # of an announced size no more is read than the file has, so no more memory is taken
            announced = header.end() + int(header[3]) + 1
            data += file.read(max(0, min(announced, path.stat().st_size) - len(data)))
    if not data:
        raise GpumError(f"{path} is empty; it is not a GPUM model: fit again")
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise GpumError(f"{path} is not a GPUM model; give a file that `gpum fit` or `model.save` wrote")
    start = START.match(data)
    if start and int(start[1]) != FORMAT:
        by, form = start[2].decode(errors="replace"), int(start[1])
        what = f"{path} was written by gpum {by} in format {form}, but gpum {__version__} reads format {FORMAT}"
        if form > FORMAT:
            raise GpumError(f"{what}; install a later gpum")
        raise GpumError(
            f"{what}. Fit again with the same table and settings. Or predict with that older gpum, if you trust the "
            "file: format 1 was a pickle, which can run any code when it is read"
        )
    if not header:
        raise GpumError(f"{path} is truncated or damaged in its first line; copy it again, or fit again")
    payload, size = data[header.end() :], int(header[3])
    if len(payload) < size:
        raise GpumError(f"{path} is truncated: {len(payload)} of {size} bytes are there; copy it again, or fit again")
    if sha256(payload).hexdigest().encode() != header[4]:
        raise GpumError(f"{path} is damaged (its checksum is wrong); copy it again, or fit again")
    return payload


def _members(path: Path, payload: bytes, only: str | None = None) -> dict[str, bytes]:
    """The members of the zip; it is checked, before unpacking, that `write` may have written them."""
    known = {DOCUMENT, *(f"{name}.npy" for name in TYPES)}
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if not known.issuperset(names) or len(set(names)) < len(names) or DOCUMENT not in names:
                raise _refused(path, f"it holds {', '.join(map(repr, sorted(names)[:9]))}")
            if any(
                e.flag_bits & 1 or e.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for e in entries
            ):
                raise _refused(path, "a member is encrypted, or compressed in an unknown way")
            total = sum(entry.file_size for entry in entries)
            if total > _allowed(len(payload)):
                raise _refused(path, f"{len(payload)} bytes would unpack to {total}")
            return {e.filename: _unpacked(path, archive, e) for e in entries if only in (None, e.filename)}
    except GpumError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
        ValueError,  # such as a position before the beginning
        struct_error,
    ) as error:
        raise _refused(path, f"its zip cannot be read: {error}") from None


def _unpacked(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)  # no more than was announced
    if len(content) != entry.file_size:
        raise _refused(path, f"{entry.filename} has not the size it announces")
    return content


def _parsed(path: Path, members: dict[str, bytes]) -> dict[str, Any]:
    try:
        parsed = json.loads(members[DOCUMENT].decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its document is no JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise _refused(path, "its document is no JSON object")
    return parsed


def _no_constant(name: str) -> None:
    raise GpumError(f"{name} is no number")


def _flat(path: Path, name: str, member: bytes) -> np.ndarray:
    """The numbers in a `.npy`, read as numbers: [n], read-only."""
    file = io.BytesIO(member)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise GpumError("another version of .npy")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=LONGEST_HEADER)
    except Exception as error:  # whatever numpy's reader of headers raises
        raise _refused(path, f"{name}.npy has no sound header ({type(error).__name__}: {error})") from None
    numbers = member[file.tell() :]
    if dtype != TYPES[name] or len(shape) != 1 or shape[0] * dtype.itemsize != len(numbers):
        raise _refused(path, f"{name}.npy announces {dtype} {shape}, and holds {len(numbers)} bytes")
    if name == "bool" and max(numbers, default=0) > 1:
        raise _refused(path, "bool.npy holds numbers other than 0 and 1")
    return np.frombuffer(numbers, TYPES[name])


def _refused(path: Path, why: str) -> GpumError:
    return GpumError(
        f"{path} is not a model that gpum wrote: {why}; fit again, and read only files whose sender you know"
    )
