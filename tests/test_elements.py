"""Eigenpairs of complexes: simplices and corridors in any chart, against closed forms."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial import Delaunay

from gpum import BayesianGPLVM, EmbeddedChart, LearnedChart
from gpum.geometry import chart as charts
from gpum.geometry.chart import Domain, judged
from gpum.heat.assembly import quadrature
from gpum.heat.elements import eigenpairs
from gpum.manifold.boundary import DEFAULT_LEVEL, corridor_boundary
from gpum.manifold.complex import Complex, complex_of, halved
from gpum.manifold.projection import balls, in_reach, nearest_point
from gpum.manifold.stars import ball
from gpum.manifold.surface import Surface, as_cells

FLAT = {q: EmbeddedChart(lambda x: x, [(-10.0, 10.0)] * q) for q in (1, 2, 3)}


def box_eigenvalues(sides, n):
    waves = np.stack(np.meshgrid(*[np.arange(30)] * len(sides), indexing="ij"), -1).reshape(-1, len(sides))
    return np.sort(np.sum((np.pi * waves / np.asarray(sides)) ** 2, 1))[:n]


def box(sides, n, seed=0):
    """A box filled with random rows and its corners, triangulated, without corridors."""
    q = len(sides)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * q, indexing="ij"), -1).reshape(-1, q)
    edge = np.linspace(0, 1, n + 1)
    rows = np.stack(np.meshgrid(*[edge] * q, indexing="ij"), -1).reshape(-1, q)
    inner = np.all((rows > 0) & (rows < 1), 1)
    rows[inner] += np.random.default_rng(seed).uniform(-0.2, 0.2, (inner.sum(), q)) / n
    nodes = np.unique(np.concatenate([corners, rows]), axis=0) * sides
    cells = np.arange(len(nodes))[:, None] + [0, 1] if q == 1 else Delaunay(nodes, qhull_options="QJ Pp").simplices
    cells = cells[:-1] if q == 1 else cells
    volume = np.abs(np.linalg.det(nodes[cells[:, 1:]] - nodes[cells[:, :1]]))
    return Complex(nodes, cells[volume > 1e-9], np.zeros((0, 2), int), np.zeros(0), np.zeros(0), np.eye(q))


def curves_of(whole):
    """A complex as a surface in the chart."""
    return Surface(whole.vertices @ whole.frame.T, as_cells(whole.simplices, whole.corridors), axes=whole.frame.T)


@pytest.mark.parametrize("sides", [(3.0,), (2.0, 1.3), (1.0, 1.2, 0.9)])
def test_boxes(sides):
    pairs = eigenpairs(FLAT[len(sides)], box(sides, 8 if len(sides) < 3 else 5), 30)
    assert pairs.volume == pytest.approx(np.prod(sides))
    np.testing.assert_allclose(
        pairs.values[:10], box_eigenvalues(sides, 10), rtol=2e-3 if len(sides) < 3 else 8e-3, atol=1e-7
    )
    points = np.random.default_rng(1).uniform(0, sides, (500, len(sides)))
    f = pairs.at(points)
    exact = (
        np.cos(np.pi * points[:, 0] / sides[0]) if sides[0] == max(sides) else np.cos(np.pi * points[:, 1] / sides[1])
    )
    assert abs(np.corrcoef(f[:, 1], exact)[0, 1]) > 0.9999
    grid = np.random.default_rng(2).uniform(0, sides, (1_000, len(sides)))
    gram = pairs.at(grid)[:, :5].T @ pairs.at(grid)[:, :5] * np.prod(sides) / len(grid)
    assert np.abs(gram - np.eye(5)).max() < 5 * 2 / np.sqrt(len(grid))  # |φ_iφ_j| V ≤ 2^q or so


def test_eigenvalues_converge_at_fourth_order():
    """Quadratic elements: the error of an eigenvalue falls as h⁴ when every side is halved."""
    whole = box((2.0, 1.3), 4)
    exact = box_eigenvalues((2.0, 1.3), 8)[1:]
    errors = []
    for _ in range(3):
        pairs = eigenpairs(FLAT[2], whole, 8)
        while len(pairs.surface.nodes) > len(whole.vertices):  # halved by itself: compare what was asked for
            whole = halved(whole)
        errors.append(np.mean(pairs.values[1:8] / exact - 1))
        whole = halved(whole)
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all((orders > 3.5) & (orders < 4.7)), orders


@pytest.mark.parametrize("q", [1, 2, 3])
def test_quadrature_is_exact_to_the_fourth_degree(q):
    from math import factorial

    at, w = quadrature(q)
    for powers in [(4, 0), (2, 2), (3, 1), (1, 1)]:
        exact = factorial(powers[0]) * factorial(powers[1]) * factorial(q) / factorial(sum(powers) + q)
        assert w @ (at[:, 0] ** powers[0] * at[:, 1] ** powers[1]) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("q", [2, 3])
def test_a_star_of_corridors_is_a_metric_graph(q):
    """Three arms of length L with free ends: λ = (kπ/2L)², odd k twice, even k once (Kirchhoff at the middle)."""
    angle = 2 * np.pi * np.arange(3) / 3
    ends = np.zeros((3, q))
    ends[:, 0], ends[:, 1] = np.cos(angle), np.sin(angle)
    nodes = np.concatenate([np.zeros((1, q)), 2.0 * ends])
    tubes = np.full(3, 2.0 * ball(q - 1) * 0.1 ** (q - 1))
    star = Complex(nodes, np.zeros((0, q + 1), int), np.array([[0, 1], [0, 2], [0, 3]]), tubes, np.zeros(3), np.eye(q))
    pairs = eigenpairs(FLAT[q], star, 20)
    k = np.array([0, 1, 1, 2, 3, 3, 4, 5, 5])
    few = min(len(k), len(pairs.values))
    np.testing.assert_allclose(
        pairs.values[:few], ((k * np.pi / 4) ** 2)[:few], rtol=2e-3 if q == 2 else 3e-2, atol=1e-7
    )
    assert pairs.volume == pytest.approx(3 * tubes[0])
    assert star.n_connected_components() == 1


def test_corridors_feel_the_metric():
    """A curve of a chart is as long as its image: an arc of a cone, straight in the chart."""
    chart = EmbeddedChart(lambda x: x * 3.0, [(0.0, 5.0)] * 2)
    nodes = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    line = Complex(nodes, np.zeros((0, 3), int), np.array([[0, 1], [1, 2]]), np.full(2, 0.1), np.zeros(2), np.eye(2))
    length = 3 * 2 * np.sqrt(2)
    found = eigenpairs(chart, line, 4).values
    np.testing.assert_allclose(found, (np.pi * np.arange(4) / length) ** 2, rtol=1e-3, atol=1e-8)


def test_points_off_the_complex_have_the_values_of_the_nearest_point():
    pairs = eigenpairs(FLAT[2], box((1.0, 1.0), 4), 10)
    on, off = np.array([[1.0, 0.4]]), np.array([[1.7, 0.4]])
    assert pairs.surface.project(off).distance == pytest.approx(0.7, abs=1e-9)
    assert pairs.surface.project(on).distance < 1e-12
    np.testing.assert_allclose(pairs.at(off), pairs.at(on), atol=1e-9)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_a_simplex_out_of_reach_is_not_the_nearest(q):
    """Balls leave out only simplices that are farther than a known point, and most of those that are far."""
    rng = np.random.default_rng(q)
    corners = rng.uniform(size=(400, 1, q)) * 5 + 0.5 * rng.standard_normal((400, q + 1, q))
    x = 5 * rng.uniform(size=(400, q))
    _, distance = nearest_point(x, corners)
    centre, radius = balls(corners)
    assert in_reach(x, centre, radius, distance).all()
    known = 0.2 * distance
    left = ~in_reach(x, centre, radius, known)
    assert left.sum() > 100
    assert (distance[left] > known[left]).all()


@pytest.mark.parametrize("kind", ["plain", "obtuse", "flat", "two equal corners", "huge", "tiny"])
@pytest.mark.parametrize("corners", [1, 2, 3, 4])
def test_the_nearest_point_of_a_simplex(corners, kind):
    """A point z of a convex set is the nearest to x exactly if no corner c has (x - z)·(c - z) > 0."""
    rng = np.random.default_rng(corners)
    simplex, x = rng.standard_normal((200, corners, 3)), 2 * rng.standard_normal((200, 3))
    x[:50] = np.einsum("mc,mcd->md", rng.dirichlet(np.ones(corners), 50), simplex[:50])  # inside, of a face at least
    scale = {"huge": 1e120, "tiny": 1e-120}.get(kind, 1.0)
    if kind == "obtuse":
        simplex[:, 1:] = simplex[:, :1] + [1, 0, 0] + 0.05 * simplex[:, 1:]
    elif kind == "flat":
        simplex[..., 2] = 1e-13 * simplex[..., 2] + 0.5
    elif kind == "two equal corners":
        simplex[:, -1] = simplex[:, 0]
    simplex, x = simplex * scale, x * scale
    weights, distance = nearest_point(x, simplex)
    z = np.einsum("mc,mcd->md", weights, simplex)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(distance / scale, np.linalg.norm((x - z) / scale, axis=1), atol=1e-12)
    beyond = np.einsum("md,mcd->mc", (x - z) / scale, (simplex - z[:, None]) / scale)
    assert beyond.max() < 1e-10


def test_points_inside_and_outside_are_located_alike():
    """A point found inside a simplex is where the projection onto every element around would put it."""
    pairs = eigenpairs(FLAT[2], box((1.0, 1.0), 4), 10)
    points = np.random.default_rng(0).uniform(-0.2, 1.2, (300, 2))
    nearest = np.linalg.norm(points - np.clip(points, 0, 1), axis=1)
    surface = replace(pairs.surface, unknowns=None)  # weights of the corners
    located = surface.project(points)
    np.testing.assert_allclose(located.distance, nearest, atol=1e-12)
    inside = nearest == 0
    assert inside.sum() > 100
    at = np.einsum("nc,ncq->nq", located.weights, surface.nodes[located.nodes])
    np.testing.assert_allclose(at[inside], points[inside], atol=1e-12)


def test_a_narrow_link_holds_a_domain_together():
    """Its second eigenvalue is next to none, and yet it is connected; without the link it is not."""
    nodes = np.stack([np.arange(60.0), np.zeros(60)], 1)
    lines, section = np.stack([np.arange(59), np.arange(1, 60)], 1), np.full(59, 0.1)
    section[30] = 1e-7
    chart = EmbeddedChart(lambda x: x * 1.0, [(0.0, 60.0)] * 2)

    def space(some):
        none = np.zeros((0, 3), int)
        domain = Complex(nodes, none, lines[some], section[some], np.zeros(len(section[some])), np.eye(2))
        return Domain((eigenpairs(chart, domain, 30),))

    whole, cut = space(slice(None)), space(np.arange(59) != 30)
    assert whole.values[1] < 1e-6 * whole.values[-1]
    assert whole.connected
    assert not cut.connected


def test_domains_of_a_learned_chart(roll, roll_model):
    """Each level: connected, every row on it, and at the loosest the spectrum of the unrolled rectangle."""
    u = np.array([0.5 * (r * np.sqrt(1 + r * r) + np.arcsinh(r)) for r in (2.0, 12.5)])
    exact = box_eigenvalues((u[1] - u[0], 12.0), 12)
    for level in roll_model.chart_.boundary.levels(4, 3.0):
        chart = roll_model.chart_.with_level(level)
        inside = complex_of(chart.boundary)
        pairs = eigenpairs(chart, inside, 60)
        assert inside.n_connected_components() == 1
        assert pairs.surface.project(roll_model.latent_).distance.max() < 1e-9
        assert pairs.values[1] > 1e-6 * pairs.values[-1]
        if level > 0:
            np.testing.assert_allclose(pairs.values[1:12], exact[1:], rtol=0.04)


def test_levels_with_the_same_domain_count_as_one(roll_model):
    """Their prior weights are added up; those that remain have different domains, and each level has one of these."""
    chart = roll_model.chart_
    every = chart.boundary.levels(charts.LEVELS, charts.MAX_LEVEL)
    prior = np.exp(-every / DEFAULT_LEVEL) * (1 + every)
    levels, log_priors = map(np.array, zip(*charts.levels_of(chart, "average"), strict=True))
    of_level = np.searchsorted(levels, every, side="right") - 1
    np.testing.assert_allclose(np.exp(log_priors), np.bincount(of_level, prior) / prior.sum(), rtol=1e-12)

    def cells(level):
        whole = complex_of(chart.boundary.at(level))
        return whole.simplices.tolist(), whole.corridors.tolist()

    assert all(cells(a) != cells(b) for a, b in pairwise(levels))
    assert all(cells(levels[k]) == cells(level) for k, level in zip(of_level, every, strict=True))


def test_a_complex_has_the_rows_as_its_vertices(roll_model):
    """In their order and exactly, at every level; corridors and simplices are their numbers."""
    rows = roll_model.latent_
    for level in (0.0, 0.5, 3.0):
        whole = roll_model.chart_.with_level(level).complex()
        np.testing.assert_allclose(whole.vertices, rows, rtol=0, atol=1e-13 * np.ptp(rows))
        assert set(np.concatenate([whole.simplices.ravel(), whole.corridors.ravel()])) == set(range(len(rows)))


def test_a_bridge_closes_a_curve():
    """An interval of length L, its ends joined by a bridge of length b: the spectrum of a circle of length L + b."""
    nodes = np.linspace(0, 3.0, 9)[:, None]
    cells = np.stack([np.arange(8), np.arange(1, 9)], 1)
    ring = Complex(nodes, cells, np.array([[8, 0]]), np.array([0.5]), np.array([0.5]), np.eye(1))
    pairs = eigenpairs(FLAT[1], ring, 9)
    k = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4])
    assert pairs.volume == pytest.approx(3.5)
    np.testing.assert_allclose(pairs.values, (2 * np.pi * k / 3.5) ** 2, rtol=2e-3, atol=1e-8)


def test_a_chart_of_a_closed_curve_is_bridged():
    """A circle in R⁴ unrolled to a line: at looser levels its spectrum is that of a circle again."""
    t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    S = np.stack([np.cos(t), np.sin(t), 0.3 * np.cos(2 * t), 0.3 * np.sin(2 * t)], 1)
    speed = np.sqrt(1 + 4 * 0.09)
    model = BayesianGPLVM(1, random_state=0, n_inducing=20).fit(S)
    chart = model.chart_.with_level(3.0)
    pairs = eigenpairs(chart, chart.complex(), 30)
    np.testing.assert_allclose(pairs.values[1:5], (np.array([1, 1, 2, 2]) / speed) ** 2, rtol=0.05)


def test_rows_at_almost_one_point_are_one_node(curve_fit):
    """No element joins a node to itself."""
    mapping = curve_fit.model.latent_model_.chart_.mapping
    coordinates = np.sort(curve_fit.model.latent_[:6, 0])
    X = np.append(coordinates, coordinates[2:4] + 1e-12 * np.ptp(coordinates))[:, None]
    family = corridor_boundary(np.random.default_rng(0), mapping, X)
    whole = complex_of(family.at(family.max_level))
    assert len(whole.vertices) == 6
    assert np.all(whole.simplices[:, 0] != whole.simplices[:, 1])
    found = eigenpairs(LearnedChart(mapping, family), whole, 4)
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize(("seed", "apart"), [(0, 0.0), (8, 1e-13)], ids=["copies", "all but copies"])
def test_copies_of_rows_are_on_every_domain(roll_model, seed, apart):
    """Each level is connected, holds every row, and has corridors as wide as without the copies."""
    rng, mapping = np.random.default_rng(seed), roll_model.chart_.mapping
    rows = roll_model.latent_[rng.permutation(len(roll_model.latent_))[:40]]
    X = np.concatenate([rows, rows[rng.integers(0, 40, 40)]])
    X = X + apart * rng.standard_normal(X.shape)
    alone, family = (corridor_boundary(np.random.default_rng(0), mapping, some) for some in (rows, X))
    for level in (0.0, 0.5, 3.0):
        whole = complex_of(family.at(level))
        assert whole.n_connected_components() == 1
        assert curves_of(whole).project(X).distance.max() < 1e-9
        volume, expected = (eigenpairs(LearnedChart(mapping, f), complex_of(f.at(level)), 10).volume
                            for f in (family, alone))  # fmt: skip
        assert volume == pytest.approx(expected, rel=0.05)


def test_corridors_are_as_wide_where_rows_are_all_but_copies(roll_model):
    """Rows a hundred thousandth of the chart apart: the volume of the tree's corridors is what it is without them."""
    rng, mapping = np.random.default_rng(0), roll_model.chart_.mapping
    rows = roll_model.latent_[rng.permutation(len(roll_model.latent_))[:30]]
    more = np.repeat(rows, 3, axis=0)
    more = more + 1e-5 * np.ptp(rows) * rng.standard_normal(more.shape)
    volume = []
    for X in (rows, more):
        family = corridor_boundary(np.random.default_rng(0), mapping, X).at(0.0)
        volume.append(eigenpairs(LearnedChart(mapping, family), complex_of(family), 10).volume)
    assert volume[1] == pytest.approx(volume[0], rel=0.1)


def test_nodes_without_an_element_are_not_looked_at():
    """A complex may have nodes that no element is at, first, in between and last."""
    nodes = np.array([[0.5, 0.1], [0.0, 0.0], [0.2, 0.1], [1.0, 0.0], [0.5, -0.1]])
    none = np.zeros((0, 3), int)
    whole = Complex(nodes, none, np.array([[1, 3]]), np.array([0.1]), np.zeros(1), np.eye(2))
    located = curves_of(whole).project(nodes)
    np.testing.assert_allclose(located.distance, np.abs(nodes[:, 1]))
    np.testing.assert_allclose(np.sum(located.weights * (located.nodes == 3), 1), nodes[:, 0])


def test_eigenvalues_lost_in_rounding_are_reported():
    """A box a billion times thinner than wide: nothing of its spectrum is right, and it does not count."""
    whole = box((1.0, 1.2, 0.9), 4)
    thin = Complex(whole.vertices * [1, 1, 1e-9], *(getattr(whole, f.name) for f in fields(whole)[1:]))
    assert not Domain((eigenpairs(FLAT[3], whole, 20),)).lost
    pairs = eigenpairs(FLAT[3], thin, 20)
    assert Domain((pairs,)).lost
    used, notes = judged(Domain((pairs,)), "the domain", alone=False)
    assert not used
    assert "lost in rounding" in notes[0]
    with pytest.raises(ValueError, match="learn fewer dimensions"):
        judged(Domain((pairs,)), "the domain", alone=True)


def test_rows_a_billionth_apart_cost_no_eigenvalue():
    nodes = np.sort(np.append(np.linspace(0, 3.0, 20), 3 / 19 + 3e-9))[:, None]
    steps = np.stack([np.arange(20), np.arange(1, 21)], 1)
    pairs = eigenpairs(FLAT[1], Complex(nodes, steps, np.zeros((0, 2), int), np.zeros(0), np.zeros(0), np.eye(1)), 12)
    assert not Domain((pairs,)).lost
    np.testing.assert_allclose(pairs.values, (np.pi * np.arange(12) / 3) ** 2, rtol=1e-3, atol=1e-6)


def test_a_surface_without_volume_is_refused_in_a_sentence():
    """Its eigenfunctions, of the size of 1/√volume, would have no squares."""
    point = EmbeddedChart(lambda x: 1e-90 * x, [(-10.0, 10.0)] * 2)
    with pytest.raises(ValueError, match=r"no volume .* leave out copies"):
        eigenpairs(point, box((2.0, 1.3), 4), 10)
