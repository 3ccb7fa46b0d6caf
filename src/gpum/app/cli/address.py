"""The address of the labelling page: stored for the next start, and given to the browser. Its token is secret.

Arguments of programs are visible to everyone on a machine. So the browser is given the name of a private file, which
redirects it to the address.
"""

from __future__ import annotations

import os
import re
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import IO, TYPE_CHECKING

from .messages import note

if TYPE_CHECKING:
    from ..labelling.server import LabelServer

PRIVATE = 0o600
OTHERS = 0o077
REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}"><title>gpum label</title></head>
<body><p>The page is at <a href="{address}">this address</a>.</p></body></html>
"""


def new_token() -> str:
    """A random token, which makes an address secret."""
    return token_urlsafe(32)


def stored_address(data: Path) -> tuple[str, int]:
    """Token and port of the last start, so that an open page still works; new ones if others could know them."""
    path = _address_file(data)
    new = new_token(), 0
    try:
        about = path.lstat()
        if about.st_mode & OTHERS or path.is_symlink() or (os.name == "posix" and about.st_uid != os.getuid()):
            return new
        found = re.fullmatch(r"([\w-]{43}) (\d{4,5}) (\d+)\n", path.read_text(), re.ASCII)
    except (OSError, UnicodeDecodeError):
        return new
    # The number of the file (inode) shows whether it was written here, or unpacked from an archive of someone else.
    if found is None or not 1024 <= int(found[2]) < 65536 or int(found[3]) != about.st_ino:
        return new
    return found[1], int(found[2])


def store_address(data: Path, token: str, port: int) -> None:
    """Store token and port for the next start."""
    path = _address_file(data)
    try:
        path.unlink(missing_ok=True)
        with _private(path) as file:
            file.write(f"{token} {port} {os.fstat(file.fileno()).st_ino}\n")
    except OSError as error:
        note(f"the address could not be stored ({error.strerror}): after a restart, open the new one.")


@contextmanager
def opened(data: Path, server: LabelServer) -> Iterator[None]:
    """Open the page in the browser; the file with the redirect is removed when the page is loaded, or at the end."""
    path = redirect(data, server.address)
    remove = lambda: path.unlink(missing_ok=True)
    server.opened = remove
    try:
        webbrowser.open(path.as_uri())
        yield
    finally:
        remove()


def redirect(data: Path, address: str) -> Path:
    """A new private file that redirects a browser to an address.

    It is beside the table, because browsers in a sandbox often cannot read temporary or hidden files. If the file would
    not be private, or cannot be created there, it is a temporary file.
    """
    text = REDIRECT.format(address=escape(address))
    path = data.resolve().with_name(f"{data.name}.label-{token_hex(4)}.html")
    if os.name == "posix" and os.access(path.parent, os.W_OK):
        with _private(path) as file:
            private = not os.fstat(file.fileno()).st_mode & OTHERS
            if private:
                file.write(text)
        if private:
            return path
        path.unlink()
    handle, name = tempfile.mkstemp(prefix="gpum-label-", suffix=".html")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def _private(path: Path) -> IO[str]:
    """A new file that only its owner may read."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", encoding="utf-8")


def _address_file(data: Path) -> Path:
    return data.with_name(f".{data.name}.label-address")
