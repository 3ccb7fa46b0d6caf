"""The geometry of a table, learned once and kept beside it: `data.csv.geometry.gpum`.

What is kept is used again only for the same numbers, settings and version, and only if this user wrote it: the file is
a pickle, which may run code when it is read, so it is sealed with a key that never leaves the user's own folder. A
table that came from elsewhere with such a file beside it has its geometry learned anew.
"""

from __future__ import annotations

import hmac
import json
import os
import warnings
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np

from ... import __version__
from ...files.whole import replacing

ENDING = ".geometry.gpum"
DUMMY = (0, -1)  # rows that get made-up labels while the geometry is learned, which does not depend on them


def beside(table: Path) -> Path:
    """Where the geometry of a table is kept."""
    return table.with_name(table.name + ENDING)


def learn(model: Any, X: np.ndarray, path: Path) -> Any:
    """An estimator like `model` (with warm_start) whose surfaces are built: kept at `path`, or learned and kept."""
    found = _kept(model, X, path)
    if found is not None:
        return found
    y = np.full(len(X), np.nan)
    y[list(DUMMY)] = 0.0, 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the scale of largest evidence", UserWarning)  # of the made-up labels
        model.fit(X, y)
    seal = _seal_path(path)
    seal.unlink(missing_ok=True)  # never beside a file that it is not of
    model.save(path)
    with replacing(seal) as file:
        file.write(json.dumps({"about": _about(model, X), "seal": _seal(path)}).encode())
    return model


def is_kept(model: Any, X: np.ndarray, path: Path) -> bool:
    """Whether the geometry is there and may be used."""
    try:
        found = json.loads(_seal_path(path).read_bytes())
        return found["about"] == _about(model, X) and hmac.compare_digest(found["seal"], _seal(path))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _kept(model: Any, X: np.ndarray, path: Path) -> Any:
    if not is_kept(model, X, path):
        return None
    try:
        found = type(model).load(path)
    except (ValueError, TypeError, OSError):  # of other versions of libraries: learned anew
        return None
    return found.set_params(**{name: getattr(model, name) for name in ("n_jobs", "verbose")})


def _about(model: Any, X: np.ndarray) -> dict[str, Any]:
    settings = {k: repr(v) for k, v in model.get_params(deep=False).items() if k not in ("n_jobs", "verbose")}
    numbers = sha256(np.ascontiguousarray(X).tobytes()).hexdigest()
    return {"version": __version__, "kind": type(model).__name__, "X": [*X.shape, numbers], "settings": settings}


def _seal_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _seal(path: Path) -> str:
    """A digest of the file under the user's key."""
    with open(path, "rb") as file:
        digest = hmac.new(_user_key(), digestmod="sha256")
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _user_key() -> bytes:
    """Random bytes that only this user can read, made at the first need."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = home / "gpum" / "key"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with open(handle, "wb") as file:
                file.write(token_bytes(32))
    return path.read_bytes()
