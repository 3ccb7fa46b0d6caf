"""Neighbour graphs, spanning trees and gaps, against brute force."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist

from gpum.basics import neighbours
from gpum.manifold import gaps


def blobs(components, each, p=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = 50 * rng.standard_normal((components, 1, p))
    return (centres + rng.standard_normal((components, each, p))).reshape(-1, p)


def test_copies_of_a_row_make_no_loops():
    """Eight rows, five times each: a row is never its own neighbour, and copies are neighbours."""
    points = np.repeat(np.random.default_rng(0).standard_normal((8, 3)), 5, axis=0)
    graph = neighbours.neighbour_graph(points, 6)
    assert not graph.diagonal().any()
    assert connected_components(graph, directed=False)[0] == 1
    assert np.all((graph > 0).sum(1) >= 6)
    copies = graph[:5, :5].toarray() > 0
    np.testing.assert_array_equal(copies, ~np.eye(5, dtype=bool))


@pytest.mark.parametrize(("components", "each"), [(2, 30), (7, 12), (40, 5)])
def test_components_are_joined_by_the_shortest_gaps(components, each):
    """The tree of all pairs has the same edges, and between components the graph has no others."""
    points = blobs(components, each)
    near = neighbours.nearest(points, 3)[1]
    inside = np.zeros((len(points),) * 2, bool)
    inside[np.repeat(np.arange(len(points)), 3), near.ravel()] = True
    inside |= inside.T
    graph = neighbours.neighbour_graph(points, 3)
    label = connected_components(inside, directed=False)[1]
    D = np.where(label[:, None] == label, 0.0, cdist(points, points))
    D[inside] = 1e-3  # far below every gap
    full = minimum_spanning_tree(D).toarray()
    bridges = {tuple(sorted(pair)) for pair in np.argwhere(full > 1e-2).tolist()}
    extra = {tuple(sorted(pair)) for pair in np.argwhere((graph.toarray() > 0) & ~inside).tolist()}
    assert len(extra) == label.max() >= components - 1
    assert extra == bridges
    for i, j in extra:
        assert graph[i, j] == graph[j, i] == pytest.approx(D[i, j])


def test_equal_gaps_still_give_a_tree():
    """Sixteen pairs on a lattice: all gaps are equal, and the joins must not close a circle."""
    centres = 10.0 * np.stack(np.meshgrid(range(4), range(4)), -1).reshape(-1, 1, 2)
    points = (centres + np.array([[0.0, 0.0], [0.1, 0.0]])).reshape(-1, 2)
    graph = neighbours.neighbour_graph(points, 1)
    assert connected_components(graph, directed=False)[0] == 1
    assert graph.nnz == 2 * (16 + 15)


def test_the_spanning_tree_is_that_of_all_pairs():
    points = np.concatenate([blobs(3, 40), np.random.default_rng(1).uniform(-3, 3, (80, 3))])
    edges, lengths = neighbours.spanning_tree(points)
    assert edges.shape == (len(points) - 1, 2)
    np.testing.assert_allclose(lengths, neighbours.distance(points, edges))
    assert lengths.sum() == pytest.approx(minimum_spanning_tree(cdist(points, points)).sum())


def test_spacing_and_extent():
    points = np.random.default_rng(0).uniform(0, [3, 4], (20_000, 2))
    D = cdist(points[:50], points[:50])
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(neighbours.spacing(points[:50]), D.min(1))
    assert neighbours.extent(points) == pytest.approx(5, rel=0.01)
    for scale in (1e-200, 1e200):  # whose squares are no numbers
        assert neighbours.extent(scale * points) == pytest.approx(scale * neighbours.extent(points))


def test_minimax_equals_brute_force():
    """Against the bottleneck form of Floyd-Warshall on the tree."""
    rng = np.random.default_rng(0)
    for points in (rng.standard_normal((40, 3)), np.sort(rng.standard_normal((40, 1)), axis=0)):  # a bush and a chain
        tree, steps = neighbours.spanning_tree(points)
        D = np.full((40, 40), np.inf)
        D[tree[:, 0], tree[:, 1]] = D[tree[:, 1], tree[:, 0]] = steps
        np.fill_diagonal(D, 0)
        for k in range(40):
            D = np.minimum(D, np.maximum(D[:, k : k + 1], D[k : k + 1]))
        pairs = np.array([(i, j) for i in range(40) for j in range(i + 1, 40)])
        np.testing.assert_allclose(gaps.minimax(tree, steps, pairs), D[pairs[:, 0], pairs[:, 1]])


def test_members_are_found_in_either_order():
    pairs = np.array([[0, 3], [1, 2], [2, 7], [4, 5]])
    np.testing.assert_array_equal(gaps.members(pairs, np.array([[7, 2], [0, 3], [8, 9]])), [True, False, True, False])
    assert not gaps.members(pairs, np.zeros((0, 2), int)).any()


@pytest.mark.parametrize("q", [1, 2, 3])
def test_bin_lists_hold_what_touches_a_bin(q):
    """Every point of a box lies in a bin whose list names the box, and lists are sorted and name nothing twice."""
    rng = np.random.default_rng(q)
    low = rng.standard_normal((30, q))
    high = low + rng.uniform(0, 0.7, (30, q))
    bins = gaps.quantile_bins(rng.standard_normal((200, q)), 5)
    table = gaps.bin_lists(bins, low, high)
    expected = [[] for _ in range(5**q)]
    for k in range(30):
        first, last = ((bins <= end[k][:, None]).sum(1) for end in (low, high))
        for cell in np.ndindex(*(last - first + 1)):
            expected[int(np.ravel_multi_index(first + cell, (5,) * q))].append(k)
    width = table.shape[-1]
    assert table.shape[:-1] == (5,) * q
    assert max(map(len, expected)) <= width < max(map(len, expected)) + gaps.LIST
    for row, boxes in zip(table.reshape(-1, width), expected, strict=True):
        assert row.tolist() == boxes + [30] * (width - len(boxes))
    assert gaps.bin_lists(bins, low[:0], high[:0]).max() == 0


@pytest.mark.parametrize("q", [1, 2, 3])
def test_dimension_of_even_clouds(q):
    """Uniform points of a torus, which has no edge: the estimator's mean is q, its sd q/√(N(k - 2)) at the least."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (2000, q))
    points = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    assert neighbours.dimension(points) == pytest.approx(q, rel=0.06)
    assert neighbours.dimension(points[:2]) == 1.0
    assert neighbours.dimension(np.repeat(points, 2, 0)) == neighbours.dimension(points)


def test_dimension_of_a_cloud_with_one_row_far_from_all_others():
    points = np.random.default_rng(0).uniform(0, 1, (2000, 2))
    points[7] = 1e9
    assert neighbours.dimension(points) == pytest.approx(2, rel=0.1)


def test_dimension_of_rows_far_from_the_origin():
    """Their distances are differences of large numbers, and some come out as zero."""
    rng = np.random.default_rng(14)
    points = rng.standard_normal((24, 1)) + 1e6 * (np.arange(24) % 2)[:, None]
    found = neighbours.dimension(points)
    assert np.isfinite(found)
    assert found > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_search_in_a_forked_process_ends():
    """As in a server that has predicted before it forks: many rows of many columns, several threads of OpenMP."""
    code = """
import os, sys, numpy as np
from gpum.basics.neighbours import nearest
rows = np.random.default_rng(0).standard_normal((900, 40))
before = nearest(rows, 3, rows[:200] + 0.1)
child = os.fork()
if not child:
    os._exit(int(not np.array_equal(nearest(rows, 3, rows[:200] + 0.1)[1], before[1])))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    threads = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=threads, timeout=60, check=False, start_new_session=True)
    assert done.returncode == 0


@pytest.mark.parametrize("p", [2, 15, 16, 40])
def test_nearest_rows_of_others_are_those_of_all_distances(p):
    """With few pairs and many, in few columns and many."""
    rng = np.random.default_rng(0)
    points, queries = rng.standard_normal((700, p)), rng.standard_normal((150, p))
    for some in (queries[:0], queries[:20], queries):
        length, index = neighbours.nearest(points, 4, some)
        exact = cdist(some, points)
        np.testing.assert_array_equal(index, np.argsort(exact, axis=1)[:, :4])
        np.testing.assert_allclose(length, np.sort(exact, axis=1)[:, :4], rtol=1e-12)
