"""Graphs in the relevant columns: candidates, weights, files, other labels."""

import numpy as np
import pytest
from scipy.special import logsumexp

from gpum import GPUMRegressor, Priors
from gpum.fitted import relevant_graphs
from gpum.fitted.relevant_graphs import TITLE
from gpum.geometry.candidate_set import CandidateSet, spectral_candidates
from gpum.geometry.graphs import FIRST_GRAPH, graph_spaces
from gpum.heat.spectra import SMOOTHNESS
from gpum.inference import gp, relevance

N, LABELS = 300, 40
FREQUENCIES, PHASES = np.array([1.7, 2.9, 4.1]), np.arange(3)


def on_curve(z):
    """The columns of a curve at z [n], their slopes along it, and the function and its slope."""
    angle = np.outer(z, FREQUENCIES) + PHASES
    columns, slopes = np.sqrt(2) * np.sin(angle), np.sqrt(2) * FREQUENCIES * np.cos(angle)
    return columns, slopes, np.sin(2 * z) + 0.5 * np.cos(3.4 * z), 2 * np.cos(2 * z) - 1.7 * np.sin(3.4 * z)


def curve(seed=0, n=N):
    """Rows near a curve, with six columns of noise beside it; labels with noise, and the function."""
    rng = np.random.default_rng(seed)
    columns, _, f, _ = on_curve(rng.uniform(0, 4, n))
    X = np.column_stack([columns + 0.03 * rng.standard_normal(columns.shape), rng.standard_normal((n, 6))])
    return X, f + 0.05 * rng.standard_normal(n), f


def labelled(y, n=LABELS):
    """The first n labels, NaN for the other rows."""
    return np.where(np.arange(len(y)) < n, y.T, np.nan).T


def fit(X, y, **options):
    """Of a graph and flat space."""
    return GPUMRegressor(geometry=["graph", "flat"], scale="none", random_state=0, **options).fit(X, y)


def weight(model, k=0):
    """The weight of graphs in the relevant columns."""
    fitted = model.model_
    return fitted.weights[k, fitted.geometries.titles.index(TITLE)] if TITLE in fitted.geometries.titles else 0.0


def scores(model, X, f):
    """RMSE and NLPD of the function at rows without a label."""
    mean, std = model.predict(X[LABELS:], return_std=True)
    away = mean - f[LABELS:]
    return np.sqrt(np.mean(away**2)), np.mean(0.5 * (away / std) ** 2 + np.log(std))


@pytest.fixture(scope="module")
def fitted():
    """A fit to a curve beside noise, with its truth."""
    X, y, f = curve()
    return fit(X, labelled(y)), X, y, f


def test_it_is_a_candidate_with_a_name(fitted):
    model = fitted[0]
    found, names = model.candidates_, set(model.model_.geometries.names)
    own = found.geometry == TITLE
    assert own.sum() == relevant_graphs.number_of(N) * len(SMOOTHNESS) * 12
    assert all("length per column" in words for words in found.units[own])
    assert names == {"graph", "flat"}
    of_graphs = found.weight[np.char.startswith(found.geometry, "graph")].sum()
    assert model.geometry_weights_["graph"] == pytest.approx(of_graphs)
    assert found.weight[own].sum() == pytest.approx(weight(model))
    assert weight(model) > 0.5
    assert model.model_.summary()["targets"][0]["geometry"][TITLE] == pytest.approx(weight(model))
    plain = found.geometry == "graph of neighbours"
    assert np.exp(found.log_prior[plain]).sum() == pytest.approx(1 / 6)  # half of a third, that of the other half


def test_its_prior_weight_is_that_of_its_lengths(fitted):
    """Half of the graph's, times what importance sampling of flat space's lengths says of each."""
    model, X, y, _ = fitted
    known, found = X[:LABELS] / relevance.spreads(X), model.candidates_
    z = (y[:LABELS] - y[:LABELS].mean()) / y[:LABELS].std(ddof=1)
    members = relevance.of_all_columns(relevance.LabelledRows(known - known.mean(0), z[:, None]))
    paid = [member.log_weight for member in relevance.heaviest(members, relevant_graphs.number_of(N))]
    assert logsumexp(found.log_prior[found.geometry == TITLE]) == pytest.approx(
        logsumexp(paid) + np.log(1 / 6), abs=0.1
    )
    assert logsumexp(paid) < -3  # they are lengths that were fitted


def test_columns_that_matter_are_those_of_its_lengths(fitted):
    relevance_ = fitted[0].relevance_
    assert relevance_[:3].max() > 0.9
    assert relevance_[3:].max() < 0.2


def test_it_gains_beside_columns_of_noise(fitted, monkeypatch):
    model, X, y, f = fitted
    error, density = scores(model, X, f)
    monkeypatch.setattr(relevant_graphs, "graph_of", lambda geometries: None)
    before, density_before = scores(fit(X, labelled(y)), X, f)
    assert error < 0.8 * before
    assert density < density_before - 0.1


def test_labels_that_say_nothing_give_graphs_no_more_weight(monkeypatch):
    """Its lengths were fitted to the same labels: that must not make graphs likelier than they are without it."""

    def fits():
        labels = [labelled(np.random.default_rng(seed).standard_normal(80), 40) for seed in range(6)]
        return [fit(curve(seed, 80)[0], y, smoothness="matern32") for seed, y in enumerate(labels)]

    def of_graphs(models):
        return np.mean([model.geometry_weights_["graph"] for model in models])

    models = fits()
    assert any(TITLE in model.model_.geometries.titles for model in models)
    assert np.mean([weight(model) for model in models]) < 0.25
    monkeypatch.setattr(relevant_graphs, "graph_of", lambda geometries: None)
    assert of_graphs(models) < of_graphs(fits()) + 0.05


def test_its_masses_estimate_the_evidence_of_all_lengths():
    """Against the mean over draws of lengths from their prior: no label is used twice."""
    rng = np.random.default_rng(1)
    X, known, priors = rng.standard_normal((60, 3)), np.arange(20), Priors()
    y = np.sin(X[known, 0]) + 0.1 * rng.standard_normal(20)
    y = (y - y.mean()) / y.std(ddof=1)

    def log_evidence(precision):
        space = graph_spaces(X * np.sqrt(precision), **FIRST_GRAPH, n_jobs=1)[0]
        candidates = spectral_candidates(space.values, space.vectors, 0.0, ["matern32", "heat"])
        return gp.average(CandidateSet([space], candidates, [space.vectors], [0]), known, y).log_evidence

    drawn = [
        log_evidence(relevance.inverse_squares(rng.standard_normal(3), tau)[0])
        for tau in priors.length_scale
        for _ in range(30)
    ]
    members = relevance.members(relevance.LabelledRows(X[known], y[:, None]))
    every, few = (  # of importance sampling
        logsumexp([member.log_weight + log_evidence(member.precision) for member in some])
        for some in (members, relevance.heaviest(members, 4))
    )
    truth = logsumexp(drawn) - np.log(len(drawn))
    assert -2 < every - truth < 0.5  # lengths of flat space are not all that a graph may have
    assert few < truth + 0.5
    assert max(log_evidence(member.precision) for member in members) > truth + 1  # without weights


def test_a_file_predicts_the_same(fitted, tmp_path):
    model, X, _, _ = fitted
    model.save(tmp_path / "model.gpum")
    loaded = GPUMRegressor.load(tmp_path / "model.gpum")
    for rows in (X, X[:9] + 0.03):
        for one, other in zip(model.predict(rows, return_std=True), loaded.predict(rows, return_std=True), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.relevance_, model.relevance_)
    assert weight(loaded) == weight(model)


def test_new_rows_are_projected(fitted):
    """Rows that no fit has seen, at other noise of the columns that do not matter."""
    model, _, _, _ = fitted
    X, _, f = curve(5)
    mean, std = model.predict(X, return_std=True)
    assert np.corrcoef(mean, f)[0, 1] > 0.95
    assert np.mean(np.abs(mean - f) < 2 * std) > 0.85


def test_gradients_are_those_of_the_columns(fitted):
    """Along the curve they tell the change of the prediction; columns of noise hardly change it."""
    z = np.linspace(0.3, 3.7, 40)
    columns, slopes, _, change = on_curve(z)
    slope = fitted[0].predict_gradient(np.column_stack([columns, np.zeros((40, 6))]))
    along = np.sum(slope[:, :3] * slopes, axis=1)
    assert np.corrcoef(along, change)[0, 1] > 0.9
    assert np.sqrt(np.mean((along - change) ** 2)) < 0.5 * change.std()
    assert np.abs(slope[:, 3:]).mean() < 0.2 * np.abs(slope[:, :3]).mean()


def test_every_output_has_its_own(fitted):
    """Also one of another column, and one with too few labels for lengths."""
    model, X, y, _ = fitted
    Y = np.stack([labelled(y), labelled(np.sin(3 * X[:, 4])), labelled(y, 5)], 1)
    several = fit(X, Y)
    titles = several.model_.geometries.titles
    assert titles.count(TITLE) == 1
    assert len(titles) == len(several.model_.geometries.candidate_set.log_priors) == 4
    np.testing.assert_allclose(several.predict(X)[:, 0], model.predict(X), atol=1e-9)
    np.testing.assert_allclose(several.predict(X)[:, 1], fit(X, Y[:, 1]).predict(X), atol=1e-9)
    assert weight(several, 0) == pytest.approx(weight(model))
    assert weight(several, 2) == 0


def test_labels_that_come_later_have_the_same_graphs(fitted):
    """`partial_fit` weighs what a fit to all labels weighs, also where rows are new."""
    model, X, y, f = fitted
    later = fit(X, labelled(y, 25)).partial_fit(X[25:LABELS], y[25:LABELS])
    np.testing.assert_allclose(later.predict(X), model.predict(X), atol=1e-6)
    more, seen, truth = curve(7, 30)
    grown = fit(X, labelled(y)).partial_fit(more, seen)
    assert weight(grown) > 0.5
    assert np.sqrt(np.mean((grown.predict(X) - f)[LABELS:] ** 2)) < 1.1 * scores(model, X, f)[0]
    assert np.corrcoef(grown.predict(more), truth)[0, 1] > 0.95


def test_missing_readings(fitted, tmp_path):
    _, X, y, f = fitted
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    model = fit(X, labelled(y))
    assert TITLE in model.model_.geometries.titles
    assert scores(model, X, f)[0] < 0.5
    model.save(tmp_path / "model.gpum")
    loaded = GPUMRegressor.load(tmp_path / "model.gpum")
    np.testing.assert_allclose(loaded.predict(X[:50]), model.predict(X[:50]), atol=1e-12)


@pytest.mark.parametrize("options", [{"period": 4.0}, {"likelihood": "student"}, {"hyperparameters": "evidence"}])
def test_other_likelihoods_have_none(fitted, options):
    """They were not measured, and each candidate takes them longer."""
    _, X, y, _ = fitted
    model = fit(X[:80], labelled(y[:80], 30), smoothness="matern52", **options)
    assert TITLE not in model.model_.geometries.titles


def test_where_all_columns_matter_alike_there_is_none():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.cos(np.linalg.norm(X, axis=1) * 2) + 0.01 * rng.standard_normal(150)
    assert TITLE not in fit(X, labelled(y, 100)).model_.geometries.titles


def test_a_constant_column_and_one_of_two_values_are_no_obstacle():
    """The lengths of a column of two values alone: nearly all rows lie at two points."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 100), np.full(100, 3.0), rng.standard_normal((100, 2))])
    model = fit(X, labelled(X[:, 0] + 0.01 * rng.standard_normal(100), 50))
    assert np.abs(model.predict(X) - X[:, 0]).max() < 0.1
