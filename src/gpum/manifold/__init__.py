"""Charts (a metric and an inside test, learned or analytic) and the surfaces of atlases.

`chart` has what follows from any metric (drift, volume, magnification), `metric` the random metric of a learned
mapping; `boundary` and `gaps` say where a learned surface ends, `complex` gives its domain as simplices and
corridors; `learned` and `analytic` are the charts themselves, `straight` is any chart in even coordinates.
`atlas` makes a surface of local fits (`tangents`), their simplices (`stars`) and nodes between rows
(`refinement`). Names are imported on first use: what needs no chart needs no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analytic import EmbeddedChart, SwissRoll
    from .boundary import CorridorBoundary, VarianceBoundary, corridor_boundary, variance_boundary
    from .chart import Chart, drift, evaluate, grid, inverse_root, length, magnification, volume
    from .learned import LearnedChart
    from .straight import StraightChart, straighten

_HOMES = {
    "analytic": "EmbeddedChart SwissRoll",
    "boundary": "CorridorBoundary VarianceBoundary corridor_boundary variance_boundary",
    "chart": "Chart drift evaluate grid inverse_root length magnification volume",
    "learned": "LearnedChart",
    "straight": "StraightChart straighten",
}
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


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
