"""Run independent tasks at the same time: in threads of this process, or in the processes or machines of joblib.

`n_jobs` has scikit-learn's meaning: None is 1 unless a joblib context says otherwise, and -1 is one task a core. Tasks
run in threads of this process, since compiled programs, LAPACK and sparse solvers release Python's lock; a joblib
context that names another backend (`joblib.parallel_config(backend="loky")` or "dask") gets the tasks instead.

Results do not depend on where a task runs: BLAS always uses one thread. A thread whose results nobody waits for any
more (the consumer was interrupted, or another task failed) ends where it next calls `still_wanted`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from threading import Event, Lock
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.parallel import ThreadingBackend, get_active_backend
from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# One for each pool within which this thread works: set when nobody waits for its results.
_over: ContextVar[tuple[Event, ...]] = ContextVar("over", default=())
MANY = 1000  # rows below which threads of BLAS cost more than they gain (and rounding would depend on them)


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
    return backend, 1 if asked == 1 else backend.effective_n_jobs(asked)  # a Dask cluster says as many as it has


def with_jobs(n_jobs: int | None) -> AbstractContextManager[Any]:
    """A scope in which an `n_jobs` of None is this number: for an estimator's tasks that are not given its own."""
    return nullcontext() if n_jobs is None else parallel_config(_backend(n_jobs)[0], n_jobs=n_jobs)


def as_worker() -> AbstractContextManager[Any]:
    """A scope in which n_jobs=-1 is one task at once: this thread is one of many workers, which use all cores."""
    return parallel_config(ThreadingBackend(nesting_level=1))


@lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Libraries with threads in this process. It takes milliseconds; a module that is imported may bring one."""
    return ThreadpoolController()


def one_openmp_thread() -> AbstractContextManager[Any]:
    """A scope in which OpenMP uses one thread where this thread calls it.

    Of several threads each adds its sum when it ends: last digits would depend on their number and on chance.
    """
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1, user_api="openmp")
    return limited


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
                for library in _libraries(len(sys.modules)).select(user_api="blas").lib_controllers:
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


def blas_threads(n: int) -> AbstractContextManager[None]:
    """A scope with the threads of BLAS for problems of n rows: one for few rows, otherwise all."""
    return one_blas_thread if n < MANY else nullcontext()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, when part of the result was `ready`."""

    def __init__(self, ready: Any) -> None:
        super().__init__()
        self.ready = ready


class Unwanted(BaseException):
    """Ends a thread whose results nobody waits for."""


def still_wanted() -> None:
    """Raise `Unwanted` in a thread whose results nobody waits for any more."""
    if any(over.is_set() for over in _over.get()):
        raise Unwanted


def within(over: Event, task: Callable[[], T]) -> Callable[[], T]:
    """The task, to be run in a thread whose results nobody waits for once `over` is set."""
    context = copy_context()
    context.run(_over.set, (*_over.get(), over))
    return lambda: context.run(task)


def results(tasks: Iterable[Callable[[], T]], n_jobs: int | None, here: bool = False) -> Iterator[T]:
    """The results of tasks, in order, each when it is ready; without workers a task runs when its result is read.

    With `here` they run in this process although joblib has other workers: to send their arguments would take longer.
    """
    tasks = list(tasks)
    if here and len(tasks) > 1 and joblib_runs(n_jobs):
        return _in_threads(tasks, cpu_count())
    if len(tasks) > 1 and at_once(n_jobs) > 1:
        return _in_threads(tasks, at_once(n_jobs))
    if len(tasks) < 2 or not joblib_runs(n_jobs):
        return (task() for task in tasks)
    # A task is one argument: joblib would leave large ones with a single worker of a Dask cluster, which may be lost.
    return iter(Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_with_one_blas_thread)(task) for task in tasks))


def _in_threads(tasks: Sequence[Callable[[], T]], n: int) -> Iterator[T]:
    """The results of tasks in n threads. Pending tasks are cancelled when the consumer stops."""
    pool, over = ThreadPoolExecutor(n), Event()
    try:
        # The scope is that of each task: a generator is closed late where a traceback refers to it.
        waiting = deque(pool.submit(within(over, partial(_with_one_blas_thread, task))) for task in tasks)
        while waiting:
            yield waiting.popleft().result()
    finally:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _with_one_blas_thread(task: Callable[[], T]) -> T:
    with one_blas_thread:
        return task()
