"""Sentences of errors: plain numbers, singular and plural, and the class that was called."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import gpum
from gpum import Atlas, BayesianGPLVM, EuclideanGPRegressor, GPUMRegressor, KernelOptions, diagnostics
from gpum.basics.checks import GpumError

X = np.random.default_rng(0).normal(size=(12, 3))
y = X[:, 0]


def regressor(**settings):
    return GPUMRegressor(geometry="flat", smoothness="heat", random_state=0, **settings)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: GPUMRegressor(kernel=KernelOptions(max_time=np.float64(-1))).fit(X, y), "got -1.0;"),
        (lambda: GPUMRegressor(latent_dim=[1, np.int64(-2)]).fit(X, y), "got -2;"),
        (lambda: GPUMRegressor(n_jobs=np.int64(0)).fit(X, y), "got 0;"),
        (lambda: Atlas(np.int64(0)).fit(X), "got 0;"),
        (lambda: BayesianGPLVM(np.int64(7)).fit(X), "latent_dim is 7 but"),
        (lambda: regressor().fit(X, y).predict_quantiles(X, [np.float64(1.5)]), r"got \[1\.5\];"),
        (lambda: diagnostics.leave_one_out(regressor().fit(X, y), np.int64(4)), "output must be 0, got 4;"),
        (
            lambda: EuclideanGPRegressor().fit(np.where(y[:, None] == y[0], np.inf, X), y),
            "has 3 NaN or infinite entries",
        ),
        (lambda: EuclideanGPRegressor().fit(np.where(X[0, 0] == X, np.inf, X), y), "has 1 NaN or infinite entry"),
        (lambda: GPUMRegressor().fit(X), "GPUMRegressor requires y to be passed"),
        (lambda: EuclideanGPRegressor().fit(X, None), "EuclideanGPRegressor requires y to be passed"),
    ],
)
def test_numbers_and_names_are_plain(call, said):
    with pytest.raises(GpumError, match=said) as found:
        call()
    assert "np." not in str(found.value)


def test_sentences_have_no_words_of_the_trade():
    """Notes, warnings and errors are read by people who fit a table."""
    found = []
    for path in (Path(gpum.__file__).parent).rglob("*.py"):
        tree = ast.parse(path.read_text())
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if text and re.search(r"\b(nats|full rank|screened|at the edge|hyperprior)\b", node.value):
                found.append((path.name, node.value))
    assert found == [("fits.py", "bound (nats)")]  # the axis of a figure of latent models
