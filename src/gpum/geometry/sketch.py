"""Sketches of charts: coordinates from which latent models start, with plain kernels, before a chart is learned.

A latent model begins with PCA and Isomap, and a chart without its boundary is a stationary kernel of even coordinates.
So the evidence of stationary kernels of the starts says what to expect of the chart, in a hundredth of the time:
`estimators.plan` learns charts of those dimensions alone that may win. A sketch is no geometry of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from .base import InDataSpace
from .candidate_set import CandidateSet, Member, stationary_candidates
from .features import GraphSpace
from .options import KernelTask

BETWEEN = 10  # rows between which a new row is


@dataclass(eq=False)
class SketchGeometry(InDataSpace):
    """Several coordinates [N, dim] of the same rows, interpolated between these as functions on a graph are."""

    rows: np.ndarray  # [N, p]
    coordinates: Sequence[np.ndarray]
    dim: int
    name: str = "sketch"

    @property
    def title(self) -> str:
        """Which sketch it is."""
        return f"sketch of dimension {self.dim}"

    def built(self, task: KernelTask) -> tuple[SketchGeometry, CandidateSet]:
        """Itself, and one space for each start."""
        members: list[Member] = []
        for at_rows in self.coordinates:
            space = GraphSpace(self.rows, np.zeros(at_rows.shape[1]), at_rows, {"n_neighbors": BETWEEN})
            candidates = stationary_candidates(at_rows, task.smoothness, -log(len(self.coordinates)))
            members.append((space, at_rows, candidates))
        return self, CandidateSet.of(members)


def sketches(rows: np.ndarray, dims: Sequence[int]) -> list[SketchGeometry]:
    """A sketch of the chart of each dimension below the number of columns of rows [N, p]."""
    from ..gplvm import starts  # with scikit-learn's clusters, which prediction never needs

    dims = [q for q in dims if q < min(rows.shape[1], len(rows) - 1)]
    if not dims:
        return []
    numbers = sorted({min(k, len(rows) - 1) for k in starts.ISOMAP_NEIGHBOURS})
    widest, rng = max(*dims, 2), np.random.default_rng(0)
    unrolled = [starts.isomap(rows, widest, k, rng) for k in numbers]
    turned = [angle for along in unrolled if (angle := starts.unrolled(along[:, :2])) is not None]
    every = [starts.pca(rows, widest), *unrolled]
    return [SketchGeometry(rows, [*(one[:, :q] for one in every), *(turned[:1] if q == 1 else [])], q) for q in dims]
