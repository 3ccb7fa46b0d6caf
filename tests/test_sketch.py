"""Sketches of charts: what labels say of them, and where rows are in them."""

import numpy as np
import pytest

from gpum.datasets import make_swiss_roll
from gpum.geometry.candidate_set import CandidateSet, stationary_candidates
from gpum.geometry.features import ScaledSpace
from gpum.geometry.flat import sketches
from gpum.geometry.options import KernelTask
from gpum.inference import gp

TASK = KernelTask(["matern52", "heat"])


def evidence(candidate_set, known, y):
    """The log evidence of labels y [n] of the rows `known`."""
    mean, scale = gp.units(y[known])
    return gp.average(candidate_set, known, (y[known] - mean) / scale).log_evidence


def of_coordinates(Z):
    """Plain kernels of coordinates Z [N, q]."""
    return CandidateSet.of([(ScaledSpace(np.ones(1)), Z, stationary_candidates(Z, TASK.smoothness))])


@pytest.fixture(scope="module")
def roll():
    """A Swiss roll of 300 rows, its arc length and width, and labels."""
    data = make_swiss_roll(30, 300, random_state=0)
    known = np.arange(30)
    arc = data.chart_coords[:, 0] ** 2  # about the length along an Archimedean spiral
    Z = np.stack([arc / np.ptp(arc) * 80, data.chart_coords[:, 1]], 1)
    return data.X, Z, known, np.where(np.isnan(data.y), data.y_true, data.y)


def test_the_sketch_of_a_roll_explains_labels_as_its_true_coordinates_do(roll):
    """Within 5 nats, and far better than sketches of one dimension and the data space."""
    X, Z, known, y = roll
    scores = {s.dim: evidence(s.built(TASK)[1], known, y) for s in sketches(X, (1, 2, 3))}
    assert list(scores) == [1, 2]  # three columns have no surface of three dimensions
    assert scores[2] > evidence(of_coordinates(Z), known, y) - 5
    assert scores[2] > scores[1] + 5
    assert scores[2] > evidence(of_coordinates(X), known, y) + 5


def test_rows_of_the_cloud_have_their_coordinates(roll):
    X = roll[0]
    for sketch in sketches(X, (1, 2)):
        geometry, candidate_set = sketch.built(TASK)
        for space, rows in zip(candidate_set.spaces, candidate_set.rows, strict=True):
            assert rows.shape == (len(X), sketch.dim)
            np.testing.assert_allclose(space.at(geometry.project(X[:20]).points), rows[:20], atol=1e-6)


def test_a_circle_is_cut_open():
    angle = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    (sketch,) = sketches(np.stack([np.cos(angle), np.sin(angle), 0.1 * np.cos(2 * angle)], 1), (1,))
    *_, turned = sketch.coordinates
    steps = np.diff(np.unwrap(turned[:, 0]))
    np.testing.assert_allclose(np.abs(steps), 2 * np.pi / 80, rtol=0.1)


@pytest.mark.parametrize("n", [3, 4])
def test_few_rows_and_copies(n):
    """Sketches of fewer dimensions than rows and columns allow."""
    X = np.random.default_rng(0).standard_normal((n, 4))[np.arange(2 * n) % n]
    for sketch in sketches(X, (1, 2, 3)):
        assert np.isfinite(np.concatenate(sketch.coordinates)).all()
