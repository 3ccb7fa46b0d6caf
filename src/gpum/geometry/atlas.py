"""An atlas or a mesh as a geometry: a surface of cells, whose eigenfunctions are its one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..heat.atlas import Atlas, atlas_unless_rough
from ..heat.meshes import Mesh
from ..heat.spectra import USUAL_MODES, Spectrum
from ..manifold.surface import Surface
from .base import SurfaceGeometry
from .candidate_set import CandidateSet, on_eigenfunctions, unreached
from .features import NodeFeatures
from .options import KernelTask

LEAST_TRUST = 0.05  # prior weight, over that of a smooth atlas, of one whose rows are all rough


@dataclass(eq=False)
class AtlasGeometry:
    """An atlas of many small charts, glued together; the eigenfunctions of the whole are its one space."""

    atlas: Atlas
    cloud: np.ndarray  # [N, p]
    pairs: Spectrum
    name: str = "atlas"

    @classmethod
    def of(cls, X: np.ndarray, dim: int, n_modes: int | None = None, roughest: float = 1.0) -> AtlasGeometry:
        """The atlas of a cloud [N, p]; refused if local charts do not fit more than `roughest` of its rows."""
        atlas = atlas_unless_rough(X, dim, roughest)
        pairs = atlas.eigenpairs(n_modes or USUAL_MODES)
        return cls(atlas, X, pairs)

    @property
    def title(self) -> str:
        """Which atlas it is."""
        return f"atlas of dimension {self.atlas.dim}"

    @property
    def trust(self) -> float:
        """Its prior weight over that of an atlas of smooth rows: the fraction of rows that local charts fit, or more.

        A chart fits a row that it predicts from the rows around. Where it does not, the atlas joins rows by their
        noise, but may still be nearer to the surface than a graph (`python benchmarks/spreads.py`).
        """
        return LEAST_TRUST + (1 - LEAST_TRUST) * (1 - self.atlas.rough_)

    def built(self, task: KernelTask) -> tuple[SurfaceGeometry, CandidateSet]:
        """The surface, and one space: its eigenfunctions, or those of the jump process of paths from chart to chart.

        The law of the jumps is known, so that no path is drawn.
        """
        jumps = task.options.method == "brownian"
        pairs = self.atlas.spectrum_of_jumps(task.options.n_modes or USUAL_MODES) if jumps else self.pairs
        return _with_eigenfunctions(self, self.atlas.projector_, pairs, self.atlas.notes_, task)


@dataclass(eq=False)
class MeshGeometry:
    """A mesh, near which the rows of a cloud lie; its eigenfunctions are its one space."""

    mesh: Mesh
    cloud: np.ndarray  # [N, p]
    name: str = "mesh"

    @property
    def title(self) -> str:
        """Which mesh it is."""
        return f"mesh of dimension {self.mesh.dim}"

    def built(self, task: KernelTask) -> tuple[SurfaceGeometry, CandidateSet]:
        """The surface, and one space: eigenfunctions of the mesh, or of the jump process from vertex to vertex."""
        solve = self.mesh.spectrum_of_jumps if task.options.method == "brownian" else self.mesh.spectrum
        spectrum = solve(task.options.n_modes or USUAL_MODES)
        return _with_eigenfunctions(self, self.mesh.surface, spectrum, self.mesh.notes, task)


def _with_eigenfunctions(
    builder: AtlasGeometry | MeshGeometry, surface: Surface, spectrum: Spectrum, notes: Sequence[str], task: KernelTask
) -> tuple[SurfaceGeometry, CandidateSet]:
    """The geometry of a surface, and the space of these eigenfunctions."""
    title = builder.title
    geometry = SurfaceGeometry(builder.name, title, surface, surface.project(builder.cloud).packed)
    space = NodeFeatures(spectrum.functions.astype(np.float32), spectrum.values)
    members = [on_eigenfunctions(space, geometry.places, surface.dim, task)]
    return geometry, CandidateSet.of(members, [*(f"{title}: {note}" for note in notes), *unreached(title, spectrum)])
