"""The chart that a latent model learns: the posterior of φ with a boundary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..basics.device import of_arrays
from ..gplvm.mapping import Mapping
from . import metric
from .boundary import Boundary, CorridorBoundary
from .chart import Chart
from .complex import Complex, complex_of
from .precision import float64, points


@partial(jax.tree_util.register_dataclass, data_fields=["mapping", "boundary"], meta_fields=[])
@dataclass(frozen=True)
class LearnedChart(Chart):
    """Expected metric and inside test of a learned surface; also its random geometry."""

    mapping: Mapping
    boundary: Boundary

    @property
    def bounds(self) -> np.ndarray:
        return np.asarray(self.boundary.bounds)

    @float64
    @of_arrays
    def metric(self, x: Any) -> Any:
        return metric.expected_metric(self.mapping, points(x))

    @float64
    def metric_derivative(self, x: Any) -> Any:
        """∂G_ab/∂x_l in closed form, [q, q, q]."""
        return metric.expected_metric_derivative(self.mapping, jnp.asarray(x, float))

    @float64
    @of_arrays
    def inside(self, x: Any) -> Any:
        return self.boundary.inside(points(x), self.mapping)

    @float64
    @of_arrays
    def mean(self, x: Any) -> Any:
        """E φ(x), the point of the surface in the data space, [p]."""
        return self.mapping.mean(points(x))

    @float64
    @of_arrays
    def variance(self, x: Any) -> Any:
        """Var φ(x) of one column in the model's units: how well the surface is known at x."""
        return self.mapping.variance(points(x))

    @float64
    def jacobian(self, x: Any) -> Any:
        """Mean E[J] [p, q] and covariance Σ_J [q, q] of the Jacobian's rows."""
        return metric.jacobian(self.mapping, jnp.asarray(x, float))

    @float64
    def metric_draws(self, key: Any, x: Any, n: int) -> Any:
        """n draws of the metric at x from its non-central Wishart distribution, [n, q, q].

        Draws at different points are independent; for a smooth random geometry use `draw`.
        """
        return metric.wishart_draws(key, self.mapping, jnp.asarray(x, float), n)

    @float64
    def draw(self, key: Any) -> LearnedChart:
        """A random geometry: the chart given one draw of q(U), smooth in x, the boundary unchanged.

        The mean over draws of its metric is this chart's metric.
        """
        return replace(self, mapping=self.mapping.draw(key))

    def complex(self) -> Complex | None:
        """The inside as simplices and corridors on the rows; None for a boundary that is not made of them."""
        return complex_of(self.boundary) if isinstance(self.boundary, CorridorBoundary) else None

    def with_level(self, level: float) -> LearnedChart:
        """The same chart with its boundary at another level (see `CorridorBoundary`)."""
        return replace(self, boundary=self.boundary.at(level))
