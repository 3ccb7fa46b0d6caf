"""Eigenpairs and kernels by finite elements against closed forms."""

import jax
import numpy as np
import pytest
from scipy.sparse import block_diag, diags, eye
from scipy.special import jv

import inside
from gpum import EmbeddedChart, heat_kernel
from gpum.geometry.candidate_set import spectral_candidates
from gpum.heat import lanczos
from gpum.heat.assembly import quadratic_unknowns
from gpum.heat.domain_mesh import DomainMesh
from gpum.heat.lanczos import _solver, factors, lowest
from gpum.heat.spectra import heat_spectrum, matern_spectrum, varying
from gpum.heat.spectral import Eigenpairs, eigenpairs
from gpum.manifold import evaluate, grid, magnification
from gpum.manifold.surface import Surface
from oracles import CIRCLE, CYLINDER, RECTANGLE, ROLL, SPHERE, TORUS, Disc, Ring, roll_kernel

TIMES = [2.0, 5.0, 10.0, 50.0, 200.0]


@pytest.mark.slow
def test_swiss_roll_kernel_at_default_resolution():
    targets = np.concatenate([[[6.0, 3.0]], grid(ROLL, 40)[0]])
    kernel = heat_kernel(ROLL, [[6.0, 3.0]], targets, TIMES, method="spectral")
    for k, t in zip(kernel, TIMES, strict=True):
        exact = roll_kernel((6.0, 3.0), targets, t)
        error = np.abs(k[0] - exact).max() / exact.max()
        print(f"t={t}: largest error {error:.3%} of the peak")
        assert error < 0.003


def test_refinement_order():
    targets = grid(ROLL, 20)[0]
    exact = roll_kernel((6.0, 3.0), targets, 20.0)
    steps, errors = [4.0, 2.0, 1.0], []
    for step in steps:
        pairs = eigenpairs(ROLL, n_modes=120, step=step)
        errors.append(np.abs((pairs.at([[6.0, 3.0]]) * pairs.heat(20.0)) @ pairs.at(targets).T - exact).max())
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    print(f"errors {errors}, fitted order {order:.2f}")
    assert order > 1.8


@pytest.mark.parametrize(
    ("chart", "expected"),
    [
        (CIRCLE, [0, 0.25, 0.25, 1, 1, 2.25, 2.25]),
        (SPHERE, [0, 2, 2, 2, 6, 6, 6, 6, 6, 12]),
        (RECTANGLE, np.sort([(np.pi * i / 2) ** 2 + (np.pi * j / 6) ** 2 for i in range(5) for j in range(9)])[:10]),
        (CYLINDER, np.sort([n**2 + (np.pi * j / 2) ** 2 for n in range(-5, 6) for j in range(6)])[:10]),
        (Disc(np.zeros(2)), [0, 3.3900, 3.3900, 9.3284, 9.3284, 14.6820]),  # squared zeros of J_n'
        (Disc(np.array([0.1, 0.1])), [0, 3.3900, 3.3900, 9.3284, 9.3284, 14.6820]),
    ],
)
def test_first_eigenvalues(chart, expected):
    values = eigenpairs(chart, n_modes=30).values[: len(expected)]
    np.testing.assert_allclose(values, expected, rtol=5e-3, atol=1e-8)


def test_functions_on_a_cut_mesh_are_smooth():
    """Eigenfunctions of the disc between the nodes: the first pair is J_1 on every diameter."""
    pairs = eigenpairs(Disc(np.zeros(2)), n_modes=30)
    angle = np.linspace(0, 2 * np.pi, 25)
    r, found = np.linspace(0.05, 0.95, 10), []
    for radius in r:
        f = pairs.at(radius * np.column_stack([np.cos(angle), np.sin(angle)]))[:, 1:3]
        found.append(np.sqrt(np.sum(f**2, 1)))  # the same at every angle
    found = np.array(found)
    exact = jv(1, np.sqrt(3.3900) * r)
    assert np.abs(found / found.mean(1, keepdims=True) - 1).max() < 0.01
    np.testing.assert_allclose(found.mean(1) / found.mean(), exact / exact.mean(), rtol=0.01)


@pytest.mark.slow
def test_three_dimensions():
    box = EmbeddedChart(lambda x: x, [(0, 1), (0, 2), (0, 1.5)])
    expected = np.sort(
        [
            (np.pi * np.array([i, j / 2, k / 1.5])) @ (np.pi * np.array([i, j / 2, k / 1.5]))
            for i in range(4)
            for j in range(6)
            for k in range(5)
        ]
    )[:8]
    values = eigenpairs(box, n_modes=20).values[:8]
    np.testing.assert_allclose(values, expected, rtol=5e-3, atol=1e-8)


@pytest.mark.parametrize("chart", [RECTANGLE, CYLINDER, TORUS, SPHERE])
def test_kernel_integrates_to_one_and_solves_the_heat_equation(chart):
    low, high = chart.bounds.T
    start = (low + 0.37 * (high - low))[None]
    points, cell = grid(chart, 60)
    pairs = eigenpairs(chart, 0.5)
    kernel = (pairs.at(start) * pairs.heat(0.5)) @ pairs.at(points).T
    density = evaluate(chart, magnification, points)
    assert float(kernel[0] @ density * cell) == pytest.approx(1, abs=2e-3)

    # ∂K/∂t = ½ΔK in the weak form: against a smooth test function v, d/dt ∫Kv = -½ ∫ <∇K, ∇v>; v is the fourth mode.
    mode = pairs.at(points)[:, 3]
    rate = (pairs.at(start) * pairs.heat(0.501) - pairs.at(start) * pairs.heat(0.499)) @ pairs.at(points).T / 0.002
    left = float(rate[0] @ (density * mode) * cell)
    h = 1e-4 * (high - low)
    slopes = [(pairs.at(points + e) - pairs.at(points - e)) / (2 * e.sum()) for e in np.diag(h)]
    of_kernel = np.stack([s @ (pairs.at(start) * pairs.heat(0.5))[0] for s in slopes], 1)
    of_mode = np.stack([s[:, 3] for s in slopes], 1)
    raised = np.linalg.solve(evaluate(chart, "metric", points), of_mode[..., None])[..., 0]
    right = float(-0.5 * np.sum(of_kernel * raised, 1) @ density * cell)
    assert left == pytest.approx(right, rel=2e-2, abs=1e-4)


def test_eigenfunctions_solve_the_equation_pointwise():
    """-Δφ = λφ by finite differences on the torus, where nothing is built in."""
    pairs = eigenpairs(TORUS, n_modes=12, step=0.3)
    x, h = np.array([0.8, 1.1]), 0.15
    radius = 3 + np.cos(x[1])

    def phi(dx, dy):
        return pairs.at([(x[0] + dx, x[1] + dy)])[0]

    along = (phi(h, 0) + phi(-h, 0) - 2 * phi(0, 0)) / h**2 / radius**2
    slope = (phi(0, h) - phi(0, -h)) / (2 * h)
    round_ = (phi(0, h) + phi(0, -h) - 2 * phi(0, 0)) / h**2 - np.sin(x[1]) / radius * slope
    residual = -(along + round_) - pairs.values * phi(0, 0)
    scale = np.abs(pairs.values).max() * np.abs(phi(0, 0)).max()
    assert np.abs(residual[:6]).max() < 0.05 * scale


def test_kernels_are_symmetric_and_positive():
    pairs = eigenpairs(ROLL, n_modes=150)
    rng = np.random.default_rng(0)
    for _ in range(100):
        points = rng.uniform([2, 0], [12.5, 12], (rng.integers(5, 60), 2))
        for weights in (pairs.heat(rng.uniform(5, 100)), pairs.matern(1.5, rng.uniform(1, 20))):
            kernel = pairs.kernel(weights, points)
            assert np.abs(kernel - kernel.T).max() <= 1e-12 * np.abs(kernel).max()
            values = np.linalg.eigvalsh(kernel)
            assert values[0] > -1e-10 * values[-1]


def test_matern_tends_to_heat():
    """(1 + λκ²/2ν)^{-ν} → e^{-λκ²/2} as ν grows."""
    pairs = eigenpairs(RECTANGLE, n_modes=40)
    matern = pairs.matern(2000.0, 1.2)
    np.testing.assert_allclose(matern / matern[0], pairs.heat(1.2**2), atol=2e-3)


def test_too_many_modes_are_announced(monkeypatch):
    inside.lower(monkeypatch, modes_of_a_mesh=40)
    with pytest.warns(UserWarning, match="needs about"):
        eigenpairs(EmbeddedChart(lambda x: x, [(0, 1.0)]), 1e-5)


@pytest.mark.slow
def test_learned_chart_kernel(roll_model):
    """On the learned chart of a roll the kernel is the roll's own, within what chart and boundary allow."""
    chart = roll_model.chart_
    with jax.enable_x64(True):
        start = roll_model.transform([[6 * np.cos(6.0), 6 * np.sin(6.0), 6.0]])
        r = np.linspace(4, 8, 15)
        targets = roll_model.transform(np.column_stack([r * np.cos(r), r * np.sin(r), np.full(15, 6.0)]))
    kernel = heat_kernel(chart, start, targets, [10.0])[0, 0]
    exact = roll_kernel((6.0, 6.0), np.column_stack([r, np.full(15, 6.0)]), 10.0)
    assert np.abs(kernel - exact).max() < 0.03 * exact.max()


def chain(n):
    """n unknowns in a row: eigenvalues 2 - 2 cos(πk/n)."""
    main = np.full(n, 2.0)
    main[[0, -1]] = 1.0
    return diags([np.full(n - 1, -1.0), main, np.full(n - 1, -1.0)], [-1, 0, 1])


def test_a_shift_too_low_for_rounding_is_raised():
    """With whole numbers elimination is exact: without a shift that counts, the last pivot of a chain is 0."""
    n = 50
    K, M = chain(n).tocsc(), eye(n).tocsc()
    with pytest.raises(RuntimeError, match="singular"):
        factors(K + 1e-30 * M)
    solve, shift = _solver(K, M, 1e-30)
    assert 1e-30 < shift < 1e-10
    b = np.zeros(n)
    b[[0, -1]] = 1.0, -1.0  # no part of the zero mode
    np.testing.assert_allclose(K @ solve(b), b, atol=1e-3)


@pytest.mark.parametrize("n", [400, 20_000])
def test_lowest_eigenpairs_of_long_chains(n):
    """The lowest are 1e-8 of the mean at the longest: no shift fixed beforehand tells them apart."""
    K, M = block_diag([chain(n), chain(n // 2)]).tocsr(), eye(n + n // 2).tocsr()
    found = lowest(K, M, 30)
    exact = np.sort(np.concatenate([4 * np.sin(np.pi * np.arange(30) / (2 * m)) ** 2 for m in (n, n // 2)]))[:30]
    np.testing.assert_allclose(found.values, exact, rtol=1e-6, atol=1e-14)
    assert found.n_connected_components == 2
    assert found.residual < 1e-6
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(30), atol=1e-10)
    left = K @ found.vectors - found.vectors * found.values
    assert np.abs(left).max() < 1e-6 * exact[-1]


def test_pairs_that_were_not_reached_are_not_returned(monkeypatch):
    """With too few columns for the number of pairs, those that are returned are right, and the rest is counted."""
    monkeypatch.setattr(lanczos, "MOST", (1, 1))
    n = 2000
    K, M = chain(n).tocsr(), eye(n).tocsr()
    found = lowest(K, M, 60)
    assert 0 < found.missing < 60
    assert len(found.values) == found.vectors.shape[1] == 60 - found.missing
    assert found.residual <= lanczos.REACHED
    exact = 4 * np.sin(np.pi * np.arange(len(found.values)) / (2 * n)) ** 2
    np.testing.assert_allclose(found.values, exact, rtol=1e-3, atol=1e-12)
    pairs = eigenpairs(Disc(np.zeros(2)), n_modes=60, step=0.05)
    assert pairs.missing > 0
    assert len(pairs.values) + pairs.missing == 60
    monkeypatch.setattr(lanczos, "REACHED", 0.0)
    with pytest.raises(ValueError, match=r"none of the 60 eigenfunctions .* was found"):
        lowest(K, M, 60)


def test_long_and_thin_domains_end():
    """A strip 100 000 times longer than wide: its modes are those of an interval."""
    pairs = eigenpairs(EmbeddedChart(lambda x: x, [(0, 100.0), (0, 1e-3)]), n_modes=30)
    exact = (np.pi * np.arange(30) / 100) ** 2
    np.testing.assert_allclose(pairs.values[:8], exact[:8], rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(pairs.values, exact, rtol=0.01, atol=1e-12)  # four elements in the last wave
    assert pairs.unknowns < 5000


def test_accuracy_stands_in_the_result():
    pairs = eigenpairs(Disc(np.zeros(2)), n_modes=30)
    assert pairs.change < 0.01
    assert pairs.per_wave > 3
    assert pairs.residual < 1e-6
    assert pairs.unknowns == len(pairs.vectors)
    assert (pairs.n_connected_components, pairs.torn) == (1, False)


@pytest.mark.slow
def test_a_mesh_that_cannot_be_used_is_an_error():
    """A ring narrower than the raster's cells; and a step far longer than it is wide."""
    with pytest.raises(ValueError, match=r"has \d+ connected components.*loosen the boundary level"):
        eigenpairs(Ring(0.7, 0.0005), n_modes=30, warn=False)
    with pytest.raises(ValueError, match="no element inside the domain"):
        eigenpairs(Ring(0.7, 0.0005), n_modes=30, step=1.0)


def test_points_of_large_elements_among_small_ones():
    """One triangle of side 10 beside many small ones, whose middles are all nearer; φ is a coordinate."""
    small = np.column_stack([np.linspace(0, 1, 61), np.full(61, -0.02)])
    nodes = np.concatenate([[[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], np.repeat(small, 2, 0)[1:]])
    nodes[4::2, 1] = 0.0
    strip = np.stack([np.arange(3, len(nodes) - 2), np.arange(4, len(nodes) - 1), np.arange(5, len(nodes))], 1)
    simplices = np.concatenate([[[0, 1, 2]], strip])
    unknowns = quadratic_unknowns(simplices)
    points = np.concatenate([nodes[unknowns.vertices], nodes[unknowns.sides].mean(1)])
    surface = Surface(nodes, simplices, unknowns=unknowns.of_elements[0])
    pairs = Eigenpairs(np.zeros(2), points, surface, 50.0, mesh=DomainMesh(nodes, simplices))
    points = np.array([[0.5, 0.1], [0.3, 0.05], [4.0, 4.0]])
    np.testing.assert_allclose(pairs.at(points), points, atol=1e-9)
    np.testing.assert_allclose(pairs.off(points), 0.0)
    np.testing.assert_allclose(pairs.off([[6.0, 6.0]]), [np.sqrt(2)], rtol=1e-6)  # across the long side
    np.testing.assert_allclose(pairs.at([[6.0, 6.0]]), [[5.0, 5.0]], atol=1e-6)


def test_spectra_stand_once():
    values = np.array([0.0, 1e-12, 0.5, 2.0])
    np.testing.assert_allclose(heat_spectrum(values, 3.0), np.exp(-1.5 * values))
    np.testing.assert_allclose(matern_spectrum(values, 1.5, 2.0, 2), (1 + values * 4 / 3) ** -2.5)
    assert varying(values).tolist() == [False, False, True, True]


def test_a_surface_on_which_nothing_varies_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"zero up to rounding.*leave out copies"):
        spectral_candidates(np.zeros(3), np.ones((5, 3)), 1, ["heat"])
