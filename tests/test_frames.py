"""Data frames: names of columns are kept and checked, and a fit is that of the array."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from gpum import (
    GPLVM,
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    KernelOptions,
    LatentGPRegressor,
)

SMALL = BayesianGPLVM(1, starts="pca", n_inducing=5, max_iter=100, tol=1.0, random_state=0)
POINTS = GPLVM(1, starts="pca", max_iter=100, tol=1.0, random_state=0)
CHEAP = {
    "flat": GPUMRegressor(geometry="flat", smoothness="heat"),
    "graph": GPUMRegressor(geometry="graph", smoothness="heat"),
    "classes": GPUMClassifier(geometry="flat", smoothness="heat"),
    "euclidean": EuclideanGPRegressor(smoothness="heat"),
    "laplacian": GraphLaplacianGPRegressor(),
    "matern": GraphMaternGPRegressor(smoothness="heat", n_neighbors=3),
}
CHART = GPUMRegressor(
    geometry="chart", latent_model=SMALL, kernel=KernelOptions(boundary=0.5, n_modes=10), smoothness="heat"
)
LEARNED = {
    "variational": SMALL,
    "points": POINTS,
    "chart": CHART,
    "latent": LatentGPRegressor(1, latent_model=SMALL, smoothness="heat"),
}
OUTPUT_CHECKS = [
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_get_feature_names_out_error",
]
IGNORED = "ignore:.*(converge|collapses|end of its range|column vector|far from the fitted|feature names).*"


@pytest.fixture(scope="module")
def curve():
    """40 rows on a curve in R³ with their targets, as an array."""
    t = np.sort(np.random.default_rng(0).uniform(-1, 1, 40))
    return np.stack([np.sin(3 * t), np.cos(3 * t), t], 1), np.sin(5 * t)


def frame(X, kind=pd.DataFrame):
    return kind({f"c{j}": X[:, j] for j in range(X.shape[1])})


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.filterwarnings(IGNORED)
def test_names_are_kept_and_checked(name, curve):
    _names_are_kept_and_checked(CHEAP[name], *curve)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.filterwarnings(IGNORED)
def test_names_are_kept_and_checked_by_latent_models(name, curve):
    _names_are_kept_and_checked(LEARNED[name], *curve)


def _names_are_kept_and_checked(estimator, X, y):
    if "Classifier" in type(estimator).__name__:
        y = (y > 0).astype(int)
    data = frame(X)
    model = clone(estimator).fit(data, y)
    assert list(model.feature_names_in_) == ["c0", "c1", "c2"]
    use = model.predict if hasattr(model, "predict") else model.transform
    found = use(data)
    with pytest.raises(ValueError, match="order"):
        use(data[["c2", "c0", "c1"]])
    with pytest.raises(ValueError, match=r"feature names.*\n.*unseen"):
        use(data.rename(columns={"c1": "other"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(use(X), found)
    plain = clone(estimator).fit(X, y)
    assert not hasattr(plain, "feature_names_in_")
    same = plain.predict if hasattr(plain, "predict") else plain.transform
    assert np.array_equal(same(X), found)  # to the last bit: the order in memory does not matter
    other = clone(estimator).fit(frame(X, pl.DataFrame), y)
    again = other.predict if hasattr(other, "predict") else other.transform
    assert np.array_equal(again(frame(X, pl.DataFrame)), found)


@pytest.mark.parametrize("kind", ["Float64", "float32", "int64", "Int64", object])
def test_columns_of_every_type(kind):
    X = pd.DataFrame({"a": [1, 2, 3, 5, 8, 1], "b": [0, 1, 0, 1, 2, 7]}).astype(kind)
    y = np.arange(6.0)
    model, Y = EuclideanGPRegressor(smoothness="heat"), X.to_numpy(float)
    assert np.array_equal(clone(model).fit(X, y).predict(X), model.fit(Y, y).predict(Y))


def test_text_is_refused_where_the_fit_had_numbers(curve):
    X, y = curve
    model = EuclideanGPRegressor().fit(frame(X), y)
    with pytest.raises(ValueError, match="numbers only"):
        model.predict(frame(X).assign(c1="a"))


def test_negative_zero_is_zero(curve):
    """Rows that differ by it alone are copies of each other."""
    X, y = curve
    X = np.concatenate([X - X[3], [[0.0, 0.0, -0.0]]])
    model = GPUMRegressor(geometry="graph", smoothness="heat").fit(X, np.append(y, np.nan))
    assert model.transduction_[3] == model.transduction_[-1]
    assert any("a copy of" in note for note in model.notes_)


@pytest.fixture(scope="module")
def surface(curve):
    with pytest.warns(UserWarning, match="converge"):
        return clone(SMALL).set_params(max_iter=5).fit(frame(curve[0]))


def test_a_latent_model_of_other_columns_is_refused(curve, surface):
    X, y = curve
    model = GPUMRegressor(geometry="chart", latent_model=surface, kernel=KernelOptions(boundary=0.5))
    with pytest.raises(ValueError, match="in another order"):
        model.fit(frame(X)[["c2", "c0", "c1"]], y)


@pytest.mark.filterwarnings(IGNORED)
def test_outputs_are_frames(curve, surface):
    X, y = frame(curve[0]), curve[1]
    assert list(surface.get_feature_names_out()) == ["bayesiangplvm0"]
    model = GPUMRegressor(geometry="chart", latent_model=surface, kernel=KernelOptions(boundary=0.5, n_modes=10)).fit(
        X, y
    )
    plain = {one: one.transform(X) for one in (model, surface)}
    thousandth = 1e-3 * np.ptp(plain[surface])  # on the mesh, and by the latent posterior
    np.testing.assert_allclose(plain[model], plain[surface], atol=thousandth)
    assert list(model.get_feature_names_out()) == ["gpumregressor0"]
    for kind, cls in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        for one in (model, surface):
            one.set_output(transform=kind)
            assert isinstance(one.transform(X), cls)
            assert np.array_equal(one.transform(X).to_numpy(), plain[one])
    with sklearn.config_context(transform_output="pandas"):  # what goes on inside is about arrays all the same
        assert np.array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("model", [SMALL, POINTS], ids=["variational", "points"])
@pytest.mark.filterwarnings(IGNORED)
def test_latent_models_keep_the_contract(model):
    check_estimator(model, on_skip=None)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "classes" else name
        for name in CHEAP
        if not hasattr(CHEAP[name], "transform")
    ],
)
@pytest.mark.filterwarnings(IGNORED)
def test_column_names_of_cheap_estimators(name):
    estimator = CHEAP[name]
    estimator_checks.check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.filterwarnings(IGNORED)
def test_column_names_of_latent_models(name):
    estimator = LEARNED[name]
    estimator_checks.check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("check", OUTPUT_CHECKS)
@pytest.mark.filterwarnings(IGNORED)
def test_output_checks(name, check):
    estimator = LEARNED[name]
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)
