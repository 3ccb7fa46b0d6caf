"""How fast the error of Brownian kernels falls, on the analytic Swiss roll, against its closed form.

The paths run in (r, z) as it stands, where the metric changes: in even coordinates, which `heat_kernel` takes, the
roll is flat and Euler steps are exact away from the boundary. What is measured is the kernel along the roll,

    K_{t+s}(x, y) = E K_s(X_t, y)    (Chapman-Kolmogorov),    X the paths from x, K_s in closed form.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpum import heat_kernel
from gpum.heat import brownian
from oracles import ROLL, interval_kernel, roll_kernel

BLOCK = 50_000


def bias(start, target, steps, n_paths, t=2.0, s=2.0):
    """Relative error of K_{t+s} from paths with these steps (the same keys for each), and its standard error."""
    low = ROLL.arc_length(ROLL.r[0])
    length = float(ROLL.arc_length(ROLL.r[1]) - low)
    r = np.linspace(*ROLL.r, 4001)
    middle = ROLL.arc_length(target) - low
    values = interval_kernel(middle, ROLL.arc_length(r) - low, s, length)
    exact = interval_kernel(middle, ROLL.arc_length(start) - low, t + s, length)[0]
    moving, n_blocks = brownian.motion(ROLL), n_paths // BLOCK
    keys = brownian.block_keys(jax.random.key(0), np.zeros(n_blocks), np.arange(n_blocks))
    starts = jnp.asarray(np.tile([start, 6.0], (n_blocks, 1)), jnp.float32)
    extra = jnp.asarray(r, jnp.float32), jnp.asarray(values / exact - 1, jnp.float32)
    found = []
    for dt in steps:
        legs = jnp.asarray([dt], jnp.float32), jnp.asarray([round(t / dt)], jnp.int32)
        every = zip(keys, starts, strict=True)
        one = [brownian.simulate(moving, k[None], x[None], *legs, extra, BLOCK, moments)[0] for k, x in every]
        recorded = np.concatenate(one).astype(float)[:, 0]
        spread = np.sqrt(recorded[:, 1].mean() - recorded[:, 0].mean() ** 2)
        found.append((recorded[:, 0].mean(), spread / np.sqrt(n_blocks * BLOCK)))
    return np.array(found).T


def moments(x, leg, extra):
    values = jnp.interp(x[:, 0], *extra)
    return jnp.stack([values.mean(), (values**2).mean()])


def fitted_order(steps, errors, std, *more):
    """p of log|error| = a + p log dt (+ further terms), by weighted least squares, and its standard error."""
    design = np.column_stack([np.ones(len(steps)), np.log(steps), *more])
    weights = np.abs(errors) / std
    covariance = np.linalg.inv((design * weights[:, None] ** 2).T @ design)
    return (covariance @ design.T @ (weights**2 * np.log(np.abs(errors))))[1], np.sqrt(covariance[1, 1])


@pytest.mark.slow
def test_order_in_the_step_far_from_the_boundary():
    """Weak order 1 of Euler's steps."""
    steps = np.array([2.0, 1.0, 0.5])
    errors, std = bias(4.0, 3.7, steps, 4_000_000, s=0.5)
    order, spread = fitted_order(steps, errors, std)
    print(f"relative bias {errors.round(4)} ± {std.round(4)} at steps {steps}: order {order:.3f} ± {spread:.3f}")
    assert np.all(np.abs(errors) > 10 * std)
    assert abs(order - 1) < 4 * spread
    assert spread < 0.05


@pytest.mark.slow
def test_order_in_the_step_at_the_boundary():
    """Order 1: steps that leave are mirrored. Drawing them again would deplete a layer of width √dt (order 1/2)."""
    steps = np.array([1.0, 0.5, 0.25])
    errors, std = bias(2.0, 2.0, steps, 1_600_000)
    order, spread = fitted_order(steps, errors, std)
    print(f"relative bias {errors.round(4)} ± {std.round(4)} at steps {steps}: order {order:.3f} ± {spread:.3f}")
    assert np.all(np.abs(errors) > 10 * std)
    assert abs(order - 1) < 4 * spread + 0.1
    assert spread < 0.1


@pytest.mark.slow
def test_four_times_the_paths_at_least_halve_the_error():
    """Root-mean-square error of the default estimator; paths that are drawn independently would halve it."""
    starts, keys = np.array([[5.0, 5.0], [8.0, 6.0]]), 24
    targets = np.array([[5.3, 6.0], [5.0, 7.0], [8.2, 5.0], [7.9, 8.0]])
    exact = np.array([roll_kernel(start, targets, 8.0) for start in starts])
    squares = []
    for n_paths in (2000, 8000):
        options = {"method": "brownian", "n_paths": n_paths, "step_size": 0.1}
        runs = [heat_kernel(ROLL, starts, targets, 8.0, random_state=k, **options)[0] for k in range(keys)]
        squares.append(np.mean((np.array(runs) - exact) ** 2, (1, 2)))  # one for each key
    means = np.mean(squares, 1)
    ratio = np.sqrt(means[0] / means[1])
    spread = 0.5 * ratio * np.sqrt(np.sum(np.var(squares, axis=1, ddof=1) / keys / means**2))
    print(f"rms errors {np.sqrt(means) / exact.max()} of the peak: ratio {ratio:.2f} ± {spread:.2f}")
    assert ratio > 2 - 4 * spread
    assert spread < 0.15 * ratio
