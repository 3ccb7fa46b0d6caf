"""The candidates of a fit: which candidates the labels weighed, with prior, evidence and weight of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..geometry.candidate_set import Candidate, CandidateSet


@dataclass(frozen=True)
class Considered:
    """The candidates [K] of a family, in its order.

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
        """Of a family of which some `candidates` saw all labels: log of evidence times prior, and weights, of these."""
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
