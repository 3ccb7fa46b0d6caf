"""scikit-learn estimators: latent models, `GPUMRegressor`, the paper's comparison methods, and what they share."""

from .comparison import (
    EuclideanGPRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    LatentGPRegressor,
)
from .latent_models import GPLVM, BayesianGPLVM
from .regressor import GPUMRegressor

__all__ = [
    "GPLVM",
    "BayesianGPLVM",
    "EuclideanGPRegressor",
    "GPUMRegressor",
    "GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor",
    "LatentGPRegressor",
]
