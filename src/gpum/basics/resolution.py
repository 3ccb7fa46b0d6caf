"""Whether some rows of a cloud show its shape: where they do not, further rows make paths between them longer.

    d_n(i, j)    length of the shortest path from row i to row j in the graph of the NEIGHBOURS nearest of n rows
    ℓ(i, j)      log d_m(i, j) - log d_n(i, j), m > n: the same rows, and others between them

Where n rows resolve a surface, ℓ is nearly the same for all pairs: noise makes all paths longer alike. Where the
sheets, folds or curves of a surface are closer to each other than its rows, paths jump from one to the next, and
further rows make these paths much longer than the others. The dimension need not be known, and no label is used.

So sheets that m rows do not separate either are not seen; m rows would not help there. `benchmarks/resolution.py`
compares the fraction of such paths with the errors of atlases of n and of m rows: it is 0 to 0.05 where these are the
same, and 0.14 and 0.30 where m rows are clearly better.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from scipy.sparse.csgraph import shortest_path

from . import large_neighbours, neighbours

NEIGHBOURS = 10
STARTS = 100  # rows from which paths are computed
NEAREST, FARTHEST = 34, 100  # which rows, counted by the length of paths, they lead to
LONGER = 0.4  # log of the factor by which a path is longer than it should be: 1.5
FEW = 0.05  # fraction of such paths up to which rows are enough
MORE = 4  # times as many rows show whether rows are enough: twice as many may be too few as well


def enough(rows: np.ndarray, n: int, most: int, n_jobs: int | None = None) -> tuple[int, float]:
    """How many of `rows` [N, p], in random order, are enough, and the fraction of their paths that are too short.

    The first of n, 2 n, 4 n, … for which that fraction is at most FEW, or the last of them that is at most `most`.
    """
    if rows.shape[1] > neighbours.DIRECTIONS:
        rng = np.random.default_rng(0)
        rows = rows @ rng.standard_normal((rows.shape[1], neighbours.DIRECTIONS))
    lengths = cache(partial(_lengths, rows, min(STARTS, n), n_jobs))
    while True:
        fraction = _too_short(lengths(n), lengths(min(MORE * n, len(rows))))
        if fraction <= FEW or 2 * n > most:
            return n, fraction
        n = min(2 * n, len(rows))


def _too_short(lengths: np.ndarray, with_others: np.ndarray) -> float:
    """The fraction of paths, of lengths [starts, n], that are LONGER if there are others between them [starts, m]."""
    near = np.argsort(lengths, axis=1, kind="stable")[:, NEAREST : FARTHEST + 1]
    if not near.size:
        return 0.0
    change = np.log(np.take_along_axis(with_others, near, 1)) - np.log(np.take_along_axis(lengths, near, 1))
    return float(np.mean(change > np.median(change) + LONGER))


def _lengths(rows: np.ndarray, starts: int, n_jobs: int | None, n: int) -> np.ndarray:
    """Lengths of the shortest paths from the first `starts` of the first n rows to all of these, [starts, n]."""
    graph = neighbours.symmetric_graph(*large_neighbours.nearest(rows[:n], NEIGHBOURS, n_jobs=n_jobs))
    graph, _ = neighbours.connected(rows[:n], graph)
    return shortest_path(graph, directed=False, indices=np.arange(starts))
