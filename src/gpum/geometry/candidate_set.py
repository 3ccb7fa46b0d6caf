"""A family of candidates on spaces, from which GP regression chooses or over which it averages.

A *space* represents points (of a chart, of the data space) as rows of numbers, `at(points) -> [n, k]`: eigenfunctions
of one boundary level, coordinates, path histograms. A *candidate* is one covariance on one space with its log prior
weight. A *family* is the spaces, the candidates on them, and the cloud's own rows in every space.

    smoothness   equal weights
    scale        log-uniform (√t of the heat kernel, κ of Matérn), from what the space resolves to the extent
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from ..basics import checks
from ..heat.covariances import SMOOTHNESS, Covariance
from .features import Space
from .priors import Priors

SCALES = 12  # length scales on each space
NO_BOUNDARY = "none"  # the level of candidates without a boundary


@dataclass(frozen=True)
class Candidate:
    """One covariance on one space.

    `level` is the boundary level (`NO_BOUNDARY`: none at all; None: the space has no family of levels), `scales` the
    range in which the covariance's scale may move (None: it cannot), `open_ends` those ends ("low", "high") beyond
    which the kernel would still change. `about` says in words what else the candidate is. With `expects_noise` the
    prior of the labels' noise is that of rows which were observed more than once (`inference.gp`). With a noise
    `ratio` of its own, which was learned with the kernel from many labels, rows see the nearest labels only
    (`inference.nearest`).
    """

    space: int
    covariance: Covariance
    log_prior: float
    smoothness: str = "heat"
    level: Any = None
    scales: tuple[float, float] | None = None
    open_ends: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    expects_noise: bool = False
    ratio: float | None = None

    @property
    def scale(self) -> float:
        """√t of a heat kernel, κ of a Matérn kernel."""
        return float(self.covariance.scale)

    def at_end(self, end: str) -> bool:
        """Whether the scale is at this end of its range, and the end is open."""
        if end not in self.open_ends or self.scales is None:
            return False
        return abs(log(self.scale / self.scales[0 if end == "low" else 1])) < 1e-3

    def described(self) -> dict[str, Any]:
        """A description of the candidate in words and numbers."""
        level = {} if self.level is None else {"level": self.level}
        scales = {} if self.scales is None else {"scales": self.scales}
        return {**self.about, **level, "smoothness": self.smoothness, "scale": self.scale, **scales}


@dataclass(frozen=True)
class CandidateSet:
    """Spaces, candidates on them, the cloud's representation in each space, and which geometry each space belongs to.

    `notes` say what was left out or could not be done as requested. `log_priors` are the log prior weights of the
    geometries, which the candidates' own contain; empty: there is one geometry. A model file holds what has weight
    alone: its candidate set is not `complete`, and a space that is not there is None. `priors` are those of labels.
    """

    spaces: list[Space]
    candidates: list[Candidate]
    rows: list[np.ndarray]
    geometry_of: list[int]
    notes: list[str] = field(default_factory=list)
    log_priors: list[float] = field(default_factory=list)
    complete: bool = True
    priors: Priors = field(default_factory=Priors)

    def under(self, priors: Priors, names: Sequence[str]) -> CandidateSet:
        """The family under other priors; `names` are the kinds of its geometries."""
        if not priors.geometry or not self.log_priors or not self.complete:  # what a file holds is under its priors
            return replace(self, priors=priors)
        log_priors, used = np.array(self.log_priors), sorted({self.geometry_of[s.space] for s in self.candidates})
        log_priors[used] += priors.of_kinds([names[k] for k in used], log_priors[used])
        shift = log_priors - self.log_priors
        candidates = [replace(s, log_prior=s.log_prior + shift[self.geometry_of[s.space]]) for s in self.candidates]
        return replace(self, priors=priors, candidates=candidates, log_priors=log_priors.tolist())

    @classmethod
    def of(
        cls, members: Sequence[tuple[Space, np.ndarray, Sequence[Candidate]]], notes: Sequence[str] = ()
    ) -> CandidateSet:
        """A family on one geometry from tuples of a space, the rows of the cloud in it, and the candidates on it."""
        found, rows = [space for space, _, _ in members], [rows for _, rows, _ in members]
        candidates = [replace(candidate, space=k) for k, (_, _, some) in enumerate(members) for candidate in some]
        return cls(found, candidates, rows, [0] * len(members), list(notes))


class LabelRows:
    """The labelled rows of a family in each of its spaces.

    Only the rows of the space that was used last are held in memory: a hundred thousand labels in all spaces would
    need gigabytes.
    """

    def __init__(self, candidate_set: CandidateSet, known: np.ndarray) -> None:
        self._rows, self._known = candidate_set.rows, known
        self._last: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, space: int) -> np.ndarray:
        """All labelled rows in a space, [n, k]."""
        if self._last is None or self._last[0] != space:
            self._last = None
            self._last = space, self._rows[space][self._known]
        return self._last[1]

    def some(self, space: int, index: np.ndarray) -> np.ndarray:
        """Some of the labelled rows in a space."""
        return self._rows[space][self._known[index]]

    def of(self, spaces: Collection[int]) -> list[np.ndarray | None]:
        """All labelled rows in some spaces, None for the others."""
        return [self[k] if k in spaces else None for k in range(len(self._rows))]


def join(families: Sequence[CandidateSet], log_priors: Sequence[float] | None = None) -> CandidateSet:
    """Joins the families of several geometries, with these prior weights (default: equal)."""
    log_priors = [-log(len(families))] * len(families) if log_priors is None else log_priors
    spaces: list[Space] = []
    candidates: list[Candidate] = []
    rows: list[np.ndarray] = []
    geometry_of: list[int] = []
    for owner, candidate_set in enumerate(families):
        begin = len(spaces)
        for s in candidate_set.candidates:
            candidates.append(replace(s, space=begin + s.space, log_prior=s.log_prior + log_priors[owner]))
        spaces += candidate_set.spaces
        rows += candidate_set.rows
        geometry_of += [owner] * len(candidate_set.spaces)
    notes = [note for candidate_set in families for note in candidate_set.notes]
    return CandidateSet(spaces, candidates, rows, geometry_of, notes, list(log_priors))


def smoothness_names(smoothness: str) -> list[str]:
    """The kernels that an estimator's `smoothness` means."""
    checks.option(smoothness, "smoothness", ("average", *SMOOTHNESS))
    return list(SMOOTHNESS) if smoothness == "average" else [smoothness]


def scale_grid(
    covariance: Callable[[float, float], Covariance], small: float, largest: Callable[[float], float],
    smoothness: Sequence[str], log_prior: float, max_time: float | None = None, **about: Any,
) -> list[Candidate]:  # fmt: skip
    """covariance(ν, scale) at SCALES scales, in equal ratios, for each smoothness; √max_time bounds heat kernels.

    `about` are further fields of every candidate.
    """
    candidates = []
    for name in smoothness:
        nu = SMOOTHNESS[name]
        large = largest(nu)
        if max_time is not None and np.isinf(nu):
            large = min(large, float(np.sqrt(max_time)))
        ends = (min(small, large / 2), large)
        weight = log_prior - log(len(smoothness)) - log(SCALES)
        for scale in np.geomspace(*ends, SCALES):
            candidates.append(Candidate(0, covariance(nu, float(scale)), weight, name, scales=ends, **about))
    return candidates
