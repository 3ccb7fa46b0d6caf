"""What is predicted for some rows, in the units of the labels; rows are placed once, and asked as often as you like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import checks
from ..checks import GpumError
from .outputs import Output
from .places import Placed


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
        parts = [[output.moments(block, noise) for output in self.outputs] for block in self.rows.blocks()]
        found = [[np.concatenate(v) for v in zip(*one, strict=True)] for one in zip(*parts, strict=True)]
        return self._stacked([mean for mean, _ in found]), self._stacked([std for _, std in found])

    def cov(self, noise: bool = True) -> np.ndarray:
        """Predictive covariance between the rows, [n, n]."""
        return self._stacked([output.cov(self.rows.whole, noise) for output in self.outputs])

    def quantiles(self, levels: Any = (0.025, 0.5, 0.975), noise: bool = True) -> np.ndarray:
        """Quantiles of the predictive mixture, [n, levels]."""
        given, levels = levels, np.atleast_1d(np.asarray(levels, float))
        if not len(levels) or not np.all((levels > 0) & (levels < 1)):
            raise GpumError(
                f"quantiles must lie strictly between 0 and 1, got {given!r}; (0.025, 0.975) is a 95 % interval"
            )
        parts = [[output.quantiles(block, levels, noise) for output in self.outputs] for block in self.rows.blocks()]
        return self._stacked([np.concatenate(one) for one in zip(*parts, strict=True)])

    def samples(self, n: int = 1, random_state: Any = 0, noise: bool = False) -> np.ndarray:
        """Joint draws, [rows, n] or, for several outputs, [rows, k, n]."""
        checks.integer(n, "n_samples", 1, None, "1 is one draw")
        rng = np.random.default_rng(checks.random_state(random_state).randint(2**31 - 1))
        draws = [output.samples(rng, self.rows.whole, n, noise) for output in self.outputs]
        return np.stack(draws, 1) if self.several else draws[0]

    def _stacked(self, values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values, -1) if self.several else values[0]
