"""What docs/services.md says of serving a model: its code runs."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
import types
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import numpy as np
import pandas
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


CLUSTERS = PAGE.with_name("clusters.md")
WSGI, FASTAPI = range(2)  # blocks of Python on the page, in their order


def code(number, page=PAGE):
    """A block of Python on a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)[number]


def asked(app, requests):
    """Status and content of the answers of an ASGI application to (method, path, body), between start and end."""

    async def ask_one(method, path, body):
        sent = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        answer = []

        async def receive():
            return sent.pop() if sent else await asyncio.Future()

        async def send(message):
            answer.append(message)

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path}
        await app({**scope, "raw_path": path.encode(), "query_string": b"", "headers": headers}, receive, send)
        body = b"".join(message.get("body", b"") for message in answer[1:])
        return answer[0]["status"], json.loads(body)

    async def ask_all():
        async with app.router.lifespan_context(app):
            return [await ask_one(*request) for request in requests]

    return asyncio.run(ask_all())


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
    exec(compile(code(WSGI), str(PAGE), "exec"), names)
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
        refused.value.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the other libraries
def test_the_application_of_fastapi(saved, monkeypatch):
    pytest.importorskip("fastapi", reason="FastAPI is not installed: its block of the page was not run")
    path, model, X = saved
    monkeypatch.setenv("MODEL", str(path))
    monkeypatch.setitem(sys.modules, "api", module := types.ModuleType("api"))  # as pydantic looks its names up
    try:
        exec(compile(code(FASTAPI), str(PAGE), "exec"), vars(module))
    finally:
        logging.captureWarnings(False)
    rows = X[:3].tolist()
    bad = [{"rows": [[1.0]]}, {"rows": []}, {"rows": [[1.0], [1.0, 2.0]]}, {"rows": [["a", 1]]}, {}]
    answers = asked(
        module.app,
        [
            ("GET", "/ready", {}),
            ("POST", "/predict", {"rows": rows}),
            ("POST", "/predict", {"rows": [[None, 0.5]]}),
            *(("POST", "/predict", body) for body in bad),
        ],
    )
    assert answers[0] == (200, {"ready": True, "columns": 2})
    mean, std = model.predict(X[:3], return_std=True)
    assert answers[1][0] == 200
    np.testing.assert_allclose(answers[1][1]["mean"], mean)
    np.testing.assert_allclose(answers[1][1]["std"], std)
    assert answers[2][0] == 200
    assert [status for status, _ in answers[3:]] == [422] * len(bad)
    assert "features" in answers[3][1]["detail"]
    monkeypatch.setenv("MODEL", str(path.with_name("missing")))
    with pytest.raises(FileNotFoundError, match="missing"):
        asked(module.app, [])


def test_warnings_reach_the_log_that_the_page_names(caplog):
    rows = pandas.DataFrame({"a": np.arange(30.0), "kind": ["x", "y"] * 15})
    model = GPUMRegressor(geometry="flat", smoothness="heat").fit(rows, rows["a"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        try:
            model.predict(rows[:2].assign(kind="z"))
        finally:
            logging.captureWarnings(False)
    assert any(record.name == "py.warnings" and "has not seen" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("failure", ["unexpected", "no file"])
def test_a_failure_of_the_server_is_no_fault_of_the_rows(saved, monkeypatch, failure):
    path, _, X = saved

    def predict(rows, return_std):
        raise ValueError("an internal matter")

    with application(path.with_name("missing") if failure == "no file" else path, monkeypatch) as (names, url):
        if failure != "no file":
            monkeypatch.setattr(names["model"](), "predict", predict)
        assert ask(url, {"rows": X[:3].tolist()}) == (500, {"error": "the server cannot answer"})


WORKER = """
import sys
import numpy as np
from gpum import GPUMRegressor

X = np.load(sys.argv[2])
GPUMRegressor.load(sys.argv[1]).predict(np.tile(X, (5, 1)) + 0.01, return_std=True)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is there on Linux")
def test_the_memory_of_a_worker(curve_fit, tmp_path):
    """Of a chart: predictions need no JAX, which would double it."""
    model = GPUMRegressor(1, geometry="chart", smoothness="heat", random_state=0)
    model.fit(curve_fit.X, curve_fit.y[:, 0]).save(tmp_path / "m.gpum")
    np.save(tmp_path / "X.npy", curve_fit.X)
    command = [sys.executable, "-c", WORKER, tmp_path / "m.gpum", tmp_path / "X.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 300_000


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
    (tmp_path / "blocks_of_a_table.py").write_text(code(0, CLUSTERS))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "blocks_of_a_table", raising=False)
    from blocks_of_a_table import predict_table

    np.testing.assert_allclose(predict_table(path, X + 0.01, processes=2), model.predict(X + 0.01))
