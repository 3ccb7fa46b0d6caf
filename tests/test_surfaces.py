"""The surfaces of fitted models: in units of X, with lengths, eigenvalues and shortest paths of the true surface."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpum import (
    Atlas,
    BayesianGPLVM,
    Chart,
    EmbeddedChart,
    GpumError,
    GPUMRegressor,
    SwissRoll,
    brownian_path,
    datasets,
    heat_kernel,
    spectral,
)


@pytest.fixture(scope="module")
def strip():
    """A rolled strip, 4 by 1, of radius 1.5, in centimetres and with an offset; its flat coordinates; a fit."""
    rng = np.random.default_rng(0)
    flat = rng.uniform([0, 0], [4, 1], (300, 2))
    X = 100 * np.column_stack([1.5 * np.sin(flat[:, 0] / 1.5), 1.5 * np.cos(flat[:, 0] / 1.5), flat[:, 1]]) + 7.0
    y = np.where(np.arange(300) < 60, np.sin(2 * flat[:, 0]) + flat[:, 1], np.nan)
    return GPUMRegressor(2, geometry="atlas", random_state=0).fit(X, y), X, flat


def test_an_atlas_has_the_lengths_of_its_surface(strip):
    model, X, flat = strip
    (surface,) = model.surfaces_
    assert surface.weight == pytest.approx(1.0)
    assert surface.dim == 2
    assert surface.volume == pytest.approx(4e4, rel=0.05)  # random rows leave some of the edge uncovered
    away = surface.geodesic(X[0], X[1:40])
    exact = 100 * np.linalg.norm(flat[1:40] - flat[0], axis=1)
    assert np.median(np.abs([g.length for g in away] / exact - 1)) < 0.03
    ends = np.array([g.path[-1] for g in away])
    assert np.linalg.norm(ends - X[1:40], axis=1).max() < 5
    located = surface.project(X[:50])
    at = np.einsum("nj,njp->np", located.weights, surface.nodes[located.nodes])
    np.testing.assert_allclose(np.linalg.norm(at - X[:50], axis=1), located.distance, atol=1e-6)
    assert not located.far.any()
    assert surface.project([[1e4, 0, 0]]).far.all()


def test_shortest_paths_on_a_learned_roll():
    """An atlas of 500 rows of the Swiss roll against straight lines on the unrolled one."""
    cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=480, random_state=0)
    r, z = cloud.chart_coords.T
    flat = np.column_stack([SwissRoll().arc_length(r), z])
    away = Atlas(2).fit(cloud.X).geodesic(cloud.X[0], cloud.X[1:80])
    np.testing.assert_allclose([g.length for g in away], np.linalg.norm(flat[1:80] - flat[0], axis=1), rtol=0.01)


def test_its_spectrum_is_that_of_the_atlas(strip):
    model, X, _ = strip
    (surface,) = model.surfaces_
    own = Atlas(2).fit(X).eigenpairs(12)
    found = surface.spectrum(12)
    np.testing.assert_allclose(found.values[1:], own.values[1:], rtol=1e-6)
    np.testing.assert_allclose(found.at(X[:9]) ** 2 @ np.ones(12), own.at(X[:9]) ** 2 @ np.ones(12), rtol=1e-4)
    F = found.features(X[:9], 30.0)
    G = own.features(X[:9], 30.0)
    np.testing.assert_allclose(F @ F.T, G @ G.T, rtol=1e-3)
    with pytest.raises(GpumError, match="fit computed 200 eigenpairs"):
        surface.spectrum(300)
    kernel = heat_kernel(surface, X[:5], None, 5000.0, n_modes=100)
    np.testing.assert_allclose(kernel, heat_kernel(Atlas(2).fit(X), X[:5], None, 5000.0, n_modes=100), rtol=1e-3)
    assert np.array_equal(spectral.eigenpairs(surface, n_modes=9).values, surface.spectrum(9).values)


def test_paths_on_surfaces(strip):
    model, X, _ = strip
    for surface in (model.surfaces_[0], Atlas(2).fit(X)):
        paths = brownian_path(surface, np.tile(X[:1], (60, 1)), 200.0, n_steps=3, random_state=0)
        assert paths.shape == (60, 4, 3)
        assert 0.5 < np.mean(np.sum((paths[:, -1] - X[0]) ** 2, 1)) / (2 * 200.0) < 1.7  # E|x|² = 2t, from node to node


def test_surfaces_are_stored(strip, tmp_path):
    model, X, _ = strip
    model.save(tmp_path / "m.gpum")
    (loaded,), (surface,) = GPUMRegressor.load(tmp_path / "m.gpum").surfaces_, model.surfaces_
    np.testing.assert_array_equal(loaded.nodes, surface.nodes)
    np.testing.assert_array_equal(loaded.spectrum(5).values, surface.spectrum(5).values)
    assert loaded.geodesic(X[0], X[1]).length == surface.geodesic(X[0], X[1]).length


def test_flat_space_and_graphs_are_no_surfaces(default_fit):
    model = default_fit[0]
    assert [s.weight for s in model.surfaces_] == sorted((s.weight for s in model.surfaces_), reverse=True)
    assert all(s.title.startswith(("chart", "atlas")) for s in model.surfaces_)


def test_a_learned_chart_has_the_length_of_its_curve(curve_fit):
    surface = curve_fit.model.surfaces_[0]
    assert surface.title == "chart of dimension 1"
    t = np.linspace(-1, 1, 400)
    curve = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t, 0.5 * t], 1)
    steps = np.append(0, np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1)))
    found = surface.geodesic(curve[40], curve[[100, 200, 360]])
    np.testing.assert_allclose([g.length for g in found], steps[[100, 200, 360]] - steps[40], rtol=0.02)
    t = np.sort(np.random.default_rng(0).uniform(-1, 1, 40))  # of the rows, at which the curve ends
    length = np.interp(t[-1], np.linspace(-1, 1, 400), steps) - np.interp(t[0], np.linspace(-1, 1, 400), steps)
    assert surface.volume == pytest.approx(length, rel=0.02)
    assert surface.spectrum(2).values[1] == pytest.approx((np.pi / length) ** 2, rel=0.05)


def test_shortest_paths_cross_where_the_chart_is_cut(tmp_path):
    """A closed curve of speed √1.36, cut somewhere by its chart: paths take the shorter way around, a file's too."""
    t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    X = np.stack([np.cos(t), np.sin(t), 0.3 * np.cos(2 * t), 0.3 * np.sin(2 * t)], 1)
    latent = BayesianGPLVM(1, random_state=0, n_inducing=20, starts="isomap").fit(X)
    y = np.where(np.arange(48) % 3 == 0, np.sin(t), np.nan)
    model = GPUMRegressor(1, geometry="chart", latent_model=latent, random_state=0).fit(X, y)
    (surface,) = model.surfaces_
    assert surface.volume == pytest.approx(2 * np.pi * np.sqrt(1.36), rel=0.01)
    turn = np.minimum(t, 2 * np.pi - t)
    from_each = [[g.length for g in surface.geodesic(X[k], X)] for k in (5, 29)]
    exact = np.sqrt(1.36) * np.array([np.roll(turn, 5), np.roll(turn, 29)])
    np.testing.assert_allclose(from_each, exact, rtol=0.01, atol=1e-3)
    assert surface.elements()[1].sum() == pytest.approx(surface.volume, rel=0.01)
    model.save(tmp_path / "m.gpum")
    (loaded,) = GPUMRegressor.load(tmp_path / "m.gpum").surfaces_
    np.testing.assert_array_equal(loaded.cells, surface.cells)


@pytest.mark.parametrize("unit", [1.0, 1e-40])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_lengths_of_learned_charts_are_in_the_units_of_the_columns(unit, scale):
    t = np.linspace(-1, 1, 60)
    arc = unit * np.stack([3 * np.sin(t), 3 * np.cos(t), 0.01 * np.cos(40 * t)], 1)  # a small third column
    latent = BayesianGPLVM(1, n_inducing=12, starts="isomap", scale="none", random_state=0)
    if scale == "standard":
        arc, latent = arc[:, :2], latent.set_params(scale="standard")
    model = GPUMRegressor(1, geometry="chart", latent_model=latent.fit(arc), random_state=0).fit(arc, np.sin(3 * t))
    surface = model.surfaces_[0]
    assert surface.volume == pytest.approx(6 * unit, rel=0.03)
    assert surface.spectrum(2).values[1] == pytest.approx((np.pi / surface.volume) ** 2, rel=1e-3)
    assert surface.geodesic(arc[0], arc[-1]).length == pytest.approx(6 * unit, rel=0.03)
    off = arc[30] * (1 + 0.1 * np.array([1.0, 1.0, 0.0])[: arc.shape[1]])  # 0.1 radii away, along one
    assert surface.project(off[None]).distance == pytest.approx(0.3 * unit, rel=0.05)


def test_known_charts_have_their_metric():
    roll = SwissRoll()
    rows = np.random.default_rng(0).uniform(*roll.bounds.T, (60, 2))
    model = GPUMRegressor(latent_model=roll, random_state=0).fit(rows, np.sin(rows[:, 0]))
    surface = model.surfaces_[0]
    u = roll.arc_length(rows[:, 0])
    exact = np.hypot(u[1:20] - u[0], rows[1:20, 1] - rows[0, 1])
    np.testing.assert_allclose([g.length for g in surface.geodesic(rows[0], rows[1:20])], exact, rtol=0.01)
    assert surface.volume == pytest.approx(12 * np.ptp(roll.arc_length(roll.r)), rel=1e-3)
    tube = EmbeddedChart(
        lambda x: jnp.stack([jnp.cos(x[0]), jnp.sin(x[0]), x[1]]), [(0, 2 * np.pi), (0, 1)], (True, False)
    )
    rows = np.random.default_rng(0).uniform(*tube.bounds.T, (60, 2))
    surface = GPUMRegressor(latent_model=tube).fit(rows, np.sin(rows[:, 0])).surfaces_[0]
    assert surface.geodesic([0.2, 0.5], [6.1, 0.5]).length == pytest.approx(0.2 + 2 * np.pi - 6.1, rel=1e-6)


class Disc(Chart):
    """A disc of some radius in polar coordinates, as a user writes it: nothing but the mathematics."""

    def __init__(self, radius):
        self.radius = np.asarray(radius)

    @property
    def bounds(self):
        return np.array([[0.05, float(self.radius)], [0.0, 2 * np.pi]])

    @property
    def periodic(self):
        return (False, True)

    def metric(self, x):
        return jnp.diag(jnp.stack([jnp.ones_like(x[0]), x[0] ** 2]))

    def inside(self, x):
        return (x[0] >= 0.05) & (x[0] <= self.radius)


def test_own_charts_need_no_registration():
    for radius in (1.0, 2.0):  # another radius is another program
        pairs = spectral.eigenpairs(Disc(radius), n_modes=3)
        assert pairs.values[1] == pytest.approx((1.8412 / radius) ** 2, rel=0.02)  # j'_11, but for the small hole
    assert brownian_path(Disc(1.0), [0.5, 1.0], 0.1, n_steps=10, random_state=0).shape == (11, 2)


def test_own_charts_that_are_registered_stay_so():
    class Line(Chart):
        bounds = np.array([[0.0, 1.0]])

        def __init__(self, speed):
            self.speed = speed

        def metric(self, x):
            return jnp.eye(1) * self.speed**2

        def inside(self, x):
            return (x[0] >= 0) & (x[0] <= 1)

    jax.tree_util.register_pytree_node(Line, lambda c: ((c.speed,), None), lambda _, leaves: Line(*leaves))
    assert len(jax.tree.leaves(Line(2.0))) == 1
    assert spectral.eigenpairs(Line(2.0), n_modes=2).values[1] == pytest.approx(np.pi**2 / 4, rel=1e-3)


def test_models_on_own_charts_predict_and_are_not_stored(tmp_path):
    rows = np.random.default_rng(0).uniform(*Disc(1.0).bounds.T, (50, 2))
    model = GPUMRegressor(latent_model=Disc(1.0)).fit(rows, rows[:, 0] * np.cos(rows[:, 1]))
    assert model.score(rows, rows[:, 0] * np.cos(rows[:, 1])) > 0.99
    with pytest.raises(GpumError, match=r"not a chart of your own \(.*Disc\)"):
        model.save(tmp_path / "m.gpum")
    assert not (tmp_path / "m.gpum").exists()


def test_charts_in_numpy_are_refused_in_a_sentence():
    class InNumpy(Disc):
        def metric(self, x):
            return np.eye(2) * np.sin(np.asarray(x[0]))

    class WithIf(Disc):
        def inside(self, x):
            return bool(x[0] > 0)

    for chart in (InNumpy(1.0), WithIf(1.0)):
        with pytest.raises(GpumError, match=f"{type(chart).__name__} cannot be compiled: write"):
            spectral.eigenpairs(chart, n_modes=2)


def test_coordinates_lead_back_to_rows(curve_fit):
    latent, X = curve_fit.model.latent_model_, curve_fit.X
    rows, std = latent.inverse_transform(latent.latent_, return_std=True)
    assert rows.shape == std.shape == X.shape
    assert np.sqrt(np.mean((rows - X) ** 2)) < 0.02  # noise of 0.01
    assert np.all(std > 0)
    far = latent.inverse_transform(latent.latent_.max(0, keepdims=True) + 5, return_std=True)[1]
    assert np.all(far > 5 * std.mean())
    own = curve_fit.model
    np.testing.assert_allclose(own.inverse_transform(own.transform(X)), rows, atol=0.02)
    with pytest.raises(GpumError, match="Z has"):
        latent.inverse_transform(np.ones((2, 3)))


def test_coordinates_in_the_units_of_the_columns():
    t = np.linspace(-1, 1, 40)
    X = np.column_stack([1e3 * np.sin(2 * t) + 5e3, np.cos(2 * t), 0.3 * t, 0.5 * t])
    model = BayesianGPLVM(1, scale="standard", n_inducing=12, starts="pca", random_state=0).fit(X)
    rows, std = model.inverse_transform(model.latent_, return_std=True)
    assert np.all(np.abs(rows - X).max(0) < 0.05 * X.std(0))
    np.testing.assert_allclose(std / std[:, :1], np.broadcast_to(X.std(0) / X[:, 0].std(), X.shape), rtol=1e-6)
