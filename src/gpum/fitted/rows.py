"""Where rows lie on the surfaces of a fitted cloud, and what they are in its spaces, a block of rows at a time.

A place is a few numbers a row and is found once; what it is in a space (the values of a hundred eigenfunctions, say) is
looked up when it is asked for, so that memory does not grow with rows times spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..geometry.base import Geometry, Projection
from ..geometry.family import Family
from ..inference.posterior import RowsInSpaces

BLOCK = 4096  # rows in all spaces at once: with ten spaces of 200 numbers 65 MB, and five times that with places around
PLACED = 20_000  # rows that a surface places at once


@dataclass(frozen=True, eq=False)
class ProjectedRows:
    """n rows on the surfaces of a cloud.

    X : the rows, [n, p].
    index : where they stand in the fitted cloud, -1: nowhere, [n].
    own : where they stand among the rows that the surfaces were learned from, -1: they were placed, [n].
    missing : which rows lack readings, so that even those of the cloud are uncertain, [n] of bool.
    placements : of the rows that were placed, in their order, for each surface that is needed.
    outlying : which rows have the prior in the spaces `joining`, since they lie far from all others, [n] of bool.
    """

    X: np.ndarray
    index: np.ndarray
    own: np.ndarray
    missing: np.ndarray
    placements: dict[int, Projection]
    family: Family
    needed: frozenset[int]  # spaces
    outlying: np.ndarray | None = None
    joining: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.X)

    def far(self, weights: np.ndarray) -> np.ndarray:
        """Which rows are far from surfaces that hold more than half of the weights [surfaces]; none of the cloud is."""
        found, new = np.zeros(len(self), bool), self.own < 0
        if self.placements and np.any(self.index < 0):
            found[new] = sum(weights[k] * placement.far for k, placement in self.placements.items()) > 0.5
        return found & (self.index < 0)

    def blocks(self) -> Iterator[RowsInSpaces]:
        """All rows in every space that is needed, in order, BLOCK at a time."""
        if len(self) <= BLOCK:
            yield self.whole
        else:
            yield from (self.located(slice(k, k + BLOCK)) for k in range(0, len(self), BLOCK))

    @cached_property
    def whole(self) -> RowsInSpaces:
        """All rows in every space that is needed."""
        return self.located(slice(None))

    @cached_property
    def _number(self) -> np.ndarray:
        """The number of each row among those that were placed, [n]."""
        return np.cumsum(self.own < 0) - 1

    def located(self, some: slice | np.ndarray) -> RowsInSpaces:
        """Some of the rows in every space that is needed."""
        own, number = self.own[some], self._number[some]
        new = np.flatnonzero(own < 0)
        # A whole row of the cloud is where it is, as if the surfaces had been learned from it.
        unseen = self.index[some] < 0
        unsure = np.flatnonzero((own < 0) & (unseen | self.missing[some]))
        rows = [r[np.maximum(own, 0)] if k in self.needed else None for k, r in enumerate(self.family.rows)]
        located = RowsInSpaces.exactly(rows)
        if self.outlying is not None and self.outlying[some].any():
            for k in self.needed & self.joining:
                located.far[k][self.outlying[some]] = True
        for k in self.needed if len(new) else ():
            placement, at = self.placements[self.family.geometry_of[k]], located.at[k]
            assert at is not None
            space = self.family.spaces[k]
            at[new] = space.at(placement.points[number[new]])
            located.far[k][unsure] = placement.far[number[unsure]] & unseen[unsure]
            around = _around(placement, number[unsure])
            if len(unsure) and around:
                located.around[k] = [at.copy() for _ in around]
                found = np.split(space.at(np.concatenate(around)), len(around))
                for place, values in zip(located.around[k], found, strict=True):
                    place[unsure] = values
        return located


@dataclass(frozen=True, eq=False)
class SpaceRows:
    """RowsInSpaces rows in one space, looked up when they are asked for by their index."""

    placed: ProjectedRows
    space: int

    def __len__(self) -> int:
        return len(self.placed)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and numbers of each."""
        return len(self), self.placed.family.rows[self.space].shape[1]

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        """Some of the rows, [n, k]; of a row with several completions their mean (see `geometry.incomplete`)."""
        k = self.space
        found = replace(self.placed, needed=frozenset([k])).located(index)
        around, placement = found.around[k], self.placed.placements.get(self.placed.family.geometry_of[k])
        at = np.mean(around, axis=0) if around and placement is not None and placement.others else found.at[k]
        assert at is not None
        return at


def _around(placement: Projection, some: np.ndarray) -> list[np.ndarray]:
    """Other places of some rows, equally likely: sigma points, or completions.

    Sigma points x ± √q s_a e_a have the posterior's mean and variance along each coordinate.
    """
    found = [points[some] for points in placement.others]
    if placement.sd is not None:
        points, sd = placement.points[some], placement.sd[some]
        q = points.shape[1]
        found = [points + side * np.sqrt(q) * sd * e for e in np.eye(q) for side in (-1, 1)] + found
    return found


def project_onto(surface: Geometry, X: np.ndarray) -> Projection:
    """Rows [n, p] on a surface, PLACED at a time."""
    if len(X) <= PLACED:
        return surface.project(X)
    found = [surface.project(X[k : k + PLACED]) for k in range(0, len(X), PLACED)]
    sd = None if found[0].sd is None else np.concatenate([f.sd for f in found if f.sd is not None])
    count = max(len(f.others) for f in found)
    others = zip(*(f.others or (f.points,) * count for f in found), strict=True)
    return Projection(
        np.concatenate([f.points for f in found]),
        sd,
        np.concatenate([f.far for f in found]),
        tuple(np.concatenate(points) for points in others),
    )


def among(found: Projection, fresh: np.ndarray, points: np.ndarray) -> Projection:
    """A placement of the rows that are `fresh` [n] among others that are known to be at points [n, ...]."""

    def put(values: np.ndarray, others: np.ndarray) -> np.ndarray:
        others = others.copy()
        others[fresh] = values
        return others

    sd = None if found.sd is None else put(found.sd, np.zeros_like(points))
    far = put(found.far, np.zeros(len(fresh), bool))
    return Projection(put(found.points, points), sd, far, tuple(put(other, points) for other in found.others))
