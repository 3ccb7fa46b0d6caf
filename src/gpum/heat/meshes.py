"""Surfaces of nodes and cells that users have in their hands: meshes of their own, and surfaces of fitted models.

K u = λ M u       linear elements; M is CONSISTENT times their mass, the rest lumped (see `simplicial`)
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, diags

from ..basics import checks
from ..basics.checks import GpumError, NoSurface
from ..manifold.geodesics import Cells, Geodesic, Point
from ..manifold.surface import Location, Surface
from .lanczos import lowest
from .simplicial import CONSISTENT
from .spectra import Spectrum

FORMATS = (".obj", ".off", ".ply", ".stl")
FLAT = 1e-12  # volume of a cell over that of a cube with its longest side, up to which it has none
SHAPES = {2: "segments", 3: "triangles", 4: "tetrahedra"}


class MeshedSurface(ABC):
    """A surface of `nodes` and `cells`: projection of rows, eigenfunctions, shortest paths."""

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

    @abstractmethod
    def spectrum(self, n: int = 100) -> Spectrum:
        """The first n eigenvalues of -Δ and their eigenfunctions, with no flow through the boundary."""

    @abstractmethod
    def elements(self) -> tuple[csr_matrix, np.ndarray]:
        """Stiffness [V, V] and lumped mass [V] of linear elements on the nodes."""

    @property
    @abstractmethod
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides of cells as pairs of nodes [E, 2], each pair ascending, and their lengths [E]."""

    @property
    def dim(self) -> int:
        """The dimension of the surface."""
        return self.cells.shape[1] - 1

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
        found = []
        for length, path in self._cells_with_lengths.paths(points[0], points[1:]):
            rows = [point.weights @ self.nodes[point.nodes] for point in path]
            found.append(Geodesic(length, np.array(rows).reshape(-1, p)))
        return found if several else found[0]

    @cached_property
    def _cells_with_lengths(self) -> Cells:
        return Cells.of(len(self.nodes), self.cells, *self._sides)


@dataclass(frozen=True, eq=False)
class SurfaceNodes:
    """The nodes of a surface that belong to a cell, between which paths jump (see `jumps`)."""

    surface: MeshedSurface

    @cached_property
    def index(self) -> np.ndarray:
        """Their numbers among all nodes, ascending."""
        return np.unique(self.surface.cells)

    @property
    def points(self) -> np.ndarray:
        """Points of the nodes, [n, p]."""
        return self.surface.nodes[self.index]

    @property
    def positions(self) -> np.ndarray:
        """The same."""
        return self.points

    @property
    def mass(self) -> np.ndarray:
        """Lumped mass of the nodes, [n]."""
        return self.surface.elements()[1][self.index]

    def stiffness(self) -> csr_matrix:
        """The stiffness matrix between the nodes, [n, n]."""
        return self.surface.elements()[0][self.index][:, self.index]

    def corners(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that rows [m, p] lie between, and their weights, [m, q + 1] each."""
        located = self.surface.project(rows)
        return np.searchsorted(self.index, located.nodes), located.weights


class Mesh(MeshedSurface):
    """A surface that is known as a mesh: segments, triangles or tetrahedra.

    Parameters
    ----------
    vertices : points, [V, p].
    faces : numbers of the vertices of each segment [K, 2], triangle [K, 3] or tetrahedron [K, 4], from 0.

    Attributes
    ----------
    notes : what was left out of the faces, in sentences.
    """

    def __init__(self, vertices: Any, faces: Any) -> None:
        self.vertices = checks.cloud(vertices, "vertices", min_rows=2)
        self.faces, self.notes = _checked(self.vertices, faces)
        for array in (self.vertices, self.faces):
            array.setflags(write=False)

    @classmethod
    def read(cls, path: Any) -> Mesh:
        """The triangles of a file in one of the formats .obj, .off, .ply and .stl (needs trimesh, `gpum[mesh]`).

        Faces with more corners are cut into triangles. Vertices at one position are one vertex, as formats need that
        list the corners of each triangle, or give them different texture coordinates.
        """
        try:
            name = os.fspath(path)
        except TypeError:
            raise GpumError(f"path must be the name of a file, got {checks.shown(path)}; give its path") from None
        suffix = name[name.rfind(".") :].lower() if "." in name else ""
        if suffix not in FORMATS:
            raise GpumError(f"path is {name!r}, which does not end in {', '.join(FORMATS)}; convert the file to one")
        try:
            import trimesh
        except ImportError:
            raise GpumError("meshes are read by trimesh, which is not installed; pip install 'gpum[mesh]'") from None
        try:
            with open(name, "rb") as file:
                read = trimesh.load_mesh(file, file_type=suffix[1:], process=False, skip_materials=True)
            vertices, faces = np.asarray(read.vertices, float), np.asarray(read.faces, int)
        except OSError as error:
            raise GpumError(f"{name} cannot be read ({error.strerror}); check the path") from None
        except Exception as error:  # whatever a malformed file makes of a reader
            raise GpumError(f"{name} holds no mesh that can be read ({str(error)[:200]}); check the file") from None
        if not len(faces):
            raise GpumError(f"{name} has no faces; a mesh needs triangles")
        first, number = np.unique(vertices, axis=0, return_index=True, return_inverse=True)[1:]
        order = np.argsort(first)  # vertices keep the order of the file
        place = np.empty(len(first), int)
        place[order] = np.arange(len(first))
        return cls(vertices[first[order]], place[number.ravel()][faces])

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices):,} vertices, {len(self.faces):,} {SHAPES[self.dim + 1]})"

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, Mesh)
            and np.array_equal(self.vertices, other.vertices) and np.array_equal(self.faces, other.faces)
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __sklearn_clone__(self) -> Mesh:
        return self  # it never changes

    def __gpum_key__(self) -> Any:
        """What results depend on."""
        return self.vertices, self.faces

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        return {"vertices": self.vertices, "faces": self.faces}

    def __gpum_restored__(self) -> None:
        """Checks what a file held."""
        self.__init__(self.vertices, self.faces)  # type: ignore[misc]

    @property
    def nodes(self) -> np.ndarray:
        """The vertices, [V, p]."""
        return self.vertices

    @property
    def cells(self) -> np.ndarray:
        """The faces, [K, q + 1]."""
        return self.faces

    @cached_property
    def surface(self) -> Surface:
        """Nodes and cells, onto which rows are projected."""
        return Surface(self.vertices, self.faces)

    @property
    def n_connected_components(self) -> int:
        """How many connected components the faces have."""
        return self.surface.n_connected_components

    @property
    def closed(self) -> bool:
        """Whether it has no boundary."""
        return self.surface.closed

    @cached_property
    def volume(self) -> float:
        """Length, area or volume of all faces."""
        return float(_elements(self.vertices[self.faces])[0].sum())

    def project(self, X: Any) -> Location:
        """The nearest points of the surface to rows X [n, p].

        Each lies between the nodes `nodes` [n, j] with `weights` [n, j]; `distance` [n] is how far the row is from it.
        """
        return self.surface.project(checks.cloud(X, "X", columns=self.vertices.shape[1]))

    def spectrum(self, n: int = 100) -> Spectrum:
        """The first n eigenvalues of -Δ and their eigenfunctions, with no flow through the boundary (Neumann).

        Fewer where the mesh has fewer vertices. Functions are linear on faces.
        """
        checks.integer(n, "n", 1, None, "it is the number of eigenpairs")
        used = np.unique(self.faces)
        n_asked, n = n, min(n, len(used))
        solved: Spectrum | None = vars(self).get("_solved")
        if solved is None or len(solved.values) + solved.missing < n:
            K, mass = self.elements()
            M = CONSISTENT * self._consistent_mass() + (1 - CONSISTENT) * diags(mass)
            found = lowest(K[used][:, used].tocsr(), csr_matrix(M)[used][:, used], n)
            functions = np.zeros((len(self.vertices), len(found.values)))
            functions[used] = found.vectors
            solved = Spectrum(found.values, functions, self, self.volume, self.dim, found.missing)
            vars(self)["_solved"] = solved
        values, functions = solved.values[:n], solved.functions[:, :n]
        return replace(solved, values=values, functions=functions, missing=max(min(n_asked, n) - len(values), 0))

    def elements(self) -> tuple[csr_matrix, np.ndarray]:
        """Stiffness [V, V] and lumped mass [V] of linear elements."""
        from .assembly import assemble  # which needs JAX

        volume, stiffness = _elements(self.vertices[self.faces])
        K = assemble([(self.faces, stiffness)], len(self.vertices))
        corners = self.faces.shape[1]
        return K, np.bincount(self.faces.ravel(), np.repeat(volume / corners, corners), len(self.vertices))

    def _consistent_mass(self) -> csc_matrix:
        from .assembly import assemble  # which needs JAX

        corners = self.faces.shape[1]
        local = (1 + np.eye(corners)) / (corners * (corners + 1))
        volume = _elements(self.vertices[self.faces])[0]
        return assemble([(self.faces, volume[:, None, None] * local)], len(self.vertices))

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = self.surface.edges
        return pairs, np.linalg.norm(self.vertices[pairs[:, 0]] - self.vertices[pairs[:, 1]], axis=1)


def simplices(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Volume [K] of simplices and the stiffness of their linear elements, from squared distances [K, q + 1, q + 1]."""
    first = squares[:, 1:, 0]
    return _volume_and_stiffness(0.5 * (first[:, :, None] + first[:, None] - squares[:, 1:, 1:]))


def _elements(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same from corners [K, q + 1, p]."""
    side = corners[:, 1:] - corners[:, :1]
    return _volume_and_stiffness(side @ side.transpose(0, 2, 1))


def _volume_and_stiffness(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From the inner products [K, q, q] of the sides at the first corner."""
    q = gram.shape[1]
    volume = np.sqrt(np.maximum(np.linalg.det(gram), 0.0)) / factorial(q)
    slopes = np.concatenate([-np.ones((q, 1)), np.eye(q)], 1)  # of barycentric weights, by the coordinates of sides
    return volume, volume[:, None, None] * (slopes.T @ np.linalg.inv(gram) @ slopes)


def _checked(vertices: np.ndarray, faces: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Faces [K, q + 1] that have a volume, each once, and notes about the others."""
    try:
        found = np.asarray(faces)
        whole = found.dtype.kind in "iu" or (found.dtype.kind == "f" and bool(np.all(found == np.round(found))))
    except (TypeError, ValueError):
        found, whole = np.zeros(0), False
    if found.ndim != 2 or found.shape[1] not in SHAPES or not len(found) or not whole:
        raise GpumError(
            "faces must be whole numbers [K, 2], [K, 3] or [K, 4], the vertices of segments, triangles or tetrahedra, "
            f"got {checks.shown(faces)}; give one row a face"
        )
    found = found.astype(np.int64)
    q = found.shape[1] - 1
    if q > vertices.shape[1]:
        raise GpumError(
            f"faces are {SHAPES[q + 1]}, but vertices have {vertices.shape[1]} coordinate(s); give {q} or more"
        )
    outside = (found < 0) | (found >= len(vertices))
    if outside.any():
        row = int(np.flatnonzero(outside.any(1))[0])
        raise GpumError(
            f"faces has {int(found[outside][0])} in row {row}, but there are {len(vertices)} vertices, numbered "
            "from 0; correct it (files often number them from 1)"
        )
    corners = vertices[found]
    middle, size = corners.mean(1, keepdims=True), np.ptp(corners, axis=1).max(1)
    unit = (corners - middle) / np.maximum(size, np.finfo(float).tiny)[:, None, None]
    sides = unit[:, 1:] - unit[:, :1]
    thin = np.linalg.det(sides @ sides.transpose(0, 2, 1)) <= FLAT**2
    first = np.unique(np.sort(found, 1), axis=0, return_index=True)[1]
    repeated = np.ones(len(found), bool)
    repeated[first] = False
    notes = []
    for which, said in ((thin, "have no volume"), (repeated & ~thin, "repeat another face")):
        if which.any():
            notes.append(f"{int(which.sum())} of {len(found)} faces {said} and are left out")
    kept = found[~thin & ~repeated]
    if not len(kept):
        raise NoSurface(f"none of the {len(found)} faces has a volume: their corners coincide or lie on a line; "
                        "check vertices and faces")  # fmt: skip
    unused = len(vertices) - len(np.unique(kept))
    if unused:
        notes.append(f"{unused} of {len(vertices)} vertices belong to no face")
    return np.ascontiguousarray(kept), tuple(notes)
