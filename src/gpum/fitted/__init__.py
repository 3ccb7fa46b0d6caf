"""The fitted model: the cloud, its geometries, and one posterior for each output. It never changes."""

from .cloud import Cloud
from .geometries import Geometries
from .model import FittedModel
from .predictive import Predictive
from .stored import restored, stored

__all__ = ["Cloud", "FittedModel", "Geometries", "Predictive", "restored", "stored"]
