"""The methods of the paper's tables, and ours: each has a name and an estimator for one cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpum import (
    EuclideanGPRegressor,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    KernelOptions,
    LatentGPRegressor,
)


@dataclass(frozen=True)
class Method:
    """A method, the printed method with which it is compared, and its line style."""

    title: str
    printed: str
    color: str
    dashes: Any

    def name(self, p: int) -> str:
        """The name of the method for data of p columns."""
        return self.title.format(p=str(p).translate(SUPERSCRIPT))


SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# Colours of Okabe and Ito, which colour-blind people can distinguish.
METHODS = {
    "euclidean": Method("GP in R{p}", "euclidean", "#009E73", (0, (5, 2))),
    "latent": Method("GP in R²", "latent", "#A6611A", (0, (1, 1.2))),
    "gl": Method("GL-GP", "gl", "#000000", (0, (4, 1.5, 1, 1.5))),
    "gm": Method("GM-GP", "gm", "#56B4E9", (0, (2, 1))),
    "brownian": Method("GPUM, Brownian", "gpum", "#CC79A7", (0, (3, 1, 1, 1, 1, 1))),
    "spectral": Method("GPUM, spectral", "gpum", "#D55E00", "-"),
    "variance": Method("GPUM, paper's edge", "gpum", "#E69F00", (0, (6, 1.5))),
}


def estimators(latent: Any, n_paths: int, seed: int, n_jobs: int | None) -> dict[str, Any]:
    """The estimators for one cloud; all use the same fitted latent model.

    The last GPUM is the paper's recipe: its boundary rule, the heat kernel, and the one setting of largest evidence.
    """
    shared = {"latent_model": latent, "random_state": seed, "n_jobs": n_jobs}
    chart = {"geometry": "chart", **shared}  # the paper's geometry alone
    return {
        "euclidean": EuclideanGPRegressor(),
        "latent": LatentGPRegressor(**shared),
        "gl": GraphLaplacianGPRegressor(),
        "gm": GraphMaternGPRegressor(),
        "brownian": GPUMRegressor(kernel=KernelOptions("brownian", n_paths=n_paths), **chart),
        "spectral": GPUMRegressor(kernel="spectral", **chart),
        "variance": GPUMRegressor(
            kernel=KernelOptions("spectral", boundary="variance"),
            smoothness="heat",
            hyperparameters="evidence",
            **chart,
        ),
    }
