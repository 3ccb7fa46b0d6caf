"""Where the optimiser starts: PCA, and Isomap on a neighbour graph that is made connected."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree, shortest_path
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

LANDMARKS = 1000


def pca(S: np.ndarray, q: int) -> np.ndarray:
    """The first q principal components of S, shape [N, q]."""
    S = S - S.mean(0)
    if S.shape[1] <= S.shape[0]:
        w, V = np.linalg.eigh(S.T @ S)
        return S @ V[:, ::-1][:, :q]
    w, V = np.linalg.eigh(S @ S.T)
    return V[:, ::-1][:, :q] * np.sqrt(np.maximum(w[::-1][:q], 0.0))


def neighbour_graph(S: np.ndarray, n_neighbors: int) -> csr_matrix:
    """Symmetric kNN graph with Euclidean lengths, in one piece.

    Pieces are joined along the shortest gaps between them (a spanning tree of the pieces), never
    by adding neighbours everywhere, which would short-cut the surface.
    """
    N = len(S)
    k = min(n_neighbors, N - 1)
    near = NearestNeighbors(n_neighbors=k + 1).fit(S)
    distance, index = near.kneighbors(S)
    tiny = np.finfo(float).tiny  # duplicates stay edges: a stored zero would mean "no edge"
    rows = np.repeat(np.arange(N), k)
    lengths = np.maximum(distance[:, 1:].ravel(), tiny)
    graph = csr_matrix((lengths, (rows, index[:, 1:].ravel())), shape=(N, N))
    graph = graph.maximum(graph.T)
    pieces, label = connected_components(graph, directed=False)
    if pieces == 1:
        return graph
    members = [np.flatnonzero(label == c) for c in range(pieces)]
    gap = np.zeros((pieces, pieces))
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for a in range(pieces):
        for b in range(a + 1, pieces):
            d = cdist(S[members[a]], S[members[b]])
            i, j = np.unravel_index(np.argmin(d), d.shape)
            gap[a, b] = max(d[i, j], tiny)
            ends[a, b] = int(members[a][i]), int(members[b][j])
    tree = coo_matrix(minimum_spanning_tree(csr_matrix(gap)))
    bridges = [ends[int(a), int(b)] for a, b in zip(tree.row, tree.col, strict=True)]
    i, j = np.array(bridges).T
    extra = csr_matrix((tree.data, (i, j)), shape=(N, N))
    return graph.maximum(extra).maximum(extra.T)


def isomap(S: np.ndarray, q: int, n_neighbors: int, rng: np.random.Generator) -> np.ndarray:
    """Classical scaling of shortest-path distances, through landmarks for a large cloud; [N, q]."""
    N = len(S)
    graph = neighbour_graph(S, n_neighbors)
    landmarks = np.arange(N) if N <= LANDMARKS else rng.choice(N, LANDMARKS, replace=False)
    D2 = shortest_path(graph, directed=False, indices=landmarks) ** 2  # [L, N]
    inner = D2[:, landmarks]
    centre = inner.mean(0)
    B = -0.5 * (inner - centre[:, None] - centre + centre.mean())
    w, V = np.linalg.eigh(B)
    w, V = np.maximum(w[::-1][:q], np.finfo(float).eps * abs(w).max()), V[:, ::-1][:, :q]
    return -0.5 * (D2 - centre[:, None]).T @ (V / np.sqrt(w))


def standardise(X: np.ndarray, by_column: bool = True) -> np.ndarray:
    """Each latent column to mean 0 and variance 1, or all by the largest's scale; one without variation stays 0."""
    X = X - X.mean(0)
    sd = X.std(0)
    if not by_column:
        return X / max(sd.max(), 1e-300)
    return X / np.where(sd > 1e-12 * max(sd.max(), 1e-300), sd, 1.0)


def inducing_inputs(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """m inputs spread over the rows of X: cluster centres, or the rows themselves when m = N."""
    if m >= len(X):
        return X + 1e-3 * rng.standard_normal(X.shape)
    rows = X if len(X) <= 5000 else X[rng.choice(len(X), 5000, replace=False)]
    rows = rows + 1e-6 * rng.standard_normal(rows.shape)  # duplicates make clusters of their own
    seed = int(rng.integers(2**31 - 1))
    centres = KMeans(m, n_init=1, max_iter=20, random_state=seed).fit(rows).cluster_centers_
    return centres + 1e-3 * rng.standard_normal(centres.shape)
