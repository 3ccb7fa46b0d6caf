"""A geometry of the same cloud in other units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .base import Geometry, KernelTask, Projection
from .candidate_set import CandidateSet


@dataclass(eq=False)
class ScaledGeometry:
    """A geometry that is learned from the cloud's rows divided by `scale`, a number or one for each column.

    `units` says in words how the columns are scaled.
    """

    inner: Geometry
    scale: np.ndarray | float
    units: str
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def title(self) -> str:
        """Which one of its kind it is."""
        return f"{self.inner.title} ({self.units})"

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p] in the units of the cloud, on the inner geometry."""
        return self.inner.project(X / self.scale)

    def built(self, task: KernelTask) -> ScaledGeometry:
        """The same of the inner geometry once it is built."""
        return replace(self, inner=self.inner.built(task))

    def candidate_set(self, task: KernelTask) -> CandidateSet:
        """The spaces of the inner geometry."""
        return self.inner.candidate_set(task)
