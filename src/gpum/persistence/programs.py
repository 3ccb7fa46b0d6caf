"""Compiled programs are cached on the disk between runs, in the user's cache folder.

JAX compiles a program for each shape of its arguments, which takes up to seconds; arrays are padded
(`basics.padding`) so that there are few shapes. `cached_programs` is a scope in which JAX's own cache of programs has a
folder. JAX has no such setting for one thread or one function, so it is set for the process, here only, from the moment
at which the first thread enters a scope until the last one leaves; then it is as before. A user who has given JAX a
folder keeps it. A folder that cannot be written is not used. As with every cache of JAX, whoever can write to
the folder can run code in your name.

    GPUM_CACHE=folder   uses a subfolder of that one instead; GPUM_CACHE=off caches nothing

Only files with the ending of programs, in the subfolder of programs, are ever removed.

A program in memory takes a dozen memory maps, of which Linux allows a process 65 530: a process that fits clouds of
hundreds of sizes would crash. If the fraction FULL of them is used, the programs of this package are removed from
memory at the end of a scope; they remain on the disk.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from ..basics.checks import ForkedProcess
from ..basics.device import release_programs
from .atomic import user_cache

VARIABLE = "GPUM_CACHE"
OFF = ("off", "0", "no", "false")
FOLDER = "jax_compilation_cache_dir"  # JAX's settings
WORTH = {"jax_persistent_cache_min_compile_time_secs": 0.05}  # to read a program takes a hundredth of it
LARGEST = 500 * 2**20  # bytes of all programs together, above which the least recently used are removed
SUBFOLDER = "gpum-programs"
ENDING = "-cache"  # JAX's
FULL = 0.4  # fraction of the memory maps of a process above which programs are removed from memory
COUNTED = 50  # scopes after which the maps are counted, which takes milliseconds
# A child of os.fork does not have the threads of JAX, so a computation with JAX would wait for ever.
FORKED = (
    "this process was forked from one in which GPUM had computed with JAX, whose threads do not exist in a child; "
    "start workers with multiprocessing.get_context('forkserver') or 'spawn' (gunicorn: without --preload), and load "
    "the model in each of them"
)


@dataclass
class Process:
    """Whether this process, or the process from which it was forked, has computed with JAX in the scope."""

    computed: bool = False
    forked: bool = False

    def in_child(self) -> None:
        """Called in a child right after a fork."""
        self.forked = self.computed


PROCESS = Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.in_child)


@dataclass
class Scope:
    """JAX's settings while at least one thread is inside; threads enter and leave in any order."""

    lock: Lock = field(default_factory=Lock)
    inside: int = 0
    closed: int = 0  # how often the last thread has left since the memory maps were counted
    given: dict[str, Any] = field(default_factory=dict)  # settings that JAX has from here
    before: dict[str, Any] = field(default_factory=dict)  # their values outside

    def enter(self) -> None:
        """One more thread is inside; the first one gives JAX a folder, unless it has one."""
        with self.lock:
            folder = None if self.inside or getattr(jax.config, FOLDER) else _folder()
            if folder is not None:
                self.given = {FOLDER: str(folder), **WORTH}
                self.before = {name: getattr(jax.config, name) for name in self.given}
                self._set(self.given)
            self.inside += 1

    def leave(self) -> None:
        """One thread less; after the last one JAX is as before, but for what the user has set meanwhile."""
        with self.lock:
            self.inside -= 1
            if self.inside:
                return
            if self.given:
                theirs = {name for name, value in self.given.items() if getattr(jax.config, name) != value}
                self._set({name: value for name, value in self.before.items() if name not in theirs})
                self.given = {}
            self.closed += 1
            if self.closed >= COUNTED:
                self.closed = 0
                if maps_used() > FULL:
                    release_programs()

    @staticmethod
    def _set(values: dict[str, Any]) -> None:
        for name, value in values.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # JAX looks at its settings once; now it does so again


SCOPE = Scope()


@contextmanager
def cached_programs() -> Iterator[None]:
    """A scope in which compiled programs are cached on the disk, unless JAX has its own cache folder.

    Raises `ForkedProcess` in a forked child of a process that has used this scope.
    """
    if PROCESS.forked:
        raise ForkedProcess(FORKED)
    PROCESS.computed = True
    SCOPE.enter()
    try:
        yield
    finally:
        SCOPE.leave()


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


@cache
def _folder_of(named: str | None, *environment: str | None) -> Path | None:
    """The folder for these values of the environment, made, and tidied once in a process."""
    if named and named.lower() in OFF:
        return None
    folder = (Path(named).expanduser() if named else user_cache()) / SUBFOLDER / _processor()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def tidy(folder: Path) -> None:
    """Remove the least recently read programs of a folder, if all together are too large."""
    programs, total = [], 0
    for file in folder.iterdir():
        if file.name.endswith(ENDING):
            with suppress(FileNotFoundError):  # another process may tidy at the same time
                programs.append((file.lstat(), file))
    for about, file in sorted(programs, key=lambda program: -max(program[0].st_atime, program[0].st_mtime)):
        if stat.S_ISREG(about.st_mode):
            total += about.st_size
            if total > LARGEST:
                file.unlink(missing_ok=True)


def _processor() -> str:
    """A short code for the instructions of the processor: machines that differ may use one folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
