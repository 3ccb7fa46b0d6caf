"""Nearest rows in a large cloud: exact, by blocks of float32 matrix products and a second look in float64.

    x_i [p]      rows less the median of some rows, in float32; s_i = |x_i|²
    d²_ij        s_i + s_j - 2 x_iᵀx_j, with an error of at most ROUNDING (s_i + s_j)

A first look at a random chunk of the cloud bounds the distance to the k-th neighbour of each row. Only the few rows of
other chunks that are below this bound are looked at, and each chunk lowers it. The k + MORE rows with the smallest d²
are then compared by distances in float64. A row whose k-th distance is not below that of the last of them, by more
than the rounding error, is searched for again in float64; so are rows far from all others, where float32 overflows.
The result does not depend on the number of threads, nor on whether a GPU finds the candidates (`device_neighbours`).
scikit-learn's search took 0.2 to 1.3 times as long on one thread, but is less exact, waits for ever in a forked process
(its OpenMP), and does not go to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from joblib import effective_n_jobs
from scipy.spatial.distance import cdist

from .device import accelerated
from .workers import joblib_runs, results

QUERIES, CHUNK = 512, 8192  # rows of a block of products
MORE = 10  # candidates for the second look beside the k requested
ROUNDING = 1e-6  # relative error of a float32 product of rows
FAR = 1e6  # a row with a square norm of more than so many medians is searched for in float64
SAMPLE = 1000  # rows from which the median is computed
SECOND = 2**23  # numbers in memory in a second look
DEVICE = 2**29  # distances up to which a GPU is not used: the cloud would have to be sent there

Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # distances and row numbers [n, k], and whether they are certain [n]
Where = Callable[[np.ndarray], np.ndarray | None]  # the positions of queries among the rows that are searched


def nearest(
    points: np.ndarray, k: int, queries: np.ndarray | None = None, n_jobs: int | None = -1, device: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and row numbers [n, k] of the k rows nearest to each query, or to each row among the others.

    Blocks of queries are tasks for threads or for the workers of joblib (`workers`). If JAX has a GPU, they run there
    one after another, unless `device` says otherwise or there is little to compute. The rows found are the same, except
    among rows whose distances differ by rounding alone.
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
    where = lambda rows: position[rows] if among_rows else None
    search = _Search(points, columns, middle, float(np.sqrt(typical)), k, of_queries / typical)
    if len(ask) * len(columns) > DEVICE and accelerated() if device is None else device and len(ask):
        step, blocks = search.on_device(queries, where, ask)
    else:
        step = QUERIES
        if joblib_runs(n_jobs):  # each task carries the cloud: two for each worker
            step *= -(-len(ask) // (2 * effective_n_jobs(n_jobs) * QUERIES)) or 1
        blocks = results(search.tasks(queries, where, ask, step), n_jobs)
    distances, index = np.empty((len(queries), k)), np.empty((len(queries), k), int)
    sure = np.zeros(len(queries), bool)
    for begin, block in zip(range(0, len(ask), step), blocks, strict=True):
        rows = ask[begin : begin + step]
        distances[rows], index[rows], sure[rows] = block
    rest = np.flatnonzero(~sure)
    if len(rest):
        distances[rest], index[rest] = _in_float64(points, queries, rest, k, among_rows)
    return distances, index


@dataclass(frozen=True)
class _Search:
    """A search for k rows among the rows `columns` of a cloud, less `middle`, in units of `unit`.

    `scale` are the square norms of the queries in these units.
    """

    points: np.ndarray
    columns: np.ndarray
    middle: np.ndarray
    unit: float
    k: int
    scale: np.ndarray

    def tasks(self, queries: np.ndarray, where: Where, ask: np.ndarray, step: int) -> Iterator[Callable[[], Found]]:
        """One task for each block of `step` of the queries `ask`."""
        among = ((self.points[self.columns] - self.middle) / self.unit).astype(np.float32)
        squares = np.einsum("np,np->n", among, among)
        for begin in range(0, len(ask), step):
            rows = ask[begin : begin + step]
            together = rows[-1] - rows[0] + 1 == len(rows)  # then they need not be copied
            block = queries[rows[0] : rows[-1] + 1] if together else queries[rows]
            yield partial(
                _blocks, self.points, self.columns, among, squares, block, where(rows), self.scale[rows],
                self.middle, self.unit, self.k,
            )  # fmt: skip

    def on_device(self, queries: np.ndarray, where: Where, ask: np.ndarray) -> tuple[int, Iterator[Found]]:
        """The number of queries in a block, and the results of the blocks."""
        from .device_neighbours import DeviceSearch

        search = DeviceSearch(self.points[self.columns], self.middle, self.unit, self.k + MORE)

        def found() -> Iterator[Found]:
            for begin in range(0, len(ask), search.queries):
                rows = ask[begin : begin + search.queries]
                square, position, exact = search(queries[rows], where(rows))
                yield _chosen(exact, self.columns[position], square[:, -1], self.scale[rows], self.unit, self.k)

        return search.queries, found()


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


def by_distances(points: np.ndarray, k: int, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same from all distances in float64; of rows at the same distance the first ones."""
    length, index = np.empty((len(queries), k)), np.empty((len(queries), k), int)
    step = max(1, SECOND // len(points))
    for begin in range(0, len(queries), step):
        block = slice(begin, begin + step)
        away = cdist(queries[block], points)
        near = np.argpartition(away, k - 1, axis=1)[:, :k] if k < len(points) else np.argsort(away, axis=1)
        apart = np.take_along_axis(away, near, 1)
        order = np.lexsort((near, apart))
        length[block], index[block] = np.take_along_axis(apart, order, 1), np.take_along_axis(near, order, 1)
    return length, index


def _in_float64(
    points: np.ndarray, queries: np.ndarray, rows: np.ndarray, k: int, among_rows: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The same for queries `rows`."""
    length, index = by_distances(points, min(k + among_rows, len(points)), queries[rows])
    if not among_rows:
        return length, index
    other = index != rows[:, None]  # a row that is not among its own neighbours has copies: leave out the last
    other[other.all(1), -1] = False
    return length[other].reshape(-1, k), index[other].reshape(-1, k)
