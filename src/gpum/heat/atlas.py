"""An atlas: a surface of any topology, its Laplace operator and its heat kernel, from a cloud of rows.

    -Δφ_i = λ_i φ_i, Neumann where there is an edge,    ∫ φ_i φ_j dV = δ_ij,    K_t = Σ_i e^{-λ_i t/2} φ_i φ_iᵀ

The geometry is in `manifold.atlas`, the operator in `simplicial`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from ..basics import checks, renamed
from ..basics.checks import NoSurface
from ..basics.neighbours import distance
from ..basics.workers import one_blas_thread
from ..manifold.atlas import SimplicialSurface, surface
from ..manifold.surface import Location, Surface, span
from .simplicial import on_stars
from .spectra import Spectrum
from .surfaces import MeshedSurface


class Atlas(MeshedSurface):
    """A surface of dimension 1, 2 or 3 made of many small charts; it may be closed, branched or disconnected.

    Parameters
    ----------
    dim : dimension of the surface, 1 to 3.
    n_neighbors : rows in the fit of each local chart; by default as many as suit the cloud's noise and curvature.

    Attributes
    ----------
    volume_ : volume of the surface.
    n_connected_components_ : how many connected components the surface has.
    connected_components_ : the number of each row's connected component, [N] (-1: on no simplex).
    noise_ : standard deviation of each coordinate off the surface.
    spacing_ : distance of neighbours along the surface, median over rows.
    nodes_ : points of the data space, [n, p]: distinct rows of the cloud, moved onto the surface, then points between.
    simplices_ : the nodes at the corners of each simplex, [K, dim + 1].
    rough_ : fraction of rows whose neighbourhood no smooth chart of this dimension fits.
    notes_ : what was merged, left out or changed, in sentences.
    """

    @renamed.arguments(random_state="no seed: an atlas is not random")
    def __init__(self, dim: int = 2, *, n_neighbors: int | None = None):
        self.dim = dim
        self.n_neighbors = n_neighbors

    pieces_ = renamed.attribute("connected_components_")
    n_pieces_ = renamed.attribute("n_connected_components_")

    def __repr__(self) -> str:
        return f"Atlas(dim={self.dim})"

    def fit(self, X: Any, y: Any = None) -> Atlas:
        """Fit local charts around all rows of X [N, p] and join them to a surface."""
        self.__dict__ = vars(Atlas(self.dim, n_neighbors=self.n_neighbors)._fit(X))  # nothing changes if it fails
        return self

    def _fit(self, X: Any, roughest: float = 1.0) -> Atlas:
        """As `fit`; NoSurface where no local chart fits more than the fraction `roughest` of the rows."""
        checks.integer(self.dim, "dim", 1, None, "it is the dimension of the surface")
        if self.dim > 3:
            raise NoSurface(f"dim is {self.dim}, but an atlas has at most 3 dimensions; use another geometry")
        X = checks.cloud(X, "X")
        checks.rows_for(X, self.dim, "X")
        if self.dim > X.shape[1]:
            raise NoSurface(f"dim is {self.dim}, but X has {X.shape[1]} column(s); lower dim")
        if self.n_neighbors is not None:
            checks.integer(self.n_neighbors, "n_neighbors", self.dim + 2, None, "leave it out to have it chosen")
        self.n_features_in_ = X.shape[1]
        origin, axes = span(X)
        with one_blas_thread:  # thousands of small eigenproblems, which threads make thirty times as slow
            turned = X if axes is None else (X - origin) @ axes
            self.surface_: SimplicialSurface = surface(turned, self.dim, self.n_neighbors, roughest)
        self.projector_: Surface = self.surface_.surface
        self.simplices_ = self.surface_.simplices
        self.nodes_ = self.surface_.nodes
        if axes is not None:
            self.projector_ = replace(self.projector_, origin=origin, axes=axes)
            self.nodes_ = origin + self.nodes_ @ axes.T
        self.volume_ = float(self.surface_.stars.mass.sum())
        self.connected_components_ = self.surface_.component[self.surface_.number]
        self.n_connected_components_ = int(self.surface_.component.max()) + 1
        self.noise_, self.spacing_ = self.surface_.noise, float(np.median(self.surface_.h))
        self.rough_, self.notes_ = self.surface_.rough, list(self.surface_.notes)
        return self

    @property
    def nodes(self) -> np.ndarray:
        """`nodes_`, [n, p]."""
        self._check_fitted()
        return self.nodes_

    @property
    def cells(self) -> np.ndarray:
        """`simplices_`, [K, dim + 1]; an edge that is a side of none repeats its last corner."""
        self._check_fitted()
        return self.simplices_

    @property
    def volume(self) -> float:
        """`volume_`."""
        self._check_fitted()
        return self.volume_

    def eigenpairs(self, n: int) -> Spectrum:
        """The n smallest eigenvalues of -Δ and their functions, as `spectrum`."""
        return self.spectrum(n)

    def elements(self) -> tuple[csr_matrix, csr_matrix]:
        """Stiffness K and mass M between the nodes, [n, n]."""
        self._check_fitted()
        return on_stars(self.surface_.stars)

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = self.projector_.edges
        return pairs, distance(self.nodes_, pairs)

    def project(self, rows: Any) -> Location:
        """The nearest points of the surface to rows [m, p], at what distance, and whether that is far from it."""
        self._check_fitted()
        return self.projector_.project(checks.cloud(rows, "rows", columns=self.n_features_in_))

    def __gpum_state__(self) -> dict[str, Any]:
        """What is stored in a model file."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}  # not what is cached

    def _check_fitted(self) -> None:
        if not hasattr(self, "surface_"):
            raise NotFittedError(f"this {self!r} has no surface yet; call fit(X) first")


def atlas_unless_rough(X: np.ndarray, dim: int, roughest: float) -> Atlas:
    """The atlas of a cloud; NoSurface where local charts do not fit more than the fraction `roughest` of the rows."""
    return Atlas(dim)._fit(X, roughest)


AtlasEigenpairs = Spectrum
