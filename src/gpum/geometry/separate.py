"""Connected components of a cloud in flat space, and spaces in which they are independent.

Flat space joins everything by distance. Labels on one component do not say whether another one continues the same
function: together and apart explain them equally well. So a cloud with several connected components has every space of
flat space twice, and labels on several of them decide by their evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ..basics import neighbours
from .spaces import ScaledSpace

NEIGHBOURS = 10  # of the graph: with fewer a curve of rows drawn at random may fall apart
APART = 10.0  # between components, in extents of the cloud: the kernel is below 1 %, beside the constant that all share


@dataclass(frozen=True, eq=False)
class Components:
    """Rows of a cloud [N, p] and the number of each one's connected component [N]."""

    rows: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Components | None:
        """The connected components of the graph of NEIGHBOURS nearest rows; None where there is only one."""
        if len(rows) <= NEIGHBOURS + 1:
            return None
        number = neighbours.components(rows, NEIGHBOURS)
        return cls(rows, number) if number.any() else None

    def at(self, points: np.ndarray) -> np.ndarray:
        """The component of each point [n]: that of the nearest row."""
        if points.shape == self.rows.shape and np.array_equal(points, self.rows):
            return self.number
        return self.number[neighbours.nearest(self.rows, 1, points)[1][:, 0]] if len(points) else np.empty(0, int)


@dataclass(frozen=True, eq=False)
class SeparateSpace(ScaledSpace):
    """Points as scaled coordinates, and coordinates in which all connected components are `apart` from each other.

    There is one for each component: on a line, a row that may belong to the first or the third of them, and lies at the
    mean of both (`incomplete`), would be in the second.
    """

    components: Components
    apart: float

    @classmethod
    def of(cls, scale: np.ndarray, components: Components) -> SeparateSpace:
        """With components so far apart that they are independent."""
        return cls(scale, components, APART * max(neighbours.extent(components.rows / scale), 1.0))

    def at(self, points: np.ndarray) -> np.ndarray:
        """Scaled coordinates and those of the component, [n, p + components]."""
        return self._with(points, self.components.at(points))

    @staticmethod
    def at_each(spaces: Sequence[SeparateSpace], points: np.ndarray) -> list[np.ndarray]:
        """As `at` of each of several spaces; those of the same components find each point's only once."""
        number = {key: one.at(points) for key, one in {id(s.components): s.components for s in spaces}.items()}
        return [space._with(points, number[id(space.components)]) for space in spaces]

    def _with(self, points: np.ndarray, number: np.ndarray) -> np.ndarray:
        place = np.arange(self.components.number.max() + 1) == number[:, None]
        return np.column_stack([points / self.scale, sqrt(0.5) * self.apart * place])


def together_and_apart(scale: np.ndarray, components: Components | None) -> list[ScaledSpace]:
    """The space with these scales, and where there are several components the one that separates them."""
    together = ScaledSpace(scale)
    return [together] if components is None else [together, SeparateSpace.of(scale, components)]
