"""Labels of further rows, added to a fitted cloud: its geometries stay as they were learned.

A row that equals one of the cloud without a label gives that row its label. Any other labelled row becomes a row of the
cloud that geometries were not learned from, and is projected onto them as the rows beyond the subset of a large cloud
are. A row without a label adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..geometry.base import UnweightedGeometry
from ..geometry.candidate_set import Candidate
from .cloud import LARGEST_ENTRY, Cloud
from .geometries import Geometries
from .rows import project_onto

NOTE = (
    "labels were added to a model from a file, which holds no candidate without weight: those that had none with "
    "the labels of its fit were not weighed again"
)


def with_rows(
    geometries: Geometries, X: np.ndarray, labelled: np.ndarray, known: Sequence[np.ndarray]
) -> tuple[Geometries, np.ndarray]:
    """The geometries, whose cloud has further rows where labels need them, and where these rows are in it.

    Of rows X [n, p] outputs [k] have labels where `labelled` [n, k]; `known` are the rows of the cloud that have one.
    The index [n] is -1 for a row without a label. Spaces that earlier labels added are left out.
    """
    cloud, index = _placed(geometries.cloud, X, labelled, known)
    geometries = _on_cloud(without_lengths(geometries), cloud)
    if not geometries.candidate_set.complete and NOTE not in geometries.candidate_set.notes:
        geometries = geometries.with_notes([NOTE])
    return geometries, index


def _placed(
    cloud: Cloud, X: np.ndarray, labelled: np.ndarray, known: Sequence[np.ndarray]
) -> tuple[Cloud, np.ndarray]:  # fmt: skip
    """The cloud with the rows that it lacks, and the index of each row in it; see `with_rows`."""
    has = np.zeros((len(cloud), len(known)), bool)
    for column, rows in zip(has.T, known, strict=True):
        column[rows] = True
    scaled = cloud._scaled(X)
    limited, columns = X.copy(), slice(None) if cloud.surface is None else cloud.surface
    limited[:, columns] = np.where(np.abs(scaled) < LARGEST_ENTRY, X[:, columns], cloud.unscaled(scaled))
    cloud._values_of_terms(X[labelled.any(1)])
    first, index = cloud._whole_index(X, cloud._index(scaled)), np.full(len(X), -1)
    appended: list[int] = []
    for i in np.flatnonzero(labelled.any(1)).tolist():
        equal = np.flatnonzero(cloud.whole_original == first[i]) if first[i] >= 0 else np.zeros(0, int)
        free = equal[~np.any(has[equal] & labelled[i], axis=1)]
        if len(free):
            index[i] = free[0]
            has[free[0]] |= labelled[i]
        else:
            index[i] = len(cloud) + len(appended)
            appended.append(i)
    return cloud.with_rows(limited[appended]) if appended else cloud, index


def _on_cloud(geometries: Geometries, cloud: Cloud) -> Geometries:
    """The geometries of a cloud, as they were learned, with a cloud that has further rows at its end."""
    if cloud is geometries.cloud:
        return geometries
    rows, places = cloud.rows[len(geometries.cloud) :], {}
    for k, known in geometries.places.items():
        if not isinstance(geometries.members[k], UnweightedGeometry):
            places[k] = np.concatenate([known, project_onto(geometries._projector(k, rows), rows).points])
    return replace(geometries, cloud=cloud, places=places)


def without_lengths(geometries: Geometries) -> Geometries:
    """The geometries without the spaces that labels added, which no candidate of theirs has: see `fitted.relevance`."""
    candidate_set = geometries.candidate_set
    first = 1 + max(candidate.space for candidate in candidate_set.candidates)
    if first == len(candidate_set.spaces) or not candidate_set.complete:
        return geometries
    kept = sorted({candidate_set.geometry_of[candidate.space] for candidate in candidate_set.candidates})
    lean = replace(
        candidate_set, spaces=candidate_set.spaces[:first], rows=candidate_set.rows[:first],
        geometry_of=candidate_set.geometry_of[:first],
        log_priors=[candidate_set.log_priors[k] for k in kept] if candidate_set.log_priors else [],
    )  # fmt: skip
    return replace(geometries, members=[geometries.members[k] for k in kept], candidate_set=lean)


def with_candidates_of(geometries: Geometries, output: Any) -> Geometries:
    """The geometries with the candidates that had weight for an output: all that a model file holds."""
    by_id: dict[int, Candidate] = {}
    for component in output.posterior.components:
        by_id.setdefault(id(component.candidate), component.candidate)
    tempered = getattr(output.posterior, "tempered", None)
    log_priors = geometries.candidate_set.log_priors if tempered is None else list(tempered.log_prior)
    candidate_set = replace(geometries.candidate_set, candidates=list(by_id.values()), log_priors=log_priors)
    return replace(geometries, candidate_set=candidate_set)
