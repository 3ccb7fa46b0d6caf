"""The pure parts of benchmarks/reliability.py, on classes that are known."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "reliability.py"


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("reliability", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sets(excess, n=400):
    """20 data sets whose rows are right as often as is said, and `excess` more."""
    rng = np.random.default_rng(0)
    said = [rng.uniform(0.5, 1, n) for _ in range(20)]
    return [
        {"shape": "rings", "labels": 1, "p": p, "right": rng.uniform(0, 1, n) < p + excess, "loss": 0.0} for p in said
    ]


def test_what_is_said_is_found_right(script):
    fraction, gap, error = script.reliability(sets(0.0))
    assert fraction.sum() == pytest.approx(1)
    assert np.all(fraction[:5] == 0)
    assert np.all(np.abs(gap[5:]) < 3 * error[5:])
    assert not script.table(sets(0.0))[1]


def test_boasting_is_named(script):
    _, gap, error = script.reliability(sets(-0.2))
    assert np.all(np.abs(gap[5:] + 0.2) < 3 * error[5:])
    off = script.table(sets(-0.2))[1]
    assert sum(line.startswith("rings, 1") for line in off) == 5


def test_every_shape_has_labels_of_each_class(script):
    for shape in script.SHAPES:
        X, y, labelled = script.data(shape, 0)
        assert np.isfinite(X).all()
        for n, rows in labelled.items():
            assert np.all(np.bincount(y[rows]) == n)
            assert len(rows) == n * len(np.unique(y))
