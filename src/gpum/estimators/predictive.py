"""What is predicted for some rows, in the units of the labels; rows are placed once, and asked as often as you like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..regression.posterior import Posterior
from .places import Placed


@dataclass(frozen=True)
class Output:
    """One column of y: its posterior in units in which the labels have mean 0 and variance 1; the labelled rows."""

    posterior: Posterior
    mean: float
    scale: float
    rows: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Predictive:
    """Predictions for n rows. With several outputs results have one more axis, k, the last but for samples.

    far : which rows are so far from the fitted surface that their prediction is the prior's, [n] of bool.
    latent : coordinates of the rows on the learned chart, [n, q]; None where there is no chart.

    Noise: True is a new observation, False the function itself.
    """

    outputs: list[Output]
    several: bool
    rows: Placed
    far: np.ndarray
    find_latent: Callable[[], np.ndarray | None] = lambda: None

    @cached_property
    def latent(self) -> np.ndarray | None:
        """See the class."""
        return self.find_latent()

    @property
    def mean(self) -> np.ndarray:
        """Predictive mean, [n]."""
        return self.moments()[0]

    def std(self, noise: bool = True) -> np.ndarray:
        """Predictive standard deviation, [n]."""
        return self.moments(noise)[1]

    def moments(self, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, [n] each, for the price of one."""
        parts: list[list[tuple[np.ndarray, np.ndarray]]] = [
            [o.posterior.moments(block, noise) for o in self.outputs] for block in self.rows.blocks()
        ]
        found = [[np.concatenate(v) for v in zip(*one, strict=True)] for one in zip(*parts, strict=True)]
        mean = [o.mean + o.scale * mean for o, (mean, _) in zip(self.outputs, found, strict=True)]
        std = [o.scale * np.sqrt(variance) for o, (_, variance) in zip(self.outputs, found, strict=True)]
        return self._stacked(mean), self._stacked(std)

    def cov(self, noise: bool = True) -> np.ndarray:
        """Predictive covariance between the rows, [n, n]."""
        return self._stacked([o.scale**2 * o.posterior.covariance(self.rows.whole, noise) for o in self.outputs])

    def quantiles(self, levels: Any = (0.025, 0.5, 0.975), noise: bool = True) -> np.ndarray:
        """Quantiles of the predictive mixture, [n, levels]."""
        given, levels = levels, np.atleast_1d(np.asarray(levels, float))
        if not len(levels) or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(
                f"quantiles must lie strictly between 0 and 1, got {given!r}; (0.025, 0.975) is a 95 % interval"
            )
        parts = [[o.posterior.quantiles(block, levels, noise) for o in self.outputs] for block in self.rows.blocks()]
        found = [np.concatenate(one) for one in zip(*parts, strict=True)]
        return self._stacked([o.mean + o.scale * one for o, one in zip(self.outputs, found, strict=True)])

    def samples(self, n: int = 1, random_state: Any = 0, noise: bool = False) -> np.ndarray:
        """Joint draws, [rows, n] or, for several outputs, [rows, k, n]."""
        checks.integer(n, "n_samples", 1, None, "1 is one draw")
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        draws = [o.mean + o.scale * o.posterior.samples(rng, self.rows.whole, n, noise) for o in self.outputs]
        return np.stack(draws, 1) if self.several else draws[0]

    def _stacked(self, values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values, -1) if self.several else values[0]
