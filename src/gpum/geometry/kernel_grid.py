"""Settings on the spaces of surfaces and of flat space: which kernels, at which scales, with which prior weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from ..basics import neighbours
from ..basics.checks import NoSurface
from ..heat.covariances import Spectral, Stationary
from ..heat.spectra import varying
from .candidate_set import Candidate, scale_grid

RESOLVED = 0.05  # weight of the last mode at the smallest scale
# Largest variance of a kernel, relative to its mean over the cloud: that in the corner of a square. Random clouds on
# smooth surfaces stay below it; parts where a surface is thin or rough can exceed it a thousand times.
BOUND = 4.0
# Largest scales, relative to the extent π/√λ_1: a heat kernel is almost constant when √t is 0.7 of it; a Matérn kernel
# still changes up to larger scales.
LARGEST_HEAT, LARGEST_MATERN = 0.7, 2.0


def unreached(said: str, space: Any) -> list[str]:
    """A note about a space, called `said`, for which the solver did not reach all eigenpairs."""
    if not space.missing:
        return []
    asked = len(space.values) + space.missing
    return [f"{said}: {space.missing} of its {asked} eigenfunctions did not converge and are not used"]


def spectral_candidates(
    values: np.ndarray, rows: np.ndarray, dim: float, smoothness: Sequence[str], log_prior: float = 0.0,
    max_time: float | None = None, resolved: float = RESOLVED, bound: float = BOUND, **about: Any,
) -> list[Candidate]:  # fmt: skip
    """Heat and Matérn kernels from eigenvalues [k], at SCALES scales each.

    `rows` are the eigenfunctions on the cloud, [N, k]; the smallest scale leaves `resolved` of the last mode (where
    that is much, smaller scales change nothing). The variance of each kernel is at most `bound` times its mean over the
    cloud, and each of several connected components has an offset of its own (see `Spectral`).
    """
    if not (varies := varying(values)).any():
        raise NoSurface(
            "the eigenvalues of a surface are zero up to rounding: nearly all rows lie at one or two points; "
            "leave out copies of rows, or name other geometries"
        )
    extent = float(np.pi / np.sqrt(values[varies].min()))
    small = float(np.sqrt(2 * log(1 / resolved) / values.max()))
    squares, offsets = rows**2, component_offsets(rows, ~varies)
    power = np.mean(squares, 0, dtype=float)

    def bounded(nu: float, scale: float) -> Spectral:
        found = Spectral(values, power, nu, dim, scale, offsets)
        if np.isinf(bound):
            return found
        return replace(found, typical=float(np.minimum(squares @ found.weights, bound).mean()), bound=bound)

    return scale_grid(
        bounded,
        small, lambda nu: (LARGEST_HEAT if np.isinf(nu) else LARGEST_MATERN) * extent,
        smoothness, log_prior, max_time, open_ends=("low",) if resolved < 0.5 else (), **about,
    )  # fmt: skip


def component_offsets(rows: np.ndarray, constant: np.ndarray) -> np.ndarray | None:
    """Weights [k] of eigenfunctions that are constant on one of several connected components; None with one component.

    `rows` are the eigenfunctions on the cloud [N, k], `constant` those whose eigenvalue is 0. The offset of each
    component has variance 1.
    """
    size = np.abs(rows[:, constant])
    local = size.min(0) < 0.5 * size.max(0)  # 0 on other components
    if not local.any():
        return None
    found = np.zeros(rows.shape[1])
    found[np.flatnonzero(constant)[local]] = 1 / size[:, local].max(0) ** 2
    return found / np.mean(rows**2 @ found)  # draws of a metric have each component several times


def stationary_candidates(
    cloud: np.ndarray, smoothness: Sequence[str], log_prior: float = 0.0, max_time: float | None = None, **about: Any
) -> list[Candidate]:
    """Heat and Matérn kernels of coordinates, at SCALES scales each, from the rows' spacing to twice their extent."""
    extent = max(neighbours.extent(cloud), 1e-12)
    small = min(max(float(neighbours.spacing(cloud).mean()), 1e-3 * extent), extent)
    return scale_grid(Stationary, small, lambda nu: 2 * extent, smoothness, log_prior, max_time, **about)
