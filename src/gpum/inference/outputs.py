"""One column of y: its posterior, and predictions in the units of the labels, for every kind of target.

    Output           a function with Gaussian or Student t noise
    KnownNoise       with a known standard deviation of each label
    LogNormal        positive numbers: f is their logarithm (`log_normal`)
    CountOutput      counts, or successes of trials: f is the log of the rate, or the log odds
    Angle            numbers of which two that differ by a period are one
    ClassOutput      classes

`regress` makes those of numbers. Noise: True is a new observation, False the function itself (the median of positive
numbers, the rate, the probability).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import pi
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.stats import norm

from ..basics.checks import GpumError
from . import angles, design, gp, known_noise, likelihoods, observations
from .class_posterior import ClassPosterior
from .decisions import DRAWS
from .left_out import Units, leave_one_out, log_densities, log_density
from .posterior import Posterior, RowsInSpaces
from .target import Target

LARGEST_LOG = 350.0  # squares of powers of e must not overflow


class Summary(NamedTuple):
    """Predictions for n rows: mean and standard deviation [n], quantiles [n, levels]."""

    mean: np.ndarray
    std: np.ndarray
    quantiles: np.ndarray


@dataclass(frozen=True)
class Output:
    """Predictions of numbers: the posterior, of labels with mean 0 and variance 1, and the labelled rows."""

    posterior: Posterior
    mean: float
    scale: float
    rows: np.ndarray
    labels: np.ndarray
    target: Target = field(default_factory=Target, kw_only=True)
    posteriors: ClassVar[tuple[str, ...]] = ("posterior",)
    linear: ClassVar[bool] = True  # whether the mean is that of the function, for which no variances are needed

    @property
    def units_of(self) -> Units | None:
        """What gives the units of labels where one of them is left out; None: they stay those of all."""
        return gp.units

    @property
    def standardised(self) -> np.ndarray:
        """The labels in the units of the posterior, [n]."""
        return (self.labels - self.mean) / self.scale

    @property
    def log_slopes(self) -> np.ndarray:
        """Log of the slope of each label by the function, beside the scale, [n]."""
        return np.zeros(len(self.labels))

    def values(self, f: np.ndarray) -> np.ndarray:
        """The function in the units of the labels, from f in those of the posterior."""
        return self.mean + self.scale * f

    def mean_at(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Mean, [n], that of `moments`: where it is linear it costs far less than the standard deviation."""
        return self.mean + self.scale * self.posterior.mean(rows) if self.linear else self.moments(rows, noise)[0]

    def moments(self, rows: RowsInSpaces, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, [n] each."""
        mean, variance = self.posterior.moments(rows, noise)
        return self.mean + self.scale * mean, self.scale * np.sqrt(variance)

    def cov(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Covariance between rows, [n, n]."""
        return self.scale**2 * self.posterior.covariance(rows, noise)

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles, [n, levels]."""
        return self.mean + self.scale * self.posterior.quantiles(rows, levels, noise)

    def summary(
        self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True, noise_of_levels: bool = True
    ) -> Summary:
        """Mean, standard deviation and quantiles, in one pass over the components; of no levels there are none."""
        rows = rows.remembering() if len(levels) else rows
        mean, std = self.moments(rows, noise)
        ends = self.quantiles(rows, levels, noise_of_levels) if len(levels) else np.empty((len(rows), 0))
        return Summary(mean, std, ends)

    def samples(self, rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool) -> np.ndarray:
        """Joint draws, [rows, n]."""
        return self.mean + self.scale * self.posterior.samples(rng, rows, n, noise)

    def of_prior(self, rng: np.random.Generator, f: np.ndarray, sd: np.ndarray, noise: bool) -> np.ndarray:
        """Draws f [rows, n] of the prior in the units of the labels, or, with noise, observations; sd [n] is its σ."""
        if noise:
            f = f + sd * self.posterior.noise(rng, f.shape)
        return self.mean + self.scale * f

    def leave_one_out(self, levels: Sequence[float] = (0.025, 0.975)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, standard deviation [n] and quantiles [n, levels] of each label as the others predict it."""
        mean, variance, ends = leave_one_out(
            self.posterior, self.standardised, levels, self.units_of, self.target.priors
        )
        return self.mean + self.scale * mean, self.scale * np.sqrt(variance), self.mean + self.scale * ends

    def log_densities(self) -> np.ndarray | None:
        """Mean log density of a label as the others predict it with one component alone; None: it is not known."""
        if not self.target.has_normal_noise or self.units_of is None:
            return None
        densities = log_densities(self.posterior, self.standardised, self.units_of, self.target.priors)
        return None if densities is None else densities - np.log(self.scale) - np.mean(self.log_slopes)

    def left_out_density(self) -> np.ndarray:
        """Log density of each label, in its own unit, as the others predict it, [n]; of learned normal noise."""
        densities = log_density(self.posterior, self.standardised, self.target.priors)
        return densities - np.log(self.scale) - self.log_slopes

    def gains_of(
        self, cloud: Sequence[np.ndarray], asked: design.Asked, level: float | None = None
    ) -> list[design.Gains]:
        """What labels of some rows would tell of f, by candidates, for `design`; `level` is in the units of y."""
        level = None if level is None else level - self.mean
        return design.of_function(self.posterior, cloud, asked, self.scale, level)

    def off(self, labels: np.ndarray, guess: np.ndarray | float) -> np.ndarray:
        """How far labels are from a guess, [n]."""
        return labels - guess

    @property
    def of_successes(self) -> bool:
        """Whether observations count the successes of trials."""
        return False

    @property
    def could_be_positive(self) -> bool:
        """Whether labels are numbers above 0 with learned Gaussian noise, so that `LogNormal` could be asked for."""
        gaussian = self.target.likelihood == "gaussian" and self.target.has_normal_noise
        return gaussian and bool(np.all(self.labels > 0))

    @property
    def middle(self) -> float:
        """The mean of the labels."""
        return float(self.labels.mean())

    @property
    def spread(self) -> float:
        """How far the labels are from their mean, as a root mean square."""
        return float(np.sqrt(np.mean(self.off(self.labels, self.middle) ** 2)))

    @property
    def shown_labels(self) -> np.ndarray:
        """The labels in the unit of the mean of one observation: successes as proportions, [n]."""
        return self.labels

    def of_trials(self, trials: np.ndarray) -> Output:
        """The output for rows of so many trials each, [n]; only successes have any."""
        return self


@dataclass(frozen=True)
class KnownNoise(Output):
    """Predictions of numbers whose noise is known; a new observation has the mean of the known variances."""

    @property
    def units_of(self) -> None:
        """As `Output.units_of`: known noise does not depend on the labels."""
        return None

    def of_prior(self, rng: np.random.Generator, f: np.ndarray, sd: np.ndarray, noise: bool) -> np.ndarray:
        """As `Output.of_prior`, with the mean of the known variances."""
        assert self.target.noise_std is not None
        known = np.sqrt(np.mean(self.target.noise_std**2)) / self.scale
        return super().of_prior(rng, f, np.full(f.shape[1], known), noise)


@dataclass(frozen=True)
class CountOutput(Output):
    """Predictions of counts, or successes of trials; the posterior is that of f, mean and scale are 0 and 1."""

    observed: Any
    sites: likelihoods.Sites
    linear: ClassVar[bool] = False

    def values(self, f: np.ndarray) -> np.ndarray:
        """Rates, from the logs or log odds f."""
        return self.observed.mean(f)

    @property
    def of_successes(self) -> bool:
        """Whether observations count the successes of trials; else they count events."""
        return isinstance(self.observed, observations.BinomialCounts)

    def of_trials(self, trials: np.ndarray) -> Output:
        """The output for rows of so many trials each, [n]."""
        return replace(self, observed=self.observed.of_trials(trials))

    @property
    def shown_labels(self) -> np.ndarray:
        """Successes as proportions of their trials, counts unchanged, [n]."""
        return self.labels / getattr(self.observed, "trials", 1.0)

    def moments(self, rows: RowsInSpaces, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the rate, or of observations."""
        return _observed_moments(self.observed, *likelihoods.nodes(self.posterior, rows), noise)

    def cov(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Covariance between rows, from DRAWS draws; its diagonal is exact."""
        draws = self.samples(np.random.default_rng(0), rows, DRAWS, False)
        cov = np.atleast_2d(np.cov(draws))
        std = self.moments(rows, noise)[1]
        bare = np.maximum(np.sqrt(np.diag(cov)), 1e-300)
        shrink = np.minimum(std / bare, 1.0)
        cov = cov * shrink[:, None] * shrink
        cov[np.diag_indices_from(cov)] = std**2
        return cov

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles of observations, whole numbers, or of the rate, which are those of f transformed."""
        if noise:
            return observations.count_quantiles(self.observed, *likelihoods.nodes(self.posterior, rows), levels)
        return self.values(self.posterior.quantiles(rows, levels, False).T).T

    def samples(self, rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool) -> np.ndarray:
        """Joint draws of the rate, or of observations."""
        f = self.posterior.samples(rng, rows, n, False).T
        return (self.observed.draw(rng, f) if noise else self.values(f)).T

    def of_prior(self, rng: np.random.Generator, f: np.ndarray, sd: np.ndarray, noise: bool) -> np.ndarray:
        """Rates, or observations; a rate is at most about e^LARGEST_LOG."""
        f = np.clip(f, -LARGEST_LOG, LARGEST_LOG).T
        return (self.observed.draw(rng, f) if noise else self.values(f)).T

    def leave_one_out(self, levels: Sequence[float] = (0.025, 0.975)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictions of each label by the others, with as many trials as the label; intervals are whole numbers."""
        w, m, v = known_noise.cavity_moments(self.posterior, self.sites.at, self.sites.log_scale)
        heavy = np.flatnonzero(w.max(1) > 1e-3)
        nodes, weight = likelihoods.FIVE_NODES[:, None, None], likelihoods.FIVE_WEIGHTS[:, None, None]
        f = (m[heavy] + nodes * np.sqrt(v[heavy])).reshape(-1, len(self.rows))
        w = (weight * w[heavy]).reshape(f.shape)
        w = w / w.sum(0)
        observed = self.observed.like_labels()
        ends = observations.count_quantiles(observed, w, f, np.asarray(levels, float))
        return *_observed_moments(observed, w, f, True), ends


def _observed_moments(
    observed: observations.ObservedCounts, w: np.ndarray, f: np.ndarray, noise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [n] of the rate, or of observations, from weighted nodes [nodes, n]."""
    rate = observed.mean(f)
    mean = np.sum(w * rate, 0)
    variance = np.sum(w * (rate - mean) ** 2, 0) + noise * np.sum(w * observed.variance(f), 0)
    return mean, np.sqrt(variance)


@dataclass(frozen=True)
class Angle(Output):
    """Predictions of an angle; `posterior` is that of its cosine, `sine` the other; scale is the period over 2π."""

    sine: Posterior
    linear: ClassVar[bool] = False
    posteriors: ClassVar[tuple[str, ...]] = ("posterior", "sine")

    @property
    def _both(self) -> list[Posterior]:
        return [self.posterior, self.sine]

    @property
    def period(self) -> float:
        """The period, a full turn."""
        return 2 * pi * self.scale

    def moments(self, rows: RowsInSpaces, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean direction, from 0 to the period, and circular standard deviation."""
        mean, std = angles.moments(self._both, rows, noise)
        return (self.scale * mean) % self.period, self.scale * std

    def cov(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Angles have no covariance."""
        raise GpumError("return_cov is True, but angles have no covariance; use sample_y, or return_std=True")

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """About the mean direction: the ends of an interval may lie below 0 or above the period."""
        ends = self.scale * angles.quantiles(self._both, rows, levels, noise)
        middle = angles.moments(self._both, rows, noise)[0]
        return ends + self.period * (middle < 0)[:, None]  # as the mean, from 0 to the period

    def samples(self, rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool) -> np.ndarray:
        """Joint draws, from 0 to the period."""
        return (self.scale * angles.samples(self._both, rng, rows, n, noise)) % self.period

    def leave_one_out(self, levels: Sequence[float] = (0.025, 0.975)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean next to the label (not a period away), circular standard deviation, and a normal interval."""
        mean, std = (self.scale * v for v in angles.leave_one_out(self._both, self.labels / self.scale))
        mean = self.labels - self.off(self.labels, mean)
        return mean, std, mean[:, None] + std[:, None] * norm.ppf(np.asarray(levels, float))

    def of_prior(self, rng: np.random.Generator, f: np.ndarray, sd: np.ndarray, noise: bool) -> np.ndarray:
        """Angles come of two functions."""
        raise GpumError(
            "sample_prior draws numbers, counts and successes; the prior of an angle is uniform at each row"
        )

    @property
    def middle(self) -> float:
        """The mean direction of the labels."""
        return float(self.scale * np.angle(np.mean(np.exp(1j * self.labels / self.scale))))

    def off(self, labels: np.ndarray, guess: np.ndarray | float) -> np.ndarray:
        """Differences of angles, at most half a period."""
        return (labels - guess + self.period / 2) % self.period - self.period / 2


@dataclass(frozen=True)
class ClassOutput:
    """What a classifier learned: the posterior, the labelled rows and their classes, as positions in a sorted list."""

    posterior: ClassPosterior
    rows: np.ndarray
    labels: np.ndarray
    posteriors: ClassVar[tuple[str, ...]] = ("posterior",)

    def gains_of(
        self, cloud: Sequence[np.ndarray], asked: design.Asked, level: float | None = None
    ) -> list[design.Gains]:
        """What labels of some rows would tell of the functions of the classes, by candidates, for `design`."""
        return design.of_classes(self.posterior, cloud, asked)
