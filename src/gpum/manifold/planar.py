"""Stars in the plane, those of all rows at once.

    y_j = v_j / |v_j|²       circles through 0 become lines: the star of 0 is the convex hull of the y_j

Around 0 in the order of their angle, a point to the right of the line from the one before to the one after lies inside
the hull of these and 0, and is dropped; the points that remain are the hull. A star that does not go around 0, or has a
circle larger than is allowed, is left to `stars`, and none is returned.
"""

from __future__ import annotations

import numpy as np

NEEDLE = 1e-9  # |y_a × y_b| / |y_a| |y_b|: two points in one direction


def closed_stars(v: np.ndarray, near: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners a, b [n, k] of the triangles (0, a, b), and how many there are, [n], 0 where the star is not closed.

    Corners are columns of v [n, k, 2]; `near` [n, k] says which are used (never the first); `limit` [n] is the largest
    radius that circles may have.
    """
    k = v.shape[1]
    used = near & (np.arange(k) > 0)
    square = np.sum(v**2, -1)
    used &= square > 0
    scale = np.sqrt(np.min(square, 1, initial=np.inf, where=used))
    with np.errstate(invalid="ignore", divide="ignore"):
        y = v * (scale[:, None] / square)[..., None]
    column = np.argsort(np.where(used, np.arctan2(v[..., 1], v[..., 0]), np.inf), axis=1, kind="stable")
    count = used.sum(1)
    y = np.take_along_axis(np.where(used[..., None], y, 0.0), column[..., None], 1)
    rows = np.flatnonzero(count >= 3)
    while len(rows):
        before, after = _beside(y[rows], count[rows])
        drop = (_cross(y[rows] - before, after - y[rows]) < 0) & (np.arange(k) < count[rows, None])
        rows, drop = rows[drop.any(1)], drop[drop.any(1)]
        order = np.argsort(drop | (np.arange(k) >= count[rows, None]), axis=1, kind="stable")
        y[rows] = np.take_along_axis(y[rows], order[..., None], 1)
        column[rows] = np.take_along_axis(column[rows], order, 1)
        count[rows] -= drop.sum(1)
        rows = rows[count[rows] >= 3]
    inside = np.arange(k) < count[:, None]
    after = _beside(y, count)[1]
    other = np.take_along_axis(column, np.where(np.arange(k) + 1 < count[:, None], np.arange(1, k + 1) % k, 0), 1)
    turn = _cross(y, after)
    size = np.linalg.norm(y, axis=-1) * np.linalg.norm(after, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        radius = scale[:, None] * np.linalg.norm(after - y, axis=-1) / (2 * turn)
    good = ~inside | ((turn > NEEDLE * size) & (radius <= limit[:, None]))
    return column, other, np.where(good.all(1) & (count >= 3), count, 0)


def _beside(y: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points before and after each of the first `count` [n] points of y [n, k, 2]."""
    j, m = np.arange(y.shape[1]), np.maximum(count, 1)[:, None]
    return tuple(np.take_along_axis(y, ((j + step) % m)[..., None], 1) for step in (-1, 1))  # type: ignore[return-value]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
