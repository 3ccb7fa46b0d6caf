"""The package as others get it: one version everywhere, and a wheel that works by itself in a new environment."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import installed
from gpum import __version__
from gpum.basics.extras import EXTRAS
from oldest import oldest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "packaging", "results", ".github", ".ci")
MADE = ("docs/_build", "docs/api/", "docs/gallery", "__pycache__", ".egg-info")
# Hosts of packages and images, and folders of a machine: neither belongs to the project.
FOREIGN = re.compile(
    r"py[p]i\.org|python[h]osted|ana[c]onda\.|conda-[f]orge|docker\.[i]o|gh[c]r\.io|qu[a]y\.io|index-[u]rl|"
    r"(?<![\w.~>*/-])/(?:home|root|Users|work|opt|mnt|srv)/\w"
)


def texts():
    """Every text file of the project, by name."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    for path in (*paths, *ROOT.glob("[!.]*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and not any(part in name for part in MADE):
            try:
                yield name, path.read_text()
            except UnicodeDecodeError:  # a picture or a model file
                continue


def test_the_citation_and_the_changelog_name_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", text, re.M)[1] == __version__
    assert "2301.06533" in text
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[(\d[\d.]*)\]", changes, re.M)[1] == __version__
    assert set(re.findall(r"^### (\w+)$", changes, re.M)) <= {
        *("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
    }


def test_no_host_of_packages_and_no_folder_of_a_machine():
    found = {name: match[0] for name, text in texts() if (match := FOREIGN.search(text))}
    assert not found


def test_pins_satisfy_the_lower_bounds():
    """constraints.txt pins every dependency, at or above the bound that `make test-oldest` tries."""
    pins = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.M))
    pins = {name.lower(): version for name, version in pins.items()}
    lowest = dict(line.split("==") for line in oldest())
    assert {"numpy", "scipy", "scikit-learn", "jax"} <= set(lowest)
    for name, bound in lowest.items():
        assert _parts(pins[name]) >= _parts(bound), name
    for requirement in PROJECT["optional-dependencies"]["dev"]:
        assert requirement.lower() in pins


def _parts(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def test_the_conda_recipe_lists_the_same_dependencies():
    """Those of the library are installed; those of the app and of plots have their bounds."""
    recipe = (ROOT / "packaging" / "meta.yaml").read_text()
    run, _, optional = recipe.partition("run:")[2].partition("test:")[0].partition("run_constrained:")
    extras = PROJECT["optional-dependencies"]
    conda = {"matplotlib": "matplotlib-base"}
    for needs, requirements in ((run, PROJECT["dependencies"]), (optional, [*extras["app"], *extras["plots"]])):
        listed = set(re.findall(r"^ +- (?!python )(\S+) >=([\d.]+)$", needs, re.M))
        expected = [requirement.split(">=") for requirement in requirements if not requirement.startswith("gpum")]
        assert listed == {(conda.get(name, name), bound) for name, bound in expected}
    assert f'version = "{__version__}"' in recipe


def test_the_library_needs_what_it_computes_with_and_no_more():
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert names == {"jax", "joblib", "numpy", "scikit-learn", "scipy", "threadpoolctl"}
    assert {PROJECT["optional-dependencies"][extra][0] for extra in ("report", "label", "parquet")} == {"gpum[app]"}
    assert set(EXTRAS.values()) <= set(PROJECT["optional-dependencies"])


def test_bug_reports_ask_for_the_system():
    assert "gpum info --system" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug_report.md").read_text()


ALONE = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {installed.OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def alone(program, *args):
    """A Python in which the packages of all extras are missing."""
    return subprocess.run([sys.executable, "-c", ALONE + program, *args], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_library_works_without_any_extra(tmp_path):
    done = alone(
        f"import os; os.chdir({str(tmp_path)!r})\n"
        + installed.SMOKE
        + """
loud = gpum.GPUMRegressor(geometry="flat", verbose=1).fit(X, y)
from gpum import plots
for what in (lambda: plots.plot_relevance(loud), lambda: gpum.datasets.fetch_wifi(data_home="none")):
    try:
        what()
    except gpum.GpumError as error:
        print(error)
""",
    )
    assert done.returncode == 0, done.stderr
    figure, download = done.stdout.splitlines()[-2:]
    assert figure == "a figure needs matplotlib, which is not installed; install it with pip install 'gpum[plots]'"
    assert download.endswith("needs pooch, which is not installed; install it with pip install 'gpum[app]'")


def test_the_command_without_its_extra_says_what_to_install():
    done = alone("import gpum; gpum._command()", "version")
    assert done.returncode == 1
    want = "Error: the command gpum needs typer, which is not installed; install it with pip install 'gpum[app]'\n"
    assert done.stderr == want


@pytest.mark.slow
def test_the_wheel_works_alone(tmp_path):
    """Where no package index answers, the test is skipped."""
    try:
        build = (sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "-w", tmp_path)
        installed.run(*build, cwd=tmp_path)
        (wheel,) = tmp_path.glob("gpum-*.whl")
        installed.check_contents(wheel)
        installed.check_installed(wheel, tmp_path, __version__)
    except installed.Failed as error:
        if re.search("No matching distribution|Could not find a version|Connection|Retrying", str(error)):
            pytest.skip("no package index answers")
        raise
