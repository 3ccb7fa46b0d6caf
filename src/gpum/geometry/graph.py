"""Graphs of neighbours as a geometry: one space for each graph, of its eigenvectors (`graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from .base import KernelTask, Projection, in_data_space
from .candidate_set import CandidateSet
from .features import LARGE
from .kernel_grid import spectral_candidates, unreached

RESIDUAL = 0.01  # of an eigenvalue, asked of the eigenfunctions of a large graph
ALL_MODES = 0.9  # of the last mode at the smallest scale: how many modes a graph has is part of the model


@dataclass(eq=False)
class GraphGeometry:
    """Graphs on the cloud, as spaces of their eigenvectors (`graphs`)."""

    spaces: Sequence[Any]
    name: str = "graph"
    title: str = "graph of neighbours"

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        return {"spaces": [], "name": self.name, "title": self.title}  # those of weight are stored by themselves

    def project(self, X: np.ndarray) -> Projection:
        """Rows of the data space are their own points."""
        return in_data_space(X)

    def built(self, task: KernelTask) -> GraphGeometry:
        """It needs nothing that is not in its spaces."""
        return self

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """One space a graph."""
        members, notes = [], []
        for space in self.spaces:
            about = ", ".join(f"{name}={value}" for name, value in space.info.items())
            notes += unreached(f"{self.title} ({about})", space)
            notes += _about_large(f"{self.title} ({about})", space)
            candidates = spectral_candidates(
                space.values, space.vectors, 0.0, task.smoothness, -log(len(self.spaces)),
                task.options.max_time, ALL_MODES, np.inf, about=space.info,
            )  # fmt: skip
            members.append((space, space.vectors, candidates))
        return CandidateSet.of(members, notes)


def _about_large(said: str, space: Any) -> list[str]:
    """Notes about a graph of many rows, called `said`."""
    notes = []
    if getattr(space, "residual", 0.0) > RESIDUAL:
        notes.append(
            f"{said}: its eigenfunctions have residuals of up to {space.residual:.2g} of their eigenvalues, where "
            f"{RESIDUAL:g} was asked for; the least smooth of them are inexact"
        )
    if len(space.vectors) > LARGE and space.n_connected_components > 1:
        notes.append(
            f"{said}: it had {space.n_connected_components:,} connected components, which were joined by the shortest "
            "edges between them"
        )
    return notes
