"""scikit-learn estimators: latent models, regressor, classifier, the paper's comparison methods.

Names are imported on first use: to read a fitted regressor and predict takes no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import GPUMClassifier
    from .comparison import EuclideanGPRegressor, GraphLaplacianGPRegressor, GraphMaternGPRegressor, LatentGPRegressor
    from .latent_models import GPLVM, BayesianGPLVM
    from .model_selection import LabelledKFold
    from .regressor import GPUMRegressor

_HOMES = {
    "classifier": "GPUMClassifier",
    "comparison": "EuclideanGPRegressor GraphLaplacianGPRegressor GraphMaternGPRegressor LatentGPRegressor",
    "latent_models": "GPLVM BayesianGPLVM",
    "model_selection": "LabelledKFold",
    "regressor": "GPUMRegressor",
}
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


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
