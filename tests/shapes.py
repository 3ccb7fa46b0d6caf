"""Meshes of shapes whose eigenvalues, areas and shortest paths are known."""

import numpy as np

from gpum.manifold.surface import halved


def sphere(times):
    """Vertices and triangles of the unit sphere: an icosahedron whose sides are halved so many times."""
    g = (1 + 5**0.5) / 2
    corners = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0)]
    v = np.array([np.roll(c, turn) for turn in range(3) for c in corners], float)
    length = np.linalg.norm(v[:, None] - v, axis=2)
    near = np.isclose(length, 2)
    f = np.array(
        [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] & near[j, k] & near[i, k]]
    )
    v /= np.linalg.norm(v, axis=1)[:, None]
    for _ in range(times):
        v, f, _, _ = halved(v, f, np.zeros((0, 2), int))
        v /= np.linalg.norm(v, axis=1)[:, None]
    return v, f


def rectangle(width, height, n):
    """Vertices [.., 3] and triangles of a flat rectangle in space, with n squares along its width."""
    m = round(n * height / width)
    i, j = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    at = np.column_stack([i.ravel() * width / n, j.ravel() * height / m, np.zeros(i.size)])
    first = (i[:-1, :-1] * (m + 1) + j[:-1, :-1]).ravel()
    a, b, c, d = first, first + 1, first + m + 1, first + m + 2
    return at, np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)])


def box(n):
    """Vertices and tetrahedra of the unit cube, n small cubes along each side, six tetrahedra each."""
    axis = np.arange(n + 1)
    at = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    step = np.array([(n + 1) ** 2, n + 1, 1])
    first = at[np.all(at < n, axis=1)] @ step
    paths = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    cells = [np.stack([first, *(first + step[p[: k + 1]].sum() for k in range(3))], 1) for p in paths]
    return at / n, np.concatenate(cells)
