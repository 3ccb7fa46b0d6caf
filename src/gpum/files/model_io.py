"""The model file: one line of text, then a pickle. Load only files you trust: reading a pickle can run any code.

    GPUM model, format 1, gpum 0.1.0, 1234 bytes, sha256 0123…

The line tells foreign, truncated, damaged and later files apart before anything is unpickled. It does not protect
from a file made to do harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from .. import __version__
from .whole import existing, replacing

FORMAT = 1
MAGIC = b"GPUM model, format "
START = re.compile(re.escape(MAGIC) + rb"(\d+), gpum (\S+),")  # so much every later format keeps
HEADER = re.compile(START.pattern + rb" (\d+) bytes, sha256 ([0-9a-f]{64})\n")


@dataclass
class Fitted:
    """A fitted estimator with the table it was fitted to: what `gpum fit` writes.

    `about` has `source` (file name), `version` (of gpum), `date` (ISO 8601, UTC), `settings` (parameters of the
    estimator), `seconds`, `warnings` (messages of the fit) and, if a column names the rows, `index`.
    """

    model: Any
    features: list[str]  # column names of X
    targets: list[str]  # column names of y
    X: np.ndarray  # [N, p]
    y: np.ndarray  # [N, k], NaN where unlabelled
    rows: list[str]  # a name for each row
    about: dict[str, Any]


def save(fitted: Fitted, path: Any) -> None:
    """Write a model file with its table; it appears whole or not at all."""
    write(path, fitted)


def load(path: Any) -> Fitted:
    """Read a file that `save` wrote (a pickle: load only files you trust)."""
    found = read(path)
    if not isinstance(found, Fitted):
        kind = type(found).__name__
        raise ValueError(
            f"{path} holds a {kind} without the names of its columns; load it in Python with {kind}.load, or fit with "
            "`gpum fit`"
        )
    return found


def write(path: Any, content: Any) -> None:
    """Write any object below the header; the file appears whole or not at all."""
    buffer = BytesIO()
    joblib.dump(content, buffer, compress=1)
    payload = buffer.getvalue()
    header = (
        f"{MAGIC.decode()}{FORMAT}, gpum {__version__}, {len(payload)} bytes, sha256 {sha256(payload).hexdigest()}\n"
    )
    with replacing(path) as file:
        file.write(header.encode())
        file.write(payload)


def read(path: Any) -> Any:
    """Read what `write` wrote, once it is known to be whole (a pickle: load only files you trust)."""
    path = existing(path)
    payload, version = _checked(path)
    try:
        return joblib.load(BytesIO(payload))
    except Exception as error:
        raise ValueError(
            f"{path} is whole, but cannot be read ({type(error).__name__}: {error}); it was written by gpum {version} "
            f"and this is {__version__}: use the same versions of gpum and its libraries, or fit again"
        ) from error


def _checked(path: Path) -> tuple[bytes, str]:
    """The pickle in a file, once its header and checksum are found right, and the version that wrote it."""
    data = path.read_bytes()
    if not data:
        raise ValueError(f"{path} is empty; it is not a GPUM model: fit again")
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise ValueError(f"{path} is not a GPUM model; give a file that `gpum fit` or `model.save` wrote")
    start, header = START.match(data), HEADER.match(data)
    if start and int(start[1]) > FORMAT:
        raise ValueError(
            f"{path} was written by gpum {start[2].decode()} in format {int(start[1])}, but gpum {__version__} reads "
            f"format {FORMAT}; install a later gpum"
        )
    if not header:
        raise ValueError(f"{path} is truncated or damaged in its first line; copy it again, or fit again")
    payload, size = data[header.end() :], int(header[3])
    if len(payload) < size:
        raise ValueError(f"{path} is truncated: {len(payload)} of {size} bytes are there; copy it again, or fit again")
    if sha256(payload).hexdigest().encode() != header[4]:
        raise ValueError(f"{path} is damaged (its checksum is wrong); copy it again, or fit again")
    return payload, header[2].decode()
