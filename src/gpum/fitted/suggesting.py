"""Which rows to label next: what a label is wanted for, what may be labelled, and where these rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.workers import one_blas_thread
from ..inference import design
from ..inference.decisions import CONTRADICTED
from ..inference.outputs import Angle, ClassOutput, CountOutput

if TYPE_CHECKING:
    from .model import FittedModel


def suggestions(
    model: FittedModel, n: int, criterion: str, candidates: Any, goal: str, level: float | None
) -> design.Suggestions:
    """Rows to label next, of the cloud or of rows X [m, p]; see `GPUMRegressor.suggest`."""
    checks.integer(n, "n", 1, None, "it is how many rows you want to label")
    checks.option(criterion, "criterion", design.CRITERIA)
    criterion = _criterion(model.outputs, criterion, goal, level)
    if np.ndim(candidates) == 2:
        X, lacking = np.asarray(candidates), _lacking_among(model, np.asarray(candidates))
        choices = np.flatnonzero(np.any(lacking, axis=0))
        if not len(choices):
            raise GpumError(f"each of the {len(X)} candidates has a label already; give other rows")
    else:
        X, lacking = None, np.ones((len(model.outputs), len(model.cloud)), bool)
        for output, mask in zip(model.outputs, lacking, strict=True):
            mask[output.rows] = False
        choices = _rows_of_cloud(candidates, np.any(lacking, axis=0))
    asked = design.Asked.of(choices, len(model.cloud), criterion in ("maximum", "minimum"))
    with one_blas_thread:  # small products
        rows, local = _located(model, asked, X)
        gains = [output.gains_of(rows, local, level) for output in model.outputs]
        chosen, gain = design.choose(gains, list(lacking[:, asked.candidates]), n, criterion)
    of_classes = model.classes is not None
    floor = design.floor(gains, criterion, len(model.cloud) if of_classes else None, level is not None)
    first = model.outputs[0]
    trusted = not of_classes or design.surplus(first.posterior.left_out, first.labels) >= -CONTRADICTED
    return design.Suggestions(asked.candidates[chosen], gain, floor, criterion, asked.notes, trusted)


def _criterion(outputs: Sequence[Any], criterion: str, goal: Any, level: Any) -> str:
    """The criterion of `design` for a goal, which must suit the outputs."""
    checks.option(goal, "goal", design.GOALS)
    if goal != "level" and level is not None:
        raise GpumError(f"level is {checks.shown(level)}, but goal is {goal!r}; use goal='level', or leave level out")
    if goal == "information":
        return criterion
    if criterion != "variance":
        raise GpumError(f"criterion is {criterion!r}, but goal is {goal!r}; a criterion is for goal='information'")
    if len(outputs) > 1:
        raise GpumError(f"goal is {goal!r}, but y has {len(outputs)} columns; fit the column whose {goal} you want")
    for kind, labels in ((ClassOutput, "classes"), (Angle, "angles")):
        if isinstance(outputs[0], kind):
            raise GpumError(f"goal is {goal!r}, but y is {labels}; use goal='information'")
    if goal != "level":
        return str(goal)
    if isinstance(outputs[0], CountOutput):
        raise GpumError("goal is 'level', but y is counts; use goal='maximum', 'minimum' or 'information'")
    if level is None or isinstance(level, bool) or not _is_number(level):
        raise GpumError(f"goal is 'level', and level is {checks.shown(level)}; give the number that y shall cross")
    return "variance"


def _is_number(value: Any) -> bool:
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False


def _rows_of_cloud(given: Any, lacking: np.ndarray) -> np.ndarray:
    """Indices of the rows to choose from; `lacking` says which rows have no label."""
    N = len(lacking)
    if given is None:
        index = np.flatnonzero(lacking)
        if not len(index):
            raise GpumError(f"every one of the {N} rows of the cloud has a label; there is none left to suggest")
        return index
    index = np.asarray(given)
    if index.dtype == bool and index.shape == (N,):
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.dtype.kind not in "iu" or not len(index):
        raise GpumError(f"candidates must be rows of the cloud [n] or a mask [{N}] of it, got {given!r}; pass these")
    outside = (index < 0) | (index >= N)
    if outside.any():
        raise GpumError(f"candidates has {int(index[outside][0])}, no row of a cloud of {N}; count rows from 0")
    if not lacking[index].all():
        row = int(index[~lacking[index]][0])
        raise GpumError(f"candidates has row {row}, which has a label already; leave such rows out")
    return np.unique(index)


def _lacking_among(model: FittedModel, X: np.ndarray) -> np.ndarray:
    """Which rows X have no label, for each output [outputs, m]; one that equals a labelled row of the cloud has its."""
    cloud = model.cloud
    same, original = cloud._whole_index(X, cloud._index(cloud._scaled(X))), cloud.whole_original
    return np.array([(same < 0) | ~np.isin(same, original[output.rows]) for output in model.outputs])


def _located(
    model: FittedModel, asked: design.Asked, X: np.ndarray | None
) -> tuple[Sequence[np.ndarray | None], design.Asked]:
    """Candidates and targets in every space, and `asked` as positions there; candidates are rows X, or of the cloud.

    Of a small cloud all rows are there, where they were learned from.
    """
    cloud, geometries = model.cloud, model.geometries
    if X is None and cloud.subset is None and cloud.of_terms is None:
        return geometries.candidate_set.rows, asked
    if X is None:
        both = np.concatenate([asked.candidates, asked.targets])
        projected = geometries._project_cloud(both, model._needed)
    else:
        X = X[asked.candidates]
        rows, values, of_cloud = cloud._scaled(X), cloud._values_of_terms(X), cloud.term_values
        if values is not None and of_cloud is not None:
            values = np.concatenate([values, of_cloud[asked.targets]])
        index = np.append(cloud._index(rows), asked.targets)
        rows = np.concatenate([rows, cloud.rows[asked.targets]])
        projected = geometries._project(rows, index, model._needed, values)
    m = len(asked.candidates)
    local = replace(asked, candidates=np.arange(m), targets=m + np.arange(len(asked.targets)))
    return projected.whole.at, local
