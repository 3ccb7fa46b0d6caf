"""Targets of other kinds: noise of each label, outliers, counts, successes, angles."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm, poisson
from sklearn import config_context
from sklearn.model_selection import cross_val_score

import inside
from browser import contents
from gpum import GpumError, GPUMRegressor, Priors, diagnostics, model_io, report
from gpum.geometry.candidate_set import Candidate, CandidateSet
from gpum.heat.covariances import Features, Stationary
from gpum.inference import angles, decisions, gp, known_noise, likelihoods, observations
from gpum.inference.exact import inverse_parts
from gpum.inference.left_out import leave_one_out
from gpum.inference.posterior import RowsInSpaces

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (40, 2))
PHI = RNG.standard_normal((40, 6))
KNOWN = np.arange(0, 40, 3)
Y = np.sin(5 * X[KNOWN, 0]) + X[KNOWN, 1]
Y = (Y - Y.mean()) / Y.std()
NOISE = RNG.uniform(0.2, 3.0, len(KNOWN))
COVARIANCES = [
    pytest.param(Stationary(1.5, 0.4), X, id="full"),
    pytest.param(Features(np.full(6, 1 / 6)), PHI, id="low rank"),
]


def family(covariance, rows):
    return CandidateSet([None], [Candidate(0, covariance, 0.0)], [rows], [0])


@pytest.mark.parametrize(("covariance", "rows"), COVARIANCES)
def test_labels_with_noise_of_their_own_against_dense_algebra(covariance, rows):
    """Evidence, mean, variance and what is left out, with K + rD in place of K + rI."""
    log_signal, log_noise = 0.3, -2.0
    signal, noise = np.exp(log_signal), np.exp(log_noise)
    K = covariance.gram(rows, rows)
    C = signal * K[np.ix_(KNOWN, KNOWN)] + noise * np.diag(NOISE)
    value, grad = gp.log_evidence(covariance, rows[KNOWN], Y, log_signal, log_noise, NOISE)
    assert value == pytest.approx(multivariate_normal(cov=C).logpdf(Y))
    h = 1e-5
    for k, step in ((1, (h, 0)), (2, (0, h))):
        up, down = (
            gp.log_evidence(covariance, rows[KNOWN], Y, log_signal + s * step[0], log_noise + s * step[1], NOISE)[0]
            for s in (1, -1)
        )
        assert grad[k] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6)
    posterior = gp.best(family(covariance, rows), KNOWN, Y, NOISE)
    part = posterior.components[0]
    s, K = part.signal[0], part.candidate.covariance.gram(rows, rows)
    inverse = np.linalg.inv(s * K[np.ix_(KNOWN, KNOWN)] + s * part.ratios[0] * np.diag(NOISE))
    mean, variance = posterior.moments(RowsInSpaces.exactly([rows]), noise=False)
    np.testing.assert_allclose(mean, s * K[:, KNOWN] @ inverse @ Y, atol=1e-7)
    np.testing.assert_allclose(
        variance, s * np.diag(K) - s**2 * np.einsum("ij,jk,ik->i", K[:, KNOWN], inverse, K[:, KNOWN]), atol=1e-7
    )
    d = part.d.at(part.candidate.covariance, posterior.labels[part.candidate.space])  # with a row for each label
    c, alpha = (v[:, 0] for v in inverse_parts(d, part.ratios, len(Y), (Y, d.U.T @ Y)))
    np.testing.assert_allclose(c / s, np.diag(inverse), rtol=1e-6)
    np.testing.assert_allclose(alpha / s, inverse @ Y, rtol=1e-6, atol=1e-9)


def test_equal_noise_is_no_noise_of_ones_own():
    some = family(Stationary(2.5, 0.4), X)
    plain, equal = gp.average(some, KNOWN, Y), gp.average(some, KNOWN, Y, np.ones(len(Y)))
    assert equal.log_evidence == pytest.approx(plain.log_evidence)
    left = [leave_one_out(p, Y)[:2] for p in (plain, equal)]
    np.testing.assert_allclose(left[0], left[1], rtol=1e-8)


@pytest.mark.parametrize(("covariance", "rows"), COVARIANCES)
def test_known_noise_against_dense_algebra(covariance, rows):
    """Weights over the signal, and what is left out of the mixture: as fits without that label say."""
    some, variance = family(covariance, rows), 0.05 * NOISE
    posterior = known_noise.average(some, KNOWN, Y, variance, decisions.SIGNALS)
    K = covariance.gram(rows, rows)[np.ix_(KNOWN, KNOWN)]
    prior = -Priors().signal[0] * np.log(decisions.SIGNALS) - Priors().signal[1] / decisions.SIGNALS
    log_p = [multivariate_normal(cov=s * K + np.diag(variance)).logpdf(Y) for s in decisions.SIGNALS]
    weight = np.exp(np.array(log_p) + prior)
    np.testing.assert_allclose(posterior.components[0].weights, weight / weight.sum(), atol=1e-7)
    total = np.log((weight / np.exp(prior).sum()).sum())
    assert posterior.log_evidence == pytest.approx(total, abs=1e-6)
    w, m, v = known_noise.cavity_moments(posterior, Y)
    i, rest = 4, np.delete(np.arange(len(Y)), 4)
    again = known_noise.average(some, KNOWN[rest], Y[rest], variance[rest], decisions.SIGNALS)
    mean, var = again.moments(RowsInSpaces.exactly([rows[KNOWN[[i]]]]), noise=False)
    assert w[:, i] @ m[:, i] == pytest.approx(mean[0], rel=1e-4)
    assert w[:, i] @ (v + m**2)[:, i] - mean[0] ** 2 == pytest.approx(var[0], rel=1e-3)


def bent(n=120, seed=0):
    """A curve in R³ and where on it each row is, from 0 to 1."""
    u = np.random.default_rng(seed).uniform(0, 1, n)
    return np.stack([np.cos(4 * u), np.sin(4 * u), 0.5 * u], 1), u


def fit(X, y, labelled, **options):
    """A regressor of the data space, given the first rows' labels."""
    given = {k: options.pop(k) for k in ("noise_std", "trials") if k in options}
    few = np.where(np.arange(len(y)) < labelled, y, np.nan)
    return GPUMRegressor(geometry="flat", smoothness="matern52", random_state=0, **options).fit(X, few, **given)


def rmse(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


def test_outliers_cost_a_student_likelihood_little():
    """Four of forty labels are gross errors: less than 1.3 times the clean error; Gaussian noise costs far more."""
    clean, student, gaussian = [], [], []
    for seed in range(2):
        X, u = bent(seed=seed)
        rng = np.random.default_rng(seed)
        truth = np.sin(6 * u + seed)
        y = truth + 0.05 * rng.standard_normal(120)
        bad = y + np.where(np.arange(120) < 4, rng.choice([-1, 1], 120) * rng.uniform(2, 6, 120), 0)
        clean.append(rmse(fit(X, y, 40).predict(X), truth))
        gaussian.append(rmse(fit(X, bad, 40).predict(X), truth))
        robust = fit(X, bad, 40, likelihood="student")
        student.append(rmse(robust.predict(X), truth))
    assert np.mean(student) < 1.3 * np.mean(clean)
    assert np.mean(gaussian) > 5 * np.mean(clean)
    low, high = robust.predict_quantiles(X[40:], (0.025, 0.975)).T
    assert 0.85 < np.mean((low < y[40:]) & (y[40:] < high)) <= 1  # 80 rows: 0.95 ± 4 standard errors
    mean, std = robust.predict(X, return_std=True)
    draws = robust.sample_y(X[:2], 4000, include_noise=True)
    np.testing.assert_allclose(np.median(draws, 1), mean[:2], atol=0.02)
    assert np.all(std > robust.predict(X, return_std=True, include_noise=False)[1])
    assert likelihoods.StudentPosterior.spread == 2  # of ν = 4


@pytest.mark.parametrize(("labels", "wrong"), [(24, 4), (30, 6)])
def test_many_outliers_are_still_found(labels, wrong):
    """A fifth of few labels is wrong: found one after the other, not taken for a rough function."""
    clean, student = [], []
    for seed in range(3):
        X, u = bent(seed=seed)
        rng = np.random.default_rng(seed)
        truth = np.sin(6 * u + seed)
        y = truth + 0.05 * rng.standard_normal(120)
        bad = y + np.where(np.arange(120) < wrong, rng.choice([-1, 1], 120) * rng.uniform(3, 5, 120), 0)
        clean.append(rmse(fit(X, y, labels).predict(X), truth))
        student.append(rmse(fit(X, bad, labels, likelihood="student").predict(X), truth))
    assert np.mean(student) < 1.3 * np.mean(clean)


def test_student_labels_are_weighed_by_distance():
    """Labels on a constant, one far off: it is all but ignored, the others are trusted alike."""
    y = np.concatenate([[8.0], 0.1 * RNG.standard_normal(len(KNOWN) - 1)])
    found, trust = likelihoods.student(family(Stationary(2.5, 0.8), X), KNOWN, y)
    assert trust[0] < 0.02
    assert np.all(trust[1:] > 0.3)
    assert abs(found.moments(RowsInSpaces.exactly([X]))[0]).max() < 0.5


def test_sites_of_counts_match_quadrature():
    """One label: mean and variance of N(m, v) times Poisson, and its integral, against a fine grid."""
    for y, m, v in ((0.0, 0.3, 2.0), (3.0, -1.0, 0.5), (400.0, 0.0, 4.0)):
        observed = observations.PoissonCounts(np.array([y]), 0.7)
        tau, nu, log_z = likelihoods._matched(observed, np.array([m]), np.array([v]))
        f = np.linspace(-12, 12, 400_001)
        log_p = poisson.logpmf(y, np.exp(f + 0.7)) + norm.logpdf(f, m, np.sqrt(v))
        p = np.exp(log_p - log_p.max())
        mean = p @ f / p.sum()
        variance = p @ (f - mean) ** 2 / p.sum()
        total = tau[0] + 1 / v
        assert (nu[0] + m / v) / total == pytest.approx(mean, abs=1e-3)
        assert 1 / total == pytest.approx(variance, rel=1e-2)
        assert log_z[0] == pytest.approx(np.log(p.sum() * (f[1] - f[0])) + log_p.max(), abs=1e-3)


@pytest.mark.parametrize("kind", ["counts", "successes"])
def test_evidence_and_rates_against_counting(kind):
    """Draws of the prior weighed by the likelihood: its mean, and what they say of the rate at all rows."""
    rng, few = np.random.default_rng(0), np.array([0, 9, 20])
    if kind == "counts":
        observed = observations.PoissonCounts(np.array([0.0, 3.0, 6.0]), 0.5)
    else:
        observed = observations.BinomialCounts(np.array([0.0, 3.0, 4.0]), np.array([2.0, 4.0, 9.0]), 0.2)
    covariance = Stationary(np.inf, 0.5)
    posterior, _ = likelihoods.expectation_propagation(family(covariance, X), few, observed)
    assert not posterior.notes
    L = np.linalg.cholesky(covariance.gram(X, X) + 1e-8 * np.eye(40))
    signals = decisions.COUNT_SIGNALS
    prior = np.exp(-Priors().signal[0] * np.log(signals) - Priors().signal[1] / signals)
    sd = np.sqrt(rng.choice(signals, 200_000, p=prior / prior.sum()))
    f = L[few] @ rng.standard_normal((40, 200_000)) * sd
    log_w = observed.log_p(f).sum(0)
    assert posterior.log_evidence == pytest.approx(np.log(np.mean(np.exp(log_w))), abs=0.05)
    weights = np.exp(log_w - log_w.max())
    counted = observed.mean(f) @ weights / weights.sum()
    w, nodes = likelihoods.nodes(posterior, RowsInSpaces.exactly([X[few]]))
    np.testing.assert_allclose(np.sum(w * observed.mean(nodes), 0), counted, rtol=0.05)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["counts", "successes"])
def test_evidence_of_each_candidate_against_quadrature(kind, n):
    """Each kernel has sites of its own: common ones are off by up to 1.8 nats here, which is a factor of 6 in odds."""
    few = np.array([0, 9, 20])[:n]
    if kind == "counts":
        observed = observations.PoissonCounts(np.array([0.0, 3.0, 16.0])[:n], 1.0)
    else:
        observed = observations.BinomialCounts(np.array([0.0, 3.0, 9.0])[:n], np.array([2.0, 4.0, 9.0])[:n], 0.2)
    kernels = [Stationary(np.inf, 2.0), Stationary(np.inf, 0.5), Stationary(0.5, 0.05), Stationary(1.5, 0.3)]
    settings = [Candidate(0, kernel, np.log(0.25)) for kernel in kernels]
    posterior, sites = likelihoods.expectation_propagation(CandidateSet([None], settings, [X], [0]), few, observed)
    found = posterior.considered.log_part + posterior.log_evidence - np.log(0.25)
    assert sites.at.shape == (len(posterior.components), n)
    z, w = np.polynomial.hermite_e.hermegauss(50)
    grid = np.stack(np.meshgrid(*[z] * n, indexing="ij")).reshape(n, -1)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * n, indexing="ij")).reshape(n, -1), 0)
    signals, (shape, rate) = decisions.COUNT_SIGNALS, Priors().signal
    prior = np.exp(-shape * np.log(signals) - rate / signals)
    for kernel, value in zip(kernels, found, strict=True):
        L = np.linalg.cholesky(kernel.gram(X[few], X[few]) + 1e-10 * np.eye(n))
        exact = [weights @ np.exp(observed.log_p(L @ grid * np.sqrt(s)).sum(0)) for s in signals]
        assert value == pytest.approx(np.log(prior @ exact / prior.sum()), abs=0.2)
    assert posterior.log_evidence == pytest.approx(np.log(np.mean(np.exp(found))))


def test_left_out_counts_are_those_of_fits_without_each():
    """Weights of candidates follow from their own sites: the rate of each label as a fit of the others says."""
    rng, rows = np.random.default_rng(3), np.arange(0, 40, 4)
    y = rng.poisson(np.exp(1 + np.sin(5 * X[rows, 0]))).astype(float)
    settings = [Candidate(0, Stationary(nu, s), 0.0) for nu, s in ((np.inf, 0.5), (0.5, 0.1))]
    family = CandidateSet([None], settings, [X], [0])
    observed = observations.PoissonCounts(y, 1.0)
    posterior, sites = likelihoods.expectation_propagation(family, rows, observed)
    w, m, _ = known_noise.cavity_moments(posterior, sites.at, sites.log_scale)
    left = np.sum(w * m, 0)
    for i in range(0, len(rows), 3):
        rest = np.delete(np.arange(len(rows)), i)
        other, _ = likelihoods.expectation_propagation(family, rows[rest], observations.PoissonCounts(y[rest], 1.0))
        mean, variance = other.moments(RowsInSpaces.exactly([X[rows[[i]]]]), noise=False)
        assert left[i] == pytest.approx(mean[0], abs=0.3 * np.sqrt(variance[0]))


def test_counts_beat_their_logarithms():
    """NLPD of unseen counts: Poisson against Gaussian regression of log(y + ½) with the same cells, 6 clouds."""
    better = []
    for seed in range(6):
        X, u = bent(100, seed)
        rng = np.random.default_rng(seed)
        y = rng.poisson(np.exp(0.3 + 1.2 * np.sin(7 * u + seed))).astype(float)
        model = fit(X, y, 40, likelihood="poisson")
        one = -np.log(np.mean(poisson.pmf(y[40:, None], model.sample_y(X[40:], 4000, include_noise=False)), 1))
        logs = fit(X, np.log(y + 0.5), 40)
        mean, sd = logs.predict(X[40:], return_std=True)
        low = np.where(y[40:] > 0, np.log(np.maximum(y[40:], 1e-300)), -np.inf)
        cell = norm.cdf(np.log(y[40:] + 1), mean, sd) - norm.cdf(low, mean, sd)
        better.append(np.mean(-np.log(np.maximum(cell, 1e-12)) - one))
    assert np.mean(better) > 2 * np.std(better) / np.sqrt(6), better


def test_counts_and_successes_as_predictions():
    X, u = bent(60)
    rng = np.random.default_rng(0)
    rate = np.exp(3 + np.sin(6 * u))
    model = fit(X, rng.poisson(rate).astype(float), 30, likelihood="poisson")
    mean, std = model.predict(X, return_std=True)
    _, bare = model.predict(X, return_std=True, include_noise=False)
    np.testing.assert_allclose(std**2, bare**2 + mean, rtol=1e-6)  # a Poisson count has the variance of its mean
    assert rmse(mean, rate) < 0.12 * rate.mean()  # four draws of the counts have 0.07 to 0.10
    low, high = model.predict_quantiles(X, (0.025, 0.975)).T
    assert np.all(low == np.round(low))
    draws = model.sample_y(X[:3], 4000, include_noise=True)
    assert np.all(np.abs(draws.mean(1) - mean[:3]) < 5 * std[:3] / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(1), std[:3], rtol=5 / np.sqrt(2 * 4000))
    inside = (low[:3, None] <= draws) & (draws <= high[:3, None])
    assert np.all(inside.mean(1) > 0.94)
    covariance = model.predict(X[:3], return_cov=True)[1]
    np.testing.assert_allclose(np.diag(covariance), std[:3] ** 2)
    left = diagnostics.leave_one_out(model)
    assert left.inside.mean() > 0.9  # four draws of the counts have 0.93 to 1
    p, trials = 1 / (1 + np.exp(-2 * np.sin(6 * u))), rng.integers(1, 12, 60)
    share = fit(X, rng.binomial(trials, p).astype(float), 40, likelihood="binomial", trials=trials)
    assert rmse(share.predict(X), p) < 0.15
    assert set(np.unique(share.sample_y(X, 50, include_noise=True))) == {0.0, 1.0}
    assert share.suggest(2).min() >= 40
    left = diagnostics.leave_one_out(share)  # in the unit of the labels: successes
    assert rmse(left.mean, left.y) < 0.8 * left.y.std()
    assert np.all((left.low >= 0) & (left.high <= trials[:40]))


def test_successes_are_one_unit_everywhere(tmp_path):
    """y counts successes among `trials` in fit, score and predictions; without `trials` it is 0 or 1."""
    X, u = bent(60)
    rng = np.random.default_rng(1)
    p, trials = 1 / (1 + np.exp(-2 * np.sin(6 * u))), np.where(np.arange(60) % 2, 5, 40)
    y = rng.binomial(trials, p).astype(float)
    model = fit(X, y, 40, likelihood="binomial", trials=trials)
    mean, std = model.predict(X, return_std=True, trials=trials)
    chance, doubt = model.predict(X, return_std=True, include_noise=False)
    np.testing.assert_allclose(mean, trials * chance)
    np.testing.assert_allclose(std**2, trials**2 * doubt**2 + trials * (chance - chance**2 - doubt**2), rtol=1e-6)
    low, high = model.predict_quantiles(X, (0.025, 0.975), trials=trials).T
    assert np.all((low >= 0) & (high <= trials) & (low == np.round(low)) & (high == np.round(high)))
    assert np.mean((low <= y) & (y <= high)) > 0.9
    assert np.all((high - low)[::2] < 20)  # of 40 trials
    draws = model.sample_y(X[:4], 4000, include_noise=True, trials=trials[:4])
    np.testing.assert_allclose(draws.mean(1), mean[:4], rtol=0.1)
    np.testing.assert_allclose(draws.std(1), std[:4], rtol=0.15)
    inner = model.predict_quantiles(X, (0.025, 0.975), include_noise=False)
    assert np.all((inner > 0) & (inner < 1))
    np.testing.assert_allclose(
        model.predict_quantiles(X, 0.5, include_noise=False, trials=trials),
        trials[:, None] * model.predict_quantiles(X, 0.5, include_noise=False),
    )
    share = y / trials
    model.save(tmp_path / "successes.gpum")
    page = contents(report.render(model_io.load(tmp_path / "successes.gpum")))
    np.testing.assert_allclose(page["targets"][0]["y"][:40], share[:40], atol=1e-3)  # in the unit of the prediction
    expected = 1 - trials @ (share - chance) ** 2 / (trials @ (share - trials @ share / trials.sum()) ** 2)
    assert model.score(X, y, trials=trials) == pytest.approx(expected)
    assert model.score(X, y, trials=trials) > 0.7
    with pytest.raises(GpumError, match="more successes than trials; give their number as `trials`"):
        model.score(X, y)
    with pytest.raises(GpumError, match="whole numbers"):
        model.score(X, share)
    with pytest.raises(GpumError, match="use likelihood='binomial'"):
        fit(X, u, 40).predict(X, trials=3)
    for wrong, message in (("many", "must hold numbers"), (0, "whole numbers from 1"), ([1, 2], "one a row")):
        with pytest.raises(GpumError, match=message):
            model.predict(X, trials=wrong)


def test_cross_validation_of_successes():
    X, u = bent(60)
    rng = np.random.default_rng(1)
    y, trials = rng.binomial(20, u).astype(float), np.full(60, 20)
    model = GPUMRegressor(geometry="flat", smoothness="matern52", likelihood="binomial", random_state=0)
    one = cross_val_score(model, X, (y > 10).astype(float), cv=3)  # one trial each
    assert np.all(one > 0)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(trials=True).set_score_request(trials=True)
        assert np.all(cross_val_score(model, X, y, cv=3, params={"trials": trials}) > 0.5)


def test_noise_of_each_label_is_used():
    """Labels of very different noise: knowing it halves the error at least, and intervals hold."""
    X, u = bent(100)
    truth, errors, inside = np.sin(6 * u), [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noise = np.where(rng.uniform(size=100) < 0.5, 1.0, 0.02)
        y = truth + noise * rng.standard_normal(100)
        blind, told = fit(X, y, 50), fit(X, y, 50, noise_std=noise)
        mean, std = told.predict(X, return_std=True, include_noise=False)
        errors.append([rmse(blind.predict(X), truth), rmse(mean, truth)])
        inside.append(np.abs(mean - truth) < 1.96 * std)
    without, with_noise = np.mean(errors, 0)
    assert with_noise < 0.5 * without
    assert np.mean(inside) > 0.85
    left = diagnostics.leave_one_out(told)
    assert 0.8 < left.inside.mean() <= 1
    assert left.std[noise[:50] == 1].min() > left.std[noise[:50] < 1].max() / 2
    one = fit(X, y, 50, noise_std=0.02, hyperparameters="evidence")
    assert np.isfinite(one.predict(X)).all()


def test_angles_know_no_end():
    """Rows on a ring: labels in degrees jump from 360 to 0, the prediction does not."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 360, 80)
    X = np.stack([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))], 1)
    model, plain = fit(X, angle, 16, period=360.0), fit(X, angle, 16)
    off = lambda a: (a - angle + 180) % 360 - 180
    mean, std = model.predict(X, return_std=True)
    assert np.all((mean >= 0) & (mean < 360))
    assert np.abs(off(mean)).max() < 5 < np.abs(off(plain.predict(X))).max()
    assert np.all(np.abs(off(mean)) < 4 * std + 0.5)
    assert model.score(X, angle) > 0.99
    radians = fit(X, np.deg2rad(angle), 16, period=2 * np.pi)
    np.testing.assert_allclose(np.deg2rad(mean), radians.predict(X), atol=1e-9)
    turned = fit(X, (angle + 100) % 360, 16, period=360.0).predict(X)
    np.testing.assert_allclose((turned - 100 - mean + 180) % 360 - 180, 0, atol=1e-6)  # where 0 is does not matter
    low, high = model.predict_quantiles(X, (0.025, 0.975)).T
    assert np.all((low < mean) & (mean < high))
    left = diagnostics.leave_one_out(model)
    assert np.abs(left.mean - left.y).max() < 180
    assert np.all(model.sample_y(X, 5) < 360)
    with pytest.raises(ValueError, match="no covariance"):
        model.predict(X, return_cov=True)


def test_direction_of_a_projected_normal():
    """E[g/|g|] against draws, from no direction at all to certainty."""
    rng = np.random.default_rng(0)
    for m, v in (((0.0, 0.0), 1.0), ((0.3, 0.4), 1.0), ((1.0, -0.5), 0.1), ((1.0, 0.0), 1e-12)):
        g = np.array(m)[:, None] + np.sqrt(v) * rng.standard_normal((2, 200_000))
        counted = (g / np.linalg.norm(g, axis=0)).mean(1)
        np.testing.assert_allclose(angles.directions(np.array(m), np.array(v)), counted, atol=6e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "poison"}, "did you mean 'poisson'"),
        ({"likelihood": "poisson"}, "whole numbers"),
        ({"likelihood": "student", "period": 360.0}, "'gaussian' only"),
        ({"likelihood": "student", "noise_std": 1.0}, "noise_std was given"),
        ({"noise_std": -1.0}, "positive number"),
        ({"noise_std": [1.0, 2.0]}, r"shape \(2,\)"),
        ({"trials": 3}, "use likelihood='binomial'"),
        ({"likelihood": "binomial", "y": np.full(20, 4.0), "trials": 3}, "more successes than trials"),
        ({"period": 0}, "period must be"),
    ],
)
def test_targets_that_cannot_be(options, message):
    X, u = bent(20)
    y = options.pop("y", u)
    with pytest.raises(ValueError, match=message):
        fit(X, y, 10, **options)


def test_other_targets_keep_the_geometry_and_go_through_files(tmp_path):
    X, u = bent(40)
    y = np.where(np.arange(40) < 20, np.round(5 * u), np.nan)
    model = GPUMRegressor(geometry="graph", smoothness="heat", warm_start=True, random_state=0).fit(X, y)
    geometries = inside.learned(model)
    for options in ({"likelihood": "poisson"}, {"likelihood": "student"}, {"period": 360.0}):
        model.set_params(likelihood="gaussian", period=None).set_params(**options).fit(X, y)
        assert inside.learned(model) is geometries
        model.save(tmp_path / "model.gpum", force=True)
        again = GPUMRegressor.load(tmp_path / "model.gpum")
        np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["noise", "angle", "poisson", "student"])
def test_many_labels_of_every_kind_are_screened(kind, monkeypatch):
    """Little is lost against all settings on all labels; kernels of full rank are bounded, and it is told."""
    X, u = bent()
    rng = np.random.default_rng(0)
    y = {"angle": 300 * u % 360, "poisson": rng.poisson(np.exp(1 + np.sin(6 * u)))}.get(kind, np.sin(6 * u))
    y = y + {"poisson": 0, "angle": 20}.get(kind, 0.05) * rng.standard_normal(120)
    options = {"noise": {"noise_std": 0.05}, "angle": {"period": 360.0}}.get(kind, {"likelihood": kind})
    whole = fit(X, y, 120, **options).predict(X)
    inside.lower(monkeypatch, labels_unscreened=100, labels_for_screening=60, labels_decomposed=120**2)
    model = fit(X, y, 120, **options)
    assert any("of 120 labels 60 compared" in note and "more were left out" in note for note in model.notes_)
    assert rmse(model.predict(X), whole) < 0.05 * whole.std()
    inside.lower(monkeypatch, labels_decomposed=100**2)
    with pytest.raises(ValueError, match="y has 120 labels, and the kernels that explain them take 120 × 120 numbers"):
        fit(X, y, 120, **options)
