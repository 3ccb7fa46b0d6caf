"""Several starts run, the best go on: how a latent model finds its fit.

Every start runs with the noise held small, the best few with it freed, the best of these to the end. Noise that is
free from the first iteration explains a thin direction away before the chart has found it. `models.Model` says what
is needed of a model.

Starts that have come to the same chart go on as one, and hold all their places: what is left out would have ended
where the best of them ends. Of a large cloud a few rows tell the starts apart, and only the last round is run with all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Any

import jax
import numpy as np
from joblib import Parallel, delayed

from ..basics.threads import at_once, joblib_runs, one_blas_thread
from ..persistence.checkpoint import Checkpoint
from ..persistence.programs import kept_programs
from .models import Data, Model
from .optimise import Progress, Stage, climb

ROUNDS = (4, 2)  # how many starts reach the semifinal and the final
WARP = 0.02  # of the variance, above which two fits count as different charts
COLLAPSED = 1e-3  # a standard deviation of latent means (the prior's is 1) below which a dimension is not used


@dataclass(frozen=True)
class Fit:
    """Where one start has come to: its parameters (None on the way, if made by another process) and last round."""

    start: str
    theta: Any
    last: Progress

    @property
    def bound(self) -> float:
        """The objective reached (nats)."""
        return self.last.value

    @property
    def converged(self) -> bool:
        """Whether the last round gained next to nothing."""
        return self.last.converged


@dataclass(frozen=True)
class Outcome:
    """The fits that reached the end, best first, and the best one of those with the noise held."""

    finalists: tuple[Fit, ...]
    held: Fit


@dataclass(frozen=True)
class Few:
    """Some rows of a cloud, with which starts are told apart; `grown` takes parameters of theirs to all rows."""

    data: Data
    grown: Callable[[Any], Any]


def race(
    model: Model,
    begin: Iterable[tuple[str, Any]],
    data: Data,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None = None,
    see: Callable[[Fit], None] = lambda fit: None,
    pieces: Checkpoint | None = None,
    few: Few | None = None,
) -> Outcome:
    """Run every start (a name and its parameters) through the schedule; `see` is called after every round.

    Every finished run is put into `pieces`, and those that are there already are not run again. With `few`, starts and
    semifinal (and so `Outcome.held`) have its rows.
    """
    pieces = pieces or Checkpoint()
    early = (
        Stage("hyperparameters", (*model.latent, "log_beta"), 50),
        Stage("noise held", ("log_beta",), 200, 10 * tol),
    )
    semifinal = Stage("all free", (), min(300, max_iter), 10 * tol)
    final = Stage("all free", (), max_iter, tol)
    run = partial(_run_all, model, n_jobs=n_jobs, see=see, pieces=pieces)
    some = data if few is None else few.data
    fits = held = _best_first(run(begin, early, "start", data=some))
    going, places = _of_each_chart(model, fits, {}, ROUNDS[0])
    fits = _best_first(run([(fit.start, fit.theta) for fit in going], (semifinal,), "semifinal", data=some))
    going, _ = _of_each_chart(model, fits, places, ROUNDS[1])
    runners = ((fit.start, fit.theta if few is None else few.grown(fit.theta)) for fit in going)
    return Outcome(tuple(_best_first(run(runners, (final,), "final", data=data))), held[0])


def _of_each_chart(model: Model, fits: list[Fit], places: dict[str, int], n: int) -> tuple[list[Fit], dict[str, int]]:
    """Of the best fits, which hold n places, the best of each chart, and how many places each of these holds."""
    going: dict[str, Fit] = {}
    holds: dict[str, int] = {}
    for fit in fits:
        if sum(holds.values()) >= n:
            break
        same = (one for one in going.values() if not differ(_rows(model, one), _rows(model, fit)))
        name = next(same, fit).start
        going.setdefault(name, fit)
        holds[name] = holds.get(name, 0) + places.get(fit.start, 1)
    return list(going.values()), holds


def _rows(model: Model, fit: Fit) -> np.ndarray:
    """Where the rows are, [N, q]."""
    return getattr(fit.theta, model.latent[0])


def differ(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether no linear change takes rows of one chart [N, q] to those of the other, up to WARP of their variance."""
    A, B = A - A.mean(0), B - B.mean(0)
    rest = B - A @ np.linalg.lstsq(A, B, rcond=None)[0]
    return float(np.sum(rest**2)) > WARP * float(np.sum(B**2))


def collapsed(model: Model, fit: Fit) -> bool:
    """Whether a latent dimension is not used: all rows are at one place along it."""
    return bool(np.min(np.std(_rows(model, fit), axis=0)) < COLLAPSED)


def _best_first(fits: list[Fit]) -> list[Fit]:
    return sorted(fits, key=lambda fit: -fit.bound)


def _run_all(
    model: Model,
    begin: Iterable[tuple[str, Any]],
    stages: tuple[Stage, ...],
    called: str,
    data: Data,
    n_jobs: int | None,
    see: Callable[[Fit], None],
    pieces: Checkpoint,
) -> list[Fit]:
    """Where each run ends, in order: one by one, in threads, or through joblib.

    Runs are seen in order, in this thread, every round as it ends; with joblib's workers when all of a run has ended.
    LAPACK has one thread in any case: rounding must not depend on the cores of a worker, and small matrices run faster
    so.
    """

    def lines() -> Iterator[tuple[bool, Any]]:
        """The rounds of each run, and whether they are new."""
        for name, theta in begin:
            known = _recalled(pieces, called, name, theta)
            yield known is None, run(name, theta) if known is None else known

    def ends(runs: Iterable[tuple[bool, Iterable[Fit]]]) -> list[Fit]:
        return [_seen(rounds, see, pieces if new else Checkpoint(), called) for new, rounds in runs]

    run: Callable[[str, Any], Any] = lambda name, theta: _rounds(model, name, theta, data, stages)
    threads = at_once(n_jobs)
    with one_blas_thread:
        if threads > 1:
            with _Threads(threads) as pool:
                alone = run
                run = lambda name, theta: pool.started(partial(alone, name, theta))
                return ends(list(lines()))
        if not joblib_runs(n_jobs):
            return ends(lines())
        run = lambda name, theta: delayed(_whole_run)(model, name, theta, data, stages)
        runs = list(lines())
        made = iter(Parallel(n_jobs=n_jobs, return_as="generator")(task for new, task in runs if new))
        return ends((new, next(made) if new else rounds) for new, rounds in runs)


class _Threads:
    """Runs in so many threads; their rounds can be had as they end."""

    def __init__(self, n: int) -> None:
        self._pool = ThreadPoolExecutor(n)
        self._over = Event()

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *about: Any) -> None:
        self._over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def started(self, run: Callable[[], Iterable[Fit]]) -> Iterator[Fit]:
        """The rounds of a run that begins as soon as a thread is free."""
        ended: SimpleQueue[Fit | BaseException | None] = SimpleQueue()
        self._pool.submit(self._follow, run, ended)
        return self._rounds(ended)

    def _follow(self, run: Callable[[], Iterable[Fit]], ended: SimpleQueue[Any]) -> None:
        try:
            with jax.enable_x64(True), kept_programs():
                for fit in run():
                    ended.put(fit)
                    if self._over.is_set():
                        return
            ended.put(None)
        except BaseException as error:  # it belongs to whoever waits for the rounds
            ended.put(error)

    @staticmethod
    def _rounds(ended: SimpleQueue[Any]) -> Iterator[Fit]:
        while (now := ended.get()) is not None:
            if isinstance(now, BaseException):
                raise now
            yield now


def _seen(run: Iterable[Fit], see: Callable[[Fit], None], pieces: Checkpoint, called: str) -> Fit:
    """Where a run ends; it is kept as a piece."""
    rounds = []
    for fit in run:
        see(fit)
        rounds.append(asdict(fit.last))
    told = np.frombuffer(json.dumps(rounds).encode(), np.uint8)
    pieces.put(_piece(called, fit.start, fit.theta), {"rounds": told, **vars(fit.theta)})
    return fit


def _recalled(pieces: Checkpoint, called: str, name: str, theta: Any) -> list[Fit] | None:
    """The rounds of a run that was kept as a piece."""
    arrays = pieces.get(_piece(called, name, theta))
    if arrays is None:
        return None
    rounds = [Progress(**told) for told in json.loads(arrays.pop("rounds").tobytes())]
    return [Fit(name, replace(theta, **arrays) if now is rounds[-1] else None, now) for now in rounds]


def _piece(called: str, start: str, theta: Any) -> str:
    return f"{called} {start} {len(theta.log_ell)}"


def _rounds(model: Model, name: str, theta: Any, data: Data, stages: tuple[Stage, ...]) -> Iterator[Fit]:
    """One start through its stages, after every round."""
    n_rows = int(np.sum(data.weight))
    for stage in stages:
        rounds = climb(model, theta, data, stage, n_rows)
        for theta, now in rounds:
            yield Fit(name, theta, now)


def _whole_run(*args: Any) -> list[Fit]:
    """The rounds of a run, made by a worker; of the parameters only the last come back."""
    with jax.enable_x64(True), kept_programs(), one_blas_thread:
        rounds = list(_rounds(*args))
    return [Fit(fit.start, None, fit.last) for fit in rounds[:-1]] + rounds[-1:]
