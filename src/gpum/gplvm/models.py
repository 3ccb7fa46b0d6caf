"""The two latent models: variational, and maximum likelihood with points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..basics import padding
from . import bound, likelihood, patterns, precise, starts
from .patterns import Patterns

Data = bound.FactoredCloud | Patterns  # a whole cloud, or one with missing readings

HELD_NOISE = 0.01  # noise variance while it is fixed, as a fraction of the variance of the data
N_INDUCING = 50  # default, or the number of rows if that is smaller
START_VARIANCE = 0.01  # of q(X); the prior's is 1
# A start has one in COARSE of the inducing inputs, and at least FEWEST: on simulated clouds the bounds reached in the
# end are higher than from starts with all of them: a mapping that cannot fold leaves rows in order.
COARSE, FEWEST = 3, 10
# Exponentials of an evaluation up to which fewer inducing inputs are padded to all of them: to compile a program of
# their own would take longer.
SHARED = 2**18


@dataclass(frozen=True)
class LatentPosterior:
    """The posterior of a fit in the scaled units of the model: latent rows, and the mapping (see `Mapping`)."""

    latent: np.ndarray  # means of q(X), [N, q]
    variance: np.ndarray  # and variances, [N, q]
    Z: np.ndarray  # inducing inputs, [m, q]
    ell: np.ndarray
    gamma: float
    beta: float
    W: np.ndarray  # mean weights, [m, p]
    Lam: np.ndarray
    R: np.ndarray


def data(rows: np.ndarray) -> Data:
    """A cloud [N, p] (NaN where a reading is missing) in the form that the objectives need."""
    return patterns.compress(rows) if np.isnan(rows).any() else bound.fill_cloud(bound.compress(rows))


@dataclass(frozen=True)
class Variational:
    """The Bayesian GPLVM with `n_inducing` inducing inputs (None: N_INDUCING)."""

    n_inducing: int | None = None
    latent = ("mu", "log_s")
    steps, cut = staticmethod(bound.typical_steps), staticmethod(bound.cut)

    def _most(self, N: int) -> int:
        return min(self.n_inducing or N_INDUCING, N)

    def start(self, X: np.ndarray, rng: np.random.Generator) -> bound.Parameters:
        """Means X with small variances; few inducing inputs are spread over X."""
        m = self._most(len(X))
        return bound.Parameters(
            mu=X,
            log_s=np.full(X.shape, np.log(START_VARIANCE)),
            Z=starts.inducing_inputs(X, max(m // COARSE, min(m, FEWEST)), rng),
            log_ell=np.zeros(X.shape[1]),
            log_gamma=np.asarray(0.0),
            log_beta=np.asarray(-np.log(HELD_NOISE)),
        )

    @staticmethod
    def objective(theta: bound.Parameters, data: tuple[Data, Any]) -> Any:
        """The negative bound of padded parameters, given the padded cloud and which inducing inputs are not padding."""
        cloud, live = data
        if isinstance(cloud, Patterns):
            return -patterns.variational_bound(theta, cloud, live=live)
        return -bound.bound(theta, cloud, live=live)

    @staticmethod
    def precise_objective(theta: bound.Parameters, data: tuple[Data, Any]) -> Any:
        """The same, with rounding errors that are a millionth and more."""
        cloud, live = data
        return -precise.bound(theta, cloud.blocks, cloud.weight, live=live)

    def filled(self, theta: bound.Parameters, data: Data) -> tuple[bound.Parameters, tuple[Data, Any]]:
        """theta and data with padding: rows and inducing inputs of weight 0."""
        rows, m = len(data.weight), self._most(len(theta.mu))
        theta, live = bound.filled(theta, rows, m if rows * m**2 / 2 <= SHARED else 0)
        return theta, (data, live)

    def finer(self, theta: bound.Parameters) -> bound.Parameters:
        """theta with all inducing inputs, spread anew over the latent rows."""
        m = self._most(len(theta.mu))
        if len(theta.Z) == m:
            return theta
        return replace(theta, Z=starts.inducing_inputs(theta.mu, m, np.random.default_rng(0)))

    def reorder(self, theta: bound.Parameters, order: np.ndarray) -> Any:
        """theta with the columns of mu, log_s, Z and ell in another order."""
        mu, log_s, Z = (x[:, order] for x in (theta.mu, theta.log_s, theta.Z))
        return replace(theta, mu=mu, log_s=log_s, Z=Z, log_ell=theta.log_ell[order])

    def posterior(self, theta: bound.Parameters, rows: np.ndarray) -> LatentPosterior:
        """The posteriors q(X) and q(U)."""
        return LatentPosterior(
            theta.mu, np.exp(theta.log_s), theta.Z, np.exp(theta.log_ell), float(np.exp(theta.log_gamma)),
            float(np.exp(theta.log_beta)),
            *_weighed(rows, theta, precise.inducing_posterior, patterns.inducing_posterior),
        )  # fmt: skip


@dataclass(frozen=True)
class PointGPLVM:
    """The maximum-likelihood GPLVM: the latent rows are points, and are also the inducing inputs."""

    latent = ("X",)
    steps, cut = staticmethod(likelihood.typical_steps), staticmethod(likelihood.cut)

    def start(self, X: np.ndarray, rng: np.random.Generator) -> likelihood.Parameters:
        """Latent rows at X."""
        return likelihood.Parameters(X, np.zeros(X.shape[1]), np.asarray(0.0), np.asarray(-np.log(HELD_NOISE)))

    @staticmethod
    def objective(theta: likelihood.Parameters, data: Data) -> Any:
        """The negative log likelihood of padded parameters."""
        if isinstance(data, Patterns):
            return -patterns.log_likelihood(theta, data)
        return -likelihood.log_likelihood(theta, data)

    precise_objective = objective

    def filled(self, theta: likelihood.Parameters, data: Data) -> tuple[likelihood.Parameters, Data]:
        """theta and data with padding: rows of weight 0."""
        return replace(theta, X=padding.fill(theta.X, len(data.weight))), data

    def finer(self, theta: likelihood.Parameters) -> likelihood.Parameters:
        """The same: every latent row is an inducing input."""
        return theta

    def reorder(self, theta: likelihood.Parameters, order: np.ndarray) -> Any:
        """theta with the columns of X and ell in another order."""
        return replace(theta, X=theta.X[:, order], log_ell=theta.log_ell[order])

    def posterior(self, theta: likelihood.Parameters, rows: np.ndarray) -> LatentPosterior:
        """The latent rows without uncertainty, and the posterior of the mapping given them."""
        return LatentPosterior(
            theta.X, np.zeros(theta.X.shape), theta.X, np.exp(theta.log_ell), float(np.exp(theta.log_gamma)),
            float(1 / likelihood.noise_variance(theta)),
            *_weighed(rows, theta, likelihood.posterior, patterns.point_posterior),
        )  # fmt: skip


# A latent variable model as pure functions of its parameters theta and of a cloud as `data` makes it. theta is a
# dataclass of arrays with at least `log_ell` and `log_beta`; `latent` names its fields with latent coordinates of rows.
Model = Variational | PointGPLVM


def _weighed(
    rows: np.ndarray, theta: Any, whole: Callable[[Any], Any], incomplete: Callable[[Any, np.ndarray], Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, Lam and R by `whole`, or by `incomplete` if readings are missing."""
    if np.isnan(rows).any():
        return incomplete(theta, rows)
    P, Lam, R = whole(theta)
    return P @ rows, Lam, R
