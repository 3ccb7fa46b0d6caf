"""Stiffness and mass matrices of the Laplace operator on the joined stars of an atlas.

    K_ij = -w_ij,  K_ii = Σ_j w_ij          w ≥ 0: an M-matrix, whatever the cloud
    M    = diag(m) - c L,  L the graph Laplacian of the weights e_ij (see `manifold.stars`)
    K φ = λ M φ,  φᵀ M φ = 1

With c = 0 (lumped mass) linear elements have too small eigenvalues, with c = 1 (consistent mass) too large ones, both
by order λh²; c = 0.4 cancels most of it on rows scattered at random.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, diags

from ..manifold.stars import Stars

CONSISTENT = 0.4  # c
DOMINANT = 0.8  # fraction of m_i that c·2Σ_j e_ij may reach, so that M stays positive definite


def operators(stars: Stars, rows: np.ndarray) -> tuple[csc_matrix, csc_matrix]:
    """K and M between the given nodes, which must have a mass."""
    N = len(stars.mass)
    number = np.full(N, -1)
    number[rows] = np.arange(len(rows))
    i, j = number[stars.i], number[stars.j]
    used = (i >= 0) & (j >= 0)
    i, j, n = i[used], j[used], len(rows)

    def mean(values: np.ndarray) -> csc_matrix:
        A = csc_matrix(coo_matrix((values[used], (i, j)), shape=(n, n)))
        return csc_matrix((A + A.T) / 2)

    W, E = mean(stars.weight), mean(stars.edge_mass)
    mass = stars.mass[rows]
    load = 2 * CONSISTENT * np.asarray(E.sum(0)).ravel()
    scale = np.divide(DOMINANT * mass, load, out=np.ones(n), where=load > DOMINANT * mass)
    E = _scaled(E, scale)
    K = diags(np.asarray(W.sum(0)).ravel()) - W
    L = diags(np.asarray(E.sum(0)).ravel()) - E
    return csc_matrix(K), csc_matrix(diags(mass) - CONSISTENT * L)


def _scaled(E: csc_matrix, scale: np.ndarray) -> csc_matrix:
    C = E.tocoo()
    return csc_matrix((C.data * np.minimum(scale[C.row], scale[C.col]), (C.row, C.col)), shape=C.shape)
