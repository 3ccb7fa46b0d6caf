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
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from ..basics.checks import NoSurface
from . import lbfgs

Theta = TypeVar("Theta")
ROUND = 100  # iterations
CONVERGED = "converged"
RUNNING = "still gaining"
CUT_SHORT = "out of iterations"
BROKEN = "line search broke down"
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
    """What one round reached with so many rows, and how it ended: CONVERGED, RUNNING, CUT_SHORT or BROKEN."""

    stage: str
    iterations: int
    evaluations: int
    value: float
    status: str
    rows: int

    @property
    def converged(self) -> bool:
        """Whether the whole round gained next to nothing."""
        return self.status == CONVERGED


class Climbed(Protocol):
    """What is climbed: parameters theta (a dataclass of arrays), and what is known besides (data)."""

    @property
    def objective(self) -> Callable[[Any, Any], Any]:
        """What is minimised, of theta and data as `filled` makes them; a function that JAX can trace."""

    def steps(self, theta: Any, data: Any) -> Any:
        """A typical step of every parameter, as a theta."""

    def filled(self, theta: Any, data: Any) -> tuple[Any, Any]:
        """theta and data with arrays filled up to sizes that compiled programs share, zeros in theta."""

    def cut(self, theta: Any, like: Any) -> Any:
        """theta without what was filled in, of the shapes of `like`."""


def climb(
    model: Climbed, theta: Theta, data: Any, stage: Stage, n_rows: int
) -> Iterator[tuple[Theta, Progress]]:  # fmt: skip
    """Maximise -model.objective from theta, round by round, until converged or out of iterations.

    Yields after each round, so that the caller can show progress, compare runs and stop.
    """
    done, last, status = 0, -np.inf, RUNNING
    while done < stage.max_iter:
        held = {name: np.zeros(np.shape(getattr(theta, name))) for name in stage.hold}
        steps = replace(model.steps(theta, data), **held)
        allowed = min(ROUND, stage.max_iter - done)
        theta, found = _round(model, theta, steps, data, allowed)
        value, made = -float(found.value), int(found.steps)
        done += max(made, 1)  # a round without a step counts too: the run must end
        gained, enough = value - max(last, -float(found.start)), stage.tol * n_rows
        if made and gained >= enough:
            now = RUNNING if done < stage.max_iter else CUT_SHORT
        elif found.status == lbfgs.OUT_OF_STEPS:
            now = CONVERGED if allowed == ROUND else CUT_SHORT
        else:
            now = CONVERGED if 0.5 * float(found.slope2) < max(enough, NOTHING) else BROKEN
        yield theta, Progress(stage.name, made, int(found.evaluations), value, now, n_rows)
        if now in (CONVERGED, CUT_SHORT) or status == now == BROKEN:
            return
        last, status = value, now


def _round(model: Climbed, theta: Any, steps: Any, data: Any, max_iter: int) -> tuple[Any, lbfgs.Walked]:
    begin, known = model.filled(theta, data)
    found = lbfgs.walk(model.objective, begin, model.filled(steps, data)[0], known, max_iter)
    if not np.isfinite(found.start):
        raise NoSurface(
            "the objective of the latent model is not finite at its starting point; "
            "rescale the data or use fewer inducing points (n_inducing)"
        )
    return model.cut(jax.tree.map(np.asarray, found.theta), theta), found
