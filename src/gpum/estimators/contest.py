"""Which geometries are worth learning: what labels say of what is like them and takes a second.

A geometry is not learned where all its *witnesses* are more than AHEAD nats of evidence behind the best of its
*rivals*, for every column of labels. Rivals of an atlas, which takes a second, are flat space and the first graph: were
other atlases among them, the first atlas that is built could leave out a better one. Those of a chart and of further
graphs are all geometries that there are by then. Witnesses are

    further graphs     the first graph (with FURTHER in the place of AHEAD: graphs differ more among each other; of 115
                       simulated label sets that it leaves out, two would give all graphs 1 and 4 % of the weight)
    charts, atlases    the first graph, the sketch of their dimension (`geometry.flat`), of a chart also the atlas
    ... where the surface is smooth
                       flat space with one length for all columns, too: of atlases that are not `build.ROUGH`, and of
                       charts where local charts of the atlas of their dimension fit all but SMOOTH of the rows

`python benchmarks/weights.py` prints the evidence of charts and atlases, in nats more than the best of the others,
where a rule with so many nats leaves them out. On simulated surfaces, solids, curves and tables of 120 to 200 rows,
with functions on the surface and functions of a few columns, the best of 90 charts (of 252) that 5 nats leave out was
3 nats behind, the best of 34 atlases 8, and without any one of them the NLPD was at most 0.013 larger. Graph and sketch
are not enough where a surface is smooth: the best chart of a sheet was 44 nats ahead of flat space where both were 20
behind, and that of a solid 63. A chart that is learned has all its boundary levels: the
evidence of some of them does not bound that of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..geometry.atlas import AtlasGeometry
from ..geometry.base import bare
from ..geometry.build import ATLAS_DIMS, Built
from .base import GRAPH, ONE_LENGTH

AHEAD, FURTHER = 5.0, 10.0  # nats
SMOOTH = 0.25  # simulated smooth clouds have 0 to 0.13 of their rows without a local chart, tables 0.76 to 1
KINDS = {"atlas": "atlases", "chart": "charts"}

LeftOut = tuple[str, Any, float]  # kind and dimension of a geometry, and by how many nats its witnesses are behind


@dataclass(frozen=True)
class Contest:
    """For each column of labels the log evidence of geometries and sketches, each alone, by their titles."""

    scores: tuple[dict[str, float], ...] = ()

    def with_scores(self, more: Sequence[dict[str, float]]) -> Contest:
        """With those of further geometries; empty where nothing is known of geometries alone."""
        return Contest(tuple(old | new for old, new in zip(self.scores or [{}] * len(more), more, strict=True)))

    def worth_all_graphs(self) -> bool:
        """Whether graphs beside the first one are built."""
        return self._behind([GRAPH]) <= FURTHER

    def behind(self, kind: str, dim: Any, smooth: bool) -> float:
        """By how many nats all witnesses of a chart or atlas of a dimension are behind; `smooth`: flat space is one."""
        dims = ATLAS_DIMS if isinstance(dim, str) else (dim,)
        alike = [f"{like} of dimension {q}" for like in ("sketch", "atlas") for q in dims]
        witnesses = [GRAPH, *alike, ONE_LENGTH] if smooth else [GRAPH, *alike]
        return self._behind(witnesses, no_rivals=("sketch", "atlas") if kind == "atlas" else ("sketch",))

    def most_promising(self, dims: Sequence[Any]) -> list[Any]:
        """Dimensions in the order of the evidence of their sketches."""
        total = lambda dim: sum(score.get(f"sketch of dimension {dim}", -np.inf) for score in self.scores)
        return sorted(dims, key=total, reverse=True)

    def _behind(self, witnesses: Sequence[str], no_rivals: tuple[str, ...] = ("sketch",)) -> float:
        """By how many nats they are behind the best rival, for the column where it is least; 0 if nothing is known.

        Titles of `no_rivals` begin so: sketches win nothing themselves.
        """
        least = []
        for score in self.scores:
            best = max((evidence for title, evidence in score.items() if not title.startswith(no_rivals)), default=0.0)
            least.append(best - max((score[title] for title in witnesses if title in score), default=best))
        return min(least, default=0.0)


def atlases(built: Built) -> dict[Any, float]:
    """The dimension of each atlas, and the fraction of the rows that its local charts do not fit."""
    inner = [one for one, _ in map(bare, built.geometries) if isinstance(one, AtlasGeometry)]
    return {one.atlas.dim: one.atlas.rough_ for one in inner}


def not_learned(left_out: Sequence[LeftOut]) -> list[str]:
    """A note about geometries that were not worth learning."""
    if not left_out:
        return []
    dims = {kind: ", ".join(str(q) for other, q, _ in sorted(left_out) if other == kind) for kind, _, _ in left_out}
    what = " and ".join(f"{KINDS[kind]} of dimension {of_kind}" for kind, of_kind in sorted(dims.items()))
    return [
        f"{what} were not learned, which saves time: quick sketches of such surfaces explain labels much worse than "
        "another geometry does; name them in `geometry` to learn them"
    ]
