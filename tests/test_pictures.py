"""A folder of pictures is a table: it is labelled, fitted and predicted."""

import sys
from contextlib import closing

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gpum import GPUMClassifier, GpumError
from gpum.app.cli import app
from gpum.app.labelling.pictures import Folder
from gpum.app.labelling.session import Session, Work
from gpum.app.labelling.views import setup
from gpum.app.tables import folder, tables
from gpum.estimators import learned
from gpum.tools import Classes

N = 16


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def save(path, pixels, mode=None):
    Image.fromarray(np.round(255 * pixels).astype(np.uint8), mode).save(path)


@pytest.fixture
def pictures(tmp_path):
    """Pictures with a bright left or right half."""
    rng, home = np.random.default_rng(0), tmp_path / "pictures"
    home.mkdir()
    for k in range(N):
        pixels = 0.2 * rng.random((6, 8))
        pixels[:, slice(0, 4) if k % 2 else slice(4, 8)] += 0.7
        save(home / f"p{k:02d}.png", pixels)
    (home / "readme.txt").write_text("not a picture")
    return home


def test_from_a_folder_to_predictions(pictures, tmp_path, monkeypatch):
    seen = {}

    def serve(
        data, table, target, X, used, names, known, classes, pictures, file, quiet, port, browser, settings, read
    ):
        model = learned.learn(GPUMClassifier(geometry="flat", warm_start=True), X, learned.beside(data))
        work = Work(data, table, target, X, used, names, known, pictures, None)
        with closing(Session(work, Classes(model, X, classes), file)) as session:
            seen["setup"] = setup(session)
            for k in range(6):
                session.label(f"{k}" * 8, k, "left" if k % 2 else "right", "")
        seen["picture"] = pictures.get(3)

    monkeypatch.setattr(sys.modules["gpum.app.cli.label"], "_serve", serve)
    found = gpum("fit", pictures, "--target", "side", "--out", tmp_path / "m.gpum")
    assert "label some of the pictures first: gpum label pictures --target side" in found.stderr
    found = gpum("label", pictures, "--target", "side", "--classes", "left,right")
    assert found.exit_code == 0, found.output
    assert seen["setup"]["names"] == [f"p{k:02d}.png" for k in range(N)]
    assert seen["setup"]["pictures"] == "files"
    assert seen["picture"] == ("image/png", (pictures / "p03.png").read_bytes())
    assert (tmp_path / "pictures.labels.csv").exists()

    model, out = tmp_path / "m.gpum", tmp_path / "p.csv"
    found = gpum("fit", pictures, "--target", "side", "--out", model, "--geometry", "flat", "-q")
    assert found.exit_code == 0, found.output
    found = gpum("predict", model, pictures, "--out", out, "-q")
    assert found.exit_code == 0, found.output
    predicted = tables.read(out)
    assert predicted.text("picture") == [f"p{k:02d}.png" for k in range(N)]
    assert predicted.text("side") == ["left" if k % 2 else "right" for k in range(N)]


def test_pixels_are_those_of_the_pictures(tmp_path):
    grey = np.arange(12).reshape(3, 4) / 11
    save(tmp_path / "a.png", grey)
    block = folder.read(tmp_path)
    names, columns = block.names, block.columns
    assert names == ["picture", *(f"pixel_{k + 1}" for k in range(12))]
    assert np.allclose([column[0] for column in columns[1:]], np.round(255 * grey).ravel() / 255, atol=1e-12)
    save(tmp_path / "b.jpg", np.ones((70, 50, 3)))  # another size, in colours
    block = folder.read(tmp_path)
    names, columns = block.names, block.columns
    assert len(names) == 1 + 3 * folder.SIDE**2
    assert np.allclose([column[1] for column in columns[1:]], 1.0)
    assert columns[0].tolist() == ["a.png", "b.jpg"]


def test_a_large_picture_is_averaged_not_sampled(tmp_path):
    pixels = np.indices((128, 128)).sum(0) % 2  # a chessboard, whose blocks have the mean 1/2
    save(tmp_path / "a.png", pixels)
    columns = folder.read(tmp_path).columns
    assert np.allclose([column[0] for column in columns[1:]], 0.5, atol=1 / 255)


def test_folders_that_cannot_be_read(tmp_path):
    with pytest.raises(GpumError, match="a folder without pictures"):
        tables.read(tmp_path)
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(GpumError, match=r"a\.png cannot be read as a picture"):
        tables.read(tmp_path)


def test_links_that_lead_out_of_the_folder_are_left_out(pictures, tmp_path):
    save(tmp_path / "secret.png", np.ones((2, 2)))
    (pictures / "link.png").symlink_to(tmp_path / "secret.png")
    assert len(tables.read(pictures)) == N
    assert len(Folder(pictures, [f"p{k:02d}.png" for k in range(N)]).files) == N
