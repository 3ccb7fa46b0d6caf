"""Eigenpairs of the Laplace-Beltrami operator of a chart by quadratic finite elements on a mesh as fine as they need.

    -Δφ_i = λ_i φ_i with Neumann boundary,    ∫ φ_i φ_j dV = δ_ij

In the chart the weak form is ∫ √G ∇uᵀ G⁻¹ ∇v dx = λ ∫ √G u v dx. Kernels from eigenpairs are in `spectra`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from math import pi
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.checks import NoSurface
from ..manifold.chart import Chart
from ..manifold.surface import Surface
from .assembly import on_simplices, quadratic_unknowns
from .domain_mesh import DomainMesh, Size, finest, make_mesh, measure
from .simplicial import assemble
from .spectra import MAX_MODES, USUAL_MODES, Spectrum, modes_for, weyl
from .surfaces import MeshedSurface, modes_from, solved

PER_WAVE = {1: 4.0, 2: 4.0, 3: 2.5}  # elements per wave length of the last mode; in 3-d each costs far more
MAX_SPECTRAL_DIM = 3  # above, method="auto" takes Brownian paths: meshes have too many elements
MAX_UNKNOWNS = {1: 60_000, 2: 60_000, 3: 12_000}  # in 3-d factors fill up: 12 000 cost what 60 000 do in 2-d
REFINED = 1.5  # ratio of the steps of two meshes whose eigenvalues are compared
COARSER = 2  # how often the first mesh may be made coarser, until it has half as many elements per wave
FIRST = 8  # eigenvalues compared
ON_MESH = 1e-9  # of the chart's longest side: a smaller distance from the mesh is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Eigenpairs(Spectrum):
    """The spectrum of a chart by quadratic elements, and how exact it is; points are coordinates of the chart.

    Attributes
    ----------
    mesh : the mesh; the nodes of `surface` are its own in units of surface length, with glued opposite ends of periodic
        coordinates.
    change : relative change of the first eigenvalues at the last refinement; NaN where there was none.
    per_wave : elements per wave length of the last mode.
    """

    mesh: DomainMesh
    change: float = np.nan
    per_wave: float = np.nan

    @property
    def points(self) -> np.ndarray:
        """The nodes of the mesh, in coordinates of the chart, [V, q]."""
        return self.mesh.nodes

    @property
    def unknowns(self) -> int:
        """The number of unknowns of the finite elements."""
        return len(self.functions)

    @property
    def torn(self) -> bool:
        """Whether the mesh has more connected components than the domain, so that heat cannot flow where it should."""
        return self.mesh.torn

    def at(self, points: Any) -> np.ndarray:
        """φ_i at points [n, q] of the chart, [n, k]; off the mesh those of the nearest point of it (see `off`)."""
        return super().at(np.atleast_2d(np.asarray(points, float)))

    def off(self, points: Any) -> np.ndarray:
        """How far points [n, q] are off the mesh, in units of surface length, [n]: 0 on it."""
        distance = self.surface.project(np.atleast_2d(np.asarray(points, float))).distance
        return np.where(distance > ON_MESH * float(np.ptp(self.surface.nodes, axis=0).max()), distance, 0.0)

    def kernel(self, weights: np.ndarray, x: Any, y: Any | None = None) -> np.ndarray:
        """Σ_i weights_i φ_i(x) φ_i(y), [n, m]; symmetric and positive semi-definite for y = None."""
        fx = self.at(x) * np.sqrt(weights)
        return fx @ (fx if y is None else self.at(y) * np.sqrt(weights)).T


def _wide(lengths: np.ndarray, volume: float, half_wave: float) -> tuple[int, float]:
    """In how many directions (at least one) a domain is longer than half a wave, and its volume without the others."""
    thin = np.sort(lengths)[:-1]
    thin = thin[thin < half_wave]
    return len(lengths) - len(thin), volume / float(np.prod(thin))


def _count(size: Size, last: float) -> float:
    """How many modes have λ up to `last`, by Weyl's law in the directions in which such modes vary."""
    q, volume = _wide(size.lengths, size.volume, pi / np.sqrt(last))
    return weyl(volume, q, last)


def _last(size: Size, n_modes: int) -> tuple[float, float]:
    """λ of the last of `n_modes` modes, and the size of the domain in the directions in which they vary."""
    lengths, half_wave = np.asarray(size.lengths), 0.0
    for _ in lengths:  # at most one direction more is thin each time
        q, volume = _wide(lengths, size.volume, half_wave)
        last = (n_modes / weyl(volume, q, 1.0)) ** (2 / q)
        half_wave = pi / np.sqrt(last)
    return last, volume ** (1 / q)


def eigenpairs(
    chart: Chart | MeshedSurface,
    min_time: float | None = None,
    *,
    n_modes: int | None = None,
    step: float | None = None,
    tol: float = 0.01,
    warn: bool = True,
) -> Any:
    """The first eigenpairs of a chart, enough for heat kernels from `min_time` on.

    Parameters
    ----------
    chart : of dimension 1, 2 or 3; or a `Mesh`, an `Atlas` or one of `surfaces_` of a fitted model, with own nodes:
        `step`, `tol` and `warn` do nothing there, and their `spectrum` is returned.
    min_time : the smallest diffusion time; by default that which 200 modes resolve.
    n_modes : how many eigenpairs instead.
    step : length of the mesh's edges on the surface; by default a quarter (in 3-d 2/5) of the last mode's
        wave length, made smaller until the first eigenvalues change by less than `tol` (relative).
    tol : see step.
    warn : whether to warn when the largest mesh is reached before that; the returned object carries the figures
        (`change`, `torn`, `n_connected_components`, `per_wave`, `unknowns`).
    """
    if min_time is not None:
        checks.positive(min_time, "min_time", "it is the smallest diffusion time")
    if n_modes is not None:
        checks.integer(n_modes, "n_modes", 1, None, "leave it out to have it chosen")
    if step is not None:
        checks.positive(step, "step", "leave it out to have it chosen")
    checks.positive(tol, "tol", "0.01 is the default")
    if isinstance(chart, MeshedSurface):
        if n_modes is None and min_time is not None:
            n_modes = modes_from(chart, min_time)
        return chart.spectrum(n_modes or USUAL_MODES)
    size = measure(chart)
    q = chart.dim
    if n_modes is None:
        n_modes = USUAL_MODES if min_time is None else modes_for(partial(_count, size), min_time)
        if n_modes > MAX_MODES:
            warnings.warn(
                f"time {min_time:.3g} needs about {n_modes} modes, {MAX_MODES} are computed: kernels at the "
                "smallest times are too smooth; ask for larger times or use method='brownian'",
                stacklevel=2,
            )
            n_modes = MAX_MODES
    if step is not None:
        return _solve(chart, size, make_mesh(chart, size, step), step, n_modes)
    last, extent = _last(size, n_modes)
    step = max(min(2 * pi / np.sqrt(last) / PER_WAVE[q], extent / 8), finest(size))
    mesh = make_mesh(chart, size, step)
    for _ in range(
        COARSER
    ):  # the first mesh may have too many unknowns; where it is torn, a coarser one is torn even more
        if 2**q * len(mesh.nodes) <= MAX_UNKNOWNS[q] or mesh.torn:
            break
        step *= REFINED
        mesh = make_mesh(chart, size, step)
    coarse = make_mesh(chart, size, REFINED * step)
    before, best = _first(chart, size, coarse, n_modes), (coarse, REFINED * step, np.inf)
    while True:
        now = _first(chart, size, mesh, n_modes)
        change = _change(before, now)
        if best[2] == np.inf:
            best = (*best[:2], change)
        if len(mesh.simplices) and (best[0].torn or not mesh.torn or not len(best[0].simplices)):
            best = mesh, step, change  # the finest that is not torn, or else the finest
        if change <= tol and len(mesh.nodes) >= n_modes and not mesh.torn:
            break
        before, step = now, step / REFINED
        if (2 * REFINED) ** q * len(mesh.nodes) > MAX_UNKNOWNS[q] or step < finest(size):
            break
        mesh = make_mesh(chart, size, step)
    if not len(best[0].simplices) or (best[0].torn and best[0].n_connected_components >= FIRST):
        raise NoSurface(
            f"the domain, of volume {size.volume:.3g} in a box of {' × '.join(f'{a:.3g}' for a in size.lengths)}, is "
            f"too narrow for finite elements: its finest mesh ({len(best[0].simplices)} elements) has "
            f"{best[0].n_connected_components} connected components; loosen the boundary level, drop a dimension or "
            "use method='brownian'"
        )
    mesh, step, change = best
    pairs = replace(_solve(chart, size, mesh, step, n_modes), change=change)
    if pairs.n_connected_components >= len(pairs.values) > 1:
        raise NoSurface(
            f"the domain has {pairs.n_connected_components} connected components, and each of the {len(pairs.values)} "
            "requested modes is constant on every one; ask for more modes or loosen the boundary level"
        )
    if warn:
        _warn(pairs, tol)
    return pairs


def _first(chart: Chart, size: Size, mesh: DomainMesh, n_modes: int) -> np.ndarray:
    """The first few eigenvalues after 0; an empty array for a mesh without elements."""
    if not len(mesh.simplices):
        return np.zeros(0)
    return _solve(chart, size, mesh, np.nan, min(FIRST, n_modes)).values[1:]


def _change(before: np.ndarray, now: np.ndarray) -> float:
    """The largest relative change of eigenvalues, of those far below the last relative to a tenth of it."""
    n = min(len(before), len(now))
    if not n:
        return np.inf
    return float(np.max(np.abs(now[:n] - before[:n]) / np.maximum(now[:n], max(now[-1] / 10, 1e-300))))


def _warn(pairs: Eigenpairs, tol: float) -> None:
    """Warn where the mesh or the solver did not reach the requested accuracy."""
    short = []
    if pairs.torn:
        short.append(f"the mesh has {pairs.n_connected_components} connected components, more than the domain")
    if not pairs.change <= tol:
        short.append(f"the first eigenvalues still change by {pairs.change:.1%} when the mesh is refined")
    if short:
        warnings.warn(
            f"{' and '.join(short)}: the domain is too narrow in some parts for the largest mesh "
            f"({pairs.unknowns} unknowns); loosen the boundary level",
            stacklevel=3,
        )
    if pairs.missing:
        warnings.warn(
            f"{pairs.missing} of {len(pairs.values) + pairs.missing} eigenfunctions did not converge and are left out: "
            "kernels at the smallest times are too smooth; ask for larger times or fewer modes",
            stacklevel=3,
        )
    if pairs.per_wave < 0.5 * PER_WAVE[pairs.dim]:
        warnings.warn(
            f"the largest mesh ({pairs.unknowns} unknowns) has {pairs.per_wave:.1f} elements per wave of the last of "
            f"{len(pairs.values)} modes: these are inexact; ask for larger times or fewer modes",
            stacklevel=3,
        )


def _solve(chart: Chart, size: Size, mesh: DomainMesh, step: float, n_modes: int) -> Eigenpairs:
    if not len(mesh.simplices):
        raise NoSurface(
            f"a mesh with steps of {step:.3g} has no element inside the domain; pass a smaller step or loosen the "
            "boundary level"
        )
    unknowns = quadratic_unknowns(mesh.simplices)
    points = np.concatenate([mesh.nodes[unknowns.vertices], mesh.nodes[unknowns.sides].mean(1)])
    number = _glued(chart, points)
    dofs, n = number[unknowns.of_elements[0]], int(number.max()) + 1
    stiffness, mass = on_simplices(chart, mesh.nodes[mesh.simplices])
    K, M = assemble([(dofs, stiffness, mass)], n)
    low, high = np.asarray(chart.bounds, float).T
    speed = size.lengths / (high - low)  # surface length of a unit of each coordinate, on average
    period = np.stack([low, np.where(chart.periodic, high - low, np.inf)], 1) if any(chart.periodic) else None
    surface = Surface(mesh.nodes * speed, mesh.simplices, scale=1 / speed, unknowns=dofs, period=period)
    pairs = solved(surface, K, M, n_modes)
    per_wave = 2 * pi / float(np.sqrt(max(pairs.values[-1], 1e-300))) / step
    return Eigenpairs(**vars(pairs), mesh=mesh, per_wave=per_wave)


def _glued(chart: Chart, points: np.ndarray) -> np.ndarray:
    """Numbers of the unknowns at points [n, q], [n]; opposite ends of a periodic coordinate have one number."""
    points = points.copy()
    low, high = np.asarray(chart.bounds, float).T
    for a, periodic in enumerate(chart.periodic):
        if periodic:
            at_end = np.abs(points[:, a] - high[a]) < 1e-9 * (high[a] - low[a])
            points[at_end, a] = low[a]
    key = np.round((points - low) / (high - low) * 1e10).astype(np.int64)
    return np.unique(key, axis=0, return_inverse=True)[1].ravel()
