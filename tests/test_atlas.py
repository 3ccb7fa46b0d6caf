"""The atlas against surfaces, curves and solids whose spectrum is known, closed or not, connected or not."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, diags
from scipy.sparse.linalg import eigsh
from scipy.spatial import ConvexHull
from scipy.special import eval_legendre

from gpum import Atlas, GPUMRegressor, heat_kernel
from gpum.geometry.atlas import LEAST_TRUST
from gpum.geometry.build import ROUGH, Rows, Task, build, make_atlas
from gpum.heat.simplicial import on_stars
from gpum.manifold import refinement, tangents
from gpum.manifold.surface import Surface
from gpum.persistence.store import Store
from oracles import ROLL

SPHERE = np.repeat(np.arange(8) * (np.arange(8) + 1.0), 2 * np.arange(8) + 1)
CIRCLE = np.repeat(np.arange(30.0) ** 2, [1] + [2] * 29)


def embedded(X, noise, p, rng):
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0][:, : X.shape[1]]
    return X @ axes.T + noise * rng.standard_normal((len(X), p))


def sphere(n, noise=0.0, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return embedded(X / np.linalg.norm(X, axis=1, keepdims=True), noise, p, rng)


def torus(n, noise=0.0, p=4, q=2, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, (n, q))
    return embedded(np.concatenate([np.cos(angle), np.sin(angle)], 1), noise, p, rng)


def torus_values(q):
    squares = np.arange(-6.0, 7) ** 2
    return np.sort(sum(np.meshgrid(*[squares] * q)).ravel())


def box(n, sides, p, seed=0):
    rng = np.random.default_rng(seed)
    return embedded(rng.uniform(size=(n, len(sides))) * sides, 0.0, p, rng)


def box_values(sides):
    return np.sort(sum(np.meshgrid(*[(np.pi * np.arange(15) / side) ** 2 for side in sides])).ravel())


def klein(u, v):
    """A Klein bottle in R⁵: (u + 2π, v) is (u, -v)."""
    return np.stack([np.cos(u), np.sin(u), np.cos(v), np.sin(v) * np.cos(u / 2), np.sin(v) * np.sin(u / 2)], 1)


def reference(P, triangles, n=25):
    """Eigenvalues of linear elements on a fine triangulation in R^p, with half of the lumped mass."""
    side = [np.linalg.norm(P[triangles[:, (k + 1) % 3]] - P[triangles[:, (k + 2) % 3]], axis=1) for k in range(3)]
    half = sum(side) / 2
    area = np.sqrt(half * (half - side[0]) * (half - side[1]) * (half - side[2]))
    N = len(P)
    i, j = np.concatenate([triangles[:, [1, 2]], triangles[:, [2, 0]], triangles[:, [0, 1]]]).T
    a, b, c = side
    cot = np.concatenate([b**2 + c**2 - a**2, c**2 + a**2 - b**2, a**2 + b**2 - c**2]) / np.tile(8 * area, 3)

    def laplacian(values):
        W = csc_matrix(coo_matrix((values, (i, j)), shape=(N, N)))
        W = W + W.T
        return diags(np.asarray(W.sum(0)).ravel()) - W

    mass = diags(np.bincount(triangles.ravel(), np.repeat(area / 3, 3), minlength=N))
    M = csc_matrix(mass - 0.5 * laplacian(np.tile(area / 12, 3)))
    return np.sort(eigsh(csc_matrix(laplacian(cot)), n, M, sigma=-0.01, return_eigenvectors=False))


def klein_values(n):
    u, v = (a.ravel() for a in np.meshgrid(*[np.arange(n)] * 2, indexing="ij"))

    def number(a, b):
        return np.where(a < n, a * n + b % n, -b % n)

    a, b, c, d = number(u, v), number(u + 1, v), number(u + 1, v + 1), number(u, v + 1)
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return reference(klein(2 * np.pi * u / n, 2 * np.pi * v / n), triangles)


def spheroid_values(n, height):
    k = np.arange(n) + 0.5
    theta, phi = np.arccos(1 - 2 * k / n), np.pi * (1 + 5**0.5) * k
    P = np.stack([np.cos(phi) * np.sin(theta), np.sin(phi) * np.sin(theta), np.cos(theta)], 1)
    return reference(P * [1, 1, height], ConvexHull(P).simplices)


def errors(values, exact):
    """Relative errors of all eigenvalues but the first, which is 0."""
    assert values[0] < 1e-6 * values[1]
    return values[1:] / exact[1 : len(values)] - 1


def worst(atlas, exact, n=25):
    return np.abs(errors(atlas.eigenpairs(n).values, exact)).max()


def rate(sizes, found):
    return np.polyfit(np.log(sizes), np.log(found), 1)[0]


@pytest.fixture(scope="module")
def globe():
    X = sphere(2000)
    return X, Atlas(2).fit(X)


def test_sphere(globe):
    assert worst(globe[1], SPHERE) < 0.003  # it is 0.001
    assert abs(globe[1].volume_ / (4 * np.pi) - 1) < 0.005
    assert globe[1].n_connected_components_ == 1
    assert not globe[1].notes_


@pytest.mark.slow
def test_flat_torus():
    assert worst(Atlas(2).fit(torus(2000)), torus_values(2)) < 0.02


@pytest.mark.parametrize(("X", "exact"), [(sphere(500, 0.01, 10), SPHERE), (torus(500, 0.01, 10), torus_values(2))])
def test_few_rows_with_noise(X, exact):
    atlas = Atlas(2).fit(X)
    assert worst(atlas, exact) < 0.018  # five draws of the rows: 0.009 to 0.014, and with lumped mass alone 0.025
    assert atlas.noise_ == pytest.approx(0.01, rel=0.1)


@pytest.mark.slow
def test_error_falls_with_the_number_of_rows():
    """Linear elements: as the square of the spacing, which is 1/N."""
    sizes = [250, 500, 1000, 2000]
    found = [np.sqrt(np.mean(errors(Atlas(2).fit(sphere(n)).eigenpairs(25).values, SPHERE) ** 2)) for n in sizes]
    assert rate(sizes, found) < -0.7, found


@pytest.mark.slow
def test_klein_bottle():
    fine, finer = klein_values(60), klein_values(120)
    exact = finer + (finer - fine) / 3  # both have an error of order 1/n²
    sizes, found = [250, 500, 1000], []
    for n in sizes:
        rng = np.random.default_rng(n)
        atlas = Atlas(2).fit(klein(*rng.uniform(0, 2 * np.pi, (2, n))))
        found.append(np.sqrt(np.mean(errors(atlas.eigenpairs(25).values, exact) ** 2)))
    assert found[-1] < 0.01
    assert rate(sizes, found) < -0.7, found


def sphere_kernel(x, y, t):
    degree = np.arange(60)[:, None, None]
    terms = (2 * degree + 1) / (4 * np.pi) * np.exp(-degree * (degree + 1) * t / 2)
    return np.sum(terms * eval_legendre(degree, np.clip(x @ y.T, -1, 1)), 0)


@pytest.mark.parametrize(
    "t", [pytest.param(0.05, marks=pytest.mark.slow), 0.2, pytest.param(1.0, marks=pytest.mark.slow)]
)
def test_heat_kernel_of_the_sphere(globe, t):
    X, atlas = globe
    peak = sphere_kernel(X[:1], X[:1], t)[0, 0]
    for rows in (X[:400], sphere(400, seed=1)):
        found = heat_kernel(atlas, rows, X[:400], [t])[0]
        assert np.abs(found - sphere_kernel(rows, X[:400], t)).max() < 0.02 * peak
    own = heat_kernel(atlas, X[:300], None, t)[0]
    assert np.array_equal(own, own.T)
    assert np.linalg.eigvalsh(own).min() > -1e-12 * peak


@pytest.mark.slow
def test_patch():
    sides = np.array([1.0, 0.8])
    atlas = Atlas(2).fit(box(2000, sides, 5))
    assert worst(atlas, box_values(sides)) < 0.04
    assert abs(atlas.volume_ / 0.8 - 1) < 0.02
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 25), np.linspace(0, 1, 25)), -1).reshape(-1, 2)
    assert worst(Atlas(2).fit(grid), box_values([1, 1])) < 0.04  # rows on the very edge, four on each circle


def test_swiss_roll():
    """A roll is a flat rectangle."""
    length = float(ROLL.arc_length(ROLL.r[1]) - ROLL.arc_length(ROLL.r[0]))
    rng = np.random.default_rng(0)
    r = np.interp(rng.uniform(0, length, 800), ROLL.arc_length(np.linspace(*ROLL.r, 2000)) - ROLL.arc_length(ROLL.r[0]),
                  np.linspace(*ROLL.r, 2000))  # fmt: skip
    X = np.stack([r * np.cos(r), r * np.sin(r), rng.uniform(0, 12, 800)], 1)
    exact = box_values([length, 12.0])
    assert worst(Atlas(2).fit(X), exact, 12) < 0.1
    assert worst(Atlas(2).fit(X + 0.05 * rng.standard_normal(X.shape)), exact, 12) < 0.1


def test_circle():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, (200, 1))
    ring = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    atlas = Atlas(1).fit(ring)
    assert worst(atlas, CIRCLE) < 0.02
    assert atlas.volume_ == pytest.approx(2 * np.pi, rel=1e-3)
    assert worst(Atlas(1).fit(embedded(ring[:66], 0.01, 10, rng)), CIRCLE, 11) < 0.05


def test_branches():
    """Three unit arms: (π k)² once, (π (k + ½))² twice."""
    rng = np.random.default_rng(0)
    arm = 2 * np.pi * np.append(rng.integers(0, 3, 300), [0, 1, 2]) / 3
    X = np.append(rng.uniform(size=300), [1, 1, 1])[:, None] * np.stack([np.cos(arm), np.sin(arm)], 1)
    k = np.arange(10)
    exact = np.sort(np.concatenate([(np.pi * k) ** 2, *[(np.pi * (k + 0.5)) ** 2] * 2]))
    assert worst(Atlas(1).fit(X), exact, 12) < 0.05


def test_figure_eight():
    """Two loops of length l at one node: (2π k / l)² three times, (π (2k + 1) / l)² once."""
    t = np.random.default_rng(0).uniform(0, 2 * np.pi, 400)
    fine = np.linspace(0, np.pi, 20001)
    loop = np.sum(np.hypot(np.diff(np.sin(fine)), np.diff(np.sin(fine) * np.cos(fine))))
    k = np.arange(6)
    twice = np.repeat((2 * np.pi * k[1:] / loop) ** 2, 3)
    exact = np.sort(np.concatenate([[0], twice, (np.pi * (2 * k + 1) / loop) ** 2]))
    assert worst(Atlas(1).fit(np.stack([np.sin(t), np.sin(t) * np.cos(t)], 1)), exact, 8) < 0.07


@pytest.mark.slow
def test_three_dimensions():
    assert worst(Atlas(3).fit(torus(1500, p=6, q=3)), torus_values(3)) < 0.03
    sides = np.array([1.0, 0.9, 0.8])
    assert worst(Atlas(3).fit(box(1500, sides, 5)), box_values(sides), 10) < 0.12


def test_walls_that_come_close():
    """A flattened sphere whose rim is sharper than the rows are dense."""
    exact = spheroid_values(6000, 0.15)
    rng = np.random.default_rng(3)
    X = sphere(700, seed=3) * [1, 1, 0.15]
    atlas = Atlas(2).fit(embedded(X, 0.005, 10, rng))
    assert atlas.n_connected_components_ == 1
    assert worst(atlas, exact, 9) < 0.12


@pytest.mark.parametrize("dim", [1, 2])
def test_connected_components_stay_apart(dim):
    rng = np.random.default_rng(0)
    one, other = (rng.standard_normal((150, dim + 1)) for _ in range(2))
    one, other = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (one, other))
    other += 5
    atlas = Atlas(dim).fit(np.concatenate([one, other]))
    assert atlas.n_connected_components_ == 2
    assert np.sum(atlas.eigenpairs(10).values < 1e-8) == 2
    assert not heat_kernel(atlas, one, other, [1.0]).any()
    assert np.array_equal(np.unique(atlas.connected_components_[:150]), np.unique(atlas.connected_components_[:1]))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("n", [6, 12, 30, 200])
def test_weights_are_positive_whatever_the_cloud(dim, n):
    X = np.random.default_rng(n).standard_normal((n, 5))
    atlas = Atlas(dim).fit(X)
    surface = atlas.surface_
    K, M = on_stars(surface.stars)
    off = K - diags(K.diagonal())
    assert off.max() <= 0
    assert np.abs(K.sum(0)).max() < 1e-9 * K.max()
    assert np.linalg.eigvalsh(M.toarray()).min() > 0
    pairs = atlas.eigenpairs(6)
    assert np.all(np.isfinite(pairs.at(X)))
    assert np.sum(pairs.values < 1e-8 * pairs.values[-1]) == atlas.n_connected_components_


def test_functions_are_orthonormal_and_exact_at_rows(globe):
    X, atlas = globe
    pairs = atlas.eigenpairs(30)
    M = on_stars(atlas.surface_.stars)[1]
    assert np.allclose(pairs.vectors.T @ M @ pairs.vectors, np.eye(30), atol=1e-8)
    assert np.allclose(pairs.at(X[::7]), pairs.vectors[: len(X) : 7], atol=1e-9)
    assert np.allclose(np.abs(pairs.vectors[:, 0]), atlas.volume_**-0.5)


def test_rows_far_from_the_surface(globe):
    X, atlas = globe
    found = atlas.project(np.concatenate([X[:5] * 1.5, X[:5] * 1.01]))
    assert np.allclose(found.distance, [0.5] * 5 + [0.01] * 5, atol=2e-3)
    assert np.array_equal(found.far, [True] * 5 + [False] * 5)


def barycentric_grid(c, n):
    """Weights [m, c] in steps of 1 / n."""
    return np.array([w for w in np.ndindex(*(n + 1,) * c) if sum(w) == n]) / n


@pytest.mark.parametrize("q", [1, 2, 3])
def test_distances_are_those_to_the_nearest_point_of_the_simplices(q):
    """Rows beside simplices of every shape, obtuse and flat ones among them, against many points of each simplex.

    The surface is flat, so that no row is moved onto it.
    """
    rng = np.random.default_rng(0)
    X = np.pad(rng.standard_normal((60, q)) * [3, 1, 0.3][:q], ((0, 0), (0, 1)))
    atlas = Atlas(q).fit(X)
    new = np.concatenate([X + 0.3 * rng.standard_normal(X.shape), 5 * rng.standard_normal(X.shape)])
    found = atlas.project(new)
    on = np.einsum("mc,mcp->mp", found.weights, atlas.nodes_[found.nodes])
    np.testing.assert_allclose(np.linalg.norm(new - on, axis=1), found.distance, atol=1e-12)
    assert found.weights.min() >= 0
    near = np.argsort(np.linalg.norm(new[:, None] - atlas.nodes_, axis=2), 1)
    held = np.isin(near, atlas.simplices_)
    grid = barycentric_grid(q + 1, 12)  # of each simplex
    for i, row in enumerate(new):
        around = np.isin(atlas.simplices_, near[i][held[i]][:4]).any(1)
        points = np.einsum("gc,kcp->kgp", grid, atlas.nodes_[atlas.simplices_[around]])
        assert found.distance[i] <= np.linalg.norm(points - row, axis=2).min() + 1e-9


def test_nodes_between_rows_lie_on_the_surface(globe):
    X, atlas = globe
    assert len(atlas.nodes_) > len(X)
    assert np.abs(np.linalg.norm(atlas.nodes_, axis=1) - 1).max() < 1e-3


def test_arcs_of_a_circle_are_measured_exactly():
    angle = np.array([0.0, 0.3, 1.0, -0.8])
    X = np.stack([np.cos(angle), np.sin(angle)], 1)
    v, beta = tangents.lift((X - X[0])[None], np.array([[[0.0], [1.0]]]))
    assert np.allclose(v[0, :, 0], angle)
    assert np.allclose(beta[0, 1:], np.abs(angle[1:]) / 2)
    frame = np.stack([-X[:, 1], X[:, 0]], 1)[:, :, None]
    middle = refinement.between(X, frame, np.array([[0, 1]]), np.array([[0.5, 0.5]]))[0]
    assert np.allclose(middle, [[np.cos(0.15), np.sin(0.15)]], atol=2e-5)


def test_equal_rows_are_merged():
    X = sphere(200)
    twice = np.concatenate([X, X[:50]])
    atlas = Atlas(2).fit(twice)
    assert np.allclose(atlas.eigenpairs(10).values, Atlas(2).fit(X).eigenpairs(10).values)
    assert "50 rows" in atlas.notes_[0]
    assert np.array_equal(atlas.eigenpairs(5).at(twice)[200:], atlas.eigenpairs(5).at(X[:50]))


def test_notes_read_well_with_a_single_row():
    X = np.random.default_rng(0).uniform(size=(200, 3)) * (1, 1, 0)
    alone, edge = Atlas(2).fit(np.concatenate([X, [[3, 3, 0]]])).notes_
    assert alone == "without a neighbour, with the values of the nearest row that has one: 1 row"
    assert edge.startswith("where the surface ends: ")


def test_an_atlas_is_not_random():
    """It has no random state, and two fits of one cloud are equal."""
    X = sphere(300)
    one, other = (Atlas(2).fit(X).eigenpairs(20).values for _ in range(2))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(TypeError, match="random_state"):
        Atlas(2, random_state=0)


def test_rings_of_pictures(tasks):
    """A ring of 66 pictures closes, a digit turned by less than a full turn does not."""
    ring = Atlas(1).fit(np.load(tasks / "coil_cat.npz")["S"])
    values = ring.eigenpairs(5).values
    assert ring.n_connected_components_ == 1
    assert values[2] < 1.2 * values[1]
    assert values[3] > 3 * values[1]
    digit = Atlas(1).fit(np.load(tasks / "mnist_rot3.npz")["S"])
    assert np.allclose(digit.eigenpairs(5).values[1:], (np.pi * np.arange(1, 5) / digit.volume_) ** 2, rtol=0.05)


@pytest.mark.parametrize(
    ("dim", "X", "words"),
    [
        (4, sphere(50), "dim is 4, but an atlas has at most 3 dimensions"),
        (2, sphere(50)[:, :1], "dim is 2, but X has 1 column"),
        (2, sphere(3), "at least 4"),
        (2, np.ones((20, 3)), "1 distinct row"),
        (2, np.outer(np.arange(20.0), [1, 2, 3]), "X spans 1 dimension.*lower dim"),
        (2, np.full((20, 3), np.nan), "NaN"),
    ],
)
def test_bad_clouds(dim, X, words):
    with pytest.raises(ValueError, match=words):
        Atlas(dim).fit(X)


def test_bad_calls():
    with pytest.raises(ValueError, match="call fit"):
        Atlas(2).eigenpairs(3)
    atlas = Atlas(2).fit(sphere(50))
    with pytest.raises(ValueError, match="times must be positive"):
        heat_kernel(atlas, sphere(5), None, [0.0])
    with pytest.raises(ValueError, match="rows has 2 columns"):
        atlas.project(sphere(5)[:, :2])
    with pytest.raises(ValueError, match="n_neighbors must be"):
        Atlas(2, n_neighbors=2).fit(sphere(50))


def test_an_atlas_of_two_distant_components_has_needles_and_numbers():
    """Triangles across the gap are needles, whose angles are lost in rounding."""
    rng = np.random.default_rng(1)
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((16, 3)) + 1e6 * (np.arange(16) % 2)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            pairs = Atlas(2).fit(X).eigenpairs(5)
        assert np.all(np.isfinite(pairs.values))
        assert np.all(np.isfinite(pairs.at(X + rng.standard_normal(X.shape))))


@pytest.mark.parametrize("n", [1, 200])
def test_a_prediction_projects_a_row_once(n, monkeypatch):
    """Whether it is far, and the eigenfunctions there, come from one projection; those of `at` are the same."""
    X, asked = torus(300, q=1), []
    model = GPUMRegressor(1, geometry="atlas", smoothness="heat").fit(X[:80], X[:80, 0])
    project = Surface.project
    monkeypatch.setattr(Surface, "project", lambda self, rows: asked.append(len(rows)) or project(self, rows))
    rows = X[80 : 80 + n]
    model.predict(rows)
    assert asked == [n]
    geometry, space = model.model_.geometries.members[0], model.model_.geometries.candidate_set.spaces[0]
    pairs = Atlas(1).fit(model.model_.cloud.rows).eigenpairs(space.values_at_nodes.shape[1])
    np.testing.assert_allclose(space.at(geometry.project(rows).points), pairs.at(rows), rtol=0, atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_rough_atlas_is_weighed_with_as_much_trust_as_its_rows_deserve(noise):
    """A circle in six columns, with noise larger than the spacing of its rows: local charts fit few of them."""
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = np.column_stack([np.cos(angle), np.sin(angle), np.zeros((60, 4))]) + noise * rng.standard_normal((60, 6))
    y = np.where(np.arange(60) % 10 == 0, X[:, 0], np.nan)
    model = GPUMRegressor(1, geometry=["atlas", "flat"], random_state=0).fit(X, y)
    geometries = model.model_.geometries
    rough = Atlas(1).fit(X).rough_
    assert (rough == 0.0) if noise == 0 else (rough > ROUGH)
    prior = np.exp(geometries.candidate_set.log_priors)
    assert dict(zip(geometries.names, prior / prior[geometries.names.index("flat")], strict=True)) == pytest.approx(
        {"atlas": 1 - (1 - LEAST_TRUST) * rough, "flat": 1.0}
    )
    assert prior.sum() == pytest.approx(1.0)


def test_whether_an_atlas_shows_a_surface_does_not_depend_on_what_was_made_before():
    """A first look refuses a rough atlas, also where the store has it from a fit that took it."""
    X = np.random.default_rng(0).standard_normal((50, 4))
    store = Store()
    take, look = (
        partial(build, [Task("atlas", partial(make_atlas, X, 1, 10, roughest, store), Rows(X))], alone=False)
        for roughest in (1.0, ROUGH)
    )
    before = look()
    assert len(take().geometries) == 1
    after = look()
    assert before.geometries == after.geometries == []
    assert before.notes == after.notes
