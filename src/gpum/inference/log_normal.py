"""Output of positive numbers, whose logarithm is the function and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..basics.checks import GpumError
from . import design
from .left_out import Units
from .outputs import LARGEST_LOG, Output
from .posterior import RowsInSpaces


def log_units(logs: np.ndarray) -> tuple[float, float]:
    """As `gp.units`, of logarithms: where all are equal, the unit of y says nothing of their scale, which is 1."""
    mean, scale = float(logs.mean()), float(logs.std(ddof=min(len(logs) - 1, 1)))
    return mean, scale if scale > 1e-12 * max(abs(mean), 1.0) else 1.0


@dataclass(frozen=True)
class LogNormal(Output):
    """Predictions of positive numbers. The posterior is that of their logarithms, as are mean and scale.

    Quantiles and draws are those of the logarithm's mixture of Student t, to the power of e. The mean of such a
    variable does not exist, and that of its Gaussian components is decided by the widest of them, however light. Mean,
    deviation and covariance are therefore those of the log-normal whose logarithm has the mean m and the covariance C
    of the mixture:

        E[y_i] = e^(m_i + C_ii/2),   Cov[y_i, y_j] = E[y_i] E[y_j] (e^C_ij - 1)
    """

    linear: ClassVar[bool] = False

    @property
    def units_of(self) -> Units:
        """As `Output.units_of`, of logarithms."""
        return log_units

    @property
    def standardised(self) -> np.ndarray:
        """The logarithms in the units of the posterior, [n]."""
        return (np.log(self.labels) - self.mean) / self.scale

    @property
    def log_slopes(self) -> np.ndarray:
        """As `Output.log_slopes`: the slope of a power of e is the label itself."""
        return np.log(self.labels)

    def values(self, f: np.ndarray) -> np.ndarray:
        """Powers of e, medians of the labels."""
        return np.exp(super().values(f))

    def moments(self, rows: RowsInSpaces, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, [n] each."""
        return _log_normal(*super().moments(rows, noise))

    def cov(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Covariance between rows, [n, n]."""
        C = super().cov(rows, noise)
        mean, _ = _log_normal(super().moments(rows, noise)[0], np.sqrt(np.diag(C)))
        return np.outer(mean, mean) * np.expm1(C)

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles, [n, levels]."""
        return _powers(super().quantiles(rows, levels, noise))

    def samples(self, rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool) -> np.ndarray:
        """Joint draws, [rows, n]."""
        return _powers(super().samples(rng, rows, n, noise))

    def leave_one_out(self, levels: Sequence[float] = (0.025, 0.975)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, standard deviation [n] and quantiles [n, levels] of each label as the others predict it."""
        mean, std, ends = super().leave_one_out(levels)
        return *_log_normal(mean, std), _powers(ends)

    def of_prior(self, rng: np.random.Generator, f: np.ndarray, sd: np.ndarray, noise: bool) -> np.ndarray:
        """As `Output.of_prior`; at most e^LARGEST_LOG."""
        return np.exp(np.minimum(super().of_prior(rng, f, sd, noise), LARGEST_LOG))

    def gains_of(
        self, cloud: Sequence[np.ndarray], asked: design.Asked, level: float | None = None
    ) -> list[design.Gains]:
        """As `Output.gains_of`, of the logarithm."""
        if level is not None and level <= 0:
            raise GpumError(
                f"level is {level:g}, but likelihood is 'lognormal', whose y are above 0; give such a level"
            )
        return super().gains_of(cloud, asked, None if level is None else float(np.log(level)))


def _log_normal(mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [n] of log-normals whose logarithms have these."""
    expected = _powers(mean + 0.5 * std**2)  # where e^(std²) overflows it does too, or the labels are below e^-175
    return expected, expected * np.sqrt(np.expm1(np.minimum(std**2, 2 * LARGEST_LOG)))


def _powers(logs: np.ndarray) -> np.ndarray:
    """e to the power of logs [n, ...]; refuses what is too large for a number."""
    large = np.argwhere(~(logs < LARGEST_LOG))
    if len(large):
        raise GpumError(
            f"a prediction at row {large[0, 0]} would be e^{logs[tuple(large[0])]:.3g}, too large for a number: the "
            "labels leave open how large y is there; label rows nearby, or fit y in a range of fewer orders"
        )
    return np.exp(logs)
