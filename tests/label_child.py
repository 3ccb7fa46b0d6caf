"""A server of labels in a process of its own, so that tests can kill it. No model is fitted but on a graph."""

import csv
import multiprocessing.forkserver
import os
import socket
import threading
import uuid
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import gpum
from gpum import GPUMClassifier, GPUMRegressor
from gpum.app.labelling.server import LabelServer
from gpum.app.labelling.session import Session, Work
from gpum.app.labelling.views import setup
from gpum.app.tables import labels, tables
from gpum.app.tables.labels import beside
from gpum.estimators import learned
from gpum.estimators.beliefs import Classes, Numbers

TOKEN = "t" * 43
N = 40
FAST = {"geometry": "graph", "smoothness": "heat", "warm_start": True, "random_state": 0}


def truth(row):
    """The label of a row, as text."""
    return f"{np.sin(row / 5):.3f}"


def write_table(path, **more):
    """A table of rows on a curve, without a label; its features."""
    u = np.linspace(0, 3, N)
    X = np.round(np.stack([np.cos(2 * u), np.sin(2 * u), 0.3 * u], 1), 4)
    names = [f"r{k}" for k in range(N)]
    tables.write(path, {"id": names, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": [""] * N, **more})
    return X


def make_session(path, classes=None, start=None, pictures=None):
    """A session on a table that `write_table` wrote."""
    table = tables.read(path)
    X = table.matrix(["a", "b", "c"], "")
    model = (GPUMClassifier if classes else GPUMRegressor)(**FAST)
    geometry = learned.beside(Path(path))
    model = learned.learn(model, X, geometry, learned.stored(model, X, geometry), like=path)
    target = Classes(model, X, classes) if classes else Numbers(model, X)
    file = labels.LabelFile(labels.beside(path))
    file.hold()
    work = Work(Path(path), table, "y", X, ["a", "b", "c"], table.text("id"), dict(start or {}), pictures)
    return Session(work, target, file)


def make_server(session, port=0):
    return LabelServer(session, setup(session), TOKEN, port)


def learn_table(path):
    """Write the table and learn its geometry."""
    learned.learn(GPUMRegressor(**FAST), write_table(path), learned.beside(path))


@contextmanager
def closing(session):
    """A session that ends with the block."""
    try:
        yield session
    finally:
        session.close()
        session.file.release()


@contextmanager
def serving(session):
    """A server in a thread, that ends with the block."""
    server = make_server(session)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve(path, port, classes):
    """Run until killed."""
    make_server(make_session(path, classes), port).serve_forever(poll_interval=0.05)


class Child:
    """A server that can be killed and started again at the same address."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["label_child"])  # imports happen once, not at every start

    def __init__(self, path, classes=None):
        with pytest.MonkeyPatch.context() as patch:
            folders = [str(Path(file).parent.resolve()) for file in (__file__, Path(gpum.__file__).parent)]
            patch.setenv("PYTHONPATH", os.pathsep.join(folders))
            multiprocessing.forkserver.ensure_running()  # which finds what it imports by this path
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.arguments = (path, self.port, classes)
        self.address = f"http://127.0.0.1:{self.port}/{TOKEN}/"
        self.start()

    def start(self):
        self.process = self.context.Process(target=serve, args=self.arguments, daemon=True)
        self.process.start()

    def kill(self):
        self.process.kill()
        self.process.join()


def new_id():
    return str(uuid.uuid4())


def give(session, row, text=None):
    id = new_id()
    session.label(id, row, truth(row) if text is None else text, session.labels.get(row, ""))
    return id


def settled(session, seconds=60):
    """The state once everything has followed the labels."""
    with session.changed:
        done = lambda: not session._state("")["fitting"] and (session.belief is None or session.advice)
        assert session.changed.wait_for(done, seconds), session._state("")
    return session.state("")


def lines_of(path):
    with open(beside(path), newline="") as file:
        return list(csv.DictReader(file))
