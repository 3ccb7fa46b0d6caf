"""Whether JAX has an accelerator."""

from __future__ import annotations

from importlib.util import find_spec

import jax


def accelerated() -> bool:
    """Whether JAX computes on a GPU or another accelerator.

    Without a plugin for one JAX is not started to find out: its threads would not exist in a forked child.
    """
    return find_spec("jax_plugins") is not None and jax.default_backend() != "cpu"
