"""Local charts of a cloud: a tangent frame, a curvature and a noise level around every row.

    Δ_j    = x_j - x_i, the k rows j nearest to row i along the surface, row i itself first
    u_j    = T_iᵀ Δ_j, coordinates in the frame T_i [p, q]
    Δ(u)   ≈ c + J u + ½ H[u, u], a weighted least-squares fit; the row moves to x_i + c, its frame becomes that of J
    e_i    = |c| / (1 - h_ii), the error when row i is left out of its own fit

A chord that leaves the plane at angle β belongs to an arc of length |Δ| β / sin β on a circle that touches the plane;
with it u_j becomes the normal coordinate v_j of row j, whose length is the distance along the surface.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

MAX_BLOCK = 4_000_000  # numbers of one gathered block
LADDER = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # sizes of a fit's neighbourhood, in units of the smallest
ROWS_PER_TERM = 2  # of the smallest fit
GAIN = 0.9  # a larger neighbourhood must be flatter by this factor
STEEP = 4.0  # how much farther a row counts that lies off the plane, times tan²β
MAX_ANGLE = np.pi / 3  # between a chord and the plane; beyond it a row belongs to another part of the surface
NOISY = 0.5  # noise above this share of the spacing cannot be told from roughness: rows stay where they are
RIDGE = 1e-9


@dataclass(frozen=True)
class LocalFits:
    """Around every row: who is near, the frame, where the smooth surface passes."""

    index: np.ndarray  # [N, k], the row itself first
    frame: np.ndarray  # [N, p, q]
    offset: np.ndarray  # c, [N, p]
    error: np.ndarray  # e, [N]
    variance: np.ndarray  # |c|² / (1 - h), [N]: unbiased for the noise off the plane
    radius: np.ndarray  # root mean square of |u|, [N]


def n_terms(q: int) -> int:
    """Terms of a quadratic in q variables."""
    return 1 + q + q * (q + 1) // 2


def quadratic(u: np.ndarray) -> np.ndarray:
    """1, u, and the products of u, [..., terms]."""
    q = u.shape[-1]
    a, b = np.triu_indices(q)
    return np.concatenate([np.ones((*u.shape[:-1], 1)), u, u[..., a] * u[..., b]], -1)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of n rows, each of which gathers about `size` numbers."""
    step = max(1, MAX_BLOCK // max(1, size))
    return (slice(a, min(n, a + step)) for a in range(0, n, step))


def nearest(X: np.ndarray, k: int) -> np.ndarray:
    """The k nearest rows of every row, itself first, [N, k]."""
    k = min(k, len(X))
    index = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(X, return_distance=False)
    index = np.asarray(index)
    own = index == np.arange(len(X))[:, None]
    place = np.where(own.any(1), own.argmax(1), k - 1)
    index[np.arange(len(X)), place] = index[:, 0]
    index[:, 0] = np.arange(len(X))
    return index


def fit(X: np.ndarray, index: np.ndarray, q: int) -> LocalFits:
    """Frames and quadratic fits over given neighbours [N, k]."""
    N, k = index.shape
    p = X.shape[1]
    q = min(q, p)
    frame, offset = np.empty((N, p, q)), np.empty((N, p))
    error, variance, radius = np.empty(N), np.empty(N), np.empty(N)
    for rows in blocks(N, k * max(k, p)):
        delta = X[index[rows]] - X[rows, None]  # [n, k, p]
        first = principal(delta, q)
        u = delta @ first
        square = np.sum(u**2, -1)
        scale = np.sqrt(square.mean(1))
        reach = np.sqrt(np.sum(delta**2, -1).max(1)) + 1e-300
        weight = np.maximum(1 - (np.sum(delta**2, -1) / (1.2 * reach[:, None]) ** 2), 0.05)
        D = quadratic(u / np.maximum(scale, 1e-300)[:, None, None])
        m = D.shape[-1]
        if k < m + 1:  # too few rows for a curvature
            D = D[..., : 1 + q]
            m = 1 + q
        normal = np.swapaxes(D, 1, 2) @ (weight[..., None] * D)
        ridge = RIDGE * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(m)
        solve = np.linalg.solve(normal + ridge, np.swapaxes(weight[..., None] * D, 1, 2))  # [n, m, k]
        coefficient = solve @ delta  # [n, m, p]
        own = np.clip(solve[:, 0, 0], 0.0, 0.99)
        J = np.swapaxes(coefficient[:, 1 : 1 + q], 1, 2) / np.maximum(scale, 1e-300)[:, None, None]
        frame[rows] = np.linalg.qr(J)[0]
        c = coefficient[:, 0]
        offset[rows] = c
        size = np.linalg.norm(c, axis=1)
        error[rows], variance[rows], radius[rows] = size / (1 - own), size**2 / (1 - own), scale
    return LocalFits(index, frame, offset, error, variance, radius)


def principal(delta: np.ndarray, q: int) -> np.ndarray:
    """First q principal axes of batches of rows [n, k, p], [n, p, q]."""
    centred = delta - delta.mean(1, keepdims=True)
    if delta.shape[2] <= delta.shape[1]:
        return np.linalg.eigh(np.swapaxes(centred, 1, 2) @ centred)[1][:, :, : -q - 1 : -1]
    vectors = np.linalg.eigh(centred @ np.swapaxes(centred, 1, 2))[1][:, :, : -q - 1 : -1]
    return np.linalg.qr(np.swapaxes(centred, 1, 2) @ vectors)[0]


def along_surface(
    X: np.ndarray, pool: np.ndarray, frame: np.ndarray, k: int, both: bool = True
) -> np.ndarray:  # fmt: skip
    """Of a pool of near rows [N, K] the k nearest, [N, k]: rows off the plane (of either row, with `both`) count as farther."""
    k = min(k, pool.shape[1])
    near = np.empty((len(pool), k), int)
    for rows in blocks(len(pool), pool.shape[1] * X.shape[1] * frame.shape[2]):
        delta = X[pool[rows]] - X[rows, None]
        total = np.sum(delta**2, -1)
        tangent = np.sum((delta @ frame[rows]) ** 2, -1)
        if both:
            there = (delta[:, :, None] @ frame[pool[rows]])[:, :, 0]
            tangent = np.minimum(tangent, np.sum(there**2, -1))
        steep = np.maximum(total - tangent, 0) / np.maximum(tangent, 1e-300 + 1e-9 * total)
        order = np.argsort(total * (1 + STEEP * steep), axis=1, kind="stable")[:, :k]
        near[rows] = np.take_along_axis(pool[rows], order, 1)
    return near


def normal_coordinates(X: np.ndarray, index: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v [N, k, q] of the rows around each row, and the angles β [N, k] of their chords with its plane."""
    N, k = index.shape
    v, angle = np.empty((N, k, frame.shape[2])), np.empty((N, k))
    for rows in blocks(N, k * X.shape[1]):
        delta = X[index[rows]] - X[rows, None]
        v[rows], angle[rows] = lift(delta, frame[rows])
    return v, angle


def lift(delta: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v [n, k, q] and β [n, k] of steps [n, k, p] from rows with frames [n, p, q]."""
    u = delta @ frame
    flat = np.linalg.norm(u, axis=-1)
    chord = np.linalg.norm(delta, axis=-1)
    beta = np.arccos(np.clip(flat / np.maximum(chord, 1e-300), 0, 1))
    bend = np.minimum(beta, MAX_ANGLE)
    arc = chord * bend / np.maximum(np.sin(bend), 1e-12)
    arc = np.where(bend > 1e-6, arc, chord)
    return u * (arc / np.maximum(flat, 1e-300))[..., None], beta
