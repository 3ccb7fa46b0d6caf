"""The geometry of a table, learned once and kept beside it: `data.csv.geometry`.

It holds every surface and kernel that was built, which a model file does not, and so is a pickle, which may run code
when it is read. It is therefore sealed with a key that never leaves the user's own folder, and read only if this user
wrote it, for the same numbers, settings and version. A table that came from elsewhere with such a file beside it has
its geometry learned anew.
"""

from __future__ import annotations

import hmac
import json
import os
import warnings
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_bytes
from typing import Any

import joblib
import numpy as np

from ... import __version__
from ...files.whole import replacing

ENDING = ".geometry"
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
    buffer = BytesIO()
    joblib.dump(model, buffer, compress=1)
    with replacing(path) as file:
        file.write(_head(model, X, buffer.getvalue()))
        file.write(buffer.getvalue())
    return model


def is_kept(model: Any, X: np.ndarray, path: Path) -> bool:
    """Whether the geometry is there and may be used."""
    return _sealed(model, X, path) is not None


def _kept(model: Any, X: np.ndarray, path: Path) -> Any:
    data = _sealed(model, X, path)
    if data is None:
        return None
    try:
        found = joblib.load(BytesIO(data))
    except Exception:  # of other versions of libraries: learned anew
        return None
    return found.set_params(**{name: getattr(model, name) for name in ("n_jobs", "verbose")})


def _sealed(model: Any, X: np.ndarray, path: Path) -> bytes | None:
    """The pickle in the file, if this user wrote it for this model and these numbers."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[data.find(b"\n") + 1 :]
    return body if hmac.compare_digest(_head(model, X, body), data[: len(data) - len(body)]) else None


def _head(model: Any, X: np.ndarray, body: bytes) -> bytes:
    """The line above the pickle: a digest, under the user's key, of all that must be the same."""
    digest = hmac.new(_user_key(), json.dumps(_about(model, X), sort_keys=True).encode(), "sha256")
    digest.update(body)
    return f"GPUM geometry, sealed {digest.hexdigest()}\n".encode()


def _about(model: Any, X: np.ndarray) -> dict[str, Any]:
    settings = {k: repr(v) for k, v in model.get_params(deep=False).items() if k not in ("n_jobs", "verbose")}
    numbers = sha256(np.ascontiguousarray(X).tobytes()).hexdigest()
    return {"version": __version__, "kind": type(model).__name__, "X": [*X.shape, numbers], "settings": settings}


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
