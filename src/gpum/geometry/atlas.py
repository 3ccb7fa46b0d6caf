"""An atlas as a geometry: many small charts glued together; the eigenfunctions of the whole are its one space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..basics.progress import Reporter
from ..heat.atlas import Atlas, AtlasEigenpairs, AtlasNodes, atlas_unless_rough
from ..heat.histograms import jump_features
from . import spaces
from .base import KernelTask, Projection
from .family import Family
from .path_spaces import PathRows, of_paths

ATLAS_MODES = 200


@dataclass(eq=False)
class AtlasGeometry:
    """An atlas of many small charts; its eigenfunctions are its one space."""

    atlas: Atlas
    cloud: np.ndarray  # [N, p]
    pairs: AtlasEigenpairs
    rows: np.ndarray  # eigenfunctions on the cloud, [N, k]
    name: str = "atlas"

    @classmethod
    def of(cls, X: np.ndarray, dim: int, n_modes: int | None = None, roughest: float = 1.0) -> AtlasGeometry:
        """The atlas of a cloud [N, p]; refused if local charts do not fit more than `roughest` of its rows."""
        atlas = atlas_unless_rough(X, dim, roughest)
        pairs = atlas.eigenpairs(n_modes or ATLAS_MODES)
        return cls(atlas, X, pairs, pairs.at(X))

    @property
    def title(self) -> str:
        """Which atlas it is."""
        return f"atlas of dimension {self.atlas.dim}"

    def project(self, X: np.ndarray) -> Projection:
        """Rows of the data space are their own points; rows far from the atlas are marked."""
        found = self.atlas.project(X)
        return Projection(X, None, found.far, located=np.concatenate([found.corners, found.weights], 1))

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
                paths = PathRows.of(features, self.cloud)
            return Family.of(
                [of_paths(paths, self.atlas.dim, task.smoothness, 0.0)],
                [*notes, *(f"{self.title}, paths: {note}" for note in paths.notes)],
            )
        settings = spaces.spectral_settings(
            self.pairs.values, self.rows, self.atlas.dim, task.smoothness, 0.0, task.options.max_time
        )
        return Family.of([(self.pairs, self.rows, settings)], [*notes, *spaces.unreached(self.title, self.pairs)])
