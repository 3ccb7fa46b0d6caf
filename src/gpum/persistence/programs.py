"""Compiled programs are cached on the disk between runs, in the user's cache folder.

JAX compiles a program for each shape of its arguments, which takes up to seconds; arrays are padded
(`basics.padding`) so that there are few shapes. `cached_programs` is a scope: a program that is compiled inside is read
from the folder if it is there, and stored there otherwise. Outside of the scope, and if JAX has its own cache folder,
nothing changes. Many processes may use one folder: a program is written completely or not at all, a damaged one is
compiled again, and a folder that cannot be written or read is no error. As with JAX's own cache, whoever can write to
the folder can run code in your name.

    GPUM_CACHE=folder   uses a subfolder of that one instead; GPUM_CACHE=off caches nothing

Only files with the ending of programs, in the subfolder of programs, are ever removed.

A program in memory takes a dozen memory maps, of which Linux allows a process 65 530: a process that fits clouds of
hundreds of sizes would crash. If the fraction FULL of them is used, programs are removed from memory at the end of a
scope; they remain on the disk.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

import jax

from ..basics.checks import ForkedProcess
from ..basics.folders import user_cache

try:  # JAX has no public way to say how entries are written
    from jax._src import compilation_cache, config

    LEAST: Any = config.persistent_cache_min_compile_time_secs
    OWN: Any = config.compilation_cache_dir
    AVAILABLE = hasattr(compilation_cache, "_cache")
except (ImportError, AttributeError):  # another version of JAX: programs are compiled in every run
    AVAILABLE = False

VARIABLE = "GPUM_CACHE"
OFF = ("off", "0", "no", "false")
WORTH = 0.05  # seconds of compilation above which a program is cached; reading one takes a hundredth of it
LARGEST = 500 * 2**20  # bytes of all programs together, above which the least recently used are removed
OWN_FOLDER = "gpum-programs"
ENDING, UNFINISHED = ".gpum-program", ".gpum-program-part"
DIGEST = 32  # bytes of sha256 before each program
FULL = 0.4  # fraction of the memory maps of a process above which programs are removed from memory
COUNTED = 50  # programs after which the maps are counted, which takes milliseconds
# A child of os.fork does not have the threads of JAX, so a computation with JAX would wait for ever.
FORKED = (
    "this process was forked from one in which GPUM had computed with JAX, whose threads do not exist in a child; "
    "start workers with multiprocessing.get_context('forkserver') or 'spawn' (gunicorn: without --preload), and load "
    "the model in each of them"
)
ENTERING = Lock()  # threads enter and leave the scope in any order; the last one closes it


@dataclass(frozen=True)
class Programs:
    """A folder of compiled programs, with the interface that JAX requires."""

    folder: Path
    inside: list[None] = field(default_factory=list, compare=False)  # one for each open scope

    @property
    def _path(self) -> Path:
        return self.folder

    def get(self, key: str) -> bytes | None:
        """The program, or None if it is missing or damaged."""
        path = self._file(key)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        if sha256(found[DIGEST:]).digest() != found[:DIGEST]:
            return None
        with suppress(OSError):  # the file may belong to another user, or be read-only
            os.utime(path)  # records that it was used
        PROCESS.programs += 1
        return found[DIGEST:]

    def put(self, key: str, value: bytes) -> None:
        """Store a program; if that fails, it is compiled the next time."""
        PROCESS.programs += 1
        unfinished = self.folder / f"{token_hex(8)}{UNFINISHED}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(sha256(value).digest() + value)
            os.replace(unfinished, self._file(key))
            self._tidy()
        except OSError:
            _forget(unfinished)

    def _tidy(self) -> None:
        """Remove the least recently used programs, if all together are too large."""
        found = []
        for file in self.folder.iterdir():
            if file.name.endswith((ENDING, UNFINISHED)):
                with suppress(FileNotFoundError):  # another process may remove programs at the same time
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
    """Whether this process, or the process from which it was forked, has computed with JAX in the scope.

    `programs` counts the programs that were loaded since the memory maps were counted.
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
    """A scope in which compiled programs are cached on the disk, unless JAX has its own cache folder.

    Raises `ForkedProcess` in a forked child of a process that has used this scope.
    """
    if PROCESS.forked:
        raise ForkedProcess(FORKED)
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
    """The cache that JAX uses from now on; None if it has its own folder, or there is no folder."""
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
    """The fraction of its memory maps that this process uses; 0 if it is unknown."""
    try:
        with open("/proc/self/maps", "rb") as file:
            used = sum(1 for _ in file)
        return used / int(Path("/proc/sys/vm/max_map_count").read_text())
    except OSError:
        return 0.0


def _folder() -> Path | None:
    """The folder of cached programs; None: no cache."""
    return _folder_of(*map(os.environ.get, (VARIABLE, "XDG_CACHE_HOME", "HOME")))


@lru_cache(8)
def _folder_of(named: str | None, *environment: str | None) -> Path | None:
    """The folder for these values of the environment: to find it takes longer than to project a row."""
    if named:
        return None if named.lower() in OFF else Path(named).expanduser() / OWN_FOLDER
    return user_cache() / OWN_FOLDER


def _processor() -> str:
    """A short code for the instructions of the processor: machines that differ may use one folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]


def _forget(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
