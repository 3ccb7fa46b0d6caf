"""Graphs of neighbours as a geometry: one space for each graph, of its eigenvectors (`graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from .base import InDataSpace
from .candidate_set import CandidateSet, spectral_candidates, unreached
from .features import LARGE
from .options import KernelTask

RESIDUAL = 0.01  # of an eigenvalue, asked of the eigenfunctions of a large graph
ALL_MODES = 0.9  # of the last mode at the smallest scale: how many modes a graph has is part of the model


@dataclass(eq=False)
class GraphGeometry(InDataSpace):
    """Graphs on the cloud, as spaces of their eigenvectors (`graphs`)."""

    spaces: Sequence[Any]
    name: str = "graph"
    title: str = "graph of neighbours"

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        return {"spaces": [], "name": self.name, "title": self.title}  # those of weight are stored by themselves

    def built(self, task: KernelTask) -> tuple[GraphGeometry, CandidateSet]:
        """Itself, and one space a graph."""
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
        return self, CandidateSet.of(members, notes)


def _about_large(title: str, space: Any) -> list[str]:
    """Notes about a graph of many rows."""
    notes = []
    if getattr(space, "residual", 0.0) > RESIDUAL:
        notes.append(
            f"{title}: its eigenfunctions have residuals of up to {space.residual:.2g} of their eigenvalues, where "
            f"{RESIDUAL:g} was asked for; the least smooth of them are inexact"
        )
    if len(space.vectors) > LARGE and space.n_connected_components > 1:
        notes.append(
            f"{title}: it had {space.n_connected_components:,} connected components, which were joined by the shortest "
            "edges between them"
        )
    return notes
