"""Pages that are followed from top to bottom: their Python runs, their commands run and print what the page says."""

import gzip
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from gpum.app.cli import app

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
QUICK = ("--geometry", "flat", "--smoothness", "heat")


def commands(block):
    """The commands of a block, each with the lines that it prints."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, *printed = part.rstrip().splitlines()
        yield shlex.split(command)[1:], printed


def plain(text):
    """Text in which a number is like another, since digits differ between machines, as times do."""
    return " ".join(re.sub(r"(\d+ min )?\d[\d.,]*( ms| s\b)?", "#", text).split())


def missing(expected, output):
    """The first line of the page that was not printed, in its order; None if all were. `…` stands for any lines."""
    rest = [plain(line) for line in output.splitlines()]
    for line in expected:
        if line.strip() != "…" and plain(line) not in rest:
            return line
    return None


def follow(page, compare, names=None):
    """Run a page in the current folder; with `compare` every command as it stands, else quick fits.

    `names` are those that a page before it has defined.
    """
    names = {} if names is None else names
    for language, block in BLOCK.findall((DOCS / page).read_text()):
        if language == "python":
            needed = re.match(r"# needs (\w+)\n", block)
            if needed and find_spec(needed[1]) is None:
                continue
            if not compare:
                block = block.replace("GPUMRegressor(random_state=0)", "GPUMRegressor(**QUICK)")
                names["QUICK"] = {"geometry": "flat", "smoothness": "heat", "random_state": 0}
            exec(compile(block, page, "exec"), names)
            continue
        for command, printed in commands(block):
            quick = command[0] == "fit" and not compare and "--geometry" not in command
            done = CliRunner().invoke(app, [*command, *(QUICK if quick else ())])
            assert done.exit_code == (command[0] == "check" and "In the way:" in printed), done.output
            if compare or command[0] == "check":
                gone = missing(printed, done.stdout + done.stderr)
                assert gone is None, f"{page}: {shlex.join(command)} did not print {gone!r} but\n{done.output}"
    return names


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = gzip.decompress((Path(__file__).parent / "cells.h5ad.gz").read_bytes())
    (tmp_path / "cells.h5ad").write_bytes(cells)
    plt.switch_backend("agg")
    yield tmp_path
    plt.close("all")


def check_homes(names, folder):
    unknown = names["homes"]["price"].isna().to_numpy()
    error = names["mean"][unknown] - names["price"][unknown]
    assert np.sqrt(np.mean(error**2)) < 12
    header, *rows = (folder / "predictions.csv").read_text().splitlines()
    assert header.startswith("nr;price_mean;price_std;price_low95;price_high95;")
    assert len(rows) == 300
    assert (folder / "report.html").exists()


def check_cells(names, folder):
    import h5py

    with h5py.File(folder / "predicted.h5ad") as file:
        assert "pseudotime_mean" in file["obs"]


def check_surfaces(names, folder):
    """The shortest way is along the band: the length of the spiral and its height."""
    turn = np.linspace(0, 4 * np.pi, 10_001)
    along = np.linalg.norm(np.diff(names["band"](turn, 0 * turn), axis=0), axis=1).sum()
    assert names["way"].length == pytest.approx(along, rel=0.01)
    assert names["mesh"].volume == pytest.approx(2 * along, rel=0.01)


PAGES = {
    "my_csv.md": check_homes,
    "known_surfaces.md": check_surfaces,
    "single_cells.md": check_cells,
    "optimisation.md": lambda names, folder: None,  # these assert what matters themselves
    "dates.md": lambda names, folder: None,
    "positive.md": lambda names, folder: None,
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, here):
    PAGES[page](follow(page, compare=False), here)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["my_csv.md", "single_cells.md"])
def test_a_page_prints_what_it_says(page, here):
    PAGES[page](follow(page, compare=True), here)
