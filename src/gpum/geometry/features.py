"""Points as rows of numbers, on which covariances act: values of functions at nodes, or coordinates.

A *space* has `at(points) -> [n, k]`. Points of a surface are given by the nodes that they lie between
(`Location.packed`), those of flat space and of graphs by the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from ..basics import large_neighbours, neighbours
from ..heat.covariances import distances, stationary
from ..manifold.surface import between, interpolated

LARGE = 3000  # rows above which neighbours of a graph are searched for in another way
COMPONENT_NEIGHBOURS = 10  # of the graph of components: with fewer a curve of rows drawn at random may fall apart
APART = 10.0  # between components, in extents of the cloud: the kernel is below 1 %, beside the constant that all share
RESOLVED = 1e-8  # eigenvalues of k(Z, Z) below so much of the largest are left out: they are rounding
PAIRS_AT_ONCE = 2**22  # distances in memory at once


class Space(Protocol):
    """A representation of points."""

    def at(self, points: np.ndarray) -> np.ndarray:
        """Points as rows [n, k]."""


def at_each(spaces: Sequence[Space], points: np.ndarray) -> list[np.ndarray]:
    """Points as rows in each of several spaces of one geometry; what spaces of a kind share is computed once."""
    values: dict[int, np.ndarray] = {}
    for kind in dict.fromkeys(map(type, spaces)):
        numbers = [k for k, space in enumerate(spaces) if type(space) is kind]
        alike, each = [spaces[k] for k in numbers], getattr(kind, "at_each", None)
        values.update(zip(numbers, [s.at(points) for s in alike] if each is None else each(alike, points), strict=True))
    return [values[k] for k in range(len(spaces))]


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """Functions on a surface, given by their values at its nodes, [V, k].

    Eigenfunctions are in float32: their rounding changes a kernel by 1e-7 of its variance, a tenth of the least noise.
    `eigenvalues` [k] belong to them; None for other functions.
    """

    values_at_nodes: np.ndarray
    eigenvalues: np.ndarray | None = None

    def at(self, points: np.ndarray) -> np.ndarray:
        """The functions at places between nodes, `Location.packed` [n, 2j], [n, k] in float64."""
        return interpolated(points, self.values_at_nodes)


@dataclass(frozen=True)
class ScaledSpace:
    """Points as coordinates, each divided by a scale of its own."""

    scale: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """Scaled coordinates, [n, p]."""
        return points / self.scale


@dataclass(frozen=True, eq=False)
class InducedSpace:
    """Features of a stationary kernel that some points Z [M, p] induce: those of its projection onto k(·, Z).

    F(x) = k(x, Z) R with R Rᵀ = k(Z, Z)⁻¹, so that F(x) F(x')ᵀ is k(x, x') wherever Z resolves the kernel, and the
    regression of any number of labels needs M × M numbers. What Z does not resolve, 1 - |F(x)|², has a feature of its
    own, of which labels say little: far from Z the variance is the prior's. Z are points of `within`, a space of
    coordinates of a surface; None: of flat space.
    """

    scale: np.ndarray
    nu: float
    nodes: np.ndarray  # Z, scaled
    root: np.ndarray  # R
    within: NodeFeatures | None = None

    @classmethod
    def of(cls, scale: np.ndarray, nu: float, points: np.ndarray, within: NodeFeatures | None = None) -> InducedSpace:
        """The space that these points [M, p] induce."""
        nodes = np.unique(points / scale, axis=0)
        values, vectors = np.linalg.eigh(stationary(nu, distances(nodes, nodes)))
        used = values > RESOLVED * values[-1]
        return cls(scale, nu, nodes, vectors[:, used] / np.sqrt(values[used]), within)

    def at(self, points: np.ndarray) -> np.ndarray:
        """F at points, and what it leaves, [n, k + 1]."""
        return self.at_coordinates(points if self.within is None else self.within.at(points))

    def at_coordinates(self, points: np.ndarray) -> np.ndarray:
        """The same at coordinates [n, p], where `within` says of a point what these are."""
        step = max(1, PAIRS_AT_ONCE // len(self.nodes))
        blocks = [points[k : k + step] / self.scale for k in range(0, max(len(points), 1), step)]
        F = np.concatenate([stationary(self.nu, distances(block, self.nodes)) @ self.root for block in blocks])
        return np.column_stack([F, np.sqrt(np.maximum(1 - np.einsum("nk,nk->n", F, F), 0.0))])


@dataclass(frozen=True, eq=False)
class Components:
    """Rows of a cloud [N, p] and the number of each one's connected component [N].

    Flat space joins everything by distance. Labels on one component do not say whether another one continues the same
    function: together and apart explain them equally well. So a cloud with several connected components has every space
    of flat space twice, and labels on several of them decide by their evidence.
    """

    rows: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Components | None:
        """The connected components of the graph of nearest rows; None where there is only one."""
        if len(rows) <= COMPONENT_NEIGHBOURS + 1:
            return None
        number = neighbours.components(rows, COMPONENT_NEIGHBOURS)
        return cls(rows, number) if number.any() else None

    def at(self, points: np.ndarray) -> np.ndarray:
        """The component of each point [n]: that of the nearest row."""
        if points.shape == self.rows.shape and np.array_equal(points, self.rows):
            return self.number
        return self.number[neighbours.nearest(self.rows, 1, points)[1][:, 0]] if len(points) else np.empty(0, int)


@dataclass(frozen=True, eq=False)
class SeparateSpace(ScaledSpace):
    """Points as scaled coordinates, and coordinates in which all connected components are `apart` from each other.

    There is one for each component: on a line, a row that may belong to the first or the third of them, and lies at the
    mean of both (`IncompleteGeometry`), would be in the second.
    """

    components: Components
    apart: float

    @classmethod
    def of(cls, scale: np.ndarray, components: Components) -> SeparateSpace:
        """With components so far apart that they are independent."""
        return cls(scale, components, APART * max(neighbours.extent(components.rows / scale), 1.0))

    def at(self, points: np.ndarray) -> np.ndarray:
        """Scaled coordinates and those of the component, [n, p + components]."""
        return self._with(points, self.components.at(points))

    @staticmethod
    def at_each(spaces: Sequence[SeparateSpace], points: np.ndarray) -> list[np.ndarray]:
        """As `at` of each of several spaces; those of the same components find each point's only once."""
        of_spaces = {id(space.components): space.components for space in spaces}
        number = {key: components.at(points) for key, components in of_spaces.items()}
        return [space._with(points, number[id(space.components)]) for space in spaces]

    def _with(self, points: np.ndarray, number: np.ndarray) -> np.ndarray:
        place = np.arange(self.components.number.max() + 1) == number[:, None]
        return np.column_stack([points / self.scale, sqrt(0.5) * self.apart * place])


def together_and_apart(scale: np.ndarray, components: Components | None) -> list[ScaledSpace]:
    """The space with these scales, and where there are several components the one that separates them."""
    together = ScaledSpace(scale)
    return [together] if components is None else [together, SeparateSpace.of(scale, components)]


@dataclass(frozen=True, eq=False)
class GraphSpace:
    """The first eigenpairs of a kNN graph on the cloud (see `geometry.graphs`)."""

    cloud: np.ndarray  # [N, p], rows divided by `scale`
    values: np.ndarray  # μ, [k], ascending
    vectors: np.ndarray  # φ on the cloud, [N, k], mean square 1
    info: dict[str, Any]
    missing: int = 0  # requested pairs that the solver did not reach; they are left out
    residual: float = 0.0  # largest residual of a pair, relative to its μ, where pairs were found by iteration
    n_connected_components: int = 1  # before they were joined
    scale: np.ndarray | float = 1.0  # of columns, [p] or of all

    def at(self, X_new: np.ndarray) -> np.ndarray:
        """φ at rows [n, p], [n, k]; at a row of the cloud its row of `vectors`; φ is continuous there."""
        return self._combined(*self.weights(X_new))

    @staticmethod
    def at_each(spaces: Sequence[GraphSpace], X_new: np.ndarray) -> list[np.ndarray]:
        """As `at` of each of several graphs; those on one cloud with as many neighbours have the same weights."""
        keys = [(id(space.cloud), space.info["n_neighbors"]) for space in spaces]
        made = {key: space.weights(X_new) for key, space in dict(zip(keys, spaces, strict=True)).items()}
        return [space._combined(*made[key]) for key, space in zip(keys, spaces, strict=True)]

    def weights(self, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest rows of each new row, and their weights, [n, k] each."""
        k, X_new = min(self.info["n_neighbors"], len(self.cloud)), X_new / self.scale
        search = neighbours.nearest if len(self.cloud) <= LARGE else large_neighbours.nearest
        index = search(self.cloud, k, X_new)[1] if len(X_new) else np.empty((0, k), int)
        return index, between(self.cloud, index, X_new)

    def _combined(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j a_j φ(x_j), [n, modes]."""
        n, k = index.shape
        rows = (weights.ravel(), index.ravel(), np.arange(0, n * k + 1, k))
        return weights @ self.vectors[index[0]] if n == 1 else csr_matrix(rows, (n, len(self.cloud))) @ self.vectors


@dataclass(frozen=True, eq=False)
class DiffusionSpace:
    """The first eigenpairs of GL on the cloud (see `geometry.graphs`)."""

    cloud: np.ndarray  # [N, p]
    values: np.ndarray  # μ, [k], ascending
    vectors: np.ndarray  # φ on the cloud, [N, k]
    degree: np.ndarray  # q, [N]
    near: np.ndarray  # points within ε of each, [N]
    bandwidth: float  # ε
    info: dict[str, Any]
    missing: int = 0  # requested pairs that the solver did not reach; they are left out

    def area(self) -> float:
        """The area of a surface from points on it: Σ_i πε²/(points within ε of i)."""
        return float(np.pi * self.bandwidth**2 * np.sum(1 / self.near))

    def at(self, X_new: np.ndarray) -> np.ndarray:
        """φ at rows [n, p] by Nyström, [n, k]; far from the cloud that of the nearest row, over α."""
        alpha = 1 - self.values * self.bandwidth**2
        phi = np.empty((len(X_new), len(self.values)))
        step = max(1, PAIRS_AT_ONCE // len(self.cloud))
        for block in (slice(k, k + step) for k in range(0, len(X_new), step)):
            exponent = cdist(X_new[block], self.cloud, "sqeuclidean") / (4 * self.bandwidth**2)
            P = np.exp(exponent.min(1, keepdims=True) - exponent) / self.degree
            phi[block] = (P / P.sum(1, keepdims=True)) @ self.vectors / alpha
        return phi

    def first(self, n_pairs: int) -> DiffusionSpace:
        """The space of the first n_pairs eigenpairs."""
        values, vectors = self.values[:n_pairs], self.vectors[:, :n_pairs]
        return replace(self, values=values, vectors=vectors, info={**self.info, "n_pairs": len(values)})
