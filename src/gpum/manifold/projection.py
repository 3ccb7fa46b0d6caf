"""Projection onto one simplex (vertex, segment, triangle, tetrahedron): its point that is nearest to a given point.

    c_0 … c_k     corners of a face;    s_a = c_a - c_0, a = 1 … k, its sides
    w_a           barycentric weights: Σ w_a s_a is x - c_0 projected onto the plane of the face, w_0 = 1 - Σ w_a

The nearest point lies inside exactly one face (the simplex itself, a side, a corner), where it is the projection of x
onto the plane of that face. So x is projected onto all faces, and the nearest projection without a negative weight is
chosen. A flat face is left out: each of its points belongs to one of its own faces.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

MANY = 1000  # points that are projected onto one face after the other
ROUNDING = 1e-9  # of distances that are compared
FLAT = 1e-7  # a face is flat if less than this fraction of a side's length is orthogonal to the sides before it


def inverse_sides(corners: np.ndarray, flat: float = 0.0) -> np.ndarray:
    """Matrices [m, q, q] that turn x - c_0 into w_1 … w_q, for simplices [m, q + 1, q]; NaN where one is flat.

    A simplex is flat if the volume spanned by its sides is at most `flat` times that of a cube of its size.
    """
    sides = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
    q = sides.shape[1]
    is_flat = np.abs(np.linalg.det(sides)) <= flat * np.abs(sides).max((1, 2), initial=0.0) ** q
    inverse = np.linalg.inv(np.where(is_flat[:, None, None], np.eye(q), sides))
    inverse[is_flat] = np.nan
    return inverse


def barycentric(points: np.ndarray, first: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Weights [..., q + 1] of points [..., q] in simplices with a first corner [..., q] and `inverse_sides`.

    A point outside its simplex has a negative weight; in a flat one its weights are NaN.
    """
    others = np.einsum("...ab,...b->...a", inverse, points - first)
    return np.concatenate([1 - others.sum(-1, keepdims=True), others], -1)


def nearest_point(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric weights [m, c] of the point of each simplex, corners [m, c, d], nearest to points [m, d].

    Also the distances, [m].
    """
    m, c, _ = corners.shape
    weights, distance = np.zeros((m, c)), np.full(m, np.inf)
    open_ = np.arange(m)  # points that are not inside their simplex
    for size in range(c, 0, -1):
        faces = np.array(list(combinations(range(c), size)))
        for chosen in [faces] if len(open_) < MANY else faces[:, None]:  # of few points all faces in one call
            shape = len(chosen), len(open_)
            corner = corners[open_[:, None], chosen[:, None]].reshape(-1, size, corners.shape[2])
            on_faces, off, inside = _on_face(np.tile(points[open_], (len(chosen), 1)), corner)
            off = np.where(inside, off, np.inf).reshape(shape)
            best = np.argmin(off, 0) if len(open_) else np.zeros(0, int)
            off = off[best, np.arange(len(open_))]
            closer = np.flatnonzero(off < distance[open_])
            rows, face = open_[closer], chosen[best[closer]]
            weights[rows] = 0.0
            weights[rows[:, None], face] = on_faces.reshape(*shape, size)[best[closer], closer]
            distance[rows] = off[closer]
        if size == c:
            open_ = np.flatnonzero(distance == np.inf)
    return weights, distance


def balls(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres [m, d] and radii [m] of balls around simplices, corners [m, c, d]."""
    centre = corners.mean(1)
    return centre, np.sqrt(np.square(corners - centre[:, None]).sum(-1).max(1))


def in_reach(points: np.ndarray, centre: np.ndarray, radius: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which simplices, with these `balls` [m], can be nearer to their points [m, d] than a `known` distance, [m]."""
    return _lengths(points - centre) <= (1 + ROUNDING) * (radius + known)


def _on_face(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of the projection onto the plane of each face, its distance, and whether it is inside the face.

    By Gram and Schmidt, side after side: s_a = Σ_{b≤a} R_ba u_b, x - c_0 = Σ t_a u_a + what is off; then R w = t.
    """
    m, n = corners.shape[:2]
    off, R, t = points - corners[:, 0], np.zeros((n, n, m)), np.zeros((n, m))
    units: list[np.ndarray] = []
    sound = np.ones(m, bool)
    for a in range(1, n):
        side = corners[:, a] - corners[:, 0]
        length = _lengths(side)
        for b, unit in enumerate(units, start=1):
            R[b, a] = np.einsum("md,md->m", side, unit)
            side = side - R[b, a][:, None] * unit
        R[a, a] = _lengths(side)
        sound &= R[a, a] > FLAT * length
        R[a, a][~sound] = 1.0
        units.append(side / R[a, a][:, None])
        t[a] = np.einsum("md,md->m", off, units[-1])
        off = off - t[a][:, None] * units[-1]
    weights = np.zeros((n, m))  # sums over a first axis are much faster than over a short last one
    for a in range(n - 1, 0, -1):
        weights[a] = (t[a] - np.sum(R[a, a + 1 :] * weights[a + 1 :], 0)) / R[a, a]
    weights[0] = 1 - weights[1:].sum(0)
    return weights.T, _lengths(off), sound & (weights.min(0) >= 0)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """The lengths of vectors [m, d], [m]."""
    return np.sqrt(np.einsum("md,md->m", vectors, vectors))
