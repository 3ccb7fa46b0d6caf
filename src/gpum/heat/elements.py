"""Eigenpairs on a complex of simplices and corridors: elements of mixed dimension, so that corridors need no fine mesh.

A domain of `CorridorBoundary` is a complex on the rows of the cloud: simplices [K, q + 1], and corridors, thin tubes
along edges that belong to no simplex. A tube is a curve: along x(s) = a + s(b - a) with v = b - a its limit has

    stiffness ∫ m u'² / g ds,    mass ∫ m u² ds,    g = vᵀGv,    m = √det G · (volume of the cross-section) |v|

(for a bridge g is its squared length, and √det G is 1), so corridors are line elements, a metric graph, and simplices
are plain finite elements (see `assembly`). Both are quadratic, and joined at common vertices. Every side is halved
until there are UNKNOWNS_PER_MODE unknowns for each mode.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ..basics.checks import NoSurface
from ..manifold.chart import Chart, evaluate
from ..manifold.complex import Complex, halved
from ..manifold.surface import Surface, as_cells
from .assembly import on_simplices, quadratic_unknowns, quadrature, shape_functions
from .simplicial import assemble
from .spectra import Spectrum
from .surfaces import SurfaceNodes, solved

UNKNOWNS_PER_MODE = 12  # the highest mode then has an error of a few per cent, the first one of 1e-3
MAX_HALVINGS = 3
LEAST_NODES = 150  # of linear elements: a jump process on fewer is too coarse for the shortest times
LEAST_UNKNOWNS = 3  # for each mode: higher modes have no accuracy at all
VOID = 1e-100  # least volume of a surface: eigenfunctions grow as 1/√volume, and their squares must not overflow


def eigenpairs(chart: Chart, whole: Complex, n_modes: int) -> Spectrum:
    """The first eigenpairs of a complex in a chart, at the unknowns of the complex with its sides halved.

    Of the chart only the metric is used. A point off the complex has the values of its nearest point.
    """
    fine = whole
    for _ in range(MAX_HALVINGS if whole.dim <= 2 else 0):
        if len(quadratic_unknowns(fine.simplices, fine.corridors)) >= UNKNOWNS_PER_MODE * n_modes:
            break
        fine = halved(fine)
    unknowns = quadratic_unknowns(fine.simplices, fine.corridors)
    n, (cell_dofs, corridor_dofs) = len(unknowns), unknowns.of_elements
    on_cells, on_corridors = on_simplices(chart, fine.vertices[fine.simplices]), _on_corridors(chart, fine)
    K, M = assemble([(cell_dofs, *on_cells), (corridor_dofs, *on_corridors)], n)
    if not (volume := float(M.sum())) > VOID:
        raise NoSurface(
            f"the surface has no volume ({volume:.3g}): its chart is flat everywhere; leave out copies of rows, or "
            "learn fewer dimensions"
        )
    # A corridor is a cell whose last corner is repeated.
    q, middle = fine.dim, corridor_dofs[:, 2:]
    sides = [middle if i != j else corridor_dofs[:, 1:2] for i, j in combinations([0] + [1] * q, 2)]
    of_corridors = np.concatenate([corridor_dofs[:, [0] + [1] * q], *sides], 1)
    surface = _in_chart(fine, np.concatenate([cell_dofs, of_corridors]))
    return solved(surface, K, M, min(n_modes, n // LEAST_UNKNOWNS + 1))


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
    used = np.unique(np.concatenate([cells for cells, _, _ in blocks]))
    numbered = [(np.searchsorted(used, cells), K, M) for cells, K, M in blocks]
    return SurfaceNodes(_in_chart(fine), used, *assemble(numbered, len(used)))


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
