"""The latent models as a user meets them."""

import pickle
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gpum import GPLVM, BayesianGPLVM, datasets
from gpum.geometry import evaluate, length, volume

MODELS = [BayesianGPLVM, GPLVM]


def errors_on_the_roll(model, coords, chart):
    """Largest relative error of lengths along the roll and of widths across it, over the grid."""
    rows = np.arange(24, len(coords)).reshape(-1, 10)
    u, z = chart.arc_length(coords[:, 0]), coords[:, 1]
    X = model.latent_

    def worst(paths, truth):
        walked = [sum(length(model.chart_, X[a], X[b]) for a, b in pairwise(path)) for path in paths]
        exact = [abs(truth[path[-1]] - truth[path[0]]) for path in paths]
        return float(np.max(np.abs(np.divide(walked, exact) - 1)))

    return worst(rows.T, u), worst(rows, z)


def small_cloud(n=40, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 3, (n, 2))
    return np.column_stack([t, np.sin(t[:, 0]), np.cos(t[:, 1])]) + 0.01 * rng.standard_normal((n, 4))


def test_the_roll_unrolls(roll, roll_model):
    along, across = errors_on_the_roll(roll_model, roll.chart_coords, roll.chart)
    assert along < 0.02
    assert across < 0.01
    assert roll_model.converged_
    assert roll_model.start_.startswith("isomap")
    assert roll_model.bound_ == pytest.approx(max(h["bound"] for h in roll_model.history_))
    assert roll_model.latent_.shape == roll_model.latent_variance_.shape == (274, 2)
    assert roll_model.ard_[0] >= roll_model.ard_[1]


def test_held_noise_matters(roll, roll_model):
    """The width is not explained away as noise, which is what a free noise does from the start."""
    assert roll_model.noise_std_ < 0.1


def test_transform_places_left_out_rows(roll):
    out = np.random.default_rng(0).permutation(len(roll.X))[: len(roll.X) // 5]
    keep = np.setdiff1d(np.arange(len(roll.X)), out)
    full, part = (BayesianGPLVM(random_state=0).fit(roll.X[rows]) for rows in (slice(None), keep))
    placed, spread = part.transform(roll.X[out], return_std=True)
    assert placed.shape == spread.shape == (len(out), 2)
    assert np.all(spread > 0)

    align = RBFInterpolator(part.latent_, full.latent_[keep])  # from one chart to the other
    error = np.abs(align(placed) - full.latent_[out]) / np.ptp(full.latent_, axis=0)
    assert error.max() < 0.02


@pytest.mark.parametrize("model", MODELS)
def test_transform_of_fitted_rows_is_where_they_are(model):
    S = small_cloud()
    fitted = model(random_state=0).fit(S)
    placed = fitted.transform(S)
    assert np.abs(placed - fitted.latent_).max() < 0.1
    batches = np.concatenate([fitted.transform(S[:7]), fitted.transform(S[7:])])
    np.testing.assert_array_equal(batches, placed)
    with pytest.raises(ValueError, match="S has 0 row"):
        fitted.transform(S[:0])


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_fit_and_pickle(model):
    S = small_cloud()
    a, b = model(random_state=3).fit(S), clone(model(random_state=3)).fit(S)
    np.testing.assert_array_equal(a.latent_, b.latent_)
    c = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(c.chart_.metric([0.1, 0.2]), a.chart_.metric([0.1, 0.2]))
    np.testing.assert_array_equal(a.chart_.boundary.levels(3), b.chart_.boundary.levels(3))


@pytest.mark.parametrize("model", MODELS)
def test_fit_does_not_depend_on_the_workers(model):
    S = small_cloud()
    alone = model(random_state=3, n_jobs=1).fit(S)
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend=backend):
            many = model(random_state=3, n_jobs=2).fit(S)
        np.testing.assert_array_equal(many.latent_, alone.latent_)
        assert many.bound_ == alone.bound_
        assert many.history_ == alone.history_


def test_a_start_does_not_depend_on_the_others():
    """Each start has random numbers of its own, whichever others race."""
    S = small_cloud()
    both, alone = (BayesianGPLVM(starts=s, random_state=0).fit(S) for s in (["pca", "isomap"], "pca"))
    assert [h for h in both.history_ if h["start"] == "pca"][:2] == alone.history_[:2]


def test_gplvm_learns_the_roll(roll):
    model = GPLVM(random_state=0).fit(roll.X)
    along, across = errors_on_the_roll(model, roll.chart_coords, roll.chart)
    assert along < 0.02
    assert across < 0.01
    assert np.all(model.latent_variance_ == 0)


def test_auto_dimension_of_the_roll(roll):
    model = BayesianGPLVM(latent_dim="auto", random_state=0).fit(roll.X)
    assert model.latent_dim_ == 2


def test_auto_dimension_of_a_curve():
    t = np.linspace(0, 1, 60)[:, None]
    S = np.concatenate([np.sin(2 * t), np.cos(2 * t), t, t**2], 1) @ np.random.default_rng(0).normal(size=(4, 8))
    S += 0.01 * np.random.default_rng(1).standard_normal(S.shape)
    model = BayesianGPLVM(latent_dim="auto", random_state=0).fit(S)
    assert model.latent_dim_ == 1
    assert evaluate(model.chart_, "inside", model.latent_).all()
    assert volume(model.chart_) > 0


@pytest.mark.parametrize("q", [1, 3])
def test_other_dimensions(q):
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 1, (60, q))
    S = np.concatenate([t, np.sin(2 * t), t[:, :1] ** 2], 1)
    model = BayesianGPLVM(latent_dim=q, random_state=0).fit(S)
    assert evaluate(model.chart_, "inside", model.latent_).all()
    assert model.chart_.metric_derivative(model.latent_[0]).shape == (q, q, q)


@pytest.mark.parametrize(
    "change",
    [
        lambda S: np.concatenate([S, S[:10], S[:10]]),  # duplicate rows
        lambda S: np.column_stack([S, np.full(len(S), 7.0)]),  # a constant column
        lambda S: (100 * S).astype(int),
        lambda S: S.astype(np.float32),
        lambda S: S.tolist(),
    ],
)
def test_harmless_oddities_fit(change):
    S = change(small_cloud())
    model = BayesianGPLVM(random_state=0).fit(S)
    assert np.all(np.isfinite(model.latent_))
    assert evaluate(model.chart_, "inside", model.latent_).all()


def test_an_unused_dimension_is_reported():
    """One column a thousand times larger than the rest: a line, not a surface. The chart is said to be one."""
    S = small_cloud() * np.array([1e-6, 1, 1e3, 1])
    with pytest.warns(ConvergenceWarning, match="collapses"):
        model = BayesianGPLVM(random_state=0).fit(S)
    assert np.all(np.isfinite(model.latent_))
    assert evaluate(model.chart_, "inside", model.latent_).all()


def test_scaling_is_mapped_back():
    """Lengths are in the units of the data, whatever they are."""
    S = small_cloud()
    small, large = BayesianGPLVM(random_state=0).fit(S), BayesianGPLVM(random_state=0).fit(1000 * S + 5)
    a = length(small.chart_, small.latent_[0], small.latent_[1])
    b = length(large.chart_, large.latent_[0], large.latent_[1])
    assert b == pytest.approx(1000 * a, rel=1e-3)
    by_column = BayesianGPLVM(random_state=0, scale_columns=True).fit(S * [1, 1, 1, 1e-3])
    image = by_column.chart_.mean(by_column.latent_[0])
    np.testing.assert_allclose(image, (S * [1, 1, 1, 1e-3])[0], atol=0.1)


def test_convergence_is_reported():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = BayesianGPLVM(random_state=0, max_iter=3).fit(small_cloud())
    assert not model.converged_


def test_interrupt_keeps_what_was_reached(monkeypatch):
    from gpum.gplvm import optimise

    rounds = {"n": 0}
    true_round = optimise._round

    def stop_later(*args):
        rounds["n"] += 1
        if rounds["n"] > 4:
            raise KeyboardInterrupt
        return true_round(*args)

    monkeypatch.setattr(optimise, "_round", stop_later)
    model = BayesianGPLVM(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(small_cloud())
    assert not model.converged_
    assert np.all(np.isfinite(model.transform(small_cloud())))


BAD = [
    ({}, np.full((30, 3), np.nan), "S has 90 NaN"),
    ({}, np.where(np.eye(30)[:, :3] > 0, np.inf, 1.0), "S has 3 NaN or infinite"),
    ({}, np.ones((1, 3)), "S has 1 row"),
    ({}, np.ones((30, 3)), "identical rows"),
    ({}, np.ones(30), "two dimensions"),
    ({}, [["a", "b", "c"]] * 30, "numbers only"),
    ({}, np.array([[1.0, "x", 2.0]] * 30, dtype=object), "numbers only"),
    ({"latent_dim": 4}, None, "latent_dim is 4 but S has only 4"),
    ({"latent_dim": 0}, None, "latent_dim must be an integer of at least 1, got 0"),
    ({"latent_dim": 1.5}, None, "latent_dim must be"),
    ({"latent_dim": "atuo"}, None, "latent_dim must be"),
    ({"n_inducing": 41}, None, "n_inducing must be an integer from 1 to 40, got 41"),
    ({"boundary": "varience"}, None, "did you mean 'variance'"),
    ({"boundary_level": -1}, None, "boundary_level must be a non-negative"),
    ({"starts": "isomop"}, None, "did you mean 'isomap'"),
    ({"starts": [np.zeros((3, 2))]}, None, "starts must have shape"),
    ({"max_iter": 0}, None, "max_iter must be"),
    ({"tol": 0.0}, None, "tol must be a positive"),
]


@pytest.mark.parametrize(("options", "S", "message"), BAD)
def test_bad_input_is_refused_at_once(options, S, message, monkeypatch):
    monkeypatch.setattr(BayesianGPLVM, "_race", lambda *a: pytest.fail("work was done"))
    with pytest.raises(ValueError, match=message):
        BayesianGPLVM(**options).fit(small_cloud() if S is None else S)


def test_bad_rows_at_transform(roll_model):
    with pytest.raises(NotFittedError):
        BayesianGPLVM().transform(small_cloud())
    with pytest.raises(ValueError, match="has 4 columns, but the model was fitted with 3"):
        roll_model.transform(small_cloud())


def test_given_start_is_used():
    S = small_cloud()
    X = S[:, :2] - S[:, :2].mean(0)
    model = BayesianGPLVM(starts=[X], random_state=0).fit(S)
    assert model.start_ == "given"
    assert {h["start"] for h in model.history_} == {"given"}


def test_an_array_may_stand_beside_words():
    S = small_cloud()
    X = S[:, :2] - S[:, :2].mean(0)
    for starts, n in (([X, "pca"], 2), (X, 1), (X.tolist(), 1), ("pca", 1), ([X, X], 2)):
        model = BayesianGPLVM(starts=starts)
        model._check(S)
        assert len(model._start_list()) == n


@pytest.mark.slow
@pytest.mark.parametrize("n", [250, 450, 800])
@pytest.mark.parametrize("seed", range(5))
def test_swiss_roll_tasks(tasks, n, seed):
    data = np.load(tasks / f"swissroll_{n}.npz")
    model = BayesianGPLVM(random_state=seed).fit(data["S"])
    chart = datasets.SwissRoll()
    along, across = errors_on_the_roll(model, data["rz"], chart)
    area = volume(model.chart_)
    print(f"N={n} seed={seed}: along {along:.2%} across {across:.2%} area {area:.1f}")
    assert along < 0.02
    assert across < 0.01
    assert area == pytest.approx(924.3, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wifi36_x", "coil_cat"])
def test_real_tasks_fit(tasks, name):
    S = np.load(tasks / f"{name}.npz")["S"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = BayesianGPLVM(latent_dim="auto", random_state=0).fit(S)
    print(f"{name}: latent_dim='auto' chose {model.latent_dim_}, relevances {model.relevance_.round(4)}")
    assert evaluate(model.chart_, "inside", model.latent_).all()
