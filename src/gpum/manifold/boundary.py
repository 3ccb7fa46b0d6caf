"""Where a learned surface ends: which points of a chart belong to it.

`VarianceBoundary` is the paper's rule: inside where Var φ(x) ≤ α. It does not close a direction in
which φ is nearly linear, and it covers gaps.

`CorridorBoundary`, the default, is a family of domains, one for each level λ ≥ 0. Two rows that might be
neighbours (an edge of the spanning tree or of the Delaunay triangulation, or a pair of mutual nearest
neighbours) are joined from this level on:

    λ_ij = v_ij · max(u_ij, 0.2)

Here v_ij is how much wider their gap along the surface is than the steps around it (see `gaps`), and u_ij the largest
standard deviation of φ between them, in the same steps. A gap stays open when it is wide *and* the surface in it is
uncertain; a gap in which the surface is known to a fifth of a step may be five times as wide.

Two neighbours in the data space may be TORN times as far apart along the chart (a closed curve must be cut somewhere).
They are joined by a bridge, a corridor as long as their distance in the data space. It is not drawn in the chart, but
heat flows over it.

At level λ the surface consists of narrow corridors along all edges with λ_ij ≤ λ, and of the simplices all of whose
edges have λ_ij ≤ λ. At 0 that is the spanning tree, at the largest level every simplex that the paper's α admits. Each
domain holds every row, is connected, and ends at the data in every direction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from ..basics import neighbours, padding
from ..basics.checks import GpumError, NoSurface
from ..basics.device import of_arrays
from ..gplvm.mapping import Mapping
from . import gaps
from .chart import BATCHES, evaluate
from .metric import expected_metric
from .projection import inverse_sides

DEFAULT_LEVEL = 0.5
RADIUS = 0.12  # half width of a corridor, in steps of the spanning tree
BINS = {1: 64, 2: 32, 3: 10}  # along each coordinate
FILL = 64  # arrays of corridors and simplices are padded to multiples of this, see `basics.padding`
TORN = 3.0  # length along the chart over that in the data space, above which the chart has torn two neighbours apart
BRIDGED = DEFAULT_LEVEL  # the least level of a bridge that is not in the spanning tree
FLAT = 1e-9  # volume of a simplex, over that of a cube of its size, up to which it has no inside
TRIES = 1000  # shifts of the rows, of which one should lead to where the variance is larger than at any row
KNOWN = 0.2  # an uncertainty of φ, in steps, below which the surface counts as known


class Boundary(ABC):
    """An inside test for a learned chart."""

    bounds: Any

    @abstractmethod
    def inside(self, x: Any, mapping: Mapping) -> Any:
        """Whether points x [..., q], an array of NumPy or JAX, belong to the surface, [...]."""

    def at(self, level: float) -> Boundary:
        """The boundary at another level, where it has levels."""
        raise GpumError(
            f"{type(self).__name__} has no levels; use a boundary level, a number such as 0.5, for a family of domains"
        )


@partial(jax.tree_util.register_dataclass, data_fields=["alpha", "bounds"], meta_fields=[])
@dataclass(frozen=True)
class VarianceBoundary(Boundary):
    """The paper's rule: inside where Var φ(x) ≤ alpha, in a box that stops directions that never close."""

    alpha: Any
    bounds: Any

    def inside(self, x: Any, mapping: Mapping) -> Any:
        array = x.__array_namespace__()
        bounds = array.asarray(self.bounds)
        in_box = array.all((x >= bounds[:, 0]) & (x <= bounds[:, 1]), axis=-1)
        return in_box & (mapping.variance(x) <= self.alpha)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "level", "max_level", "bounds", "frame", "vertices", "corridors", "radius", "bridge", "corridor_level",
        "simplices", "to_weights", "simplex_level", "bins", "corridors_in", "simplices_in",
    ],
    meta_fields=[],
)  # fmt: skip
@dataclass(frozen=True)
class CorridorBoundary(Boundary):
    """Corridors and simplices on the distinct rows of the cloud, each with the level from which on it belongs.

    Space is divided into bins, and only the corridors and simplices that touch the bin of x are tested. All arrays are
    padded to a few sizes; corridors and simplices of the padding have level infinity.

    Attributes
    ----------
    vertices : the distinct rows [n, q] as frame·x, chart coordinates in which the mean metric is the identity.
    corridors : row numbers [E, 2]. Corridor e is the points within `radius` of the segment between its two vertices.
    simplices : row numbers [K, q + 1]. Simplex c is the points whose weights to_weights (frame·x - v), with v its first
        vertex, are ≥ 0 and sum to ≤ 1.
    """

    level: Any
    max_level: Any
    bounds: Any
    frame: Any
    vertices: Any
    corridors: Any
    radius: Any
    bridge: Any  # length of a corridor between rows that the chart has torn apart; 0 for all others
    corridor_level: Any
    simplices: Any
    to_weights: Any
    simplex_level: Any
    bins: Any  # inner borders along each coordinate, [q, B - 1]
    corridors_in: Any  # which touch each bin, [B, ..., B, K]
    simplices_in: Any

    def level_of(self, x: Any) -> Any:
        """The smallest level at which points x [..., q] are inside, [...]; infinite where none is."""
        array = x.__array_namespace__()
        frame, bins, vertices, corridors, radius, corridor_level, simplices, to_weights, simplex_level = map(
            array.asarray,
            (
                self.frame, self.bins, self.vertices, self.corridors, self.radius, self.corridor_level, self.simplices,
                self.to_weights, self.simplex_level,
            ),
        )  # fmt: skip
        x = x @ frame.T
        bin_of = tuple(array.moveaxis(array.sum(bins <= x[..., None], axis=-1), -1, 0))
        e, c = array.asarray(self.corridors_in)[bin_of], array.asarray(self.simplices_in)[bin_of]
        start, end = array.moveaxis(vertices[corridors[e]], -2, 0)
        d, along = x[..., None, :] - start, end - start
        square = array.maximum(array.sum(along**2, axis=-1), 1e-300)
        t = array.clip(array.sum(d * along, axis=-1) / square, 0.0, 1.0)
        near = array.sum((d - t[..., None] * along) ** 2, axis=-1) <= radius[e] ** 2
        weights = array.einsum("...ab,...b->...a", to_weights[c], x[..., None, :] - vertices[simplices[c, 0]])
        within = array.all(weights >= 0, axis=-1) & (array.sum(weights, axis=-1) <= 1)
        return array.minimum(
            array.min(array.where(near, corridor_level[e], array.inf), axis=-1),
            array.min(array.where(within, simplex_level[c], array.inf), axis=-1),
        )

    def inside(self, x: Any, mapping: Mapping) -> Any:
        return self.level_of(x) <= self.level

    def at(self, level: float) -> CorridorBoundary:
        """The same family at another level."""
        return replace(self, level=np.asarray(float(level)))

    def levels(self, n: int, most: float = np.inf) -> np.ndarray:
        """At most n levels from the tightest, 0, to the paper's α (or `most`), in equal ratios of 1 + level."""
        return np.unique(np.expm1(np.linspace(0.0, np.log1p(min(float(self.max_level), most)), n)))


def paper_alpha(rng: np.random.Generator, mapping: Mapping, X: np.ndarray) -> float:
    """α of section 5: the largest variance at data points shifted by δ_X in random directions.

    δ_X is the largest distance of a latent point to its nearest neighbour; new shifts are drawn until α exceeds the
    variance at every data point.
    """
    delta = float(neighbours.spacing(X).max())
    at_data = float(np.max(evaluate(mapping, "variance", X)))
    for _ in range(TRIES):
        direction = rng.standard_normal(X.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        alpha = float(np.max(evaluate(mapping, "variance", X + delta * direction)))
        if alpha > at_data:
            return alpha
    raise NoSurface(
        f"no shift of the latent points by {delta:.3g} has a larger mapping variance than the data "
        f"({at_data:.3g}); the variance rule cannot close this chart: use a boundary level, such as 0.5"
    )


def variance_boundary(rng: np.random.Generator, mapping: Mapping, X: np.ndarray) -> VarianceBoundary:
    """The paper's rule. The box reaches half the chart's extent beyond the data."""
    low, high = X.min(0), X.max(0)
    margin = 0.5 * np.maximum(high - low, np.max(high - low) * 1e-3)
    bounds = np.stack([low - margin, high + margin], 1)
    return VarianceBoundary(np.asarray(paper_alpha(rng, mapping, X)), bounds)


def corridor_boundary(rng: np.random.Generator, mapping: Mapping, X: np.ndarray) -> CorridorBoundary:
    """The default family of domains for latent rows X [N, q]; rows at the same point count as one."""
    frame = np.linalg.cholesky(evaluate(mapping, expected_metric, X).mean(0)).T
    X = X[gaps.merged(X @ frame.T)[0]]
    if len(X) < 2:
        raise NoSurface(
            "all rows have the same coordinates in the chart; add rows that differ, or name other geometries"
        )
    images, points = evaluate(mapping, "mean", X), X @ frame.T
    tree, _ = neighbours.spanning_tree(images)
    near = neighbours.mutual_neighbours(images, 2)
    cells = gaps.simplices(points)
    edges = gaps.unique_pairs(np.concatenate([tree, near, gaps.sides(cells)]))
    typical = gaps.minimax(tree, neighbours.distance(images, tree), edges)
    a, b = X[edges[:, 0]], X[edges[:, 1]]
    length = _lengths(mapping, a, b)
    wide = gaps.relative_gap(length, typical)
    between = a[:, None] + np.linspace(0.1, 0.9, 5)[:, None] * (b - a)[:, None]
    variance = evaluate(mapping, "variance", between.reshape(-1, X.shape[1])).reshape(len(edges), -1)
    variance = np.maximum(variance.max(1), 0.0)
    unknown = gaps.in_steps(np.sqrt(np.sum(mapping.scale**2) * variance), typical)
    level_of_edge = wide * np.maximum(unknown, KNOWN)
    # The spanning tree has level 0; of other edges, only closest pairs and those that the paper's α admits belong.
    in_tree = gaps.members(edges, tree)
    level_of_edge[in_tree] = 0.0
    close = gaps.members(edges, np.concatenate([tree, near]))
    level_of_edge[(variance > _alpha_or_infinity(rng, mapping, X)) & ~close] = np.inf
    sides = gaps.side_index(cells, edges)
    level_of_edge = gaps.close_slits(sides, length, level_of_edge, in_tree)
    # Where the chart has torn neighbours apart, a bridge joins them, as long as their distance in the data space.
    away = neighbours.distance(images, edges)
    torn = (length > TORN * away) & close
    if X.shape[1] == 1:
        level_of_edge = gaps.on_line(points, edges, level_of_edge, torn)
    cell_level = level_of_edge[sides].max(1, initial=0.0)
    beside = torn & ~in_tree
    level_of_edge[beside] = BRIDGED + KNOWN * gaps.relative_gap(away[beside], typical[beside])

    admitted = np.isfinite(level_of_edge)
    edges, level_of_edge = edges[admitted], level_of_edge[admitted]
    bridge = np.where(torn, away, 0.0)[admitted]
    radius = RADIUS * gaps.step_size(points, tree)[edges].min(1)
    cells, cell_level = cells[np.isfinite(cell_level)], cell_level[np.isfinite(cell_level)]
    to_weights = inverse_sides(points[cells], FLAT)
    sound = np.isfinite(to_weights).all((1, 2))
    cells, cell_level, to_weights = cells[sound], cell_level[sound], to_weights[sound]
    bins = gaps.quantile_bins(points, BINS.get(X.shape[1], 1))
    ends = points[edges]
    margin = radius[:, None]
    reach = radius[:, None] * np.sqrt(np.diag(np.linalg.inv(frame.T @ frame)))
    box = np.concatenate([X[edges[:, k]] + side * reach for k in (0, 1) for side in (-1, 1)])
    return CorridorBoundary(
        level=np.asarray(DEFAULT_LEVEL),
        max_level=np.asarray(level_of_edge.max(initial=0.0)),
        bounds=np.stack([box.min(0), box.max(0)], 1),
        frame=frame, vertices=padding.fill(points, padding.size(len(points))),
        corridors=_padded(edges.astype(np.int32)), radius=_padded(radius), bridge=_padded(bridge),
        corridor_level=_padded(level_of_edge, np.inf),
        simplices=_padded(cells.astype(np.int32)), to_weights=_padded(to_weights),
        simplex_level=_padded(cell_level, np.inf), bins=bins,
        corridors_in=gaps.bin_lists(bins, ends.min(1) - margin, ends.max(1) + margin),
        simplices_in=gaps.bin_lists(bins, points[cells].min(1), points[cells].max(1)),
    )  # fmt: skip


def _padded(rows: np.ndarray, value: float = 0.0) -> np.ndarray:
    """The rows padded by at least one, to which short lists point, up to a size that many boundaries have in common."""
    return padding.fill(rows, padding.size(len(rows) + 1, FILL), value=value)


def _alpha_or_infinity(rng: np.random.Generator, mapping: Mapping, X: np.ndarray) -> float:
    """The paper's α, or infinity where the variance does not grow away from the data."""
    try:
        return paper_alpha(rng, mapping, X)
    except NoSurface:
        return np.inf


def _lengths(mapping: Mapping, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Length of the image of each straight segment from a to b under the mean of φ, [e]."""
    return evaluate(mapping, _length, np.concatenate([a, b], 1), BATCHES[0])


@of_arrays
def _length(mapping: Mapping, ends: np.ndarray) -> np.ndarray:
    """The same of segments whose two ends are side by side, [n, 2q]."""
    a, b = np.split(ends[:, None], 2, axis=-1)
    steps = np.diff(mapping.k(a + np.linspace(0, 1, 9)[:, None] * (b - a)), axis=1) @ mapping.W
    return np.linalg.norm(steps, axis=-1).sum(1)
