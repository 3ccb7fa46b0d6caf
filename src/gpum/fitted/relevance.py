"""Flat space with a length scale for every column: spaces that labels add to the geometries of a cloud.

Geometries are learned from the cloud alone. Lengths of columns depend on the labels, and every output has its own:
`with_lengths` adds their spaces to flat space's. They are one more kind of geometry: prior weights are equal over all
kinds, this one included.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from ..basics.memory import Memory, digest
from ..geometry.base import Geometry
from ..geometry.family import Family, Setting
from ..geometry.features import Components, ScaledSpace, SeparateSpace, at_each, together_and_apart
from ..geometry.flat import FlatGeometry
from ..geometry.incomplete import IncompleteGeometry
from ..geometry.priors import Priors
from ..heat.covariances import SMOOTHNESS, Stationary
from ..inference import relevance
from .geometries import Geometries

TITLE = "flat space, a length per column"
LENGTHS_OF = "matern52"  # the kernel whose lengths are learned, where it is asked for
# Scales at which kernels of other smoothness with the same lengths are most alike.
SCALES = {"matern12": 2.2, "matern32": 1.2, "matern52": 1.0, "heat": 0.75}


@dataclass(frozen=True)
class Labelled:
    """Geometries with the spaces of one more output.

    `family` has the settings of that output, and its labelled rows stand `at` these rows of it.
    """

    geometries: Geometries
    family: Family
    at: np.ndarray


def with_lengths(
    geometries: Geometries, known: np.ndarray, Y: np.ndarray | None, memory: Memory | None = None,
    priors: Priors | None = None,
) -> Labelled:  # fmt: skip
    """The geometries and family for labels of the cloud's rows `known`, with lengths learned from Y [n, m].

    Y are the labels as numbers of variance 1; None: no lengths are learned.
    """
    family, at = geometries.labelled(known)
    flat = _flat(geometries.members)
    if Y is None or flat is None:
        return Labelled(geometries, family, at)
    spread = relevance.spreads(geometries.cloud.learned)
    varies = spread > 0
    if not relevance.usable(len(known), int(varies.sum())):
        if relevance.usable(relevance.MOST_LABELS, int(varies.sum())) and len(known) > relevance.MOST_LABELS:
            geometries = _without_lengths(geometries, len(known))
        return Labelled(geometries, family, at)
    learned = family is geometries.family  # else the labelled rows were projected
    points = _points(geometries, flat) if learned else _unscaled(family, flat)
    smoothness = list(geometries.kernels.smoothness)
    fitted = LENGTHS_OF if LENGTHS_OF in smoothness else smoothness[0]
    X = points[at][:, varies] / spread[varies]
    labels = relevance.Labels(X - X.mean(0), Y, fitted, geometries.cloud.repeated, priors or Priors())
    key = "lengths", digest(X), digest(Y), fitted
    found = (memory or Memory()).once(key, partial(relevance.members, labels))
    components, spaces, log_weights = _components(geometries.members[flat]), [], []
    for member in found:
        both = together_and_apart(_lengths(member.precision, spread), components)
        spaces += both
        log_weights += [member.log_weight - log(len(both))] * len(both)
    kinds = len(set(geometries.names))
    settings = [replace(s, log_prior=s.log_prior + log(kinds / (kinds + 1))) for s in family.settings]
    names = smoothness if len(known) <= relevance.MANY else [fitted]
    for k, log_weight in enumerate(log_weights, len(family.spaces)):
        for name in names:
            covariance = Stationary(SMOOTHNESS[name], SCALES[name] / SCALES[fitted])
            weight = log_weight - log(kinds + 1) - log(len(names))
            settings.append(Setting(k, covariance, weight, name, expects_noise=geometries.cloud.repeated))
    geometries = _with_spaces(geometries, flat, spaces)
    every = geometries.family
    rows = every.rows if learned else [*family.rows, *_in_spaces(family, flat, spaces, points)]
    log_priors = [
        -log(kinds + 1) if member.title == TITLE else prior + log(kinds / (kinds + 1))
        for member, prior in zip(geometries.members, every.log_priors, strict=True)
    ]
    family = replace(
        family, spaces=every.spaces, settings=settings, rows=rows, geometry_of=every.geometry_of, log_priors=log_priors
    )
    return Labelled(geometries, family, at)


def _without_lengths(geometries: Geometries, n: int) -> Geometries:
    """The geometries with a note, also given as a warning, that n labels are too many for a length per column."""
    most = relevance.MOST_LABELS
    note = (
        f"with {n:,} labels flat space has one length scale for all columns: a length for each is learned from at most "
        f"{most:,} labels. If some columns matter more than others, a fit with {most:,} labels may predict better"
    )
    if note in geometries.family.notes:
        return geometries
    warnings.warn(note, stacklevel=4)
    return replace(geometries, family=replace(geometries.family, notes=[*geometries.family.notes, note]))


def relevances(geometries: Geometries, posteriors: Sequence[Any]) -> list[np.ndarray | None]:
    """How much each column matters for each output, [p] from 0 to 1; None where no such space has weight.

    It is the spread of the column over its length scale, over the largest of these among the columns, averaged over the
    spaces by their weight.
    """
    family, spread, found = geometries.family, relevance.spreads(geometries.cloud.learned), []
    for posterior in posteriors:
        mine = [
            (spread / space.scale, component.weight)
            for component in posterior.components
            for space in [family.spaces[component.setting.space]]
            if isinstance(space, ScaledSpace)
            and geometries.members[family.geometry_of[component.setting.space]].title == TITLE
        ]
        inverse, weights = np.array([one for one, _ in mine]), np.array([weight for _, weight in mine])
        found.append(relevance.strengths(inverse, weights) if mine else None)
    return found


def _with_spaces(geometries: Geometries, flat: int, spaces: Sequence[ScaledSpace]) -> Geometries:
    """The geometries with further spaces of flat space, its member `flat`, as the member of this module's TITLE."""
    family, members = geometries.family, list(geometries.members)
    titles = [member.title for member in members]
    if TITLE not in titles:
        members.append(_renamed(members[flat]))
        titles.append(TITLE)
        family = replace(family, log_priors=[*family.log_priors, 0.0])
    points = _points(geometries, flat)
    family = replace(
        family,
        spaces=[*family.spaces, *spaces],
        rows=[*family.rows, *_in_spaces(family, flat, spaces, points)],
        geometry_of=[*family.geometry_of, *[titles.index(TITLE)] * len(spaces)],
    )
    return replace(geometries, members=members, family=family)


def _in_spaces(family: Family, flat: int, spaces: Sequence[ScaledSpace], points: np.ndarray) -> list[np.ndarray]:
    """The rows of a family, `points` of flat space, in further spaces.

    Rows whose completions are in several connected components lie between these as they do in flat space itself: the
    mean of the completions may be near to another component.
    """
    found, p = at_each(spaces, points), points.shape[1]
    for known, rows, owner in zip(family.spaces, family.rows, family.geometry_of, strict=True):
        if owner == flat and isinstance(known, SeparateSpace):
            places = rows[:, p:] / known.apart
            between = np.flatnonzero(np.count_nonzero(places, axis=1) > 1)
            for space, mine in zip(spaces, found, strict=True):
                if isinstance(space, SeparateSpace):
                    mine[between, p:] = places[between] * space.apart
    return found


def _flat(members: Sequence[Geometry]) -> int | None:
    """Which member is flat space of which columns may have lengths of their own."""
    found = [
        k for k, member in enumerate(map(_inner, members)) if isinstance(member, FlatGeometry) and member.by_column
    ]
    return found[0] if found else None


def _components(member: Geometry) -> Components | None:
    """The connected components that flat space knows."""
    inner = _inner(member)
    return inner.components if isinstance(inner, FlatGeometry) else None


def _inner(member: Geometry) -> Geometry:
    """The geometry of the sound rows, where readings are missing."""
    return member.inner if isinstance(member, IncompleteGeometry) else member


def _renamed(member: Geometry) -> Geometry:
    if isinstance(member, IncompleteGeometry):
        return replace(member, inner=_renamed(member.inner))
    assert isinstance(member, FlatGeometry)
    return replace(member, title=TITLE, by_column=False)


def _points(geometries: Geometries, flat: int) -> np.ndarray:
    """The rows that geometries are learned from, as points of flat space, in the units of the cloud."""
    member = geometries.members[flat]
    return member.rows if isinstance(member, FlatGeometry) else _unscaled(geometries.family, flat)


def _unscaled(family: Family, flat: int) -> np.ndarray:
    """The rows of a family as points of flat space, in the units of the cloud."""
    first = family.geometry_of.index(flat)
    space = family.spaces[first]
    assert isinstance(space, ScaledSpace)
    return family.rows[first] * space.scale


def _lengths(precision: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Length scales of all columns [p] from inverse squares, in units of the spread, of those that vary; others inf."""
    found = np.full(len(spread), np.inf)
    found[spread > 0] = spread[spread > 0] / np.sqrt(precision)
    return found
