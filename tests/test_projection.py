"""Projection of new rows: derivatives in closed form, and no other start reaches a higher bound."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from gpum.gplvm import kernel, projection
from gpum.gplvm.bound import divergence
from gpum.gplvm.mapping import Mapping
from gpum.gplvm.psi import psi1, row_features
from gpum.manifold import evaluate
from gpum.manifold.metric import expected_metric
from gpum.persistence.programs import cached_programs


def point_bound(x, products, dec):
    """The bound of one row at the point x [q] without uncertainty, given its products s*ᵀWᵀ [m]."""
    k = kernel.at(x, dec.Z, dec.ell, dec.gamma)
    return dec.beta * (k @ products - 0.5 * k @ dec.M @ k) - 0.5 * x @ x


def row_bound(theta, products, dec):
    """The bound of one row at theta = (mu, log s) [2q], given its products s*ᵀWᵀ [m]."""
    mu, log_s = jnp.split(theta, 2)
    s = jnp.exp(log_s)
    args = mu / dec.ell, s / dec.ell**2
    first = dec.gamma * psi1(args[0][None], args[1][None], dec.Z / dec.ell)[0] @ products
    row, constant = row_features(*args)
    second = dec.weights @ jnp.exp(dec.pairs @ row + constant)
    return dec.beta * (first - 0.5 * second) - jnp.sum(divergence(mu, log_s))


@pytest.fixture(scope="module", params=[1, 2])
def decoded(request):
    """A decoder of a mapping with six inducing inputs, latent points and noisy projections of their images."""
    rng, q, m, p = np.random.default_rng(request.param), request.param, 6, 4
    Z = rng.standard_normal((m, q))
    K = np.exp(-0.5 * np.sum((Z[:, None] - Z) ** 2, -1)) + 0.1 * np.eye(m)
    A = K + 50 * K @ K
    Lam = np.linalg.inv(K) - np.linalg.inv(A)
    W = np.linalg.solve(K, rng.standard_normal((m, p)))
    with jax.enable_x64(True), cached_programs():
        mapping = Mapping.from_weights(Z, np.ones(q), 1.0, 50.0, W, Lam, np.zeros((m, m)), np.zeros(p), np.ones(p))
        dec, weights = projection.decoder(mapping)
    x = rng.standard_normal((30, q))
    images = np.exp(-0.5 * np.sum((x[:, None] - Z) ** 2, -1)) @ W + 0.1 * rng.standard_normal((30, p))
    return dec, x, images @ np.asarray(weights).T


def test_derivatives_are_those_of_the_bounds(decoded):
    dec, x, products = decoded
    theta = np.concatenate([x, np.log(0.05 + 0.1 * x**2)], 1)
    with jax.enable_x64(True), cached_programs():
        for closed, plain, at in (
            (projection.at_points, point_bound, x),
            (projection.at_posteriors, row_bound, theta),
        ):
            found = closed(at, products, dec)
            orders = lambda *args, f=plain: (f(*args), jax.grad(f)(*args), jax.hessian(f)(*args))
            one = jax.jit(jax.vmap(orders, (0, 0, None)))(at, products, dec)
            for a, b in zip(found, one, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max())


def test_rows_end_where_the_bound_is_largest(decoded):
    """Compared with a general optimiser from the result and from the starts."""
    dec, x, products = decoded
    starts = x[:, None] + np.array([0.0, 0.3])[:, None]
    with jax.enable_x64(True), cached_programs():
        mu, s = projection.project_rows(products, starts, dec, False)
        both = jax.jit(jax.value_and_grad(row_bound))
        negative = lambda t, a: tuple(-np.asarray(v) for v in both(t, a, dec))
        for i in range(5):
            own = np.append(mu[i], np.log(s[i]))
            found = minimize(negative, own + 1e-3, (products[i],), "BFGS", jac=True, options={"gtol": 1e-9})
            np.testing.assert_allclose(found.x, own, atol=1e-6)
            for start in starts[i]:
                other = minimize(negative, np.append(start, np.log(s[i])), (products[i],), "BFGS", jac=True)
                assert -other.fun <= -float(negative(own, products[i])[0]) + 1e-6


def test_a_projection_does_not_depend_on_its_batch(decoded):
    dec, x, products = decoded
    starts = x[:, None] + np.array([1.5, 0.0])[:, None]  # from the first of them some rows end elsewhere
    with jax.enable_x64(True), cached_programs():
        whole = projection.project_rows(products, starts, dec, False)
        batches = [
            projection.project_rows(products[some], starts[some], dec, False)
            for some in (slice(1), slice(1, 7), slice(7, 30))
        ]
    for a, b in zip(whole, zip(*batches, strict=True), strict=True):  # few rows have a program of their own
        np.testing.assert_allclose(a, np.concatenate(b), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_rows_of_several_patterns_are_projected_as_those_of_each(decoded):
    """A batch in which rows have two matrices, against one matrix at a time; the same up to rounding in any batch."""
    dec, x, products = decoded
    twice = {name: np.multiply.outer([1.0, 2.0], np.asarray(getattr(dec, name))) for name in ("M", "weights")}
    several = replace(dec, **twice)
    own = np.arange(len(x)) % 2
    with jax.enable_x64(True), cached_programs():
        found = projection.project_rows(products, x[:, None], several, False, own)
        batch = projection.project_rows(products[5:9], x[5:9, None], several, False, own[5:9])
        for k in (0, 1):
            one = replace(dec, M=several.M[k], weights=several.weights[k])
            alone = projection.project_rows(products[own == k], x[own == k, None], one, False)
            for a, b in zip(found, alone, strict=True):
                np.testing.assert_allclose(a[own == k], b, rtol=1e-5, atol=1e-6)
    for a, b in zip(found, batch, strict=True):
        np.testing.assert_allclose(a[5:9], b, rtol=1e-9, atol=1e-9)


def test_the_best_of_several_starts_is_chosen(decoded):
    dec, x, products = decoded
    starts = np.stack([-x, x, x + 2.5], 1)
    with jax.enable_x64(True), cached_programs():
        value = jax.jit(jax.vmap(point_bound, (0, 0, None)))
        alone = [
            value(projection.project_rows(products, starts[:, [k]], dec, True)[0], products, dec) for k in range(3)
        ]  # fmt: skip
        found = value(projection.project_rows(products, starts, dec, True)[0], products, dec)
    assert np.mean(np.ptp(alone, axis=0) > 0.1) > 0.2  # or this shows nothing
    np.testing.assert_allclose(found, np.max(alone, 0), atol=1e-6)


@pytest.mark.parametrize("function", ["mean", "variance", expected_metric])
def test_functions_of_many_points_are_those_of_each_point(function):
    rng = np.random.default_rng(3)
    Z, points = rng.standard_normal((8, 2)), rng.standard_normal((70, 2))
    square = rng.standard_normal((8, 8))
    with jax.enable_x64(True):
        mapping = Mapping.from_weights(
            Z, np.array([0.7, 1.3]), 1.5, 50.0, rng.standard_normal((8, 3)), square, square, np.arange(3.0), np.ones(3)
        )
        mapping = jax.tree.map(np.asarray, mapping)
        of_one = getattr(Mapping, function) if isinstance(function, str) else function
        expected = jax.jit(jax.vmap(of_one, (None, 0)))(mapping, points)
    np.testing.assert_allclose(evaluate(mapping, function, points), expected, rtol=1e-9, atol=1e-12)
    assert len(evaluate(mapping, function, points[:0])) == 0
