"""Matrices from which the spectrum of an atlas, a mesh or the surface of a fit is computed: linear elements.

On cells:

    K        that of linear functions,    M = (1 - c) · lumped mass + c · consistent mass

On the joined stars of an atlas:

    K_ij = -w_ij,  K_ii = Σ_j w_ij          w ≥ 0: an M-matrix, whatever the cloud
    M    = diag(m) - c L,  L the graph Laplacian of the weights e_ij (see `manifold.stars`)

    K φ = λ M φ,  φᵀ M φ = 1

With c = 0 (lumped mass) linear elements have too small eigenvalues, with c = 1 (consistent mass) too large ones, both
by order λh²; c = 0.4 cancels most of it on rows scattered at random. A row of M adds up to the node's lumped mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, diags

from ..manifold.stars import Stars

CONSISTENT = 0.4  # c
DOMINANT = 0.8  # fraction of m_i that c·2Σ_j e_ij may reach, so that M stays positive definite


def assemble(blocks: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], n: int) -> tuple[csr_matrix, csr_matrix]:
    """K and M [n, n], the sums of those of elements: unknowns [m, local], K and M [m, local, local] for each kind."""
    rows = np.concatenate([np.repeat(unknowns, unknowns.shape[1], 1).ravel() for unknowns, _, _ in blocks])
    columns = np.concatenate([np.tile(unknowns, (1, unknowns.shape[1])).ravel() for unknowns, _, _ in blocks])
    K, M = (np.concatenate([block[k].ravel() for block in blocks]) for k in (1, 2))
    return tuple(coo_matrix((values, (rows, columns)), shape=(n, n)).tocsr() for values in (K, M))


def on_cells(blocks: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], n: int) -> tuple[csr_matrix, csr_matrix]:
    """K and M [n, n] of cells: their corners [m, q + 1], volumes [m] and stiffness matrices [m, q + 1, q + 1]."""
    elements = []
    for corners, volume, stiffness in blocks:
        c = corners.shape[1]
        local = (1 - CONSISTENT) * np.eye(c) / c + CONSISTENT * (1 + np.eye(c)) / (c * (c + 1))
        elements.append((corners, stiffness, volume[:, None, None] * local))
    return assemble(elements, n)


def of_distances(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Volume [K] of simplices and the stiffness of their linear elements, from squared distances [K, q + 1, q + 1]."""
    first = squares[:, 1:, 0]
    return _volume_and_stiffness(0.5 * (first[:, :, None] + first[:, None] - squares[:, 1:, 1:]))


def of_corners(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same from corners [K, q + 1, p]."""
    side = corners[:, 1:] - corners[:, :1]
    return _volume_and_stiffness(side @ side.transpose(0, 2, 1))


def _volume_and_stiffness(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From the inner products [K, q, q] of the sides at the first corner."""
    q = gram.shape[1]
    volume = np.sqrt(np.maximum(np.linalg.det(gram), 0.0)) / factorial(q)
    slopes = np.concatenate([-np.ones((q, 1)), np.eye(q)], 1)  # of barycentric weights, by the coordinates of sides
    return volume, volume[:, None, None] * (slopes.T @ np.linalg.inv(gram) @ slopes)


def on_stars(stars: Stars) -> tuple[csr_matrix, csr_matrix]:
    """K and M of an atlas between all nodes; both are 0 at a node that belongs to no simplex."""
    n = len(stars.mass)

    def mean(values: np.ndarray) -> csc_matrix:
        A = csc_matrix(coo_matrix((values, (stars.i, stars.j)), shape=(n, n)))
        return csc_matrix((A + A.T) / 2)

    W, E = mean(stars.weight), mean(stars.edge_mass)
    load = 2 * CONSISTENT * np.asarray(E.sum(0)).ravel()
    scale = np.divide(DOMINANT * stars.mass, load, out=np.ones(n), where=load > DOMINANT * stars.mass)
    E = _scaled(E, scale)
    K = diags(np.asarray(W.sum(0)).ravel()) - W
    L = diags(np.asarray(E.sum(0)).ravel()) - E
    return csr_matrix(K), csr_matrix(diags(stars.mass) - CONSISTENT * L)


def _scaled(E: csc_matrix, scale: np.ndarray) -> csc_matrix:
    C = E.tocoo()
    return csc_matrix((C.data * np.minimum(scale[C.row], scale[C.col]), (C.row, C.col)), shape=C.shape)
