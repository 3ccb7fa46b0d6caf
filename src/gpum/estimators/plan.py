"""The plan of a fit: from checked rows and labels to geometries, whose settings the labels then weigh.

1. Read. The units that the columns may have, and the rows of a large cloud that geometries are learned from. Columns
   that are independent of each other have no surface (`basics.independence`): flat space alone is used. On simulated
   tables of such columns graphs gained nothing, and where a hundred labels say little of a function of eight columns,
   they sometimes got most of the weight by chance, and cost 0.2 nats a row.
2. Build what takes seconds: flat space and one graph. Where the units are not certain this is done in both, with
   atlases unless step 3 would leave them out; the labels choose those in which charts are learned, and all that was
   built in the others keeps its weight.
3. Build what takes longer, charts and atlases, unless the labels prefer flat space by more than AHEAD nats to every
   witness of a surface. These are the graph and, where local charts fit the rows so that there is an atlas, flat space
   with one length for all columns: it is near where the surface is smooth, even if the graph is too rough for the
   labels, and far where every column needs a length of its own. Charts and atlases of a large cloud whose rows have
   more than `subset.SMOOTH` dimensions are not learned either.
4. Commit: all geometries with their spaces, settings and prior weights, from which `inference` goes on.

Ctrl-C while geometries or their spaces are built goes on with those that are ready, once: the next one ends the fit.
What was missing is learned by the next fit (with `warm_start` or a checkpoint it goes on from there).

These rules are for the default parameters; a geometry that is named is built. On simulated surfaces, curves, clusters
and tables (`python benchmarks/weights.py` prints it) no chart or atlas was as good as flat space where the rule leaves
them out. The graph alone is no witness: the best chart of a smooth sheet was 50 nats ahead of flat space where the
graph was 40 behind, and of a solid 60, where an atlas was 30 behind, too. A chart that is learned has all its boundary
levels: the evidence of some of them does not bound that of the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..basics import checks
from ..basics.independence import independent
from ..basics.progress import Reporter
from ..basics.workers import Interrupted, at_once, one_blas_thread
from ..fitted import Cloud, Geometries
from ..geometry.base import ScaledGeometry
from ..geometry.build import (
    ROUGH,
    Built,
    Many,
    Task,
    atlas_tasks,
    build,
    chart_dimensions,
    flat_task,
    graph_task,
    rows_of,
)  # fmt: skip
from ..geometry.chart import ChartGeometry
from ..geometry.mesh import MeshGeometry
from ..geometry.options import KernelTask, geometry_names
from ..heat.meshes import Mesh
from ..manifold import Chart
from ..persistence.store import Held, Store, digest
from . import learning, subset, units
from .base import FLAT, GRAPH, ONE_LENGTH
from .shell import NOT_RESULTS, open_store

INTERRUPTED = (
    "interrupted: the fit has the geometries that were ready; fit again to learn all of them (with warm_start=True or "
    "a checkpoint it goes on from there)"
)
FIRST_NEIGHBOURS = (10,)
AHEAD = 10.0  # nats
# Nats by which flat space may lead the first graphs until further ones are not built. All graphs together were then at
# least 8 nats behind, on 97 of 672 simulated label sets.
FURTHER = 15.0
# Geometries do not depend on them.
OF_LABELS = ("hyperparameters", "likelihood", "period", "unlabelled", "priors", *NOT_RESULTS)
GIVEN = ("given",)  # the key of geometries that were learned elsewhere


class LabelScores(Protocol):
    """What the labels say of geometries before all are built."""

    def evidence(self, geometries: Geometries) -> float:
        """Their log evidence."""

    def alone(self, geometries: Geometries) -> list[dict[str, float]]:
        """For each column of labels the log evidence of FLAT space, of its member with ONE_LENGTH, and of the GRAPH."""

    def left_out(self, geometries: Geometries) -> str:
        """How well each label is predicted from the others, in words; empty where there are too few labels."""


@dataclass(frozen=True)
class Request:
    """Which geometries an estimator's parameters mean: all that they depend on beside the rows and their units."""

    names: tuple[str, ...]
    by_default: bool  # nothing was said about geometries, dimensions or the latent model
    latent_dim: Any
    latent_model: Any
    mesh: Mesh | None  # the geometry, where it is given
    graphs: str  # OF_SURFACES or OF_CLUSTERS
    seed: int  # of latent models
    kernels: KernelTask

    @classmethod
    def of(cls, estimator: Any, graphs: str, seed: int) -> Request:
        """Of an estimator, whose random state gave the seed."""
        given = (estimator.latent_model, estimator.latent_dim)
        verbose = estimator.verbose
        advice = "1 shows progress"
        verbose = checks.integer(int(verbose) if isinstance(verbose, bool) else verbose, "verbose", 0, None, advice)
        kernels = learning.kernel_task(estimator, learning.drawn_seed(seed), verbose)
        return cls(
            tuple(geometry_names(estimator.geometry)),
            estimator.geometry == "average" and all(isinstance(one, str) for one in given),
            estimator.latent_dim, learning.thawed(estimator.latent_model), learning.mesh_of(estimator), graphs, seed,
            kernels,
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether one kind of geometry is asked for."""
        return len(self.names) == 1

    @property
    def learned_model(self) -> Any:
        """The latent model of charts, where charts or atlases are learned from rows; None: nothing is."""
        fitted = hasattr(self.latent_model, "chart_")
        learns = "atlas" in self.names or ("chart" in self.names and not fitted)
        return self.latent_model if learns and not isinstance(self.latent_model, Chart) else None

    def __gpum_key__(self) -> Any:
        """What results depend on."""
        kernels = replace(self.kernels, n_jobs=None, verbose=0)
        return (
            self.by_default,
            self.alone,
            self.latent_dim,
            self.latent_model,
            self.mesh,
            self.graphs,
            self.seed,
            kernels,
        )


@dataclass(frozen=True)
class Learned:
    """The rows that geometries are learned from, in units of the columns, and what identifies them in the store."""

    cloud: Cloud
    choice: units.Units
    name: str

    def in_units(self, choice: units.Units) -> Learned:
        """The same in other units."""
        return Learned(self.cloud.changed(unit=choice.unit), choice, self.name)

    def __gpum_key__(self) -> Any:
        """The name of the rows, which is not computed again, and the units."""
        return self.name, self.choice.unit


def learn(estimator: Any, cloud: Cloud, labels: LabelScores, graphs: str, random: bool) -> Geometries:
    """The geometries of a cloud that the estimator's parameters request, with prior weights.

    `graphs` is a kind of graph; `random` says how a subset of a large cloud is chosen.
    """
    about, store = _store_of(estimator, cloud)
    seed = store.once(("seed",), partial(learning.seed_of, estimator.random_state))  # one may be drawn: once
    request = Request.of(estimator, graphs, seed)
    with one_blas_thread:  # most problems here are small, and threads make them many times as slow
        found = store.get(GIVEN, Geometries)
        if found is None:
            found = _planned(request, cloud, learning.units_of(estimator, cloud), labels, store, random)
    estimator._warm = (about, store) if estimator.warm_start else None
    return found


def _planned(
    request: Request, cloud: Cloud, choices: Sequence[units.Units], labels: LabelScores, store: Store, random: bool
) -> Geometries:
    """The plan, from top to bottom; see the module."""
    # 1. Read.
    cloud, seed, by_default = cloud.changed(unit=choices[0].unit), request.kernels.seed, request.by_default
    name = digest(cloud)
    notes = []
    if by_default and store.once(("independent", name, seed), partial(independent, cloud.rows, seed)):
        request = replace(request, names=("flat",))
        notes.append(
            "the columns are independent of each other, so that the rows lie near no surface: flat space alone was "
            "used; name other geometries to learn them"
        )
    model, has_graph = request.learned_model, "graph" in request.names
    read = store.once(
        ("rows", name, seed, random, model, by_default, has_graph),
        partial(subset.chosen, cloud, seed, random, model, not by_default, has_graph, request.kernels.n_jobs),
    )
    notes += read.notes
    rows = Learned(read.cloud, choices[0], digest(read.cloud))
    slow = tuple(kind for kind in request.names if kind not in units.CHEAP and (read.smooth or not by_default))
    quick = tuple(kind for kind in request.names if kind in units.CHEAP)

    # 2. In which units: flat space, a graph and atlases in each of them.
    first = {}
    if len(choices) > 1:
        for one in choices:
            its = rows.in_units(one)
            first[one.scale] = cheap = _built(request, its, units.CHEAP, store, few=True)
            alone = labels.alone(_joined(its, cheap, request, store)) if by_default and "atlas" in slow else []
            if "atlas" in slow and _lead(alone, GRAPH, ONE_LENGTH) <= AHEAD:
                first[one.scale] = cheap.beside(_built(request, its, ("atlas",), store, few=True))
        chance = _chances(
            [_joined(rows.in_units(one), first[one.scale], request, store) for one in choices], choices, labels
        )
        best = max(choices, key=lambda one: chance[one.scale])
        first = {one.scale: first[one.scale] for one in choices if one is not best and chance[one.scale] > units.LEAST}
        notes.append(f"{best.note} (scale='auto'; the labels give this {chance[best.scale]:.0%})")
        rows = rows.in_units(best)

    # 3. What takes longer, unless flat space leads all witnesses of a surface.
    stopped = False
    if not (by_default and slow):
        own, stopped = _ready(partial(_built, request, rows, quick + slow, store))
    else:
        own = _built(request, rows, quick, store, few=True)
        alone = labels.alone(_joined(rows, own, request, store))
        if _lead(alone, GRAPH) <= FURTHER:
            own = _built(request, rows, quick, store)
            alone = labels.alone(_joined(rows, own, request, store))
        lead, of_lengths = _lead(alone, GRAPH), _lead(alone, GRAPH, ONE_LENGTH)
        if lead <= AHEAD or (of_lengths <= AHEAD and _built(request, rows, ("atlas",), store, few=True).geometries):
            _say_left_out(labels, _joined(rows, own, request, store), request.kernels.verbose)
            try:
                learned, stopped = _ready(partial(_built, request, rows, slow, store))
                own = own.beside(learned)
            except KeyboardInterrupt:  # none of them is ready
                stopped = True
        else:
            why = "to one length for all columns" if of_lengths > AHEAD else "neighbourhoods are too rough for charts"
            notes.append(
                f"charts and atlases were not learned: the labels prefer flat space by {lead:.0f} nats to graphs, and "
                f"{why}; name them in `geometry` to learn them"
            )

    # 4. All of them, in all units.
    others = [(one, first[one.scale].only(request.names)) for one in choices if one.scale in first]
    join = partial(_joined, rows, own, request, store, [*store.notes, *notes], others)
    found, stopped = (join(), True) if stopped else _ready(join)
    if not stopped:
        return found
    warnings.warn(INTERRUPTED, stacklevel=4)
    return found.with_notes([INTERRUPTED])


def _ready(make: Callable[[], Any]) -> tuple[Any, bool]:
    """What `make` returns; after Ctrl-C what was ready, and True."""
    try:
        return make(), False
    except Interrupted as stop:
        return stop.ready, True


def _say_left_out(labels: LabelScores, geometries: Geometries, verbose: int) -> None:
    """Say how good the geometries are that are there while others are learned."""
    if verbose and (said := labels.left_out(geometries)):
        with Reporter(verbose, 1, "learning the surface") as report:
            report.say(
                f"With {' and '.join(dict.fromkeys(geometries.names))} alone {said}. Ctrl-C keeps what is there."
            )


def _lead(alone: Sequence[dict[str, float]], *witnesses: str) -> float:
    """By how many nats every column of labels prefers flat space to all witnesses; 0 where nothing is known."""
    leads = [
        one[FLAT] - max(one[witness] for witness in witnesses) if {FLAT, *witnesses} <= set(one) else 0.0
        for one in alone
    ]
    return min(leads, default=0.0)


def _chances(judged: Sequence[Geometries], choices: Sequence[units.Units], labels: LabelScores) -> dict[str, float]:
    """How likely each of the units is, given the labels."""
    odds = np.array([one.log_prior + labels.evidence(found) for one, found in zip(choices, judged, strict=True)])
    weights = np.exp(odds - odds.max())
    return {one.scale: float(w) for one, w in zip(choices, weights / weights.sum(), strict=True)}


def _joined(
    rows: Learned, own: Built, request: Request, store: Store, notes: Sequence[str] = (),
    others: Sequence[tuple[units.Units, Built]] = (),
) -> Geometries:  # fmt: skip
    """Geometries with their spaces and prior weights; `others` were built in other units."""
    key = "geometries", rows, [Held(one) for one in own.geometries], own.log_priors, own.notes, request, list(notes), [
        (one.scale, [Held(geometry) for geometry in built.geometries]) for one, built in others
    ]  # fmt: skip
    return store.once(key, partial(_join, rows, own, request, notes, others))


def _join(
    rows: Learned, own: Built, request: Request, notes: Sequence[str], others: Sequence[tuple[units.Units, Built]]
) -> Geometries:
    mine = rows.choice
    geometries, priors = list(own.geometries), [prior + (mine.log_prior if others else 0.0) for prior in own.priors()]
    for one, built in others:
        geometries += [ScaledGeometry(geometry, one.unit / mine.unit, one.words) for geometry in built.geometries]
        priors += [prior + one.log_prior for prior in built.priors()]
    return Geometries._of(rows.cloud, geometries, priors, [*notes, *own.notes], request.kernels)


def _built(request: Request, rows: Learned, kinds: Sequence[str], store: Store, few: bool = False) -> Built:
    """The geometries of some kinds; with `few` graphs have FIRST_NEIGHBOURS, and atlases are not ROUGH."""
    key = "built", request, rows, tuple(kinds), few
    return store.once(key, partial(_build, request, rows.cloud, tuple(kinds), store, few))


def _build(request: Request, cloud: Cloud, kinds: Sequence[str], store: Store, few: bool) -> Built:
    given, X, kernels = request.latent_model, cloud.learned, request.kernels
    if request.mesh is not None:
        return Built.one(MeshGeometry(request.mesh, X))
    if isinstance(given, Chart):
        return Built.one(ChartGeometry(given, X, store=store))
    many = None if cloud.many is None else Many(cloud.of_graphs, cloud._learned_at(cloud.many))
    on, notes = rows_of(X, many, kinds)
    side_by_side = at_once(kernels.n_jobs) > 1 and (len(kinds) > 1 or learning.takes_dimensions(given))
    verbose = 0 if side_by_side else kernels.verbose  # of latent models, which would write over each other
    options = {"n_jobs": kernels.n_jobs, "random_state": request.seed, "verbose": verbose}
    tasks: list[Task] = []
    for kind in kinds:
        if kind == "flat":
            tasks.append(flat_task(on[kind]))
        elif kind == "graph":
            tasks.append(graph_task(on[kind], request.graphs, FIRST_NEIGHBOURS if few else None, kernels.n_jobs, store))
        elif kind == "atlas":
            tasks += atlas_tasks(on[kind], request.latent_dim, kernels.options.n_modes, ROUGH if few else 1.0, store)
        else:
            dims = chart_dimensions(request.latent_dim, on["flat"].rows)
            for dim, quickly in dims if learning.takes_dimensions(given) else dims[:1]:
                make = partial(learning.charts, given, X, len(cloud), dim, quickly, request.alone, store, options)
                tasks.append(Task(kind, make, on[kind]))
    alone = request.alone and not few  # else a first look may find no geometry of one kind
    built = build(tasks, alone=alone, n_jobs=kernels.n_jobs, verbose=kernels.verbose)
    models = [geometry.model for geometry in built.geometries if isinstance(geometry, ChartGeometry)]
    of_models = dict.fromkeys(note for model in models for note in getattr(model, "notes_", []))
    return replace(built, notes=[*notes, *built.notes, *of_models])


def _store_of(estimator: Any, cloud: Cloud) -> tuple[_About, Store]:
    """What the fit is about, and a store: that of the last fit with `warm_start`, if it was about the same."""
    about, held = _about(estimator, cloud), getattr(estimator, "_warm", None)
    if checks.flag(estimator.warm_start, "warm_start") and held is not None and held[0].name == about.name:
        return held
    return about, open_store(estimator)


@dataclass(frozen=True)
class _About:
    """A name for rows and parameters, and the objects that it names by themselves."""

    name: str
    inputs: list[Any]


def _about(estimator: Any, cloud: Cloud) -> _About:
    """The rows, and the parameters on which geometries depend."""
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in OF_LABELS}
    inputs: list[Any] = []
    name = digest((cloud.X, {name: learning.thawed(value) for name, value in parameters.items()}), inputs)
    return _About(name, inputs)


def reuse(estimator: Any, X: Any, geometries: Geometries) -> None:
    """Give an estimator with `warm_start` geometries of X that were learned before; its next fit to X uses them."""
    store = Store()
    store.once(GIVEN, lambda: geometries)
    estimator._warm = _about(estimator, estimator._read_cloud(X)), store
