"""The paper's four comparison methods, with the interface of `GPUMRegressor`.

They use the same regression: hyperparameters by evidence (or averaged), prediction of new rows, the same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.workers import one_blas_thread
from ..fitted import Cloud, Geometries
from ..fitted.cloud import SUBSET, with_subset
from ..geometry import graphs
from ..geometry.base import Builder
from ..geometry.flat import FlatGeometry, PlaneGeometry
from ..geometry.options import KernelTask, smoothness_names
from ..persistence.store import Store
from . import learning, shell
from .base import GPRegressor
from .targets import Labels

STRETCHES = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)


def one_geometry(cloud: Cloud, smoothness: str, make: Callable[[np.ndarray], Builder], seed: Any = 0) -> Geometries:
    """The geometry that `make` learns from the rows of a cloud, or from a subset that covers a large one."""
    kernels = KernelTask(smoothness_names(smoothness))
    with one_blas_thread:
        cloud, notes = with_subset(cloud, learning.drawn_seed(seed))
        return Geometries._of(cloud, [make(cloud.learned)], [0.0], notes, kernels)


class EuclideanGPRegressor(GPRegressor):
    """GP with a stationary kernel of the data space R^p; it does not use the surface.

    Parameters
    ----------
    smoothness : "average" (the evidence chooses, or all are averaged), "heat" (squared exponential) or a Matérn.
    hyperparameters : "evidence" (default, as in the paper: the single best candidate) or "average".
    """

    def __init__(self, *, smoothness: str = "average", hyperparameters: str = "evidence") -> None:
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters

    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        return one_geometry(cloud, self.smoothness, FlatGeometry.of)


class LatentGPRegressor(shell.ChartEstimator, GPRegressor):
    """GP with a stationary kernel of the latent coordinates R^q; it does not use metric and boundary.

    Each coordinate may be stretched against the others; the evidence chooses.

    Parameters
    ----------
    latent_dim, latent_model, n_jobs, random_state, verbose : as for `GPUMRegressor`.
    smoothness, hyperparameters : as for `EuclideanGPRegressor`.
    """

    _takes_missing = True

    def __init__(
        self,
        latent_dim: int | str = 2,
        *,
        latent_model: Any = "bgplvm",
        smoothness: str = "average",
        hyperparameters: str = "evidence",
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.latent_model = latent_model
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        learning.check_latent_model(self.latent_model)
        seed = learning.seed_of(self.random_state)

        def plane(X: np.ndarray) -> PlaneGeometry:
            options: dict[str, Any] = {"n_jobs": self.n_jobs, "random_state": seed, "verbose": self.verbose}
            given = learning.thawed(self.latent_model)
            model = learning.fitted_latent_model(given, X, len(cloud), self.latent_dim, Store(), **options)
            learning.check_columns(self, model, X)
            chart = model._geometry(X)
            q = chart.rows.shape[1]
            scales = [np.ones(q)]
            for d in range(1 if q == 2 else q if q > 1 else 0):  # of two coordinates, stretching one is enough
                scales += [np.where(np.arange(q) == d, f, 1.0) for f in STRETCHES]
            return PlaneGeometry(chart, scales)

        return one_geometry(cloud, self.smoothness, plane, seed)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on data without a surface, such as white noise
        return tags


class GraphLaplacianGPRegressor(GPRegressor):
    """GL-GP: heat kernel of the graph Laplacian of all pairs (appendix G).

    Bandwidth, number of eigenpairs and diffusion time are chosen by evidence, or averaged over.

    Parameters
    ----------
    normalisation : "paper" (appendix G) or "authors" (that of the code of GL-GP's authors).
    hyperparameters : "evidence" (default) or "average".
    """

    def __init__(self, *, normalisation: str = "paper", hyperparameters: str = "evidence") -> None:
        self.normalisation = normalisation
        self.hyperparameters = hyperparameters

    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        checks.option(self.normalisation, "normalisation", ("paper", "authors"))
        return one_geometry(
            cloud, "heat", lambda X: graphs.GraphGeometry(graphs.diffusion_spaces(X, normalisation=self.normalisation))
        )


class GraphMaternGPRegressor(GPRegressor):
    """Matérn kernel on the normalised Laplacian of the symmetric graph of nearest neighbours.

    Number of neighbours, width of the weights, smoothness and length scale are chosen by evidence, or averaged over.

    Parameters
    ----------
    n_neighbors : None (4, 6, 10 and 15 are tried) or one number.
    smoothness, hyperparameters : as for `EuclideanGPRegressor`.
    """

    def __init__(
        self, *, n_neighbors: int | None = None, smoothness: str = "average", hyperparameters: str = "evidence"
    ) -> None:
        self.n_neighbors = n_neighbors
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters

    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        tried: Any = graphs.NEIGHBOURS
        if self.n_neighbors is not None:
            most = min(len(cloud), SUBSET) - 1
            tried = (checks.integer(self.n_neighbors, "n_neighbors", 1, most, "fewer than the rows of X"),)
        return one_geometry(cloud, self.smoothness, lambda X: graphs.GraphGeometry(graphs.graph_spaces(X, tried)))
