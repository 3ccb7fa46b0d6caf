"""Model files: whole or not at all, and told apart when they are foreign, truncated, damaged or later."""

import numpy as np
import pytest

from gpum import EuclideanGPRegressor, __version__, files, model_io
from gpum.files import whole
from gpum.files.model_io import Fitted

X = np.random.default_rng(0).normal(size=(30, 2))


@pytest.fixture(scope="module")
def fitted():
    y = np.where(np.arange(30) % 2 == 0, X[:, 0], np.nan)
    model, rows = EuclideanGPRegressor().fit(X, y), [str(k) for k in range(30)]
    return Fitted(model, ["a", "b"], ["y"], X, y[:, None], rows, {"source": "t.csv"})


@pytest.fixture
def path(tmp_path, fitted):
    model_io.save(fitted, tmp_path / "m.gpum")
    return tmp_path / "m.gpum"


def test_a_file_holds_everything(path, fitted):
    found = model_io.load(path)
    assert np.array_equal(found.model.predict(X + 0.1), fitted.model.predict(X + 0.1))
    assert (found.features, found.targets, found.rows, found.about) == (["a", "b"], ["y"], fitted.rows, fitted.about)
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, fitted.y, equal_nan=True)
    assert path.read_bytes().startswith(f"GPUM model, format 1, gpum {__version__}, ".encode())


def test_one_format_for_estimators_too(path, fitted, tmp_path):
    assert np.array_equal(EuclideanGPRegressor.load(path).predict(X), fitted.model.predict(X))
    fitted.model.save(tmp_path / "alone.gpum")
    assert np.array_equal(EuclideanGPRegressor.load(tmp_path / "alone.gpum").predict(X), fitted.model.predict(X))
    with pytest.raises(ValueError, match=r"EuclideanGPRegressor without the names .* EuclideanGPRegressor\.load"):
        model_io.load(tmp_path / "alone.gpum")


def test_truncated_anywhere(path):
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    for size in (1, 10, 25, header - 1, header, header + 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="truncated"):
            model_io.load(path)


def test_damaged_foreign_and_later_files(path):
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    for content, message in [
        (bytes(flipped), "checksum"),
        (whole + b"x", "checksum"),
        (b"", "is empty"),
        (b"a,b\n1,2\n", "not a GPUM model"),
        (b"\x80\x04K\x01.", "not a GPUM model"),
        (whole.replace(b"format 1, gpum 0", b"format 2, gpum 9", 1), r"gpum 9\S* in format 2, .* install a later gpum"),
        (b"GPUM model, format 7, gpum 8.0, written quite differently\n", "gpum 8.0 in format 7"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            model_io.load(path)


def test_nothing_is_unpickled_before_it_is_known_to_be_whole(path, monkeypatch):
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(model_io.joblib, "load", lambda file: pytest.fail("unpickled"))
    with pytest.raises(ValueError, match="truncated"):
        model_io.read(path)


def test_a_whole_file_that_cannot_be_unpickled(path, monkeypatch):
    def fail(file):
        raise ModuleNotFoundError("No module named 'gpum.gone'")

    monkeypatch.setattr(model_io.joblib, "load", fail)
    with pytest.raises(ValueError, match="use the same versions"):
        model_io.load(path)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_a_write_that_fails_leaves_the_old_file(path, stop, monkeypatch):
    before = path.read_bytes()

    def fail(fd):
        raise stop

    monkeypatch.setattr(whole.os, "fsync", fail)  # when all has been written to the new file
    with pytest.raises(stop):
        model_io.write(path, {"another": "object"})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in [
        (tmp_path / "no" / "m.gpum", "there is no folder"),
        (tmp_path / "file" / "m.gpum", "is a file"),
        (tmp_path, "is a folder"),
        (tmp_path / ("m" * 300), "File name too long"),
    ]:
        for call in (files.check_writable, lambda p: model_io.write(p, 1)):
            with pytest.raises(OSError, match=message):
                call(path)
    files.check_writable(tmp_path / "m.gpum")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.gpum").symlink_to(tmp_path / "m.gpum")
    model_io.write(tmp_path / "link.gpum", 5)
    assert (tmp_path / "link.gpum").is_symlink()
    assert model_io.read(tmp_path / "m.gpum") == 5
