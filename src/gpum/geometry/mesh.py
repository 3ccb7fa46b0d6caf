"""A mesh as a geometry: a surface that is known, near which the rows of a cloud lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..heat.meshes import Mesh
from .base import KernelTask, Projection
from .candidate_set import CandidateSet
from .features import NodeFeatures
from .kernel_grid import spectral_candidates, unreached
from .surface import SurfaceGeometry

MESH_MODES = 200


@dataclass(eq=False)
class MeshGeometry:
    """A mesh; its eigenfunctions are its one space."""

    mesh: Mesh
    cloud: np.ndarray  # [N, p]
    name: str = "mesh"

    @property
    def title(self) -> str:
        """Which mesh it is."""
        return f"mesh of dimension {self.mesh.dim}"

    @cached_property
    def _built(self) -> SurfaceGeometry:
        return SurfaceGeometry(self.name, self.title, self.mesh.surface, self.mesh.project(self.cloud).packed)

    def built(self, task: KernelTask) -> SurfaceGeometry:
        """The surface alone."""
        return self._built

    def project(self, X: np.ndarray) -> Projection:
        """Places of rows between the vertices."""
        return self._built.project(X)

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """One space: eigenfunctions of the mesh, or of the jump process of paths from vertex to vertex."""
        notes = [f"{self.title}: {note}" for note in self.mesh.notes]
        solve = self.mesh.spectrum_of_jumps if task.options.method == "brownian" else self.mesh.spectrum
        spectrum = solve(task.options.n_modes or MESH_MODES)
        space = NodeFeatures(spectrum.functions.astype(np.float32), spectrum.values)
        rows = space.at(self._built.places)
        candidates = spectral_candidates(
            spectrum.values, rows, self.mesh.dim, task.smoothness, 0.0, task.options.max_time
        )
        return CandidateSet.of([(space, rows, candidates)], [*notes, *unreached(self.title, spectrum)])
