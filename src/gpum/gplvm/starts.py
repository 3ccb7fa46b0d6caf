"""Starting coordinates of the optimiser: PCA, and Isomap on a neighbour graph that is made connected.

In one dimension Isomap folds a closed curve onto itself. A further start therefore cuts the curve at its widest gap,
and uses the angle in two dimensions of Isomap as the coordinate. The start "curve" is that one alone or, where the
cloud is no ring, Isomap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from sklearn.cluster import KMeans

from ..basics.neighbours import neighbour_graph
from ..basics.workers import one_openmp_thread

WHOLE = 1000  # up to this number of rows, all of them are landmarks
LANDMARKS = 300  # of a larger cloud; 1000 would change the coordinates by less than 1 % of their spread
ISOMAP_NEIGHBOURS = (5, 7, 10)
HOLLOW = 0.5  # a cloud is a ring if no row is closer to its centre than this fraction of the median radius
# A coordinate of Isomap that is smaller than another by this factor may be noise, so a further start keeps the ratio.
THIN = 0.1


def pca(S: np.ndarray, q: int) -> np.ndarray:
    """The first q principal components of S, shape [N, q]."""
    S = S - S.mean(0)
    if S.shape[1] <= S.shape[0]:
        w, V = np.linalg.eigh(S.T @ S)
        return S @ V[:, ::-1][:, :q]
    w, V = np.linalg.eigh(S @ S.T)
    return V[:, ::-1][:, :q] * np.sqrt(np.maximum(w[::-1][:q], 0.0))


def isomap(S: np.ndarray, q: int, n_neighbors: int, rng: np.random.Generator) -> np.ndarray:
    """Classical scaling of shortest-path distances, through landmarks for a large cloud; [N, q]."""
    N = len(S)
    graph = neighbour_graph(S, n_neighbors)
    landmarks = np.arange(N) if N <= WHOLE else rng.choice(N, LANDMARKS, replace=False)
    D2 = shortest_path(graph, indices=landmarks) ** 2  # [L, N]
    inner = D2[:, landmarks]
    centre = inner.mean(0)
    B = -0.5 * (inner - centre[:, None] - centre + centre.mean())
    w, V = np.linalg.eigh(B)
    least = max(np.finfo(float).eps * abs(w).max(), np.finfo(float).tiny)  # all rows may be equal
    w, V = np.maximum(w[::-1][:q], least), V[:, ::-1][:, :q]
    return -0.5 * (D2 - centre[:, None]).T @ (V / np.sqrt(w))


def unrolled(X: np.ndarray) -> np.ndarray | None:
    """Angles [N, 1] of rows of the plane about their centre, from the widest gap on; None if there is no hole."""
    X = X / np.maximum(X.std(0), 1e-300)
    radius = np.linalg.norm(X, axis=1)
    if radius.min() <= HOLLOW * np.median(radius):
        return None
    angle = np.arctan2(X[:, 1], X[:, 0])
    order = np.sort(angle)
    gaps = np.diff(order, append=order[0] + 2 * np.pi)
    return (angle - order[(np.argmax(gaps) + 1) % len(order)])[:, None] % (2 * np.pi)


def named(
    rows: np.ndarray, q: int, asked: Sequence[Any], rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.random.Generator]]:
    """Name and latent rows [N, q] of every requested start, each with its own random generator.

    `asked` holds "pca", "isomap" (several numbers of neighbours), "curve" (one dimension) and arrays, which are used
    unchanged.
    """
    kinds: list[tuple[str, Any]] = []
    for start in asked:
        if not isinstance(start, str):
            kinds.append(("given", np.asarray(start, float)))
        elif start == "pca":
            kinds.append(("pca", None))
        elif start == "curve":
            kinds.append(("curve", min(ISOMAP_NEIGHBOURS[0], len(rows) - 1)))
        else:
            kinds += [(f"isomap({k})", k) for k in sorted({min(k, len(rows) - 1) for k in ISOMAP_NEIGHBOURS})]
    cut = False
    for (name, kind), generator in zip(kinds, rng.spawn(len(kinds)), strict=True):
        if name == "given":
            yield name, kind, generator
            continue
        wide = pca(rows, q) if name == "pca" else isomap(rows, max(q, 2), kind, generator)
        X = wide[:, :q]
        if name == "curve":
            turn = unrolled(wide) if len(rows) > 2 else None
            yield name, standardise(X if turn is None else turn), generator
            continue
        yield name, standardise(X), generator
        if name != "pca" and X.std(0).min() < THIN * X.std(0).max():
            yield f"{name}, one scale", standardise(X, by_column=False), generator
        if q == 1 and not cut and name != "pca" and len(rows) > 2:
            turn = unrolled(wide)
            if turn is not None:
                cut = True
                yield f"{name}, unrolled", standardise(turn), generator


def standardise(X: np.ndarray, by_column: bool = True) -> np.ndarray:
    """Scale each latent column to mean 0 and variance 1, or all by the largest sd; constant columns become 0."""
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
    rows = rows + 1e-6 * rng.standard_normal(rows.shape)  # duplicates would be clusters of their own
    seed = int(rng.integers(2**31 - 1))
    with one_openmp_thread():
        centres = KMeans(m, n_init=1, max_iter=20, random_state=seed).fit(rows).cluster_centers_
    return centres + 1e-3 * rng.standard_normal(centres.shape)
