"""The paper's comparison of heat kernels: exact, from learned metrics, and from graph Laplacians.

From r = 6, z = 3 at t = 50 to 29 targets at r = 2.5, 2.75, ..., 9.5 on the same line. In the paper the roll has no
edges in z; a cloud has edges, and so has its graph. Both settings are shown:

    no edges in z   the exact kernel of the roll times that of a line; a learned metric is known between the data only,
                    so it is continued with its value at the edge, for three widths on either side
    edges           the exact kernel of the roll with reflecting edges; learned charts with their own boundary; GL
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpum import GPLVM, BayesianGPLVM, Chart, SwissRoll, heat_kernel
from gpum.datasets import make_swiss_roll
from gpum.tools import bandwidth_grid, diffusion_space, swiss_roll_points

TIME = 50.0
RADII = 6 + 0.25 * np.arange(-14, 15)
START = 14  # of the targets
TARGETS = np.stack([RADII, np.full(len(RADII), 3.0)], 1)
ROLL = SwissRoll()
PRINTED = {"B-GPLVM": 7.4e-5, "GPLVM": 1.2e-3}  # rms differences of the paper, no edges in z
MODELS = {"B-GPLVM": BayesianGPLVM, "GPLVM": GPLVM}
GRAPH_GRIDS = {250: (25, 10), 1000: (50, 20), 10_000: (200, 50)}  # along and across
GRAPH_PAIRS = 60
GRAPH_BANDWIDTHS = 5


@partial(jax.tree_util.register_dataclass, data_fields=["base"], meta_fields=["low", "high", "axis"])
@dataclass(frozen=True)
class Widened(Chart):
    """A chart on the box [low, high] whose metric is continued, constant, three widths either way along `axis`."""

    base: Any
    low: tuple[float, ...]
    high: tuple[float, ...]
    axis: int

    @property
    def bounds(self) -> np.ndarray:
        """The box, extended by three widths on either side."""
        box = np.stack([self.low, self.high], 1)
        box[self.axis] += np.array([-3, 3]) * np.ptp(box[self.axis])
        return box

    def metric(self, x: Any) -> Any:
        """The metric at the nearest point of the box."""
        return self.base.metric(jnp.clip(jnp.asarray(x), np.array(self.low), np.array(self.high)))

    def inside(self, x: Any) -> Any:
        """Whether x is within the bounds."""
        return jnp.all((jnp.asarray(x) >= self.bounds[:, 0]) & (jnp.asarray(x) <= self.bounds[:, 1]))


def exact(edges: bool) -> np.ndarray:
    """The exact kernel at the targets, [29]."""
    if edges:
        return ROLL.heat_kernel(TARGETS[START], TARGETS, TIME)[0, 0]
    strip = SwissRoll(z=(-200.0, 206.0))  # edges so far away that no heat reaches them
    return strip.heat_kernel(TARGETS[START], TARGETS, TIME)[0, 0]


def learn(name: str, random_state: int = 0) -> tuple[Any, np.ndarray, Widened]:
    """A latent model's chart of 250 grid points, the targets in it, and the chart without edges in z."""
    cloud = make_swiss_roll(n_labeled=0, n_unlabeled=250, random_state=random_state)
    model = MODELS[name](random_state=random_state).fit(cloud.X)
    X = model.latent_
    across = int(np.argmax([abs(np.corrcoef(x, cloud.chart_coords[:, 1])[0, 1]) for x in X.T]))
    low, high = X.min(0), X.max(0)
    ends = X.reshape(25, 10, 2)[[0, -1], :, 1 - across].mean(1)  # where r is 2 and 12.5
    low[1 - across], high[1 - across] = sorted(ends)
    targets = model.transform(swiss_roll_points(TARGETS))
    return model.chart_, targets, Widened(model.chart_, tuple(low), tuple(high), across)


def on_chart(chart: Chart, targets: np.ndarray, method: str, n_paths: int, random_state: int = 0) -> np.ndarray:
    """The kernel of a chart at the targets, [29]."""
    return heat_kernel(
        chart, targets[START : START + 1], targets, TIME, method, n_paths=n_paths, random_state=random_state
    )[0, 0]


def on_graph(n: int) -> tuple[np.ndarray, float]:
    """GL's kernel at the targets, [29], at the bandwidth with the smallest error, and that bandwidth.

    Appendix G: eigenvectors have ∫φ² = 1 by the number of points within ε; GL has ∂K/∂t = ΔK, hence t/2.
    """
    along, across = GRAPH_GRIDS[n]
    r, z = np.linspace(*ROLL.r, along), np.linspace(*ROLL.z, across)
    cloud = swiss_roll_points(np.stack(np.meshgrid(r, z, indexing="ij"), -1).reshape(-1, 2))
    cloud = np.concatenate([swiss_roll_points(TARGETS), cloud])
    best, chosen = None, 0.0
    for bandwidth in bandwidth_grid(cloud, GRAPH_BANDWIDTHS):
        space = diffusion_space(cloud, bandwidth, min(GRAPH_PAIRS, n))
        phi = space.vectors[: len(TARGETS)]
        kernel = (phi[START] * np.exp(-space.values * TIME / 2)) @ phi.T / space.area()
        if best is None or rms(kernel, exact(True)) < rms(best, exact(True)):
            best, chosen = kernel, float(bandwidth)
    assert best is not None
    return best, chosen


def rms(kernel: np.ndarray, truth: np.ndarray) -> float:
    """Root mean squared difference over the targets."""
    return float(np.sqrt(np.mean((kernel - truth) ** 2)))
