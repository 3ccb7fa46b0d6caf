"""What a model file holds of a fitted estimator, and how the rest follows from it when it is first needed.

Stored are choices: the cloud, the charts that were learned, the settings with weight in a posterior, their weights.
What follows from them is left out: the cloud in every space, eigenfunctions (`regression.again`), Gram matrices on
labels. Surfaces and spaces without weight are left out too: predictions do not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..checks import GpumError
from ..regression import again, gp
from ..regression.family import Family
from ..regression.posterior import Decomposed, Part, Posterior
from ..regression.surfaces import AtlasSurface, NamedSurface, Surface, Wanted, titles
from .outputs import Output

THREADS = 1000  # labels below which threads cost more than they gain (and rounding would depend on them)
NOTHING = Decomposed(np.zeros((0, 0)), np.zeros(0), np.zeros(0), 0.0)


@dataclass(frozen=True)
class Kept:
    """Surfaces, spaces (with their rows where these are not made again; None without weight), outputs."""

    surfaces: list[Any]
    spaces: list[Any]
    rows: list[Any]
    owners: list[int]
    notes: list[str]
    outputs: list[Any]

    def _restored(self) -> None:
        """Indices are in their ranges, weights are weights."""
        n = len(self.owners)
        if not len(self.spaces) == len(self.rows) == n or not all(0 <= o < len(self.surfaces) for o in self.owners):
            raise GpumError("its spaces do not belong to its surfaces")
        for output in self.outputs:
            for part in output.posterior.parts:
                known = 0 <= part.setting.space < n and self.spaces[part.setting.space] is not None
                weights = np.asarray(part.weights, float)
                if not known or not len(weights) or not np.all(np.isfinite(weights) & (weights >= 0)):
                    raise GpumError("a setting has no space, or weights that are none")
            total = sum(part.weight for part in output.posterior.parts)
            if not abs(total - 1) < 1e-6:
                raise GpumError(f"the weights of its settings add up to {total:.6g}, not to 1")


def light(
    surfaces: Sequence[Surface], family: Family, outputs: Sequence[Any], wanted: Wanted, of_all: bool = True
) -> Kept:  # fmt: skip
    """What to store; unless the surfaces were learned `of_all` rows, labels are stored as they lie in the spaces."""
    levels = again.levels([part for output in outputs for part in output.posterior.parts])
    heavy = {family.owners[k] for k in levels}
    spaces: list[Any] = [None] * len(family.spaces)
    rows: list[Any] = [None] * len(family.spaces)
    kept = [
        again.light(surface) if k in heavy else NamedSurface(surface.name, surface.title)
        for k, surface in enumerate(surfaces)
    ]
    for k, level in levels.items():
        owner = family.owners[k]
        found = again.recipe(family.spaces[k], family.rows[k], surfaces[owner], level, wanted)
        if found is not None:
            spaces[k] = found
        elif isinstance(kept[owner], again.LocalCharts):
            spaces[k] = kept[owner]
        else:
            spaces[k], rows[k] = family.spaces[k], family.rows[k]
    return Kept(
        kept, spaces, rows, list(family.owners), list(family.notes), [_light(output, of_all) for output in outputs]
    )


def _light(output: Any, of_all: bool) -> Any:
    """An output without what follows from the labels."""
    posterior = output.posterior
    if not of_all:
        nothing = np.zeros((0, 0))
        labels = [rows if k in posterior.spaces else nothing for k, rows in enumerate(posterior.labels)]
        return replace(output, posterior=replace(posterior, labels=labels))
    plain = type(output) is Output and type(posterior) is Posterior  # labels of other kinds have noise of their own
    if plain and len(output.rows) <= again.FEW:
        posterior = replace(posterior, parts=[replace(part, d=NOTHING) for part in posterior.parts])
    if any(f.name == "labels" for f in fields(posterior)):
        posterior = replace(posterior, labels=[])
    return replace(output, posterior=posterior)


def whole(kept: Kept) -> tuple[list[Surface], Family, list[Any]]:
    """Surfaces, family and outputs as they were, but for what has no weight."""
    made: dict[int, Any] = {}  # an atlas is surface and space at once

    def once(recipe: Any) -> Any:
        if id(recipe) not in made:
            made[id(recipe)] = recipe.make()
        return made[id(recipe)]

    surfaces = [once(s) if hasattr(s, "make") else s for s in kept.surfaces]
    spaces, rows = list(kept.spaces), list(kept.rows)
    for k, space in enumerate(spaces):
        if hasattr(space, "make"):
            found = once(space)
            spaces[k], rows[k] = (found.pairs, found.rows) if isinstance(found, AtlasSurface) else found
    outputs = [_whole(output, rows) for output in kept.outputs]
    settings = [part.setting for output in outputs for part in output.posterior.parts]
    return surfaces, Family(spaces, settings, rows, list(kept.owners), list(kept.notes)), outputs


def _whole(output: Any, rows: list[Any]) -> Any:
    posterior = output.posterior
    if any(f.name == "labels" for f in fields(posterior)) and not posterior.labels:
        labels = [None if r is None else r[output.rows] for r in rows]
        posterior = replace(posterior, labels=labels)
        parts = posterior.parts
        if all(type(part) is Part and not len(part.d.U) for part in parts):
            y = (output.labels - output.mean) / output.scale
            with threadpool_limits(1 if len(y) < THREADS else None, "blas"):
                parts = [
                    replace(p, d=gp.decompose(p.setting.covariance, labels[p.setting.space], y)) for p in parts
                ]  # fmt: skip
            posterior = replace(posterior, parts=parts)
    return replace(output, posterior=posterior)


def summary(surfaces: Sequence[Surface], family: Family, outputs: Sequence[Any]) -> dict[str, Any]:
    """What `gpum info` says of surfaces and outputs, in plain words and numbers."""
    names = titles(surfaces)
    found = []
    weights = np.zeros((len(outputs), len(surfaces)))
    for k, output in enumerate(outputs):
        for part in output.posterior.parts:
            weights[k, family.owners[part.setting.space]] += part.weight
        best = output.posterior.best.setting
        order = np.argsort(-weights[k], kind="stable")
        said = {name: value for name, value in best.described().items() if isinstance(value, int | float | str)}
        found.append(
            {
                "labels": len(output.rows),
                "geometry": {names[j]: float(weights[k, j]) for j in order},
                "log_evidence": float(output.posterior.log_evidence),
                "best": {name: _plain(value) for name, value in said.items()},
                "on": names[family.owners[best.space]],
            }
        )
    charts = [k for k, surface in enumerate(surfaces) if surface.name == "chart"]
    shown = names[max(charts, key=lambda k: weights.mean(0)[k])] if charts else None
    return {"targets": found, "map": shown}


def _plain(value: Any) -> Any:
    """A value as a file's summary can hold it: an infinite number (the width of a graph without weights) as a word."""
    value = value.item() if hasattr(value, "item") else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
