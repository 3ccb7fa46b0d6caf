"""GP regression given a family of covariances: against dense algebra, finite differences and the laws of GPs."""

import pickle
import weakref
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t
from scipy.stats import t as student

from gpum import Priors
from gpum.geometry.candidate_set import Candidate, CandidateSet, join
from gpum.geometry.path_spaces import path_candidates
from gpum.heat.covariances import Features, KernelSum, Spectral, Stationary
from gpum.heat.spectra import SMOOTHNESS
from gpum.inference import gp, tempered
from gpum.inference.design import Asked, of_function
from gpum.inference.draws import draws
from gpum.inference.exact import LowRank, tridiagonal_forms
from gpum.inference.gradients import gradients
from gpum.inference.left_out import leave_one_out
from gpum.inference.posterior import RowsInSpaces
from gpum.inference.quantiles import mixture_quantiles
from gpum.persistence.store import Store

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (40, 2))
VALUES = np.concatenate([[0.0], np.sort(RNG.uniform(1, 200, 24))])
PHI = np.concatenate([np.ones((40, 1)), RNG.standard_normal((40, 24))], 1)


def bounded(covariance, bound=1.2):
    """The covariance with its variance bounded at about half of the rows of PHI."""
    return replace(covariance, bound=bound, typical=np.minimum(PHI**2 @ covariance.weights, bound).mean())


def covariances():
    for name, nu in SMOOTHNESS.items():
        yield f"stationary {name}", Stationary(nu, 0.4), X
        yield f"spectral {name}", Spectral(VALUES, np.mean(PHI**2, 0), nu, 2, 0.3), PHI
        yield f"bounded spectral {name}", bounded(Spectral(VALUES, np.mean(PHI**2, 0), nu, 2, 0.3)), PHI
    yield "offsets", Spectral(VALUES, np.mean(PHI**2, 0), 1.5, 2, 0.3, np.eye(25)[0]), PHI
    yield "bounded with offsets", bounded(Spectral(VALUES, np.mean(PHI**2, 0), 1.5, 2, 0.3, np.eye(25)[0])), PHI
    yield "features", Features(np.asarray(1 / np.mean(np.sum(PHI[:, 1:] ** 2, 1))), slice(1, None)), PHI
    mixed = np.repeat([0.5, 2.0], [10, 15])
    yield "mixed features", Features(mixed / np.mean(PHI**2 @ mixed)), PHI


def family(settings, *rows):
    """Settings on spaces in which the cloud is `rows`."""
    return CandidateSet([None] * len(rows), settings, list(rows), [0] * len(rows))


def geometries(settings, *rows):
    """The same, each space a geometry of its own."""
    prior = [np.log(sum(np.exp(s.log_prior) for s in settings if s.space == k)) for k in range(len(rows))]
    return replace(family(settings, *rows), geometry_of=list(range(len(rows))), log_priors=prior)


def at(*rows):
    return RowsInSpaces.exactly(rows)


CASES = [pytest.param(c, a, id=name) for name, c, a in covariances()]


@pytest.mark.parametrize(("covariance", "a"), CASES)
def test_covariances_agree_with_themselves(covariance, a):
    K = covariance.gram(a, a)
    assert np.allclose(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.linalg.eigvalsh(K).max()
    assert np.allclose(np.diag(K), covariance.diag(a))
    assert np.diag(K).mean() == pytest.approx(covariance.prior, rel=0.1)  # 1 on average over the cloud, and constants
    U = RNG.standard_normal((40, 3))
    assert np.allclose(covariance.times(a, a, U), K @ U)
    F = covariance.factor(a)
    if F is not None:
        assert np.allclose(F @ F.T, K)


def test_a_sum_of_kernels_is_the_sum_of_their_products():
    """Also of kernels whose variance is bounded, and of those with offsets."""
    terms = [(covariance, RNG.standard_normal(12)) for _, covariance, a in covariances() if a is PHI]
    expected = sum(covariance.gram(PHI, PHI[:12]) @ v for covariance, v in terms)
    assert np.allclose(KernelSum.of(terms, PHI[:12])(PHI), expected)


def test_a_bounded_variance_stays_below_its_bound():
    """Correlations do not change; points below the bound keep their variance up to a common factor."""
    plain = Spectral(VALUES, np.mean(PHI**2, 0), 1.5, 2, 0.3)
    found = bounded(plain)
    before, now = (c.gram(PHI, PHI) - 1 for c in (plain, found))
    assert np.diag(before).max() > 1.3
    assert np.diag(now).max() == pytest.approx(1.2)
    correlation = [K / np.sqrt(np.outer(np.diag(K), np.diag(K))) for K in (before, now)]
    assert np.allclose(*correlation)
    below = np.diag(now) < 1.19
    assert np.allclose(np.diag(now)[below] * found.typical, np.diag(before)[below])


@pytest.mark.parametrize(("covariance", "a"), CASES)
def test_slope_is_the_derivative(covariance, a):
    V = RNG.standard_normal((40, 3))
    h = 1e-5
    up, down = (covariance.at(covariance.scale * np.exp(s * h)).gram(a, a) for s in (1, -1))
    numeric = np.einsum("nk,nm,mk->k", V, (up - down) / (2 * h), V)
    assert np.allclose(covariance.slope(a, V), numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [12, 40])  # fewer and more labels than features
@pytest.mark.parametrize(("covariance", "a"), CASES)
def test_evidence_and_gradient(covariance, a, n):
    a, y = a[:n], RNG.standard_normal(n)
    signal, noise = 0.7, 0.05
    C = signal * covariance.gram(a, a) + noise * np.eye(n)
    theta = np.log([covariance.scale, signal, noise])

    def value(theta):
        return gp.log_evidence(covariance.at(np.exp(theta[0])), a, y, theta[1], theta[2])

    found, gradient = value(theta)
    assert found == pytest.approx(multivariate_normal(np.zeros(n), C).logpdf(y), rel=1e-9)
    h = 1e-5
    numeric = [(value(theta + h * e)[0] - value(theta - h * e)[0]) / (2 * h) for e in np.eye(3)]
    assert np.allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


def test_average_is_the_textbook_mixture():
    """One setting: a multivariate Student t over the grid of noise ratios, by dense algebra."""
    covariance, n = Stationary(1.5, 0.4), 10
    y = np.sin(5 * X[:n, 0])
    posterior = gp.average(family([Candidate(0, covariance, 0.0)], X), np.arange(n), y)
    small, large = (np.exp(-0.5 * (np.log10(gp.RATIOS) - mean) ** 2) for mean in (-3, 0))
    prior = 0.98 * small / small.sum() + 0.02 * large / large.sum()
    log_p, means, variances = [], [], []
    K, k = covariance.gram(X[:n], X[:n]), covariance.gram(X, X[:n])
    for r in gp.RATIOS:
        C = K + r * np.eye(n)
        b0 = Priors().signal[1] / (1 + r)  # signal and noise together have B0
        log_p.append(multivariate_t(np.zeros(n), b0 / Priors().signal[0] * C, df=2 * Priors().signal[0]).logpdf(y))
        b = b0 + 0.5 * y @ np.linalg.solve(C, y)
        means.append(k @ np.linalg.solve(C, y))
        v = covariance.diag(X) - np.einsum("ij,ji->i", k, np.linalg.solve(C, k.T)) + r
        variances.append(b / (Priors().signal[0] + n / 2 - 1) * v)
    p = prior * np.exp(log_p)
    assert posterior.log_evidence == pytest.approx(np.log(p.sum()), rel=1e-9)
    p /= p.sum()
    mean = p @ np.array(means)
    variance = p @ (np.array(variances) + np.array(means) ** 2) - mean**2
    found = posterior.moments(at(X))
    assert np.allclose(found[0], mean, atol=1e-8)
    assert np.allclose(found[1], variance, rtol=1e-6, atol=1e-9)
    assert np.allclose(np.diag(posterior.covariance(at(X))), found[1], rtol=1e-6, atol=1e-9)


def test_components_together_predict_as_each_alone():
    """All kinds of covariances, with bounds and offsets, at rows with one point and with several."""
    settings = [Candidate(0, covariance, 0.0) for _, covariance, a in covariances() if a is PHI]
    settings += [Candidate(0, Stationary(nu, scale), 0.0) for nu in (1.5, np.inf) for scale in (2.0, 5.0)]
    posterior = gp.average(family(settings, PHI), np.arange(12), np.sin(5 * X[:12, 0]))
    rows = at(PHI)
    rows.sigma_points[0].extend([PHI, PHI[::-1]])
    for component, means, variances, _ in posterior.conditionals(rows, False):
        K, k = (component.candidate.covariance.gram(b, PHI[:12]) for b in (PHI[:12], PHI))
        y, prior = component.d.U @ component.d.z, component.candidate.covariance.diag(PHI)
        for j, r in enumerate(component.ratios):
            mean = k @ np.linalg.solve(K + r * np.eye(12), y)
            v = component.signal[j] * (prior - np.einsum("ij,ji->i", k, np.linalg.solve(K + r * np.eye(12), k.T)))
            both = np.array([mean, mean[::-1]])
            assert np.allclose(means[:, j], both.mean(0), atol=1e-6)
            assert np.allclose(variances[:, j], (v + v[::-1]) / 2 + both.var(0), atol=1e-6)


def test_samples_and_quantiles_have_the_stated_moments():
    y = np.sin(5 * X[:15, 0])
    settings = [Candidate(0, Stationary(nu, s), 0.0) for nu in (1.5, np.inf) for s in (0.2, 0.6)]
    posterior = gp.average(family(settings, X), np.arange(15), y)
    points = at(X[15:25])
    mean, variance = posterior.moments(points)
    draws = posterior.samples(np.random.default_rng(1), points, 20_000, noise=True)
    error = 4 * np.sqrt(variance / 20_000)
    assert np.all(np.abs(draws.mean(1) - mean) < error)
    fourth = np.mean((draws - draws.mean(1, keepdims=True)) ** 4, 1)
    assert np.all(np.abs(draws.var(1) - variance) < 4 * np.sqrt((fourth - draws.var(1) ** 2) / 20_000))
    quantiles = posterior.quantiles(points, np.array([0.1, 0.5, 0.9]))
    below = np.mean(draws[:, :, None] < quantiles[:, None], 1)
    assert np.all(np.abs(below - [0.1, 0.5, 0.9]) < 4 * np.sqrt(0.25 / 20_000))


def test_quantiles_over_places_and_far_away():
    """One Gaussian part: the quantiles are those of the moments over a row's places, and of the prior where far."""
    y = np.sin(5 * X[:15, 0])
    posterior = gp.best(family([Candidate(0, Stationary(np.inf, 0.4), 0.0)], X), np.arange(15), y)
    places = [X[15:25] + shift for shift in (-0.2, 0.2)]
    means, variances = (np.array(v) for v in zip(*(posterior.moments(at(p)) for p in places), strict=True))
    sd = np.sqrt(variances.mean(0) + means.var(0))
    far = np.arange(10) == 3
    rows = RowsInSpaces([X[15:25]], [places], [far])
    low, high = posterior.quantiles(rows, np.array([0.025, 0.975])).T
    mean = np.where(far, 0.0, means.mean(0))
    prior = posterior.best.signal * (2 + posterior.best.ratios)
    half = 1.959964 * np.where(far, np.sqrt(prior), sd)
    assert np.allclose(low, mean - half, atol=1e-5)
    assert np.allclose(high, mean + half, atol=1e-5)
    # Moments, covariance and samples say the same.
    assert np.allclose(posterior.moments(rows), [mean, np.where(far, prior, sd**2)])
    cov = posterior.covariance(rows)
    assert np.allclose(np.diag(cov), np.where(far, prior, sd**2))
    assert np.all(cov[3, np.arange(10) != 3] == 0)
    assert np.linalg.eigvalsh(cov).min() > 0
    draws = posterior.samples(np.random.default_rng(0), rows, 4000, noise=True)
    assert np.all(np.abs(draws.mean(1) - mean) < 4.5 * np.sqrt(np.diag(cov) / 4000))
    assert np.all(np.abs(draws.var(1) / np.diag(cov) - 1) < 4.5 * np.sqrt(2 / 4000))


def distribution(weights, means, sds, dof, x):
    """F(x) and 1 - F(x) of mixtures at x [n, levels], [n, levels] each."""
    z = (x.T[:, None] - means) / (sds if np.isinf(dof) else sds * np.sqrt((dof - 2) / dof))
    weights = np.broadcast_to(weights / weights.sum(0), means.shape)
    return [np.einsum("jn,ljn->nl", weights, of(z, dof)) for of in (student.cdf, student.sf)]


@pytest.mark.parametrize("dof", [3.0, 12.0, np.inf])
@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
def test_quantiles_of_a_mixture_invert_its_distribution(dof, spread):
    """To 1e-8 of the level, or of what is left to 1, at any level and any mixture of scales."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(50), 20).T
    weights[:5, :10] = 0.0
    weights[weights < 1e-3] = 0.0
    means, sds = rng.normal(size=(50, 20)), np.exp(spread * rng.normal(size=(50, 20)))
    levels = np.array([1e-100, 1e-8, 1e-3, 0.025, 0.5, 0.9, 0.975, 1 - 1e-6])
    found = mixture_quantiles(weights, means, sds, dof, levels)
    below, above = distribution(weights, means, sds, dof, found)
    np.testing.assert_allclose(below, np.tile(levels, (20, 1)), rtol=1e-8)
    np.testing.assert_allclose(above, np.tile(1 - levels, (20, 1)), rtol=1e-8)
    # whatever the rows beside it, the units, and whether weights are those of all rows
    other = mixture_quantiles(weights[:, 12:13], 1e9 * means[:, 12:13], 1e9 * sds[:, 12:13], dof, levels)
    np.testing.assert_allclose(other, 1e9 * found[12:13], rtol=1e-9)
    same = mixture_quantiles(np.tile(weights[:, [3]], 20), means, sds, dof, levels)
    np.testing.assert_allclose(mixture_quantiles(weights[:, [3]], means, sds, dof, levels), same, rtol=1e-12)


def test_quantiles_of_components_that_are_all_but_points():
    weights, means = np.array([[0.3], [0.3], [0.4]]), np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    found = mixture_quantiles(weights, means, np.zeros((3, 2)), 7.0, np.array([0.1, 0.5, 0.7, 0.999]))
    np.testing.assert_allclose(found, [[1, 2, 3, 3], [5, 5, 5, 5]], atol=1e-14)
    sds = np.array([[1e-12, 1e-12], [1e-12, 1.0], [1e3, 1e-12]])
    found = mixture_quantiles(weights, means, sds, np.inf, np.array([0.001, 0.25, 0.5]))
    below, _ = distribution(weights, means[:, :1], sds[:, :1], np.inf, found[:1, :1])
    np.testing.assert_allclose(below, 0.001, rtol=1e-8)
    np.testing.assert_allclose(found[0, 1:], [1, 2], atol=1e-11)


def test_best_climbs_to_the_optimum():
    """The evidence of the single best setting is not beaten by any of a fine grid."""
    y = np.sin(4 * X[:, 0]) + 0.05 * RNG.standard_normal(40)
    ends = (0.05, 5.0)
    settings = [Candidate(0, Stationary(np.inf, s), 0.0, scales=ends) for s in np.geomspace(*ends, 6)]
    posterior = gp.best(family(settings, X), np.arange(40), y)
    grid = [
        gp.log_evidence(Stationary(np.inf, s), X, y, signal, signal + ratio)[0]
        for s in np.geomspace(*ends, 25)
        for signal in np.linspace(-3, 4, 15)
        for ratio in np.linspace(-12, 0, 15)
    ]
    assert posterior.log_evidence >= max(grid) - 1e-6


def test_three_labels_do_not_collapse_the_noise():
    y = np.array([-1.2, 0.1, 1.1])
    settings = [Candidate(0, Stationary(np.inf, s), 0.0) for s in np.geomspace(0.05, 5, 8)]
    posterior = gp.average(family(settings, X), np.arange(3), y)
    f, total = (posterior.moments(at(X[:3]), noise)[1] for noise in (False, True))
    assert np.all(total - f > 1e-4)
    assert posterior.moments(at(X[3:]))[1].min() > 1e-2


@pytest.mark.parametrize("n", [2, 3, 12, 40])  # fewer and more labels than features
@pytest.mark.parametrize("mode", ["average", "evidence"])
@pytest.mark.parametrize("family", [family, geometries])
def test_leave_one_out_is_a_fit_without_the_label(n, mode, family, monkeypatch):
    """The closed form against refits: for "average" of all settings, for "evidence" with hyperparameters fixed."""
    monkeypatch.setattr(gp, "KEEP", 1e-300)  # drop no setting
    monkeypatch.setattr(tempered, "LIGHT_GEOMETRY", 0.0)
    y = 100 + 3 * np.sin(5 * X[:n, 0]) + 0.3 * np.random.default_rng(n).standard_normal(n)
    power = np.mean(PHI**2, 0)
    settings = [Candidate(0, Stationary(nu, 0.4), -1.0, scales=(0.1, 2.0)) for nu in (0.5, np.inf)]
    settings += [Candidate(1, Spectral(VALUES, power, 1.5, 2, s), -0.5, scales=(0.1, 2.0)) for s in (0.1, 0.5)]
    labels = [X[:n], PHI[:n]]
    mean, scale = gp.units(y)
    whole = (gp.average if mode == "average" else gp.best)(family(settings, X, PHI), np.arange(n), (y - mean) / scale)
    found = leave_one_out(whole, y)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        mean, scale = gp.units(y[others])
        left, z = [a[others] for a in labels], (y[others] - mean) / scale
        if mode == "average":
            without = gp.average(family(settings, X, PHI), others, z)
        else:
            part = whole.best
            d = gp.decompose(part.candidate.covariance, left[part.candidate.space], z)
            without = replace(whole, components=[replace(part, d=d)], labels=left)
        place = at(*(a[i : i + 1] for a in labels))
        m, v = without.moments(place)
        ends = without.quantiles(place, np.array([0.025, 0.975]))
        assert found[0][i] == pytest.approx(mean + scale * m[0], rel=1e-6)
        assert found[1][i] == pytest.approx(scale**2 * v[0], rel=1e-4)
        # quantiles leave out parts below 1e-4 of the heaviest, of which there are up to a hundred
        assert found[2][i] == pytest.approx(mean + scale * ends[0], abs=1e-2 * scale * v[0] ** 0.5)


def test_leave_one_out_needs_two_labels():
    posterior = gp.average(family([Candidate(0, Stationary(1.5), 0.0)], X), np.arange(1), np.zeros(1))
    with pytest.raises(ValueError, match="at least 2"):
        leave_one_out(posterior, np.ones(1))


def test_geometries_are_weighed_by_a_power_of_their_evidence(monkeypatch):
    """Between geometries evidence to a power counts, within one all of it; weights give evidence back."""
    monkeypatch.setattr(gp, "KEEP", 1e-300)  # drop no setting
    monkeypatch.setattr(tempered, "LIGHT_GEOMETRY", 0.0)
    y = np.sin(5 * X[:12, 0])
    settings = [Candidate(0, Stationary(1.5, s), np.log(0.3)) for s in (0.2, 0.6)]
    settings.append(Candidate(1, Spectral(VALUES, np.mean(PHI**2, 0), 1.5, 2, 0.3), np.log(0.4)))
    found = gp.average(geometries(settings, X, PHI), np.arange(12), y)
    each = [gp.average(family([s], X, PHI), np.arange(12), y).log_evidence for s in settings]  # with its prior weight
    evidence = [np.logaddexp(*each[:2]) - np.log(0.6), each[2] - np.log(0.4)]
    a, b, c = (component.weight for component in found.components)
    assert np.log(a / b) == pytest.approx(each[0] - each[1])
    ratio = np.log(0.6 / 0.4) + tempered.POWER_OF_NUMBERS * (evidence[0] - evidence[1])
    assert np.log((a + b) / c) == pytest.approx(ratio)
    masses = [np.logaddexp.reduce(mass) for mass in found.log_masses()]
    assert masses - masses[0] == pytest.approx(np.array(each) - each[0])
    assert found.log_evidence == pytest.approx(np.logaddexp.reduce(each))


def test_a_light_geometry_is_dropped():
    settings = [Candidate(0, Stationary(1.5, 0.5), np.log(0.5)), Candidate(1, Stationary(1.5, 1e-3), np.log(0.5))]
    found = gp.average(geometries(settings, X, X), np.arange(30), np.sin(2 * X[:30, 0]))
    assert [component.candidate.space for component in found.components] == [0]
    assert found.components[0].weight == pytest.approx(1)


def test_joined_families_have_equal_prior_weight():
    """Two copies of one family beside another: posterior weights follow the evidence of each, as if alone."""
    y = np.sin(5 * X[:12, 0])
    one = family([Candidate(0, Stationary(1.5, s), -np.log(2)) for s in (0.2, 0.6)], X)
    two = family([Candidate(0, Spectral(VALUES, np.mean(PHI**2, 0), 1.5, 2, 0.3), 0.0)], PHI)
    both = join([one, two])
    assert both.geometry_of == [0, 1]
    assert [s.space for s in both.candidates] == [0, 0, 1]
    posterior = gp.average(both, np.arange(12), y)
    alone = [gp.average(f, np.arange(12), y).log_evidence for f in (one, two)]
    assert posterior.log_evidence == pytest.approx(np.logaddexp(*alone) - np.log(2))


@pytest.mark.parametrize("name", ["matern12", "matern32", "matern52", "heat"])
def test_matern_kernels_are_mixtures_of_heat_kernels(name):
    """With exact features φ√e^{-λt/2} of each time, kernels from paths are those from eigenvalues."""
    times = np.geomspace(1e-3, 30.0, 24)
    phi, values = PHI[:, 1:], VALUES[1:]
    cloud = np.concatenate([phi * np.exp(-values * t / 4) for t in times], 1)
    settings = path_candidates(times, [24] * len(times), cloud, 2, [name])
    spectral = Spectral(values, np.mean(phi**2, 0), SMOOTHNESS[name], 2)
    for setting, time in list(zip(settings, times, strict=True))[8:16]:  # scales whose times are on the grid
        exact = spectral.at(setting.scale).gram(phi, phi)
        if name == "heat":
            exact = 1 + (phi * np.exp(-values * setting.scale**2 / 2)) @ phi.T
            exact = 1 + (exact - 1) / np.mean(np.diag(exact) - 1)
        assert np.abs(setting.covariance.gram(cloud, cloud) - exact).max() < 2e-2 * np.abs(exact).max()
        assert setting.scale == pytest.approx(np.sqrt(time))


def test_units_of_tiny_and_constant_labels():
    assert gp.units(np.array([1e-200, 3e-200])) == pytest.approx((2e-200, 1e-200))
    assert gp.units(np.full(3, 7.0)) == (7.0, 7.0)
    assert gp.units(np.zeros(2)) == (0.0, 1.0)


def test_an_evidence_that_stops_early_is_noted(monkeypatch):
    from scipy.optimize import OptimizeResult

    stopped = OptimizeResult(x=np.log([0.4, 1.0, 0.01]), fun=1.0, success=False, message="ABNORMAL")
    monkeypatch.setattr(gp, "minimize", lambda *args, **options: stopped)
    posterior = gp.best(family([Candidate(0, Stationary(1.5, 0.4), 0.0)], X), np.arange(5), X[:5, 0])
    assert "stopped early (ABNORMAL)" in posterior.notes[0]


@pytest.mark.parametrize(("n", "wider"), [(5, 0.0), (20, 0.05)])
def test_unrelated_labels_have_the_interval_of_a_sample(n, wider):
    """mean ± t s √(1 + 1/n): the rows have nothing to do with each other, so that nothing else can be right."""
    rows = np.arange(n + 1.0)[:, None]
    one = family([Candidate(0, Stationary(0.5, 1e-3), 0.0)], rows)
    y = np.random.default_rng(0).standard_normal(n)
    mean, scale = gp.units(y)
    posterior = gp.average(one, np.arange(n), (y - mean) / scale)
    low, high = mean + scale * posterior.quantiles(at(rows[n:]), np.array([0.025, 0.975]))[0]
    exact = 2 * student.ppf(0.975, n - 1) * y.std(ddof=1) * np.sqrt(1 + 1 / n)
    assert (high - low) / exact == pytest.approx(1 + wider, abs=0.03)


def test_labels_are_held_in_one_space_at_a_time():
    """Of many labels all spaces together would be gigabytes: only those of settings with weight stay."""
    alive, most = 0, 0

    class Rows:
        """Rows of a space that are made when they are asked for; it is counted how many are held at once."""

        def __init__(self, scale):
            self.scale = scale

        def __getitem__(self, index):
            nonlocal alive, most
            found = (self.scale * np.concatenate([X, X + 5]))[index % 80]
            if len(index) > 300:
                alive, most = alive + 1, max(most, alive + 1)
                weakref.finalize(found, gone)
            return found

    def gone():
        nonlocal alive
        alive -= 1

    settings = [Candidate(k, Stationary(np.inf, 1.0), 0.0) for k in range(20)]
    rows = [Rows(scale) for scale in np.geomspace(1e-3, 1e3, 20)]
    y = np.sin(5 * np.concatenate([X, X + 5])[np.arange(600) % 80, 0])
    found = gp.average(family(settings, *rows), np.arange(600), y)
    assert most <= 2 + len(found.spaces)
    assert {k for k, at in enumerate(found.labels) if at is not None} == found.spaces


@pytest.mark.parametrize("n", [1, 2, 12, 40])
@pytest.mark.parametrize(("covariance", "a"), CASES[:5])
def test_forms_without_eigenvectors_are_those_of_dense_algebra(covariance, a, n):
    """Q and the determinant, which weigh settings, agree with a solver for every ratio, with noise of each label."""
    a, y, noise = a[:n], RNG.standard_normal(n), RNG.uniform(0.5, 2, n)
    quadratic, log_det = gp.forms(covariance, a, y, noise)
    for r, Q, L in zip(gp.RATIOS, quadratic, log_det, strict=True):
        C = covariance.gram(a, a) + r * np.diag(noise)
        assert pytest.approx(y @ np.linalg.solve(C, y), rel=1e-6) == Q
        assert pytest.approx(np.linalg.slogdet(C)[1] - np.log(noise).sum(), abs=1e-6) == L


WEIGHTED = [case for case in CASES if not case.id.startswith("stationary")]


@pytest.mark.parametrize(("covariance", "a"), WEIGHTED)
@pytest.mark.parametrize("even", [True, False])
def test_sums_over_labels_say_what_all_labels_say(covariance, a, even):
    """Forms, predictions and the matrix of labels follow from k × k numbers, whichever variances are bounded."""
    y, noise = RNG.standard_normal(40), np.ones(40) if even else RNG.uniform(0.5, 2, 40)
    labels, r, new = gp.NoisyLabels(y, noise), 0.03, RNG.standard_normal((5, a.shape[1]))
    d = labels.decomposed(covariance, a)
    assert isinstance(d, LowRank)
    C = covariance.gram(a, a) + r * np.diag(noise)
    solved = np.linalg.solve(C, covariance.gram(a, new))
    G = d.times(covariance, new, a)
    np.testing.assert_allclose(G @ (d.z / (d.S + r)), y @ solved, atol=1e-8)
    np.testing.assert_allclose(G**2 @ (1 / (d.S + r)), np.sum(covariance.gram(a, new) * solved, 0), rtol=1e-8)
    assert d.quadratic(r)[0] == pytest.approx(y @ np.linalg.solve(C, y), rel=1e-8)
    assert d.log_det(r)[0] == pytest.approx(np.linalg.slogdet(C)[1] - np.log(noise).sum(), abs=1e-8)
    for found, dense in zip(labels.forms(covariance, a), (d.quadratic, d.log_det), strict=True):
        np.testing.assert_allclose(found, dense(gp.RATIOS), rtol=1e-6)
    U = d.at(covariance, a).U
    np.testing.assert_allclose(U.T @ (noise[:, None] * U), np.eye(len(d.S)), atol=1e-6)


def test_predictions_of_kernels_of_low_rank_do_not_depend_on_sums(monkeypatch):
    """Means, moments, joint draws, left-out labels: as from a decomposition with a row for each label."""
    settings = [Candidate(0, c, 0.1 * k) for k, (_, c, a) in enumerate(covariances()) if a is PHI]
    whole, known, y = family(settings, PHI), np.arange(38), np.sin(3 * X[:38, 0])
    found = gp.average(whole, known, y)
    assert all(isinstance(component.d, LowRank) for component in found.components)
    monkeypatch.setattr(gp.NoisyLabels, "sums", lambda *_: None)
    dense = gp.average(whole, known, y)
    assert not any(isinstance(component.d, LowRank) for component in dense.components)
    new = at(RNG.standard_normal((4, 25)))
    assert found.log_evidence == pytest.approx(dense.log_evidence, abs=1e-7)
    np.testing.assert_allclose(found.mean(new), dense.mean(new), atol=1e-8)
    np.testing.assert_allclose(found.moments(new), dense.moments(new), atol=1e-8)
    np.testing.assert_allclose(found.covariance(new), dense.covariance(new), atol=1e-8)
    for one, other in zip(leave_one_out(found, y), leave_one_out(dense, y), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    D, frame = RNG.standard_normal((4, 2, 25)), RNG.standard_normal((4, 3, 2))
    directions = {space: (new.at[0], D, frame, np.zeros(4, bool)) for space in range(len(new.at))}
    for one, other in zip(gradients(found, directions), gradients(dense, directions), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    one, other = ([f.at(new.at[0]) for f in draws(each, np.random.default_rng(0), 3)] for each in (found, dense))
    np.testing.assert_allclose(one, other, atol=1e-6)
    asked = Asked(np.array([38, 39]), np.arange(10))
    for one, other in zip(*(of_function(each, [PHI], asked) for each in (found, dense)), strict=True):
        np.testing.assert_allclose(one.cross, other.cross, atol=1e-8)
        assert (one.highest, one.lowest) == pytest.approx((other.highest, other.lowest), abs=1e-8)


def test_forms_of_a_matrix_that_rounding_makes_indefinite():
    """Then there is no elimination without pivots, and eigenvalues are used instead."""
    assert tridiagonal_forms(np.diag([1.0, -1e-3]), np.ones(2), gp.RATIOS) is None


def test_a_memory_changes_no_number_and_saves_work(monkeypatch):
    """Families with other prior weights and spaces share what their kernels say of the labels; other labels do not."""
    known, y = np.arange(12), np.sin(5 * X[:12, 0])
    every = [Candidate(0 if a is X else 1, c, -1.0 * k) for k, (_, c, a) in enumerate(covariances())]
    some = [replace(s, log_prior=0.3, space=1 - s.space) for s in every[3:]]
    memory, asked = Store(), []
    forms = gp.forms
    monkeypatch.setattr(gp, "forms", lambda *args: asked.append(args[0]) or forms(*args))
    for whole in (family(every, X, PHI), family(some, PHI, X)):
        for labels in (y, np.cos(3 * X[:12, 1]), y):
            found, plain = gp.average(whole, known, labels, store=memory), gp.average(whole, known, labels)
            assert found.log_evidence == plain.log_evidence
            np.testing.assert_array_equal(found.mean(at(*whole.rows)), plain.mean(at(*whole.rows)))
    asked.clear()
    gp.average(family(some, PHI, X), known, y, store=memory)
    assert all(isinstance(covariance, Features) for covariance in asked)


def test_a_memory_tells_rows_apart_and_holds_none_of_them(monkeypatch):
    """Equal labels of other rows, at the same positions of their family, as two columns of y have; rows may be long."""
    known, y = np.arange(12), np.sin(5 * X[:12, 0])
    every = [Candidate(0 if a is X else 1, c, -1.0 * k) for k, (_, c, a) in enumerate(covariances())]
    memory, names = Store(), []
    once = memory.once
    monkeypatch.setattr(memory, "once", lambda name, make: names.append(name) or once(name, make))
    for rows in ((X, PHI), (X[::-1], PHI[::-1])):
        whole = family(every, *rows)
        found, plain = gp.average(whole, known, y, store=memory), gp.average(whole, known, y)
        assert found.log_evidence == plain.log_evidence
    assert max(len(pickle.dumps(name)) for name in names) < 500
