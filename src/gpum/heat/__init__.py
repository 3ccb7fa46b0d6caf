"""Heat kernels on charts and atlases, by finite elements and by Brownian motion.

Finite elements: `mesh` makes a mesh of any chart, `assembly` the stiffness and mass matrices of simplices, `lanczos`
finds the lowest eigenpairs of sparse matrices, `spectral` those of the Laplace-Beltrami operator of a chart, `elements`
those of a complex of simplices and corridors. Brownian motion: `brownian` simulates paths in a chart, `jumps` on nodes,
`paths` makes kernels of them and `histograms` features. `kernel` is the one function for both. An `atlas` has its own
matrices, from the stars around its rows: `simplicial`. An atlas, a mesh and the surfaces of a fit are `surfaces` of
nodes and cells, whose eigenpairs are a `Spectrum`. `covariances` are the covariance functions of regression, `spectra`
their weights. Names are imported on first use: covariances need no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .atlas import Atlas, AtlasEigenpairs
    from .kernel import brownian_path, heat_kernel
    from .meshes import Mesh
    from .spectra import Spectrum
    from .spectral import Eigenpairs, eigenpairs
    from .surfaces import Geodesic, MeshedSurface

_HOMES = {
    "atlas": "Atlas AtlasEigenpairs",
    "kernel": "brownian_path heat_kernel",
    "meshes": "Mesh",
    "spectra": "Spectrum",
    "spectral": "Eigenpairs eigenpairs",
    "surfaces": "Geodesic MeshedSurface",
}
__all__ = [
    "Atlas",
    "AtlasEigenpairs",
    "Eigenpairs",
    "Geodesic",
    "Mesh",
    "MeshedSurface",
    "Spectrum",
    "brownian_path",
    "eigenpairs",
    "heat_kernel",
]


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
