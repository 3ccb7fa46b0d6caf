"""The random numbers of Brownian paths: increments of steps, and where the legs of a block of paths lead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpum import EmbeddedChart
from gpum.heat import brownian

INTERVAL = EmbeddedChart(lambda x: x, [(0.0, 4.0)])


def _positions(x, leg, extra):
    return x


def test_increments_have_the_first_five_moments_of_a_normal_number():
    words = jnp.arange(8, dtype=jnp.uint32)
    with jax.enable_x64(True):
        z = np.asarray(brownian.increment(words, np.float64))
    np.testing.assert_allclose([np.mean(z**k) for k in range(1, 6)], [0, 1, 0, 3, 0], atol=1e-14)


def flat_space(geometry, x):
    """No drift, the identity as root, far from any boundary."""
    zero, one = jnp.zeros_like(x[0]), jnp.ones_like(x[0])
    zeros = (zero,) * len(x)
    root = tuple(tuple(one if a == b else zero for b in range(len(x))) for a in range(len(x)))
    return zeros, root, one, zeros, zeros


@pytest.mark.parametrize("q", [1, 2, 4, 11])
def test_increments_of_all_coordinates_and_steps_are_uncorrelated(q, monkeypatch):
    """They are bridges: each has the moments of a normal number, their sum is the given one."""
    box = brownian.Direct(None, np.zeros(q), np.full(q, 1000.0), (False,) * q)
    moving, n, count, states = brownian.Motion(box, flat_space), 20_000, 7, []
    original = brownian.step

    def recorded(*args):
        states.append(np.stack(original(*args)[0]))
        return original(*args)

    monkeypatch.setattr(brownian, "step", recorded)
    w = np.random.default_rng(0).standard_normal((q, n))
    with jax.enable_x64(True), jax.disable_jit():
        x = (jnp.full(n, 500.0),) * q
        ends, _ = brownian.leg(
            moving, jax.random.key(0), x, jnp.asarray(0.25), jnp.asarray(count), jnp.asarray(0), tuple(jnp.asarray(w))
        )
    z = np.diff([np.full((q, n), 500.0), *states], axis=0) / 0.5
    np.testing.assert_allclose(np.stack(ends) - 500, 0.5 * np.sqrt(count) * w, atol=1e-9)
    np.testing.assert_allclose(np.sum(z, 0), np.sqrt(count) * w, atol=1e-9)
    all_z = np.concatenate(z)
    assert len(all_z) == count * q
    np.testing.assert_allclose(all_z @ all_z.T / n, np.eye(count * q), atol=5 * np.sqrt(2 / n))
    np.testing.assert_allclose(np.mean(all_z**4, 1), 3.0, atol=5 * np.sqrt(96 / n))


def test_paths_end_where_their_sum_is_folded_into_a_flat_box():
    """A path is mirrored with the rest of its increments, so that its end does not depend on the single steps."""
    w, low, high = np.random.default_rng(0).standard_normal((1, 4000)), *INTERVAL.bounds[0]
    moving, x = brownian.motion(INTERVAL, dtype=np.float64), (jnp.full(4000, 0.1),)
    with jax.enable_x64(True):
        leg = jnp.asarray(0.02), jnp.asarray(50), jnp.asarray(0), tuple(jnp.asarray(w))
        ends = np.asarray(brownian.leg(moving, jax.random.key(0), tuple(each.astype(float) for each in x), *leg)[0][0])
    folded = np.abs(0.1 + w[0])  # √(n dt) is 1, and no path reaches the other end
    assert (0.1 + np.abs(w)).max() < high - low
    np.testing.assert_allclose(ends, np.minimum(folded, 2 * high - folded), atol=1e-5)


def test_where_paths_lead_is_spread_evenly():
    """In flat space the ends of a leg are quasi-random normal numbers, shifted anew for each block."""
    box = brownian.Direct(None, np.zeros(2), np.full(2, 1000.0), (False,) * 2)
    moving, n = brownian.Motion(box, flat_space), 1000
    keys = brownian.block_keys(jax.random.key(0), np.zeros(20), np.arange(20))
    with jax.enable_x64(True):
        start, legs = jnp.full((20, 2), 500.0), (jnp.asarray([0.25]), jnp.asarray([7], jnp.int32))
        even = brownian.evenly(n, 1, 2)
        ends = np.asarray(brownian.simulate(moving, keys, start, *legs, None, n, _positions, even)[0])[:, 0]
    z = (ends - 500) / np.sqrt(0.25 * 7)
    assert np.abs(z[0] - z[1]).max() > 0.1
    means, squares = z.mean(1), np.einsum("bna,bnc->bac", z, z) / n - np.eye(2)
    assert np.sqrt(np.mean(means**2)) < 0.15 / np.sqrt(n)  # 1 of independent numbers
    assert np.sqrt(np.mean(squares**2)) < 0.5 * np.sqrt(1.5 / n)
    more = brownian.evenly(10, 200, 2)
    assert more.shape == (200, 2, 10)
    assert ((more >= 0) & (more < 1)).all()
