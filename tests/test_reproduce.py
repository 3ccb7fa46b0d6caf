"""The paper's protocol: label sets, running and resuming, tables, figures; on the real data where it is."""

import json
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import SHARED
from gpum import BayesianGPLVM, EuclideanGPRegressor
from gpum.app.cli import app
from gpum.app.reproduce import figures, kernels, reproduce, roll_figures, splits, tables, tasks
from gpum.app.reproduce import run as runs
from gpum.app.reproduce.methods import METHODS, estimators
from gpum.basics.progress import Reporter


@pytest.fixture
def small(roll_model, monkeypatch):
    """A task of three label sets on the small roll, whose latent model is there already, with quick methods only."""
    task = tasks.swiss_roll(250, n_splits=3)
    monkeypatch.setattr(splits, "latent_model", lambda *args: roll_model)
    quick = {key: EuclideanGPRegressor(smoothness="heat") for key in METHODS}
    monkeypatch.setattr(splits, "estimators", lambda *args: quick)
    return task


def run(task, folder):
    with Reporter(0, 1) as report:
        return splits.run_task(task, folder, n_paths=10, seed=0, n_jobs=None, report=report)[0]


def test_label_sets_of_the_roll():
    task = tasks.swiss_roll(250)
    assert task.splits.shape == (20, 23)
    assert len({tuple(s) for s in task.splits}) == 20
    assert task.splits.max() == 23  # labelled points come first
    np.testing.assert_array_equal(task.tested(0), np.arange(24, 274))
    labels = task.labels(3)
    assert np.isfinite(labels).sum() == 23
    assert np.std((task.y - task.truth)[:24]) == pytest.approx(0.05, rel=0.5)


def test_protocol_of_the_real_data(real_data):
    wifi, coil = tasks.wifi(data_home=real_data), tasks.coil(data_home=real_data)
    assert wifi.splits.shape == (20, 3)
    np.testing.assert_array_equal(wifi.splits // 12, np.tile([0, 1, 2], (20, 1)))
    assert coil.splits.shape == (10, 13)
    assert len(wifi.tested(0)) == 33
    assert len(coil.tested(0)) == 53
    for task, name in ((wifi, "wifi36_x"), (coil, "coil_cat")):
        ready = np.load(SHARED / "tasks" / f"{name}.npz")
        np.testing.assert_array_equal(task.splits, ready["splits"])
        np.testing.assert_allclose(task.X, ready["S"], atol=1e-6)
        np.testing.assert_allclose(task.y, ready["y"])


def test_every_method_has_an_estimator_and_a_number_in_print():
    made = estimators(None, 100, 0, None)
    assert list(made) == list(METHODS)
    for printed in (*tasks.ROLLS.values(), tasks.WIFI, tasks.COIL):
        assert {m.printed for m in METHODS.values()} == set(printed)


def test_an_interrupted_run_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    whole = run(small, tmp_path / "whole")
    fits, score = [], splits.score

    def interrupted(task, estimator, split):
        if len(fits) == 4:
            raise KeyboardInterrupt
        fits.append(split)
        return score(task, estimator, split)

    monkeypatch.setattr(splits, "score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(small, tmp_path / "cut")
    stored = json.loads((tmp_path / "cut" / "splits.json").read_text())["methods"]
    assert sum(map(len, stored.values())) == 4
    second = []
    monkeypatch.setattr(splits, "score", lambda *args: second.append(args[2]) or score(*args))
    resumed = run(small, tmp_path / "cut")
    assert len(second) == 3 * len(METHODS) - 4
    for key in METHODS:
        np.testing.assert_array_equal(resumed.values(key, "rmse", 3), whole.values(key, "rmse", 3))
    assert not list(tmp_path.rglob("*.part"))


def test_results_of_other_settings_are_not_mixed_in(tmp_path):
    first = splits.Records(tmp_path / "splits.json", {"n_paths": 10})
    first.add("gl", 0, {"rmse": 1.0})
    assert splits.Records(tmp_path / "splits.json", {"n_paths": 10}).has("gl", 0)
    assert not splits.Records(tmp_path / "splits.json", {"n_paths": 20}).has("gl", 0)


def test_a_foreign_file_is_not_taken_for_results(tmp_path):
    path = tmp_path / "splits.json"
    for text in ('{"mine": 1}', "[1, 2]", "no JSON"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"splits.json is no file of results .*; move it away"):
            splits.Records(path, {"n_paths": 10})
        assert path.read_text() == text


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_the_latent_model_is_stored_without_a_pickle(roll, roll_model, tmp_path, monkeypatch):
    monkeypatch.setattr(BayesianGPLVM, "fit", lambda *_: roll_model)
    task = SimpleNamespace(X=roll.X)
    splits.latent_model(task, tmp_path, 0, True)
    monkeypatch.setattr(BayesianGPLVM, "fit", lambda *_: pytest.fail("it was learned again"))
    second = splits.latent_model(task, tmp_path, 0, False)
    np.testing.assert_allclose(second.transform(roll.X[:3] + 0.01), roll_model.transform(roll.X[:3] + 0.01), rtol=1e-9)
    (path,) = tmp_path.iterdir()
    joblib.dump(Bomb(), path)
    with pytest.raises(ValueError, match="is not a GPUM model"):
        splits.latent_model(task, tmp_path, 0, False)


def test_results_of_other_code_are_not_used(small, tmp_path, monkeypatch):
    run(small, tmp_path)
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("a = 1")
    monkeypatch.setattr(splits, "PACKAGE", package)
    before = splits.code()
    (package / "one.py").write_text("a = 2")
    assert splits.code() != before
    second = []
    monkeypatch.setattr(splits, "score", lambda *args: second.append(args[2]) or {"rmse": 0.0})
    run(small, tmp_path)
    assert len(second) == 3 * len(METHODS)


def test_score_is_what_it_says(small):
    found = splits.score(small, EuclideanGPRegressor(), 1)
    model = EuclideanGPRegressor().fit(small.X, small.labels(1))
    mean, std = model.predict(small.X[24:], return_std=True)
    error = mean - small.truth[24:]
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["coverage"] == pytest.approx(np.mean(np.abs(error) < 1.96 * std))
    assert "mean" not in found  # stored of the first set only, for the figures


@pytest.mark.slow
def test_tables_and_figures(small, roll_model, tmp_path):
    records = run(small, tmp_path)
    table = tables.regression_table(small, records)
    assert [row[1] for row in table.rows][:2] == ["0.284 (0.006)", "0.293 (0.005)"]
    best = min(v["rmse"] for v in table.values)
    starred = [v["rmse"] for row, v in zip(table.rows, table.values, strict=True) if row[2].endswith("*")]
    assert starred == [best]
    made = tables.write([table], tmp_path, {"seed": 0})
    assert len(made[1].read_text().splitlines()) == 1 + len(METHODS)
    assert json.loads(made[2].read_text())["results"] == table.values
    assert made[0].read_text().count("\n| ") == 1 + len(METHODS)
    roll_figures.cloud_and_chart(small, tmp_path)
    roll_figures.latent_space(small, roll_model, tmp_path, 0)
    roll_figures.predictions(small, records, tmp_path)
    roll_figures.line(small, records, tmp_path)
    figures.latent_predictions(small, roll_model, records, ["gl", "spectral"], tmp_path / "two")
    figures.box_plot(small, records, tmp_path)
    pictures = {p.name for p in tmp_path.rglob("*.png")}
    assert pictures == {
        "boxplot.png", "cloud_and_chart.png", "latent.png", "learned_path.png", "path.png", "predictions.png",
        "slice.png",
    }  # fmt: skip


@pytest.mark.slow
def test_graph_kernel_comes_closer_with_more_points():
    errors = [kernels.rms(kernels.on_graph(n)[0], kernels.exact(True)) for n in (250, 1000)]
    assert errors[1] < errors[0] / 3
    assert errors[1] < 0.05 * kernels.exact(True).max()


def test_kernel_without_edges_is_that_of_a_strip():
    along = kernels.exact(False) * np.sqrt(2 * np.pi * kernels.TIME)
    assert kernels.exact(False).max() == pytest.approx(3.18e-3, rel=0.01)
    assert np.all(np.diff(along[:12]) > 0)


@pytest.mark.parametrize(("arguments", "sentence"), [(["wfi"], "did you mean 'wifi'"), (["wifi"], "put the file into")])
def test_the_command_ends_in_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUM_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # no network
    found = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert sentence in found.stderr.replace("\n", " ")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_quick_run_of_everything(real_data, tmp_path):
    made = reproduce(["all"], tmp_path, quick=True, data_home=real_data, verbose=0)
    assert len(made) == 5
    assert {p.parent.name for p in Path(tmp_path).rglob("*.png")} == {
        "heat-kernel", "swissroll_250", "swissroll_450", "wifi", "coil",
    }  # fmt: skip


def test_all_without_a_network_does_what_needs_no_data(monkeypatch):
    def unreachable(**_):
        raise OSError("coil.zip is not in the folder and could not be downloaded")

    monkeypatch.setattr(tasks, "fetch_wifi", unreachable)
    monkeypatch.setattr(tasks, "fetch_coil", unreachable)
    with pytest.warns(UserWarning, match=r"was left out: coil\.zip is not in the folder") as warned:
        found = runs._tasks(runs.EXPERIMENTS, ["all"], runs.QUICK, 0, None)
    assert len(warned) == 2
    assert {task.key.partition("_")[0] for task in found} == {"swissroll"}
    with pytest.raises(OSError, match=r"coil\.zip"):  # what is named is not left out
        runs._tasks(["wifi"], ["wifi"], runs.QUICK, 0, None)
