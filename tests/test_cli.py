"""The command line: a table through fit, predict and info, and every way in which that can go wrong."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from browser import contents
from gpum import GPUMRegressor, KernelOptions, __version__, diagnostics, model_io
from gpum.app.cli import app
from gpum.app.tables import tables
from gpum.app.tables.labels import Kind, LabelFile, Line, beside
from gpum.fitted import FittedModel
from gpum.persistence import atomic as whole

N = 40
FAST = [
    *("--latent-dim", "1", "--n-inducing", "8", "--boundary", "0.5"),
    *("--smoothness", "heat", "--n-modes", "20", "--geometry", "chart"),
]


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def refused(result, *words):
    """One sentence on stderr, exit status 2."""
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def curve(noise=0.0):
    """Rows on a curve in R³, their names and two targets; labels at every fourth row."""
    u = np.linspace(0, 3, N)
    X = np.stack([np.cos(u), np.sin(u), 0.3 * u], 1) + noise * np.random.default_rng(0).normal(size=(N, 3))
    known = np.arange(N) % 4 == 0
    y, z = (np.where(known, f, np.nan) for f in (np.sin(2 * u), 100 + u))
    names = [f"r{k}" for k in range(N)]
    return {"id": names, "c1": X[:, 0], "c2": X[:, 1], "c 3": X[:, 2], "note": ["text"] * N, "y": y, "z": z}


@pytest.fixture
def data(tmp_path):
    tables.write(tmp_path / "data.csv", curve())
    return tmp_path / "data.csv"


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A model of two targets, made by the command."""
    folder = tmp_path_factory.mktemp("fit")
    tables.write(folder / "data.csv", curve())
    out = folder / "model.gpum"
    result = gpum("fit", folder / "data.csv", "--target", "y,z", "--index", "id", "--drop", "note", "--out", out, *FAST)
    assert result.exit_code == 0, result.output
    assert "40 rows, 3 features; y known for 10, z known for 10" in result.output
    assert "wrote" in result.output
    assert sorted(p.name for p in folder.iterdir()) == ["data.csv", "model.gpum"]
    return out


@pytest.fixture
def model(fitted, tmp_path):
    """A copy of that model beside the data of a test."""
    return shutil.copy(fitted, tmp_path / "model.gpum")


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz", "parquet"])
def test_predict_agrees_with_the_estimator(model, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    new = curve(noise=0.001)
    new["c1"][7] = 50.0
    order = ["c 3", "y", "id", "c1", "note", "c2"]  # not the order of the fit; y and note are ignored
    tables.write(tmp_path / f"new.{ending}", {name: new[name] for name in order})
    result = gpum("predict", model, tmp_path / f"new.{ending}", "--out", tmp_path / f"pred.{ending}")
    assert result.exit_code == 0, result.output
    assert "rows far from the fitted surface: 1 of 40, the first is r7" in result.stderr
    assert "Warning" not in result.output
    found = tables.read(tmp_path / f"pred.{ending}")
    assert found.text("id") == new["id"]
    values = {name: found.numbers(name, "") for name in found.columns if name != "id"}
    assert list(values) == [
        *(f"{target}_{what}" for target in "yz" for what in ("mean", "std", "low95", "high95")),
        "latent_1",
        "far_from_surface",
    ]
    assert np.flatnonzero(values["far_from_surface"]).tolist() == [7]
    estimator = GPUMRegressor.load(model)
    X = np.stack([new["c1"], new["c2"], new["c 3"]], 1)
    with pytest.warns(UserWarning, match="far"):
        mean, std = estimator.predict(X, return_std=True)
    with pytest.warns(UserWarning, match="far"):
        low, high = np.moveaxis(estimator.predict_quantiles(X, [0.025, 0.975]), 1, 0)
    for k, target in enumerate("yz"):
        for what, expected in {"mean": mean, "std": std, "low95": low, "high95": high}.items():
            assert np.allclose(values[f"{target}_{what}"], expected[:, k], rtol=1e-9)
    assert np.allclose(values["latent_1"], estimator.transform(X)[:, 0])
    near = values["far_from_surface"] == 0
    error = values["y_mean"] - np.sin(2 * np.linspace(0, 3, N))
    assert np.sqrt(np.mean(error[near] ** 2)) < 0.15  # the target's sd is 0.7
    assert values["y_low95"][7] < values["y_mean"][7] < values["y_high95"][7]


@pytest.mark.parametrize("ending", ["csv.gz", "parquet", "npz"])
def test_predictions_do_not_depend_on_the_blocks(model, data, tmp_path, monkeypatch, ending):
    """A table is read, predicted and written seven rows at a time, in order, and notes are about all of it."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    new = curve(noise=0.001)
    new["c1"][[20, 30]] = 50.0
    tables.write(tmp_path / f"new.{ending}", new)
    gpum("predict", model, tmp_path / f"new.{ending}", "--out", tmp_path / "whole.csv")
    monkeypatch.setattr(tables, "ROWS", 7)
    sizes = count_predicted(monkeypatch)
    result = gpum("predict", model, tmp_path / f"new.{ending}", "--out", tmp_path / f"blocks.{ending}", "-q")
    assert sizes == [7] * 5 + [5]
    assert "far from the fitted surface: 2 of 40, the first is r20" in result.output
    whole, blocks = tables.read(tmp_path / "whole.csv"), tables.read(tmp_path / f"blocks.{ending}")
    assert blocks.text("id") == whole.text("id") == new["id"]
    assert list(blocks.columns) == list(whole.columns)
    for name in list(whole.columns)[1:]:
        assert np.allclose(whole.numbers(name, ""), blocks.numbers(name, ""), rtol=1e-9, atol=1e-12)


def count_predicted(monkeypatch):
    """How many rows each block has that is predicted from now on."""
    seen, predictive = [], FittedModel.predictive
    monkeypatch.setattr(FittedModel, "predictive", lambda self, X: seen.append(len(X)) or predictive(self, X))
    return seen


def test_an_error_in_a_later_block_names_the_row_and_leaves_nothing(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 7)
    columns = curve()
    out, seen = tmp_path / "p.csv", count_predicted(monkeypatch)
    for value, words in {"n/k": "row 31 (line 32), is 'n/k'", "inf": "row 31 (line 32), is infinite"}.items():
        changed = {**columns, "c2": [value if k == 30 else str(v) for k, v in enumerate(columns["c2"])]}
        tables.write(tmp_path / "new.csv", changed)
        refused(gpum("predict", model, tmp_path / "new.csv", "--out", out, "-q"), words)
        assert seen == [7] * 4
        assert not out.exists()
        seen.clear()
    assert not list(tmp_path.glob(".*"))


def test_notes_about_several_blocks_are_one(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 7)
    predictive = FittedModel.predictive

    def warned(self, X):
        warnings.warn(f"odd cells (in {len(X)} rows)", stacklevel=1)
        return predictive(self, X)

    monkeypatch.setattr(FittedModel, "predictive", warned)
    tables.write(tmp_path / "new.csv", curve())
    result = gpum("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "-q")
    assert result.stderr == "Act now: odd cells (in 7 rows); the same holds for other blocks of rows\n"


def test_a_cluster_that_is_not_there(model, data, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    out = tmp_path / "p.csv"
    monkeypatch.setattr("gpum.app.cli.blocks.PATIENCE", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense"):
        refused(gpum("predict", model, data, "--out", out, "--cluster", address, "-q"), "no Dask scheduler answers")
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused(gpum("predict", model, data, "--out", out, "--cluster", "tcp://127.0.0.1:9", "-q"), "gpum[dask]")
    assert not out.exists()


def test_what_the_model_file_says(model):
    held = model_io.load(model)
    assert (held.features, held.targets) == (["c1", "c2", "c 3"], ["y", "z"])
    assert held.rows[:2] == ["r0", "r1"]
    assert held.about["source"] == "data.csv"
    assert held.about["settings"]["kernel"] == KernelOptions(boundary=0.5, n_modes=20)
    assert {"version", "date", "seconds", "warnings"} <= set(held.about)
    result = gpum("info", model)
    assert result.exit_code == 0
    for text in (
        "data.csv",
        "40, named by id",
        "3: c1, c2, c 3",
        "map        chart of dimension 1 (BayesianGPLVM(n_inducing=8))",
        "geometry: chart of dimension 1 100%",
        "target z",
        "10 labels from 100 to 10",
    ):
        assert text in result.output, result.output


def test_suggestions(model, tmp_path):
    """Rows by name, best first, as the estimator says; also as a table."""
    fitted = model_io.load(model)
    found = fitted.model.suggestions(5)
    names = [fitted.rows[i] for i in found.rows]
    result = gpum("suggest", model, "-n", 5, "--out", tmp_path / "next.csv")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()[:6]] == ["id", *names]
    table = tables.read(tmp_path / "next.csv")
    assert table.text("id") == names
    np.testing.assert_allclose(table.numbers("gain", ""), found.gain)
    assert not {f"r{k}" for k in range(0, N, 4)} & set(names)
    everything = gpum("suggest", model, "-n", 50)
    assert "only 30 rows are without a label" in everything.stderr
    refused(gpum("suggest", model, "--criterion", "variants"), "did you mean 'variance'")
    refused(gpum("suggest", model, "-n", 0), "n must be")
    refused(gpum("suggest", model, "--goal", "maximum"), "y has 2 columns")


def test_suggestions_for_a_goal(data, tmp_path):
    out = tmp_path / "one.gpum"
    options = ["--target", "y", "--index", "id", "--drop", "note,z", "--geometry", "flat", "--out", out]
    assert gpum("fit", data, *options).exit_code == 0
    fitted = model_io.load(out)
    for goal, level in (("maximum", None), ("level", 0.5)):
        given = ["--goal", goal] + (["--level", level] if level is not None else [])
        result = gpum("suggest", out, "-n", 3, *given)
        found = fitted.model.suggest(3, goal=goal, level=level)
        assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == [fitted.rows[i] for i in found]
    refused(gpum("suggest", out, "--goal", "level"), "give the number that y shall cross")


def test_a_model_without_a_chart(data, tmp_path):
    """Its predictions have no latent coordinates; `info` has weights and notes."""
    out, predictions = tmp_path / "m.gpum", tmp_path / "pred.csv"
    columns = ("--target", "y,z", "--index", "id", "--drop", "note")
    result = gpum("fit", data, *columns, "--geometry", "atlas, flat", "--latent-dim", "1,2", "--out", out)
    assert result.exit_code == 0, result.output
    held = model_io.load(out)
    assert (held.model.geometry, held.model.latent_dim) == (["atlas", "flat"], [1, 2])
    result = gpum("predict", out, data, "--out", predictions)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    found = tables.read(predictions)
    assert [name for name in found.columns if name.startswith("latent")] == []
    assert np.allclose(found.numbers("y_mean", ""), held.model.transduction_[:, 0])
    said = gpum("info", out).output
    assert "none: no chart has weight" in said
    for k in range(2):
        title, weight = next(iter(diagnostics.geometry_weights(held.model, k).items()))
        assert f"geometry: {title} {weight:.0%}" in said
    assert held.model.notes_
    assert all(f"note       {note}" in said for note in held.model.notes_)


def test_one_target_by_default_settings(data, tmp_path, monkeypatch):
    """The command hands on what the estimator has as defaults, a seed apart; one target stays one-dimensional."""
    seen = []

    def fit(self, X, y):
        seen.append((self, X, y))
        raise ValueError("the latent model says no")

    monkeypatch.setattr(GPUMRegressor, "fit", fit)
    out = tmp_path / "m.gpum"
    refused(gpum("fit", data, "--target", "y", "--features", "c1,c 3", "--features", "c2", "--out", out), "says no")
    (estimator, X, y), expected = seen[0], GPUMRegressor(random_state=0, verbose=1)
    assert estimator.get_params() == expected.get_params()
    assert X.shape == (N, 3)
    assert np.array_equal(X[:, 1], curve()["c 3"])
    assert y.shape == (N,)
    assert not out.exists()


def rows(columns="a,b,y", cells=("1,2,3", "2,3,4", "4,5,")):
    return "\n".join([columns, *cells]) + "\n"


@pytest.mark.parametrize(
    ("content", "args", "words"),
    [
        ("", "--target y", ["is empty"]),
        (rows(cells=[]), "--target y", ["header but no rows"]),
        (rows("a,b,target"), "--target targett", ["--target names 'targett'", "did you mean 'target'?"]),
        (rows(), "--target q", ["no such column; its columns are a, b, y"]),
        (rows(), "--target y --drop c", ["--drop names 'c'"]),
        (rows(), "--target y --drop y", ["'y' is named by --target and by --drop"]),
        (rows(), "--target y --drop a,b", ["no column is left"]),
        (rows(cells=["1,2,", "2,3,"]), "--target y", ["no row of data.csv", "'y'"]),
        (rows(cells=["1,2,3", "2,Rome,4"]), "--target y", ["column 'b'", "row 2 (line 3)", "'Rome'", "--drop"]),
        (rows(cells=["1,2,3", "2,4,five"]), "--target y", ["column 'y'", "'five'", "leave the cell empty"]),
        (
            rows(cells=["1,2,3", ",,4", "5,,4"]),
            "--target y",
            ["row 2 (line 3) of data.csv has no value"],
        ),
        (rows(cells=["1,,3", "2,9,4", "5,,4"]), "--target y --missing 9", ["column 'b' of data.csv has no value"]),
        (rows(cells=["1,2,3", "2,3"]), "--target y", ["line 3, has 2 cells"]),
        (b"a,b,y\n1,2,\xe9\n", "--target y", ["not UTF-8"]),
        (
            rows(cells=["1,2,3", "2,3,4"]),
            "--target y --latent-dim 1",
            ["data.csv has 2 row(s)", "at least 3 are needed"],
        ),
        (rows(), "--target y --latent-dim two", ["--latent-dim must be one of 'average', 'auto', got 'two'"]),
        (rows(), "--target y --latent-dim 1,two", ["--latent-dim must be an integer", "'two'"]),
        (rows(), "--target y --geometry atlass", ["geometry must be", "did you mean 'atlas'?"]),
        (rows(), "--target y --geometry chart,sphere", ["geometry must be", "'sphere'"]),
        (rows(), "--target y --kernel spectrl", ["did you mean 'spectral'?"]),
        (
            rows(),
            "--target y --boundary averge",
            ["--boundary must be", "or a level, a number", "did you mean 'average'?"],
        ),
        (rows(cells=["1,2,cat", "2,4,dog", "3,4,"]), "--target y,a", ["holds words (cat, dog)", "one by one"]),
        (rows(cells=["1,2,cat", "2,4,cat", "3,4,"]), "--target y", ["one class only, 'cat'"]),
        (rows(), "--target y --decimal x", ["decimal is 'x'"]),
        (rows(), "--target y --encoding klingon", ["encoding is 'klingon', which is not known"]),
        (rows(), "--target y --max-time -1", ["--max-time must be a positive number, got -1.0"]),
        (rows(), "--target y --n-inducing many", ["--n-inducing", "valid integer"]),
        (rows(), "--targt y", ["--targt", "fit --help"]),
        (rows(), "", ["--target"]),
    ],
)
def test_fit_refuses_in_one_sentence(tmp_path, content, args, words):
    path = tmp_path / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(gpum("fit", path, "--out", tmp_path / "m.gpum", *args.split()), *words)
    assert list(tmp_path.iterdir()) == [path]


def test_outputs_are_checked_before_the_fit(data, tmp_path, monkeypatch):
    monkeypatch.setattr(GPUMRegressor, "fit", lambda *args: pytest.fail("fitted"))
    (tmp_path / "taken.gpum").write_text("mine")
    before = sorted(tmp_path.iterdir())
    for out, words in [
        (tmp_path / "taken.gpum", ["exists already", "--force"]),
        (tmp_path / "no" / "m.gpum", ["there is no folder"]),
        (data / "m.gpum", ["is a file"]),
        (tmp_path, ["is a folder"]),
        (data, ["is an input too"]),
    ]:
        refused(gpum("fit", data, "--target", "y", "--drop", "id,note,z", "--out", out), *words)
    refused(gpum("fit", data, "--target", "y", "--out", data, "--force"), "is an input too")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "taken.gpum").read_text() == "mine"


def test_a_folder_without_permission(data, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(whole, "open", refuse, raising=False)
    refused(gpum("fit", data, "--target", "y", "--out", tmp_path / "m.gpum"), "cannot write", "Permission denied")


def test_predict_refuses_in_one_sentence(model, data, tmp_path):
    out = tmp_path / "pred.csv"
    columns = curve()

    def table(**changed):
        tables.write(tmp_path / "new.csv", {k: v for k, v in {**columns, **changed}.items() if v is not None})
        return tmp_path / "new.csv"

    lacking = table(c1=None, c2=None, C1=columns["c1"])
    refused(gpum("predict", model, lacking, "--out", out), "lacks 2 of the 3 features", "c1, c2", "'C1'")
    holes = table(**{c: np.where(np.arange(N) == 5, np.nan, columns[c]) for c in ("c1", "c2", "c 3")})
    refused(gpum("predict", model, holes, "--out", out), "row 6 (line 7)", "no value in any feature", "remove the row")
    refused(gpum("predict", model, tmp_path / "nwe.csv", "--out", out), "there is no file", "new.csv?")
    refused(gpum("predict", model, data, "--out", tmp_path / "pred.ods"), "'.ods'", ".parquet")
    refused(gpum("predict", model, data, "--out", data, "--force"), "is an input too")
    refused(gpum("predict", data, data, "--out", out), "not a GPUM model")
    refused(gpum("predict", tmp_path / "modl.gpum", data, "--out", out), "did you mean", "model.gpum")
    refused(gpum("predict", model, data, "--out", out, "--index", "idd"), "did you mean 'id'?")
    whole = (tmp_path / "model.gpum").read_bytes()
    for content, words in [
        (whole[: len(whole) // 2], ["truncated"]),
        (whole.replace(b"format 4", b"format 9", 1), ["format 9", "install a later gpum"]),
    ]:
        (tmp_path / "model.gpum").write_bytes(content)
        refused(gpum("predict", model, data, "--out", out), *words)
        refused(gpum("info", model), *words)
    assert not out.exists()


FIT = GPUMRegressor.fit


def quick(self, X, y):
    """A fit that takes no time, whatever was asked for."""
    self.geometry, self.smoothness = "flat", "heat"
    return FIT(self, X, y)


@pytest.mark.parametrize(
    "stage", ["app.tables.tables.read", "estimators.GPUMRegressor.fit", "persistence.atomic.os.replace"]
)
def test_an_interrupt_leaves_nothing_behind(data, tmp_path, monkeypatch, stage):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    if stage == "persistence.atomic.os.replace":  # the model is fitted, and its file written but for its name
        monkeypatch.setattr(GPUMRegressor, "fit", quick)
    monkeypatch.setattr(f"gpum.{stage}", stop)
    out = tmp_path / "m.gpum"
    args = ["fit", data, "--target", "y", "--drop", "id,note,z", "--out", out]
    result = gpum(*args)
    assert result.exit_code == 130
    doing = {"app.tables.tables.read": "reading data.csv", "persistence.atomic.os.replace": "writing m.gpum"}.get(
        stage, "fitting"
    )
    assert f"Interrupted while {doing}: nothing was written." in result.stderr
    assert list(tmp_path.iterdir()) == [data]
    out.write_text("old")
    result = gpum(*args, "--force")
    assert f"{out} is as it was before" in result.stderr
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [data, out]


def test_an_interrupted_prediction(model, data, tmp_path, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(FittedModel, "predictive", stop)
    result = gpum("predict", model, data, "--out", tmp_path / "pred.csv")
    assert result.exit_code == 130
    assert "Interrupted while predicting: nothing was written." in result.stderr
    assert not (tmp_path / "pred.csv").exists()


def test_force_replaces(model, data, tmp_path):
    out = tmp_path / "pred.csv"
    out.write_text("old")
    refused(gpum("predict", model, data, "--out", out), "exists already")
    assert gpum("predict", model, data, "--out", out, "--force").exit_code == 0
    assert len(tables.read(out)) == N


def test_warnings_of_a_fit_become_notes(data, tmp_path, monkeypatch):
    def fit(self, X, y):
        for _ in range(2):
            warnings.warn("the chart\n   is odd: latent_dim='auto' or a smaller n_inducing", UserWarning, stacklevel=1)
        return quick(self, X, y)

    monkeypatch.setattr(GPUMRegressor, "fit", fit)
    result = gpum("fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum")
    assert result.exit_code == 0
    assert result.stderr == "Act now: the chart is odd: --latent-dim auto or a smaller --n-inducing\n"
    assert "--latent-dim auto" in gpum("info", tmp_path / "m.gpum").output
    warned = model_io.load(tmp_path / "m.gpum").about["warnings"]
    assert warned == ["the chart\n   is odd: latent_dim='auto' or a smaller n_inducing"]


def test_debug_shows_the_traceback(tmp_path):
    for args in (["info", tmp_path / "no.gpum", "--debug"], ["--debug", "info", tmp_path / "no.gpum"]):
        result = gpum(*args)
        assert result.exit_code == 2
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("Error: there is no file")
    assert "Traceback" not in gpum("info", tmp_path / "no.gpum").stderr


def test_a_fault_of_our_own_is_called_that(data, tmp_path, monkeypatch):
    monkeypatch.setattr(GPUMRegressor, "fit", lambda self, X, y: 1 + "1")
    result = gpum("fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum")
    assert result.exit_code == 1
    assert "TypeError" in result.stderr
    assert "fault of gpum" in result.stderr


def test_help_and_version():
    assert gpum("version").output.strip() == __version__
    for command, text in [
        ([], "gpum fit data.csv --target y --out model.gpum"),
        (["fit"], "--n-modes"),
        (["fit"], "--geometry"),
        (["predict"], "--decimal"),
        (["info"], "gpum info model.gpum"),
        (["demo"], "Swiss roll"),
    ]:
        result = gpum(*command, "--help")
        assert result.exit_code == 0
        assert text in " ".join(result.output.split())


def test_the_report_without_plotly_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    refused(gpum("report", model, "--out", tmp_path / "r.html"), "needs plotly", "pip install 'gpum[app]'")


def test_info_of_the_system_names_versions_and_no_path(tmp_path):
    """What a bug report asks for; `info` without a file or with both is refused."""
    said = gpum("info", "--system").stdout
    found = dict(line.split(maxsplit=1) for line in said.splitlines())
    assert found["gpum"] == __version__
    assert found["numpy"] == np.__version__
    assert {"python", "scipy", "scikit-learn", "jax", "jaxlib", "platform", "cores", "threads"} <= set(found)
    assert "cpu" in found["devices"] or "gpu" in found["devices"]
    assert not re.search(r"[/\\]\w", said)
    refused(gpum("info"), "model file or --system")
    refused(gpum("info", tmp_path / "m.gpum", "--system"), "not both")


def test_the_quick_demonstration(tmp_path):
    result = gpum("demo", "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    errors = {name: float(re.search(rf"{name} +│ +(0\.\d+)", result.stdout)[1]) for name in ("GPUM", "GP in R³")}
    assert errors["GPUM"] < 0.5 * errors["GP in R³"]
    assert (tmp_path / "swiss_roll.png").read_bytes().startswith(b"\x89PNG")


def test_classes_from_text(tmp_path):
    """A column of text is taken as classes: fit, predict, info, suggest and report; numbers need --classes."""
    table = curve()
    u = np.linspace(0, 3, N)
    names = np.where(u < 1, "low", np.where(u < 2, "mid", "<b>high</b>"))
    few = np.where(np.arange(N) % 5 == 0, names, "")
    tables.write(tmp_path / "data.csv", {**{k: table[k] for k in ("c1", "c2", "c 3")}, "part": few.tolist()})
    model, out = tmp_path / "m.gpum", tmp_path / "p.csv"
    fast = ("--geometry", "graph", "--smoothness", "heat")
    result = gpum("fit", tmp_path / "data.csv", "--target", "part", "--out", model, *fast)
    assert result.exit_code == 0, result.output
    assert "part known for 8" in result.output
    assert gpum("predict", model, tmp_path / "data.csv", "--out", out).exit_code == 0
    made = tables.read(out)
    assert np.mean(np.array(made.text("part")) == names) > 0.8
    p = sum(made.numbers(f"part_p_{c}", "") for c in ("low", "mid", "<b>high</b>"))
    np.testing.assert_allclose(p, 1)
    assert "8 labels of <b>high</b> (2), low (3), mid (3)" in gpum("info", model).stdout
    assert gpum("suggest", model, "-n", 2).exit_code == 0
    assert gpum("report", model, "--out", tmp_path / "r.html").exit_code == 0
    assert '"confusion": {"classes": ["<b>high' in json.dumps(contents((tmp_path / "r.html").read_text()))
    tables.write(tmp_path / "codes.csv", {**{k: table[k] for k in ("c1", "c2")}, "k": np.arange(N) % 2})
    coded = gpum("fit", tmp_path / "codes.csv", "--target", "k", "--classes", "--out", tmp_path / "k.gpum", *fast)
    assert coded.exit_code == 0, coded.output
    refused(
        gpum("fit", tmp_path / "data.csv", "--target", "part,c1", "--classes", "--out", tmp_path / "x.gpum"),
        "for one target",
    )


def python(code, *args):
    """A new Python that runs some code: its output, errors and exit status."""
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120)


COMMAND = "import sys, gpum; sys.argv[0] = 'gpum'; gpum._command()"
HEAVY = (
    "import atexit; atexit.register(lambda: print(sorted({n.split('.')[0] for n in sys.modules}), file=sys.stderr)); "
)


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"], ["version"], ["info"]])
def test_nothing_heavy_is_imported_before_it_is_needed(args, model):
    """Times are not asserted; what takes it is."""
    result = python("import sys; " + HEAVY + COMMAND, *args, *([model] if args == ["info"] else []))
    assert result.returncode == 0, result.stderr
    imported = result.stderr
    assert "'typer'" in imported
    for name in ("jax", "scipy", "sklearn", "matplotlib", "joblib"):
        assert f"'{name}'" not in imported


def test_the_package_imports_nothing_before_it_is_asked():
    result = python("import sys, gpum; assert not {'numpy', 'jax', 'typer'} & set(sys.modules); print(dir(gpum))")
    assert result.returncode == 0, result.stderr
    assert "GPUMRegressor" in result.stdout
    import gpum as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'GPUMRegresor'"):
        _ = package.GPUMRegresor


STOP = """
import sys
stop_at = sys.argv.pop(1)
class Stop:
    def find_spec(self, name, *args):
        if name == stop_at:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
import gpum
sys.argv[0] = "gpum"
gpum._command()
"""


IMPORTED = ["gpum.app.cli", "typer", "gpum.app.cli.demo", "numpy", "gpum.app.tables.tables", "sklearn"]


@pytest.mark.parametrize("importing", IMPORTED)
def test_an_interrupt_in_the_first_second(data, tmp_path, importing):
    """While libraries are imported it is one sentence, too."""
    result = python(STOP, importing, "fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum")
    assert result.returncode == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.strip().startswith("Interrupted")
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == [data]


def test_a_target_that_does_not_vary(data, tmp_path, monkeypatch):
    """As in Python it is fitted, and a note says what that means."""
    monkeypatch.setattr(GPUMRegressor, "fit", quick)
    columns = curve()
    columns["y"] = np.where(np.isnan(columns["y"]), np.nan, 7.0)
    tables.write(data, columns)
    result = gpum("fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum")
    assert result.exit_code == 0, result.output
    assert "is 7 in all 10 labelled rows" in result.stderr
    assert np.allclose(model_io.load(tmp_path / "m.gpum").model.transduction_, 7)


def test_files_of_save_are_read_by_every_command(data, tmp_path):
    X = np.stack([curve()[name] for name in ("c1", "c2", "c 3")], 1)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, curve()["y"])
    model.save(tmp_path / "m.gpum")
    said = gpum("info", tmp_path / "m.gpum")
    assert said.exit_code == 0, said.output
    for text in ("GPUMRegressor", "rows", "40", "3, no names", "target y", "10 labels", "flat space"):
        assert text in said.output, said.output
    result = gpum("report", tmp_path / "m.gpum", "--out", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    tables.write(tmp_path / "new.csv", {f"X_{k + 1}": X[:, k] for k in range(3)})
    result = gpum("predict", tmp_path / "m.gpum", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0, result.output
    assert np.allclose(tables.read(tmp_path / "p.csv").numbers("y_mean", ""), model.transduction_)


def test_columns_are_scaled_on_demand(data, tmp_path, monkeypatch):
    monkeypatch.setattr(GPUMRegressor, "fit", quick)
    columns = curve()
    columns["c2"] *= 1e6
    columns["still"] = np.ones(N)
    tables.write(data, columns)
    args = ("fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum")
    result = gpum(*args, "--scale-columns")
    assert result.exit_code == 0, result.output
    found = model_io.load(tmp_path / "m.gpum")
    assert found.model.scale == "standard"
    assert np.array_equal(found.X[:, 1], columns["c2"])
    assert "each divided by its spread" in gpum("info", tmp_path / "m.gpum").output
    gpum("predict", tmp_path / "m.gpum", data, "--out", tmp_path / "p.csv")
    assert np.allclose(tables.read(tmp_path / "p.csv").numbers("y_mean", ""), found.model.transduction_)


def test_tables_of_other_countries(data, tmp_path, monkeypatch):
    """A decimal comma and another encoding, in fit and in predict."""
    monkeypatch.setattr(GPUMRegressor, "fit", quick)
    cells = [f"{a};{b}".replace(".", ",") for a, b in zip(curve()["c1"], curve()["y"], strict=True)]
    data.write_text("\n".join(["größe;y", *cells]), encoding="latin-1")
    args = ("fit", data, "--target", "y", "--out", tmp_path / "m.gpum")
    refused(gpum(*args), "not UTF-8", "--encoding latin-1")
    refused(gpum(*args, "--encoding", "latin-1"), "is not a number", "--decimal ,")
    how = ("--encoding", "latin-1", "--decimal", ",")
    assert gpum(*args, *how).exit_code == 0
    assert np.allclose(model_io.load(tmp_path / "m.gpum").X[:, 0], curve()["c1"])
    assert gpum("predict", tmp_path / "m.gpum", data, "--out", tmp_path / "p.csv", *how).exit_code == 0


CLOUD = ("c1", "c2", "c 3")
QUICK = ("--geometry", "flat", "--smoothness", "heat")


def table_with(path, **columns):
    """The curve with these columns beside its features."""
    tables.write(path, {**{name: curve()[name] for name in CLOUD}, **columns})
    return path


def halves(unknown, low="low", high="high"):
    """Two classes along the curve, known for every fifth row."""
    found = np.where(np.linspace(0, 3, N) < 1.5, low, high)
    return np.where(np.arange(N) % 5 == 0, found, unknown).tolist()


@pytest.mark.parametrize(
    ("k", "options"),
    [
        (halves("-1", "0", "1"), ["--classes"]),
        (halves("-1.0", "1.0", "2.0"), ["--classes"]),
        (halves("-1"), []),
        (halves("-1"), ["--classes"]),
        (halves("NA", "0", "1"), ["--classes"]),
        (halves("NA"), ["--unlabelled", "NA"]),
        (halves(" "), []),
        (halves("unknown"), ["--unlabelled", "unknown"]),
        (halves("99", "1", "2"), ["--classes", "--unlabelled", "99"]),
    ],
)
def test_rows_without_a_class(tmp_path, k, options):
    """Their mark is no class, as in Python."""
    data, out = table_with(tmp_path / "data.csv", k=k), tmp_path / "m.gpum"
    result = gpum("fit", data, "--target", "k", "--out", out, *QUICK, *options)
    assert result.exit_code == 0, result.output
    assert "k known for 8" in result.output
    assert result.stderr == ""
    assert len(model_io.load(out).model.classes_) == 2


@pytest.mark.slow
def test_a_class_that_looks_like_a_mark_of_unlabelled_rows(tmp_path):
    data, out = table_with(tmp_path / "data.csv", k=halves("unknown")), tmp_path / "m.gpum"
    result = gpum("fit", data, "--target", "k", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    advice = "pass --unlabelled unknown, or leave these cells empty"
    assert f"32 of 40 rows are of class 'unknown'; if this marks rows without a label, {advice}" in result.stderr
    empty = table_with(tmp_path / "none.csv", k=halves("None"))
    said = gpum("fit", empty, "--target", "k", "--out", out, *QUICK, "--force").stderr
    assert "32 of 40 rows are of class 'None'; if this marks rows without a label, leave these cells empty" in said
    assert model_io.load(out).model.classes_.tolist() == ["None", "high", "low"]
    slip = gpum("fit", data, "--target", "k", "--out", out, *QUICK, "--force", "--unlabelled", "unknwon").stderr
    assert "--unlabelled is 'unknwon', but no row of data.csv has it" in slip
    assert advice in slip
    data = table_with(data, k=halves("0", "1", "2"))
    assert "--unlabelled 0" in gpum("fit", data, "--target", "k", "--classes", "--out", out, *QUICK, "--force").stderr
    signs = np.where(np.arange(N) % 2, 1, -1)
    data = table_with(data, k=signs)
    args = ("fit", data, "--target", "k", "--classes", "--out", out, *QUICK, "--force")
    refused(gpum(*args), "one class only, '1'", "--unlabelled none")
    result = gpum(*args, "--unlabelled", "none")
    assert result.exit_code == 0, result.output
    assert model_io.load(out).model.classes_.tolist() == ["-1", "1"]
    refused(gpum("fit", data, "--target", "c1", "--unlabelled", "7", "--out", tmp_path / "n.gpum"), "is for classes")


def test_a_class_called_minus_one_in_the_file_of_labels(tmp_path):
    """It marks no row without a label."""
    data, out = table_with(tmp_path / "data.csv", k=halves("", "-1", "1")), tmp_path / "m.gpum"
    file = LabelFile(beside(data))
    for line in (Kind(("-1", "0", "1")).line("id-number-1", "k"), Line("id-number-2", "exported", "k")):
        file.add(line)
    result = gpum("fit", data, "--target", "k", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    assert model_io.load(out).model.classes_.tolist() == ["-1", "1"]


def test_long_numbers_as_classes_stay_apart(tmp_path):
    k = halves("", "1234567", "1234568")
    result = gpum(
        "fit", table_with(tmp_path / "data.csv", k=k), "--target", "k", "--classes", "--out", tmp_path / "m", *QUICK
    )
    assert result.exit_code == 0, result.output
    assert model_io.load(tmp_path / "m").model.classes_.tolist() == ["1234567", "1234568"]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"id": np.arange(N)}, [], ["column id counts the rows", "used as a feature", "--index id"]),
        ({"z": np.arange(N) + 1}, [], ["column z counts the rows", "--index z"]),
        ({"Key": np.arange(N)[::-1] * 3}, [], ["column Key seems to name the rows", "--index Key"]),
        ({"id": np.arange(N), "row nr": np.arange(N)}, [], ["--index id", "--drop 'row nr'"]),
        ({"id": np.arange(N)}, ["--index", "id"], []),
        ({"id": np.arange(N)}, ["--features", "id,c1,c2"], []),
        ({"grid": np.linspace(0, 0.7, N)}, [], []),
    ],
)
def test_columns_that_count_rows_are_noted(tmp_path, columns, options, said):
    data = table_with(tmp_path / "data.csv", **columns, y=curve()["y"])
    result = gpum("fit", data, "--target", "y", "--out", tmp_path / "m.gpum", *QUICK, *options)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Act now: the column ") == len(columns) * bool(said)
    for text in said:
        assert text in result.stderr


def test_notes_of_a_fit_are_printed(data, tmp_path, monkeypatch):
    """What is in `notes_` is said at the fit, once, and not only by `info`."""

    def fit(self, X, y):
        warnings.warn("the chart is odd", UserWarning, stacklevel=1)
        return quick(self, X, y)

    notes = [
        "no chart: latent_dim=2; name it in `geometry`",
        "the chart is odd",
        "column 'c1' holds dates",
        "2% are missing",
    ]
    monkeypatch.setattr(GPUMRegressor, "fit", fit)
    monkeypatch.setattr(GPUMRegressor, "notes_", notes)
    args = ("fit", data, "--target", "y", "--drop", "id,note,z", "--out", tmp_path / "m.gpum", "-q", "--force")
    result = gpum(*args)
    assert result.exit_code == 0, result.output
    always = ["Act now: the chart is odd", "Note: column 'c1' holds dates", "Note: 2% are missing"]
    assert result.stderr.splitlines()[:3] == always
    assert result.stderr.splitlines()[3].startswith("1 detail of the computation: --verbose prints them, gpum info ")
    result = gpum(*args, "--verbose")
    assert result.stderr.splitlines() == [*always, "Detail: no chart: --latent-dim 2; name it in --geometry"]


def test_the_printed_commands_work(tmp_path, monkeypatch):
    """Whatever the table needs to be read is carried on, and no output is in the way."""
    monkeypatch.chdir(tmp_path)
    columns = [curve()[name] for name in ("c1", "c2", "y")]
    cells = [f"{a};{b};{y}".replace(".", ",") for a, b, y in zip(*columns, strict=True)]
    cells[3] = "0;100;"
    (tmp_path / "my data.csv").write_text("\n".join(["größe;b;y", *cells]), encoding="latin-1")
    (tmp_path / "predictions.csv").write_text("mine")
    how = ("--encoding", "latin-1", "--decimal", ",", "--missing", "100")
    result = gpum("fit", "my data.csv", "--target", "y", "--out", "the model.gpum", *how, *QUICK)
    assert result.exit_code == 0, result.output
    printed = [line.removeprefix("Next:").strip() for line in result.stdout.splitlines()[-2:]]
    for line in printed:
        command, *args = shlex.split(line)
        assert command == "gpum"
        done = gpum(*args)
        assert done.exit_code == 0, (line, done.output)
    assert (tmp_path / "predictions.csv").read_text() == "mine"
    assert len(tables.read(tmp_path / "predictions_2.csv")) == N


def test_text_columns_are_named_together(tmp_path):
    texts = {
        "colour": ["red", "blue"] * 20, "a, b": [f"n{k}" for k in range(N)], "said": [f"word {k}" for k in range(N)],
    }  # fmt: skip
    data = table_with(tmp_path / "data.csv", **texts, y=curve()["y"])
    args = ("fit", data, "--target", "y", "--out", tmp_path / "m.gpum", *QUICK)
    result = gpum(*args)
    assert result.exit_code == 2
    assert "1. column 'a, b' is different in every row" in result.stderr
    assert "2. column 'said' is different in every row" in result.stderr
    options = re.search(r"2 things of data.csv are in the way \(above\); add (.*)", result.stderr)[1]
    assert shlex.split(options) == ["--index", "a, b", "--drop", "said"]
    assert gpum(*args, *shlex.split(options)).exit_code == 0
    args = (*args, "--force")
    refused(gpum(*args, "--drop", "a, b"), "column 'said' of data.csv holds text", "leave it out (--drop said)")


def test_columns_without_values_are_named_together(tmp_path):
    empty = {"e1": [""] * N, "e2": ["NA"] * N}
    data = table_with(tmp_path / "data.csv", **empty, y=curve()["y"])
    refused(
        gpum("fit", data, "--target", "y", "--out", tmp_path / "m.gpum"), "no value in any row: e1, e2", "--drop e1,e2"
    )


@pytest.mark.parametrize(
    ("name", "content", "args", "words"),
    [
        ("t.tsv", "a,b,y\n1,2,3\n", "--target y", ["its only column is 'a,b,y'", "separated by tabs"]),
        ("t.csv", "a b y\n1 2 3\n", "--target y", ["its only column is 'a b y'", "commas, semicolons, tabs or |"]),
        ("t.csv", "0.1,0.2,3\n1,2,3\n", "--target y", ["holds numbers instead of names"]),
        ("t.csv", "a,b,y\n1,2,low\n3,4,7\n", "--target y", ["'low', which is not a number", "--classes"]),
        ("t.csv", "y\n1\n2\n", "--target y", ["there is no column beside the target"]),
        ("t.csv", "a,y\n1,2\n-,3\n", "--target y", ["leave the cell empty"]),
        ("t.xls", "PK", "--target y", ["save the table as CSV"]),
    ],
)
def test_odd_tables_are_refused_in_a_helpful_sentence(tmp_path, name, content, args, words):
    (tmp_path / name).write_text(content)
    refused(gpum("fit", tmp_path / name, "--out", tmp_path / "m.gpum", *args.split()), *words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--target", ""], ["--target is empty"]),
        (["--target", "y", "--likelihood", "poisson"], ["the target is -0.8 at row 2", "--likelihood poisson"]),
        (["--target", "y", "--angle", "0"], ["--angle must be a positive number"]),
        (["--target", "y", "--seed", "-1"], ["'--seed'", "0"]),
        (["--target", "y", "--n-kernel-inducing", "9"], ["no option --n-kernel-inducing any more; use --n-modes"]),
        (["--target", "y", "--lateral-dim", "2"], ["No such option", "--lateral-dim", "fit --help)"]),
    ],
)
def test_errors_name_options_and_count_rows_from_one(tmp_path, args, words):
    y = np.where(np.arange(N) == 1, -0.8, np.arange(N))
    data = table_with(tmp_path / "data.csv", y=y)
    refused(gpum("fit", data, "--out", tmp_path / "m.gpum", *args, *QUICK), *words)


def test_predict_says_what_is_wrong_with_a_table(model, tmp_path):
    for name, content, words in [
        ("t.csv", "c1 c2\n1 2\n", ["its only column is 'c1 c2'"]),
        ("t.csv", "1,2,3\n1,2,4\n", ["holds numbers instead of names"]),
        ("t.csv", "c1,c2,c 3\n1,-,4\n", ["'-'", "leave the cell empty"]),
    ]:
        (tmp_path / name).write_text(content)
        refused(gpum("predict", model, tmp_path / name, "--out", tmp_path / "p.csv"), *words)


def test_one_of_each_is_said_in_the_singular(tmp_path):
    n = 12
    tables.write(tmp_path / "data.csv", {"a": np.linspace(0, 1, n) ** 2, "y": np.linspace(1, 2, n)})
    model = tmp_path / "m.gpum"
    result = gpum("fit", tmp_path / "data.csv", "--target", "y", "--out", model, *QUICK)
    assert "12 rows, 1 feature; y known for 12." in result.stdout
    (tmp_path / "one.csv").write_text("a\n0.5\n")
    result = gpum("predict", model, tmp_path / "one.csv", "--out", tmp_path / "p.csv")
    assert "p.csv: 1 row with" in result.stdout
    (tmp_path / "none.csv").write_text("b\n0.5\n")
    refused(gpum("predict", model, tmp_path / "none.csv", "--out", tmp_path / "q.csv"), "lacks the feature a of m.gpum")


def test_a_folder_that_takes_no_file(data):
    refused(
        gpum("fit", data, "--target", "y", "--out", "/proc/m.gpum"),
        "cannot write /proc/m.gpum",
        "the folder /proc exists",
    )


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "gpum", "version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, __version__), done.stderr


@pytest.mark.parametrize(("arguments", "status"), [(["version"], 0), (["--help"], 0), (["info", "nothing.gpum"], 2)])
def test_a_command_that_ends_says_all_and_cleans_up(arguments, status):
    """What was printed is complete, and functions for the exit have run."""
    begin = "import atexit; atexit.register(lambda: print('cleaned up', flush=True)); print('begin'); "
    done = python(begin + COMMAND, *arguments)
    assert done.returncode == status, done.stderr
    assert done.stdout.startswith("begin")
    assert "cleaned up" in done.stdout
    assert len(done.stdout + done.stderr) > 20


def test_a_command_whose_reader_is_gone():
    """As `gpum --help | head -0`: no traceback."""
    run = [sys.executable, "-m", "gpum", "--help"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        said = child.stderr.read().decode()
    assert "Traceback" not in said


def test_a_command_without_an_output():
    """As `gpum version >&-`, or a service: Python has no sys.stdout then."""
    done = python("import sys; sys.stdout = None; " + COMMAND, "version")
    assert (done.returncode, done.stderr) == (0, "")


def test_intervals_of_chances_are_not_zero_to_one(tmp_path):
    """A single trial is 0 or 1, whatever its chance; the interval is that of the chance."""
    table = table_with(tmp_path / "trials.csv", won=(np.arange(N) % 40 < 15).astype(float))
    out, model = tmp_path / "predictions.csv", tmp_path / "m.gpum"
    fitted = gpum("fit", table, "--target", "won", "--likelihood", "binomial", "--geometry", "flat", "--out", model)
    assert fitted.exit_code == 0, fitted.output
    assert gpum("predict", model, table, "--out", out).exit_code == 0
    found = tables.read(out)
    low, high = (found.matrix([f"won_{end}95"], "")[:, 0] for end in ("low", "high"))
    assert np.all((low > 0) & (low < high) & (high < 1))
    assert np.ptp(high) > 0.3
