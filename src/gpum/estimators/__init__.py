"""scikit-learn estimators: latent models, regressor, classifier, the paper's comparison methods."""

from .classifier import GPUMClassifier
from .comparison import EuclideanGPRegressor, GraphLaplacianGPRegressor, GraphMaternGPRegressor, LatentGPRegressor
from .latent_models import GPLVM, BayesianGPLVM
from .model_selection import LabelledKFold
from .regressor import GPUMRegressor

__all__ = [
    "GPLVM",
    "BayesianGPLVM",
    "EuclideanGPRegressor",
    "GPUMClassifier",
    "GPUMRegressor",
    "GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor",
    "LabelledKFold",
    "LatentGPRegressor",
]
