"""Flat space with a length scale for every column, learned from labels; noise; repeated rows."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from gpum import GPUMRegressor, Priors
from gpum.fitted.relevance import TITLE, with_lengths
from gpum.heat.covariances import Features, Stationary
from gpum.inference import gp, nearest, relevance

N, LABELS = 160, 40

PRIORS = Priors()


def table(seed=0, n=N, noise=0.05):
    """Rows of five columns, of which the first two matter, in very different units; the last is constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    X[:, 4] = 7.0
    f = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1]
    return X * [1.0, 300.0, 1.0, 1e-3, 1.0], f + noise * rng.standard_normal(n), f


def labelled(y, n=LABELS):
    """The first n labels, NaN for the other rows."""
    return np.where(np.arange(len(y)) < n, y.T, np.nan).T


def flat(**options):
    """A regressor of flat space alone, whose columns have the units in which they come."""
    return GPUMRegressor(geometry="flat", scale="none", random_state=0, **options)


def weight(model):
    """The weight of the spaces with a length for each column, for each output."""
    fitted = model.model_
    return fitted.weights[:, fitted.geometries.titles.index(TITLE)] if TITLE in fitted.geometries.titles else 0.0


@pytest.fixture(scope="module")
def fitted():
    """A fit to a table with its truth."""
    X, y, f = table()
    return flat(warm_start=True).fit(X, labelled(y)), X, y, f


@pytest.mark.parametrize("smoothness", ["matern12", "matern32", "matern52", "heat"])
@pytest.mark.parametrize("repeated", [False, True])
def test_the_gradient_is_that_of_the_objective(smoothness, repeated):
    """Central differences, with two columns of labels."""
    rng = np.random.default_rng(0)
    labels = relevance.LabelledRows(rng.standard_normal((15, 3)), rng.standard_normal((15, 2)), smoothness, repeated)
    theta, h = 0.7 * rng.standard_normal(4), 1e-5
    slope = [
        (labels.objective(theta + h * e, 0.1)[0] - labels.objective(theta - h * e, 0.1)[0]) / (2 * h) for e in np.eye(4)
    ]
    np.testing.assert_allclose(labels.objective(theta, 0.1)[1], slope, rtol=1e-5, atol=1e-5)


def test_the_prior_of_inverse_squared_lengths_is_half_cauchy():
    """A normal z becomes a half-Cauchy ρ: its quantiles are τ tan(πp/2)."""
    p = np.array([0.01, 0.2, 0.5, 0.9, 0.999])
    rho, slope = relevance.inverse_squares(norm.ppf(p), 0.3)
    np.testing.assert_allclose(rho, 0.3 * np.tan(np.pi * p / 2), rtol=1e-9)
    h = 1e-6
    other = relevance.inverse_squares(norm.ppf(p) + h, 0.3)[0]
    np.testing.assert_allclose(slope, (other - rho) / h, rtol=1e-4)


def test_the_objective_is_the_evidence_of_the_regression():
    """Up to the prior, and at one noise ratio, it is what `gp` says of the same kernel."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    labels, z = relevance.LabelledRows(X, y[:, None]), np.array([0.3, -0.5])
    rho, _ = relevance.inverse_squares(z, 0.3)
    found = []
    for w in (-1.0, 0.5):
        r = 10 ** (-2 + 1.5 * w)
        d = gp.decompose(gp_kernel(), X * np.sqrt(rho), y)
        b0 = PRIORS.signal_rate(np.array([r]))
        shape = PRIORS.signal[0] + 6
        log_p = PRIORS.signal[0] * np.log(b0) - shape * np.log(b0 + 0.5 * d.quadratic(r)) - 0.5 * d.log_det(r)
        theta = np.append(z, w)
        found.append(labels.objective(theta, 0.3)[0] + float(log_p[0]) - 0.5 * theta @ theta)
    np.testing.assert_allclose(found, 0.0, atol=1e-8)


def gp_kernel():
    """A Matérn 5/2 kernel of length 1."""
    return Stationary(2.5, 1.0)


def test_masses_of_members_estimate_the_evidence_of_all_lengths():
    """Against the plain mean over draws from the prior, for two columns and eight labels."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    labels = relevance.LabelledRows(X, y[:, None])

    def log_evidence(precision):
        d = gp.decompose(gp_kernel(), X * np.sqrt(precision), y)
        b0, ratios = PRIORS.signal_rate(gp.RATIOS), gp.RATIOS
        a0, b = PRIORS.signal[0], b0 + 0.5 * d.quadratic(ratios)
        log_p = a0 * np.log(b0) - (a0 + 4) * np.log(b) - 0.5 * d.log_det(ratios)
        return logsumexp(log_p + PRIORS.log_ratio())

    drawn = [
        log_evidence(relevance.inverse_squares(rng.standard_normal(2), tau)[0])
        for tau in PRIORS.length_scale
        for _ in range(300)
    ]
    members = relevance.members(labels)
    estimate = logsumexp([m.log_weight + log_evidence(m.precision) for m in members])
    assert estimate == pytest.approx(logsumexp(drawn) - np.log(len(drawn)), abs=0.5)


def test_columns_that_do_not_matter_are_found(fitted):
    model, X, y, f = fitted
    found = model.relevance_
    assert found.shape == (5,)
    assert found.max() <= 1.0
    assert found[0] > 0.9
    assert found[1] > 0.15
    assert np.all(found[2:4] < 0.1)
    assert found[4] == 0.0
    assert weight(model) > 0.99
    off = model.predict(X)[LABELS:] - f[LABELS:]
    plain = flat(hyperparameters="evidence").fit(X, labelled(y)).predict(X)[LABELS:] - f[LABELS:]
    assert np.mean(off**2) < 0.2 * np.mean(plain**2)


def test_units_of_columns_do_not_matter(fitted):
    """One column in another unit: the members are the same, and so are predictions and relevance."""
    model, X, y, _ = fitted
    factor = np.array([1.0, 1.0, 2.0**20, 1.0, 1.0])
    other = flat().fit(X * factor, labelled(y))
    assert weight(other) > 0.99
    np.testing.assert_allclose(other.predict(X * factor), model.predict(X), atol=1e-3)
    np.testing.assert_allclose(other.relevance_, model.relevance_, atol=1e-3)


def test_an_average_not_a_maximum(fitted):
    """Several lengths have weight, and none has most of it."""
    components = fitted[0].model_.outputs[0].posterior.components
    spaces = np.array([c.candidate.space for c in components])
    weights = np.bincount(spaces, [c.weight for c in components])
    assert np.sum(weights > 0.01) > 4
    assert weights.max() < 0.6


def test_other_labels_have_other_lengths(fitted):
    """Warm start: the same geometries, and lengths of the new labels; those of the first fit leave no trace."""
    model, X, y, _ = fitted
    before = model.relevance_
    other = np.cos(2 * X[:, 2])
    warm = flat(warm_start=True).fit(X, labelled(y)).fit(X, labelled(other))
    cold = flat().fit(X, labelled(other))
    np.testing.assert_array_equal(warm.predict(X), cold.predict(X))
    assert warm.relevance_[2] == pytest.approx(1.0)
    assert before[2] < 0.1
    assert len(warm.model_.geometries.members) == len(cold.model_.geometries.members)


def test_every_output_has_its_own_lengths(fitted, tmp_path):
    """Also one with labels on other rows, and one with too few; and through a file."""
    model, X, y, _ = fitted
    Y = np.stack([labelled(y), labelled(X[:, 2] ** 2)[::-1], labelled(y, 5)], 1)
    Y[:, 1] = np.where(np.isnan(Y[:, 1]), np.nan, X[:, 2] ** 2)
    several = flat().fit(X, Y)
    found = several.relevance_
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found[0], model.relevance_)
    assert found[1].argmax() == 2
    assert np.isnan(found[2]).all()
    np.testing.assert_allclose(several.predict(X)[:, 0], model.predict(X), atol=1e-9)
    several.save(tmp_path / "model.gpum")
    loaded = GPUMRegressor.load(tmp_path / "model.gpum")
    new = X[:7] * 1.01
    for rows in (X, new):
        for one, other in zip(
            several.predict(rows, return_std=True), loaded.predict(rows, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.relevance_, found)
    assert (tmp_path / "model.gpum").stat().st_size < 1_000_000


def test_left_out_labels_and_suggestions(fitted):
    model, _, y, _ = fitted
    mean, std, _ = model.model_.outputs[0].leave_one_out()
    off = (mean - y[:LABELS]) / std
    assert 0.3 < np.sqrt(np.mean(off**2)) < 2
    assert len(set(model.suggest(3))) == 3


@pytest.mark.parametrize("likelihood", ["student", "poisson", "binomial"])
def test_other_likelihoods_have_lengths_too(fitted, likelihood):
    _, X, y, f = fitted
    rng = np.random.default_rng(5)
    made = {"student": y, "poisson": rng.poisson(5 * np.exp(f)).astype(float), "binomial": (f > 0).astype(float)}
    model = flat(likelihood=likelihood).fit(X, labelled(made[likelihood], 60))
    assert model.relevance_[0] > 3 * model.relevance_[2:].max()


def test_angles_have_lengths_too(fitted):
    _, X, _, f = fitted
    model = flat(period=360.0).fit(X, labelled(60 * f % 360))
    assert model.relevance_[0] > 3 * model.relevance_[2:].max()


def test_missing_readings(fitted, tmp_path):
    _, X, y, _ = fitted
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    X[:, 4] = 7.0
    model = flat().fit(X, labelled(y, 60))
    assert model.relevance_[0] > 3 * model.relevance_[2:].max()
    model.save(tmp_path / "model.gpum")
    np.testing.assert_array_equal(GPUMRegressor.load(tmp_path / "model.gpum").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("columns", "labels", "options"),
    [(1, 40, {}), (5, 9, {}), (5, 40, {"hyperparameters": "evidence"})],
)
def test_where_lengths_are_not_learned(columns, labels, options):
    """One column, few labels, a single best setting: flat space stands alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, columns))
    model = flat(**options).fit(X, labelled(X[:, 0], labels))
    assert model.relevance_ is None
    assert model.model_.geometries.titles == ["flat space"]


def error_of_one_column(columns):
    """The RMSE of flat space for 100 labels, of which only one of so many columns says anything."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 600))[:, :columns]
    f = np.sin(1.5 * X[:, 0])
    model = flat().fit(X, labelled(f + 0.1 * rng.standard_normal(300), 100))
    assert np.argmax(model.relevance_) == 0
    return np.sqrt(np.mean((model.predict(X) - f)[100:] ** 2))


def test_a_column_is_found_among_hundreds():
    """One column more than have lengths changes nothing, and three times as many change little; the noise is 0.1."""
    alone, one_more, many = map(error_of_one_column, (200, 201, 600))
    assert alone < 0.3
    assert one_more == pytest.approx(alone, rel=0.03)
    assert many < 1.25 * alone


def test_the_rest_of_the_columns_is_one_more():
    """Columns that share a length have the density, gradient and information of one column with their distances."""
    rng = np.random.default_rng(0)
    X, Y, theta = rng.standard_normal((15, 3)), rng.standard_normal((15, 2)), 0.7 * rng.standard_normal(4)
    every = relevance.LabelledRows(X, Y)
    shared = relevance.LabelledRows(X[:, :2], Y, rest=relevance.mean_square(X[:, 2:]))
    for known, new in zip(every.objective(theta, 0.1), shared.objective(theta, 0.1), strict=True):
        np.testing.assert_allclose(new, known, rtol=1e-10)
    np.testing.assert_allclose(shared.information(theta, 0.1), every.information(theta, 0.1), rtol=1e-8, atol=1e-10)


def test_columns_of_their_own_and_the_rest_have_the_distances_that_were_learned(monkeypatch):
    """Inverse squares of all columns say the same distances as those of the first columns and of the rest."""
    monkeypatch.setattr(relevance, "MOST_COLUMNS", 3)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 6))
    labels = relevance.LabelledRows(X, X[:, [4]] - np.sin(X[:, [1]]))
    first = relevance.first_columns(labels)
    assert first.tolist() == [1, 4]
    rest = relevance.mean_square(np.delete(X, first, axis=1))
    known = relevance.members(replace(labels, X=X[:, first], rest=rest))
    for member, one in zip(relevance.of_all_columns(labels), known, strict=True):
        expected = relevance.squared_distances(X[:, first], one.precision[:2]) + one.precision[2] * rest
        np.testing.assert_allclose(relevance.squared_distances(X, member.precision), expected, rtol=1e-10)
        assert member.log_mass == one.log_mass


def test_few_members_have_the_mass_of_all():
    rng = np.random.default_rng(0)
    every = relevance.members(relevance.LabelledRows(rng.standard_normal((20, 3)), rng.standard_normal((20, 1))))
    few = relevance.heaviest(every, 4)
    assert len(few) == 4
    assert logsumexp([m.log_mass for m in few]) == pytest.approx(logsumexp([m.log_mass for m in every]))
    assert min(m.log_mass for m in few) >= sorted(m.log_mass for m in every)[-4]
    assert relevance.heaviest(every, len(every)) == every


def test_prior_odds_of_lengths_fall_from_two_hundred_columns_on():
    assert [relevance.log_odds(p) for p in (2, 200)] == [0.0, 0.0]
    assert np.exp(relevance.log_odds(400)) == pytest.approx(0.25)
    y = labelled(np.arange(40.0), 12)
    geometries = flat().fit(np.random.default_rng(0).standard_normal((40, 400)), y).model_.geometries
    new = with_lengths(geometries, np.arange(12), y[:12, None] / 5)
    np.testing.assert_allclose(np.exp(new.candidate_set.log_priors), [0.8, 0.2])
    owner = np.array([new.candidate_set.geometry_of[candidate.space] for candidate in new.candidate_set.candidates])
    flat_alone = np.exp([candidate.log_prior for candidate in new.candidate_set.candidates])[owner == 0]
    assert flat_alone.sum() == pytest.approx(0.8)


def test_lengths_are_learned_in_a_second():
    """100 labels of 20 columns; a generous limit, since machines differ."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 20))
    labels = relevance.LabelledRows(X, np.sin(2 * X[:, :1]) + 0.1 * rng.standard_normal((100, 1)))
    best = np.inf
    for _ in range(3):
        start = perf_counter()
        relevance.members(labels)
        best = min(best, perf_counter() - start)
    assert best < 2


def covered(X, y, n, levels=(0.1, 0.9)):
    """The part of the rows without a label that are inside an interval, of flat space."""
    low, high = flat().fit(X, labelled(y, n)).predict_quantiles(X[n:], levels).T
    return np.mean((y[n:] > low) & (y[n:] < high))


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_intervals_hold_with_and_without_noise(noise):
    """80 % intervals of tables whose labels have no noise, some, and far more than signal."""
    found = [covered(*table(seed, 120, noise)[:2], 40) for seed in range(6)]
    assert 0.72 < np.mean(found) < 0.92 if noise else 0.75 < np.mean(found) <= 1.0


def test_noise_above_the_signal_is_recognised():
    """Labels of hardly any signal: the spread of a new label is that of the labels, and that of the function far less.

    The noise was at most that of the signal, and half of the labels' variance was said to be signal.
    """
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 3))
    y = 0.1 * X[:, 0] + rng.standard_normal(200)
    model = flat().fit(X, labelled(y, 150))
    _, new = model.predict(X[150:], return_std=True)
    _, function = model.predict(X[150:], return_std=True, include_noise=False)
    assert np.all(np.abs(new - y[:150].std()) < 0.15)
    assert function.mean() < 0.3


def test_copies_whose_labels_differ():
    """A heavy-tailed column, and rows that were observed twice with different outcomes: no label is taken as certain.

    Without a word about repeated rows in the prior, the noise of such labels was said to be next to none, and the copy
    of a labelled row was off by tens of standard deviations.
    """
    off = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 6))
        X[:, 0] = rng.standard_t(1.5, 300)
        X[200:230] = X[:30]
        f = np.sin(2 * X[:, 1]) + np.tanh(X[:, 0]) + np.abs(X[:, 2]) * X[:, 3]
        f[200:230] += rng.choice([-1.0, 1.0], 30)  # what no column says
        model = flat().fit(X, labelled(f, 60))
        mean, std = model.predict(X[200:230], return_std=True)
        off.append((f[200:230] - mean) / std)
    assert np.mean(np.square(off)) < 40  # 180 without it


@pytest.mark.parametrize("geometry", ["graph", "atlas"])
def test_rows_far_from_all_others_have_the_prior(geometry):
    """One column with heavy tails: graphs and atlases join an outlying row to the nearest rows, however far these are.

    They then predicted the value of these rows at it, and were more certain there than a new label is of its mean.
    """
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 6))
    X[:, 0] = rng.standard_t(1.0, 150)
    X[120:] = X[:30]
    X[119, 0] = 5000.0
    y = X[:, 0] + X[:, 1]
    usual = np.abs(X[:, 0]) < 10
    labels = np.where(usual & (np.arange(150) % 2 == 0), y, np.nan)
    model = GPUMRegressor(geometry=geometry, latent_dim=2, scale="none", random_state=0).fit(X, labels)
    mean, std = model.predict(X, return_std=True)
    assert std[119] > np.nanstd(labels)
    assert abs(mean[119] - np.nanmean(labels)) < 1e-6
    known = ~np.isnan(labels)
    assert np.abs((mean - y)[known]).mean() < 0.7 * np.nanstd(labels)  # rows with labels keep what these say
    labels[119] = y[119]
    assert model.fit(X, labels).predict(X[[119]]) > 1000  # as this one does, once it has a label


def test_lengths_are_a_kind_of_geometry_of_their_own(fitted):
    """Prior weights are equal over all kinds, the one that labels add included."""
    model, _, y, _ = fitted
    geometries = model.model_.geometries
    labelled = with_lengths(geometries, np.arange(LABELS), y[:LABELS, None])
    kinds = len(set(geometries.names))
    own = [member.title == TITLE for member in labelled.geometries.members]
    prior = np.exp(labelled.candidate_set.log_priors)
    assert prior[own] == pytest.approx([1 / (kinds + 1)])
    assert prior.sum() == pytest.approx(1)
    others = [
        s.log_prior for s in labelled.candidate_set.candidates if not own[labelled.candidate_set.geometry_of[s.space]]
    ]
    assert logsumexp(others) == pytest.approx(np.log(kinds / (kinds + 1)))


@pytest.mark.parametrize("likelihood", ["poisson", "binomial", "student"])
def test_many_labels_of_every_likelihood_teach_lengths(likelihood, monkeypatch):
    """Above `nearest.EXACT` labels kernels have low rank, with a length for each column; no label is left out."""
    monkeypatch.setattr(nearest, "EXACT", 60)
    monkeypatch.setattr("gpum.inference.regress.EXACT", 60)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    f = 1.5 * np.sin(2 * X[:, 0])
    draws = {"poisson": rng.poisson(np.exp(1 + f)), "binomial": rng.binomial(8, 1 / (1 + np.exp(-f)))}
    options = {"trials": 8} if likelihood == "binomial" else {}
    y = draws.get(likelihood, f + 0.1 * rng.standard_normal(200)).astype(float)
    model = GPUMRegressor(geometry="flat", likelihood=likelihood, random_state=0).fit(X[:140], y[:140], **options)
    components = model.model_.outputs[0].posterior.components
    assert all(isinstance(component.candidate.covariance, Features) for component in components)
    assert model.relevance_[0] == 1
    assert model.relevance_[1:].max() < 0.5
    guess = model.predict(X[140:])
    assert np.corrcoef(guess, f[140:])[0, 1] > 0.85
