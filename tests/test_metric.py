"""The learned metric: expectation, derivative, distribution, draws."""

import jax
import numpy as np
import pytest

from gpum.manifold import drift, evaluate, metric

POINTS = np.array([[0.0, 0.0], [0.7, -0.4], [-1.2, 1.0], [2.5, 2.5]])


@pytest.mark.parametrize("x", POINTS)
def test_metric_is_the_mean_of_the_jacobian_products(roll_model, x):
    mean, cov = roll_model.chart_.jacobian(x)
    scale = roll_model.chart_.mapping.scale
    expected = mean.T @ mean + np.sum(scale**2) * cov
    np.testing.assert_allclose(roll_model.chart_.metric(x), expected, rtol=1e-8)


@pytest.mark.parametrize("x", POINTS)
def test_derivative_equals_autodiff(roll_model, x):
    chart = roll_model.chart_
    with jax.enable_x64(True):
        exact = jax.jacfwd(lambda y: metric.expected_metric(chart.mapping, y))(x)
    np.testing.assert_allclose(chart.metric_derivative(x), exact, atol=1e-10 * np.abs(exact).max())


def test_mean_jacobian_is_the_derivative_of_the_mean(roll_model):
    chart, x = roll_model.chart_, POINTS[1]
    with jax.enable_x64(True):
        expected = jax.jacfwd(chart.mapping.mean)(x)
    np.testing.assert_allclose(chart.jacobian(x)[0], expected, rtol=1e-9, atol=1e-9)


def test_wishart_draws_have_the_stated_mean_and_variance(roll_model):
    """Mean G; variance of g_aa for a non-central Wishart: 2 p Σ_aa² + 4 Σ_aa (E[J]ᵀE[J])_aa."""
    chart, x, n = roll_model.chart_, np.array([2.4, 1.9]), 20_000
    draws = chart.metric_draws(jax.random.key(0), x, n)
    mean, cov = chart.jacobian(x)
    cov, p = cov * chart.mapping.scale[0] ** 2, len(chart.mapping.scale)
    error = draws.std(0) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(0) - chart.metric(x)) < 4 * error)
    variance = 2 * p * np.diag(cov) ** 2 + 4 * np.diag(cov) * np.diag(mean.T @ mean)
    squares = (np.einsum("naa->na", draws) - np.diag(chart.metric(x))) ** 2
    assert np.all(np.abs(squares.mean(0) - variance) < 4 * squares.std(0) / np.sqrt(n))


def test_random_geometry_averages_to_the_metric(roll_model):
    chart, x, n = roll_model.chart_, np.array([1.0, 0.5]), 400
    draws = np.array([chart.draw(jax.random.key(k)).metric(x) for k in range(n)])
    error = draws.std(0) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(0) - chart.metric(x)) < 4 * error + 1e-9)
    assert np.all(error > 0)


def test_float64_without_global_configuration(roll_model):
    chart, x = roll_model.chart_, POINTS[1]
    assert not jax.config.jax_enable_x64
    exact = chart.metric(x)
    assert isinstance(exact, np.ndarray)
    assert exact.dtype == np.float64
    mapped = jax.jit(jax.vmap(chart.metric))(POINTS[1:2].astype(np.float32))
    np.testing.assert_allclose(np.asarray(mapped)[0], exact, rtol=1e-5)
    np.testing.assert_allclose(evaluate(chart, "metric", POINTS)[1], exact, rtol=1e-9)
    assert drift(chart, x).dtype == np.float64
