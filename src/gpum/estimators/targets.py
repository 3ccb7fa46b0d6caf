"""Which kind of target y is, and whether its labels can be that."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..checks import GpumError
from ..regression.likelihoods import LIKELIHOODS
from .outputs import TARGETS, Target


def targets_of(model: Any, y: np.ndarray, noise_std: Any, trials: Any) -> list[Target]:
    """What each column of y [N] or [N, k] is, given an estimator's `likelihood`, `target` and `period`."""
    likelihood = checks.option(model.likelihood, "likelihood", LIKELIHOODS)
    kind = checks.option(model.target, "target", TARGETS)
    period = checks.positive(model.period, "period", "360 is for degrees, 2π for radians")
    if kind == "angle" and likelihood != "gaussian":
        raise GpumError(f"likelihood is {likelihood!r}, but target='angle' has 'gaussian' only; use that")
    if noise_std is not None and (likelihood != "gaussian" or kind == "angle"):
        what = "target='angle'" if kind == "angle" else f"likelihood={likelihood!r}"
        raise GpumError(f"noise_std was given, but {what} has noise of its own kind; leave it out")
    if trials is not None and likelihood != "binomial":
        raise GpumError(f"trials was given, but likelihood is {likelihood!r}; use likelihood='binomial'")
    columns = y.reshape(len(y), -1)
    known = ~np.isnan(columns)
    noise = _beside(noise_std, "noise_std", columns, known)
    tried = _beside(1.0 if trials is None and likelihood == "binomial" else trials, "trials", columns, known)
    if likelihood in ("poisson", "binomial"):
        _check_counts(columns, known, likelihood, "y")
    if tried is not None:
        _check_counts(tried, known, likelihood, "trials")
        _refuse(known & (columns > tried), columns, "y", "more successes than trials; give their number as `trials`")
    return [
        Target(
            likelihood, model.hyperparameters, kind, period,
            None if noise is None else noise[known[:, k], k], None if tried is None else tried[known[:, k], k],
        )
        for k in range(columns.shape[1])
    ]  # fmt: skip


def _beside(given: Any, name: str, columns: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Positive numbers that stand beside y, as [N, k]; where y is NaN anything goes."""
    if given is None:
        return None
    try:
        values = np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise GpumError(f"{name} must hold numbers, but {error}") from None
    shape = columns.shape
    if values.ndim == 1 and values.shape == shape[:1]:
        values = values[:, None]
    if values.ndim and values.shape not in (shape, (shape[0], 1)):
        raise GpumError(f"{name} has shape {values.shape}, but y has shape {shape}; give a number, [rows] or as y")
    values = np.broadcast_to(values, shape)
    _refuse(known & ~((values > 0) & np.isfinite(values)), values, name, "every labelled row needs a positive number")
    return values


def _check_counts(values: np.ndarray, known: np.ndarray, likelihood: str, name: str) -> None:
    whole = (values >= 0) & (values == np.round(values))
    _refuse(known & ~whole, values, name, f"likelihood={likelihood!r} wants whole numbers from 0")


def _refuse(wrong: np.ndarray, values: np.ndarray, name: str, advice: str) -> None:
    if wrong.any():
        row, column = map(int, np.argwhere(wrong)[0])
        raise GpumError(f"{name} is {values[row, column]:g} at row {row}; {advice}")


def circular_score(y: np.ndarray, guess: np.ndarray, period: float, weight: np.ndarray | None) -> float:
    """1 - Σ(1 - cos error)/Σ(1 - cos of the distance from the mean direction)."""
    turn = np.exp(2j * np.pi * (y - guess) / period)
    blind = abs(np.average(np.exp(2j * np.pi * y / period), weights=weight))
    return float(1 - (1 - np.average(turn.real, weights=weight)) / max(1 - blind, 1e-300))
