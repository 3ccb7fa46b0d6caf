"""`GPUMRegressor`: Gaussian process regression on the surface that is learned from the cloud."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..fitted import Cloud, Geometries
from ..geometry.graphs import graph_spaces
from . import learning, shell
from .base import GPRegressor


@learning.transforms_with_a_chart
class GPUMRegressor(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GPRegressor):
    """Gaussian process regression on an unknown surface.

    The cloud X [N, p] lies near a surface of few dimensions; y is known for some rows and NaN for the others. The
    surface's geometry is learned from the cloud, in several ways side by side; its heat kernel (or a Matérn kernel on
    it) is the covariance, and the labels weigh the geometries.

    Parameters
    ----------
    latent_dim : dimension of the surface; several of them; "auto"; or "average" (default: charts of one and two
        dimensions, of two and three where the cloud looks like more than a surface, atlases of one to three).
    geometry : "average" (default: all of them, weighted by evidence), a name or a list of names of "chart" (learned
        charts), "atlas" (many small charts, glued: closed, branched, in pieces), "graph" (nearest neighbours) and
        "flat" (no surface). With a known chart there is nothing but the chart.
    latent_model : "bgplvm", "gplvm"; a latent model, fitted (it is used as it is, also inside
        `sklearn.frozen.FrozenEstimator`) or not (a copy is fitted); or a known chart, and X holds coordinates in it.
    n_inducing : inducing points of the latent model.
    boundary : "average" (default: over a family of domains, and no boundary at all), a level of that family (a number),
        or "variance", the paper's rule.
    kernel : of charts and atlases: "spectral", "brownian" (from paths: in charts at the default boundary level and in
        every domain that is made of curves; across an atlas from node to node), or "auto": spectral up to three
        dimensions.
    smoothness : "average" (default: heat and Matérn 1/2, 3/2, 5/2), "heat", "matern12", "matern32" or "matern52".
    hyperparameters : "average" (default) integrates over boundary, smoothness, diffusion time or length scale, noise
        and signal with evidence weights; "evidence" takes the single best.
    n_paths, step_size, max_time : of the Brownian kernel; max_time also bounds the spectral heat kernel's time.
    n_kernel_inducing : for many labels: as many eigenfunctions (spectral) or inducing points that paths start from.
    metric_draws : average the kernel over so many draws of the random metric instead of using its mean (0).
    n_jobs : None (default) learns charts, atlases and graphs side by side in threads, one a core; 1 one by one; else
        joblib workers for starts of the latent model, domains, atlases, graphs and paths. Results do not depend on it.
        `joblib.parallel_config(backend="dask")` takes a cluster.
    likelihood : how labels come from the function: "gaussian" (default), "student" (some labels may be gross errors),
        "poisson" (y counts; the prediction is their mean) or "binomial" (y counts the successes of `trials`, which
        `fit`, `score` and `predict` take; by default of one, so that y is 0 or 1 and the prediction a probability).
    target : "value" (default), or "angle": two values of y that differ by `period` are one.
    period : of angles: 360 (default) for degrees, 2π for radians.
    warm_start : True keeps every geometry for the next fit to the same X with the same settings: other labels then
        take a fraction of a second.
    checkpoint : a folder in which finished parts of the latent models, atlases, graphs and domains are kept: killed at
        any moment, the same fit to the same data goes on from there, to the same answer. Other settings or data are
        refused.
    random_state : seed; verbose : 1 shows progress.

    Attributes
    ----------
    transduction_ : predictive mean of every row of the cloud.
    geometry_weights_ : posterior weight of each geometry by name; a list of such for several outputs.
    relevance_ : how much each column of X matters for y, from 0 to 1 (the most relevant), [p], or [k, p] for several
        outputs: its standard deviation over its length scale, over the largest of these, averaged over the members of
        flat space with a length scale for each column. None where these have no weight: fewer than 10 labels, more
        than 200 columns, `geometry` without "flat", hyperparameters="evidence".
    latent_model_, chart_, latent_ : the latent model of the chart of largest weight (None for a known chart), its
        chart, and the rows in it; all None where no geometry is a chart. `transform` gives the coordinates of rows in
        it, and is there where `geometry` has "chart" in it.
    notes_ : what was left out, cut short or could not be done as asked, in sentences.
    diffusion_time_, best_setting_ : of the heaviest setting.
    log_evidence_ : of the average, or of the best setting; for labels scaled to unit variance.
    """

    def __init__(
        self,
        latent_dim: Any = "average",
        *,
        geometry: Any = "average",
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
        likelihood: str = "gaussian",
        target: str = "value",
        period: float = 360.0,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.geometry = geometry
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
        self.likelihood = likelihood
        self.target = target
        self.period = period
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read_cloud(self, X: Any) -> Cloud:
        learning.check_parameters(self)
        return learning.read_cloud(self, X)

    def _geometries(self, cloud: Cloud, y: np.ndarray) -> Geometries:
        return learning.learn(self, cloud, y, graph_spaces, random=False)

    geometry_weights_: Any = shell.geometry_weights
    relevance_: Any = shell.relevance
    latent_model_: Any = shell.latent_model
    chart_: Any = shell.chart
    latent_: Any = shell.latent

    @property
    def diffusion_time_(self) -> Any:
        """t of the heaviest setting (for Matérn the squared length scale), one for each output."""
        best = [output.posterior.best.setting for output in self.model_.outputs]
        return self.model_.shaped([setting.scale**2 for setting in best])

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X, seen or not (and their sds), on the chart of largest weight."""
        return shell.coordinates(self, X, return_std)

    def fit_transform(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Fit, and return the latent coordinates of the rows of X."""
        return self.fit(X, y, **fit_params).transform(X)

    @property
    def _n_features_out(self) -> int:
        return 0 if self.latent_ is None else self.latent_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on data without a surface, such as white noise
        return learning.tags_of_geometry(self, tags)
