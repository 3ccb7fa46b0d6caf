"""The five estimators: laws of Gaussian processes, scikit-learn's contract, bad input, refits."""

import dataclasses
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import gpum
import inside
import odd
from gpum import BayesianGPLVM, GPUMRegressor, KernelOptions, SwissRoll
from gpum.basics.checks import NoSurface
from gpum.geometry.base import SurfaceGeometry
from gpum.geometry.build import chart_dimensions

NAMES = ["GPUM", "Latent", "Euclidean", "GraphLaplacian", "GraphMatern"]
# Errors on the small roll in standard deviations of the target: of its own rows without a label, and of new rows. The
# data are fixed, and other seeds of the latent model move these by less than 2 %; 15 % is left for other processors
# and versions of LAPACK. (Other rolls of that size have 0.07 to 0.37 with GPUM: 24 labels are few.)
ERRORS = {
    "GPUM": (0.085, 0.092), "Latent": (0.187, 0.201), "Euclidean": (0.401, 0.396), "GraphLaplacian": (0.217, 0.247),
    "GraphMatern": (0.125, 0.137),
}  # fmt: skip


def make(name, model=None, **options):
    cls = getattr(gpum, f"{name}GPRegressor" if name != "GPUM" else "GPUMRegressor")
    if name in ("GPUM", "Latent"):
        options = {"latent_model": model, "random_state": 0, **options}
    if name == "GPUM":
        options = {"geometry": "chart", **options}
    return cls(**options)


@pytest.fixture(scope="module")
def labelled(roll):
    """The small roll with 24 labels (the rest NaN), and the truth."""
    return roll.X, roll.y, roll.y_true


@pytest.fixture(scope="module", params=NAMES)
def fitted(request, roll_model, labelled):
    X, y, _ = labelled
    return request.param, make(request.param, roll_model).fit(X, y)


def test_regression_beats_the_mean(fitted, labelled):
    name, model = fitted
    X, y, truth = labelled
    unknown = np.isnan(y)
    mean, std = model.predict(X[unknown], return_std=True)
    error = np.sqrt(np.mean((mean - truth[unknown]) ** 2))
    assert error < 1.15 * ERRORS[name][0] * truth.std()
    if name == "GPUM":  # the others take one best setting, and are too sure of themselves
        assert np.mean(np.abs(mean - truth[unknown]) < 1.96 * std) > 0.95  # it is 0.98
    assert np.allclose(model.transduction_[unknown], mean)
    assert model.score(X[~unknown], y[~unknown]) > 0.99


def test_variance_shrinks_at_the_labels(fitted, labelled):
    _, model = fitted
    X, y, _ = labelled
    known = ~np.isnan(y)
    std = model.predict(X, return_std=True, include_noise=False)[1]
    assert std[known].mean() < std[~known].mean()
    assert np.all(model.predict(X, return_std=True)[1] > std)


@pytest.mark.slow
def test_more_labels_less_variance(roll_model, labelled):
    X, y, truth = labelled
    more = np.where(np.isnan(y) & (np.arange(len(y)) % 3 > 0), np.nan, np.where(np.isnan(y), truth, y))
    few, many = (make("GPUM", roll_model).fit(X, v).predict(X, return_std=True)[1].mean() for v in (y, more))
    assert many < few


@pytest.mark.parametrize("name", NAMES)
def test_interpolates_without_noise(name, roll_model, labelled):
    """Labels without noise, and a rough kernel that no labels are too much for: the mean goes through them."""
    X, y, _ = labelled
    known = ~np.isnan(y)
    rough = {} if name == "GraphLaplacian" else {"smoothness": "matern12"}
    model = make(name, roll_model, **rough).fit(X, y, noise_std=1e-4 * np.nanstd(y))
    mean, std = model.predict(X[known], return_std=True, include_noise=False)
    assert np.allclose(mean, y[known], atol=1e-3 * np.nanstd(y))
    assert np.all(std < 1e-3 * np.nanstd(y))


def test_samples_covariance_and_quantiles_agree(fitted, labelled):
    _, model = fitted
    X = labelled[0][40:48]
    mean, std = model.predict(X, return_std=True)
    same, cov = model.predict(X, return_cov=True)
    assert np.allclose(mean, same)
    assert np.allclose(np.sqrt(np.diag(cov)), std, rtol=1e-6)
    draws = model.sample_y(X, 4000, random_state=1, include_noise=True)
    assert draws.shape == (8, 4000)
    assert np.all(np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(4000))
    assert np.array_equal(draws, model.sample_y(X, 4000, random_state=1, include_noise=True))
    low, middle, high = model.predict_quantiles(X).T
    assert np.all((low < middle) & (middle < high))
    assert np.all(np.abs(middle - mean) < std)


def test_new_rows(fitted, roll_model):
    name, model = fitted
    new = gpum.datasets.make_swiss_roll(n_labeled=24, n_unlabeled=100, random_state=7)
    mean, std = model.predict(new.X, return_std=True)
    assert np.sqrt(np.mean((mean - new.y_true) ** 2)) < 1.15 * ERRORS[name][1] * new.y_true.std()
    assert np.all(np.isfinite(std) & (std > 0))
    one = model.predict(new.X[:1])
    assert np.allclose(one, mean[:1])


def test_far_rows_fall_back_to_the_prior(roll_model, labelled):
    X, y, _ = labelled
    model = make("GPUM", roll_model).fit(X, y)
    with pytest.warns(UserWarning, match="far from the fitted surface.* with more than half of the weight"):
        mean, std = model.predict([[300.0, 300.0, 300.0]], return_std=True)
    assert mean[0] == pytest.approx(np.nanmean(y))
    assert std[0] > np.nanstd(y)
    with pytest.warns(UserWarning, match="far"):
        _, cov = model.predict(np.array([[300.0, 300.0, 300.0], X[0]]), return_cov=True)
    assert cov[0, 1] == 0
    with pytest.warns(UserWarning, match="far"):
        low, middle, high = model.predict_quantiles([[300.0, 300.0, 300.0]])[0]
    assert middle == pytest.approx(mean[0], abs=1e-6)
    assert high - middle == pytest.approx(middle - low, rel=1e-4)
    assert high - low == pytest.approx(4 * std[0], rel=0.25)
    rows = np.array([X[0], X[1] + 0.01, [300.0, 300.0, 300.0]])
    assert model.far_from_surface(rows).tolist() == [False, False, True]
    assert model.far_from_surface(X[:2]).tolist() == [False, False]


def test_several_outputs(roll_model, labelled):
    X, y, truth = labelled
    second = np.where(np.arange(len(y)) % 5 == 0, 10 * truth + 3, np.nan)
    model = make("GPUM", roll_model).fit(X, np.column_stack([y, second]))
    mean, std = model.predict(X[:5], return_std=True)
    alone = make("GPUM", roll_model).fit(X, second).predict(X[:5])
    assert mean.shape == std.shape == (5, 2)
    assert np.allclose(mean[:, 1], alone, rtol=1e-4)  # rows with labels of the first output count as exact
    assert model.sample_y(X[:5], 3).shape == (5, 2, 3)
    assert model.transduction_.shape == (len(X), 2)
    assert len(model.best_setting_) == len(model.log_evidence_) == 2


def test_score_is_of_the_labelled_rows(roll_model, labelled):
    X, y, truth = labelled
    known = ~np.isnan(y)
    model = make("GPUM", roll_model).fit(X, y)
    assert model.score(X, y) == model.score(X[known], y[known]) == r2_score(y[known], model.predict(X[known]))
    weight = np.arange(1.0, len(y) + 1)
    assert model.score(X, y, weight) == model.score(X[known], y[known], weight[known]) != model.score(X, y)
    with pytest.warns(UndefinedMetricWarning, match="no labelled row"):
        assert np.isnan(model.score(X[~known], y[~known]))
    second = np.where(np.arange(len(y)) % 5 == 0, truth, np.nan)
    both = make("GPUM", roll_model).fit(X, np.column_stack([y, second]))
    alone = [make("GPUM", roll_model).fit(X, v).score(X, v) for v in (y, second)]
    assert both.score(X, np.column_stack([y, second])) == pytest.approx(np.mean(alone))


def test_refits_reuse_the_geometry(roll_model, labelled, monkeypatch):
    X, y, truth = labelled
    first = make("GPUM", roll_model).fit(X, y)

    def refuse(*args, **kwargs):
        raise AssertionError("geometry was computed again")

    monkeypatch.setattr(BayesianGPLVM, "fit", refuse)
    monkeypatch.setattr("gpum.heat.elements.eigenpairs", refuse)
    again = clone(GPUMRegressor(geometry="chart", latent_model=FrozenEstimator(roll_model), random_state=0)).fit(X, y)
    assert np.array_equal(first.transduction_, again.transduction_)
    make("GPUM", roll_model).fit(X, np.where(np.arange(len(y)) % 7 == 0, truth, np.nan))


@pytest.mark.slow
def test_hyperparameters_and_boundary_options(roll_model, labelled):
    X, y, truth = labelled
    unknown = np.isnan(y)
    for reached, options in (  # as ERRORS
        (0.083, {"hyperparameters": "evidence"}),
        (0.123, {"hyperparameters": "evidence", "smoothness": "heat", "kernel": KernelOptions(boundary="variance")}),
        (0.155, {"kernel": KernelOptions(boundary=0.5), "smoothness": "matern52"}),
        (0.150, {"kernel": KernelOptions(boundary=0.5, metric_draws=2)}),
        (0.155, {"kernel": KernelOptions(n_modes=40, boundary=0.5)}),
    ):
        model = make("GPUM", roll_model, **options).fit(X, y)
        assert np.sqrt(np.mean((model.transduction_ - truth)[unknown] ** 2)) < 1.15 * reached * truth.std(), options
        assert model.length_scale_ > 0
    paper = make(
        "GPUM", roll_model, hyperparameters="evidence", smoothness="heat", kernel=KernelOptions(boundary="variance")
    ).fit(X, y)
    assert paper.best_setting_["smoothness"] == "heat"
    mean, std = paper.predict(X[:5], return_std=True)  # one setting: a normal distribution, not a mixture
    np.testing.assert_allclose(
        paper.predict_quantiles(X[:5], [0.05, 0.9]), norm.ppf([0.05, 0.9], mean[:, None], std[:, None]), rtol=1e-6
    )


@pytest.mark.slow
def test_paths_give_the_same_regression(roll_model, labelled):
    """Brownian and spectral heat kernels of one domain, and paths from inducing points only."""
    X, y, truth = labelled
    rows = np.flatnonzero(~np.isnan(y)).tolist() + np.flatnonzero(np.isnan(y))[::5].tolist()
    X, y, truth = X[rows], y[rows], truth[rows]
    options = {"smoothness": "heat"}
    paths = lambda **more: KernelOptions("brownian", boundary=0.5, **more)
    exact = make("GPUM", roll_model, kernel=KernelOptions(boundary=0.5), **options).fit(X, y)
    brownian = make("GPUM", roll_model, kernel=paths(), **options).fit(X, y)
    unknown = np.isnan(y)
    difference = np.sqrt(np.mean((exact.transduction_ - brownian.transduction_)[unknown] ** 2))
    assert difference < 0.15 * truth.std()
    same = make("GPUM", roll_model, kernel=paths(), n_jobs=2, **options).fit(X, y)
    assert np.array_equal(brownian.transduction_, same.transduction_)
    few = make("GPUM", roll_model, kernel=paths(n_path_starts=50), **options).fit(X, y)
    assert np.sqrt(np.mean((few.transduction_ - truth)[unknown] ** 2)) < 0.5 * truth.std()


def test_known_chart():
    """Niu et al. 2019: the chart is given, X holds coordinates in it."""
    chart = SwissRoll(r=(2, 12.5), z=(0, 12))
    cloud = gpum.datasets.make_swiss_roll(n_labeled=24, n_unlabeled=150, random_state=0)
    model = GPUMRegressor(latent_model=chart, random_state=0).fit(cloud.chart_coords, cloud.y)
    unknown = np.isnan(cloud.y)
    error = np.sqrt(np.mean((model.transduction_ - cloud.y_true)[unknown] ** 2))
    assert error < 0.18 * cloud.y_true.std()  # it is 0.154; other rolls have 0.11 to 0.26
    with pytest.raises(ValueError, match="chart of 2 coordinates"):
        GPUMRegressor(latent_model=chart).fit(cloud.X, cloud.y)


def test_save_and_load(tmp_path, fitted, labelled):
    _, model = fitted
    model.save(tmp_path / "roll.gpum")
    loaded = type(model).load(tmp_path / "roll.gpum")
    X = labelled[0][:20] + 1e-3
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-9, atol=1e-12)  # to rounding
    with pytest.raises(TypeError, match="holds a"):
        (gpum.GPUMRegressor if type(model) is not gpum.GPUMRegressor else gpum.EuclideanGPRegressor).load(
            tmp_path / "roll.gpum"
        )


@pytest.mark.parametrize("name", NAMES)
def test_few_and_odd_labels(name, roll_model, labelled):
    X, _, truth = labelled
    one = np.full(len(X), np.nan)
    one[10] = 4.0
    constant = np.where(np.arange(len(X)) % 9 == 0, 2.5, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # evidence has no optimum in the scale
        mean, std = make(name, roll_model).fit(X, one).predict(X, return_std=True)
        assert np.allclose(mean, 4.0, atol=0.5)
        if name == "GPUM":
            assert std.min() > 0.1
        mean, std = make(name, roll_model).fit(X, constant).predict(X, return_std=True)
    assert np.allclose(mean, 2.5, atol=1e-6)
    assert np.all(np.isfinite(std))
    if name != "GraphLaplacian":
        many = make(name, roll_model).fit(X, np.where(np.arange(len(X)) % 3 == 0, truth, np.nan))
        assert many.score(X, truth) > 0.9


def test_messages(roll_model, labelled):
    X, y, _ = labelled
    cases = [
        (lambda: make("GPUM", roll_model).fit(X, np.full(len(X), np.nan)), "no labelled row"),
        (lambda: make("GPUM", roll_model).fit(X, np.where(np.isnan(y), np.inf, y)), "infinity"),
        (lambda: make("GPUM", roll_model).fit(X, y[:-1]), "but X has"),
        (lambda: make("GPUM", roll_model, kernel="spectrum").fit(X, y), "did you mean 'spectral'"),
        (lambda: make("GPUM", roll_model, smoothness="rough").fit(X, y), "smoothness must be one of"),
        (lambda: make("GPUM", roll_model, hyperparameters="map").fit(X, y), "hyperparameters must be one of"),
        (lambda: make("GPUM", roll_model, kernel=KernelOptions(boundary=-1.0)).fit(X, y), "boundary must be"),
        (lambda: make("GPUM", 3).fit(X, y), "latent_model must be"),
        (lambda: make("GPUM", "gplvn").fit(X, y), "did you mean 'gplvm'"),
        (lambda: make("GPUM", roll_model).fit(X[:, :2], y), "pass the same columns"),
        (lambda: make("GPUM", roll_model).fit(X, y).predict(X[:, :2]), "expecting 3 features"),
        (lambda: make("GPUM", roll_model).fit(X, y).predict(X, return_std=True, return_cov=True), "ask for one"),
        (lambda: make("GPUM", roll_model).fit(X, y).predict_quantiles(X, [1.5]), "between 0 and 1"),
        (lambda: make("GPUM", roll_model).fit(X, ["a"] * len(X)), "y must hold numbers"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    for name in NAMES:
        with pytest.raises(NotFittedError):
            make(name, roll_model).predict(X)


SMALL = BayesianGPLVM(1, starts="pca", n_inducing=5, max_iter=100, tol=1.0, random_state=0)


# A weight is a precision: a row that is there twice is more than a label of weight two (docs/targets.md).
WEIGHTS = dict.fromkeys(
    (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")),
    "weights are precisions, not repetitions; sparse rows, which scikit-learn 1.6 tries all the same, are refused",
)


# Every check learns a chart, or all the graphs of GL-GP. Without them the same code is checked by the others.
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name in ("GPUM", "Latent", "GraphLaplacian")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LONG, "Euclidean", "GraphMatern"])
def test_scikit_learn_contract(name, monkeypatch):
    """Weights are no repetitions; two checks skip themselves without pandas and the array API. Few settings do."""
    inside.lower(monkeypatch, scales=3)
    options = {"hyperparameters": "average", "smoothness": "heat"}
    if name == "GPUM":
        options |= {"kernel": KernelOptions(boundary=0.5, n_modes=10)}
    if name == "GraphLaplacian":
        del options["smoothness"]
    if name == "GraphMatern":
        options["n_neighbors"] = 3
    check_estimator(make(name, SMALL, **options), expected_failed_checks=WEIGHTS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("geometry", ["flat", pytest.param(["graph", "flat"], marks=pytest.mark.slow)])
def test_scikit_learn_contract_without_a_chart(geometry, monkeypatch):
    inside.lower(monkeypatch, scales=3)
    check_estimator(GPUMRegressor(geometry=geometry, smoothness="heat"), expected_failed_checks=WEIGHTS, on_skip=None)


def test_latent_coordinates_are_offered_where_there_is_a_chart():
    """`transform` and what belongs to it depend on `geometry`, before and after a fit."""
    names = ("transform", "fit_transform", "get_feature_names_out", "set_output")
    X = np.random.default_rng(0).uniform(size=(20, 2))
    flat = GPUMRegressor(geometry="flat", smoothness="heat")
    for model in (flat, clone(flat).fit(X, X[:, 0]), GPUMRegressor(geometry=["atlas", "graph"])):
        assert not [name for name in names if hasattr(model, name)]
        assert get_tags(model).transformer_tags is None
    charted = (GPUMRegressor(), GPUMRegressor(geometry=["chart", "flat"]), GPUMRegressor(latent_model=SwissRoll()))
    for model in charted:
        assert all(hasattr(model, name) for name in names)
        assert get_tags(model).transformer_tags is not None
    assert not hasattr(flat.set_params(geometry="sphere"), "transform")  # `fit` says what is wrong with it
    known = GPUMRegressor(latent_model=SwissRoll(), smoothness="heat").set_output(transform="pandas")
    X = SwissRoll().bounds[:, 0] + X * np.ptp(SwissRoll().bounds, axis=1)
    assert list(known.fit_transform(X, X[:, 0]).columns) == ["gpumregressor0", "gpumregressor1"]


def test_samples_at_far_rows_are_the_priors(roll_model, labelled):
    """A far row is predicted and sampled alike, as is one whose place is uncertain."""
    X, y, _ = labelled
    model = make("GPUM", roll_model).fit(X, y)
    rows = np.array([[300.0, 300.0, 300.0], X[3] + 0.3, X[0]])
    with pytest.warns(UserWarning, match="far from the fitted surface"):
        found = model.predictive(rows)
    assert found.far.tolist() == [True, False, False]
    mean, std = found.of_function().mean, found.of_function().std
    draws = found.of_function().samples(8000, random_state=0)
    assert np.all(np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(8000))
    fourth = np.mean((draws - draws.mean(1, keepdims=True)) ** 4, 1)
    assert np.all(np.abs(draws.var(1) - std**2) < 5 * np.sqrt((fourth - draws.var(1) ** 2) / 8000))
    assert np.allclose(np.diag(found.cov), found.std**2, rtol=1e-8)


def test_predictive_projects_rows_once(roll_model, labelled, monkeypatch):
    """Also for their coordinates."""
    X, y, _ = labelled
    model = make("GPUM", roll_model).fit(X, y)
    projected = []
    project = SurfaceGeometry.project
    monkeypatch.setattr(SurfaceGeometry, "project", lambda self, S: projected.append(len(S)) or project(self, S))
    found = model.predictive(np.concatenate([X[:3], X[3:5] + 0.01]))
    found.mean, found.std, found.cov, found.quantiles(), found.samples(2), found.summary((0.1,))
    assert np.array_equal(found.latent[:3], model.latent_[:3])
    assert projected == [2]
    assert np.allclose(found.latent[3:], model.transform(X[3:5] + 0.01))


def test_labels_are_checked_before_a_surface_is_learned(labelled, monkeypatch):
    X, y, _ = labelled
    monkeypatch.setattr(BayesianGPLVM, "fit", lambda *args: pytest.fail("learned"))
    with pytest.raises(ValueError, match="no labelled row"):
        GPUMRegressor().fit(X, np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="output 1 of y has no labelled row"):
        GPUMRegressor().fit(X, np.column_stack([y, np.full(len(X), np.nan)]))
    huge = y.copy()
    huge[5] = 1e200
    with pytest.raises(ValueError, match="y is 1e\\+200 at row 5, too large"):
        GPUMRegressor().fit(X, huge)


def test_tiny_labels_keep_their_differences(roll_model, labelled):
    X, y, _ = labelled
    mean, std = make("GPUM", roll_model).fit(X, y).predict(X, return_std=True)
    small = make("GPUM", roll_model).fit(X, y * 2.0**-600).predict(X, return_std=True)
    assert np.allclose(np.array(small) * 2.0**600, [mean, std])


def test_options_that_a_kernel_does_not_have():
    chart, X = SwissRoll(), np.random.default_rng(0).uniform([2, 0], [12.5, 12], (20, 2))
    y = X[:, 0]
    with pytest.raises(ValueError, match=r"boundary is the level 0\.5, but the given chart has no family"):
        GPUMRegressor(latent_model=chart, kernel=KernelOptions("brownian", boundary=0.5), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="metric_draws is 3, but method='brownian'"):
        GPUMRegressor(latent_model=chart, kernel=KernelOptions("brownian", metric_draws=3), random_state=0).fit(X, y)


@pytest.mark.slow
def test_torn_levels_are_told(roll_model, labelled, monkeypatch):
    X, y, _ = labelled
    model = BayesianGPLVM(random_state=0, n_inducing=20, max_iter=300).fit(X)
    monkeypatch.setattr("gpum.geometry.chart.Domain.connected", property(lambda self: False))
    found = make("GPUM", model).fit(X, y)
    assert sum("it has several connected components and is left out" in note for note in found.notes_) >= 2
    one = make("GPUM", model, kernel=KernelOptions(boundary=0.5)).fit(X, y)
    assert "level 0.5: it has several connected components, each with a mean of its own" in one.notes_[0]


def test_meshes_that_did_not_converge_are_told(monkeypatch):
    from gpum.heat import spectral

    chart, X = SwissRoll(), np.random.default_rng(0).uniform([2, 0], [12.5, 12], (20, 2))
    found = spectral.eigenpairs

    def rough(chart, **options):
        return dataclasses.replace(found(chart, **options), change=0.4)

    monkeypatch.setattr("gpum.geometry.chart.eigenpairs", rough)
    model = GPUMRegressor(latent_model=chart, kernel=KernelOptions(n_modes=10), random_state=0).fit(X, X[:, 0])
    assert "its first eigenvalues still change by 40% as the mesh is refined" in model.notes_[0]


def test_eigenfunctions_that_were_not_found_are_told(monkeypatch):
    """They are left out of the kernel, on a mesh and on the domains of a learned chart."""
    from gpum.heat import lanczos

    monkeypatch.setattr(lanczos, "MOST", (1, 3))
    chart, X = SwissRoll(), np.random.default_rng(0).uniform([2, 0], [12.5, 12], (20, 2))
    known = GPUMRegressor(latent_model=chart, kernel=KernelOptions(n_modes=60), random_state=0).fit(X, X[:, 0])
    learned = curve_model("chart").fit(*curve_with_copies([]))
    for model in (known, learned):
        notes = [note for note in model.notes_ if "eigenfunctions did not converge and are not used" in note]
        assert notes
        missing, asked = (int(notes[0].split(": ")[1].split()[k]) for k in (0, 3))
        assert inside.features(model)[0].shape[1] == asked - missing
        assert np.isfinite(model.transduction_).all()


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
def test_clouds_of_any_scale(scale):
    """The geometry is free of scale: predictions are the same."""
    cloud = gpum.datasets.make_swiss_roll(n_labeled=20, n_unlabeled=60, random_state=0)
    options = {"latent_dim": 2, "geometry": ["atlas", "graph", "flat"]}
    one = GPUMRegressor(**options).fit(cloud.X, cloud.y)
    other = GPUMRegressor(**options).fit(cloud.X * scale, cloud.y)
    assert np.allclose(one.transduction_, other.transduction_, atol=1e-6)
    assert np.allclose(one.predict(cloud.X + 0.1), other.predict((cloud.X + 0.1) * scale), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is far away
        assert np.all(np.isfinite(other.predict(np.full((1, 3), 1e300), return_std=True)))


def test_a_cell_too_large_is_named(labelled):
    X, y, _ = labelled
    X = X.copy()
    X[7, 2] = 1e300
    with pytest.raises(ValueError, match=r"X has 1e\+300 at row 7, column 2"):
        GPUMRegressor().fit(X, y)


@pytest.mark.slow
def test_two_far_apart_patches():
    """No hang, no crash; each piece is predicted from its own labels, the other's mean at most."""
    rng = np.random.default_rng(0)
    patch = rng.uniform(0, 1, (45, 2))
    flat = np.column_stack([patch, 0.1 * np.sin(3 * patch[:, 0])])
    X = np.concatenate([flat, flat + np.array([20.0, 0, 0])])
    truth = np.concatenate([np.sin(3 * patch[:, 0]), 5 + np.cos(3 * patch[:, 1])])
    y = np.where(np.arange(90) % 4 == 0, truth, np.nan)
    latent = BayesianGPLVM(2, n_inducing=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPUMRegressor(2, latent_model=latent, random_state=0).fit(X, y)
    assert set(model.geometry_weights_) == {"chart", "atlas", "graph", "flat"}
    assert np.sqrt(np.mean((model.transduction_ - truth) ** 2)) < 0.1


def test_an_atlas_carries_nothing_between_connected_components():
    """Labels of one piece say of another what its mean is, the same everywhere, and nothing else."""
    patch = np.random.default_rng(0).uniform(0, 1, (45, 2))
    X = np.concatenate([patch, patch + np.array([20.0, 0])])
    y = np.where((np.arange(90) < 45) & (np.arange(90) % 2 == 0), np.tile(np.sin(3 * patch[:, 0]), 2), np.nan)
    model = GPUMRegressor(2, geometry="atlas", random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.ptp(mean[:45]) > 0.8
    assert np.ptp(mean[45:]) < 1e-6
    assert std[45:].min() > 3 * np.median(std[:45])


def two_patches(offset):
    """Two patches of 45 rows far apart, and sin(3x) on each, on the second one higher by the offset."""
    patch = np.random.default_rng(0).uniform(0, 1, (45, 2))
    return np.concatenate([patch, patch + np.array([20.0, 0])]), np.repeat([0.0, offset], 45) + np.tile(
        np.sin(3 * patch[:, 0]), 2
    )


def test_each_connected_component_of_an_atlas_has_a_mean_of_its_own():
    """A difference of the two means costs no accuracy; without offsets the error was 4.1."""
    X, truth = two_patches(5.0)
    model = GPUMRegressor(2, geometry="atlas", random_state=0).fit(X, np.where(np.arange(90) % 3 == 0, truth, np.nan))
    assert np.sqrt(np.mean((model.transduction_ - truth) ** 2)) < 0.2


def test_a_connected_component_without_labels_has_wide_intervals():
    """They allow for another mean there: wider than the labels' own spread."""
    X, truth = two_patches(0.0)
    y = np.where((np.arange(90) < 45) & (np.arange(90) % 2 == 0), truth, np.nan)
    std = GPUMRegressor(2, geometry="atlas", random_state=0).fit(X, y).predict(X, return_std=True)[1]
    assert std[45:].min() > 1.7 * np.nanstd(y)


def test_predictions_on_a_rough_surface_stay_near_the_labels():
    """On thin parts of it the kernel's variance was up to 100 times its mean, and predictions 2.2 of labels in ±1."""
    rng = np.random.default_rng(3)
    t = rng.uniform(-1, 1, (120, 2))
    X = np.tanh(2 * t @ rng.standard_normal((2, 20)))
    X += 0.25 * rng.standard_normal((120, 20)) * rng.gamma(0.5, 2, (120, 1))
    y = np.where(np.arange(120) < 30, t[:, 0], np.nan)
    model = GPUMRegressor(3, geometry="atlas", random_state=0).fit(X, y)
    assert np.abs(model.transduction_).max() < 1.5


def test_default_settings_are_accurate(default_fit):
    """Data of five seeds have errors of 0.013 to 0.045, and 93 to 100 % of the truth in an interval of 95 %."""
    model, X, truth = default_fit
    mean, std = model.predict(X, return_std=True, include_noise=False)
    assert np.all(np.sqrt(np.mean((mean - truth) ** 2, 0)) < 0.05)
    assert np.mean(np.abs(mean - truth) < 1.96 * std) > 0.9
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False) + 0.05
    new = model.predict(np.stack([np.cos(t), np.sin(t), 0.3 * np.cos(2 * t)], 1))
    assert np.all(np.sqrt(np.mean((new - np.column_stack([np.sin(t), np.cos(2 * t)])) ** 2, 0)) < 0.06)


def test_geometries_side_by_side(default_fit):
    """Every kind is there, weights add up; the mixture does what one geometry does: quantiles, samples, refits."""
    model, X, truth = default_fit
    assert [sum(w.values()) for w in model.geometry_weights_] == pytest.approx([1, 1])
    assert set(model.geometry_weights_[0]) == {"chart", "atlas", "graph", "flat"}
    found = model.predictive(0.99 * X)
    assert found.latent.shape[0] == 60
    assert found.quantiles().shape == (60, 3, 2)
    for some in (found, found.of_function()):
        mean, std, ends = some.summary((0.025, 0.5, 0.975))
        for value, alone in ((mean, some.mean), (std, some.std), (ends, some.quantiles())):
            np.testing.assert_allclose(value, alone, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.summary((0.1,), levels_of_function=True).quantiles, found.of_function().quantiles((0.1,)), atol=1e-9
    )
    draws = found.samples(500)
    assert np.all(np.abs(draws.mean(-1) - found.mean) < 5 * found.std / np.sqrt(500) + 1e-9)
    other = copy(model).fit(X, truth[:, 0])
    charts = [{m.title: m for m in inside.members(one) if m.name == "chart"} for one in (model, other)]
    assert charts[1]  # warm start: those that the other labels ask for are the same objects
    assert all(chart is charts[0][title] for title, chart in charts[1].items())
    anew = GPUMRegressor(latent_model=model.latent_model_, random_state=0).fit(X, truth[:, 0])
    assert np.allclose(anew.transduction_, other.transduction_, atol=1e-3)  # flat space, with other members beside it


@pytest.mark.parametrize("from_file", [False, True])
def test_threads_that_predict_at_once_get_what_one_gets(default_fit, tmp_path, from_file):
    """Also from a file, of which much is computed when it is first needed."""
    fitted, X, _ = default_fit
    rows = [np.concatenate([X, X[k::4] * (0.99 + 0.005 * k)]) for k in range(4)]
    alone = [fitted.predict(some, return_std=True) for some in rows]
    fitted.save(tmp_path / "ring.gpum")
    model = GPUMRegressor.load(tmp_path / "ring.gpum") if from_file else fitted
    ready = threading.Barrier(4)

    def use(some):
        ready.wait(60)
        return model.predict(some, return_std=True)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(use, rows))
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)


def test_warm_start_learns_anew_for_other_rows_or_settings():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = GPUMRegressor(geometry="graph", warm_start=True).fit(X, X[:, 0])
    first = inside.learned(model)
    assert inside.learned(model.fit(X, X[:, 1])) is first
    second = inside.learned(model.fit(X[:-1], X[:-1, 1]))
    assert second is not first
    assert inside.learned(model.set_params(smoothness="heat").fit(X[:-1], X[:-1, 1])) is not second
    cold = GPUMRegressor(geometry="graph").fit(X, X[:, 0])
    assert inside.learned(cold) is not inside.learned(cold.fit(X, X[:, 0]))


def test_geometry_names_and_dimensions(labelled):
    X, y, _ = labelled
    for options, message in [
        ({"geometry": "sphere"}, "geometry must be one of 'average', 'chart'"),
        ({"geometry": ["graph", "charts"]}, "did you mean 'chart'"),
        ({"geometry": []}, "geometry must be 'average', a name or a list"),
        ({"geometry": 3}, "geometry must be 'average', a name or a list"),
        ({"latent_dim": "all"}, "latent_dim must be one of 'average', 'auto'"),
        ({"latent_dim": 0}, "latent_dim must be an integer of at least 1"),
        ({"latent_dim": []}, "latent_dim is an empty sequence"),
        ({"latent_dim": [1, 2.5]}, "latent_dim must be an integer"),
        ({"geometry": "atlas", "latent_dim": 4}, "dim"),
        ({"geometry": "chart", "latent_dim": 3}, "fewer dimensions than the data space"),
    ]:
        with pytest.raises(ValueError, match=message):
            GPUMRegressor(**options).fit(X, y)
    chart = SwissRoll()
    with pytest.raises(ValueError, match="known chart, but geometry is 'graph'"):
        GPUMRegressor(latent_model=chart, geometry="graph").fit(X[:, :2], y)


def test_charts_of_curves_are_always_tried():
    """Also where noise makes the cloud look solid; a dimension that is named is the only one."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 60)
    thin = np.stack([np.cos(t), np.sin(t), np.cos(2 * t)], 1)
    noisy = np.tile(thin, 5) + 0.8 * rng.standard_normal((60, 15))
    for X, dims, expected in [(thin, "average", [1, 2]), (noisy, "average", [1, 2, 3]), (thin, 2, [2])]:
        assert [dim for dim, _ in chart_dimensions(dims, X)] == expected


def test_a_geometry_that_cannot_be_built_is_left_out(labelled):
    X, y, _ = labelled
    model = GPUMRegressor(latent_dim=3, geometry=["chart", "graph"], random_state=0).fit(X, y)
    assert set(model.geometry_weights_) == {"graph"}
    assert any("one chart is left out" in note and "fewer dimensions" in note for note in model.notes_)
    assert model.latent_ is None
    with pytest.raises(ValueError, match="no chart and so no latent coordinates"):
        model.transform(X)
    with pytest.raises(ValueError, match="no geometry can be built"):
        GPUMRegressor(latent_dim=9, geometry=["chart", "atlas"]).fit(X, y)


@pytest.mark.parametrize("where", ["gpum.heat.atlas.surface", "gpum.geometry.atlas.AtlasGeometry.built"])
@pytest.mark.parametrize("error", [ValueError, np.linalg.LinAlgError, FloatingPointError, MemoryError, NoSurface])
def test_only_clouds_without_a_surface_are_noted(where, error, monkeypatch):
    """Whether a geometry is built or its kernels are: any other error is a bug, and leaves `fit`."""

    def broken(*args, **options):
        raise error("the reason in some words")

    X, y = curve_with_copies([])
    monkeypatch.setattr(where, broken)
    model = GPUMRegressor(1, geometry=["atlas", "flat"], random_state=0)
    if error is NoSurface:
        assert any("left out: the reason" in note for note in model.fit(X, y).notes_)
    else:
        with pytest.raises(error, match="the reason in some words"):
            model.fit(X, y)


def curve_with_copies(copies):
    """40 rows of an open curve in R³, 12 of them labelled, and copies without a label."""
    rng = np.random.default_rng(0)
    t = np.linspace(-1, 1, 40)
    X = np.stack([np.sin(2 * t), np.cos(2 * t), 0.5 * t], 1) + 0.01 * rng.standard_normal((40, 3))
    y = np.where(np.arange(40) % 3 == 0, np.sin(3 * t), np.nan)
    return np.concatenate([X, X[copies]]), np.concatenate([y, np.full(len(copies), np.nan)])


def curve_model(geometry):
    latent = BayesianGPLVM(1, starts="pca", n_inducing=10, random_state=0)
    return GPUMRegressor(1, geometry=geometry, latent_model=latent, random_state=0)


@pytest.mark.parametrize("geometry", ["chart", "atlas", "graph", "flat"])
def test_copies_of_rows_change_nothing(geometry):
    """Some rows have one copy, some have many; the surface and all predictions are the same."""
    X, y = curve_with_copies([])
    copies = np.random.default_rng(1).integers(0, 40, 90)
    more, labels = curve_with_copies(copies)
    alone, model = curve_model(geometry).fit(X, y), curve_model(geometry).fit(more, labels)
    new = X + 0.02
    close = 7e-3 if geometry == "flat" else 1e-9  # lengths of columns expect noise where rows are repeated
    for a, b in zip(model.predict(new, return_std=True), alone.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, atol=close)
    np.testing.assert_allclose(model.transduction_, alone.predict(more), atol=close)
    np.testing.assert_allclose(model.predict(more), model.transduction_, atol=1e-12)
    assert any("90 rows are copies" in note for note in model.notes_)
    if geometry == "chart":
        np.testing.assert_allclose(model.latent_, alone.latent_[[*range(40), *copies]], atol=1e-9)


@pytest.mark.parametrize("geometry", ["atlas", "graph", "flat", "chart"])
def test_predictions_do_not_jump_at_training_rows(geometry):
    """On a chart the coordinates of rows without a label are uncertain, those of labelled rows are not."""
    X, y = curve_with_copies([])
    X = X + 0.05 * np.random.default_rng(3).standard_normal(X.shape)
    model = curve_model(geometry).fit(X, y)
    seen, next_to = (model.predict(rows, return_std=True, include_noise=False) for rows in (X, X + 1e-12))
    some, close = (np.isnan(y), 1e-3) if geometry == "chart" else (slice(None), 1e-6)
    for a, b in zip(seen, next_to, strict=True):
        np.testing.assert_allclose(a[some], b[some], atol=close * np.nanstd(y))
        np.testing.assert_allclose(a, b, atol=0.1 * np.nanstd(y))


def test_each_copy_keeps_its_own_label(tmp_path):
    """Two labels in one place count as two; rows to label next and model files see all rows."""
    X, y = curve_with_copies([6, 6, 20])
    y[40:] = y[6] + 1.0
    model = curve_model(["graph", "flat"]).fit(X, y)
    assert len(gpum.diagnostics.leave_one_out(model).rows) == 17
    np.testing.assert_allclose(model.transduction_[[40, 41, 42]], model.transduction_[[6, 6, 20]])
    assert y[6] < model.transduction_[6] < y[6] + 1.0
    model.save(tmp_path / "copies.gpum")
    again = GPUMRegressor.load(tmp_path / "copies.gpum")
    np.testing.assert_allclose(again.transduction_, model.transduction_, atol=1e-9)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-9)
    assert np.isnan(y[model.suggest(5)]).all()


def test_a_given_latent_model_keeps_the_coordinates_of_its_rows():
    """Also where the cloud is not the fitted one, but has rows of it, and more than once."""
    X, y = curve_with_copies([])
    latent = BayesianGPLVM(1, starts="pca", n_inducing=10, random_state=0).fit(X)
    model = GPUMRegressor(1, geometry="chart", latent_model=latent, random_state=0).fit(X[[5, *range(30), 5]], y[:32])
    np.testing.assert_allclose(model.latent_, latent.latent_[[5, *range(30), 5]], rtol=1e-12)


def test_inducing_points_may_be_more_than_distinct_rows():
    X, y = (np.repeat(rows[:10], 2, axis=0) for rows in curve_with_copies([]))
    latent = BayesianGPLVM(1, starts="pca", n_inducing=14, max_iter=20, tol=10.0, random_state=0)
    with odd.quiet():
        model = GPUMRegressor(
            1, geometry="chart", latent_model=latent, kernel=KernelOptions(boundary=0.5), random_state=0
        ).fit(X, y)
    assert model.latent_model_.n_inducing == 10
    with pytest.raises(ValueError, match="n_inducing must be an integer from 1 to 10"):
        GPUMRegressor(1, geometry="chart", latent_model=latent.set_params(n_inducing=99)).fit(X, y)


@pytest.mark.parametrize("distinct", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_few_distinct_rows(distinct):
    """Geometries that need more are left out, with a note; the others are there."""
    X = np.random.default_rng(0).standard_normal((distinct, 3))[np.arange(12) % distinct]
    with odd.quiet():
        model = GPUMRegressor(random_state=0).fit(X, np.arange(12) % distinct + 0.0)
    assert {"graph", "flat"} <= set(model.geometry_weights_)
    assert np.isfinite(model.predict(np.concatenate([X, X + 0.1]))).all()
    if distinct < 4:
        assert any("chart is left out" in note or "charts and atlases were not" in note for note in model.notes_)


@pytest.mark.slow
def test_fits_do_not_stay_in_memory():
    """What is computed on a surface goes when its owner goes."""
    import gc
    import weakref

    cloud = gpum.datasets.make_swiss_roll(n_labeled=10, n_unlabeled=40, random_state=0)
    latent = BayesianGPLVM(starts="pca", n_inducing=8, max_iter=50, tol=1.0, random_state=0)
    options = {
        "geometry": "chart",
        "latent_model": latent,
        "kernel": KernelOptions(boundary=0.5, n_modes=10),
        "random_state": 0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPUMRegressor(**options).fit(cloud.X, cloud.y)
    traces = [weakref.ref(part) for part in (inside.members(model)[0], model.chart_, model.latent_)]
    del model
    gc.collect()
    assert [trace() for trace in traces] == [None, None, None]
