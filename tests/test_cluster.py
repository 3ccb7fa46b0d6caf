"""Clusters: tasks of a fit in joblib's dask backend, and rows in Dask collections, with a worker lost half-way."""

import pickle
import threading
import time
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib.parallel import SequentialBackend
from threadpoolctl import threadpool_limits

import inside
from gpum import BayesianGPLVM, GPUMClassifier, GpumError, GPUMRegressor, KernelOptions, diagnostics, heat_kernel
from gpum.app.tables import tables
from gpum.basics import large_neighbours, workers
from gpum.basics.workers import as_worker, at_once, with_jobs
from gpum.fitted import rows as fitted_rows
from gpum.geometry import chart as chart_module
from gpum.geometry import chart as charts
from gpum.geometry import graphs
from gpum.geometry.base import SurfaceGeometry
from gpum.geometry.options import KernelTask, smoothness_names
from gpum.inference import gp
from oracles import ROLL
from test_cli import gpum

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
            yield client
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
def test_neighbours_on_a_cluster_that_loses_a_worker():
    X = np.random.default_rng(0).standard_normal((30_000, 20))
    alone = large_neighbours.nearest(X, 10)
    with cluster_that_loses_a_worker(after=0.5):
        found = large_neighbours.nearest(X, 10, n_jobs=-1)
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


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


def test_levels_fan_out_and_finished_ones_are_kept(roll_model, handed_out, one_thread, monkeypatch):
    chart = roll_model.chart_
    wanted = KernelTask(smoothness_names("average"), KernelOptions(n_modes=20))
    fresh = lambda: inside.geometry_of(roll_model)
    alone = fresh().built(wanted)[1]
    assert not handed_out
    again, true_space, seen = fresh(), chart_module.domain_of, []

    def interrupted(charts, n_modes):
        seen.append(charts)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return true_space(charts, n_modes)

    monkeypatch.setattr(chart_module, "domain_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again.built(wanted)
    assert inside.computed(again.store) == 1
    monkeypatch.setattr(chart_module, "domain_of", true_space)
    with joblib.parallel_config(backend="workers", n_jobs=2):
        beside = fresh().built(wanted)[1]
        assert len(handed_out) == len(charts.levels_of(chart, "average")) > 1
        finished = again.built(wanted)[1]
    assert len(handed_out) == len(charts.levels_of(chart, "average"))  # one level was missing, and was made here
    for found in (beside, finished):
        for a, b in zip(found.rows, alone.rows, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def array():
    """`dask.array`, with the scheduler that computes in this thread."""
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield pytest.importorskip("dask.array")


def near(fit, n=23):
    """New rows near those of a fit."""
    return fit.X[np.arange(n)] + 0.001 * np.random.default_rng(1).standard_normal((n, fit.X.shape[1]))


@pytest.mark.parametrize("chunks", [(23, 4), ((5, 0, 11, 7), 4), (6, (1, 3))])
def test_a_dask_array_is_answered_block_by_block(array, curve_fit, chunks):
    """Nothing is computed before it is requested; the numbers are those of a numpy array, whatever the chunks."""
    model, rows, seen = curve_fit.model, near(curve_fit), []
    X = array.from_array(rows, (23, 4)).rechunk(chunks)
    counted = X.map_blocks(lambda block: seen.append(len(block)) or block, dtype=float, meta=np.empty((0, 0)))
    calls = {
        "predict": {"return_std": True, "include_noise": False},
        "predict_quantiles": {"quantiles": [0.1, 0.5, 0.8]},
        "transform": {"return_std": True},
        "far_from_surface": {},
    }
    for name, options in calls.items():
        found, expected = (getattr(model, name)(some, **options) for some in (counted, rows))
        if not isinstance(found, tuple):
            found, expected = (found,), (expected,)
        for one, other in zip(found, expected, strict=True):
            assert isinstance(one, array.Array)
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert one.chunks[0] == X.chunks[0]
            assert not seen
            np.testing.assert_allclose(one.compute(), other, rtol=1e-9, atol=1e-12)
            assert seen
            seen.clear()


def test_mean_and_std_of_a_block_are_computed_together(array, curve_fit, monkeypatch):
    import dask

    rows, seen = near(curve_fit), []
    project = SurfaceGeometry.project
    monkeypatch.setattr(SurfaceGeometry, "project", lambda self, S: seen.append(len(S)) or project(self, S))
    dask.compute(*curve_fit.model.predict(array.from_array(rows, (12, 4)), return_std=True))
    assert sorted(seen) == [11, 12]


def test_a_latent_model_and_a_classifier_answer_blocks(array, curve_fit):
    rows = near(curve_fit)
    X, learned = array.from_array(rows, (9, 2)), curve_fit.model.latent_model_
    np.testing.assert_allclose(learned.transform(X).compute(), learned.transform(rows), rtol=1e-9, atol=1e-12)
    classes = GPUMClassifier(geometry="flat").fit(CURVE, np.where(T < 0, "left", "right"))
    X, rows = array.from_array(CURVE[:13] + 0.01, (5, 3)), CURVE[:13] + 0.01
    for name in ("predict", "predict_proba", "decision_function"):
        found, expected = getattr(classes, name)(X), getattr(classes, name)(rows)
        assert isinstance(found, array.Array)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if name == "predict":
            assert found.compute().tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)


def test_a_dask_data_frame_with_words_and_empty_partitions(array):
    """Its partitions have unknown lengths; columns are found by name, and encoded as in the fit."""
    frames = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(CURVE[:, :2], columns=["a", "b"]).assign(side=np.where(T < 0, "left", "right"))
    model = GPUMRegressor(geometry="flat", random_state=0).fit(table, HEIGHT)
    frame = frames.from_pandas(table, npartitions=4)
    some = frame[frame.a > 0.2]  # the first partitions have no such row
    mean, std = model.predict(some, return_std=True)
    assert isinstance(mean, array.Array)
    assert np.isnan(mean.shape[0])
    expected = model.predict(table[table.a > 0.2], return_std=True)
    for found, other in zip((mean, std), expected, strict=True):
        np.testing.assert_allclose(found.compute(), other, rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "side"]])


def test_what_blocks_cannot_answer_is_refused_before_anything_is_computed(array, curve_fit):
    model = curve_fit.model
    for X, options, words in [
        (array.zeros((9, 3)), {}, "3 features"),
        (array.zeros(9), {}, "two dimensions"),
        (array.zeros((9, 4)), {"return_cov": True}, "covariances"),
        (array.zeros((9, 4)), {"trials": np.ones(9)}, "one number"),
    ]:
        with pytest.raises(GpumError, match=words):
            model.predict(X, **options)
    with pytest.raises(TypeError, match="dask array or data frame"):
        model.predict(pytest.importorskip("dask").delayed(np.zeros)((9, 4)))
    rows = near(curve_fit)
    rows[5] = np.inf
    with pytest.raises(GpumError, match="infinite") as error:
        model.predict(array.from_array(rows, (3, 4))[3:]).compute()
    assert "block 0" in error.value.__notes__[0]


def test_a_later_fit_does_not_change_an_earlier_answer(array):
    model = GPUMRegressor(geometry="flat", random_state=0).fit(CURVE, HEIGHT)
    expected, lazy = model.predict(CURVE[:3]), model.predict(array.from_array(CURVE[:3]))
    model.fit(CURVE, 100 + HEIGHT)
    np.testing.assert_array_equal(lazy.compute(), expected)


def test_the_model_is_one_node_of_the_graph_and_travels_as_its_file(array, curve_fit, tmp_path):
    """So that a worker receives it once, whatever the number of blocks."""
    rows = near(curve_fit)
    found = curve_fit.model.predict(array.from_array(rows, (1, 4)))
    tasks = [pickle.dumps(task) for task in dict(found.__dask_graph__()).values()]
    curve_fit.model.save(tmp_path / "m.gpum")
    size = (tmp_path / "m.gpum").stat().st_size
    assert sum(len(task) > size for task in tasks) == 1
    assert max(map(len, tasks)) < size + 10_000
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(again.compute(), curve_fit.model.predict(rows), rtol=1e-9, atol=1e-12)


@pytest.fixture
def table(curve_fit, tmp_path):
    """A model file and a table of 300 new rows; predictions of these in one process."""
    curve_fit.model.save(tmp_path / "m.gpum")
    rng = np.random.default_rng(2)
    rows = curve_fit.X[rng.integers(0, 40, 300)] + 0.001 * rng.standard_normal((300, 4))
    tables.write(tmp_path / "new.csv", {f"X_{k + 1}": column for k, column in enumerate(rows.T)})
    result = gpum("predict", tmp_path / "m.gpum", tmp_path / "new.csv", "--out", tmp_path / "alone.csv", "-q")
    assert result.exit_code == 0, result.output
    return tmp_path, rows


def predicted_by(client, folder):
    """The table, predicted by a cluster."""
    address = client.scheduler.address
    args = ["predict", folder / "m.gpum", folder / "new.csv", "--out", folder / "p.csv", "--cluster", address, "-q"]
    result = gpum(*args)
    assert result.exit_code == 0, result.output
    return tables.read(folder / "p.csv")


def same_table(found, other):
    assert list(found.columns) == list(other.columns)
    for name in found.columns:
        np.testing.assert_allclose(found.numbers(name, ""), other.numbers(name, ""), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_table_is_predicted_by_a_cluster(table, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(tables, "ROWS", 70)
    folder, _ = table
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        same_table(predicted_by(client, folder), tables.read(folder / "alone.csv"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_predictions_of_a_cluster_that_loses_a_worker(array, curve_fit, table, monkeypatch):
    """Of a Dask array and of a file, with many small blocks; the model that the worker held is sent once more."""
    monkeypatch.setattr(tables, "ROWS", 3)
    folder, rows = table
    expected = curve_fit.model.predict(rows, return_std=True)
    with cluster_that_loses_a_worker(after=0.5) as client:
        found = curve_fit.model.predict(array.from_array(rows, (2, 4)), return_std=True)
        found = [future.result() for future in client.compute(list(found))]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    with cluster_that_loses_a_worker(after=0.5) as client:
        same_table(predicted_by(client, folder), tables.read(folder / "alone.csv"))


@pytest.mark.parametrize(("n_jobs", "threads"), [(1, {1}), (3, {3})])
def test_labels_and_rows_use_as_many_threads_as_asked(monkeypatch, tmp_path, n_jobs, threads):
    """Also where a model was read from a file."""
    counts = []

    class Pool(workers.ThreadPoolExecutor):
        def __init__(self, n):
            counts.append(n)
            super().__init__(n)

    monkeypatch.setattr(workers, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(gp, "ALONE", 5)
    monkeypatch.setattr(gp, "SCREEN", 8)
    monkeypatch.setattr(fitted_rows, "BLOCK", 4)
    fitted = GPUMRegressor(geometry="flat", random_state=0, n_jobs=n_jobs).fit(CURVE, np.sin(T))
    inference, counts[:] = set(counts), []
    fitted.predict(CURVE + 0.01, return_std=True)
    rows, counts[:] = set(counts), []
    fitted.save(tmp_path / "m.gpum")
    GPUMRegressor.load(tmp_path / "m.gpum").predict(CURVE + 0.01, return_std=True)
    assert (inference, rows, set(counts)) == (threads - {1},) * 3


def test_a_worker_runs_one_task_at_once():
    """Workers share the cores of their machine: n_jobs=-1 of a model must not mean all of them in each worker."""
    before = at_once(-1)
    with as_worker():
        assert at_once(-1) == 1
        with with_jobs(-1):
            assert at_once(None) == 1
    with with_jobs(3):
        assert at_once(None) == 3
    assert at_once(-1) == before


def test_one_job_is_one_on_a_cluster():
    """A Dask backend has all of its workers, whatever the number of jobs."""

    class Cluster(SequentialBackend):
        def effective_n_jobs(self, n_jobs):
            return 4

    with joblib.parallel_config(backend=Cluster()):
        assert workers.joblib_runs(None)
        assert not workers.joblib_runs(1)
