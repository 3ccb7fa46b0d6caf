"""What the parameters `geometry` and `latent_dim` of an estimator mean."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..heat.meshes import Mesh
from .priors import GEOMETRIES


def geometry_names(geometry: Any) -> list[str]:
    """The geometries that an estimator's `geometry` means; a mesh is the only one."""
    if isinstance(geometry, Mesh):
        return ["mesh"]
    if isinstance(geometry, str):
        checks.option(geometry, "geometry", ("average", *GEOMETRIES))
        return list(GEOMETRIES) if geometry == "average" else [geometry]
    try:
        names = list(dict.fromkeys(geometry))
    except TypeError:
        names = []
    if not names:
        raise GpumError(
            f"geometry must be 'average', a name or a list of names of {', '.join(map(repr, GEOMETRIES))}, or "
            f"a `gpum.Mesh`, got {geometry!r}; use one of these"
        )
    return [checks.option(name, "geometry", GEOMETRIES) for name in names]


def dimensions(latent_dim: Any) -> list[int] | str:
    """The dimensions that an estimator's `latent_dim` means; "average" and "auto" are returned unchanged."""
    if isinstance(latent_dim, str):
        return checks.option(latent_dim, "latent_dim", ("average", "auto"))
    given = [latent_dim] if isinstance(latent_dim, Integral) or not np.iterable(latent_dim) else list(latent_dim)
    if not given:
        raise GpumError("latent_dim is an empty sequence; give the surface's dimension, 'average' or 'auto'")
    advice = "give the surface's dimension, several of them, 'average' or 'auto'"
    return sorted({checks.integer(q, "latent_dim", 1, None, advice) for q in given})
