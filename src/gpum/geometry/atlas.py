"""An atlas as a geometry: many small charts glued together; the eigenfunctions of the whole are its one space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..basics.progress import Reporter
from ..heat.atlas import Atlas, AtlasEigenpairs, AtlasNodes, atlas_unless_rough
from ..heat.histograms import jump_features
from .base import KernelTask, Projection
from .family import Family
from .features import NodeFeatures
from .path_spaces import PathFeatures, of_paths
from .settings import spectral_settings, unreached
from .surface import SurfaceGeometry

ATLAS_MODES = 200


@dataclass(eq=False)
class AtlasGeometry:
    """An atlas of many small charts; its eigenfunctions are its one space."""

    atlas: Atlas
    cloud: np.ndarray  # [N, p]
    pairs: AtlasEigenpairs
    name: str = "atlas"

    @classmethod
    def of(cls, X: np.ndarray, dim: int, n_modes: int | None = None, roughest: float = 1.0) -> AtlasGeometry:
        """The atlas of a cloud [N, p]; refused if local charts do not fit more than `roughest` of its rows."""
        atlas = atlas_unless_rough(X, dim, roughest)
        pairs = atlas.eigenpairs(n_modes or ATLAS_MODES)
        return cls(atlas, X, pairs)

    @property
    def title(self) -> str:
        """Which atlas it is."""
        return f"atlas of dimension {self.atlas.dim}"

    def built(self, task: KernelTask) -> SurfaceGeometry:
        """The surface alone."""
        return self._built

    @cached_property
    def _built(self) -> SurfaceGeometry:
        surface = self.atlas.projector_
        return SurfaceGeometry(self.name, self.title, surface, surface.project(self.cloud).packed)

    def project(self, X: np.ndarray) -> Projection:
        """Places of rows between the nodes of the atlas."""
        return self._built.project(X)

    def family(self, task: KernelTask) -> Family:
        """One space: eigenfunctions, or histograms of paths that cross from chart to chart."""
        notes = [f"{self.title}: {note}" for note in self.atlas.notes_]
        if task.options.method == "brownian":
            nodes = AtlasNodes(self.atlas)
            asked = (task.options.n_paths, task.options.max_time, task.options.n_path_starts, task.seed)
            features = jump_features(
                nodes.stiffness(), nodes.mass, nodes.points, nodes, self.cloud, *asked, n_jobs=task.n_jobs
            )  # fmt: skip
            with Reporter(task.verbose, None, "simulating Brownian paths"):
                paths = PathFeatures.of(features, self.atlas.nodes_)
            return Family.of(
                [of_paths(paths, self._built.places, self.atlas.dim, task.smoothness, 0.0)],
                [*notes, *(f"{self.title}, paths: {note}" for note in paths.notes)],
            )
        space = NodeFeatures(self.pairs.vectors.astype(np.float32), self.pairs.values)
        rows = space.at(self._built.places)
        settings = spectral_settings(
            self.pairs.values, rows, self.atlas.dim, task.smoothness, 0.0, task.options.max_time
        )
        return Family.of([(space, rows, settings)], [*notes, *unreached(self.title, self.pairs)])
