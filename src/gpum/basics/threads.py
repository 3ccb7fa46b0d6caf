"""Number of threads: of tasks in this process (the meaning of `n_jobs=None`), and of BLAS.

Compiled programs, LAPACK and sparse solvers release Python's lock, and each of our problems is too small to use several
threads. Settings of joblib (`n_jobs`, `joblib.parallel_config`) have priority; a task that joblib runs in parallel with
others uses one thread.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend
from threadpoolctl import ThreadpoolController


def at_once(n_jobs: int | None) -> int:
    """How many threads to use: one for each core if `n_jobs` is None and joblib has no other setting; otherwise 1."""
    if n_jobs is not None:
        return 1
    backend, _ = get_active_backend()
    usual = isinstance(backend, BACKENDS[DEFAULT_BACKEND]) and backend.nesting_level == 0
    return cpu_count() if usual and effective_n_jobs(None) == 1 else 1


class _OneBlasThread:
    """A scope in which BLAS uses one thread; when the last thread leaves it, the former number is restored.

    The number of threads is a setting of the whole process. If two fits in two threads each set and restored it, one
    could restore the value that the other had set, and BLAS would keep one thread.
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
                    if n != 1 and library.get_num_threads() == 1:  # otherwise another thread of the user controls it
                        self._before.append((library, n))
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            while not self._users and self._before:
                library, n = self._before.pop()
                release = getattr(library, "clear_controlling_thread", lambda force: None)
                release(force=True)  # otherwise only the thread that first changed the number may change it
                library.set_num_threads(n)
                release(force=True)


one_blas_thread = _OneBlasThread()
MANY = 1000  # rows below which threads of BLAS cost more than they gain (and rounding would depend on them)


def blas_threads(n: int) -> AbstractContextManager[None]:
    """A scope with the threads of BLAS for problems of n rows: one for few rows, otherwise all."""
    return one_blas_thread if n < MANY else nullcontext()
