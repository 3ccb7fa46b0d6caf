"""Positive targets, and labels of different precision."""

import numpy as np
import pytest
from scipy.stats import norm

from gpum import GpumError, GPUMRegressor, diagnostics
from gpum.geometry.candidate_set import Candidate, CandidateSet
from gpum.heat.covariances import Stationary
from gpum.inference import gp
from gpum.inference.left_out import leave_one_out
from gpum.inference.posterior import RowsInSpaces
from gpum.inference.regress import as_numbers, regress
from gpum.inference.target import Target

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (90, 2))
PRICE = np.exp(2 * np.sin(4 * X[:, 0]) + 2 * X[:, 1] + 0.1 * RNG.standard_normal(90))
KNOWN = np.arange(0, 90, 3)
FAMILY = CandidateSet([None], [Candidate(0, Stationary(1.5, s), np.log(0.5)) for s in (0.3, 0.6)], [X], [0])


def labelled(values, rows=KNOWN):
    y = np.full(len(X), np.nan)
    y[rows] = values[rows]
    return y


def fit(y, likelihood="lognormal", **options):
    return GPUMRegressor(geometry="flat", random_state=0, likelihood=likelihood).fit(X, y, **options)


@pytest.fixture(scope="module")
def prices():
    return fit(labelled(PRICE))


def test_log_normal_is_a_regression_of_logarithms(prices):
    """Quantiles, draws and left-out quantiles are those of the logarithms, to the power of e; so are the weights."""
    logs = fit(labelled(np.log(PRICE)), "gaussian")
    np.testing.assert_allclose(prices.predict_quantiles(X), np.exp(logs.predict_quantiles(X)), rtol=1e-9)
    np.testing.assert_allclose(prices.sample_y(X, 3), np.exp(logs.sample_y(X, 3)), rtol=1e-5)
    ends = [m.model_.outputs[0].leave_one_out()[2] for m in (prices, logs)]
    np.testing.assert_allclose(ends[0], np.exp(ends[1]), rtol=1e-9)
    assert np.all(diagnostics.leave_one_out(prices).std > 0)
    assert prices.geometry_weights_ == pytest.approx(logs.geometry_weights_)


def test_moments_are_those_of_a_log_normal(prices):
    """Against quadrature over a Gaussian logarithm, and of the covariance against its closed form's definition."""
    logs = fit(labelled(np.log(PRICE)), "gaussian")
    m, s = logs.predict(X, return_std=True)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    values = np.exp(m[:, None] + s[:, None] * z)
    w = w / w.sum()
    mean, std = prices.predict(X, return_std=True)
    np.testing.assert_allclose(mean, values @ w, rtol=1e-9)
    np.testing.assert_allclose(std, np.sqrt((values - mean[:, None]) ** 2 @ w), rtol=1e-6)
    for noise in (True, False):
        _, C = prices.predict(X[:6], return_cov=True, include_noise=noise)
        of_logs = logs.predict(X[:6], return_cov=True, include_noise=noise)[1]
        e, _ = prices.predict(X[:6], return_std=True, include_noise=noise)
        np.testing.assert_allclose(C, np.outer(e, e) * (np.exp(of_logs) - 1), rtol=1e-6)
        both = prices.predict(X[:6], return_std=True, include_noise=noise)[1]
        np.testing.assert_allclose(np.sqrt(np.diag(C)), both, rtol=1e-6)


def test_left_out_moments_are_those_of_a_log_normal(prices):
    output = prices.model_.outputs[0]
    m, v, _ = leave_one_out(output.posterior, np.log(output.labels))
    mean, std, _ = output.leave_one_out()
    np.testing.assert_allclose(mean, np.exp(m + v / 2))
    np.testing.assert_allclose(std, np.exp(m + v / 2) * np.sqrt(np.exp(v) - 1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_evidence_is_a_density_of_y(n):
    """Integrated over a label it is 1: with n - 1 labels given, in the units of the Gaussian's evidence."""
    labels, target = np.array([3.0, 0.7, 12.0])[:n], Target("lognormal")
    output = regress(FAMILY, KNOWN[:n], labels, target, KNOWN[:n])
    logs = np.log(labels)
    unit = logs.std(ddof=1) if n > 1 else 1.0
    plain = gp.average(FAMILY, KNOWN[:n], (logs - logs.mean()) / unit)
    density = plain.log_evidence - np.log(unit * labels).sum()  # of y itself
    assert output.posterior.log_evidence == pytest.approx(density + n * np.log(gp.units(labels)[1]))


def test_evidence_tells_positive_targets_from_others(prices):
    assert prices.log_evidence_ > fit(labelled(PRICE), "gaussian").log_evidence_ + 5
    plain = labelled(10 + np.sin(4 * X[:, 0]) + 0.3 * RNG.standard_normal(90))
    assert abs(fit(plain).log_evidence_ - fit(plain, "gaussian").log_evidence_) < 3  # within a tenth both are alike


def test_scores_better_than_a_gaussian_where_y_spans_orders(prices):
    new = np.setdiff1d(np.arange(90), KNOWN)
    plain = fit(labelled(PRICE), "gaussian")
    assert prices.score(X[new], PRICE[new]) > plain.score(X[new], PRICE[new])
    low, high = prices.predict_quantiles(X[new], [0.025, 0.975]).T
    assert np.mean((low < PRICE[new]) & (PRICE[new] < high)) > 0.85
    assert np.all(low > 0)


def test_lengths_are_learned_from_logarithms():
    numbers = as_numbers(PRICE[KNOWN], Target("lognormal"))
    np.testing.assert_allclose(numbers, as_numbers(np.log(PRICE[KNOWN]), Target()))


@pytest.mark.parametrize("wrong", [0.0, -2.0])
def test_labels_that_are_not_positive_are_refused(wrong):
    y = labelled(PRICE)
    y[3] = wrong
    with pytest.raises(GpumError, match=rf"y is {wrong:g} at row 3; likelihood='lognormal' needs labels above 0"):
        fit(y)


@pytest.mark.parametrize("labels", [[5.0], [1.0], [1.0, 1.0, 1.0], [1e-140, 1e-139, 1e-141], [1e140, 2e140, 4e140]])
def test_few_equal_and_extreme_labels_have_finite_predictions(labels):
    y = np.full(len(X), np.nan)
    y[: len(labels)] = labels
    model = fit(y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.all(model.predict_quantiles(X, 0.5)[:, 0] / labels[0] < 1e3)


def test_what_is_too_large_for_a_number_is_refused():
    y = np.full(len(X), np.nan)
    y[:3] = 1e-140, 1.0, 1e140
    with pytest.raises(GpumError, match="too large for a number: the labels leave open how large y is there"):
        fit(y).predict(X)


def test_a_note_says_that_intervals_reach_below_zero(prices, tmp_path):
    plain = fit(labelled(PRICE), "gaussian")
    said = [note for note in plain.notes_ if "lognormal" in note]
    low = plain.predict(X) - 1.96 * plain.predict(X, return_std=True)[1]
    assert f"{np.mean(low < 0):.0%} of the 95 % intervals reach below it" in said[0]
    plain.save(tmp_path / "plain.gpum")
    assert GPUMRegressor.load(tmp_path / "plain.gpum").notes_ == plain.notes_
    for other in (
        prices,
        fit(labelled(PRICE + 100), "gaussian"),
        fit(labelled(PRICE - PRICE[KNOWN].min()), "gaussian"),
    ):
        assert not [note for note in other.notes_ if "lognormal" in note]


def test_files_hold_positive_targets(prices, tmp_path):
    prices.save(tmp_path / "prices.gpum")
    loaded = GPUMRegressor.load(tmp_path / "prices.gpum")
    new = RNG.uniform(0, 1, (5, 2))
    for ask in (lambda m: m.predict(new, return_std=True), lambda m: m.predict_quantiles(new)):
        np.testing.assert_array_equal(ask(loaded), ask(prices))


def with_weights(weights, rows, y, infer=gp.average, likelihood="gaussian"):
    return regress(FAMILY, rows, y, Target(likelihood, weights=weights), rows)


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "lognormal"])
def test_equal_weights_are_none(likelihood):
    y = PRICE[KNOWN]
    plain, equal = (with_weights(w, KNOWN, y, likelihood=likelihood) for w in (None, np.full(len(y), 7.0)))
    at = RowsInSpaces.exactly([X])
    np.testing.assert_allclose(plain.moments(at), equal.moments(at), rtol=1e-7)
    np.testing.assert_allclose(plain.leave_one_out()[:2], equal.leave_one_out()[:2], rtol=1e-7)
    assert plain.posterior.log_evidence == pytest.approx(equal.posterior.log_evidence)


def test_weight_two_is_two_equal_labels_given_the_noise():
    """N(y; f, σ²)² is N(y; f, σ²/2) times a number that does not depend on f.

    So mean and variance of f given the kernel, σ_h² and σ² are the same, and evidence differs by
    log N(0; 0, 2σ²): that two labels of one place are equal tells of σ², which is why averages over it differ.
    """
    y = np.log(PRICE[KNOWN])
    y = (y - y.mean()) / y.std()
    twice, both = np.append(KNOWN, KNOWN[4]), np.append(y, y[4])
    noise = np.where(np.arange(len(y)) == 4, 0.5, 1.0)
    kernel, log_signal, log_noise = FAMILY.candidates[0].covariance, 0.4, -1.5
    one, _ = gp.log_evidence(kernel, X[KNOWN], y, log_signal, log_noise, noise)
    two, _ = gp.log_evidence(kernel, X[twice], both, log_signal, log_noise)
    assert two - one == pytest.approx(norm(scale=np.sqrt(2 * np.exp(log_noise))).logpdf(0))
    r = np.exp(log_noise - log_signal)
    for K in (kernel.gram(X, X),):
        found = []
        for rows, labels, d in ((KNOWN, y, noise), (twice, both, np.ones(len(both)))):
            inverse = np.linalg.inv(K[np.ix_(rows, rows)] + r * np.diag(d))
            found.append((K[:, rows] @ inverse @ labels, np.diag(K[:, rows] @ inverse @ K[rows])))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-7)


def test_weighted_predictions_against_dense_algebra():
    """Every component of a fit with weights: its mean and variance with K + rD, D the weights' inverse."""
    weights = np.random.default_rng(1).uniform(0.2, 5.0, len(KNOWN))
    output = with_weights(weights, KNOWN, np.log(PRICE[KNOWN]))
    d = np.exp(np.mean(np.log(weights))) / weights
    assert np.exp(np.log(d).mean()) == pytest.approx(1)
    y = (output.labels - output.mean) / output.scale
    for component, means, variances, _ in output.posterior.conditionals(RowsInSpaces.exactly([X]), False):
        K = component.candidate.covariance.gram(X, X)
        for j, r in enumerate(component.ratios):
            inverse = np.linalg.inv(K[np.ix_(KNOWN, KNOWN)] + r * np.diag(d))
            np.testing.assert_allclose(means[:, j], K[:, KNOWN] @ inverse @ y, atol=1e-5)
            left = np.diag(K) - np.einsum("ij,jk,ik->i", K[:, KNOWN], inverse, K[:, KNOWN])
            np.testing.assert_allclose(variances[:, j], component.signal[j] * left, atol=1e-5)


def test_imprecise_labels_count_less():
    rng, y = np.random.default_rng(2), np.log(PRICE)
    rough = np.arange(90) % 2 == 0
    noisy = y + np.where(rough, 2.0, 0.05) * rng.standard_normal(90)
    errors = [
        np.sqrt(np.mean((fit(noisy, "gaussian", sample_weight=w).predict(X, include_noise=False) - y) ** 2))
        for w in (None, np.where(rough, 1 / 2.0**2, 1 / 0.05**2))
    ]
    assert errors[1] < 0.5 * errors[0]


def test_a_label_of_weight_zero_says_nothing():
    y, weights = labelled(PRICE), np.ones(len(X))
    without = y.copy()
    without[KNOWN[:4]], weights[KNOWN[:4]] = np.nan, 0.0
    np.testing.assert_array_equal(fit(y, sample_weight=weights).predict(X), fit(without).predict(X))
    y = np.stack([y, labelled(PRICE)], 1)
    several = np.stack([weights, np.ones(len(X))], 1)
    found = GPUMRegressor(geometry="flat", random_state=0).fit(X, y, sample_weight=several)
    assert [len(output.rows) for output in found.model_.outputs] == [len(KNOWN) - 4, len(KNOWN)]


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_weights_that_cannot_be(wrong):
    weights = np.ones(len(X))
    weights[KNOWN[2]] = wrong
    with pytest.raises(GpumError, match=rf"sample_weight is {wrong:g} at row 6; every labelled row needs 0 or"):
        fit(labelled(PRICE), sample_weight=weights)
    weights[KNOWN[2]], weights[1] = 1.0, wrong  # no label there
    fit(labelled(PRICE), sample_weight=weights)


@pytest.mark.parametrize(
    ("likelihood", "options", "message"),
    [
        ("gaussian", {"sample_weight": np.ones(3)}, r"sample_weight has shape \(3,\), but y has shape \(90, 1\)"),
        ("gaussian", {"sample_weight": ["a"] * 90}, "sample_weight must hold numbers"),
        ("gaussian", {"sample_weight": np.zeros(90)}, "y has no labelled row whose weight is not zero"),
        ("gaussian", {"sample_weight": np.ones(90), "noise_std": 1.0}, "sample_weight and noise_std are both given"),
        ("poisson", {"sample_weight": np.ones(90)}, "the noise of likelihood='poisson' follows from the counts"),
        ("binomial", {"sample_weight": np.ones(90)}, "give rows of several trials as trials="),
    ],
)
def test_weights_that_do_not_fit(likelihood, options, message):
    with pytest.raises(GpumError, match=message):
        fit(labelled(np.round(PRICE)), likelihood, **options)


def test_angles_have_weights():
    """An angle that contradicts the others loses to them, unless its weight is large."""
    turn = 180 * X[:, 0]
    y = labelled(turn, np.arange(0, 90, 2))
    y[0] = (y[0] + 90) % 360
    weights = np.where(np.arange(90) == 0, 1e4, 1.0)
    off = []
    for w in (None, weights):
        model = GPUMRegressor(geometry="flat", random_state=0, period=360.0).fit(X, y, sample_weight=w)
        off.append(abs((model.predict(X[:1])[0] - turn[0] + 180) % 360 - 180))
    assert off[0] < 20
    assert off[1] > 70
