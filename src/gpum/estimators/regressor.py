"""`GPUMRegressor`: Gaussian process regression on the surface that is learned from the cloud."""

from __future__ import annotations

from typing import Any

from ..basics import renamed
from ..fitted import Cloud, Geometries
from ..geometry.graphs import OF_SURFACES
from ..geometry.kernels import Kernel
from ..geometry.options import KernelOptions
from ..geometry.priors import Priors
from . import features, learning
from .base import GPRegressor, NumberScores
from .targets import Labels


@renamed.parameters(**learning.RENAMED, target="period=360.0 for angles, period=None for values")
class GPUMRegressor(learning.SurfaceEstimator, GPRegressor):
    """Gaussian process regression on an unknown surface.

    The cloud X [N, p] lies near a surface of few dimensions; y is known for some rows and NaN for the others. The
    surface's geometry is learned from the cloud in several ways; its heat kernel (or a Matérn kernel on
    it) is the covariance, and the labels weigh the geometries.

    Parameters
    ----------
    latent_dim : dimension of the surface; several of them; "auto"; or "average" (default: charts of one and two
        dimensions, also of three where the cloud has more than two, atlases of one to three).
    geometry : "average" (default: all of them, weighted by evidence), a name or a list of names of "chart" (learned
        charts), "atlas" (many small charts, for surfaces that are closed, branched or disconnected), "graph" (nearest
        neighbours) and "flat" (no surface); or a `gpum.Mesh`, near which rows are
        points. With a known chart or a mesh, only that is used.
    latent_model : of charts: "bgplvm", "gplvm"; a latent model with options of its own, such as
        `BayesianGPLVM(n_inducing=30)`, of which copies are fitted (in the dimensions of `latent_dim`, unless it has a
        latent_dim of its own); a fitted one, which is used as it is (also inside `sklearn.frozen.FrozenEstimator`); or
        a known chart, and X holds coordinates in it.
    scale : what columns are divided by before distances are taken: "none" (all have one unit, as pixels do), "standard"
        (their standard deviations), "robust" (their interquartile ranges), or "auto" (default): none where their
        spreads look like those of one unit; else both are weighed by the labels, and `notes_` says what was done.
    kernel : "auto" (default), "spectral" or "brownian": how the heat kernels of charts and atlases are computed; or a
        `gpum.KernelOptions` with further options: boundary, number of eigenfunctions, paths, steps, times. Or a kernel
        of `gpum.kernels`, such as Surface() * Heat("time"): columns that it names are no part of the surface.
    mean : "constant" (default), or "linear": a linear trend in all columns beside the function on the surface, as far
        as the labels ask for it.
    smoothness : "average" (default: heat and Matérn 1/2, 3/2, 5/2), "heat", "matern12", "matern32" or "matern52".
    hyperparameters : "average" (default) integrates over boundary, smoothness, diffusion time or length scale, noise
        and signal with evidence weights; "evidence" takes the single best.
    likelihood : how labels come from the function: "gaussian" (numbers with normal noise), "student" (some labels may
        be gross errors), "lognormal" (y above 0, whose logarithm is the function and its noise), "poisson" (y counts;
        the prediction is their mean), "binomial" (y counts the successes of `trials`, which `fit`, `score` and
        `predict` take; by default of one, so that y is 0 or 1 and the prediction a probability), or "auto" (default):
        "gaussian", unless y is above 0, spans two orders of magnitude, and its logarithms explain it better; `notes_`
        says so.
    period : None (default), or y is an angle: values that differ by `period` are the same. 360 for degrees, 2π for
        radians.
    priors : None (default), or a `gpum.Priors` with other prior distributions of noise, signal, lengths of columns and
        geometries.
    warm_start : True stores every geometry for the next fit to the same X with the same settings: a fit of other labels
        then takes a fraction of a second.
    checkpoint : a folder that stores each finished run of a latent model, atlas, graph and domain. An interrupted fit,
        repeated with the same data, continues from there, with the same result. Other fits may use the same folder.
    n_jobs : how many charts, starts of latent models, domains, atlases, graphs and blocks of paths are computed at the
        same time, in threads: -1 (default) is one a core, None is 1. `joblib.parallel_config(backend="loky")` or
        "dask" takes processes or a cluster instead. Results do not depend on it.
    random_state : seed; verbose : 1 shows progress.

    Attributes
    ----------
    transduction_ : predictive mean of every row of the cloud.
    geometry_weights_ : posterior weight of each geometry by name; a list of such for several outputs.
    surfaces_ : the charts, atlases or the mesh with weight, the heaviest first: nodes, cells, projection,
        eigenfunctions and geodesics (`docs/building_blocks.md`). Graphs and flat space are none.
    relevance_ : how much each column of X matters for y, from 0 to 1 (the most relevant), [p], or [k, p] for several
        outputs: its standard deviation over its length scale, over the largest of these, averaged over the members of
        flat space with a length scale for each column. None where these have no weight: fewer than 10 labels, more
        than 200 columns with more than 500 labels, `geometry` without "flat", hyperparameters="evidence".
    latent_model_, chart_, latent_ : the latent model of the chart of largest weight (None for a known chart), its
        chart, and the rows in it; all None where no geometry is a chart. `transform` gives the coordinates of rows in
        it, and is there where `geometry` has "chart" in it.
    encoding_ : how columns of words, categories, booleans and dates of a data frame became numbers; only where there
        are such columns (`docs/tables.md`).
    notes_ : sentences about what was left out, stopped early or could not be done as requested.
    best_setting_ : the candidate of largest weight.
    candidates_ : all candidates (kernels on geometries) as a table: units, prior, evidence, weight and left-out density
        of each; a list of these for several outputs. `pandas.DataFrame(candidates_.columns)` is a data frame of it.
    length_scale_ : its length scale: √t of a heat kernel, κ of a Matérn kernel.
    log_evidence_ : of the average, or of the best candidate; for labels scaled to unit variance.
    """

    def __init__(
        self,
        latent_dim: Any = "average",
        *,
        geometry: Any = "average",
        latent_model: Any = "bgplvm",
        scale: str = "auto",
        kernel: str | Kernel | KernelOptions = "auto",
        mean: str = "constant",
        smoothness: str = "average",
        hyperparameters: str = "average",
        likelihood: str = "auto",
        period: float | None = None,
        priors: Priors | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.geometry = geometry
        self.latent_model = latent_model
        self.scale = scale
        self.kernel = kernel
        self.mean = mean
        self.smoothness = smoothness
        self.hyperparameters = hyperparameters
        self.likelihood = likelihood
        self.period = period
        self.priors = priors
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _takes_terms = True

    def _settled(self, cloud: Cloud, labels: Labels) -> tuple[Labels, list[str]]:
        from .logarithms import settled  # which needs JAX

        return settled(self, cloud, labels)

    def _geometries(self, cloud: Cloud, labels: Labels) -> Geometries:
        from .plan import learn  # which needs JAX

        return learn(self, cloud, NumberScores(labels), OF_SURFACES, random=False)

    @property
    def relevance_(self) -> Any:
        """How much each column matters, from 0 to 1."""
        return features.by_column(self, self.model_.relevance)

    @property
    def length_scale_(self) -> Any:
        """Length scale of the heaviest candidate, one for each output: √t of a heat kernel, κ of a Matérn kernel."""
        return self.model_._shaped([output.posterior.best.candidate.scale for output in self.model_.outputs])

    diffusion_time_ = renamed.attribute("length_scale_, which is its square root")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on data without a surface, such as white noise
        return tags
