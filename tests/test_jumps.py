"""Brownian motion from node to node: against closed forms, across the charts of an atlas, in regression."""

import numpy as np
import pytest
from scipy.linalg import eigh, expm
from scipy.sparse import csr_matrix, diags
from scipy.spatial import Delaunay

from gpum import Atlas, GPUMRegressor, KernelOptions, Mesh, brownian_path, heat_kernel
from gpum.geometry.path_spaces import of_jumps
from gpum.heat import jumps
from gpum.heat.jumps import LEAST_RESIDENCE, jump_process, node_fractions
from gpum.heat.surfaces import SurfaceNodes
from gpum.manifold.surface import Location


def ring(n, length=1.0):
    """Stiffness and lumped mass of linear elements on a circle, and the nodes in the plane."""
    h = length / n
    K = (
        diags([np.full(n, 2.0), np.full(n - 1, -1.0), np.full(n - 1, -1.0), [-1.0], [-1.0]], [0, 1, -1, n - 1, 1 - n])
        / h
    )
    angle = 2 * np.pi * np.arange(n) / n
    return csr_matrix(K), np.full(n, h), length / (2 * np.pi) * np.stack([np.cos(angle), np.sin(angle)], 1)


class AtNodes:
    """Points are numbers of nodes."""

    nodes, dim = np.zeros((1600, 2)), 1

    def corners(self, rows):
        return np.asarray(rows, int).reshape(-1, 1), np.ones((len(rows), 1))

    def project(self, rows):
        return Location(*self.corners(rows), np.zeros(len(rows)), np.zeros(len(rows), bool))


at_nodes = AtNodes()


def nodes_of(K, mass):
    return SurfaceNodes(at_nodes, np.arange(len(mass)), csr_matrix(K), diags(mass).tocsr())


def fractions(nodes, between, points, times, n_paths, seed):
    """The fraction of paths from each point at each node, [points, n], for each time."""
    return [blocks[:, 0] for blocks in node_fractions(nodes, between, points, times, n_paths, [seed])]


def circle_kernel(distance, t, length=1.0):
    k = np.arange(-20, 21) * length
    return np.exp(-((distance[..., None] + k) ** 2) / (2 * t)).sum(-1) / np.sqrt(2 * np.pi * t)


def test_a_jump_process_on_a_circle_has_its_heat_kernel():
    """The fraction of paths at each node over its volume, within four standard errors of the closed form."""
    n, t, paths = 60, np.array([0.02, 0.06]), 20_000
    K, mass, _ = ring(n)
    assert jump_process(K, mass, 0.02).blocked == 0
    found = fractions(nodes_of(K, mass), at_nodes.corners([[7]]), np.array([[7.0]]), t, paths, 0)
    distance = (np.arange(n) - 7) / n
    for h, time in zip(found, t, strict=True):
        exact = circle_kernel(distance, time / 2)
        error = np.sqrt(exact * mass * (1 - exact * mass) / paths) / mass
        assert np.all(np.abs(h[0] / mass - exact) < 4 * error + 0.003 * exact.max())  # nodes are 1/60 apart


def test_a_jump_process_does_not_depend_on_the_unit_of_time():
    """Nor overflow in single precision where the units of the data make times large or small."""
    K, mass, _ = ring(40)
    start = (at_nodes.corners([[7]]), np.array([[7.0]]))
    times = np.array([0.02, 0.06])
    found = fractions(nodes_of(K, mass), *start, times, 200, 0)
    for unit in (2.0**160, 2.0**-160):
        assert np.array_equal(found, fractions(nodes_of(K, mass * unit), *start, times * unit, 200, 0))


def test_nodes_at_almost_one_point_are_slowed():
    """They swap what they hold within a tiny part of the time, and where paths end is in proportion to volumes."""
    K, mass, _ = ring(40)
    K = K.tolil()
    K[3, 4] = K[4, 3] = -1e9
    K[3, 3] = K[4, 4] = 1e9 + 40
    nodes = jump_process(csr_matrix(K), mass, 0.1)
    assert nodes.rate[3] == pytest.approx(0.5 * (2 / 40 / (LEAST_RESIDENCE * 0.1) + 40) * 40, rel=1e-5)
    found = fractions(nodes_of(K, mass), at_nodes.corners([[0]]), np.array([[0.0]]), np.array([1.2]), 4000, 1)[0][0]
    assert np.all(np.abs(found - 1 / 40) < 4 * np.sqrt(1 / 40 / 4000))


def test_what_conducts_less_than_nothing_is_left_out_and_counted():
    K = csr_matrix(np.array([[2.0, -2.5, 0.5], [-2.5, 5.0, -2.5], [0.5, -2.5, 2.0]]))
    nodes = jump_process(K, np.ones(3), 1.0)
    assert nodes.blocked == pytest.approx(1.0 / 11.0)
    assert np.all(nodes.rate[:3] == pytest.approx([1.25, 2.5, 1.25]))


def test_kernels_from_paths_do_with_obtuse_cells():
    """Delaunay triangles have them next to the sides of a square; single paths say what they do without."""
    corners = np.random.default_rng(0).uniform(0, 1, (150, 2))
    mesh, X = Mesh(corners, Delaunay(corners).simplices), corners[:6]
    exact = heat_kernel(mesh, X, None, 0.2)[0]
    found, std = heat_kernel(mesh, X, None, 0.2, "brownian", n_paths=4000, random_state=0, return_std=True)
    assert np.all(np.abs(found[0] - exact) < 4 * std[0] + 0.05 * exact.max())  # nodes have their lumped masses
    with pytest.warns(UserWarning, match=r"\d% of the conductance between nodes is negative"):
        brownian_path(mesh, X[0], 0.2, n_steps=5)


def test_paths_depend_on_their_point_alone():
    """Not on the other points; also among many nodes."""
    for n in (48, 1600):
        K, mass, _ = ring(n)
        nodes, times = nodes_of(K, mass), np.array([0.01 * 48 / n])
        rows = np.arange(0, n, n // 24).reshape(-1, 1)
        all_of_them = fractions(nodes, at_nodes.corners(rows), rows * 1.0, times, 100, 0)[0]
        few = fractions(nodes, at_nodes.corners(rows[5:7]), rows[5:7] * 1.0, times, 100, 0)[0]
        np.testing.assert_array_equal(few, all_of_them[5:7])


def test_the_law_is_that_of_the_rates():
    """exp(tQ), for modes enough; times too short for all modes there are leave no chance below 0."""
    K, mass, _ = ring(200)
    Q = -0.5 * K.toarray() / mass[:, None]
    for times, atol in ((np.array([1e-3, 5e-3]), 1e-5), (np.array([1e-9]), 1e-12)):
        for chances, time in zip(
            jumps.law(nodes_of(K, mass), at_nodes.corners([[7], [90]]), times), times, strict=True
        ):
            np.testing.assert_allclose(chances, expm(time * Q)[[7, 90]], atol=atol)


@pytest.mark.parametrize("time", [1e6, 1e300])
def test_after_a_long_time_all_nodes_are_as_likely_as_large(time):
    """The matrices of the law overflow at 1e300."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1, (30, 2))
    nodes = SurfaceNodes.of(Mesh(points, Delaunay(points).simplices))
    between = np.arange(3)[:, None], np.ones((3, 1))
    (chances,) = jumps.law(nodes, between, np.array([time]))
    np.testing.assert_allclose(chances, np.tile(nodes.lumped / nodes.lumped.sum(), (3, 1)), rtol=1e-5)


def test_the_law_of_the_jumps_along_a_curve_is_the_kernel_of_the_curve():
    """Eigenfunctions of lumped elements give the chances exp(tQ) of the jumps, and nearly the kernel of a circle."""
    n, t = 120, 0.02
    K, mass, _ = ring(n)
    space = of_jumps(nodes_of(K, mass), 60, np.arange(n), None)
    law = (space.values_at_nodes * np.exp(-space.eigenvalues * t / 2)) @ space.values_at_nodes.T
    Q = -0.5 * K.toarray() / mass[:, None]
    np.testing.assert_allclose(law, expm(t * Q) / mass, atol=1e-5 * law.max())
    gap = np.abs(np.arange(n)[:, None] - np.arange(n)) / n
    assert np.abs(law - circle_kernel(gap, t)).max() < 0.01 * law.max()


@pytest.fixture(scope="module")
def sphere():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, Atlas(2).fit(X)


@pytest.mark.slow
def test_paths_cross_the_charts_of_an_atlas(sphere):
    """The kernel from paths is that of the operator of their jumps, which is near the surface's own."""
    X, atlas = sphere
    few, t, n_paths = X[:12], 0.3, 4000
    found, std = heat_kernel(atlas, few, None, [t], "brownian", n_paths=n_paths, random_state=0, return_std=True)
    nodes = SurfaceNodes.of(atlas)
    K, mass = nodes.stiffness, nodes.lumped
    values, vectors = eigh(K.toarray(), np.diag(mass))
    rows = vectors[nodes.corners(few)[0][:, 0]]
    exact = (rows * np.exp(-values * t / 2)) @ rows.T
    itself = np.eye(len(few)) / (n_paths * mass.min())  # paths that meet themselves
    assert np.all(found[0] - exact < 5 * std[0] + itself + 1e-3)
    assert np.all(exact - found[0] < 5 * std[0] + 1e-3)
    assert np.all(np.diagonal(std[0]) > 0)
    assert np.array_equal(found[0], found[0].T)
    spectral = heat_kernel(atlas, few, None, [t], n_modes=150)[0]
    assert np.abs(exact - spectral).max() < 0.05 * spectral.max()  # lumped mass, 300 rows
    again = heat_kernel(atlas, few, few[:3], [t], "brownian", n_paths=n_paths, random_state=0)
    np.testing.assert_allclose(again[0], found[0][:, :3], rtol=1e-12)


@pytest.mark.slow
def test_regression_with_paths_on_an_atlas(sphere):
    X, _ = sphere
    y = np.full(len(X), np.nan)
    truth = X[:, 2] * X[:, 0]  # varies within the range of the paths' times
    y[:60] = truth[:60]
    paths, exact = (
        GPUMRegressor(2, geometry="atlas", kernel=KernelOptions(kernel, n_paths=300), random_state=0).fit(X, y)
        for kernel in ("brownian", "spectral")
    )
    error, best = (np.sqrt(np.mean((model.predict(X) - truth)[60:] ** 2)) for model in (paths, exact))
    assert best < 0.05
    assert error < 1.2 * best
    new = X[60:64] * 1.0001  # rows never seen
    assert np.allclose(paths.predict(new), paths.predict(X[60:64]), atol=0.2)


def test_connected_components_of_an_atlas_are_independent():
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    atlas = Atlas(1).fit(np.concatenate([circle, circle + 50]))
    assert atlas.n_connected_components_ == 2
    kernel = heat_kernel(atlas, circle[:5], circle[:5] + 50, [0.5], "brownian", n_paths=200, random_state=0)
    assert np.all(kernel == 0)


@pytest.mark.slow
def test_regression_with_paths_along_a_curve(tmp_path):
    """Paths on a curve are jumps between nodes; the model file gives the same predictions, at new rows too."""
    angle = np.linspace(0.2, 2.6, 36)
    X = np.stack([np.cos(angle), np.sin(angle), 0.3 * angle], 1)
    y = np.where(np.arange(36) % 3 == 0, np.sin(3 * angle), np.nan)
    model = GPUMRegressor(
        1, geometry=["chart", "atlas"], kernel=KernelOptions("brownian", n_paths=200), random_state=0
    ).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - np.sin(3 * angle)) ** 2)) < 0.15
    model.save(tmp_path / "paths.gpum")
    again = GPUMRegressor.load(tmp_path / "paths.gpum")
    new = X[5:8] + 0.002
    np.testing.assert_allclose(again.predict(new), model.predict(new), rtol=1e-6)


def test_a_path_on_an_atlas_goes_round_a_circle():
    """It visits nodes of the atlas, and the angle that it has travelled is that of Brownian motion."""
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    atlas = Atlas(1).fit(circle)
    n_paths, time = 100, 0.2
    starts = np.repeat(circle[:1], n_paths, 0)
    found = brownian_path(atlas, starts, time, n_steps=400, random_state=0)
    assert found.shape == (n_paths, 401, 2)
    np.testing.assert_allclose(np.linalg.norm(found, axis=2), 1, atol=0.01)
    turned = np.unwrap(np.arctan2(found[..., 1], found[..., 0]), axis=1)
    travelled = (turned[:, -1] - turned[:, 0]) ** 2
    assert abs(travelled.mean() - time) < 4 * np.sqrt(2 / n_paths) * time
    np.testing.assert_array_equal(brownian_path(atlas, circle[0], time, n_steps=400, random_state=0), found[0])
    with pytest.raises(ValueError, match="start"):
        brownian_path(atlas, [0.0, 1.0, 2.0], time)
