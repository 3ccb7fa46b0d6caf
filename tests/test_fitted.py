"""What a fit is does not change: not by parameters set later, threads, interrupts or files."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError

from gpum import BayesianGPLVM, GPUMClassifier, GpumError, GPUMRegressor, KernelOptions, NoSurface
from gpum.basics import workers
from gpum.basics.workers import one_blas_thread
from gpum.fitted.summary import table as html_of


def bent(n=40, seed=0):
    """A bent strip in R^4, and a target of which every other row is known. Its shape is that of other tests' clouds."""
    rng = np.random.default_rng(seed)
    u, v = np.sort(rng.uniform(0, 3, n)), rng.uniform(0, 1, n)
    X = np.stack([np.cos(u), np.sin(u), v, 0.1 * u], 1)
    y = np.where(np.arange(n) % 2, np.sin(2 * u), np.nan)
    return X, y


def curve(latent_dim=1, **options):
    latent = BayesianGPLVM(latent_dim, n_inducing=12, starts="pca", random_state=0)
    return GPUMRegressor(latent_dim, geometry="chart", latent_model=latent, random_state=0, **options)


@pytest.fixture(scope="module")
def fitted():
    """A chart of a curve, whose eigenfunctions a model file makes anew."""
    X, y = bent()
    return curve().fit(X, y)


@pytest.fixture
def stored(fitted, tmp_path):
    fitted.save(tmp_path / "model.gpum")
    return tmp_path / "model.gpum"


NEW = bent(12, seed=1)[0]


def test_parameters_set_after_the_fit_change_nothing(tmp_path):
    X, y = bent()
    model = curve().fit(X, y)
    before = model.predict(NEW, return_std=True)
    model.set_params(
        kernel=KernelOptions("brownian", n_path_starts=40, boundary=0.5), likelihood="poisson", period=360.0
    )
    np.testing.assert_array_equal(before, model.predict(NEW, return_std=True))
    assert model.score(X[1::2], y[1::2]) > 0.9  # R², not that of angles
    model.save(tmp_path / "model.gpum")
    loaded = GPUMRegressor.load(tmp_path / "model.gpum")
    np.testing.assert_allclose(loaded.predict(NEW, return_std=True), before, rtol=1e-9)
    assert loaded.kernel == "auto"  # the file holds the parameters of the fit
    assert loaded.kernel == "auto"


def test_threads_may_ask_a_loaded_model_at_once(fitted, stored):
    loaded, wait = GPUMRegressor.load(stored), threading.Barrier(8)

    def ask(_):
        wait.wait()
        return loaded.predict(NEW, return_std=True)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    np.testing.assert_allclose(answers[0], fitted.predict(NEW, return_std=True), rtol=1e-9)


@pytest.mark.parametrize("geometry", ["chart", "atlas", "graph"])
def test_rows_of_a_service_are_answered_in_threads_as_one_after_the_other(geometry, fitted):
    """One row at a time, of many, in any order."""
    model = fitted if geometry == "chart" else GPUMRegressor(geometry=geometry).fit(*bent())
    alone = [model.predict(row[None], return_std=True) for row in NEW]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda k: model.predict(NEW[k][None], return_std=True), list(range(len(NEW))) * 4))
    np.testing.assert_array_equal(answers, alone * 4)
    np.testing.assert_allclose(np.squeeze(alone).T, model.predict(NEW, return_std=True), rtol=1e-9)


def test_notebooks_show_the_weights_of_geometries(fitted):
    """scikit-learn's diagram stays, the table follows it; names from the data are text."""
    html = fitted._repr_html_()
    diagram, table = html.split("<table style=", 1)[0], fitted.model_._repr_html_()
    assert "sk-container" in diagram
    assert html.endswith(table)
    assert fitted._repr_mimebundle_()["text/html"].endswith(table)
    assert "40 rows, 4 columns" in table
    assert "100 % chart of dimension 1" in table
    assert "matern" in table or "heat" in table
    assert "<table style=" not in curve()._repr_html_()  # not fitted: the diagram alone
    assert repr(fitted.model_) == "<FittedModel of 40 rows and 1 output(s): chart of dimension 1 100%>"
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()
    summary = {**fitted.model_.summary(), "notes": ["<script>alert(1)</script>"]}
    assert "<script>" not in html_of(summary)
    several = {**summary, "targets": 8 * summary["targets"]}
    assert "2 more outputs" in html_of(several)


def test_warm_starts_see_what_parameters_hold():
    X, y = bent()
    model = curve(warm_start=True).fit(X, y)
    chart = model.chart_
    assert model.fit(X, -y).chart_ is chart
    assert model.set_params(latent_model__boundary=0.7).fit(X, y).chart_ is not chart
    # A fitted latent model that is fitted anew is another one.
    latent = BayesianGPLVM(1, n_inducing=12, starts="pca", random_state=0).fit(X)
    model = GPUMRegressor(geometry="chart", latent_model=latent, random_state=0, warm_start=True).fit(X, y)
    chart = model.chart_
    assert model.fit(X, -y).chart_ is chart
    latent.set_params(random_state=1).fit(X)
    assert model.fit(X, y).chart_ is not chart


def test_a_generator_as_seed_is_asked_once(monkeypatch):
    """Charts are learned in threads, which must not share a generator: each gets the same whole number."""
    X, y = bent()
    seeds = []

    def refuse(self, S, store, needs_surface):
        seeds.append(self.random_state)
        raise NoSurface("this chart is not learned in a test")

    monkeypatch.setattr(BayesianGPLVM, "_fit", refuse)
    GPUMRegressor((1, 2), geometry=["chart", "flat"], random_state=np.random.RandomState(0)).fit(X, y)
    assert seeds == [np.random.RandomState(0).randint(2**31 - 1)] * 2


OVERLAP = """
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadpoolctl import threadpool_info
from gpum import GPUMRegressor
from gpum.basics.workers import one_blas_thread

threads = lambda: [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
before, began, ended = threads(), threading.Event(), threading.Event()
assert set(before) == {2}

def first():
    with one_blas_thread:
        assert began.wait(5)
    ended.set()

thread = threading.Thread(target=first)
thread.start()
with one_blas_thread:
    began.set()
    assert ended.wait(5)
    assert set(threads()) == {1}, "the other still needs one thread"
thread.join()
assert threads() == before, threads()
X = np.random.default_rng(0).standard_normal((30, 3))
fit = lambda k: GPUMRegressor(geometry="flat", random_state=0).fit(X, X[:, 0])
with ThreadPoolExecutor(4) as pool:
    list(pool.map(fit, range(8)))
assert threads() == before, threads()
"""


def test_blas_is_searched_for_once(monkeypatch):
    """To search takes milliseconds, and a loaded model enters the scope for each of a thousand settings."""
    with one_blas_thread:
        pass
    monkeypatch.setattr(workers, "ThreadpoolController", None)
    with one_blas_thread:
        pass


@pytest.mark.slow
def test_blas_keeps_its_threads_when_fits_overlap():
    """The first begins, the second begins, the first ends, the second ends."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", OVERLAP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_atlases_have_the_eigenfunctions_that_were_asked_for():
    """With fewer of them the smallest scale that a kernel can follow is larger."""
    X, y = bent(60)
    smallest = [
        GPUMRegressor(2, geometry="atlas", kernel=KernelOptions(n_modes=n), smoothness="heat", random_state=0)
        .fit(X, y)
        .best_setting_["scales"][0]
        for n in (10, 40, None)
    ]
    assert smallest[0] > 1.3 * smallest[1]
    assert smallest[1] >= smallest[2]


def test_attributes_are_computed_once_and_are_the_users_own():
    X, y = bent()
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
    found = model.transduction_
    found[:] = 0.0
    np.testing.assert_array_equal(model.transduction_, model.predict(X))
    classes = GPUMClassifier(geometry="flat", random_state=0).fit(X, np.where(np.isnan(y), -1, y > 0))
    assert classes.model_.of_cloud is classes.model_.of_cloud
    np.testing.assert_array_equal(classes.label_distributions_, classes.predict_proba(X))


@pytest.mark.parametrize("copies", [False, True])
def test_labelled_rows_with_gaps_go_through_files(tmp_path, copies):
    """A labelled row is in the file as it was in the fit: filled in, not projected anew."""
    X, y = bent()
    X[::3, 1], X[1::4, 3] = np.nan, np.nan
    X, y = (np.concatenate([X, X[:9]]), np.concatenate([y, y[:9]])) if copies else (X, y)
    model = GPUMRegressor(geometry=["graph", "flat"], random_state=0).fit(X, y)
    model.save(tmp_path / "gaps.gpum")
    found = GPUMRegressor.load(tmp_path / "gaps.gpum").predict(X, return_std=True)
    np.testing.assert_allclose(found, model.predict(X, return_std=True), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cls", [GPUMRegressor, GPUMClassifier])
def test_a_fit_that_fails_leaves_the_last_one(cls):
    X, y = bent()
    y = y if cls is GPUMRegressor else np.where(np.isnan(y), -1, y > 0)
    model = cls(geometry="flat", random_state=0).fit(X, y)
    before = model.predict(NEW)
    nothing = np.full(len(X), np.nan)
    with pytest.raises(GpumError, match="no labelled row"):
        model.fit(X[:, :2], nothing)
    np.testing.assert_array_equal(model.predict(NEW), before)
    assert model.n_features_in_ == 4
    fresh = cls(geometry="flat")
    with pytest.raises(GpumError, match="no labelled row"):
        fresh.fit(X[:, :2], nothing)
    with pytest.raises(NotFittedError):
        fresh.predict(NEW)


@pytest.mark.parametrize("geometry", ["chart", "graph", "atlas", "flat"])
@pytest.mark.filterwarnings("ignore:.*far from the fitted surface")
def test_a_mean_alone_is_that_of_the_mixture(geometry):
    """The mean is computed without variances; uncertain and far rows are among the new ones."""
    X, y = bent()
    model = (curve() if geometry == "chart" else GPUMRegressor(1, geometry=geometry)).fit(X, y).model_
    rows = model._project(np.concatenate([X[:3], X[::7] + 0.02, X[:1] + 30]))
    mean, variance = model.outputs[0].posterior.moments(rows.whole)
    np.testing.assert_allclose(model.outputs[0].posterior.mean(rows.whole), mean, rtol=1e-10, atol=1e-12)
    assert np.ptp(mean) > 0.1
    assert np.all(variance > 0)
