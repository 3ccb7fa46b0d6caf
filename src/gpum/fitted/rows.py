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
    """n rows, projected onto the geometries of a cloud.

    X : the rows, [n, p].
    index : their indices in the fitted cloud, -1 for new rows, [n].
    own : for each geometry that is needed, their positions among the rows that it was learned from, -1 for projected
        rows, [n].
    missing : which rows lack readings, so that their coordinates are uncertain even in the cloud, [n] of bool.
    projections : for each geometry that needs one, the projection of the rows with own = -1, in their order.
    outlying : which rows have the prior in the spaces `joining`, since they lie far from all others, [n] of bool.
    uncertain : for each geometry whose learned rows have uncertain coordinates, points around each of them.
    exact : which learned rows count as exact all the same, since they have a label, [N] of bool.
    """

    X: np.ndarray
    index: np.ndarray
    own: dict[int, np.ndarray]
    missing: np.ndarray
    projections: dict[int, Projection]
    candidate_set: CandidateSet
    needed: frozenset[int]  # spaces
    outlying: np.ndarray | None = None
    joining: frozenset[int] = frozenset()
    uncertain: dict[int, tuple[np.ndarray, ...]] = field(default_factory=dict)
    exact: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def far(self, weights: np.ndarray) -> np.ndarray:
        """Which new rows are far from geometries with more than half of the weights [geometries], [n] of bool."""
        found = np.zeros(len(self))
        for k, projection in self.projections.items():
            found[self.own[k] < 0] += weights[k] * projection.far
        return (found > 0.5) & (self.index < 0)

    def each_block(self, of: Callable[[RowsInSpaces, slice], T], n_jobs: int | None) -> list[T]:
        """What `of` computes for each block of rows in the spaces, with the positions of its rows; in threads."""
        if len(self) <= BLOCK:
            return [of(self.whole, slice(None))]
        size = BLOCK // PARTS

        def part(begin: int) -> T:
            some = slice(begin, begin + size)
            return of(self.in_spaces(some), some)

        return list(results((partial(part, begin) for begin in range(0, len(self), size)), n_jobs, here=True))

    @cached_property
    def whole(self) -> RowsInSpaces:
        """All rows in every space that is needed."""
        return self.in_spaces(slice(None))

    @cached_property
    def number(self) -> dict[int, np.ndarray]:
        """For each geometry, the position of each row with own = -1 among the rows of its projection, [n]."""
        return {k: np.cumsum(own < 0) - 1 for k, own in self.own.items()}

    def in_spaces(self, some: slice | np.ndarray) -> RowsInSpaces:
        """Some of the rows in every space that is needed."""
        unseen, geometry_of = self.index[some] < 0, self.candidate_set.geometry_of
        owns = {geometry: own[some] for geometry, own in self.own.items()}
        seen = {geometry for geometry, own in owns.items() if not len(own) or own.max() >= 0}  # not only new rows
        rows = [
            _learned(r, owns[geometry_of[k]]) if k in self.needed and geometry_of[k] in seen else None
            for k, r in enumerate(self.candidate_set.rows)
        ]
        located = RowsInSpaces(rows, [[] for _ in rows], list(np.zeros((len(rows), len(unseen)), bool)))
        if self.outlying is not None and self.outlying[some].any():
            for k in self.needed & self.joining:
                located.far[k][self.outlying[some]] = True
        of_geometry: dict[int, list[int]] = {}
        for k in sorted(self.needed):
            of_geometry.setdefault(geometry_of[k], []).append(k)
        for geometry, spaces in of_geometry.items():
            own, number = owns[geometry], self.number[geometry][some]
            each = [self.candidate_set.spaces[k] for k in spaces]
            new = np.flatnonzero(own < 0)
            several: list[tuple[np.ndarray, int, list[np.ndarray]]] = []  # rows, further points of each, in every space
            if len(new):
                # A complete row of the cloud that is projected has these coordinates, without uncertainty.
                unsure = np.flatnonzero((own < 0) & (unseen | self.missing[some]))
                projection = self.projections[geometry]
                points = projection.points[number[new]]
                sigma_points = [p[number[unsure]] for p in (*projection.sigma_points, *projection.others)]
                values = at_each(each, np.concatenate([points, *sigma_points]))
                far = projection.far[number[unsure]] & unseen[unsure]
                for k, found in zip(spaces, values, strict=True):
                    located.at[k] = _with(located.at[k], new, found[: len(new)])
                    located.far[k][unsure] = far
                if len(unsure) and sigma_points:
                    several.append((unsure, len(sigma_points), [found[len(new) :] for found in values]))
            if learned := self.uncertain.get(geometry):
                assert self.exact is not None
                unsure = np.flatnonzero((own >= 0) & ~self.exact[own])
                if len(unsure):
                    sigma_points = [points[own[unsure]] for points in learned]
                    several.append((unsure, len(sigma_points), at_each(each, np.concatenate(sigma_points))))
            for unsure, count, values in several:
                for k, found in zip(spaces, values, strict=True):
                    if len(unsure) == len(unseen):
                        located.sigma_points[k] = list(found.reshape(count, len(unsure), -1))
                        continue
                    at = located.at[k]
                    assert at is not None
                    known = located.sigma_points[k] or [at]
                    total = lcm(len(known), count)  # points are equally likely, so that all may be repeated as often
                    located.sigma_points[k] = [known[j % len(known)].copy() for j in range(total)]
                    for j, rows_around in enumerate(located.sigma_points[k]):
                        rows_around[unsure] = found.reshape(count, len(unsure), -1)[j % count]
        return located


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
        k = self.space
        found = replace(self.projected, needed=frozenset([k])).in_spaces(index)
        sigma_points, projection = (
            found.sigma_points[k],
            self.projected.projections.get(self.projected.candidate_set.geometry_of[k]),
        )
        at = (
            np.mean(sigma_points, axis=0)
            if sigma_points and projection is not None and projection.others
            else found.at[k]
        )
        assert at is not None
        return at


def _learned(rows: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The learned rows at positions `own` [n]; those of new rows, -1, are not set yet."""
    known = own >= 0
    if known.all():
        return rows[own]
    some = rows[own[known]]
    found = np.empty((len(own), some.shape[1]), some.dtype)
    found[known] = some
    return found


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
