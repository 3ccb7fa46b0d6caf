"""Labels that are added to a fitted model: a fit of all labels is the oracle."""

import numpy as np
import pytest
from sklearn.base import clone

import inside
from gpum import EuclideanGPRegressor, GPUMClassifier, GpumError, GPUMRegressor

RNG = np.random.default_rng(0)


def sheet(n, rng):
    """A bent sheet in three columns, with its target and its classes."""
    u = rng.uniform(0, 1, (n, 2))
    X = np.stack([np.sin(3 * u[:, 0]), np.cos(3 * u[:, 0]), 1.5 * u[:, 1]], 1)
    y = np.sin(5 * u[:, 0]) + u[:, 1]
    return X + 0.01 * rng.standard_normal(X.shape), y, (u[:, 0] > 0.4).astype(int) + (u[:, 0] > 0.7)


X, Y, CLASSES = sheet(160, RNG)
NEW, Y_NEW, CLASSES_NEW = sheet(30, RNG)
KINDS = {"flat": ["flat"], "graph": ["graph"], "atlas": ["atlas"], "several": ["graph", "flat"]}


def regressor(geometry="several", **options):
    return GPUMRegressor(2, geometry=KINDS[geometry], scale="none", random_state=0, smoothness="matern52", **options)


def some(y, rows):
    found = np.full(y.shape, np.nan)
    found[rows] = y[rows]
    return found


FIRST, LATER = np.arange(0, 160, 9), np.arange(4, 160, 9)
BOTH = np.concatenate([FIRST, LATER])


@pytest.mark.parametrize("geometry", KINDS)
@pytest.mark.parametrize("likelihood", ["gaussian", "lognormal"])
def test_labels_of_rows_of_the_cloud_are_those_of_a_fit(geometry, likelihood):
    """To rounding: the same candidates see the same labels in the same order."""
    if likelihood == "lognormal" and geometry != "flat":
        return
    target = np.exp(Y) if likelihood == "lognormal" else Y
    model = regressor(geometry, likelihood=likelihood).fit(X, some(target, FIRST))
    turn = RNG.permutation(LATER)
    model.partial_fit(X[turn[:8]], target[turn[:8]]).partial_fit(X[turn[8:]], target[turn[8:]])
    whole = regressor(geometry, likelihood=likelihood).fit(X, some(target, BOTH))
    for rows in (X, NEW):
        np.testing.assert_allclose(model.predict(rows), whole.predict(rows), rtol=1e-9)
        np.testing.assert_allclose(model.predict_quantiles(rows), whole.predict_quantiles(rows), rtol=1e-7)
    assert model.log_evidence_ == pytest.approx(whole.log_evidence_)
    assert len(model.model_.cloud) == len(X)
    np.testing.assert_array_equal(model.suggest(3), whole.suggest(3))


@pytest.mark.parametrize("geometry", KINDS)
def test_labels_of_new_rows_are_nearly_those_of_a_fit(geometry):
    """Flat space is the same; surfaces differ by less than the predictive deviation, and are as good."""
    model = regressor(geometry).fit(X, some(Y, FIRST)).partial_fit(NEW, Y_NEW)
    whole = regressor(geometry).fit(np.concatenate([X, NEW]), np.concatenate([some(Y, FIRST), Y_NEW]))
    few = regressor(geometry).fit(X, some(Y, FIRST))
    mean, std = whole.predict(X, return_std=True)
    limit = 0.01 if "flat" in KINDS[geometry] else 1.0
    assert np.sqrt(np.mean(((model.predict(X) - mean) / std) ** 2)) < limit
    added, fitted, before = (np.sqrt(np.mean((one.predict(X) - Y) ** 2)) for one in (model, whole, few))
    assert added < 1.3 * fitted
    assert added < 0.5 * before
    assert len(model.model_.cloud) == len(X) + len(NEW)
    assert np.mean(model.predict(NEW, return_std=True)[1]) < np.mean(few.predict(NEW, return_std=True)[1])


def test_a_label_at_a_time_is_all_at_once():
    one, all_of_them = (regressor().fit(X, some(Y, FIRST)) for _ in range(2))
    for k in range(5):
        one.partial_fit(NEW[[k]], Y_NEW[[k]])
    all_of_them.partial_fit(NEW[:5], Y_NEW[:5])
    np.testing.assert_allclose(one.predict(X), all_of_them.predict(X), rtol=1e-9)


def test_another_label_of_a_row_is_another_observation():
    """A copy of the row joins the cloud, as in a fit of a cloud with that copy; the label that was there stays."""
    other = Y[FIRST[:3]] + 0.3
    model = regressor("flat").fit(X, some(Y, FIRST)).partial_fit(X[FIRST[:3]], other)
    again = np.concatenate([X, X[FIRST[:3]]])
    whole = regressor("flat").fit(again, np.concatenate([some(Y, FIRST), other]))
    np.testing.assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-9)
    assert len(model.model_.cloud) == len(X) + 3
    twice = regressor("flat").fit(X, some(Y, FIRST)).partial_fit(NEW[[0, 0]], [1.0, 2.0])
    assert len(twice.model_.outputs[0].rows) == len(FIRST) + 2


def test_without_labels_nothing_changes():
    model = regressor("flat").fit(X, some(Y, FIRST))
    before = model.predict(NEW)
    model.partial_fit(NEW, np.full(len(NEW), np.nan))
    np.testing.assert_array_equal(model.predict(NEW), before)
    assert len(model.model_.cloud) == len(X)
    mixed = clone(model).fit(X, some(Y, FIRST)).partial_fit(NEW, np.where(np.arange(len(NEW)) < 3, Y_NEW, np.nan))
    assert len(mixed.model_.cloud) == len(X) + 3


@pytest.mark.parametrize("make", [lambda: regressor("flat"), EuclideanGPRegressor])
def test_an_unfitted_estimator_is_fitted(make):
    np.testing.assert_array_equal(
        make().partial_fit(X, some(Y, FIRST)).predict(NEW), make().fit(X, some(Y, FIRST)).predict(NEW)
    )


def test_several_outputs_have_labels_of_their_own():
    both = np.stack([some(Y, FIRST), some(-Y, LATER)], 1)
    model = regressor().fit(X, both)
    more = np.full((2, 2), np.nan)
    more[0, 0], more[1] = Y[LATER[0]], [Y[LATER[1]], 5.0]  # the row LATER[1] has a label of the second output
    model.partial_fit(X[LATER[:2]], more)
    assert [output.rows[-1] for output in model.model_.outputs] == [len(X), len(X)]
    assert [len(output.rows) for output in model.model_.outputs] == [len(FIRST) + 2, len(LATER) + 1]
    whole = regressor().fit(X, np.stack([some(Y, [*FIRST, LATER[0]]), some(-Y, LATER)], 1))
    one = regressor().fit(X, both).partial_fit(X[LATER[:1]], more[:1])
    np.testing.assert_allclose(one.predict(X), whole.predict(X), rtol=1e-9)


@pytest.mark.parametrize("kind", ["noise_std", "trials", "sample_weight"])
def test_what_belongs_to_labels_goes_with_them(kind):
    rng = np.random.default_rng(1)
    y, likelihood = Y, "gaussian"
    given = rng.uniform(0.05, 0.5, len(X))
    if kind == "trials":
        given, likelihood = rng.integers(1, 9, len(X)).astype(float), "binomial"
        y = rng.binomial(given.astype(int), 1 / (1 + np.exp(-Y))).astype(float)
    model = regressor("flat", likelihood=likelihood).fit(X, some(y, FIRST), **{kind: given})
    model.partial_fit(X[LATER], y[LATER], **{kind: given[LATER]})
    whole = regressor("flat", likelihood=likelihood).fit(X, some(y, BOTH), **{kind: given})
    np.testing.assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-7)
    if kind == "noise_std":
        with pytest.raises(GpumError, match="noise_std was not given, unlike for the labels before"):
            model.partial_fit(NEW, Y_NEW)
    if kind == "sample_weight":  # without weights they are 1
        equal = np.where(np.isin(np.arange(len(X)), FIRST), given, 1.0)
        model = regressor("flat").fit(X, some(y, FIRST), sample_weight=given).partial_fit(X[LATER], y[LATER])
        whole = regressor("flat").fit(X, some(y, BOTH), sample_weight=equal)
        np.testing.assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-7)


@pytest.mark.parametrize("geometry", ["flat", "graph", "atlas"])
def test_a_loaded_model_takes_labels(geometry, tmp_path):
    """With the candidates that had weight; again, and through another file."""
    model = regressor(geometry).fit(X, some(Y, FIRST))
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    loaded.partial_fit(X[LATER[:9]], Y[LATER[:9]])
    loaded.save(tmp_path / "more.gpum")
    loaded = GPUMRegressor.load(tmp_path / "more.gpum").partial_fit(NEW, Y_NEW)
    assert sum("labels were added to a model from a file" in note for note in loaded.notes_) == 1
    model.partial_fit(X[LATER[:9]], Y[LATER[:9]]).partial_fit(NEW, Y_NEW)
    mean, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean(((loaded.predict(X) - mean) / std) ** 2)) < 0.5
    assert not [note for note in model.notes_ if "from a file" in note]
    loaded.save(tmp_path / "again.gpum")
    np.testing.assert_array_equal(GPUMRegressor.load(tmp_path / "again.gpum").predict(NEW), loaded.predict(NEW))


def test_missing_readings_are_completed():
    gaps = NEW.copy()
    gaps[::4, 1] = np.nan
    model = regressor().fit(X, some(Y, FIRST)).partial_fit(gaps, Y_NEW)
    assert np.isfinite(model.predict(gaps)).all()
    assert np.sqrt(np.mean((model.predict(X) - Y) ** 2)) < 0.3


def test_a_failed_call_leaves_the_model_as_it_was():
    model = regressor("flat").fit(X, some(Y, FIRST))
    before = model.model_
    for wrong, message in (
        ((NEW[:, :2], Y_NEW), "2 features, but GPUMRegressor is expecting 3"),
        ((NEW, Y_NEW[:5]), r"y has shape \(5,\), but X has 30 rows"),
        ((NEW, np.stack([Y_NEW, Y_NEW], 1)), r"y has shape \(30, 2\), but the model was fitted to 1 output"),
        ((NEW, np.where(np.arange(30) == 2, np.inf, Y_NEW)), "contains infinity"),
    ):
        with pytest.raises((GpumError, ValueError), match=message):
            model.partial_fit(*wrong)
        assert model.model_ is before


def classifier():
    return GPUMClassifier(scale="none", random_state=0, smoothness="matern32")


def classes(rows):
    found = np.full(len(X), -1)
    found[rows] = CLASSES[rows]
    return found


def test_classes_of_rows_of_the_cloud_are_those_of_a_fit():
    model = classifier().fit(X, classes(FIRST)).partial_fit(X[LATER], CLASSES[LATER])
    whole = classifier().fit(X, classes(BOTH))
    np.testing.assert_allclose(model.predict_proba(NEW), whole.predict_proba(NEW), rtol=1e-7)


def test_a_class_may_be_new_and_a_model_loaded(tmp_path):
    two = np.flatnonzero(CLASSES[FIRST] < 2)
    model = classifier().fit(X, classes(FIRST[two]))
    assert list(model.classes_) == [0, 1]
    model.save(tmp_path / "m.gpum")
    loaded = GPUMClassifier.load(tmp_path / "m.gpum")
    for one in (model, loaded):
        one.partial_fit(NEW, CLASSES_NEW.astype(float))
        assert one.classes_.dtype.kind == "i"
        assert list(one.classes_) == [0, 1, 2]
        assert one.score(X, CLASSES) > 0.85
    unchanged = model.model_
    assert model.partial_fit(NEW, np.full(len(NEW), -1)).model_ is unchanged


def test_classes_that_cannot_be():
    model = classifier().fit(X, classes(FIRST))
    with pytest.raises(GpumError, match="y has the class 2, which is not among `classes`"):
        model.partial_fit(NEW, CLASSES_NEW, classes=[0, 1])
    with pytest.raises(GpumError, match="y holds words, but the classes of the model are no words"):
        model.partial_fit(NEW, CLASSES_NEW.astype(str))
    with pytest.raises(GpumError, match="y has the class 1, which is not among `classes`"):
        classifier().partial_fit(X, classes(FIRST), classes=[0])


@pytest.mark.parametrize("geometry", ["flat", "graph", "several"])
def test_a_large_cloud_grows(geometry, monkeypatch, tmp_path):
    """Geometries of a subset of the rows, and graphs of all: rows of the cloud are those of a fit, new ones join."""
    inside.lower(monkeypatch, rows_learned_from=90)
    model = regressor(geometry).fit(X, some(Y, FIRST)).partial_fit(X[LATER], Y[LATER])
    whole = regressor(geometry).fit(X, some(Y, BOTH))
    np.testing.assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-7)
    before = model.predict(X, return_std=True)
    model.partial_fit(NEW, Y_NEW)
    assert np.isfinite(model.predict(np.concatenate([X, NEW]))).all()
    assert np.sqrt(np.mean((model.predict(X) - Y) ** 2)) < np.sqrt(np.mean((before[0] - Y) ** 2))
    assert len(model.suggest(3)) == 3
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    assert np.isfinite(loaded.partial_fit(NEW[:3] + 0.01, Y_NEW[:3]).predict(X)).all()


def test_copies_in_the_cloud_and_among_new_rows():
    """Copies have labels of their own: the second label of a row goes to its copy, the third joins the cloud."""
    cloud = np.concatenate([X, X[:5]])
    y = np.concatenate([some(Y, FIRST), np.full(5, np.nan)])
    model = regressor("flat").fit(cloud, y)  # row 0 has a label, its copy 160 none
    model.partial_fit(X[[0, 0]], [Y[0], Y[0] + 0.1])
    rows = model.model_.outputs[0].rows
    assert {0, 160, 165} <= set(rows.tolist())
    assert len(model.model_.cloud) == 166
    y[160] = Y[0]
    whole = regressor("flat").fit(np.concatenate([cloud, X[:1]]), np.append(y, Y[0] + 0.1))
    np.testing.assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-7)


@pytest.mark.slow
def test_a_chart_takes_rows_that_were_not_there():
    t = np.linspace(0, 3, 60)
    curve = np.stack([np.cos(t), np.sin(t), 0.3 * t], 1)
    keep = np.arange(60) % 3 > 0
    y = np.where(np.arange(60) % 6 == 1, np.sin(2 * t), np.nan)
    model = GPUMRegressor(1, geometry="chart", scale="none", smoothness="matern52", random_state=0)
    model.fit(curve[keep], y[keep])
    before = np.sqrt(np.mean((model.predict(curve) - np.sin(2 * t)) ** 2))
    model.partial_fit(curve[~keep], np.sin(2 * t)[~keep])
    assert len(model.latent_) == 60
    assert np.sqrt(np.mean((model.predict(curve) - np.sin(2 * t)) ** 2)) < 0.7 * before
    assert model.latent_model_ is not None


def test_huge_rows_are_refused_or_finite():
    model = regressor("flat").fit(X, some(Y, FIRST)).partial_fit(np.full((1, 3), 1e300), [0.3])
    assert np.isfinite(model.predict(X)).all()
