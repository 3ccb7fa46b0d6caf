"""Graphs on a cloud: eigenpairs, known spectra, kernels, extension to new rows, awkward clouds."""

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import inside
from gpum.basics.neighbours import neighbour_graph
from gpum.geometry import graphs
from gpum.geometry.features import GraphSpace
from gpum.geometry.graphs import (
    bandwidth_grid,
    diffusion_space,
    diffusion_spaces,
    graph_spaces,
)
from gpum.heat.covariances import Spectral


def graph_space(X, n_neighbors=10, width=1.0, n_modes=None):
    """One of the graphs of a cloud."""
    return graphs.graph_space(X, (neighbour_graph(X, n_neighbors), 1), n_neighbors, width, n_modes)[0]


def circle(n, rng=None):
    angle = 2 * np.pi * (np.arange(n) + (0 if rng is None else rng.uniform(-0.4, 0.4, n))) / n
    return np.column_stack([np.cos(angle), np.sin(angle)]), angle


def test_graph_eigenpairs_against_dense_matrices():
    X = np.random.default_rng(0).normal(size=(40, 3))
    space = graph_space(X, n_neighbors=5, width=0.8)
    d = cdist(X, X)
    edge = d <= np.sort(d, 1)[:, [5]]
    edge = (edge | edge.T) & ~np.eye(40, dtype=bool)
    h = np.sort(d, 1)[:, 1].max()
    w = np.where(edge, np.exp(-(d**2) / (2 * (0.8 * h) ** 2)), 0.0)
    W = w / np.outer(w.sum(1), w.sum(1))
    walk = W / W.sum(1, keepdims=True)
    step = np.sum(W * d**2) / W.sum()
    expected = np.sort(np.linalg.eigvals(np.eye(40) - walk).real) * 2 / step
    np.testing.assert_allclose(space.values, expected, atol=1e-9 * expected[-1])
    laplacian = (np.eye(40) - walk) * 2 / step
    np.testing.assert_allclose(laplacian @ space.vectors, space.vectors * space.values, atol=1e-6 * expected[-1])
    np.testing.assert_allclose(np.mean(space.vectors**2, 0), 1, rtol=1e-6)
    np.testing.assert_allclose(space.vectors[:, 0], 1)


@pytest.mark.parametrize("normalisation", ["paper", "authors"])
def test_gl_is_appendix_g(normalisation):
    X = np.random.default_rng(1).normal(size=(30, 2))
    eps, N = 0.5, 30
    space = diffusion_space(X, eps, normalisation=normalisation)
    d = cdist(X, X)
    k = np.exp(-(d**2) / (4 * eps**2))
    W = k / np.outer(k.sum(1), k.sum(1))
    L = (W / W.sum(1, keepdims=True) - np.eye(N)) / eps**2
    np.testing.assert_allclose(-L @ space.vectors, space.vectors * space.values, atol=1e-9)
    assert np.all(np.diff(space.values) >= 0)
    near = np.sum(d <= eps, 1) if normalisation == "paper" else np.ones(N)
    np.testing.assert_allclose((1 / near) @ space.vectors**2 / np.sum(1 / near), 1)


def test_iterative_solver_agrees_with_the_dense_one(monkeypatch):
    X = np.random.default_rng(2).normal(size=(120, 3))
    for make in (lambda: graph_space(X, 8, n_modes=12), lambda: diffusion_space(X, 0.7, 12)):
        dense = make()
        with monkeypatch.context() as m:
            inside.lower(m, rows_of_a_dense_graph=50)
            found = make()
        np.testing.assert_allclose(found.values, dense.values, atol=1e-8)
        np.testing.assert_allclose(found.vectors, dense.vectors, atol=1e-6)


@pytest.mark.parametrize("make", [lambda X: graph_space(X, 6), lambda X: diffusion_space(X, 0.05, 9)])
def test_circle_spectrum(make):
    """Eigenvalues 0, 1, 1, 4, 4, 9, 9, 16, 16, in the unit of Δ."""
    values = make(circle(300)[0]).values[:9]
    np.testing.assert_allclose(values, [0, 1, 1, 4, 4, 9, 9, 16, 16], rtol=0.05, atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda X: graph_space(X, 15, n_modes=30),
        pytest.param(lambda X: diffusion_space(X, 0.12, 30), marks=pytest.mark.slow),
    ],
)
def test_flat_torus_spectrum_whatever_the_density(make):
    """Ratios 1 (×4), 2 (×4), 4 (×4) although one half is sampled twice as densely: errors shrink with N."""
    errors = []
    for n in (400, 1600):
        rng = np.random.default_rng(3)
        a, b = 2 * np.pi * rng.uniform(size=(2, n))
        a = np.where(rng.uniform(size=n) < 0.25, a / 2, a)
        X = np.column_stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)])
        values = make(X).values[1:13]
        errors.append(np.abs(values / values[:4].mean() / np.repeat([1.0, 2.0, 4.0], 4) - 1))
    print("largest errors of the ratios", [e.max() for e in errors])
    assert errors[1].max() < 0.2
    assert errors[1].mean() < errors[0].mean()


@pytest.mark.parametrize("make", [lambda X: graph_space(X, 6, n_modes=20), lambda X: diffusion_space(X, 0.08, 20)])
def test_new_rows(make):
    X, angle = circle(200, np.random.default_rng(4))
    space = make(X)
    np.testing.assert_allclose(space.at(X), space.vectors, atol=1e-9)
    np.testing.assert_allclose(space.at(X + 1e-11), space.vectors, atol=1e-6)  # without a jump
    assert space.at(X[:0]).shape == (0, 20)
    new = np.linspace(0, 2 * np.pi, 57)
    found = space.at(np.column_stack([np.cos(new), np.sin(new)]))[:, :7]
    basis = lambda t: np.column_stack([f(j * t) for j in range(4) for f in (np.cos, np.sin)])
    coefficients = np.linalg.lstsq(basis(angle), space.vectors[:, :7], rcond=None)[0]
    error = np.sqrt(np.mean((found - basis(new) @ coefficients) ** 2))
    on_cloud = np.sqrt(np.mean((space.vectors[:, :7] - basis(angle) @ coefficients) ** 2))
    print(f"rms error of the first 7 functions at new rows {error:.4f}, on the cloud {on_cloud:.4f}")
    assert error < on_cloud + 0.03
    far = space.at(np.array([[1e3, 0.0], [0.0, -1e8]]))
    assert np.all(np.isfinite(far))


def test_new_rows_on_several_graphs_are_those_on_each():
    X, _ = circle(60, np.random.default_rng(4))
    spaces = [graph_space(X, k, width, n_modes=10) for k in (4, 6) for width in (1.0, np.inf)]
    for new in (X[:1] + 0.01, X[:5] - 0.02):
        for space, found in zip(spaces, GraphSpace.at_each(spaces, new), strict=True):
            np.testing.assert_allclose(found, space.at(new), atol=1e-13)


def test_kernels_are_positive_semidefinite():
    X = np.random.default_rng(5).normal(size=(60, 2))
    both = np.concatenate([X, X[:10] + 0.1])
    for space in [graph_space(X, 6), diffusion_space(X, 0.5), diffusion_space(X, 0.5, normalisation="authors")]:
        F = space.at(both)
        for nu in (0.5, 2.5, np.inf):
            K = Spectral(space.values, np.mean(space.vectors**2, 0), nu, 0.0, 0.7).gram(F, F)
            np.testing.assert_allclose(K, K.T, atol=1e-12 * K.max())
            assert np.linalg.eigvalsh(K)[0] > -1e-10 * K.max()
        again = pickle.loads(pickle.dumps(space))
        np.testing.assert_array_equal(again.at(both), F)


def test_two_clusters_become_one_piece():
    X = np.random.default_rng(6).normal(size=(50, 2))
    X[25:] += 8.0
    for space in graph_spaces(X, n_neighbors=(4, 6)) + diffusion_spaces(X):
        assert space.values[0] == 0
        assert space.values[1] > 0
    space = graph_space(X, 4, np.inf)
    side = np.sign(space.vectors[:, 1])
    assert abs(side[:25].mean()) > 0.99
    assert abs(side[25:].mean()) > 0.99


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0], [1.0]]),
        np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]]),
        np.repeat(np.random.default_rng(7).normal(size=(8, 3)), 5, 0),
        np.ones((6, 2)),
    ],
    ids=["two rows", "three rows", "duplicates", "all equal"],
)
def test_awkward_clouds(X):
    spaces = [*graph_spaces(X), *diffusion_spaces(X), *diffusion_spaces(X, normalisation="authors")]
    assert len(spaces) >= 2
    for space in spaces:
        assert len(space.values) >= 2
        assert space.values[1] > 0
        for array in (space.values, space.vectors, space.at(X), space.at(X + 0.3)):
            assert np.all(np.isfinite(array))


def test_grids():
    X = np.random.default_rng(8).normal(size=(30, 2))
    pairs = {(s.bandwidth, s.info["n_pairs"]) for s in diffusion_spaces(X)}
    assert len(pairs) == len(diffusion_spaces(X))
    np.testing.assert_allclose([min(p)[0] for p in [pairs]], bandwidth_grid(X)[0])
    with pytest.raises(ValueError, match='use "paper" or "authors"'):
        diffusion_space(X, 1.0, normalisation="none")


def test_duplicates_in_a_graph_for_classes():
    """Rows that are the same have no width of their own; distances over it stay numbers."""
    X = np.concatenate([np.zeros((8, 2)), np.random.default_rng(0).standard_normal((12, 2))])
    with np.errstate(all="raise", under="ignore"):
        for space in graphs.cluster_spaces(X):
            assert np.isfinite(space.values).all()
            assert np.isfinite(space.vectors).all()


def test_thin_graphs_have_the_eigenpairs_of_a_dense_solver(monkeypatch):
    """The graph of a strip of 1 100 rows is solved by iteration; values and projections agree with a dense solver's."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 40, 1100), rng.uniform(0, 1, 1100)])
    iterated = graph_space(X, n_modes=40)
    monkeypatch.setattr(graphs, "THIN", 0)
    dense = graph_space(X, n_modes=40)
    np.testing.assert_allclose(iterated.values, dense.values, atol=1e-9 * dense.values[-1])
    kernels = [(s.vectors * np.exp(-s.values / dense.values[10])) @ s.vectors.T for s in (iterated, dense)]
    np.testing.assert_allclose(*kernels, atol=1e-5 * np.abs(kernels[1]).max())
