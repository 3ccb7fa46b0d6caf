"""A mesh as a geometry: a surface that is known, near which the rows of a cloud lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..heat.meshes import Mesh
from ..heat.spectra import USUAL_MODES
from .base import SurfaceGeometry
from .candidate_set import CandidateSet, on_eigenfunctions, unreached
from .features import NodeFeatures
from .options import KernelTask


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

    def built(self, task: KernelTask) -> tuple[SurfaceGeometry, CandidateSet]:
        """The surface, and one space: eigenfunctions of the mesh, or of the jump process from vertex to vertex."""
        geometry = SurfaceGeometry(self.name, self.title, self.mesh.surface, self.mesh.project(self.cloud).packed)
        notes = [f"{self.title}: {note}" for note in self.mesh.notes]
        solve = self.mesh.spectrum_of_jumps if task.options.method == "brownian" else self.mesh.spectrum
        spectrum = solve(task.options.n_modes or USUAL_MODES)
        space = NodeFeatures(spectrum.functions.astype(np.float32), spectrum.values)
        members = [on_eigenfunctions(space, geometry.places, self.mesh.dim, task)]
        return geometry, CandidateSet.of(members, [*notes, *unreached(self.title, spectrum)])
