"""In which order the geometries of a cloud are learned, and which of them are worth it.

0. Columns that are independent of each other have no surface (`basics.independence`): flat space alone is used. On
   simulated tables of such columns graphs gained nothing, and where a hundred labels say little of a function of eight
   columns, they sometimes got most of the weight by chance, and cost 0.2 nats a row.
1. Graphs and flat space are built first: they take seconds. Where the units of the columns are not certain, flat space
   and a few graphs are built in both, and the labels weigh them.
2. Charts and atlases are learned in the better units. They are left out where they cannot help:
   - a large cloud whose rows have more than `subset.SMOOTH` dimensions;
   - labels that prefer flat space with a length for every column to graph and flat space by more than AHEAD nats.
     Charts and atlases are learned from the same distances between rows as the graph. On simulated clouds
     (`benchmarks/weights.py`) none came within 10 nats of the lengths where these led by AHEAD.

These rules apply with the default parameters only; a geometry that is named is learned. A chart that is learned has all
its boundary levels: the evidence of some of them does not bound that of the others. On 66 pictures of a turning object
a chart was more than 15 nats behind at one level and without a boundary, and had a fifth of the weight with all levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..basics.independence import independent
from ..fitted import Cloud, Geometries
from ..geometry.base import KernelTask, kernel_options
from ..geometry.build import Built, geometry_names
from ..geometry.family import smoothness_names
from ..geometry.scaled import ScaledGeometry
from ..manifold import Chart
from ..persistence.checkpoint import Checkpoint
from . import subset, units

AHEAD = 15.0  # nats


@dataclass(frozen=True)
class Judges:
    """What labels say of geometries.

    evidence : the log evidence of the labels.
    lead : log evidence of flat space with a length for every column less that of all other geometries.
    """

    evidence: Callable[[Geometries], float]
    lead: Callable[[Geometries], float] = lambda geometries: 0.0


def in_stages(
    estimator: Any, cloud: Cloud, choices: Sequence[units.Units], once: Callable[[Any, Callable[[], Any]], Any],
    run: Checkpoint, make: Callable[..., Built], judges: Judges, seed: int, random: bool,
) -> Geometries:  # fmt: skip
    """The geometries that the estimator's parameters request.

    `choices` are the units that the columns may have, the likeliest first; `make` builds geometries of given names;
    `once(name, make)` reuses what an earlier fit to the same cloud made.
    """
    names, default = geometry_names(estimator.geometry), _by_default(estimator)
    rows = cloud.changed(unit=choices[0].unit)
    notes: list[str] = []
    if default and once("independent", partial(independent, rows.rows, seed)):
        names = ["flat"]
        notes.append(
            "the columns are independent of each other, so that the rows lie near no surface: flat space alone was "
            "used; name other geometries to learn them"
        )
    model = estimator.latent_model if _learns(estimator.latent_model, names) else None
    found = once(
        "subset", partial(subset.chosen, rows, seed, random, model, not default, "graph" in names, estimator.n_jobs)
    )
    base = found.cloud
    notes += found.notes
    slow = [name for name in names if name not in units.CHEAP] if found.smooth or not default else []
    quick = [name for name in names if name in units.CHEAP]
    kernels = KernelTask(
        smoothness_names(estimator.smoothness), kernel_options(estimator.kernel), seed,
        estimator.n_jobs, estimator.verbose,
    )  # fmt: skip

    def joined(cloud: Cloud, built: Built, said: Sequence[str] = ()) -> Geometries:
        return Geometries._of(
            cloud, built.geometries, built.log_priors, [*run.notes, *notes, *said, *built.notes], kernels
        )

    if len(choices) == 1 and not (quick and slow):
        return once("all", lambda: joined(base, make(base, [*quick, *slow], run=run)))
    clouds = {one.scale: base.changed(unit=one.unit) for one in choices}
    runs = {one.scale: run.of(one.scale) if len(choices) > 1 else run for one in choices}
    all_quick = lambda scale: once(("quick", scale), partial(make, clouds[scale], quick, run=runs[scale]))
    built, judged = {}, {}
    for scale, some in clouds.items():
        if len(choices) == 1:
            built[scale] = all_quick(scale)
        else:
            few = partial(make, some, units.CHEAP, run=runs[scale].of("few graphs"), few=True)
            built[scale] = once(("few", scale), few)
        judged[scale] = once(("judged", scale), partial(joined, some, built[scale]))
    chance = _chances(choices, judged, judges)
    best, *others = sorted(choices, key=lambda one: -chance[one.scale])
    said = [f"{best.note} (scale='auto'; the labels give this {chance[best.scale]:.0%})"] if others else []
    own = all_quick(best.scale) if quick else Built([], [], [])
    lead = judges.lead(judged[best.scale]) if slow and default else 0.0
    if lead > AHEAD:
        said.append(
            f"charts and atlases were not learned: the labels prefer flat space with a length per column by {lead:.0f} "
            "nats to graphs and flat space; name them in `geometry` to learn them"
        )
    elif slow:
        optional = bool(own.geometries)
        build_slow = partial(make, clouds[best.scale], slow, run=runs[best.scale], optional=optional)
        own = own.beside(once(("slow", best.scale), build_slow))
    for other in others:
        more = built[other.scale].only(names)
        if chance[other.scale] > units.LEAST and more.geometries:
            scaled = [ScaledGeometry(one, other.unit / best.unit, other.words) for one in more.geometries]
            own = own.weighed(best.log_prior, replace(more, geometries=scaled, notes=[]), other.log_prior)
    whole = partial(joined, clouds[best.scale], own, said)
    return whole() if said else once("whole", whole)  # with one choice of units labels decide nothing else


def _by_default(estimator: Any) -> bool:
    """Whether nothing was said about geometries, dimensions or the latent model."""
    given = (estimator.latent_model, estimator.latent_dim)
    return estimator.geometry == "average" and all(isinstance(one, str) for one in given)


def _learns(latent_model: Any, names: Sequence[str]) -> bool:
    """Whether charts or atlases are learned from the rows: a known chart is alone, a fitted model is used as it is."""
    fitted = hasattr(latent_model, "chart_")
    return not isinstance(latent_model, Chart) and ("atlas" in names or ("chart" in names and not fitted))


def _chances(choices: Sequence[units.Units], judged: dict[str, Geometries], judges: Judges) -> dict[str, float]:
    """How likely each of the units is, given the labels."""
    if len(choices) == 1:
        return {choices[0].scale: 1.0}
    odds = np.array([one.log_prior + judges.evidence(judged[one.scale]) for one in choices])
    weights = np.exp(odds - odds.max())
    return {one.scale: float(w) for one, w in zip(choices, weights / weights.sum(), strict=True)}
