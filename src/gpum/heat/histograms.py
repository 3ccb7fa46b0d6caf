"""Path histograms as features of points: the Brownian heat kernel as an inner product.

With h_x(c) the fraction of the paths from x that are in cell c (volume V_c of V in all) after t/2,

    F_t(x)_c = (h_x(c) - V_c/V) / √V_c,    F_t(x)·F_t(y) = K_t(x, y) - 1/V

The histograms of N_BM paths are noisy, and a GP takes this noise for noise of the function.
On the cloud F_t = U S Vᵀ, [N, cells]. Noise alone of variance s² in each entry has singular values up to
s(√N + √cells) (Marchenko-Pastur); that of counts has s² = mean over rows and cells of h_x(c)/(N_BM V_c). Only the
directions V with larger singular values are used.

For many points, with paths from m inducing points z only,

    F_t(x) = k(x) K_zz^{-1/2},    k(x)_z = K_t(z, x) - 1/V, the density at x of the paths from z after t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

from ..basics import neighbours
from ..manifold import Chart, StraightChart, evaluate, grid, straighten
from . import brownian, paths
from .kernel import step_sizes, warn_of_outside

TIMES = 14
SMALLEST, LARGEST = 0.03, 0.7  # √t over the extent; above, a heat kernel is almost constant
COARSEST, FINEST = 10, 20  # steps that the duration of paths so far would be divided into
NEIGHBOURS, PROBES = 10, 5  # edges from each row, and points on an edge that must be inside


@dataclass(frozen=True)
class Histograms:
    """Features F_t of any points of a chart, with the noise of their paths.

    The random keys of a point's paths come from its coordinates, so that its features do not depend on other points.
    """

    chart: StraightChart
    times: np.ndarray
    cells: paths.Cells
    moving: brownian.Motion
    dts: np.ndarray
    counts: np.ndarray
    n_paths: int
    seed: int
    n_jobs: int | None

    def __call__(self, points: np.ndarray) -> list[np.ndarray]:
        """F_t [n, cells] at each time, of points [n, q] in the coordinates of the original chart."""
        points = self.inside(self.chart.coordinates(points))
        n_blocks, block = paths.blocks_of(self.n_paths, least=1)
        extra = paths.counted_in(self.cells, self.moving.low.dtype)
        ids = np.array([crc32(p.tobytes()) >> 1 for p in points])
        plan = paths.Plan(
            self.moving, points, self.dts, self.counts, n_blocks, block, self.seed, paths.histogram, extra, ids
        )  # fmt: skip
        counts, outside = paths.run(plan, self.n_jobs, by_block=False)
        warn_of_outside(outside, float(self.dts.max()))
        features = []
        for k, t in enumerate(self.times):
            volumes = self.volumes(t)
            scaled = paths.scaled_fractions(counts[:, 0, k], n_blocks * block, self.cells, self.cells.merged(t))
            features.append(scaled - np.sqrt(volumes) / volumes.sum())
        return features

    @property
    def total(self) -> int:
        """The number of paths from each point, in whole blocks."""
        n_blocks, block = paths.blocks_of(self.n_paths, least=1)
        return n_blocks * block

    def volumes(self, time: float) -> np.ndarray:
        """Volumes of the cells, merged as `Cells.merged` says for this time, [cells]."""
        return paths.merged_volumes(self.cells, self.cells.merged(time))

    def around(self, points: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Cells around points, and the weights of a point on them, [n, 2^q] each."""
        points = self.inside(self.chart.coordinates(points))
        return paths.cells_around(points, self.cells, self.cells.merged(time))

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Points in even coordinates; those outside the boundary are moved to the nearest point of a grid inside."""
        outside = ~evaluate(self.chart, "inside", points)
        if outside.any():
            allowed, _ = grid(self.chart, {1: 1000, 2: 100, 3: 30}.get(self.chart.dim, 8))
            allowed = allowed[evaluate(self.chart, "inside", allowed)]
            points = points.copy()
            points[outside] = allowed[neighbours.nearest(allowed, 1, points[outside])[1][:, 0]]
        return points


def _directions(volumes: np.ndarray, n_paths: int, F: np.ndarray) -> np.ndarray:
    """V, [cells, k]: the directions of F_t [n, cells] that exceed the noise, at least one."""
    inside = int(np.sum(volumes > 0))
    density = np.mean(np.sum(paths.over(F, np.sqrt(volumes)), 1)) + inside / volumes.sum()  # Σ_c h(c)/V_c of a row
    noise = np.sqrt(density / (n_paths * inside))
    edge = noise * (np.sqrt(len(F)) + np.sqrt(inside))
    small = len(F) <= F.shape[1]
    squares, U = np.linalg.eigh(F @ F.T if small else F.T @ F)
    used = squares > edge**2
    used[-1] = True
    return (F.T @ (U[:, used] / np.sqrt(np.maximum(squares[used], 1e-300))) if small else U[:, used])[:, ::-1]


def path_features(
    chart: Chart, rows: np.ndarray, points: np.ndarray, n_paths: int, step_size: float | None, max_time: float | None,
    n_inducing: int | None, seed: int, n_jobs: int | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """Times from the spacing of the rows [N, q] of a chart to its extent, and F_t of points [n, q] at each, [n, k].

    Paths start from every point, and most of their noise is removed; or from `n_inducing` rows, spread over the chart.
    """
    even = straighten(chart)
    at = even.coordinates(rows)
    extent = max(neighbours.extent(at), _reach(even, at), 1e-12)
    largest = (LARGEST * extent) ** 2 if max_time is None else max_time
    spacing = float(neighbours.spacing(at).mean())
    smallest = min(max((2 * spacing) ** 2, (SMALLEST * extent) ** 2), 0.25 * largest)
    times = np.geomspace(smallest, largest, TIMES)
    prepare = partial(prepared, even, n_paths=n_paths, step_size=step_size, seed=seed, n_jobs=n_jobs)
    if n_inducing is None or n_inducing >= len(rows):
        paths_of = prepare(times)
        values = paths_of(points)
        return times, [
            F @ _directions(paths_of.volumes(t), paths_of.total, F) for t, F in zip(times, values, strict=True)
        ]
    centres = KMeans(n_inducing, n_init=1, random_state=seed % 2**31).fit(at).cluster_centers_
    z = rows[np.unique(neighbours.nearest(at, 1, centres)[1])]
    both = np.unique(np.concatenate([times, 2 * times]))
    paths_of, features = prepare(both), []
    of_inducing = paths_of(z)
    for t in times:
        half, full = (of_inducing[k] for k in np.searchsorted(both, [t, 2 * t]))
        volumes = paths_of.volumes(2 * t)
        w, V = np.linalg.eigh(half @ half.T)
        density = float(np.mean(np.sum(half**2, 1))) + 1 / volumes.sum()
        noise = np.sqrt(density / (paths_of.total * np.median(volumes[volumes > 0])))  # sd of an entry of k(x)
        used = w > noise * np.sqrt(len(w))  # other directions of K_zz are below the noise
        used[-1] = True
        around, weights = paths_of.around(points, 2 * t)
        kernel = paths.over(full, np.sqrt(volumes))  # K_t(z, cell) - 1/V
        features.append(np.einsum("mnc,nc->nm", kernel[:, around], weights) @ (V[:, used] / np.sqrt(w[used])))
    return times, features


def _reach(even: StraightChart, points: np.ndarray) -> float:
    """About the longest distance between two points inside the boundary: along a ring, not across its gap."""
    edges = neighbours.neighbour_graph(points, NEIGHBOURS).tocoo()
    fraction = (np.arange(PROBES) + 0.5)[:, None, None] / PROBES
    between = (1 - fraction) * points[edges.row] + fraction * points[edges.col]
    inside = evaluate(even, "inside", between.reshape(-1, points.shape[1])).reshape(PROBES, -1).all(0)
    graph = csr_matrix((edges.data[inside], (edges.row[inside], edges.col[inside])), shape=edges.shape)
    return neighbours.reach(graph)


def prepared(
    even: StraightChart, times: np.ndarray, *, n_paths: int, step_size: float | None, seed: int, n_jobs: int | None
) -> Histograms:
    """Histograms of a chart in even coordinates: its cells, the legs of its paths, and its table."""
    cells = paths.make_cells(even, float(times.min()), n_paths)
    durations = np.array([cells.path_time(t) for t in times])
    needed = brownian.step_size(even)
    if step_size is None:  # smaller steps than the finest would cost much and change a regression little
        largest = np.clip(needed, durations / FINEST, durations / COARSEST)
    else:
        largest = step_sizes(even, durations, step_size)
    dts, counts = paths.plan_legs(durations, largest)
    return Histograms(even, times, cells, brownian.motion(even), dts, counts, n_paths, seed, n_jobs)
