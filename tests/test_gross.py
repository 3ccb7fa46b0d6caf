"""Gross errors of new observations: labels as the others predict them show that there are some."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from gpum import GPUMRegressor, diagnostics
from gpum.fitted import restored
from gpum.inference import regress
from gpum.inference.posterior import RowsInSpaces


def copies(seed, rate=0.03, smooth=0.0, noise=0.0):
    """A table of copies and near copies of rows; a few of its targets are far from the others; 100 labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 6))[rng.integers(0, 400, 1200)]
    near = rng.random(1200) < 0.5
    X[near] += 1e-3 * rng.standard_normal((near.sum(), 6))
    y = smooth * np.sin(X[:, 0]) + noise * rng.standard_normal(1200)
    spikes = rng.random(1200) < rate
    y[spikes] += 3 * np.exp(rng.standard_normal(spikes.sum()))
    labelled = np.where(np.isin(np.arange(1200), rng.choice(1200, 100, replace=False)), y, np.nan)
    return X, y, labelled


def density_and_coverage(model, X, y):
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_quantiles(X, [0.025, 0.975]).T
    return np.mean(-norm.logpdf(y, mean, std)) - np.log(y.std()), np.mean((low <= y) & (y <= high))


@pytest.fixture(scope="module")
def spiky():
    X, _, labelled = copies(1)
    return GPUMRegressor(geometry="flat", random_state=0).fit(X, labelled)


@pytest.mark.parametrize(("seed", "smooth"), [(0, 0.0), (1, 0.0), (2, 0.0), (0, 1.0)])
def test_copies_of_a_row_with_a_gross_error_are_not_predicted_surely(seed, smooth):
    """Agreeing copies say that there is no noise; the negative log density was 300 to 10 000 nats."""
    X, y, labelled = copies(seed, smooth=smooth, noise=0.01 * smooth)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, labelled)
    new = np.isnan(labelled)
    nats, coverage = density_and_coverage(model, X[new], y[new])
    assert nats < 5.0  # that of a constant with the deviation of all targets is 1.4
    assert coverage > 0.9
    assert any("gross errors" in note for note in model.notes_)
    assert 0 < model.model_.outputs[0].posterior.gross < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_labels_without_gross_errors_change_nothing(seed, monkeypatch):
    X, _, labelled = copies(seed, rate=0.0, smooth=1.0, noise=0.05)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, labelled)
    monkeypatch.setattr(regress, "with_gross_errors", lambda posterior, y, scale, priors: posterior)
    without = GPUMRegressor(geometry="flat", random_state=0).fit(X, labelled)
    for one, other in zip(model.predict(X, return_std=True), without.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not any("gross" in note for note in model.notes_)


def test_rate_and_size_are_those_of_the_errors():
    """Of 300 labels 15 have an error of 2: the rate within three of its standard errors, the size within a third."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (300, 1))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.standard_normal(300)
    y[:15] += 2.0 * rng.choice([-1, 1], 15)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
    output = model.model_.outputs[0]
    assert abs(output.posterior.gross - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 300)
    assert output.scale * np.sqrt(output.posterior.gross_variance) == pytest.approx(2.0, rel=1 / 3)


def test_every_prediction_has_them(spiky):
    """Moments, covariances, quantiles, draws and left-out labels are those of one mixture; the function has none."""
    output = spiky.model_.outputs[0]
    posterior = output.posterior
    plain = replace(posterior, gross=0.0, gross_variance=0.0)
    rows = RowsInSpaces.exactly([labels if labels is None else labels[:5] for labels in posterior.labels])
    further = posterior.gross * posterior.gross_variance
    mean, variance = posterior.moments(rows)
    np.testing.assert_array_equal(mean, plain.moments(rows)[0])
    np.testing.assert_allclose(variance, plain.moments(rows)[1] + further, rtol=1e-12)
    np.testing.assert_allclose(np.diag(posterior.covariance(rows)), variance, rtol=1e-8)
    for include in (posterior.moments(rows, False), plain.moments(rows, False)):
        np.testing.assert_array_equal(include[1], plain.moments(rows, False)[1])
    np.testing.assert_array_equal(
        posterior.quantiles(rows, np.array([0.1]), False), plain.quantiles(rows, np.array([0.1]), False)
    )

    n, levels = 20_000, np.array([0.005, 0.5, 0.995])
    draws = posterior.samples(np.random.default_rng(0), rows, n, True)
    below = (draws[:, :, None] <= posterior.quantiles(rows, levels)[:, None]).mean(1)
    assert np.all(np.abs(below - levels) < 4.5 * np.sqrt(levels * (1 - levels) / n))
    assert posterior.quantiles(rows, levels)[0, 2] > plain.quantiles(rows, levels)[0, 2]

    spiky_left = output.leave_one_out()
    left = replace(output, posterior=plain).leave_one_out()
    np.testing.assert_allclose(spiky_left[1] ** 2, left[1] ** 2 + output.scale**2 * further, rtol=1e-9)
    assert np.isfinite(diagnostics.leave_one_out(spiky).rmse)


def test_a_file_holds_them(spiky, tmp_path):
    spiky.save(tmp_path / "m.gpum")
    X = spiky.model_.cloud.X[:7] + 0.01
    found = GPUMRegressor.load(tmp_path / "m.gpum").predict(X, return_std=True)
    np.testing.assert_allclose(found, spiky.predict(X, return_std=True), rtol=1e-9)


@pytest.mark.parametrize("field", [{"gross": 1.5}, {"gross": np.nan}, {"gross_variance": -1.0}])
def test_a_file_with_impossible_ones_is_refused(spiky, field):
    model = spiky.model_
    (output,) = model.outputs
    broken = replace(model, outputs=[replace(output, posterior=replace(output.posterior, **field))])
    with pytest.raises(ValueError, match="gross errors"):
        restored(broken)
