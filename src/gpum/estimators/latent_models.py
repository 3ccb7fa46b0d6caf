"""The public latent models: `BayesianGPLVM` and `GPLVM`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..basics import checks, renamed
from ..gplvm.models import PointGPLVM, Variational
from ..manifold.boundary import DEFAULT_LEVEL
from .latent_base import LatentModel

RENAMED = {"boundary_level": "boundary=..., the level itself", "scale_columns": "scale='standard', or 'none'"}


@renamed.parameters(**RENAMED)
class BayesianGPLVM(LatentModel):
    """Bayesian Gaussian process latent variable model: learns the chart of a point cloud.

    Parameters
    ----------
    latent_dim : dimension q of the surface, or "auto" (chosen by ARD, see the documentation). None (default): 2,
        or, as `latent_model` of another estimator, the dimensions that it asks for.
    n_inducing : inducing inputs m; by default min(N, 50). Cost grows as N m².
    starts : "pca", "isomap", an array [N, q], or a list of these; the best bound wins. "curve" is for one dimension:
        Isomap, with a closed curve cut open at its widest gap.
    scale : what columns are divided by: "none" (all by one number, which does not change the cloud's shape), "standard"
        (their standard deviations), "robust" (their interquartile ranges), or "auto" (default): standard where their
        spreads look like those of different units, else none.
    boundary : a level of the family of domains (default 0.5; 0 is the tightest), or "variance" (the paper's rule).
    max_iter, tol : a run stops when 100 iterations gain less than tol nats per row; a run that stops otherwise, at
        max_iter or because the optimiser breaks down, raises a ConvergenceWarning.
    n_jobs : starts that run at the same time, in threads: -1 (default) is one a core, None is 1;
        `joblib.parallel_config(backend="dask")` takes a cluster. The fit does not depend on it.
    checkpoint : a folder that stores every finished run of a start; an interrupted fit, repeated, continues from it.
    random_state : seed; the same seed gives the same fit.
    verbose : 1 shows progress.

    Attributes
    ----------
    latent_, latent_variance_ : means and variances of q(X), [N, q], most relevant dimension first.
    ard_ : relevances 1/ell², [q].
    bound_ : the variational bound reached (nats, of the scaled data); history_ : every round of every start.
    collapsed_ : whether the data show no surface of this dimension: with its noise free, a latent dimension is unused.
    converged_, start_, n_iter_ : whether, and from which start, the best run converged, and in how many iterations.
    chart_ : the learned chart, in the units of the data; for a cloud smaller than 1e-30 or larger than 1e30 in units of
        unit_, which is 1 otherwise.
    """

    _as_points = False

    def __init__(
        self,
        latent_dim: int | str | None = None,
        *,
        n_inducing: int | None = None,
        starts: Any = ("pca", "isomap"),
        scale: str = "auto",
        boundary: float | str = DEFAULT_LEVEL,
        max_iter: int = 10_000,
        tol: float = 0.05,
        n_jobs: int | None = -1,
        checkpoint: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.n_inducing = n_inducing
        self.starts = starts
        self.scale = scale
        self.boundary = boundary
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def _check(self, X: Any) -> np.ndarray:
        X = super()._check(X)
        if self.n_inducing is not None:
            checks.integer(self.n_inducing, "n_inducing", 1, len(X), "use at most one inducing point for each row of X")
        return X

    def _model(self) -> Variational:
        return Variational(self.n_inducing)


@renamed.parameters(**RENAMED)
class GPLVM(LatentModel):
    """Maximum-likelihood GPLVM (section 5.1): latent rows are point estimates, cost grows as N³.

    Parameters and attributes as for `BayesianGPLVM`; `bound_` is the log likelihood, `latent_variance_` is 0.
    """

    _as_points = True

    def __init__(
        self,
        latent_dim: int | str | None = None,
        *,
        starts: Any = ("pca", "isomap"),
        scale: str = "auto",
        boundary: float | str = DEFAULT_LEVEL,
        max_iter: int = 10_000,
        tol: float = 0.05,
        n_jobs: int | None = -1,
        checkpoint: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.starts = starts
        self.scale = scale
        self.boundary = boundary
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> PointGPLVM:
        return PointGPLVM()
