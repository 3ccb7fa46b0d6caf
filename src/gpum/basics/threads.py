"""Threads: how many tasks run at the same time (what `n_jobs` means), and how many threads BLAS has.

`n_jobs` has scikit-learn's meaning: None is 1 unless a joblib context says otherwise, and -1 is one task a core. Tasks
run in threads of this process, since compiled programs, LAPACK and sparse solvers release Python's lock; a joblib
context that names another backend (`joblib.parallel_config(backend="loky")` or "dask") gets the tasks instead.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any

from joblib import parallel_config
from joblib.parallel import ThreadingBackend, get_active_backend
from threadpoolctl import ThreadpoolController


def at_once(n_jobs: int | None) -> int:
    """How many threads to use; 1 where joblib runs the tasks (see `joblib_runs`)."""
    backend, n = _backend(n_jobs)
    return n if type(backend) is ThreadingBackend else 1


def joblib_runs(n_jobs: int | None) -> bool:
    """Whether tasks go to several workers of a backend that the user chose in a joblib context."""
    backend, n = _backend(n_jobs)
    return n > 1 and type(backend) is not ThreadingBackend


def _backend(n_jobs: int | None) -> tuple[Any, int]:
    """The backend that runs tasks, and how many it runs at once."""
    backend, of_context = get_active_backend(prefer="threads")
    asked = of_context if n_jobs is None else n_jobs
    if asked is not None and asked < 0 and type(backend) is ThreadingBackend and backend.nesting_level:
        return backend, 1  # this process is one of many workers, which use all cores already
    return backend, backend.effective_n_jobs(asked)


def with_jobs(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A scope in which an `n_jobs` of None is this number: for an estimator's tasks that are not given its own."""
    return nullcontext() if n_jobs is None else parallel_config(_backend(n_jobs)[0], n_jobs=n_jobs)


def as_worker() -> AbstractContextManager[Any]:
    """A scope in which n_jobs=-1 is one task at once: this thread is one of many workers, which use all cores."""
    return parallel_config(ThreadingBackend(nesting_level=1))


@lru_cache(1)
def _blas(n_modules: int) -> list[Any]:
    """The BLAS libraries of this process. To find them takes milliseconds; a module that is imported may bring one."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


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
                for library in _blas(len(sys.modules)):
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
