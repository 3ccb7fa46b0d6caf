"""Whatever the cloud and the settings: finite answers that agree with each other, or a ValueError with a sentence."""

import contextlib
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpum import (
    Atlas,
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
)
from gpum.gplvm.missing import fill_in

FEW, MANY = 8, int(os.environ.get("GPUM_EXAMPLES", "2000"))
WORD = 4  # words a message has at least
SLOW = pytest.mark.slow


def examples(n):
    """A deadline of a minute for each example: bounded time."""
    return settings(
        max_examples=n, deadline=60_000, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


def _plain(rng, n, p):
    return rng.standard_normal((n, p))


def _curve(rng, n, p):
    t = np.linspace(0, 3, n)
    return np.stack([np.sin((k + 1) * t) for k in range(p)], 1)


def _line(rng, n, p):
    return rng.standard_normal((n, 1)) * rng.standard_normal(p)


def _copies(rng, n, p):
    return rng.standard_normal((max(n // 3, 1), p))[rng.integers(max(n // 3, 1), size=n)]


def _two_pieces(rng, n, p):
    return rng.standard_normal((n, p)) + 1e6 * (np.arange(n) % 2)[:, None]


def _whole_numbers(rng, n, p):
    return rng.integers(-2, 3, (n, p))


def _constant(rng, n, p):
    return np.full((n, p), 3.0)


SHAPES = [_plain, _curve, _line, _copies, _two_pieces, _whole_numbers, _constant]
MEMORY = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "read-only": lambda X: np.frombuffer(np.ascontiguousarray(X, float).tobytes()).reshape(X.shape),
}


@st.composite
def clouds(draw, gaps=False):
    """A cloud of some odd kind, in some kind of memory."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, p = draw(st.integers(3, 24)), draw(st.sampled_from([1, 2, 3, 7]))
    if draw(st.integers(0, 40)) == 0:
        p = 20_000
    X = draw(st.sampled_from(SHAPES))(rng, n, p)
    exponent = draw(st.sampled_from([0, 0, 0, -12, 12, -6, 6]))
    X = X if X.dtype.kind == "i" and exponent == 0 else X * 10.0**exponent
    if gaps and X.dtype.kind == "f" and draw(st.booleans()):
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    kind = draw(st.sampled_from(sorted(MEMORY)))
    return MEMORY[kind](X), rng


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def answered(use):
    """What `use` returns, or None where it says in a sentence why not."""
    try:
        with quiet():
            return use()
    except ValueError as refused:
        error = refused
    assert len(str(error).split()) >= WORD, f"not a sentence: {error}"
    return None


def rows_like(X, rng):
    """Rows of a cloud, rows near it and one far away, as an array."""
    X = np.asarray(X, float)
    spread = float(np.nanmax(np.nanstd(X, axis=0))) or 1.0
    return np.concatenate([X[:3], X[:2] + 0.1 * spread, np.nan_to_num(X[:1]) + 1e4 * spread])


REGRESSORS = {
    "flat": lambda draw: GPUMRegressor(geometry="flat", smoothness=draw(SMOOTH), hyperparameters=draw(HYPER)),
    "graph": lambda draw: GPUMRegressor(geometry="graph", smoothness="heat", max_time=draw(TIMES)),
    "atlas": lambda draw: GPUMRegressor(draw(st.sampled_from([1, 2, 3])), geometry="atlas", smoothness="heat"),
    "euclidean": lambda draw: EuclideanGPRegressor(smoothness=draw(SMOOTH), hyperparameters=draw(HYPER)),
    "laplacian": lambda draw: GraphLaplacianGPRegressor(normalisation=draw(st.sampled_from(["paper", "authors"]))),
    "matern": lambda draw: GraphMaternGPRegressor(n_neighbors=draw(st.sampled_from([1, 2, 3, 50])), smoothness="heat"),
}
SMOOTH = st.sampled_from(["heat", "matern12", "matern32", "matern52", "average"])
TIMES = st.sampled_from([None, 2.0])
HYPER = st.sampled_from(["average", "evidence"])


def regressors_agree_with_themselves(name, data):
    """Finite, and score, cloud, quantiles, covariance and samples say what `predict` says, for every kind of row."""
    X, rng = data.draw(clouds(gaps=name in ("flat", "graph", "atlas")))
    n = len(X)
    y = rng.standard_normal(n) * 10.0 ** data.draw(st.sampled_from([0, -9, 9]))
    y[rng.random(n) < data.draw(st.sampled_from([0.0, 0.5]))] = np.nan
    model = answered(lambda: REGRESSORS[name](data.draw).fit(X, y))
    if model is None:
        return
    rows = rows_like(X, rng)
    rows = pd.DataFrame(rows, columns=X.columns) if isinstance(X, pd.DataFrame) else rows
    with quiet():
        mean, std = model.predict(rows, return_std=True)
        quantiles = model.predict_quantiles(rows, [0.025, 0.5, 0.975])
        same, cov = model.predict(rows, return_cov=True)
        draws = model.sample_y(rows, 400, include_noise=True)
        far = model.far_from_surface(rows)
        whole, own = model.predict_cloud(return_std=True)
    assert np.all(np.isfinite(mean) & np.isfinite(std) & (std >= 0))
    assert np.all(np.isfinite(quantiles))
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    scale = np.nanmax(np.abs(y)) + std.max()
    assert np.allclose(mean, same, rtol=1e-9, atol=1e-9 * scale)
    assert np.allclose(np.sqrt(np.maximum(np.diag(cov), 0)), std, rtol=1e-4, atol=1e-6 * scale)
    assert np.all(np.abs(quantiles[:, 1] - mean) <= std + 1e-9 * scale)  # the median is within one sd of the mean
    # 400 draws of a law whose tails may be heavy: six standard errors.
    assert np.all(np.abs(draws.mean(1) - mean) <= 6 * std / np.sqrt(400) + 1e-9 * scale)
    assert np.all(np.isfinite(whole) & np.isfinite(own))
    first = np.asarray(X, float)[:3]
    assert np.allclose(whole[: len(first)], mean[: len(first)], rtol=1e-6, atol=1e-6 * scale) or _repeats(X)
    if far.any():  # the prior: the same for all, wider than at any label
        assert np.ptp(mean[far]) <= 1e-9 * scale
    known = ~np.isnan(y)
    if known.sum() > 1 and np.ptp(y[known]) > 0:
        with quiet():
            found = model.score(X, y)
        guess = whole[known]
        expected = 1 - np.sum((y[known] - guess) ** 2) / np.sum((y[known] - y[known].mean()) ** 2)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5) or _repeats(X)


def _repeats(X):
    X = np.asarray(X, float)
    return len(np.unique(np.nan_to_num(X), axis=0)) < len(X)


@pytest.mark.parametrize("name", ["flat", "matern"])
@examples(FEW)
@given(data=st.data())
def test_some_clouds_and_regressors(name, data):
    regressors_agree_with_themselves(name, data)


@SLOW
@pytest.mark.parametrize("name", REGRESSORS)
@examples(MANY)
@given(data=st.data())
def test_many_clouds_and_regressors(name, data):
    regressors_agree_with_themselves(name, data)


def classifiers_answer(data):
    X, rng = data.draw(clouds(gaps=True))
    y = rng.integers(-1, data.draw(st.integers(1, 3)), len(X))
    model = answered(lambda: GPUMClassifier(geometry=data.draw(st.sampled_from(["flat", "graph"]))).fit(X, y))
    if model is None:
        return
    rows = rows_like(X, rng)
    rows = pd.DataFrame(rows, columns=X.columns) if isinstance(X, pd.DataFrame) else rows
    with quiet():
        p = model.predict_proba(rows)
        guess = model.predict(rows)
    assert np.all(np.isfinite(p) & (p >= 0))
    assert np.allclose(p.sum(1), 1)
    assert np.array_equal(guess, model.classes_[p.argmax(1)])


@examples(FEW)
@given(data=st.data())
def test_some_clouds_and_classes(data):
    classifiers_answer(data)


@SLOW
@examples(MANY)
@given(data=st.data())
def test_many_clouds_and_classes(data):
    classifiers_answer(data)


def atlases_answer(data):
    X, _ = data.draw(clouds())
    dim = data.draw(st.sampled_from([1, 2, 3]))
    atlas = answered(lambda: Atlas(dim).fit(X))
    if atlas is None:
        return
    pairs = answered(lambda: atlas.eigenpairs(10))
    if pairs is not None:
        assert np.all(np.isfinite(pairs.values) & (pairs.values >= -1e-6 * np.abs(pairs.values).max()))
        assert np.all(np.isfinite(pairs.at(X)))


@examples(FEW)
@given(data=st.data())
def test_some_clouds_and_atlases(data):
    atlases_answer(data)


@SLOW
@examples(MANY)
@given(data=st.data())
def test_many_clouds_and_atlases(data):
    atlases_answer(data)


@examples(40)
@given(data=st.data())
def test_clouds_are_filled_in(data):
    X, _ = data.draw(clouds(gaps=True))
    X = np.array(X, float)
    X = X[~np.isnan(X).all(1)]
    X = X[:, ~np.isnan(X).all(0)] if len(X) > 1 else X
    if len(X) < 3 or np.isnan(X).all(1).any():
        return
    found = fill_in(X)
    seen = ~np.isnan(X)
    assert np.array_equal(found.rows[seen], X[seen])
    assert np.all(np.isfinite(found.rows))
    assert np.all(np.isfinite(found.variance) & (found.variance >= 0))


SETTINGS = {
    "latent_dim": st.sampled_from([0, -1, 1.5, "two", None, [], "average", 1]),
    "geometry": st.sampled_from(["flat", "plane", [], None, ("flat", "graph"), 3]),
    "latent_model": st.sampled_from(["bgplvm", "pca", None, 3]),
    "n_inducing": st.sampled_from([None, 5]),
    "boundary": st.sampled_from(["average", "variance", -1, 0.5, np.nan, "none"]),
    "kernel": st.sampled_from(["auto", "spectral", "heat", None]),
    "smoothness": st.sampled_from(["heat", "rough", None]),
    "hyperparameters": st.sampled_from(["average", "evidence", "map", None]),
    "n_paths": st.sampled_from([1000, 0, -5, 2.5, None]),
    "max_time": st.sampled_from([None, 1.0, 0.0, -1.0, np.inf, "long"]),
    "n_kernel_inducing": st.sampled_from([None, 2, 1, 0, 10.5]),
    "metric_draws": st.sampled_from([0, -1, 1.5]),
}


@examples(60)
@given(data=st.data())
def test_every_setting_is_used_or_refused(data):
    name = data.draw(st.sampled_from(sorted(SETTINGS)))
    chosen = {"geometry": "flat", "smoothness": "heat", name: data.draw(SETTINGS[name])}
    t = np.linspace(0, 1, 12)
    model = answered(lambda: GPUMRegressor(**chosen, random_state=0).fit(np.stack([t, t**2, t**3], 1), t))
    if model is not None:
        assert np.all(np.isfinite(model.transduction_))
