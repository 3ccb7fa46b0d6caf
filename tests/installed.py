"""Checks of the built wheel and sdist, as `make dist` runs them: `python tests/installed.py dist`.

The wheel is installed alone, with the pins of constraints.txt, into a new environment outside the checkout. There it
fits and predicts with the packages that it names and no other; with the extra `app` the commands run. Nothing of the
checkout can be imported by them.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = """
import numpy as np
import gpum
X = np.random.default_rng(0).normal(size=(30, 2))
y = np.where(np.arange(30) % 2 == 0, X[:, 0], np.nan)
model = gpum.GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
model.save("m.gpum")
assert np.allclose(gpum.GPUMRegressor.load("m.gpum").predict(X + 0.1), model.predict(X + 0.1))
classes = gpum.GPUMClassifier(geometry="graph", random_state=0).fit(X, np.where(np.isnan(y), -1, X[:, 0] > 0))
assert np.allclose(classes.predict_proba(X).sum(1), 1)
curve = np.c_[np.sin(X[:, 0]), np.cos(X[:, 0]), X[:, 0]]
chart = gpum.GPUMRegressor(1, geometry="chart", smoothness="heat", random_state=0).fit(curve, y)
assert chart.predict(curve, return_std=True)[1].shape == (30,)
"""


# Packages of the extras, which nobody has who installs the library alone.
OPTIONAL = (
    "contourpy",
    "h5py",
    "matplotlib",
    "openpyxl",
    "pandas",
    "PIL",
    "plotly",
    "pooch",
    "pyarrow",
    "rich",
    "typer",
)
WITHOUT = f"""
import importlib.util
assert not [name for name in {OPTIONAL!r} if importlib.util.find_spec(name)]
"""


class Failed(Exception):
    """A command did not succeed; the message is what it printed."""


def run(*command, cwd):
    """What a command prints. It sees neither the checkout nor its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    args = [str(word) for word in command]
    done = subprocess.run(args, cwd=cwd, capture_output=True, text=True, timeout=900, env=environment)
    if done.returncode:
        raise Failed(f"{' '.join(args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_contents(wheel, sdist=None):
    """The wheel holds the package with its data files and nothing else; the sdist also tests and documentation."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"gpum/py.typed", "gpum/app/report/page/page.js"} <= set(names), "files of the package are missing"
    strange = [name for name in names if not name.startswith(("gpum/", "gpum-"))]
    assert not strange, f"the wheel holds {strange}"
    if sdist is not None:
        with tarfile.open(sdist) as archive:
            inside = {name.partition("/")[2] for name in archive.getnames()}
        expected = {"pyproject.toml", "LICENSE", "src/gpum/__init__.py", "tests/test_packaging.py", "docs/index.md"}
        assert expected <= inside, f"the sdist lacks {expected - inside}"
        strange = [name for name in inside if name.startswith((".git/", ".venv", "dist/", "build/")) or name == ".git"]
        assert not strange, f"the sdist holds {strange}"


def check_installed(wheel, folder, version):
    """Install the wheel alone in a new environment below `folder`, and use it there."""
    venv.create(folder / "new", with_pip=True)
    programs = folder / "new" / ("Scripts" if os.name == "nt" else "bin")
    python, gpum = programs / "python", programs / "gpum"
    quiet = ("install", "--quiet", "--disable-pip-version-check")
    run(python, "-m", "pip", *quiet, "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    run(python, "-c", WITHOUT + SMOKE, cwd=folder)
    refused = ""
    try:
        run(gpum, "version", cwd=folder)
    except Failed as error:
        refused = str(error)
    assert "pip install 'gpum[app]'" in refused, f"without its extra the command says {refused!r}"
    assert "Traceback" not in refused
    run(python, "-m", "pip", *quiet, "-c", ROOT / "constraints.txt", f"{wheel}[app]", cwd=folder)
    assert run(gpum, "version", cwd=folder).strip() == version
    assert "30" in run(gpum, "info", "m.gpum", cwd=folder)
    assert f"gpum {version}" in " ".join(run(gpum, "info", "--system", cwd=folder).split())
    run(gpum, "report", "m.gpum", "--out", "report.html", cwd=folder)
    assert (folder / "report.html").stat().st_size < 2e6
    run(gpum, "demo", "--quick", "--out", folder / "demo", cwd=folder)
    assert (folder / "demo" / "swiss_roll.png").is_file()


def main(folder):
    """Check what is in a folder of built files."""
    (wheel,), (sdist,) = folder.glob("gpum-*.whl"), folder.glob("gpum-*.tar.gz")
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as new:
        check_installed(wheel, Path(new), wheel.name.split("-")[1])
    print(f"{wheel.name} works in an environment of its own; {sdist.name} is complete.")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
