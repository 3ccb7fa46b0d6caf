"""An atlas: a surface of any topology, its Laplace operator and its heat kernel, from a cloud of rows.

    -Δφ_i = λ_i φ_i, Neumann where there is an edge,    ∫ φ_i φ_j dV = δ_ij,    K_t = Σ_i e^{-λ_i t/2} φ_i φ_iᵀ

The geometry is in `manifold.atlas`, the operator in `simplicial`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from ..basics import checks, renamed
from ..basics.checks import NoSurface
from ..basics.threads import one_blas_thread
from ..manifold.atlas import SimplicialSurface, surface
from ..manifold.surface import Location, Surface, combined, span
from .lanczos import Lowest, lowest
from .simplicial import operators
from .spectra import Kernels
from .spectral import MAX_MODES, modes_for, weyl

TIMES = "pass diffusion times > 0"


@dataclass(frozen=True)
class AtlasEigenpairs(Kernels):
    """Eigenvalues λ_i [k], ascending, and eigenfunctions φ_i at the nodes [n, k] of an atlas."""

    values: np.ndarray
    vectors: np.ndarray
    atlas: Atlas
    residual: float = 0.0  # relative residual of the eigenfunctions
    missing: int = 0  # requested pairs that the solver did not reach; they are left out

    @property
    def dim(self) -> int:
        """The dimension q of the surface."""
        return self.atlas.dim

    @property
    def volume(self) -> float:
        """Volume of the surface."""
        return self.atlas.volume_

    def at(self, rows: Any) -> np.ndarray:
        """φ_i at rows [m, p] of the data space, [m, k]; a row of the cloud has the values of its node."""
        return combined(self.atlas.project(rows), self.vectors)


class Atlas:
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
        vars(self).update(vars(copy(self)._fit(X)))  # nothing changes if it fails
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
        self._solved: AtlasEigenpairs | None = None
        return self

    def eigenpairs(self, n: int) -> AtlasEigenpairs:
        """The n smallest eigenvalues of -Δ and their functions; fewer where the atlas has fewer nodes."""
        self._check_fitted()
        n = min(
            checks.integer(n, "n", 1, None, "it is the number of eigenpairs"), int(np.sum(self.surface_.component >= 0))
        )
        known = self._solved
        if known is None or len(known.values) + known.missing < n:
            known = self._solved = eigenpairs_of(self, n)
        missing = max(n - len(known.values), 0)
        return AtlasEigenpairs(known.values[:n], known.vectors[:, :n], self, known.residual, missing)

    def project(self, rows: Any) -> Location:
        """The nearest points of the surface to rows [m, p], at what distance, and whether that is far from it."""
        self._check_fitted()
        return self.projector_.project(checks.cloud(rows, "rows", columns=self.n_features_in_))

    def heat_kernel(self, starts: Any, targets: Any, times: Any, n_modes: int | None = None) -> np.ndarray:
        """K_t between rows of the data space, [times, starts, targets]; targets=None means the starts."""
        self._check_fitted()
        times = checks.positives(times, "times", TIMES)
        if n_modes is None:
            n_modes = min(modes_for(partial(weyl, self.volume_, self.dim), float(times.min())), MAX_MODES)
        pairs = self.eigenpairs(n_modes)
        fx = pairs.at(starts)
        fy = None if targets is None else pairs.at(targets)
        kernels = []
        for half in (pairs.heat(t / 2) for t in times):
            left = fx * half
            kernels.append(left @ (left if fy is None else fy * half).T)
        return np.stack(kernels)

    def __gpum_state__(self) -> dict[str, Any]:
        """What is stored in a model file."""
        return {**vars(self), "_solved": None}  # eigenpairs refer to their atlas

    def _check_fitted(self) -> None:
        if not hasattr(self, "surface_"):
            raise NotFittedError(f"this {self!r} has no surface yet; call fit(X) first")


@dataclass(frozen=True)
class AtlasNodes:
    """The nodes of an atlas that belong to a simplex, between which paths jump (see `jumps`)."""

    atlas: Atlas

    @property
    def points(self) -> np.ndarray:
        """Points of the nodes, [n, d]."""
        return self.atlas.surface_.nodes[self._index]

    @property
    def positions(self) -> np.ndarray:
        """The nodes as rows of the data space, [n, p]."""
        return self.atlas.nodes_[self._index]

    @property
    def mass(self) -> np.ndarray:
        """Lumped mass of the nodes, [n]."""
        return self.atlas.surface_.stars.mass[self._index]

    def stiffness(self) -> Any:
        """The stiffness matrix between the nodes, [n, n]."""
        return operators(self.atlas.surface_.stars, self._index)[0]

    def corners(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that rows [m, p] lie between, and their weights, [m, dim + 1] each."""
        located = self.atlas.project(rows)
        return np.searchsorted(self._index, located.nodes), located.weights

    @property
    def _index(self) -> np.ndarray:
        return np.flatnonzero(self.atlas.surface_.component >= 0)


def atlas_unless_rough(X: np.ndarray, dim: int, roughest: float) -> Atlas:
    """The atlas of a cloud; NoSurface where local charts do not fit more than the fraction `roughest` of the rows."""
    return Atlas(dim)._fit(X, roughest)


def eigenpairs_of(atlas: Atlas, n: int) -> AtlasEigenpairs:
    """The n smallest eigenvalues and their functions at all nodes [nodes, n], each 0 but on one connected component.

    Where the solver did not reach all pairs of a component, higher pairs of all components are left out.
    """
    surface = atlas.surface_
    components = [np.flatnonzero(surface.component == k) for k in range(int(surface.component.max()) + 1)]
    solved = [_solve_component(surface, nodes, n) for nodes in components]
    last = min((found.values[-1] for found in solved if found.missing), default=np.inf)
    every = np.concatenate([found.values for found in solved])
    order = np.argsort(every, kind="stable")[:n]
    order = order[every[order] <= last]
    vectors, done = np.zeros((len(surface.nodes), len(order))), 0
    for nodes, found in zip(components, solved, strict=True):
        columns = np.flatnonzero((order >= done) & (order < done + len(found.values)))
        vectors[np.ix_(nodes, columns)] = found.vectors[:, order[columns] - done]
        done += len(found.values)
    return AtlasEigenpairs(every[order], vectors, atlas, max(f.residual for f in solved), n - len(order))


def _solve_component(surface: SimplicialSurface, nodes: np.ndarray, n: int) -> Lowest:
    K, M = operators(surface.stars, nodes)
    found = lowest(K.tocsr(), M.tocsr(), n)
    found.values[0], found.vectors[:, 0] = 0.0, M.sum() ** -0.5  # known without rounding
    return found
