"""Meshes that users have in their hands: segments, triangles or tetrahedra, from arrays or files."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..basics import checks
from ..basics.checks import GpumError, NoSurface
from ..manifold.surface import Location, Surface
from .simplicial import of_corners, on_cells
from .surfaces import MeshedSurface

FORMATS = (".obj", ".off", ".ply", ".stl")
FLAT = 1e-7  # volume of a cell over that of a cube with its longest side, up to which rounding decides what it is
SHAPES = {2: "segments", 3: "triangles", 4: "tetrahedra"}


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

    @property
    def dim(self) -> int:
        """The dimension of the surface."""
        return self.faces.shape[1] - 1

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
        return float(of_corners(self.vertices[self.faces])[0].sum())

    def project(self, X: Any) -> Location:
        """The nearest points of the surface to rows X [n, p].

        Each lies between the nodes `nodes` [n, j] with `weights` [n, j]; `distance` [n] is how far the row is from it.
        """
        return self.surface.project(checks.cloud(X, "X", columns=self.vertices.shape[1]))

    def elements(self) -> tuple[csr_matrix, csr_matrix]:
        """Stiffness K and mass M of linear elements on the vertices, [V, V]."""
        volume, stiffness = of_corners(self.vertices[self.faces])
        return on_cells([(self.faces, volume, stiffness)], len(self.vertices))

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = self.surface.edges
        return pairs, np.linalg.norm(self.vertices[pairs[:, 0]] - self.vertices[pairs[:, 1]], axis=1)


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
