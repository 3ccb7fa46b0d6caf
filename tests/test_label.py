"""Labels by hand: the file that loses nothing, the session, the server's refusals, the page in a browser, kills."""

import hmac
import http.client
import io
import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import joblib
import numpy as np
import pytest
from PIL import Image
from sklearn.manifold import trustworthiness
from typer.testing import CliRunner

import gpum
from gpum import GPUMClassifier, GPUMRegressor
from gpum.app.cli import app
from gpum.app.cli.address import store_address, stored_address
from gpum.app.cli.label import _known
from gpum.app.cli.messages import listed
from gpum.app.labelling import server, views
from gpum.app.labelling.pictures import Folder, Pixels
from gpum.app.labelling.server import LabelServer
from gpum.app.labelling.session import Refused, Session, Work
from gpum.app.labelling.views import setup
from gpum.app.report import maps
from gpum.app.tables import labelled, tables
from gpum.app.tables.labels import LabelFile, Line, RowFinder, beside, row_checks
from gpum.estimators import learned
from gpum.estimators.beliefs import Classes, Numbers, parse_number
from gpum.persistence import model_io
from label_child import (
    FAST,
    TOKEN,
    N,
    closing,
    give,
    lines_of,
    make_session,
    new_id,
    serving,
    settled,
    truth,
    write_table,
)

ENTER = "\ue007"


# The file.


def test_a_line_is_there_once(label_table):
    file = LabelFile(beside(label_table))
    assert file.add(Line("a" * 8, "label", "y", 3, "r3", "1.5", "0" * 8))
    assert not file.add(Line("a" * 8, "label", "y", 3, "r3", "1.5", "0" * 8))
    assert not LabelFile(beside(label_table)).add(Line("a" * 8, "label", "y", 4, "r4", "2", "0" * 8))
    (line,) = lines_of(label_table)
    assert (line["row"], line["name"], line["value"], line["target"]) == ("4", "r3", "1.5", "y")
    assert line["time"].endswith("+00:00")


def test_a_torn_line_is_reported_and_harms_no_other(label_table):
    whole = LabelFile(beside(label_table))
    X = tables.read(label_table).matrix(["a", "b", "c"], "")
    checks = row_checks(X)
    whole.add(Line("columns1", "columns", "", value='["a", "b", "c"]'))
    whole.add(Line("id-number-1", "label", "y", 1, "r1", "1.25", checks[1]))
    start = len(beside(label_table).read_bytes())
    whole.add(Line("id-number-2", "label", "y", 2, 'r2, "quoted"', "2.75", checks[2]))
    data = beside(label_table).read_bytes()
    for end in range(start, len(data)):  # killed after every single byte
        beside(label_table).write_bytes(data[:end])
        torn = LabelFile(beside(label_table))
        assert torn.torn == (end > start)
        assert torn.given("y", RowFinder(tables.read(label_table), beside(label_table))).values == {1: "1.25"}
        assert torn.add(Line("id-number-2", "label", "y", 2, "r2", "2.75", checks[2]))
        reopened = LabelFile(beside(label_table))
        assert reopened.given("y", RowFinder(tables.read(label_table), beside(label_table))).values == {
            1: "1.25",
            2: "2.75",
        }


def test_a_full_disk_is_reported_and_nothing_is_shown(label_session, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(Refused, match=r"could not be written .*No space left"):
        give(label_session, 3)
    assert label_session.labels == {}


def test_moved_rows_are_found_or_the_label_is_refused(label_table):
    with closing(make_session(label_table)) as session:
        give(session, 5, "1.5")
    read = tables.read(label_table)
    moved = {name: np.roll(column, 2) for name, column in read.columns.items()}
    tables.write(label_table, moved)
    found, counts = labelled.merged(tables.read(label_table), label_table, ["y"])
    assert counts == {"y": 1}
    assert found.columns["y"][7] == "1.5"
    moved["a"][7] = "9.9"
    tables.write(label_table, moved)
    with pytest.raises(ValueError, match=r"a label for row 6 \('r5'\), but that row of data.csv has other numbers"):
        labelled.merged(tables.read(label_table), label_table, ["y"])
    tables.write(label_table, {name: moved[name] for name in ("id", "a", "c", "y")})
    with pytest.raises(ValueError, match=r"a column 'b', which data.csv no longer has"):
        labelled.merged(tables.read(label_table), label_table, ["y"])


def test_a_foreign_file_is_not_taken_for_labels(label_table):
    beside(label_table).write_text("some,other\n1,2\n")
    with pytest.raises(ValueError, match="not a file of labels"):
        LabelFile(beside(label_table))


def test_two_servers_do_not_share_a_file(label_session):
    with pytest.raises(ValueError, match="another `gpum label` is at work"):
        LabelFile(label_session.file.path).hold()


def test_who_holds_the_file_knows_all_lines_and_holds_the_right_one(label_table, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    early, path = LabelFile(beside(label_table)), beside(label_table)
    LabelFile(path).add(Line("a" * 8, "skip", "y", 3))
    early.hold()
    assert "a" * 8 in early  # added after it was first read
    early.release()
    path.unlink()
    holder = LabelFile(path)
    holder.hold()
    LabelFile(path).release()  # of one who does not hold it, such as an export to another file
    assert path.exists()
    holder.release()
    assert not path.exists()
    lock = fcntl.flock

    def late(file, how):  # the holder before ends at the worst moment: its empty file goes away
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    holder.hold()
    with pytest.raises(ValueError, match="another `gpum label` is at work"):
        LabelFile(path).hold()
    holder.release()


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz"])
def test_export(label_geometry, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"data.{ending}"
    write_table(path, y=np.full(N, np.nan), note=["a;b"] * N)
    shutil.copy(label_geometry / "data.csv.geometry", learned.beside(path))
    with closing(make_session(path)) as session:
        give(session, 3, "2.5")
    if ending == "npz":
        with pytest.raises(ValueError, match="export them to another file"):
            labelled.export(path, "y")
        path = tmp_path / "out.csv"
        assert labelled.export(tmp_path / "data.npz", "y", path) == 1
    else:
        before = tables.read(path)
        assert labelled.export(path, "y") == 1
        for name in ("id", "a", "note"):
            assert list(tables.read(path).columns[name]) == list(before.columns[name])
    y = tables.read(path).numbers("y", "")
    assert y[3] == 2.5
    assert np.isnan(np.delete(y, 3)).all()


def test_export_keeps_what_is_special_about_a_text_file(label_table):
    text = label_table.read_text().replace(",", ";").replace("\n", "\r\n")
    label_table.write_bytes(b"\xef\xbb\xbf" + text.encode())
    label_table.chmod(0o600)
    with closing(make_session(label_table)) as session:
        give(session, 0, "7")
        assert session.export() == "1 label written into data.csv."
        assert session.export() == "There is nothing to export."
    lines = text.split("\r\n")
    lines[1] += "7"
    assert label_table.read_bytes() == b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    assert label_table.stat().st_mode & 0o777 == 0o600
    assert [line["action"] for line in lines_of(label_table)] == ["columns", "kind", "label", "exported"]
    assert labelled.merged(tables.read(label_table), label_table, ["y"])[1] == {}  # later changes of the table count


# What is typed, shown and stored.


@pytest.mark.parametrize(
    ("text", "stored"), [(" 3.50 ", "3.5"), ("−2", "-2"), ("1e-3", "0.001"), ("7.0", "7"), ("-0.25", "-0.25")]
)
def test_numbers(text, stored):
    assert parse_number(text) == stored


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing is written; write a number"),
        ("3,5", "'3,5' is not a number; write a decimal point"),
        ("abc", "'abc' is not a number; write a number"),
        ("1_000", "not a number"),
        ("nan", "skip the row if its value is not known"),
        ("-inf", "not a finite number"),
        ("1e200", "too large"),
        ("x" * 1000, "^.{1,120}$"),
    ],
)
def test_bad_numbers_get_a_sentence(text, words):
    with pytest.raises(ValueError, match=words):
        parse_number(text)


def test_pictures_of_a_folder_stay_in_it(tmp_path):
    home = tmp_path / "pictures"
    home.mkdir()
    for path in (home / "a.png", home / "2.jpg", tmp_path / "secret.png"):
        Image.new("L", (2, 2)).save(path)
    (home / "c.png").symlink_to(tmp_path / "secret.png")
    (home / "note.txt").write_text("no picture")
    found = Folder(home, ["a", "b", "c", "../secret", "../secret.png", "note", "note.txt", "a.png"])
    assert set(found.files) == {0, 1, 7}
    assert found.get(1)[0] == "image/jpeg"
    with pytest.raises(ValueError, match="no row has a picture"):
        Folder(home, ["x"] * 1)


def test_pixels():
    X = np.arange(24.0).reshape(2, 12)
    kind, data = Pixels.of(X, "3x4").get(1)
    picture = np.asarray(Image.open(io.BytesIO(data)))
    assert kind == "image/png"
    assert picture.shape == (3, 4)
    assert picture[-1, -1] == 255
    assert Pixels.of(X, "2x2x3").get(0)[1].startswith(b"\x89PNG")
    for text in ("3x5", "12", "3x4x2", "0x12"):
        with pytest.raises(ValueError, match="--image-shape is"):
            Pixels.of(X, text)


GAPS = {"geometry": ["graph", "flat", "atlas"], "latent_dim": 1}


@pytest.mark.parametrize(("cls", "settings"), [(GPUMRegressor, {}), (GPUMClassifier, {}), (GPUMRegressor, GAPS)])
def test_the_geometry_is_stored(label_table, monkeypatch, cls, settings):
    """A session on a geometry that was read says what one on the geometry that was learned says, without learning."""
    X = tables.read(label_table).matrix(["a", "b", "c"], "")
    if settings:
        X[3, 0] = np.nan
    make = lambda **more: cls(**FAST | settings | more)
    path = label_table.parent / "own.geometry"
    first = learned.learn(make(), X, path)
    monkeypatch.setattr("gpum.estimators.plan.build", lambda *_, **__: pytest.fail("geometries were learned again"))
    second = learned.learn(make(n_jobs=1), X, path, learned.stored(make(n_jobs=1), X, path))
    y = np.full(N, np.nan)
    y[[2, 20, 35]] = 1.0, 2.0, 1.0
    for model in (first, second):
        model.fit(X, y)
    ask = (lambda m: m.predict_proba(X)) if cls is GPUMClassifier else (lambda m: m.predict(X, return_std=True))
    np.testing.assert_allclose(ask(second), ask(first), rtol=1e-9, atol=1e-12)
    assert second.suggestions(2).rows.tolist() == first.suggestions(2).rows.tolist()
    assert learned.stored(make(random_state=1), X, path) is None
    assert learned.stored(make(), X + 1, path) is None


def test_a_geometry_that_does_not_fit_together_is_learned_anew(label_table):
    X = tables.read(label_table).matrix(["a", "b", "c"], "")
    path, model = learned.beside(label_table), GPUMRegressor(**FAST)
    whole = path.read_bytes()
    held = model_io.read(path)
    candidate_set, cloud = held.geometries.candidate_set, held.geometries.cloud
    assert learned.stored(model, X, path) is not None
    for changed in (
        {
            "candidate_set": replace(
                candidate_set, geometry_of=[len(candidate_set.geometry_of) + 9] * len(candidate_set.geometry_of)
            )
        },
        {"candidate_set": replace(candidate_set, rows=[rows[1:] for rows in candidate_set.rows])},
        {"candidate_set": replace(candidate_set, spaces=candidate_set.spaces[:1])},
        {"candidate_set": replace(candidate_set, candidates=[])},
        {"candidate_set": None},
        {"cloud": replace(cloud, X=cloud.X[1:])},
        {"places": {0: cloud.rows[1:]}},
    ):
        model_io.write(path, replace(held, geometries=replace(held.geometries, **changed)), force=True)
        assert learned.stored(model, X, path) is None, changed
    for damaged in (whole[:-100], whole[:25], whole.replace(b"format 4", b"format 9")):
        path.write_bytes(damaged)
        assert learned.stored(model, X, path) is None
    with closing(make_session(label_table)):
        assert learned.stored(model, X, path) is not None


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_a_forged_geometry_runs_no_code(label_table, monkeypatch):
    """However it is sealed: no file beside a table is ever unpickled; what is no file of ours is not replaced."""
    X = tables.read(label_table).matrix(["a", "b", "c"], "")
    path, home = learned.beside(label_table), label_table.parent / "state"
    (home / "gpum").mkdir(parents=True)
    (home / "gpum" / "key").write_bytes(b"")  # as a full disk leaves it: then anyone can make the seal
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    buffer = io.BytesIO()
    joblib.dump(Bomb(), buffer)
    model = GPUMRegressor(**FAST)
    names = [name for name in model.get_params() if name not in ("n_jobs", "verbose")]
    settings = {name: repr(getattr(model, name)) for name in names}
    numbers = [*X.shape, sha256(np.ascontiguousarray(X).tobytes()).hexdigest()]
    about = {"version": gpum.__version__, "kind": "GPUMRegressor", "X": numbers, "settings": settings}
    digest = hmac.new(b"", json.dumps(about, sort_keys=True).encode(), "sha256")
    digest.update(buffer.getvalue())
    path.write_bytes(f"GPUM geometry, sealed {digest.hexdigest()}\n".encode() + buffer.getvalue())
    with closing(make_session(label_table)) as session:  # learned anew
        give(session, 3)
    for foreign in (buffer.getvalue(), b"", b"a drawing of the user's\n"):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match=r"data.csv.geometry is not a file of gpum, .*; move it away"):
            make_session(label_table)
        assert path.read_bytes() == foreign


@pytest.mark.parametrize(("table", "stored"), [(0o600, 0o600), (0o444, 0o644), (0o777, 0o644)])
def test_what_is_stored_beside_a_table_is_as_private_as_it(label_table, table, stored):
    """And can be written by its owner, also where the table cannot."""
    label_table.chmod(table)
    for path in (learned.beside(label_table), beside(label_table)):
        path.unlink(missing_ok=True)
    umask = os.umask(0o022)
    try:
        with closing(make_session(label_table)) as session:
            give(session, 3)
    finally:
        os.umask(umask)
    for path in (learned.beside(label_table), beside(label_table)):
        assert path.stat().st_mode & 0o777 == stored, path.name


def test_the_address_is_stored_for_its_user_only(label_table):
    assert stored_address(label_table)[1] == 0
    store_address(label_table, TOKEN, 4242)
    assert stored_address(label_table) == (TOKEN, 4242)
    stored = label_table.parent / ".data.csv.label-address"
    assert stored.stat().st_mode & 0o777 == 0o600
    stored.chmod(0o644)
    assert stored_address(label_table) != (TOKEN, 4242)
    store_address(label_table, TOKEN, 4242)
    text = stored.read_text()
    stored.rename(stored.with_name("other"))
    stored.touch(0o600)
    stored.write_text(text)  # as an archive of someone else, unpacked by this user, would leave it
    assert stored_address(label_table) != (TOKEN, 4242)


# The session.


def test_from_no_label_to_advice(label_session):
    state = label_session.state("")
    assert state["value"] is None
    assert len(set(state["queue"])) == 5
    assert np.ptp(label_session.work.X[state["queue"]], 0) == pytest.approx(np.ptp(label_session.work.X, 0), rel=0.5)
    for _ in range(12):
        give(label_session, label_session.queue[0])
    state = settled(label_session)
    value, spread = np.array(state["value"]), np.array(state["spread"])
    y = np.array([float(truth(row)) for row in range(N)])
    assert np.sqrt(np.mean((value - y) ** 2)) < 0.1
    assert np.all(spread > 0)
    assert not set(state["queue"]) & set(label_session.labels)
    assert [name for name, _, _ in state["figures"]] == ["Labels", "Typical error", "Left-out error", "Geometry"]
    before, after, less = map(float, re.search(r"from ± (\S+) to ± (\S+), by (\d+) %", state["advice"]).groups())
    assert before == pytest.approx(np.sqrt(np.mean(spread**2)), rel=1e-2)
    assert 1 - after / before == pytest.approx(less / 100, abs=0.01)
    assert not state["stop"]
    assert "value" not in label_session.state(state["belief"])  # what the page has is not sent again
    low, high = label_session.about(state["queue"][0])["interval"]
    assert low < value[state["queue"][0]] < high


def test_the_goal_decides_which_rows_are_asked_for(label_session):
    """sin(row/5): largest at row 8 and at the end, smallest at 24, 0.5 at rows 3, 13 and 34; no label changes."""
    for row in (0, 5, 12, 19, 29, 34):
        give(label_session, row)
    settled(label_session)
    version = label_session.belief_number

    def aim(name, level=""):
        label_session.aim(name, level)
        return settled(label_session)

    state = aim("minimum")
    assert state["goal"] == ["minimum", None]
    assert abs(state["queue"][0] - 24) <= 3
    assert ["Best so far", "-0.612", "row r19"] in state["figures"]
    assert re.fullmatch(
        r"The suggested row is expected to fall below the best value so far, −?-?0.612, by \S+\.", state["advice"]
    )
    assert min(abs(state["queue"][0] - row) for row in (8, 39)) > 3
    state = aim("maximum")
    assert min(abs(state["queue"][0] - row) for row in (8, 39)) <= 3
    state = aim("level", "0.5")
    assert state["goal"] == ["level", 0.5]
    assert re.search(r"of 40 rows may be on either side of 0\.5 \(95 %\)", state["advice"])
    assert min(abs(state["queue"][0] - row) for row in (3, 13, 34)) <= 3
    assert aim("information")["goal"] == ["information", None]
    assert label_session.belief_number == version  # the predictions stay
    for name, level, message in (("best", "", "goal must be one of"), ("level", "", "nothing is written")):
        with pytest.raises(ValueError, match=message):
            label_session.aim(name, level)
    for row in range(N):
        if row not in label_session.labels:
            give(label_session, row)
    assert aim("maximum")["advice"] == "Every row has a label or is skipped."


def test_nearest_labelled_rows_are_nearest_along_the_surface(label_session):
    """A curve of nearly a whole turn: its last row is near the first in the data, and far along the curve."""
    for row in (9, 20, 25, 39):
        give(label_session, row)
    settled(label_session)
    X = label_session.work.X
    assert np.argmin(np.linalg.norm(X[[9, 20, 25, 39]] - X[0], axis=1)) == 3
    found = label_session.about(0)
    assert found["near"][0][0] == 9
    assert found["along"]


def test_relevance_of_columns():
    """Where flat space with a length for each column has weight, the exact fit says which columns matter."""
    X = np.random.default_rng(0).uniform(size=(60, 4))
    model = GPUMRegressor(geometry="flat", smoothness="matern52", warm_start=True)
    target = Numbers(model.fit(X, X[:, 0]), X, ["a", "b", "c", "d"])
    labels = {row: repr(float(np.sin(9 * X[row, 1]))) for row in range(40)}
    belief = target.exact(labels, lambda: False)
    (first, value, words), *others = belief.relevance
    assert (first, value, words) == ("b", 1.0, "100 %")
    assert all(value < 0.2 for _, value, _ in others)
    quick = target.quick(labels, belief)  # with the lengths of the last exact fit
    assert quick.value == pytest.approx(belief.value, abs=0.01)
    assert next(iter(quick.weights)) == next(iter(belief.weights)) == "flat space, a length per column"
    low, high = belief.detail(50)["interval"]
    assert low < belief.value[50] < high


def test_quick_and_exact_agree(label_session):
    """With all settings in the quick look both say the same."""
    labels = {row: truth(row) for row in range(0, N, 4)}
    quick = label_session.target.quick(labels, None)
    exact = label_session.target.exact(labels, lambda: False)
    assert quick.value == pytest.approx(exact.value, abs=1e-3)
    assert quick.spread == pytest.approx(exact.spread, rel=1e-2)
    assert label_session.target.exact(labels, lambda: True) is None


def test_undo_skip_and_labels_of_the_table(label_table):
    with closing(make_session(label_table, start={0: "5"})) as session:
        first = give(session, 0, "6")
        assert session.labels == {0: "6"}
        undo = new_id()
        session.undo(undo, first)
        session.undo(undo, first)
        assert session.labels == {0: "5"}
        with pytest.raises(Refused, match="taken back already"):
            session.undo(new_id(), first)
        row = session.queue[0]
        session.skip(new_id(), row)
        assert row not in session.queue
    with closing(make_session(label_table, start={0: "5"})) as second:
        assert second.labels == {0: "5"}
        assert row not in second.queue
    assert [line["action"] for line in lines_of(label_table)] == ["columns", "kind", "label", "undo", "skip"]


def test_two_people_do_not_overwrite_each_other(label_session):
    give(label_session, 4, "1")
    with pytest.raises(Refused, match="r4 has the label 1 by now") as error:
        label_session.label(new_id(), 4, "2", "")
    assert error.value.conflict
    label_session.label(new_id(), 4, "2", "1")
    assert label_session.labels == {4: "2"}
    for row in (-1, N, "3", None, True, 2.0):
        with pytest.raises(Refused, match="There is no row"):
            label_session.label(new_id(), row, "2", "")


def test_the_same_request_twice_counts_once(label_session):
    id = give(label_session, 4, "1")
    label_session.label(id, 4, "1", "")
    assert len(label_session.file.lines) == 3  # columns, kind, label


def test_all_rows_labelled_is_an_end(label_session):
    for row in range(N):
        give(label_session, row)
    state = settled(label_session)
    assert state["stop"]
    assert state["queue"] == []


def test_equal_labels_are_no_trouble(label_session):
    give(label_session, 0, "1")
    give(label_session, 20, "1")
    state = settled(label_session)
    assert state["trouble"] == ""
    assert state["value"] == pytest.approx([1.0] * N, abs=1e-6)


def test_a_failed_fit_is_reported_and_labels_go_on(label_session, monkeypatch):
    monkeypatch.setattr(label_session.target, "exact", lambda *_: 1 / 0)
    give(label_session, 0)
    give(label_session, 20)
    with label_session.changed:
        assert label_session.changed.wait_for(lambda: label_session.trouble, 30)
    assert "The labels are stored, but the fit failed: division by zero" in label_session.trouble
    give(label_session, 30)
    assert len(label_session.labels) == 3


def test_classes(tmp_path):
    path = tmp_path / "data.csv"
    write_table(path)
    with closing(make_session(path, classes=["low", "high", "other"])) as session:
        with pytest.raises(ValueError, match="'x' is none of the classes low, high, other"):
            give(session, 0, "x")
        give(session, 2, "low")
        assert session.state("")["value"] is None
        for row in (6, 12):
            give(session, row, "low")
        for row in (25, 30, 37):
            give(session, row, "high")
        state = settled(session)
        assert state["value"][:10] == [0.0] * 10
        assert state["value"][-10:] == [1.0] * 10
        chances = session.about(4)["chances"]
        assert chances[0] > 0.8
        assert chances[2] == 0
        assert sum(chances) == pytest.approx(1)
        seen = {name: (value, note) for name, value, note in state["figures"]}
        assert seen["Left-out labels right"] == ("6 of 6", "labelled rows only, the hard ones")


def test_kinds_of_targets():
    def known(cells, given=None, unlabelled=None):
        return _known(tables.Table("t.csv", {"y": np.array(cells, object)}), "y", given, unlabelled=unlabelled)

    assert known(["", "1.50", "NA"]) == ({1: "1.5"}, None)
    assert known(["", "b", "a"]) == ({1: "b", 2: "a"}, ["a", "b"])
    assert known([np.nan, 3.0], "3,5") == ({1: "3"}, ["3", "5"])
    with pytest.raises(ValueError, match="row 1, is 'c', which is none of --classes a,b"):
        known(["c"], "a,b")
    with pytest.raises(ValueError, match=r"has 1 class \(c\)"):
        known(["c", ""])


def test_marks_of_rows_without_a_class_are_no_classes(capsys):
    """As in Python and in `gpum fit`."""

    def known(cells, given=None, unlabelled=None):
        return _known(tables.Table("t.csv", {"y": np.array(cells, object)}), "y", given, unlabelled=unlabelled)

    assert known(["a", "-1", "b"]) == ({0: "a", 2: "b"}, ["a", "b"])
    assert known(["0", "-1", "1"], "0,1") == ({0: "0", 2: "1"}, ["0", "1"])
    assert known([0.0, -1.0, 1.0], "0,1") == ({0: "0", 2: "1"}, ["0", "1"])
    assert known(["-1", "1", ""], "-1,1") == ({0: "-1", 1: "1"}, ["-1", "1"])  # since it is named
    assert known(["a", "new", "b"], None, "new") == ({0: "a", 2: "b"}, ["a", "b"])
    assert known(["-1", "0"], None) == ({0: "-1", 1: "0"}, None)  # numbers
    assert capsys.readouterr().err == ""
    assert known(["a", "unknown", "b"])[1] == ["a", "b", "unknown"]
    assert "pass --unlabelled unknown" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--unlabelled is for classes"):
        known(["1", "2"], None, "2")


# The server.


def ask(server, address, method="GET", body=None, token=TOKEN, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    all_headers = {"Host": f"127.0.0.1:{server.server_port}", "Content-Type": "application/json"} | headers
    data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
    connection.putrequest(method, f"/{token}/{address}" if token is not None else address, skip_host=True)
    for name, value in {**all_headers, **({"Content-Length": str(len(data))} if data is not None else {})}.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(data)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_page_is_served_with_a_policy(label_server):
    status, body, headers = ask(label_server, "")
    assert status == 200
    assert b"label.js" in body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert label_server.socket.getsockname()[0] == "127.0.0.1"
    setup = json.loads(ask(label_server, "setup")[1])
    assert len(setup["names"]) == N
    assert len(setup["views"][-1]["axes"]) == 3


ELSEWHERE = (
    "../", "..%2f", "../../../../etc/passwd", "%2e%2e/setup", "label.html/../setup", "row/../setup", "picture/../0",
    "picture/0", "row/x", "row/-1", "page.html", "page.js", "data.csv", "//etc/passwd", "state/..", "row/99999999",
)  # fmt: skip


def test_no_other_address_exists(label_server):
    for address in ELSEWHERE:
        assert ask(label_server, address)[0] in (400, 404), address


def _apart(a, b):
    """The distance of two rows by the readings that both have, in proportion."""
    both = ~np.isnan(a - b)
    unit = np.max(np.abs((a - b)[both]))
    return unit * np.sqrt(np.sum(((a - b)[both] / unit) ** 2) * len(a) / both.sum())


@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e100, 0.0), (1.0, 1e9)])
def test_rows_without_common_readings_are_no_neighbours(tmp_path, unit, offset):
    """Every row has an answer, and every row a place in the queue, also where rows have no column in common."""
    path = tmp_path / "data.csv"
    X = write_table(path)
    X = unit * X + offset  # differences of squares of large numbers are not exact
    X[::2, 1:], X[1::2, 0] = np.nan, np.nan
    with closing(make_session(path)) as plain:
        session = Session(replace(plain.work, X=X, start={0: "1", 1: "2", 30: "3"}), plain.target, plain.file)
    with closing(session), serving(session) as server:
        for row, near in ((2, {0, 30}), (3, {1})):
            status, body, _ = ask(server, f"row/{row}")
            assert status == 200, body
            found = json.loads(body)["near"]
            assert {other for other, *_ in found} == near
            for other, *_, away in found:
                assert away == pytest.approx(_apart(X[row], X[other]), rel=1e-5)
        state = json.loads(ask(server, "state")[1])
        assert len(set(state["queue"])) == 5


@pytest.mark.parametrize("kind", ["pixels", "folder", "none"])
def test_rows_and_pictures_that_are_not_there_get_a_sentence(label_table, tmp_path, kind):
    X = tables.read(label_table).matrix(["a", "b", "c"], "")
    Image.new("L", (2, 2)).save(tmp_path / "r3.png")
    names = tables.read(label_table).text("id")
    pictures = {"pixels": Pixels(X, (3, 1)), "folder": Folder(tmp_path, names), "none": None}[kind]
    with closing(make_session(label_table, pictures=pictures)) as session, serving(session) as server:
        assert ask(server, "picture/3")[0] == (404 if kind == "none" else 200)
        (tmp_path / "r3.png").unlink()
        if kind == "folder":
            assert ask(server, "picture/3")[:2] == (404, b"The picture of this row, r3.png, cannot be read any more.")
        for what in ("row", "picture"):
            for row in (N, 10**6, 10**18, "9" * 5000):
                status, body, _ = ask(server, f"{what}/{row}")
                assert status == 404
                assert body.endswith(b"."), body


OWN = {"id": "0123456789", "row": 3, "value": "1", "previous": ""}


STRANGERS = (
    {"token": ""}, {"token": "x" * 43}, {"token": None}, {"token": TOKEN[:-1]}, {"token": "../" + TOKEN},
    {"Host": "evil.example"}, {"Host": None}, {"Host": "127.0.0.1:1"}, {"Host": "127.0.0.1"},
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    {"Origin": "https://127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
)  # fmt: skip


def test_strangers_are_refused(label_server):
    for asked in STRANGERS:
        for address, method, body in (("label", "POST", OWN), ("state", "GET", None), ("", "GET", None)):
            prefix = "/" if asked.get("token", TOKEN) is None else ""
            assert ask(label_server, prefix + address, method, body, **asked)[0] == 403, asked
    assert label_server.session.labels == {}


def test_a_file_may_lead_to_the_page_and_to_nothing_else(label_server):
    """As the browser follows the file that `gpum label` opens: from another site, at the top of a tab."""
    led = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(label_server, "", **led)[0] == 200
    for address, method, changed in (
        ("state", "GET", {}), ("label.js", "GET", {}), ("label", "POST", {}), ("", "POST", {}),
        ("", "GET", {"Sec-Fetch-Dest": "iframe"}), ("", "GET", {"Sec-Fetch-Mode": "cors"}), ("", "GET", {"token": "x"}),
    ):  # fmt: skip
        assert ask(label_server, address, method, OWN if method == "POST" else None, **led | changed)[0] == 403
    assert label_server.session.labels == {}


def test_bad_requests_get_a_sentence_and_change_nothing(label_server):
    own = {"Origin": f"http://127.0.0.1:{label_server.server_port}", "Sec-Fetch-Site": "same-origin"}
    for body, status, words in (
        (b"{", 400, b"not JSON"),
        (b"[]", 400, b"not a JSON object"),
        (b"[" * 9000, 400, b"not JSON"),
        ({**OWN, "id": "a b c d e f"}, 400, b"its own id"),
        ({**OWN, "id": 7}, 400, b"its own id"),
        ({**OWN, "value": "abc"}, 400, b"'abc' is not a number"),
        ({**OWN, "value": {"a": 1}}, 400, b"is not a number"),
        ({**OWN, "row": 1e9}, 400, b"no row"),
        ({**OWN, "previous": "4"}, 409, b"has no label any more"),
        (b" " * 20_000, 413, b"at most"),
    ):
        found = ask(label_server, "label", "POST", body, **own)
        assert found[0] == status, body
        assert words in found[1]
    assert ask(label_server, "label", "POST", OWN, **{"Content-Type": "text/plain"}, **own)[0] == 415
    assert ask(label_server, "label", "POST", None, **own)[0] == 411
    assert ask(label_server, "nothing", "POST", OWN, **own)[0] == 404
    assert ask(label_server, "label", "PUT", OWN, **own)[0] == 501
    assert label_server.session.labels == {}
    status, body, _ = ask(label_server, "label", "POST", OWN, **own)
    assert (status, json.loads(body)["labels"]) == (200, [[3, "1"]])


def test_idle_connections_keep_nobody_out(label_server):
    """Programs that connect and send no token take neither threads without end nor the place of the page."""
    before, idle = threading.active_count(), []
    try:
        for number in range(100):
            idle.append(socket.create_connection(("127.0.0.1", label_server.server_port), timeout=5))
            if number % 2:
                idle[-1].sendall(b"GET / HTTP/1.1\r\nHost:")  # a request that does not end
        start = time.monotonic()
        assert ask(label_server, "state")[0] == 200
        assert time.monotonic() - start < 2
        assert threading.active_count() - before <= 40
    finally:
        for connection in idle:
            connection.close()


@contextmanager
def page_connections(server, number):
    """Connections that stay open between requests, as those of a browser."""
    opened = [http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5) for _ in range(number)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()


def status_on(connection):
    connection.request("GET", f"/{TOKEN}/setup")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_connections_with_the_token_are_not_closed_for_others(label_server):
    with page_connections(label_server, server.CONNECTIONS) as pages, page_connections(label_server, 1) as further:
        assert {status_on(page) for page in pages} == {200}
        with pytest.raises(ConnectionError):
            status_on(further[0])
        opened = [page.sock for page in pages]
        assert {status_on(page) for page in pages} == {200}
        assert [page.sock for page in pages] == opened
    assert ask(label_server, "setup")[0] == 200


def test_who_sends_no_token_is_not_waited_for(label_server, monkeypatch):
    """A silent connection is closed after seconds; one that has sent the token may be silent for longer."""
    assert server._Handler.timeout <= 5
    monkeypatch.setattr(server._Handler, "timeout", 0.2)
    address = "127.0.0.1", label_server.server_port
    with page_connections(label_server, 1) as (page,), socket.create_connection(address, timeout=5) as silent:
        assert status_on(page) == 200
        opened = page.sock
        assert silent.recv(1) == b""  # it was closed
        time.sleep(0.3)
        assert status_on(page) == 200
        assert page.sock is opened


def test_news_come_to_who_waits(label_server):
    version = json.loads(ask(label_server, "state")[1])["version"]
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(json.loads(ask(label_server, f"state?version={version}")[1]))
    )
    waiting.start()
    give(label_server.session, 7)
    waiting.join(10)
    assert found[0]["labels"] == [[7, truth(7)]]


# The command.


def command(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_fit_reads_the_labels_and_export_writes_them(label_table):
    with closing(make_session(label_table)) as session:
        for row in range(0, N, 5):
            give(session, row)
    fit = ["fit", label_table, "--target", "y", "--index", "id", "--geometry", "graph", "--smoothness", "heat"]
    result = command(*fit, "--out", label_table.parent / "m.gpum")
    assert result.exit_code == 0, result.output
    assert "labels from data.csv.labels.csv: 8 of y." in result.stderr
    assert "y known for 8." in result.output
    result = command("label", label_table, "--target", "y", "--export", label_table)
    assert result.exit_code == 0, result.output
    assert "with 8 labels of y" in result.output
    result = command("label", label_table, "--target", "y", "--export", label_table)
    assert "with 0 labels of y" in result.output
    assert tables.read(label_table).numbers("y", "")[5] == float(truth(5))


LABEL = ("--target", "y", "--index", "id", "--geometry", "graph")


@pytest.fixture
def started(monkeypatch):
    """`gpum label`, stopped as soon as it serves; its result, and what the browser and the server got."""
    seen = {}

    def browse(address):
        seen["argument"] = address
        if address.startswith("file:"):
            seen["path"] = path = Path(url2pathname(urlsplit(address).path))
            seen["text"], seen["mode"] = path.read_text(), path.stat().st_mode & 0o777
        return True

    def serve(server, poll_interval):
        seen.update(address=server.address, token=server.token, state=server.session.state(""))
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr(LabelServer, "serve_forever", serve)
    return lambda table, *more: (command("label", table, *LABEL, *more), seen)


def test_the_token_is_no_argument_of_the_browser(label_table, started):
    """Arguments of programs are visible to everyone on the machine; a private file leads to the page instead."""
    before = set(label_table.parent.iterdir())
    result, seen = started(label_table)
    assert result.exit_code == 0, result.output
    assert seen["token"] not in seen["argument"]
    assert f"url={seen['address']}" in seen["text"]
    assert seen["mode"] == 0o600
    assert not seen["path"].exists()
    left = {path.name for path in set(label_table.parent.iterdir()) - before}
    assert left == {"data.csv.labels.csv", ".data.csv.label-address"}


def test_a_port_that_another_program_took_may_have_shown_it_the_token(label_table, started):
    """A page still open asks there, with the token in its address: the next page has another token."""
    _, seen = started(label_table)
    first = seen["token"]
    port = urlsplit(seen["address"]).port
    with socket.create_server(("127.0.0.1", port)):
        _, seen = started(label_table)
    assert seen["token"] != first
    assert urlsplit(seen["address"]).port != port
    assert started(label_table)[1]["token"] == seen["token"] != first


def test_a_second_interrupt_says_where_the_labels_are(label_table, started, monkeypatch):
    with closing(make_session(label_table)) as session:
        give(session, 3)
    close = Session.close

    def impatient(session):
        close(session)
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "close", impatient)
    result, _ = started(label_table)
    assert result.exit_code == 130
    assert "Interrupted while ending: 1 label in " in result.stderr
    assert "nothing was written" not in result.output


def test_a_new_start_knows_the_labels_in_the_file(label_table, started):
    with closing(make_session(label_table, start={0: "5"})) as session:
        for row in range(12):
            give(session, row)
    table = tables.read(label_table)
    table.columns["y"][[0, 20]] = "5", "7"  # one of them beside a label in the file
    tables.write(label_table, table.columns)
    result, seen = started(label_table)
    assert "y, a number, is known for 13." in result.output
    assert len(seen["state"]["labels"]) == 13


DIGITS = "0,1,2,3,4,5,6,7,8,9"
FIT = ("--target", "y", "--index", "id", "--geometry", "graph", "--smoothness", "heat", "--quiet")


@pytest.fixture
def digits(tmp_path):
    """A table whose labels are classes that look like numbers."""
    path = tmp_path / "data.csv"
    write_table(path)
    with closing(make_session(path, classes=DIGITS.split(","))) as session:
        for row in range(0, N, 4):
            give(session, row, "3" if row < N / 2 else "8")
    return path


@pytest.mark.parametrize("where", ["beside", "in the table", "elsewhere"])
def test_classes_stay_classes_in_a_fit(digits, where):
    """The file of labels remembers that they are, also when they are in the table, or in a copy of it."""
    path = digits
    if where != "beside":
        path = digits if where == "in the table" else digits.with_name("out.csv")
        assert command("label", digits, "--target", "y", "--export", path).exit_code == 0
    result = command("fit", path, *FIT, "--out", path.with_name("m.gpum"))
    assert result.exit_code == 0, result.output
    assert f"y is a class, one of {listed(DIGITS.split(','))}, as {path.name}.labels.csv says." in result.stderr
    found = GPUMClassifier.load(path.with_name("m.gpum"))
    assert found.classes_.tolist() == ["3", "8"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--likelihood", "poisson"],
            "--likelihood is for numbers, but the labels in data.csv.labels.csv say that 'y' ",
        ),
        (["--angle", "360"], "--angle is for numbers, but the labels"),
        (["--target", "a"], "one target, but --target names y, a; fit them one by one"),
    ],
)
def test_options_that_contradict_the_labels_are_refused(digits, options, words):
    result = command("fit", digits, *FIT, *options, "--out", digits.with_name("m.gpum"))
    assert result.exit_code == 2, result.output
    assert words in result.stderr


def test_numbers_stay_numbers_in_a_fit(label_table):
    with closing(make_session(label_table)) as session:
        for row in range(0, N, 4):
            give(session, row, "3")
    result = command("fit", label_table, *FIT, "--classes", "--out", label_table.with_name("m.gpum"))
    assert result.exit_code == 2, result.output
    assert "--classes is given, but the labels in data.csv.labels.csv say that 'y' is a number; " in result.stderr


def test_a_new_start_knows_the_classes(digits, started):
    result, _ = started(digits)
    assert f"y, one of {listed(DIGITS.split(','))}, is known for 10." in result.output, result.output
    result, _ = started(digits, "--classes", "3,8,none")  # others that have all labels among them
    assert "y, one of 3, 8, none, is known for 10." in result.output
    assert LabelFile(beside(digits)).kind("y").classes == ("3", "8", "none")
    result, _ = started(digits, "--classes", "8,9")
    assert result.exit_code == 2
    assert "data.csv.labels.csv has the label '3' for r0, which is none of the classes 8, 9" in result.stderr


def test_labels_that_were_all_taken_back_say_nothing(label_table, started):
    with closing(make_session(label_table)) as session:
        first = give(session, 3)
        assert session.file.kind("y").classes is None
        session.undo(new_id(), first)
        assert session.file.kind("y") is None
    result, _ = started(label_table, "--classes", "a,b")
    assert "y, one of a, b, is known for 0." in result.output


def test_an_export_never_hides_labels_of_another_table(digits):
    other = digits.with_name("out.csv")
    write_table(other)
    with closing(make_session(other)) as session:
        give(session, 3)
    before = other.read_bytes(), beside(other).read_bytes()
    result = command("label", digits, "--target", "y", "--export", other, "--force")
    assert result.exit_code == 2, result.output
    assert "out.csv.labels.csv has labels of y that are not in out.csv; " in result.stderr
    assert (other.read_bytes(), beside(other).read_bytes()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "Y"], "did you mean 'y'?"),
        (["--target", "y", "--index", "id", "--images", "nowhere"], "which is no folder"),
        (["--target", "y", "--index", "id", "--image-shape", "2x2"], "4 pixels, but there are 3 feature columns"),
        (["--target", "y", "--index", "id", "--images", ".", "--image-shape", "3x1"], "both given"),
        (["--target", "y", "--index", "id", "--classes", "a"], "has 1 class"),
        (["--target", "y", "--export", "other.csv"], "no labels to export"),
        (["--target", "y"], "column 'id' of data.csv holds text: 40 different words"),
    ],
)
def test_bad_options_get_a_sentence(label_table, arguments, words):
    result = command("label", label_table, *arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_rows_that_were_projected_afterwards_are_predicted_too():
    """Above 3 000 rows the surface is learned from a subset of them."""
    X = np.random.default_rng(0).uniform(0, 1, (3100, 2))
    model = GPUMRegressor(geometry="flat", smoothness="heat", warm_start=True, random_state=0)
    y = np.full(len(X), np.nan)
    y[[0, -1]] = 0.0, 1.0
    target = Numbers(model.fit(X, y), X)
    labels = {row: repr(float(X[row, 0])) for row in range(0, 3100, 100)}
    quick, exact = target.quick(labels, None), target.exact(labels, lambda: False)
    for belief in (quick, exact):
        assert len(belief.value) == len(X)
        assert np.sqrt(np.mean((belief.value - X[:, 0]) ** 2)) < 0.05


def test_a_table_with_gaps_commas_and_another_encoding(tmp_path, monkeypatch):
    """What `gpum fit` reads, `gpum label` reads too; labels go back into the table as it writes numbers."""
    path = tmp_path / "data.csv"
    write_table(tmp_path / "plain.csv")
    _, *lines = (tmp_path / "plain.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    cells[3][1], cells[4][2] = "", "100"  # a gap, and the code of one
    text = "\n".join(["größe;a;b;c;y", *(";".join(row).replace(".", ",") for row in cells)]) + "\n"
    path.write_bytes(text.encode("latin-1"))
    seen = {}

    def serve(data, table, target, X, used, names, known, classes, pictures, file, *rest):
        seen["X"] = X
        model = learned.learn(GPUMRegressor(**FAST), X, learned.beside(data), like=data)
        work = Work(data, table, target, X, used, names, known, pictures)
        with closing(Session(work, Numbers(model, X), file)) as session:
            setup(session)
            for row in (3, 4, 30):
                give(session, row)

    monkeypatch.setattr(sys.modules["gpum.app.cli.label"], "_serve", serve)
    read = ["--decimal", ",", "--encoding", "latin-1"]
    result = command("label", path, "--target", "y", "--index", "größe", "--missing", "100", *read)
    assert result.exit_code == 0, result.output
    assert np.isnan(seen["X"]).sum() == 2
    assert np.isnan(seen["X"][3, 0])
    assert np.isnan(seen["X"][4, 1])
    result = command("label", path, "--target", "y", *read, "--export", path)
    assert "with 3 labels of y" in result.output
    assert path.read_bytes().decode("latin-1").splitlines()[4].endswith(";" + truth(3).replace(".", ","))
    table = tables.read(path, decimal=",", encoding="latin-1")
    assert table.numbers("y", "")[30] == float(truth(30))
    result = command("label", path, "--target", "y")
    assert result.exit_code == 2
    assert "--encoding" in result.stderr


@pytest.mark.parametrize("most", [1000, 60])
def test_the_map_of_a_graph_shows_its_clusters_apart(monkeypatch, most):
    """Also where some rows only are embedded, and the others are placed between them."""
    monkeypatch.setattr(maps, "EMBEDDED", most)
    rng = np.random.default_rng(0)
    kind = np.arange(120) % 6
    X = 4 * rng.normal(size=(6, 8))[kind] + 0.3 * rng.normal(size=(120, 8))
    model = GPUMClassifier(geometry="graph", warm_start=True).fit(X, np.where(np.arange(120) < 6, kind, -1))
    found = views.views(model, X, ["x"] * 8, Classes(model, X, list("012345")).candidate_set)
    assert [view["title"] for view in found] == ["map (graph of neighbours)", "data, seen along three main directions"]
    drawn = np.array(found[0]["axes"]).T
    assert drawn.shape == (120, 2)
    nearest = np.argsort(((drawn[:, None] - drawn) ** 2).sum(-1), 1)[:, 1:6]
    assert (kind[nearest] == kind[:, None]).mean() > 0.8  # by chance 0.16


def test_a_graph_of_few_rows_has_no_map():
    X = np.random.default_rng(0).normal(size=(8, 3))
    model = GPUMClassifier(geometry="graph", warm_start=True).fit(X, np.arange(8) % 2)
    found = views.views(model, X, ["x"] * 3, Classes(model, X, ["0", "1"]).candidate_set)
    assert [view["title"] for view in found] == ["data"]


def test_the_map_of_a_graph_shows_a_curve_as_one():
    t = np.linspace(0, 3, 80)
    X = np.stack([np.cos(t), np.sin(t), t], 1) + 0.01 * np.random.default_rng(0).normal(size=(80, 3))
    model = GPUMRegressor(geometry="graph", smoothness="heat", warm_start=True)
    model.fit(X, np.where(np.arange(80) % 8 == 0, t, np.nan))
    drawn = np.array(views.views(model, X, ["x"] * 3, Numbers(model, X, ["x"] * 3).candidate_set)[0]["axes"]).T
    assert trustworthiness(X, drawn, n_neighbors=5) > 0.95  # 1: no neighbour on the map is far along the curve
