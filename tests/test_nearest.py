"""Any number of labels: each row sees the nearest ones, and kernels of low rank see all."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, t

import gpum
from gpum import GPUMRegressor, Priors
from gpum.geometry.features import InducedSpace
from gpum.heat.covariances import Stationary, stationary
from gpum.inference import gp, nearest, nearest_lengths
from gpum.inference.exact import Decomposed, LowRank
from gpum.inference.nearest import Nearest
from gpum.inference.relevance import inverse_squares, z_of

KERNEL = Stationary(2.5)


def simulated(n, p=3, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, p))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    return X, f, f + noise * rng.standard_normal(n)


@pytest.fixture
def few_are_many(monkeypatch):
    """What happens above five hundred labels happens above sixty."""
    monkeypatch.setattr(nearest, "EXACT", 60)
    monkeypatch.setattr("gpum.inference.regress.EXACT", 60)


@pytest.fixture(scope="module")
def fitted():
    X, f, y = simulated(400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "EXACT", 60)
        patch.setattr("gpum.inference.regress.EXACT", 60)
        model = GPUMRegressor(geometry="flat", random_state=0).fit(X[:300], y[:300])
    return model, X, f, y


def test_gradients_functions_and_goals_with_many_labels(fitted):
    """As with few labels: the gradient is that of the prediction, draws have its moments, improvements are expected."""
    model, X, _, y = fitted
    assert any(isinstance(c.d, Nearest) for c in model.model_.outputs[0].posterior.components)
    new, h = X[300:306], 1e-4
    gradient, std = model.predict_gradient(new, return_std=True)
    moved = [(model.predict(new + h * e) - model.predict(new - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, np.stack(moved, 1), atol=0.02)  # another label may be nearest at one end
    assert np.all(std > 0)
    assert np.sqrt(np.mean((gradient[:, 0] - 2 * np.cos(2 * new[:, 0])) ** 2)) < 0.3
    n = 400
    draws = np.stack([f(new) for f in model.sample_functions(n, random_state=0)], 1)
    mean, std = model.predict(new, return_std=True, include_noise=False)
    assert np.all(np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(n))
    np.testing.assert_allclose(draws.std(1), std, rtol=0.3)
    found = model.suggestions(2, goal="maximum", candidates=X[300:])
    assert np.all(y[300:][found.rows] > np.quantile(y, 0.9))


def test_a_row_that_sees_all_labels_has_the_exact_prediction():
    X, _, y = simulated(40)
    r, new = 0.05, np.random.default_rng(1).uniform(-2, 2, (7, 3))
    d = Nearest(y, np.array([np.inf]))
    index = nearest.Search.of(X).nearest(new, 100)
    at = nearest.conditionals(KERNEL, X, d, r, new, index)
    C, k = KERNEL.gram(X, X) + r * np.eye(40), KERNEL.gram(X, new)
    np.testing.assert_allclose(at.mean, k.T @ np.linalg.solve(C, y), atol=1e-9)
    np.testing.assert_allclose(at.variance, 2 + r - np.sum(k * np.linalg.solve(C, k), 0), atol=1e-9)
    np.testing.assert_allclose(at.quadratic, y @ np.linalg.solve(C, y), rtol=1e-9)


def test_what_rounding_makes_indefinite_is_solved_by_elimination():
    rng = np.random.default_rng(0)
    K, y = 2 * np.eye(6) + rng.uniform(-0.3, 0.3, (2, 6, 6)), rng.standard_normal((2, 6))
    bordered = np.zeros((2, 8, 8))
    bordered[:, :6, :6], bordered[:, 6, :6], bordered[:, 6, 6] = K, 0.4, 3.0
    bordered[:, 7, :6], bordered[:, 7, 7] = y, nearest.LARGE
    definite = nearest.of_bordered(bordered)
    bordered[1, 2, 2] = -2.0  # the second is indefinite: so that both are solved
    solved = nearest.of_bordered(bordered)
    for one, other in zip(definite, solved, strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-12)
    lower = np.tril(bordered[1, :6, :6])
    C = lower + np.tril(lower, -1).T
    assert solved[0][1] == pytest.approx(np.full(6, 0.4) @ np.linalg.solve(C, y[1]))


@pytest.mark.parametrize("precision", [1.0, np.linspace(0.5, 2, 30)])
def test_the_density_of_labels_that_see_all_earlier_ones_is_exact(precision):
    X, _, y = simulated(30)
    r, s2 = 0.05, 0.7
    rows, index = nearest.earlier(X)
    assert sorted(rows) == list(range(30))
    d = Nearest(y, np.array([np.inf]), precision)
    noise = np.broadcast_to(1 / np.asarray(precision), 30)
    at = nearest.conditionals(KERNEL, X, d, r, X[rows], index, noise[rows])
    exact = multivariate_normal(np.zeros(30), s2 * (KERNEL.gram(X, X) + r * np.diag(noise))).logpdf(y)
    assert at.log_density(y[rows], np.inf, s2).sum() == pytest.approx(exact, abs=1e-8)


def test_the_mass_is_the_evidence_of_all_labels():
    """With the signal integrated: in closed form in `gp`, by Laplace's approximation here."""
    X, _, y = simulated(100)
    y = (y - y.mean()) / y.std()
    r = 10**-1.5
    rate = float(Priors().signal_rate(np.array(r)))
    found = nearest.log_masses(KERNEL, X, Nearest(y, np.array([np.inf])), r, Priors().signal[0], rate)[0][0]
    d = gp.decompose(KERNEL, X, y)
    a = Priors().signal[0] + 50
    exact = Priors().signal[0] * np.log(rate) - a * np.log(rate + 0.5 * d.quadratic(r)[0]) - 0.5 * d.log_det(r)[0]
    assert found == pytest.approx(exact + gp._constant(100, np.ones(100), Priors().signal[0]), abs=0.02)


@pytest.mark.parametrize("sharing", [4.0, 64.0])
def test_a_signal_that_differs_along_the_cloud_has_the_density_of_students_t(sharing):
    at = nearest.Conditionals(np.array([0.3]), np.array([0.2]), np.array([5.0]), np.array([20]))
    scale = np.sqrt(0.2 * (sharing * 0.7 + 5.0) / (sharing + 20))
    expected = t(sharing + 20, 0.3, scale)
    assert at.log_density(np.array([1.0]), sharing, 0.7)[0] == pytest.approx(expected.logpdf(1.0))
    assert at.scale(sharing, 0.7)[0] * 0.2 == pytest.approx(expected.var())


@pytest.mark.parametrize("smoothness", ["matern12", "matern32", "matern52", "heat"])
@pytest.mark.parametrize(("groups", "columns"), [([0, 1, 2], 1), ([0, 0, 0], 1), ([0, 1, 2], 2)])
def test_gradients_of_densities(smoothness, groups, columns):
    X, f, y = simulated(60)
    maximise = nearest_lengths.Climb(X, np.column_stack([y, f > 0])[:, :columns], np.array(groups), smoothness, False)
    theta = np.array([*[0.3, -0.4, 0.1][: max(groups) + 1], 0.2, -0.3])
    index = maximise._neighbours(theta, np.arange(0, 60, 7))
    _, gradient = maximise._of(theta, index)
    for j in range(len(theta)):
        step = 1e-5 * (np.arange(len(theta)) == j)
        change = (maximise._of(theta + step, index)[0] - maximise._of(theta - step, index)[0]) / 2e-5
        np.testing.assert_allclose(gradient[:, j], change, rtol=1e-5, atol=1e-6)


def test_lengths_and_z_are_inverse():
    z = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(z_of(inverse_squares(z, 0.1)[0], 0.1), z, atol=1e-8)


def test_a_label_is_never_its_own_neighbour_also_among_copies():
    points = np.repeat(np.arange(3.0)[:, None], 50, 0)
    index = nearest.Search.of(points).nearest_others(np.arange(150), 10)
    assert index.shape == (150, 10)
    assert not np.any(index == np.arange(150)[:, None])
    np.testing.assert_array_equal(points[index, 0], np.repeat(points, 10, 1))  # copies are nearer than all others


def test_earlier_labels_come_before():
    X = np.random.default_rng(0).standard_normal((900, 2))
    rows, index = nearest.earlier(X)
    position = np.empty(900, int)
    position[rows] = np.arange(900)
    assert np.all((index < 0) | (position[index] < np.arange(900)[:, None]))
    assert np.all(index[nearest.SEEN :] >= 0)


def test_induced_features_give_the_kernel_where_the_points_resolve_it():
    X = simulated(80, p=2)[0]
    space = InducedSpace.of(np.array([1.5, 2.0]), np.inf, X[:60])
    F = space.at(X[60:])
    exact = stationary(np.inf, np.linalg.norm((X[60:, None] - X[None, 60:]) / [1.5, 2.0], axis=2))
    np.testing.assert_allclose(F @ F.T, exact, atol=1e-3)
    assert np.sum(space.at(np.full((1, 2), 100.0)) ** 2) == pytest.approx(1.0)  # the prior's variance, far away


def test_predictions(fitted):
    model, X, f, y = fitted
    mean, std = model.predict(X[300:], return_std=True)
    assert np.sqrt(np.mean((mean - f[300:]) ** 2)) < 0.07
    inside = np.mean(np.abs(mean - y[300:]) < 1.96 * std)
    assert abs(inside - 0.95) < 3.3 * np.sqrt(0.95 * 0.05 / 100)
    assert model.relevance_[0] == 1
    assert model.relevance_[2] < model.relevance_[1] < 0.5
    ends = model.predict_quantiles(X[300:], [0.025, 0.975])
    np.testing.assert_allclose(ends, mean[:, None] + std[:, None] * [-1.96, 1.96], atol=0.15 * std.max())


def test_joint_predictions_agree_with_moments(fitted):
    model, X, *_ = fitted
    mean, cov = model.predict(X[300:320], return_cov=True)
    std = model.predict(X[300:320], return_std=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    assert np.linalg.eigvalsh(cov)[0] > 0
    draws = model.sample_y(X[300:320], 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * std.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(1), std, rtol=5 / np.sqrt(2 * 4000))


def test_each_label_left_out(few_are_many):
    """As a row of which the label was taken away, with lengths and scales unchanged."""
    X, _, y = simulated(150)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
    left = gpum.diagnostics.leave_one_out(model)
    posterior = model.model_.outputs[0].posterior
    near = [c for c in posterior.components if isinstance(c.d, Nearest)]
    assert near
    labels = posterior.labels[near[0].candidate.space]
    mean, variance = nearest.leave_one_out(near[0], labels)
    keep = np.arange(150) != 7
    d = Nearest(near[0].d.y[keep], near[0].d.sharing)
    at = nearest.conditionals(
        near[0].candidate.covariance, labels[keep], d, near[0].ratios[0], labels[[7]],
        nearest.Search.of(labels[keep]).nearest(labels[[7]], nearest.SEEN),
    )  # fmt: skip
    assert mean[7, 0] == pytest.approx(at.mean[0], abs=1e-9)
    assert variance[7, 0] == pytest.approx(at.variance[0] * near[0].signal[0], rel=1e-9)
    assert np.mean(np.abs(left.y - left.mean) < 1.96 * left.std) > 0.88
    assert left.rmse < 0.2


def test_a_model_file_predicts_the_same(fitted, tmp_path):
    model, X, *_ = fitted
    model.save(tmp_path / "m.gpum")
    read = GPUMRegressor.load(tmp_path / "m.gpum")
    np.testing.assert_array_equal(read.predict(X, return_std=True), model.predict(X, return_std=True))


def test_rows_to_label_next(fitted):
    _, X, _, y = fitted
    partly = np.where(np.arange(300) % 3 > 0, y[:300], np.nan)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X[:300], partly)
    assert np.isnan(partly[model.suggest(3)]).all()


@pytest.mark.slow
def test_one_label_more_than_all_at_once(monkeypatch):
    """Nothing is lost where kernels stop seeing all labels at once: 12 columns of which two matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 12))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    y = f + 0.1 * rng.standard_normal(700)
    errors = []
    for exact in (300, 299):
        monkeypatch.setattr(nearest, "EXACT", exact)
        monkeypatch.setattr("gpum.inference.regress.EXACT", exact)
        model = GPUMRegressor(geometry="flat", random_state=0).fit(X[:300], y[:300])
        mean, std = model.predict(X[300:], return_std=True)
        errors.append(np.sqrt(np.mean((mean - y[300:]) ** 2)))
        assert abs(np.mean(np.abs(mean - y[300:]) < 1.96 * std) - 0.95) < 3.3 * np.sqrt(0.95 * 0.05 / 400)
    assert errors[1] < 1.15 * errors[0]


@pytest.mark.slow
def test_a_large_noisy_trend_uses_all_labels(few_are_many):
    """The nearest of labels leave an error of the noise over √SEEN; kernels of low rank see all of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 6))
    f = X @ np.linspace(1, 0, 6)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X[:1000], f[:1000] + rng.standard_normal(1000))
    assert np.sqrt(np.mean((model.predict(X[1000:]) - f[1000:]) ** 2)) < 2 * np.sqrt(6 / 1000)


def test_a_trend_of_many_columns_uses_all_labels_where_one_length_for_all_of_them_is_best():
    """One label more than all kernels see at once: the error stays near that of least squares, √(columns/labels)."""
    rng, n = np.random.default_rng(0), nearest.EXACT + 1
    X = rng.standard_normal((n + 500, 20))
    f, noise = X @ np.linspace(1, 0, 20), 0.5
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X[:n], f[:n] + noise * rng.standard_normal(n))
    assert np.sqrt(np.mean((model.predict(X[n:]) - f[n:]) ** 2)) < 1.5 * noise * np.sqrt(20 / n)


@pytest.mark.parametrize(
    "case", ["equal labels", "copies of one row", "more columns than labels", "a far label", "one column"]
)
def test_odd_clouds(case, few_are_many):
    rng = np.random.default_rng(0)
    X, _, y = simulated(120)
    if case == "equal labels":
        y = np.full(120, 3.0)
    elif case == "copies of one row":
        X = np.ones((120, 3))
    elif case == "more columns than labels":
        X = rng.standard_normal((120, 150)) + X[:, :1]
    elif case == "a far label":
        y[5] = 1e6
    else:
        X = X[:, :1]
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
    mean, std = model.predict(X + 0.01, return_std=True)
    assert np.isfinite([mean, std]).all()
    if case in ("equal labels", "copies of one row"):
        np.testing.assert_allclose(mean, y.mean(), atol=0.1)


def test_results_do_not_depend_on_threads(few_are_many):
    X, _, y = simulated(150)
    one, two = (GPUMRegressor(geometry="flat", random_state=0, n_jobs=n).fit(X, y).predict(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.fixture(scope="module")
def on_a_chart():
    """A sheet that is rolled up, with more labels than kernels of full rank see, on its chart alone."""
    rng = np.random.default_rng(0)
    u, z = rng.uniform(0, 3.5, 260), rng.uniform(0, 3, 260)
    X = np.stack([np.cos(u), np.sin(u), z], 1)
    f = np.sin(u) + 0.5 * z
    y = f + 0.05 * rng.standard_normal(260)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "EXACT", 60)
        patch.setattr("gpum.inference.regress.EXACT", 60)
        patch.setattr(gp, "SCREEN", 60)
        options = gpum.BayesianGPLVM(2, n_inducing=20, starts="isomap", random_state=0)
        model = GPUMRegressor(geometry="chart", latent_model=options, latent_dim=2, random_state=0).fit(
            X[:200], y[:200]
        )
    return model, X[200:], f[200:]


def test_kernels_of_coordinates_see_nearest_labels_or_have_low_rank(on_a_chart):
    """With many labels no candidate of a surface needs a number for each pair of labels, and none is left out."""
    model, X, f = on_a_chart
    posterior, candidate_set = model.model_.outputs[0].posterior, model.model_.geometries.candidate_set
    assert not any(isinstance(component.d, Decomposed) for component in posterior.components)
    induced = [k for k, space in enumerate(candidate_set.spaces) if isinstance(space, InducedSpace)]
    assert len(induced) >= 3
    assert np.isfinite(posterior.considered.log_part).all()
    assert posterior.considered.weight.sum() == pytest.approx(1)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    assert np.sqrt(np.mean((mean - f) ** 2)) < 4 * 0.05 * np.sqrt(20 / 200)  # about 20 numbers are learned
    assert np.mean(np.abs(mean - f) < 3 * std) > 0.9


def test_functions_of_coordinates_have_gradients_and_files(on_a_chart, tmp_path):
    """Of kernels of low rank on the coordinates of a chart alone."""
    model, X, _ = on_a_chart
    posterior, spaces = model.model_.outputs[0].posterior, model.model_.geometries.candidate_set.spaces
    assert any(isinstance(spaces[component.candidate.space], InducedSpace) for component in posterior.components)
    inner = (X[:, 0] < 0.7) & (X[:, 0] > -0.7) & (X[:, 2] > 0.5) & (X[:, 2] < 2.5)
    gradient, std = model.predict_gradient(X[inner], return_std=True)
    around = np.stack([-X[inner, 1], X[inner, 0]], 1)  # the direction of u
    assert np.sqrt(np.mean((np.sum(gradient[:, :2] * around, 1) - X[inner, 0]) ** 2)) < 0.2
    assert np.sqrt(np.mean((gradient[:, 2] - 0.5) ** 2)) < 0.2
    assert np.all(std >= 0)
    model.save(tmp_path / "m.gpum")
    read = GPUMRegressor.load(tmp_path / "m.gpum")
    np.testing.assert_array_equal(read.predict(X, return_std=True), model.predict(X, return_std=True))
    of_low_rank = [component.d for component in read.model_.outputs[0].posterior.components]
    of_low_rank = [vars(d).values() for d in of_low_rank if isinstance(d, LowRank)]
    assert all(np.ndim(v) == 0 or len(v) != 200 for values in of_low_rank for v in values)  # none for each label


@pytest.mark.slow
def test_two_columns_are_found_among_two_hundred_by_more_labels_than_see_all_others():
    """From starts at which all columns matter alike nearest labels say nothing: the error was 0.68 at 520 labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1520, 200))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.where(np.arange(1520) < 520, f + 0.2 * rng.standard_normal(1520), np.nan)
    model = GPUMRegressor(geometry="flat", random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - f)[520:] ** 2)) < 0.2 * f.std()
    assert set(np.argsort(model.relevance_)[-2:]) == {0, 1}
