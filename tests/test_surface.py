"""Surfaces of nodes and cells: the projection of rows, the places between nodes, finer cells."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from scipy.spatial import Delaunay

from gpum.geometry.features import NodeFeatures
from gpum.manifold.projection import nearest_point
from gpum.manifold.surface import Surface, as_cells, between, combined, halved, interpolated, span


def box(q, n=60, seed=0):
    """A triangulation of random points in the unit cube."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([np.array(np.meshgrid(*[[0.0, 1.0]] * q)).reshape(q, -1).T, rng.uniform(size=(n, q))])
    if q == 1:
        order = np.argsort(points[:, 0])
        return points, np.stack([order[:-1], order[1:]], 1)
    return points, Delaunay(points).simplices


def volume(points, cells):
    sides = points[cells[:, 1:]] - points[cells[:, :1]]
    return np.abs(np.linalg.det(sides)).sum() / factorial(points.shape[1])


def lifted(points):
    """Points of the unit cube on a curved surface in R⁵."""
    return np.column_stack([points, np.sin(points).sum(1), 0.3 * points[:, 0] ** 2, np.zeros(len(points))])[:, :5]


@pytest.mark.parametrize("q", [1, 2, 3])
def test_halving_keeps_the_surface(q):
    """2^q cells for each, the same volume; every middle is between its ends; lines become two."""
    points, cells = box(q)
    lines = np.array([[0, 1], [1, 2]])
    nodes, finer, halves, ends = halved(points, cells, lines)
    assert len(finer) == 2**q * len(cells)
    assert volume(nodes, finer) == pytest.approx(volume(points, cells), rel=1e-12)
    np.testing.assert_array_equal(nodes[: len(points)], points)
    np.testing.assert_allclose(nodes[len(points) :], points[ends].mean(1))
    assert len(halves) == 4
    each = np.abs(np.linalg.det(nodes[finer[:, 1:]] - nodes[finer[:, :1]]))
    assert each.min() > 0


@pytest.mark.parametrize("q", [1, 2, 3])
def test_rows_are_at_the_nearest_point_of_all_cells(q):
    points, cells = box(q)
    nodes = lifted(points)
    rng = np.random.default_rng(1)
    rows = lifted(rng.uniform(-0.2, 1.2, (40, q))) + 0.05 * rng.standard_normal((40, nodes.shape[1]))
    located = Surface(nodes, cells).project(rows)
    for row, distance in zip(rows, located.distance, strict=True):
        _, away = nearest_point(np.tile(row, (len(cells), 1)), nodes[cells])
        assert distance == pytest.approx(away.min(), rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(located.weights.sum(1), 1)
    assert located.weights.min() >= -1e-12


def test_linear_functions_are_exact_and_quadratic_ones_with_values_on_sides():
    points, cells = box(2)
    rows = np.random.default_rng(2).uniform(0.05, 0.95, (50, 2))
    linear = NodeFeatures(np.column_stack([points @ [2.0, -3.0] + 1, points[:, 0]]))
    found = linear.at(Surface(points, cells).project(rows).packed)
    np.testing.assert_allclose(found, np.column_stack([rows @ [2.0, -3.0] + 1, rows[:, 0]]), atol=1e-12)
    pairs = np.unique(np.sort(np.concatenate([cells[:, s] for s in combinations(range(3), 2)]), 1), axis=0)
    number = {tuple(pair): len(points) + k for k, pair in enumerate(pairs)}
    sides = [[number[tuple(sorted(cell[list(s)]))] for s in combinations(range(3), 2)] for cell in cells]
    values = np.concatenate([points, points[pairs].mean(1)])
    values = np.sum(values**2, 1, keepdims=True)
    located = Surface(points, cells, unknowns=np.column_stack([cells, sides])).project(rows)
    np.testing.assert_allclose(combined(located, values)[:, 0], np.sum(rows**2, 1), atol=1e-12)


def test_a_row_of_the_cloud_is_at_its_own_node():
    """Also where noise has moved it off the surface; rows next to it are next to that node."""
    points, cells = box(2)
    nodes = lifted(points)
    rows = nodes + 0.1 * np.random.default_rng(3).standard_normal(nodes.shape)
    surface = Surface(nodes, cells, rows)
    located = surface.project(rows)
    own = np.sum(located.weights * (located.nodes == np.arange(len(rows))[:, None]), 1)
    np.testing.assert_allclose(own, 1, atol=1e-9)
    near = surface.project(rows + 1e-7)
    at = lambda where: interpolated(where.packed, points)
    assert np.abs(at(near) - at(located)).max() < 1e-4


def test_rows_far_from_the_surface_and_beyond_all_squares():
    points, cells = box(2)
    surface = Surface(lifted(points), cells, limit=np.full(len(points), 0.5))
    rows = np.tile(lifted(np.array([[0.5, 0.5]])), (3, 1))
    rows[1, 4] += 0.6
    rows[2] = 1e300
    located = surface.project(rows)
    assert located.far.tolist() == [False, True, True]
    assert np.isfinite(located.weights).all()
    assert not Surface(lifted(points), cells).project(rows).far.any()


def test_more_columns_than_rows_are_seen_in_their_span():
    rng = np.random.default_rng(4)
    rows = lifted(box(2, 8)[0]) @ rng.standard_normal((5, 200)) + 3.0
    cells = box(2, 8)[1]
    origin, axes = span(rows)
    whole, turned = Surface(rows, cells), Surface((rows - origin) @ axes, cells, origin=origin, axes=axes)
    new = rows[:5] + 0.1 * rng.standard_normal((5, 200))
    a, b = whole.project(new), turned.project(new)
    np.testing.assert_allclose(a.distance, b.distance, rtol=1e-9)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-9)
    np.testing.assert_allclose(turned.positions, rows, atol=1e-9)
    assert span(rows[:, :5])[1] is None


def test_angles_are_taken_modulo_their_period():
    t = np.linspace(0, 360, 73)[:, None]
    surface = Surface(t, np.stack([np.arange(72), np.arange(1, 73)], 1), period=np.array([[0.0, 360.0]]))
    found = interpolated(surface.project(np.array([[10.0], [370.0], [-350.0]])).packed, t)
    np.testing.assert_allclose(found[:, 0], 10.0)


def test_places_around_have_the_spread_of_the_coordinates():
    points, cells = box(2, 400)
    surface = Surface(lifted(points), cells, coordinates=points, spread=np.full(points.shape, [0.02, 0.05]))
    row = lifted(np.array([[0.5, 0.5]]))
    around = np.concatenate([interpolated(a, points) for a in surface.sigma_points(surface.project(row).packed)])
    middle = interpolated(surface.project(row).packed, points)
    np.testing.assert_allclose(around.mean(0), middle[0], atol=1e-9)
    np.testing.assert_allclose(around.std(0), [0.02, 0.05], rtol=1e-9)
    exact = Surface(lifted(points), cells, coordinates=points, spread=np.full(points.shape, 1e-9))
    assert exact.sigma_points(surface.project(row).packed) == []


def test_without_cells_a_row_lies_between_its_nearest_nodes():
    """In four dimensions; linear functions are nearly exact, and at a node its value is."""
    rng = np.random.default_rng(5)
    nodes = rng.uniform(size=(400, 4))
    surface = Surface(nodes, np.zeros((0, 5), int))
    rows = rng.uniform(0.3, 0.7, (50, 4))
    found = interpolated(surface.project(rows).packed, nodes)
    assert np.sqrt(np.mean((found - rows) ** 2)) < 0.01
    np.testing.assert_allclose(interpolated(surface.project(nodes[:9]).packed, nodes), nodes[:9], atol=1e-9)
    np.testing.assert_allclose(between(nodes, np.arange(10)[None], rows[:1]).sum(), 1)


def test_edges_components_and_whether_it_is_closed():
    ring = np.stack([np.arange(6), (np.arange(6) + 1) % 6], 1)
    points = np.random.default_rng(0).uniform(size=(6, 2))
    assert Surface(points, ring).closed
    assert not Surface(points, ring[:-1]).closed
    assert len(Surface(points, ring).edges) == 6
    assert Surface(points, ring[[0, 1, 3, 4]]).n_connected_components == 2
    mixed = as_cells(np.array([[0, 1, 2]]), np.array([[3, 4]]))
    assert Surface(points, mixed).n_connected_components == 2
    assert len(Surface(points, mixed).edges) == 4
