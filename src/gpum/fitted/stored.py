"""What a model file stores of a fitted model, and how the model is rebuilt from it on first use.

A file stores the cloud, the learned charts, the settings with weight in a posterior, and their weights. Everything that
can be recomputed from these is left out: features of the cloud in every space, eigenfunctions (`geometry.recipes`) and
Gram matrices of labels. Geometries and spaces without weight are left out too: predictions do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from ..basics.checks import GpumError
from ..basics.threads import blas_threads
from ..basics.workers import results
from ..geometry import recipes
from ..geometry.atlas import AtlasGeometry
from ..geometry.base import KernelTask, UnweightedGeometry
from ..geometry.family import Family
from ..inference import gp
from ..inference.posterior import Component, Decomposed, LazyDecomposed, Posterior
from .cloud import Cloud
from .geometries import Geometries
from .model import FittedModel


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A fitted model without what can be recomputed.

    Spaces without weight are None; `rows` are the features of the cloud in spaces that are stored without a recipe.
    """

    cloud: Cloud
    members: list[Any]
    spaces: list[Any]
    rows: list[Any]
    geometry_of: list[int]
    notes: list[str]
    kernels: KernelTask
    coordinates: dict[int, np.ndarray]
    outputs: list[Any]
    several: bool
    classes: np.ndarray | None
    settings: dict[str, Any]
    version: str

    @classmethod
    def of(cls, model: FittedModel, small: bool = False) -> StoredModel:
        """What to store of a model; with `small` also the eigenfunctions of large clouds are left out."""
        geometries, family = model.geometries, model.geometries.family
        levels = recipes.levels([component for output in model.outputs for component in output.posterior.components])
        heavy = {family.geometry_of[k] for k in levels}
        spaces: list[Any] = [None] * len(family.spaces)
        rows: list[Any] = [None] * len(family.spaces)
        members = [
            recipes.stored_geometry(member) if k in heavy else UnweightedGeometry(member.name, member.title)
            for k, member in enumerate(geometries.members)
        ]
        for k, level in levels.items():
            owner = family.geometry_of[k]
            found = recipes.recipe(
                family.spaces[k], family.rows[k], geometries.members[owner], level, geometries.kernels, small
            )
            if found is not None:
                spaces[k] = found
            elif isinstance(members[owner], recipes.LocalCharts):
                spaces[k] = members[owner]
            else:
                spaces[k], rows[k] = family.spaces[k], family.rows[k]
        return cls(
            model.cloud, members, spaces, rows, list(family.geometry_of), list(family.notes),
            replace(geometries.kernels, n_jobs=None, verbose=0), dict(geometries.coordinates),
            [_reduced(output, model.cloud) for output in model.outputs], model.several, model.classes,
            dict(model.settings), model.version,
        )  # fmt: skip

    def rebuild(self) -> FittedModel:
        """The fitted model, without geometries and spaces that had no weight."""
        to_make = {id(s): s for s in (*self.members, *self.spaces) if hasattr(s, "make")}  # an atlas is both
        made = dict(zip(to_make, results([recipe.make for recipe in to_make.values()], -1), strict=True))
        members = [made.get(id(s), s) for s in self.members]
        spaces, rows = list(self.spaces), list(self.rows)
        for k, space in enumerate(spaces):
            if id(space) in made:
                found = made[id(space)]
                spaces[k], rows[k] = (found.pairs, found.rows) if isinstance(found, AtlasGeometry) else found
        outputs = [_completed(output, rows, self.cloud) for output in self.outputs]
        settings = [component.setting for output in outputs for component in output.posterior.components]
        family = Family(spaces, settings, rows, list(self.geometry_of), list(self.notes))
        geometries = Geometries(self.cloud, members, family, self.kernels, dict(self.coordinates))
        return FittedModel(geometries, outputs, self.several, self.classes, self.settings, self.version)

    def __gpum_restored__(self) -> None:
        """Refuse a file whose indices are out of range or whose weights are not weights."""
        n = len(self.geometry_of)
        if not len(self.spaces) == len(self.rows) == n or not all(0 <= o < len(self.members) for o in self.geometry_of):
            raise GpumError("its spaces do not belong to its geometries")
        if not self.outputs:
            raise GpumError("its settings are not there")
        for output in self.outputs:
            r = output.rows
            if not (r.ndim == 1 and r.dtype == int and np.all((r >= 0) & (r < len(self.cloud)))):
                raise GpumError("its labels belong to rows that are not there")
            for component in output.posterior.components:
                known = 0 <= component.setting.space < n and self.spaces[component.setting.space] is not None
                weights = np.asarray(component.weights, float)
                if not known or not len(weights) or not np.all(np.isfinite(weights) & (weights >= 0)):
                    raise GpumError("a setting has no space, or its weights are not numbers")
                alpha = component.alpha if isinstance(component, Component) else None
                if alpha is not None and (alpha.shape != r.shape or not np.all(np.isfinite(alpha))):
                    raise GpumError("the weights of its labels are not numbers, one for each label")
            total = sum(component.weight for component in output.posterior.components)
            if not abs(total - 1) < 1e-6:
                raise GpumError(f"the weights of its settings add up to {total:.6g}, not to 1")


class LazyModel:
    """A fitted model, or its stored form, from which the model is rebuilt on first use.

    Any number of threads may use it at once: one thread rebuilds the model, the others wait. If that fails or is
    interrupted, nothing is changed, and the next use tries again.
    """

    def __init__(self, model: FittedModel | None = None, stored: StoredModel | None = None) -> None:
        self._model, self._stored, self._lock = model, stored, Lock()

    @property
    def model(self) -> FittedModel:
        """The model."""
        if self._model is None:
            with self._lock:
                if self._model is None:
                    assert self._stored is not None
                    self._model, self._stored = self._stored.rebuild(), None
        return self._model

    def ready(self) -> None:
        """Compute now what the first predictions of a loaded model would compute: spaces, decompositions, programs."""
        model = self.model
        lazy = [
            component.d
            for output in model.outputs
            for name in output.posteriors
            for component in getattr(output, name).components
            if isinstance(component, Component) and isinstance(component.d, LazyDecomposed)
        ]
        list(results([partial(getattr, d, "found") for d in lazy], -1))
        row = model.cloud.X[:1]
        model.predictive(row + 1e-3 * np.asarray(model.cloud.unit))._warm()

    @property
    def stored(self) -> StoredModel:
        """Its stored form."""
        stored = self._stored
        return StoredModel.of(self.model) if stored is None else stored

    def __getstate__(self) -> dict[str, Any]:
        return {"_model": self._model, "_stored": self._stored}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())


def _reduced(output: Any, cloud: Cloud) -> Any:
    """An output without what can be recomputed from its labels, unless some labelled rows were projected."""
    if np.any(cloud._learned_at(output.rows) < 0):
        return output
    changed = {}
    for name in output.posteriors:
        posterior = getattr(output, name)
        if isinstance(posterior, Posterior) and len(output.rows) <= recipes.FEW:
            components = [replace(p, d=_nothing(p.d), alpha=p.mean_weights) for p in posterior.components]
            posterior = replace(posterior, components=components)
        changed[name] = replace(posterior, labels=[]) if hasattr(posterior, "labels") else posterior
    return replace(output, **changed)


def _nothing(d: Decomposed) -> Decomposed:
    """What is stored of a decomposition: the noise of the labels."""
    return Decomposed(np.zeros((0, 0)), np.zeros(0), np.zeros(0), 0.0, d.precision)


def _completed(output: Any, rows: list[Any], cloud: Cloud) -> Any:
    """An output with what `_reduced` left out; a decomposition is computed when the first variance needs it."""
    changed = {}
    for name in output.posteriors:
        posterior = getattr(output, name)
        if hasattr(posterior, "labels") and not posterior.labels:
            labels = [None if r is None else r[cloud._learned_at(output.rows, len(r))] for r in rows]
            posterior = replace(posterior, labels=labels)
            if isinstance(posterior, Posterior):
                y = output.targets(name)
                components = [p if len(p.d.U) else _decomposed(p, labels, y) for p in posterior.components]
                posterior = replace(posterior, components=components)
        changed[name] = posterior
    return replace(output, **changed)


def _decomposed(component: Component, labels: list[Any], y: np.ndarray) -> Component:
    setting, precision = component.setting, component.d.precision
    with np.errstate(divide="ignore"):  # a label that says nothing has infinite noise
        noise = 1 / precision if isinstance(precision, np.ndarray) else None
    return replace(component, d=LazyDecomposed(partial(_decompose, setting, labels[setting.space], y, noise)))


def _decompose(setting: Any, labels: np.ndarray, y: np.ndarray, noise: np.ndarray | None) -> Decomposed:
    with blas_threads(len(y)):
        return gp.decompose(setting.covariance, labels, y, noise)
