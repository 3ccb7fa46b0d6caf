"""Columns that are not numbers: words, categories, booleans, dates and missing values, in data frames and tables."""

import datetime
import json
import re
import sys
import tempfile
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from typer.testing import CliRunner

from browser import contents
from gpum import (
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    model_io,
)
from gpum.app.cli import app
from gpum.app.labelling.session import Session, Work
from gpum.app.labelling.views import setup
from gpum.app.report.document import write_report
from gpum.app.report.maps import View, edges_of
from gpum.app.tables.labels import LabelFile, beside
from gpum.basics.encoding import Columns, Encoding
from gpum.estimators import learned
from gpum.estimators.beliefs import Numbers
from odd import answered, covers, finite, quiet

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


GARAGES = ["none", "attached", "NA", "None", "detached"] * 4


@pytest.mark.parametrize("kind", [object, "category", "str"])
def test_words_that_look_missing_are_categories_among_words(kind):
    """Only real missing values are missing in a column of words or of a declared category."""
    table = Columns.of(pd.DataFrame({"c": pd.Series([*GARAGES, None, " "], dtype=kind)}))
    found = Encoding.of(table)
    assert set(found.columns[0].categories) - {""} == {"none", "attached", "NA", "None", "detached"}
    assert not np.isnan(found.encoded(table)[:20]).any()
    assert np.isnan(found.encoded(table)[20]).all()
    alone = Columns.of(pd.DataFrame({"c": pd.Series(["none", "NA"] * 4, dtype="category")}))
    assert Encoding.of(alone).names == ["c=NA", "c=none"]


@pytest.mark.parametrize("value", ["1.5", "2024-12-31", "true"])
def test_words_that_look_missing_are_missing_in_other_columns(value):
    table = Columns.of(pd.DataFrame({"c": [value, "NA", "nan", "null", "None", "", value]}))
    assert np.isnan(Encoding.of(table).encoded(table)[:, 0]).tolist() == [False, *[True] * 5, False]


def test_a_data_frame_with_words_is_fitted_and_predicted(fitted, tmp_path):
    X, y = houses()
    assert fitted.n_features_in_ == len(fitted.relevance_) == 5
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


@pytest.mark.slow
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


def test_the_command_line_has_the_same_missing_values(tmp_path):
    """A word is a category unless --missing names it; in a column of numbers NA is missing."""
    path, model = tmp_path / "data.csv", tmp_path / "m.gpum"
    X = pd.DataFrame({"garage": GARAGES, "size": ["1.5", "NA", *map(str, range(18))]})
    X.assign(y=np.arange(20.0)).to_csv(path, index=False)
    args = ("fit", path, "--target", "y", "--geometry", "flat", "--smoothness", "heat", "--out", model, "--force")
    expected = {"none", "attached", "NA", "None", "detached"}
    for options, categories, missing in (((), expected, 1), (("--missing", "NA"), expected - {"NA"}, 1 + 4 * 4)):
        result = gpum(*args, *options)
        assert result.exit_code == 0, result.output
        fit = model_io.load(model).model
        assert set(fit.encoding_.columns[0].categories) == categories
        assert [column.kind for column in fit.encoding_.columns] == ["category", "number"]
        assert np.isnan(fit.model_.cloud.rows).sum() == missing
        result = gpum("predict", model, path, "--out", tmp_path / "out.csv", "--force")
        assert result.exit_code == 0, result.output
        assert "not seen" not in result.stderr


def test_the_report_shows_the_words_of_the_table(fitted, tmp_path):
    fitted.save(tmp_path / "m.gpum")
    page = tmp_path / "report.html"
    write_report(model_io.load(tmp_path / "m.gpum"), page)
    found = contents(page.read_text())
    assert '"names": ["size", "colour", "garden", "sold", "grade"]' in json.dumps(found)
    del found["messages"]
    # A map has a number on each axis: of words, whether it is one of them.
    assert found["chart"].pop("names") == ["size", "colour=red"]
    assert found["cloud"].pop("names") == ["size", "colour=red", "garden"]
    text = json.dumps(found)
    assert '["red", "' in text or '"green", "' in text
    assert "2024-01-0" in text
    assert "colour=red" not in text


def test_the_labelling_page_shows_the_words_of_the_table(tmp_path, monkeypatch):
    X, y = houses()
    data = written(tmp_path / "data.csv", X, y)
    seen = {}

    def serve(
        data, table, target, X, used, names, known, classes, pictures, file, quiet, port, browser, settings, read
    ):
        model = GPUMRegressor(**FLAT, scale="standard", warm_start=True)
        model = learned.learn(model, X, learned.beside(data), given=read.given)
        seen["unit"] = model.model_.cloud.unit
        work = Work(data, table, target, X, used, names, known, pictures, read.names)
        with closing(Session(work, Numbers(model, X), file)) as session:
            setup(session)
            session.label("a" * 8, 0, "1.5", "")
            seen["row"] = session.about(0)

    monkeypatch.setattr(sys.modules["gpum.app.cli.label"], "_serve", serve)
    result = gpum("label", data, "--target", "y", "--index", "name", "--geometry", "flat")
    assert result.exit_code == 0, result.output
    assert dict(seen["row"]["columns"])["colour"] == X["colour"][0]
    assert dict(seen["row"]["columns"])["sold"].startswith("2024-01-0")
    assert LabelFile(beside(data)).columns() == list(X.columns)
    assert np.all(seen["unit"][1:5] == 1), "three categories and true or false are not divided by their spread"


# Tables as they are: whatever the columns, a fit answers with finite numbers or says why not.

WORDS = ["red", "green", "blue", "", None, "nan", "Ünder", "a=b", "1"]
COLUMNS = {
    "numbers": lambda rng, n: rng.standard_normal(n),
    "codes": lambda rng, n: rng.integers(0, 4, n),
    "counts up": lambda rng, n: np.arange(n),
    "constant": lambda rng, n: np.full(n, 7.0),
    "two values": lambda rng, n: rng.integers(0, 2, n) * 1e6,
    "tiny": lambda rng, n: 1e-300 * rng.standard_normal(n),
    "huge": lambda rng, n: 1e300 * rng.uniform(-1, 1, n),
    "outlier": lambda rng, n: np.where(np.arange(n) == 1, 1e9, rng.standard_normal(n)),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "mostly zero": lambda rng, n: rng.standard_normal(n) * (rng.random(n) < 0.2),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n)),
    "empty": lambda rng, n: np.full(n, np.nan),
}
OTHERS = {
    "words": lambda rng, n: rng.choice(np.array(WORDS[:3], object), n),
    "odd words": lambda rng, n: rng.choice(np.array(WORDS, object), n),
    "names": lambda rng, n: [f"name {k}" for k in range(n)],
    "numbers as text": lambda rng, n: [f"{x:.3f}" for x in rng.standard_normal(n)],
    "truth": lambda rng, n: rng.random(n) < 0.5,
    "declared": lambda rng, n: pd.Categorical(rng.integers(0, 3, n)),
    "dates": lambda rng, n: pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
    "one date": lambda rng, n: pd.to_datetime(["2020-01-01"] * n),
    "days as text": lambda rng, n: rng.choice(np.array(["2020-01-01", "2021-05-05T10:00", None], object), n),
    "mixed": lambda rng, n: rng.choice(np.array([1, 2.5, "x", True], object), n),
    "lists": lambda rng, n: [[1]] * n,
}


@st.composite
def tables(draw, kinds, rows=(4, 30)):
    """A data frame of odd columns, and numbers as target; rows may be copies of few."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n = draw(st.integers(*rows))
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=5, unique=True))
    table = pd.DataFrame({name: kinds[name](rng, n) for name in names})
    if draw(st.integers(0, 3)) == 0:
        table = table.iloc[rng.integers(max(n // 3, 1), size=n)].reset_index(drop=True)
    return table, rng.standard_normal(n)


def finite_answers(make, X, y):
    """Fit, predict rows of the table, save and load; a refusal is a sentence."""
    classes = isinstance(make, GPUMClassifier)
    model = answered(lambda: clone(make).fit(X, np.where(y > np.median(y), "high", "low") if classes else y))
    if model is None:
        return None
    with quiet():
        found = model.predict_proba(X) if classes else np.stack(model.predict(X, return_std=True))
    assert finite(found)
    assert model.n_features_in_ == X.shape[1]
    return model


MODELS = st.sampled_from([GPUMRegressor(**FLAT), GPUMRegressor(**FLAT | {"geometry": "graph"}), GPUMClassifier(**FLAT)])


@covers(seconds=0.1, answered=0.7)
@given(st.data())
def test_any_table_of_numbers_is_answered_or_refused_in_a_sentence(data):
    X, y = data.draw(tables(COLUMNS))
    finite_answers(data.draw(MODELS), X, y)


@covers(seconds=0.1, answered=0.58)
@given(st.data())
def test_any_table_of_words_is_answered_or_refused_in_a_sentence(data):
    X, y = data.draw(tables({**OTHERS, "numbers": COLUMNS["numbers"], "gaps": COLUMNS["gaps"]}))
    model = finite_answers(data.draw(MODELS), X, y)
    if model is None:
        return
    with tempfile.TemporaryDirectory() as folder, quiet():
        model.save(f"{folder}/m.gpum")
        loaded = type(model).load(f"{folder}/m.gpum")
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert loaded.notes_ == model.notes_
        assert np.array_equal(model.predict(X.iloc[::-1])[::-1], model.predict(X)) or model.model_.classes is None
    described = [column.note for column in getattr(model, "encoding_", Encoding([])).columns if column.note]
    assert all(note in model.notes_ for note in described)


@pytest.mark.parametrize("model", [GPUMRegressor(**FLAT), GPUMClassifier(**FLAT | {"geometry": ("graph", "flat")})])
def test_tables_as_they_are(model):
    """The tables that the issue of ordinary tables names: each is answered with finite numbers."""
    rng = np.random.default_rng(0)
    n = 60
    plain = rng.standard_normal((n, 3))
    shapes = {
        "copies": plain[rng.integers(20, size=3000)],
        "constant column": np.c_[plain, np.full(n, 3.0)],
        "codes": rng.integers(0, 4, (n, 4)),
        "outlier": np.where(np.arange(3 * n).reshape(n, 3) == 7, 1e6, plain),
        "tiny and huge": np.c_[1e-300 * plain[:, 0], 1e300 * np.sin(plain[:, 1])],
        "two columns": plain[:, :2],
        "wide": rng.standard_normal((n, 500)),
    }
    for name, X in shapes.items():
        y = np.sin(np.arange(len(X)))
        known = rng.choice(len(X), 30, replace=False)
        labels = np.full(len(X), np.nan)
        labels[known] = y[known]
        if isinstance(model, GPUMClassifier):
            labels = np.where(np.isnan(labels), -1, labels > 0).astype(int)
        with quiet():
            model.fit(X, labels)
            found = model.predict_proba(X[:5]) if isinstance(model, GPUMClassifier) else model.predict(X[:5])
        assert finite(found), name


def test_a_column_without_readings_is_named():
    X, y = houses()
    with pytest.raises(GpumError, match="column 1"):
        GPUMRegressor(**FLAT).fit(X[["size"]].assign(empty=np.nan).to_numpy(), y)
    with pytest.raises(GpumError, match="column 'empty'"):
        GPUMRegressor(**FLAT).fit(X.assign(empty=np.nan), y)


@pytest.mark.parametrize("geometry", ["flat", "graph", "atlas"])
@pytest.mark.parametrize("value", [1e9, 1e200])
def test_a_constant_column_changes_nothing(geometry, value):
    """Beside a large number, differences of the other columns would be lost."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = GPUMRegressor(2, **FLAT | {"geometry": geometry})
    expected = model.fit(X, y).predict(X[:5] + 0.1)
    wide, new = (np.c_[rows, np.full(len(rows), value)] for rows in (X, X[:5] + 0.1))
    assert np.allclose(model.fit(wide, y).predict(new), expected, rtol=1e-6)


def test_the_report_draws_an_atlas_where_its_rows_are():
    """The atlas is learned in units of the columns' spreads, and drawn in those of the table."""
    X = np.random.default_rng(0).standard_normal((N, 3)) * [1.0, 1e4, 1.0] + [0.0, 0.0, 1e9]
    model = GPUMRegressor(2, **FLAT | {"geometry": "atlas", "scale": "standard"}).fit(X, X[:, 0])
    drawn = np.array(edges_of(model, "atlas of dimension 2", X, View(X, model.model_.cloud.unit), 5000)["axes"]).T
    assert np.all((drawn >= X.min(0) - np.ptp(X, 0)) & (drawn <= X.max(0) + np.ptp(X, 0)))
    assert np.ptp(drawn[:, 1]) > 1e4


WHEN = pd.date_range("2024-01-01", periods=24, freq="h")


def dated(zone=None, frame=pd.DataFrame):
    when = WHEN if zone is None else WHEN.tz_localize("UTC").tz_convert(zone)
    return frame({"when": when, "load": np.linspace(0, 1, 24)})


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda d: pl.from_pandas(pd.DataFrame(d))])
@pytest.mark.parametrize(("then", "now"), [(None, "Asia/Tokyo"), ("Asia/Tokyo", None)])
def test_dates_with_and_without_a_time_zone_are_not_compared(frame, then, now):
    model = EuclideanGPRegressor().fit(dated(then, frame), np.arange(24.0))
    with pytest.raises(GpumError, match=r"column 'when' of X has dates with .*time zone"):
        model.predict(dated(now, frame))


def test_time_zones_name_the_same_instants():
    model = EuclideanGPRegressor().fit(dated("Asia/Tokyo"), np.arange(24.0))
    np.testing.assert_array_equal(model.predict(dated("UTC")), model.predict(dated("Asia/Tokyo")))
    written = dated("UTC").assign(when=[t.isoformat() for t in dated("UTC")["when"]])
    np.testing.assert_array_equal(model.predict(written), model.predict(dated("UTC")))
    with pytest.raises(GpumError, match="column 'when' of X has dates with a time zone and dates without"):
        EuclideanGPRegressor().fit(written.assign(when=[*written["when"][:12], *map(str, WHEN[12:])]), np.arange(24.0))
