"""What JAX computes on, and how programs are compiled for it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

# On a GPU XLA tries several algorithms for each product before it chooses one. This takes half of the first fit, gains
# nothing here, and lets results depend on which was quicker. A program that others call must not have options.
# On a CPU that has vectors of 512 bits XLA takes shorter ones, with which exponentials take a quarter more time.
OPTIONS = {"xla_gpu_autotune_level": 0, "xla_cpu_prefer_vector_width": 512}
PROGRAMS: WeakSet[Any] = WeakSet()  # every function that `compiled` has made


def compiled(function: Callable[..., Any], options: dict[str, Any] | None = OPTIONS, **static: Any) -> Any:
    """The function as a program of JAX, which is imported by those who have one."""
    import jax

    program = jax.jit(function, compiler_options=options, **static)
    PROGRAMS.add(program)
    return program


def of_arrays(function: Callable[..., Any]) -> Any:
    """Marks a function of points [..., q] that takes arrays of NumPy or JAX: many points need no compiled program."""
    function.of_arrays = True  # type: ignore[attr-defined]
    return function


def release_programs() -> None:
    """Free the memory of all programs of this package, which are loaded again when needed; others' stay."""
    for program in list(PROGRAMS):
        program.clear_cache()


def accelerated() -> bool:
    """Whether JAX computes on a GPU or another accelerator.

    Without a plugin for one JAX is not started to find out: its threads would not exist in a forked child.
    """
    if find_spec("jax_plugins") is None:
        return False
    import jax

    return jax.default_backend() != "cpu"
