"""How `GPUMRegressor` and `GPUMClassifier` learn the surfaces of a cloud, keep them, and show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, clone
from sklearn.frozen import FrozenEstimator

from .. import checks
from ..checks import GpumError
from ..files.checkpoint import Checkpoint
from ..files.tree import digest
from ..geometry import Chart
from ..regression import graphs
from ..regression.family import smoothness_names
from ..regression.surfaces import ChartSurface, FlatSurface, Wanted
from . import features
from .cloud import CloudEstimator
from .geometries import Built, build, dimensions, geometry_names
from .latent_base import LatentModel
from .latent_models import GPLVM, BayesianGPLVM
from .places import place_on
from .stored import NOT_RESULTS, open_checkpoint

LATENT_MODELS: dict[str, Any] = {"bgplvm": BayesianGPLVM, "gplvm": GPLVM}
KERNELS = ("auto", "spectral", "brownian")
# Settings that other labels may come with.
NOT_GEOMETRY = ("hyperparameters", "likelihood", "target", "period", *NOT_RESULTS)


class LearnsLatent(ClassNamePrefixFeaturesOutMixin, CloudEstimator):
    """What estimators with a latent model share: how it is learned, and where rows lie on its chart."""

    latent_dim: Any
    n_jobs: int | None
    verbose: int
    latent_model_: LatentModel | None
    latent_: np.ndarray | None

    def _learn_latent(self, given: Any, X: np.ndarray, latent_dim: Any, **options: Any) -> LatentModel:
        """The given latent model if it is fitted, else a copy of it, or the named one, fitted to X."""
        given = _thawed(given)
        if isinstance(given, LatentModel):
            model = given if hasattr(given, "chart_") else self._in_checkpoint(clone(given), latent_dim).fit(X)
        else:
            options = {"n_jobs": self.n_jobs, "random_state": self.random_state, "verbose": self.verbose, **options}
            model = self._in_checkpoint(LATENT_MODELS[given](latent_dim, **options), latent_dim).fit(X)
        if X.shape[1] != model.n_features_in_:
            raise GpumError(
                f"X has {X.shape[1]} columns, but the given latent model was fitted with {model.n_features_in_}; "
                "pass the same columns"
            )
        features.same_names(self, model)
        return model

    def _in_checkpoint(self, model: LatentModel, latent_dim: Any) -> LatentModel:
        """The model with a folder of its own in the estimator's checkpoint, where there is one."""
        folder = getattr(self, "checkpoint", None)
        return model if folder is None else model.set_params(checkpoint=str(Path(folder) / f"chart-{latent_dim}"))

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X, seen or not (and their sds), on the chart of largest weight."""
        X = self._check_rows(X)
        if self.latent_ is None:
            raise GpumError(
                f"geometry is {getattr(self, 'geometry', None)!r}, which has no chart and so no latent coordinates; "
                "fit with a geometry that has 'chart' in it"
            )
        if self.latent_model_ is None:  # a known chart
            return (X, np.zeros_like(X)) if return_std else X
        found = self.latent_model_.placed(X)
        return found if return_std else found[0]

    @property
    def _n_features_out(self) -> int:
        """How many latent coordinates there are."""
        return 0 if self.latent_ is None else self.latent_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not isinstance(getattr(self, "latent_model", None), Chart)
        return tags

    def _latent_of(self, X: np.ndarray, index: np.ndarray) -> np.ndarray | None:
        if self.latent_ is None:
            return None
        latent, new = self.latent_[np.maximum(index, 0)], index < 0
        if new.any():
            latent[new] = X[new] if self.latent_model_ is None else self.latent_model_.placed(X[new])[0]
        return latent

    def _on_chart(self, shown: ChartSurface | FlatSurface) -> np.ndarray:
        """Coordinates of all rows of the cloud on a chart, [N, q]."""
        if self._part is None:
            return shown.rows
        owner = next(k for k, surface in enumerate(self._surfaces) if surface is shown)
        if owner not in self._points:
            found = np.empty((len(self._cloud), shown.rows.shape[1]))
            found[self._part] = shown.rows
            rest = np.setdiff1d(np.arange(len(found)), self._part)
            found[rest] = place_on(shown, self._cloud[rest]).points
            self._points[owner] = found
        return self._points[owner].copy()


class Surfaces(LearnsLatent):
    """Geometries side by side, as `geometry`, `latent_dim`, `latent_model`, `boundary`, `kernel`, … ask for them."""

    _graphs: Callable[..., list[graphs.GraphSpace]] = staticmethod(graphs.graph_spaces)  # of "graph"

    def _weigh(self) -> list[dict[str, float]]:
        """The weight of each geometry by name, for each output; and the chart that people are shown."""
        weights = [self._surface_weights(output) for output in self._outputs]
        names = [surface.name for surface in self._surfaces]
        found = [
            {name: float(w[[n == name for n in names]].sum()) for name in dict.fromkeys(names)} for w in weights
        ]  # fmt: skip
        charts = [k for k, surface in enumerate(self._surfaces) if isinstance(surface, ChartSurface)]
        shown = self._surfaces[max(charts, key=lambda k: np.mean(weights, 0)[k])] if charts else None
        self.latent_model_ = getattr(shown, "model", None)
        self.chart_: Chart | None = None
        self.latent_ = None
        if isinstance(shown, ChartSurface):
            self.chart_, self.latent_ = shown.bounded(self._wanted()), self._on_chart(shown)
        return found

    def _check_cloud(self, X: Any) -> np.ndarray:
        names = geometry_names(self.geometry)
        dimensions(self.latent_dim)
        check_latent_model(self.latent_model)
        checks.option(self.kernel, "kernel", KERNELS)
        smoothness_names(self.smoothness)
        if isinstance(self.boundary, str):
            checks.option(self.boundary, "boundary", ("average", "variance"), "a level, a number such as 0.5")
        else:
            checks.positive(self.boundary, "boundary", "a level, 'average' or 'variance'", zero=True)
        checks.jobs(self.n_jobs)
        checks.integer(self.n_paths, "n_paths", 10, None, "1000 is the default")
        checks.integer(self.metric_draws, "metric_draws", 0, None, "0 uses the mean metric")
        if self.max_time is not None:
            checks.positive(self.max_time, "max_time", "None finds it")
        if self.n_kernel_inducing is not None:
            checks.integer(self.n_kernel_inducing, "n_kernel_inducing", 2, None, "None uses every labelled row")
        if self.n_inducing is not None and self.latent_model == "gplvm":
            raise GpumError(
                f"n_inducing is {self.n_inducing!r}, but latent_model='gplvm' has no inducing points; use "
                "latent_model='bgplvm', or n_inducing=None"
            )
        known = isinstance(self.latent_model, Chart)
        if known and "chart" not in names:
            raise GpumError(
                f"latent_model is a known chart, but geometry is {self.geometry!r}; use geometry='chart' or 'average'"
            )
        X = checks.cloud(X, "X", min_rows=2 if known else 3, missing=not known)
        checks.columns_read(X, "X")
        if known and X.shape[1] != self.latent_model.dim:
            raise GpumError(
                f"X has {X.shape[1]} columns, but latent_model is a chart of {self.latent_model.dim} coordinates; with "
                "a known chart X holds coordinates in it"
            )
        return X

    def _unit_of(self, X: np.ndarray) -> float:
        return super()._unit_of(X) if isinstance(self.latent_model, str) else 1.0

    def _build(self, X: np.ndarray, y: np.ndarray | None = None) -> None:
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_GEOMETRY}
        key = (
            X.shape,
            sha256(X.tobytes()).digest(),
            tuple((k, _told_apart(v)) for k, v in settings.items()),
        )
        if not (checks.flag(self.warm_start, "warm_start") and getattr(self, "_built_from", None) == key):
            self._built_from = None
            self._run = open_checkpoint(self, X=X, y=y)
            super()._build(X, y)
            self._family.notes[:0] = self._run.notes
            self._built_from = key

    def _learn(self, X: np.ndarray) -> Built:
        self._seed = int(checks.random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.latent_model, Chart):
            return Built.one(self._in_pieces(ChartSurface(self.latent_model, X)))
        names = geometry_names(self.geometry)
        named = isinstance(self.latent_model, str)

        def charts(latent_dim: Any, verbose: int) -> Iterator[ChartSurface]:
            options = {} if self.n_inducing is None else {"n_inducing": self.n_inducing}
            model = self._learn_latent(self.latent_model, X, latent_dim, verbose=verbose, **options)
            # A given model is used as it is; of those learned here, other fits may stand beside the best.
            for one in model.different_fits() if named else [model]:
                yield self._in_pieces(one.surface(one.coordinates(X)))

        built = build(
            names, self.latent_dim, X, charts, self._graphs,
            pieces=self._run, once=not named, seed=self._seed, n_jobs=self.n_jobs, verbose=self.verbose,
        )  # fmt: skip
        learned = [surface.model for surface in built.surfaces if isinstance(surface, ChartSurface)]
        built.notes.extend(dict.fromkeys(note for model in learned for note in getattr(model, "notes_", [])))
        return built

    def _in_pieces(self, surface: ChartSurface) -> ChartSurface:
        """The surface, whose domains are kept among the pieces of the run; not those of charts that are code."""
        surface.pieces = Checkpoint()
        if self._run.folder is not None:
            with suppress(ValueError):
                surface.pieces = self._run.of(f"chart {digest([surface.chart, surface.rows])}")
        return surface

    def _wanted(self) -> Wanted:
        return Wanted(
            smoothness_names(self.smoothness),
            boundary=self.boundary,
            kernel=self.kernel,
            n_modes=self.n_kernel_inducing,
            metric_draws=self.metric_draws,
            max_time=self.max_time,
            n_paths=self.n_paths,
            step_size=self.step_size,
            n_inducing=self.n_kernel_inducing,
            seed=self._seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )


def _told_apart(value: Any) -> Any:
    """A setting as something that is the same if the setting is: also in another process, but for objects."""
    if value is None or np.isscalar(value):
        return value
    return tuple(map(_told_apart, value)) if isinstance(value, list | tuple) else id(value)


def _thawed(given: Any) -> Any:
    return given.estimator if isinstance(given, FrozenEstimator) else given


def check_latent_model(given: Any) -> None:
    """Refuse what is no latent model."""
    given = _thawed(given)
    if isinstance(given, str):
        checks.option(given, "latent_model", LATENT_MODELS)
    elif not isinstance(given, LatentModel | Chart):
        raise GpumError(
            f"latent_model must be 'bgplvm', 'gplvm', a latent model or a chart, got {given!r}; pass one of these"
        )
