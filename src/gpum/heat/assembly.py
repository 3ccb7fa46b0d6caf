"""Finite elements on the simplices of a chart: quadrature, shape functions, stiffness and mass matrices.

weak form    ∫ √G ∇uᵀ G⁻¹ ∇v dx = λ ∫ √G u v dx

b [q + 1]        barycentric weights of a point in a simplex
b_i, ∂b          shape functions of linear elements: one unknown at each vertex
b_i(2b_i - 1)    of quadratic elements: one unknown at each vertex,
4 b_i b_j        and one in the middle of each side
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import factorial, sqrt

import numpy as np

from ..manifold.chart import Chart, evaluate
from ..manifold.surface import quadratic, quadratic_slopes

# Weight and barycentric coordinates of one point of each orbit; all permutations of the coordinates belong to the rule.
# Of degree 4: Gauss (1-d), Dunavant 1985 (2-d), Keast 1986 (3-d).
_A, _B = ((8 - sqrt(10) + s * sqrt(38 - 44 * sqrt(0.4))) / 18 for s in (1, -1))
_W = sqrt(213125 - 53320 * sqrt(10)) / 3720
_G, _K = sqrt(0.15), sqrt(5 / 14) / 4
ORBITS: dict[int, list[tuple[float, tuple[float, ...]]]] = {
    1: [(4 / 9, (0.5, 0.5)), (5 / 18, (0.5 - _G, 0.5 + _G))],
    2: [(1 / 6 + _W, (_A, _A, 1 - 2 * _A)), (1 / 6 - _W, (_B, _B, 1 - 2 * _B))],
    3: [
        (-148 / 1875, (0.25,) * 4),
        (343 / 7500, (1 / 14, 1 / 14, 1 / 14, 11 / 14)),
        (56 / 375, (0.25 + _K, 0.25 + _K, 0.25 - _K, 0.25 - _K)),
    ],
}


def quadrature(q: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [r, q + 1] (barycentric) and weights [r] on a simplex, exact to the fourth degree; weights sum to 1."""
    orbits = [np.array(sorted(_permutations(point))) for _, point in ORBITS[q]]
    weights = [np.full(len(points), weight) for (weight, _), points in zip(ORBITS[q], orbits, strict=True)]
    return np.concatenate(orbits), np.concatenate(weights)


def _permutations(values: tuple[float, ...]) -> set[tuple[float, ...]]:
    """The distinct orders of a few values."""
    if len(values) == 1:
        return {values}
    return {(v, *rest) for k, v in enumerate(values) for rest in _permutations(values[:k] + values[k + 1 :])}


def shape_functions(weights: np.ndarray, linear: bool) -> tuple[np.ndarray, np.ndarray]:
    """Shape functions [r, local] at barycentric weights [r, c], and their derivatives by these, [r, local, c]."""
    r, c = weights.shape
    if linear:
        return weights, np.tile(np.eye(c), (r, 1, 1))
    return quadratic(weights), quadratic_slopes(weights)


def on_simplices(chart: Chart, corners: np.ndarray, linear: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness and mass of each simplex with corners [K, q + 1, q] in the chart, [K, local, local] each."""
    q = corners.shape[2]
    at, weights = quadrature(q)
    shape, slopes = shape_functions(at, linear)
    side = corners[:, 1:] - corners[:, :1]
    x = np.einsum("rc,kcq->krq", at, corners)
    G = evaluate(chart, "metric", x.reshape(-1, q)).reshape(*x.shape[:2], q, q)
    volume = np.abs(np.linalg.det(side))[:, None] / factorial(q)
    root = np.sqrt(np.maximum(np.linalg.det(G), 1e-300)) * volume * weights
    inverse = np.linalg.inv(side)  # [K, q, q]: its columns are the gradients of the last q barycentric weights
    gradient = np.concatenate([-inverse.sum(2, keepdims=True), inverse], 2)  # [K, q, q + 1]
    du = np.einsum("rlc,kqc->krlq", slopes, gradient)
    stiffness = np.einsum("kr,krla,krab,krmb->klm", root, du, np.linalg.inv(G), du, optimize=True)
    return stiffness, np.einsum("kr,rl,rm->klm", root, shape, shape, optimize=True)


@dataclass(frozen=True)
class Unknowns:
    """Numbers of the unknowns of quadratic elements: one at each vertex in use, then one in the middle of each side."""

    vertices: np.ndarray  # the vertices in use, ascending
    sides: np.ndarray  # the two vertices of each side, [s, 2]
    of_elements: list[np.ndarray]  # for each kind of element, the unknowns of each, [m, local]

    def __len__(self) -> int:
        return len(self.vertices) + len(self.sides)


def quadratic_unknowns(*elements: np.ndarray) -> Unknowns:
    """Number the unknowns of elements of one or several kinds, each given by its vertices [m, c]."""
    vertices, corners = np.unique(np.concatenate([e.ravel() for e in elements]), return_inverse=True)
    n = int(vertices.max(initial=0)) + 1
    pairs = [e[:, s] for e in elements for s in combinations(range(e.shape[1]), 2)]
    codes, side = np.unique(np.concatenate([np.sort(p, 1) @ [n, 1] for p in pairs]), return_inverse=True)
    corner_ends, side_ends = np.cumsum([e.size for e in elements]), np.cumsum([len(p) for p in pairs])
    by_pair = iter(np.split(side.ravel() + len(vertices), side_ends[:-1]))
    of_elements = []
    for e, corner in zip(elements, np.split(corners.ravel(), corner_ends[:-1]), strict=True):
        of_sides = [next(by_pair) for _ in combinations(range(e.shape[1]), 2)]
        of_elements.append(np.concatenate([corner.reshape(e.shape), np.stack(of_sides, 1)], 1))
    return Unknowns(vertices, np.stack(np.divmod(codes, n), 1), of_elements)
