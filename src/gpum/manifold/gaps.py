"""How wide the gap between two fitted rows is, against the steps of the data around it.

The minimum spanning tree of the images φ(x_i) in the data space connects the cloud by the shortest possible steps. For
any other pair the *minimax distance* is the longest step of the tree path between them. The relative gap of a pair,

    v_ij = length of φ from x_i to x_j / minimax_ij - 1 ≥ 0,

is a pure number: 0 for tree steps and for any pair as close as its surroundings (the rungs of a
grid, the last step of a closed loop), large across a gap, whatever the density of the cloud there.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial import Delaunay, cKDTree

from ..basics import padding
from ..basics.neighbours import distance, distinct, extent

MAX_SIMPLEX_DIM = 3
SAME = 1e-9  # fraction of the extent: points no farther apart count as one
ALL_BUT_COPIES = 1e-3  # fraction of a long step: the ends of a shorter step are almost copies of each other
LONG = 0.95  # quantile of the steps that counts as a long step
LIST = 8  # lists of a bin are padded to multiples of this


def simplices(points: np.ndarray) -> np.ndarray:
    """Delaunay simplices [K, q + 1] of chart points [N, q]; none for q > 3, where they are too many."""
    N, q = points.shape
    if q == 1:
        order = np.argsort(points[:, 0], kind="stable")
        return np.stack([order[:-1], order[1:]], 1)
    if q > MAX_SIMPLEX_DIM or q + 2 > N:
        return np.zeros((0, q + 1), int)
    return Delaunay(points, qhull_options="Qbb Qc Q12 QJ Pp").simplices.astype(int)


def sides(cells: np.ndarray) -> np.ndarray:
    """The distinct edges [e, 2] of simplices [K, q + 1]."""
    i, j = np.triu_indices(cells.shape[1], 1)
    return unique_pairs(np.stack([cells[:, i], cells[:, j]], -1).reshape(-1, 2))


def unique_pairs(pairs: np.ndarray) -> np.ndarray:
    """Pairs with the smaller index first, each once, in order."""
    return np.unique(np.sort(pairs.reshape(-1, 2), axis=1), axis=0)


def members(pairs: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Which pairs (smaller index first) are among the pairs `of`, [e]."""
    N = int(max(pairs.max(initial=0), of.max(initial=0))) + 1
    low, high = np.sort(of, axis=1).T
    return np.isin(pairs[:, 0] * N + pairs[:, 1], low * N + high)


def side_index(cells: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The numbers of each simplex's sides in the sorted pairs `edges`, [K, sides]."""
    N = int(edges.max(initial=0)) + 1
    code = edges[:, 0] * N + edges[:, 1]
    i, j = np.triu_indices(cells.shape[1], 1)
    low, high = np.minimum(cells[:, i], cells[:, j]), np.maximum(cells[:, i], cells[:, j])
    return np.searchsorted(code, low * N + high)


def close_slits(sides: np.ndarray, length: np.ndarray, level: np.ndarray, tree: np.ndarray) -> np.ndarray:
    """Raise levels of edges until in no simplex the longest side has a lower level than the others, [e].

    Otherwise a long edge could belong to a domain without the flat simplex between it and shorter edges, which leaves a
    slit. Edges of the spanning tree, which `tree` [e] marks, are not changed: every domain must hold all rows.
    """
    level = level.copy()
    longest = sides[np.arange(len(sides)), np.argmax(length[sides], 1)] if len(sides) else np.zeros(0, int)
    sides, longest = sides[~tree[longest]], longest[~tree[longest]]
    while True:
        before = level.copy()
        np.maximum.at(level, longest, before[sides].max(1, initial=0.0))
        if np.array_equal(level, before):
            return level


def on_line(points: np.ndarray, edges: np.ndarray, level: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Levels of edges in a chart of one dimension, where an edge over several rows is the edges between them, [e].

    Each edge between neighbours has the least level of the edges over it, and those over several rows have none: on a
    line they would be corridors beside the others, and the curve longer than it is. Edges `apart` [e] are no line.
    """
    order = np.argsort(points[:, 0], kind="stable")
    rank = np.argsort(order)
    first, last = np.sort(rank[edges], axis=1).T
    over = np.flatnonzero(~apart)
    steps = last[over] - first[over]
    within = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
    least = np.full(len(points) - 1, np.inf)
    np.minimum.at(least, np.repeat(first[over], steps) + within, np.repeat(level[over], steps))
    return np.where(apart, level, np.where(last - first == 1, least[first], np.inf))


def in_steps(lengths: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Lengths in steps, [e]. Rows may coincide, so that a step is at least a billionth of the greatest length."""
    floor = max(1e-9 * float(lengths.max(initial=0.0)), np.finfo(float).tiny)
    return lengths / np.maximum(typical, floor)


def relative_gap(gap: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """v of each pair, [e], given its length along the surface and its minimax distance."""
    return np.maximum(in_steps(gap, typical) - 1, 0.0)


def step_size(points: np.ndarray, tree: np.ndarray) -> np.ndarray:
    """The shortest tree step at each point, [N], limited to between half and four times the median.

    Points that are almost copies of each other count as one, and steps between them are left out.
    """
    steps, N = distance(points, tree), len(points)
    real = steps > ALL_BUT_COPIES * np.quantile(steps, LONG)
    if not real.any():
        return np.full(N, np.finfo(float).tiny)
    joined = coo_matrix((np.ones(int(np.sum(~real))), tree[~real].T), shape=(N, N))
    n_distinct, number = connected_components(joined, directed=False)
    shortest = np.full(n_distinct, np.inf)
    np.minimum.at(shortest, number[tree[real]].ravel(), np.repeat(steps[real], 2))
    median = float(np.median(shortest))
    return np.clip(shortest, median / 2, median * 4)[number]


def merged(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first points [n] of groups of points [N, q] that coincide, and the number of each point's group [N].

    Points no farther apart than SAME times the extent coincide.
    """
    reach = SAME * max(extent(points), 1e-300)
    near = cKDTree(points).query_pairs(reach, output_type="ndarray")
    graph = coo_matrix((np.ones(len(near)), near.T), shape=(len(points),) * 2)
    return distinct(connected_components(graph, directed=False)[1][:, None])


def quantile_bins(points: np.ndarray, n: int) -> np.ndarray:
    """Inner borders of n bins along each coordinate that hold about equally many points, [q, n - 1]."""
    return np.quantile(points, np.arange(1, n) / n, axis=0).T.reshape(points.shape[1], n - 1)


def bin_lists(bins: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """For each bin the boxes low..high [K, q] that touch it, [n, ..., n, width]; lists end in K.

    The width is that of the longest list, padded to one of a few sizes (see `basics.padding`).
    """
    q, n = len(bins), bins.shape[1] + 1
    first = np.stack([np.searchsorted(b, x, "right") for b, x in zip(bins, low.T, strict=True)], 1)
    last = np.stack([np.searchsorted(b, x, "right") for b, x in zip(bins, high.T, strict=True)], 1)
    wide = last - first + 1  # bins that each box touches, along each coordinate
    count = wide.prod(1)
    box = np.repeat(np.arange(len(low)), count)
    within = np.arange(len(box)) - np.repeat(np.cumsum(count) - count, count)  # 0, 1, ... of each box
    in_bin = np.zeros(len(box), int)
    for a in reversed(range(q)):
        in_bin += (first[box, a] + within % wide[box, a]) * n ** (q - 1 - a)
        within = within // wide[box, a]
    order = np.argsort(in_bin, kind="stable")
    box, in_bin = box[order], in_bin[order]
    touch = np.bincount(in_bin, minlength=n**q)
    table = np.full((n**q, padding.size(int(touch.max()), LIST)), len(low), np.int32)
    table[in_bin, np.arange(len(box)) - np.repeat(np.cumsum(touch) - touch, touch)] = box
    return table.reshape(*(n,) * q, -1)


def minimax(tree: np.ndarray, lengths: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The longest step on the tree path between each pair, [e].

    By binary lifting: jump[k] leads 2^k steps towards the root, top[k] is the longest step on the way.
    """
    N = len(tree) + 1
    graph = csr_matrix((np.maximum(lengths, np.finfo(float).tiny), tree.T), shape=(N, N))
    graph = graph + graph.T
    order, parent = breadth_first_order(graph, 0, directed=False)
    parent[0] = 0
    rest = order[1:]
    step = np.zeros(N)
    step[rest] = np.asarray(graph[rest, parent[rest]]).ravel()
    depth = (np.arange(N) != 0).astype(int)  # counted up to 2^k
    jump, top = [parent], [step]
    while np.any(jump[-1]):
        half, longest = jump[-1], top[-1]
        depth = depth + depth[half]
        jump.append(half[half])
        top.append(np.maximum(longest, longest[half]))

    a, b = pairs.T
    a, b = np.where(depth[a] >= depth[b], a, b), np.where(depth[a] >= depth[b], b, a)
    best = np.zeros(len(pairs))
    for k in reversed(range(len(jump))):  # bring both to one depth
        far = depth[a] - depth[b] >= 2**k
        best = np.where(far, np.maximum(best, top[k][a]), best)
        a = np.where(far, jump[k][a], a)
    for k in reversed(range(len(jump))):  # then up to just below the common ancestor
        apart = jump[k][a] != jump[k][b]
        best = np.where(apart, np.maximum(best, np.maximum(top[k][a], top[k][b])), best)
        a, b = np.where(apart, jump[k][a], a), np.where(apart, jump[k][b], b)
    return np.where(a == b, best, np.maximum(best, np.maximum(step[a], step[b])))
