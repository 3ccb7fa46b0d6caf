"""What the columns of a cloud are divided by: `scale` of the estimators.

Columns of one unit (pixels, spectra, signal strengths) keep their spreads, which say how much each matters.
Columns in metres, euros and years are divided by their standard deviations. With scale="auto" the spreads say how
likely a common unit is, before any label is seen:

    r ≤ USUAL, r the largest spread over the middle one, as for pixels: probability 1; or LIKELY, where there are few
               columns and the smallest spread is less than 1/SMALL of the largest
    r > USUAL: probability USUAL/r

Where neither is certain, graphs, atlases and flat space are built in both units, the labels weigh all of them (`plan`),
and charts are learned in the units of larger weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from ..basics import checks, scaling

CHEAP = ("graph", "flat")  # geometries that are built in both units, whatever is asked for
JUDGES = 100  # labels that choose between units; of more, as many are drawn
JUDGES_OF_MANY = 250  # the same where rows see the nearest labels, so that what units decide costs more than these
LEAST = 0.01  # weight from which both are used
SCALES = ("auto", "none", "standard", "robust")
USUAL = 4.0
SMALL = 8.0
LIKELY = 0.95
UNLIKELY = 1e-9  # the least probability of a common unit
COLUMNS = 50  # of more columns, as of pictures, columns of small spread are usual
WORDS = {"none": "columns as they come", "standard": "columns standardised", "robust": "columns scaled by quartiles"}


@dataclass(frozen=True)
class Units:
    """What columns are divided by, a number or [p]; how likely that is a priori; and a sentence for `notes_`."""

    scale: str
    unit: np.ndarray | float
    log_prior: float
    note: str = ""

    @property
    def words(self) -> str:
        """How the columns were scaled."""
        return WORDS[self.scale]


def candidates(X: np.ndarray, scale: Any, indicators: np.ndarray | None = None) -> list[Units]:
    """The units in which a cloud X [N, p] may be seen, the likeliest first.

    Columns that stand for a category (`indicators`, [p] of bool) are never divided by their spread, which is that of
    the number of rows in the category.
    """
    checks.option(scale, "scale", SCALES)
    plain = Units("none", scaling.Scaling.of(X).unit, 0.0)
    of_columns = lambda spreads: spreads if indicators is None else np.where(indicators, 1.0, spreads)
    if scale == "none":
        return [plain]
    if scale != "auto":
        return [Units(scale, of_columns(scaling.spreads(X, robust=scale == "robust")), 0.0)]
    chance = common_unit(X)
    if chance == 1.0:
        return [plain]
    spreads = scaling.spreads(X)
    about = f"the spreads of the columns go from {spreads.min():.3g} to {spreads.max():.3g}"
    raw = Units("none", plain.unit, log(chance), f"{about}; the columns were used as they come")
    standard = Units(
        "standard", of_columns(spreads), log(1 - chance), f"{about}; each column was divided by its standard deviation"
    )
    return [raw, standard] if chance >= 0.5 else [standard, raw]


def scored(n: int, most: int = JUDGES) -> np.ndarray:
    """Which of n labels choose between units: all, or `most` of them, always the same, ascending."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def common_unit(X: np.ndarray) -> float:
    """The probability that all columns of a cloud have one unit, judging by their spreads."""
    spreads = np.sort(scaling.spreads(X, constant=0.0))
    spreads = spreads[spreads > 0]
    if len(spreads) < 2:
        return 1.0
    largest = np.log(spreads[-1])  # logarithms: the ratio of 1e300 and 1e-300 is no number
    ratio = largest - np.log(spreads[(len(spreads) - 1) // 2])
    if ratio > log(USUAL):
        return max(float(np.exp(log(USUAL) - ratio)), UNLIKELY)
    return LIKELY if len(spreads) <= COLUMNS and largest - np.log(spreads[0]) > log(SMALL) else 1.0
