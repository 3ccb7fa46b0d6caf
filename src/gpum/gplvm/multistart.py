"""Fit a latent model from several starts in three rounds, in which only the best starts go on.

In the first round every start is optimised with the noise variance fixed at a small value and a coarse mapping, in the
semifinal the best few with free noise, and in the final the best of these until convergence. If the noise were free
from the first iteration, it would explain a thin direction before the chart has found it. A coarse mapping unfolds more
easily, and costs less. In the final the best one always runs; the others stop when they cannot catch up with it.

Starts that have reached the same chart count as one, which occupies the slots of all of them: the others would end at
the same optimum. For a large cloud the first two rounds use a subset of the rows, and only the final uses all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import jax
import numpy as np

from ..basics.workers import joblib_runs, one_blas_thread, results, still_wanted
from ..persistence.programs import cached_programs
from ..persistence.store import Store
from .models import Data, Model
from .optimise import Progress, Stage, maximise, value_at

ROUNDS = (3, 2)  # slots of the semifinal and of the final
WARP = 0.02  # fraction of the variance, above which two fits count as different charts
COLLAPSED = 1e-3  # a standard deviation of latent means (the prior's is 1) below which a dimension is not used


@dataclass(frozen=True)
class Fit:
    """The state of one start after a round: its parameters, and the progress of that round.

    The parameters are None in all rounds but the last where these are read again, or come from another process.
    """

    start: str
    theta: Any
    last: Progress

    @property
    def bound(self) -> float:
        """The value of the objective that was reached (nats)."""
        return self.last.value

    @property
    def converged(self) -> bool:
        """Whether the last round gained less than the tolerance."""
        return self.last.converged


@dataclass(frozen=True)
class Finished:
    """What a store has of a finished run: the progress of its rounds, and the fields of its last parameters."""

    rounds: list[Progress]
    theta: dict[str, Any]

    def fits(self, start: str, theta: Any) -> list[Fit]:
        """The states of the start; `theta` is what it began with, of which the last parameters have the form."""
        last = replace(theta, **self.theta)
        return [Fit(start, last if now is self.rounds[-1] else None, now) for now in self.rounds]


@dataclass(frozen=True)
class MultistartResult:
    """The fits of the final, best first, and the best fit with fixed noise; it is coarse unless the best collapses."""

    finalists: tuple[Fit, ...]
    held: Fit


@dataclass(frozen=True)
class RowSubset:
    """A subset of the rows with which starts are compared; `grown` extends its parameters to all rows."""

    data: Data
    grown: Callable[[Any], Any]


def multistart(
    model: Model,
    begin: Iterable[tuple[str, Any]],
    data: Data,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None = None,
    see: Callable[[Fit], None] = lambda fit: None,
    store: Store | None = None,
    few: RowSubset | None = None,
    needs_surface: bool = False,
) -> MultistartResult:
    """Optimise from every start (a name and its parameters), and return the finalists.

    `see` is called with the state after each round of the optimiser, perhaps in another thread. Every finished run is
    in `store`, and runs that are there already are not repeated. With `few`, the first round and the semifinal (and so
    `MultistartResult.held`) use its rows. There is no final where the best fit of the semifinal uses no latent
    dimension; that fit then also has the rows of `few` only. With `needs_surface` nobody needs a fit whose dimensions
    are not all used, nor `MultistartResult.held`, which remains coarse.
    """
    store = store or Store()
    early = Stage("noise held", ("log_beta",), 200, 10 * tol)
    semifinal = Stage("all free", (), min(300, max_iter), 10 * tol)
    run = partial(_run_all, model, n_jobs=n_jobs, see=see, store=store)
    compared = data if few is None else few.data
    fits = first = _best_first(run(begin, (early,), "start", data=compared))
    going, slots = _of_each_chart(model, fits, {}, ROUNDS[0])
    finer = [(fit.start, model.finer(fit.theta)) for fit in going]
    fits = _best_first(run(finer, (semifinal,), "semifinal", data=compared))

    def result(finalists: tuple[Fit, ...]) -> MultistartResult:
        held = first[:1]
        if collapsed(model, finalists[0]) and not needs_surface:
            held = run(finer[:1], (early,), "held", data=compared)
        return MultistartResult(finalists, held[0])

    if np.max(np.std(_rows(model, fits[0]), axis=0)) < COLLAPSED:  # all is noise: the final would not change that
        return result((fits[0],))
    going, _ = _of_each_chart(model, fits, slots, ROUNDS[1])
    runners = [(fit.start, fit.theta if few is None else few.grown(fit.theta)) for fit in going]
    leader = fits[0].bound if few is None or len(going) == 1 else value_at(model, runners[0][1], data)
    final = Stage("all free", (), max_iter, tol, leader)
    ended = [fit for fit in going[1:] if few is None and final.settled(fit.last)]
    runners = [(name, theta) for name, theta in runners if name not in {fit.start for fit in ended}]
    return result(tuple(_best_first([*run(runners, (final,), "final", data=data), *ended])))


def _of_each_chart(model: Model, fits: list[Fit], slots: dict[str, int], n: int) -> tuple[list[Fit], dict[str, int]]:
    """The best fit of each chart among the fits that occupy the n slots, and how many slots each of these occupies."""
    going: dict[str, Fit] = {}
    held_slots: dict[str, int] = {}
    for fit in fits:
        if sum(held_slots.values()) >= n:
            break
        same = (other for other in going.values() if not differ(_rows(model, other), _rows(model, fit)))
        name = next(same, fit).start
        going.setdefault(name, fit)
        held_slots[name] = held_slots.get(name, 0) + slots.get(fit.start, 1)
    return list(going.values()), held_slots


def _rows(model: Model, fit: Fit) -> np.ndarray:
    """Latent coordinates of the rows, [N, q]."""
    return getattr(fit.theta, model.latent[0])


def differ(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether no linear change takes rows of one chart [N, q] to those of the other, up to WARP of their variance."""
    A, B = A - A.mean(0), B - B.mean(0)
    rest = B - A @ np.linalg.lstsq(A, B, rcond=None)[0]
    return float(np.sum(rest**2)) > WARP * float(np.sum(B**2))


def collapsed(model: Model, fit: Fit) -> bool:
    """Whether a latent dimension is not used: all rows have the same coordinate in it."""
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
    store: Store,
) -> list[Fit]:
    """The final state of each run, in the order of the starts.

    `see` is called after each round, by one thread at a time; with joblib's workers, when the whole run has ended.
    LAPACK always uses one thread: rounding must not depend on the number of cores, and small matrices are faster that
    way.
    """
    lock, elsewhere, fits = Lock(), joblib_runs(n_jobs), []

    def seen(fit: Fit) -> None:
        with lock:
            see(fit)

    begin = list(begin)
    keys = [(f"{called} {name} {len(theta.log_ell)}", model, theta, data, stages) for name, theta in begin]
    known = [store.get(key, Finished) for key in keys]
    new = [start for start, finished in zip(begin, known, strict=True) if finished is None]
    runs = results([partial(_run, model, *start, data, stages, None if elsewhere else seen) for start in new], n_jobs)
    with one_blas_thread:
        for (name, theta), key, finished in zip(begin, keys, known, strict=True):
            rounds = next(runs) if finished is None else finished.fits(name, theta)
            for fit in rounds if elsewhere or finished is not None else ():
                see(fit)
            if finished is None:
                last = dict(vars(rounds[-1].theta))
                store.once(key, partial(Finished, [fit.last for fit in rounds], last), Finished)
            fits.append(rounds[-1])
    return fits


def _run(
    model: Model, name: str, theta: Any, data: Data, stages: tuple[Stage, ...], see: Callable[[Fit], None] | None
) -> list[Fit]:
    """Optimise one start through its stages: its state after every round, of which the last has parameters."""
    n_rows, rounds = int(np.sum(data.weight)), []
    with jax.enable_x64(True), cached_programs():
        for stage in stages:
            for reached, now in maximise(model, theta, data, stage, n_rows):
                rounds.append(Fit(name, None, now))
                if see is not None:
                    see(Fit(name, reached, now))
                still_wanted()
            theta = reached
    return [*rounds[:-1], replace(rounds[-1], theta=theta)]
