"""What JAX computes on, and how programs are compiled for it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

# On a GPU XLA tries several algorithms for each product before it chooses one. This takes half of the first fit, gains
# nothing here, and lets results depend on which was quicker. A program that others call must not have options.
OPTIONS = {"xla_gpu_autotune_level": 0}


def compiled(function: Callable[..., Any], **static: Any) -> Any:
    """The function as a program of JAX, which is imported by those who have one."""
    import jax

    return jax.jit(function, compiler_options=OPTIONS, **static)


def accelerated() -> bool:
    """Whether JAX computes on a GPU or another accelerator.

    Without a plugin for one JAX is not started to find out: its threads would not exist in a forked child.
    """
    if find_spec("jax_plugins") is None:
        return False
    import jax

    return jax.default_backend() != "cpu"
