"""Flat space as a geometry: the data space itself, or the plane of a latent model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from . import spaces
from .base import KernelTask, Projection, in_data_space
from .family import Family
from .separate import Components, together_and_apart


@dataclass(eq=False)
class FlatGeometry:
    """Coordinates with stationary kernels: the data space itself, or (with `model`) the plane of a latent model.

    Coordinates are divided by each of `scales`. With `by_column` labels may add spaces in which every column has a
    length scale of its own (`fitted.relevance`). With `components` every space is there twice (see `separate`).
    """

    rows: np.ndarray  # [N, p]
    scales: Sequence[np.ndarray]
    model: Any = None
    name: str = "flat"
    title: str = "flat space"
    by_column: bool = False
    components: Components | None = None

    def project(self, X: np.ndarray) -> Projection:
        """Coordinates of rows X."""
        return in_data_space(X) if self.model is None else self.model.project(X)

    def family(self, task: KernelTask) -> Family:
        """One space a scale; two where the cloud has several connected components."""
        members = []
        for scale in self.scales:
            both = together_and_apart(scale, self.components)
            prior = -log(len(self.scales) * len(both))
            about = {"stretch": tuple(scale.tolist())} if scale.ndim else {}
            rows = both[0].at(self.rows)
            settings = spaces.stationary_settings(rows, task.smoothness, prior, task.options.max_time, about=about)
            members += [(space, space.at(self.rows), settings) for space in both]
        return Family.of(members)


def flat_geometry(X: np.ndarray, by_column: bool = False) -> FlatGeometry:
    """The data space, scaled as a whole."""
    spread = float(np.sqrt(np.mean(X.var(0))))
    scales = [np.asarray(spread if spread > 0 else 1.0)]
    return FlatGeometry(X, scales, by_column=by_column, components=Components.of(X))
