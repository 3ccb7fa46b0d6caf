"""The pure parts of benchmarks/calibration.py, on quantiles and counts that are known."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "calibration.py"


@pytest.fixture(scope="module")
def script():
    """The script as a module; dataclasses look their module up by its name."""
    spec = importlib.util.spec_from_file_location("calibration", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibration"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["calibration"]


def test_the_right_quantiles_cover_what_they_say(script):
    n = 40_000
    y = np.random.default_rng(0).standard_normal(n)
    quantiles = np.tile(norm.ppf(script.LEVELS), (n, 1))
    for k, fraction in script.inside(quantiles, y).items():
        p = k / 100
        assert abs(fraction - p) < 4 * np.sqrt(p * (1 - p) / n)
    width = np.diff(script.EDGES)
    assert np.all(np.abs(script.pit(quantiles, y) - 1) < 4 * np.sqrt((1 - width) / width / n))


def test_quantiles_of_half_the_width_cover_less_and_crowd_the_ends(script):
    n = 40_000
    y = np.random.default_rng(1).standard_normal(n)
    quantiles = 0.5 * np.tile(norm.ppf(script.LEVELS), (n, 1))
    for k, fraction in script.inside(quantiles, y).items():
        p = 2 * norm.cdf(0.5 * norm.ppf(0.5 + k / 200)) - 1
        assert abs(fraction - p) < 4 * np.sqrt(p * (1 - p) / n)
    end = norm.cdf(0.5 * norm.ppf(0.025))
    assert np.allclose(0.025 * script.pit(quantiles, y)[[0, -1]], end, atol=4 * np.sqrt(end * (1 - end) / n))


def test_each_value_falls_into_its_own_bin(script):
    y = (np.arange(1000) + 0.5) / 1000
    quantiles = np.tile(script.LEVELS, (1000, 1))
    assert np.allclose(script.pit(quantiles, y), 1)
    assert script.inside(quantiles, y) == {50: 0.5, 80: 0.8, 95: 0.95}


@pytest.mark.parametrize(("shape", "p"), [("roll", 3), ("ring", 3), ("sphere", 3), ("sheet", 10)])
def test_functions_on_every_shape_have_unit_scale(script, shape, p):
    rng = np.random.default_rng(2)
    X, u = script.cloud(shape, rng, 50)
    assert X.shape == (50, p)
    f = np.array([script.waves(rng, u.shape[1], 1.0)(u)[0] for _ in range(2000)])
    assert abs(np.var(f) - 2) < 4 * 2 * np.sqrt(2 / len(f))  # a constant of variance 1, and waves of variance 1


def test_a_cell_off_by_more_than_five_points_is_named(script):
    def data_set(rows, n, fraction):
        inside = dict(zip(script.INTERVALS, fraction, strict=True))
        return {"task": "a", "rows": rows, "labels": n, "inside": inside, "rmse": 0.0, "width": 0.0}

    found = [data_set(rows, n, (0.5, 0.8, 0.95)) for rows in ("cloud", "new") for n in script.LABELS for _ in range(2)]
    assert script.table(found, ["a"])[1] == []
    found[0]["inside"][80] = 0.6  # the mean of two sets is now 70
    assert script.table(found, ["a"])[1] == ["a, cloud rows, 5 labels: 70.0 ± 10.0 instead of 80"]
