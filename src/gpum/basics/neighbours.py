"""Which rows of a cloud lie next to each other: nearest rows, neighbour graph, spanning tree, spacing, extent.

    points [N, p]     rows of a cloud
    pairs  [e, 2]     two row numbers each

Everything here takes Euclidean distances between rows. A row is never its own neighbour, however many copies it has.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree
from scipy.spatial import KDTree

from . import large_neighbours

PRECISE = 2e-8  # accuracy, relative to the longer row, of distances computed as |x|² + |y|² - 2xy
FEW_PAIRS = 2**16  # distances up to which computing them all is faster than building a search structure
TREE_COLUMNS = 15  # columns up to which a tree finds them more quickly than products do
TINY = np.finfo(float).tiny  # length of an edge between copies: a stored zero would mean "no edge"
TREE_NEIGHBOURS = 12  # of the graph in which the spanning tree is computed
CANDIDATES = 5  # candidates for each row of a subset
LEADERS = 128  # the farthest candidates, among which the next rows of a subset are found
MOST_OUTSIDE = 3000  # rows outside the largest connected component up to which the nearest row of each is searched for
BLOCK = 2**24  # distances in memory at once
OF_DIMENSION = 20  # neighbours from which the dimension is estimated
DIRECTIONS = 64  # rows of more columns are projected onto this number of random directions to choose a subset


def nearest(points: np.ndarray, k: int = 1, queries: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Distances and row numbers [n, k] of the k rows nearest to each query, or to each row among the others."""
    k = min(k, len(points) - (queries is None))
    if queries is None:
        from sklearn.neighbors import NearestNeighbors  # a tenth of a second, which a small model never needs

        return NearestNeighbors(n_neighbors=k).fit(points).kneighbors()
    # Nothing here runs on threads of OpenMP, which a process that is forked after a prediction would wait for.
    if len(queries) * len(points) <= FEW_PAIRS:
        return large_neighbours.by_distances(points, k, queries)
    if points.shape[1] > TREE_COLUMNS:
        return large_neighbours.nearest(points, k, queries, n_jobs=1, device=False)
    length, index = KDTree(points).query(queries, k)
    return length.reshape(-1, k), index.reshape(-1, k)


def spacing(points: np.ndarray) -> np.ndarray:
    """Distance of each row to its nearest neighbour, [N]."""
    return nearest(points)[0][:, 0]


def dimension(points: np.ndarray) -> float:
    """Estimated dimension of the cloud (Levina and Bickel 2004), usually a little too small.

    With r_j the distance of a row to its j-th neighbour and k = OF_DIMENSION, the estimate is
    (k - 2)/Σ_{j<k} log(r_k/r_j), whose inverse is averaged over rows.
    """
    points = np.unique(points, axis=0)
    k = min(OF_DIMENSION, len(points) - 1)
    if k < 3:
        return 1.0
    r = np.maximum(nearest(points, k)[0], PRECISE * np.linalg.norm(points, axis=1, keepdims=True))
    rate = np.mean(np.sum(np.log(r[:, -1:] / r[:, :-1]), 1)) / (k - 2)
    return float(1 / max(rate, 1e-12))


def cover(
    points: np.ndarray, size: int, rng: np.random.Generator, taken: np.ndarray | None = None
) -> np.ndarray:  # fmt: skip
    """Row numbers [size], ascending, of a subset (including `taken`) that covers a cloud: no row is far from all of it.

    The next row is the one farthest from the rows chosen before (Gonzalez 1985). Half of the rows are chosen from a
    random sample, the others from the rows of the whole cloud that are then farthest, so that no region is missed.
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
    """`taken` and n more rows of the pool, each the farthest from those chosen before it; none is chosen twice.

    Distances to the chosen rows only decrease. So if a row among the LEADERS is farther than all others were, it is the
    farthest, and the distances of the others are updated for many chosen rows at once.
    """
    among = points[pool]
    norms = np.sum(among**2, 1)

    def squares(rows: np.ndarray, others: np.ndarray | slice = slice(None)) -> np.ndarray:
        gap = norms[others, None] + norms[rows] - 2 * among[others] @ among[rows].T
        return np.maximum(gap, 0.0)

    chosen: list[int] = []
    if len(taken):
        away = nearest(points[taken], 1, among)[0][:, 0] ** 2
        away[np.isin(pool, taken)] = -1.0
    elif n:
        chosen = [int(np.argmax(np.sum((among - among.mean(0)) ** 2, 1)))]
        away = squares(np.array(chosen))[:, 0]
        away[chosen] = -1.0
    while len(chosen) < n:
        order = np.argsort(-away, kind="stable")
        leaders, others = order[:LEADERS], away[order[LEADERS:]].max(initial=-1.0)
        apart, left = squares(leaders, leaders), away[leaders]
        new: list[int] = []
        while len(chosen) + len(new) < n and (left[i := int(np.argmax(left))] >= others or not new):
            new.append(i)
            left = np.minimum(left, apart[i])
            left[new] = -1.0
        chosen += leaders[new].tolist()
        away = np.minimum(away, squares(leaders[new]).min(1))
        away[chosen] = -1.0
    return np.concatenate([taken, pool[chosen]])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the first of each group of equal rows, ascending [n], and which of these groups each row is in [N]."""
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return first[order], rank[number.ravel()]


def extent(points: np.ndarray) -> float:
    """√(12 Σ var): the diagonal of the box on which the uniform distribution has the variances of the columns."""
    unit = float(np.ldexp(0.5, np.frexp(np.ptp(points))[1]))  # a power of two: squares neither overflow nor vanish
    return unit * float(np.sqrt(12 * (points / unit).var(0).sum()))


def distance(points: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Distance of each pair, [e]."""
    return np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)


def neighbour_graph(points: np.ndarray, n_neighbors: int) -> csr_matrix:
    """Connected symmetric kNN graph with Euclidean lengths.

    Connected components are joined along the shortest gaps between them (a spanning tree of the components), never
    by adding neighbours everywhere, which would short-cut the surface.
    """
    return connected(points, symmetric_graph(*nearest(points, n_neighbors)))[0]


def symmetric_graph(length: np.ndarray, index: np.ndarray) -> csr_matrix:
    """Symmetric graph, with lengths, of neighbours `index` at distances `length`, [N, k] each."""
    N = len(index)
    rows = np.repeat(np.arange(N), index.shape[1])
    graph = csr_matrix((np.maximum(length.ravel(), TINY), (rows, index.ravel())), shape=(N, N))
    return graph.maximum(graph.T)


def components(points: np.ndarray, n_neighbors: int) -> np.ndarray:
    """The number of each row's connected component in the symmetric kNN graph, [N]."""
    return connected_components(symmetric_graph(*nearest(points, n_neighbors)), directed=False)[1].astype(int)


def connected(points: np.ndarray, graph: csr_matrix) -> tuple[csr_matrix, int]:
    """The graph with its connected components joined, and how many there were."""
    N = len(points)
    n_components, label = connected_components(graph, directed=False)
    if n_components == 1:
        return graph, 1
    i, j, gap = _bridges(points, label)
    extra = csr_matrix((gap, (i, j)), shape=(N, N))
    return graph.maximum(extra).maximum(extra.T), int(n_components)


def _bridges(points: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends i, j and lengths of the shortest edges that join the connected components; `label` [N] is that of each row.

    Borůvka's algorithm: in each round every component but the largest is joined to another along its shortest gap. A
    round at least halves the number of components. Where more than MOST_OUTSIDE rows are outside the largest component,
    the gap of a component is that of its first row.
    """
    edges: list[np.ndarray] = []
    while (n_components := int(label.max()) + 1) > 1:
        leave = label != np.bincount(label).argmax()
        outside = np.flatnonzero(leave)
        if len(outside) > MOST_OUTSIDE:
            outside = outside[np.unique(label[outside], return_index=True)[1]]
        gap, other = _nearest_of_others(points, label, outside)
        first = outside[order := np.lexsort((other, outside, gap, label[outside]))]
        _, shortest = np.unique(label[first], return_index=True)
        i, j, gap = first[shortest], other[order][shortest], np.maximum(gap[order][shortest], TINY)
        # Two components may choose each other, and equal gaps may form a cycle, so a spanning tree of the edges is
        # used.
        ends = np.sort(label[np.stack([i, j])], axis=0)
        ends, once = np.unique(ends, axis=1, return_index=True)
        choices = coo_matrix((gap[once], ends), shape=(n_components, n_components)).tocsr()
        tree = coo_matrix(minimum_spanning_tree(choices))
        number = csr_matrix((once + 1, ends), shape=(n_components, n_components))
        chosen = np.asarray(number[tree.row, tree.col]).ravel() - 1
        edges.append(np.stack([i[chosen], j[chosen], gap[chosen]]))
        label = connected_components(tree, directed=False)[1][label]
    i, j, gap = np.concatenate(edges, axis=1)
    return i.astype(int), j.astype(int), gap


def _nearest_of_others(points: np.ndarray, label: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance to, and number of, the nearest row of another connected component, for each of `rows`."""
    best, which = np.empty(len(rows)), np.empty(len(rows), int)
    middle = np.median(points[rows], axis=0)
    among = points - middle
    squares = np.einsum("np,np->n", among, among)
    step = max(1, BLOCK // len(points))
    for begin in range(0, len(rows), step):
        block = rows[begin : begin + step]
        apart = squares - 2 * among[block] @ among.T  # and the square of the row itself
        apart[label[block, None] == label] = np.inf
        which[begin : begin + step] = apart.argmin(1)
    for begin in range(0, len(rows), step):
        pairs = np.stack([rows[begin : begin + step], which[begin : begin + step]], 1)
        best[begin : begin + step] = distance(points, pairs)
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
    """Approximate diameter of a graph with lengths, within the connected component of its first node."""
    start, diameter = 0, 0.0
    for _ in range(2):  # to the farthest node, and from there to the farthest
        ways = dijkstra(graph, directed=False, indices=start)
        ways[~np.isfinite(ways)] = 0.0
        start, diameter = int(ways.argmax()), float(ways.max())
    return diameter
