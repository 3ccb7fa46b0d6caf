"""ψ statistics, bound and likelihood against quadrature, textbook formulas and finite differences."""

from dataclasses import fields, replace
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpum.basics import padding
from gpum.gplvm import bound, likelihood, optimise, precise, psi
from gpum.gplvm.kernel import JITTER
from gpum.gplvm.mapping import Mapping
from gpum.gplvm.models import PointGPLVM, Variational
from gpum.gplvm.optimise import value_and_gradient
from gpum.manifold.metric import expected_metric


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def problem(N=30, p=5, m=8, q=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, q))
    S = np.sin(X @ rng.standard_normal((q, p))) + 0.1 * rng.standard_normal((N, p))
    theta = bound.Parameters(
        mu=X,
        log_s=rng.normal(-2, 0.5, X.shape),
        Z=X[:m] + 0.1,
        log_ell=rng.normal(0, 0.2, q),
        log_gamma=np.asarray(0.3),
        log_beta=np.asarray(2.0),
    )
    return theta, S - S.mean(0)


def kernel_matrix(a, b, theta):
    d = (a[:, None] - b[None]) / np.exp(theta.log_ell)
    return np.exp(theta.log_gamma) * np.exp(-0.5 * np.sum(d**2, -1))


def test_psi_statistics_equal_gauss_hermite_quadrature():
    theta, _ = problem(N=4, m=4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    N, m = len(theta.mu), len(theta.Z)
    psi1, psi2 = np.zeros((N, m)), np.zeros((m, m))
    for n in range(N):
        for i, wi in zip(nodes, weights, strict=True):
            for j, wj in zip(nodes, weights, strict=True):
                x = theta.mu[n] + np.exp(theta.log_s[n] / 2) * [i, j]
                k = kernel_matrix(x[None], theta.Z, theta)[0]
                psi1[n] += wi * wj * k
                psi2 += wi * wj * np.outer(k, k)
    args = bound.in_kernel_units(theta)
    gamma = np.exp(theta.log_gamma)
    np.testing.assert_allclose(gamma * psi.psi1(*args), psi1, rtol=1e-10)
    np.testing.assert_allclose(gamma**2 * psi.psi2(*args, np.ones(len(theta.mu))), psi2, rtol=1e-10)


compiled_bound = jax.jit(bound.bound)
compiled_precise_bound = jax.jit(precise.bound)


def textbook_bound(theta, S):
    """The formula of the docstring, with dense inverses."""
    N, p = S.shape
    beta, gamma = np.exp(theta.log_beta), np.exp(theta.log_gamma)
    args = bound.in_kernel_units(theta)
    psi1, psi2 = gamma * np.asarray(psi.psi1(*args)), gamma**2 * np.asarray(psi.psi2(*args, np.ones(len(theta.mu))))
    Kuu = kernel_matrix(theta.Z, theta.Z, theta) + JITTER * gamma * np.eye(len(theta.Z))
    A = Kuu + beta * psi2
    C = psi1.T @ S
    F = 0.5 * N * p * np.log(beta / (2 * np.pi)) - 0.5 * beta * np.sum(S**2)
    F += 0.5 * p * (np.linalg.slogdet(Kuu)[1] - np.linalg.slogdet(A)[1])
    F += 0.5 * beta**2 * np.sum(C * np.linalg.solve(A, C))
    F += 0.5 * p * beta * (np.trace(np.linalg.solve(Kuu, psi2)) - N * gamma)
    s = np.exp(theta.log_s)
    return F - 0.5 * np.sum(theta.mu**2 + s - theta.log_s - 1), (Kuu, A, psi1)


@pytest.mark.parametrize(
    ("q", "p"), [pytest.param(1, 80, marks=pytest.mark.slow), (2, 4), pytest.param(3, 20, marks=pytest.mark.slow)]
)  # a program for each
@settings(deadline=None, max_examples=10, derandomize=True)
@given(seed=st.integers(0, 1000))
def test_bound_equals_the_textbook_formula(seed, q, p):
    with jax.enable_x64(True):
        theta, S = problem(p=p, q=q, seed=seed)
        cloud = bound.compress(S)
        value = float(compiled_bound(theta, cloud))
        np.testing.assert_allclose(compiled_precise_bound(theta, cloud.blocks, cloud.weight), value, rtol=1e-9)
        # Dense inverses of a matrix with condition number 1/JITTER lose this much.
        np.testing.assert_allclose(value, textbook_bound(theta, S)[0], rtol=1e-7)


def test_inducing_posterior_follows_the_errata():
    theta, S = problem()
    _, (Kuu, A, psi1) = textbook_bound(theta, S)
    P, Lam, R = precise.inducing_posterior(theta)
    beta = np.exp(theta.log_beta)
    np.testing.assert_allclose(P @ S, beta * np.linalg.solve(A, psi1.T @ S), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(R @ R.T, np.linalg.inv(A), rtol=1e-8, atol=1e-10)
    expected = np.linalg.inv(Kuu) - np.linalg.inv(A)
    np.testing.assert_allclose(Lam, expected, atol=1e-9 * np.abs(expected).max())


def check_gradient(negative, theta, data, rtol):
    _, gradient = negative(theta, data)
    for field in fields(theta):
        x = np.asarray(getattr(theta, field.name), float)
        exact, differences = np.asarray(getattr(gradient, field.name)), np.zeros(x.shape)
        for i in np.ndindex(x.shape):
            step = np.zeros(x.shape)
            step[i] = 1e-5
            up = negative(replace(theta, **{field.name: x + step}), data)[0]
            down = negative(replace(theta, **{field.name: x - step}), data)[0]
            differences[i] = (up - down) / 2e-5
        np.testing.assert_allclose(exact, differences, atol=rtol * np.abs(differences).max())


def test_gradient_of_the_bound_equals_finite_differences():
    theta, S = problem(N=12, m=5)
    check_gradient(partial(value_and_gradient, Variational()), theta, bound.compress(S), 1e-6)


def test_gradient_of_the_likelihood_equals_finite_differences():
    theta, S = problem(N=12)
    theta = likelihood.Parameters(theta.mu, theta.log_ell, theta.log_gamma, theta.log_beta)
    check_gradient(partial(value_and_gradient, PointGPLVM()), theta, bound.compress(S), 1e-6)


@pytest.mark.slow
def test_blocks_change_nothing(monkeypatch):
    theta, S = problem(N=50)
    data = bound.compress(S)
    value_and_gradient = lambda theta: jax.jit(jax.value_and_grad(lambda t: bound.bound(t, data)))(theta)
    whole = value_and_gradient(theta)
    monkeypatch.setattr(psi, "STORED", 0)
    monkeypatch.setattr(psi, "BLOCK", 300)  # a few rows a block, the last one not full
    blocks = value_and_gradient(theta)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(blocks), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9)


def test_likelihood_is_the_limit_of_the_bound():
    """Certain latent rows and one inducing input at each: the bound without its KL is the likelihood."""
    theta, S = problem(N=12, m=12)
    theta = replace(theta, Z=theta.mu, log_s=np.full(theta.mu.shape, -25.0))
    data = bound.compress(S)
    F = float(compiled_bound(theta, data, 1e-9)) + float(np.sum(bound.divergence(theta.mu, theta.log_s)))
    ml = likelihood.Parameters(theta.mu, theta.log_ell, theta.log_gamma, theta.log_beta)
    np.testing.assert_allclose(F, float(jax.jit(likelihood.log_likelihood)(ml, data)), rtol=1e-4)


def test_compression_keeps_the_gram_matrix():
    rng = np.random.default_rng(0)
    for shape in [(20, 300), (20, 15), (300, 4)]:
        S = rng.standard_normal(shape)
        data = bound.compress(S)
        assert data.factor.shape[1] <= min(shape)
        np.testing.assert_allclose(data.factor @ data.factor.T, S @ S.T, atol=1e-10 * np.abs(S @ S.T).max())


@pytest.mark.slow
@pytest.mark.parametrize(("N", "p", "m"), [(27, 60, 27), (300, 3, 23)])
def test_filled_arrays_change_nothing(N, p, m):
    """Bound, likelihood and their gradients are those of the arrays as they are.

    Short length scales: a Kuu near singularity makes more of rounding than 1e-12, filled up or not.
    """
    theta, S = problem(N, p, m)
    theta = replace(theta, log_ell=theta.log_ell - 2)
    plain = bound.compress(S)
    filled = bound.fill_cloud(plain)
    assert len(filled.factor) == padding.size(N) > N
    exact = jax.jit(jax.value_and_grad(lambda t: -bound.bound(t, plain)))(theta)
    found = value_and_gradient(Variational(), theta, filled)
    ml = likelihood.Parameters(theta.mu, theta.log_ell, theta.log_gamma, theta.log_beta)
    exact_ml = jax.jit(jax.value_and_grad(lambda t: -likelihood.log_likelihood(t, plain)))(ml)
    found_ml = value_and_gradient(PointGPLVM(), ml, filled)
    for a, b in ((exact, found), (exact_ml, found_ml)):
        assert float(b[0]) == pytest.approx(float(a[0]), rel=1e-12)
        for whole, padded in zip(jax.tree.leaves(a[1]), jax.tree.leaves(b[1]), strict=True):
            np.testing.assert_allclose(padded, whole, atol=1e-12 * np.abs(whole).max(), rtol=0)


def test_what_is_filled_in_may_be_anything():
    """Rows without weight and inducing inputs that are not live: their values reach nothing."""
    theta, S = problem(N=30, m=8)
    cloud = bound.fill_cloud(bound.compress(S))
    filled, live = bound.filled(theta, len(cloud.weight))
    zero = optimise._value_and_gradient(Variational.objective, filled, (cloud, live))
    rng = np.random.default_rng(1)
    noise = {name: rng.standard_normal(getattr(filled, name).shape) for name in ("mu", "log_s", "Z")}
    for name, n in (("mu", 30), ("log_s", 30), ("Z", 8)):
        noise[name][:n] = getattr(filled, name)[:n]
    other = optimise._value_and_gradient(Variational.objective, replace(filled, **noise), (cloud, live))
    for a, b in zip(jax.tree.leaves(zero), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.any(zero[1].mu[30:])
    assert not np.any(zero[1].Z[8:])


def test_one_dimension_filled_up_to_two_is_the_same():
    theta, _ = problem(N=12, m=6, q=1)
    filled, live = bound.filled(theta, 16)
    assert filled.mu.shape == (16, 2)
    assert filled.Z.shape == (10, 2)
    plain = bound.statistics(theta, np.ones(12), np.ones(6), JITTER)
    padded = bound.statistics(filled, padding.live(12, 16), live, JITTER)
    for a, b, shape in zip(plain, padded, ((6, 6), (12, 6), (6, 6)), strict=True):
        np.testing.assert_allclose(b[tuple(map(slice, shape))], a, rtol=1e-13)
    assert not np.any(bound.divergence(filled.mu, filled.log_s)[:, 1])
    for a, b in zip(jax.tree.leaves(theta), jax.tree.leaves(bound.cut(filled, theta)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_covariance_is_what_psi2_has_beyond_psi1():
    theta, _ = problem(N=12, m=6)
    args, seen = bound.in_kernel_units(theta), np.array([np.linspace(0, 2, 12), np.arange(12) % 2])
    first = np.asarray(psi.psi1(*args))
    second = np.asarray(psi.psi2_by_pattern(*args, seen))
    expected = second - np.einsum("gn,ni,nj->gij", seen, first, first)
    np.testing.assert_allclose(precise.covariance(*args, seen), expected, atol=1e-13)
    np.testing.assert_allclose(precise.covariance_of_arrays(*args, seen), expected, atol=1e-13)


def nearly_linear():
    """A roll whose width is known well and straight: Kuu is singular but for its jitter."""
    rng = np.random.default_rng(0)
    r, z = np.sort(rng.uniform(2, 12.5, 200)), rng.uniform(0, 12, 200)
    S = np.stack([r * np.cos(r), r * np.sin(r), z], 1)
    S = (S - S.mean(0)) / S.std()
    u = np.stack([r, z], 1)
    u = (u - u.mean(0)) / u.std(0)
    theta = bound.Parameters(
        mu=u,
        log_s=np.full(u.shape, -9.0),
        Z=u[rng.permutation(200)[:50]],
        log_ell=np.log([0.8, 18.0]),
        log_gamma=np.asarray(4.5),
        log_beta=np.asarray(8.5),
    )
    return theta, S


def test_the_precise_form_keeps_its_digits():
    """Other last bits of the latent rows change one form by 0.01 nats, and the other by less than 1e-5."""
    theta, S = nearly_linear()
    cloud = bound.compress(S)
    rng = np.random.default_rng(1)
    changed = [replace(theta, mu=theta.mu * (1 + 2e-16 * rng.integers(-1, 2, theta.mu.shape))) for _ in range(6)]
    quick, exact = [], []
    for other in changed:
        quick.append(float(compiled_bound(other, cloud)))
        exact.append(float(compiled_precise_bound(other, cloud.blocks, cloud.weight)))
    assert np.ptp(quick) > 1e-3
    assert np.ptp(exact) < 1e-5
    assert np.mean(exact) == pytest.approx(np.mean(quick), abs=100 * np.ptp(quick))


def test_gradient_of_the_precise_form_equals_finite_differences():
    theta, S = problem(N=12, m=5)
    cloud = bound.compress(S)
    negative = jax.jit(jax.value_and_grad(lambda theta: -precise.bound(theta, cloud.blocks, cloud.weight)))
    check_gradient(lambda theta, _: negative(theta), theta, cloud, 1e-6)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 129, 257, 1000, 12345])
def test_little_is_filled_in(n):
    assert n <= padding.size(n) <= max(1.125 * n, n + 15)
    assert padding.size(padding.size(n)) == padding.size(n)
    assert padding.size(50, padding.INDUCING) == 50


def test_the_root_of_the_point_posterior():
    theta, _ = problem(N=12)
    theta = likelihood.Parameters(theta.mu, theta.log_ell, theta.log_gamma, theta.log_beta)
    K = kernel_matrix(theta.X, theta.X, theta) + JITTER * np.exp(theta.log_gamma) * np.eye(12)
    noise = float(likelihood.noise_variance(theta))
    _, Lam, R = likelihood.posterior(theta)
    np.testing.assert_allclose(R @ R.T @ (K + K @ K / noise), np.eye(12), atol=1e-6)
    np.testing.assert_allclose(Lam @ (K + np.exp(-theta.log_beta) * np.eye(12)), np.eye(12), atol=1e-9)


def test_a_filled_mapping_is_the_same_mapping():
    theta, S = problem(N=30, m=8)
    P, Lam, R = precise.inducing_posterior(theta)
    plain = Mapping.from_weights(
        theta.Z, np.exp(theta.log_ell), 1.3, 7.0, P @ S, Lam, R, np.zeros(S.shape[1]), np.ones(S.shape[1])
    )
    filled = plain.filled()
    assert len(filled.Z) == 10
    x = np.array([0.3, -0.2])
    np.testing.assert_allclose(filled.mean(x), plain.mean(x), rtol=1e-13)
    np.testing.assert_allclose(filled.variance(x), plain.variance(x), rtol=1e-12)
    np.testing.assert_allclose(expected_metric(filled, x), expected_metric(plain, x), rtol=1e-12)
    assert not np.any(filled.draw(jax.random.key(0)).W[8:])
