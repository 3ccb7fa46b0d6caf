"""What every geometry has: coordinates for rows, and spaces with settings on them.

A geometry has points of its own: coordinates of a chart, or rows of the data space. It projects rows never seen onto
itself (`project`) and hands out its spaces with the settings on them (`family`). Another geometry is one more file
beside `chart`, `atlas`, `graph` and `flat`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..basics.checks import GpumError
from .family import Family


@dataclass(frozen=True)
class Projection:
    """Rows on a geometry: points, their standard deviations (None: known exactly), which rows are far from it.

    `others`, where there are any: all points at which each row may be, equally likely.
    """

    points: np.ndarray  # [n, ...]
    sd: np.ndarray | None
    far: np.ndarray  # [n], bool
    others: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class KernelOptions:
    """What is asked of the kernels on a geometry; see `GPUMRegressor`."""

    smoothness: Sequence[str]
    boundary: float | str = "average"
    kernel: str = "auto"
    n_modes: int | None = None
    metric_draws: int = 0
    max_time: float | None = None
    n_paths: int = 1000
    step_size: float | None = None
    n_inducing: int | None = None
    seed: int = 0
    n_jobs: int | None = None
    verbose: int = 0


class Geometry(Protocol):
    """One way to see the shape of a cloud; `name` is the kind, such as "chart"."""

    name: str

    @property
    def title(self) -> str:
        """Which one of its kind it is, in words."""

    def project(self, X: np.ndarray) -> Projection:
        """Rows X [n, p] that are not of the cloud on the geometry."""

    def family(self, options: KernelOptions) -> Family:
        """Spaces of the geometry, settings on them, and the cloud in each."""


@dataclass(frozen=True)
class UnweightedGeometry:
    """What a model file keeps of a geometry without weight: its name. Nothing is projected onto it."""

    name: str
    title: str

    def project(self, X: np.ndarray) -> Projection:
        """It has no points."""
        raise GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")

    def family(self, options: KernelOptions) -> Family:
        """It has no spaces."""
        raise GpumError(f"the {self.title} had no weight and was not stored; fit again to use it")


def titles(geometries: Sequence[Geometry]) -> list[str]:
    """What geometries are called side by side; those of one title are numbered from the second on."""
    seen: Counter[str] = Counter()
    found = []
    for geometry in geometries:
        seen[geometry.title] += 1
        n = seen[geometry.title]
        found.append(geometry.title if n == 1 else f"{geometry.title}, fit {n}")
    return found


def in_data_space(X: np.ndarray) -> Projection:
    """Rows whose coordinates are their own numbers."""
    return Projection(X, None, np.zeros(len(X), bool))
