"""The paper's heat-kernel experiment (its section on the transition density): learned metrics against the exact kernel.

250 grid points of the Swiss roll; from r = 6, z = 3, at t = 50, to 29 targets at r = 2.5, 2.75, ..., 9.5. The exact
kernel has no boundary in z. A learned metric is known between the data only: beyond their width it continues as it is
at the edge, for three widths on either side, more than paths and heat travel by t = 50.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpum import GPLVM, BayesianGPLVM, datasets, heat_kernel
from gpum.geometry import Chart
from oracles import ROLL, interval_kernel

TIME = 50.0
RADII = 6 + 0.25 * np.arange(-14, 15)


@partial(jax.tree_util.register_dataclass, data_fields=["base"], meta_fields=["low", "high", "axis"])
@dataclass(frozen=True)
class Widened(Chart):
    """A chart on the box [low, high] whose metric goes on unchanged, three widths either way, along `axis`."""

    base: Any
    low: tuple[float, ...]
    high: tuple[float, ...]
    axis: int

    @property
    def bounds(self):
        box = np.stack([self.low, self.high], 1)
        box[self.axis] += np.array([-3, 3]) * np.ptp(box[self.axis])
        return box

    @property
    def periodic(self):
        return (False, False)

    def metric(self, x):
        return self.base.metric(jnp.clip(jnp.asarray(x), np.array(self.low), np.array(self.high)))

    def inside(self, x):
        return jnp.all((jnp.asarray(x) >= self.bounds[:, 0]) & (jnp.asarray(x) <= self.bounds[:, 1]))


@pytest.fixture(scope="module", params=[BayesianGPLVM, GPLVM])
def learned(request):
    """Name of the model, its chart without a boundary in z, and the 29 targets in it."""
    cloud = datasets.make_swiss_roll(n_labeled=0, n_unlabeled=250, random_state=0)
    model = request.param(random_state=0).fit(cloud.X)
    X = model.latent_
    across = int(np.argmax([abs(np.corrcoef(x, cloud.chart_coords[:, 1])[0, 1]) for x in X.T]))
    low, high = X.min(0), X.max(0)
    ends = X.reshape(25, 10, 2)[[0, -1], :, 1 - across].mean(1)  # where r is 2 and 12.5
    low[1 - across], high[1 - across] = sorted(ends)
    chart = Widened(model.chart_, tuple(low), tuple(high), across)
    places = np.stack([RADII * np.cos(RADII), RADII * np.sin(RADII), np.full(len(RADII), 3.0)], 1)
    return request.param.__name__, chart, model.transform(places)


def rms(kernel):
    low, high = ROLL.arc_length(ROLL.r)
    along = interval_kernel(ROLL.arc_length(6.0) - low, ROLL.arc_length(RADII) - low, TIME, float(high - low))
    return float(np.sqrt(np.mean((kernel[0, 0] - along / np.sqrt(2 * np.pi * TIME)) ** 2)))


@pytest.mark.slow
def test_spectral_kernel(learned):
    name, chart, targets = learned
    found = rms(heat_kernel(chart, targets[14:15], targets, TIME, "spectral"))
    print(f"{name}, spectral: rms difference {found:.2e}")
    assert found < (1e-5 if name == "BayesianGPLVM" else 1.2e-3)


@pytest.mark.slow
def test_brownian_kernel(learned):
    name, chart, targets = learned
    found = [rms(heat_kernel(chart, targets[14:15], targets, TIME, "brownian", random_state=k)) for k in range(3)]
    print(f"{name}, Brownian, 20 000 paths, three seeds: rms differences {', '.join(f'{x:.2e}' for x in found)}")
    assert max(found) < (5e-5 if name == "BayesianGPLVM" else 1.2e-3)
