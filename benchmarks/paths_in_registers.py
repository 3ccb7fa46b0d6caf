"""An experiment: the steps of a leg as one Pallas (Triton) kernel, for GPUs.

XLA makes a kernel for each step, and the state of all paths goes through the memory of the device between them. Here
each program takes a block of paths through all steps with its state in registers. It reads the same rows of the table
and draws the same words of random bits, so that its paths are those of `heat.brownian` up to rounding.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl

from gpum.heat import brownian
from gpum.heat.table import cell_of, geometry_of

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: tuple[Array, Array], x: tuple[Array, Array]) -> tuple[Array, Array]:
    """The 20 rounds of threefry2x32, as JAX draws its random words."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = x[0] + schedule[0], x[1] + schedule[1]
    for group in range(5):
        for r in ROTATIONS[group % 2]:
            a = a + b
            b = (b << np.uint32(r)) | (b >> np.uint32(32 - r))
            b = a ^ b
        a, b = a + schedule[(group + 1) % 3], b + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def steps(n_block: int, n_warps: int, moving, key: Array, state, dt: Array, count: Array, first: Array):
    """The same as `brownian.bridged_steps` for a table in up to three dimensions; `n_block` paths a program."""
    table = moving.geometry
    q, n, columns = len(state[0]), state[0][0].shape[0], table.values.shape[-1]
    rows = -(-n // n_block) * n_block
    per_word = brownian.steps_per_word(q)
    padded = [jnp.pad(each, (0, rows - n), mode="edge") for coordinates in state for each in coordinates]
    numbers = jnp.concatenate([jnp.asarray(moving.low), jnp.asarray(moving.high), dt[None]]).astype(jnp.float32)
    seeds = jax.random.key_data(key).astype(jnp.uint32)
    counts = jnp.stack([count, first]).astype(jnp.int32)

    def kernel(values, numbers, seeds, counts, *refs):
        low, high = [numbers[a] for a in range(q)], [numbers[q + a] for a in range(q)]
        box = SimpleNamespace(low=low, high=high, periodic=moving.periodic, values=table.values)
        dt, count, first = numbers[2 * q], counts[0], counts[1]

        def look(x):
            row, offsets = cell_of(box, x)
            return geometry_of([values[row * columns + k] for k in range(columns)], offsets)

        mine = (pl.program_id(0) * n_block + jnp.arange(n_block)).astype(jnp.uint32)

        def of_word(number, state):
            done = number * per_word
            folded = threefry((seeds[0], seeds[1]), (jnp.uint32(0), (first + done).astype(jnp.uint32)))
            a, b = threefry(folded, (jnp.zeros_like(mine), mine))
            bits = a ^ b

            def one(j, state):
                z = [
                    brownian.increment(bits >> (brownian.BITS * (j * q + a)).astype(jnp.uint32), jnp.float32)
                    for a in range(q)
                ]
                return brownian.step(look, box, state, tuple(z), count - done - j, dt)

            return jax.lax.fori_loop(0, jnp.minimum(per_word, count - done), one, state)

        state = tuple(tuple(r[...] for r in refs[k * q : (k + 1) * q]) for k in range(3))
        words = (count + per_word - 1) // per_word
        state = jax.lax.fori_loop(0, words, of_word, state)
        for ref, each in zip(refs[3 * q :], (each for coordinates in state for each in coordinates), strict=True):
            ref[...] = each

    whole = [pl.BlockSpec(memory_space=pl.ANY)] * 4
    block = pl.BlockSpec((n_block,), lambda i: (i,))
    ends = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((rows,), jnp.float32)] * (3 * q),
        grid=(rows // n_block,),
        in_specs=[*whole, *[block] * (3 * q)],
        out_specs=[block] * (3 * q),
        **options(n_warps),
    )(jnp.asarray(table.values).ravel(), numbers, seeds, counts, *padded)
    return tuple(tuple(each[:n] for each in ends[k * q : (k + 1) * q]) for k in range(3))


def options(n_warps: int) -> dict:
    """Triton on a GPU; elsewhere the kernel is interpreted, which is slow and exact."""
    if jax.default_backend() == "cpu":
        return {"interpret": True}
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=n_warps)}


@partial(jax.jit, static_argnames=("n_paths", "n_block", "n_warps"))
def mean_end(
    moving, key: Array, start: Array, dt: Array, count: Array, n_paths: int, n_block: int, n_warps: int
) -> tuple[Array, Array]:
    """Where `n_paths` paths from a start are after a leg, in the mean, and the ends of the first hundred, [q, 100]."""
    x = tuple(jnp.broadcast_to(each, n_paths) for each in start)
    original, brownian.bridged_steps = brownian.bridged_steps, partial(steps, n_block, n_warps)
    try:
        ends, _ = brownian.leg(moving, key, x, dt, count, jnp.asarray(0, jnp.int32))
    finally:
        brownian.bridged_steps = original
    return jnp.stack(ends).mean(1), jnp.stack(ends)[:, :100]
