"""Gradients of predictions: where rows are on each geometry, and in which directions along it they can move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics.checks import GpumError
from ..geometry.base import SurfaceGeometry, bare
from ..geometry.features import GraphSpace, InducedSpace, NodeFeatures, ScaledSpace
from ..heat.covariances import Stationary
from ..inference.gradients import Directions, gradients, slopes_between
from ..inference.log_normal import LogNormal
from ..inference.outputs import Angle, CountOutput
from ..manifold.slopes import Slopes, on_surface, through_neighbours
from .rows import ProjectedRows

if TYPE_CHECKING:
    from .model import FittedModel

BLOCK = 512  # rows at once
SMALL = 1e-3  # of what induced features leave of a row: less is rounding


def gradient(model: FittedModel, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the derivatives at rows X [n, p], [outputs, n, p] each."""
    for output in model.outputs:
        if isinstance(output, Angle | CountOutput):
            raise GpumError(
                "predict_gradient is for likelihood='gaussian' or 'student' without a period; a prediction of counts "
                "or angles is no linear function of what it is computed from"
            )
    if model.cloud.of_terms is not None:
        raise GpumError(
            "predict_gradient is of functions on a surface alone, and the kernel has terms on columns (or a linear "
            "mean); take differences of predictions"
        )
    if np.isnan(X).any():
        raise GpumError("X has missing readings; a gradient needs complete rows")
    blocks = [_of_block(model, X[k : k + BLOCK]) for k in range(0, max(len(X), 1), BLOCK)]
    mean, std = (np.concatenate(parts, 1) for parts in zip(*blocks, strict=True))
    return mean, std


def _of_block(model: FittedModel, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = model._located(X)
    at = _directions(model, rows)
    means, stds = [], []
    for output in model.outputs:
        mean, variance = gradients(output.posterior, at)
        unit = output.scale / model.cloud.unit
        if isinstance(output, LogNormal):  # the median is e^f, its gradient e^f times that of f
            unit = unit * output.values(output.posterior.mean(rows.whole))[:, None]
        means.append(unit * mean)
        stds.append(unit * np.sqrt(variance))
    return np.array(means), np.array(stds)


def _directions(model: FittedModel, rows: ProjectedRows) -> dict[int, Directions]:
    """Where the rows are in each space that is needed, and how their representation there changes with them."""
    geometries, located = model.geometries, rows.whole
    candidate_set, p = geometries.candidate_set, rows.X.shape[1]
    axes = np.broadcast_to(np.eye(p), (len(rows), p, p))
    on: dict[int, tuple[Slopes, np.ndarray]] = {}  # slopes on each surface, and the places of the rows
    directions: dict[int, Directions] = {}
    for space in sorted(model._needed):
        k, kind = candidate_set.geometry_of[space], candidate_set.spaces[space]
        member, scale = bare(geometries.members[k])
        a, far = located.at[space], located.far[space]
        assert a is not None
        inner: Any = rows.X / scale
        if isinstance(member, SurfaceGeometry):
            if k not in on:
                on[k] = _on_surface(member, rows, k)
            (slopes, places), base = on[k], kind.within if isinstance(kind, InducedSpace) else kind
            assert isinstance(base, NodeFeatures)
            D, frame = slopes.of(np.asarray(base.values_at_nodes, float)), slopes.frame
            if isinstance(kind, InducedSpace):
                D = D @ _of_induced(kind, base.at(places), a)
        elif isinstance(kind, ScaledSpace):
            D, frame = np.zeros((len(rows), p, a.shape[1])), axes
            D[:, np.arange(p), np.arange(p)] = 1 / np.broadcast_to(kind.scale, p)
        elif isinstance(kind, InducedSpace):
            D, frame = _of_induced(kind, inner, a), axes
        elif isinstance(kind, GraphSpace):
            slopes = through_neighbours(kind.cloud, kind.weights(inner)[0], inner / kind.scale)
            D, frame = slopes.of(kind.vectors), slopes.frame
            scale = scale * kind.scale
        else:
            raise GpumError(
                f"the {geometries.titles[k]} has no gradient: its functions are known at rows only; use "
                "another geometry"
            )
        directions[space] = a, D, frame / np.broadcast_to(np.asarray(scale, float), frame.shape[1])[:, None], far
    return directions


def _on_surface(member: SurfaceGeometry, rows: ProjectedRows, k: int) -> tuple[Slopes, np.ndarray]:
    """Slopes on the surface of geometry k at rows, and their places between its nodes."""
    learned_at, number = rows.learned_at[k], rows.number[k]
    places = np.empty((len(rows), member.places.shape[1]))
    places[learned_at >= 0] = member.places[learned_at[learned_at >= 0]]
    if (learned_at < 0).any():
        places[learned_at < 0] = rows.projections[k].points[number[learned_at < 0]]
    return on_surface(member.surface, places), places


def _of_induced(space: InducedSpace, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Derivatives [n, p, k + 1] of the features `at` of rows [n, p] by their columns."""
    p = rows.shape[1]
    scaled = np.broadcast_to(np.diag(1 / np.broadcast_to(space.scale, p)), (len(rows), p, p))
    F = slopes_between(Stationary(space.nu), rows / space.scale, scaled, space.nodes) @ space.root
    along = np.einsum("nk,npk->np", at[:, :-1], F)
    rest = at[:, -1:]
    of_rest = np.where(rest > SMALL, -along / np.maximum(rest, SMALL), 0.0)
    return np.concatenate([F, of_rest[:, :, None]], 2)
