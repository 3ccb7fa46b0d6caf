"""The geometries of a cloud, and the projection of rows onto them.

Geometries are learned from the cloud or, above `cloud.SUBSET` rows, from a subset of it. Rows that they were learned
from keep their fitted coordinates; all other rows are projected onto them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..basics import neighbours
from ..basics.checks import GpumError, NoSurface
from ..basics.missing import Filled, fill_in
from ..basics.workers import Interrupted
from ..geometry.base import (
    Builder,
    Geometry,
    IncompleteGeometry,
    Projection,
    ScaledGeometry,
    SurfaceGeometry,
    titles,
)
from ..geometry.candidate_set import CandidateSet, join
from ..geometry.options import KernelTask
from ..inference import classes
from ..persistence.store import Held, Store
from .cloud import Cloud
from .rows import ProjectedRows, SpaceRows, among, project_onto

OUTLYING = 10.0  # see `Geometries.outlying`
HELD = 3000  # labelled rows up to which their features in all spaces stay in memory; else they are recomputed


@dataclass(frozen=True, eq=False)
class Geometries:
    """Geometries of a cloud with their spaces, candidates on these, and prior weights.

    Attributes
    ----------
    cloud : the rows.
    members : the geometries; `candidate_set.geometry_of` says to which of them each space belongs.
    candidate_set : all their spaces, the candidates on them and the learned rows in each space.
    kernels : which kernels were computed, and how.
    places : cached places of all rows of a large cloud on some members.
    """

    cloud: Cloud
    members: list[Geometry]
    candidate_set: CandidateSet
    kernels: KernelTask
    places: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def _of(
        cls, cloud: Cloud, builders: Sequence[Builder], log_priors: Sequence[float], notes: Sequence[str],
        kernels: KernelTask, store: Store | None = None,
    ) -> Geometries:  # fmt: skip
        """Geometries with prior weights; one that has no space on this cloud is left out, and a note says why.

        What a builder makes stays in the store, for those who ask for it beside other geometries. Ctrl-C raises
        `Interrupted`, with the geometries that are ready.
        """
        ready: list[tuple[Geometry, CandidateSet, float]] = []
        store = store or Store()
        notes = list(notes)

        def together() -> Geometries:
            geometries, candidate_sets, priors = zip(*ready, strict=True)
            candidate_set = join(candidate_sets, priors)
            candidate_set = replace(candidate_set, notes=[*notes, *candidate_set.notes])
            return cls(cloud, list(geometries), candidate_set, kernels)

        try:
            for builder, prior in zip(builders, log_priors, strict=True):
                try:
                    made = store.once(("built", Held(builder), kernels), partial(builder.built, kernels))
                    ready.append((*made, prior))
                except NoSurface as error:
                    if len(builders) == 1:
                        raise
                    notes.append(f"the {builder.title} is left out: {error}")
        except KeyboardInterrupt as stop:
            if not ready:
                raise
            raise Interrupted(together()) from stop
        if not ready:
            raise NoSurface(f"no geometry can be built on this cloud: {'; '.join(notes)}")
        return together()

    def __gpum_restored__(self) -> None:
        """Refuse stored geometries whose spaces or candidates are not theirs."""
        spaces = self.candidate_set
        n = len(spaces.spaces)
        if not len(spaces.rows) == len(spaces.geometry_of) == n or not all(
            0 <= owner < len(self.members) for owner in spaces.geometry_of
        ):
            raise GpumError("its spaces do not belong to its geometries")
        if not all(0 <= candidate.space < n for candidate in spaces.candidates):
            raise GpumError("its candidates do not belong to its spaces")

    def with_notes(self, notes: Sequence[str]) -> Geometries:
        """The same with further notes."""
        return replace(self, candidate_set=replace(self.candidate_set, notes=[*notes, *self.candidate_set.notes]))

    @property
    def titles(self) -> list[str]:
        """What each member is called, such as "atlas of dimension 2"."""
        return titles(self.members)

    @property
    def names(self) -> list[str]:
        """The kind of each member, such as "atlas"."""
        return [member.name for member in self.members]

    @cached_property
    def effective_dimensions(self) -> np.ndarray:
        """The effective dimension of each candidate's kernel on the cloud, [candidates] (see `inference.classes`)."""
        return classes.effective_dimensions(self.candidate_set)

    @cached_property
    def outlying(self) -> np.ndarray:
        """Which learned rows are OUTLYING times as far from all others as nine of ten rows are at most, [N].

        A learned surface joins such a row to the nearest ones, however far these are, without any evidence.
        """
        rows = self.cloud.learned
        if len(rows) < 3 or np.isnan(rows).any():
            return np.zeros(len(rows), bool)
        apart = neighbours.spacing(rows)
        return apart > OUTLYING * np.quantile(apart, 0.9)  # most rows may be all but copies of others

    @cached_property
    def _filled(self) -> Filled:
        """The learned rows with their missing readings filled in, from which new rows are completed."""
        return fill_in(self.cloud.learned)

    @property
    def joining(self) -> frozenset[int]:
        """Spaces of geometries that were learned from the rows; flat space and known charts have distances."""
        known = [
            member.name == "flat" or (isinstance(member, SurfaceGeometry) and member.surface.limit is None)
            for member in self.members
        ]
        return frozenset(k for k, owner in enumerate(self.candidate_set.geometry_of) if not known[owner])

    def weights(self, posterior: Any) -> np.ndarray:
        """The posterior weight of each member, [members]."""
        weights = np.zeros(len(self.members))
        for component in posterior.components:
            weights[self.candidate_set.geometry_of[component.candidate.space]] += component.weight
        return weights

    def labelled(self, known: np.ndarray, beside: int = 0) -> tuple[CandidateSet, np.ndarray]:
        """A candidate set that contains the cloud's rows `known`, and the positions of these rows in it.

        Where it does not contain the whole cloud, it has `beside` other rows, drawn at random.
        """
        learned_at = self.cloud._learned_at(known)
        if self.cloud.many is None and np.all(
            learned_at >= 0
        ):  # rows, or copies of rows, that all geometries are learned from
            return self.candidate_set, learned_at
        others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(self.cloud)), known))[:beside]
        asked = np.concatenate([known, others])
        there = [space is not None for space in self.candidate_set.spaces]  # a file holds those with weight
        projected = self._project(self.cloud.rows[asked], asked, frozenset(map(int, np.flatnonzero(there))))
        rows: list[Any] = [SpaceRows(projected, k) if has else None for k, has in enumerate(there)]
        if len(asked) <= HELD:
            rows = [None if of_space is None else of_space[np.arange(len(asked))] for of_space in rows]
        return replace(self.candidate_set, rows=rows), np.arange(len(known))

    def _project(
        self, rows: np.ndarray, index: np.ndarray, needed: frozenset[int], values: np.ndarray | None = None
    ) -> ProjectedRows:
        """Scaled rows, projected for the spaces that are needed; `index` is their index in the cloud, -1 for new rows.

        `values` [n, c] are their columns that further terms of the kernel see.
        Rows with missing readings are always projected, also those of the cloud: their coordinates are uncertain.
        """
        missing = np.isnan(rows).any(1)
        n_rows = {self.candidate_set.geometry_of[k]: len(self.candidate_set.rows[k]) for k in needed}
        positions = {n: np.where(missing, -1, self.cloud._learned_at(index, n)) for n in set(n_rows.values())}
        learned_at = {k: positions[n_rows[k]] for k in sorted(n_rows)}
        in_cloud = np.where(missing, -1, index)
        projections = {}
        for k, known in learned_at.items():
            if len(new := np.flatnonzero(known < 0)):
                projections[k] = self._projected(k, rows[new], in_cloud[new])
        return ProjectedRows(rows, index, learned_at, missing, projections, self.candidate_set, needed, values=values)

    def _project_rows(self, X: np.ndarray, needed: frozenset[int]) -> ProjectedRows:
        """Rows X [n, p] as they come, of the cloud or new."""
        rows = self.cloud._scaled(X)
        return self._project(rows, self.cloud._index(rows), needed, self.cloud._values_of_terms(X))

    def _project_cloud(self, index: np.ndarray, needed: frozenset[int]) -> ProjectedRows:
        """Rows of the cloud."""
        values = self.cloud.term_values
        return self._project(self.cloud.rows[index], index, needed, None if values is None else values[index])

    def _coordinates(self, k: int) -> np.ndarray:
        """Coordinates of all rows of the cloud on member k, which has a chart, [N, q]."""
        member = self.members[k]
        assert isinstance(member, SurfaceGeometry)
        if self.cloud.subset is None:
            return member.coordinates(self.cloud.rows, member.places)
        if k not in self.places:
            learned = self.cloud._learned_at(np.arange(len(self.cloud)))
            places, rest = member.places[learned], learned < 0
            if rest.any():
                places[rest] = project_onto(self._projector(k, self.cloud.rows[rest]), self.cloud.rows[rest]).points
            self.places[k] = places
        return member.coordinates(self.cloud.rows, self.places[k])

    def chart(self, k: int) -> Any:
        """The chart of member k, as the fit made it."""
        member = self.members[k]
        assert isinstance(member, SurfaceGeometry)
        assert member.details is not None
        return member.details.content["chart"]

    def _projected(self, k: int, rows: np.ndarray, index: np.ndarray) -> Projection:
        """Rows projected onto member k; rows of the cloud whose places are cached are not projected again."""
        known, fresh = self.places.get(k), index < 0
        if known is None or fresh.all():
            return project_onto(self._projector(k, rows), rows)
        if not fresh.any():
            return Projection(known[index], fresh)
        return among(project_onto(self._projector(k, rows[fresh]), rows[fresh]), fresh, known[index])

    def _projector(self, k: int, rows: np.ndarray) -> Geometry:
        """Member k, which completes rows with missing readings where it needs complete rows."""
        member = self.members[k]
        inner = member.inner if isinstance(member, ScaledGeometry) else member
        if isinstance(inner, IncompleteGeometry) or not np.isnan(rows).any():
            return member
        return IncompleteGeometry(member, self._filled, self.cloud.learned)
