"""A chart or an atlas once it is built, as one of the geometries of a cloud: its surface, with the rows on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..basics.checks import GpumError
from ..manifold.surface import Surface, interpolated
from ..persistence.sealed import Sealed
from .base import KernelTask, Projection
from .candidate_set import CandidateSet


@dataclass(frozen=True, eq=False)
class SurfaceGeometry:
    """A surface with the rows [N] that it was learned from, each at a place between its nodes [N, 2j].

    `details` hold the chart and the latent model, for those who ask for them; predictions do not.
    """

    name: str
    title: str
    surface: Surface
    places: np.ndarray
    details: Sealed | None = None

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p] as places between nodes; where coordinates are uncertain, with further places around each."""
        located = self.surface.project(X)
        places = located.packed
        return Projection(places, located.far, sigma_points=tuple(self.surface.sigma_points(places)))

    def coordinates(self, X: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Coordinates [n, q] in the chart of rows X at these places; rows of a known chart are coordinates."""
        return X if self.surface.coordinates is None else interpolated(places, self.surface.coordinates)

    def spreads(self, X: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Standard deviations [n, q] of these coordinates."""
        if self.surface.spread is None:
            return np.zeros_like(self.coordinates(X, places))
        return interpolated(places, self.surface.spread)

    def built(self, task: KernelTask) -> SurfaceGeometry:
        """Itself."""
        return self

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """Its kernels were made when it was built."""
        raise GpumError(f"the kernels of the {self.title} are those of its fit; fit again to have others")
