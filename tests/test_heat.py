"""Brownian paths and the kernels made from them."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import eval_legendre
from scipy.stats import ks_2samp

from gpum import EmbeddedChart, brownian_path, heat_kernel
from gpum.heat import brownian, kernel
from gpum.heat import table as tables
from gpum.heat.histograms import path_features, prepared
from gpum.heat.paths import EMPTY, SELF_FRACTION, ball_radius, cells_around, make_cells, merged_volumes, plan_legs
from gpum.manifold import drift, evaluate, inverse_root, straighten
from oracles import CIRCLE, CYLINDER, ROLL, SPHERE, Ring, interval_kernel, roll_kernel

# Of the unit sphere, latitudes ±1: at the poles themselves Euler steps in latitude and longitude break down.
BAND = EmbeddedChart(SPHERE.phi, [(-1.0, 1.0), (0, 2 * np.pi)], (False, True))
INTERVAL = EmbeddedChart(lambda x: x, [(0.0, 4.0)])


def geometry_at(table, points):
    """Drift [n, q], root [n, q, q], depth [n] and normal [n, q] that a table has at points [n, q]."""
    with jax.enable_x64(True):
        mean, rows, depth, normal, _ = tables.lookup(table, tuple(jnp.asarray(points.T)))
        root = np.stack([np.stack(row, -1) for row in rows], -1)
        return np.stack(mean, -1), root, np.asarray(depth), np.stack(normal, -1)


def test_a_table_has_the_geometry_of_the_middles_of_its_cells_and_the_depth_of_points():
    table = tables.tabulate(ROLL)
    points = np.random.default_rng(0).uniform([2, 0], [12.5, 12], (2000, 2))
    sizes = (table.high - table.low) / table.values.shape[:2]
    middles = (np.floor((points - [2, 0]) / sizes) + 0.5) * sizes + [2, 0]
    mean, root, depth, normal = geometry_at(table, points)
    np.testing.assert_allclose(mean, evaluate(ROLL, drift, middles), atol=1e-6)
    np.testing.assert_allclose(root, evaluate(ROLL, inverse_root, middles), rtol=1e-6, atol=1e-7)
    exact = evaluate(ROLL, inverse_root, points)
    error = np.linalg.norm(root - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
    assert np.quantile(error, 0.99) ** 2 < tables.TABLE_ERROR
    walls = np.concatenate([points - [2.0, 0.0], [12.5, 12.0] - points], 1)  # the roll fills its box
    near = np.abs(np.sort(walls, 1)[:, 0] - np.sort(walls, 1)[:, 1]) > 2 * sizes.max()  # one wall is the nearest
    np.testing.assert_allclose(depth[near], walls.min(1)[near], atol=1e-4)
    np.testing.assert_allclose(np.abs(normal).sum(1), 1.0)
    beyond = geometry_at(table, np.array([[1.9, 3.0], [8.0, 12.3]]))
    np.testing.assert_allclose(beyond[2], [-0.1, -0.3], atol=1e-5)


def test_table_at_a_curved_edge():
    """Outside, depths are the distance to the edge, and drift and root those of the mirrored point."""
    ring = Ring(0.7, 0.3)
    table = tables.tabulate(ring)
    size = np.max((table.high - table.low) / table.values.shape[:2])
    angle = np.linspace(0, 2 * np.pi, 400)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    for edge, side in ((0.55, 1.0), (0.85, -1.0)):
        _, root, depth, normal = geometry_at(table, (edge - 0.08 * side) * circle)
        exact = evaluate(ring, inverse_root, (edge + 0.08 * side) * circle)
        error = np.linalg.norm(root - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
        assert error.max() < 2 * 2 * edge / (1 + edge**2) * size  # two cells, times the rate at which the root changes
        np.testing.assert_allclose(depth, -0.08, atol=0.5 * size)
        assert np.all(np.sum(normal * circle * side, 1) > 0.9)
    assert table.error < tables.TABLE_ERROR
    assert table.misplaced < tables.MISPLACED[2]


def test_a_table_that_misses_its_target_says_so(monkeypatch):
    with pytest.warns(UserWarning, match=r"wrong side of its boundary \(target 1%\)"):
        table = tables.tabulate(Ring(0.7, 0.002))  # half a cell of the largest table
    assert table.misplaced > tables.TOO_FEW
    with pytest.raises(ValueError, match="too narrow to be tabulated"):
        tables.tabulate(Ring(0.7, 1e-9))
    monkeypatch.setattr(tables, "TABLE_SIZES", {2: (4, 6)})
    with pytest.warns(UserWarning, match=r"6 cells per coordinate.* error of .*target 0\.20%"):
        assert tables.tabulate(ROLL).error > tables.TABLE_ERROR


@pytest.mark.parametrize("width", [0.03, 0.1, 0.3])
def test_cells_outside_have_no_volume(width):
    """4 × 4 points in each cell give the area of a ring to a few percent, its edge being 2/width long for its area."""
    ring = Ring(0.7, width)
    cells = make_cells(straighten(ring), 0.05, 1000)
    assert cells.volumes.sum() == pytest.approx(ring.area, rel=0.002 / width)
    merge = cells.merged(0.2)
    volumes = merged_volumes(cells, merge)
    some = np.median(volumes[volumes > 0])
    angle = np.linspace(0, 2 * np.pi, 50)
    points = straighten(ring).coordinates(0.7 * np.stack([np.cos(angle), np.sin(angle)], 1))
    around, weights = cells_around(points, cells, merge)
    assert np.all(volumes[around][weights > 0] > EMPTY * some)
    np.testing.assert_allclose(weights.sum(1), 1)


def test_steps_that_are_coarser_than_the_geometry_asks_for_are_announced():
    legs = np.array([0.01, 100.0])
    with pytest.warns(UserWarning, match=r"need steps of 0\.0005, 200000 in all, but 4000 of 0\.025 are taken"):
        steps = kernel.step_sizes(INTERVAL, legs, None)
    np.testing.assert_allclose(steps, 0.025)


@pytest.mark.parametrize("estimator", ["histogram", "ball"])
def test_roll_kernel_within_its_standard_error(estimator):
    r = np.linspace(4, 8, 8)
    targets = np.column_stack([r, np.linspace(2, 6, 8)])
    options = {"method": "brownian", "random_state": 0, "return_std": True, "estimator": estimator, "n_paths": 8000}
    kernel, std = heat_kernel(ROLL, [[6.0, 3.0]], targets, [4.0, 10.0], **options)
    for k, s, t in zip(kernel, std, [4.0, 10.0], strict=True):
        exact = roll_kernel((6.0, 3.0), targets, t)
        bias = 0.02 if estimator == "ball" else 0.01  # of the peak
        assert np.all(np.abs(k[0] - exact) < 4 * s[0] + bias * exact.max())
        assert np.all(s >= 0)
        assert s.max() < 0.1 * exact.max()


@pytest.mark.parametrize("estimator", ["histogram", "ball"])
def test_the_standard_error_is_that_of_repeated_runs(estimator):
    """Paths are spread evenly within a block, and errors are a fraction of those of independent paths."""
    start, targets = np.array([[2.0]]), np.linspace(1.2, 2.8, 5)[:, None]
    options = {"n_paths": 1000, "step_size": 0.05, "return_std": True, "estimator": estimator}
    runs = [heat_kernel(INTERVAL, start, targets, 0.5, "brownian", random_state=k, **options) for k in range(40)]
    kernels, errors = (np.array([run[k][0, 0] for run in runs]) for k in (0, 1))
    ratio = np.sqrt(np.mean(errors**2, 0)) / kernels.std(0, ddof=1)
    assert 0.75 < np.median(ratio) < 1.35  # each is known to a ninth


def test_mirrors_leave_no_bias_at_a_wall():
    """Of a flat interval, where mirrored steps are exact: large steps do, at the wall itself."""
    wall = np.array([[0.02]])
    exact = interval_kernel(0.02, wall[:, 0], 1.0, 4.0)[0]
    options = {"n_paths": 60_000, "step_size": 0.1, "random_state": 1, "return_std": True}
    found, std = heat_kernel(INTERVAL, wall, None, 1.0, "brownian", **options)
    assert abs(found[0, 0, 0] - exact) < 4 * std[0, 0, 0] + 0.002 * exact  # cells meet the wall, where the slope is 0


def test_mirrors_at_a_curved_edge_of_a_curved_surface():
    """A band of the sphere in stereographic coordinates, whose edges are circles: paths and spectrum agree there.

    The error that is allowed is that of cells which the edge cuts: it does not fall with the step.
    """
    ring = Ring(0.7, 0.3)
    angle = np.array([0.0, 0.3, 2.0])
    edge = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], 1) for r in (0.551, 0.7, 0.849)])
    exact = heat_kernel(ring, edge, None, [0.1], "spectral")
    options = {"n_paths": 20_000, "random_state": 0, "return_std": True}
    found, std = heat_kernel(ring, edge, None, [0.1], "brownian", **options)
    assert np.all(np.abs(found - exact) < 4 * std + 0.04 * exact.max())


@pytest.mark.slow
def test_the_default_step_is_exact_at_the_edges_of_the_roll():
    """To 1 % of the peak, in its corners too; drawing again until inside had 3 %."""
    edges = np.array([[2.0, 0.0], [2.0, 6.0], [12.5, 12.0], [12.5, 6.0], [2.3, 11.9]])
    for t in (2.0, 10.0):
        exact = np.array([roll_kernel(start, edges, t) for start in edges])
        found = heat_kernel(ROLL, edges, None, [t], "brownian", n_paths=100_000, random_state=0)[0]
        error = np.abs(found - exact).max() / exact.max()
        print(f"t = {t}: largest error {error:.2%} of the peak")
        assert error < 0.01


@pytest.mark.parametrize("chart", [CIRCLE, CYLINDER, BAND])
def test_paths_and_spectrum_agree(chart):
    low, high = chart.bounds.T
    fraction = np.array([0.3, 0.5, 0.98])
    points = low + fraction[:, None] * (high - low) * np.array([1, 0.8])[: len(low)]
    exact = heat_kernel(chart, points, None, [0.6], "spectral")
    found, std = heat_kernel(chart, points, None, [0.6], "brownian", n_paths=8000, random_state=0, return_std=True)
    assert np.all(np.abs(found - exact) < 4 * std + 0.02 * exact.max())


def test_default_path_kernel_is_positive_definite():
    points = np.random.default_rng(0).uniform([2, 0], [12.5, 12], (30, 2))
    kernel = heat_kernel(ROLL, points, None, [5.0], "brownian", n_paths=400, step_size=0.2, random_state=0)[0]
    assert np.abs(kernel - kernel.T).max() <= 1e-12 * kernel.max()
    values = np.linalg.eigvalsh(kernel)
    assert values[0] > -1e-10 * values[-1]


FOUR = """
from gpum import EmbeddedChart, heat_kernel

torus = EmbeddedChart(lambda x: x, [(0.0, 2.0)] * 4, (True,) * 4)
heat_kernel(torus, [[0.1 * k] * 4 for k in range(8)], None, [0.1], n_paths=20_000, step_size=0.05, n_jobs=4)
"""


def test_paths_without_a_table_do_not_wait_for_each_other():
    """Metrics of many points in several threads: each waited for a thread that the others had, for ever."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FOUR], timeout=100, check=True)


@pytest.mark.slow
def test_four_dimensions_by_histograms():
    """A flat torus, on which Euler steps are exact: the product of four circles."""
    side, t, n_paths = 2.0, 0.5, 20_000
    torus = EmbeddedChart(lambda x: x, [(0.0, side)] * 4, (True,) * 4)
    points = np.array([[1.0, 1.0, 1.0, 1.0], [0.6, 1.0, 1.4, 0.8], [0.3, 0.3, 1.0, 1.7]])
    options = {"n_paths": n_paths, "step_size": 0.05, "random_state": 0, "return_std": True}
    kernel, std = heat_kernel(torus, points, None, [t], **options)
    turns = np.arange(-9, 10)[:, None, None, None]
    gap = points[:, None] - points + side * turns
    exact = np.prod(np.sum(np.exp(-(gap**2) / (2 * t)), 0) / np.sqrt(2 * np.pi * t), -1)
    meets_itself = np.eye(len(points)) * SELF_FRACTION * (2 * np.pi * t) ** -2
    errors = (kernel[0] - exact - meets_itself) / std[0]
    print(f"errors in standard errors {errors.round(1).tolist()}, standard errors {(std[0] / exact).max():.1%} at most")
    assert np.abs(errors).max() < 4
    assert (std[0] / exact).max() < 0.02


@pytest.mark.slow
def test_histograms_say_when_they_are_too_coarse():
    box = EmbeddedChart(lambda x: x, [(0.0, 2.0)] * 5)
    with pytest.warns(UserWarning, match="too small for a histogram"):
        heat_kernel(box, [[1.0] * 5], None, [0.02], n_paths=40, step_size=0.01)


@pytest.mark.slow
def test_halving_the_step_is_reported():
    """Near the pole of a sphere large steps are wrong, and said to be; in the middle of an interval they are exact."""
    options = {"method": "brownian", "random_state": 0, "return_std": True, "estimator": "ball", "radius": 0.3}
    cap = EmbeddedChart(SPHERE.phi, [(0.2, 1.5), (0, 2 * np.pi)], (False, True))
    pole, step = np.array([[1.45, 1.0]]), {"step_size": 0.4, "tabulated": False}
    with pytest.warns(UserWarning, match=r"halving the step size 0\.4 .* standard errors.*step_size below"):
        checked = heat_kernel(cap, pole, None, [0.4], check_step=True, **options, **step)
    np.testing.assert_array_equal(checked, heat_kernel(cap, pole, None, [0.4], **options, **step))
    options = {"method": "brownian", "step_size": 0.1, "random_state": 0}
    heat_kernel(INTERVAL, np.array([[1.8], [2.0]]), None, [0.2, 1.0], check_step=True, **options)


@pytest.mark.slow
def test_four_dimensions_run_on_paths():
    box = EmbeddedChart(lambda x: x, [(0.0, 2.0)] * 4)
    start = np.full((1, 4), 1.0)
    kernel, std = heat_kernel(
        box, start, None, [0.5], estimator="ball", method="auto", n_paths=4000, step_size=0.05, random_state=0,
        return_std=True,
    )  # fmt: skip
    exact = interval_kernel(1.0, [1.0], 0.5, 2.0)[0] ** 4
    assert abs(kernel[0, 0, 0] - exact) < 4 * std[0, 0, 0] + 0.15 * exact


def test_results_do_not_depend_on_the_workers():
    points = np.array([[6.0, 3.0], [7.0, 4.0], [9.0, 9.0]])
    options = {"method": "brownian", "n_paths": 2000, "random_state": 3, "step_size": 0.2}
    alone = heat_kernel(ROLL, points, None, [3.0, 8.0], **options)
    np.testing.assert_array_equal(alone, heat_kernel(ROLL, points, None, [3.0, 8.0], n_jobs=2, **options))
    some = heat_kernel(ROLL, points[:2], points[:2], [3.0, 8.0], **options)
    np.testing.assert_array_equal(alone[:, :2, :2], some)


def test_single_path_stays_inside():
    path = brownian.path(ROLL, [6.0, 3.0], 50.0, jax.random.key(0), n_steps=500)
    assert path.shape == (501, 2)
    assert evaluate(ROLL, "inside", path).all()
    steps = np.diff(path, axis=0) * np.sqrt(1 + path[:-1, :1] ** 2 * [[1, 0]])
    assert np.mean(np.sum(steps**2, 1)) == pytest.approx(2 * 50 / 500, rel=4 * np.sqrt(2 / 1000))  # χ², 1 000 steps


def test_legs_reach_the_times():
    dts, counts = plan_legs(np.array([0.3, 1.0, 1.05]), np.array([0.1, 0.1, 0.1]))
    np.testing.assert_allclose(np.cumsum(dts * counts), [0.3, 1.0, 1.05])
    assert np.all(dts <= 0.1 + 1e-12)


def test_ball_radius_balances_the_errors():
    t, n, q = np.array([5.0]), 20_000, 2
    w = ball_radius(n, q, t)[0]
    monte_carlo = np.sqrt(2 * t[0] / (n * w**2))
    assert monte_carlo == pytest.approx(w**2 / (4 * t[0]), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [0.0]}, "times must be positive"),
        ({"times": [np.nan]}, "times must be positive"),
        ({"method": "spectrl"}, "did you mean 'spectral'"),
        ({"starts": [[1.0, 3.0]]}, "starts has 1 points outside"),
        ({"starts": [[1.0, 3.0, 2.0]]}, "the chart has 2 coordinates"),
        ({"n_paths": 0}, "n_paths must be"),
        ({"step_size": -1.0, "method": "brownian"}, "step_size must be a positive"),
        ({"radius": 0, "method": "brownian", "estimator": "ball"}, "radius must be a positive"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"starts": [[6.0, 3.0]], "targets": None, "times": [5.0], **change}
    with pytest.raises(ValueError, match=message):
        heat_kernel(ROLL, **arguments)


@pytest.mark.slow
def test_chart_independence():
    """(r, z) and (arc length, z): two charts of one roll, walked as they stand, agree as dt becomes small."""
    u0, u1 = ROLL.arc_length(ROLL.r)
    flat = EmbeddedChart(lambda x: x, [(u0, u1), ROLL.z])
    start, n_blocks, n_paths = np.array([3.0, 6.0]), 10, 1000
    lengths = []
    for chart, point in ((ROLL, start), (flat, np.array([ROLL.arc_length(start[0]), start[1]]))):
        moving = brownian.motion(chart)
        keys = brownian.block_keys(jax.random.key(0), np.full(n_blocks, len(lengths)), np.arange(n_blocks))
        starts = jnp.asarray(np.repeat(point[None], n_blocks, 0), jnp.float32)
        dts, counts = jnp.asarray([0.01], jnp.float32), jnp.asarray([200], jnp.int32)
        x = np.asarray(brownian.simulate(moving, keys, starts, dts, counts, None, n_paths, _positions)[0], float)
        lengths.append(x.reshape(-1, 2))
    along = [ROLL.arc_length(lengths[0][:, 0]), lengths[1][:, 0]]
    assert ks_2samp(*along).pvalue > 1e-3
    assert ks_2samp(lengths[0][:, 1], lengths[1][:, 1]).pvalue > 1e-3


def _positions(x, leg, extra):
    return x


@pytest.mark.slow
def test_brownian_path_stays_inside_and_spreads_like_its_time(roll_model):
    start = roll_model.latent_[40]
    path = brownian_path(roll_model.chart_, start, 20.0, n_steps=500, random_state=0)
    assert path.shape == (501, 2)
    assert np.allclose(path[0], start, atol=1e-4)
    assert evaluate(roll_model.chart_, "inside", path).mean() > 0.99  # a table's edge is not that of the chart
    again = brownian_path(roll_model.chart_, start, 20.0, n_steps=500, random_state=0)
    assert np.array_equal(path, again)
    middle = [7.0, 6.0]
    steps = np.diff(brownian_path(ROLL, middle, 1.0, n_steps=2000, random_state=0)[:, 1])
    assert abs(np.sum(steps**2) - 1.0) < 4 * np.sqrt(2 / 2000)  # z is a Brownian motion of unit rate
    halves = np.sum(steps.reshape(2, -1), 1)
    assert np.all(np.abs(halves) < 4 * np.sqrt(0.5))
    with pytest.raises(ValueError, match="outside the chart's boundary"):
        brownian_path(ROLL, [50.0, 6.0], 1.0)
    with pytest.raises(ValueError, match="time must be a positive number"):
        brownian_path(ROLL, middle, 0.0)


@pytest.mark.slow
def test_features_without_their_noise_are_closer_to_the_kernel():
    """A row's paths meet themselves: raw features add noise of its own to every row, clean ones hardly any."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.uniform(3, 11, 120), rng.uniform(1, 11, 120)], 1)
    times, clean = path_features(ROLL, rows, rows, 500, None, None, None, seed=0)
    raw = prepared(straighten(ROLL), times, n_paths=500, step_size=None, seed=0, n_jobs=None)
    time, F, G = times[-1], raw(rows)[-1], clean[-1]
    area = 12 * float(np.ptp(ROLL.arc_length(ROLL.r)))
    exact = ROLL.heat_kernel(rows, rows, time)[0] - 1 / area
    own, mine = (float(np.mean(np.diag(f @ f.T - exact))) for f in (F, G))
    volumes = merged_volumes(raw.cells, raw.cells.merged(time))
    assert own == pytest.approx(1 / (500 * volumes.mean()), rel=0.5)
    assert abs(mine) < 0.4 * own
    assert np.linalg.norm(G @ G.T - exact) < np.linalg.norm(F @ F.T - exact)
    assert G.shape[1] < F.shape[1] / 4


def test_several_starts_have_a_path_each():
    starts = np.array([[5.0, 6.0], [7.0, 3.0], [9.0, 8.0]])
    paths = brownian_path(ROLL, starts, 1.0, n_steps=20, random_state=0)
    assert paths.shape == (3, 21, 2)
    np.testing.assert_allclose(paths[:, 0], starts, rtol=1e-5)
    np.testing.assert_array_equal(paths[0], brownian_path(ROLL, starts[0], 1.0, n_steps=20, random_state=0))
    moves = np.diff(paths, axis=1)
    assert np.abs(moves[0] - moves[1]).max() > 0


@pytest.mark.slow
def test_single_precision_changes_paths_by_far_less_than_a_step():
    """The same random numbers in both precisions, 200 steps, with mirrors at the edges of a ring."""
    even = straighten(Ring(0.7, 0.3))
    start, step, ends = even.coordinates(np.array([[0.7, 0.0]])), 1e-3, []
    for dtype in (np.float32, np.float64):
        moving = brownian.motion(even, dtype=dtype)
        with jax.enable_x64(bool(dtype == np.float64)):
            keys = brownian.block_keys(jax.random.key(0), [0], [0])
            legs = jnp.asarray([step], dtype), jnp.asarray([200], jnp.int32)
            simulated = brownian.simulate(moving, keys, jnp.asarray(start, dtype), *legs, None, 2000, _positions)
            ends.append(np.asarray(simulated[0][0, 0], float))
    gap = np.linalg.norm(ends[0] - ends[1], axis=1)
    print(f"gap over a step: median {np.median(gap) / step**0.5:.1e}, 99 % {np.quantile(gap, 0.99) / step**0.5:.1e}")
    assert np.quantile(gap, 0.99) < 1e-3 * np.sqrt(step)


@pytest.mark.slow
def test_paths_cross_the_pole_of_a_sphere():
    """In longitude and latitude the metric is singular there: no path meets it, and kernels beside it are right."""
    angles = np.array([[0.3, 1.0], [1.2, 2.0], [1.5, 0.5], [1.5, 3.6]])
    points = np.stack([np.asarray(SPHERE.phi(x)) for x in angles])
    degree = np.arange(60)[:, None, None]
    waves = (2 * degree + 1) / (4 * np.pi) * np.exp(-degree * (degree + 1) * 0.15)
    exact = (waves * eval_legendre(degree, np.clip(points @ points.T, -1, 1))).sum(0)
    options = {"n_paths": 10_000, "random_state": 0, "return_std": True, "step_size": 5e-4}
    with pytest.warns(UserWarning, match="largest table of the geometry"):
        found, std = heat_kernel(SPHERE, angles, None, [0.3], "brownian", **options)
    assert np.all(np.abs(found[0] - exact) < 4 * std[0] + 0.01 * exact.max())
