"""What `GPUMRegressor` and `GPUMClassifier` share: parameters, their checks, and the latent models that these mean.

Charts and latent models are imported where they are needed: to read a fitted model and predict takes no JAX.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metaestimators import available_if

from ..basics import checks
from ..basics.checks import GpumError
from ..fitted import Cloud
from ..geometry.kernels import Linear
from ..geometry.options import (
    KernelOptions,
    KernelTask,
    dimensions,
    geometry_names,
    has_terms,
    kernel_options,
    smoothness_names,
    with_kernel,
    with_mean,
)
from ..heat.meshes import Mesh
from ..persistence.store import Store
from . import features, shell, units
from .shell import is_latent_model

if TYPE_CHECKING:
    from ..geometry.chart import ChartGeometry
    from .latent_base import LatentModel

LATENT_MODELS = ("bgplvm", "gplvm")
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
    options = options_of(estimator)
    smoothness_names(estimator.smoothness, options.covariance)
    if has_terms(options) and not estimator._takes_terms:
        raise GpumError(
            f"kernel is {options.covariance!r}, and terms on columns are for GPUMRegressor; use a kernel on the surface"
        )
    checks.option(estimator.scale, "scale", units.SCALES)
    checks.jobs(estimator.n_jobs)
    if is_chart(estimator.latent_model) and "chart" not in names:
        raise GpumError(
            f"latent_model is a known chart, but geometry is {estimator.geometry!r}; use geometry='chart' or 'average'"
        )
    if mesh_of(estimator) is not None and estimator.scale in ("standard", "robust"):
        raise GpumError(
            f"scale is {estimator.scale!r}, but geometry is a mesh, in whose units X is; use scale='auto' or 'none'"
        )
    if estimator.scale in ("standard", "robust") and has_units(estimator.latent_model):
        raise GpumError(
            f"scale is {estimator.scale!r}, but latent_model is a chart or a fitted latent model, which has units of "
            "its own; use scale='auto' or 'none', and scale X before the latent model is fitted"
        )


def options_of(estimator: Any) -> KernelOptions:
    """The options that an estimator's `kernel` and `mean` mean."""
    return with_mean(kernel_options(estimator.kernel), getattr(estimator, "mean", "constant"))


def kernel_task(estimator: Any, seed: int, verbose: int = 0) -> KernelTask:
    """The kernels that an estimator's parameters mean, and how they are computed."""
    options = options_of(estimator)
    names = [] if options.covariance is None else options.covariance.names
    return KernelTask(
        smoothness_names(estimator.smoothness, options.covariance), options, seed, estimator.n_jobs, verbose,
        features.positions(estimator, names),
    )  # fmt: skip


def units_of(estimator: Any, cloud: Cloud) -> list[units.Units]:
    """The units that the columns of the cloud may have, the likeliest first."""
    if has_units(estimator.latent_model) or mesh_of(estimator) is not None:
        return [units.Units("none", 1.0, 0.0)]
    indicators = features.indicators(estimator)
    if indicators is not None and cloud.surface is not None:
        indicators = indicators[cloud.surface]
    return units.candidates(cloud.centred, estimator.scale, indicators)


def mesh_of(estimator: Any) -> Mesh | None:
    """The mesh that is the estimator's geometry; None where surfaces are learned, or a chart is given."""
    return estimator.geometry if isinstance(estimator.geometry, Mesh) else None


def has_chart(estimator: Any) -> bool:
    """Whether a geometry is a chart, so that rows have latent coordinates."""
    return is_chart(estimator.latent_model) or "chart" in geometry_names(estimator.geometry)


def check_columns(estimator: BaseEstimator, model: LatentModel, X: np.ndarray) -> None:
    """Refuse columns other than those that a given latent model was fitted with."""
    if X.shape[1] != features.width(model):
        raise GpumError(
            f"X has {X.shape[1]} columns, but the given latent model was fitted with {features.width(model)}; "
            "pass the same columns"
        )
    features.same_columns(estimator, model)


def takes_dimensions(given: Any) -> bool:
    """Whether a `latent_model` is fitted in each of the dimensions of `latent_dim`: it has none of its own."""
    return isinstance(given, str) or (getattr(given, "latent_dim", 0) is None and not is_fitted(given))


def charts(
    given: Any, X: np.ndarray, n_rows: int, dim: Any, quickly: bool, alone: bool, store: Store, options: dict[str, Any]
) -> list[ChartGeometry]:
    """The charts of one dimension of rows X [N, p], of `n_rows` in the cloud: the best distinct fits of a latent model.

    `quickly` means one start, which takes a sixth of the time of all. Beside other kinds of geometry a chart is left
    out where a latent dimension collapses. A fitted model has a store of its own, for fits without a folder.
    """
    every = takes_dimensions(given)
    if quickly and isinstance(given, str):
        options = {**options, "starts": "curve"}
    model = fitted_latent_model(given, X, n_rows, dim, store, needs_surface=every and not alone, **options)
    # A model with its own dimension is used alone; otherwise distinct fits of other starts are used as well.
    models = model._different_fits() if every else [model]
    return [one._geometry(X, store if store.folder is not None or model is not given else None) for one in models]


def fitted_latent_model(
    given: Any, X: np.ndarray, n_rows: int, latent_dim: Any, store: Store, needs_surface: bool = False, **options: Any
) -> LatentModel:
    """The given latent model if it is fitted, else a copy of it, or the named one, fitted to X.

    With `needs_surface` it raises NoSurface where a latent dimension collapses, and does not finish that fit.

    A model without a dimension of its own gets `latent_dim`, and the options. It has at most one inducing point for
    each of the rows of X, which may be fewer than the `n_rows` of the cloud.
    """
    if is_fitted(given):
        return given
    from .latent_models import GPLVM, BayesianGPLVM

    model = clone(given) if is_latent_model(given) else {"bgplvm": BayesianGPLVM, "gplvm": GPLVM}[given]()
    if model.scale == "auto":
        model.set_params(scale="none")  # X has the units that the estimator chose
    if model.latent_dim is None:
        if model.random_state is not None:
            options.pop("random_state")
        model.set_params(latent_dim=latent_dim, **options)
    m = getattr(model, "n_inducing", None)
    if isinstance(m, Integral) and len(X) < int(m) <= n_rows:  # some rows are copies
        model.set_params(n_inducing=len(X))
    model._fit(X, store, needs_surface)
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


def thawed(given: Any) -> Any:
    """A parameter; the estimator inside a `FrozenEstimator`."""
    return given.estimator if isinstance(given, FrozenEstimator) else given


def is_chart(given: Any) -> bool:
    """Whether a `latent_model` is a chart."""
    if isinstance(given, str):
        return False
    from ..manifold import Chart

    return isinstance(given, Chart)


def has_units(given: Any) -> bool:
    """Whether a `latent_model` is a known chart or a fitted model, so that X must stay in its units."""
    return is_chart(given) or is_fitted(given)


def is_fitted(given: Any) -> bool:
    """Whether a `latent_model` is fitted, so that it is used as it is."""
    given = thawed(given)
    return is_latent_model(given) and hasattr(given, "chart_")


def check_latent_model(given: Any) -> None:
    """Refuse what is no latent model."""
    given = thawed(given)
    if isinstance(given, str):
        checks.option(given, "latent_model", LATENT_MODELS)
    elif not is_latent_model(given) and not is_chart(given):
        raise GpumError(
            f"latent_model must be 'bgplvm', 'gplvm', a latent model or a chart, got {given!r}; pass one of these"
        )


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
        return cls(
            tuple(geometry_names(estimator.geometry)),
            estimator.geometry == "average" and all(isinstance(one, str) for one in given),
            estimator.latent_dim, thawed(estimator.latent_model), mesh_of(estimator), graphs, seed,
            kernel_task(estimator, drawn_seed(seed), verbose),
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether one kind of geometry is asked for."""
        return len(self.names) == 1

    @property
    def learned_model(self) -> Any:
        """The latent model of charts, where charts or atlases are learned from rows; None: nothing is."""
        learns = "atlas" in self.names or ("chart" in self.names and not is_fitted(self.latent_model))
        return self.latent_model if learns and not is_chart(self.latent_model) else None

    def __gpum_key__(self) -> Any:
        """What results depend on."""
        kernels = replace(self.kernels, n_jobs=None, verbose=0)
        return (
            self.by_default, self.alone, self.latent_dim, self.latent_model, self.mesh, self.graphs, self.seed, kernels,
        )  # fmt: skip


class SurfaceEstimator(shell.ChartEstimator):
    """What `GPUMRegressor` and `GPUMClassifier` share: geometries that parameters name, and a chart among these."""

    geometry: Any
    kernel: Any
    latent_model: Any
    _takes_terms = False  # whether kernels may have terms on columns

    def set_params(self, **params: Any) -> Any:
        """Set parameters, also options of the kernel, such as kernel__n_modes=50."""
        params = with_kernel(self.kernel, params)
        for name, inside in (name.split("__", 1) for name in params if "__" in name):
            value = params.get(name, getattr(self, name, self))
            if not hasattr(value, "set_params"):
                raise GpumError(
                    f"{name}__{inside} was given, but {name} is {value!r}, which has no parameters; give {name} an "
                    "object with all that you want to set, such as BayesianGPLVM(n_inducing=80) or Priors(noise=...)"
                )
        return super().set_params(**params)

    @property
    def _takes_missing(self) -> bool:  # type: ignore[override]
        """Whether rows may lack readings: not on a known chart or a mesh."""
        return not is_chart(self.latent_model) and mesh_of(self) is None

    def _read_cloud(self, X: Any) -> Cloud:
        """X, checked against the parameters; divided by a unit unless a chart was given, which has units of its own."""
        _check_parameters(self)
        given = self.latent_model
        known, mesh = is_chart(given), mesh_of(self)
        cloud = shell.read_cloud(
            self, X, min_rows=2 if known else 3, missing=self._takes_missing,
            by_unit=mesh is None and not has_units(given), seen=self._seen,
        )  # fmt: skip
        p = cloud.rows.shape[1]
        if mesh is not None and p != mesh.vertices.shape[1]:
            raise GpumError(
                f"X has {p} columns, but the vertices of the mesh have {mesh.vertices.shape[1]}; "
                "rows are points near the mesh"
            )
        if known and p != given.dim:
            raise GpumError(
                f"X has {p} columns, but latent_model is a chart of {given.dim} coordinates; with a "
                "known chart X holds coordinates in it"
            )
        if is_fitted(given):
            if cloud.surface is not None:
                raise GpumError(
                    "kernel names columns of X, but latent_model is fitted, with columns of its own; give one that is "
                    "not fitted, or a kernel without columns"
                )
            check_columns(self, thawed(given), cloud.X)
        return cloud

    def _seen(self) -> dict[str, Any]:
        """The columns that geometries and terms of the kernel see, as fields of a cloud."""
        options = options_of(self)
        if options.covariance is None or not has_terms(options):
            return {}
        kernel = options.covariance
        width = features.width(self)
        named = [column for columns in features.positions(self, kernel.names).values() for column in columns]
        surface, every = np.setdiff1d(np.arange(width), named), Linear() in kernel.leaves
        if not len(surface):
            raise GpumError(f"kernel is {kernel!r}, which names every column of X; the surface needs at least one")
        return {"surface": surface if named else None, "of_terms": np.arange(width) if every else np.unique(named)}

    @property
    def geometry_weights_(self) -> Any:
        """Weight of each geometry by name."""
        return self.model_.geometry_weights

    @property
    def surfaces_(self) -> Any:
        """The surfaces with weight, the heaviest first; no graph, no flat space."""
        return self.model_.surfaces

    @property
    def chart_(self) -> Any:
        """The chart of largest weight; None without one."""
        return self.model_.chart

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Rows [n, p] of the surface at coordinates Z [n, q] of `transform` (and how well it is known there)."""
        latent, cloud = self.latent_model_, self.model_.cloud
        if latent is None:
            raise GpumError(
                "there is no learned chart: rows of a known chart are coordinates; fit with geometry='chart'"
            )
        rows = latent.inverse_transform(Z, return_std)
        return (cloud.unscaled(rows[0]), rows[1] * cloud.unit) if return_std else cloud.unscaled(rows)

    def fit_transform(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Fit, and return the latent coordinates of the rows of X."""
        return self.fit(X, y, **fit_params).transform(X)

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: without a chart it is no transformer."""
        tags = super().__sklearn_tags__()
        if not has_chart(self):
            tags.transformer_tags = None
        return tags


# `transform` and related methods exist only where a geometry is a chart. scikit-learn has wrapped them by now for
# `set_output`.
for _name in ("transform", "fit_transform", "inverse_transform", "get_feature_names_out"):
    setattr(SurfaceEstimator, _name, available_if(has_chart)(getattr(SurfaceEstimator, _name)))
