"""How good a fit is, in one sentence: the first line of the report and of summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest

from gpum import diagnostics
from gpum.tools import CONTRADICTED, number, percent, surplus

FEW = 10  # labels below which error and coverage are not reliable
UNLIKELY = 0.01  # probability of a coverage below which it is not called chance
USELESS = 0.95  # of the error of the mean of the other labels: above it, the model predicts nothing
NO_LABELS = "How good the predictions are cannot be said: fewer than two rows have a label."


def of_numbers(output: Any, left_out: diagnostics.LeaveOneOut | None) -> str:
    """The typical error of a prediction, relative to the spread of the labels, and whether intervals hold."""
    if left_out is None:
        return NO_LABELS
    n, spread = len(left_out.y), output.spread
    if spread == 0:
        return "All labels are equal: the prediction is that value everywhere."
    blind = spread * n / (n - 1)
    error = f"{number(left_out.rmse, 2)}, {percent(left_out.rmse / spread)} of the labels’ spread"
    useless = bool(left_out.rmse > USELESS * blind)
    said = f"Predictions are typically off by {error}" + (": no better than the mean of the labels" * useless)
    return _judged(f"{said}; {_intervals(left_out)}", n)


def of_classes(left_out: diagnostics.LeftOutClasses) -> str:
    """How many left-out labels come out right, and whether the probabilities hold."""
    n, right = len(left_out.y), int(left_out.right.sum())
    if n < 2:
        return NO_LABELS
    useless = bool(right <= np.bincount(left_out.y).max())
    said = f"{percent(right / n)} of left-out labels come out right" + (
        ", no more than if every row were of the commonest class" * useless
    )
    words = {"hold": "their probabilities hold", "large": "the probabilities are too large"}
    return _judged(f"{said}; {words.get(probabilities(left_out), 'the probabilities are too cautious')}", n)


def coverage(left_out: diagnostics.LeaveOneOut) -> str:
    """Whether 95 % intervals "hold", are too "narrow" or too "wide"; "unknown" if they cannot be judged."""
    n, inside = len(left_out.y), int(left_out.inside.sum())
    if n < FEW or np.all((left_out.low == 0) & (left_out.high == 1)):  # an interval of all values says nothing
        return "unknown"
    if binomtest(inside, n, 0.95).pvalue >= UNLIKELY:
        return "hold"
    return "narrow" if inside < 0.95 * n else "wide"


def probabilities(left_out: diagnostics.LeftOutClasses) -> str:
    """Whether probabilities of classes "hold", are too "large" or too "small", without single labels of a class."""
    more = surplus(left_out.probabilities, left_out.y)
    return "hold" if abs(more) <= CONTRADICTED else "large" if more < 0 else "small"


def _intervals(left_out: diagnostics.LeaveOneOut) -> str:
    words = {"hold": "intervals hold", "narrow": "intervals are too narrow", "wide": "intervals are too wide"}
    return words.get(coverage(left_out), "too few labels to judge the intervals")


def _judged(text: str, n: int) -> str:
    return f"{text}." if n >= FEW else f"{text} (judged by {n} labels only)."
