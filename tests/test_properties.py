"""Whatever the cloud: regressors and classifiers give finite answers that agree with each other, or say why not."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpum import (
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    KernelOptions,
    LabelledKFold,
    LatentGPRegressor,
)
from gpum.basics.missing import fill_in
from odd import answered, clouds, covers, finite, labels, quiet, repeats, rows_like

pytestmark = pytest.mark.usefixtures("one_thread")
SMOOTH = st.sampled_from(["heat", "matern12", "matern32", "matern52", "average"])
HYPER = st.sampled_from(["average", "evidence"])
TIMES = st.sampled_from([None, 2.0])
DRAWS = 400


def agrees_with_itself(data, make, gaps=False, **cloud):
    """Finite, and score, cloud, quantiles, covariance and samples say what `predict` says, for every kind of row."""
    X, rng = data.draw(clouds(gaps=gaps, **cloud))
    y = labels(data.draw, rng, len(X))
    model = answered(lambda: make(data.draw).fit(X, y))
    if model is None:
        return
    rows = rows_like(X)
    with quiet():
        mean, std = model.predict(rows, return_std=True)
        found = model.predictive(rows)
        quantiles = model.predict_quantiles(rows, [0.025, 0.5, 0.975])
        same, cov = model.predict(rows, return_cov=True)
        draws = model.sample_y(rows, DRAWS, include_noise=True)
        far = model.far_from_surface(rows)
        whole, own = model.predict_cloud(return_std=True)
    assert finite(mean, std, quantiles, whole, own)
    assert np.all(std >= 0)
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    scale = np.nanmax(np.abs(y)) + std.max()
    assert np.allclose(mean, same, rtol=1e-9, atol=1e-9 * scale)
    assert np.allclose(np.sqrt(np.maximum(np.diag(cov), 0)), std, rtol=1e-4, atol=1e-6 * scale)
    assert np.all(np.abs(quantiles[:, 1] - mean) <= std + 1e-9 * scale)  # the median is within one sd of the mean
    # Draws of a law whose tails may be heavy: six standard errors.
    assert np.all(np.abs(draws.mean(1) - mean) <= 6 * std / np.sqrt(DRAWS) + 1e-9 * scale)
    for one, other in zip(
        (mean, std, quantiles), (found.mean, found.std, found.quantiles([0.025, 0.5, 0.975])), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-9 * scale)  # one pass over the mixture, or each alone
    assert np.array_equal(far, found.far)
    fitted = model.model_
    assert np.allclose(fitted.predictive(np.asarray(rows, float)).mean, mean, rtol=1e-9, atol=1e-9 * scale)
    assert np.array_equal(fitted.cloud.X, np.asarray(X, float), equal_nan=True) or fitted.cloud.unit != 1
    rows, original = fitted.cloud.rows, fitted.cloud.original
    assert np.array_equal(rows[original], rows, equal_nan=True)
    assert np.array_equal(original[original], original)
    assert fitted.weights.sum() == pytest.approx(1)
    assert fitted.weights.shape == (1, len(fitted.geometries.titles))
    json.dumps(fitted.summary())
    assert np.allclose(whole[:3], mean[:3], rtol=1e-6, atol=1e-6 * scale) or repeats(X)
    if far.any():  # the prior: the same for all
        assert np.ptp(mean[far]) <= 1e-9 * scale
    known = ~np.isnan(y)
    if known.sum() > 1 and np.ptp(y[known]) > 0:
        with quiet():
            score = model.score(X, y)
        expected = 1 - np.sum((y - whole)[known] ** 2) / np.sum((y[known] - y[known].mean()) ** 2)
        assert score == pytest.approx(expected, rel=1e-5, abs=1e-5) or repeats(X)


@covers(
    "GPUMRegressor", "fitted.Predictive", "fitted.FittedModel", "fitted.Cloud", "fitted.Geometries",
    seconds=0.1, answered=0.77,
)  # fmt: skip
@given(data=st.data())
def test_flat_regressors(data):
    make = lambda draw: GPUMRegressor(geometry="flat", smoothness=draw(SMOOTH), hyperparameters=draw(HYPER))
    agrees_with_itself(data, make, gaps=True)


@covers(seconds=0.5, answered=0.8)
@given(data=st.data())
def test_graph_regressors(data):
    agrees_with_itself(
        data,
        lambda draw: GPUMRegressor(geometry="graph", smoothness="heat", kernel=KernelOptions(max_time=draw(TIMES))),
        True,
    )


@covers(seconds=0.1, answered=0.5)
@given(data=st.data())
def test_atlas_regressors(data):
    dims = st.sampled_from([1, 2, 3])
    agrees_with_itself(data, lambda draw: GPUMRegressor(draw(dims), geometry="atlas", smoothness="heat"), True)


@covers("EuclideanGPRegressor", seconds=0.05, answered=0.95)
@given(data=st.data())
def test_euclidean_regressors(data):
    agrees_with_itself(data, lambda draw: EuclideanGPRegressor(smoothness=draw(SMOOTH), hyperparameters=draw(HYPER)))


@covers("GraphLaplacianGPRegressor", seconds=0.2, answered=0.95)
@given(data=st.data())
def test_laplacian_regressors(data):
    kinds = st.sampled_from(["paper", "authors"])
    make = lambda draw: GraphLaplacianGPRegressor(normalisation=draw(kinds), hyperparameters=draw(HYPER))
    agrees_with_itself(data, make)


@covers("GraphMaternGPRegressor", seconds=0.06, answered=0.7)
@given(data=st.data())
def test_matern_regressors(data):
    some = st.sampled_from([1, 2, 3, 50, None])
    make = lambda draw: GraphMaternGPRegressor(n_neighbors=draw(some), smoothness=draw(SMOOTH))
    agrees_with_itself(data, make)


@pytest.mark.slow
@covers("LatentGPRegressor", seconds=1.5, answered=0.5)
@given(data=st.data())
def test_latent_regressors(data):
    make = lambda draw: LatentGPRegressor(draw(st.sampled_from([1, 1, 2])), smoothness="heat", random_state=0)
    agrees_with_itself(data, make, gaps=True, wide=False, rows=(4, 12), columns=(2, 3, 7))


@pytest.mark.slow
@covers(seconds=1.5, answered=0.55)
@given(data=st.data())
def test_chart_regressors(data):
    make = lambda draw: GPUMRegressor(
        draw(st.sampled_from([1, 1, 2])),
        geometry="chart",
        smoothness="heat",
        kernel=KernelOptions(boundary=0.5),
        random_state=0,
    )
    agrees_with_itself(data, make, gaps=True, wide=False, rows=(4, 12), columns=(2, 3, 7))


@covers("GPUMClassifier", "fitted.ClassPredictive", seconds=0.1, answered=0.38)
@given(data=st.data())
def test_classifiers(data):
    X, rng = data.draw(clouds(gaps=True))
    y = rng.integers(-1, data.draw(st.integers(1, 3)), len(X))
    model = answered(lambda: GPUMClassifier(geometry=data.draw(st.sampled_from(["flat", "graph"]))).fit(X, y))
    if model is None:
        return
    rows = rows_like(X)
    with quiet():
        p, guess, placed = model.predict_proba(rows), model.predict(rows), model.predictive(rows)
        score = model.score(X, y)
    chosen = answered(lambda: model.suggestions(2))
    assert finite(p)
    assert np.all(p >= 0)
    assert np.allclose(p.sum(1), 1)
    assert np.array_equal(guess, model.classes_[p.argmax(1)])
    assert np.array_equal(placed.probabilities, p)
    assert 0 <= score <= 1
    assert chosen is None or np.all(y[chosen.rows] < 0)  # unlabelled


LABELS = {
    "numbers": [np.nan, -1.0, 0.5, 3.25],
    "integers": [-1, 0, 1, 7],
    "text": ["", "-1", "a", "b"],
    "objects": [None, "a", "b", -1],
    "booleans": [True, False],
}


@covers("LabelledKFold", seconds=0.005, answered=0.5)
@given(data=st.data())
def test_folds_of_labelled_rows(data):
    """Test rows are labelled and in one fold each; the training part is all the rest."""
    kind = data.draw(st.sampled_from(sorted(LABELS)))
    y = data.draw(st.lists(st.sampled_from(LABELS[kind]), min_size=1, max_size=30))
    y = np.array(y, object if kind == "objects" else None)
    shuffle = data.draw(st.booleans())
    cv = LabelledKFold(
        data.draw(st.integers(2, 6)), shuffle=shuffle, random_state=data.draw(st.integers(0, 9)) if shuffle else None
    )
    found = answered(lambda: list(cv.split(np.zeros((len(y), 1)), y)))
    labels = [label for label in y.tolist() if label not in (None, "", "-1", -1) and label == label]
    most = max(map(labels.count, labels), default=0)
    whole = kind == "integers" or (kind == "objects" and all(isinstance(label, int) for label in labels))
    regression = whole and 2 * len(set(labels)) > len(labels) > 0 and len(y) - len(labels) <= most
    marks = (None, "", "-1", *([] if kind == "numbers" or regression else [-1]))
    labelled = [row for row, label in enumerate(y.tolist()) if label not in marks and label == label]
    assert (found is None) == (len(labelled) < cv.n_splits)
    if found is None:
        return
    assert sorted(row for _, test in found for row in test) == labelled
    sizes = [len(test) for _, test in found]
    assert max(sizes) - min(sizes) <= 1
    for train, test in found:
        assert sorted([*train, *test]) == list(range(len(y)))


@covers("inference.design.Suggestions", seconds=0.06, answered=0.5)
@given(data=st.data())
def test_suggestions(data):
    X, rng = data.draw(clouds(gaps=True))
    y = labels(data.draw, rng, len(X))
    model = answered(lambda: GPUMRegressor(geometry="flat", smoothness="heat").fit(X, y))
    n = data.draw(st.sampled_from([0, 1, 3, 1000, -1, 1.5, None, "three"]))
    found = model and answered(lambda: model.suggestions(n))
    if found is None:
        return
    assert np.array_equal(found.rows, model.suggest(n))
    assert len(set(found.rows)) == len(found.rows) == len(found.gain) <= n
    assert np.all(np.isnan(y[found.rows]))
    assert finite(found.gain, found.floor)


@covers(seconds=0.05, answered=1)
@given(data=st.data())
def test_clouds_are_filled_in(data):
    X, _ = data.draw(clouds(gaps=True))
    X = np.array(X, float)
    X = X[~np.isnan(X).all(1)]
    X = X[:, ~np.isnan(X).all(0)] if len(X) > 1 else X
    if len(X) < 3 or np.isnan(X).all(1).any():
        return
    found = answered(lambda: fill_in(X))
    seen = ~np.isnan(X)
    assert np.array_equal(found.rows[seen], X[seen])
    assert finite(found.rows, found.variance)
    assert np.all(found.variance >= 0)
