"""The point of a simplex (vertex, segment, triangle, tetrahedron) that is nearest to a given point.

    c_0 … c_k     corners of a face;    s_a = c_a - c_0, a = 1 … k, its sides
    w_a           barycentric weights: (s_a·s_b) w = s_a·(x - c_0) on the plane of the face, w_0 = 1 - Σ w_a

The nearest point lies inside exactly one face (the simplex itself, a side, a corner), where it is the projection of x
onto the plane of that face. So all faces are tried, and the nearest projection with no negative weight is it. A flat
face is left out: each of its points belongs to one of its own faces.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

FLAT = 1e-13  # least determinant of a face's inner products, over the product of their diagonal


def nearest_point(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric weights [m, c] of the point of each simplex, corners [m, c, d], nearest to points [m, d].

    Also its distance from them, [m].
    """
    m, c, _ = corners.shape
    weights, distance = np.zeros((m, c)), np.full(m, np.inf)
    open_ = np.arange(m)  # points that the simplex itself does not hold
    for size in range(c, 0, -1):
        for face in map(list, combinations(range(c), size)):
            found, off, inside = _on_face(points[open_], corners[open_][:, face])
            closer = inside & (off < distance[open_])
            rows = open_[closer]
            weights[rows] = 0.0
            weights[rows[:, None], face], distance[rows] = found[closer], off[closer]
        if size == c:
            open_ = np.flatnonzero(distance == np.inf)
    return weights, distance


def _on_face(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of the projection onto the plane of each face, its distance, and whether it is inside the face."""
    side, away = corners[:, 1:] - corners[:, :1], points - corners[:, 0]
    length = np.linalg.norm(side, axis=2)
    sound = np.all(length > 0, axis=1)
    side = side / np.where(length > 0, length, 1.0)[..., None]  # of length one: no square overflows or vanishes
    gram = side @ np.swapaxes(side, 1, 2)
    sound &= np.linalg.det(gram) > FLAT
    gram[~sound] = np.eye(side.shape[1])
    local = np.linalg.solve(gram, side @ away[..., None])[..., 0]
    off = np.linalg.norm(away - np.einsum("mk,mkd->md", local, side), axis=1)
    local = local / np.where(length > 0, length, 1.0)
    weights = np.concatenate([1 - local.sum(1, keepdims=True), local], 1)
    return weights, off, sound & (weights.min(1) >= 0)
