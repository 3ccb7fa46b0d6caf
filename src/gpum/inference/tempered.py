"""Weights of candidates: those of geometries are prior times a power of the evidence, and the table of all of them.

A geometry g with prior weight π_g and evidence E_g = Σ_k p(k | g) p(y | k), summed over its candidates k, has the
weight

    w_g ∝ π_g E_g^power

and within a geometry candidates are weighted by evidence times prior as usual. This is a power (or fractional)
posterior between geometries: no geometry is the truth, labels are few, and the plain evidence (a power of 1) then often
gives all weight to one geometry for reasons of chance (Grünwald and van Ommen 2017). On simulated surfaces, curves,
clusters and tables (`benchmarks/weights.py`) 0.5 and 0.7 were about equal, and both better than 1; 0.7 costs less where
one geometry is right. Geometries with less than LIGHT_GEOMETRY of the weight are dropped, which changed nothing there,
and saves projecting new rows onto them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from ..geometry.candidate_set import Candidate, CandidateSet
from ..geometry.priors import POWER_OF_NUMBERS
from .decisions import LIGHT_GEOMETRY


@dataclass(frozen=True)
class TemperedWeights:
    """Turns evidence into weights: the geometry of each candidate [K], log prior weights of these [G], the power."""

    owner: np.ndarray
    log_prior: np.ndarray
    power: float = POWER_OF_NUMBERS

    @classmethod
    def of(cls, candidate_set: CandidateSet, candidates: Sequence[Candidate]) -> TemperedWeights:
        """For some candidates of a set."""
        prior = np.array(candidate_set.log_priors or np.zeros(max(candidate_set.geometry_of) + 1))
        owner = np.array([candidate_set.geometry_of[candidate.space] for candidate in candidates], int)
        return cls(owner, prior, candidate_set.priors.power_of_numbers)

    def only(self, index: Sequence[int]) -> TemperedWeights:
        """For some of the candidates."""
        return replace(self, owner=self.owner[list(index)])

    def log_weights(self, log_mass: np.ndarray) -> np.ndarray:
        """Log weights [K, ...] up to a constant, from evidence times prior, log_mass [K, ...]."""
        return log_mass - (1 - self.power) * self._evidence(log_mass)

    def heavy(self, log_weight: np.ndarray) -> np.ndarray:
        """Which candidates [K] belong to a geometry that is not LIGHT_GEOMETRY, from their log weights [K]."""
        weights = np.bincount(self.owner, np.exp(log_weight - logsumexp(log_weight)))
        return (weights >= LIGHT_GEOMETRY)[self.owner]

    def log_masses(self, log_weight: np.ndarray) -> np.ndarray:
        """The inverse of `log_weights`, up to a constant."""
        return log_weight + (1 / self.power - 1) * self._evidence(log_weight)

    def _evidence(self, log_mass: np.ndarray) -> np.ndarray:
        """For each candidate [K, ...], the log of the total mass of its geometry over the geometry's prior weight."""
        evidence = np.zeros_like(log_mass)
        for g in np.unique(self.owner):
            members = self.owner == g
            # logaddexp.reduce takes a tenth of the time of logsumexp
            total = np.logaddexp.reduce(log_mass[members], axis=0) - self.log_prior[g]
            evidence[members] = np.where(np.isfinite(total), total, 0.0)
        return evidence


@dataclass(frozen=True)
class Considered:
    """The table of all candidates [K] of a set, in its order: what labels say of each.

    `log_part` is the log of each one's evidence times prior over that of all; NaN for one that was left out when
    candidates were screened on some of the labels.
    """

    geometry: np.ndarray  # the geometry's number
    smoothness: np.ndarray
    scale: np.ndarray
    level: np.ndarray  # of a boundary, in words; empty where there is no choice of it
    log_prior: np.ndarray
    log_part: np.ndarray
    weight: np.ndarray
    terms: np.ndarray | None = None  # of the kernel on columns, in words; None: it has none

    @classmethod
    def of(
        cls, candidate_set: CandidateSet, candidates: Sequence[Candidate], log_mass: np.ndarray, weights: np.ndarray
    ) -> Considered:  # fmt: skip
        """Of a set of which some `candidates` saw all labels: log of evidence times prior, and weights, of these."""
        every, position = (
            candidate_set.candidates,
            {id(candidate): k for k, candidate in enumerate(candidate_set.candidates)},
        )
        at = [position[id(candidate)] for candidate in candidates]
        log_part, weight = np.full(len(every), np.nan), np.zeros(len(every))
        log_part[at], weight[at] = log_mass - logsumexp(log_mass), weights
        return cls(
            np.array([candidate_set.geometry_of[candidate.space] for candidate in every], int),
            np.array([candidate.smoothness for candidate in every]),
            np.array([candidate.scale for candidate in every]),
            np.array([_word(candidate.level) for candidate in every]),
            np.array([float(candidate.log_prior) for candidate in every]), log_part, weight,
            np.array([candidate.about.get("terms", "") for candidate in every])
            if any("terms" in candidate.about for candidate in every) else None,
        )  # fmt: skip


def _word(level: object) -> str:
    return "" if level is None else f"{level:.4g}" if isinstance(level, float) else str(level)
