"""A mesh as a geometry: a surface that is known, near which the rows of a cloud lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..basics.progress import Reporter
from ..heat.histograms import jump_features
from ..heat.meshes import Mesh, SurfaceNodes
from .base import KernelTask, Projection
from .family import Family
from .features import NodeFeatures
from .path_spaces import PathFeatures, of_paths
from .settings import spectral_settings, unreached
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

    def family(self, task: KernelTask) -> Family:
        """One space: eigenfunctions, or histograms of paths from vertex to vertex."""
        notes = [f"{self.title}: {note}" for note in self.mesh.notes]
        if task.options.method == "brownian":
            nodes = SurfaceNodes(self.mesh)
            asked = (task.options.n_paths, task.options.max_time, task.options.n_path_starts, task.seed)
            features = jump_features(
                nodes.stiffness(), nodes.mass, nodes.points, nodes, self.cloud, *asked, n_jobs=task.n_jobs
            )  # fmt: skip
            with Reporter(task.verbose, None, "simulating Brownian paths"):
                paths = PathFeatures.of(features, self.mesh.vertices)
            return Family.of(
                [of_paths(paths, self._built.places, self.mesh.dim, task.smoothness, 0.0)],
                [*notes, *(f"{self.title}, paths: {note}" for note in paths.notes)],
            )
        spectrum = self.mesh.spectrum(task.options.n_modes or MESH_MODES)
        space = NodeFeatures(spectrum.functions.astype(np.float32), spectrum.values)
        rows = space.at(self._built.places)
        settings = spectral_settings(spectrum.values, rows, self.mesh.dim, task.smoothness, 0.0, task.options.max_time)
        return Family.of([(space, rows, settings)], [*notes, *unreached(self.title, spectrum)])
