"""Clouds with more rows than geometries are learned from: a subset covers them, the others are projected."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import inside
from browser import contents
from gpum import (
    BayesianGPLVM,
    GPUMClassifier,
    GPUMRegressor,
    KernelOptions,
    LatentGPRegressor,
    diagnostics,
    model_io,
    report,
)
from gpum.basics import neighbours
from gpum.datasets.swiss_roll import swiss_roll_points
from gpum.geometry import features
from gpum.geometry.base import SurfaceGeometry


@pytest.fixture
def small_parts(monkeypatch):
    """Geometries are learned from 200 rows, and rows are projected 64 at a time."""
    inside.lower(monkeypatch, rows_learned_from=200, rows_at_once=64, rows_projected_at_once=100)


@pytest.fixture(scope="module")
def ring():
    """A noisy ring in R⁵ of 500 rows, 25 of them labelled."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 500)
    X = np.stack([np.cos(t), np.sin(t), np.zeros(500), np.zeros(500), np.zeros(500)], 1)
    y = np.full(500, np.nan)
    y[::20] = np.sin(2 * t[::20])
    return X + 0.01 * rng.standard_normal(X.shape), y, np.sin(2 * t)


def covering_radius(X, part):
    return neighbours.nearest(X[part], 1, X)[0].max()


def test_a_part_covers_the_cloud():
    """Twice as well as rows at random, and nearly as well as if all rows were looked at for each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2)) ** 3  # very uneven
    X[7] = 50.0  # a row far from all others
    part = neighbours.cover(X, 200, np.random.default_rng(1))
    assert len(np.unique(part)) == 200
    assert np.all(np.diff(part) > 0)
    assert 7 in part
    radius = covering_radius(X, part)
    assert radius < 0.5 * covering_radius(X, np.append(rng.choice(4000, 199, replace=False), 7))
    greedy, away = [7], np.linalg.norm(X - X[7], axis=1)  # within twice the best (Gonzalez 1985)
    while len(greedy) < 200:
        greedy.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(X - X[greedy[-1]], axis=1))
    assert radius < 1.2 * covering_radius(X, greedy)
    np.testing.assert_array_equal(part, neighbours.cover(X, 200, np.random.default_rng(1)))


def test_a_part_of_copies_and_of_many_columns():
    X = np.repeat(np.arange(30.0)[:, None], 20, 0)
    assert len(np.unique(neighbours.cover(X, 50, np.random.default_rng(0)))) == 50
    assert len(np.unique(X[neighbours.cover(X, 50, np.random.default_rng(0))])) == 30
    wide = np.random.default_rng(0).standard_normal((300, 500))
    assert len(np.unique(neighbours.cover(wide, 40, np.random.default_rng(0)))) == 40


@pytest.mark.parametrize("geometry", ["atlas", "graph", "flat", "average"])
def test_a_large_cloud_is_learned_from_a_part(ring, small_parts, geometry):
    X, y, truth = ring
    names = ["atlas", "graph", "flat"] if geometry == "average" else geometry
    model = GPUMRegressor(1, geometry=names, random_state=0).fit(X, y)
    assert any("learned from 200 of 500 rows" in note for note in model.notes_)
    assert len(diagnostics.learned_from(model, X)) == 200
    mean, std = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.1
    np.testing.assert_allclose(model.transduction_, mean, atol=1e-9)
    again = [model.predict(X[rows], return_std=True) for rows in (slice(0, 130), slice(130, 500))]
    np.testing.assert_allclose(np.concatenate([m for m, _ in again]), mean, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([s for _, s in again]), std, atol=1e-12)


def test_blocks_change_nothing(ring, small_parts, monkeypatch):
    X, y, _ = ring
    model = GPUMRegressor(1, geometry=["graph", "flat"], random_state=0).fit(X, y)
    new = X[:300] + 1e-3
    found = [model.predict(new, return_std=True), model.predict_quantiles(new[:150])]
    inside.lower(monkeypatch, rows_at_once=10_000, rows_projected_at_once=10_000)
    whole = [model.predict(new, return_std=True), model.predict_quantiles(new[:150])]
    for a, b in zip(found, whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.slow
def test_a_chart_of_a_part_places_all_rows(ring, small_parts, monkeypatch, tmp_path):
    inside.lower(monkeypatch, rows_learned_from=60)
    X, y, _ = (v[ring[0][:, 1] > -0.2][:150] for v in ring)  # an open curve
    learned = BayesianGPLVM(1, starts="isomap", n_inducing=10, random_state=0)
    chart = GPUMRegressor(
        1, geometry="chart", latent_model=learned, kernel=KernelOptions(boundary="variance"), random_state=0
    ).fit(X, y)
    latent = LatentGPRegressor(1, latent_model=chart.latent_model_, random_state=0).fit(X, y)
    for model in (chart, latent):
        assert model.latent_.shape == (len(X), 1)
        outside = np.setdiff1d(np.arange(len(X)), diagnostics.learned_from(model, X))
        np.testing.assert_allclose(model.transform(X[outside]), model.latent_[outside], atol=1e-9)
        np.testing.assert_array_equal(model.predictive(X).latent, model.latent_)
        assert not model.far_from_surface(X).any()
        new = X[outside[:5]] + 1e-3
        mixed = model.predict(np.concatenate([X[outside], new]), return_std=True)
        alone = [model.predict(rows, return_std=True) for rows in (X[outside], new)]
        model.save(tmp_path / "m.gpum", force=True)  # without coordinates of the other rows: all are projected
        projected = type(model).load(tmp_path / "m.gpum").predict(np.concatenate([X[outside], new]), return_std=True)
        for k in range(2):
            np.testing.assert_allclose(mixed[k], np.concatenate([a[k] for a in alone]), atol=1e-9)
            np.testing.assert_allclose(mixed[k], projected[k], atol=1e-9)


@pytest.fixture(scope="module")
def roll():
    """3 100 rows of a roll, 150 labels with noise of 0.05, and the function without noise."""
    rng = np.random.default_rng(0)
    r, z = rng.uniform(4, 9, 3100), rng.uniform(0, 6, 3100)
    X = swiss_roll_points(np.stack([r, z], 1)) + 0.01 * rng.standard_normal((3100, 3))
    truth = np.sin(r) + z / 6
    return X, np.where(np.arange(3100) < 150, truth + 0.05 * rng.standard_normal(3100), np.nan), truth


@pytest.mark.parametrize(
    "geometry", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("chart", "atlas")), "graph"]
)
def test_more_than_3_000_rows_of_a_roll(geometry, roll, monkeypatch):
    """No size of the library is changed."""
    X, y, truth = roll
    learned = BayesianGPLVM(2, n_inducing=20, starts="isomap", tol=1.0, random_state=0)
    model = GPUMRegressor(
        2, geometry=geometry, latent_model=learned, smoothness="matern52", random_state=0,
        kernel=KernelOptions(boundary=0.5, n_modes=40),
    ).fit(X, y)  # fmt: skip
    assert len(diagnostics.learned_from(model, X)) == 3000
    mean, std = model.predict(X, return_std=True)
    error = mean - truth
    assert np.sqrt(np.mean(error**2)) < 0.06  # 0.046 to 0.049
    assert np.mean(np.abs(error) < 1.96 * std) > 0.9
    if geometry == "chart":
        monkeypatch.setattr(SurfaceGeometry, "project", None)  # rows of the cloud are looked up
    if geometry == "graph":
        monkeypatch.setattr(features.GraphSpace, "at", None)
    for some in (slice(0, 400), slice(2800, 3100)):
        np.testing.assert_allclose(model.predict(X[some]), mean[some], atol=1e-9)


@pytest.mark.parametrize(
    "kind", ["copies", pytest.param("far row", marks=pytest.mark.slow), pytest.param("missing", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore:the scale of largest evidence")
def test_bad_clouds_of_surfaces_are_answered(kind, roll):
    X, y, truth = (one.copy() for one in roll)
    if kind == "copies":
        X, y, truth = np.ones((100_000, 3)), np.where(np.arange(100_000) < 150, 2.0, np.nan), np.full(100_000, 2.0)
    if kind == "far row":
        X[7] = 1e8
        y[7] = np.nan
    if kind == "missing":
        X[np.random.default_rng(1).random(3100) < 0.1, 0] = np.nan
    model = GPUMRegressor(
        2, geometry=["atlas", "flat"], smoothness="matern52", kernel=KernelOptions(n_modes=40), random_state=0
    ).fit(X, y)
    mean, std = model.predict(X[:3100], return_std=True)
    assert np.isfinite(mean).all()
    assert np.all(np.isfinite(std) & (std >= 0))
    assert not any("charts and atlases, which have at most 3" in note for note in model.notes_)
    assert np.sqrt(np.mean((mean - truth[:3100])[8:] ** 2)) < 0.05


def test_rows_are_placed_once(ring, small_parts, monkeypatch):
    inside.lower(monkeypatch, rows_learned_from=60)
    X, y, _ = (v[ring[0][:, 1] > -0.2][:150] for v in ring)
    learned = BayesianGPLVM(1, starts="isomap", n_inducing=10, random_state=0)
    model = GPUMRegressor(
        1, geometry="chart", latent_model=learned, kernel=KernelOptions(boundary="variance"), random_state=0
    ).fit(X, y)
    seen = []
    project = SurfaceGeometry.project
    monkeypatch.setattr(SurfaceGeometry, "project", lambda self, S: seen.append(len(S)) or project(self, S))
    model.predict(X)
    model.predict(np.concatenate([X, X[:3] + 1e-3]))
    assert seen == [3]


@pytest.mark.slow
def test_many_labels_are_screened_and_little_is_lost(ring, monkeypatch):
    """Against all settings on all labels."""
    X, _, truth = ring
    y = truth + 0.1 * np.random.default_rng(1).standard_normal(len(X))
    model = GPUMRegressor(1, geometry=["atlas", "flat"], random_state=0, warm_start=True).fit(X, y)
    whole = model.predict(X, return_std=True)
    inside.lower(monkeypatch, labels_unscreened=400)
    model.fit(X, y)
    assert any("labels 250 compared" in note for note in model.notes_)
    for a, b in zip(model.predict(X, return_std=True), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


@pytest.mark.slow
def test_classes_of_a_large_cloud(small_parts):
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    truth = rng.integers(0, 3, 600)
    X = centres[truth] + 0.5 * rng.standard_normal((600, 2))
    X[0], truth[0] = [30.0, 30.0], 1  # a row far from all others is in the part
    y = np.full(600, -1)
    y[[0, *(np.flatnonzero(truth == c)[1] for c in range(3))]] = truth[
        [0, *(np.flatnonzero(truth == c)[1] for c in range(3))]
    ]
    model = GPUMClassifier(random_state=0).fit(X, y)
    assert 0 in diagnostics.learned_from(model, X)
    assert any("drawn at random" in note for note in model.notes_)
    assert np.mean(model.transduction_ == truth) > 0.95
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    many = GPUMClassifier(random_state=0).fit(X, np.where(np.arange(600) % 3 > 0, truth, -1))
    assert min(many.geometry_weights_.values()) < 1e-6  # some geometries have no weight any more
    assert len(np.unique(many.suggest(3))) == 3


@pytest.mark.slow
def test_same_labels_anew_on_a_warm_large_cloud(ring, small_parts):
    X, y, truth = ring
    model = GPUMRegressor(1, geometry="graph", warm_start=True, random_state=0).fit(X, y)
    geometries = inside.learned(model)
    other = np.where(np.arange(500) % 10 == 3, truth, np.nan)
    model.fit(X, other)
    assert inside.learned(model) is geometries
    np.testing.assert_allclose(
        model.predict(X), GPUMRegressor(1, geometry="graph", random_state=0).fit(X, other).predict(X)
    )


def test_a_large_cloud_in_a_file_and_what_to_label_next(ring, small_parts, tmp_path):
    X, y, _ = ring
    model = GPUMRegressor(1, geometry=["graph", "flat"], random_state=0).fit(X, y)
    model.save(tmp_path / "ring.gpum")
    again = GPUMRegressor.load(tmp_path / "ring.gpum")
    new = X[:50] + 1e-3
    for rows in (X, new):
        for a, b in zip(again.predict(rows, return_std=True), model.predict(rows, return_std=True), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
    chosen = model.suggest(5)
    assert np.isnan(y[chosen]).all()
    np.testing.assert_array_equal(again.suggest(5), chosen)


def test_the_report_shows_some_rows_and_says_so(ring, small_parts, monkeypatch):
    X, y, _ = ring
    model = GPUMRegressor(1, geometry=["graph", "flat"], random_state=0).fit(X, y)
    names = [str(i) for i in range(500)]
    fitted = model_io.Fitted(model, list("abcde"), ["y"], X, y[:, None], names, {})
    whole = contents(report.render(fitted))
    inside.lower(monkeypatch, rows_of_a_report=(100,))
    thin = contents(report.render(fitted))
    assert len(whole["rows"]) == 500
    n = len(thin["rows"])
    assert 100 <= n <= 100 + 25 + len(thin["next"]["rows"])
    assert f"show {n} of 500 rows" in thin["messages"][0]
    columns = [*thin["chart"]["axes"], *thin["cloud"]["axes"], *thin["features"]["axes"]]
    assert all(len(c) == n for c in [*columns, *(thin["targets"][0][name] for name in ("y", "mean", "std"))])
    for some, every in zip(
        (thin["next"], thin["targets"][0]["left_out"]), (whole["next"], whole["targets"][0]["left_out"]), strict=True
    ):
        assert [thin["rows"][i] for i in some["rows"]] == [whole["rows"][i] for i in every["rows"]]
    assert thin["targets"][0]["figures"] == whole["targets"][0]["figures"]


def shapes(n):
    """Clouds of n rows that are thin, branched, wound or in pieces, in the plane or in R³."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 1, n)
    arm, side = rng.integers(0, 5, n), np.arange(n) % 2
    angle = 2 * np.pi * arm / 5
    tooth = np.round(5 * t) / 5
    grid = np.stack(np.meshgrid(np.linspace(2, 12.5, n // 5), np.linspace(0, 12, 5)), -1).reshape(-1, 2)
    return {
        "thin strip": np.stack([20 * t, 0.01 * rng.standard_normal(n)], 1),
        "comb": np.where(side[:, None] == 1, np.stack([t, 0 * t], 1), np.stack([tooth, rng.uniform(0, 1, n)], 1)),
        "star": np.stack([t * np.cos(angle), t * np.sin(angle)], 1),
        "spiral": np.stack([t * np.cos(15 * t), t * np.sin(15 * t)], 1),
        "two pieces": np.stack([t + 10 * side, np.sin(3 * t)], 1),
        "roll on a grid": swiss_roll_points(grid),
        "roll": swiss_roll_points(np.stack([2 + 10.5 * t, rng.uniform(0, 12, n)], 1)),
    }


@pytest.mark.parametrize("name", shapes(10))
@pytest.mark.parametrize("n", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_shape_is_fitted_and_predicted(name, n, monkeypatch):
    """Thin, branched and torn clouds, larger than the part that surfaces are learned from, end with finite numbers."""
    if n == 100:
        inside.lower(monkeypatch, rows_learned_from=60)
    X = shapes(n)[name]
    target = X[:, 2 if "roll" in name else 0]  # along the roll it changes too fast for twenty labels
    y = np.where(np.random.default_rng(1).permutation(n) < max(n // 50, 20), target, np.nan)
    model = GPUMRegressor(geometry=["atlas", "graph", "flat"], random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.sqrt(np.mean((mean - target) ** 2)) < 0.05 * target.std()  # three draws of the labels: at most 0.033


LIMIT = 600  # seconds for one fit: several times what the largest takes on two idle cores
CHILD = """
import json, sys
import numpy as np
from gpum import GPUMRegressor
from test_large import shapes

n = int(sys.argv[2])
X = shapes(n)[sys.argv[1]]
X = np.pad(X, ((0, 0), (0, 4 - X.shape[1])))  # room for charts of three dimensions
X += 0.005 * X.std() * np.random.default_rng(1).standard_normal(X.shape)
y = np.where(np.random.default_rng(2).permutation(len(X)) < 30, X[:, 0], np.nan)
model = GPUMRegressor(random_state=0).fit(X, y)
mean, std = model.predict(X[:500], return_std=True)
told = {"finite": bool(np.isfinite(mean).all() and np.isfinite(std).all()), "notes": model.notes_}
print(json.dumps({**told, "geometries": list(model.geometry_weights_)}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "name"),
    [(n, name) for n in (100, 1500) for name in shapes(10)] + [(20_000, name) for name in ("comb", "roll on a grid")],
)
def test_nothing_hangs(n, name):
    """All geometries, default settings: each fit ends in time, and says what it left out.

    A process of its own, because a hang inside a solver can be ended in no other way.
    """
    command = [sys.executable, "-W", "ignore", "-c", CHILD, name, str(n)]
    here = Path(__file__).parent
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT, cwd=here)
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["finite"]
    left_out = {"chart", "atlas", "graph", "flat"} - set(found["geometries"])
    said = [note for note in found["notes"] if "left out" in note or "not learned" in note]
    assert all(any(name in note for note in said) for name in left_out)
