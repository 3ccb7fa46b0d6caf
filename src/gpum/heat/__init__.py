"""Heat kernels of a chart, in two ways, and of an atlas.

By finite elements: `mesh` (any chart), `elements` (a learned chart's complex), `lanczos` (lowest eigenpairs of sparse
matrices), `spectral` (those of the Laplace-Beltrami operator). By Brownian motion: `brownian` (steps), `paths` (kernels
from them), `histograms` (kernels as features). One function over both: `kernel`. Of a cloud without a chart:
`simplicial` (finite elements on glued stars), `atlas`.
"""

from .atlas import Atlas, AtlasEigenpairs
from .kernel import brownian_path, heat_kernel
from .spectral import Eigenpairs, eigenpairs

__all__ = ["Atlas", "AtlasEigenpairs", "Eigenpairs", "brownian_path", "eigenpairs", "heat_kernel"]
