"""What JAX computes on, and how programs are compiled for it."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import jax

# On a GPU XLA tries several algorithms for each product before it chooses one. This takes half of the first fit, gains
# nothing here, and lets results depend on which was quicker. A program that others call must not have options.
compiled = partial(jax.jit, compiler_options={"xla_gpu_autotune_level": 0})


def accelerated() -> bool:
    """Whether JAX computes on a GPU or another accelerator.

    Without a plugin for one JAX is not started to find out: its threads would not exist in a forked child.
    """
    return find_spec("jax_plugins") is not None and jax.default_backend() != "cpu"
