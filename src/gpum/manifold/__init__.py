"""Charts: a metric and an inside test, learned or analytic.

`chart` holds what follows from any metric (drift, volume, magnification), `metric` the random metric
of a learned mapping, `boundary` and `gaps` where a learned surface ends, `learned` and `analytic`
the charts themselves, `straight` any chart in even coordinates.
"""

from .analytic import EmbeddedChart, SwissRoll
from .boundary import CorridorBoundary, VarianceBoundary, corridor_boundary, variance_boundary
from .chart import Chart, drift, evaluate, grid, inverse_root, length, magnification, volume
from .learned import LearnedChart
from .straight import StraightChart, straighten

__all__ = [
    "Chart",
    "CorridorBoundary",
    "EmbeddedChart",
    "LearnedChart",
    "StraightChart",
    "SwissRoll",
    "VarianceBoundary",
    "corridor_boundary",
    "drift",
    "evaluate",
    "grid",
    "inverse_root",
    "length",
    "magnification",
    "straighten",
    "variance_boundary",
    "volume",
]
