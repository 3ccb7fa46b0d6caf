"""The surfaces of a fitted model, as users see them: in the units of X, with what can be computed on them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.neighbours import distance
from ..geometry.base import SurfaceGeometry, bare
from ..geometry.features import NodeFeatures
from ..heat.simplicial import of_distances, on_cells
from ..heat.spectra import Spectrum, varying
from ..heat.surfaces import MeshedSurface
from ..manifold.surface import Location, Surface, as_cells

if TYPE_CHECKING:
    from .model import FittedModel


class FittedSurface(MeshedSurface):
    """A surface that was learned from a cloud, or given, with its weight in the posterior.

    Lengths are in the units of X. Where each column has a unit of its own (`notes_` says so), they are in those of the
    scaled columns. Nodes and cells of a known chart are in its coordinates, lengths are those of its metric.

    Attributes
    ----------
    title : which surface it is, such as "atlas of dimension 2".
    weight : its weight in the posterior, the mean over outputs.
    """

    def __init__(self, model: FittedModel, number: int, title: str, weight: float) -> None:
        self.title, self.weight = title, weight
        self._model, self._number = model, number
        member, self._scale = bare(model.geometries.members[number])
        assert isinstance(member, SurfaceGeometry)
        self._member, self._cloud = member, model.cloud

    def __repr__(self) -> str:
        return f"<{self.title}: {len(self.nodes):,} nodes, {len(self.cells):,} cells, weight {self.weight:.0%}>"

    @cached_property
    def nodes(self) -> np.ndarray:
        """Points of the surface in the data space, [V, p]."""
        nodes = self._cloud.unscaled(self._member.surface.positions * self._scale)
        if self._glued is None:
            return nodes
        glued = np.empty((self._glued.max() + 1, nodes.shape[1]))
        glued[self._glued] = nodes
        return glued

    @cached_property
    def cells(self) -> np.ndarray:
        """The nodes at the corners of each cell, [K, q + 1]; an edge that is a side of none repeats its last corner."""
        return self._cells if self._glued is None else self._glued[self._cells]

    @cached_property
    def _cells(self) -> np.ndarray:
        """The same, before both ends of a periodic coordinate are one node.

        A learned chart tears neighbours apart where it must, as a closed curve that is cut somewhere. An edge joins two
        of them where heat flows between them, in the heaviest domain.
        """
        cells = self._member.surface.cells
        if self._member.name != "chart" or self._known or not len(cells):
            return cells
        chart = self._model.geometries.chart(self._number)
        domain = (chart if self._level is None else chart.with_level(self._level)).complex()
        return cells if domain is None else as_cells(cells, domain.corridors[domain.bridge > 0])

    @cached_property
    def _level(self) -> float | None:
        """The boundary level of the heaviest domain; None: no kernel with weight has a boundary with levels."""
        geometry_of = self._model.geometries.candidate_set.geometry_of
        weights: dict[float, float] = {}
        for component in (c for output in self._model.outputs for c in output.posterior.components):
            level = component.candidate.level
            if geometry_of[component.candidate.space] == self._number and isinstance(level, float):
                weights[level] = weights.get(level, 0.0) + component.weight
        return max(weights, key=lambda level: weights[level], default=None)

    @property
    def dim(self) -> int:
        """The dimension of the surface."""
        return self._member.surface.dim

    @property
    def _known(self) -> bool:
        """Whether it is a known chart, whose nodes are coordinates."""
        return self._member.name == "chart" and self._member.surface.limit is None

    @cached_property
    def _glued(self) -> np.ndarray | None:
        """Numbers of the nodes of a known chart, in which both ends of a periodic coordinate are one node."""
        surface = self._member.surface
        if surface.period is None or surface.unknowns is None:
            return None
        glued = np.empty(len(surface.nodes), int)
        glued[surface.cells] = surface.unknowns[:, : surface.dim + 1]
        return np.unique(glued, return_inverse=True)[1]

    @cached_property
    def _linear(self) -> Surface:
        """The surface with functions that are linear in cells."""
        return replace(self._member.surface, unknowns=None)

    @cached_property
    def _unit(self) -> float:
        """The unit of the rows that the surface was learned from, in those of X; 1 where columns have their own."""
        units = np.unique(np.asarray(self._scale) * self._cloud.unit)
        return 1.0 if self._known or len(units) > 1 else float(units[0])

    @cached_property
    def _unit_of_spectrum(self) -> float:
        """The unit of lengths in which eigenfunctions were computed: charts of minute clouds have one of their own."""
        if self._known or self._member.name != "chart":
            return self._unit
        assert self._member.details is not None
        return self._unit * float(self._member.details.content["model"].unit_)

    def project(self, X: Any) -> Location:
        """The nearest points of the surface to rows X [n, p].

        Each lies between the nodes `nodes` [n, j] with `weights` [n, j]; `distance` [n] is how far the row is from it,
        and `far` [n] whether that is so far that predictions there are the prior's.
        """
        rows = checks.cloud(X, "X", columns=self._cloud.X.shape[1])
        located = self._linear.project(self._cloud._scaled(rows) / self._scale)
        away, scale = located.distance, np.unique(self._member.surface.scale)
        if len(scale) == 1:
            away = away * scale[0]
        else:  # the nearest point is that in scaled columns
            nearest = np.einsum("nj,njp->np", located.weights, self._member.surface.positions[located.nodes])
            away = np.linalg.norm(self._cloud._scaled(rows) / self._scale - nearest, axis=1)
        nodes = located.nodes if self._glued is None else self._glued[located.nodes]
        return replace(located, nodes=nodes, distance=away * self._unit)

    @cached_property
    def volume(self) -> float:
        """Length, area or volume of the surface on which its heaviest kernel was computed."""
        return self._spectrum.volume

    def spectrum(self, n: int | None = None) -> Spectrum:
        """The first n eigenvalues of -Δ and their eigenfunctions; None: all that the model has.

        They are those of the fit, in the heaviest domain of the surface: a learned chart has its expected metric.
        """
        spectrum = self._spectrum
        if n is None:
            return spectrum
        checks.integer(n, "n", 1, None, "None is every eigenpair that the model has")
        if n > len(spectrum.values):
            raise GpumError(
                f"n is {n}, but the fit computed {len(spectrum.values)} eigenpairs of the {self.title}; ask for fewer, "
                f"or fit with kernel=KernelOptions(n_modes={n})"
            )
        return replace(spectrum, values=spectrum.values[:n], functions=spectrum.functions[:, :n])

    @cached_property
    def _spectrum(self) -> Spectrum:
        candidate_set = self._model.geometries.candidate_set
        weights = {
            k: 0.0
            for k, space in enumerate(candidate_set.spaces)
            if candidate_set.geometry_of[k] == self._number
            and isinstance(space, NodeFeatures) and space.eigenvalues is not None
        }  # fmt: skip
        for candidate in candidate_set.candidates:  # decides where the kernel without a boundary has all the weight
            if candidate.space in weights:
                weights[candidate.space] += 1e-12 * np.exp(candidate.log_prior)
        for output in self._model.outputs:
            for component in output.posterior.components:
                if component.candidate.space in weights:
                    weights[component.candidate.space] += component.weight
        if not weights:
            raise GpumError(
                f"no kernel of the {self.title} with weight is made of eigenfunctions; fit with kernel='spectral', or "
                "take the fit itself, whose file holds what has weight alone"
            )
        heaviest: Any = candidate_set.spaces[max(weights, key=lambda k: weights[k])]
        q, unit = self.dim, self._unit_of_spectrum
        values, functions = heaviest.eigenvalues / unit**2, np.asarray(heaviest.values_at_nodes, float)
        functions = functions * unit ** (-q / 2)
        constant = np.abs(functions[:, ~varying(values)]).max(0)  # 1/√volume, each on its connected component
        volume = float(np.sum(1 / constant**2))
        return Spectrum(values, functions, _Unknowns(self), volume)

    @cached_property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        surface = self._member.surface
        if not len(self._cells):
            raise GpumError(f"the {self.title} has nodes but no cells, as above three dimensions; it has no geodesics")
        cells, glued = self._cells, self.cells
        sides = list(combinations(range(self.dim + 1), 2))
        pairs = np.sort(np.concatenate([glued[:, side] for side in sides]), 1)
        pairs, first = np.unique(pairs, axis=0, return_index=True)
        ends = np.concatenate([cells[:, side] for side in sides])[first]
        proper = pairs[:, 0] < pairs[:, 1]
        pairs, ends = pairs[proper], ends[proper]
        if self._known:
            from ..manifold.chart import lengths  # which needs JAX

            at = surface.positions
            return pairs, lengths(self._model.geometries.chart(self._number), at[ends[:, 0]], at[ends[:, 1]])
        scale = np.unique(surface.scale)
        steps = distance(surface.nodes, ends) * scale[0] if len(scale) == 1 else distance(surface.positions, ends)
        return pairs, self._unit * steps

    def elements(self) -> tuple[csr_matrix, csr_matrix]:
        """Stiffness and mass [V, V] of linear elements; an edge of no cell is as wide as a usual side."""
        long = self._sides[1]
        cells, n = self.cells, len(self.nodes)
        side = lambda a, b: long[self._cells_with_lengths.side(a, b)]
        line = cells[:, -1] == cells[:, -2]
        lines, solid = cells[line][:, :2], cells[~line]
        lines = lines[lines[:, 0] != lines[:, 1]]
        squares = np.zeros((len(solid), self.dim + 1, self.dim + 1))
        for i, j in combinations(range(self.dim + 1), 2):
            squares[:, i, j] = squares[:, j, i] = side(solid[:, i], solid[:, j]) ** 2
        volume, stiffness = of_distances(squares)
        step = side(lines[:, 0], lines[:, 1])
        width = float(np.median(long)) ** (self.dim - 1)
        bars = (width / step)[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return on_cells([(solid, volume, stiffness), (lines, width * step, bars)], n)


class _Unknowns:
    """Where rows lie between the values of a surface's eigenfunctions."""

    def __init__(self, surface: FittedSurface) -> None:
        self._surface, self.dim = surface, surface.dim

    @property
    def nodes(self) -> np.ndarray:
        """The nodes of the surface in the data space, [V, p]."""
        return self._surface.nodes

    def project(self, X: Any) -> Location:
        """Values of the functions that rows X [n, p] lie between."""
        rows = checks.cloud(X, "X", columns=self._surface._cloud.X.shape[1])
        return self._surface._member.surface.project(self._surface._cloud._scaled(rows) / self._surface._scale)


def surfaces(model: FittedModel) -> list[FittedSurface]:
    """The surfaces of a fitted model that have weight, the heaviest first."""
    heavy = [
        FittedSurface(model, k, title, float(weight))
        for k, (title, weight) in enumerate(zip(model.geometries.titles, model.weights.mean(0), strict=True))
        if weight > 0 and isinstance(bare(model.geometries.members[k])[0], SurfaceGeometry)
    ]
    return sorted(heavy, key=lambda surface: -surface.weight)
