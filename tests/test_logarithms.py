"""`likelihood="auto"`: logarithms of positive labels where these explain and predict them better."""

import numpy as np
import pytest
from scipy.stats import t as student_t

from gpum import GpumError, GPUMRegressor
from gpum.estimators import logarithms
from gpum.inference.target import Target


def sheet(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1], rng.standard_normal(n)


def fitted(X, y, **settings):
    return GPUMRegressor(geometry="flat", random_state=0, **settings).fit(X, y)


def kinds(model):
    return [output.target.likelihood for output in model.model_.outputs]


def test_a_lognormal_target_is_found_and_the_note_says_so():
    X, f, e = sheet(60)
    y = np.exp(2 * f + 0.3 * e)
    model = fitted(X, y)
    assert model.likelihood == "auto"
    assert kinds(model) == ["lognormal"]
    assert any("logarithms" in note and "likelihood='gaussian' prevents it" in note for note in model.notes_)
    asked = fitted(X, y, likelihood="lognormal")
    np.testing.assert_array_equal(model.predict(X), asked.predict(X))
    plain = fitted(X, y, likelihood="gaussian")
    assert kinds(plain) == ["gaussian"]
    assert model.log_evidence_ > plain.log_evidence_ + logarithms.CLEAR


@pytest.mark.parametrize("make", [lambda f, e: f + 0.3 * e, lambda f, e: f**2, lambda f, e: np.maximum(f + 0.1 * e, 0)])
@pytest.mark.parametrize("n", [15, 60])
def test_other_targets_above_0_stay_as_they_are(make, n):
    """A normal target, a square and a cut function that happen to span two orders of magnitude."""
    X, f, e = sheet(n, 1)
    y = make(f, e)
    y = y - y.min() + np.ptp(y) / 150
    assert logarithms.tried(y, Target())
    model = fitted(X, y)
    assert kinds(model) == ["gaussian"]
    np.testing.assert_array_equal(model.predict(X), fitted(X, y, likelihood="gaussian").predict(X))


def test_what_is_not_tried():
    y = np.array([0.1, 1.0, 50.0])
    assert logarithms.tried(y, Target())
    assert not logarithms.tried(y, Target(period=360.0))
    assert not logarithms.tried(y, Target(noise_std=np.ones(3)))
    assert not logarithms.tried(y, Target("student"))
    assert not logarithms.tried(y - 0.1, Target())
    assert not logarithms.tried(y + 1, Target())


def test_each_column_has_its_own_and_further_labels_keep_it():
    X, f, e = sheet(50)
    Y = np.column_stack([f, np.exp(2 * f + 0.2 * e)])
    model = fitted(X, Y)
    assert kinds(model) == ["gaussian", "lognormal"]
    model.partial_fit(X[:2] + 0.01, Y[:2])
    assert kinds(model) == ["gaussian", "lognormal"]
    with pytest.raises(GpumError, match="labels above 0"):
        model.partial_fit(X[:1], [[0.3, -1.0]])


def test_density_of_left_out_labels_is_that_of_fits_without_them():
    """With one candidate and the units of all labels; of y, whose logarithm is normal, with its Jacobian."""
    X, f, e = sheet(12)
    y = np.exp(f + 0.1 * e)
    (output,) = fitted(X, y, likelihood="lognormal", smoothness="heat", hyperparameters="evidence").model_.outputs
    (component,) = output.posterior.components
    a, z = output.posterior.labels[component.candidate.space], (np.log(y) - output.mean) / output.scale
    K, noise = component.candidate.covariance.gram(a, a), component.ratios[0]
    for i, density in enumerate(output.left_out_density()):
        o = np.arange(12) != i
        C = K[np.ix_(o, o)] + noise * np.eye(11)
        mean = K[i, o] @ np.linalg.solve(C, z[o])
        variance = component.signal[0] * (K[i, i] + noise - K[i, o] @ np.linalg.solve(C, K[o, i]))
        expected = -0.5 * ((z[i] - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        assert density == pytest.approx(expected - np.log(output.scale) - np.log(y[i]), rel=1e-6)
    (averaged,) = fitted(X, np.log(y), likelihood="gaussian", smoothness="heat").model_.outputs
    assert np.isfinite(averaged.left_out_density()).all()
    assert averaged.left_out_density().max() < student_t(5).logpdf(0) - np.log(1e-3)


def test_what_follows_from_logarithms_is_on_the_scale_of_y():
    X, f, e = sheet(60)
    model = fitted(X, np.exp(2 * f + 0.1 * e))
    near, h = X[:3], 1e-5
    median = lambda rows: model.predict_quantiles(rows, (0.5,), include_noise=False)[:, 0]
    gradient = model.predict_gradient(near)
    for j in range(2):
        step = h * np.eye(2)[j]
        np.testing.assert_allclose(gradient[:, j], (median(near + step) - median(near - step)) / (2 * h), rtol=0.05)
    draws = np.array([draw(near) for draw in model.sample_functions(300)])
    assert np.all(draws > 0)
    np.testing.assert_allclose(np.median(draws, 0), median(near), rtol=0.1)
    assert model.suggest(2, candidates=X + 0.1, goal="level", level=5.0).shape == (2,)
    with pytest.raises(GpumError, match="give such a level"):
        model.suggest(2, candidates=X + 0.1, goal="level", level=-1.0)
