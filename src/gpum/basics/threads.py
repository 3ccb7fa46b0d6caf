"""Threads: how many tasks run side by side in this process (what `n_jobs=None` means), and how many BLAS has.

Compiled programs, LAPACK and sparse solvers let go of Python's lock, and each of our problems is too small for threads
of its own. What joblib was told (`n_jobs`, `joblib.parallel_config`) comes first, and what joblib runs as one of many
tasks already has its share of the cores.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend
from threadpoolctl import ThreadpoolController


def at_once(n_jobs: int | None) -> int:
    """How many threads to use: one a core for None, unless joblib has been told something; else 1."""
    if n_jobs is not None:
        return 1
    backend, _ = get_active_backend()
    usual = isinstance(backend, BACKENDS[DEFAULT_BACKEND]) and backend.nesting_level == 0
    return cpu_count() if usual and effective_n_jobs(None) == 1 else 1


class _OneBlasThread:
    """BLAS with one thread while anybody asks for it; with the last of them it has as many as before.

    The number of threads belongs to the whole process. Two fits in two threads that each set and restored it would
    restore what the other had set, and leave BLAS at one thread for good.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before: list[tuple[Any, int]] = []  # libraries that were changed, and how many threads they had

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                for library in ThreadpoolController().select(user_api="blas").lib_controllers:
                    n = library.get_num_threads()
                    library.set_num_threads(1)
                    if n != 1 and library.get_num_threads() == 1:  # else another thread of the user's has a say in it
                        self._before.append((library, n))
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            while not self._users and self._before:
                library, n = self._before.pop()
                release = getattr(library, "clear_controlling_thread", lambda force: None)
                release(force=True)  # threadpoolctl lets only that thread change the number which did it first
                library.set_num_threads(n)
                release(force=True)


one_blas_thread = _OneBlasThread()
MANY = 1000  # rows below which threads of BLAS cost more than they gain (and rounding would depend on them)


def blas_threads(n: int) -> AbstractContextManager[None]:
    """The threads of BLAS for problems of n rows: one for few rows, else all."""
    return one_blas_thread if n < MANY else nullcontext()
