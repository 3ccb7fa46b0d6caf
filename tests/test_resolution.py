"""How many rows of a large cloud show its shape, and surfaces that are learned from more rows where few do not."""

import numpy as np
import pytest

import inside
from gpum import GPUMRegressor, diagnostics
from gpum.basics import neighbours, resolution
from gpum.estimators import subset
from gpum.fitted import Cloud


def spiral(n, turns=6):
    """A curve in R³ of turns 0.5 apart, with rows of even density along it, and a function of the way along it."""
    rng = np.random.default_rng(0)
    along = np.sqrt(rng.uniform(0.02, 1, n))
    angle = 2 * np.pi * turns * along
    X = 0.5 * turns * along[:, None] * np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    return X + 0.005 * rng.standard_normal(X.shape), np.sin(4 * np.pi * along**2)


def cloud(name, n):
    rng = np.random.default_rng(1)
    if name == "solid":
        return rng.uniform(0, 1, (n, 5))
    if name == "clusters":
        return rng.standard_normal((n, 4)) + 20 * rng.standard_normal((5, 4))[rng.integers(0, 5, n)]
    t = rng.uniform(0, 2 * np.pi, n)
    ring = np.stack([np.cos(t), np.sin(t), 0 * t, 0 * t], 1)
    return ring + (0.1 if name == "noisy ring" else 0.001) * rng.standard_normal(ring.shape)


@pytest.mark.parametrize("name", ["ring", "noisy ring", "solid", "clusters"])
def test_further_rows_are_not_asked_for_where_they_show_nothing_new(name):
    n, fraction = resolution.enough(cloud(name, 2000), 400, 1600)
    assert n == 400
    assert fraction < 0.8 * resolution.FEW


def test_rows_are_enough_when_no_path_jumps_from_turn_to_turn():
    X, _ = spiral(3000)
    n, fraction = resolution.enough(X, 200, 3000)
    assert n > 200
    assert fraction <= resolution.FEW
    again, still = resolution.enough(X, 200, n - 1)
    assert again == n // 2
    assert still > resolution.FEW
    wide = np.concatenate([X, np.zeros((3000, 100))], 1)  # projected onto fewer columns before
    assert resolution.enough(wide, 200, 3000)[0] == n


def test_surfaces_are_learned_from_more_rows_where_few_do_not_show_their_shape(monkeypatch, tmp_path):
    X, truth = spiral(1200, turns=4)
    y = np.where(np.arange(1200) < 60, truth, np.nan)
    inside.lower(monkeypatch, rows_learned_from=100, rows_of_smooth_graphs=500)
    inside.lower(monkeypatch, rows_of_a_graph_with_all_modes=100, modes_of_a_graph=40)
    model = GPUMRegressor(1, geometry=["atlas", "graph"], random_state=0).fit(X, y)
    n = len(diagnostics.learned_from(model, X))
    assert n > 100
    assert any(f"learned from {n:,} of 1,200 rows" in note for note in model.notes_)
    assert any("100 rows do not show the shape of the cloud" in note for note in model.notes_)
    assert any("graphs were built on all 1,200" in note for note in model.notes_)
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.03
    model.save(tmp_path / "m.gpum")
    rows = np.concatenate([X, X[:50] + 1e-3])
    for a, b in zip(
        GPUMRegressor.load(tmp_path / "m.gpum").predict(rows, return_std=True),
        model.predict(rows, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-8)
    inside.lower(monkeypatch, seconds_of_learning=0.0)
    limited = GPUMRegressor(1, geometry="atlas", random_state=0).fit(X, y)
    assert len(diagnostics.learned_from(limited, X)) == 100
    assert any("100 rows do not show all of the shape" in note and "too long" in note for note in limited.notes_)
    assert np.sqrt(np.mean((limited.predict(X) - truth) ** 2)) > 0.2


def test_a_cloud_may_need_all_its_rows(monkeypatch):
    X, truth = spiral(380, turns=3)
    inside.lower(monkeypatch, rows_learned_from=100)
    y = np.where(np.arange(380) < 60, truth, np.nan)
    X, y, truth = (np.concatenate([one, one[:50]]) for one in (X, y, truth))  # and some copies
    model = GPUMRegressor(1, geometry=["atlas", "flat"], random_state=0).fit(X, y)
    assert any("learned from 380, which takes longer" in note for note in model.notes_)
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.05


def test_a_latent_model_whose_cost_is_cubic_gets_no_more_rows(monkeypatch):
    X, truth = spiral(600, turns=3)
    inside.lower(monkeypatch, rows_learned_from=60)
    y = np.where(np.arange(600) < 60, truth, np.nan)
    model = GPUMRegressor(1, geometry=["atlas", "flat"], latent_model="gplvm", random_state=0).fit(X, y)
    assert len(diagnostics.learned_from(model, X)) == 60


def test_noise_between_dense_rows_does_not_hide_a_curve():
    """Among 3 000 rows the neighbours of a row lie in all directions of the noise, among 1 000 along the curve."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 1, 4000)
    X = np.sin(np.outer(t, rng.standard_normal(10)) * np.pi) + 0.01 * rng.standard_normal((4000, 10))
    found = subset.chosen(Cloud(X, 1.0), 0, False, None, False, True)
    assert neighbours.dimension(found.cloud.learned) > subset.SMOOTH
    assert found.smooth
    solid = subset.chosen(Cloud(rng.uniform(0, 1, (4000, 8)), 1.0), 0, False, None, False, True)
    assert not solid.smooth
    assert any("charts and atlases, which have at most 3, are left out" in note for note in solid.notes)
