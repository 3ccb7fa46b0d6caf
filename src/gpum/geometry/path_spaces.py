"""Spaces of Brownian paths on charts, and the candidates on them.

Along curves paths jump from node to node, and their law is known: its eigenfunctions are a space like those of the
surface itself. In domains of more dimensions it is estimated by histograms of paths. Heat kernels come at TIMES times
from the same paths; a Matérn kernel is a gamma mixture of heat kernels over time,

    (2ν/κ² + λ)^{-ν-q/2} ∝ ∫ t^{ν+q/2-1} e^{-νt/κ²} e^{-λt/2} dt
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from ..heat.covariances import Features
from ..heat.elements import linear_nodes
from ..heat.spectra import smoothness_of
from ..heat.surfaces import SurfaceNodes
from ..manifold.chart import Chart
from ..manifold.learned import LearnedChart
from .candidate_set import Candidate
from .chart_mesh import with_middles
from .features import NodeFeatures


@dataclass(frozen=True)
class PathFeatures:
    """Features from paths at the nodes of a surface, [V, k] at each time."""

    times: np.ndarray
    at_nodes: list[np.ndarray]


def of_jumps(nodes: SurfaceNodes, n_modes: int, points: np.ndarray, ends: np.ndarray | None) -> NodeFeatures:
    """Eigenfunctions of the jump process along curves at `points`, and in the middle of each of the sides `ends`."""
    spectrum = nodes.spectrum(n_modes, lumped=True)
    values = spectrum.at(points)
    return NodeFeatures((values if ends is None else with_middles(values, ends)).astype(np.float32), spectrum.values)


def of_paths(
    paths: PathFeatures, places: np.ndarray, dim: int, smoothness: Sequence[str], log_prior: float, **about: Any
) -> tuple[Any, np.ndarray, Any]:
    """A space, the rows of the cloud (at `places` between nodes) in it, and the candidates on it."""
    space = NodeFeatures(np.concatenate(paths.at_nodes, 1).astype(np.float32))
    rows, sizes = space.at(places), [block.shape[1] for block in paths.at_nodes]
    return space, rows, path_candidates(paths.times, sizes, rows, dim, smoothness, log_prior, **about)


def path_levels(
    chart: Chart, levels: Sequence[tuple[float | None, float]]
) -> list[tuple[float | None, SurfaceNodes | None, float]]:
    """Boundary levels at which paths are simulated, the nodes of domains that are curves, and log prior weights.

    Where a domain is made of curves alone, paths jump from node to node, and it is left out if it is not connected.
    Elsewhere paths take steps in the chart.
    """
    usable: list[tuple[float | None, SurfaceNodes | None, float]] = []
    for level, log_prior in levels:
        at = chart.with_level(level) if level is not None and isinstance(chart, LearnedChart) else chart
        inside = at.complex()
        nodes = None if inside is None else linear_nodes(at, inside)
        if nodes is None or (inside is not None and inside.n_connected_components() == 1):
            usable.append((level, nodes, log_prior))
    return usable


def path_candidates(
    times: np.ndarray, sizes: Sequence[int], cloud: np.ndarray, dim: int, smoothness: Sequence[str],
    log_prior: float = 0.0, **about: Any,
) -> list[Candidate]:  # fmt: skip
    """Heat kernels at each of the times, and Matérn kernels as mixtures of them; features of time k fill sizes[k]."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    blocks = [slice(a, b) for a, b in pairwise(ends)]
    power = np.array([np.mean(np.sum(cloud[:, block] ** 2, 1)) for block in blocks])
    scales = np.sqrt(times)
    candidates = []
    for name in smoothness:
        weight = log_prior - log(len(smoothness)) - log(len(times))
        make: Callable[..., Candidate] = partial(
            Candidate, 0, log_prior=weight, smoothness=name, scales=(float(scales[0]), float(scales[-1])), **about
        )
        for k, scale in enumerate(scales):
            if np.isinf(smoothness_of(name)):
                covariance = Features(np.asarray(1 / power[k]), blocks[k], float(scale))
                candidates.append(make(covariance, open_ends=("low", "high")))
            else:
                # times are in equal ratios: the integral over log t is a plain sum
                a, rate = smoothness_of(name) + dim / 2, smoothness_of(name) / scale**2
                log_w = a * np.log(times) - rate * times
                w = np.exp(log_w - log_w.max())
                candidates.append(make(Features(np.repeat(w / (w @ power), sizes), scale=float(scale))))
    return candidates
