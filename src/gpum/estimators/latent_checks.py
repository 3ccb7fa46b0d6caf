"""Checks of the parameters and the cloud of a latent model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..basics import checks, scaling
from ..basics.checks import GpumError, NoSurface
from ..manifold import variance_boundary

BOUNDARIES = {"variance": variance_boundary}  # kinds of `boundary` that are words; a number is a level


def check(model: Any, latent_dim: Any, X: Any) -> np.ndarray:
    """The rows X [N, p], checked against the parameters of a latent model."""
    if latent_dim != "auto":
        checks.integer(latent_dim, "latent_dim", 1, None, "give the surface's dimension, or 'auto'")
    q = 1 if latent_dim == "auto" else int(latent_dim)
    X = checks.cloud(X, missing=True)
    checks.columns_read(X)
    N, p = X.shape
    checks.rows_for(X, q)
    if q >= p:
        raise NoSurface(
            f"latent_dim is {checks.shown(latent_dim)} but X has only {p} column(s) (n_features = {p}); a "
            f"surface has fewer dimensions than the data space: use latent_dim < {p}"
        )
    if not np.any(np.nanmax(X, axis=0) > np.nanmin(X, axis=0)):
        raise NoSurface(f"X has {N} identical rows; there is no surface to learn: add rows that differ")
    scaling.check(X)
    for start in start_list(model.starts):
        if not isinstance(start, str):
            shape = np.shape(start)
            if shape != (N, q) or latent_dim == "auto":
                raise GpumError(
                    f"an array in starts must have shape ({N}, latent_dim), got {shape}; pass one row for each row of X"
                )
            checks.cloud(start, "starts")
        else:
            checks.option(start, "starts", ("pca", "isomap", "curve"))
            if start == "curve" and latent_dim != 1:
                raise GpumError(f"starts='curve' is for latent_dim=1, and latent_dim is {latent_dim}; use 'isomap'")
    if isinstance(model.boundary, str):
        checks.option(model.boundary, "boundary", BOUNDARIES, "a level, a number such as 0.5")
    else:
        checks.positive(model.boundary, "boundary", "a level, of which 0 is the tightest, or 'variance'", zero=True)
    checks.positive(model.tol, "tol", "0.05 is the default")
    checks.jobs(model.n_jobs)
    checks.integer(model.max_iter, "max_iter", 1, None, "10000 is the default")
    return X


def start_list(starts: Any) -> list[Any]:
    """The list of starts that the parameter means: words, or arrays of latent coordinates."""
    if isinstance(starts, str):
        return [starts]
    if not isinstance(starts, list | tuple | np.ndarray) or not len(starts):
        raise GpumError(f"starts is {starts!r}; give 'pca', 'isomap', an array of latent rows, or several")
    several = any(isinstance(start, str) for start in starts) or np.ndim(starts) != 2
    return list(starts) if several else [starts]
