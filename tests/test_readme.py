"""The README's code runs, quickly with fewer rows; slow tests compare its numbers with what the code and demo give."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpum.app.cli import app

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
ROWS = "n_unlabeled=450"


def run(block):
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_readme_code_runs():
    assert BLOCKS
    assert ROWS in BLOCKS[0]
    for block in BLOCKS:
        run(block.replace(ROWS, "n_unlabeled=100"))


@pytest.mark.slow
def test_readme_code_gives_the_figure_that_it_tells():
    printed = float(re.search(r"# (0\.\d+); the target", BLOCKS[0]).group(1))
    found = run(BLOCKS[0])
    error = np.sqrt(np.mean((found["mean"] - found["cloud"].y_true) ** 2))
    assert round(error, 2) == printed


@pytest.mark.slow
def test_the_table_is_that_of_the_demo(tmp_path):
    """Up to what the linear algebra of another machine changes: tests/test_results.py compares it with its file."""
    said = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)]).output
    printed = re.findall(r"^\| GP[^|]*\| (0\.\d+) \| ([\d.]+)% \|$", TEXT, re.MULTILINE)
    found = re.findall(r"│ +(0\.\d+) │ +([\d.]+)% │", said)
    assert len(printed) == len(found) == 3
    for (error, covered), (error_now, covered_now) in zip(printed, found, strict=True):
        assert float(error_now) == pytest.approx(float(error), rel=0.1)
        assert float(covered_now) == pytest.approx(float(covered), abs=3)
