"""What a column of y is: the kind of its labels, and what was given for each of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..basics.checks import GpumError
from ..geometry.priors import Priors


@dataclass(frozen=True)
class Target:
    """The kind of a column of y: with a `period`, angles. What is given for each of its labels is [n].

    noise_std : known standard deviations of the labels' noise.
    trials : how many of them each label counts the successes of.
    weights : relative precisions: label i has noise of variance σ²/w_i.
    """

    likelihood: str = "gaussian"
    hyperparameters: str = "average"
    period: float | None = None
    noise_std: np.ndarray | None = None
    trials: np.ndarray | None = None
    weights: np.ndarray | None = None
    priors: Priors = field(default_factory=Priors)

    @property
    def has_normal_noise(self) -> bool:
        """Whether labels (or their logs) are a function and normal noise that is learned: any number can be used."""
        return self.likelihood in ("gaussian", "lognormal") and self.period is None and self.noise_std is None

    def only(self, index: np.ndarray) -> Target:
        """The same for some of the labels."""
        noise, trials, weights = (None if v is None else v[index] for v in (self.noise_std, self.trials, self.weights))
        return replace(self, noise_std=noise, trials=trials, weights=weights)

    def joined(self, n: int, other: Target, m: int) -> Target:
        """The same for n labels and m others, in this order; where only one has weights, all of the other's are 1."""
        if (self.noise_std is None) != (other.noise_std is None):
            missing = "noise_std was not given" if other.noise_std is None else "noise_std was given"
            raise GpumError(f"{missing}, unlike for the labels before; give it for all labels, or fit again without it")

        def both(before: np.ndarray | None, after: np.ndarray | None) -> np.ndarray | None:
            if before is None and after is None:
                return None
            return np.concatenate([np.ones(n) if before is None else before, np.ones(m) if after is None else after])

        return replace(
            self, noise_std=both(self.noise_std, other.noise_std), trials=both(self.trials, other.trials),
            weights=both(self.weights, other.weights),
        )  # fmt: skip

    @property
    def noise(self) -> np.ndarray | None:
        """Variance of each label's noise over σ², [n]: the geometric mean is 1, that of a new observation."""
        if self.weights is None:
            return None
        logs = -np.log(self.weights)
        return np.exp(logs - logs.mean())
