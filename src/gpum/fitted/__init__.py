"""What a fit is: the cloud, its geometries, one posterior an output; frozen, and free of scikit-learn's estimators."""

from .cloud import Cloud
from .geometries import Geometries
from .model import FittedModel
from .predictive import ClassPredictive, Predictive
from .stored import LazyModel, StoredModel

__all__ = ["ClassPredictive", "Cloud", "FittedModel", "Geometries", "LazyModel", "Predictive", "StoredModel"]
