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

import inside
from gpum import GPLVM, BayesianGPLVM, SwissRoll
from gpum.basics import neighbours
from gpum.manifold import evaluate, length, volume

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
    # The last round has other padding than those before, by which the bound differs in its fifth digit.
    assert roll_model.bound_ == pytest.approx(max(h["bound"] for h in roll_model.history_), rel=1e-4)
    assert roll_model.latent_.shape == roll_model.latent_variance_.shape == (274, 2)
    assert roll_model.ard_[0] >= roll_model.ard_[1]


def test_held_noise_matters(roll, roll_model):
    """The width is not explained away as noise, which is what a free noise does from the start."""
    assert roll_model.noise_std_ < 0.1


@pytest.mark.slow
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
    np.testing.assert_allclose(batches, placed, atol=1e-8)  # few and many rows have programs of their own
    with pytest.raises(ValueError, match="X has 0 row"):
        fitted.transform(S[:0])


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_fit_and_pickle(model):
    S = small_cloud()
    a, b = model(random_state=3).fit(S), clone(model(random_state=3)).fit(S)
    np.testing.assert_array_equal(a.latent_, b.latent_)
    c = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(c.chart_.metric([0.1, 0.2]), a.chart_.metric([0.1, 0.2]))
    np.testing.assert_array_equal(a.chart_.boundary.levels(3), b.chart_.boundary.levels(3))


@pytest.mark.parametrize(
    ("model", "backend"), [pytest.param(BayesianGPLVM, "loky", marks=pytest.mark.slow), (GPLVM, "threading")]
)
def test_fit_does_not_depend_on_the_workers(model, backend):
    S = small_cloud()
    alone = model(random_state=3, n_jobs=1).fit(S)
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


@pytest.mark.slow
def test_gplvm_learns_the_roll(roll):
    model = GPLVM(random_state=0).fit(roll.X)
    along, across = errors_on_the_roll(model, roll.chart_coords, roll.chart)
    assert along < 0.02
    assert across < 0.01
    assert np.all(model.latent_variance_ == 0)


@pytest.mark.slow
def test_auto_dimension_of_the_roll(roll):
    model = BayesianGPLVM(latent_dim="auto", random_state=0).fit(roll.X)
    assert model.latent_dim_ == 2


@pytest.mark.slow
def test_auto_dimension_of_a_curve():
    t = np.linspace(0, 1, 60)[:, None]
    S = np.concatenate([np.sin(2 * t), np.cos(2 * t), t, t**2], 1) @ np.random.default_rng(0).normal(size=(4, 8))
    S += 0.01 * np.random.default_rng(1).standard_normal(S.shape)
    model = BayesianGPLVM(latent_dim="auto", random_state=0).fit(S)
    assert model.latent_dim_ == 1
    assert evaluate(model.chart_, "inside", model.latent_).all()
    assert volume(model.chart_) > 0


def segment(chart, ends):
    return length(chart, *ends.reshape(2, -1))


def lengths(chart, a, b):
    """Length of the straight chart segment from each row of a to that of b."""
    return evaluate(chart, segment, np.concatenate([a, b], 1))


def bent(t):
    """A surface of as many dimensions as t [n, q] has, without noise."""
    return np.concatenate([t, np.sin(2 * t), t[:, :1] ** 2], 1)


@pytest.mark.parametrize("q", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_lengths_in_other_dimensions(q):
    """Lengths of paths over the surface, straight in the true coordinates: exact against the learned chart."""
    t = np.random.default_rng(0).uniform(0, 1, (60, q))
    model = BayesianGPLVM(latent_dim=q, random_state=0).fit(bent(t))
    assert evaluate(model.chart_, "inside", model.latent_).all()
    for a, b in np.random.default_rng(1).permutation(60)[:8].reshape(-1, 2):
        path = bent(t[a] + np.linspace(0, 1, 40)[:, None] * (t[b] - t[a]))
        exact = neighbours.distance(path, np.stack([np.arange(39), np.arange(1, 40)], 1)).sum()
        X = model.transform(path)
        assert lengths(model.chart_, X[:-1], X[1:]).sum() == pytest.approx(exact, rel=5e-3)
    if q == 1:
        order = np.argsort(t[:, 0])
        assert np.all(np.diff(model.latent_[order, 0]) > 0) or np.all(np.diff(model.latent_[order, 0]) < 0)
    np.testing.assert_allclose(evaluate(model.chart_, "mean", model.latent_), bent(t), atol=0.01)


@pytest.mark.parametrize(
    "change",
    [
        lambda S: np.concatenate([S, S[:10], S[:10]]),  # duplicate rows
        lambda S: np.column_stack([S[:, :3], np.full(len(S), 7.0)]),  # a constant column
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
        model = BayesianGPLVM(scale="none", random_state=0).fit(S)
    assert np.all(np.isfinite(model.latent_))
    assert evaluate(model.chart_, "inside", model.latent_).all()


@pytest.mark.slow
def test_scaling_is_mapped_back():
    """Lengths are in the units of the data, whatever they are."""
    S = small_cloud()
    small, large = BayesianGPLVM(random_state=0).fit(S), BayesianGPLVM(random_state=0).fit(1000 * S + 5)
    a = length(small.chart_, small.latent_[0], small.latent_[1])
    b = length(large.chart_, large.latent_[0], large.latent_[1])
    assert b == pytest.approx(1000 * a, rel=1e-3)
    by_column = BayesianGPLVM(random_state=0, scale="standard").fit(S * [1, 1, 1, 1e-3])
    image = by_column.chart_.mean(by_column.latent_[0])
    np.testing.assert_allclose(image, (S * [1, 1, 1, 1e-3])[0], atol=0.1)


@pytest.mark.parametrize("latent_dim", [2, "auto"])
def test_convergence_is_reported(latent_dim):
    """Also where "auto" keeps all dimensions that it starts from."""
    S = small_cloud()
    with pytest.warns(
        ConvergenceWarning, match=r"out of iterations.*raise max_iter.*latent_model=BayesianGPLVM\(\d, max_iter=6\)"
    ):
        model = BayesianGPLVM(latent_dim, random_state=0, max_iter=3, tol=1e-9).fit(S if latent_dim == 2 else S[:, :3])
    assert not model.converged_
    assert {entry["status"] for entry in model.history_ if entry["stage"] == "all free"} == {"out of iterations"}


def test_a_short_last_round_is_not_convergence():
    """One iteration gains less than a tolerance that is wide, and says nothing."""
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = BayesianGPLVM(starts="pca", random_state=0, max_iter=1, tol=100.0).fit(small_cloud())
    assert not model.converged_


def test_of_one_chart_there_is_one_finalist(roll_model):
    """All of Isomap's starts unroll the roll, and the best of them stands for all."""
    (best,) = inside.finalists(roll_model)
    assert (best.bound, best.start, best.converged) == (roll_model.bound_, roll_model.start_, roll_model.converged_)
    assert {h["start"] for h in roll_model.history_ if h["stage"] == "noise held"} > {best.start}


@pytest.mark.parametrize("factor", [1e-200, 1e-40, 1e200])
def test_any_scale_fits(factor):
    """The model is free of scale: the same fit, with lengths in units of unit_."""
    S = small_cloud()
    plain, scaled = (BayesianGPLVM(starts="pca", tol=0.01, random_state=0).fit(c * S) for c in (1.0, factor))
    assert plain.unit_ == 1.0
    assert 0.1 < factor / scaled.unit_ < 10
    assert scaled.bound_ == pytest.approx(plain.bound_, abs=0.01 * len(S))  # the optimiser's own tolerance
    a = length(plain.chart_, plain.latent_[0], plain.latent_[1])
    b = length(scaled.chart_, scaled.latent_[0], scaled.latent_[1])
    assert b * (scaled.unit_ / factor) == pytest.approx(a, rel=0.02)
    new = np.concatenate([S[:5] * factor, 50 * factor * np.ones((1, 4))])
    located = inside.located(scaled, new)
    np.testing.assert_array_equal(located.far, [False] * 5 + [True])
    assert np.all(np.isfinite(located.weights))


def test_columns_of_any_scale_count_alike():
    S = small_cloud()
    tiny = BayesianGPLVM(starts="pca", scale="standard", random_state=0).fit(S * [1e-200, 1, 1, 1e90])
    plain = BayesianGPLVM(starts="pca", scale="standard", random_state=0).fit(S)
    assert tiny.bound_ == pytest.approx(plain.bound_, abs=0.01 * len(S))


def test_a_row_beyond_all_squares_is_far():
    model = BayesianGPLVM(starts="pca", random_state=0).fit(small_cloud())
    S = small_cloud()[:3]
    S[0, 2], S[1] = 1e300, -1e305
    located = inside.located(model, S)
    np.testing.assert_array_equal(located.far, [True, True, False])
    assert np.all(np.isfinite(located.weights))


@pytest.mark.parametrize("model", MODELS)
def test_a_stray_row_does_not_hide_what_is_far(model):
    """Rows a few steps off the surface are far, whether or not one row of the cloud is a mistake."""
    S = small_cloud(60)
    stray = np.concatenate([S, [[1.5, 1.5, 40.0, 0.0]]])
    G = np.random.default_rng(5).standard_normal((12, 4))
    off = S[:12] + 4 * G / np.linalg.norm(G, axis=1, keepdims=True)
    for cloud in (S, stray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = model(starts="pca", random_state=0).fit(cloud)
        assert inside.located(fitted, off).far.mean() > 0.7  # some directions run along the surface
        assert not inside.located(fitted, small_cloud(100, seed=9)[60:]).far.any()


@pytest.mark.parametrize("boundary", [0.5, "variance"])
@pytest.mark.parametrize("model", MODELS)
def test_two_patches_far_apart(model, boundary):
    """One chart, no crash and no endless search; the way between the patches is one corridor, or none."""
    t = np.random.default_rng(0).uniform(0, 1, (32, 2))
    patch = np.column_stack([t, 0.3 * np.sin(3 * t[:, 0]), 0.3 * np.cos(3 * t[:, 1])])
    S = np.concatenate([patch, patch + np.array([20, 0, 0, 0])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model(starts="isomap", boundary=boundary, random_state=0).fit(S)
    assert evaluate(fitted.chart_, "inside", fitted.latent_).all()
    away = np.linalg.norm(evaluate(fitted.chart_, "mean", fitted.latent_) - S, axis=1)
    assert away.max() < 2
    assert not inside.located(fitted, S + 0.01).far.any()
    assert inside.located(fitted, np.array([[10.5, 0.5, 8.0, 0.0]])).far.all()


@pytest.mark.slow
def test_folds_of_a_cross_validation_share_their_programs():
    """Sizes that differ by a few rows compile nothing anew: bound, posterior and placing."""
    S, sizes = small_cloud(), []
    for rows in (S[:33], S[:34], S[:40]):
        model = BayesianGPLVM(starts="pca", random_state=0).fit(rows)
        model.transform(S[:3])
        sizes.append(inside.compiled())
    assert sizes[0] == sizes[1] == sizes[2]


def test_interrupt_keeps_what_was_reached(monkeypatch):
    def stop_later(number, run, args):
        if number > 4:
            raise KeyboardInterrupt
        return run(*args)

    inside.each_round(monkeypatch, stop_later)
    model = BayesianGPLVM(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(small_cloud())
    assert not model.converged_
    assert np.all(np.isfinite(model.transform(small_cloud())))


BAD = [
    ({}, np.full((30, 3), np.nan), "X has no reading at all"),
    ({}, np.where(np.eye(30)[:, :3] > 0, np.inf, 1.0), "X has 3 infinite"),
    ({}, np.ones((1, 3)), "X has 1 row"),
    ({}, np.ones((30, 3)), "identical rows"),
    ({}, np.ones(30), "two dimensions"),
    ({}, [["a", "b", "c"]] * 30, "numbers only"),
    ({}, np.array([[1.0, "x", 2.0]] * 30, dtype=object), "numbers only"),
    ({"latent_dim": 4}, None, "latent_dim is 4 but X has only 4"),
    ({"latent_dim": 0}, None, "latent_dim must be an integer of at least 1, got 0"),
    ({"latent_dim": 1.5}, None, "latent_dim must be"),
    ({"latent_dim": "atuo"}, None, "latent_dim must be"),
    ({"n_inducing": 41}, None, "n_inducing must be an integer from 1 to 40, got 41"),
    ({"boundary": "varience"}, None, "did you mean 'variance'"),
    ({"boundary": -1}, None, "boundary must be a non-negative"),
    ({"starts": "isomop"}, None, "did you mean 'isomap'"),
    ({"starts": [np.zeros((3, 2))]}, None, "starts must have shape"),
    ({"max_iter": 0}, None, "max_iter must be"),
    ({"tol": 0.0}, None, "tol must be a positive"),
    ({}, np.where(np.arange(160).reshape(40, 4) == 14, 1e300, small_cloud()), "X has 1e.300 at row 3, column 2"),
    ({}, np.where(np.arange(160).reshape(40, 4) == 14, -1.7e308, small_cloud()), "-1.7e.308 at row 3, column 2"),
]


@pytest.mark.parametrize(("options", "S", "message"), BAD)
def test_bad_input_is_refused_at_once(options, S, message, monkeypatch):
    inside.each_round(monkeypatch, lambda *_: pytest.fail("work was done"))
    with pytest.raises(ValueError, match=message):
        BayesianGPLVM(**options).fit(small_cloud() if S is None else S)


def test_bad_rows_at_transform(roll_model):
    with pytest.raises(NotFittedError):
        BayesianGPLVM().transform(small_cloud())
    with pytest.raises(ValueError, match="has 4 features, but BayesianGPLVM is expecting 3"):
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
    for starts, names in (([X, "pca"], ["given", "pca"]), (X.tolist(), ["given"]), ([X, X], ["given", "given"])):
        with pytest.warns(ConvergenceWarning):
            model = BayesianGPLVM(starts=starts, max_iter=1, random_state=0).fit(S)
        first = [h["start"] for h in model.history_ if h["stage"] == "noise held"]
        assert sorted(first) == sorted(names * (len(first) // len(names)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [250, 450, 800])
@pytest.mark.parametrize("seed", range(5))
def test_swiss_roll_tasks(tasks, n, seed):
    data = np.load(tasks / f"swissroll_{n}.npz")
    model = BayesianGPLVM(random_state=seed).fit(data["S"])
    chart = SwissRoll()
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
    # Neighbours in the data are neighbours on the chart: it is torn nowhere, and folds nothing together.
    tree, away = neighbours.spanning_tree(S)
    steps = lengths(model.chart_, *model.latent_[tree.T])
    assert np.max(steps / away) < 1.3  # noise makes steps in the data longer, not shorter
    nearest, around = neighbours.nearest(S)[1], neighbours.nearest(model.latent_, 5)[1]
    assert np.mean(np.any(nearest == around, axis=1)) > 0.9
