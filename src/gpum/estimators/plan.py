"""The plan of a fit: from checked rows and labels to geometries, whose settings the labels then weigh.

1. Read. The units that the columns may have, and the rows of a large cloud that geometries are learned from. Columns
   that are independent of each other have no surface (`basics.independence`): flat space alone is used. On simulated
   tables of such columns graphs gained nothing, and where a hundred labels say little of a function of eight columns,
   they sometimes got most of the weight by chance, and cost 0.2 nats a row.
2. Build what takes seconds: flat space and one graph, and smooth atlases that may win. Where the units are not certain
   this is done in both. Units that are then more than `contest.AHEAD` nats behind are left: on simulated clouds whose
   columns were multiplied by random factors, 630 of 2 064 label sets left one, which with all its atlases had more than
   1 % of the weight once (2.7 %). The labels choose those in which the rest is built, and all that was built in the
   others keeps its weight.
3. Build what takes longer, atlases and then charts, one dimension after the other in the order of promise, each only
   while it may win (`contest`): graphs, sketches of charts, and what was built before are its witnesses. Atlases are
   not judged against each other, so that their order decides nothing. Charts and atlases of a large cloud whose rows
   have more than `subset.SMOOTH` dimensions are not learned either.
4. Commit: all geometries with their spaces, settings and prior weights, from which `inference` goes on.

Ctrl-C while geometries or their spaces are built goes on with those that are ready, once: the next one ends the fit.
What was missing is learned by the next fit (with `warm_start` or a checkpoint it goes on from there).

These rules are for the default parameters; a geometry that is named is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..basics import checks
from ..basics.formats import percent
from ..basics.independence import independent
from ..basics.progress import Reporter
from ..basics.workers import Interrupted, at_once, one_blas_thread
from ..fitted import Cloud, Geometries
from ..geometry.atlas import MeshGeometry
from ..geometry.base import Builder, ScaledGeometry
from ..geometry.build import (
    ROUGH,
    Built,
    Many,
    Task,
    atlas_dimensions,
    build,
    chart_dimensions,
    make_atlas,
    make_flat,
    make_graph,
    rows_of,
)  # fmt: skip
from ..geometry.chart import ChartGeometry
from ..geometry.flat import sketches
from ..geometry.graphs import FIRST_GRAPH
from ..manifold import Chart
from ..persistence.store import Held, Store, digest
from . import learning, subset, units
from .contest import AHEAD, SMOOTH, Contest, LeftOut, atlases, not_learned
from .learning import Request
from .shell import NOT_RESULTS, open_store

INTERRUPTED = (
    "interrupted: the fit has the geometries that were ready; fit again to learn all of them (with warm_start=True or "
    "a checkpoint it goes on from there)"
)
# Geometries do not depend on them.
OF_LABELS = ("hyperparameters", "likelihood", "period", "unlabelled", "priors", *NOT_RESULTS)
GIVEN = ("given",)  # the key of geometries that were learned elsewhere


class LabelScores(Protocol):
    """What the labels say of geometries before all are built."""

    def evidence(self, geometries: Geometries) -> float:
        """Their log evidence."""

    def alone(self, geometries: Geometries) -> list[dict[str, float]]:
        """For each column of labels the log evidence of geometries, each alone, by their titles; empty if unknown."""

    def left_out(self, geometries: Geometries) -> str:
        """How well each label is predicted from the others, in words; empty where there are too few labels."""


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
        geometries = store.get(GIVEN, Geometries)
        if geometries is None:
            geometries = _planned(request, cloud, learning.units_of(estimator, cloud), labels, store, random)
    estimator._warm = (about, store) if estimator.warm_start else None
    return geometries


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

    # 2. In which units: flat space and a graph in each, and atlases in those that may be the right ones.
    first: dict[str, Built] = {}
    if len(choices) > 1:
        kinds, likely = (*units.CHEAP, *(kind for kind in slow if kind == "atlas")), list(choices)
        chance: dict[str, float] = {}
        if by_default:
            quickly = partial(_built, request, kinds=units.CHEAP, store=store, few=True)
            _, chance = _in_each(likely, rows, quickly, request, labels, store)
            likely = [one for one in choices if chance[one.scale] > np.exp(-AHEAD) * max(chance.values())]
        if len(likely) > 1:
            begun = lambda in_units: _begun(request, in_units, kinds, labels, store)[0]
            first, chance = _in_each(likely, rows, begun, request, labels, store)
        best = max(likely, key=lambda one: chance[one.scale])
        first = {one.scale: first[one.scale] for one in likely if one is not best and chance[one.scale] > units.LEAST}
        notes.append(f"{best.note} (scale='auto'; given the labels, {percent(chance[best.scale])} likely)")
        rows = rows.in_units(best)

    # 3. What takes longer, while it may win.
    if by_default and slow:
        built, stopped, remarks = _promising(request, rows, quick, slow, labels, store)
        notes += remarks
    else:
        built, stopped = _ready(partial(_built, request, rows, quick + slow, store))

    # 4. All of them, in all units.
    others = [(one, first[one.scale].only(request.names)) for one in choices if one.scale in first]
    join = partial(_joined, rows, built, request, store, [*store.notes, *notes], others)
    geometries, stopped = (join(), True) if stopped else _ready(join)
    if not stopped:
        return geometries
    warnings.warn(INTERRUPTED, stacklevel=4)
    return geometries.with_notes([INTERRUPTED])


def _begun(
    request: Request, rows: Learned, kinds: Sequence[str], labels: LabelScores, store: Store
) -> tuple[Built, Contest]:
    """Flat space, the first graph and atlases that are not rough, where these may win; and what labels say of them."""
    build = partial(_built, request, rows, store=store, few=True)
    if not request.by_default:
        return build(kinds), Contest()
    scored = lambda built: labels.alone(_joined(rows, built, request, store))
    ready = build([kind for kind in kinds if kind in units.CHEAP])
    contest = Contest().with_scores(scored(ready.beside(build(("sketch",)))))
    for dim in contest.most_promising(_dimensions(request, rows.cloud, "atlas") if "atlas" in kinds else []):
        if contest.behind("atlas", dim, smooth=True) <= AHEAD and (atlas := build(("atlas",), dim=dim)).groups:
            ready, contest = ready.beside(atlas), contest.with_scores(scored(atlas))
    return ready, contest


def _promising(
    request: Request, rows: Learned, quick: Sequence[str], slow: Sequence[str], labels: LabelScores, store: Store
) -> tuple[Built, bool, list[str]]:
    """Geometries one after the other, each while it may win; see `contest`.

    Also whether Ctrl-C stopped it, and a note about those that were not learned.
    """
    build = partial(_built, request, rows, store=store)
    join = lambda built: _joined(rows, built, request, store)
    left_out: list[LeftOut] = []
    ready = build(quick, few=True)
    _say_left_out(labels, join(ready), request.kernels.verbose)
    try:
        ready, contest = _begun(request, rows, (*quick, *slow), labels, store)
        for kind in sorted(slow):  # an atlas is a witness of charts
            for dim in contest.most_promising(_dimensions(request, rows.cloud, kind)):
                rough = atlases(ready).get(dim)
                if kind == "atlas" and rough is not None:
                    continue
                behind = contest.behind(kind, dim, smooth=rough is not None and rough <= SMOOTH)
                if behind > AHEAD:
                    left_out.append((kind, dim, behind))
                    continue
                built, stopped = _ready(partial(build, (kind,), dim=dim))
                ready = ready.beside(built)
                if stopped:
                    return ready, True, []
                contest = contest.with_scores(labels.alone(join(built))) if built.groups else contest
        if contest.worth_all_graphs():
            ready = build(quick).beside(ready.without(quick))
    except KeyboardInterrupt:
        return ready, True, []
    return ready, False, not_learned(left_out)


def _ready(make: Callable[[], Any]) -> tuple[Any, bool]:
    """What `make` returns; after Ctrl-C what was ready, and True."""
    try:
        return make(), False
    except Interrupted as stop:
        return stop.ready, True


def _say_left_out(labels: LabelScores, geometries: Geometries, verbose: int) -> None:
    """Say how good the geometries are that are there while others are learned."""
    if verbose and (errors := labels.left_out(geometries)):
        with Reporter(verbose, 1, "learning the surface") as report:
            report.say(
                f"With {' and '.join(dict.fromkeys(geometries.names))} alone {errors}. Surfaces are learned now; "
                "Ctrl-C goes on without those that are not ready."
            )


def _in_each(
    choices: Sequence[units.Units], rows: Learned, make: Callable[[Learned], Built], request: Request,
    labels: LabelScores, store: Store,
) -> tuple[dict[str, Built], dict[str, float]]:  # fmt: skip
    """What is made in each of the units, and how likely each of them then is, given the labels."""
    built = {one.scale: make(rows.in_units(one)) for one in choices}
    judged = [_joined(rows.in_units(one), built[one.scale], request, store) for one in choices]
    odds = np.array([labels.evidence(geometries) for geometries in judged]) + [one.log_prior for one in choices]
    weights = np.exp(odds - odds.max())
    return built, {one.scale: float(w) for one, w in zip(choices, weights / weights.sum(), strict=True)}


def _joined(
    rows: Learned, built: Built, request: Request, store: Store, notes: Sequence[str] = (),
    others: Sequence[tuple[units.Units, Built]] = (),
) -> Geometries:  # fmt: skip
    """Geometries with their spaces and prior weights; `others` were built in other units."""
    held = [Held(geometry) for geometry in built.geometries]
    of_others = [(one.scale, [Held(geometry) for geometry in other.geometries]) for one, other in others]
    key = "geometries", rows, held, built.priors(), built.notes, request, list(notes), of_others
    return store.once(key, partial(_join, rows, built, request, store, notes, others))


def _join(
    rows: Learned, built: Built, request: Request, store: Store, notes: Sequence[str],
    others: Sequence[tuple[units.Units, Built]],
) -> Geometries:  # fmt: skip
    choice = rows.choice
    geometries, log_prior = list(built.geometries), choice.log_prior if others else 0.0
    priors = [prior + log_prior for prior in built.priors()]
    for one, other in others:
        geometries += [ScaledGeometry(geometry, one.unit / choice.unit, one.words) for geometry in other.geometries]
        priors += [prior + one.log_prior for prior in other.priors()]
    return Geometries._of(rows.cloud, geometries, priors, [*notes, *built.notes], request.kernels, store)


def _built(
    request: Request, rows: Learned, kinds: Sequence[str], store: Store, few: bool = False, dim: Any = None
) -> Built:
    """The geometries of some kinds, in one dimension or all; with `few` a graph is FIRST_GRAPH, no atlas is ROUGH."""
    key = "built", request, rows, tuple(kinds), few, dim
    return store.once(key, partial(_build, request, rows.cloud, tuple(kinds), store, few, dim))


def _build(request: Request, cloud: Cloud, kinds: Sequence[str], store: Store, few: bool, dim: Any) -> Built:
    given, X, kernels = request.latent_model, cloud.learned, request.kernels
    if request.mesh is not None:
        return Built([[MeshGeometry(request.mesh, X)]], [])
    if isinstance(given, Chart):
        return Built([[ChartGeometry(given, X, store=store)]], [])
    many = None if cloud.many is None else Many(cloud.of_graphs, cloud._learned_at(cloud.many))
    on, notes = rows_of(X, many, kinds)
    side_by_side = at_once(kernels.n_jobs) > 1 and (
        len(kinds) > 1 or (dim is None and learning.takes_dimensions(given))
    )
    verbose = 0 if side_by_side else kernels.verbose  # of latent models, which would write over each other
    options = {"n_jobs": kernels.n_jobs, "random_state": request.seed, "verbose": verbose}
    tasks: list[Task] = []
    for kind in kinds:
        rows = on["flat" if kind == "sketch" else kind]
        make: list[Callable[[], Sequence[Builder]]]
        if kind == "flat":
            make = [partial(make_flat, rows.rows)]
        elif kind == "graph":
            make = [partial(make_graph, rows.rows, request.graphs, FIRST_GRAPH if few else {}, kernels.n_jobs, store)]
        elif kind == "sketch":
            make = [partial(sketches, rows.rows, atlas_dimensions(request.latent_dim))]
        elif kind == "atlas":
            dims, roughest = atlas_dimensions(request.latent_dim if dim is None else dim), ROUGH if few else 1.0
            make = [partial(make_atlas, rows.rows, q, kernels.options.n_modes, roughest, store) for q in dims]
        else:
            charts = chart_dimensions(request.latent_dim, on["flat"].rows)
            charts = charts if learning.takes_dimensions(given) else charts[:1]
            make = [
                partial(learning.charts, given, X, len(cloud), q, quickly, request.alone, store, options)
                for q, quickly in charts if dim in (None, q)
            ]  # fmt: skip
        tasks += [Task(kind, one, rows) for one in make]
    alone = request.alone and not few  # else a first look may find no geometry of one kind
    built = build(tasks, alone=alone, n_jobs=kernels.n_jobs, verbose=kernels.verbose)
    models = [geometry.model for geometry in built.geometries if isinstance(geometry, ChartGeometry)]
    of_models = dict.fromkeys(note for model in models for note in getattr(model, "notes_", []))
    return replace(built, notes=[*notes, *built.notes, *of_models])


def _dimensions(request: Request, cloud: Cloud, kind: str) -> list[Any]:
    """The dimensions in which geometries of a kind may be built."""
    if kind == "atlas":
        return atlas_dimensions(request.latent_dim)
    rows, _ = rows_of(cloud.learned, None, ("flat",))
    return [q for q, _ in chart_dimensions(request.latent_dim, rows["flat"].rows)]


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
