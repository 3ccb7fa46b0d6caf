"""Files are found, or the error says what is wrong; they appear whole or not at all."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO


def existing(path: Any) -> Path:
    """The path, if there is a file; else an error that names the nearest one beside it."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        hint = f"did you mean {path.with_name(near[0])}?" if near else "check the name and the folder"
        raise FileNotFoundError(f"there is no file {path}; {hint}")
    return path


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A new file beside `path` which takes its place when the block ends well, and goes away when it does not."""
    part, file = _open_beside(Path(path))
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, Path(path).resolve())  # where path is a link, what it points to is replaced
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # such as a full disk
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def check_writable(path: Any) -> None:
    """Raise what `replacing` would raise at its start: to be called before a long computation."""
    part, file = _open_beside(Path(path))
    file.close()
    part.unlink()


def _open_beside(path: Path) -> tuple[Path, BinaryIO]:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    target = path.resolve()
    part = target.with_name(f".{target.name}.{token_hex(4)}.part")
    try:
        return part, open(part, "xb")
    except FileNotFoundError:
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; create it first") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"cannot write {path}: {path.parent} is a file; choose another folder") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise type(error)(f"cannot write {path}: {why} in {target.parent}; choose another folder") from None
