"""Find files and the folder of the user's cache, and write files so that they appear completely or not at all."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any, BinaryIO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def user_cache() -> Path:
    """The folder of this package in the user's cache: of the XDG standard, or as macOS and Windows have it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gpum" / "gpum"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpum"
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".cache") / "gpum"


def existing(path: Any) -> Path:
    """The path of an existing file; the error suggests a file with a similar name."""
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
def replacing(path: Any, like: Any = None) -> Iterator[BinaryIO]:
    """A new file beside `path`, which replaces `path` when the block succeeds, and is removed when it fails.

    It has the permissions of the file that it replaces; if there is none, no wider permissions than the file `like`.
    A link stays, and its target is replaced. A device or a pipe (/dev/null, a FIFO) also stays: when the block
    succeeds, everything is written to it.
    """
    with _naming(path):
        if _is_device(path):
            with TemporaryFile() as buffer:  # formats with a directory at their end need a file with positions
                yield buffer
                buffer.seek(0)
                with open(path, "wb") as device:
                    shutil.copyfileobj(buffer, device)
        else:
            with _new_file(Path(path), like) as file:
                yield file


@contextmanager
def _new_file(path: Path, like: Any) -> Iterator[BinaryIO]:
    target = path.resolve()  # if path is a link, its target is replaced
    temporary, file = _open_beside(path, like)
    lock = os.dup(file.fileno())  # holds the lock until the file has its name
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if fcntl is None:  # Windows cannot rename an open file
            os.close(lock)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):
            os.close(lock)


def check_writable(path: Any) -> None:
    """Raise what `replacing` would raise at its start: to be called before a long computation."""
    if _is_device(path):  # to open a pipe would end what its reader gets
        if not os.access(path, os.W_OK):
            raise PermissionError(f"cannot write {path}: permission denied; choose another name")
        return
    temporary, file = _open_beside(Path(path))
    file.close()
    temporary.unlink()


@contextmanager
def _naming(path: Any) -> Iterator[None]:
    """A scope in which an error of the system that names no file, such as a full disk, gets the name of this one."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def _is_device(path: Any) -> bool:
    """Whether there is something at `path` that is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode  # of the target of a link
    except OSError:  # creating the file will raise the error
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def permissions(path: Any) -> os.stat_result | None:
    """Owner and permissions of a file; None if there is no file, or its system has no permissions."""
    try:
        return os.stat(path) if os.name == "posix" else None
    except OSError:  # creating the file will raise the error
        return None


def mode_like(about: os.stat_result | None) -> int:
    """The mode of a new file, which its owner can read and write, no wider than that of another file (None: any)."""
    return 0o666 if about is None else 0o666 & (about.st_mode | 0o600)


def close_to_other_groups(file: BinaryIO, about: os.stat_result) -> None:
    """Remove the permissions of the group of an open file, unless another file (`about`) has the same group."""
    now = os.fstat(file.fileno())
    if now.st_gid != about.st_gid:
        _set_mode(file, stat.S_IMODE(now.st_mode) & ~stat.S_IRWXG)


def _take_permissions(file: BinaryIO, about: os.stat_result) -> None:
    """Give an open file the owner, if allowed, and the permissions of another file."""
    with suppress(PermissionError):
        os.fchown(file.fileno(), about.st_uid, about.st_gid)
    _set_mode(file, stat.S_IMODE(about.st_mode) & (0o666 if stat.S_ISDIR(about.st_mode) else 0o777))
    close_to_other_groups(file, about)


def _set_mode(file: BinaryIO, mode: int) -> None:
    with suppress(PermissionError):  # a file system without permissions
        os.fchmod(file.fileno(), mode)


def _open_beside(path: Path, like: Any = None) -> tuple[Path, BinaryIO]:
    """A new, locked file beside `path`; files that interrupted writers left there are removed."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    target = path.resolve()
    _remove_leftovers(target)
    replaced, other = permissions(target), None if like is None else permissions(like)
    while True:
        temporary = target.with_name(f".{target.name}.{token_hex(4)}.part")
        file = _created(path, temporary, 0o600 if replaced else mode_like(other))
        _locked(file)
        if replaced:
            _take_permissions(file, replaced)
        elif other:
            close_to_other_groups(file, other)
        if temporary.exists():  # otherwise another process removed it as a leftover before it was locked
            return temporary, file
        file.close()


def _remove_leftovers(target: Path) -> None:
    """Remove unfinished files beside `target` whose writer has ended: no process holds their lock."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part")
    with suppress(OSError):  # a folder that cannot be read: writing will raise the error
        for left in [p for p in target.parent.iterdir() if name.fullmatch(p.name) and not p.is_symlink()]:
            with suppress(OSError), open(left, "rb") as file:
                if fcntl is None:
                    file.close()  # Windows cannot remove a file that another process has open
                if fcntl is None or _locked(file, wait=False):
                    left.unlink(missing_ok=True)


def _locked(file: BinaryIO, wait: bool = True) -> bool:
    """Lock the file; False if another process holds the lock, or the file system has no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _created(path: Path, temporary: Path, mode: int) -> BinaryIO:
    try:
        return open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode))
    except FileNotFoundError:
        if temporary.parent.is_dir():  # such as /proc
            raise PermissionError(
                f"cannot write {path}: the folder {temporary.parent} exists, but takes no new file; choose another "
                "folder"
            ) from None
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; create it first") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"cannot write {path}: {path.parent} is a file; choose another folder") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise type(error)(f"cannot write {path}: {why} in {temporary.parent}; choose another folder") from None
