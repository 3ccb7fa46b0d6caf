"""What docs/services.md says of serving a model: its code runs."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import numpy as np
import pytest

from gpum import GPUMRegressor

PAGE = Path(__file__).parents[1] / "docs" / "services.md"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X = np.random.default_rng(0).uniform(size=(30, 2))
    model = GPUMRegressor(geometry="flat", smoothness="heat").fit(X, X[:, 0])
    path = tmp_path_factory.mktemp("service") / "model.gpum"
    model.save(path)
    return path, model, X


def code(number):
    """A block of Python on the page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[number]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        """Say nothing."""


def ask(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with DIRECT.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@contextmanager
def application(path, monkeypatch):
    """The application of the page, served; its names and its address."""
    monkeypatch.setenv("MODEL", str(path))
    names = {}
    exec(compile(code(0), str(PAGE), "exec"), names)
    server = make_server("127.0.0.1", 0, names["application"], handler_class=Quiet)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield names, f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_the_application_answers(saved, monkeypatch):
    path, model, X = saved
    with application(path, monkeypatch) as (_, url):
        status, answer = ask(url, {"rows": X[:3].tolist()})
        mean, std = model.predict(X[:3], return_std=True)
        assert status == 200
        np.testing.assert_allclose(answer["mean"], mean)
        np.testing.assert_allclose(answer["std"], std)
        for body in ({}, [], {"rows": [["a"]]}, {"rows": [[10**400, 1]]}):
            status, answer = ask(url, body)
            assert status == 400
            assert "rows" in answer["error"]
        status, answer = ask(url, {"rows": [[1.0]]})
        assert status == 400
        assert "features" in answer["error"]


def test_whether_a_worker_is_ready(saved, monkeypatch):
    path, *_ = saved
    with application(path, monkeypatch) as (_, url), DIRECT.open(url, timeout=60) as answer:
        assert (answer.status, json.load(answer)) == (200, {"ready": True})
    with application(path.with_name("missing"), monkeypatch) as (_, url):
        with pytest.raises(urllib.error.HTTPError) as refused:
            DIRECT.open(url, timeout=60)
        assert refused.value.code == 500


def test_warnings_reach_the_log_that_the_page_names(caplog):
    X = np.random.default_rng(0).uniform(size=(30, 2))
    model = GPUMRegressor(geometry="graph", smoothness="heat").fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        try:
            model.predict(X + 1e6)
        finally:
            logging.captureWarnings(False)
    assert any(record.name == "py.warnings" and "far from" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("failure", ["unexpected", "no file"])
def test_a_failure_of_the_server_is_no_fault_of_the_rows(saved, monkeypatch, failure):
    path, _, X = saved

    def predict(rows, return_std):
        raise ValueError("an internal matter")

    with application(path.with_name("missing") if failure == "no file" else path, monkeypatch) as (names, url):
        if failure != "no file":
            monkeypatch.setattr(names["model"](), "predict", predict)
        assert ask(url, {"rows": X[:3].tolist()}) == (500, {"error": "the server cannot answer"})


FORKS = """
import multiprocessing, sys
import numpy as np
from gpum import GPUMRegressor

model, X = GPUMRegressor.load(sys.argv[1]), np.load(sys.argv[2])
here = model.predict(X, return_std=True)

def ask(_):
    return model.predict(X, return_std=True)

with multiprocessing.get_context("fork").Pool(2) as pool:
    for there in pool.map_async(ask, range(4)).get(60):
        np.testing.assert_array_equal(there, here)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_may_be_forked_after_a_prediction(curve_fit, tmp_path):
    """As `gunicorn --preload` does, also with a chart."""
    curve_fit.model.save(tmp_path / "m.gpum")
    np.save(tmp_path / "X.npy", curve_fit.X[::3] + 0.01)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, tmp_path / "m.gpum", tmp_path / "X.npy"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_table_in_processes(saved, tmp_path, monkeypatch):
    path, model, X = saved
    (tmp_path / "blocks_of_a_table.py").write_text(code(1))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "blocks_of_a_table", raising=False)
    from blocks_of_a_table import predict_table

    np.testing.assert_allclose(predict_table(path, X + 0.01, processes=2), model.predict(X + 0.01))
