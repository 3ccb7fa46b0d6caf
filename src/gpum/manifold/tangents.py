"""What an atlas is made of: the tangent frame, curvature and noise of the cloud around every row.

    Δ_j    = x_j - x_i, the k rows j nearest to row i along the surface, row i itself first
    u_j    = T_iᵀ Δ_j, coordinates in the frame T_i [p, q]
    Δ(u)   ≈ c + J u + ½ H[u, u], a weighted least-squares fit; the row moves to x_i + c, its frame becomes that of J
    e_i    = |c| / (1 - h_ii), the error when row i is left out of its own fit

A chord that leaves the plane at angle β belongs to an arc of length |Δ| β / sin β on a circle that touches the plane;
with it u_j becomes the normal coordinate v_j of row j, whose length is the distance along the surface.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from ..basics import neighbours

MAX_BLOCK = 4_000_000  # numbers in one block of rows that is processed at once
SIZES = (1.0, 2.0, 4.0, 8.0)  # sizes of a fit's neighbourhood, in units of the smallest
ROWS_PER_TERM = 2  # rows for each term of the smallest fit
GAIN = 0.97  # a larger neighbourhood must reduce the error by this factor
THIN = 0.2  # error over radius up to which a neighbourhood shows the surface; above it rows are not moved
STEEP = 4.0  # times tan²β: how much is added to the squared distance of a row off the plane, relative to it
MAX_ANGLE = np.pi / 3  # between a chord and the plane; beyond it a row belongs to another sheet of the surface
RIDGE = 1e-9  # added to the normal equations, over their trace
REACH = 1.2  # times the farthest neighbour's distance: where weights of a fit become 0
MAX_LEVERAGE = 0.99  # the largest h_ii


@dataclass(frozen=True)
class LocalFits:
    """Local fits around n rows: the tangent frame, and where the smooth surface passes."""

    frame: np.ndarray  # [n, p, q]
    offset: np.ndarray  # c, [n, p]
    error: np.ndarray  # e, [n]
    variance: np.ndarray  # |c|² / (1 - h_ii), [n]: unbiased for the noise off the plane
    radius: np.ndarray  # root mean square of |u|, [n]


def n_terms(q: int) -> int:
    """The number of terms of a quadratic in q variables."""
    return 1 + q + q * (q + 1) // 2


def quadratic(u: np.ndarray) -> np.ndarray:
    """The terms of a quadratic in u [..., q]: 1, u, and the products of u, [..., terms]."""
    q = u.shape[-1]
    a, b = np.triu_indices(q)
    return np.concatenate([np.ones((*u.shape[:-1], 1)), u, u[..., a] * u[..., b]], -1)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of n rows, so that each block has at most MAX_BLOCK numbers, `size` for each row."""
    step = max(1, MAX_BLOCK // max(1, size))
    return (slice(a, min(n, a + step)) for a in range(0, n, step))


def neighbourhoods(X: np.ndarray, k: int) -> np.ndarray:
    """Each row itself and then the k - 1 rows nearest to it, [N, k]."""
    return np.column_stack([np.arange(len(X)), neighbours.nearest(X, k - 1)[1]])


def fit(X: np.ndarray, index: np.ndarray, q: int) -> LocalFits:
    """Frames and quadratic fits over neighbours [n, k] among rows X [N, p]; each first neighbour is the row itself."""
    n, k = index.shape
    p = X.shape[1]
    fits = [_fit(X[index[rows]] - X[index[rows, :1]], q) for rows in blocks(n, k * max(k, p))]
    return LocalFits(*(np.concatenate(values) for values in zip(*fits, strict=True)))


def _fit(delta: np.ndarray, q: int) -> tuple[np.ndarray, ...]:
    """The fields of `LocalFits` for steps [n, k, p]."""
    k = delta.shape[1]
    u = delta @ principal(delta, q)
    scale = np.sqrt(np.sum(u**2, -1).mean(1))[:, None, None]
    square = np.sum(delta**2, -1)
    weight = np.maximum(1 - square / (REACH**2 * square.max(1, keepdims=True)), 0.0)[..., None]
    D = quadratic(u / scale)
    if k <= D.shape[-1]:  # too few rows for a curvature
        D = D[..., : 1 + q]
    normal = np.swapaxes(D, 1, 2) @ (weight * D)
    normal += RIDGE * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(D.shape[-1])
    solved = np.linalg.solve(normal, np.swapaxes(weight * D, 1, 2))  # [n, terms, k]
    leverage = np.clip(solved[:, 0, 0], 0.0, MAX_LEVERAGE)
    coefficient = solved @ delta  # [n, terms, p]
    frame = np.linalg.qr(np.swapaxes(coefficient[:, 1 : 1 + q], 1, 2))[0]
    offset = coefficient[:, 0]
    size = np.linalg.norm(offset, axis=1)
    return frame, offset, size / (1 - leverage), size**2 / (1 - leverage), scale[:, 0, 0]


def chosen(which: np.ndarray, one: LocalFits, other: LocalFits) -> LocalFits:
    """The fits of `one` where `which` [N] is true, else of the other."""
    pick = [
        np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
        for a, b in zip(_arrays(one), _arrays(other), strict=True)
    ]
    return LocalFits(*pick)


def _arrays(fits: LocalFits) -> list[np.ndarray]:
    return [getattr(fits, field.name) for field in fields(fits)]


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
    """The k nearest [N, k] of a pool [N, K]; rows off the plane (of either row with `both`) count as farther."""
    k = min(k, pool.shape[1])
    near = np.empty((len(pool), k), int)
    axes = np.ascontiguousarray(np.moveaxis(frame, 2, 0))
    for rows in blocks(len(pool), 2 * pool.shape[1] * X.shape[1]):
        delta = X[pool[rows]] - X[pool[rows, :1]]
        total = np.sum(delta**2, -1)
        tangent = np.sum((delta @ frame[pool[rows, 0]]) ** 2, -1)
        if both:
            there = sum(np.einsum("nkp,nkp->nk", delta, axis[pool[rows]]) ** 2 for axis in axes)
            tangent = np.minimum(tangent, there)
        steep = np.maximum(total - tangent, 0) / np.maximum(tangent, 1e-300 + 1e-9 * total)
        order = np.argsort(total * (1 + STEEP * steep), axis=1, kind="stable")[:, :k]
        near[rows] = np.take_along_axis(pool[rows], order, 1)
    return near


def normal_coordinates(X: np.ndarray, index: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v [N, k, q] of the rows around each row, and which of them lie on the same sheet of the surface [N, k]."""
    N, k = index.shape
    v, same = np.empty((N, k, frame.shape[2])), np.empty((N, k), bool)
    for rows in blocks(N, k * X.shape[1]):
        v[rows], angle = lift(X[index[rows]] - X[rows, None], frame[rows])
        same[rows] = angle <= MAX_ANGLE
    same[:, 0] = True
    return v, same


def lift(delta: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal coordinates v [n, k, q] and angles β [n, k] of steps [n, k, p] from rows with frames [n, p, q]."""
    u = delta @ frame
    flat = np.linalg.norm(u, axis=-1)
    chord = np.linalg.norm(delta, axis=-1)
    beta = np.arccos(np.clip(flat / np.maximum(chord, 1e-300), 0, 1))
    bend = np.minimum(beta, MAX_ANGLE)
    arc = chord * bend / np.maximum(np.sin(bend), 1e-12)
    arc = np.where(bend > 1e-6, arc, chord)
    return u * (arc / np.maximum(flat, 1e-300))[..., None], beta
