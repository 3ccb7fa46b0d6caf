"""Cross-validation of targets that are known for some rows only."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from gpum import (
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    KernelOptions,
    LabelledKFold,
)


def folds(cv, y):
    """The test rows of each fold; the training part is always the rest."""
    found = []
    for train, test in cv.split(np.zeros((len(y), 2)), y):
        assert sorted([*train, *test]) == list(range(len(y)))
        found.append(test.tolist())
    return found


def test_folds_over_the_labelled_rows():
    y = np.array([1.5, np.nan, -1.0, 3.0, np.nan, 4.0, 5.0])
    assert folds(LabelledKFold(2), y) == [[0, 2, 3], [5, 6]]
    assert folds(LabelledKFold(2), pd.Series(y).astype("Float64")) == [[0, 2, 3], [5, 6]]
    assert folds(LabelledKFold(2), y[:, None]) == [[0, 2, 3], [5, 6]]
    both = np.stack([y, np.where(np.arange(7) == 1, 2.0, np.nan)], 1)
    assert folds(LabelledKFold(2), both) == [[0, 1, 2], [3, 5, 6]]
    drawn = folds(LabelledKFold(2, shuffle=True, random_state=3), y)
    assert drawn == folds(LabelledKFold(2, shuffle=True, random_state=3), y)
    assert sorted(row for fold in drawn for row in fold) == [0, 2, 3, 5, 6]
    assert any(folds(LabelledKFold(2, shuffle=True, random_state=k), y) != drawn for k in range(3))
    for classes in (np.array([0, 0, 0, -1, 1, 1, -1, 1]), np.array(["a", "a", "a", "", "b", "b", "", "b"])):
        assert folds(LabelledKFold(3), classes) == [[0, 4], [1, 5], [2, 7]]  # one of each class
    assert folds(LabelledKFold(2), np.array(["a", -1, "a", "b", None, "b"], object)) == [[0, 3], [2, 5]]
    assert folds(LabelledKFold(2, unlabelled=None), np.array([-1, 1, -1, 1])) == [[0, 1], [2, 3]]
    for options, labels, message in (
        ({}, y[:6], "n_splits is 5, but y has 4"),
        ({"n_splits": 1}, y[:6], "n_splits must be an integer"),
        ({"random_state": 0}, y[:6], "shuffle=True"),
        ({}, None, "y is None"),
    ):
        with pytest.raises(GpumError, match=message):
            next(LabelledKFold(**options).split(np.zeros((6, 2)), labels))


def test_grid_search_over_a_target_with_gaps():
    """Every fold has labels, so no score is nan; without such folds the reason is told, and what to use."""
    X = np.random.default_rng(0).uniform(size=(30, 2))
    y = np.where(np.arange(30) < 8, np.sin(4 * X[:, 0]), np.nan)
    search = GridSearchCV(
        EuclideanGPRegressor(), {"hyperparameters": ["average", "evidence"]}, cv=LabelledKFold(3, shuffle=True)
    )
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plain = GridSearchCV(EuclideanGPRegressor(), {"hyperparameters": ["evidence"]}, cv=3, refit=False).fit(X, y)
    assert np.isnan(plain.cv_results_["mean_test_score"]).all()
    failed = [str(one.message) for one in told if "labelled row" in str(one.message)]
    assert all("LabelledKFold" in message for message in failed)
    sentences = [message for message in failed if message.startswith("y has no labelled row (all NaN) to score")]
    assert len(sentences) == 2  # the first fold holds all labels, so that nothing could be fitted
    assert all(len(message.splitlines()) == 1 and "the score is NaN" in message for message in sentences)
    model = EuclideanGPRegressor().fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match=r"1 labelled row .*LabelledKFold"):
        assert np.isnan(model.score(X[7:], y[7:]))


@pytest.mark.filterwarnings("ignore:.*far from the fitted surface")
def test_grid_search_over_classes_with_gaps():
    X = np.random.default_rng(0).normal(size=(24, 2)) + 5 * (np.arange(24)[:, None] % 2)
    y = pd.Series(np.where(np.arange(24) < 8, np.where(np.arange(24) % 2, "up", "down"), None), dtype="string")
    scores = cross_val_score(GPUMClassifier(geometry="flat", smoothness="heat"), X, y, cv=LabelledKFold(2))
    assert scores.tolist() == [1.0, 1.0]
    with pytest.raises(GpumError, match=r"no labelled row.*LabelledKFold"):  # of the first fold, to fit
        cross_val_score(GPUMClassifier(geometry="flat"), X, y, cv=KFold(3), error_score="raise")
    found = GPUMClassifier(geometry="flat", smoothness="heat").fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match=r"no labelled row .*LabelledKFold"):
        assert np.isnan(found.score(X[8:], y[8:]))


def test_minus_one_is_a_number_among_the_whole_numbers_of_a_regression():
    tested = lambda y: sorted(np.concatenate([test for _, test in LabelledKFold(2).split(y, y)]))
    for y in (np.array([-2, -1, 0, 1, -1, 2, 0, 1]), np.array([-1, 5, 12, 40, 3, 7, 28, 19])):
        assert tested(y) == list(range(8))
    one_a_class = np.array([0, 1, 2, -1, -1, -1, -1])
    assert tested(one_a_class) == [0, 1, 2]
    floats = one_a_class.astype(float)
    assert tested(floats) == list(range(7))
    said = LabelledKFold(2, unlabelled=-1).split(floats, floats)
    assert sorted(np.concatenate([test for _, test in said])) == [0, 1, 2]


@pytest.mark.parametrize("kernel", ["auto", "spectral", KernelOptions("spectral", n_modes=7)])
@pytest.mark.parametrize("kind", [GPUMRegressor, GPUMClassifier])
def test_options_of_the_kernel_in_a_grid(kind, kernel):
    given = kind(kernel=kernel)
    changed = clone(given).set_params(kernel__n_modes=20, kernel__boundary=0.5, scale="none")
    method = kernel if isinstance(kernel, str) else kernel.method
    assert changed.kernel == KernelOptions(method, n_modes=20, boundary=0.5)
    assert changed.scale == "none"
    assert given.kernel == kernel
    assert clone(given).set_params(kernel="brownian", kernel__n_paths=50).kernel == KernelOptions(
        "brownian", n_paths=50
    )
    with pytest.raises(GpumError, match="did you mean 'n_modes'"):
        given.set_params(kernel__modes=3)
    with pytest.raises(GpumError, match="n_modes must be an integer"):
        given.set_params(kernel__n_modes=0)


@pytest.mark.parametrize("kind", [GPUMRegressor, GPUMClassifier])
def test_parameters_of_parameters(kind):
    """Those of a latent model; of a word or of priors they are refused in a sentence."""
    given = kind(latent_model=BayesianGPLVM(2)).set_params(latent_model__n_inducing=7)
    assert given.latent_model.n_inducing == 7
    given = kind().set_params(latent_model=BayesianGPLVM(2), latent_model__n_inducing=7)
    assert given.latent_model.n_inducing == 7
    for names in ({"latent_model__n_inducing": 7}, {"priors__noise": ((1.0, -1.4, 0.5),)}):
        with pytest.raises(GpumError, match="which has no parameters; give"):
            kind().set_params(**names)
    with pytest.raises(ValueError, match="Invalid parameter"):
        kind().set_params(nothing__of=7)


def test_a_grid_of_kernel_options():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    y = np.where(np.arange(24) % 2 == 0, X[:, 0], np.nan)
    model = GPUMRegressor(geometry="flat", smoothness="heat")
    search = GridSearchCV(model, {"kernel__n_modes": [10, 20]}, cv=LabelledKFold(3)).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.kernel == KernelOptions(n_modes=search.best_params_["kernel__n_modes"])


def test_folds_without_a_label_name_the_folds_that_have_some():
    X = np.random.default_rng(0).normal(size=(24, 2))
    y = np.where(np.arange(24) < 10, X[:, 0], np.nan)
    model = GPUMRegressor(geometry="flat", smoothness="heat")
    with pytest.warns(UndefinedMetricWarning, match=r"use cv=gpum\.LabelledKFold\(\)"):
        found = cross_val_score(model, X, y, cv=4)
    assert np.isnan(found).tolist() == [False, False, True, True]
    assert np.isfinite(cross_val_score(model, X, y, cv=LabelledKFold(4))).all()


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", "balanced_accuracy", "roc_auc"])
@pytest.mark.parametrize("mark", [-1, np.nan, None])
def test_scores_of_classes_by_any_metric(scoring, mark):
    X = np.random.default_rng(0).normal(size=(30, 2)) + 5 * (np.arange(30)[:, None] % 2)
    classes = ("down", "up") if mark is None else (0, 1)
    y = np.array([classes[k % 2] if k < 12 else mark for k in range(30)])
    model = GPUMClassifier(geometry="flat", smoothness="heat")
    scores = cross_val_score(model, X, y, cv=LabelledKFold(3), scoring=scoring)
    assert np.all(scores > (0.9 if scoring != "neg_log_loss" else -0.3))


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "r2", "neg_mean_absolute_error"])
def test_scores_of_numbers_by_any_metric(scoring):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(np.arange(30) < 12, X[:, 0], np.nan)
    model = GPUMRegressor(geometry="flat", smoothness="heat")
    assert np.isfinite(cross_val_score(model, X, y, cv=LabelledKFold(3), scoring=scoring)).all()
