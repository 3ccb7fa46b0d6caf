"""`candidates_`: the table of what was weighed agrees with the fit."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import t as student

from gpum import GPUMClassifier, GPUMRegressor, Priors
from gpum.geometry.candidate_set import Candidate, CandidateSet
from gpum.heat.covariances import Stationary
from gpum.inference import gp
from gpum.inference.left_out import log_densities
from gpum.inference.posterior import RowsInSpaces

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (80, 3))
F = np.sin(6 * X[:, 0]) + X[:, 1]
Y = np.where(np.arange(80) % 4 == 0, F + 0.05 * RNG.standard_normal(80), np.nan)


def fit(y=Y, geometry=("graph", "flat"), **options):
    return GPUMRegressor(geometry=list(geometry), scale="none", random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return fit()


def test_weights_are_those_of_predictions(model):
    found = model.candidates_
    assert found.weight.sum() == pytest.approx(1)
    assert np.all(np.diff(found.weight) <= 0)
    flat = np.char.startswith(found.geometry, "flat")
    assert found.weight[flat].sum() == pytest.approx(model.geometry_weights_["flat"])
    assert set(found.kernel) == {"heat", "matern12", "matern32", "matern52"}
    assert found.kernel[0] == model.best_setting_["smoothness"]
    assert found.scale[0] == model.best_setting_["scale"]
    assert any("length per column" in words for words in found.units)


def test_evidence_and_prior_add_up(model):
    """The total over candidates of prior times evidence is the evidence of the average; prior weights add up to 1."""
    found = model.candidates_
    assert logsumexp(found.log_prior + found.log_evidence) == pytest.approx(model.log_evidence_)
    of_flat = found.geometry == "flat space"
    assert np.exp(found.log_prior[of_flat]).sum() == pytest.approx(1 / 3)  # graph, flat, and flat with lengths


def test_weights_follow_from_prior_and_evidence():
    """Within a geometry by Bayes' rule, between geometries by the power of the evidence."""
    found = fit(priors=Priors(evidence_power=1.0)).candidates_
    some = found.weight > 0
    log_w = (found.log_prior + found.log_evidence)[some]
    np.testing.assert_allclose(found.weight[some], np.exp(log_w - logsumexp(log_w)), rtol=1e-6)


def test_left_out_density_is_that_of_fits_without_each_label():
    x, y = RNG.uniform(0, 1, (9, 1)), RNG.standard_normal(9)
    family = CandidateSet([None], [Candidate(0, Stationary(1.5, s), 0.0) for s in (0.2, 0.5)], [x], [0])
    found = log_densities(gp.average(family, np.arange(9), y), y)
    for k, setting in enumerate(family.candidates):
        single = CandidateSet([None], [setting], [x], [0])
        values = []
        for i in range(9):
            rest = np.delete(np.arange(9), i)
            mean, scale = gp.units(y[rest])
            posterior = gp.average(single, rest, (y[rest] - mean) / scale)
            weights, means, variances, _ = posterior.flat(RowsInSpaces.exactly([x[[i]]]), True)
            sd = scale * np.sqrt(variances[:, 0] * (posterior.dof - 2) / posterior.dof)
            density = student(posterior.dof).logpdf((y[i] - mean - scale * means[:, 0]) / sd) - np.log(sd)
            values.append(logsumexp(np.log(weights) + density))
        assert found[k] == pytest.approx(np.mean(values), rel=1e-6)


def test_left_out_density_is_there_for_candidates_with_weight(model):
    found = model.candidates_
    np.testing.assert_array_equal(np.isfinite(found.left_out), found.weight > 0)
    prices = fit(np.exp(Y), ("flat",), likelihood="lognormal").candidates_
    logs = fit(Y, ("flat",)).candidates_
    np.testing.assert_allclose(prices.left_out, logs.left_out - np.nanmean(Y), rtol=1e-6)  # the density of y
    assert np.isnan(fit(np.round(np.exp(Y)), ("flat",), likelihood="poisson").candidates_.left_out).all()


@pytest.mark.parametrize("options", [{"period": 20.0}, {"likelihood": "student"}, {"hyperparameters": "evidence"}])
def test_every_kind_of_target_has_candidates(options, tmp_path):
    model = fit(geometry=("flat",), smoothness="matern52", **options)
    found = model.candidates_
    assert found.weight.sum() == pytest.approx(1)
    if options.get("hyperparameters") == "evidence":
        assert len(found) == 1
        assert found.log_evidence[0] == pytest.approx(model.log_evidence_)
    else:
        assert logsumexp(found.log_prior + found.log_evidence) == pytest.approx(model.log_evidence_)


def test_known_noise_and_several_outputs():
    found = fit(np.stack([Y, -Y], 1), ("flat",), smoothness="heat").candidates_
    assert [one.weight.sum() for one in found] == pytest.approx([1, 1])
    np.testing.assert_allclose(found[0].weight, found[1].weight, atol=1e-9)


def test_classes_have_candidates():
    y = np.where(np.arange(80) % 4 == 0, (F > 0.5).astype(int), -1)
    model = GPUMClassifier(scale="none", random_state=0).fit(X, y)
    found = model.candidates_
    assert found.weight.sum() == pytest.approx(1)
    assert np.isnan(found.log_evidence).any()  # left out on the way
    assert found.weight[np.char.startswith(found.geometry, "flat")].sum() == pytest.approx(
        model.geometry_weights_["flat"]
    )


def test_the_table_goes_through_files_and_is_a_frame(model, tmp_path):
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum").candidates_
    for name, column in model.candidates_.columns.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(column, loaded.columns[name])
        else:
            np.testing.assert_array_equal(column, loaded.columns[name])
    frame = pytest.importorskip("pandas").DataFrame(loaded.columns)
    assert list(frame.columns) == list(loaded.columns)
    assert len(frame) == len(loaded)
    assert f"{len(loaded):,}, " in repr(loaded)
    assert loaded._repr_html_().count("<tr>") == 13
    assert "&lt;" not in loaded._repr_html_()
