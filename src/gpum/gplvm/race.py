"""Several starts run, the best go on: how a latent model finds its fit.

Every start runs with the noise held small, the best few with it freed, the best of these to the end. Noise that is
free from the first iteration explains a thin direction away before the chart has found it. `models.Model` says what
is needed of a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from ..files.checkpoint import Checkpoint
from ..files.programs import kept_programs
from .models import Data, Model
from .optimise import Progress, Stage, climb

ROUNDS = (4, 2)  # how many starts reach the semifinal and the final
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
) -> Outcome:
    """Run every start (a name and its parameters) through the schedule; `see` is called after every round.

    Every finished run is put into `pieces`, and those that are there already are not run again.
    """
    pieces = pieces or Checkpoint()
    early = (
        Stage("hyperparameters", (*model.latent, "log_beta"), 50),
        Stage("noise held", ("log_beta",), 200, 10 * tol),
    )
    semifinal = Stage("all free", (), min(300, max_iter), 10 * tol)
    final = Stage("all free", (), max_iter, tol)
    run = partial(_run_all, model, data=data, n_jobs=n_jobs, see=see, pieces=pieces)
    fits = best = _best_first(run(begin, early, "start"))
    for n, stage, name in zip(ROUNDS, (semifinal, final), ("semifinal", "final"), strict=True):
        runners = [(fit.start, fit.theta) for fit in fits[:n]]
        fits = _best_first(run(runners, (stage,), name))
    return Outcome(tuple(fits), best[0])


def collapsed(model: Model, fit: Fit) -> bool:
    """Whether a latent dimension is not used: all rows are at one place along it."""
    return bool(np.min(np.std(getattr(fit.theta, model.latent[0]), axis=0)) < COLLAPSED)


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
    """Where each run ends, in order; through joblib when it has more than one worker.

    Alone, every round is seen as it ends; with workers, a run is seen when all of it has ended. LAPACK has one
    thread in either case: rounding must not depend on the cores of a worker, and small matrices run faster so.
    """
    with threadpool_limits(1, "blas"):
        if effective_n_jobs(n_jobs) == 1:
            return [
                _recalled(pieces, called, name, theta, see)
                or _seen(_rounds(model, name, theta, data, stages), see, pieces, called)
                for name, theta in begin
            ]
        runners = list(begin)
        found = [_recalled(pieces, called, name, theta, see) for name, theta in runners]
        tasks = (
            delayed(_whole_run)(model, name, theta, data, stages)
            for (name, theta), known in zip(runners, found, strict=True)
            if known is None
        )
        made = iter(Parallel(n_jobs=n_jobs, return_as="generator")(tasks))
        return [known or _seen(next(made), see, pieces, called) for known in found]


def _seen(run: Iterable[Fit], see: Callable[[Fit], None], pieces: Checkpoint, called: str) -> Fit:
    """Where a run ends; it is kept as a piece."""
    rounds = []
    for fit in run:
        see(fit)
        rounds.append(asdict(fit.last))
    told = np.frombuffer(json.dumps(rounds).encode(), np.uint8)
    pieces.put(_piece(called, fit.start, fit.theta), {"rounds": told, **vars(fit.theta)})
    return fit


def _recalled(
    pieces: Checkpoint, called: str, name: str, theta: Any, see: Callable[[Fit], None]
) -> Fit | None:  # fmt: skip
    """Where a run ended that was kept as a piece, seen again round by round."""
    arrays = pieces.get(_piece(called, name, theta))
    if arrays is None:
        return None
    rounds = [Progress(**told) for told in json.loads(arrays.pop("rounds").tobytes())]
    for now in rounds:
        fit = Fit(name, replace(theta, **arrays) if now is rounds[-1] else None, now)
        see(fit)
    return fit


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
    with jax.enable_x64(True), kept_programs(), threadpool_limits(1, "blas"):
        rounds = list(_rounds(*args))
    return [Fit(fit.start, None, fit.last) for fit in rounds[:-1]] + rounds[-1:]
