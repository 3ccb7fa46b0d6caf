"""Rows projected onto the geometries of a fitted cloud, and their features in its spaces, a block of rows at a time.

The projection of a row is a few numbers and is computed once. Its features in a space (for example the values of a
hundred eigenfunctions) are computed when they are used, so that memory does not grow with rows times spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import lcm
from typing import TypeVar

import numpy as np

from ..basics.workers import results
from ..geometry.base import Geometry, Projection
from ..geometry.candidate_set import CandidateSet
from ..geometry.features import at_each
from ..inference.posterior import RowsInSpaces

T = TypeVar("T")

BLOCK = 4096  # rows in all spaces at once: 65 MB with ten spaces of 200 numbers; five times that with sigma points
PARTS = 4  # of a block: a thread computes one of them at a time
PROJECTED = 20_000  # rows that are projected at once


@dataclass(frozen=True, eq=False)
class ProjectedRows:
    """n rows, projected onto the geometries of a cloud, from which their features in any space follow.

    X : the rows, [n, p].
    index : their indices in the fitted cloud, -1 for new rows, [n].
    learned_at : for each geometry that is needed, their positions among the rows that it was learned from, -1 for
        projected rows, [n].
    missing : which rows lack readings, so that their coordinates are uncertain even in the cloud, [n] of bool.
    projections : for each geometry that needs one, the projection of the rows with learned_at = -1, in their order.
    outlying : which rows have the prior in the spaces `joining`, since they lie far from all others, [n] of bool.
    uncertain : for each geometry whose learned rows have uncertain coordinates, points around each of them.
    exact : which learned rows count as exact all the same, since they have a label, [N] of bool.
    values : columns that further terms of the kernel see, [n, c]; they stand behind the features in every space.
    """

    X: np.ndarray
    index: np.ndarray
    learned_at: dict[int, np.ndarray]
    missing: np.ndarray
    projections: dict[int, Projection]
    candidate_set: CandidateSet
    needed: frozenset[int]  # spaces
    outlying: np.ndarray | None = None
    joining: frozenset[int] = frozenset()
    uncertain: dict[int, tuple[np.ndarray, ...]] = field(default_factory=dict)
    exact: np.ndarray | None = None
    values: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def far(self, weights: np.ndarray) -> np.ndarray:
        """Which new rows are far from geometries with more than half of the weights [geometries], [n] of bool."""
        weight = np.zeros(len(self))
        for k, projection in self.projections.items():
            weight[self.learned_at[k] < 0] += weights[k] * projection.far
        return (weight > 0.5) & (self.index < 0)

    def each_block(self, of: Callable[[RowsInSpaces, slice], T], n_jobs: int | None) -> list[T]:
        """What `of` computes for each block of rows in the spaces, with the positions of its rows; in threads."""
        if len(self) <= BLOCK:
            return [of(self.whole, slice(None))]
        size = BLOCK // PARTS

        def part(begin: int) -> T:
            block = slice(begin, begin + size)
            return of(self.in_spaces(block), block)

        return list(results((partial(part, begin) for begin in range(0, len(self), size)), n_jobs, here=True))

    @cached_property
    def whole(self) -> RowsInSpaces:
        """All rows in every space that is needed."""
        return self.in_spaces(slice(None))

    @cached_property
    def number(self) -> dict[int, np.ndarray]:
        """For each geometry, the position of each row with learned_at = -1 among the rows of its projection, [n]."""
        return {k: np.cumsum(learned_at < 0) - 1 for k, learned_at in self.learned_at.items()}

    def in_spaces(self, part: slice | np.ndarray) -> RowsInSpaces:
        """A part of the rows in every space that is needed."""
        new, geometry_of = self.index[part] < 0, self.candidate_set.geometry_of
        rows: list[np.ndarray | None] = [None] * len(geometry_of)
        located = RowsInSpaces(rows, [[] for _ in rows], list(np.zeros((len(rows), len(new)), bool)))
        if self.outlying is not None and self.outlying[part].any():
            for k in self.needed & self.joining:
                located.far[k][self.outlying[part]] = True
        for geometry in sorted({geometry_of[k] for k in self.needed}):
            self._locate(located, [k for k in sorted(self.needed) if geometry_of[k] == geometry], geometry, part, new)
        if self.values is not None:
            behind = lambda features: np.concatenate([features, self.values[part]], 1)
            for k in self.needed:
                located.at[k] = behind(located.at[k])
                located.sigma_points[k] = [behind(points) for points in located.sigma_points[k]]
        return located

    def _locate(
        self, located: RowsInSpaces, numbers: list[int], geometry: int, part: slice | np.ndarray, new: np.ndarray
    ) -> None:
        """Put a part of the rows, of which some are `new`, into the spaces of one geometry, which have these numbers.

        Rows that it was learned from are gathered, the others take their values at the places onto which they were
        projected.
        """
        spaces = [self.candidate_set.spaces[k] for k in numbers]
        learned_at, number = self.learned_at[geometry][part], self.number[geometry][part]
        if not len(learned_at) or learned_at.max() >= 0:
            for k in numbers:
                located.at[k] = _learned(self.candidate_set.rows[k], learned_at)
        several: list[tuple[np.ndarray, int, list[np.ndarray]]] = []  # rows, further points of each, in every space
        projected = np.flatnonzero(learned_at < 0)
        if len(projected):
            # A complete row of the cloud that is projected has these coordinates, without uncertainty.
            unsure = np.flatnonzero((learned_at < 0) & (new | self.missing[part]))
            projection = self.projections[geometry]
            points = projection.points[number[projected]]
            sigma_points = [p[number[unsure]] for p in (*projection.sigma_points, *projection.others)]
            values = at_each(spaces, np.concatenate([points, *sigma_points]))
            far = projection.far[number[unsure]] & new[unsure]
            for k, of_space in zip(numbers, values, strict=True):
                located.at[k] = _with(located.at[k], projected, of_space[: len(projected)])
                located.far[k][unsure] = far
            if len(unsure) and sigma_points:
                several.append((unsure, len(sigma_points), [of_space[len(projected) :] for of_space in values]))
        if learned := self.uncertain.get(geometry):
            assert self.exact is not None
            unsure = np.flatnonzero((learned_at >= 0) & ~self.exact[learned_at])
            if len(unsure):
                sigma_points = [points[learned_at[unsure]] for points in learned]
                several.append((unsure, len(sigma_points), at_each(spaces, np.concatenate(sigma_points))))
        for unsure, count, values in several:
            for k, of_space in zip(numbers, values, strict=True):
                around = of_space.reshape(count, len(unsure), -1)
                located.sigma_points[k] = _around(located.at[k], located.sigma_points[k], unsure, around)


@dataclass(frozen=True, eq=False)
class SpaceRows:
    """Features of projected rows in one space, computed for the rows whose index is given."""

    projected: ProjectedRows
    space: int

    def __len__(self) -> int:
        return len(self.projected)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and numbers of each."""
        return len(self), self.projected.candidate_set.rows[self.space].shape[1]

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        """Some of the rows, [n, k]; of a row with several completions their mean (see `IncompleteGeometry`)."""
        k, projected = self.space, self.projected
        located = replace(projected, needed=frozenset([k])).in_spaces(index)
        projection = projected.projections.get(projected.candidate_set.geometry_of[k])
        if projection is not None and projection.others and located.sigma_points[k]:
            return np.mean(located.sigma_points[k], axis=0)
        at = located.at[k]
        assert at is not None
        return at


def _learned(rows: np.ndarray, learned_at: np.ndarray) -> np.ndarray:
    """The learned rows at positions `learned_at` [n]; those of new rows, -1, are not set yet."""
    known = learned_at >= 0
    if known.all():
        return rows[learned_at]
    of_known = rows[learned_at[known]]
    features = np.empty((len(learned_at), of_known.shape[1]), of_known.dtype)
    features[known] = of_known
    return features


def _around(
    at: np.ndarray | None, known: list[np.ndarray], unsure: np.ndarray, around: np.ndarray
) -> list[np.ndarray]:  # fmt: skip
    """Sets of points [n, k] of rows that are `at` [n, k]: unsure rows [m] have those `around` [count, m, k], in turn.

    The points of a row are equally likely, so that all may be repeated as often. `known` are sets of other rows.
    """
    assert at is not None
    if len(unsure) == len(at):
        return list(around)
    known = known or [at]
    total = lcm(len(known), len(around))
    sets = [known[j % len(known)].copy() for j in range(total)]
    for j, points in enumerate(sets):
        points[unsure] = around[j % len(around)]
    return sets


def _with(rows: np.ndarray | None, new: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Rows [n, k] with the values of the new ones; all of them may be new."""
    if rows is None or len(new) == len(rows):
        return values
    rows[new] = values
    return rows


def project_onto(geometry: Geometry, X: np.ndarray) -> Projection:
    """Projects rows [n, p] onto a geometry, PROJECTED at a time."""
    if len(X) <= PROJECTED:
        return geometry.project(X)
    parts = [geometry.project(X[k : k + PROJECTED]) for k in range(0, len(X), PROJECTED)]

    def joined(name: str) -> tuple[np.ndarray, ...]:
        """Further points of all rows: where a part has none, they are its points themselves."""
        count = max(len(getattr(part, name)) for part in parts)
        return tuple(map(np.concatenate, zip(*(getattr(p, name) or (p.points,) * count for p in parts), strict=True)))

    points, far = (np.concatenate([getattr(part, name) for part in parts]) for name in ("points", "far"))
    return Projection(points, far, joined("others"), joined("sigma_points"))


def among(projection: Projection, fresh: np.ndarray, points: np.ndarray) -> Projection:
    """The projection of n rows: that of the `fresh` ones [n] is given, the others have known points [n, ...]."""

    def put(values: np.ndarray, others: np.ndarray) -> np.ndarray:
        others = others.copy()
        others[fresh] = values
        return others

    far = put(projection.far, np.zeros(len(fresh), bool))
    further = (tuple(put(p, points) for p in several) for several in (projection.others, projection.sigma_points))
    return Projection(put(projection.points, points), far, *further)
