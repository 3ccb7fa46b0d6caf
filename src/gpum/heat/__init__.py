"""Heat kernels of a chart, in two ways.

By finite elements: `mesh`, `lanczos` (lowest eigenpairs of sparse matrices), `spectral` (those of the Laplace-Beltrami
operator). By Brownian motion: `brownian` (steps), `paths` (kernels from them), `histograms` (kernels as features). One
function over both: `kernel`.
"""

from .kernel import brownian_path, heat_kernel
from .spectral import Eigenpairs, eigenpairs

__all__ = ["Eigenpairs", "brownian_path", "eigenpairs", "heat_kernel"]
