"""Several starts run, the best go on: how a latent model finds its fit.

Every start runs with the noise held small, the best few with it freed, the best of these to the end. Noise that is
free from the first iteration explains a thin direction away before the chart has found it. `models.Model` says what
is needed of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from ..files.programs import kept_programs
from .bound import Cloud
from .models import Model
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
    data: Cloud,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None = None,
    see: Callable[[Fit], None] = lambda fit: None,
) -> Outcome:
    """Run every start (a name and its parameters) through the schedule; `see` is called after every round."""
    early = (
        Stage("hyperparameters", (*model.latent, "log_beta"), 50),
        Stage("noise held", ("log_beta",), 200, 10 * tol),
    )
    semifinal = Stage("all free", (), min(300, max_iter), 10 * tol)
    final = Stage("all free", (), max_iter, tol)
    fits = best = _best_first(_run_all(model, begin, early, data, n_jobs, see))
    for n, stage in zip(ROUNDS, (semifinal, final), strict=True):
        runners = [(fit.start, fit.theta) for fit in fits[:n]]
        fits = _best_first(_run_all(model, runners, (stage,), data, n_jobs, see))
    return Outcome(tuple(fits), best[0])


def collapsed(model: Model, fit: Fit) -> bool:
    """Whether a latent dimension is not used: all rows are at one place along it."""
    return bool(np.min(np.std(model.posterior(fit.theta).latent, axis=0)) < COLLAPSED)


def _best_first(fits: list[Fit]) -> list[Fit]:
    return sorted(fits, key=lambda fit: -fit.bound)


def _run_all(
    model: Model,
    begin: Iterable[tuple[str, Any]],
    stages: tuple[Stage, ...],
    data: Cloud,
    n_jobs: int | None,
    see: Callable[[Fit], None],
) -> list[Fit]:
    """Where each run ends, in order; through joblib when it has more than one worker.

    Alone, every round is seen as it ends; with workers, a run is seen when all of it has ended. LAPACK has one
    thread in either case: rounding must not depend on the cores of a worker, and small matrices run faster so.
    """
    with threadpool_limits(1, "blas"):
        runs: Iterable[Iterable[Fit]]
        if effective_n_jobs(n_jobs) == 1:
            runs = (_rounds(model, name, theta, data, stages) for name, theta in begin)
        else:
            tasks = (delayed(_whole_run)(model, name, theta, data, stages) for name, theta in begin)
            runs = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
        return [_seen(run, see) for run in runs]


def _seen(run: Iterable[Fit], see: Callable[[Fit], None]) -> Fit:
    for fit in run:
        see(fit)
    return fit


def _rounds(model: Model, name: str, theta: Any, data: Cloud, stages: tuple[Stage, ...]) -> Iterator[Fit]:
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
