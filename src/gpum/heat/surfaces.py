"""Surfaces of nodes and cells: one class for meshes, atlases and the surfaces of fitted models.

    K u = λ M u       linear elements; M is CONSISTENT times their mass, the rest lumped (see `simplicial`)

The jump process of paths from node to node (see `jumps`) has the masses of M lumped on the diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags

from ..basics import checks
from ..basics.checks import GpumError
from ..manifold.geodesics import Cells, Geodesic, Point
from ..manifold.surface import Location
from .lanczos import lowest
from .spectra import MAX_MODES, Spectrum, modes_for, weyl

TIMES = "pass diffusion times > 0"


class MeshedSurface(ABC):
    """A surface of `nodes` and `cells`: projection of rows, eigenfunctions, heat kernel, shortest paths."""

    dim: Any  # of the surface

    @property
    @abstractmethod
    def nodes(self) -> np.ndarray:
        """Points of the surface in the data space, [V, p]."""

    @property
    @abstractmethod
    def cells(self) -> np.ndarray:
        """The nodes at the corners of each cell, [K, q + 1]; an edge that is a side of none repeats its last corner."""

    @property
    @abstractmethod
    def volume(self) -> float:
        """Length, area or volume of the surface."""

    @abstractmethod
    def project(self, X: Any) -> Location:
        """The nearest points of the surface to rows X [n, p].

        Each lies between the nodes `nodes` [n, j] with `weights` [n, j]; `distance` [n] is how far the row is from it.
        """

    def plot(self, values: Any = None, *, paths: Any = (), label: str | None = None, ax: Any = None) -> Any:
        """Draw it as `gpum.plots.plot_surface` does, which needs matplotlib: a shorthand, and all that it knows."""
        return import_module("gpum.plots").plot_surface(self, values, paths=paths, label=label, ax=ax)

    @abstractmethod
    def elements(self) -> tuple[csr_matrix, csr_matrix]:
        """Stiffness K and mass M of linear elements on the nodes, [V, V]; a row of M adds up to its node's volume."""

    @property
    @abstractmethod
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides of cells as pairs of nodes [E, 2], each pair ascending, and their lengths [E]."""

    def spectrum(self, n: int = 100) -> Spectrum:
        """The first n eigenvalues of -Δ and their eigenfunctions, with no flow through the boundary (Neumann).

        Fewer where the surface has fewer nodes. Functions are linear in cells.
        """
        checks.integer(n, "n", 1, None, "it is the number of eigenpairs")
        n = min(n, len(np.unique(self.cells)))
        solved: Spectrum | None = vars(self).get("_solved")
        if solved is None or len(solved.values) + solved.missing < n:
            solved = vars(self)["_solved"] = SurfaceNodes.of(self).spectrum(n)
        values, functions = solved.values[:n], solved.functions[:, :n]
        return replace(solved, values=values, functions=functions, missing=n - len(values))

    def spectrum_of_jumps(self, n: int) -> Spectrum:
        """As `spectrum`, of the jump process from node to node, whose masses are lumped (see `jumps`)."""
        return SurfaceNodes.of(self).spectrum(n, lumped=True)

    def heat_kernel(self, starts: Any, targets: Any, times: Any, n_modes: int | None = None) -> np.ndarray:
        """K_t between rows of the data space, [times, starts, targets]; targets=None means the starts."""
        times = checks.positives(times, "times", TIMES)
        pairs = self.spectrum(n_modes or modes_from(self, float(times.min())))
        fx, fy = pairs.at(starts), None if targets is None else pairs.at(targets)
        kernels = []
        for half in (pairs.heat(t / 2) for t in times):
            left = fx * half
            kernels.append(left @ (left if fy is None else fy * half).T)
        return np.stack(kernels)

    def geodesic(self, a: Any, b: Any) -> Geodesic | list[Geodesic]:
        """The shortest path on the surface from row a [p] to row b [p], or to each of several rows b [n, p].

        `length` is its length, `path` [k, p] its points. Rows off the surface are projected onto it first. Without a
        path, on another connected component, the length is infinite and the path empty. On triangles the path is
        shortest among those that cross the same triangles; `docs/building_blocks.md` says how exact that is.
        """
        p = self.nodes.shape[1]
        start, ends = checks.cloud(np.atleast_2d(np.asarray(a)), "a", columns=p), np.asarray(b)
        if len(start) != 1:
            raise GpumError(f"a has {len(start)} rows; give one row, several are for b")
        several = ends.ndim == 2
        both = np.concatenate([start, checks.cloud(np.atleast_2d(ends), "b", columns=p)])
        located = self.project(both)
        points = [Point.between(*of) for of in zip(located.nodes, located.weights, strict=True)]
        geodesics = []
        for length, path in self._cells_with_lengths.paths(points[0], points[1:]):
            rows = [point.weights @ self.nodes[point.nodes] for point in path]
            geodesics.append(Geodesic(length, np.array(rows).reshape(-1, p)))
        return geodesics if several else geodesics[0]

    @cached_property
    def _cells_with_lengths(self) -> Cells:
        return Cells.of(len(self.nodes), self.cells, *self._sides)


def modes_from(surface: MeshedSurface, min_time: float) -> int:
    """How many eigenpairs heat kernels from `min_time` on need."""
    return min(modes_for(partial(weyl, surface.volume, surface.dim), min_time), MAX_MODES)


def solved(surface: Any, K: csr_matrix, M: csr_matrix, n: int) -> Spectrum:
    """The n lowest solutions of K u = λ M u, with the matrices of a surface, as its spectrum."""
    pairs = lowest(K, M, n)
    return Spectrum(
        pairs.values, pairs.vectors, surface, float(M.sum()), pairs.missing, pairs.residual,
        pairs.n_connected_components,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SurfaceNodes:
    """The nodes of a surface that belong to a cell, and the linear elements between them.

    Attributes
    ----------
    surface : onto which rows are projected.
    index : numbers of the nodes among all of the surface, ascending, [n].
    stiffness, mass : matrices between them, [n, n].
    """

    surface: Any
    index: np.ndarray
    stiffness: csr_matrix
    mass: csr_matrix

    @classmethod
    def of(cls, surface: MeshedSurface) -> SurfaceNodes:
        """The nodes of a surface with its elements."""
        index = np.unique(surface.cells)
        return cls(surface, index, *(matrix[index][:, index].tocsr() for matrix in surface.elements()))

    @property
    def lumped(self) -> np.ndarray:
        """The mass of each node, [n]."""
        return np.asarray(self.mass.sum(1)).ravel()

    def spectrum(self, n: int, lumped: bool = False) -> Spectrum:
        """The first n eigenpairs, at all nodes of the surface; with lumped masses those of paths (see `jumps`)."""
        M = diags(self.lumped).tocsr() if lumped else self.mass
        pairs = solved(self.surface, self.stiffness, M, n)
        functions = np.zeros((len(self.surface.nodes), len(pairs.values)))
        functions[self.index] = pairs.functions
        return replace(pairs, functions=functions)

    def corners(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that rows [m, p] lie between, and their weights, [m, q + 1] each."""
        located = self.surface.project(rows)
        return np.searchsorted(self.index, located.nodes), located.weights
