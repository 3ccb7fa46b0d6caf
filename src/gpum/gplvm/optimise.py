"""L-BFGS in rounds, in units of each parameter's typical step.

Scaling is derived anew at the start of each round, because the posterior sds that set it shrink by
orders of magnitude during the fit. A run is converged when a whole round gains less than `tol`
nats per row. A round that `max_iter` cuts short is not whole. One that L-BFGS ends by itself, because its line search
breaks down or finds nothing higher, counts only where the gradient g agrees: in units of typical steps ½|g|² is about
what could still be gained, and rounding in the objective stops the search long before |g| is 0. Where it does not
agree, one more round starts from there with nothing remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import jax
import numpy as np
from scipy.optimize import minimize

Theta = TypeVar("Theta")
ROUND = 100  # iterations
CONVERGED = "converged"
RUNNING = "still gaining"
CUT_SHORT = "out of iterations"
BROKEN = "line search broke down"
OUT_OF_STEPS = 1  # a status of L-BFGS: so many iterations or evaluations as it may make
NOTHING = 1e-6  # nats


@dataclass(frozen=True)
class Stage:
    """A stretch of the schedule: which parameters are held, and when it ends."""

    name: str
    hold: tuple[str, ...] = ()
    max_iter: int = 10**9
    tol: float = 0.0


@dataclass(frozen=True)
class Progress:
    """What one round reached, and how it ended: CONVERGED, RUNNING, CUT_SHORT or BROKEN."""

    stage: str
    iterations: int
    evaluations: int
    value: float
    status: str

    @property
    def converged(self) -> bool:
        """Whether the whole round gained next to nothing."""
        return self.status == CONVERGED


def climb(
    negative: Callable[[Theta, Any], tuple[Any, Theta]],
    typical_steps: Callable[[Theta, Any], Theta],
    theta: Theta,
    data: Any,
    stage: Stage,
    n_rows: int,
) -> Iterator[tuple[Theta, Progress]]:
    """Maximise -negative from theta, round by round, until converged or out of iterations.

    Yields after each round, so that the caller can show progress, compare runs and stop.
    """
    done, last, status = 0, -float(negative(theta, data)[0]), RUNNING
    while done < stage.max_iter:
        steps = replace(  # type: ignore[type-var]
            typical_steps(theta, data),
            **{name: np.zeros(np.shape(getattr(theta, name))) for name in stage.hold},
        )
        allowed = min(ROUND, stage.max_iter - done)
        theta, value, result = _round(negative, theta, steps, data, allowed)
        done += max(int(result.nit), 1)  # a round without a step counts too: the run must end
        gained, enough = value - last, stage.tol * n_rows
        if result.nit and gained >= enough:
            now = RUNNING if done < stage.max_iter else CUT_SHORT
        elif result.status == OUT_OF_STEPS:
            now = CONVERGED if allowed == ROUND else CUT_SHORT
        else:
            now = CONVERGED if 0.5 * np.sum(result.jac**2) < max(enough, NOTHING) else BROKEN
        yield theta, Progress(stage.name, int(result.nit), int(result.nfev), value, now)
        if now in (CONVERGED, CUT_SHORT) or status == now == BROKEN:
            return
        last, status = value, now


def _round(negative, theta, steps, data, max_iter):
    names = [f.name for f in fields(theta) if np.any(getattr(steps, f.name))]
    origin = {name: np.asarray(getattr(theta, name), float) for name in names}
    unit = np.concatenate([np.asarray(getattr(steps, name)).ravel() for name in names])

    def at(t):
        moved, place = {}, 0
        for name, value in origin.items():
            part = slice(place, place + value.size)
            moved[name] = value + (unit[part] * t[part]).reshape(value.shape)
            place += value.size
        return replace(theta, **moved)

    def objective(t):
        value, gradient = negative(at(t), data)
        flat = np.concatenate([np.asarray(getattr(gradient, name)).ravel() for name in names])
        value = float(value)
        if not np.isfinite(value):  # a step too far: the line search comes back
            return 1e300, np.zeros_like(flat)
        return value, flat * unit

    start = float(negative(theta, data)[0])
    if not np.isfinite(start):
        raise FloatingPointError(
            f"the objective of the latent model is {start} at its starting point; "
            "rescale the data or use fewer inducing points (n_inducing)"
        )
    result = minimize(
        objective,
        np.zeros(unit.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 1e-7},
    )
    if not result.fun <= start:  # rounding noise only: stay
        return theta, -start, result
    return jax.tree.map(np.asarray, at(result.x)), -float(result.fun), result
