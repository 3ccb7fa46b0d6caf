"""Charts, atlases, latent models and heat kernels, whatever they are given: finite answers, or a sentence."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpum import (
    GPLVM,
    Atlas,
    BayesianGPLVM,
    EmbeddedChart,
    GPUMRegressor,
    Mesh,
    SwissRoll,
    brownian_path,
    heat_kernel,
    spectral,
)
from gpum import (
    manifold as geometry,
)
from odd import ODD, answered, clouds, covers, finite, quiet, rows_like, setting

pytestmark = pytest.mark.usefixtures("one_thread")
SCALES = st.sampled_from([1.0, 1.0, 1e-6, 1e6])
UNITS = ("auto", "none", "standard", "robust")
WORDS = ("spectral", "brownian", "auto")


def _line(x):
    return x


def _bent(x):
    return jnp.concatenate([jnp.sin(x), jnp.cos(x), x])


def _folded(x):  # its metric is singular at 0
    return x**2


@st.composite
def charts(draw):
    """A known surface of one or two dimensions and of some size."""
    if draw(st.booleans()):
        return SwissRoll()
    phi, size = draw(st.sampled_from([_line, _bent, _folded])), draw(SCALES)
    q = draw(st.sampled_from([1, 2]))
    periodic = tuple(draw(st.lists(st.booleans(), min_size=q, max_size=q)))
    return EmbeddedChart(phi, [(0.1 * size, size)] * q, periodic)


@st.composite
def points(draw, chart, n=3):
    """Points inside a chart, now and then one outside, or something else."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    found = rng.uniform(*chart.bounds.T, (n, chart.dim))
    odd = draw(st.integers(0, 9))
    if odd == 0:
        found[0] = chart.bounds[:, 1] * 2
    elif odd == 1:
        return draw(st.sampled_from(ODD))
    return found


@covers("EmbeddedChart", "SwissRoll", "Chart", seconds=0.003, answered=0.15)
@given(data=st.data())
def test_domains_are_taken_or_refused(data):
    pairs = st.lists(st.lists(st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf, 1e300]), max_size=3), max_size=3)
    domain = data.draw(st.one_of(pairs, st.sampled_from(ODD)))
    chart = answered(lambda: EmbeddedChart(_line, domain, data.draw(setting((), (True,)))))
    if chart is not None:
        assert chart.bounds.shape == (chart.dim, 2)
        assert np.all(chart.bounds[:, 0] < chart.bounds[:, 1])
    ends = st.sampled_from([(2.0, 12.5), (0.0, 1.0), (1.0, 1.0), (3, 2), (np.nan, 1.0), (-1.0, 2.0), "ab", None])
    roll = answered(lambda: SwissRoll(data.draw(ends), data.draw(ends)))
    if roll is not None:
        assert np.all(roll.bounds[:, 0] < roll.bounds[:, 1])


@st.composite
def meshes(draw):
    """Vertices in two or three dimensions and some of the cells between them, now and then something else."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    p, n = draw(st.sampled_from([2, 3])), draw(st.integers(2, 12))
    corners = draw(st.integers(2, p + 1))
    vertices = rng.standard_normal((n, p)) * draw(SCALES)
    faces = rng.integers(0, n, (draw(st.integers(1, 20)), corners))
    odd = draw(st.integers(0, 9))
    if odd == 0:
        faces = faces + draw(st.sampled_from([-1, n, 0.5]))
    elif odd == 1:
        vertices[0] = draw(st.sampled_from([np.nan, np.inf, 0.0]))
    elif odd == 2:
        return draw(st.sampled_from(ODD)), draw(st.sampled_from(ODD))
    return vertices, faces


@covers("Mesh", "heat.Spectrum", "heat.Geodesic", "fitted.FittedSurface", seconds=0.05, answered=0.4)
@given(data=st.data())
def test_meshes_are_surfaces(data):
    vertices, faces = data.draw(meshes())
    mesh = answered(lambda: Mesh(vertices, faces))
    if mesh is None:
        return
    X = mesh.vertices[:3] * 1.1
    spectrum = answered(lambda: mesh.spectrum(data.draw(setting(5, 1))))
    if spectrum is not None:
        assert finite(spectrum.values, spectrum.at(X))
        assert np.all(np.diff(spectrum.values) >= 0)
        F = answered(
            lambda: spectrum.features(X, data.draw(setting(None, 0.5)), data.draw(setting("heat", "matern32")))
        )
        assert F is None or finite(F)
    located = mesh.project(X)
    assert np.all(located.distance >= 0)
    np.testing.assert_allclose(located.weights.sum(1), 1)
    away = answered(lambda: mesh.geodesic(X[0], data.draw(setting(X[1:], X[1]))))
    for one in away if isinstance(away, list) else [away] if away is not None else []:
        assert one.length == np.inf or finite(one.path)
    if data.draw(st.integers(0, 9)) == 0 and spectrum is not None:
        y = mesh.vertices[:, 0]
        model = answered(lambda: GPUMRegressor(geometry=mesh, n_jobs=1).fit(mesh.vertices, y))
        if model is not None:
            (surface,) = model.surfaces_
            assert finite(surface.spectrum().values, surface.nodes, model.predict_gradient(X))
            assert finite(model.sample_functions(1)[0](X))


@covers(
    "manifold.evaluate", "manifold.magnification", "manifold.volume", "manifold.length", "LearnedChart",
    seconds=0.05, answered=0.74,
)  # fmt: skip
@given(data=st.data())
def test_geometry_of_charts(data):
    chart = data.draw(charts())
    n = data.draw(setting(5, None))
    total = answered(lambda: geometry.volume(chart, n))
    assert total is None or (finite(total) and total > 0)
    x = data.draw(points(chart))
    found = answered(lambda: geometry.evaluate(chart, "metric", x))
    if found is not None:
        assert found.shape == (len(x), chart.dim, chart.dim)
        assert finite(found, geometry.evaluate(chart, geometry.magnification, x))
    nodes = data.draw(setting(3, 16))
    between = answered(lambda: geometry.length(chart, *chart.bounds.T, n=nodes))
    assert between is None or (finite(between) and between > 0)


@covers("heat_kernel", "spectral.eigenpairs", "spectral.Eigenpairs", seconds=0.15, answered=0.5)
@given(data=st.data())
def test_heat_kernels_of_finite_elements(data):
    chart = data.draw(charts())
    x, size = data.draw(points(chart)), answered(lambda: geometry.volume(chart, 20)) or 1.0
    t = data.draw(setting(0.1, [0.1, 1.0]))
    if isinstance(t, float | list) and np.size(t) and finite(t):
        t = np.asarray(t) * size ** (2 / chart.dim)
    modes = data.draw(setting(None, 10))
    K = answered(lambda: heat_kernel(chart, x, None, t, data.draw(setting("auto", "spectral")), n_modes=modes))
    if K is not None:
        assert K.shape == (np.size(t), len(x), len(x))
        assert finite(K)
        assert np.allclose(K, K.transpose(0, 2, 1), rtol=1e-8, atol=1e-8 * np.abs(K).max())
        assert np.all(np.linalg.eigvalsh(K) >= -1e-8 * np.abs(K).max())
    pairs = answered(lambda: spectral.eigenpairs(chart, n_modes=data.draw(setting(5, 20))))
    if pairs is not None:
        assert finite(pairs.values, pairs.at(chart.bounds.mean(1)[None]), pairs.volume)
        assert np.all(np.diff(pairs.values) >= 0)


@covers("brownian_path", seconds=0.6, answered=0.45)
@given(data=st.data())
def test_paths_and_their_kernels(data):
    chart = data.draw(charts())
    size = answered(lambda: geometry.volume(chart, 20)) or 1.0
    x, unit = data.draw(points(chart)), size ** (2 / chart.dim)
    time = data.draw(setting(0.1 * unit))
    start = x[:1] if isinstance(x, np.ndarray) else x
    path = answered(lambda: brownian_path(chart, start, time, n_steps=data.draw(setting(5, 20)), random_state=0))
    if path is not None:
        assert finite(path)
        assert np.all(geometry.evaluate(chart, "inside", path))
    options = {
        "n_paths": st.sampled_from([20, 20, 0, -1, None, 1.5]),
        "estimator": setting("histogram", "ball"),
        "radius": setting(None, 0.1 * np.sqrt(unit)),
        "step_size": setting(None, 0.05 * unit),
    }
    name = data.draw(st.sampled_from(sorted(options)))
    chosen = {"n_paths": 20, "step_size": 0.05 * unit, name: data.draw(options[name])}
    if name == "step_size" and isinstance(chosen[name], float) and chosen[name] < 1e-3 * unit:
        return  # as many steps as were asked for
    found = answered(
        lambda: heat_kernel(chart, x, None, 0.1 * unit, "brownian", return_std=True, random_state=0, **chosen)
    )
    if found is not None:
        assert finite(*found)
        assert np.all(found[1] >= 0)


@covers("Atlas", "ForkedProcess", "NoSurface", "heat.AtlasEigenpairs", seconds=0.02, answered=0.28)
@given(data=st.data())
def test_atlases(data):
    X, _ = data.draw(clouds())
    dim, k = data.draw(setting(1, 2, 3)), data.draw(setting(None, 6))
    atlas = answered(lambda: Atlas(dim, n_neighbors=k).fit(X))
    if atlas is None:
        return
    assert finite(atlas.volume_, atlas.nodes_)
    pairs = answered(lambda: atlas.eigenpairs(data.draw(setting(10, 3))))
    if pairs is not None:
        assert finite(pairs.values, pairs.at(X), pairs.at(rows_like(X)))
        assert np.all(pairs.values >= -1e-6 * np.abs(pairs.values).max())
    time = data.draw(setting(atlas.volume_ ** (2 / dim)))
    K = answered(lambda: heat_kernel(atlas, X, None, time, data.draw(setting(*WORDS)), n_paths=20, random_state=0))
    assert K is None or finite(K)


LATENT = {"max_iter": 20, "random_state": 0, "starts": "pca"}


def latents_answer(data, make):
    X, _ = data.draw(clouds(gaps=True, wide=False, rows=(4, 12), columns=(2, 3, 7)))
    q = data.draw(st.sampled_from([1, 1, 2, 3]))
    model = answered(lambda: make(q).fit(X))
    if model is None:
        return
    rows = rows_like(X)
    with quiet():
        place, sd = model.transform(rows, return_std=True)
        own = model.transform(X)
    assert finite(model.latent_, place, sd, own, model.bound_)
    assert np.all(sd >= 0)
    G = geometry.evaluate(model.chart_, "metric", model.latent_)
    assert finite(G, geometry.evaluate(model.chart_, "variance", model.latent_))
    assert np.all(np.linalg.eigvalsh(G) >= 0)
    assert np.all(geometry.evaluate(model.chart_, "inside", model.latent_))


@pytest.mark.slow
@covers("BayesianGPLVM", "manifold.CorridorBoundary", "manifold.VarianceBoundary", seconds=0.6, answered=0.5)
@given(data=st.data())
def test_variational_latent_models(data):
    more = {"n_inducing": data.draw(st.sampled_from([None, None, 2, 50])), "scale": data.draw(st.sampled_from(UNITS))}
    boundary = data.draw(st.sampled_from([0.5, "variance"]))
    latents_answer(data, lambda q: BayesianGPLVM(q, boundary=boundary, **more, **LATENT))


@pytest.mark.slow
@covers("GPLVM", seconds=0.6, answered=0.5)
@given(data=st.data())
def test_latent_models_by_points(data):
    latents_answer(data, lambda q: GPLVM(q, scale=data.draw(st.sampled_from(UNITS)), **LATENT))
