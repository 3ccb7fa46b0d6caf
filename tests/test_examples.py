"""The examples run, without a warning, and what they say is so."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(monkeypatch):
    """Run an example by its name; returns its variables."""
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    yield lambda name: runpy.run_path(str(FOLDER / f"plot_{name}.py"))
    plt.close("all")


@pytest.fixture
def real_data(real_data, monkeypatch):
    """Let the loaders find the real data, where it is."""
    monkeypatch.setenv("GPUM_DATA", str(real_data))


@pytest.mark.slow
def test_known_surface(run):
    found = run("known_surface")
    c, r = 3 / (2 * np.pi), np.array([6, 14])
    helicoid = 6 * np.pi * np.diff(0.5 * (r * np.hypot(r, c) + c**2 * np.arcsinh(r / c)))[0]
    assert found["area"] == pytest.approx(helicoid, rel=1e-4)
    np.testing.assert_allclose(found["total"], 1, atol=1e-3)
    assert found["rmse"] < 0.2
    assert found["rmse"] < 0.5 * found["rmse_in_space"]
    assert found["coverage"] > 0.85


@pytest.mark.slow
def test_own_decoder(run):
    found = run("own_decoder")
    assert found["unexplained"] < 0.01
    assert found["rmse"] < 0.06
    assert found["rmse"] < 0.5 * min(found["rmse_on_box"], found["rmse_of_pixels"])
    assert found["coverage"] > 0.9


@pytest.mark.slow
def test_tutorial(run):
    found = run("tutorial")
    assert len(plt.get_fignums()) == 6  # one a step
    assert found["rmse"] < 0.6 * found["rmse_in_signals"]
    assert found["rmse_asked"] < found["rmse"]
    assert found["coverage"] > 0.85
    assert found["left_out"].inside.mean() > 0.8
    np.testing.assert_allclose(found["predicted"], found["temperature"](found["walked"]), atol=1)


@pytest.mark.slow
def test_swiss_roll(run):
    found = run("swiss_roll")
    assert max(found["rmse"], found["rmse_fresh"]) < 0.1
    assert found["rmse"] < 0.5 * found["rmse_in_space"]
    assert found["coverage"] > 0.75


@pytest.mark.slow
def test_pipeline(run):
    found = run("pipeline")
    errors = {name: error.mean() for name, error in found["errors"].items()}
    assert min(list(errors)[:4], key=errors.get) == "latent_dim 2, scaled"
    assert errors["latent_dim 2, scaled"] < 0.7 * errors["latent_dim 2, not scaled"]
    assert errors["smoothness average"] < 0.3
    assert found["r2"].mean() > 0.85
    assert found["found"].inside.mean() > 0.8
    assert found["rmse"] < 0.2


@pytest.mark.slow
def test_wifi(run, real_data):
    found = run("wifi")
    assert np.median(found["errors"]) < 3
    assert found["mean_rmse"] < min(4.5, found["mean_rmse_in_signals"])
    assert found["coverage"] > 0.9


@pytest.mark.slow
def test_image_pose(run, real_data):
    found = run("image_pose")
    assert found["rmse"] < 10
    assert found["rmse"] < 0.4 * found["rmse_of_pixels"]
    assert found["coverage"] > 0.8


@pytest.mark.slow
def test_digits(run):
    found = run("digits")
    accuracy = found["accuracy"]
    assert accuracy[1] > max(0.85, found["accuracy_of_spreading"][1] + 0.05)
    assert accuracy[5] > max(0.92, found["accuracy_of_spreading"][5] + 0.02)
    assert found["loss"][1] < 0.6
    assert found["loss"][5] < 0.3
    assert found["errors_of_surest"][1] < 0.03
    assert found["errors_of_surest"][5] < 0.01
    assert found["wrong_of_doubtful"] > 5 * (1 - accuracy[5])
    assert found["accuracy_asked"] > accuracy[5] + 0.01
    assert found["accuracy_of_new"] > 0.92


@pytest.mark.slow
def test_label_in_rounds(run):
    found = run("label_in_rounds")
    rmse, at_random = found["rmse"].mean(0), found["rmse_at_random"].mean(0)
    assert rmse[0] == at_random[0]  # the same labels
    assert rmse[-1] < 0.08
    assert rmse[3] < at_random[-1]  # 18 labels against 26
    assert all(len(set(known)) == found["steps"][-1] for known, *_ in found["suggested"])


@pytest.mark.parametrize("name", ["wifi", "image_pose"])
def test_without_data_an_example_says_so_and_ends(name, run, tmp_path, monkeypatch, capsys):
    def no_network(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setenv("GPUM_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.retrieve", no_network)
    with pytest.raises(SystemExit) as ended:
        run(name)
    assert not ended.value.code
    assert "could not be downloaded" in capsys.readouterr().out
    assert not plt.get_fignums()


def test_every_example_is_run():
    here = Path(__file__).read_text()
    assert all(f'run("{path.stem.removeprefix("plot_")}")' in here for path in FOLDER.glob("plot_*.py"))
