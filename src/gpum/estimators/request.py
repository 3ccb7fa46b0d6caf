"""What an estimator's parameters say of geometries: all that these depend on, beside the rows and their units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..basics import checks
from ..geometry.options import KernelTask, geometry_names, smoothness_names
from ..heat.meshes import Mesh
from ..manifold import Chart
from . import features, learning


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
        options = learning.options_of(estimator)
        names = [] if options.covariance is None else options.covariance.names
        kernels = KernelTask(
            smoothness_names(estimator.smoothness, options.covariance), options, learning.drawn_seed(seed),
            estimator.n_jobs, verbose, features.positions(estimator, names),
        )  # fmt: skip
        return cls(
            tuple(geometry_names(estimator.geometry)),
            estimator.geometry == "average" and all(isinstance(one, str) for one in given),
            estimator.latent_dim, learning.thawed(estimator.latent_model), learning.mesh_of(estimator), graphs, seed,
            kernels,
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether one kind of geometry is asked for."""
        return len(self.names) == 1

    @property
    def learned_model(self) -> Any:
        """The latent model of charts, where charts or atlases are learned from rows; None: nothing is."""
        fitted = hasattr(self.latent_model, "chart_")
        learns = "atlas" in self.names or ("chart" in self.names and not fitted)
        return self.latent_model if learns and not isinstance(self.latent_model, Chart) else None

    def __gpum_key__(self) -> Any:
        """What results depend on."""
        kernels = replace(self.kernels, n_jobs=None, verbose=0)
        return (
            self.by_default,
            self.alone,
            self.latent_dim,
            self.latent_model,
            self.mesh,
            self.graphs,
            self.seed,
            kernels,
        )
