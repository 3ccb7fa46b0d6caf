"""Compiled programs are kept on the disk from one run to the next, in the user's cache folder.

JAX compiles a program for each shape of its arguments, which takes up to seconds; sizes are filled up
(`basics.padding`) so that there are few shapes. `cached_programs` is a scope: what is compiled inside is looked for in
the folder first, and put into it afterwards; outside of it, and where JAX has a cache folder of its own, nothing
changes. Many processes may share the folder: a program appears whole or not at all, a damaged one is compiled again,
and a folder that cannot be written or read is no error. As with JAX's own cache, whoever can write to the folder can
run code in your name.

    GPUM_CACHE=folder   keeps programs in a subfolder of that one instead; GPUM_CACHE=off keeps none

Only files with the ending of programs, in the subfolder of programs, are ever removed.

In memory a program takes a dozen memory maps, of which Linux gives a process 65 530: one that fits clouds of hundreds
of sizes would crash. When it has used FULL of them, programs in memory are let go at the end of a scope; they are on
the disk.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

import jax
import platformdirs

from ..basics.checks import GpumError

try:  # JAX has no public way to say how entries are written
    from jax._src import compilation_cache, config

    LEAST: Any = config.persistent_cache_min_compile_time_secs
    OWN: Any = config.compilation_cache_dir
    AVAILABLE = hasattr(compilation_cache, "_cache")
except (ImportError, AttributeError):  # another version of JAX: programs are compiled in every run
    AVAILABLE = False

VARIABLE = "GPUM_CACHE"
OFF = ("off", "0", "no", "false")
WORTH = 0.05  # seconds of compilation above which a program is kept; to read one takes a hundredth
LARGEST = 500 * 2**20  # bytes of all programs together, above which those not used for longest go
OWN_FOLDER = "gpum-programs"
ENDING, UNFINISHED = ".gpum-program", ".gpum-program-part"
DIGEST = 32  # bytes of sha256 before each program
FULL = 0.4  # share of the memory maps of a process above which programs in memory are let go
COUNTED = 50  # programs after which maps are counted again, which takes milliseconds
# A child of os.fork has no threads but its own, and whatever asks those of JAX for something would wait for ever.
FORKED = (
    "this process was forked from one in which GPUM had computed with JAX, whose threads do not live on in a child; "
    "start workers with multiprocessing.get_context('forkserver') or 'spawn' (gunicorn: without --preload), and load "
    "the model in each of them"
)
ENTERING = Lock()  # threads enter and leave the scope as they like; the last one out closes it


@dataclass(frozen=True)
class Programs:
    """A folder of compiled programs, in the form that JAX asks for."""

    folder: Path
    inside: list[None] = field(default_factory=list, compare=False)  # one for each open scope

    @property
    def _path(self) -> Path:
        return self.folder

    def get(self, key: str) -> bytes | None:
        """The program, or None where there is no whole one."""
        path = self._file(key)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        if sha256(found[DIGEST:]).digest() != found[:DIGEST]:
            return None
        with suppress(OSError):  # of somebody else, or read-only
            os.utime(path)  # it was used
        PROCESS.programs += 1
        return found[DIGEST:]

    def put(self, key: str, value: bytes) -> None:
        """Keep a program; where that fails it is compiled the next time."""
        PROCESS.programs += 1
        part = self.folder / f"{token_hex(8)}{UNFINISHED}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(sha256(value).digest() + value)
            os.replace(part, self._file(key))
            self._tidy()
        except OSError:
            _forget(part)

    def _tidy(self) -> None:
        """Remove the programs that were not used for longest, if all together are too large."""
        found = []
        for file in self.folder.iterdir():
            if file.name.endswith((ENDING, UNFINISHED)):
                with suppress(FileNotFoundError):  # another process tidies, too
                    found.append((file.lstat(), file))
        total = 0
        for about, file in sorted(found, key=lambda one: -one[0].st_mtime):
            if stat.S_ISREG(about.st_mode):
                total += about.st_size
                if total > LARGEST:
                    _forget(file)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}-{_processor()}{ENDING}"


@dataclass
class Process:
    """Whether JAX has computed in this scope in this process, or in the one that this one was forked from.

    `programs` are those that came into memory since maps were counted.
    """

    computed: bool = False
    forked: bool = False
    programs: int = 0

    def in_child(self) -> None:
        """Called in a child right after a fork."""
        self.forked = self.computed


PROCESS = Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.in_child)


@contextmanager
def cached_programs() -> Iterator[None]:
    """What is compiled in this scope is kept on the disk, unless JAX has a cache folder already.

    A GpumError in a forked child of a process that was in this scope.
    """
    if PROCESS.forked:
        raise GpumError(FORKED)
    PROCESS.computed = True
    mine = _enter()
    if mine is None:
        yield
        return
    try:
        with LEAST(WORTH):
            yield
    finally:
        with ENTERING:
            mine.inside.pop()
            if not mine.inside and compilation_cache._cache is mine:
                compilation_cache._cache = None
            if not mine.inside and PROCESS.programs >= COUNTED:
                PROCESS.programs = 0
                if maps_used() > FULL:
                    jax.clear_caches()


def _enter() -> Programs | None:
    """What JAX keeps programs in from now on; None where it has a folder of its own, or there is none."""
    with ENTERING:
        if not AVAILABLE or OWN.value:
            return None
        mine: Any = compilation_cache._cache
        folder = _folder()
        if mine is None and folder is not None:
            mine = Programs(folder)
            compilation_cache._cache = mine
        if not isinstance(mine, Programs):
            return None
        mine.inside.append(None)
        return mine


def maps_used() -> float:
    """The share of its memory maps that this process uses; 0 where nobody knows."""
    try:
        with open("/proc/self/maps", "rb") as file:
            used = sum(1 for _ in file)
        return used / int(Path("/proc/sys/vm/max_map_count").read_text())
    except OSError:
        return 0.0


def _folder() -> Path | None:
    """Where programs are kept; None: nowhere."""
    named = os.environ.get(VARIABLE)
    if named:
        return None if named.lower() in OFF else Path(named).expanduser() / OWN_FOLDER
    return Path(platformdirs.user_cache_dir("gpum")) / OWN_FOLDER


def _processor() -> str:
    """Which instructions the processor has, in a word: folders may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]


def _forget(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
