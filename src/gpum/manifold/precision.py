"""Float64 for every numerical function, whatever the caller's JAX configuration.

JAX's precision is set where it is needed, never for the process. Public numerical functions are wrapped by
`float64` instead: inside, 64-bit types are on; called with plain arrays they hand out NumPy arrays,
called while JAX traces (`jit`, `vmap`, `grad`) they hand on the tracer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import numpy as np

from ..persistence.programs import cached_programs

F = TypeVar("F", bound=Callable[..., Any])


def float64(function: F) -> F:
    """Run `function` with 64-bit JAX types and return NumPy arrays unless JAX is tracing."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(True), cached_programs():
            return jax.tree.map(_to_numpy, function(*args, **kwargs))

    return wrapped  # type: ignore[return-value]


def points(x: Any) -> Any:
    """Points [..., q] as an array of JAX, if they are one, or else of NumPy."""
    return x if isinstance(x, jax.Array) else np.asarray(x, float)


def _to_numpy(leaf: Any) -> Any:
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array):
        return leaf
    return np.asarray(leaf)
