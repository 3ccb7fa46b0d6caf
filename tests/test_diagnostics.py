"""Diagnostics of a fit, compared with refits and with known answers."""

import numpy as np
import pytest

import inside
from gpum import (
    BayesianGPLVM,
    EmbeddedChart,
    EuclideanGPRegressor,
    GPUMRegressor,
    KernelOptions,
    datasets,
    diagnostics,
)


@pytest.mark.parametrize("k", [0, 1])
def test_leave_one_out_is_a_fit_without_the_label(curve_fit, k):
    found = diagnostics.leave_one_out(curve_fit.model, k)
    y = curve_fit.y[:, k]
    assert np.array_equal(found.rows, np.flatnonzero(~np.isnan(y)))
    assert np.array_equal(found.y, y[found.rows])
    refitted = GPUMRegressor(1, geometry="chart", latent_model=curve_fit.model.latent_model_, random_state=0)
    for i in (0, 2):
        row = found.rows[i]
        others = np.where(np.arange(len(y)) == row, np.nan, y)
        mean, std = refitted.fit(curve_fit.X, others).predict_cloud(return_std=True)
        # Settings that all labels together found too light are missing. In the refit the row has no label, so that its
        # coordinates are uncertain; left out, it lies where the chart has it.
        assert found.mean[i] == pytest.approx(mean[row], abs=0.3 * std[row])
        assert found.std[i] == pytest.approx(std[row], rel=0.2)
    assert np.all((found.low < found.mean) & (found.mean < found.high))


def test_leave_one_out_error_and_coverage_are_those_of_new_rows(sheet_fit):
    """The left-out error of 30 labels tells the error of the 170 rows without a label within a factor of two."""
    found = diagnostics.leave_one_out(sheet_fit.model)
    truth = np.sin(sheet_fit.X[:, 0] / 2) + 0.1 * sheet_fit.X[:, 1]
    error = np.sqrt(np.mean((sheet_fit.model.transduction_ - truth)[30:] ** 2))
    assert 0.5 < found.rmse / error < 2
    assert found.inside.mean() > 0.8


def test_weights_add_up(curve_fit, sheet_fit):
    for model in (curve_fit.model, sheet_fit.model):
        settings = diagnostics.evidence_over_scale(model)
        assert settings.weight.sum() == pytest.approx(1)
        assert np.all(np.diff(settings.weight) <= 0)
        assert settings.log_evidence.max() == 0
        assert np.all((settings.ends[:, 0] <= settings.scale) & (settings.scale <= settings.ends[:, 1]))
        best = model.best_setting_ if isinstance(model.best_setting_, dict) else model.best_setting_[0]
        assert (settings.smoothness[0], settings.scale[0]) == (best["smoothness"], best["scale"])
        scales = settings.scale[[s == best["smoothness"] for s in settings.smoothness]]
        curve = settings.curve(best["smoothness"], scales)
        assert np.all(curve >= settings.weight[[s == best["smoothness"] for s in settings.smoothness]] - 1e-12)
    levels = diagnostics.level_weights(curve_fit.model, 1)
    assert sum(levels.values()) == pytest.approx(1)
    assert list(levels)[-1] == "none"
    assert list(levels)[:-1] == sorted(list(levels)[:-1])
    assert diagnostics.level_weights(sheet_fit.model) == {}


@pytest.fixture(scope="module")
def mixed(curve_fit):
    """Two outputs on the learned curve and in flat space, side by side."""
    latent = curve_fit.model.latent_model_
    return GPUMRegressor(1, geometry=["flat", "chart"], latent_model=latent, random_state=0).fit(
        curve_fit.X, curve_fit.y
    )


@pytest.mark.parametrize("k", [0, 1])
def test_geometries_share_the_weight(mixed, k):
    found = diagnostics.geometry_weights(mixed, k)
    lengths = "flat space, a length per column"
    assert set(found) == {"chart of dimension 1", "flat space", lengths}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert 0.01 < found["chart of dimension 1"] < 0.99  # or the tests of both show nothing
    assert found["flat space"] + found[lengths] == pytest.approx(mixed.geometry_weights_[k]["flat"])
    settings = diagnostics.evidence_over_scale(mixed, k)
    for title, weight in found.items():
        if not weight:
            continue
        mine = np.array([g == title for g in settings.geometry])
        assert settings.weight[mine].sum() == pytest.approx(weight)
        assert [level is None for level, own in zip(settings.level, mine, strict=True) if own] == [
            title.startswith("flat space")
        ] * mine.sum()
        alone = settings.of(title)
        assert alone.weight.sum() == pytest.approx(1)
        assert alone.log_evidence.max() == 0
        np.testing.assert_allclose(alone.weight, settings.weight[mine] / weight)
    with pytest.raises(ValueError, match="geometry is 'cube', which has no weight here"):
        settings.of("cube")


def test_levels_are_those_of_the_chart_alone(curve_fit, mixed):
    """Weights given the chart: flat space beside it changes none of them."""
    assert diagnostics.shown_chart(mixed) == "chart of dimension 1"
    for k in range(2):
        levels, expected = diagnostics.level_weights(mixed, k), diagnostics.level_weights(curve_fit.model, k)
        assert sum(levels.values()) == pytest.approx(1)
        assert levels == pytest.approx(expected, abs=5e-3)  # settings of small weight are left out


def test_without_a_chart():
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    X = np.stack([np.cos(angle), np.sin(angle)], 1)
    model = GPUMRegressor(geometry=["graph", "flat"], random_state=0).fit(X, np.sin(angle))
    assert diagnostics.shown_chart(model) is None
    assert diagnostics.level_weights(model) == {}
    for ask in (diagnostics.extents, lambda m: diagnostics.cuts(m, X)):
        with pytest.raises(ValueError, match=r"the model has no chart: its geometry is .*; fit with a geometry"):
            ask(model)
    plain = EuclideanGPRegressor().fit(X, np.sin(angle))
    assert diagnostics.geometry_weights(plain) == {"flat space": 1.0}


def test_charts_of_one_dimension_are_distinguished(mixed):
    flat, chart, *_ = inside.members(mixed)
    twice = inside.weighed(mixed, [chart, flat, chart], [0.25, 0.0, 0.75])
    assert diagnostics.geometry_weights(twice) == {
        "chart of dimension 1, fit 2": 0.75,
        "chart of dimension 1": 0.25,
        "flat space": 0.0,
    }
    assert diagnostics.shown_chart(twice) == "chart of dimension 1, fit 2"


def test_one_best_setting_has_all_the_weight(sheet_fit):
    model = GPUMRegressor(latent_model=sheet_fit.model.chart_, hyperparameters="evidence", random_state=0)
    model.fit(sheet_fit.X, sheet_fit.y[:, 0])
    assert diagnostics.evidence_over_scale(model).weight.tolist() == [1.0]
    assert diagnostics.leave_one_out(model).rmse < 0.2


def test_extents_are_lengths_on_the_surface(sheet_fit):
    along, across = diagnostics.extents(sheet_fit.model)
    r, z = sheet_fit.X.T
    assert across == pytest.approx(z.std())
    assert along == pytest.approx(np.sqrt(np.mean(1 + r**2) * r.var()))


def test_cuts_are_where_the_chart_tears():
    """A circle, charted by its angle, is cut once, at angle 0; half of it is not cut."""
    angle = np.linspace(0.05, 2 * np.pi - 0.05, 50)
    X = np.stack([np.cos(angle), np.sin(angle)], 1)
    chart = EmbeddedChart(lambda x: x, [(0.0, 2 * np.pi)])
    model = GPUMRegressor(latent_model=chart).fit(angle[:, None], np.sin(angle))
    assert [sorted(pair) for pair in diagnostics.cuts(model, X)] == [[0, 49]]
    half = GPUMRegressor(latent_model=chart).fit(angle[:25, None], np.sin(angle[:25]))
    assert len(diagnostics.cuts(half, X[:25])) == 0


@pytest.mark.filterwarnings("ignore:with the noise free")  # with few inducing points, which are quick
def test_a_column_in_large_numbers_cuts_no_map():
    """Neighbours are those in the units of the fit; in the columns as they come eight pairs or more were named."""
    cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=130, random_state=0)
    X = cloud.X / cloud.X.std(0) * [1, 1, 1000]
    options = {"geometry": "chart", "scale": "standard", "smoothness": "heat", "random_state": 0}
    latent = BayesianGPLVM(2, n_inducing=30, starts="isomap")
    model = GPUMRegressor(2, latent_model=latent, kernel=KernelOptions(boundary=0.5), **options).fit(X, cloud.y)
    assert len(diagnostics.cuts(model, X)) < 6  # the quick chart has one to four of its own


def test_output_must_be_a_column(sheet_fit):
    with pytest.raises(ValueError, match="output must be 0, got 1; it is a column of y"):
        diagnostics.leave_one_out(sheet_fit.model, 1)
