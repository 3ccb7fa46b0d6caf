"""Gradients along the surface, and draws of the function that can be called with any rows."""

import numpy as np
import pytest

from gpum import EuclideanGPRegressor, GpumError, GPUMRegressor, GraphLaplacianGPRegressor, Mesh, SwissRoll
from gpum.geometry.candidate_set import Candidate, CandidateSet
from gpum.heat.covariances import Spectral, Stationary
from gpum.inference import gp
from gpum.inference.gradients import slopes_between, slopes_within
from shapes import sphere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
X /= np.linalg.norm(X, axis=1)[:, None]
TRUTH = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
Y = np.where(np.arange(120) < 50, TRUTH + 0.02 * RNG.normal(size=120), np.nan)
NEW = RNG.normal(size=(25, 3))
NEW /= np.linalg.norm(NEW, axis=1)[:, None]


@pytest.fixture(scope="module", params=["mesh", "atlas", "flat", "graph"])
def model(request):
    geometry = Mesh(*sphere(3)) if request.param == "mesh" else request.param
    return GPUMRegressor(2, geometry=geometry, random_state=0).fit(X, Y)


@pytest.mark.parametrize("model", ["mesh", "atlas", "flat"], indirect=True)
def test_gradient_is_that_of_the_prediction(model):
    """Against finite differences of `predict`, along random steps in the tangent plane."""
    gradient = model.predict_gradient(NEW)
    step = np.cross(NEW, RNG.normal(size=3))
    h = 1e-5 * step / np.linalg.norm(step, axis=1)[:, None]
    found = (model.predict(NEW + h) - model.predict(NEW - h)) / 2e-5
    exact = np.sum(gradient * h, 1) / 1e-5
    # where a step crosses the edge of a simplex, the gradient is another one: one or two of 25 rows
    off = np.abs(found - exact)
    moved = "atlas" in model.geometry_weights_  # its rows are moved a little before they are projected
    assert np.quantile(off, 0.9) < (1e-2 if moved else 1e-4) * np.abs(found).max()
    assert off.max() < 0.1 * np.abs(found).max()


def test_gradient_is_near_the_true_one(model):
    exact = np.column_stack([NEW[:, 1], NEW[:, 0], np.full(25, 0.5)])
    exact -= np.sum(exact * NEW, 1)[:, None] * NEW
    found, std = model.predict_gradient(NEW, return_std=True)
    found = found - np.sum(found * NEW, 1)[:, None] * NEW  # flat space also has a derivative across the sphere
    assert found.shape == std.shape == (25, 3)
    assert np.all(std > 0)
    limit = {"mesh": 0.1, "atlas": 0.15, "flat": 0.1, "graph": 0.35}[next(iter(model.geometry_weights_))]
    assert np.sqrt(np.mean((found - exact) ** 2)) < limit * np.sqrt(np.mean(exact**2)) + 0.05


@pytest.mark.parametrize("covariance", [Stationary(np.inf, 0.7), Stationary(2.5, 0.7), Stationary(1.5, 0.7)])
def test_slopes_of_stationary_kernels(covariance):
    a, b = RNG.normal(size=(4, 2)), RNG.normal(size=(5, 2))
    D = np.broadcast_to(np.eye(2), (4, 2, 2))
    h = 1e-4
    moved = np.stack([covariance.gram(a + h * e, b) - covariance.gram(a - h * e, b) for e in np.eye(2)], 1) / (2 * h)
    np.testing.assert_allclose(slopes_between(covariance, a, D, b), moved, atol=1e-6)
    for k, e in enumerate(np.eye(2)):  # Var of (f(a + he) - f(a - he)) / 2h
        variance = 2 * (covariance.diag(a[:1]) - covariance.gram(a[:1] + h * e, a[:1] - h * e)[0]) / (4 * h**2)
        np.testing.assert_allclose(slopes_within(covariance, a, D, 1.0)[0, k, k], variance, rtol=2e-3)


def test_slopes_of_bounded_features():
    rng = np.random.default_rng(1)
    covariance = Spectral(
        np.array([0.0, 1, 2, 3]), np.ones(4), 1.5, 2.0, 0.6, offsets=np.array([0.3, 0, 0, 0]), bound=0.8
    )
    a, b, D = rng.normal(size=(6, 4)), rng.normal(size=(5, 4)), rng.normal(size=(6, 2, 4))
    h = 1e-6
    moved = np.stack([covariance.gram(a + h * D[:, s], b) - covariance.gram(a - h * D[:, s], b) for s in (0, 1)], 1)
    np.testing.assert_allclose(slopes_between(covariance, a, D, b), moved / (2 * h), atol=1e-7)
    F = np.stack([covariance.features(a + h * D[:, s]) - covariance.features(a - h * D[:, s]) for s in (0, 1)], 1) / (
        2 * h
    )
    np.testing.assert_allclose(slopes_within(covariance, a, D, 1.0), F @ F.transpose(0, 2, 1), atol=1e-6)


def test_deviation_of_a_gradient():
    """One smooth kernel: the posterior variance of (f(x + h) - f(x - h)) / 2h, from the joint covariance."""
    x = np.linspace(0, 3, 8)[:, None]
    model = EuclideanGPRegressor(hyperparameters="evidence").fit(x, np.sin(2 * x[:, 0]))
    at, h = np.array([[0.7], [1.9]]), 1e-3
    found, std = model.predict_gradient(at, return_std=True)
    for k in (0, 1):
        mean, cov = model.predict(np.array([at[k] - h, at[k] + h]), return_cov=True, include_noise=False)
        slope = np.array([-1, 1]) / (2 * h)
        assert found[k, 0] == pytest.approx(slope @ mean, rel=1e-3)
        assert std[k, 0] == pytest.approx(np.sqrt(slope @ cov @ slope), rel=0.02)


def test_gradients_in_units_of_the_columns_and_outputs():
    """X in other units and offsets, two outputs."""
    scale, offset = np.array([1.0, 100.0, 0.01]), np.array([0.0, 5.0, 1e4])
    y = np.column_stack([Y, -2 * Y])
    model = GPUMRegressor(geometry="flat", scale="standard", random_state=0).fit(X * scale + offset, y)
    found, std = model.predict_gradient(NEW[:4] * scale + offset, return_std=True)
    assert found.shape == std.shape == (4, 3, 2)
    np.testing.assert_allclose(found[:, :, 1] * scale, -2 * found[:, :, 0] * scale, rtol=1e-4, atol=1e-4)
    h = 1e-4 * scale[1]
    up, down = (model.predict(NEW[:4] * scale + offset + sign * np.array([0, h, 0])) for sign in (1, -1))
    np.testing.assert_allclose(found[:, 1], (up - down) / (2 * h), rtol=1e-4, atol=1e-8)


def test_gradient_in_a_known_chart():
    chart = SwissRoll()
    rows = np.random.default_rng(0).uniform(*chart.bounds.T, (80, 2))
    model = GPUMRegressor(latent_model=chart, random_state=0).fit(rows, np.sin(rows[:, 0]) + 0.1 * rows[:, 1])
    middle = np.array([[5.03, 6.11], [9.13, 4.17]])
    found = model.predict_gradient(middle)
    h = 1e-5 * np.eye(2)
    moved = np.stack([(model.predict(middle + e) - model.predict(middle - e)) / 2e-5 for e in h], 1)
    np.testing.assert_allclose(found, moved, rtol=1e-4)
    np.testing.assert_allclose(found, np.column_stack([np.cos(middle[:, 0]), [0.1, 0.1]]), atol=0.15)


def test_what_has_no_gradient_is_refused():
    y = np.arange(30) % 5
    for options, words in (({"likelihood": "poisson"}, "counts"), ({"period": 5.0}, "angles")):
        with pytest.raises(GpumError, match=words):
            GPUMRegressor(geometry="flat", **options).fit(X[:30], y).predict_gradient(X[:2])
    with pytest.raises(GpumError, match="no gradient"):
        GraphLaplacianGPRegressor().fit(X, Y).predict_gradient(X[:2])
    gaps = GPUMRegressor(geometry="flat").fit(X, Y)
    with pytest.raises(GpumError, match="missing readings"):
        gaps.predict_gradient([[np.nan, 0, 1]])


def test_functions_have_the_moments_of_the_posterior(model):
    """Mean and covariance of 600 draws at six rows: standard errors, and 2 % for random waves."""
    n = 600
    functions = model.sample_functions(n, random_state=1)
    draws = np.stack([f(NEW[:6]) for f in functions], 1)
    mean, cov = model.predict(NEW[:6], return_cov=True, include_noise=False)
    std = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(n))
    error = np.abs(np.cov(draws) - cov) / np.outer(std, std)
    assert error.max() < 5 * np.sqrt(6 / n) + 0.02  # Student t: a fourth moment of up to 7
    np.testing.assert_allclose(functions[0](NEW[:6]), functions[0](NEW)[:6], rtol=1e-9)


def test_functions_of_counts_and_of_several_outputs():
    counts = GPUMRegressor(geometry="flat", likelihood="poisson").fit(X, np.round(np.exp(1 + TRUTH)))
    (function,) = counts.sample_functions()
    assert np.all(function(NEW) > 0)
    both = GPUMRegressor(geometry="flat").fit(X, np.column_stack([Y, Y]))
    assert both.sample_functions(1)[0](NEW).shape == (25, 2)
    with pytest.raises(GpumError, match="angles"):
        GPUMRegressor(geometry="flat", period=5.0).fit(X[:30], np.arange(30) % 5).sample_functions()


def test_draws_go_through_labels_without_noise():
    """One kernel, known noise that is almost none."""
    x = np.linspace(0, 1, 6)[:, None]
    family = CandidateSet([None], [Candidate(0, Stationary(2.5, 0.4), 0.0)], [x], [0])
    posterior = gp.best(family, np.arange(6), np.sin(6 * x[:, 0]))
    from gpum.inference.draws import draws

    for draw in draws(posterior, np.random.default_rng(0), 4):
        noise = np.sqrt(posterior.components[0].signal[0] * posterior.components[0].ratios[0])
        assert np.abs(draw.at(x) - np.sin(6 * x[:, 0])).max() < 6 * noise + 1e-6
