"""Flat space with a length scale for every column: spaces that labels add to the geometries of a cloud.

Geometries are learned from the cloud alone. Lengths of columns depend on the labels, and every output has its own:
`with_lengths` adds their spaces to flat space's. They are one more kind of geometry: prior weights are equal over all
kinds, this one included, but where there are hundreds of columns (`inference.relevance.log_odds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from ..geometry.base import Geometry, IncompleteGeometry
from ..geometry.candidate_set import Candidate, CandidateSet
from ..geometry.features import (
    Components,
    GraphSpace,
    InducedSpace,
    ScaledSpace,
    SeparateSpace,
    at_each,
    together_and_apart,
)
from ..geometry.flat import FlatGeometry
from ..geometry.priors import Priors
from ..heat.covariances import Features, Stationary
from ..heat.spectra import smoothness_of
from ..inference import nearest, nearest_lengths, relevance
from ..persistence.store import Store
from . import coordinates, relevant_graphs
from .geometries import Geometries

TITLE = "flat space, a length per column"
BY_LENGTHS = TITLE, relevant_graphs.TITLE  # geometries that labels add
LENGTHS_OF = "matern52"  # the kernel whose lengths are learned from few labels, or of other likelihoods, if asked for
HELD = 2**25  # numbers: rows of the cloud in spaces of lengths that few labels taught


@dataclass(frozen=True)
class Labelled:
    """Geometries with the spaces of one more output.

    `candidate_set` has the candidates of that output, and its labelled rows stand `at` these rows of it.
    """

    geometries: Geometries
    candidate_set: CandidateSet
    at: np.ndarray


@dataclass(frozen=True)
class Lengths:
    """Length scales of all columns [p], in units of the cloud, that labels taught: one more space of flat space.

    `kernels` on it have a smoothness, a scale and a log weight each; `ratio` is that of their noise, where it was
    learned with the lengths; `by_column`: whether columns have different lengths; `nodes` [M, p]: points that induce
    the space of the one kernel, where it has low rank.
    """

    scale: np.ndarray
    kernels: list[tuple[str, float, float]]
    ratio: float | None = None
    by_column: bool = True
    nodes: np.ndarray | None = None


def with_lengths(
    geometries: Geometries, known: np.ndarray, Y: np.ndarray | None, store: Store | None = None,
    normal_noise: bool = True, priors: Priors | None = None, classes: bool = False, beside: int = 0,
) -> Labelled:  # fmt: skip
    """The geometries and candidates for labels of the cloud's rows `known`, with lengths learned from Y [n, m].

    Y are the labels as numbers of variance 1; None: no lengths are learned. Up to `nearest.EXACT` labels the kernels
    of flat space stay as they are, and those with a length for each column come to them. With more, all kernels of flat
    space have lengths that were learned from all labels, one for each of up to 200 columns; without `normal_noise`
    these are kernels of low rank, whose labels are weighed by their own likelihood. Codes of `classes` jump where their
    functions cross, so that lengths may be too short: longer ones are candidates, too. The set has `beside` rows of a
    large cloud without a label. Of few labels with normal noise that prefer a length for each column, a graph in the
    columns that matter comes to that of the cloud (`relevant_graphs`).
    """
    candidate_set, at = geometries.labelled(known, beside)
    flat, n = _flat(geometries.members), len(known)
    many, store = n > nearest.EXACT, store or Store()
    if Y is not None and many and normal_noise and flat is None:
        geometries, candidate_set = coordinates.with_many_labels(geometries, candidate_set, at, Y[:, 0], store)
    if Y is None or flat is None:
        return Labelled(geometries, candidate_set, at)
    spread = relevance.spreads(geometries.cloud.learned)
    n_columns = int(np.sum(spread > 0))
    by_column = relevance.usable(n, n_columns, Y.shape[1] if classes else 1)
    if many:  # lengths of more columns were hardly better than one for all, and doubled the time
        by_column = by_column and n_columns <= relevance.MOST_COLUMNS
    if not many and not by_column:
        return Labelled(geometries, candidate_set, at)
    learned = candidate_set is geometries.candidate_set  # else the labelled rows were projected
    points = _points(geometries, flat) if learned else _unscaled(candidate_set, flat)
    names, log_odds = list(geometries.kernels.smoothness), relevance.log_odds(max(n_columns, 1))
    if many:
        lengths, isotropic = _of_many(geometries, points[at], Y, spread, by_column, names, store, normal_noise)
        dropped = {k for k, name in enumerate(geometries.names) if name == "flat"}
        candidate_set = replace(
            candidate_set,
            candidates=[s for s in candidate_set.candidates if candidate_set.geometry_of[s.space] not in dropped],
        )
        if normal_noise:
            like = geometries, candidate_set, at, Y[:, 0], store, isotropic
            geometries, candidate_set = coordinates.with_many_labels(*like)
        return _with(lengths, geometries, candidate_set, at, flat, points, log_odds)
    fitted = LENGTHS_OF if LENGTHS_OF in names else names[0]
    varies, used = spread > 0, names if n <= relevance.MANY else [fitted]
    X = points[at][:, varies] / spread[varies]
    labels = relevance.LabelledRows(X - X.mean(0), Y, fitted, geometries.cloud.repeated, priors or Priors())
    members = store.once(("lengths", labels), partial(relevance.of_all_columns, labels))
    lengths = _of_few(geometries, members, spread, fitted, used, classes)
    labelled = _with(lengths, geometries, candidate_set, at, flat, points, log_odds)
    graph = relevant_graphs.graph_of(geometries) if normal_noise and not classes else None
    if graph is None or not store.once(("lengths matter", labels), partial(relevance.matter, labels, members)):
        return labelled
    heaviest = relevance.heaviest(members, relevant_graphs.number_of(len(geometries.cloud.learned)))
    of_graphs = [(_lengths(member.precision, spread), member.log_weight) for member in heaviest]
    geometries, candidate_set = relevant_graphs.with_graphs(
        labelled.geometries, labelled.candidate_set, graph, of_graphs, used, None if learned else points, store
    )
    return Labelled(geometries, candidate_set, at)


def _of_few(
    geometries: Geometries, members: Sequence[relevance.Member], spread: np.ndarray, fitted: str, used: Sequence[str],
    classes: bool,
) -> list[Lengths]:  # fmt: skip
    """Lengths of members, which few labels taught with one kernel, for the kernels that are used."""
    kernels = [(name, relevance.relative_scale(name, fitted)) for name in used]
    kernels = [(fitted, times) for times in coordinates.LONGER] if classes else kernels
    members = relevance.heaviest(list(members), max(HELD // geometries.cloud.learned.size, 1))
    return [
        Lengths(
            _lengths(member.precision, spread),
            [(name, scale, member.log_weight - log(len(kernels))) for name, scale in kernels],
        )
        for member in members
    ]


def _of_many(
    geometries: Geometries, X: np.ndarray, Y: np.ndarray, spread: np.ndarray, by_column: bool, names: Sequence[str],
    store: Store, normal_noise: bool,
) -> tuple[list[Lengths], nearest_lengths.Candidate]:  # fmt: skip
    """Lengths around the maxima of the densities of labels Y [n, m] given their nearest, at X [n, p].

    Also the best candidate with one length for all columns, in units of the size of X.
    """
    size = coordinates.size_of(X)
    varies, p = spread > 0, X.shape[1]
    tasks = [(np.full(p, size), np.ones(p, bool), np.zeros(p, int))]
    if by_column:
        tasks.append((spread, varies, np.arange(int(varies.sum()))))
    if not normal_noise:
        names = [LENGTHS_OF if LENGTHS_OF in names else names[0]]
    candidates: list[nearest_lengths.Candidate] = []
    lengths: list[Lengths] = []
    best: list[int] = []  # of one length for all columns, and of one for each
    for own, (unit, used, groups) in enumerate(tasks):
        Z = (X - X.mean(0))[:, used] / unit[used]
        learn = partial(nearest_lengths.maximised, Z, Y, groups, names, geometries.cloud.repeated)
        learned = store.once(("lengths of many", Z, Y, groups, list(names), geometries.cloud.repeated), learn)
        best.append(len(candidates) + int(np.argmax([one.densities.mean() for one in learned])))
        candidates += learned
        for one in learned:
            kernel = one.smoothness, 1.0, one.log_weight - log(2 * len(learned))
            lengths.append(Lengths(_lengths(one.precision, np.where(used, unit, 0.0)), [kernel], one.ratio, own > 0))
    isotropic = candidates[best[0]]
    nodes = coordinates.inducing(X, None if normal_noise else len(X) - 1)
    induced = [more for k in best for more in _induced(lengths[k], nodes)]
    if not normal_noise:
        return induced, isotropic
    hopeful = nearest_lengths.hopeful(candidates, len(Y))
    return [one for one, keep in zip(lengths, hopeful, strict=True) if keep] + induced, isotropic


def _induced(lengths: Lengths, nodes: np.ndarray) -> list[Lengths]:
    """Multiples of the same lengths as kernels of low rank, which points induce, and which all labels inform.

    Where the function is smooth and its noise large, the nearest labels say less than all labels together.
    """
    (name, scale, weight), share = lengths.kernels[0], log(len(coordinates.LONGER))
    return [
        replace(lengths, scale=times * lengths.scale, kernels=[(name, scale, weight - share)], ratio=None, nodes=nodes)
        for times in coordinates.LONGER
    ]


def _with(
    lengths: Sequence[Lengths],
    geometries: Geometries,
    candidate_set: CandidateSet,
    at: np.ndarray,
    flat: int,
    points: np.ndarray,
    log_odds: float,
) -> Labelled:
    """The geometries with spaces of these lengths; the labelled rows stand `at` rows of the set.

    `log_odds` are those of a length for each column against any other kind of geometry.
    """
    components = _components(geometries.members[flat])
    spaces: list[Any] = []
    lengths_of: list[Lengths] = []  # of each space
    log_weights: list[float] = []
    for one in lengths:
        if one.nodes is None:
            more: list[Any] = together_and_apart(one.scale, components)
        else:
            more = [InducedSpace.of(one.scale, smoothness_of(one.kernels[0][0]), one.nodes)]
        spaces += more
        lengths_of += [one] * len(more)
        log_weights += [-log(len(more))] * len(more)
    by_column = any(one.by_column for one in lengths)
    kinds = len(set(geometries.names))
    odds = exp(log_odds)
    share = log(kinds / (kinds + odds * by_column))
    of_lengths = log_odds - log(kinds + odds)  # log prior weight of a length for each column
    of_flat = candidate_set.log_priors[flat] if candidate_set.log_priors else 0.0
    candidates = [replace(s, log_prior=s.log_prior + share) for s in candidate_set.candidates]
    for k, (one, log_weight) in enumerate(zip(lengths_of, log_weights, strict=True), len(candidate_set.spaces)):
        prior = of_lengths if one.by_column else of_flat + share
        for name, scale, weight in one.kernels:
            covariance: Any = Stationary(smoothness_of(name), scale)
            if one.nodes is not None:
                covariance = Features(np.ones(spaces[k - len(candidate_set.spaces)].root.shape[1] + 1))
            candidate = Candidate(k, covariance, log_weight + weight + prior, name, ratio=one.ratio)
            candidates.append(replace(candidate, expects_noise=geometries.cloud.repeated))
    learned = candidate_set.rows is geometries.candidate_set.rows
    geometries = _with_spaces(geometries, flat, spaces, [one.by_column for one in lengths_of])
    every = geometries.candidate_set
    rows = every.rows if learned else [*candidate_set.rows, *_in_spaces(candidate_set, flat, spaces, points)]
    log_priors = [
        of_lengths if member.title == TITLE else prior + share
        for member, prior in zip(geometries.members, every.log_priors, strict=True)
    ]
    candidate_set = replace(
        candidate_set,
        spaces=every.spaces,
        candidates=candidates,
        rows=rows,
        geometry_of=every.geometry_of,
        log_priors=log_priors,
    )
    return Labelled(geometries, candidate_set, at)


def relevances(geometries: Geometries, posteriors: Sequence[Any]) -> list[np.ndarray | None]:
    """How much each column matters for each output, [p] from 0 to 1; None where no such space has weight.

    It is the spread of the column over its length scale, over the largest of these among the columns, averaged over the
    spaces by their weight.
    """
    candidate_set, spread, of_outputs = geometries.candidate_set, relevance.spreads(geometries.cloud.learned), []
    for posterior in posteriors:
        strengths = [
            (spread / space.scale, component.weight)
            for component in posterior.components
            for space in [candidate_set.spaces[component.candidate.space]]
            if isinstance(space, ScaledSpace | InducedSpace | GraphSpace)
            and geometries.members[candidate_set.geometry_of[component.candidate.space]].title in BY_LENGTHS
        ]
        inverse, weights = np.array([one for one, _ in strengths]), np.array([weight for _, weight in strengths])
        of_outputs.append(relevance.strengths(inverse, weights) if strengths else None)
    return of_outputs


def _with_spaces(geometries: Geometries, flat: int, spaces: Sequence[Any], by_column: Sequence[bool]) -> Geometries:
    """The geometries with further spaces of flat space, its member `flat`.

    Those with a length for each column belong to a member of their own, with this module's TITLE.
    """
    candidate_set, members = geometries.candidate_set, list(geometries.members)
    titles = [member.title for member in members]
    if TITLE not in titles and any(by_column):
        members.append(_renamed(members[flat]))
        titles.append(TITLE)
        candidate_set = replace(candidate_set, log_priors=[*candidate_set.log_priors, 0.0])
    rows = _in_spaces(candidate_set, flat, spaces, _points(geometries, flat))
    owners = [titles.index(TITLE) if has_lengths else flat for has_lengths in by_column]
    candidate_set = candidate_set.with_spaces(spaces, rows, owners)
    return replace(geometries, members=members, candidate_set=candidate_set)


def _in_spaces(candidate_set: CandidateSet, flat: int, spaces: Sequence[Any], points: np.ndarray) -> list[np.ndarray]:
    """The rows of a candidate set, `points` of flat space, in further spaces.

    Rows whose completions are in several connected components lie between these as they do in flat space itself: the
    mean of the completions may be near to another component.
    """
    in_spaces, p = at_each(spaces, points), points.shape[1]
    for known, rows, owner in zip(candidate_set.spaces, candidate_set.rows, candidate_set.geometry_of, strict=True):
        if owner == flat and isinstance(known, SeparateSpace):
            places = _every(rows)[:, p:] / known.apart
            between = np.flatnonzero(np.count_nonzero(places, axis=1) > 1)
            for space, of_space in zip(spaces, in_spaces, strict=True):
                if isinstance(space, SeparateSpace):
                    of_space[between, p:] = places[between] * space.apart
    return in_spaces


def _flat(members: Sequence[Geometry]) -> int | None:
    """Which member is flat space of which columns may have lengths of their own."""
    numbers = [
        k for k, member in enumerate(map(_inner, members)) if isinstance(member, FlatGeometry) and member.by_column
    ]
    return numbers[0] if numbers else None


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
    return member.rows if isinstance(member, FlatGeometry) else _unscaled(geometries.candidate_set, flat)


def _unscaled(candidate_set: CandidateSet, flat: int) -> np.ndarray:
    """The rows of a candidate set as points of flat space, in the units of the cloud."""
    first = candidate_set.geometry_of.index(flat)
    space = candidate_set.spaces[first]
    assert isinstance(space, ScaledSpace)
    return _every(candidate_set.rows[first]) * space.scale


def _every(rows: Any) -> np.ndarray:
    """Rows of a candidate set as an array: of a large cloud they are computed when they are asked for."""
    return rows if isinstance(rows, np.ndarray) else rows[np.arange(len(rows))]


def _lengths(precision: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Length scales of all columns [p] from inverse squares, in units of the spread, of those that vary; others inf."""
    lengths = np.full(len(spread), np.inf)
    lengths[spread > 0] = spread[spread > 0] / np.sqrt(precision)
    return lengths
