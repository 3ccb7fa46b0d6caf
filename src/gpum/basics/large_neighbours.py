"""Nearest rows in a large cloud: exact, by blocks of float32 matrix products and a second look in float64.

    x_i [p]      rows less the median of some rows, in float32; s_i = |x_i|²
    d²_ij        s_i + s_j - 2 x_iᵀx_j, with an error of at most ROUNDING (s_i + s_j)

A first look at a random chunk of the cloud bounds the distance to the k-th neighbour of each row. Only the few rows of
other chunks that are below this bound are looked at, and each chunk lowers it. The k + MORE rows with the smallest d²
are then compared by distances in float64. A row whose k-th distance is not below that of the last of them, by more
than the rounding error, is searched for again in float64; so are rows far from all others, where float32 overflows.
The result does not depend on the number of threads. scikit-learn's search takes as long, but is less exact, cannot be
used in a forked process (its OpenMP waits for ever there), and does not go to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from joblib import effective_n_jobs

from .workers import joblib_runs, results

QUERIES, CHUNK = 512, 8192  # rows of a block of products
MORE = 10  # candidates for the second look beside the k requested
ROUNDING = 1e-6  # relative error of a float32 product of rows
FAR = 1e6  # a row with a square norm of more than so many medians is searched for in float64
SAMPLE = 1000  # rows from which the median is computed
SECOND = 2**23  # numbers in memory in a second look

Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # distances and row numbers [n, k], and whether they are certain [n]


def nearest(
    points: np.ndarray, k: int, queries: np.ndarray | None = None, n_jobs: int | None = -1
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and row numbers [n, k] of the k rows nearest to each query, or to each row among the others.

    Blocks of queries are tasks for threads or for the workers of joblib (`workers`).
    """
    among_rows = queries is None
    queries = points if queries is None else queries
    k = min(k, len(points) - among_rows)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(points))
    middle = np.median(points[order[:SAMPLE]], axis=0)
    squares = _squares(points, middle)
    typical = float(np.median(squares)) or 1.0
    near = squares <= FAR * typical
    columns = order[near[order]]
    of_queries = squares if among_rows else _squares(queries, middle)
    ask = np.flatnonzero((of_queries <= FAR * typical) & (len(columns) > k + MORE))
    position = np.full(len(points), -1)
    position[columns] = np.arange(len(columns))
    unit = float(np.sqrt(typical))
    step = QUERIES
    if joblib_runs(n_jobs):  # each task carries the cloud: two for each worker
        step *= -(-len(ask) // (2 * effective_n_jobs(n_jobs) * QUERIES)) or 1
    among = ((points[columns] - middle) / unit).astype(np.float32)
    norms = np.einsum("np,np->n", among, among)

    def tasks() -> Iterator[Callable[[], Found]]:
        for begin in range(0, len(ask), step):
            rows = ask[begin : begin + step]
            together = rows[-1] - rows[0] + 1 == len(rows)  # then they need not be copied
            block = queries[rows[0] : rows[-1] + 1] if together else queries[rows]
            yield partial(
                _blocks, points, columns, among, norms, block, position[rows] if among_rows else None,
                of_queries[rows] / typical, middle, unit, k,
            )  # fmt: skip

    distances, index = np.empty((len(queries), k)), np.empty((len(queries), k), int)
    sure = np.zeros(len(queries), bool)
    for begin, block in zip(range(0, len(ask), step), results(tasks(), n_jobs), strict=True):
        rows = ask[begin : begin + step]
        distances[rows], index[rows], sure[rows] = block
    rest = np.flatnonzero(~sure)
    if len(rest):
        distances[rest], index[rest] = _in_float64(points, queries, rest, k, among_rows)
    return distances, index


def _blocks(
    points: np.ndarray, columns: np.ndarray, among: np.ndarray, squares: np.ndarray, queries: np.ndarray,
    itself: np.ndarray | None, scale: np.ndarray, middle: np.ndarray, unit: float, k: int,
) -> Found:  # fmt: skip
    """The k nearest rows of queries, QUERIES at a time."""
    parts = []
    for begin in range(0, len(queries), QUERIES):
        block = slice(begin, begin + QUERIES)
        x = ((queries[block] - middle) / unit).astype(np.float32)
        square, position = _candidates(x, among, squares, k + MORE, None if itself is None else itself[block])
        exact = _distances(points, queries[block], columns[position])
        parts.append(_chosen(exact, columns[position], square[:, -1], scale[block], unit, k))
    length, which, sure = (np.concatenate(one) for one in zip(*parts, strict=True))
    return length, which, sure


def _chosen(
    exact: np.ndarray, candidates: np.ndarray, last: np.ndarray, scale: np.ndarray, unit: float, k: int
) -> Found:  # fmt: skip
    """The k nearest of `candidates` at the distances `exact`, and whether no other row can be nearer, [n].

    In units, all other rows have at least the square distance `last` [n] up to rounding; `scale` [n] are the square
    norms of the queries.
    """
    sorting = np.lexsort((candidates, exact), axis=1)[:, :k]
    length, which = np.take_along_axis(exact, sorting, 1), np.take_along_axis(candidates, sorting, 1)
    error = ROUNDING * (scale + (np.sqrt(scale) + np.sqrt(np.maximum(last, 0.0))) ** 2)
    return length, which, (length[:, -1] / unit) ** 2 < last - error


def _candidates(
    x: np.ndarray, among: np.ndarray, squares: np.ndarray, k: int, itself: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Square distances, ascending, and positions [n, k] of the k nearest of `among`, as float32 has them."""
    n, norms = len(x), np.einsum("np,np->n", x, x)[:, None]
    best, which = np.full((n, k), np.inf, np.float32), np.zeros((n, k), int)
    for begin in range(0, len(among), CHUNK):
        chunk = slice(begin, begin + CHUNK)
        d = x @ among[chunk].T
        d *= -2
        d += squares[chunk]
        d += norms
        if itself is not None:
            there = np.flatnonzero((itself >= begin) & (itself < begin + d.shape[1]))
            d[there, itself[there] - begin] = np.inf
        if not begin and d.shape[1] > 4 * k:
            bound = np.partition(d, k, axis=1)[:, k]  # strictly above the k-th unless there are ties
            bound = np.nextafter(bound, np.float32(np.inf))
        else:
            bound = best[:, -1]
        row, column = np.divmod(np.flatnonzero(d < bound[:, None]), d.shape[1])
        if not len(row):
            continue
        value = np.concatenate([best.ravel(), d[row, column]])
        number = np.concatenate([which.ravel(), column + begin])
        owner = np.concatenate([np.repeat(np.arange(n), k), row])
        order = np.lexsort((number, value, owner))
        first = np.searchsorted(owner[order], np.arange(n))
        chosen = order[first[:, None] + np.arange(k)]
        best, which = value[chosen], number[chosen]
    return best, which


def _squares(rows: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """|x - middle|² of each row, [n], in blocks; infinite where it overflows."""
    step = max(1, SECOND // rows.shape[1])
    with np.errstate(over="ignore"):
        return np.concatenate([((rows[k : k + step] - middle) ** 2).sum(1) for k in range(0, len(rows), step)])


def _distances(points: np.ndarray, queries: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Distance [n, k] of each query [n, p] to its candidates [n, k]."""
    length = np.empty(index.shape)
    step = max(1, SECOND // (index.shape[1] * points.shape[1]))
    for k in range(0, len(queries), step):
        gap = points[index[k : k + step]] - queries[k : k + step, None]
        length[k : k + step] = np.sqrt(np.einsum("nkp,nkp->nk", gap, gap))
    return length


def _in_float64(
    points: np.ndarray, queries: np.ndarray, rows: np.ndarray, k: int, among_rows: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The same for queries `rows`, by scikit-learn."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(k + among_rows, len(points))).fit(points)
    length, index = search.kneighbors(queries[rows])
    if not among_rows:
        return length, index
    other = index != rows[:, None]  # a row that is not among its own neighbours has copies: leave out the last
    other[other.all(1), -1] = False
    return length[other].reshape(-1, k), index[other].reshape(-1, k)
