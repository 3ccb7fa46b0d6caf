"""Eigenpairs on a complex of simplices and corridors: elements of mixed dimension, so that corridors need no fine mesh.

A domain of `CorridorBoundary` is a complex on the rows of the cloud: simplices [K, q + 1], and corridors, thin tubes
along edges that belong to no simplex. A tube is a curve: along x(s) = a + s(b - a) with v = b - a its limit has

    stiffness ∫ m u'² / g ds,    mass ∫ m u² ds,    g = vᵀGv,    m = √det G · (volume of the cross-section) |v|

(for a bridge g is its squared length, and √det G is 1), so corridors are line elements, a metric graph, and simplices
are plain finite elements (see `assembly`). Both are quadratic, and joined at common vertices. Every side is halved
until there are UNKNOWNS_PER_MODE unknowns for each mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ..basics.checks import NoSurface
from ..manifold.chart import Chart, evaluate
from ..manifold.complex import Complex, halved
from ..manifold.surface import Surface, as_cells, combined
from .assembly import on_simplices, quadratic_unknowns, quadrature, shape_functions
from .lanczos import lowest
from .simplicial import assemble
from .surfaces import SurfaceNodes, row_sums

UNKNOWNS_PER_MODE = 12  # the highest mode then has an error of a few per cent, the first one of 1e-3
MAX_HALVINGS = 3
LEAST_NODES = 150  # of linear elements: a jump process on fewer is too coarse for the shortest times
LEAST_UNKNOWNS = 3  # for each mode: higher modes have no accuracy at all
VOID = 1e-100  # least volume of a surface: eigenfunctions grow as 1/√volume, and their squares must not overflow


@dataclass(frozen=True)
class ComplexEigenpairs:
    """Eigenvalues λ_i [k], ascending, and eigenfunctions φ_i at the unknowns [n, k] of a complex."""

    values: np.ndarray
    vectors: np.ndarray
    surface: Surface  # the complex with its sides halved, in the chart
    volume: float
    n_connected_components: int  # of the complex
    residual: float = 0.0  # relative residual of the eigenfunctions
    missing: int = 0  # requested pairs that the solver did not reach; they are left out
    lost: bool = False  # whether eigenvalues are lost in rounding

    @property
    def dim(self) -> int:
        """The dimension q of the surface."""
        return self.surface.dim

    def at(self, points: Any) -> np.ndarray:
        """φ_i at points [n, q] of the chart, [n, k]; a point off the complex has the values of its nearest point."""
        return combined(self.surface.project(np.atleast_2d(np.asarray(points, float))), self.vectors)


def eigenpairs(chart: Chart, whole: Complex, n_modes: int) -> ComplexEigenpairs:
    """The first eigenpairs of a complex in a chart; of the chart only the metric is used."""
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
    # Where elements are many orders of magnitude thinner than wide, only the stiffness across them survives rounding.
    # Then more eigenvalues are 0 than there are connected components.
    lost = int(np.sum(found.values == 0)) > found.n_connected_components
    # A corridor is a cell whose last corner is repeated.
    q, middle = fine.dim, corridor_dofs[:, 2:]
    sides = [middle if i != j else corridor_dofs[:, 1:2] for i, j in combinations([0] + [1] * q, 2)]
    of_corridors = np.concatenate([corridor_dofs[:, [0] + [1] * q], *sides], 1)
    surface = _in_chart(fine, np.concatenate([cell_dofs, of_corridors]))
    components = whole.n_connected_components()
    return ComplexEigenpairs(
        found.values, found.vectors, surface, volume, components, found.residual, found.missing, lost
    )


def _in_chart(c: Complex, unknowns: np.ndarray | None = None) -> Surface:
    """A complex as a surface in the chart."""
    cells = as_cells(c.simplices, c.corridors)
    return Surface(c.vertices @ c.frame.T, cells, axes=c.frame.T, unknowns=unknowns)


def linear_nodes(chart: Chart, whole: Complex) -> SurfaceNodes | None:
    """Linear elements of a complex of curves, halved up to twice until it has LEAST_NODES nodes; None with triangles.

    Thin triangles conduct with negative weights, and then there is no jump process from node to node.
    """
    if whole.dim > 1 and len(whole.simplices):
        return None
    fine = whole
    for _ in range(2):
        if len(fine.vertices) >= LEAST_NODES:
            break
        fine = halved(fine)
    blocks = [(fine.corridors, *_on_corridors(chart, fine, linear=True))]
    if fine.dim == 1:
        blocks.append((fine.simplices, *on_simplices(chart, fine.vertices[fine.simplices], linear=True)))
    used, corner = np.unique(np.concatenate([cells for cells, _, _ in blocks]), return_inverse=True)
    corner = corner.reshape(-1, 2)
    ends = np.cumsum([0, *(len(cells) for cells, _, _ in blocks)])
    numbers = [corner[a:b] for a, b in pairwise(ends)]
    K = assemble([(dofs, stiffness) for dofs, (_, stiffness, _) in zip(numbers, blocks, strict=True)], len(used))
    M = assemble([(dofs, mass) for dofs, (_, _, mass) in zip(numbers, blocks, strict=True)], len(used))
    return SurfaceNodes(_in_chart(fine), used, K, row_sums(M))


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
