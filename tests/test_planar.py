"""Stars of all rows at once, against the hull of each row."""

import numpy as np
import pytest

from gpum.manifold.planar import closed_stars
from gpum.manifold.stars import _star


def triangles(tips):
    return {tuple(sorted(pair)) for pair in np.asarray(tips).tolist()}


@pytest.fixture(scope="module")
def scattered():
    """Points around 0, which is the first of them; some do not count."""
    rng = np.random.default_rng(0)
    v = rng.standard_normal((60, 30, 2)) * rng.uniform(0.01, 100, (60, 1, 1))
    v[:, 0] = 0.0
    return v, rng.random((60, 30)) < 0.8


def test_closed_stars_are_those_of_the_hull(scattered):
    v, near = scattered
    a, b, count = closed_stars(v, near, np.full(len(v), np.inf))
    assert np.mean(count > 0) > 0.9
    for i in np.flatnonzero(count):
        columns = np.flatnonzero(near[i] & (np.arange(30) > 0))
        star = _star(v[i, columns], np.full(len(columns), np.inf), 1.0)
        assert star.n_ghosts == 0
        assert triangles(np.stack([a[i], b[i]], 1)[: count[i]]) == triangles(columns[star.tips])


def test_open_stars_and_large_circles_are_left_to_others(scattered):
    v, near = scattered
    beside = v + np.array([1e4, 0.0])
    beside[:, 0] = 0.0
    assert not closed_stars(beside, near, np.full(len(v), np.inf))[2].any()
    a, b, count = closed_stars(v, near, np.full(len(v), np.inf))
    i = int(np.argmax(count))
    corners = np.stack([v[i, a[i]], v[i, b[i]]], 1)[: count[i]]
    centre = np.linalg.solve(corners, 0.5 * np.sum(corners**2, -1)[..., None])[..., 0]
    largest = np.linalg.norm(centre, axis=1).max()
    for factor, expected in ((0.999, 0), (1.001, count[i])):
        assert closed_stars(v[i : i + 1], near[i : i + 1], np.array([factor * largest]))[2] == expected


def test_rows_without_enough_points_have_no_star():
    v = np.zeros((4, 5, 2))
    v[1, 1:3] = [[1, 0], [0, 1]]
    v[2, 1:] = [[1, 0], [2, 0], [-1, 0], [-2, 0]]
    v[3, 1:] = [[1, 0], [0, 1], [-1, -1], [0, 0]]
    found = closed_stars(v, np.ones((4, 5), bool), np.full(4, np.inf))
    assert found[2].tolist() == [0, 0, 0, 3]


def test_rows_on_one_circle_are_a_star():
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1], [1, -1]], float)
    a, b, count = closed_stars(corners[None], np.ones((1, 9), bool), np.array([1.0]))
    assert {1, 3, 5, 7} <= set(a[0, : count[0]])
    area = np.linalg.det(np.stack([corners[a[0, : count[0]]], corners[b[0, : count[0]]]], 1)) / 2
    assert 2.0 - 1e-12 <= area.sum() <= 4.0 + 1e-12
