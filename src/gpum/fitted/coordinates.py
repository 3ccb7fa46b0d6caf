"""Kernels of a surface's coordinates with any number of labels, as `relevance` has them in flat space.

A chart without a boundary has stationary kernels of its even coordinates. Where there are many labels, each space of
coordinates has one kernel of which a row sees the nearest labels, with a length that they taught, and the INFORMED
kernels that explain some labels best as kernels of low rank, which all labels inform. So the functions of a surface do
not end where its eigenfunctions do, and long lengths are not cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..geometry.base import SurfaceGeometry, bare
from ..geometry.candidate_set import CandidateSet
from ..geometry.features import InducedSpace, NodeFeatures
from ..heat.covariances import Features, Stationary
from ..heat.spectra import smoothness_of
from ..inference import gp, nearest_lengths
from ..persistence.store import Store
from .geometries import Geometries
from .rows import SpaceRows

INDUCING, INDUCING_NUMBERS = 400, 5 * 10**7  # points that induce kernels of low rank; numbers of such a space at most
LONGER = (1.0, 2.0, 4.0)  # multiples of learned lengths: nearest labels say little of long ones
INFORMED = 3


def inducing(X: np.ndarray, most: int | None = None) -> np.ndarray:
    """The points [M, p] among labelled ones [n, p] that induce kernels of low rank; by default at most half."""
    size = min(INDUCING, max(len(X) // 2 if most is None else most, 1), max(INDUCING_NUMBERS // len(X), 1))
    return X[np.sort(np.random.default_rng(0).permutation(len(X))[:size])]


def size_of(X: np.ndarray) -> float:
    """The root mean square of rows from their mean, as one unit for all columns."""
    size = float(np.sqrt(np.mean(X.var(0))))
    return size if size > 1e-12 * float(np.abs(X).max()) else 1.0


def with_many_labels(
    geometries: Geometries, candidate_set: CandidateSet, at: np.ndarray, y: np.ndarray, store: Store,
    like: nearest_lengths.Candidate | None = None,
) -> tuple[Geometries, CandidateSet]:  # fmt: skip
    """The geometries and candidates with such kernels for labels y [n], whose rows stand `at` rows of the set.

    Lengths and noise are learned from those of `like`, the best candidate in flat space with one length for all
    columns, in units of `size_of` the rows: where labels are dense, both are alike. None: those of the first space are
    learned from the start, and the others' from the best before.
    """
    every = candidate_set.candidates
    replaced = {s.space: s for s in every if isinstance(s.covariance, Stationary) and s.ratio is None}
    candidates = [s for s in every if s.space not in replaced]
    added: list[tuple[int, InducedSpace]] = []  # the space of coordinates, and that which they induce
    best_yet: nearest_lengths.Candidate | None = None
    for k, first in replaced.items():
        X, alike = candidate_set.rows[k][at], [s for s in every if s.space == k]
        size, names = size_of(X), list(dict.fromkeys(s.smoothness for s in alike))
        one = _learned((X - X.mean(0)) / size, y, names, geometries.cloud.repeated, store, like or best_yet)
        if best_yet is None or one.densities.mean() > best_yet.densities.mean():
            best_yet = one
        log_prior = float(np.logaddexp.reduce([s.log_prior for s in alike])) + one.log_weight
        length, nu = float(size / np.sqrt(one.precision[0])), smoothness_of(one.smoothness)
        first = replace(first, smoothness=one.smoothness, scales=None, open_ends=())
        candidates.append(replace(first, covariance=Stationary(nu, length), log_prior=log_prior, ratio=one.ratio))
        base = candidate_set.spaces[k]
        if not isinstance(base, NodeFeatures):
            continue
        best = np.argsort(-gp.masses_of(alike, X, y, candidate_set.priors), kind="stable")[:INFORMED]
        for s in [alike[i] for i in best]:
            assert isinstance(s.covariance, Stationary)
            induced = InducedSpace.of(np.full(X.shape[1], s.scale), s.covariance.nu, inducing(X), base)
            covariance = Features(np.ones(induced.root.shape[1] + 1), scale=s.scale)
            number = len(candidate_set.spaces) + len(added)
            candidates.append(replace(s, space=number, covariance=covariance))
            added.append((k, induced))
    known = geometries.candidate_set
    owners = [known.geometry_of[k] for k, _ in added]
    of_learned = [space.at(_places(geometries, owner)) for (_, space), owner in zip(added, owners, strict=True)]
    extended = known.with_spaces([space for _, space in added], of_learned, owners)
    rows = extended.rows
    if candidate_set.rows is not known.rows:  # the labelled rows were projected
        rows = list(candidate_set.rows)
        for number, (k, induced) in enumerate(added, len(rows)):
            of_space = rows[k]
            if isinstance(of_space, SpaceRows):
                rows.append(SpaceRows(replace(of_space.projected, candidate_set=extended), number))  # type: ignore[arg-type]
            else:
                rows.append(induced.at_coordinates(of_space))
    weighed = replace(extended, candidates=candidates, rows=rows)
    return replace(geometries, candidate_set=extended), replace(weighed, notes=candidate_set.notes)


def _learned(
    Z: np.ndarray, y: np.ndarray, names: Sequence[str], repeated: bool, store: Store,
    like: nearest_lengths.Candidate | None,
) -> nearest_lengths.Candidate:  # fmt: skip
    """The best candidate with one length for labels y [n] at coordinates Z [n, q] of size 1."""
    if like is None:
        make = partial(nearest_lengths.maximised, Z, y[:, None], np.zeros(Z.shape[1], int), names, repeated)
        return max(store.once(("lengths of many", Z, y, list(names)), make), key=lambda one: one.densities.mean())
    key = "length of coordinates", Z, y, like.precision, like.ratio, like.smoothness
    return store.once(key, partial(nearest_lengths.refined, Z, y[:, None], like, repeated))


def _places(geometries: Geometries, k: int) -> np.ndarray:
    """Where the learned rows are on a surface."""
    member, _ = bare(geometries.members[k])
    assert isinstance(member, SurfaceGeometry)
    return member.places
