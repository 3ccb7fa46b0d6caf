"""The candidates that labels weigh: kernels on spaces, with scales and prior weights.

A *space* represents points (of a chart, of the data space) as rows of numbers, `at(points) -> [n, k]`: eigenfunctions
of one boundary level, coordinates, path histograms. A *candidate* is one covariance on one space with its log prior
weight. A *candidate set* is the spaces, the candidates on them, and the rows of the cloud in every space.

    smoothness   equal weights
    scale        log-uniform (√t of the heat kernel, κ of Matérn), from what the space resolves to the extent
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from ..basics import neighbours
from ..basics.checks import NoSurface
from ..heat.covariances import Covariance, Spectral, Stationary
from ..heat.spectra import smoothness_of, varying
from .features import NodeFeatures, Space
from .options import KernelTask
from .priors import Priors

SCALES = 12  # length scales on each space
RESOLVED = 0.05  # weight of the last mode at the smallest scale
# Largest variance of a kernel, relative to its mean over the cloud: that in the corner of a square. Random clouds on
# smooth surfaces stay below it; parts where a surface is thin or rough can exceed it a thousand times.
BOUND = 4.0
# Largest scales, relative to the extent π/√λ_1: a heat kernel is almost constant when √t is 0.7 of it; a Matérn kernel
# still changes up to larger scales.
LARGEST_HEAT, LARGEST_MATERN = 0.7, 2.0
NO_BOUNDARY = "none"  # the level of candidates without a boundary

Member = tuple[Space, np.ndarray, Sequence["Candidate"]]  # a space, the rows of the cloud in it, and candidates on it


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

    def with_spaces(
        self, spaces: Sequence[Space], rows: Sequence[np.ndarray], geometry_of: Sequence[int]
    ) -> CandidateSet:  # fmt: skip
        """The same with further spaces, in which the cloud has these rows, each of one of the geometries."""
        return replace(
            self,
            spaces=[*self.spaces, *spaces],
            rows=[*self.rows, *rows],
            geometry_of=[*self.geometry_of, *geometry_of],
        )

    def under(self, priors: Priors, names: Sequence[str]) -> CandidateSet:
        """The same candidates under other priors; `names` are the kinds of their geometries."""
        if not priors.geometry or not self.log_priors or not self.complete:  # what a file holds is under its priors
            return replace(self, priors=priors)
        log_priors, used = np.array(self.log_priors), sorted({self.geometry_of[s.space] for s in self.candidates})
        log_priors[used] += priors.of_kinds([names[k] for k in used], log_priors[used])
        shift = log_priors - self.log_priors
        candidates = [replace(s, log_prior=s.log_prior + shift[self.geometry_of[s.space]]) for s in self.candidates]
        return replace(self, priors=priors, candidates=candidates, log_priors=log_priors.tolist())

    @classmethod
    def of(cls, members: Sequence[Member], notes: Sequence[str] = ()) -> CandidateSet:
        """Candidates on one geometry: for each space the rows of the cloud in it, and the candidates on it."""
        spaces, rows = [space for space, _, _ in members], [rows for _, rows, _ in members]
        candidates = [replace(candidate, space=k) for k, (_, _, on) in enumerate(members) for candidate in on]
        return cls(spaces, candidates, rows, [0] * len(members), list(notes))


class LabelRows:
    """The labelled rows in each space of a candidate set.

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


def join(candidate_sets: Sequence[CandidateSet], log_priors: Sequence[float] | None = None) -> CandidateSet:
    """The candidates of several geometries together, with these log prior weights of geometries (default: equal)."""
    log_priors = [-log(len(candidate_sets))] * len(candidate_sets) if log_priors is None else log_priors
    spaces: list[Space] = []
    candidates: list[Candidate] = []
    rows: list[np.ndarray] = []
    geometry_of: list[int] = []
    for owner, candidate_set in enumerate(candidate_sets):
        begin = len(spaces)
        for s in candidate_set.candidates:
            candidates.append(replace(s, space=begin + s.space, log_prior=s.log_prior + log_priors[owner]))
        spaces += candidate_set.spaces
        rows += candidate_set.rows
        geometry_of += [owner] * len(candidate_set.spaces)
    notes = [note for candidate_set in candidate_sets for note in candidate_set.notes]
    return CandidateSet(spaces, candidates, rows, geometry_of, notes, list(log_priors))


def on_eigenfunctions(
    space: NodeFeatures, points: np.ndarray, dim: int, task: KernelTask, log_prior: float = 0.0, **about: Any
) -> Member:
    """Heat and Matérn kernels on the eigenfunctions of a surface; `points` are the rows of the cloud on it."""
    rows, values = space.at(points), np.asarray(space.eigenvalues)
    return space, rows, spectral_candidates(
        values, rows, dim, task.smoothness, log_prior, task.options.max_time, **about
    )  # fmt: skip


def on_coordinates(
    space: Space, points: np.ndarray, task: KernelTask, log_prior: float = 0.0, **about: Any
) -> Member:  # fmt: skip
    """Stationary kernels of coordinates; `points` are the rows of the cloud."""
    rows = space.at(points)
    return space, rows, stationary_candidates(rows, task.smoothness, log_prior, task.options.max_time, **about)


def scale_grid(
    covariance: Callable[[float, float], Covariance], small: float, largest: Callable[[float], float],
    smoothness: Sequence[str], log_prior: float, max_time: float | None = None, **about: Any,
) -> list[Candidate]:  # fmt: skip
    """covariance(ν, scale) at SCALES scales, in equal ratios, for each smoothness; √max_time bounds heat kernels.

    `about` are further fields of every candidate.
    """
    candidates = []
    for name in smoothness:
        nu = smoothness_of(name)
        large = largest(nu)
        if max_time is not None and np.isinf(nu):
            large = min(large, float(np.sqrt(max_time)))
        ends = (min(small, large / 2), large)
        weight = log_prior - log(len(smoothness)) - log(SCALES)
        for scale in np.geomspace(*ends, SCALES):
            candidates.append(Candidate(0, covariance(nu, float(scale)), weight, name, scales=ends, **about))
    return candidates


def unreached(title: str, pairs: Any) -> list[str]:
    """A note about eigenpairs of the geometry with this title that the solver did not reach."""
    if not pairs.missing:
        return []
    asked = len(pairs.values) + pairs.missing
    return [f"{title}: {pairs.missing} of its {asked} eigenfunctions did not converge and are not used"]


def spectral_candidates(
    values: np.ndarray, rows: np.ndarray, dim: float, smoothness: Sequence[str], log_prior: float = 0.0,
    max_time: float | None = None, resolved: float = RESOLVED, bound: float = BOUND, **about: Any,
) -> list[Candidate]:  # fmt: skip
    """Heat and Matérn kernels from eigenvalues [k], at SCALES scales each.

    `rows` are the eigenfunctions on the cloud, [N, k]; the smallest scale leaves `resolved` of the last mode (where
    that is much, smaller scales change nothing). The variance of each kernel is at most `bound` times its mean over the
    cloud, and each of several connected components has an offset of its own (see `Spectral`).
    """
    if not (varies := varying(values)).any():
        raise NoSurface(
            "the eigenvalues of a surface are zero up to rounding: nearly all rows lie at one or two points; "
            "leave out copies of rows, or name other geometries"
        )
    extent = float(np.pi / np.sqrt(values[varies].min()))
    small = float(np.sqrt(2 * log(1 / resolved) / values.max()))
    squares, offsets = rows**2, component_offsets(rows, ~varies)
    power = np.mean(squares, 0, dtype=float)

    def bounded(nu: float, scale: float) -> Spectral:
        kernel = Spectral(values, power, nu, dim, scale, offsets)
        if np.isinf(bound):
            return kernel
        return replace(kernel, typical=float(np.minimum(squares @ kernel.weights, bound).mean()), bound=bound)

    return scale_grid(
        bounded,
        small, lambda nu: (LARGEST_HEAT if np.isinf(nu) else LARGEST_MATERN) * extent,
        smoothness, log_prior, max_time, open_ends=("low",) if resolved < 0.5 else (), **about,
    )  # fmt: skip


def component_offsets(rows: np.ndarray, constant: np.ndarray) -> np.ndarray | None:
    """Weights [k] of eigenfunctions that are constant on one of several connected components; None with one component.

    `rows` are the eigenfunctions on the cloud [N, k], `constant` those whose eigenvalue is 0. The offset of each
    component has variance 1.
    """
    size = np.abs(rows[:, constant])
    local = size.min(0) < 0.5 * size.max(0)  # 0 on other components
    if not local.any():
        return None
    weights = np.zeros(rows.shape[1])
    weights[np.flatnonzero(constant)[local]] = 1 / size[:, local].max(0) ** 2
    return weights / np.mean(rows**2 @ weights)  # draws of a metric have each component several times


def stationary_candidates(
    cloud: np.ndarray, smoothness: Sequence[str], log_prior: float = 0.0, max_time: float | None = None, **about: Any
) -> list[Candidate]:
    """Heat and Matérn kernels of coordinates, at SCALES scales each, from the rows' spacing to twice their extent."""
    extent = max(neighbours.extent(cloud), 1e-12)
    small = min(max(float(neighbours.spacing(cloud).mean()), 1e-3 * extent), extent)
    return scale_grid(Stationary, small, lambda nu: 2 * extent, smoothness, log_prior, max_time, **about)
