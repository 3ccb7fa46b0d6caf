"""Which rows of a large cloud geometries are learned from, and whether it may be a smooth surface.

Charts and atlases are learned from `cloud.SUBSET` rows where these show the shape of the cloud, else from two, four, …
times as many (`basics.resolution`), as far as the work of learning stays below WORK.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..basics import missing, neighbours, resolution
from ..fitted import Cloud
from ..fitted import cloud as clouds
from ..gplvm.models import N_INDUCING

# Estimated dimensions of a large cloud up to which charts and atlases of at most three are learned. Simulated surfaces
# of one to three dimensions have 1.2 to 3.9 in the best of three numbers of rows, also with noise of a third of their
# waves; filled cubes and clusters of four dimensions 3.6 to 4.0, of five 4.2 to 4.7, of six and more 5.0 and above.
SMOOTH = 5.0
FEWER_ROWS, MORE_ROWS = 1000, 10_000  # rows among which the dimension is estimated, beside the subset
# The most work that more rows may cost: seconds of one core for charts and atlases of all dimensions, computed from the
# costs of a row below, which were measured once, so that results do not depend on how fast a machine is. It allows
# 12 000 rows of up to 100 columns and 6 000 of 300: about four minutes on two cores.
WORK = 360.0
OF_CHARTS = 0.015  # with N_INDUCING inducing points
OF_ATLASES = 1.5e-4  # for each column, and at least FEW_COLUMNS
FEW_COLUMNS = 20


@dataclass(frozen=True)
class Chosen:
    """The cloud with the rows that geometries are learned from, notes about it, and whether it may be a surface."""

    cloud: Cloud
    notes: list[str]
    smooth: bool


def chosen(
    cloud: Cloud, seed: int, random: bool, model: Any, always: bool, graphs: bool, n_jobs: int | None = None
) -> Chosen:
    """Rows of a cloud that geometries are learned from.

    `model` is the latent model that is fitted to them; None where neither charts nor atlases are learned. `always` says
    that they are learned from any cloud, not only from one that may be a smooth surface; `graphs`, that some are built.

    A small cloud always may be one. In a large one the dimension is estimated among the subset, FEWER_ROWS of it and
    MORE_ROWS of the cloud: noise raises it where rows are many, curvature where they are few.

    A large cloud with missing readings has no more than SUBSET rows: the work of a chart grows with the number of
    different gaps, too.
    """
    with_rows, notes = clouds.with_subset(cloud, seed, random)
    if not with_rows.large:
        return Chosen(with_rows, notes, True)
    dimension = _dimension(with_rows, seed)
    smooth, resolved = dimension <= SMOOTH, True
    remarks: list[str] = []
    if not smooth:
        remarks.append(
            f"the rows have about {dimension:.0f} dimensions, judging by distances to their neighbours: with "
            "geometry='average' charts and atlases, which have at most 3, are left out; name them to learn them"
        )
    if model is not None and (smooth or always) and not np.isnan(with_rows.X).any():
        n, fraction = _enough(with_rows, model, seed, n_jobs)
        resolved = n == clouds.SUBSET and fraction <= resolution.FEW
        if n > clouds.SUBSET:
            with_rows, notes = clouds.with_subset(cloud, seed, random, n)
            remarks.append(
                f"{clouds.SUBSET:,} rows do not show the shape of the cloud: paths between them jump from one fold or "
                f"sheet to another. So charts and atlases were learned from {n:,}, which takes longer"
            )
        if fraction > resolution.FEW:
            remarks.append(
                f"{n:,} rows do not show all of the shape: further rows make {fraction:.0%} of the paths between them "
                "longer, but to learn charts and atlases from more rows would take too long"
            )
    with_rows, of_graphs = clouds.with_many(with_rows, seed, smooth and resolved) if graphs else (with_rows, [])
    return Chosen(with_rows, [*notes, *remarks, *of_graphs], smooth)


def _dimension(cloud: Cloud, seed: int) -> float:
    """The smallest of the dimensions of the cloud at three numbers of rows; missing readings are filled in."""
    rows, filled = cloud.learned, None
    if np.isnan(cloud.X).any():
        filled = missing.fill_in(rows)
        rows = filled.rows
    dimension = neighbours.dimension(rows)
    if dimension > SMOOTH:
        fewer = neighbours.cover(rows, min(FEWER_ROWS, len(rows)), np.random.default_rng(seed))
        dimension = min(dimension, neighbours.dimension(rows[fewer]))
    if dimension > SMOOTH and len(cloud) > MORE_ROWS:
        drawn = np.random.default_rng(seed).choice(len(cloud), MORE_ROWS, replace=False)
        more = cloud.rows[drawn]
        if filled is not None:
            more, _ = missing.fill_in_others(filled, more, cloud._learned_at(drawn))
        dimension = min(dimension, neighbours.dimension(more))
    return dimension


def _enough(cloud: Cloud, model: Any, seed: int, n_jobs: int | None) -> tuple[int, float]:
    """How many rows show the shape of the cloud, as far as WORK allows, and the fraction of their paths too short."""
    rng = np.random.default_rng(seed)
    assert cloud.subset is not None
    n, most = len(cloud.subset), _most(model, cloud.X.shape[1])
    order = np.concatenate([rng.permutation(cloud.subset), rng.permutation(np.setdiff1d(cloud.distinct, cloud.subset))])
    return resolution.enough(cloud.rows[order[: max(resolution.MORE * n, 2 * most)]], n, most, n_jobs)


def _most(model: Any, columns: int) -> int:
    """The largest number of rows that WORK allows: charts cost N m² with m inducing points, atlases N p.

    A latent model without inducing points costs N³, and gets no more rows.
    """
    if model == "gplvm" or getattr(model, "_as_points", False):
        return 0
    m = getattr(model, "n_inducing", None) or N_INDUCING
    return int(WORK / (OF_CHARTS * (m / N_INDUCING) ** 2 + OF_ATLASES * max(columns, FEW_COLUMNS)))
