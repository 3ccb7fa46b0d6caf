"""Builds the requested geometries of a cloud.

    "chart"   learned charts: for each requested dimension, the best distinct fits of the latent model
    "atlas"   many small charts, glued together, for each dimension up to three
    "graph"   the graph of nearest neighbours, with several numbers of neighbours and widths
    "flat"    no surface: the data space itself

Prior weights are equal over the requested kinds of geometry, within each kind over its dimensions, and within each
dimension over its fits; that of an atlas is multiplied by the trust that the rows' own distances from its local charts
give it (`atlas.AtlasGeometry.trust`). A geometry that cannot be built on a cloud is left out, and a note says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import log
from typing import Any

import numpy as np

from ..basics import checks, neighbours
from ..basics.checks import NoSurface
from ..basics.formats import percent
from ..basics.missing import Filled, fill_in, fill_in_others, together
from ..basics.progress import Reporter
from ..basics.workers import Interrupted, at_once, results
from ..manifold.atlas import too_rough
from ..persistence.store import Store
from . import graphs
from .atlas import AtlasGeometry
from .base import Builder, IncompleteGeometry, bare
from .flat import FlatGeometry
from .options import dimensions
from .priors import GEOMETRIES

CHART_DIMS = (1, 2)  # latent_dim="average"
SOLID_DIMS = (1, 2, 3)  # the same, for a cloud whose dimension is above SOLID
SOLID = 2.4  # threshold for `neighbours.dimension`, which is 1.9 to 2.3 on surfaces; noise raises it, also on curves
ATLAS_DIMS = (1, 2, 3)
ROUGH = 0.5  # an atlas shows that there is a surface if local charts do not fit at most this fraction of the rows


@dataclass(frozen=True)
class Many:
    """Rows [M, p] of a large cloud that graphs are built on, and their positions [M] among those of other geometries.

    The positions are -1 for rows that others are not learned from.
    """

    rows: np.ndarray
    position: np.ndarray


@dataclass(frozen=True)
class Rows:
    """Complete rows that one kind of geometry is built on; where readings are missing, what completes other rows.

    `cloud` are the same rows with the missing readings (NaN), and `sound` says which of them are complete.
    """

    rows: np.ndarray
    filled: Filled | None = None
    cloud: np.ndarray | None = None
    sound: np.ndarray | None = None

    def complete(self, geometry: Builder) -> Builder:
        """A geometry of the complete rows as one of all of them."""
        if self.filled is None:
            return geometry
        assert self.cloud is not None
        return IncompleteGeometry(geometry, self.filled, self.cloud, sound=self.sound)


Outcome = Sequence[Builder] | NoSurface  # of a task: geometries, or why there are none


@dataclass(frozen=True)
class Task:
    """Geometries of one kind to be built: `make` is a function of this library with its inputs."""

    kind: str
    make: Callable[[], Iterable[Builder]]
    rows: Rows

    def run(self) -> Outcome:
        """The geometries, or the error that says why there are none: an error raised in a worker stops the others."""
        try:
            return [self.rows.complete(geometry) for geometry in self.make()]
        except NoSurface as error:
            return error


@dataclass(frozen=True)
class Built:
    """Geometries of a cloud, in groups of one kind and dimension, and notes about those that were left out."""

    groups: list[list[Builder]]
    notes: list[str]

    @property
    def geometries(self) -> list[Builder]:
        """All of them."""
        return [geometry for group in self.groups for geometry in group]

    def only(self, kinds: Sequence[str]) -> Built:
        """The geometries of some kinds."""
        return Built([group for group in self.groups if group[0].name in kinds], self.notes)

    def without(self, kinds: Sequence[str]) -> Built:
        """The geometries of other kinds."""
        return Built([group for group in self.groups if group[0].name not in kinds], self.notes)

    def beside(self, other: Built) -> Built:
        """The geometries of both; what both note is said once."""
        return Built([*self.groups, *other.groups], list(dict.fromkeys([*self.notes, *other.notes])))

    def priors(self) -> list[float]:
        """Log prior weights: equal over kinds, groups of a kind and geometries of a group, but for trust in them."""
        groups_of = Counter(group[0].name for group in self.groups)
        log_priors = np.array(
            [
                _log_trust(geometry) - log(groups_of[group[0].name] * len(group))
                for group in self.groups
                for geometry in group
            ]
        )
        return [float(prior) for prior in log_priors - np.logaddexp.reduce(log_priors)]


def rows_of(X: np.ndarray, many: Many | None, kinds: Sequence[str]) -> tuple[dict[str, Rows], list[str]]:
    """The complete rows that each kind of geometry of a cloud [N, p] is built on, and notes about missing readings.

    Charts take missing readings themselves: their latent model handles them.
    """
    filled = fill_in(X) if np.isnan(X).any() else None
    if filled is None:
        rows = {kind: Rows(X) for kind in GEOMETRIES}
        return rows if many is None else {**rows, "graph": Rows(many.rows)}, []
    rows = {kind: Rows(filled.rows[filled.sound], filled, X) for kind in GEOMETRIES}
    notes = [_missing(X, filled)]
    if many is not None and "graph" in kinds:
        on, sound = fill_in_others(filled, many.rows, many.position)
        rows["graph"] = Rows(on[sound], filled, many.rows, sound)
        if not sound.all():
            lost = checks.counted(int(np.sum(~sound)), "row")
            notes.append(f"graphs are built without {lost} that cannot be filled in, and these are placed on them")
    return {**rows, "chart": Rows(X)}, notes


def chart_dimensions(latent_dim: Any, rows: np.ndarray) -> list[tuple[int | str, bool]]:
    """The dimensions in which charts of complete rows are learned, and whether one start is enough.

    It is where the cloud does not look like it has that dimension.
    """
    dims = dimensions(latent_dim)
    if dims != "average":
        return [(dims, False)] if isinstance(dims, str) else [(q, False) for q in dims]
    solid = neighbours.dimension(rows) >= SOLID
    return [(q, solid and q == 1) for q in (SOLID_DIMS if solid else CHART_DIMS)]


def atlas_dimensions(latent_dim: Any) -> list[int]:
    """The dimensions of atlases."""
    dims = dimensions(latent_dim)
    return list(ATLAS_DIMS) if isinstance(dims, str) else dims


def make_flat(rows: np.ndarray) -> list[Builder]:
    """Flat space."""
    return [FlatGeometry.of(rows, by_column=True)]


def make_graph(rows: np.ndarray, kind: str, options: dict[str, Any], n_jobs: int | None, store: Store) -> list[Builder]:
    """One geometry of graphs OF_SURFACES or OF_CLUSTERS, of the usual numbers of neighbours and widths or `options`.

    Graphs of clusters have no widths.
    """
    if kind == graphs.OF_SURFACES:
        return [graphs.GraphGeometry(graphs.graph_spaces(rows, **options, n_jobs=n_jobs, store=store))]
    return [graphs.GraphGeometry(graphs.cluster_spaces(rows, options.get("n_neighbors"), n_jobs=n_jobs, store=store))]


def make_atlas(rows: np.ndarray, dim: int, n_modes: int | None, roughest: float, store: Store) -> list[Builder]:
    """The atlas of one dimension, unless its charts do not fit more than `roughest` of the rows."""
    if dim > max(ATLAS_DIMS):
        raise NoSurface(f"an atlas has at most {max(ATLAS_DIMS)} dimensions, and latent_dim is {dim}")
    make = partial(AtlasGeometry.of, rows, dim, n_modes, roughest)
    made = store.once((f"atlas {dim}", rows, dim, n_modes), make, AtlasGeometry)
    if made.atlas.rough_ > roughest:  # it was made where rougher ones were allowed
        raise too_rough(made.atlas.rough_, dim)
    return [made]


def build(tasks: Sequence[Task], *, alone: bool, n_jobs: int | None = None, verbose: int = 0) -> Built:
    """The geometries that tasks make, and notes about those that cannot be built.

    With `alone` no other kind is requested, and the error of a single task is raised. Tasks run in parallel threads.
    Atlases and graphs also use the workers of joblib; a latent model uses them for its starts.
    """
    side_by_side = at_once(n_jobs) > 1 and len(tasks) > 1
    done: dict[int, Outcome] = {}  # also those that are ready before one that comes earlier
    running = [partial(_kept, task, done, k) if side_by_side else task.run for k, task in enumerate(tasks)]
    try:
        with Reporter(side_by_side and verbose, len(tasks), "learning the surface in several ways") as report:
            made = results(running, n_jobs) if side_by_side else iter(())
            for kind, same in groupby(range(len(tasks)), lambda k: tasks[k].kind):
                of_kind = list(same)
                made = (
                    made if side_by_side else results([running[k] for k in of_kind], n_jobs if kind == "atlas" else 1)
                )
                for count, k in enumerate(of_kind, 1):
                    with Reporter(verbose and not side_by_side and kind != "chart", None, f"building geometry: {kind}"):
                        done[k] = next(made)
                    report.advance(f"geometry: {kind} {count} of {len(of_kind)}", 1)
    except KeyboardInterrupt as stop:
        ready = _together(tasks, dict(done), alone)
        if not ready.groups:
            raise
        raise Interrupted(ready) from stop
    return _together(tasks, done, alone)


def _kept(task: Task, done: dict[int, Outcome], k: int) -> Outcome:
    """What a task makes, which is then in `done`, too."""
    done[k] = task.run()
    return done[k]


def _together(tasks: Sequence[Task], done: dict[int, Outcome], alone: bool) -> Built:
    """The geometries that tasks made, a group each, and notes about those that cannot be built."""
    groups: list[list[Builder]] = []
    notes: list[str] = []
    for task, result in ((tasks[k], done[k]) for k in sorted(done)):
        if not isinstance(result, NoSurface):
            groups += [list(result)] if result else []
        elif alone and sum(other.kind == task.kind for other in tasks) == 1:
            raise result
        else:
            notes.append(f"one {task.kind} is left out: {result}")
    return Built(groups, notes)


def _log_trust(geometry: Builder) -> float:
    """What is added to the log prior weight of a geometry, whatever the labels say."""
    inner = bare(geometry)[0]
    return log(inner.trust) if isinstance(inner, AtlasGeometry) else 0.0


def _missing(X: np.ndarray, filled: Filled) -> str:
    gone = np.isnan(X)
    badly = int(np.sum(~filled.sound))
    text = f"{percent(gone.mean())} of the readings are missing, in {checks.counted(int(gone.any(1).sum()), 'row')}"
    if together(X):
        text += (
            "; they are missing together, not here and there: if they are missing because they were too small (or too "
            "large) to be read, put the limit in their place, which says more than a gap"
        )
    if badly:
        text += (
            f"; {badly} of these rows have too few readings, or too few rows like them, to be filled in: surfaces are "
            "learned without them, and their predictions are less certain"
        )
    return text
