"""Predictions for some rows, in the units of the labels; the rows are projected once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.workers import with_jobs
from ..inference.outputs import Output, Summary
from ..inference.posterior import RowsInSpaces
from .rows import ProjectedRows

if TYPE_CHECKING:
    from .model import FittedModel

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class AtRows:
    """A fitted model and n rows that were projected onto its geometries."""

    model: FittedModel
    rows: ProjectedRows

    @cached_property
    def far(self) -> np.ndarray:
        """Which rows have the prior in geometries with more than half of the weight, far from these, [n] of bool."""
        return self.rows.far(self.model.weights.mean(0))

    @cached_property
    def latent(self) -> np.ndarray | None:
        """Coordinates of the rows on the learned chart, [n, q]; None where there is no chart."""
        return self.model._latent_of(self.rows)

    def _each_block(self, of: Callable[[RowsInSpaces, slice], T]) -> list[T]:
        """What `of` computes for each block of the rows, with the positions of its rows."""
        n_jobs = self.model.settings.get("n_jobs")
        if len(self.rows) == 1:  # a server's row: there is nothing to divide, and to count processors takes as long
            return self.rows.each_block(of, 1)
        with with_jobs(n_jobs):
            return self.rows.each_block(of, n_jobs)


@dataclass(frozen=True, eq=False)
class Predictive(AtRows):
    """Predictions for n rows. With several outputs results have one more axis, k, which is the last except for samples.

    Attributes
    ----------
    include_noise : True (default): predictions of a new observation; False: of the function itself.
    trials : of likelihood="binomial": of how many trials an observation counts the successes, [n, outputs]; None: one.
    """

    include_noise: bool = True
    trials: np.ndarray | None = None

    def of_function(self) -> Predictive:
        """The same rows with predictions of the function itself, without the noise of observations."""
        return replace(self, include_noise=False)

    def of_trials(self, trials: Any) -> Predictive:
        """Predictions of successes in so many trials: a number, [n] or [n, outputs]; None: one trial."""
        return self if trials is None else replace(self, trials=self._checked_trials(trials))

    @cached_property
    def mean(self) -> np.ndarray:
        """Predictive mean, [n]."""
        return self._stacked(self._of_outputs(lambda output, block: output.mean_at(block, self.include_noise)))

    @cached_property
    def std(self) -> np.ndarray:
        """Predictive standard deviation, [n]."""
        return self._stacked(self._of_outputs(lambda output, block: output.moments(block, self.include_noise)[1]))

    @cached_property
    def cov(self) -> np.ndarray:
        """Predictive covariance between the rows, [n, n]."""
        outputs = self._outputs(slice(None))
        return self._stacked([output.cov(self.rows.whole, self.include_noise) for output in outputs])

    def summary(self, levels: Any = (), levels_of_function: bool = False) -> Summary:
        """Mean and standard deviation [n] and quantiles [n, levels]: as each alone, in one pass over the rows.

        With `levels_of_function` the quantiles are those of the function itself, without the noise of observations.
        """
        levels = _checked_levels(levels) if len(levels) else np.zeros(0)
        noise = self.include_noise
        blocks_of_outputs = self._in_blocks(
            lambda output, block: output.summary(block, levels, noise, noise and not levels_of_function)
        )
        of_outputs = [[np.concatenate(v) for v in zip(*one, strict=True)] for one in blocks_of_outputs]
        return Summary(*(self._stacked(list(v)) for v in zip(*of_outputs, strict=True)))

    def quantiles(self, levels: Any = (0.025, 0.5, 0.975)) -> np.ndarray:
        """Quantiles of the predictive mixture, [n, levels]."""
        levels, noise = _checked_levels(levels), self.include_noise
        return self._stacked(self._of_outputs(lambda output, block: output.quantiles(block, levels, noise)))

    def samples(self, n: int = 1, random_state: Any = 0) -> np.ndarray:
        """Joint draws, [rows, n] or, for several outputs, [rows, k, n]."""
        checks.integer(n, "n_samples", 1, None, "1 is one draw")
        rng = np.random.default_rng(checks.random_state(random_state).randint(2**31 - 1))
        outputs = self._outputs(slice(None))
        draws = [output.samples(rng, self.rows.whole, n, self.include_noise) for output in outputs]
        return np.stack(draws, 1) if self.model.several else draws[0]

    def _of_outputs(self, of: Callable[[Output, RowsInSpaces], np.ndarray]) -> list[np.ndarray]:
        """What `of` computes for all rows, for each output."""
        return [np.concatenate(blocks) for blocks in self._in_blocks(of)]

    def _in_blocks(self, of: Callable[[Output, RowsInSpaces], T]) -> list[tuple[T, ...]]:
        """What `of` computes for each block of rows, for each output."""
        blocks = self._each_block(lambda block, positions: [of(output, block) for output in self._outputs(positions)])
        return list(zip(*blocks, strict=True))

    def _outputs(self, positions: slice) -> list[Output]:
        """The outputs for some of the rows, with the trials of these rows."""
        if self.trials is None:
            return self.model.outputs
        return [output.of_trials(self.trials[positions, k]) for k, output in enumerate(self.model.outputs)]

    def _checked_trials(self, trials: Any) -> np.ndarray:
        if not all(output.of_successes for output in self.model.outputs):
            raise GpumError("trials was given, but the model does not count successes; use likelihood='binomial'")
        shape = (len(self.rows), len(self.model.outputs))
        try:
            counts = np.asarray(trials, float)
        except (TypeError, ValueError) as error:
            raise GpumError(f"trials must hold numbers, but {error}; give a number, or one a row") from None
        counts = counts[:, None] if counts.ndim == 1 else counts
        if counts.ndim and counts.shape not in (shape, (shape[0], 1)):
            raise GpumError(f"trials has shape {counts.shape}, but X has {shape[0]} rows; give a number, or one a row")
        if not np.all((counts >= 1) & (counts == np.round(counts)) & np.isfinite(counts)):
            raise GpumError("trials must be whole numbers from 1; give the number of trials of each row")
        return np.broadcast_to(counts, shape)

    def _stacked(self, values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values, -1) if self.model.several else values[0]


def _checked_levels(given: Any) -> np.ndarray:
    levels = np.atleast_1d(np.asarray(given, float))
    if not len(levels) or not np.all((levels > 0) & (levels < 1)):
        raise GpumError(
            f"quantiles must lie strictly between 0 and 1, got {checks.shown(given)}; (0.025, 0.975) is a 95 % interval"
        )
    return levels


@dataclass(frozen=True, eq=False)
class ClassPredictive(AtRows):
    """Predictions of a classifier for n rows."""

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Probability of each class, [n, classes]."""
        posterior = self.model.outputs[0].posterior
        return np.concatenate(self._each_block(lambda block, _: posterior.probabilities(block)))
