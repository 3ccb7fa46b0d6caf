"""Run independent tasks in parallel: in threads of this process, or in the processes or machines of joblib.

Results do not depend on where a task runs: BLAS always uses one thread. A thread whose results nobody waits for any
more (the consumer was interrupted, or another task failed) ends where it next calls `still_wanted`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed

from .threads import at_once, joblib_runs, one_blas_thread

T = TypeVar("T")

# One for each pool within which this thread works: set when nobody waits for its results.
_over: ContextVar[tuple[Event, ...]] = ContextVar("over", default=())


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
