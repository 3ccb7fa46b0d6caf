"""Missing readings: the objectives given the readings alone, what stands in for them, and estimators that take NaN."""

import dataclasses
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

from gpum import EuclideanGPRegressor, GPUMClassifier, GPUMRegressor, SwissRoll
from gpum.app.cli import app
from gpum.basics.missing import fill_in, fill_in_others, together
from gpum.gplvm import bound, likelihood, models, optimise, patterns, precise
from gpum.gplvm.incomplete import project_incomplete
from gpum.gplvm.kernel import JITTER
from gpum.gplvm.mapping import Mapping
from gpum.gplvm.optimise import value_and_gradient
from gpum.gplvm.projection import decoder, project_rows
from gpum.manifold.metric import expected_metric


def gaps(rng, X, fraction=0.3):
    """X with a fraction of its readings removed, at least one left in each row and column."""
    missing = rng.random(X.shape) < fraction
    missing[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    missing[: X.shape[1], :][np.diag_indices(X.shape[1])] = False
    return np.where(missing, np.nan, X)


@pytest.fixture
def problem():
    """Twelve rows in R⁵ with gaps (two columns share theirs), and parameters of a model with four inducing inputs."""
    rng = np.random.default_rng(0)
    S = gaps(rng, rng.standard_normal((12, 5)))
    S[:, 4] = np.where(np.isnan(S[:, 3]), np.nan, rng.standard_normal(12))
    mu, Z = rng.standard_normal((12, 2)), rng.standard_normal((4, 2))
    log_s = np.log(rng.uniform(0.05, 0.5, (12, 2)))
    rest = (np.log([1.3, 0.8]), np.asarray(np.log(1.5)), np.asarray(np.log(7.0)))
    return S, bound.Parameters(mu, log_s, Z, *rest), likelihood.Parameters(mu, *rest)


AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
import jax
import numpy as np
from gpum.gplvm import bound, models, patterns
from gpum.gplvm.optimise import value_and_gradient

rng = np.random.default_rng(0)
mu, S = rng.standard_normal((200, 2)), rng.standard_normal((200, 10))
S[rng.random(S.shape) < 0.3] = np.nan
rest = (np.zeros(2), np.zeros(()), np.asarray(3.0))
theta = bound.Parameters(mu, np.full(mu.shape, -3.0), rng.standard_normal((40, 2)), *rest)
cloud = patterns.compress(S)

def work(_):
    with jax.enable_x64(True):
        return [float(value_and_gradient(models.Variational(), theta, cloud)[0]) for _ in range(100)]

with ThreadPoolExecutor(2) as pool:
    found = list(pool.map(work, range(2)))
print("done" if len(set(sum(found, []))) == 1 else found)
"""


def dense_bound(S, theta):
    """F column by column over the rows that have a reading, each term as it is written in `patterns`."""
    ell, gamma, beta = (np.exp(x) for x in (theta.log_ell, theta.log_gamma, theta.log_beta))
    mu, s, Z = theta.mu, np.exp(theta.log_s), theta.Z
    m = len(Z)
    K = gamma * (np.exp(-0.5 * np.sum(((Z[:, None] - Z) / ell) ** 2, -1)) + JITTER * np.eye(m))
    psi1 = gamma * np.prod(
        np.exp(-0.5 * (mu[:, None] - Z) ** 2 / (ell**2 + s[:, None])) / np.sqrt(1 + s[:, None] / ell**2), -1
    )
    middle = 0.5 * (Z[:, None] + Z)
    psi2 = gamma**2 * np.prod(
        np.exp(
            -0.25 * ((Z[:, None] - Z) / ell) ** 2 - (mu[:, None, None] - middle) ** 2 / (ell**2 + 2 * s[:, None, None])
        )
        / np.sqrt(1 + 2 * s[:, None, None] / ell**2),
        -1,
    )
    total = -np.sum(0.5 * (mu**2 + s - np.log(s) - 1))
    for column in S.T:
        rows = ~np.isnan(column)
        y, second = column[rows], psi2[rows].sum(0)
        A, c = K + beta * second, psi1[rows].T @ y
        total += 0.5 * rows.sum() * np.log(beta / (2 * np.pi))
        total += 0.5 * (np.linalg.slogdet(K)[1] - np.linalg.slogdet(A)[1]) - 0.5 * beta * y @ y
        total += 0.5 * beta**2 * c @ np.linalg.solve(A, c)
        total += 0.5 * beta * (np.trace(np.linalg.solve(K, second)) - gamma * rows.sum())
    return total


def test_the_bound_is_that_of_the_readings_alone(problem):
    S, theta, _ = problem
    with jax.enable_x64(True):
        value, gradient = value_and_gradient(models.Variational(), theta, patterns.compress(S))
        assert -float(value) == pytest.approx(dense_bound(S, theta), rel=1e-9)
        for name in ("mu", "Z", "log_ell"):
            at = np.zeros(np.shape(getattr(theta, name)))
            at[(0,) * at.ndim] = 1e-6
            ends = [
                dense_bound(S, dataclasses.replace(theta, **{name: getattr(theta, name) + side * at}))
                for side in (-1, 1)
            ]
            slope = -np.asarray(getattr(gradient, name))[(0,) * at.ndim]
            assert slope == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-5, abs=1e-6)


def test_both_forms_of_the_bound_agree(problem):
    S, theta, _ = problem
    model, cloud = models.Variational(), patterns.compress(S)
    filled = model.filled(theta, cloud)
    with jax.enable_x64(True):
        quick, precise = (
            optimise._value_and_gradient(objective, *filled) for objective in (model.objective, model.precise_objective)
        )
        assert float(precise[0]) == pytest.approx(float(quick[0]), rel=1e-9)
        for a, b in zip(jax.tree.leaves(quick[1]), jax.tree.leaves(precise[1]), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-7 * np.abs(a).max())


def test_the_likelihood_is_that_of_the_readings_alone(problem):
    S, _, theta = problem
    ell, gamma = np.exp(theta.log_ell), np.exp(theta.log_gamma)
    K = gamma * np.exp(-0.5 * np.sum(((theta.X[:, None] - theta.X) / ell) ** 2, -1))
    expected, noise = 0.0, np.exp(-theta.log_beta) + JITTER * gamma
    for column in S.T:
        rows = ~np.isnan(column)
        cov = K[np.ix_(rows, rows)] + noise * np.eye(rows.sum())
        expected += multivariate_normal(cov=cov).logpdf(column[rows])
    with jax.enable_x64(True):
        value, _ = value_and_gradient(models.PointGPLVM(), theta, patterns.compress(S))
    assert -float(value) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_without_gaps_patterns_agree_with_the_whole(problem):
    S, theta, points = problem
    S = np.nan_to_num(S)
    with jax.enable_x64(True):
        whole, some = models.data(S), patterns.compress(S)
        assert isinstance(whole, bound.FactoredCloud)  # nothing changes where nothing is missing
        assert float(value_and_gradient(models.Variational(), theta, some)[0]) == pytest.approx(
            float(value_and_gradient(models.Variational(), theta, whole)[0]), rel=1e-10
        )
        P, Lam, R = precise.inducing_posterior(theta)
        for a, b in zip((P @ S, Lam, R @ R.T), _squared(patterns.inducing_posterior(theta, S)), strict=True):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-8)
        P, Lam, R = likelihood.posterior(points)
        for a, b in zip((P @ S, Lam, R @ R.T), _squared(patterns.point_posterior(points, S)), strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_no_batch_of_matrices_waits_for_the_threads_it_holds(problem):
    """On a processor LAPACK calls of many matrices hand them to the threads that run programs, and wait.

    Two such programs at once on two cores, as starts are run, wait for each other for ever.
    """
    S, theta, _ = problem
    cloud = patterns.compress(S)
    assert len(cloud.n_columns) > 1
    filled, live = bound.filled(theta, len(cloud.weight))
    with jax.enable_x64(True):
        program = optimise._value_and_gradient.lower(models.Variational.objective, filled, (cloud, live)).as_text()
    calls = [line for line in program.splitlines() if "@lapack_" in line]
    assert len(calls) > 2
    assert not [call for call in calls if re.search(r"tensor<\d+x\d+x\d+xf64>", call)]


@pytest.mark.slow
def test_incomplete_clouds_in_two_threads_at_once():
    """In a process of its own, because threads that wait for each other can be ended in no other way."""
    run = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=300)
    assert run.stdout == "done\n", run.stderr


def _squared(found):
    W, Lam, R = found
    return W, Lam, R @ R.T


def test_the_metric_sums_over_the_columns(problem):
    """E[J]ᵀE[J] plus the covariance of every column's own posterior is the metric of the one mapping."""
    S, theta, _ = problem
    with jax.enable_x64(True):
        found = models.Variational(4).posterior(theta, S)
        one = lambda W, Lam, p: Mapping.from_weights(
            found.Z, found.ell, found.gamma, found.beta, W, Lam, found.R, np.zeros(p), np.ones(p)
        )
        x = np.array([0.2, -0.4])
        total = 0.0
        for j in range(S.shape[1]):
            rows = ~np.isnan(S[:, j])
            own = dataclasses.replace(theta, mu=theta.mu[rows], log_s=theta.log_s[rows])
            P, Lam, _ = precise.inducing_posterior(own)
            assert np.allclose(found.W[:, j], P @ S[rows, j], rtol=1e-6, atol=1e-9)
            total = total + expected_metric(one(P @ S[rows, j][:, None], Lam, 1), x)
        assert np.allclose(expected_metric(one(found.W, found.Lam, S.shape[1]), x), total, rtol=1e-6)


@pytest.mark.slow
def test_a_whole_row_is_projected_alike_by_both_functions(problem):
    """And a row of which half is missing has the wider posterior."""
    S, theta, _ = problem
    S = np.nan_to_num(S)
    with jax.enable_x64(True):
        found = models.Variational(4).posterior(theta, S)
        mapping = Mapping.from_weights(
            found.Z, found.ell, found.gamma, found.beta, found.W, found.Lam, found.R, np.zeros(5), np.ones(5)
        )
        begin = theta.mu[:6, None]
        dec, W = decoder(mapping)
        whole = project_rows(S[:6] @ np.asarray(W).T, begin, dec, False)
        same = project_incomplete(S[:6], begin, mapping, False)
        assert np.allclose(whole, same, atol=1e-5)
        few = S[:6].copy()
        few[:, 2:] = np.nan
        assert np.mean(project_incomplete(few, begin, mapping, False)[1]) > np.mean(whole[1])


def test_filling_in_follows_the_surface():
    """A roll turned into R¹⁰: three of ten readings are missing, and filled in to a tenth of a step."""
    rng = np.random.default_rng(0)
    r, z = rng.uniform(2, 12.5, 300), rng.uniform(0, 12, 300)
    turn = np.linalg.qr(rng.standard_normal((10, 10)))[0][:3]
    X = np.stack([r * np.cos(r), r * np.sin(r), z], 1) @ turn + 0.02 * rng.standard_normal((300, 10))
    S = gaps(rng, X)
    found = fill_in(S)
    seen = ~np.isnan(S)
    assert np.array_equal(found.rows[seen], X[seen])
    assert np.all(found.variance[seen] == 0)
    assert np.all(found.variance[~seen] > 0)
    assert found.sound.mean() > 0.7
    assert np.median(np.linalg.norm(found.rows - X, axis=1)) < 0.2  # rows are 1.1 apart, sheets 6


def test_other_rows_of_a_cloud_are_filled_in_from_a_subset():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 4, 900)
    X = np.stack([np.sin(t), np.cos(t), t, np.sin(2 * t)], 1)
    S = gaps(rng, X, 0.2)
    own = np.where(np.arange(900) < 300, np.arange(900), -1)
    subset = fill_in(S[:300])
    rows, sound = fill_in_others(subset, S, own)
    np.testing.assert_array_equal(rows[:300], subset.rows)
    np.testing.assert_array_equal(sound[:300], subset.sound)
    np.testing.assert_array_equal(rows[~np.isnan(S)], S[~np.isnan(S)])
    off = np.abs(rows - X).max(1)
    whole = ~np.isnan(S).any(1)
    assert sound[whole].all()
    assert np.median(off[sound & ~whole]) < 0.02
    assert np.mean(sound[~whole]) > 0.5
    np.testing.assert_array_equal(fill_in_others(subset, X[300:], own[300:])[0], X[300:])


def test_completions_lie_on_the_sheets():
    """Two sheets over a line; where the height is missing, completions are at either height, and few in between."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 10, 400)
    height = np.where(rng.random(400) < 0.5, 0.0, 5.0)
    S = np.stack([t, height + 0.05 * rng.standard_normal(400)], 1)
    found = fill_in(np.concatenate([S, [[5.0, np.nan]]]))
    ask = np.array([[3.0, np.nan], [7.0, np.nan]])
    whole = found.completions(ask, found.donors(ask))
    assert whole.shape == (5, 2, 2)
    assert np.array_equal(whole[..., 0], np.tile(ask[:, 0], (5, 1)))
    near = np.minimum(np.abs(whole[..., 1]), np.abs(whole[..., 1] - 5))
    assert np.all(near < 0.5)


def test_what_no_neighbour_has_read_stays_uncertain():
    """All rows near each other lack a reading: what fills it in is as uncertain as what donors have filled in."""
    rng = np.random.default_rng(0)
    alike = np.column_stack([rng.normal(0, 0.01, 8), np.full(8, np.nan)])
    others = np.column_stack([rng.uniform(5, 10, 40), rng.standard_normal(40)])
    found = fill_in(np.concatenate([alike, others]))
    assert np.all(found.variance[:8, 1] > 0.5)  # the others have 1
    assert np.all(found.variance[8:] == 0)


@pytest.fixture(scope="module")
def sheet():
    """80 rows on a sheet in R⁶, a fifth of their readings missing, and a target known for every third row."""
    rng = np.random.default_rng(1)
    u = rng.uniform(-1, 1, (80, 2))
    X = np.tanh(u @ rng.standard_normal((2, 6))) + 0.01 * rng.standard_normal((80, 6))
    f = np.sin(2 * u[:, 0]) + u[:, 1]
    return X, gaps(rng, X, 0.2), np.where(np.arange(80) % 3 == 0, f, np.nan), f


@pytest.mark.parametrize("geometry", ["flat", "graph", "atlas"])
@pytest.mark.filterwarnings("ignore:the scale of largest evidence")
def test_regression_with_gaps(geometry, sheet):
    X, S, y, f = sheet
    unknown = np.isnan(y)
    model = GPUMRegressor(2, geometry=geometry, smoothness="heat").fit(S, y)
    whole = GPUMRegressor(2, geometry=geometry, smoothness="heat").fit(X, y)
    error = lambda m: np.sqrt(np.mean((m.transduction_ - f)[unknown] ** 2))
    assert error(model) < 1.5 * error(whole) + 0.02
    mean, std = model.predict(S, return_std=True)
    assert np.allclose(mean, model.transduction_, atol=1e-9)
    assert np.array_equal(std, model.predict_cloud(return_std=True)[1])
    assert any("readings are missing" in note for note in model.notes_)
    assert not model.far_from_surface(S).any()
    new = np.where(np.arange(6) < 5, X[:3], np.nan) + 1e-3  # rows never seen
    for one in (model, whole):  # whether the cloud has gaps or not
        mean, std = one.predict(new, return_std=True)
        assert np.all(np.abs(mean - one.predict(X[:3] + 1e-3)) < 2 * std)


def test_a_whole_cloud_takes_rows_with_gaps(sheet):
    X, _, y, _ = sheet
    model = GPUMClassifier(smoothness="heat").fit(X, np.where(np.isnan(y), -1, (y > 0).astype(int)).astype(int))
    row = X[1:2] + 1e-3
    row[0, 2:] = np.nan
    p = model.predict_proba(row)
    assert np.allclose(p.sum(1), 1)


def test_gaps_that_leave_nothing(sheet):
    _, S, y, _ = sheet
    model = GPUMRegressor(geometry="flat", smoothness="heat")
    empty = S.copy()
    empty[4] = np.nan
    with pytest.raises(ValueError, match=r"no reading at all .* in row 4"):
        model.fit(empty, y)
    empty = S.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"no reading at all .* in column 2"):
        model.fit(empty, y)
    with pytest.raises(ValueError, match=r"no reading at all .* in row 0"):
        model.fit(S, y).predict(np.full((1, 6), np.nan))
    with pytest.raises(ValueError, match="infinite"):
        model.fit(np.where(np.isnan(S), np.inf, S), y)


def test_who_cannot_says_so(sheet):
    _, S, y, _ = sheet
    with pytest.raises(ValueError, match=r"only GPUMRegressor, .* take NaN"):
        EuclideanGPRegressor().fit(S, y)
    with pytest.raises(ValueError, match="NaN"):
        GPUMRegressor(latent_model=SwissRoll()).fit(S[:, :2], y)


@pytest.mark.parametrize("geometry", ["flat", "graph", "atlas"])
def test_gaps_in_a_model_file(geometry, sheet, tmp_path):
    X, S, y, _ = sheet
    model = GPUMRegressor(2, geometry=geometry, smoothness="heat").fit(S, y)
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    new = np.where(np.arange(6) < 4, X[:5] + 1e-3, np.nan)
    for rows in (S, new):
        for one, other in zip(model.predict(rows, return_std=True), loaded.predict(rows, return_std=True), strict=True):
            assert np.allclose(one, other, rtol=1e-6, atol=1e-9)


def test_gaps_on_the_command_line(sheet, tmp_path):
    """Empty cells and a code are missing readings, in `fit`, `predict` and `report`."""
    _, S, y, _ = sheet
    cells = [[f"{v:.6f}" if v == v else "" for v in row] for row in S]
    coded = [[cell or ("100" if k % 2 else "") for k, cell in enumerate(row)] for row in cells]
    for name, rows in (("empty", cells), ("coded", coded)):
        lines = [",".join([*row, f"{label:.6f}" if label == label else ""]) for row, label in zip(rows, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,d,e,f,y", *lines]) + "\n")
    run = lambda *args: CliRunner().invoke(app, [str(a) for a in args])
    options = ["--target", "y", "--geometry", "flat", "--smoothness", "heat", "--missing", "100"]
    for name in ("empty", "coded"):
        found = run("fit", tmp_path / f"{name}.csv", *options, "--out", tmp_path / f"{name}.gpum")
        assert found.exit_code == 0, found.output
        assert "of the readings missing" in found.output
        table = tmp_path / f"{name}.csv"
        found = run("predict", tmp_path / f"{name}.gpum", table, "--out", tmp_path / f"{name}_out.csv")
        assert found.exit_code == 0, found.output
    assert (tmp_path / "empty_out.csv").read_text() == (tmp_path / "coded_out.csv").read_text()
    found = run("report", tmp_path / "coded.gpum", "--out", tmp_path / "report.html")
    assert found.exit_code == 0, found.output


def heard(seed, cut=-82.0):
    """Signals of 24 senders at 60 positions of a tour, and the same without what is too weak to be heard."""
    rng = np.random.default_rng(seed)
    u = np.sort(rng.uniform(0, 100, 60))
    positions = np.stack([20 + 20 * np.sin(u / 16), 0.6 * u], 1)
    senders = np.stack([rng.uniform(0, 45, 24), rng.uniform(-5, 65, 24)], 1)
    away = np.maximum(np.linalg.norm(positions[:, None] - senders, axis=2), 1)
    S = -40 - 30 * np.log10(away) + 3 * rng.standard_normal(away.shape)
    return S, np.where(cut < S, S, np.nan)


def test_gaps_for_a_reason_are_distinguished_from_gaps_by_chance():
    """Of a hundred clouds with gaps by chance none, of twenty with cut signals all."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        by_chance = rng.random((rng.integers(20, 200), rng.integers(2, 60))) < rng.uniform(0.05, 0.7)
        assert not together(np.where(by_chance, np.nan, 1.0))
    for seed in range(20):
        S, cut = heard(seed)
        assert together(cut)
        assert not together(np.where(rng.random(S.shape) < 0.5, np.nan, S))
    assert not together(S)
    rows = ~np.isnan(cut).all(1)
    u = np.linspace(0, 1, rows.sum())
    model = GPUMRegressor(geometry="flat", smoothness="heat").fit(cut[rows][:, ~np.isnan(cut[rows]).all(0)], u)
    assert any("missing together" in note for note in model.notes_)


@pytest.mark.slow
def test_a_roll_with_gaps():
    """30 % of the readings removed: the error is at most half as large again."""
    from gpum import datasets

    rng = np.random.default_rng(0)
    cloud = datasets.make_swiss_roll(random_state=0)
    turn = np.linalg.qr(rng.standard_normal((10, 10)))[0][:3]
    X = cloud.X @ turn + 0.05 * rng.standard_normal((len(cloud.X), 10))
    unknown = np.isnan(cloud.y)
    errors = []
    for S in (X, gaps(rng, X)):
        model = GPUMRegressor(2, geometry=("chart", "atlas"), random_state=0).fit(S, cloud.y)
        errors.append(np.sqrt(np.mean((model.transduction_ - cloud.y_true)[unknown] ** 2)))
    assert errors[1] < 1.5 * errors[0]


def test_the_categories_of_one_missing_word_are_not_missing_together():
    """A gap in a column of words is one in each of its indicators; sensors that fail together are another matter."""
    rng = np.random.default_rng(0)
    kind, gone = rng.integers(0, 3, 90), rng.random(90) < 0.2
    words = np.where(gone[:, None], np.nan, np.eye(3)[kind])
    numbers = rng.standard_normal((90, 3))
    assert not together(np.concatenate([words, numbers], 1))
    assert together(np.where(gone[:, None], np.nan, numbers))


def test_the_cloud_is_filled_in_once_for_all_predictions(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    model = GPUMRegressor(geometry=["graph", "flat"], random_state=0).fit(X, X[:, 0])
    calls = []
    monkeypatch.setattr("gpum.fitted.geometries.fill_in", lambda rows: calls.append(1) or fill_in(rows))
    row = np.where(np.arange(4) == 1, np.nan, X[:1] + 0.1)
    first = model.predict(row)
    np.testing.assert_array_equal(model.predict(row), first)
    assert len(calls) == 1
