"""A table as people have them: one list of what is in the way, then one command from the table to the report."""

import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from gpum import GpumError, model_io
from gpum.app.cli import app
from gpum.app.tables import tables
from gpum.app.tables.written import Conventions, Style
from gpum.basics import cells

N, MEASURED = 120, 15
FLAT = ("--geometry", "flat", "--smoothness", "heat", "-q")


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def comma(values):
    return [f"{value:.2f}".replace(".", ",") for value in values]


def thousands(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def messy(rng):
    """Thirty-four columns: words, units, dates of three styles, copies, constants, names of rows; `y` for 48 rows."""
    size, weight = rng.normal(80, 20, N), rng.gamma(3, 5, N)
    days = [day.astype(object) for day in np.datetime64("2022-01-01") + rng.integers(0, 900, N)]
    columns = {
        "key": [f"K{1000 + k}" for k in rng.permutation(N)],
        "nr": [str(k + 1) for k in range(N)],
        "lfd": [str(k) for k in range(N)],
        "size": comma(size),
        "weight": [f"{w:.1f} g".replace(".", ",") for w in weight],
        "income": [thousands(1000 * w + 1000) for w in weight],
        "rate": [f"{w:.1f}".replace(".", ",") + "%" for w in weight],
        "points": [f"{s:.2f}" for s in size / 7],  # another decimal mark than the other columns
        "rooms": ["unknown" if rng.random() < 0.1 else str(int(s // 20)) for s in size],
        "beds": ["k. A." if rng.random() < 0.1 else str(int(s // 30)) for s in size],
        "garage": rng.choice(["none", "single", "double"], N).tolist(),
        "sold": [f"{d.day}.{d.month}.{d.year}" for d in days],
        "listed": [d.isoformat() for d in days],
        "built": [f"{d.month}/{d.day}/{d.year}" for d in days],
        "empty": [""] * N,
        "void": ["NA"] * N,
        "constant": ["7"] * N,
        "copy": comma(size),
        "remark": [f"seen by {k}, then {rng.integers(10**9)}" for k in range(N)],
    }
    columns |= {
        f"m{k}": [c if rng.random() > 0.02 else "" for c in comma(rng.normal(k, 1, N))] for k in range(MEASURED)
    }
    columns["y"] = comma(0.1 * size + weight)
    columns["y"][48:] = [""] * (N - 48)
    return columns, 0.1 * size + weight


def save(path, columns):
    rows = [";".join(row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([";".join(columns), *rows, *rows[:3]]) + "\n")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    columns, truth = messy(np.random.default_rng(3))
    return save(tmp_path_factory.mktemp("messy") / "messy.csv", columns), columns, truth


def test_from_the_table_to_the_report_in_one_command(table, tmp_path, monkeypatch):
    """The list names everything that is in the way, and the command that it prints is not refused any more."""
    data, columns, truth = table
    monkeypatch.chdir(tmp_path)
    found = gpum("check", data, "--target", "y")
    assert found.exit_code == 1, found.output
    stops = re.findall(r"^  \d+\. .*", found.stdout.partition("Good to know:")[0], re.M)
    for name, option in {
        "key": "--index key", "weight": "--written 'weight=", "income": "--written income=", "rate": "--written rate=",
        "points": "--written points=", "rooms": "--missing unknown", "beds": "--missing 'k. A.'",
        "built": "--written built=", "remark": "--drop remark",
    }.items():  # fmt: skip
        assert sum(f"'{name}'" in line and option in line for line in stops) == 1, (name, found.stdout)
    assert sum("empty, void" in line and "--drop empty,void" in line for line in stops) == 1
    assert not any(f"'{name}'" in line for line in stops for name in ("sold", "listed", "garage", "size", "m3"))
    known = found.stdout.partition("Good to know:")[2]
    for words in (
        "'nr' ",
        "'lfd' counts the rows",
        "'constant' has the same",
        "'copy' is a copy of 'size'",
        "3 rows are copies",
        "'none'",
    ):
        assert words in known, known

    command = shlex.split(found.stdout.partition("Fit with:\n")[2])
    assert command[:2] == ["gpum", "fit"]
    done = gpum(*command[1:], *FLAT)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").stat().st_size > 1e5

    fitted = model_io.load(tmp_path / "model.gpum")
    assert "garage=none" in fitted.features
    assert {column.kind for column in fitted.encoding.columns if column.name in ("sold", "listed", "built")} == {"date"}
    at = fitted.features.index
    wanted = [float(cell[:-2].replace(",", ".")) for cell in columns["weight"]]
    assert np.array_equal(fitted.X[:N, at("weight")], wanted)
    assert np.array_equal(fitted.X[:N, at("points")], np.array(columns["points"], float))
    assert np.array_equal(np.isnan(fitted.X[:N, at("rooms")]), np.array(columns["rooms"]) == "unknown")
    dates = fitted.X[:, [at("sold"), at("listed"), at("built")]]
    assert np.array_equal(dates[:, 0], dates[:, 1])
    assert np.array_equal(dates[:, 0], dates[:, 2])

    done = gpum("predict", "model.gpum", data, "--decimal", ",", "--out", "predictions.csv", "-q")
    assert done.exit_code == 0, done.output
    header = (tmp_path / "predictions.csv").read_text().splitlines()[0]
    assert header.startswith("key;y_mean;y_std")  # as the table came
    mean = tables.read("predictions.csv", decimal=",").numbers("y_mean", "")[48:N]
    assert np.sqrt(np.mean((mean - truth[48:]) ** 2)) < 0.3 * truth.std()


def test_a_fit_lists_everything_at_once(table, tmp_path):
    data, *_ = table
    found = gpum("fit", data, "--target", "y", "--out", tmp_path / "m.gpum")
    assert found.exit_code == 2
    listed = gpum("check", data, "--target", "y").stdout.partition("Good to know:")[0].partition("In the way:")[2]
    assert listed.strip() in found.stderr
    assert "things of messy.csv are in the way (above); add --" in found.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_in_the_way_of_a_tidy_table(tmp_path):
    rng = np.random.default_rng(0)
    tables.write(tmp_path / "t.csv", {"a": rng.normal(size=30), "b": rng.normal(size=30), "y": rng.normal(size=30)})
    found = gpum("check", tmp_path / "t.csv", "--target", "y")
    assert found.exit_code == 0, found.output
    assert "In the way" not in found.stdout
    assert "Good to know" not in found.stdout
    assert "--target y --out model.gpum --report report.html" in found.stdout


def test_dates_in_which_day_and_month_may_be_confused_are_not_guessed(tmp_path):
    data = {"d": [f"{k % 12 + 1}/{k % 11 + 1}/2024" for k in range(40)], "a": range(40), "y": np.arange(40) ** 0.5}
    tables.write(tmp_path / "t.csv", data)
    found = gpum("check", tmp_path / "t.csv", "--target", "y", "--drop", "a")
    assert "the day may be first or second: add --written d=31/12/2024 or the same with the month first" in found.stdout
    first = Conventions.of(None, ["d=31/12/2024"]).applied(tables.read(tmp_path / "t.csv"), ["d"]).columns["d"]
    second = Conventions.of(None, ["d=12/31/2024"]).applied(tables.read(tmp_path / "t.csv"), ["d"]).columns["d"]
    assert (first[1], second[1]) == ("2024-02-02", "2024-02-02")
    assert (first[12], second[12]) == ("2024-02-01", "2024-01-02")


@pytest.mark.parametrize(
    ("example", "cell", "plain"),
    [
        ("12 g", "3 g", "3"), ("12 g", "1.5 g", "1.5"), ("12 g", "7", "7"), ("12 g", "2 kg", None),
        ("12 g", "1,5 g", None), ("€ 12", "€ 3", "3"), ("5 m2", "7 m2", "7"), ("50%", "3 %", "3"),
        ("1.234,5", "1.234.567,25", "1234567.25"), ("1.234,5", "1,5", "1.5"), ("1.234,5", "1.5", None),
        ("1 234", "1 200 300", "1200300"), ("1'234", "1'200", "1200"), ("1,5", "2,75", "2.75"), ("1,5", "2.75", None),
        ("€ 1,234.5", "€ 1,200.75", "1200.75"), ("31/12/2024", "1/2/2024", "2024-02-01"),
        ("12/31/2024", "1/2/2024", "2024-01-02"), ("12/31/2024", "13/2/2024", None),
        ("31/12/2024", "2024-01-05", "2024-01-05"), ("12.31.2024", "3.4.2024", "2024-03-04"),
        ("31.12.24", "1.2.23", "2023-02-01"), ("31.12.24", "1.2.70", "1970-02-01"), ("31.12.24", "30.2.24", None),
        ("12/31/2024 08:30", "1/2/2024 9:05", "2024-01-02T09:05:00"),
        ("12/31/2024", "1/2/2024 12:05 AM", "2024-01-02T00:05:00"),
        ("5-Jan-23", "17-feb-2024", "2024-02-17"), ("Jan 5, 2023", "September 17, 2024", "2024-09-17"),
        ("Jan 5, 2023", "17 Sep 2024", None), ("5 Jan 2023", "Jux 5, 2023", None),
        ("08:30", "17:45", "17.75"), ("08:30", "0:00:36", "0.01"), ("08:30", "noon 5", None),
        ("CHF 5", "CHF 7.5", "7.5"), ("-0.042 V", "1.250 V", "1.250"), ("1234,567", "0,250", "0.250"),
    ],
)  # fmt: skip
def test_an_example_says_how_cells_are_written(example, cell, plain):
    assert Style(example).plain(cell, ".") == plain


@pytest.mark.parametrize(
    "example", ["1,234", "abc", "3/4/2024", "2024-01-01", "", "1.234'5,6", "g 5 g", "12/12/2024", "01.02.03"]
)
def test_an_example_that_says_too_little_is_refused(example):
    with pytest.raises(GpumError, match="does not show how cells are written"):
        Style(example)


def test_a_cell_that_is_written_otherwise_is_refused_by_row(tmp_path):
    tables.write(tmp_path / "t.csv", {"w": ["12 g", "unknown", "", "3 kg"], "y": [1, 2, 3, 4]})
    written = ("--written", "w=12 g", "--out", tmp_path / "m.gpum")
    found = gpum("fit", tmp_path / "t.csv", "--target", "y", *written, "--missing", "unknown")
    assert "column 'w' of t.csv, row 4 (line 5), is '3 kg', which is not written like '12 g'" in found.stderr
    found = gpum("fit", tmp_path / "t.csv", "--target", "y", "--written", "v=12 g", "--out", tmp_path / "m.gpum")
    assert "--written names 'v'" in found.stderr
    found = gpum("fit", tmp_path / "t.csv", "--target", "y", "--written", "w", "--out", tmp_path / "m.gpum")
    assert "give the column and an example" in found.stderr


@pytest.mark.parametrize(
    ("text", "same"),
    [("31.12.2024", "2024-12-31"), ("1.2.2024", "2024-02-01"), ("01.02.2024 08:30", "2024-02-01T08:30")],
)
def test_dates_with_points(text, same):
    assert cells.day(text) == cells.day(same)
    assert cells.is_date(text)


@pytest.mark.parametrize("text", ["31.13.2024", "30.2.2024", "1.2", "1.2.24", "12/31/2024", "1.2.2024x"])
def test_what_is_no_date_with_points(text):
    assert cells.day(text) is None


@pytest.mark.parametrize("ending", ["csv", "txt", "tsv", "csv.gz"])
def test_predictions_are_written_as_the_table_came(tmp_path, ending):
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    tables.write(tmp_path / "plain.csv", {"x": x, "z": x**2, "y": np.where(x > 0, x, np.nan)})
    fit = gpum("fit", tmp_path / "plain.csv", "--target", "y", "--out", tmp_path / "m.gpum", *FLAT)
    assert fit.exit_code == 0, fit.output
    lines = ["name;x;z", *(f"a{k};{v};{v * v}".replace(".", ",") for k, v in enumerate(x))]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    same = {}
    for name, options in {"plain.csv": (), "new.csv": ("--decimal", ",", "--index", "name")}.items():
        out = tmp_path / f"{name}.out.{ending}"
        found = gpum("predict", tmp_path / "m.gpum", tmp_path / name, "--out", out, "-q", *options)
        assert found.exit_code == 0, found.output
        decimal = "." if name == "plain.csv" else ","
        same[name] = tables.read(out, decimal=decimal).numbers("y_mean", "")
        if ending == "csv" and name == "new.csv":
            assert out.read_text().splitlines()[0].startswith("name;y_mean;")
    assert np.allclose(same["plain.csv"], same["new.csv"], atol=1e-12)


def test_numbers_whose_mark_may_be_one_of_thousands_are_not_guessed(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a;b;y", *(f"{v:.3f};{w:.1f};{w:.1f}".replace(".", ",") for v, w in rng.normal(5, 1, (30, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(line.replace(",", ".", 1) for line in lines) + "\n")
    found = gpum("check", tmp_path / "t.csv", "--target", "y")
    assert "--decimal ," in found.stdout
    both = "may be a thousand times as large: add --written a=0.5 if the mark is the decimal mark, --written a=1.234,5"
    assert both in found.stdout
    assert "Fit with, once 2 is solved:\n" in found.stdout  # the command has an option for everything else
    lines = ["a,b,y", *(f"{v:.3f} V,{w:.2f},{w:.2f}" for v, w in rng.uniform(1, 9, (30, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert "add --written 'a=0.5 V'" in gpum("check", tmp_path / "t.csv", "--target", "y").stdout


@pytest.mark.parametrize(("example", "first"), [("€ 0.5", 1.079), ("€ 1.234,5", 1079.0)])
def test_each_example_that_is_offered_for_such_numbers_is_understood(tmp_path, example, first):
    cells = ["€ 1.079", "€ 27.341", "€ 912.000"] * 10
    tables.write(tmp_path / "t.csv", {"p": cells, "y": np.arange(30) ** 0.5})
    found = gpum("check", tmp_path / "t.csv", "--target", "y")
    option = shlex.join(["--written", f"p={example}"])
    assert option in found.stdout
    assert gpum("check", tmp_path / "t.csv", "--target", "y", "--written", f"p={example}").exit_code == 0
    table = Conventions.of(None, [f"p={example}"]).applied(tables.read(tmp_path / "t.csv"), ["p"])
    assert table.numbers("p", "")[0] == first


@pytest.mark.parametrize("ending", ["xlsx", "parquet", "feather"])
def test_dates_that_are_all_different_are_no_names_of_rows(tmp_path, ending):
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + np.arange(30)
    tables.write(tmp_path / f"t.{ending}", {"day": days, "a": rng.normal(size=30), "y": rng.normal(size=30)})
    found = gpum("check", tmp_path / f"t.{ending}", "--target", "y")
    assert found.exit_code == 0, found.output
    assert "day" not in found.stdout
