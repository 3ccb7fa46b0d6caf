"""Observations of a latent f for `likelihoods`: counts of events, and successes of trials.

Each class has log p(y | f) with its slope and curvature, and the mean, variance and distribution of a new observation.
f does not contain the constant c (`offset`), which is estimated from all labels together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import bdtr, expit, gammaln, log_expit, pdtr


@dataclass(frozen=True)
class PoissonCounts:
    """y ~ Poisson(exp(c + f))."""

    y: np.ndarray
    offset: float

    @classmethod
    def of(cls, y: np.ndarray) -> PoissonCounts:
        """c is the log of the mean count."""
        return cls(y, log(max(float(y.mean()), 0.5 / len(y))))

    def log_p(self, f: np.ndarray) -> np.ndarray:
        """log p(y | f) of the labels, [n] or [n, nodes] as f."""
        y = self.y.reshape(-1, *[1] * (f.ndim - 1))
        return y * (f + self.offset) - np.exp(f + self.offset) - gammaln(y + 1)

    def slopes(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first derivative of log p, and minus its second, [n]."""
        rate = np.exp(f + self.offset)
        return self.y - rate, rate

    def mean(self, f: np.ndarray) -> np.ndarray:
        """Of a new observation."""
        return np.exp(f + self.offset)

    def variance(self, f: np.ndarray) -> np.ndarray:
        """Of a new observation."""
        return self.mean(f)

    def below(self, k: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(a new observation ≤ k)."""
        return pdtr(k, self.mean(f))

    def draw(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """New observations."""
        return rng.poisson(np.minimum(self.mean(f), 1e15)).astype(float)

    def like_labels(self) -> PoissonCounts:
        """New observations as the labels are."""
        return self


@dataclass(frozen=True)
class BinomialCounts:
    """y ~ Binomial(trials, p), p = 1/(1 + exp(-(c + f))); a new observation has `new` trials."""

    y: np.ndarray
    trials: np.ndarray
    offset: float
    new: np.ndarray | float = 1.0

    @classmethod
    def of(cls, y: np.ndarray, trials: np.ndarray) -> BinomialCounts:
        """c is the log odds of all trials together."""
        proportion = (y.sum() + 0.5) / (trials.sum() + 1)
        return cls(y, trials, log(proportion / (1 - proportion)))

    def log_p(self, f: np.ndarray) -> np.ndarray:
        """log p(y | f) of the labels, [n] or [n, nodes] as f."""
        y, n = (v.reshape(-1, *[1] * (f.ndim - 1)) for v in (self.y, self.trials))
        choose = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        return choose + y * log_expit(f + self.offset) + (n - y) * log_expit(-f - self.offset)

    def slopes(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first derivative of log p, and minus its second, [n]."""
        p = expit(f + self.offset)
        return self.y - self.trials * p, self.trials * p * (1 - p)

    def mean(self, f: np.ndarray) -> np.ndarray:
        """Of a new observation."""
        return expit(f + self.offset) * self.new

    def variance(self, f: np.ndarray) -> np.ndarray:
        """Of a new observation."""
        p = expit(f + self.offset)
        return p * (1 - p) * self.new

    def below(self, k: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(a new observation ≤ k)."""
        return bdtr(np.minimum(k, self.new), np.asarray(self.new, int), expit(f + self.offset))

    def draw(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """New observations."""
        return rng.binomial(np.asarray(self.new, int), expit(f + self.offset)).astype(float)

    def of_trials(self, new: np.ndarray) -> BinomialCounts:
        """New observations of so many trials each, an array that is broadcast with f."""
        return replace(self, new=new)

    def like_labels(self) -> BinomialCounts:
        """New observations of as many trials as the labels have, [n]."""
        return self.of_trials(self.trials)


ObservedCounts = PoissonCounts | BinomialCounts


def count_quantiles(observed: ObservedCounts, w: np.ndarray, f: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Smallest whole numbers [n, levels] that a new observation stays at or below with probability `levels`."""
    quantiles = []
    top = np.ceil((observed.mean(f) + 12 * np.sqrt(observed.variance(f)) + 12).max(0))
    for level in levels:
        low, high = np.full(f.shape[1], -1.0), top.copy()  # P(≤ low) < level ≤ P(≤ high)
        while np.any(high - low > 1):
            middle = np.floor((low + high) / 2)
            enough = np.sum(w * observed.below(np.broadcast_to(middle, f.shape), f), 0) >= level
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        quantiles.append(high)
    return np.stack(quantiles, 1)
