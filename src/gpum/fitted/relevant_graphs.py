"""Graphs in the relevant columns: neighbours by distances in which each column counts as much as labels say.

Geometries are learned from the cloud alone, where all columns count alike: beside a curve, columns of noise decide who
are neighbours. Labels that prefer a length for each column of flat space (`relevance`) also say which columns matter,
and a graph of the rows divided by these lengths is one more candidate. It has half of the graph's prior weight.

The labels that taught the lengths then weigh the graph. What is honest is the evidence with lengths integrated over
their prior, ∫ p(z) p(y | graph at z) dz, and a member of `inference.relevance`, a point z with the log weight
log p(z) - log q(z), is a draw of importance sampling for any kernel that has lengths. So graphs have the weights that
flat space has at the same lengths, and pay for lengths that were fitted. q is where flat space's lengths are, not all
that a graph may have, so that this is rather too little than too much.

On 342 simulated label sets (`python benchmarks/columns.py`) NLPD changed by -0.10 nats (standard error 0.02) where a
surface is in some columns and noise in the others, by -0.06 (0.015) with a second surface in the others, and by -0.006
to 0 elsewhere; on one cloud of 28 it rose, by 0.011 (0.013) on a roll whose labels have heavy-tailed noise. Graphs that
do not pay gain as much on average, but cost up to 1.3 nats on a label set where these cost 0.25.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from ..basics.checks import NoSurface
from ..geometry.base import Geometry, IncompleteGeometry
from ..geometry.candidate_set import CandidateSet
from ..geometry.features import GraphSpace
from ..geometry.graphs import FIRST_GRAPH, GraphGeometry, graph_spaces
from ..persistence.store import Store
from .geometries import Geometries

TITLE = "graph in the relevant columns"
GRAPHS, ROWS = 4, 2000  # graphs at most, and rows of all of them together above one: eigenvectors take the time


def number_of(n_rows: int) -> int:
    """How many graphs of so many rows there are."""
    return min(max(ROWS // n_rows, 1), GRAPHS)


def graph_of(geometries: Geometries) -> int | None:
    """Which member is a graph of surfaces, in the units of the cloud and of the rows that others are learned from."""
    graphs = [k for k, member in enumerate(geometries.members) if isinstance(_inner(member), GraphGeometry)]
    return graphs[0] if graphs and geometries.cloud.many is None else None


def with_graphs(
    geometries: Geometries, candidate_set: CandidateSet, graph: int, lengths: Sequence[tuple[np.ndarray, float]],
    smoothness: Sequence[str], points: np.ndarray | None, store: Store,
) -> tuple[Geometries, CandidateSet]:  # fmt: skip
    """The geometries and candidates with graphs of the rows of member `graph` divided by these lengths.

    `lengths` are scales of the columns [p], and the log weight of each. `points` are the rows of the candidate set in
    the data space where these are not the ones that geometries were learned from.
    """
    known, members = geometries.candidate_set, list(geometries.members)
    like = known.spaces[known.geometry_of.index(graph)]
    assert isinstance(like, GraphSpace)
    spaces, log_weights = [], []
    for scale, log_weight in lengths:
        made = graph_spaces(like.cloud / scale, **FIRST_GRAPH, n_jobs=geometries.kernels.n_jobs, store=store)
        spaces += [replace(space, scale=scale) for space in made]
        log_weights += [log_weight] * len(made)
    try:
        task = replace(geometries.kernels, smoothness=smoothness)
        member, of_graphs = _with_spaces(members[graph], spaces).built(task)
    except NoSurface as error:
        return geometries.with_notes([f"there is no {TITLE}: {error}"]), candidate_set
    titles, log_priors = [one.title for one in members], list(candidate_set.log_priors)
    if TITLE not in titles:
        members.append(member)
        titles.append(TITLE)
        known, log_priors = replace(known, log_priors=[*known.log_priors, 0.0]), [*log_priors, 0.0]
    owner, first, half = titles.index(TITLE), len(known.spaces), log_priors[graph] - log(2)
    log_priors[graph] = log_priors[owner] = half
    candidates = [
        replace(s, log_prior=s.log_prior - log(2)) if candidate_set.geometry_of[s.space] == graph else s
        for s in candidate_set.candidates
    ]
    for s in of_graphs.candidates:
        log_prior = s.log_prior + log(len(spaces)) + half + log_weights[s.space]
        candidates.append(replace(s, space=first + s.space, log_prior=log_prior))
    extended = known.with_spaces(of_graphs.spaces, of_graphs.rows, [owner] * len(spaces))
    more: Sequence[Any] = of_graphs.rows if points is None else [space.at(points) for space in of_graphs.spaces]
    weighed = replace(
        candidate_set, spaces=extended.spaces, candidates=candidates, rows=[*candidate_set.rows, *more],
        geometry_of=extended.geometry_of, log_priors=log_priors,
    )  # fmt: skip
    return replace(geometries, members=members, candidate_set=extended).with_notes(of_graphs.notes), weighed


def _inner(member: Geometry) -> Geometry:
    """The geometry of the sound rows, where readings are missing."""
    return member.inner if isinstance(member, IncompleteGeometry) else member


def _with_spaces(member: Any, spaces: Sequence[Any]) -> Any:
    """A graph like this one with other spaces, and this module's TITLE."""
    if isinstance(member, IncompleteGeometry):
        return replace(member, inner=_with_spaces(member.inner, spaces))
    return GraphGeometry(spaces, title=TITLE)
