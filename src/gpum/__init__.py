"""GPUM: Gaussian process regression on unknown manifolds with probabilistic metrics."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

if TYPE_CHECKING:
    from . import datasets, plots
    from .basics.checks import ForkedProcess, GpumError, NoSurface
    from .estimators import (
        GPLVM,
        BayesianGPLVM,
        EuclideanGPRegressor,
        GPUMClassifier,
        GPUMRegressor,
        GraphLaplacianGPRegressor,
        GraphMaternGPRegressor,
        LabelledKFold,
        LatentGPRegressor,
        diagnostics,
        model_selection,
    )
    from .geometry import kernels
    from .geometry.options import KernelOptions
    from .geometry.priors import Priors
    from .heat import Atlas, Mesh, brownian_path, heat_kernel, spectral
    from .manifold import Chart, EmbeddedChart, LearnedChart, SwissRoll
    from .persistence import model_io

# Where each name is; it is imported on first use, so that commands start quickly.
_HOMES = {
    "basics.checks": "ForkedProcess GpumError NoSurface",
    "estimators": (
        "GPLVM BayesianGPLVM EuclideanGPRegressor GPUMClassifier GPUMRegressor GraphLaplacianGPRegressor "
        "GraphMaternGPRegressor LabelledKFold LatentGPRegressor diagnostics model_selection"
    ),
    "geometry": "kernels",
    "geometry.options": "KernelOptions",
    "geometry.priors": "Priors",
    "manifold": "Chart EmbeddedChart LearnedChart SwissRoll",
    "heat": "Atlas Mesh brownian_path heat_kernel spectral",
    "persistence": "model_io",
    "": "datasets plots",
}
_MODULES = ("datasets", "diagnostics", "kernels", "model_io", "model_selection", "plots", "spectral")

__all__ = [
    "GPLVM",
    "Atlas",
    "BayesianGPLVM",
    "Chart",
    "EmbeddedChart",
    "EuclideanGPRegressor",
    "ForkedProcess",
    "GPUMClassifier",
    "GPUMRegressor",
    "GpumError",
    "GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor",
    "KernelOptions",
    "LabelledKFold",
    "LatentGPRegressor",
    "LearnedChart",
    "Mesh",
    "NoSurface",
    "Priors",
    "SwissRoll",
    "__version__",
    "brownian_path",
    "datasets",
    "diagnostics",
    "heat_kernel",
    "kernels",
    "model_io",
    "model_selection",
    "plots",
    "spectral",
]


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"{__name__}.{home}.{name}".replace("..", "."))
    return getattr(import_module(f"{__name__}.{home}"), name)


class _Modules:
    """So that `from gpum.kernels import Heat` works where `gpum.kernels` does: the module itself is in a folder."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        return ModuleSpec(name, self) if package == __name__ and module in _MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module, in whose place `exec_module` puts the one that there is."""

    def exec_module(self, module: Any) -> None:
        sys.modules[module.__name__] = __getattr__(module.__name__.rpartition(".")[2])


sys.meta_path.append(_Modules())


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _command() -> None:
    """The command `gpum`: an interrupt is one sentence from the first moment on, while libraries are imported too."""
    try:
        from .basics.checks import GpumError
        from .basics.extras import needs

        try:
            needs("typer", "the command gpum")
        except GpumError as error:
            raise SystemExit(f"Error: {error}") from None
        from .app.cli import main

        main()
    except KeyboardInterrupt:
        import os
        import sys

        sys.stderr.write("\nInterrupted; nothing was written.\n")
        sys.stderr.flush()
        os._exit(130)  # a half-imported library may crash when Python exits
