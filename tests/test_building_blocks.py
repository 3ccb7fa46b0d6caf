"""The code of two pages runs, in its order; what needs another library runs where that is installed."""

import re
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpum import EmbeddedChart, GpumError, GPUMRegressor, Mesh, SwissRoll, datasets, heat_kernel
from shapes import sphere

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "building_blocks.md", DOCS / "kernels_elsewhere.md"]
BLOCKS = [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
OF_OTHERS = {match[1]: block for block in BLOCKS if (match := re.match(r"# needs (\w+)\n", block))}


@pytest.fixture(scope="module")
def names():
    """What the pages have defined at their end."""
    found = {}
    plt.switch_backend("agg")
    for block in BLOCKS:
        if block not in OF_OTHERS.values():
            exec(compile(block, "page", "exec"), found)
    found["figures"] = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return found


def test_the_pages_run(names):
    assert names["mesh"].volume == pytest.approx(2 * np.pi * 1.8, rel=5e-3)
    assert np.sqrt(np.mean((names["mean"] - names["truth"])[40:] ** 2)) < 0.1
    assert names["pipeline"].score(names["X"][40:], names["truth"][40:]) > 0.95
    assert names["gradient"].shape == names["deviation"].shape == (5, 3)
    assert len(names["figures"]) == 2  # a picture of each page
    heights = np.array(names["extremes"])[:, 2]
    assert np.all(heights > 1.2)  # sin(2 angle) + height is largest at the upper end
    assert names["away"].length == pytest.approx(np.linalg.norm(np.diff(names["away"].path, axis=0), axis=1).sum())
    assert names["path"].shape == (51, 2)
    # a cone of slope 1/2, unrolled, is half a disc that is glued: the distance of two points at angles a, b is
    # √(r² + s² - 2rs cos((a - b)/2)), unless that is shorter around the other side
    (r, a), (s, b) = names["points"][:2]
    turn = abs(a - b)
    exact = np.sqrt(r**2 + s**2 - 2 * r * s * np.cos(min(turn, 2 * np.pi - turn) / 2))
    found = names["on_cone"].surfaces_[0].geodesic(names["points"][0], names["points"][1]).length
    assert found == pytest.approx(exact, rel=0.01)


def test_the_reference_is_enough_for_a_surface_of_ones_own():
    """Thirty lines of docs/api.md alone: the kernel is that of the surface in space, a straight line is shortest."""
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "api.md").read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 30
    found = {}
    exec(compile(block, "reference", "exec"), found)
    X = found["X"]
    ramp = lambda x: jnp.stack([x[0] * jnp.cos(x[1]), x[0] * jnp.sin(x[1]), x[1]])
    in_space = EmbeddedChart(ramp, found["stairs"].bounds)
    np.testing.assert_allclose(found["K"], heat_kernel(in_space, X[:5], None, times=[0.1, 0.5]), rtol=0.02, atol=1e-3)
    assert found["paths"].shape == (3, 101, 2)
    assert np.all((found["paths"] >= [0.5, 0]) & (found["paths"] <= [2, 9]))
    np.testing.assert_allclose(found["paths"][:, 0], X[:3], rtol=1e-12)
    assert np.sqrt(np.mean((found["mean"] - found["truth"])[50:] ** 2)) < 0.1 * found["truth"].std()
    assert found["way"].length == pytest.approx(1.3, rel=0.01)


def check_on_sphere(folder):
    """A mesh of the sphere has the Matérn kernels of GeometricKernels' own sphere and of its own mesh."""
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed: meshes were not compared")
    from geometric_kernels.kernels import MaternKarhunenLoeveKernel
    from geometric_kernels.spaces import Hypersphere
    from geometric_kernels.spaces import Mesh as TheirMesh

    vertices, faces = sphere(4)
    space = Mesh(vertices, faces).spectrum(100).space()
    assert (space.dimension, space.element_shape) == (2, [3])
    points = vertices[::100]
    trimesh.Trimesh(vertices, faces, process=False).export(folder / "sphere.obj")
    their_mesh, read = TheirMesh.load_mesh(str(folder / "sphere.obj")), Mesh.read(folder / "sphere.obj")
    np.testing.assert_allclose(read.spectrum(16).values[1:], np.ravel(their_mesh.get_eigenvalues(16))[1:], rtol=5e-3)
    for nu in (1.5, np.inf):
        of = {"nu": np.array([nu]), "lengthscale": np.array([0.5])}
        found = MaternKarhunenLoeveKernel(space, 100).K(of, points)
        exact = MaternKarhunenLoeveKernel(Hypersphere(2), 10).K(of, points)  # ten levels of 1, 3, 5 ... functions
        np.testing.assert_allclose(found, exact, atol=5e-3)
        other = MaternKarhunenLoeveKernel(their_mesh, 100).K(of, np.arange(len(vertices))[::100, None])
        np.testing.assert_allclose(found, other, atol=0.03)  # theirs has other masses
    drawn = space.random(np.random.RandomState(0), 5)[1]
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    with pytest.raises(GpumError, match="ask for fewer"):
        space.get_eigenvalues(101)


def test_a_space_needs_its_library(names, monkeypatch):
    monkeypatch.setitem(sys.modules, "lab", None)  # the first that it imports
    monkeypatch.delitem(sys.modules, "gpum.heat.space", raising=False)
    with pytest.raises(GpumError, match="pip install geometric-kernels"):
        names["spectrum"].space()


@pytest.mark.filterwarnings("ignore")  # those of other libraries
@pytest.mark.parametrize("library", OF_OTHERS)
def test_other_libraries(library, names, tmp_path):
    pytest.importorskip(library, reason=f"{library} is not installed: its block of the page was not run")
    found = dict(names)
    exec(compile(OF_OTHERS[library], "page", "exec"), found)
    if library == "numpyro":
        scale = np.asarray(found["sampler"].get_samples()["scale"])
        assert len(scale) == 100
        assert 0.2 < scale.mean() < 3  # waves of length π and a slope
    elif library == "geometric_kernels":  # the page compares kernels; their sphere is another oracle
        check_on_sphere(tmp_path)
    else:
        predicted = np.asarray(found["predicted"])
        assert np.sqrt(np.mean((predicted - names["truth"][40:]) ** 2)) < 0.1


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # those of other libraries
def test_numpyro_on_the_roll_has_the_averaged_posterior():
    """NUTS over noise and signal, with the scale summed out: its means are those of `predict` within its error."""
    numpyro = pytest.importorskip("numpyro")
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from jax.scipy.linalg import cho_solve, solve_triangular
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=80, random_state=0)
    X, y = cloud.chart_coords, cloud.y
    model = GPUMRegressor(latent_model=SwissRoll(), smoothness="heat", random_state=0).fit(X, y)
    spectrum, known = model.surfaces_[0].spectrum(100), ~np.isnan(y)
    mean, size = y[known].mean(), y[known].std(ddof=1)
    varying, values = spectrum.at(X)[:, 1:], spectrum.values[1:]
    kernels = []
    for scale in np.sort(model.candidates_.scale):  # docs/model.md: 1 + κ, of mean variance 1 over the cloud
        F = varying * np.exp(-values * scale**2 / 4)
        kernels.append(1 + F @ F.T / np.mean(np.sum(F**2, 1)))
    with jax.enable_x64(True):
        K, z = jnp.asarray(kernels)[:, :, known], jnp.asarray((y[known] - mean) / size)
        both = jnp.array([-3.0, 0.0]), jnp.array([1.0, 1.0])

        def program():
            parts = dist.Categorical(jnp.array([0.98, 0.02]))
            ratio = 10 ** numpyro.sample("log_ratio", dist.MixtureSameFamily(parts, dist.Normal(*both)))
            signal = numpyro.sample("total", dist.InverseGamma(1.0, 3.0)) / (1 + ratio)
            L = jnp.linalg.cholesky(signal * (K[:, known] + ratio * jnp.eye(len(z))))
            white = jax.vmap(lambda L: solve_triangular(L, z, lower=True))(L)
            log_p = -0.5 * (white**2).sum(1) - jnp.log(jax.vmap(jnp.diag)(L)).sum(1)
            numpyro.factor("labels", jax.scipy.special.logsumexp(log_p))
            means = jax.vmap(lambda k, L: signal * k @ cho_solve((L, True), z))(K, L)
            numpyro.deterministic("f", jax.nn.softmax(log_p) @ means)

        sampler = MCMC(NUTS(program), num_warmup=300, num_samples=400, progress_bar=False)
        sampler.run(jax.random.key(0))
        drawn = mean + size * np.asarray(sampler.get_samples()["f"])
    effective = [effective_sample_size(row[None]) for row in drawn.T]
    away = (drawn.mean(0) - model.predict(X)) / (drawn.std(0) / np.sqrt(effective))
    assert np.sqrt(np.mean(away**2)) < 2  # errors of rows are dependent: twice the standard error
    _, std = model.predict(X, return_std=True, include_noise=False)
    assert np.all(np.abs(drawn.mean(0) - model.predict(X)) < 0.15 * std)
