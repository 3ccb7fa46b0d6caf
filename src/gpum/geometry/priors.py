"""`Priors`: what is assumed of noise, signal, lengths and geometries before there are labels, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import log
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp

from ..basics import checks
from ..basics.checks import GpumError

GEOMETRIES = ("chart", "atlas", "graph", "flat")
RATIOS = np.logspace(-6, 2, 13)  # r: noise between 0.1 % of the signal's sd and ten times it
POWER_OF_NUMBERS, POWER_OF_CLASSES = 0.7, 1.0  # of the evidence between geometries; see `inference.tempered`

Normals = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, repr=False)
class Priors:
    """Prior distributions; `priors=` of `GPUMRegressor` and `GPUMClassifier`. Labels have variance 1 here.

    Parameters
    ----------
    noise : of log₁₀ r, r the variance of the noise over that of the signal: a mixture of normal distributions, (weight,
        mean, standard deviation) each. Default: noise of 3 % of the signal's standard deviation, give or take a factor
        of 3, and with probability 0.02 noise as large as the signal. With few labels the first decides, 100 noisy
        labels overrule it.
    noise_of_copies : the same for lengths of columns where rows of the cloud were observed more than once. Default:
        noise of 30 % of the signal's standard deviation, or a factor of 2 from it.
    signal : of the variance of signal and noise together: inverse gamma with (shape, rate). Default: median 4.3 and
        heavy above, since the labels' own variance is itself a guess where they are few. The 95 % interval of five
        labels that have nothing to do with each other is then the exact one of a sample, mean ± t₄ s √(1 + 1/5); with
        20 labels it is wider than that by a twentieth.
    length_scale : of the inverse squared length of each column, in units of its standard deviation: half-Cauchy with
        one of these scales, equally likely. Lengths of columns that do not matter are 10 to 1 standard deviations.
    geometry : weights of kinds of geometry, such as {"flat": 3.0}; kinds that are not named have 1. Default: all equal.
    evidence_power : to which power the evidence counts between geometries, above 0 and at most 1. None (default): 0.7
        for numbers, 1 for classes.
    """

    noise: Normals = ((0.98, -3.0, 1.0), (0.02, 0.0, 1.0))
    noise_of_copies: Normals = ((1.0, -1.0, 0.5),)
    signal: tuple[float, float] = (1.0, 3.0)
    length_scale: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    geometry: Mapping[str, float] | None = None
    evidence_power: float | None = None

    def __post_init__(self) -> None:
        for name in ("noise", "noise_of_copies"):
            normals = tuple(_numbers(one, name, 3, "(weight, mean, sd)") for one in _items(getattr(self, name), name))
            for weight, _, sd in normals:
                checks.positive(weight, f"the weight of {name}", "weights are normalised")
                checks.positive(sd, f"the standard deviation of {name}", "of log₁₀ r; 1 is a factor of 3 of the noise")
            object.__setattr__(self, name, normals)
        shape, rate = _numbers(self.signal, "signal", 2, "(shape, rate)")
        checks.positive(shape, "the shape of signal", "1 is the default")
        checks.positive(rate, "the rate of signal", "3 is the default")
        scales = _numbers(self.length_scale, "length_scale", None, "numbers")
        for scale in scales:
            checks.positive(scale, "length_scale", "0.01 to 1 are the default")
        object.__setattr__(self, "signal", (shape, rate))
        object.__setattr__(self, "length_scale", scales)
        if self.geometry is not None:
            if not isinstance(self.geometry, Mapping):
                raise GpumError(f"geometry must be a mapping such as {{'flat': 2.0}}, got {self.geometry!r}; give one")
            for name, weight in self.geometry.items():
                checks.option(name, "a name in geometry", GEOMETRIES)
                advice = "to leave a geometry out, do not name it in the estimator's `geometry`"
                checks.positive(weight, f"the weight of {name!r} in geometry", advice)
            object.__setattr__(self, "geometry", {name: float(weight) for name, weight in self.geometry.items()})
        if self.evidence_power is not None:
            power = checks.positive(self.evidence_power, "evidence_power", "None is 0.7, of classes 1")
            if power > 1:
                raise GpumError(f"evidence_power is {power:g}, but it is at most 1; 1 is all of the evidence")

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"Priors({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def log_ratio(self, copies: bool = False) -> np.ndarray:
        """Log prior weights of RATIOS."""
        return _on_ratios(self.noise_of_copies if copies else self.noise)

    def signal_rate(self, r: np.ndarray) -> np.ndarray:
        """The rate of the inverse gamma prior of σ_h² for each ratio: signal and noise together have `signal`."""
        return self.signal[1] / (1 + r)

    @property
    def power_of_numbers(self) -> float:
        """`evidence_power` of regression."""
        return POWER_OF_NUMBERS if self.evidence_power is None else self.evidence_power

    @property
    def power_of_classes(self) -> float:
        """`evidence_power` of classification."""
        return POWER_OF_CLASSES if self.evidence_power is None else self.evidence_power

    def of_kinds(self, names: Sequence[str], log_priors: np.ndarray) -> np.ndarray:
        """What is added to the log prior weights of geometries of these kinds, whose weights then add up to 1 again."""
        shift = np.array([log((self.geometry or {}).get(name, 1.0)) for name in names])
        return shift - (logsumexp(log_priors + shift) - logsumexp(log_priors))


def of_classes(priors: Priors) -> Priors:
    """Priors of a classifier; a GpumError where one is given that classes do not have."""
    for field in fields(priors):
        if field.name not in ("geometry", "evidence_power") and getattr(priors, field.name) != field.default:
            raise GpumError(
                f"priors has {field.name}, which is of numbers; for classes give geometry and evidence_power alone"
            )
    return priors


def checked(priors: Any) -> Priors:
    """The priors that an estimator's `priors` means; None: the default ones."""
    if priors is None:
        return Priors()
    if not isinstance(priors, Priors):
        raise GpumError(f"priors must be a gpum.Priors or None, got {priors!r}; for example Priors(evidence_power=1.0)")
    return priors


@cache
def _on_ratios(normals: Normals) -> np.ndarray:
    """Log weights of RATIOS under a mixture of normal distributions of log₁₀ r."""
    total = sum(weight for weight, _, _ in normals)
    of_one = lambda mean, sd: log_softmax(-0.5 * ((np.log10(RATIOS) - mean) / sd) ** 2)
    log_weights = np.logaddexp.reduce([log(weight / total) + of_one(mean, sd) for weight, mean, sd in normals])
    log_weights.setflags(write=False)
    return log_weights


def _items(given: Any, name: str) -> tuple[Any, ...]:
    try:
        items = tuple(given)
    except TypeError:
        items = ()
    if not items:
        raise GpumError(f"{name} must be a sequence, got {given!r}; see gpum.Priors")
    return items


def _numbers(given: Any, name: str, count: int | None, what: str) -> tuple[float, ...]:
    """A tuple of finite numbers."""
    try:
        numbers = tuple(float(one) for one in _items(given, name))
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count) or not np.isfinite(numbers).all():
        raise GpumError(f"{name} must hold {what}, got {given!r}; see gpum.Priors")
    return numbers
