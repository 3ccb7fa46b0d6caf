"""The paper's four comparison methods, with the interface of `GPUMRegressor`.

They share its regression: hyperparameters by evidence (or averaged), prediction for rows never seen, the same noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..regression import graphs
from ..regression.surfaces import FlatSurface, GraphSurface, flat_surface
from .base import GPRegressor
from .geometries import Built
from .regressor import SurfaceRegressor
from .surfaces import check_latent_model

STRETCHES = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)


class EuclideanGPRegressor(GPRegressor):
    """GP with a stationary kernel of the data space R^p; blind to the surface.

    Parameters
    ----------
    smoothness : "average" (the evidence chooses, or all are averaged), "heat" (squared exponential) or a Matérn.
    hyperparameters : "evidence" (default) or "average".
    """

    def __init__(self, *, smoothness: str = "average", hyperparameters: str = "evidence") -> None:
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters

    def _learn(self, X: np.ndarray) -> Built:
        return Built.one(flat_surface(X))


class LatentGPRegressor(SurfaceRegressor):
    """GP with a stationary kernel of the latent coordinates R^q; blind to metric and boundary.

    Each coordinate may be stretched against the others; the evidence chooses.

    Parameters
    ----------
    latent_dim, latent_model, n_jobs, random_state, verbose : as for `GPUMRegressor`.
    smoothness, hyperparameters : as for `EuclideanGPRegressor`.
    """

    def __init__(
        self,
        latent_dim: int | str = 2,
        *,
        latent_model: Any = "bgplvm",
        smoothness: str = "average",
        hyperparameters: str = "evidence",
        n_jobs: int | None = None,
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

    def _learn(self, X: np.ndarray) -> Built:
        check_latent_model(self.latent_model)
        model = self._learn_latent(self.latent_model, X, self.latent_dim)
        self.latent_model_, self.latent_ = model, model.coordinates(X)
        q = self.latent_.shape[1]
        scales = [np.ones(q)]
        for d in range(1 if q == 2 else q if q > 1 else 0):  # of two coordinates, stretching one is enough
            scales += [np.where(np.arange(q) == d, f, 1.0) for f in STRETCHES]
        return Built.one(FlatSurface(self.latent_, scales, model.placement))

    def _build(self, X: np.ndarray, y: np.ndarray | None = None) -> None:
        super()._build(X, y)
        surface = self._surfaces[0]
        assert isinstance(surface, FlatSurface)
        self.latent_ = self._on_chart(surface)


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

    def _learn(self, X: np.ndarray) -> Built:
        checks.option(self.normalisation, "normalisation", ("paper", "authors"))
        return Built.one(GraphSurface(graphs.diffusion_spaces(X, normalisation=self.normalisation)))


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

    def _learn(self, X: np.ndarray) -> Built:
        tried: Any = graphs.NEIGHBOURS
        if self.n_neighbors is not None:
            tried = (checks.integer(self.n_neighbors, "n_neighbors", 1, len(X) - 1, "fewer than the rows of X"),)
        return Built.one(GraphSurface(graphs.graph_spaces(X, tried)))
