"""Gradients of predictions: derivatives of functions on a surface by the columns of rows.

In a simplex a function is Σ_c w_c f_c, so that its gradient is Σ_c f_c ∇w_c, a vector of the simplex's plane:

    frame [n, p, s]    directions along the surface, by columns of rows
    slopes [n, s, j]   derivatives of the weights of j nodes in these directions, so that ∇f = frame @ slopes @ f
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .surface import Surface, quadratic_slopes

FLAT = 1e-7  # length of a side within the plane of the others, over the longest, from which it is a direction
RIDGE = 0.05  # of the slopes of the plane through neighbours, over the mean square of their distances


@dataclass(frozen=True)
class Slopes:
    """Derivatives of weights at nodes, see the module."""

    frame: np.ndarray
    slopes: np.ndarray
    nodes: np.ndarray  # [n, j]

    def of(self, values: np.ndarray) -> np.ndarray:
        """Derivatives [n, s, k] of functions [V, k] in the directions of the frame."""
        return self.slopes @ values[self.nodes]


def on_surface(surface: Surface, packed: np.ndarray) -> Slopes:
    """Slopes at places between nodes (`Location.packed`), by the columns of rows of the data space."""
    nodes, weights = np.split(packed, 2, axis=1)
    nodes = nodes.astype(np.intp)
    if not len(surface.cells):
        points = np.einsum("nj,njd->nd", weights, surface.nodes[nodes])
        return _by_columns(surface, through_neighbours(surface.nodes, nodes, points))
    corners = surface.nodes[_corners(surface, nodes)]
    frame, slopes = _of_simplices(corners)
    if surface.unknowns is not None:
        slopes = slopes @ _quadratic_slopes(weights, corners.shape[1])
    return _by_columns(surface, Slopes(frame, slopes, nodes))


def through_neighbours(rows: np.ndarray, nodes: np.ndarray, points: np.ndarray) -> Slopes:
    """Slopes of the plane that fits values at the nodes [n, j] around points [n, d], nearer nodes counting more."""
    away = rows[nodes] - points[:, None]
    square = np.einsum("njd,njd->nj", away, away)
    usual = np.maximum(square.mean(1, keepdims=True), np.finfo(float).tiny)
    weights = 1 / (square + 0.1 * usual)
    middle = np.einsum("nj,njd->nd", weights, away) / weights.sum(1)[:, None]
    away = away - middle[:, None]
    root = np.sqrt(weights)[:, :, None]
    U, S, Vt = np.linalg.svd(root * away, full_matrices=False)
    shrink = S / (S**2 + RIDGE * np.sum(S**2, 1, keepdims=True))
    slopes = shrink[:, :, None] * (U.transpose(0, 2, 1) * root.transpose(0, 2, 1))
    slopes = slopes - slopes.sum(2, keepdims=True) * (weights / weights.sum(1)[:, None])[:, None]
    return Slopes(Vt.transpose(0, 2, 1), slopes, nodes)


def _by_columns(surface: Surface, slopes: Slopes) -> Slopes:
    frame = slopes.frame if surface.axes is None else surface.axes @ slopes.frame
    scale = np.broadcast_to(np.asarray(surface.scale, float), frame.shape[1])
    return Slopes(frame / scale[:, None], slopes.slopes, slopes.nodes)


def _corners(surface: Surface, nodes: np.ndarray) -> np.ndarray:
    """Nodes at the corners of the cell to which the values at `nodes` [n, j] belong, [n, q + 1]."""
    if surface.unknowns is None:
        return nodes
    order = np.lexsort(surface.unknowns.T[::-1])
    rank = {tuple(row): k for row, k in zip(surface.unknowns[order].tolist(), order.tolist(), strict=True)}
    return surface.cells[[rank[tuple(row)] for row in nodes.tolist()]]


def _of_simplices(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal frame [n, d, q] of simplices [n, q + 1, d], and slopes [n, q, q + 1] of barycentric weights.

    A direction in which a simplex has no extent has no slopes.
    """
    side = corners[:, 1:] - corners[:, :1]
    U, S, Vt = np.linalg.svd(side, full_matrices=False)
    there = FLAT * S[:, :1] < S
    inverse = np.where(there, 1 / np.where(there, S, 1.0), 0.0)
    slopes = inverse[:, :, None] * U.transpose(0, 2, 1)
    return Vt.transpose(0, 2, 1), np.concatenate([-slopes.sum(2, keepdims=True), slopes], 2)


def _quadratic_slopes(values: np.ndarray, corners: int) -> np.ndarray:
    """Derivatives [n, q + 1, local] of quadratic shape functions by barycentric weights, from their values."""
    weights = values[:, :corners].copy()
    for k, side in enumerate(combinations(range(corners), 2)):  # b_i (2 b_i - 1) + ½ Σ_j 4 b_i b_j = b_i
        weights[:, side] += 0.5 * values[:, [corners + k]]
    return np.swapaxes(quadratic_slopes(weights), 1, 2)
