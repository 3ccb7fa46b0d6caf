"""The Swiss roll of the paper, with its exact chart and heat kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..basics import checks
from ..basics.checks import GpumError
from ..manifold import SwissRoll


def make_swiss_roll(
    n_labeled: int = 24,
    n_unlabeled: int = 450,
    *,
    grid: bool = True,
    noise: float = 0.05,
    random_state: Any = None,
) -> Bunch:
    """The Swiss roll of the paper with the regression function of our experiments.

    f(r, z) = sin(u(r)/14) + 0.4 cos(πz/12), with u the arc length, on r in [2, 12.5], z in [0, 12].
    Unlabelled points lie on a grid, ten across the width and equally spaced in r, or (`grid=False`)
    uniformly at random on the surface; labelled points are uniform in (r, z), and their y has Gaussian noise.

    Returns
    -------
    Bunch with X [N, 3] (labelled rows first), y [N] (NaN where unlabelled), y_true [N], chart_coords [N, 2]
    (r and z), chart, the exact `SwissRoll`, and heat_kernel(starts, targets, times), its heat kernel in closed form.
    """
    checks.integer(n_labeled, "n_labeled", 0, None, "24 as in the paper")
    checks.integer(n_unlabeled, "n_unlabeled", 0, None, "450 as in the paper")
    grid = checks.flag(grid, "grid")
    if grid and n_unlabeled % 10:
        raise GpumError(f"n_unlabeled is {n_unlabeled}, but the grid has ten rows; use a multiple of 10 or grid=False")
    checks.positive(noise, "noise", "0.05 is the default", zero=True)
    rng = checks.random_state(random_state)
    chart = SwissRoll()
    (r0, r1), (z0, z1) = chart.r, chart.z
    labelled = np.stack([rng.uniform(r0, r1, n_labeled), rng.uniform(z0, z1, n_labeled)], 1)
    if grid:
        r, z = np.linspace(r0, r1, n_unlabeled // 10), np.linspace(z0, z1, 10)
        others = np.stack(np.meshgrid(r, z, indexing="ij"), -1).reshape(-1, 2)
    else:
        fine = np.linspace(r0, r1, 10_001)
        u = chart.arc_length(fine)
        r = np.interp(rng.uniform(u[0], u[-1], n_unlabeled), u, fine)
        others = np.stack([r, rng.uniform(z0, z1, n_unlabeled)], 1)
    coords = np.concatenate([labelled, others])
    f = swiss_roll_function(coords)
    y = np.full(len(coords), np.nan)
    y[:n_labeled] = f[:n_labeled] + noise * rng.standard_normal(n_labeled)
    return Bunch(
        X=swiss_roll_points(coords), y=y, y_true=f, chart_coords=coords, chart=chart, heat_kernel=chart.heat_kernel
    )


def swiss_roll_points(coords: Any) -> np.ndarray:
    """Points of R³ at (r, z), [N, 2] to [N, 3]."""
    r, z = np.asarray(coords, float).T
    return np.stack([r * np.cos(r), r * np.sin(r), z], 1)


def swiss_roll_function(coords: Any) -> np.ndarray:
    """The regression function f at (r, z), [N, 2] to [N]."""
    r, z = np.asarray(coords, float).T
    return np.sin(SwissRoll.arc_length(r) / 14) + 0.4 * np.cos(np.pi * z / 12)
