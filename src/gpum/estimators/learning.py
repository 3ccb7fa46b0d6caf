"""How `GPUMRegressor` and `GPUMClassifier` learn the geometries of a cloud.

read_cloud           check the parameters and the cloud
learn                learn its geometries; with `warm_start` reuse those of the last fit if nothing relevant changed
reuse                use geometries that were learned before, for example by another process
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metaestimators import available_if

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.threads import one_blas_thread
from ..fitted import Cloud, Geometries
from ..geometry.base import KernelOptions, kernel_options
from ..geometry.build import Built, Many, build, dimensions, geometry_names
from ..geometry.chart import ChartGeometry
from ..geometry.family import smoothness_names
from ..manifold import Chart
from ..persistence.checkpoint import Checkpoint
from ..persistence.tree import digest
from . import features, shell, units
from .latent_base import LatentModel
from .latent_models import GPLVM, BayesianGPLVM
from .stages import Judges, in_stages
from .stored import NOT_RESULTS, open_checkpoint

FEW_NEIGHBOURS = (10,)
LATENT_MODELS: dict[str, Any] = {"bgplvm": BayesianGPLVM, "gplvm": GPLVM}
# Parameters on which geometries do not depend.
OF_LABELS = ("hyperparameters", "likelihood", "period", "unlabelled", "priors", *NOT_RESULTS)
RENAMED = {
    "n_inducing": "latent_model=BayesianGPLVM(n_inducing=...)",
    "n_kernel_inducing": "kernel=KernelOptions(n_modes=...), or n_path_starts=... with method='brownian'",
    **{
        name: f"kernel=KernelOptions({name}=...)"
        for name in ("boundary", "n_paths", "step_size", "max_time", "metric_draws")
    },
}


def _check_parameters(estimator: Any) -> None:
    """Refuse parameters of geometries that are not valid."""
    names = geometry_names(estimator.geometry)
    dimensions(estimator.latent_dim)
    check_latent_model(estimator.latent_model)
    kernel_options(estimator.kernel)
    smoothness_names(estimator.smoothness)
    checks.option(estimator.scale, "scale", units.SCALES)
    checks.jobs(estimator.n_jobs)
    if isinstance(estimator.latent_model, Chart) and "chart" not in names:
        raise GpumError(
            f"latent_model is a known chart, but geometry is {estimator.geometry!r}; use geometry='chart' or 'average'"
        )
    if estimator.scale in ("standard", "robust") and _has_units(estimator.latent_model):
        raise GpumError(
            f"scale is {estimator.scale!r}, but latent_model is a chart or a fitted latent model, which has units of "
            "its own; use scale='auto' or 'none', and scale X before the latent model is fitted"
        )


def has_chart(estimator: Any) -> bool:
    """Whether a geometry is a chart, so that rows have latent coordinates."""
    return isinstance(estimator.latent_model, Chart) or "chart" in geometry_names(estimator.geometry)


def transforms_with_a_chart(cls: type) -> type:
    """A class decorator: `transform` and related methods exist only where a geometry is a chart."""
    # It acts after scikit-learn has wrapped the methods for `set_output`.
    for name in ("transform", "fit_transform", "get_feature_names_out"):
        setattr(cls, name, available_if(has_chart)(getattr(cls, name)))
    return cls


def tags_of_geometry(estimator: Any, tags: Any) -> Any:
    """scikit-learn's tags: missing readings are taken, except by a known chart; no chart, no transformer."""
    tags.input_tags.allow_nan = not isinstance(estimator.latent_model, Chart)
    if not has_chart(estimator):
        tags.transformer_tags = None
    return tags


def read_cloud(estimator: Any, X: Any) -> Cloud:
    """X, checked against the parameters; divided by a unit unless a chart was given, which has units of its own."""
    _check_parameters(estimator)
    given = estimator.latent_model
    known = isinstance(given, Chart)
    cloud = shell.read_cloud(estimator, X, min_rows=2 if known else 3, missing=not known, by_unit=not _has_units(given))
    if known and cloud.X.shape[1] != given.dim:
        raise GpumError(
            f"X has {cloud.X.shape[1]} columns, but latent_model is a chart of {given.dim} coordinates; with a "
            "known chart X holds coordinates in it"
        )
    return cloud


@dataclass
class _Learned:
    """Results for one cloud and one set of parameters, which a fit of other labels reuses."""

    key: Any
    made: dict[Any, Any] = field(default_factory=dict)

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """The result called `name`, computed on first use."""
        if name not in self.made:
            with one_blas_thread:  # most problems here are small, and threads make them many times as slow
                self.made[name] = make()
        return self.made[name]


def learn(
    estimator: Any, cloud: Cloud, y: np.ndarray, graphs: Callable[..., Any], judges: Judges, *, random: bool,
) -> Geometries:  # fmt: skip
    """The geometries of a cloud that the estimator's parameters request.

    `graphs` makes the graphs; `judges` are the labels that choose between units of the columns and decide whether
    charts are worth learning; `random` says how a subset of a large cloud is chosen.
    """
    key = _key(estimator, cloud)
    learned = getattr(estimator, "_warm", None)
    if not checks.flag(estimator.warm_start, "warm_start") or learned is None or learned.key != key:
        learned = _Learned(key)
    estimator._warm = None
    if "given" not in learned.made:
        seed = learned.once("seed", lambda: seed_of(estimator.random_state))
        run = learned.once("checkpoint", lambda: open_checkpoint(estimator, X=cloud.X, y=y))
        make = partial(_build, estimator, graphs=graphs, seed=seed)
        choices = learned.once("units", partial(_units, estimator, cloud))
        found = in_stages(
            estimator, cloud, choices, learned.once, run, make, judges, drawn_seed(seed), random,
        )  # fmt: skip
    else:
        found = learned.made["given"]
    if estimator.warm_start:
        estimator._warm = learned
    return found


def reuse(estimator: Any, X: Any, geometries: Geometries) -> None:
    """Give an estimator with `warm_start` geometries of X that were learned before; its next fit to X uses them."""
    estimator._warm = _Learned(_key(estimator, read_cloud(estimator, X)), {"given": geometries})


def _units(estimator: Any, cloud: Cloud) -> list[units.Units]:
    """The units that the columns of the cloud may have, the likeliest first."""
    if _has_units(estimator.latent_model):
        return [units.Units("none", 1.0, 0.0)]
    return units.candidates(cloud.centred, estimator.scale, features.indicators(estimator))


def _build(
    estimator: Any, cloud: Cloud, names: Sequence[str], *, graphs: Callable[..., Any], run: Checkpoint, seed: int,
    few: bool = False, optional: bool = False,
) -> Built:  # fmt: skip
    """Builds the geometries of these names; with `few`, only the graphs of FEW_NEIGHBOURS; see `build`."""
    graphs = partial(graphs, n_neighbors=FEW_NEIGHBOURS) if few else graphs
    given, X, n_rows = estimator.latent_model, cloud.learned, len(cloud)
    if isinstance(given, Chart):
        return Built.one(_in_checkpoint(ChartGeometry(given, X), run))
    every = isinstance(given, str) or (getattr(_thawed(given), "latent_dim", 0) is None and not _is_fitted(given))

    alone = len(geometry_names(estimator.geometry)) == 1

    def charts(latent_dim: Any, verbose: int, quick: bool) -> Iterator[ChartGeometry]:
        options = {"n_jobs": estimator.n_jobs, "random_state": seed, "verbose": verbose}
        if quick and isinstance(given, str):
            options["starts"] = "curve"  # one start takes a sixth of the time of all
        model = fitted_latent_model(
            estimator, given, X, n_rows, latent_dim, run, needs_surface=every and not alone, **options
        )
        # A model with its own dimension is used alone; otherwise distinct fits of other starts are used as well.
        for one in model._different_fits() if every else [model]:
            yield _in_checkpoint(one._geometry(X), run)

    built = build(
        names, estimator.latent_dim, X, charts, graphs, checkpoint=run, alone=alone, optional=optional,
        many=None if cloud.many is None else Many(cloud.of_graphs, cloud._learned_at(cloud.many)), once=not every,
        n_modes=kernel_options(estimator.kernel).n_modes, n_jobs=estimator.n_jobs,
        verbose=estimator.verbose,
    )  # fmt: skip
    learned = [geometry.model for geometry in built.geometries if isinstance(geometry, ChartGeometry)]
    built.notes.extend(dict.fromkeys(note for model in learned for note in getattr(model, "notes_", [])))
    return built


def fitted_latent_model(
    estimator: BaseEstimator, given: Any, X: np.ndarray, n_rows: int, latent_dim: Any, run: Checkpoint,
    needs_surface: bool = False, **options: Any,
) -> LatentModel:  # fmt: skip
    """The given latent model if it is fitted, else a copy of it, or the named one, fitted to X.

    With `needs_surface` it raises NoSurface where a latent dimension collapses, and does not finish that fit.

    A model without a dimension of its own gets `latent_dim`, and the options. It has at most one inducing point for
    each of the rows of X, which may be fewer than the `n_rows` of the cloud.
    """
    given = _thawed(given)
    model = given
    if not _is_fitted(given):
        model = clone(given) if isinstance(given, LatentModel) else LATENT_MODELS[given]()
        if model.scale == "auto":
            model.set_params(scale="none")  # X has the units that the estimator chose
        if model.latent_dim is None:
            if model.random_state is not None:
                options.pop("random_state")
            model.set_params(latent_dim=latent_dim, **options)
        m = getattr(model, "n_inducing", None)
        if isinstance(m, Integral) and len(X) < int(m) <= n_rows:  # some rows are copies
            model.set_params(n_inducing=len(X))
        if run.folder is not None:
            model.set_params(checkpoint=str(Path(run.folder) / f"chart-{latent_dim}"))
        try:
            model._needs_surface = needs_surface
            model.fit(X)
        finally:
            del model._needs_surface
    if X.shape[1] != features.width(model):
        raise GpumError(
            f"X has {X.shape[1]} columns, but the given latent model was fitted with {features.width(model)}; "
            "pass the same columns"
        )
    features.same_columns(estimator, model)
    return model


def seed_of(random_state: Any) -> int:
    """A whole number for `random_state`: itself, or one that a generator draws, once, before threads begin."""
    if isinstance(random_state, Integral):
        checks.random_state(random_state)
        return int(random_state)
    return int(checks.random_state(random_state).randint(2**31 - 1))


def drawn_seed(seed: int) -> int:
    """The seed of everything but latent models, which draw from `seed` themselves."""
    return int(checks.random_state(seed).randint(2**31 - 1))


def _in_checkpoint(geometry: ChartGeometry, run: Checkpoint) -> ChartGeometry:
    """The geometry for one fit, with a checkpoint for its finished domains; a chart that is code has none.

    Its cache is that of all fits with the same chart and rows.
    """
    checkpoint = Checkpoint()
    if run.folder is not None:
        with suppress(GpumError):
            checkpoint = run.of(f"chart {digest([geometry.chart, geometry.rows])}")
    return replace(geometry, checkpoint=checkpoint)


class _Same:
    """An object that equals itself alone."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.held is self.held

    __hash__ = None  # type: ignore[assignment]


def _key(estimator: BaseEstimator, cloud: Cloud) -> tuple[Any, ...]:
    """All that geometries depend on: the rows, and the parameters that are not of the labels."""
    settings = {k: _value(v) for k, v in estimator.get_params(deep=False).items() if k not in OF_LABELS}
    return digest(cloud.X), settings


def _value(parameter: Any) -> Any:
    """A value to compare a parameter by: values are equal only if geometries do not differ."""
    parameter = _thawed(parameter)
    if isinstance(parameter, np.ndarray):
        return parameter.shape, parameter.tobytes()
    if isinstance(parameter, list | tuple):
        return [_value(one) for one in parameter]
    if isinstance(parameter, LatentModel):
        settings = {name: _value(one) for name, one in parameter.get_params(deep=False).items()}
        return type(parameter), settings, _Same(getattr(parameter, "chart_", None))
    if parameter is None or np.isscalar(parameter) or isinstance(parameter, KernelOptions):
        return parameter
    return _Same(parameter)


def _thawed(given: Any) -> Any:
    return given.estimator if isinstance(given, FrozenEstimator) else given


def _has_units(given: Any) -> bool:
    """Whether a `latent_model` is a known chart or a fitted model, so that X must stay in its units."""
    return isinstance(given, Chart) or _is_fitted(given)


def _is_fitted(given: Any) -> bool:
    """Whether a `latent_model` is fitted, so that it is used as it is."""
    given = _thawed(given)
    return isinstance(given, LatentModel) and hasattr(given, "chart_")


def check_latent_model(given: Any) -> None:
    """Refuse what is no latent model."""
    given = _thawed(given)
    if isinstance(given, str):
        checks.option(given, "latent_model", LATENT_MODELS)
    elif not isinstance(given, LatentModel | Chart):
        raise GpumError(
            f"latent_model must be 'bgplvm', 'gplvm', a latent model or a chart, got {given!r}; pass one of these"
        )
