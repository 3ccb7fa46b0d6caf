"""Analytic charts: the truth is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpum import EmbeddedChart, SwissRoll, heat_kernel
from gpum.manifold import drift, evaluate, inverse_root, length, magnification, volume
from oracles import CIRCLE, CYLINDER, RECTANGLE, SPHERE, TORUS, Disc, disc_kernel


@pytest.mark.parametrize(
    ("chart", "area"),
    [
        (RECTANGLE, 12.0),
        (CIRCLE, 4 * np.pi),
        (CYLINDER, 4 * np.pi),
        (TORUS, 12 * np.pi**2),
        (SPHERE, 4 * np.pi),
        (SwissRoll(), 12 * np.ptp(SwissRoll.arc_length([2, 12.5]))),
    ],
)
def test_volume(chart, area):
    assert volume(chart) == pytest.approx(area, rel=1e-4)


def test_swiss_roll_metric_and_drift_of_appendix_e():
    r = 5.0
    chart, x = SwissRoll(), np.array([r, 2.0])
    np.testing.assert_allclose(chart.metric(x), [[1 + r**2, 0], [0, 1]])
    np.testing.assert_allclose(drift(chart, x), [-0.5 * r / (1 + r**2) ** 2, 0], atol=1e-14)
    embedded = EmbeddedChart(lambda y: jnp.stack([y[0] * jnp.cos(y[0]), y[0] * jnp.sin(y[0]), y[1]]), chart.bounds)
    np.testing.assert_allclose(embedded.metric(x), chart.metric(x), atol=1e-12)
    np.testing.assert_allclose(embedded.metric_derivative(x), chart.metric_derivative(x), atol=1e-10)
    along = length(chart, [2.0, 1.0], [12.5, 1.0], n=32)
    assert along == pytest.approx(np.ptp(chart.arc_length([2, 12.5])), rel=1e-10)


def test_sphere_drift_and_root():
    x = np.array([0.6, 1.0])
    np.testing.assert_allclose(drift(SPHERE, x), [-0.5 * np.tan(0.6), 0], atol=1e-12)
    np.testing.assert_allclose(inverse_root(SPHERE, x), np.diag([1, 1 / np.cos(0.6)]), atol=1e-12)
    assert magnification(SPHERE, x) == pytest.approx(np.cos(0.6))


@pytest.mark.parametrize("chart", [TORUS, SPHERE, SwissRoll()])
def test_drift_is_the_divergence_of_eq_bm(chart):
    """½ G^{-1/2} Σ_j ∂_j (G^{1/2} G^{ij}), differentiated as it stands."""
    x = np.array([2.2, 0.4]) if isinstance(chart, SwissRoll) else np.array([0.5, 0.4])
    with jax.enable_x64(True):

        def flux(y):
            G = chart.metric(y)
            return jnp.sqrt(jnp.linalg.det(G)) * jnp.linalg.inv(G)

        expected = 0.5 / magnification(chart, x) * jnp.einsum("ijj->i", jax.jacfwd(flux)(x))
    np.testing.assert_allclose(drift(chart, x), expected, atol=1e-12)


def test_inside():
    assert SwissRoll().inside([5, 3])
    assert not SwissRoll().inside([1, 3])
    assert CYLINDER.inside([100.0, 1.0])  # an angle has no end
    assert not CYLINDER.inside([1.0, 2.1])
    assert evaluate(RECTANGLE, "inside", np.array([[0.5, 1], [0.5, 4]])).tolist() == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spectral", "brownian"])
def test_box_metric_and_inside_make_a_chart(method):
    """A subclass that says nothing of angles has none."""
    disc = Disc(np.zeros(2))
    assert disc.periodic == (False, False)
    starts = np.array([[0.0, 0.0], [0.5, 0.3]])
    kernel = heat_kernel(disc, starts, None, 5.0, method, n_paths=2000, random_state=0)
    np.testing.assert_allclose(kernel, 1 / np.pi, rtol=0.05)  # the heat is spread evenly


@pytest.mark.slow
def test_kernels_at_a_curved_edge_before_equilibrium():
    """Near the rim of a disc, against its Bessel series: mirrored steps leave no bias of order √dt there.

    Steps drawn again would deplete the rim by √dt of the peak, 7 % at the larger step. The hundredth is that of the
    histogram's cells.
    """
    disc, t = Disc(np.zeros(2)), 0.3
    points = np.array([[0.95, 0.0], [0.95 * np.cos(0.4), 0.95 * np.sin(0.4)], [0.2, 0.1]])
    exact = disc_kernel(points, points, t)
    assert np.ptp(exact) > 2 / np.pi  # far from even
    spectral = heat_kernel(disc, points, None, t, "spectral")[0]
    assert np.abs(spectral - exact).max() < 0.003 * exact.max()
    for dt in (0.005, 0.00125):
        options = {"n_paths": 20_000, "step_size": dt, "random_state": 0, "return_std": True}
        kernel, std = heat_kernel(disc, points, None, t, "brownian", **options)
        assert np.all(np.abs(kernel[0] - exact) < 4 * std[0] + 0.01 * exact.max())


def test_bad_domains_are_refused():
    with pytest.raises(ValueError, match="low < high"):
        EmbeddedChart(lambda x: x, [(1, 0)])
    with pytest.raises(ValueError, match="pairs"):
        EmbeddedChart(lambda x: x, [0, 1])
    with pytest.raises(ValueError, match="periodic has 1"):
        EmbeddedChart(lambda x: x, [(0, 1), (0, 1)], (True,))
