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
from itertools import combinations, pairwise
from math import gamma
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from skfem.quadrature import get_quadrature
from skfem.refdom import RefLine, RefTet, RefTri

from ..basics.checks import NoSurface
from ..manifold import Chart, evaluate
from ..manifold.complex import Complex, Finder, halved
from .lanczos import lowest

UNKNOWNS_PER_MODE = 12  # quadratic elements then have the highest mode to a few per cent, the first to 1e-3
MAX_HALVINGS = 3
LEAST_NODES = 150  # of linear elements: between fewer a walk is too coarse for the shortest times
LEAST_UNKNOWNS = 3  # for a mode: of those higher up nothing is right
VOID = 1e-100  # a volume below which a surface has none: eigenfunctions grow as 1/√volume, and have squares

SHAPES = {1: RefLine, 2: RefTri, 3: RefTet}


def rule(q: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [r, q + 1] (barycentric) and weights [r] on a simplex, exact to the fourth degree; weights sum to 1."""
    x, w = get_quadrature(SHAPES[q], 4)
    return np.concatenate([1 - x.sum(0, keepdims=True), x]).T, w / w.sum()


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


def quadratic(weights: np.ndarray) -> np.ndarray:
    """Quadratic shape functions at barycentric weights [..., c]: corners, then sides in the order of combinations."""
    pairs = [weights[..., i] * weights[..., j] for i, j in combinations(range(weights.shape[-1]), 2)]
    return np.concatenate([weights * (2 * weights - 1), 4 * np.stack(pairs, -1)], -1)


def _slopes(weights: np.ndarray) -> np.ndarray:
    """∂(shape functions)/∂(weights) at barycentric weights [r, c], [r, local, c]."""
    r, c = weights.shape
    corner = np.eye(c) * (4 * weights - 1)[:, :, None]
    sides = np.zeros((r, c * (c - 1) // 2, c))
    for k, (i, j) in enumerate(combinations(range(c), 2)):
        sides[:, k, i], sides[:, k, j] = 4 * weights[:, j], 4 * weights[:, i]
    return np.concatenate([corner, sides], 1)


def eigenpairs(chart: Chart, whole: Complex, n_modes: int) -> ComplexEigenpairs:
    """The first eigenpairs of a complex in a chart, of its metric only."""
    fine = whole
    for _ in range(MAX_HALVINGS if whole.dim <= 2 else 0):
        if _unknowns(fine) >= UNKNOWNS_PER_MODE * n_modes:
            break
        fine = halved(fine)
    n, cell_dofs, corridor_dofs = _number(fine)
    K1, M1 = _on_simplices(chart, fine)
    K2, M2 = _on_corridors(chart, fine)
    K = _gather([(cell_dofs, K1), (corridor_dofs, K2)], n)
    M = _gather([(cell_dofs, M1), (corridor_dofs, M2)], n)
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
        parts.append((fine.simplices, *_on_simplices(chart, fine, linear=True)))
    used, corner = np.unique(np.concatenate([cells for cells, _, _ in parts]), return_inverse=True)
    corner = corner.reshape(-1, 2)
    ends = np.cumsum([0, *(len(cells) for cells, _, _ in parts)])
    numbers = [corner[a:b] for a, b in pairwise(ends)]
    K = _gather([(dofs, stiffness) for dofs, (_, stiffness, _) in zip(numbers, parts, strict=True)], len(used))
    M = _gather([(dofs, mass) for dofs, (_, _, mass) in zip(numbers, parts, strict=True)], len(used))
    return LinearNodes(Curves(fine, used), K, np.asarray(M.sum(1)).ravel())


def _unknowns(c: Complex) -> int:
    return len(np.unique(np.concatenate([c.simplices.ravel(), c.corridors.ravel()]))) + len(_sides(c)[0])


def _sides(c: Complex) -> tuple[np.ndarray, np.ndarray]:
    """Distinct sides of all elements, and the number of each element's sides: simplices first, side by side."""
    pairs = [c.simplices[:, s] for s in combinations(range(c.dim + 1), 2)]
    edges, number = np.unique(np.sort(np.concatenate([*pairs, c.corridors]), 1), axis=0, return_inverse=True)
    return edges, number.ravel()


def _number(c: Complex) -> tuple[int, np.ndarray, np.ndarray]:
    """Unknowns at the nodes in use and in the middle of every side: how many, and those of each element."""
    used, corners = np.unique(np.concatenate([c.simplices.ravel(), c.corridors.ravel()]), return_inverse=True)
    edges, side = _sides(c)
    K, local = len(c.simplices), c.dim * (c.dim + 1) // 2
    of_cells = side[: K * local].reshape(local, K).T + len(used)
    of_lines = side[K * local :, None] + len(used)
    split = c.simplices.size
    cells = np.concatenate([corners.ravel()[:split].reshape(K, c.dim + 1), of_cells], 1)
    lines = np.concatenate([corners.ravel()[split:].reshape(-1, 2), of_lines], 1)
    return len(used) + len(edges), cells, lines


def _on_simplices(chart: Chart, c: Complex, linear: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and mass of every simplex, [K, local, local] each."""
    at, share = rule(c.dim)
    shape, slopes = (at, np.tile(np.eye(c.dim + 1), (len(at), 1, 1))) if linear else (quadratic(at), _slopes(at))
    corner = c.vertices[c.simplices]  # [K, q + 1, q]
    side = corner[:, 1:] - corner[:, :1]
    x = np.einsum("rc,kcq->krq", at, corner)
    G = evaluate(chart, "metric", x.reshape(-1, c.dim)).reshape(*x.shape[:2], c.dim, c.dim)
    size = np.abs(np.linalg.det(side))[:, None] / gamma(c.dim + 1)
    root = np.sqrt(np.maximum(np.linalg.det(G), 1e-300)) * size * share
    slope = np.linalg.inv(side)  # [K, q, q]: gradients of the last q weights are its columns
    grad = np.concatenate([-slope.sum(2, keepdims=True), slope], 2)  # [K, q, q + 1]
    du = np.einsum("rlc,kqc->krlq", slopes, grad)
    stiffness = np.einsum("kr,krla,krab,krmb->klm", root, du, np.linalg.inv(G), du, optimize=True)
    return stiffness, np.einsum("kr,rl,rm->klm", root, shape, shape)


def _on_corridors(chart: Chart, c: Complex, linear: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and mass of every corridor, [E, 3, 3] each ([E, 2, 2] of linear elements)."""
    at, share = rule(1)
    shape, slopes = (at, np.tile(np.eye(2), (len(at), 1, 1))) if linear else (quadratic(at), _slopes(at))
    a, b = c.vertices[c.corridors].transpose(1, 0, 2)
    v = b - a
    x = np.einsum("rc,ceq->erq", at, np.stack([a, b]))
    G = evaluate(chart, "metric", x.reshape(-1, c.dim)).reshape(*x.shape[:2], c.dim, c.dim)
    over = c.bridge[:, None] > 0
    m = np.where(over, 1.0, np.sqrt(np.maximum(np.linalg.det(G), 1e-300))) * c.section[:, None] * share
    g = np.maximum(np.where(over, c.bridge[:, None] ** 2, np.einsum("ea,erab,eb->er", v, G, v)), 1e-300)
    ds = slopes @ np.array([-1.0, 1.0])  # weights are (1 - s, s)
    return np.einsum("er,rl,rm->elm", m / g, ds, ds), np.einsum("er,rl,rm->elm", m, shape, shape)


def _gather(parts: list[tuple[np.ndarray, np.ndarray]], n: int) -> csr_matrix:
    """The sum of element matrices, [n, n]."""
    rows = [np.repeat(dofs, dofs.shape[1], 1).ravel() for dofs, _ in parts]
    columns = [np.tile(dofs, (1, dofs.shape[1])).ravel() for dofs, _ in parts]
    values = [matrix.ravel() for _, matrix in parts]
    return coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n, n)
    ).tocsr()  # fmt: skip
