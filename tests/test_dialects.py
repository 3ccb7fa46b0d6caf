"""Tables from four programs and countries: each goes from one list of advice to predictions in one command."""

import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from gpum import model_io
from gpum.app.cli import app
from gpum.app.tables import tables
from gpum.app.tables.labels import RowFinder

N, LABELS = 80, 40
FLAT = ("--geometry", "flat", "--smoothness", "heat", "-q")
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
RNG = np.random.default_rng(5)
SIZE, WEIGHT = RNG.normal(80, 20, N), RNG.gamma(2, 4, N)
YES = RNG.random(N) < 0.5
TRUTH = SIZE / 10 - WEIGHT / 4 + YES
DAYS = [(RNG.integers(1, 29), RNG.integers(1, 13)) for _ in range(N)]


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def comma(text):
    return text.translate(str.maketrans(",.", ".,"))


def labels(unknown, write="{:.2f}".format):
    return [write(value) if k < LABELS else unknown for k, value in enumerate(TRUTH)]


def german(k, y):
    """A spreadsheet of Windows: empty lines above and below, separators at the ends, a name twice, text in quotes."""
    day, month = DAYS[k]
    remark = ("", '"schön; hell"', '"mit ""Garten"""')[k % 3]
    return ";".join([
        f"OBJ-{k:030d}", comma(f"{SIZE[k]:.2f}"), comma(f"{WEIGHT[k]:.1f} km"), "ja" if YES[k] else "nein",
        comma(f"{1000 * SIZE[k]:,.2f}"), comma(f"{k % 7 + 0.5:.1f} %"), remark, f"{day:02d}.{month:02d}.23",
        comma(f"{SIZE[k]:.2f}"), comma(y), "",
    ])  # fmt: skip


def american(k, y):
    """As pandas writes it, with an index that has no name; dollars, dates with words, dashes where nothing is known."""
    day, month = DAYS[k]
    flag, note = ("", "Yes", "No")[0 if k % 9 == 8 else 1 if YES[k] else 2], f'"said ""hi"", {k}-{WEIGHT[k]:.5f}"'
    seen, joined = f'"{MONTHS[month - 1]} {day}, 2023"', f"{month}/{day}/2021 {k % 24}:30"
    return f'{k},C{k * 7919:09d},{SIZE[k]:.1f},"${1000 * WEIGHT[k]:,.2f}",{flag},{joined},{seen},{note},{y}'


def french(k, y):
    """A laboratory: tabs, UTF-16, limits of detection, -999, times of day, classes with spaces."""
    lead = "<0.5" if WEIGHT[k] < 3 else f"{WEIGHT[k]:.3e}"
    size = "-999" if k % 11 == 0 else f"{SIZE[k]:.1f}"
    where = ("Amont \N{GRINNING FACE}", "Aval")[int(YES[k])]
    return "\t".join([f"E-{k:04d}", size, lead, f"{k % 24:02d}:{k % 60:02d}", f"{1 + k % 9} 500", where, y])


CLASSES = ["très bon " if value > 6 else "mauvais" for value in TRUTH]
TABLES = {
    "immobilien.csv": (
        "Preis in €", "cp1252",
        "\r\n".join([
            ";" * 10, "",
            "Objekt-Nr.;Größe (m²);Entfernung;Balkon;Miete p.a.;Anteil;Notiz;Stand;Größe (m²);Preis in €;",
            *map(german, range(N), labels("")), ";" * 10, "",
        ]),
        ["--encoding cp1252", "--decimal ,", "--index Objekt-Nr.", "Entfernung=", "Miete p.a.=", "Anteil=", "Stand="],
    ),
    "customers.csv": (
        "Score", "utf-8-sig",
        "\n".join([
            ',Customer ID,"Age (years)",Income,Member?,Joined,Last seen,"Notes, free","Score "',
            *map(american, range(N), labels("-")),
        ]),
        ["--missing -", "--drop 'Notes, free'", "Income=", "Joined=", "Last seen=", "--drop 'Customer ID'"],
    ),
    "eau.txt": (
        "qualité", "utf-16",
        "\n".join([
            "échantillon\ttaille\tPb µg/l\theure\tdébit\tsite\tqualité",
            *map(french, range(N), [name if k < LABELS else "" for k, name in enumerate(CLASSES)]),
        ]),
        ["--index échantillon", "Pb µg/l=", "heure=", "débit="],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_one_list_then_one_command(name, tmp_path, monkeypatch):
    target, encoding, text, wanted = TABLES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(text.encode(encoding))
    listed = gpum("check", name, "--target", target)
    assert listed.exit_code == 1, listed.output
    command = shlex.split(listed.stdout.partition("Fit with:\n")[2])
    assert all(words in shlex.join(command) or words in " ".join(command) for words in wanted), listed.stdout
    known = ("--missing", "-999") if "add --missing -999" in listed.stdout else ()
    done = gpum(*command[1:], *known, *FLAT)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()
    read = [
        word
        for option in ("--decimal", "--encoding")
        if option in command
        for word in (option, command[command.index(option) + 1])
    ]
    done = gpum("predict", "model.gpum", name, "--out", "p.csv", "-q", *read)
    assert done.exit_code == 0, done.output
    found = tables.read("p.csv", decimal="," if "--decimal" in read else ".")
    if target == "qualité":
        assert np.mean([a == b.strip() for a, b in zip(found.columns[target], CLASSES, strict=True)]) > 0.8
    else:
        error = found.numbers(f"{target}_mean", "")[LABELS:] - TRUTH[LABELS:]
        assert np.sqrt(np.mean(error**2)) < 0.5 * TRUTH.std()
    fitted = model_io.load("model.gpum")
    kinds = {column.name: column.kind for column in fitted.encoding.columns}
    if name == "immobilien.csv":
        assert "a second 'Größe (m²)' is 'Größe (m²) (2)'" in listed.stdout
        assert kinds["Stand"] == "date"
        assert np.allclose(fitted.X[:, fitted.features.index("Miete p.a.")], 1000 * SIZE, atol=0.01)
    elif name == "customers.csv":
        assert (kinds["Joined"], kinds["Last seen"]) == ("date", "date")
        assert len(fitted.X) == N
    else:
        assert "'taille' has -999 in 8 rows" in listed.stdout
        assert "a limit instead of a value" in listed.stdout
        assert np.allclose(fitted.X[:3, fitted.features.index("heure")], [0, 1 + 1 / 60, 2 + 2 / 60])


def test_labels_go_back_under_the_lines_above_the_header(tmp_path):
    """What stands above the header, and a name that was given by place, remain."""
    from gpum.app.tables.labelled import _back_to_text

    path = tmp_path / "t.csv"
    path.write_bytes(b"sep=;\r\n\r\na;y;y\r\n1;2;\r\n3;4;\r\n")
    table = tables.read(path)
    table.columns["y (2)"] = np.array(["5", "6"], object)
    _back_to_text(path, "y (2)", table)
    assert path.read_bytes() == b"sep=;\r\n\r\na;y;y\r\n1;2;5\r\n3;4;6\r\n"


def test_words_for_unknown_labels(tmp_path):
    """`--missing ?` holds for a target of numbers; a number that it names is a label all the same."""
    lines = ["a,b,y", *(f"{k},{k * k % 17},{k % 5 if k < 20 else '?'}" for k in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    fit = ("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m.gpum", *FLAT[:-1])
    refused = gpum(*fit)
    assert refused.exit_code == 2
    assert re.search("is '\\?', which is not a number", refused.stderr)
    done = gpum(*fit, "--missing", "?", "--missing", "4")
    assert done.exit_code == 0, done.output
    assert "y known for 20" in done.stdout


def test_labels_belong_to_rows_with_units_and_words(tmp_path):
    """`gpum label` compares rows by their cells: numbers by value, others as text."""
    text = "a;b\n12,0 km;1\nunknown;2,50\n7 km;3\n"
    (tmp_path / "t.csv").write_text(text)
    before = tables.read(tmp_path / "t.csv", decimal=",")
    checks = RowFinder(before, tmp_path / "t.labels.csv").checks(("a", "b"))
    (tmp_path / "t.csv").write_text(text.replace("2,50", "2,5").replace("7 km", "8 km"))
    after = RowFinder(tables.read(tmp_path / "t.csv", decimal=","), tmp_path / "t.labels.csv").checks(("a", "b"))
    assert len(set(checks)) == 3
    assert [a == b for a, b in zip(checks, after, strict=True)] == [True, True, False]
