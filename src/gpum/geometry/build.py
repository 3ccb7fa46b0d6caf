"""Builds the requested geometries of a cloud.

    "chart"   learned charts: for each requested dimension, the best distinct fits of the latent model
    "atlas"   many small charts, glued together, for each dimension up to three
    "graph"   the graph of nearest neighbours, with several numbers of neighbours and widths
    "flat"    no surface: the data space itself

Prior weights are equal over the requested kinds of geometry, within each kind over its dimensions, and within each
dimension over its fits. A geometry that cannot be built on a cloud is left out, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from numbers import Integral
from typing import Any

import numpy as np

from ..basics import checks, neighbours
from ..basics.checks import GpumError, NoSurface
from ..basics.missing import Filled, fill_in, fill_in_others, together
from ..basics.progress import Reporter
from ..basics.threads import at_once
from ..basics.workers import results
from ..persistence.checkpoint import Checkpoint, key
from . import graphs
from .atlas import AtlasGeometry
from .base import Geometry
from .flat import flat_geometry
from .graph import GraphGeometry
from .incomplete import IncompleteGeometry
from .priors import GEOMETRIES

CHART_DIMS = (1, 2)  # latent_dim="average"
SOLID_DIMS = (1, 2, 3)  # the same, for a cloud whose dimension is above SOLID
SOLID = 2.4  # threshold for `neighbours.dimension`, which is 1.9 to 2.3 on surfaces; noise raises it, also on curves
ATLAS_DIMS = (1, 2, 3)
ROUGH = 0.5  # an atlas is left out when no local chart fits more than this fraction of the rows


@dataclass(frozen=True)
class Many:
    """Rows [M, p] of a large cloud that graphs are built on, and their positions [M] among those of other geometries.

    The positions are -1 for rows that others are not learned from.
    """

    rows: np.ndarray
    own: np.ndarray


@dataclass(frozen=True)
class Built:
    """Geometries of a cloud, their log prior weights, and notes about those that were left out."""

    geometries: list[Geometry]
    log_priors: list[float]
    notes: list[str]

    def only(self, names: Sequence[str]) -> Built:
        """The geometries of some kinds, with equal prior weights over these kinds."""
        some = [k for k, geometry in enumerate(self.geometries) if geometry.name in names]
        return self._with([self.geometries[k] for k in some], [self.log_priors[k] for k in some], self._kinds())

    def beside(self, other: Built) -> Built:
        """The geometries of both, which are of different kinds, with equal prior weights over all kinds."""
        geometries = [*self.geometries, *other.geometries]
        priors = [
            *(p + log(self._kinds()) for p in self.log_priors), *(p + log(other._kinds()) for p in other.log_priors),
        ]  # fmt: skip
        return replace(self._with(geometries, priors, 1), notes=[*self.notes, *other.notes])

    def weighed(self, log_weight: float, other: Built, its_log_weight: float) -> Built:
        """The geometries of both, with a log prior weight for each of the two."""
        priors = [*(p + log_weight for p in self.log_priors), *(p + its_log_weight for p in other.log_priors)]
        return Built([*self.geometries, *other.geometries], priors, [*self.notes, *other.notes])

    def _kinds(self) -> int:
        return len({geometry.name for geometry in self.geometries})

    def _with(self, geometries: list[Geometry], log_priors: list[float], kinds: int) -> Built:
        """Geometries whose prior weights were divided by `kinds`, now divided by the number of their own kinds."""
        now = len({geometry.name for geometry in geometries}) or 1
        return replace(self, geometries=geometries, log_priors=[p + log(kinds) - log(now) for p in log_priors])

    @classmethod
    def one(cls, geometry: Geometry) -> Built:
        """A single geometry."""
        return cls([geometry], [0.0], [])


def geometry_names(geometry: Any) -> list[str]:
    """The geometries that an estimator's `geometry` means."""
    if isinstance(geometry, str):
        checks.option(geometry, "geometry", ("average", *GEOMETRIES))
        return list(GEOMETRIES) if geometry == "average" else [geometry]
    try:
        names = list(dict.fromkeys(geometry))
    except TypeError:
        names = []
    if not names:
        raise GpumError(
            f"geometry must be 'average', a name or a list of names of {', '.join(map(repr, GEOMETRIES))}, got "
            f"{geometry!r}; use one of these"
        )
    return [checks.option(name, "geometry", GEOMETRIES) for name in names]


def dimensions(latent_dim: Any) -> list[int] | str:
    """The dimensions that an estimator's `latent_dim` means; "average" and "auto" are returned unchanged."""
    if isinstance(latent_dim, str):
        return checks.option(latent_dim, "latent_dim", ("average", "auto"))
    given = [latent_dim] if isinstance(latent_dim, Integral) or not np.iterable(latent_dim) else list(latent_dim)
    if not given:
        raise GpumError("latent_dim is an empty sequence; give the surface's dimension, 'average' or 'auto'")
    advice = "give the surface's dimension, several of them, 'average' or 'auto'"
    return sorted({checks.integer(q, "latent_dim", 1, None, advice) for q in given})


def build(
    names: Sequence[str], latent_dim: Any, X: np.ndarray, charts: Callable[[int | str, int, bool], Iterable[Geometry]],
    graph: Callable[..., Sequence[Any]] = graphs.graph_spaces,
    *, checkpoint: Checkpoint, many: Many | None = None, once: bool = False, alone: bool | None = None,
    optional: bool = False, n_modes: int | None = None, n_jobs: int | None = None, verbose: int = 0,
) -> Built:  # fmt: skip
    """The geometries of a cloud [N, p].

    `charts(q, verbose, quick)` learns the charts of one dimension; with `once` it is called for the first dimension
    only. `quick` says that the cloud does not look like it has that dimension, so that it should take little time.
    `alone` says that no other kind is requested (default: `names` has one); a rough atlas is then used as it is.
    With `optional` there may be none at all, and the notes say why.
    `graph` makes the graphs, of the rows `many` where these are given. Atlases and graphs that are in
    `checkpoint` are not recomputed. By default all geometries are built in parallel threads. Atlases and graphs also
    use the workers of joblib; a latent model uses them for its starts.
    """
    dims = dimensions(latent_dim)
    alone = len(names) == 1 if alone is None else alone
    filled = fill_in(X) if np.isnan(X).any() else None  # for charts the latent model handles this
    whole = X if filled is None else filled.rows[filled.sound]
    notes: list[str] = [] if filled is None else [_missing(X, filled)]
    on, within = whole, {name: None if filled is None or name == "chart" else Rows(filled, X) for name in names}
    if many is not None and "graph" in names:
        on = many.rows
        if filled is not None:
            on, sound = fill_in_others(filled, many.rows, many.own)
            on, within["graph"] = on[sound], Rows(filled, many.rows, sound)
            if not sound.all():
                notes.append(
                    f"of the rows of graphs, {np.sum(~sound):,} cannot be filled in; they are projected onto them"
                )
    of_charts: Sequence[int | str] = [dims] if isinstance(dims, str) else dims
    solid = dims == "average" and "chart" in names and neighbours.dimension(whole) >= SOLID
    if dims == "average":
        of_charts = SOLID_DIMS if solid else CHART_DIMS
    of_charts = of_charts[:1] if once else of_charts
    of_atlases: Sequence[int] = ATLAS_DIMS if isinstance(dims, str) else dims
    count = {"chart": len(of_charts), "atlas": len(of_atlases)}
    verbose = checks.integer(
        int(verbose) if isinstance(verbose, bool) else verbose, "verbose", 0, None, "1 shows progress"
    )
    side_by_side = at_once(n_jobs) > 1 and sum(count.get(name, 1) for name in names) > 1 and not (once and verbose)
    members: dict[str, list[Callable[[], Iterable[Geometry]]]] = {
        "chart": [partial(charts, q, 0 if side_by_side else verbose, solid and q == 1) for q in of_charts],
        "atlas": [partial(_atlas, whole, q, n_modes, alone, checkpoint) for q in of_atlases],
        "graph": [partial(_graphs, on, partial(graph, on, n_jobs=n_jobs), checkpoint)],
        "flat": [lambda: [flat_geometry(whole, by_column=True)]],
    }
    geometries: list[Geometry] = []
    log_priors: list[float] = []
    tasks = {name: [partial(_tried, make, within[name]) for make in members[name]] for name in names}
    everything = [task for name in names for task in tasks[name]]
    with Reporter(side_by_side and verbose, len(everything), "learning the surface in several ways") as report:
        made = results(everything, n_jobs) if side_by_side else iter(())
        for name in names:
            found: list[list[Geometry]] = []
            made = made if side_by_side else results(tasks[name], n_jobs if name == "atlas" else 1)
            for k in range(len(tasks[name])):
                with Reporter(verbose and not side_by_side and name != "chart", None, f"building geometry: {name}"):
                    some = next(made)
                report.advance(f"geometry: {name} {k + 1} of {len(tasks[name])}", 1)
                if not isinstance(some, NoSurface):
                    found.append(some)
                elif alone and len(tasks[name]) == 1:
                    raise some
                else:
                    notes.append(f"one {name} is left out: {some}")
            for some in found:
                geometries += some
                log_priors += [-log(len(found) * len(some))] * len(some)
    if not geometries and not optional:
        raise NoSurface(f"no geometry can be built on this cloud: {'; '.join(notes)}")
    kinds = len({geometry.name for geometry in geometries}) or 1
    return Built(geometries, [p - log(kinds) for p in log_priors], notes)


@dataclass(frozen=True)
class Rows:
    """What an `IncompleteGeometry` has beside the inner geometry."""

    filled: Filled
    cloud: np.ndarray
    sound: np.ndarray | None = None


def _tried(make: Callable[[], Iterable[Geometry]], cloud: Rows | None) -> list[Geometry] | NoSurface:
    """The geometries, or the error that says why there are none: an error raised in a worker would stop the others.

    `cloud` is a cloud with missing readings; the geometries are made from its sound rows.
    """
    try:
        made = list(make())
        if cloud is None:
            return made
        return [IncompleteGeometry(one, cloud.filled, cloud.cloud, sound=cloud.sound) for one in made]
    except NoSurface as error:
        return error


def _missing(X: np.ndarray, filled: Filled) -> str:
    gone = np.isnan(X)
    badly = int(np.sum(~filled.sound))
    text = f"{gone.mean():.0%} of the readings are missing, in {checks.counted(int(gone.any(1).sum()), 'row')}"
    if together(X):
        text += (
            "; they are missing together, not here and there: if they are missing because they were too small (or too "
            "large) to be read, put the limit in their place, which says more than a gap"
        )
    if badly:
        text += (
            f"; {badly} of these rows cannot be filled in from other rows: atlas, graph and flat space are built "
            "without them, and they are projected onto these"
        )
    return text


def _graphs(X: np.ndarray, make: Callable[[], Sequence[Any]], checkpoint: Checkpoint) -> list[Geometry]:
    """One geometry of all graphs, which refer to one array of the cloud."""
    found = checkpoint.once("graphs", list, lambda: list(make()))
    return [GraphGeometry(graphs.on_cloud(X, found))]


def _atlas(
    X: np.ndarray, dim: int, n_modes: int | None, alone: bool, checkpoint: Checkpoint
) -> list[Geometry]:  # fmt: skip
    """The atlas of one dimension; beside other geometries it is used only where its charts fit most rows."""
    if dim > max(ATLAS_DIMS):
        raise NoSurface(f"an atlas has at most {max(ATLAS_DIMS)} dimensions, and latent_dim is {dim}")
    make = partial(AtlasGeometry.of, X, dim, n_modes, 1.0 if alone else ROUGH)
    return [checkpoint.once(f"atlas {dim} {key(X, n_modes, alone)}", AtlasGeometry, make)]
