"""Charts (a metric and an inside test, learned or analytic) and the surfaces of atlases.

`chart` has what follows from any metric (drift, volume, magnification), `metric` the random metric of a learned
mapping; `boundary` and `gaps` say where a learned surface ends, `complex` gives its domain as simplices and
corridors; `learned` and `analytic` are the charts themselves, `straight` is any chart in even coordinates.
`atlas` makes a surface of local fits (`tangents`), their simplices (`stars`, `planar`) and nodes between rows
(`filling`). `projection` finds the nearest point of a simplex.
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
