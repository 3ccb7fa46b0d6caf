"""Meshes: spectrum, projection, shortest paths, kernels, regression, files; what is no mesh is refused."""

import importlib.util

import numpy as np
import pytest

from gpum import GpumError, GPUMRegressor, KernelOptions, Mesh, NoSurface, brownian_path, heat_kernel, spectral
from gpum.basics.checks import GpumError as Refused
from shapes import box, rectangle, sphere


def on_sphere(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1)[:, None]


@pytest.fixture(scope="module")
def ball():
    return Mesh(*sphere(4))


def test_spectrum_of_the_sphere(ball):
    """l(l + 1), 2l + 1 times each; 2 562 vertices."""
    values = ball.spectrum(16).values
    assert abs(values[0]) < 1e-9
    for first, last, exact in ((1, 4, 2), (4, 9, 6), (9, 16, 12)):
        np.testing.assert_allclose(values[first:last], exact, rtol=1e-3)
    assert ball.closed
    assert ball.volume == pytest.approx(4 * np.pi, rel=2e-3)


def test_eigenvalues_converge_with_the_square_of_the_step():
    coarse, fine = (abs(Mesh(*sphere(k)).spectrum(4).values[1:].mean() / 2 - 1) for k in (2, 3))
    assert 3.5 < coarse / fine < 4.5


def test_open_surfaces_have_no_flow_through_their_edge():
    """A rectangle: π²(i²/a² + j²/b²), with cosines."""
    mesh = Mesh(*rectangle(2.0, 1.0, 40))
    assert not mesh.closed
    i, j = np.meshgrid(np.arange(9), np.arange(9))
    exact = np.sort((np.pi**2 * (i**2 / 4 + j**2)).ravel())[:8]
    np.testing.assert_allclose(mesh.spectrum(8).values, exact, rtol=5e-3, atol=1e-9)
    X = np.column_stack([np.linspace(0.1, 1.9, 7), np.full(7, 0.4), np.zeros(7)])
    found = mesh.spectrum(2).at(X)[:, 1]
    cosine = np.cos(np.pi * X[:, 0] / 2)
    np.testing.assert_allclose(found * np.sign(found[0]), cosine * np.sign(cosine[0]), atol=5e-3)


@pytest.mark.parametrize("q", [1, 3])
def test_segments_and_tetrahedra(q):
    if q == 1:
        t = np.linspace(0, 2 * np.pi, 101)[:-1]
        mesh = Mesh(
            np.column_stack([np.cos(t), np.sin(t)]), np.column_stack([np.arange(100), (np.arange(100) + 1) % 100])
        )
        np.testing.assert_allclose(mesh.spectrum(5).values, [0, 1, 1, 4, 4], rtol=2e-3, atol=1e-9)
        assert mesh.geodesic([1, 0], [0, 1]).length == pytest.approx(np.pi / 2, rel=1e-3)
    else:
        mesh = Mesh(*box(6))
        np.testing.assert_allclose(mesh.spectrum(4).values, [0, *[np.pi**2] * 3], rtol=0.03, atol=1e-9)
        assert mesh.volume == pytest.approx(1)
        assert mesh.geodesic([0.1, 0.2, 0.3], [0.9, 0.6, 0.8]).length == pytest.approx(
            np.sqrt(0.64 + 0.16 + 0.25), rel=0.02
        )


def test_geodesics_of_the_sphere_are_within_one_per_cent(ball):
    X = on_sphere(30)
    exact = np.arccos(np.clip(X[1:] @ X[0], -1, 1))
    found = ball.geodesic(X[0], X[1:])
    np.testing.assert_allclose([g.length for g in found], exact, rtol=0.01)
    for geodesic, end in zip(found, X[1:], strict=True):
        assert np.linalg.norm(np.diff(geodesic.path, axis=0), axis=1).sum() == pytest.approx(geodesic.length, rel=1e-6)
        np.testing.assert_allclose(geodesic.path[[0, -1]], [X[0], end], atol=3e-3)  # the mesh is inside the sphere
    np.testing.assert_allclose(ball.geodesic(X[3], X[5]).length, ball.geodesic(X[5], X[3]).length, rtol=0.005)


def test_geodesics_in_the_plane_are_straight():
    mesh = Mesh(*rectangle(2.0, 1.0, 12))
    X = np.random.default_rng(0).uniform([0, 0, 0], [2, 1, 0], (20, 3))
    found = [g.length for g in mesh.geodesic(X[0], X[1:])]
    exact = np.linalg.norm(X[1:] - X[0], axis=1)
    assert np.all(found > exact * (1 - 1e-9))
    np.testing.assert_allclose(found, exact, rtol=4e-3)
    assert mesh.geodesic(X[0], X[0]).length == 0.0


def test_components_have_no_path_between_them():
    v, f = sphere(1)
    mesh = Mesh(np.concatenate([v, v + 5]), np.concatenate([f, f + len(v)]))
    assert mesh.n_connected_components == 2
    np.testing.assert_allclose(mesh.spectrum(3).values[:2], 0, atol=1e-9)
    away = mesh.geodesic(v[0], v[1] + 5)
    assert away.length == np.inf
    assert away.path.shape == (0, 3)


def test_features_are_a_kernel(ball):
    X = on_sphere(30)
    spectrum = ball.spectrum(150)
    for smoothness, nu in (("heat", np.inf), ("matern32", 1.5)):
        F = spectrum.features(X, 0.6, smoothness, variance=None)
        weights = spectrum.matern(nu, 0.6)
        np.testing.assert_allclose(F @ F.T, (spectrum.at(X) * weights) @ spectrum.at(X).T, rtol=1e-10)
    F = spectrum.features(X, 0.6, variance=None)
    np.testing.assert_allclose(F @ F.T, heat_kernel(ball, X, None, 0.36, n_modes=150)[0], rtol=1e-10)
    nodes = spectrum.features(ball.nodes, 0.5, "matern12", variance=2.0)
    mass = np.asarray(ball.elements()[1].sum(1)).ravel()
    assert np.sum(nodes**2 @ np.ones(150) * mass) / mass.sum() == pytest.approx(2.0, rel=0.02)  # by lumped mass


@pytest.fixture(scope="module")
def segment():
    """700 eigenpairs of a segment of length 40."""
    x = np.linspace(0, 40, 1601)
    return Mesh(x[:, None], np.column_stack([np.arange(1600), np.arange(1, 1601)])).spectrum(700)


@pytest.mark.parametrize("nu", [0.5, 1.5, np.inf])
def test_matern_is_the_kernel_of_flat_space(nu, segment):
    """In the middle of a long segment: exp(-d/κ), (1 + √3 d/κ) exp(-√3 d/κ), exp(-d²/2κ²)."""
    d, kappa = np.linspace(0, 3, 7), 1.3
    phi = segment.at(20 + np.append(0, d)[:, None])
    found = (phi * segment.matern(nu, kappa)) @ phi[0]
    u = d / kappa
    exact = {0.5: np.exp(-u), 1.5: (1 + np.sqrt(3) * u) * np.exp(-np.sqrt(3) * u), np.inf: np.exp(-(u**2) / 2)}[nu]
    np.testing.assert_allclose(found[1:] / found[0], exact, atol=0.01)
    with pytest.raises(GpumError, match="nu must be a positive"):
        segment.matern(0, 1.0)
    with pytest.raises(GpumError, match="kappa must be a positive"):
        segment.matern(1.5, -1.0)


def test_kernels_and_paths_take_meshes(ball):
    X, times = on_sphere(3), [0.5, 1.0]
    exact = heat_kernel(ball, X, None, times)
    assert np.array_equal(spectral.eigenpairs(ball, n_modes=9).values, ball.spectrum(9).values)
    found, std = heat_kernel(
        ball, X[:1], X[1:], times, method="brownian", n_paths=2000, return_std=True, random_state=0
    )
    assert np.all(np.abs(found - exact[:, :1, 1:]) < 4 * std + 0.01 * exact.max())
    paths = brownian_path(Mesh(*sphere(3)), np.tile(X[0], (400, 1)), 0.4, n_steps=4, random_state=0)
    assert paths.shape == (400, 5, 3)
    along = paths @ X[0]  # E cos θ = e^{-t}; of variance below 1
    np.testing.assert_allclose(along.mean(0), np.exp(-np.linspace(0, 0.4, 5)), atol=4 / np.sqrt(400) * 0.4 + 0.01)


def test_regression_on_a_mesh(ball, tmp_path):
    X = on_sphere(160)
    truth = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
    y = np.where(np.arange(160) < 60, truth, np.nan)
    model = GPUMRegressor(geometry=ball, random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - truth)[60:] ** 2)) < 0.01
    assert model.geometry_weights_ == {"mesh": pytest.approx(1.0)}
    new = 1.01 * on_sphere(20, seed=1)
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    np.testing.assert_array_equal(loaded.predict(new, return_std=True), model.predict(new, return_std=True))
    assert loaded.get_params()["geometry"] == ball
    (surface,) = loaded.surfaces_
    assert surface.weight == pytest.approx(1.0)
    np.testing.assert_allclose(surface.spectrum(5).values, ball.spectrum(5).values, rtol=1e-12)
    assert surface.volume == pytest.approx(ball.volume, rel=1e-5)
    assert surface.geodesic(X[0], X[1]).length == pytest.approx(ball.geodesic(X[0], X[1]).length)
    np.testing.assert_array_equal(surface.project(new).nodes, ball.project(new).nodes)
    np.testing.assert_allclose(heat_kernel(surface, X[:3], None, 1.0), heat_kernel(ball, X[:3], None, 1.0), rtol=1e-4)


def test_regression_by_paths_and_refusals():
    mesh, X = Mesh(*sphere(2)), on_sphere(40)
    y = X[:, 2]
    paths = GPUMRegressor(geometry=mesh, kernel=KernelOptions("brownian", n_paths=200), random_state=0).fit(X, y)
    assert paths.score(X, y) > 0.9
    with pytest.raises(GpumError, match="X has 2 columns, but the vertices of the mesh have 3"):
        GPUMRegressor(geometry=mesh).fit(X[:, :2], y)
    with pytest.raises(GpumError, match="geometry is a mesh"):
        GPUMRegressor(geometry=mesh, scale="standard").fit(X, y)
    with pytest.raises(GpumError, match="NaN"):
        GPUMRegressor(geometry=mesh).fit(np.where(np.arange(3) == 1, np.nan, X), y)


V, F = sphere(1)


@pytest.mark.parametrize(
    ("vertices", "faces", "words"),
    [
        (V, F + 1, "numbered from 0"), (V, F[:, :2] - 5, "numbered from 0"), (V, F[:, :1], "faces must be"),
        (V, F + 0.5, "faces must be"), (V, [], "faces must be"), (V, "ab", "faces must be"), (V, None, "faces must be"),
        (np.where(V > 0.9, np.nan, V), F, "NaN"), (V[:, 0], F, "two dimensions"), (V[:, :1], F, "1 coordinate"),
    ],
)  # fmt: skip
def test_what_is_no_mesh_is_refused(vertices, faces, words):
    with pytest.raises(Refused, match=words):
        Mesh(vertices, faces)


def test_faces_without_volume_are_left_out_with_a_note():
    v = np.concatenate([V, [[9.0, 9, 9]]])
    mesh = Mesh(v, np.concatenate([F, [[0, 0, 1], [3, 3, 3]], F[:1, ::-1]]))
    assert len(mesh.faces) == len(F)
    said = " ".join(mesh.notes)
    assert "2 of 83 faces have no volume" in said
    assert "1 of 83 faces repeat another" in said
    assert "1 of 43 vertices belong to no face" in said
    np.testing.assert_allclose(mesh.spectrum(4).values, Mesh(V, F).spectrum(4).values, atol=1e-9)
    assert mesh.project([[9.0, 9, 9]]).distance[0] > 10
    with pytest.raises(NoSurface, match="none of the 1 faces has a volume"):
        Mesh(V, [[0, 0, 1]])
    assert len(Mesh(1e-200 * V, F).faces) == len(F)  # whatever the unit


def test_sizes_do_not_matter():
    small, large = Mesh(1e-3 * V, F), Mesh(1e5 * V, F)
    np.testing.assert_allclose(small.spectrum(5).values[1:] * 1e-6, large.spectrum(5).values[1:] * 1e10, rtol=1e-6)
    lengths = [m.geodesic(s * V[0], s * V[7]).length / s for m, s in ((small, 1e-3), (large, 1e5))]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-6)


def test_files(tmp_path):
    def refused(name, words):
        with pytest.raises(GpumError, match=words):
            Mesh.read(tmp_path / name)

    refused("mesh.vtk", "does not end in")
    if importlib.util.find_spec("trimesh") is None:
        refused("mesh.obj", "trimesh, which is not installed")
        return
    import trimesh

    for ending in ("obj", "off", "ply", "stl"):
        trimesh.Trimesh(V, F, process=False).export(tmp_path / f"mesh.{ending}")
        mesh = Mesh.read(tmp_path / f"mesh.{ending}")
        assert mesh.closed
        assert len(mesh.vertices) == len(V)
        assert mesh.volume == pytest.approx(Mesh(V, F).volume, rel=1e-5)
    lines = [
        "v 0 0 0",
        "v 1 0 0",
        "v 1 1 0",
        "v 0 1 0",
        "v 2 0 0",
        "vt 0 0",
        "vt 1 0",
        "f 1/1 2/1 3/1 4/1",
        "f 2/2 5/2 3/2",
    ]
    (tmp_path / "square.obj").write_text("\n".join(lines))  # a square and a triangle, with texture coordinates
    mesh = Mesh.read(tmp_path / "square.obj")
    assert mesh.volume == pytest.approx(1.5)
    assert mesh.n_connected_components == 1
    refused("none.obj", "cannot be read")
    (tmp_path / "bad.ply").write_text("hello")
    refused("bad.ply", "no mesh that can be read")
    (tmp_path / "empty.obj").write_text("v 0 0 0\n")
    refused("empty.obj", "no mesh that can be read|no faces")


def test_a_face_whose_corners_are_two_vertices_is_left_out_at_any_size():
    """Rounding makes an area of such a face, of which the slopes cannot be computed."""
    rng = np.random.default_rng(0)
    for size in (1e-6, 1.0, 1e6):
        vertices = size * rng.standard_normal((4, 3))
        mesh = Mesh(vertices, [[0, 1, 2], [1, 2, 3], [0, 3, 3], [3, 1, 1], [2, 0, 2]])
        assert len(mesh.faces) == 2
        assert np.all(np.isfinite(mesh.spectrum(3).values))
