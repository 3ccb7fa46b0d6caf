"""Eigenpairs of a learned chart inside its corridors: elements of mixed dimension, without a mesh of thin parts.

A domain of `CorridorBoundary` is a complex on the rows of the cloud: simplices [K, q + 1], and corridors, thin tubes
along edges that belong to no simplex. A tube is a curve: along x(s) = a + s(b - a) with v = b - a its limit has

    stiffness ∫ m u'² / g ds,    mass ∫ m u² ds,    g = vᵀGv,    m = √det G · (volume of the cross-section) |v|

(for a bridge g is its squared length, and √det G is 1), so corridors are line elements, a metric graph, and simplices
are plain finite elements, quadratic both, glued where they share a row. Simplices are halved along every side until
there are UNKNOWNS_PER_MODE unknowns a mode.

    weak form on simplices    ∫ √G ∇uᵀ G⁻¹ ∇v dx = λ ∫ √G u v dx
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..basics.checks import NoSurface
from ..manifold import Chart, evaluate
from ..manifold.complex import Complex, Finder, halved
from .assembly import assemble, on_simplices, quadratic, quadratic_unknowns, quadrature, shape_functions
from .lanczos import lowest

UNKNOWNS_PER_MODE = 12  # quadratic elements then have the highest mode to a few per cent, the first to 1e-3
MAX_HALVINGS = 3
LEAST_NODES = 150  # of linear elements: between fewer a walk is too coarse for the shortest times
LEAST_UNKNOWNS = 3  # for a mode: of those higher up nothing is right
VOID = 1e-100  # a volume below which a surface has none: eigenfunctions grow as 1/√volume, and have squares


@dataclass(frozen=True)
class ComplexEigenpairs:
    """λ_i [k] in ascending order and φ_i at the unknowns [n, k] of a complex."""

    values: np.ndarray
    vectors: np.ndarray
    base: Complex
    fine: Complex  # halved
    cell_dofs: np.ndarray  # of the fine simplices
    corridor_dofs: np.ndarray
    volume: float
    residual: float = 0.0  # of the eigenfunctions, relative
    missing: int = 0  # pairs of those asked for that the solver did not reach; they are not there
    lost: bool = False  # whether eigenvalues are lost in rounding

    @property
    def dim(self) -> int:
        """The dimension q of the surface."""
        return self.base.dim

    @cached_property
    def pieces(self) -> int:
        """In how many pieces the complex hangs together."""
        return self.base.pieces()

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.fine)

    def locate(self, points: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The element nearest to each point, its barycentric weights there [n, q + 1], and how far off it is [n]."""
        return self._finder.locate(points)

    def at(self, points: Any) -> np.ndarray:
        """φ_i at points [n, q] of the chart, [n, k]; a point off the complex takes the nearest place on it."""
        element, weights, _ = self.locate(points)
        K, found = len(self.fine.simplices), np.empty((len(element), len(self.values)))
        for mine, dofs, w in (
            (element < K, self.cell_dofs[element[element < K]], weights[element < K]),
            (element >= K, self.corridor_dofs[element[element >= K] - K], weights[element >= K, :2]),
        ):
            found[mine] = np.einsum("nl,nlk->nk", quadratic(w), self.vectors[dofs])
        return found


def eigenpairs(chart: Chart, whole: Complex, n_modes: int) -> ComplexEigenpairs:
    """The first eigenpairs of a complex in a chart, of its metric only."""
    fine = whole
    for _ in range(MAX_HALVINGS if whole.dim <= 2 else 0):
        if len(quadratic_unknowns(fine.simplices, fine.corridors)) >= UNKNOWNS_PER_MODE * n_modes:
            break
        fine = halved(fine)
    unknowns = quadratic_unknowns(fine.simplices, fine.corridors)
    n, (cell_dofs, corridor_dofs) = len(unknowns), unknowns.of_elements
    K1, M1 = on_simplices(chart, fine.vertices[fine.simplices])
    K2, M2 = _on_corridors(chart, fine)
    K = assemble([(cell_dofs, K1), (corridor_dofs, K2)], n)
    M = assemble([(cell_dofs, M1), (corridor_dofs, M2)], n)
    volume = float(M.sum())
    if not volume > VOID:
        raise NoSurface(
            f"the surface has no volume ({volume:.3g}): its chart is flat everywhere; leave out copies of rows, or "
            "learn fewer dimensions"
        )
    found = lowest(K, M, min(n_modes, n // LEAST_UNKNOWNS + 1))
    # Where elements are thinner than wide by many orders, rounding of K hides all of it that is not across them. Then
    # not only the constants on each piece have no eigenvalue.
    lost = int(np.sum(found.values == 0)) > found.pieces
    return ComplexEigenpairs(
        found.values, found.vectors, whole, fine, cell_dofs, corridor_dofs, volume, found.residual, found.missing, lost
    )


@dataclass(frozen=True)
class Curves:
    """The nodes of a complex of curves that have elements, and where points lie between them."""

    fine: Complex
    used: np.ndarray  # nodes of the fine complex

    @property
    def nodes(self) -> np.ndarray:
        """Chart points of the nodes, [n, q]."""
        return self.fine.vertices[self.used]

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.fine)

    def corners(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that points [m, q] of the chart lie between, and their weights, [m, q + 1] each."""
        element, weights, _ = self._finder.locate(points)
        return np.searchsorted(self.used, self._finder.ends(element)), weights


@dataclass(frozen=True)
class LinearNodes:
    """Linear elements of curves: stiffness and lumped mass of their nodes, as `jumps` want them."""

    curves: Curves
    stiffness: csr_matrix
    mass: np.ndarray


def linear_nodes(chart: Chart, whole: Complex) -> LinearNodes | None:
    """Linear elements of a complex of curves, halved until it has LEAST_NODES nodes or twice; None with triangles.

    Thin triangles have negative weights, and then there is no walk from node to node.
    """
    if whole.dim > 1 and len(whole.simplices):
        return None
    fine = whole
    for _ in range(2):
        if len(fine.vertices) >= LEAST_NODES:
            break
        fine = halved(fine)
    parts = [(fine.corridors, *_on_corridors(chart, fine, linear=True))]
    if fine.dim == 1:
        parts.append((fine.simplices, *on_simplices(chart, fine.vertices[fine.simplices], linear=True)))
    used, corner = np.unique(np.concatenate([cells for cells, _, _ in parts]), return_inverse=True)
    corner = corner.reshape(-1, 2)
    ends = np.cumsum([0, *(len(cells) for cells, _, _ in parts)])
    numbers = [corner[a:b] for a, b in pairwise(ends)]
    K = assemble([(dofs, stiffness) for dofs, (_, stiffness, _) in zip(numbers, parts, strict=True)], len(used))
    M = assemble([(dofs, mass) for dofs, (_, _, mass) in zip(numbers, parts, strict=True)], len(used))
    return LinearNodes(Curves(fine, used), K, np.asarray(M.sum(1)).ravel())


def _on_corridors(chart: Chart, c: Complex, linear: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and mass of every corridor, [E, 3, 3] each ([E, 2, 2] of linear elements)."""
    at, weights = quadrature(1)
    shape, slopes = shape_functions(at, linear)
    a, b = c.vertices[c.corridors].transpose(1, 0, 2)
    v = b - a
    x = np.einsum("rc,ceq->erq", at, np.stack([a, b]))
    G = evaluate(chart, "metric", x.reshape(-1, c.dim)).reshape(*x.shape[:2], c.dim, c.dim)
    over = c.bridge[:, None] > 0
    m = np.where(over, 1.0, np.sqrt(np.maximum(np.linalg.det(G), 1e-300))) * c.section[:, None] * weights
    g = np.maximum(np.where(over, c.bridge[:, None] ** 2, np.einsum("ea,erab,eb->er", v, G, v)), 1e-300)
    ds = slopes @ np.array([-1.0, 1.0])  # barycentric weights are (1 - s, s)
    return np.einsum("er,rl,rm->elm", m / g, ds, ds), np.einsum("er,rl,rm->elm", m, shape, shape)
