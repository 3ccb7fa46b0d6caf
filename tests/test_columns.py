"""Columns that are not numbers: words, categories, booleans, dates and missing values, in data frames and tables."""

import datetime
import re
import sys
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from gpum import (
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    model_io,
)
from gpum.basics.encoding import Columns, Encoding
from gpum.cli import app
from gpum.persistence.labels import LabelFile, beside
from gpum.persistence.tables import read
from gpum.report.document import write_report
from gpum.report.labelling import learned
from gpum.report.labelling.beliefs import Numbers
from gpum.report.labelling.session import Session, Work
from gpum.report.labelling.views import setup

N = 40
FLAT = {"geometry": "flat", "smoothness": "heat", "random_state": 0}


def houses(n=N):
    """A table with a column of each kind, and a target that depends on most of them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": rng.uniform(0, 3, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "garden": rng.random(n) < 0.5,
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 3, n), "D"),
            "grade": pd.Categorical(rng.choice([1, 2], n)),
        }
    )
    return table, (table["size"] + 2 * (table["colour"] == "red") - table["garden"]).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, y = houses()
    return GPUMRegressor(**FLAT).fit(X, y)


def encoded(**columns):
    return Encoding.of(Columns.of(pd.DataFrame(columns)))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2.5", None, "1"], [[1], [2.5], [np.nan], [1]]),
        ([True, False, None, True], [[1], [0], [np.nan], [1]]),
        (["true", "False", "", "true"], [[1], [0], [np.nan], [1]]),
        (["2024-02-01", "2024-03-01T12:00", "NA", "2024-02-02"], [[0], [29.5], [np.nan], [1]]),
        ([datetime.date(2024, 2, 1), None, datetime.date(2024, 2, 3)], [[0], [np.nan], [2]]),
        (pd.to_datetime(["2024-02-01", "2024-02-03"]).tz_localize("Europe/Paris"), [[0], [2]]),
        (pd.to_timedelta([36, 12], "h"), [[1.5], [0.5]]),
        (pd.array([1, None, 3], "Int64"), [[1], [np.nan], [3]]),
        (pd.array([True, None], "boolean"), [[1], [np.nan]]),
    ],
)
def test_columns_of_one_number(cells, expected):
    table = Columns.of(pd.DataFrame({"c": cells}))
    assert np.allclose(Encoding.of(table).encoded(table), expected, equal_nan=True)


def test_different_categories_have_distance_one():
    table = Columns.of(pd.DataFrame({"c": ["a", "b", "c", "a", "b", None], "d": [1.0] * 6}))
    found = Encoding.of(table)
    X = found.encoded(table)
    assert found.names == ["c=a", "c=b", "c=c", "d"]
    assert np.linalg.norm(X[0] - X[1]) == pytest.approx(1.0)
    assert np.linalg.norm(X[1] - X[2]) == pytest.approx(1.0)
    assert np.array_equal(X[0], X[3])
    assert np.isnan(X[5, :3]).all()
    assert found.decoded(X, 0) == ["a", "b", "c", "a", "b", None]
    assert found.decoded(X, 1) == [1.0] * 6


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([f"name {k}" for k in range(20)], "column 'c' of X holds text: 20 different words in 20 rows ('name 0', "),
        ([f"w{k % 40}" for k in range(400)], "40 different words in 400 rows"),
        ([*map(str, range(19)), "?"], "holds numbers and other words ('?')"),
        ([f"{k} kg" for k in range(20)], "write the number alone, without 'kg'"),
        ([None] * 20, "column 'c' of X has no value in any row"),
        ([[1, 2]] * 20, "holds a list"),
        ([np.inf, *["1"] * 19], "column 'c' of X is infinite in row 0"),
    ],
)
def test_columns_that_cannot_be_encoded_get_a_sentence(cells, words):
    X = pd.DataFrame({"c": pd.Series(cells, dtype=object), "x": np.arange(len(cells), dtype=float)})
    with pytest.raises(GpumError, match=re.escape(words)):
        GPUMRegressor(**FLAT).fit(X, np.arange(len(cells)))


def test_a_declared_category_may_have_many_values_and_be_numbers():
    found = encoded(c=pd.Categorical(range(40)), d=range(40))
    assert found.names[:2] == ["c=0", "c=1"]
    assert len(found.names) == 41


def test_a_few_numbers_among_words_are_categories():
    assert encoded(c=["<5", "5-10", ">10", "5"] * 3).names == ["c=5", "c=5-10", "c=<5", "c=>10"]


def test_a_data_frame_with_words_is_fitted_and_predicted(fitted, tmp_path):
    X, y = houses()
    assert fitted.n_features_in_ == 5
    assert list(fitted.feature_names_in_) == list(X.columns)
    assert np.corrcoef(fitted.predict(X), y)[0, 1] > 0.95
    notes = "; ".join(fitted.notes_)
    assert "column 'colour' has 3 categories ('blue', 'green', 'red') and became 3 columns" in notes
    assert "column 'garden' is true or false" in notes
    assert "column 'sold' holds dates and became the days since 2024-01-01" in notes
    assert "size" not in notes
    fitted.save(tmp_path / "m.gpum")
    again = GPUMRegressor.load(tmp_path / "m.gpum")
    new = X[:5].assign(colour="green")
    assert np.array_equal(again.predict(new), fitted.predict(new))
    assert again.notes_ == fitted.notes_
    assert again.encoding_ == fitted.encoding_
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.allclose(fitted.predict(X.to_numpy(object)[:3]), fitted.predict(X[:3]))


def test_predictions_depend_on_the_category(fitted):
    X, _ = houses()
    red, blue = (fitted.predict(X.assign(colour=word)) for word in ("red", "blue"))
    assert np.all(red - blue > 1)


def test_unseen_and_missing_categories_get_an_answer(fitted):
    X, _ = houses()
    with pytest.warns(UserWarning, match=r"column 'colour' has categories .* not seen: 'pink', 'grey' \(in 2 rows\)"):
        mean, std = fitted.predict(X[:3].assign(colour=["pink", "grey", "red"]), return_std=True)
    assert np.isfinite(mean).all()
    _, seen = fitted.predict(X[:3], return_std=True)
    assert np.all(std[:2] > seen[:2])
    gaps = X[:3].assign(colour=[None, "red", "red"], sold=[pd.NaT, *X["sold"][1:3]])
    assert np.isfinite(fitted.predict(gaps)).all()


def test_new_rows_of_another_kind_get_a_sentence(fitted):
    X, _ = houses()
    with pytest.raises(GpumError, match=r"column 'sold' of X is 'soon' in row 1, but in the fit it was a date"):
        fitted.predict(X[:2].assign(sold=["2024-01-02", "soon"]))
    with pytest.raises(GpumError, match="column 'size' of X is 'large' in row 0, but in the fit it was a number"):
        fitted.predict(X[:1].assign(size="large"))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X[:1].drop(columns="colour"))
    with pytest.raises(GpumError, match="a table of 5 columns"), pytest.warns(UserWarning, match="feature names"):
        fitted.predict(np.zeros((2, 4)))


def test_polars_frames_are_encoded_alike(fitted):
    X, y = houses()
    plain = X.assign(grade=X["grade"].astype(str))
    frame = pl.from_dict({name: plain[name].tolist() for name in plain})
    frame = frame.with_columns(pl.col("grade").cast(pl.Categorical))
    model = GPUMRegressor(**FLAT).fit(frame, y)
    assert model.encoding_ == fitted.encoding_
    assert np.allclose(model.predict(frame), fitted.predict(X))


def test_estimators_without_missing_readings_have_a_category_for_missing_words():
    X, y = houses()
    X.loc[::4, "colour"] = None
    model = EuclideanGPRegressor(smoothness="heat").fit(X, y)
    assert "colour=(missing)" in model.encoding_.names
    assert np.isfinite(model.predict(X)).all()
    X.loc[0, "size"] = np.nan
    with pytest.raises(GpumError, match="column 'size' of X"):
        model.predict(X)
    with pytest.raises(GpumError, match="column 'size' of X"):
        EuclideanGPRegressor(smoothness="heat").fit(X, y)


@pytest.mark.parametrize(
    "model", [GPUMClassifier(**FLAT), GPUMRegressor(**FLAT | {"geometry": "graph"}), GraphLaplacianGPRegressor()]
)
def test_other_estimators_take_words_too(model):
    X, y = houses()
    y = X["colour"] if isinstance(model, GPUMClassifier) else y
    model.fit(X, y)
    assert len(model.predict(X)) == N
    assert any("'colour' has 3 categories" in note for note in model.notes_)


def test_a_latent_model_takes_words_and_serves_a_regressor(tmp_path):
    X, y = houses()
    model = BayesianGPLVM(1, starts="pca", n_inducing=5, max_iter=200, tol=1.0, random_state=0).fit(X)
    assert model.n_features_in_ == 5
    assert any("'colour'" in note for note in model.notes_)
    model.save(tmp_path / "latent.gpum")
    assert np.array_equal(BayesianGPLVM.load(tmp_path / "latent.gpum").transform(X[:3]), model.transform(X[:3]))
    learned_from = GPUMRegressor(latent_model=model, **FLAT | {"geometry": ["chart", "flat"]})
    assert np.isfinite(learned_from.fit(X, y).predict(X)).all()
    with pytest.raises(GpumError, match="latent model"):
        learned_from.fit(X.assign(colour=np.where(X["colour"] == "red", "pink", X["colour"])), y)


def test_a_refused_fit_leaves_the_estimator_as_it_was(fitted):
    X, y = houses()
    before = fitted.predict(X[:3])
    with pytest.raises(GpumError):
        fitted.fit(X[["colour"]].assign(name=[f"n{k}" for k in range(N)]), y)
    assert np.array_equal(fitted.predict(X[:3]), before)
    numbers = GPUMRegressor(**FLAT).fit(X, y).fit(X[["size"]].to_numpy(), y)
    assert numbers.n_features_in_ == 1
    assert len(numbers.predict(np.zeros((2, 1)))) == 2
    assert not any("colour" in note for note in numbers.notes_)


# The command line, the report and the labelling page.


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def written(path, X, y):
    """A table in a file, every second target unknown."""
    table = X.assign(name=[f"n{k}" for k in range(len(X))], y=np.where(np.arange(len(X)) % 2, y, np.nan))
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_line_takes_words_and_dates(tmp_path, ending):
    X, y = houses()
    X.loc[3, "colour"] = None
    data = written(tmp_path / f"data.{ending}", X, y)
    args = ("--target", "y", "--geometry", "flat", "--smoothness", "heat", "--out", tmp_path / "m.gpum")
    result = gpum("fit", data, *args)
    assert result.exit_code == 2
    assert "column 'name' of data" in result.stderr
    assert "--drop name" in result.stderr
    result = gpum("fit", data, *args, "--index", "name")
    assert result.exit_code == 0, result.output
    assert "column 'colour' has 3 categories" in result.stderr
    new = written(tmp_path / "new.csv", X[:6].assign(colour=["pink", *["red"] * 5]), y[:6])
    result = gpum("predict", tmp_path / "m.gpum", new, "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("not seen: 'pink' (in 1 row)") == 1
    model = GPUMRegressor.load(tmp_path / "m.gpum")
    rows = pd.read_csv(new)[list(X.columns)]
    with pytest.warns(UserWarning, match="pink"):
        assert np.allclose(pd.read_csv(tmp_path / "out.csv")["y_mean"], model.predict(rows))
    said = gpum("info", tmp_path / "m.gpum").output
    assert "5: size, colour, garden, sold, grade" in said
    assert "column 'sold' holds dates" in said


def test_the_report_shows_the_words_of_the_table(fitted, tmp_path):
    fitted.save(tmp_path / "m.gpum")
    page = tmp_path / "report.html"
    write_report(model_io.load(tmp_path / "m.gpum"), page)
    text = page.read_text()
    assert '"names":["size","colour","garden","sold","grade"]' in text
    assert '["red","' in text or '"green","' in text
    assert "2024-01-0" in text
    assert "colour=red" not in re.sub(r'"messages":.*', "", text)


def test_the_labelling_page_shows_the_words_of_the_table(tmp_path, monkeypatch):
    X, y = houses()
    data = written(tmp_path / "data.csv", X, y)
    seen = {}

    def serve(data, table, target, X, used, names, known, classes, pictures, file, quiet, port, browser, settings, own):
        model = learned.learn(GPUMRegressor(**FLAT, warm_start=True), X, learned.beside(data))
        work = Work(data, table, target, X, used, names, known, pictures, own)
        with closing(Session(work, Numbers(model, X), file)) as session:
            setup(session)
            session.label("a" * 8, 0, "1.5", "")
            seen["row"] = session.about(0)

    monkeypatch.setattr(sys.modules["gpum.cli.label"], "_serve", serve)
    result = gpum("label", data, "--target", "y", "--index", "name", "--geometry", "flat")
    assert result.exit_code == 0, result.output
    assert dict(seen["row"]["columns"])["colour"] == X["colour"][0]
    assert dict(seen["row"]["columns"])["sold"].startswith("2024-01-0")
    lines = read(data)
    assert LabelFile(beside(data)).columns() == list(X.columns)
    assert len(lines) == N
