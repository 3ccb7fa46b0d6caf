"""The README's code runs, quickly with fewer rows; slow tests compare its numbers with what the code and demo give."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpum.cli import app

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
ROWS = "n_unlabeled=450"


def run(block):
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so few rows are no surface
def test_readme_code_runs():
    assert BLOCKS
    assert ROWS in BLOCKS[0]
    for block in BLOCKS:
        run(block.replace(ROWS, "n_unlabeled=40"))


@pytest.mark.slow
def test_readme_code_gives_the_figure_that_it_tells():
    printed = float(re.search(r"# (0\.\d+); the target", BLOCKS[0]).group(1))
    found = run(BLOCKS[0])
    error = np.sqrt(np.mean((found["mean"] - found["cloud"].y_true) ** 2))
    assert round(error, 2) == printed


@pytest.mark.slow
def test_the_table_is_that_of_the_demo(tmp_path):
    said = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)]).output
    printed = re.findall(r"^\| GP[^|]*\| (0\.\d+) \| ([\d.]+%) \|$", TEXT, re.MULTILINE)
    assert len(printed) == 3
    assert re.findall(r"│ +(0\.\d+) │ +([\d.]+%) │", said) == printed
