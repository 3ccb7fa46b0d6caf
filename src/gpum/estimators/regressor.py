"""`GPUMRegressor`: Gaussian process regression on the surface that a latent model learns from the cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import checks
from ..geometry import Chart
from ..regression.family import smoothness_names
from ..regression.surfaces import ChartSurface, Placement, Surface, Wanted
from .base import GPRegressor
from .latent_base import LatentModel
from .latent_models import GPLVM, BayesianGPLVM

LATENT_MODELS: dict[str, Any] = {"bgplvm": BayesianGPLVM, "gplvm": GPLVM}
KERNELS = ("auto", "spectral", "brownian")


class SurfaceRegressor(TransformerMixin, GPRegressor):
    """What estimators on a learned surface share: the latent model and where rows lie on its chart."""

    latent_dim: Any
    n_jobs: int | None
    verbose: int
    latent_model_: LatentModel | None

    def _learn_latent(self, given: Any, X: np.ndarray, **options: Any) -> LatentModel:
        """The given latent model if it is fitted, else a copy of it, or the named one, fitted to X."""
        if isinstance(given, FrozenEstimator):
            given = given.estimator
        if isinstance(given, LatentModel):
            model = given if hasattr(given, "chart_") else clone(given).fit(X)
        elif isinstance(given, str):
            checks.option(given, "latent_model", LATENT_MODELS)
            options |= {"n_jobs": self.n_jobs, "random_state": self.random_state, "verbose": self.verbose}
            model = LATENT_MODELS[given](self.latent_dim, **options).fit(X)
        else:
            raise ValueError(
                f"latent_model must be 'bgplvm', 'gplvm', a latent model or a chart, got {given!r}; pass one of these"
            )
        if X.shape[1] != model.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the given latent model was fitted with {model.n_features_in_}; "
                "pass the same columns"
            )
        self.latent_model_, self.latent_ = model, model.coordinates(X)
        return model

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X, seen or not (and their sds)."""
        X = self._check_rows(X)
        if self.latent_model_ is None:  # a known chart
            return (X, np.zeros_like(X)) if return_std else X
        return self.latent_model_.transform(X, return_std=return_std)

    def _latent_of(self, index: np.ndarray, new: np.ndarray, placements: Sequence[Placement]) -> np.ndarray | None:
        latent = self.latent_[np.maximum(index, 0)]
        if placements:
            latent[new] = placements[0].points
        return latent

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on data without a surface, such as white noise
        return tags


class GPUMRegressor(SurfaceRegressor):
    """Gaussian process regression on an unknown surface.

    The cloud X [N, p] lies near a surface of few dimensions; y is known for some rows and NaN for the others. A latent
    model learns the surface's chart, metric and boundary; the heat kernel of the surface (or a Matérn kernel on it) is
    the covariance.

    Parameters
    ----------
    latent_dim : dimension of the surface, or "auto".
    latent_model : "bgplvm", "gplvm"; a latent model, fitted (it is used as it is, also inside
        `sklearn.frozen.FrozenEstimator`) or not (a copy is fitted); or a known chart, and X holds coordinates in it.
    n_inducing : inducing points of the latent model.
    boundary : "average" (default: over a family of domains, and no boundary at all), a level of that family (a number),
        or "variance", the paper's rule.
    kernel : "spectral", "brownian" (heat kernel from paths, at the default boundary level), or "auto": spectral up to
        two dimensions.
    smoothness : "average" (default: heat and Matérn 1/2, 3/2, 5/2), "heat", "matern12", "matern32" or "matern52".
    hyperparameters : "average" (default) integrates over boundary, smoothness, diffusion time or length scale, noise
        and signal with evidence weights; "evidence" takes the single best.
    n_paths, step_size, max_time : of the Brownian kernel; max_time also bounds the spectral heat kernel's time.
    n_kernel_inducing : for many labels: as many eigenfunctions (spectral) or inducing points that paths start from.
    metric_draws : average the kernel over so many draws of the random metric instead of using its mean (0).
    n_jobs : joblib workers for starts of the latent model and paths; results do not depend on it.
    random_state : seed; verbose : 1 shows progress.

    Attributes
    ----------
    transduction_ : predictive mean of every row of the cloud.
    latent_model_, chart_, latent_ : the fitted latent model (None for a known chart), its chart, and the rows in it.
    diffusion_time_, best_setting_ : of the heaviest setting.
    log_evidence_ : of the average, or of the best setting; for labels scaled to unit variance.
    """

    def __init__(
        self,
        latent_dim: int | str = 2,
        *,
        latent_model: Any = "bgplvm",
        n_inducing: int | None = None,
        boundary: Any = "average",
        kernel: str = "auto",
        smoothness: str = "average",
        hyperparameters: str = "average",
        n_paths: int = 1000,
        step_size: float | None = None,
        max_time: float | None = None,
        n_kernel_inducing: int | None = None,
        metric_draws: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.latent_model = latent_model
        self.n_inducing = n_inducing
        self.boundary = boundary
        self.kernel = kernel
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters
        self.n_paths = n_paths
        self.step_size = step_size
        self.max_time = max_time
        self.n_kernel_inducing = n_kernel_inducing
        self.metric_draws = metric_draws
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def diffusion_time_(self) -> Any:
        """t of the heaviest setting (for Matérn the squared length scale), one for each output."""
        check_is_fitted(self, "_outputs")
        return self._shaped([o.posterior.best.setting.covariance.scale**2 for o in self._outputs])

    def _check_cloud(self, X: Any) -> np.ndarray:
        checks.option(self.kernel, "kernel", KERNELS)
        smoothness_names(self.smoothness)
        if isinstance(self.boundary, str):
            checks.option(self.boundary, "boundary", ("average", "variance"))
        else:
            checks.positive(self.boundary, "boundary", "a level, 'average' or 'variance'", zero=True)
        checks.integer(self.n_paths, "n_paths", 10, None, "1000 is the default")
        checks.integer(self.metric_draws, "metric_draws", 0, None, "0 uses the mean metric")
        if self.max_time is not None:
            checks.positive(self.max_time, "max_time", "None finds it")
        if self.n_kernel_inducing is not None:
            checks.integer(self.n_kernel_inducing, "n_kernel_inducing", 2, None, "None uses every labelled row")
        return checks.cloud(X, "X", min_rows=2 if isinstance(self.latent_model, Chart) else 3)

    def _learn(self, X: np.ndarray) -> list[Surface]:
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        given = self.latent_model
        if isinstance(given, Chart):
            if X.shape[1] != given.dim:
                raise ValueError(
                    f"X has {X.shape[1]} columns, but latent_model is a chart of {given.dim} coordinates; with a known "
                    "chart X holds coordinates in it"
                )
            self.latent_model_, self.chart_, self.latent_ = None, given, X
            return [ChartSurface(given, X)]
        options = {} if self.n_inducing is None else {"n_inducing": self.n_inducing}
        if options and given == "gplvm":
            raise ValueError(
                f"n_inducing is {self.n_inducing!r}, but latent_model='gplvm' has no inducing points; use "
                "latent_model='bgplvm', or n_inducing=None"
            )
        model = self._learn_latent(given, X, **options)
        self.chart_ = model.chart_
        return [model.surface(self.latent_)]

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
