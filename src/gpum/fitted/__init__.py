"""The fitted model: the cloud, its geometries, and one posterior for each output. It never changes."""

from .cloud import Cloud
from .geometries import Geometries
from .model import FittedModel
from .predictive import ClassPredictive, Predictive
from .stored import restored, stored
from .surfaces import FittedSurface

__all__ = ["ClassPredictive", "Cloud", "FittedModel", "FittedSurface", "Geometries", "Predictive", "restored", "stored"]
