"""What a model file stores of a fitted model: its arrays, without geometries and spaces that have no weight.

The features of the learned rows, and those of the labels, are values at nodes that the file holds already: they are
gathered when the file is read. No geometry code runs then, and no solver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..basics.checks import GpumError
from ..geometry.base import Geometry, ScaledGeometry, SurfaceGeometry, UnweightedGeometry
from ..geometry.flat import FlatGeometry
from ..geometry.graphs import GraphGeometry
from .cloud import Cloud
from .geometries import Geometries
from .model import FittedModel


def stored(model: FittedModel) -> FittedModel:
    """The model as a file holds it."""
    geometries, candidate_set = model.geometries, model.geometries.candidate_set
    needed = model._needed
    owners = {candidate_set.geometry_of[k] for k in needed}
    members: list[Any] = [
        member if k in owners else UnweightedGeometry(member.name, member.title, getattr(member, "units", None))
        for k, member in enumerate(geometries.members)
    ]
    spaces: list[Any] = [space if k in needed else None for k, space in enumerate(candidate_set.spaces)]
    rows: list[Any] = [None] * len(spaces)
    for k in needed:
        if gathered(members[candidate_set.geometry_of[k]], spaces[k]) is None:
            rows[k] = candidate_set.rows[k]
    candidates = [component.candidate for output in model.outputs for component in output.posterior.components]
    lean = replace(candidate_set, spaces=spaces, rows=rows, candidates=candidates, complete=False)
    kernels = replace(geometries.kernels, n_jobs=None, verbose=0)
    outputs = [_without_labels(output, model.cloud) for output in model.outputs]
    return replace(
        model, geometries=Geometries(model.cloud, members, lean, kernels, dict(geometries.places)), outputs=outputs
    )


def restored(model: FittedModel) -> FittedModel:
    """The model with the features of its learned rows and labels; a GpumError if its arrays do not fit together."""
    _check(model)
    geometries, candidate_set = model.geometries, model.geometries.candidate_set
    rows: list[Any] = list(candidate_set.rows)
    for k, space in enumerate(candidate_set.spaces):
        if space is not None and rows[k] is None:
            rows[k] = gathered(geometries.members[candidate_set.geometry_of[k]], space)
            if rows[k] is None:
                raise GpumError("the features of its rows are not there")
    geometries = replace(geometries, candidate_set=replace(candidate_set, rows=rows))
    return replace(
        model, geometries=geometries, outputs=[_with_labels(output, rows, model.cloud) for output in model.outputs]
    )


def gathered(member: Geometry, space: Any) -> np.ndarray | None:
    """The learned rows in a space of this geometry, [N, k], where they follow from its arrays."""
    inner = member.inner if isinstance(member, ScaledGeometry) else member
    if isinstance(inner, SurfaceGeometry):
        return space.at(inner.places)
    if isinstance(inner, FlatGeometry):
        return space.at(inner.rows)
    return space.vectors if isinstance(inner, GraphGeometry) else None


def _without_labels(output: Any, cloud: Cloud) -> Any:
    """An output without the features of its labels, unless some labelled rows were projected."""
    if cloud.of_terms is not None or np.any(cloud._learned_at(output.rows) < 0):
        return output
    posteriors = {name: getattr(output, name) for name in output.posteriors}
    return replace(output, **{name: replace(p, labels=[]) for name, p in posteriors.items()})


def _with_labels(output: Any, rows: list[Any], cloud: Cloud) -> Any:
    posteriors = {}
    for name in output.posteriors:
        posterior = getattr(output, name)
        if not posterior.labels:
            labels = [None if r is None else r[cloud._learned_at(output.rows, len(r))] for r in rows]
            posterior = replace(posterior, labels=labels)
        posteriors[name] = posterior
    return replace(output, **posteriors)


def _check(model: FittedModel) -> None:
    """Refuse a file whose indices are out of range or whose weights are not weights."""
    candidate_set, n = model.geometries.candidate_set, len(model.geometries.candidate_set.spaces)
    if not model.outputs:
        raise GpumError("its settings are not there")
    for output in model.outputs:
        r = output.rows
        if not (r.ndim == 1 and r.dtype == int and np.all((r >= 0) & (r < len(model.cloud)))):
            raise GpumError("its labels belong to rows that are not there")
        for component in output.posterior.components:
            known = 0 <= component.candidate.space < n and candidate_set.spaces[component.candidate.space] is not None
            weights = np.asarray(component.weights, float)
            if not known or not len(weights) or not np.all(np.isfinite(weights) & (weights >= 0)):
                raise GpumError("a candidate has no space, or its weights are not numbers")
        errors = getattr(output.posterior, "gross", 0.0), getattr(output.posterior, "gross_variance", 0.0)
        if not (0 <= errors[0] < 1 and 0 <= errors[1] < np.inf):
            raise GpumError("its gross errors have no probability or variance")
        total = sum(component.weight for component in output.posterior.components)
        if not abs(total - 1) < 1e-6:
            raise GpumError(f"the weights of its candidates add up to {total:.6g}, not to 1")
