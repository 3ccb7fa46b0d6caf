"""Which rows of a cloud lie next to each other: nearest rows, neighbour graph, spanning tree, spacing, extent.

    points [N, p]     rows of a cloud
    pairs  [e, 2]     two row numbers each

Everything here takes Euclidean distances between rows. A row is never its own neighbour, however many copies it has.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree
from sklearn.neighbors import NearestNeighbors

PRECISE = 2e-8  # of the longest row: distances found as |x|² + |y|² - 2xy are no better
TINY = np.finfo(float).tiny  # length of an edge between copies: a stored zero would mean "no edge"
TREE_NEIGHBOURS = 12  # of the graph in which the spanning tree is sought
CANDIDATES = 5  # rows looked at for each row of a part
LEADERS = 128  # the farthest of these, among which the next rows of a part are found
DIRECTIONS = 64  # random ones, in which distances between rows of more columns are as good for choosing a part


def nearest(points: np.ndarray, k: int = 1, queries: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Distances and row numbers [n, k] of the k rows nearest to each query, or to each row among the others."""
    k = min(k, len(points) - (queries is None))
    return NearestNeighbors(n_neighbors=k).fit(points).kneighbors(queries)


def spacing(points: np.ndarray) -> np.ndarray:
    """How far each row is from the nearest other one, [N]."""
    return nearest(points)[0][:, 0]


def dimension(points: np.ndarray, k: int = 20) -> float:
    """How fast neighbours become more with distance (Levina and Bickel 2004): about the dimension, or a little less.

    With r_j the distance of a row to its j-th neighbour, (k - 2)/Σ_{j<k} log(r_k/r_j), its inverse averaged over rows.
    """
    points = np.unique(points, axis=0)
    k = min(k, len(points) - 1)
    if k < 3:
        return 1.0
    r = np.maximum(nearest(points, k)[0], PRECISE * np.linalg.norm(points, axis=1).max())
    rate = np.mean(np.sum(np.log(r[:, -1:] / r[:, :-1]), 1)) / (k - 2)
    return float(1 / max(rate, 1e-12))


def cover(
    points: np.ndarray, size: int, rng: np.random.Generator, taken: np.ndarray | None = None
) -> np.ndarray:  # fmt: skip
    """Numbers [size], ascending, of rows that cover a cloud: no row is far from all of them (and of those `taken`).

    The row farthest from those taken is taken next (Gonzalez 1985): half of them among a random few for each, the
    others among the rows of the whole cloud that are then farthest, so that nothing is overlooked.
    """
    if points.shape[1] > DIRECTIONS:
        points = points @ rng.standard_normal((points.shape[1], DIRECTIONS))
    taken = np.zeros(0, int) if taken is None else taken
    pool = np.sort(rng.choice(len(points), min(CANDIDATES * size, len(points)), replace=False))
    taken = _farthest(points, pool, taken, (size - len(taken)) // 2)
    away = nearest(points[taken], 1, points)[0][:, 0]
    pool = np.argsort(-away, kind="stable")[: CANDIDATES * size]
    return np.sort(_farthest(points, pool, taken, size - len(taken)))


def _farthest(points: np.ndarray, pool: np.ndarray, taken: np.ndarray, n: int) -> np.ndarray:
    """`taken` and n more rows of the pool, each the farthest from those taken before it; none is taken twice.

    Distances only fall. So while a row among the LEADERS is still farther than all others were, it is the farthest, and
    the others are looked at for many rows at once.
    """
    among = points[pool]
    norms = np.sum(among**2, 1)

    def squares(rows: np.ndarray, others: np.ndarray | slice = slice(None)) -> np.ndarray:
        gap = norms[others, None] + norms[rows] - 2 * among[others] @ among[rows].T
        return np.maximum(gap, 0.0)

    found: list[int] = []
    if len(taken):
        away = nearest(points[taken], 1, among)[0][:, 0] ** 2
        away[np.isin(pool, taken)] = -1.0
    elif n:
        found = [int(np.argmax(np.sum((among - among.mean(0)) ** 2, 1)))]
        away = squares(np.array(found))[:, 0]
        away[found] = -1.0
    while len(found) < n:
        order = np.argsort(-away, kind="stable")
        leaders, others = order[:LEADERS], away[order[LEADERS:]].max(initial=-1.0)
        apart, left = squares(leaders, leaders), away[leaders]
        new: list[int] = []
        while len(found) + len(new) < n and (left[i := int(np.argmax(left))] >= others or not new):
            new.append(i)
            left = np.minimum(left, apart[i])
            left[new] = -1.0
        found += leaders[new].tolist()
        away = np.minimum(away, squares(leaders[new]).min(1))
        away[found] = -1.0
    return np.concatenate([taken, pool[found]])


def extent(points: np.ndarray) -> float:
    """√(12 Σ var): the diagonal of the box over which rows with these variances are spread evenly."""
    return float(np.sqrt(12 * points.var(0).sum()))


def distance(points: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Distance of each pair, [e]."""
    return np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)


def neighbour_graph(points: np.ndarray, n_neighbors: int) -> csr_matrix:
    """Symmetric kNN graph with Euclidean lengths, in one piece.

    Pieces are joined along the shortest gaps between them (a spanning tree of the pieces), never
    by adding neighbours everywhere, which would short-cut the surface.
    """
    N = len(points)
    length, index = nearest(points, n_neighbors)
    rows = np.repeat(np.arange(N), index.shape[1])
    graph = csr_matrix((np.maximum(length.ravel(), TINY), (rows, index.ravel())), shape=(N, N))
    graph = graph.maximum(graph.T)
    pieces, label = connected_components(graph, directed=False)
    if pieces == 1:
        return graph
    i, j, gap = _bridges(points, label)
    extra = csr_matrix((gap, (i, j)), shape=(N, N))
    return graph.maximum(extra).maximum(extra.T)


def _bridges(points: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends i, j and lengths of the shortest edges that join the pieces 0, 1, ... which `label` [N] names.

    Borůvka's rounds: each piece but the largest takes its shortest gap, and what is joined is one piece
    from then on. A round at least halves the number of pieces.
    """
    found: list[np.ndarray] = []
    while (pieces := int(label.max()) + 1) > 1:
        leave = label != np.bincount(label).argmax()
        own = np.flatnonzero(leave)
        gap, other = _nearest_outside(points, label, own)
        first = own[order := np.lexsort((other, own, gap, label[own]))]
        _, shortest = np.unique(label[first], return_index=True)
        i, j, gap = first[shortest], other[order][shortest], np.maximum(gap[order][shortest], TINY)
        # Two pieces may choose each other, and equal gaps may close a circle: a tree of the choices.
        ends = np.sort(label[np.stack([i, j])], axis=0)
        ends, once = np.unique(ends, axis=1, return_index=True)
        choices = coo_matrix((gap[once], ends), shape=(pieces, pieces)).tocsr()
        tree = coo_matrix(minimum_spanning_tree(choices))
        number = csr_matrix((once + 1, ends), shape=(pieces, pieces))
        kept = np.asarray(number[tree.row, tree.col]).ravel() - 1
        found.append(np.stack([i[kept], j[kept], gap[kept]]))
        label = connected_components(tree, directed=False)[1][label]
    i, j, gap = np.concatenate(found, axis=1)
    return i.astype(int), j.astype(int), gap


def _nearest_outside(points: np.ndarray, label: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance to, and number of, the nearest row of another piece, for each of `rows`.

    Two pieces differ in some binary digit of their labels, so that for each digit one search among the rows
    that have it and one among those that lack it find them all.
    """
    best, which = np.full(len(rows), np.inf), np.zeros(len(rows), int)
    for digit in range(int(label.max()).bit_length()):
        bit = (label >> digit) & 1
        for value in (0, 1):
            ask, among = np.flatnonzero(bit[rows] == value), np.flatnonzero(bit != value)
            if not len(ask) or not len(among):
                continue
            length, index = nearest(points[among], 1, points[rows[ask]])
            closer = length[:, 0] < best[ask]
            best[ask] = np.where(closer, length[:, 0], best[ask])
            which[ask] = np.where(closer, among[index[:, 0]], which[ask])
    return best, which


def spanning_tree(points: np.ndarray, n_neighbors: int = TREE_NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """Edges [N - 1, 2] and lengths [N - 1] of the minimum spanning tree of the neighbour graph."""
    tree = coo_matrix(minimum_spanning_tree(neighbour_graph(points, n_neighbors)))
    return np.stack([tree.row, tree.col], 1).astype(int), tree.data


def mutual_neighbours(points: np.ndarray, k: int) -> np.ndarray:
    """Pairs [e, 2] of rows that are among each other's k nearest."""
    index = nearest(points, k)[1]
    rows = np.repeat(np.arange(len(points)), index.shape[1])
    near = csr_matrix((np.ones(rows.size), (rows, index.ravel())), shape=(len(points),) * 2)
    both = coo_matrix(near.multiply(near.T))
    return np.stack([both.row, both.col], 1)[both.row < both.col].astype(int)


def reach(graph: csr_matrix) -> float:
    """About the longest of the shortest ways along a graph of lengths, within the piece of its first node."""
    start, found = 0, 0.0
    for _ in range(2):  # to the far end, and back
        ways = dijkstra(graph, directed=False, indices=start)
        ways[~np.isfinite(ways)] = 0.0
        start, found = int(ways.argmax()), float(ways.max())
    return found
