"""One seam to clusters: joblib's dask backend, with a worker lost half-way."""

import threading
import time
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import inside
from gpum import BayesianGPLVM, GPUMClassifier, GPUMRegressor, diagnostics, heat_kernel
from gpum.geometry import graphs, spaces
from gpum.geometry.base import KernelTask
from gpum.geometry.chart import ChartGeometry
from gpum.geometry.family import smoothness_names
from oracles import ROLL

T = np.linspace(-1, 1, 30)
CURVE = np.stack([np.sin(2 * T), np.cos(2 * T), 0.3 * T], 1) + 0.01 * np.random.default_rng(0).standard_normal((30, 3))
HEIGHT = np.where(np.arange(30) % 3 == 0, np.sin(3 * T), np.nan)


@contextmanager
def cluster_that_loses_a_worker(after):
    """A cluster of two workers as joblib's backend; one is killed once it has worked for `after` seconds."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(__import__, "gpum")  # the import itself is not what is tested
        victim = next(iter(cluster.workers.values()))
        killed = []

        def kill_when_busy():
            for _ in range(600):
                if any(client.processing().values()):
                    time.sleep(after)
                    victim.process.process._process.kill()
                    killed.append(True)
                    return
                time.sleep(0.05)

        killer = threading.Thread(target=kill_when_busy)
        killer.start()
        with joblib.parallel_config(backend="dask"):
            yield
        killer.join()
    assert killed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_lost_worker_changes_nothing(monkeypatch):
    inside.lower(monkeypatch, paths_of_a_task=10)  # many small tasks
    points = np.array([[6.0, 3.0], [7.0, 4.0], [9.0, 9.0], [4.0, 2.0]])
    options = {"method": "brownian", "n_paths": 2000, "random_state": 3, "step_size": 0.2}
    alone = heat_kernel(ROLL, points, None, [3.0, 8.0], **options)
    with cluster_that_loses_a_worker(after=0.5):
        found = heat_kernel(ROLL, points, None, [3.0, 8.0], n_jobs=-1, **options)
    np.testing.assert_array_equal(found, alone)


def same(found, alone, X):
    for a, b in zip(found.predict(X, return_std=True), alone.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.notes_ == alone.notes_
    assert diagnostics.geometry_weights(found) == diagnostics.geometry_weights(alone)
    for a, b in zip(*(vars(diagnostics.evidence_over_scale(m)).values() for m in (found, alone)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("after", [0.2, 3.0])
def test_a_fit_on_a_cluster_that_loses_a_worker(after):
    """All geometries and dimensions: starts, levels, atlases and graphs."""
    alone = GPUMRegressor(latent_model=BayesianGPLVM(n_inducing=10), random_state=0).fit(CURVE, HEIGHT)
    with cluster_that_loses_a_worker(after):
        found = GPUMRegressor(latent_model=BayesianGPLVM(n_inducing=10), random_state=0, n_jobs=-1).fit(CURVE, HEIGHT)
    same(found, alone, CURVE + 0.01)
    assert found.log_evidence_ == pytest.approx(alone.log_evidence_, rel=1e-12)  # one rounding apart


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_fit_in_processes():
    make = lambda: GPUMRegressor(latent_model=BayesianGPLVM(n_inducing=10), random_state=0)
    alone = make().fit(CURVE, HEIGHT)
    with joblib.parallel_config(backend="loky"):
        same(make().set_params(n_jobs=2).fit(CURVE, HEIGHT), alone, CURVE + 0.01)


@pytest.fixture
def one_thread():
    """BLAS as it is while an estimator learns its surfaces: rounding depends on its threads."""
    with threadpool_limits(1, "blas"):
        yield


class Workers(joblib.parallel.ThreadingBackend):
    """A backend of joblib that is not its threads, as that of a cluster."""


joblib.register_parallel_backend("workers", Workers)


@pytest.fixture
def handed_out(monkeypatch):
    """Tasks that joblib's workers get."""
    return inside.handed_out(monkeypatch)


def test_geometries_and_graphs_fan_out(handed_out):
    """An atlas that cannot be built on a worker is left out, with the note that it has without workers."""
    alone, beside, found = (GPUMRegressor([1, 2, 4], geometry=["atlas", "graph"], random_state=0) for _ in range(3))
    alone.set_params(n_jobs=1).fit(CURVE, HEIGHT)
    same(beside.set_params(n_jobs=3).fit(CURVE, HEIGHT), alone, CURVE + 0.01)
    assert not handed_out
    with joblib.parallel_config(backend="workers", n_jobs=2):
        found.set_params(n_jobs=None).fit(CURVE, HEIGHT)
    assert len(handed_out) == 3 + len(graphs.NEIGHBOURS) * len(graphs.WIDTHS)
    assert any("one atlas is left out" in note for note in found.notes_)
    same(found, alone, CURVE + 0.01)


def test_graphs_of_classes_fan_out(handed_out):
    alone, found = GPUMClassifier(geometry="graph"), GPUMClassifier(geometry="graph")
    labels = np.where(T < 0, "a", "b")
    alone.fit(CURVE, labels)
    with joblib.parallel_config(backend="workers", n_jobs=2):
        found.set_params(n_jobs=None).fit(CURVE, labels)
    assert len(handed_out) == len(graphs.NEIGHBOURS)
    np.testing.assert_array_equal(found.predict_proba(CURVE + 0.01), alone.predict_proba(CURVE + 0.01))


def test_levels_fan_out_and_finished_ones_are_kept(curve_fit, handed_out, one_thread, monkeypatch):
    chart, rows = curve_fit.model.chart_, curve_fit.model.latent_
    wanted, fresh = KernelTask(smoothness_names("average")), lambda: ChartGeometry(chart, rows)
    alone = fresh().family(wanted)
    assert not handed_out
    again, true_space, seen = fresh(), spaces.spectral_space, []

    def interrupted(charts, n_modes):
        seen.append(charts)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return true_space(charts, n_modes)

    monkeypatch.setattr(spaces, "spectral_space", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again.family(wanted)
    assert len(again.cache) == 2
    with joblib.parallel_config(backend="workers", n_jobs=2):
        found = again.family(wanted)
    levels = len(spaces.levels_of(chart, "average"))
    assert len(handed_out) == levels - 2
    for a, b in zip(found.rows, alone.rows, strict=True):
        np.testing.assert_array_equal(a, b)
