"""The tutorial as a notebook: every cell runs in Jupyter, and what a notebook shows of a fit is there."""

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs the extra notebook (make test-all)")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[1]
# What the tutorial does not show: the fitted model by itself, and progress.
MORE = (
    "model.model_",
    "GPUMRegressor(geometry=['graph', 'flat'], random_state=0, verbose=1).fit(X, y);",
)


def notebook_of(script, more=()):
    """A script with cells as a notebook: comments above a cell's code are text."""
    title, *cells = script.split("# %%\n")
    made = [nbformat.v4.new_markdown_cell(title.strip('"\n'))]
    for cell in cells:
        text, code = re.fullmatch(r"((?:#[^\n]*\n)*)(.*)", cell, re.DOTALL).groups()
        made.append(nbformat.v4.new_markdown_cell(re.sub("^# ?", "", text, flags=re.MULTILINE)))
        if code.strip():
            made.append(nbformat.v4.new_code_cell(code.strip()))
    return nbformat.v4.new_notebook(cells=[*made, *map(nbformat.v4.new_code_cell, more)])


def shown(cell, kind):
    """What a cell shows in one format."""
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_tutorial_runs_in_a_notebook(tmp_path):
    book = notebook_of((ROOT / "examples" / "plot_tutorial.py").read_text(), MORE)
    nbclient.NotebookClient(book, timeout=900, kernel_name="python3").execute(cwd=tmp_path)
    nbformat.write(book, tmp_path / "tutorial.ipynb")
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    (estimator,) = [cell for cell in code if cell.source.endswith("\nmodel")]
    model, fit = code[-2:]
    for cell in (estimator, model):
        (page,) = shown(cell, "text/html")
        assert "graph of neighbours" in page
        assert re.search(r"\d+ %", page)
    assert "sk-container" in shown(estimator, "text/html")[0]  # scikit-learn's diagram
    assert sum(len(shown(cell, "image/png")) for cell in code) == 6  # one a step
    (overview,) = [cell for cell in code if "plots.overview" in cell.source]
    assert shown(overview, "image/png")
    progress = str(fit.outputs) + str(book.metadata.get("widgets", ""))
    assert "geometry: flat 1 of 1" in progress  # the bar at its end
    assert "stderr" not in str([output.get("name") for cell in code for output in cell.outputs])
