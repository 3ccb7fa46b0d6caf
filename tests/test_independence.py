"""Tables of independent columns, which have no surface: only flat space is learned."""

import numpy as np
import pytest

from gpum import GPUMClassifier, GPUMRegressor
from gpum.basics.independence import excess, independent

RNG = np.random.default_rng


def box(rng, n, p):
    return rng.uniform(-1, 1, (n, p))


def skewed(rng, n, p):
    return np.exp(rng.standard_normal((n, p))) * 10.0 ** np.arange(p)


def codes(rng, n, p):
    X = rng.standard_normal((n, p))
    X[:, : p // 2] = rng.integers(0, 3, (n, p // 2))
    return X


def roll(rng, n, p):
    angle = rng.uniform(4, 12, n)
    X = np.stack([angle * np.cos(angle), 20 * rng.uniform(size=n), angle * np.sin(angle)], 1)
    return X @ np.linalg.qr(rng.standard_normal((p, p)))[0][:3] + 0.1 * rng.standard_normal((n, p))


def clusters(rng, n, p):
    return 2 * rng.standard_normal((6, p))[rng.integers(0, 6, n)] + 0.5 * rng.standard_normal((n, p))


def correlated(rng, n, p):
    return rng.standard_normal((n, p)) + 0.8 * rng.standard_normal((n, 1))


def ring(rng, n):
    angle = rng.uniform(0, 2 * np.pi, n)
    return 10 * np.stack([np.cos(angle), np.sin(angle)], 1)


def sphere(rng, n):
    X = rng.standard_normal((n, 3))
    return 10 * X / np.linalg.norm(X, axis=1, keepdims=True)


def spiral(rng, n):
    angle = rng.uniform(4, 12, n)
    return np.stack([angle * np.cos(angle), 20 * rng.uniform(size=n), angle * np.sin(angle)], 1)


@pytest.mark.parametrize("n", [100, 400, 2000])
@pytest.mark.parametrize("make", [box, skewed, codes])
def test_independent_columns_are_noticed(make, n):
    for p in (5, 8, 20):
        assert independent(make(RNG(p), n, p), seed=0)


@pytest.mark.parametrize("make", [roll, clusters, correlated])
def test_columns_that_are_tied_are_noticed(make):
    for p in (5, 8, 20):
        assert not independent(make(RNG(p), 400, p), seed=0)


@pytest.mark.parametrize("make", [ring, sphere, spiral])
def test_a_surface_among_columns_of_noise_is_noticed(make):
    """Two or three columns are tied; ranks make the others, which hardly vary, as wide as these."""
    for columns in (7, 40):
        rng = RNG(columns)
        X = np.c_[make(rng, 400), 0.1 * rng.standard_normal((400, columns))]
        assert not independent(X, seed=0)


def test_few_rows_or_columns_are_not_judged():
    assert not independent(RNG(0).standard_normal((99, 8)), seed=0)
    assert not independent(RNG(0).standard_normal((400, 4)), seed=0)
    assert not independent(np.repeat(RNG(0).standard_normal((50, 8)), 10, 0), seed=0)  # copies
    assert not independent(np.c_[RNG(0).standard_normal((400, 4)), np.ones((400, 3))], seed=0)  # constant columns


def test_rows_with_gaps_are_left_out():
    X = RNG(0).standard_normal((400, 6))
    X[:150, 2] = np.nan
    assert independent(X, seed=0)
    X[:, 1] = np.nan
    assert not independent(X, seed=0)


def test_the_excess_is_the_total_correlation_per_column():
    """Of normal columns it is -½ log|R| nats; the estimate is that of the 10th neighbour, whose ball is not small."""
    rng, p, r = RNG(0), 2, 0.9
    L = np.linalg.cholesky(np.full((p, p), r) + (1 - r) * np.eye(p))
    X = rng.standard_normal((4000, p)) @ L.T
    found = p * excess(X, rng)
    assert found == pytest.approx(-0.5 * np.log(1 - r**2), rel=0.1)


def test_a_fit_uses_flat_space_alone_and_says_so():
    rng = RNG(0)
    X = box(rng, 200, 6)
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    y = np.where(rng.permutation(200) < 60, f, np.nan)
    model = GPUMRegressor(random_state=0).fit(X, y)
    assert set(model.geometry_weights_) == {"flat"}
    assert any("independent of each other" in note for note in model.notes_)
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.3 * f.std()


def test_named_geometries_are_learned_all_the_same():
    rng = RNG(0)
    X = box(rng, 120, 5)
    y = np.where(rng.permutation(120) < 30, X[:, 0], np.nan)
    model = GPUMRegressor(random_state=0, geometry=["graph", "flat"]).fit(X, y)
    assert set(model.geometry_weights_) == {"graph", "flat"}
    assert not any("independent of each other" in note for note in model.notes_)


def test_classes_of_independent_columns():
    rng = RNG(0)
    X = box(rng, 150, 5)
    side = (X[:, 0] > 0).astype(int)
    y = np.where(rng.permutation(150) < 40, side, -1)
    model = GPUMClassifier(random_state=0, geometry="average").fit(X, y)
    assert set(model.geometry_weights_) == {"flat"}
    assert np.mean(model.predict(X) == side) > 0.85


def test_other_labels_reuse_the_finding():
    rng = RNG(0)
    X = box(rng, 120, 5)
    model = GPUMRegressor(random_state=0, warm_start=True)
    for column in (0, 1):
        y = np.where(rng.permutation(120) < 30, X[:, column], np.nan)
        assert set(model.fit(X, y).geometry_weights_) == {"flat"}
        assert sum("independent of each other" in note for note in model.notes_) == 1
