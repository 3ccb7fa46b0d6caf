"""Eigenpairs of the Laplace-Beltrami operator by finite elements, and kernels from them.

    -Δφ_i = λ_i φ_i with Neumann boundary,    ∫ φ_i φ_j dV = δ_ij
    heat kernel    K_t = Σ_i e^{-λ_i t/2} φ_i φ_iᵀ                  (∂K/∂t = ½ΔK)
    Matérn kernel  Σ_i (2ν/κ² + λ_i)^{-ν-q/2} φ_i φ_iᵀ

In the chart the weak form is ∫ √G ∇uᵀ G⁻¹ ∇v dx = λ ∫ √G u v dx; quadratic elements.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import ceil, gamma, log, pi
from typing import Any

import numpy as np
import skfem
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import eigsh
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from ..geometry import Chart, evaluate
from .mesh import Mesh, make_mesh, measure

MESHES = {1: skfem.MeshLine, 2: skfem.MeshTri, 3: skfem.MeshTet}
ELEMENTS = {1: skfem.ElementLineP2, 2: skfem.ElementTriP2, 3: skfem.ElementTetP2}
TAIL = 1e-3  # e^{-λt/2} of the first mode left out, at the smallest time
PER_WAVE = 4.0  # elements per wave length of the last mode
MAX_MODES = 1500
MAX_UNKNOWNS = 60_000


@dataclass(frozen=True)
class Eigenpairs:
    """λ_i [k] in ascending order, φ_i at the finite-element unknowns [n, k], and where these lie."""

    values: np.ndarray
    vectors: np.ndarray
    mesh: Mesh
    dofs: np.ndarray  # [local, simplices]: unknowns of each simplex, after gluing
    bounds: np.ndarray
    periodic: tuple[bool, ...]
    volume: float

    @property
    def dim(self) -> int:
        """The dimension q of the surface."""
        return self.mesh.nodes.shape[1]

    @cached_property
    def _finder(self) -> cKDTree:
        low, high = self.bounds.T
        return cKDTree(self.mesh.nodes[self.mesh.simplices].mean(1) / (high - low))

    def at(self, points: Any) -> np.ndarray:
        """φ_i at points [n, q] of the chart, [n, k]; a point off the mesh takes the nearest simplex."""
        points = np.atleast_2d(np.asarray(points, float))
        low, high = self.bounds.T
        wrapped = low + np.mod(points - low, high - low)
        points = np.where(np.asarray(self.periodic), wrapped, points)
        near = self._finder.query(points / (high - low), k=min(24, len(self.mesh.simplices)))[1]
        near = near.reshape(len(points), -1)
        corners = self.mesh.nodes[self.mesh.simplices[near]]  # [n, c, q + 1, q]
        frame = np.moveaxis(corners[:, :, 1:] - corners[:, :, :1], -1, -2)
        local = np.linalg.solve(frame, (points[:, None] - corners[:, :, 0])[..., None])[..., 0]
        weights = np.concatenate([1 - local.sum(-1, keepdims=True), local], -1)
        best = np.argmax(weights.min(-1), 1)
        rows = np.arange(len(points))
        weights = np.maximum(weights[rows, best], 0.0)
        weights /= weights.sum(1, keepdims=True)
        shape = _shape_functions(weights)  # [n, local]
        dofs = self.dofs[:, near[rows, best]].T
        return np.einsum("nl,nlk->nk", shape, self.vectors[dofs])

    def heat(self, t: float) -> np.ndarray:
        """e^{-λt/2}, [k]."""
        return np.exp(-0.5 * self.values * t)

    def matern(self, nu: float, kappa: float) -> np.ndarray:
        """(1 + λκ²/2ν)^{-ν-q/2}, [k]: the Matérn spectrum (2ν/κ² + λ)^{-ν-q/2}, scaled to 1 at λ = 0."""
        return (1 + self.values * kappa**2 / (2 * nu)) ** (-nu - self.dim / 2)

    def kernel(self, weights: np.ndarray, x: Any, y: Any | None = None) -> np.ndarray:
        """Σ_i weights_i φ_i(x) φ_i(y), [n, m]; symmetric and positive semi-definite for y = None."""
        fx = self.at(x) * np.sqrt(weights)
        return fx @ (fx if y is None else self.at(y) * np.sqrt(weights)).T


def modes_for(volume: float, q: int, t: float) -> tuple[int, float]:
    """How many modes time t needs (Weyl's law, with room for the boundary), and the last one's λ."""
    last = 2 * log(1 / TAIL) / t
    ball = pi ** (q / 2) / gamma(q / 2 + 1)
    return ceil(1.1 * ball * volume * last ** (q / 2) / (2 * pi) ** q) + 20, last


def eigenpairs(
    chart: Chart,
    min_time: float | None = None,
    *,
    n_modes: int | None = None,
    step: float | None = None,
    tol: float = 0.01,
    warn: bool = True,
) -> Eigenpairs:
    """The first eigenpairs of a chart, enough for heat kernels from `min_time` on.

    Parameters
    ----------
    chart : of dimension 1, 2 or 3.
    min_time : the smallest diffusion time; by default that which 200 modes resolve.
    n_modes : how many eigenpairs instead.
    step : length of the mesh's edges on the surface; by default a quarter of the last mode's wave
        length, made smaller until the first eigenvalues change by less than `tol` (relative).
    tol : see step.
    warn : whether to say when the largest mesh is reached before that.
    """
    size = measure(chart)
    q = chart.dim
    if n_modes is None:
        n_modes = 200 if min_time is None else modes_for(size.volume, q, min_time)[0]
        if n_modes > MAX_MODES:
            warnings.warn(
                f"time {min_time:.3g} needs about {n_modes} modes, {MAX_MODES} are computed: kernels at the "
                "smallest times are too smooth; ask for larger times or use method='brownian'",
                stacklevel=2,
            )
            n_modes = MAX_MODES
    if step is not None:
        return _solve(chart, make_mesh(chart, size, step), n_modes)
    ball = pi ** (q / 2) / gamma(q / 2 + 1)
    last = (n_modes * (2 * pi) ** q / (ball * size.volume)) ** (2 / q)
    step = min(2 * pi / np.sqrt(last) / PER_WAVE, size.volume ** (1 / q) / 8)
    before = _first(chart, make_mesh(chart, size, 1.5 * step), n_modes)
    while True:
        mesh = make_mesh(chart, size, step)
        now = _first(chart, mesh, n_modes)
        change = np.max(np.abs(now - before) / np.maximum(now, max(now[-1] / 10, 1e-300)))
        if change <= tol and len(mesh.nodes) >= n_modes and not mesh.torn:
            return _solve(chart, mesh, n_modes)
        if 3**q * len(mesh.nodes) > MAX_UNKNOWNS:  # of the next mesh
            if warn:
                warnings.warn(
                    f"the first eigenvalues still change by {change:.1%} when the mesh is refined: the domain has "
                    "parts too narrow for the largest mesh; loosen the boundary level",
                    stacklevel=2,
                )
            return _solve(chart, mesh, n_modes)
        before, step = now, step / 1.5


def _first(chart: Chart, mesh: Mesh, n_modes: int) -> np.ndarray:
    """The first few eigenvalues but 0."""
    return _solve(chart, mesh, min(8, n_modes)).values[1:]


def _solve(chart: Chart, mesh: Mesh, n_modes: int) -> Eigenpairs:
    q = chart.dim
    basis = skfem.Basis(MESHES[q](mesh.nodes.T.copy(), mesh.simplices.T.copy()), ELEMENTS[q](), intorder=4)
    x = np.asarray(basis.global_coordinates())  # [q, simplices, quadrature]
    G = evaluate(chart, "metric", x.reshape(q, -1).T)
    root = np.sqrt(np.maximum(np.linalg.det(G), 1e-300))
    flux = np.moveaxis(root[:, None, None] * np.linalg.inv(G), 0, -1).reshape(q, q, *x.shape[1:])
    root = root.reshape(x.shape[1:])

    @skfem.BilinearForm
    def stiffness(u, v, w):
        return np.einsum("i...,ij...,j...->...", u.grad, w.flux, v.grad)

    @skfem.BilinearForm
    def mass(u, v, w):
        return w.root * u * v

    glue, dofs = _glue(chart, basis)
    K = glue.T @ stiffness.assemble(basis, flux=flux) @ glue
    M = glue.T @ mass.assemble(basis, root=root) @ glue
    n = K.shape[0]
    n_modes = min(n_modes, n)
    if n_modes > 0.4 * n or n < 200:
        values, vectors = eigh(K.toarray(), M.toarray(), subset_by_index=(0, n_modes - 1))
    else:
        scale = K.diagonal().sum() / M.diagonal().sum()
        start = np.random.default_rng(0).standard_normal(n)
        ncv = min(n, n_modes + max(20, n_modes // 4))
        with threadpool_limits(1, "blas"):  # its many small products lose by threads, badly on a busy machine
            values, vectors = eigsh(K, n_modes, M, sigma=-1e-6 * scale, which="LM", v0=start, ncv=ncv)
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    return Eigenpairs(
        values=np.maximum(values, 0.0),
        vectors=vectors,
        mesh=mesh,
        dofs=dofs,
        bounds=np.asarray(chart.bounds, float),
        periodic=tuple(chart.periodic),
        volume=float(M.sum()),
    )


def _glue(chart: Chart, basis: Any) -> tuple[csr_matrix, np.ndarray]:
    """Matrix from glued to all unknowns, and the glued number of each local unknown."""
    places = basis.doflocs.T.copy()
    low, high = np.asarray(chart.bounds, float).T
    for a, periodic in enumerate(chart.periodic):
        if periodic:
            at_end = np.abs(places[:, a] - high[a]) < 1e-9 * (high[a] - low[a])
            places[at_end, a] = low[a]
    key = np.round((places - low) / (high - low) * 1e10).astype(np.int64)
    _, number = np.unique(key, axis=0, return_inverse=True)
    number = number.ravel()
    n = len(number)
    glue = csr_matrix((np.ones(n), (np.arange(n), number)), shape=(n, int(number.max()) + 1))
    return glue, number[basis.element_dofs]


def _shape_functions(weights: np.ndarray) -> np.ndarray:
    """Quadratic shape functions at barycentric weights [n, q + 1], in skfem's order of unknowns."""
    q = weights.shape[1] - 1
    pairs = {1: [(0, 1)], 2: [(0, 1), (1, 2), (0, 2)], 3: [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)]}[q]
    corner = weights * (2 * weights - 1)
    return np.concatenate([corner, *[4 * weights[:, [i]] * weights[:, [j]] for i, j in pairs]], 1)
