"""The candidates of a fit: which settings the labels weighed, with prior, evidence and weight of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..geometry.family import Family, Setting


@dataclass(frozen=True)
class Considered:
    """The settings [K] of a family, in its order.

    `log_part` is the log of each one's evidence times prior over that of all; NaN for one that was left out when
    settings were screened on some of the labels.
    """

    geometry: np.ndarray  # the geometry's number
    smoothness: np.ndarray
    scale: np.ndarray
    level: np.ndarray  # of a boundary, in words; empty where there is no choice of it
    log_prior: np.ndarray
    log_part: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls, family: Family, settings: Sequence[Setting], log_mass: np.ndarray, weights: np.ndarray
    ) -> Considered:  # fmt: skip
        """Of a family of which some `settings` saw all labels: log of evidence times prior, and weights, of these."""
        every, position = family.settings, {id(setting): k for k, setting in enumerate(family.settings)}
        at = [position[id(setting)] for setting in settings]
        log_part, weight = np.full(len(every), np.nan), np.zeros(len(every))
        log_part[at], weight[at] = log_mass - logsumexp(log_mass), weights
        return cls(
            np.array([family.geometry_of[setting.space] for setting in every], int),
            np.array([setting.smoothness for setting in every]),
            np.array([setting.scale for setting in every]),
            np.array([_word(setting.level) for setting in every]),
            np.array([float(setting.log_prior) for setting in every]), log_part, weight,
        )  # fmt: skip


def _word(level: object) -> str:
    return "" if level is None else f"{level:.4g}" if isinstance(level, float) else str(level)
