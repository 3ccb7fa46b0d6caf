"""The package as others get it: one version everywhere, and a wheel that works by itself in a new environment."""

import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from gpum import __version__

ROOT = Path(__file__).parents[1]
SMOKE = """
import numpy as np
import gpum
assert gpum.__version__ == {version!r}
X = np.random.default_rng(0).normal(size=(30, 2))
y = np.where(np.arange(30) % 2 == 0, X[:, 0], np.nan)
model = gpum.GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
model.save("m.gpum")
assert np.allclose(gpum.GPUMRegressor.load("m.gpum").predict(X + 0.1), model.predict(X + 0.1))
"""


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", text, re.M)[1] == __version__
    assert "2301.06533" in text


def run(*args, cwd):
    """A command; where no package index answers, the test is skipped."""
    done = subprocess.run([str(a) for a in args], cwd=cwd, capture_output=True, text=True, timeout=900)
    said = done.stdout + done.stderr
    if done.returncode and re.search("No matching distribution|Could not find a version|Connection|Retrying", said):
        pytest.skip("no package index answers")
    assert done.returncode == 0, said
    return said


@pytest.mark.slow
def test_the_wheel_works_alone(tmp_path):
    pins = ROOT / "constraints.txt"
    run(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "-w", tmp_path, cwd=tmp_path)
    (wheel,) = tmp_path.glob("gpum-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"gpum/py.typed", "gpum/report/page/page.js"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs"))]
    venv.create(tmp_path / "new", with_pip=True)
    python = tmp_path / "new" / "bin" / "python"
    run(python, "-m", "pip", "install", "-c", pins, wheel, cwd=tmp_path)
    run(python, "-c", SMOKE.format(version=__version__), cwd=tmp_path)
    assert run(python.parent / "gpum", "version", cwd=tmp_path).strip() == __version__
    assert "30" in run(python.parent / "gpum", "info", "m.gpum", cwd=tmp_path)
