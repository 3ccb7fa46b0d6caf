"""The documentation hangs together: pages, links, names. `make docs` builds it; no Sphinx is needed here."""

import dataclasses
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import gpum
from gpum import Priors, datasets, diagnostics, plots
from gpum.inference import decisions, gp, likelihoods, nearest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
SETTINGS = (DOCS / "settings.md").read_text()
MADE = {"gallery/index"}  # by sphinx-gallery
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def without_code(text):
    return re.sub(r"```.*?```|``.+?``|`[^`\n]+`", "", text, flags=re.DOTALL)


def anchors(text):
    """GitHub's name of each heading of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_a_toctree():
    listed = {
        line.strip()
        for page in PAGES
        for block in TOCTREE.findall(page.read_text())
        for line in block.splitlines()
        if line.strip() and not line.startswith(":")
    }
    assert listed - MADE == {page.stem for page in PAGES} - {"index"}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_resolve(page):
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"\w+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        assert target.is_file(), f"{page.name} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target.read_text()), f"{page.name}: no heading is called {link}"


def public(module):
    return {
        n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__ and n[0] != "_"
    }


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"[\w.]+", (DOCS / "api.md").read_text()))
    missing = {name for name in gpum.__all__ if not {name, f"gpum.{name}"} & listed}
    missing |= {f"datasets.{name}" for name in datasets.__all__} - listed
    missing |= {f"plots.{name}" for name in plots.__all__} - listed
    missing |= {f"diagnostics.{name}" for name in public(diagnostics)} - listed
    assert not missing


def test_every_setting_is_explained():
    assert not [name for name in gpum.GPUMRegressor().get_params() if f"`{name}`" not in SETTINGS]


def test_settings_that_the_command_line_lacks_are_named():
    import typer

    from gpum.app.cli import app

    fit = typer.main.get_command(app).commands["fit"]
    options = {name.removeprefix("--").replace("-", "_") for parameter in fit.params for name in parameter.opts}
    names = {*gpum.GPUMRegressor().get_params(), *gpum.BayesianGPLVM().get_params()}
    names |= {field.name for field in dataclasses.fields(gpum.KernelOptions)}
    (sentence,) = re.findall(r"On the command line `latent_dim` is.*?alone are (.*?)\.\n", SETTINGS, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == names - options - {"random_state", "period", "method"}


def test_modules_named_in_the_pages_exist():
    for page in PAGES:
        for name in set(re.findall(r"`(gpum(?:\.[a-z_]+)+)", page.read_text())):
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError):
                pytest.fail(f"{page.name} names {name}, which does not exist")


def test_priors_on_the_page_are_those_of_the_code():
    page = (DOCS / "regression.md").read_text().replace("−", "-")
    priors = Priors()
    small, large = (f"{weight:g} N({mean:g}, {sd:g})" for weight, mean, sd in priors.noise)
    assert f"log₁₀ r is {small} + {large}" in page
    shape, rate = priors.signal
    assert f"inverse gamma({shape:g}, {rate:g})" in page
    assert f"prior × evidence^{priors.power_of_numbers:g}" in page
    assert f"less than {100 * decisions.LIGHT_GEOMETRY:g} % of the" in page


def test_the_model_on_the_page_is_that_of_the_code():
    page = (DOCS / "model.md").read_text().replace("−", "-")
    priors = Priors()
    assert " + ".join(f"{w:g} N({mean:g}, {sd:g})" for w, mean, sd in priors.noise) in page
    assert "N({:g}, {:g}) | `noise_of_copies`".format(*priors.noise_of_copies[0][1:]) in page
    assert "inverse gamma({:g}, {:g})".format(*priors.signal) in page
    assert f"one of {', '.join(f'{scale:g}' for scale in priors.length_scale)} | `length_scale`" in page
    assert f"$\\gamma$ = {priors.power_of_numbers:g} for numbers and {priors.power_of_classes:g} for classes" in page
    assert f"a grid of {len(gp.RATIOS)} values from {np.log10(gp.RATIOS[0]):g} to {np.log10(gp.RATIOS[-1]):g}" in page
    assert f"with probability {decisions.STUDENT_GROSS:g} one of {len(decisions.STUDENT_SIZES)} values" in page
    assert f"N(0, {decisions.DIMENSION_SD:g}^2)" in page
    assert f"N(0, {decisions.SHARP_SD:g}^2)" in page
    assert f"equal: {', '.join(f'{r:g}' for r in decisions.CLASS_RATIOS)}" in page
    for name in likelihoods.LIKELIHOODS:
        assert f'`"{name}"`' in page


def test_limits_of_labels_on_the_page_are_those_of_the_code():
    page = " ".join((DOCS / "targets.md").read_text().split())
    costly, largest = (f"{n:,}".replace(",", " ") for n in (decisions.COSTLY, int(decisions.LARGEST**0.5)))
    exact = f"{nearest.EXACT:,}".replace(",", " ")
    assert f"Up to {exact} labels kernels of flat space see all of them at once" in page
    assert f"from the {nearest.SEEN} labels that are nearest" in page
    assert f"Above {decisions.SCREEN} labels its settings are compared on {decisions.SCREENED} of them" in page
    assert f"Up to {costly} labels as many of its settings see all labels as {8 * decisions.LARGEST / 1e9:g} GB" in page
    assert f"above {largest} none does" in page
    many, full_rank = (f"{n:,}".replace(",", " ") for n in (nearest.EXACT, decisions.FULL_RANK))
    assert f"Classes: above {many} labels only kernels made of modes" in page
    assert f"without such kernels at most {full_rank} labels" in page
    assert (
        f"Above {decisions.CLASS_SCREEN} labels a part of them compares the settings first, above {many} kernels"
        in (DOCS / "classification.md").read_text()
    )


def test_docstrings_become_text(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    monkeypatch.delitem(sys.modules, "plain_docstrings", raising=False)
    from plain_docstrings import to_rst

    lines = ["K_t of `chart_`.", "", "    a = |b|", "", "Parameters", "----------", "a, b : one", "    two; c : three"]
    expected = [r"K\_t of :py:obj:`chart_`.", "::", "    a = |b|", ".. rubric:: Parameters"]
    assert [line for line in to_rst(lines) if line] == [*expected, "- ``a, b``: one two", "- ``c``: three"]
    two_lines = to_rst(["Parameters", "----------", "a, b,", "    c : one", "    two", "d : three"])
    assert [line for line in two_lines if line][1:] == ["- ``a, b, c``: one two", "- ``d``: three"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so few rows are no surface
def test_code_beside_that_of_other_libraries_runs():
    """The blocks of docs/coming_from.md that begin with `# GPUM`."""
    blocks = re.findall(r"```python\n(# GPUM.*?)```", (DOCS / "coming_from.md").read_text(), re.DOTALL)
    cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=80, random_state=0)
    points = np.random.default_rng(0).uniform((2, 0), (12, 10), (5, 2))
    assert len(blocks) == 4
    for block in blocks:
        names = {"np": np, "X": cloud.X, "y": cloud.y, "X_new": cloud.X[:3], "points": points}
        exec(compile(block, "coming_from.md", "exec"), names)
    assert names["K"].shape == (5, 5)
