"""The README's code block runs: quickly with fewer rows, and as it stands with the figure that it tells."""

import re
from pathlib import Path

import numpy as np
import pytest

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
