"""GPUM: Gaussian process regression on unknown manifolds with probabilistic metrics."""

__version__ = "0.1.0"

from . import datasets, plots
from .estimators import (
    GPLVM,
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    LatentGPRegressor,
)
from .files import model_io
from .geometry import EmbeddedChart, LearnedChart, SwissRoll
from .heat import Atlas, brownian_path, heat_kernel, spectral
from .report import diagnostics

__all__ = [
    "GPLVM",
    "Atlas",
    "BayesianGPLVM",
    "EmbeddedChart",
    "EuclideanGPRegressor",
    "GPUMClassifier",
    "GPUMRegressor",
    "GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor",
    "LatentGPRegressor",
    "LearnedChart",
    "SwissRoll",
    "__version__",
    "brownian_path",
    "datasets",
    "diagnostics",
    "heat_kernel",
    "model_io",
    "plots",
    "spectral",
]
