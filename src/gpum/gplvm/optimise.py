"""How latent models are optimised: L-BFGS in rounds, in units of the typical step of each parameter.

The units are computed again at the start of each round, because the posterior sds on which they depend decrease by
orders of magnitude during the fit. A run has converged when a full round gains less than `tol` nats per row; a round
that `max_iter` ends early is not a full round. If L-BFGS stops by itself, because its line search fails or finds no
higher value, this counts as convergence only if the gradient g is small: in units of typical steps ½|g|² is about the
remaining gain, and rounding errors of the objective stop the search long before |g| is 0. Otherwise one more round
starts from there with an empty memory, on a form of the objective with smaller rounding errors.

L-BFGS is SciPy's, on a compiled program of the objective and its gradient: a loop compiled with it took as long for
clouds of hundreds of rows, two thirds as long for one of 80, and half as long again for every first fit.

A run that is compared with a leader stops when it is outrun: if it went on at the rate of its last round until it is
out of iterations, it would still be behind. Rounds seldom gain more than the ones before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from scipy.optimize import minimize

from ..basics.checks import NoSurface
from ..basics.device import compiled

Theta = TypeVar("Theta")
ROUND = 100  # iterations
CONVERGED = "converged"
RUNNING = "still gaining"
CUT_SHORT = "out of iterations"
BROKEN = "line search broke down"
OUTRUN = "cannot catch up"
NOTHING = 1e-6  # nats
MEMORY = 20  # pairs of steps and changes of the gradient
FLAT = 1e-7  # largest entry of the gradient at a minimum


@dataclass(frozen=True)
class Stage:
    """One stage of the schedule: which parameters are fixed, when it ends, and a value that another run has reached."""

    name: str
    hold: tuple[str, ...] = ()
    max_iter: int = 10**9
    tol: float = 0.0
    leader: float = -np.inf

    def settled(self, now: Progress, done: int = 0) -> bool:
        """Whether a run that has `done` iterations here and gained so much in its last round may stop before the next.

        In a full round it gained less than the tolerance, or so little that it cannot catch up with the leader.
        """
        left = (self.max_iter - done) / ROUND
        little = now.gained < self.tol * now.rows or now.value + now.gained * left < self.leader
        return little and (now.converged or now.iterations == ROUND)


@dataclass(frozen=True)
class Progress:
    """The result of one round with `rows` rows; its status is CONVERGED, RUNNING, CUT_SHORT, BROKEN or OUTRUN."""

    stage: str
    iterations: int
    evaluations: int
    value: float
    status: str
    rows: int
    gained: float = np.inf  # unknown in files of an earlier version

    @property
    def converged(self) -> bool:
        """Whether the full round gained less than the tolerance."""
        return self.status == CONVERGED


@dataclass(frozen=True)
class Minimum:
    """The result of one minimisation, its gradient in units of steps; `cut_short`: all allowed steps were taken."""

    theta: Any
    start: float  # the objective at the start
    value: float
    slope2: float  # |gradient|²
    steps: int
    evaluations: int
    cut_short: bool


class Objective(Protocol):
    """The interface of an objective: a function of parameters theta (a dataclass of arrays) and of data."""

    @property
    def objective(self) -> Callable[[Any, Any], Any]:
        """The function to minimise, of theta and data as `filled` returns them; JAX can trace it."""

    @property
    def precise_objective(self) -> Callable[[Any, Any], Any]:
        """The same function with smaller rounding errors, where it may take longer."""

    def steps(self, theta: Any, data: Any) -> Any:
        """A typical step of every parameter, as a theta."""

    def filled(self, theta: Any, data: Any) -> tuple[Any, Any]:
        """theta (with zeros) and data filled up to sizes for which compiled programs are shared."""

    def cut(self, theta: Any, like: Any) -> Any:
        """theta without the entries that were filled in; its arrays have the shapes of `like`."""


def maximise(
    model: Objective, theta: Theta, data: Any, stage: Stage, n_rows: int
) -> Iterator[tuple[Theta, Progress]]:  # fmt: skip
    """Maximise -model.objective from theta, round by round, until converged or out of iterations.

    Yields after each round, so that the caller can show progress, compare runs and stop.
    """
    done, last, status, objective = 0, -np.inf, RUNNING, model.objective
    while done < stage.max_iter:
        held = {name: np.zeros(np.shape(getattr(theta, name))) for name in stage.hold}
        steps = replace(model.steps(theta, data), **held)
        allowed = min(ROUND, stage.max_iter - done)
        theta, minimum = _round(model, objective, theta, steps, data, allowed)
        value, made = -minimum.value, minimum.steps
        done += max(made, 1)  # a round without a step counts as one, so that the run ends
        gained, enough = value - max(last, -minimum.start), stage.tol * n_rows
        if made and gained >= enough:
            now = RUNNING if done < stage.max_iter else CUT_SHORT
        elif minimum.cut_short:
            now = CONVERGED if allowed == ROUND else CUT_SHORT
        else:
            now = CONVERGED if 0.5 * minimum.slope2 < max(enough, NOTHING) else BROKEN
        progress = Progress(stage.name, made, minimum.evaluations, value, now, n_rows, gained)
        if now == RUNNING and stage.settled(progress, done):
            now, progress = OUTRUN, replace(progress, status=OUTRUN)
        yield theta, progress
        if now in (CONVERGED, CUT_SHORT, OUTRUN) or status == now == BROKEN:
            return
        last, status = value, now
        if now == BROKEN:  # of which the value is known too badly to be compared
            last, objective = -np.inf, model.precise_objective


def value_at(model: Objective, theta: Any, data: Any) -> float:
    """The value of -model.objective at theta."""
    return -float(value_and_gradient(model, theta, data)[0])


def value_and_gradient(model: Objective, theta: Any, data: Any) -> tuple[Any, Any]:
    """model.objective at theta, and its gradient as a theta; what the compiled program pads is removed again."""
    value, gradient = _value_and_gradient(model.objective, *model.filled(theta, data))
    return value, model.cut(gradient, theta)


@partial(compiled, static_argnames=("objective",))
def _value_and_gradient(objective: Callable[[Any, Any], Any], theta: Any, data: Any) -> tuple[Any, Any]:
    return jax.value_and_grad(objective)(theta, data)


def minimise(objective: Callable[[Any, Any], Any], theta: Any, steps: Any, data: Any, max_steps: int) -> Minimum:
    """Minimise objective(theta, data) from theta, in units of `steps`, with at most `max_steps` steps.

    A parameter whose step is 0 does not change. `objective` is a function of pytrees that JAX can trace; it is compiled
    once for each objective and shape.
    """
    leaves, tree = jax.tree.flatten(theta)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    flat = lambda values: np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(values)])
    origin, unit = flat(theta), flat(steps)

    def at(u: np.ndarray) -> Any:
        parts = np.split(origin + unit * u, ends)
        return jax.tree.unflatten(tree, [p.reshape(np.shape(leaf)) for p, leaf in zip(parts, leaves, strict=True)])

    def evaluate(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _value_and_gradient(objective, at(u), data)
        value, slope = float(value), unit * flat(gradient)
        if np.isfinite(value) and np.all(np.isfinite(slope)):
            return value, slope
        return wall, np.zeros(len(u))  # a step that ends where nothing is known is too long

    wall = np.inf
    start, _ = evaluate(np.zeros(len(origin)))
    if not np.isfinite(start):
        raise NoSurface(
            "the objective of the latent model is not finite at its starting point; "
            "rescale the data or use fewer inducing points (n_inducing)"
        )
    wall = start + max(abs(start), 1.0)
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps + 1, "maxcor": MEMORY, "ftol": 0.0, "gtol": FLAT}
    end = minimize(evaluate, np.zeros(len(origin)), jac=True, method="L-BFGS-B", options=options)
    return Minimum(at(end.x), start, float(end.fun), float(end.jac @ end.jac), end.nit, end.nfev, end.status == 1)


def _round(
    model: Objective, objective: Callable[[Any, Any], Any], theta: Any, steps: Any, data: Any, max_iter: int
) -> tuple[Any, Minimum]:
    begin, known = model.filled(theta, data)
    minimum = minimise(objective, begin, model.filled(steps, data)[0], known, max_iter)
    return model.cut(minimum.theta, theta), minimum
