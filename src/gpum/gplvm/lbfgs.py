"""L-BFGS as one compiled program: the whole minimisation runs without returning to Python.

In units of typical steps, u: theta = origin + steps * u, and parameters whose step is 0 do not change. The last MEMORY
steps s_i and changes of gradient y_i give the inverse Hessian in compact form (Byrd, Nocedal, Schnabel 1994), with S, Y
their rows, R the upper triangle of S Yᵀ, D its diagonal, c = s·y / y·y of the newest pair:

    H g = c g + Sᵀ (R⁻ᵀ (D + c Y Yᵀ) R⁻¹ S g - c R⁻ᵀ Y g) - c Yᵀ R⁻¹ S g

Steps a along d = -H g satisfy f(a) ≤ f(0) + ARMIJO a f'(0) and f'(a) ≥ CURVATURE f'(0); they are found between a step
that is too short and one that is too long (Lewis and Overton 2013). Every iteration of the loop is one evaluation, so
that the program contains the objective once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from ..basics.device import compiled

MEMORY = 20
ARMIJO, CURVATURE = 1e-3, 0.9
LONGER = (1.1, 4.0)  # limits of the next increase of a step that is too short, relative to the last increase
MARGIN = 0.1  # smallest distance of an interpolated step from the ends of the bracket, as a fraction of it
TRIES = 20  # evaluations in one line search
FLAT = 1e-7  # largest entry of the gradient at a minimum
GOING, FLAT_HERE, OUT_OF_STEPS, NO_GAIN, BROKEN_OFF = range(5)  # how a minimisation ends


@partial(jax.tree_util.register_dataclass, data_fields=["S", "Y", "SY", "YY", "filled"], meta_fields=[])
@dataclass(frozen=True)
class Memory:
    """The newest pairs, the last row the newest; rows not yet filled are 0."""

    S: Array  # [MEMORY, n]
    Y: Array
    SY: Array  # s_i · y_j
    YY: Array
    filled: Array

    @classmethod
    def empty(cls, n: int) -> Memory:
        """A memory without pairs."""
        rows, square = jnp.zeros((MEMORY, n)), jnp.zeros((MEMORY, MEMORY))
        return cls(rows, rows, square, square, jnp.asarray(0))

    def add(self, s: Array, y: Array) -> Memory:
        """The memory with one more pair; the oldest pair is dropped."""
        S, Y = (jnp.roll(A, -1, 0).at[-1].set(a) for A, a in ((self.S, s), (self.Y, y)))
        SY, YY = (jnp.roll(A, -1, (0, 1)) for A in (self.SY, self.YY))
        SY = SY.at[-1].set(Y @ s).at[:, -1].set(S @ y)
        YY = YY.at[-1].set(Y @ y).at[:, -1].set(Y @ y)
        return Memory(S, Y, SY, YY, jnp.minimum(self.filled + 1, MEMORY))

    def times(self, g: Array) -> Array:
        """The product H g."""
        live = jnp.arange(MEMORY) >= MEMORY - self.filled
        R = jnp.triu(self.SY) + jnp.diag(jnp.where(live, 0.0, 1.0))
        c = jnp.where(self.filled > 0, self.SY[-1, -1] / jnp.where(self.filled > 0, self.YY[-1, -1], 1.0), 1.0)
        a = solve_triangular(R, self.S @ g)
        b = jnp.diag(self.SY) * a + c * (self.YY @ a) - c * (self.Y @ g)
        return c * g + solve_triangular(R, b, trans="T") @ self.S - c * (a @ self.Y)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["u", "f", "g", "memory", "d", "slope", "low", "high", "a", "tries", "steps", "evaluations", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class State:
    """The optimiser's state: the current point, the line search, and counts."""

    u: Array  # the current point, its value and gradient
    f: Array
    g: Array
    memory: Memory
    d: Array  # direction, and the slope of f along it
    slope: Array
    low: Any  # (a, f, slope) of the longest step that is too short
    high: Any  # (a, f) of the shortest that is too long
    a: Array  # the step to try
    tries: Array
    steps: Array
    evaluations: Array
    status: Array


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["theta", "start", "value", "slope2", "steps", "evaluations", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Minimum:
    """The result: parameters, value there and at the start, |gradient|², counts, and how the minimisation ended."""

    theta: Any
    start: Array
    value: Array
    slope2: Array
    steps: Array
    evaluations: Array
    status: Array


@partial(compiled, static_argnames=("objective",))
def minimise(objective: Callable[[Any, Any], Array], theta: Any, steps: Any, data: Any, max_steps: int) -> Minimum:
    """Minimise objective(theta, data) from theta, in units of `steps`, with at most `max_steps` steps.

    `objective` is a function of pytrees that JAX can trace; the program is compiled once for each objective and shape.
    """
    origin, back = ravel_pytree(theta)
    unit = ravel_pytree(steps)[0]
    n = len(origin)

    def evaluate(u: Array) -> tuple[Array, Array]:
        f, gradient = jax.value_and_grad(objective)(back(origin + unit * u), data)
        g = unit * ravel_pytree(gradient)[0]
        fine = jnp.isfinite(f) & jnp.all(jnp.isfinite(g))
        return jnp.where(fine, f, jnp.inf), jnp.where(fine, g, 0.0)

    def turn(state: tuple[State, Array]) -> tuple[State, Array]:
        now, start = state
        u = now.u + now.a * now.d
        f, g = evaluate(u)
        slope = g @ now.d
        first = now.evaluations == 0
        too_long = (f > now.f + ARMIJO * now.a * now.slope) | (slope > -CURVATURE * now.slope)
        too_short = ~too_long & (slope < CURVATURE * now.slope)
        now = replace(now, evaluations=now.evaluations + 1)
        now, line_ends = lax.cond(
            first | ~(too_long | too_short),
            lambda: _arrive(now, u, f, g, first),
            lambda: _search(now, f, slope, too_long),
        )
        now = lax.cond(line_ends, _line, lambda now: now, now)
        out = (now.status == GOING) & ((now.steps >= max_steps) | (now.evaluations >= 2 * max_steps + 1))
        now = replace(now, status=jnp.where(out, OUT_OF_STEPS, now.status))
        return now, jnp.where(first, f, start)

    zero, none = jnp.asarray(0.0), jnp.asarray(0)
    begin = State(
        jnp.zeros(n), jnp.asarray(jnp.inf), jnp.zeros(n), Memory.empty(n), jnp.zeros(n), zero, (zero, zero, zero),
        (zero, zero, zero), zero, none, none, none, none,
    )  # fmt: skip
    end, start = lax.while_loop(lambda state: state[0].status == GOING, turn, (begin, zero))
    return Minimum(back(origin + unit * end.u), start, end.f, end.g @ end.g, end.steps, end.evaluations, end.status)


def _arrive(now: State, u: Array, f: Array, g: Array, first: Array) -> tuple[State, Array]:
    """Accept a step, and add it to the memory; the next line search begins."""
    s, y = u - now.u, g - now.g
    bends = ~first & (s @ y > jnp.finfo(f.dtype).eps * (y @ y))
    memory = lax.cond(bends, lambda: now.memory.add(s, y), lambda: now.memory)
    status = jnp.where(jnp.max(jnp.abs(g)) <= FLAT, FLAT_HERE, jnp.where(~first & (f >= now.f), NO_GAIN, GOING))
    status = jnp.where(first & ~jnp.isfinite(f), BROKEN_OFF, status)
    now = replace(now, u=u, f=f, g=g, memory=memory, steps=now.steps + ~first, status=status)
    return now, jnp.asarray(True)


def _line(now: State) -> State:
    """Begin a line search along -H g, or along -g if -H g is not a descent direction."""
    d = -now.memory.times(now.g)
    down = d @ now.g < 0
    memory = jax.tree.map(lambda a: jnp.where(down, a, jnp.zeros_like(a)), now.memory)
    d = jnp.where(down, d, -now.g)
    slope = d @ now.g
    size = jnp.sqrt(-slope)
    a = jnp.where(memory.filled > 0, 1.0, jnp.minimum(1.0, 1 / jnp.where(size > 0, size, 1.0)))
    none = jnp.asarray(0.0)
    return replace(
        now, memory=memory, d=d, slope=slope, low=(none, now.f, slope), high=(jnp.asarray(jnp.inf), none, none), a=a,
        tries=jnp.asarray(0),
    )  # fmt: skip


def _search(now: State, f: Array, slope: Array, too_long: Array) -> tuple[State, Array]:
    """The next step to try; after TRIES steps a search along -g, or the end if this search was along -g already."""
    choose = lambda new, old, which: tuple(jnp.where(which, n, o) for n, o in zip(new, old, strict=True))
    tried = (now.a, f, slope)
    low, high = choose(tried, now.low, ~too_long), choose(tried, now.high, too_long)
    a = jnp.where(jnp.isfinite(high[0]), _between(low, high), _beyond(now.low, tried))
    tries = now.tries + 1
    given_up, by_memory = tries >= TRIES, now.memory.filled > 0
    memory = jax.tree.map(lambda m: jnp.where(given_up, jnp.zeros_like(m), m), now.memory)
    status = jnp.where(given_up & ~by_memory, BROKEN_OFF, now.status)
    return replace(now, low=low, high=high, a=a, tries=tries, memory=memory, status=status), given_up & by_memory


def _between(low: Any, high: Any) -> Array:
    """The minimum of the cubic through value and slope at both ends, not too close to either."""
    (a, f, s), (b, h, r) = low, high
    p = s + r - 3 * (f - h) / (a - b)
    q = jnp.sqrt(jnp.maximum(p**2 - s * r, 0.0))
    fraction = 1 - (r + q - p) / (r - s + 2 * q)
    fraction = jnp.where(jnp.isfinite(fraction), fraction, MARGIN)  # the value at the long end was not a number
    return a + jnp.clip(fraction, MARGIN, 1 - MARGIN) * (b - a)


def _beyond(low: Any, tried: Any) -> Array:
    """The step at which the slope, extrapolated linearly from two steps that are too short, is 0; within LONGER."""
    (a, _, s), (b, _, r) = low, tried
    ahead = r / (s - r)
    ahead = jnp.where(jnp.isfinite(ahead) & (ahead > 0), ahead, jnp.inf)
    return b + jnp.clip(ahead, *LONGER) * (b - a)
