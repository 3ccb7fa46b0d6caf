"""Loaders against small files in the published formats, served over HTTP, and against the real data where it is."""

import hashlib
import io
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from gpum import datasets
from gpum.datasets import coil, wifi
from oracles import interval_kernel, roll_kernel

READINGS = """\
10.5 00:0b:aa 2.0 3.0 -60
10.5 00:02:bb 2.0 3.0 -71
12.0 00:0c:cc 2.5 3.5 -80

12.0 00:02:bb 2.5 3.5 -55
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """A folder and the address that it is served at."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUM_DATA", raising=False)
    return tmp_path / "data"


def publish(monkeypatch, module, web, content, sha256=None):
    folder, address = web
    name = module.SOURCE.name
    (folder / name).write_bytes(content)
    sha256 = sha256 or hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(module, "SOURCE", replace(module.SOURCE, url=f"{address}/{name}", sha256=sha256))


def cat_archive(seed=0):
    """An archive like the published one with random pictures of the cat, and these pictures."""
    pictures = np.random.default_rng(seed).integers(0, 256, (72, 128, 128, 3), dtype=np.uint8)
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("coil-100/convertGroupppm2png.pl", "#!")
        for angle, picture in zip(range(0, 360, 5), pictures, strict=True):
            png = io.BytesIO()
            Image.fromarray(picture).save(png, "png")
            archive.writestr(f"coil-100/obj14__{angle}.png", png.getvalue())
    return packed.getvalue(), pictures


def test_wifi_is_downloaded_parsed_and_stored(web, home, monkeypatch):
    publish(monkeypatch, wifi, web, READINGS.encode())
    found = datasets.fetch_wifi(subset="all", data_home=home)
    nan = np.nan
    np.testing.assert_array_equal(found.rssi_dbm, [[-71, -60, nan], [-55, nan, -80]])  # in order of the address
    np.testing.assert_allclose(found.X[0], [(85 - 71) / 15, (85 - 60) / 15, (85 - 92) / 15])
    np.testing.assert_array_equal(found.y, [[2, 3], [2.5, 3.5]])
    np.testing.assert_array_equal(found.time, [0, 1.5])
    (web[0] / wifi.SOURCE.name).unlink()
    second = datasets.fetch_wifi(subset="all", data_home=home)  # from the folder
    np.testing.assert_array_equal(second.X, found.X)


def test_a_wrong_checksum_is_refused(web, home, monkeypatch):
    publish(monkeypatch, wifi, web, READINGS.encode(), sha256="0" * 64)
    with pytest.raises(ValueError, match="checksum"):
        datasets.fetch_wifi(data_home=home)
    assert not (home / wifi.SOURCE.name).exists()
    home.mkdir(exist_ok=True)
    (home / wifi.SOURCE.name).write_text("10.5 00:0b:aa 2.0 3.0 -60\n")  # a local file that is another
    with pytest.raises(ValueError, match="not the file that was published"):
        datasets.fetch_wifi(data_home=home)


def test_without_network_one_sentence_says_which_file_to_put_where(web, home, monkeypatch):
    publish(monkeypatch, wifi, web, READINGS.encode())
    (web[0] / wifi.SOURCE.name).unlink()
    sentence = r"uw-floor.txt is not in .*data and could not be downloaded .* put the file into (?!.*data_home)"
    with pytest.raises(OSError, match=sentence):  # `gpum reproduce` says it too, whose option is another
        datasets.fetch_wifi(data_home=home)


def test_readings_that_are_cut_off_name_the_line(web, home, monkeypatch):
    publish(monkeypatch, wifi, web, READINGS[:40].encode())
    with pytest.raises(ValueError, match="line 2: expected 'time address x y strength'"):
        datasets.fetch_wifi(data_home=home)


def test_coil_is_downloaded_and_reduced(web, home, monkeypatch):
    content, pictures = cat_archive()
    publish(monkeypatch, coil, web, content)
    found = datasets.fetch_coil(data_home=home)
    assert found.X.shape == (66, 1024)
    np.testing.assert_array_equal(found.angle_deg, np.arange(15, 341, 5))
    np.testing.assert_array_equal(found.images, pictures[3:69])
    corner = np.mean(pictures[3, :4, :4] @ [0.299, 0.587, 0.114])
    assert found.X[0, 0] == pytest.approx(np.rint(corner) / 255)
    np.testing.assert_allclose(found.y * 360, found.angle_deg)
    with ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(home / "elsewhere")
    unpacked = datasets.fetch_coil(subset="all", data_home=home / "elsewhere")
    np.testing.assert_array_equal(unpacked.images, pictures)


def test_an_archive_without_the_cat(web, home, monkeypatch):
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("coil-100/obj1__0.png", b"")
    publish(monkeypatch, coil, web, packed.getvalue())
    with pytest.raises(ValueError, match="does not hold the images obj14__0"):
        datasets.fetch_coil(data_home=home)


def test_the_environment_names_the_folder(home, monkeypatch):
    folder = home / "wifi_uw_floor"
    folder.mkdir(parents=True)
    values = {"time_s": np.arange(3.0), "rssi_dbm": np.full((3, 2), -50.0), "xy": np.ones((3, 2))}
    np.savez(folder / "uw_floor.npz", **values)
    monkeypatch.setenv("GPUM_DATA", str(home))
    assert datasets.fetch_wifi(subset="tour").X.shape == (3, 2)
    np.savez(folder / "uw_floor.npz", xy=np.ones((3, 2)))
    with pytest.raises(ValueError, match="lacks rssi_dbm, time_s"):
        datasets.fetch_wifi()
    with pytest.raises(ValueError, match="subset must be one of"):
        datasets.fetch_wifi(subset="tuor")


def test_the_real_data(real_data):
    readings, cat = datasets.fetch_wifi(data_home=real_data), datasets.fetch_coil(data_home=real_data)
    assert readings.X.shape == (36, 30)
    assert readings.y.shape == (36, 2)
    assert np.isnan(readings.rssi_dbm).mean() == pytest.approx(0.54, abs=0.05)
    assert datasets.fetch_wifi(subset="all", data_home=real_data).X.shape == (394, 30)
    steps = np.linalg.norm(np.diff(cat.X, axis=0), axis=1)
    apart = np.linalg.norm(cat.X[:, None] - cat.X, axis=2) + 1e9 * np.eye(66)
    assert steps.max() < np.median(apart)
    assert np.all(np.abs(apart.argmin(1) - np.arange(66)) == 1)  # the nearest view is the one before or after


def test_the_rolls_kernel_is_the_closed_form(roll):
    starts, targets, times = roll.chart_coords[:3], roll.chart_coords[24:60], [0.5, 20.0]
    kernel = roll.heat_kernel(starts, targets, times)
    for found, t in zip(kernel, times, strict=True):
        for row, start in zip(found, starts, strict=True):
            np.testing.assert_allclose(row, roll_kernel(start, targets, t), atol=1e-12)
    assert interval_kernel(1.0, [1.0], 1e9, 2.0)[0] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="times must be positive"):
        roll.heat_kernel(starts, targets, 0.0)
