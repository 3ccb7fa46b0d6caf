"""The atlas against closed surfaces, patches, curves and solids whose spectrum is known."""

import numpy as np

from gpum import Atlas, heat_kernel

SPHERE = np.repeat(np.arange(8) * (np.arange(8) + 1.0), 2 * np.arange(8) + 1)


def sphere(n, noise=0.0, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return embedded(X / np.linalg.norm(X, axis=1, keepdims=True), noise, p, rng)


def embedded(X, noise, p, rng):
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0][:, : X.shape[1]]
    return X @ axes.T + noise * rng.standard_normal((len(X), p))


def error(values, exact):
    return np.abs(values[1:] / exact[1 : len(values)] - 1).max()


def test_sphere():
    atlas = Atlas(2).fit(sphere(2000))
    assert error(atlas.eigenpairs(25).values, SPHERE) < 0.02
    assert atlas.n_pieces_ == 1


def test_heat_kernel_takes_an_atlas():
    X = sphere(300)
    kernel = heat_kernel(Atlas(2).fit(X), X[:5], X, [0.5, 1.0])
    assert kernel.shape == (2, 5, 300)
