"""The scripts of benchmarks/ that no other test runs."""

import ast
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from gpum import Priors
from gpum.inference import classes, decisions, gp

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import sensitivity  # noqa: E402


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_names_of_the_library_exist(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    for node in imports:
        if node.module and node.module.split(".")[0] == "gpum":
            module = importlib.import_module(node.module)
            missing = [one.name for one in node.names if not hasattr(module, one.name)]
            for name in missing:  # a module of a folder
                importlib.import_module(f"{node.module}.{name}")


def test_one_number_of_the_priors_is_changed():
    default, every = Priors(), sensitivity.changes(False)
    fields = {"noise", "noise_of_copies", "signal", "length_scale", "geometry", "evidence_power"}
    seen = set()
    for name, changed in every.items():
        other = [field for field in fields if getattr(changed(2.0), field) != getattr(default, field)]
        assert len(other) == 1, name
        assert changed(0.5) != changed(2.0), name
        seen |= set(other)
    assert seen == fields  # every prior is there
    assert np.isclose(10 ** (every["noise"](2.0).noise[0][1] - default.noise[0][1]), 2)
    assert set(sensitivity.changes(True)) < set(every)


def test_changes_of_scores(monkeypatch):
    """A plane's prior of the signal matters for few labels, the weight of charts does not: there are none."""
    rng, every = np.random.default_rng(0), sensitivity.changes(False)
    some = {name: every[name] for name in ("geometry: chart", "signal: rate")}
    monkeypatch.setattr(sensitivity, "changes", lambda classes: some)
    X = rng.uniform(-1, 1, (40, 2))
    rows = dict(sensitivity.sensitivity(sensitivity.Task("plane", X, X @ [1.0, 2.0], [np.arange(10)])))
    assert set(rows) == {"default", *(f"{name} × {by}" for name in some for by in ("0.5", "2"))}
    assert rows["geometry: chart × 2"] == "+0.000 (+0.0 %)"
    assert rows["signal: rate × 2"] != "+0.000 (+0.0 %)"


def test_every_decision_has_its_line_and_is_changed_where_it_is_used():
    source = Path(decisions.__file__).read_text()
    named = {name for names in sensitivity.NUMBERS.values() for name in names.split()}
    assert named <= {name for name in vars(decisions) if name.isupper()}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            line = source.splitlines()[node.lineno - 2]
            assert line.startswith("# "), line
            assert line.endswith("]"), line
    true = sensitivity.changed("KEEP", 2.0)
    assert gp.KEEP == classes.KEEP == 2 * true[decisions]
    for module, value in true.items():
        module.KEEP = value
    assert gp.KEEP == classes.KEEP == decisions.KEEP == true[decisions]
