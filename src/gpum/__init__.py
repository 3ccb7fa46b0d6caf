"""GPUM: Gaussian process regression on unknown manifolds with probabilistic metrics."""

__version__ = "0.1.0"

from . import datasets, plots
from .baselines import (
    EuclideanGPRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    LatentGPRegressor,
)
from .estimators import GPUMRegressor
from .geometry import EmbeddedChart, LearnedChart, SwissRoll
from .heat import brownian_path, heat_kernel
from .latent_models import GPLVM, BayesianGPLVM

__all__ = [
    "GPLVM",
    "BayesianGPLVM",
    "EmbeddedChart",
    "EuclideanGPRegressor",
    "GPUMRegressor",
    "GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor",
    "LatentGPRegressor",
    "LearnedChart",
    "SwissRoll",
    "__version__",
    "brownian_path",
    "datasets",
    "heat_kernel",
    "plots",
]
