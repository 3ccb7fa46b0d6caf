"""Ctrl-C while geometries are learned: the fit has those that are ready, and the next one ends it."""

from threading import Event

import numpy as np
import pytest

from gpum import GPUMClassifier, GPUMRegressor
from gpum.basics import workers
from gpum.basics.checks import NoSurface
from gpum.estimators import learned, learning
from gpum.fitted import Geometries
from gpum.geometry.atlas import AtlasGeometry

t = np.linspace(-1, 1, 40)
X = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t], 1) + 0.01 * np.random.default_rng(0).standard_normal((40, 3))
y = np.where(np.arange(40) % 3 == 0, np.sin(3 * t), np.nan)


def interrupted(*args, **options):
    raise KeyboardInterrupt


def no_chart(*args, **options):
    raise NoSurface("none is learned in a test")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_geometries_that_are_ready_are_a_fit(monkeypatch, n_jobs, capsys):
    monkeypatch.setattr(learning, "charts", interrupted)
    model = GPUMRegressor(scale="none", random_state=0, n_jobs=n_jobs, warm_start=True, verbose=1)
    with pytest.warns(UserWarning, match="interrupted: the fit has the geometries that were ready"):
        model.fit(X, y)
    assert {"graph", "flat"} <= set(model.geometry_weights_)
    assert any(note.startswith("interrupted") for note in model.notes_)
    assert np.all(np.isfinite(model.predict(X + 0.01)))
    said = " ".join(capsys.readouterr().out.split())
    assert "With graph and flat alone a label that is left out is typically missed by 0." in said
    monkeypatch.setattr(learning, "charts", no_chart)
    model.fit(X, y)  # what was not ready is tried again
    assert not any(note.startswith("interrupted") for note in model.notes_)
    assert any("one chart is left out" in note for note in model.notes_)
    assert "atlas" in model.geometry_weights_


def test_spaces_that_are_ready_are_a_fit(monkeypatch):
    whole = AtlasGeometry.built
    monkeypatch.setattr(AtlasGeometry, "built", interrupted)
    model = GPUMRegressor(1, geometry=["graph", "atlas"], random_state=0, n_jobs=1, scale="none", warm_start=True)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, y)
    assert set(model.geometry_weights_) == {"graph"}
    monkeypatch.setattr(AtlasGeometry, "built", whole)
    assert set(model.fit(X, y).geometry_weights_) == {"graph", "atlas"}


def test_the_next_interrupt_ends_the_fit(monkeypatch):
    monkeypatch.setattr(learning, "charts", interrupted)
    monkeypatch.setattr(Geometries, "_of", interrupted)
    model = GPUMRegressor(1, geometry=["graph", "chart"], random_state=0, n_jobs=1, scale="none")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "model_")
    with pytest.raises(KeyboardInterrupt):  # where nothing is ready the first one does
        model.set_params(geometry="chart").fit(X, y)


def test_classes_of_what_is_ready(monkeypatch, capsys):
    monkeypatch.setattr(learning, "charts", interrupted)
    model = GPUMClassifier(1, geometry=["graph", "chart"], random_state=0, n_jobs=1, scale="none")
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, np.where(np.isnan(y), -1, t > 0))
    assert set(model.geometry_weights_) == {"graph"}
    model.set_params(geometry="average", latent_dim="average", verbose=1)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, np.where(np.isnan(y), -1, t > 0))
    assert "alone 14 of 14 left-out labels are predicted rightly" in " ".join(capsys.readouterr().out.split())


def test_no_file_of_some_of_the_geometries(monkeypatch, tmp_path):
    monkeypatch.setattr(learning, "charts", interrupted)
    model = GPUMRegressor(1, geometry=["graph", "chart"], random_state=0, n_jobs=1, scale="none", warm_start=True)
    path = tmp_path / "table.csv.geometry"
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        learned.learn(model, X, path)
    assert not path.exists()


def test_a_thread_ends_when_nobody_waits_for_it():
    begun, ended = Event(), Event()

    def inner():
        begun.set()
        try:
            while not ended.wait(0.001):
                workers.still_wanted()
        except workers.Unwanted:
            ended.set()
            raise

    def stops():
        begun.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(workers.results([stops, lambda: list(workers.results([inner, inner], 2))], 2))
    assert ended.wait(10)
    workers.still_wanted()  # this thread's results are
