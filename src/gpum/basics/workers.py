"""Independent tasks side by side: in threads of this process, or on the processes or machines that joblib has.

Numbers do not depend on where a task runs: BLAS has one thread, as it has while an estimator learns its surfaces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import Parallel, delayed

from .threads import at_once, joblib_runs, one_blas_thread

T = TypeVar("T")


def results(tasks: Iterable[Callable[[], T]], n_jobs: int | None) -> Iterator[T]:
    """What tasks return, in order, each as soon as it is there; alone, a task runs when its result is asked for."""
    tasks = list(tasks)
    if len(tasks) > 1 and at_once(n_jobs) > 1:
        return _in_threads(tasks, at_once(n_jobs))
    if len(tasks) < 2 or not joblib_runs(n_jobs):
        return (task() for task in tasks)
    return iter(Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_quietly)(task) for task in tasks))


def _in_threads(tasks: Sequence[Callable[[], T]], n: int) -> Iterator[T]:
    """So many at once; what has not begun when nobody asks for more does not begin."""
    pool = ThreadPoolExecutor(n)
    try:
        with one_blas_thread:
            waiting = deque(pool.submit(task) for task in tasks)
            while waiting:
                yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _quietly(task: Callable[[], T]) -> T:
    with one_blas_thread:
        return task()
