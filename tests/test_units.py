"""`scale`: columns that share a unit stay as they are, others are divided by their spreads; the labels have a say."""

import warnings

import numpy as np
import pytest

import odd
from gpum import BayesianGPLVM, GPUMClassifier, GpumError, GPUMRegressor, datasets
from gpum.basics import scaling
from gpum.basics.checks import NoSurface
from gpum.estimators import plan, units
from gpum.estimators.base import NumberScores
from gpum.estimators.contest import Contest

RNG = np.random.default_rng(0)
PIXELS = np.abs(RNG.standard_normal((40, 100))) * np.linspace(0.01, 1, 100)


@pytest.fixture(scope="module")
def roll():
    cloud = datasets.make_swiss_roll(n_labeled=30, n_unlabeled=90, random_state=0)
    return cloud.X, cloud.y, cloud.y_true


@pytest.mark.parametrize(
    ("X", "chance"),
    [
        (RNG.standard_normal((50, 3)), 1.0),
        (PIXELS, 1.0),  # many columns of small spread
        (RNG.standard_normal((50, 3)) * [1, 1, 1000], 0.004),
        (RNG.standard_normal((50, 2)) * [1, 1000], 0.004),
        (RNG.standard_normal((50, 3)) * [1, 1000, 1000], units.LIKELY),
        (np.ones((50, 3)) * [1, 2, 3], 1.0),  # nothing varies
        (RNG.standard_normal((50, 3)) * [1e-300, 1, 1e300], 0.0),
    ],
)
def test_how_likely_a_common_unit_is(X, chance):
    assert units.common_unit(X) == pytest.approx(chance, rel=0.5, abs=1e-9)


def test_spreads_of_any_numbers():
    X = RNG.standard_normal((60, 4)) * [1e-300, 1.0, 1e300, 0.0]
    X[3, 1] = np.nan
    found = scaling.spreads(X)
    np.testing.assert_allclose(found[[0, 2]], [1e-300 * (X[:, 0] * 1e300).std(), 1e300 * (X[:, 2] / 1e300).std()])
    assert found[1] == pytest.approx(np.nanstd(X[:, 1]))
    assert found[3] == 1.0
    outlier = np.append(RNG.standard_normal(99), 1e6)[:, None]
    assert scaling.spreads(outlier, robust=True)[0] < 2 < scaling.spreads(outlier)[0]


@pytest.mark.parametrize("column", [0, 2])
def test_a_roll_with_one_column_in_other_units_is_predicted_as_the_roll(roll, column):
    X, y, truth = roll
    make = lambda: GPUMRegressor(geometry="graph", smoothness="heat", random_state=0)
    error = lambda model, X: np.sqrt(np.mean((model.fit(X, y).predict(X) - truth) ** 2))
    far = X * np.where(np.arange(3) == column, 1000.0, 1.0)
    model = make()
    plain, auto = error(make(), X), error(model, far)
    assert auto < 1.3 * plain  # columns of a roll have not quite the same spreads
    assert auto < 0.6 * error(make().set_params(scale="none"), far)
    assert any("each column was divided by its standard deviation" in note for note in model.notes_)
    assert "each divided by its spread" in model.model_.summary()["columns"]


def test_columns_of_one_unit_are_left_alone(roll):
    X, y, _ = roll
    auto, none = (GPUMRegressor(geometry="flat", scale=s, smoothness="heat").fit(X, y) for s in ("auto", "none"))
    np.testing.assert_array_equal(auto.predict(X + 0.1), none.predict(X + 0.1))
    assert auto.notes_ == []


@pytest.mark.parametrize("scale", ["standard", "robust", "auto"])
def test_units_do_not_matter_to_scaled_columns(roll, scale, tmp_path):
    """Powers of two change no digit."""
    X, y, _ = roll
    wide = X * [1.0, 64.0, 1.0]
    make = lambda: GPUMRegressor(geometry=["graph", "flat"], smoothness="heat", scale=scale, random_state=0)
    a, b = make().fit(wide, y), make().fit(wide * 1024.0, y)
    np.testing.assert_allclose(a.predict(wide + 0.1), b.predict(1024 * (wide + 0.1)), rtol=1e-9)
    a.save(tmp_path / "model.gpum")
    loaded = GPUMRegressor.load(tmp_path / "model.gpum")
    np.testing.assert_array_equal(loaded.predict(wide + 0.1), a.predict(wide + 0.1))
    np.testing.assert_array_equal(loaded.model_.cloud.X, wide)


def test_labels_weigh_both_units_where_neither_is_certain():
    """The target follows the column of large spread; the prior says standardise, the labels say no."""
    X = RNG.standard_normal((80, 5)) * [30.0, 1, 1, 1, 1]
    y = np.where(np.arange(80) < 60, np.sin(X[:, 0] / 20), np.nan)
    model = GPUMRegressor(geometry="flat", smoothness="heat", warm_start=True, random_state=0).fit(X, y)
    assert model.notes_[-1].startswith("the spreads of the columns go from")
    assert "used as they come" in " ".join(model.notes_)
    other = np.where(np.arange(80) < 60, np.sin(2 * X[:, 1]), np.nan)
    again = model.fit(X, other)
    cold = GPUMRegressor(geometry="flat", smoothness="heat", random_state=0).fit(X, other)
    assert "divided by its standard deviation" in " ".join(again.notes_)
    np.testing.assert_array_equal(again.predict(X + 0.1), cold.predict(X + 0.1))


def test_classes_of_a_table_in_units():
    y = np.arange(90) % 3
    X = np.stack([y + 0.1 * RNG.standard_normal(90), RNG.standard_normal(90) * 500, RNG.standard_normal(90)], 1)
    few = np.where(np.arange(90) < 9, y, -1)
    scaled, raw = (GPUMClassifier(scale=s, smoothness="heat").fit(X, few).score(X, y) for s in ("auto", "none"))
    assert scaled > raw + 0.2


def test_a_latent_model_scales_its_columns(roll):
    X = roll[0] * [1.0, 1.0, 1000.0]
    options = {"n_inducing": 10, "starts": "pca", "max_iter": 30, "tol": 1.0, "random_state": 0}
    with odd.quiet():  # it is not run to its end
        model = BayesianGPLVM(**options).fit(X)
    assert np.ptp(np.log(model.scale_)) == pytest.approx(np.log(X.std(0).max() / X.std(0).min()))
    with pytest.raises(GpumError, match="scale is 'standard', but latent_model is"):
        GPUMRegressor(latent_model=model, scale="standard").fit(X, roll[1])


@pytest.mark.slow
def test_a_chart_that_the_cloud_does_not_show_is_left_out_beside_other_geometries():
    """Rows that fill six dimensions: with its noise free the latent model uses none of its own."""
    X = np.random.default_rng(0).standard_normal((60, 6))
    make = lambda geometry: GPUMRegressor(2, geometry=geometry, smoothness="heat", random_state=0)
    with warnings.catch_warnings(action="error"):  # the chart is not finished, and nobody needs advice about it
        both = make(["chart", "flat"]).fit(X, X[:, 0])
    with odd.quiet():
        alone = make("chart").fit(X, X[:, 0])
    assert set(both.geometry_weights_) == {"flat"}
    assert any("chart is left out" in note and "no such surface" in note for note in both.notes_)
    assert alone.latent_model_.collapsed_


def test_charts_and_atlases_are_not_learned_where_lengths_lead_by_far():
    """Two of six columns matter: the labels prefer lengths per column, and no surface of six can make up for that."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 6)) + 0.5 * rng.standard_normal((120, 1))  # not independent of each other
    f = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    y = np.where(np.arange(120) < 60, f + 0.01 * rng.standard_normal(120), np.nan)
    model = GPUMRegressor(random_state=0).fit(X, y)
    assert set(model.geometry_weights_) == {"graph", "flat"}
    (note,) = [note for note in model.notes_ if "were not learned" in note]
    assert note.startswith("atlases of dimension 1, 2, 3 and charts of dimension 1, 2, 3")
    named = GPUMRegressor(geometry=["atlas", "graph", "flat"], latent_dim=1, random_state=0).fit(X, y)
    assert not any("were not learned" in note for note in named.notes_)


def asked_for(monkeypatch, X, y):
    """Dimensions of the charts that a fit learns, in order; none of them is really learned."""
    asked = []

    def fit(self, X, store, needs_surface):
        asked.append(self.latent_dim)
        raise NoSurface("only asked for")

    monkeypatch.setattr(BayesianGPLVM, "_fit", fit)
    return asked, GPUMRegressor(random_state=0, n_jobs=1).fit(X, y)


def test_charts_are_not_learned_where_sketches_of_them_are_far_behind(monkeypatch):
    """A linear function of twelve related columns: one length for all is right, and no atlas fits the rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12)) + 0.7 * rng.standard_normal((300, 1))
    y = np.where(np.arange(300) < 80, X.sum(1) + 0.01 * rng.standard_normal(300), np.nan)
    asked, model = asked_for(monkeypatch, X, y)
    assert not asked
    assert set(model.geometry_weights_) == {"graph", "flat"}
    assert any("charts of dimension 1, 2, 3 were not learned" in note for note in model.notes_)


def test_charts_are_learned_where_their_sketch_is_near_though_graph_and_atlas_are_far_behind(monkeypatch):
    """A smooth function of a curve: the graph is too rough for it, flat space is not, and a chart may be better."""
    t = np.linspace(-1, 1, 70)
    X = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t, t**2], 1) + 1e-3 * np.random.default_rng(0).standard_normal(
        (70, 4)
    )
    y = np.where(np.arange(70) % 7 < 5, np.sin(2 * t), np.nan)
    scores, seen = NumberScores.alone, {}
    monkeypatch.setattr(NumberScores, "alone", lambda *about: seen.update(scores(*about)[0]) or [dict(seen)])
    asked, _ = asked_for(monkeypatch, X, y)
    assert max(seen["graph of neighbours"], seen["atlas of dimension 1"]) < seen["flat space"] - 50
    assert asked == [1, 2]


def test_the_atlas_of_one_dimension_does_not_leave_out_that_of_another(monkeypatch):
    """Waves around a torus: the atlas of three dimensions, which comes first, is ahead of flat space and graph."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 2 * np.pi, (2, 250))
    X = np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], 1) + 0.02 * rng.standard_normal((250, 4))
    y = np.where(np.arange(250) < 40, np.sin(a + b) + np.cos(2 * a - b), np.nan)
    monkeypatch.setattr(Contest, "most_promising", lambda self, dims: sorted(dims, reverse=True))
    _, model = asked_for(monkeypatch, X, y)
    assert {f"atlas of dimension {q}" for q in (1, 2, 3)} <= set(model.candidates_.geometry)


def unlike_curve(z):
    """Rows on a curve in columns of unlike spreads, at z [n]."""
    return np.stack([np.sin((1 + 0.5 * (j % 3)) * z + j) * (1 + j) ** -1.5 for j in range(6)], 1)


def test_atlases_are_weighed_in_both_units(tmp_path):
    """Flat space and graphs do not say what an atlas would do. Its weight goes through a file, and to new rows."""
    z = np.linspace(0, 3, 80)
    y = np.where(np.arange(80) % 16 == 0, np.sin(2 * z), np.nan)
    X = unlike_curve(z) + 2e-3 * np.random.default_rng(0).standard_normal((80, 6))
    model = GPUMRegressor(1, geometry="atlas", random_state=0).fit(X, y)
    titles = {"atlas of dimension 1", "atlas of dimension 1 (columns standardised)"}
    assert set(model.candidates_.geometry) == titles == {surface.title for surface in model.surfaces_}
    at = z[2:-2] + 0.01
    new = unlike_curve(at)
    model.save(tmp_path / "model.gpum")
    np.testing.assert_array_equal(GPUMRegressor.load(tmp_path / "model.gpum").predict(new), model.predict(new))
    along = (unlike_curve(at + 1e-4) - new) / 1e-4
    slope = np.sum(model.predict_gradient(new) * along, axis=1)
    difference = (model.predict(unlike_curve(at + 0.02)) - model.predict(unlike_curve(at - 0.02))) / 0.04
    assert np.median(np.abs(slope - difference)) < 0.1 * np.std(difference)


def test_units_that_flat_space_and_a_graph_rule_out_have_no_sketches_and_atlases(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 4))
    X = X / X.std(0) * [1.0, 1.0, 1.0, 1000.0]
    y = np.where(np.arange(80) < 40, np.sin(X[:, 0]) + X[:, 1], np.nan)
    spreads = []

    def recorded(rows, dims):
        spreads.append(rows.std(0))
        return []

    monkeypatch.setattr(plan, "sketches", recorded)
    monkeypatch.setattr(plan, "atlas_dimensions", lambda dim: [])
    monkeypatch.setattr(plan, "chart_dimensions", lambda dim, rows: [])
    GPUMRegressor(random_state=0).fit(X, y)
    np.testing.assert_allclose(spreads, [np.ones(4)])  # in one of the units alone
