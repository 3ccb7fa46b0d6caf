"""Heat kernels on charts and atlases, by finite elements and by Brownian motion.

Every surface has one kind of spectrum, a `Spectrum` (`spectra`), which one solver finds: `lanczos`, of a stiffness and
a mass matrix. These come from `simplicial` for the stars around the rows of an `atlas` and for the cells of a mesh
(`meshes`) or of a fit, which are all `surfaces`; from `elements` for a complex of simplices and corridors; from
`spectral` for a chart, of which `domain_mesh` makes a mesh. `assembly` has the elements of both.

Brownian motion: `brownian` simulates paths in a chart, `jumps` on nodes; `paths` makes kernels of them, `histograms`
features. `kernel` is the one function for both ways. `covariances` are the covariance functions of regression.
Names are imported on first use: covariances need no JAX.
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
