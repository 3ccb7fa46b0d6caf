"""An atlas as a geometry: many small charts glued together; the eigenfunctions of the whole are its one space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..heat.atlas import Atlas, atlas_unless_rough
from ..heat.spectra import USUAL_MODES, Spectrum
from .base import SurfaceGeometry
from .candidate_set import CandidateSet, on_eigenfunctions, unreached
from .features import NodeFeatures
from .options import KernelTask

LEAST_TRUST = 0.05  # prior weight, over that of a smooth atlas, of one whose rows are all rough


@dataclass(eq=False)
class AtlasGeometry:
    """An atlas of many small charts; its eigenfunctions are its one space."""

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
        surface = self.atlas.projector_
        geometry = SurfaceGeometry(self.name, self.title, surface, surface.project(self.cloud).packed)
        notes = [f"{self.title}: {note}" for note in self.atlas.notes_]
        jumps = task.options.method == "brownian"
        pairs = self.atlas.spectrum_of_jumps(task.options.n_modes or USUAL_MODES) if jumps else self.pairs
        space = NodeFeatures(pairs.functions.astype(np.float32), pairs.values)
        members = [on_eigenfunctions(space, geometry.places, self.atlas.dim, task)]
        return geometry, CandidateSet.of(members, [*notes, *unreached(self.title, pairs)])
